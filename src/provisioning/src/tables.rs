//! What a solve reads: the cluster with its pods' classes, the options, and what follows from them alone. No packing changes it.

use std::cell::{OnceCell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

use berth_model::{
    Bin, ClassId, Cluster, Column, ColumnId, ColumnTable, CounterId, FilterId, HostCounts, NodePool, PodClass, PodSpec,
    PoolId, Resources, Sym, Universe,
};
use berth_scheduling::{NodeTables, Passage, admit, demands, filter_passages};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use crate::accelerators::Accelerators;
use crate::launch_domains::{counters_with_volumes, launch_filters};
use crate::launchable::Launching;
use crate::options::Options;
use crate::pool_limits::largest;
use crate::shares::Shares;

/// A column of a NodePool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct PoolColumn {
    pub(crate) pool: PoolId,
    pub(crate) column: ColumnId,
}

/// What a solve reads and never changes.
pub(crate) struct Tables<'a> {
    pub(crate) cluster: &'a Cluster,
    pub(crate) universe: &'a Universe,
    pub(crate) options: &'a Options,
    /// By NodePool: what could be launched.
    pub(crate) columns: Arc<[ColumnTable]>,
    /// Of the nodes that exist.
    pub(crate) nodes: NodeTables<'a>,
    /// Which types are kept for which pods.
    pub(crate) accelerators: Accelerators,
    /// How much of the plan may be where.
    pub(crate) shares: Shares,
    /// By NodePool and resource: the most that a type of its has.
    pub(crate) largest: Vec<Resources>,
    /// Pools of equal weight together, heaviest first.
    pub(crate) pools_by_weight: Rc<[Vec<PoolId>]>,
    /// Whether any pool has reserved columns.
    pub(crate) has_reserved: bool,
    /// By NodePool: whether it has columns that are paid for and of a finite supply.
    pub(crate) has_finite_paid: Vec<bool>,
    /// By filter and NodePool: the ways in which nodes pass.
    pub(crate) passages: Vec<Vec<Vec<Passage>>>,
    /// See [`launch_filters`].
    pub(crate) launch_filters: Vec<Vec<FilterId>>,
    /// See [`counters_with_volumes`].
    pub(crate) volume_counters: Vec<CounterId>,
    /// See [`Tables::is_wanted`]; by NodePool, once it is asked.
    wanted: OnceCell<Vec<bool>>,
    /// See [`Tables::heaviest`]; of the classes that were asked.
    heaviest: RefCell<FxHashMap<ClassId, u32>>,
    /// Nodes alike in labels (the hostname aside) and taints have one kind.
    pub(crate) node_kinds: Vec<u32>,
}

// === impl Tables ===

impl<'a> Tables<'a> {
    /// With what is known of the cluster's NodePools and catalogue.
    pub(crate) fn new(
        cluster: &'a Cluster,
        universe: &'a Universe,
        options: &'a Options,
        launching: &Launching,
    ) -> Self {
        let columns = Arc::clone(&launching.tables);
        let pools = || cluster.node_pools.iter().zip(&*columns);
        let passages = universe
            .filters
            .iter()
            .map(|filter| pools().map(|(pool, table)| filter_passages(cluster, pool, table, filter)).collect())
            .collect();
        Tables {
            cluster,
            universe,
            options,
            nodes: NodeTables::new(cluster, universe),
            accelerators: Accelerators::new(cluster, universe, &columns, options),
            shares: Shares::new(cluster, universe, &columns, options),
            largest: columns.iter().map(|table| largest(cluster, table)).collect(),
            pools_by_weight: pools_by_weight(cluster).into(),
            has_finite_paid: columns.iter().map(has_finite_paid).collect(),
            has_reserved: columns.iter().any(|table| !table.reserved.is_clear()),
            passages,
            launch_filters: launch_filters(universe),
            volume_counters: counters_with_volumes(cluster, universe),
            wanted: OnceCell::new(),
            heaviest: RefCell::default(),
            node_kinds: node_kinds(cluster),
            columns,
        }
    }

    /// The NodePools.
    pub(crate) fn pools(&self) -> impl Iterator<Item = PoolId> + Clone + use<> {
        (0..self.columns.len()).map(PoolId::new)
    }

    /// What each NodePool could launch.
    pub(crate) fn by_pool(&self) -> impl Iterator<Item = (PoolId, &ColumnTable)> {
        self.columns.iter().enumerate().map(|(index, table)| (PoolId::new(index), table))
    }

    /// What a NodePool could launch: of one that there is not, nothing.
    pub(crate) fn table(&self, pool: PoolId) -> &ColumnTable {
        static NONE: std::sync::OnceLock<ColumnTable> = std::sync::OnceLock::new();
        let table = self.columns.get(pool.index());
        debug_assert!(table.is_some(), "{pool:?} of another cluster");
        table.unwrap_or_else(|| NONE.get_or_init(ColumnTable::default))
    }

    /// A column of a NodePool.
    pub(crate) fn column(&self, at: PoolColumn) -> &Column {
        self.table(at.pool).column(at.column)
    }

    /// So many alike nodes of a NodePool, planned as this column, that nobody is on yet.
    pub(crate) fn empty_bin(&self, PoolColumn { pool, column: planned }: PoolColumn, nodes: u32) -> Bin {
        let table = self.table(pool);
        Bin {
            pool,
            nodes,
            columns: table.all(),
            planned,
            slack: table.column(planned).room.clone(),
            open: table.open.clone(),
            domains: SmallVec::new(),
            used: Resources::new(),
            contents: SmallVec::new(),
            host_counts: HostCounts::default(),
            ports: SmallVec::new(),
            disks: Vec::new(),
        }
    }

    /// A NodePool as it is defined; `None` for one that there is not.
    pub(crate) fn definition(&self, pool: PoolId) -> Option<&'a NodePool> {
        let definition = self.cluster.node_pools.get(pool.index());
        debug_assert!(definition.is_some(), "{pool:?} of another cluster");
        definition
    }

    /// The classes of pods and Reservations that have no node.
    pub(crate) fn pending(&self) -> impl Iterator<Item = (ClassId, &'a PodClass)> + use<'a> {
        let classes = self.universe.classes.iter().enumerate();
        classes
            .filter(|(_, class)| class.count > 0)
            .map(|(index, class)| (ClassId(u32::try_from(index).unwrap_or(u32::MAX)), class))
    }

    pub(crate) fn spec(&self, class: &PodClass) -> &'a PodSpec {
        static EMPTY: std::sync::OnceLock<PodSpec> = std::sync::OnceLock::new();
        self.cluster.spec(class.spec).unwrap_or_else(|| EMPTY.get_or_init(PodSpec::default))
    }

    /// Whether some pending pods may go to nodes of a pool: others come only for pods that are not here yet.
    pub(crate) fn is_wanted(&self, pool: PoolId) -> bool {
        let wanted = self.wanted.get_or_init(|| {
            let classes = self.pending().filter(|(id, _)| self.may_be_placed(*id));
            let demands: Vec<_> =
                classes.filter_map(|(id, _)| demands(self.cluster, self.universe, id).pop()).collect();
            let pools = self.cluster.node_pools.iter().zip(&*self.columns);
            let is_asked = |pool, table| demands.iter().any(|d| !admit(self.cluster, pool, table, d).is_empty());
            pools.map(|(pool, table)| is_asked(pool, table)).collect()
        });
        wanted.get(pool.index()).copied().unwrap_or_default()
    }

    /// Whether NodePools differ in weight.
    pub(crate) fn has_weights(&self) -> bool {
        let weights = || self.cluster.node_pools.iter().map(|pool| pool.weight);
        weights().min() != weights().max()
    }

    /// The weight of the heaviest NodePool that has a paid column for a class, preferences aside.
    pub(crate) fn heaviest(&self, id: ClassId) -> u32 {
        if let Some(&known) = self.heaviest.borrow().get(&id) {
            return known;
        }
        let mut heaviest = 0;
        let demand = demands(self.cluster, self.universe, id).pop();
        let spec = demand.as_ref().and_then(|demand| self.cluster.spec(demand.spec));
        if let Some((demand, spec)) = demand.as_ref().zip(spec) {
            for (pool, table) in self.cluster.node_pools.iter().zip(&*self.columns) {
                for mut way in admit(self.cluster, pool, table, demand) {
                    table.keep_fitting(&mut way.columns, &spec.requests);
                    way.columns.difference_with(&table.reserved);
                    if !way.columns.is_clear() {
                        heaviest = heaviest.max(pool.weight);
                    }
                }
            }
        }
        self.heaviest.borrow_mut().insert(id, heaviest);
        heaviest
    }

    /// Whether nothing about the pods of a class themselves keeps them off every node.
    pub(crate) fn may_be_placed(&self, id: ClassId) -> bool {
        self.universe.class(id).is_some_and(|class| self.spec(class).refusal.is_none())
    }
}

fn has_finite_paid(table: &ColumnTable) -> bool {
    table.with_ids().any(|(at, column)| !table.is_reserved(at) && column.slots.is_some())
}

fn pools_by_weight(cluster: &Cluster) -> Vec<Vec<PoolId>> {
    let mut by_weight: std::collections::BTreeMap<std::cmp::Reverse<u32>, Vec<PoolId>> =
        std::collections::BTreeMap::new();
    for (index, pool) in cluster.node_pools.iter().enumerate().filter(|(_, pool)| pool.refusal.is_none()) {
        by_weight.entry(std::cmp::Reverse(pool.weight)).or_default().push(PoolId::new(index));
    }
    by_weight.into_values().collect()
}

fn node_kinds(cluster: &Cluster) -> Vec<u32> {
    type Kind<'a> = (Vec<(Sym, Sym)>, &'a berth_model::Requirements, &'a [berth_model::Taint]);
    let mut ids: FxHashMap<Kind<'_>, u32> = FxHashMap::default();
    let kind = |node: &'_ berth_model::Node| {
        node.labels.iter().filter(|(key, _)| *key != cluster.well_known.hostname).collect::<Vec<_>>()
    };
    cluster
        .nodes
        .iter()
        .map(|node| {
            let next = u32::try_from(ids.len()).unwrap_or(u32::MAX);
            *ids.entry((kind(node), &node.open, &node.taints[..])).or_insert(next)
        })
        .collect()
}
