//! A demand with what the solve works out once for it.

use std::cell::{OnceCell, RefCell};
use std::rc::Rc;

use berth_model::{ColumnId, PodSpec, PoolId, Requirement, Requirements, ResourceId, Resources, Sym};
use berth_scheduling::{Admission, Demand, admit, admits_node, columns_kept_by_volumes, daemon_refusals};
use fixedbitset::FixedBitSet;
use rustc_hash::FxHashMap;

use crate::frontier::Frontier;
use crate::tables::Tables;

/// A demand, what each pool admits of it, and the nodes that admit it.
pub(crate) struct Prepared<'a> {
    pub(crate) demand: Demand,
    pub(crate) spec: &'a PodSpec,
    pub(crate) requests: &'a Resources,
    /// The requests that are not zero.
    pub(crate) asked: Vec<(ResourceId, i64)>,
    /// By NodePool.
    pub(crate) admissions: Vec<Option<Admission>>,
    /// See [`daemon_refusals`]; by NodePool, once they are asked for.
    refusals: OnceCell<Vec<Vec<(String, FixedBitSet)>>>,
    /// See [`columns_kept_by_volumes`]; by NodePool, once they are asked for.
    kept_by_volumes: OnceCell<Vec<FixedBitSet>>,
    nodes: OnceCell<Rc<[usize]>>,
    /// By topology key and value, where it has been asked for the nodes there.
    nodes_at: RefCell<FxHashMap<Sym, NodesByValue>>,
    narrowed: RefCell<FxHashMap<Box<Pins>, Rc<Narrowed>>>,
}

/// The nodes of each value of a topology key.
type NodesByValue = FxHashMap<Sym, Rc<[usize]>>;

/// Decided values of topology keys.
pub(crate) type Pins = [(Sym, Sym)];

impl<'a> Prepared<'a> {
    /// The demand with the first way in which each pool admits it.
    pub(crate) fn new(tables: &Tables<'a>, demand: &Demand) -> Self {
        let mut all = Self::alternatives(tables, demand);
        all.swap_remove(0)
    }

    /// The demand, once for each way in which pools admit it; at least once.
    pub(crate) fn alternatives(tables: &Tables<'a>, demand: &Demand) -> Vec<Self> {
        static EMPTY: std::sync::OnceLock<PodSpec> = std::sync::OnceLock::new();
        let cluster = tables.cluster;
        let spec = cluster.spec(demand.spec).unwrap_or_else(|| EMPTY.get_or_init(PodSpec::default));
        let pools = cluster.node_pools.iter().zip(&*tables.columns);
        let mut ways: Vec<_> = pools.map(|(pool, table)| admit(cluster, pool, table, demand).into_iter()).collect();
        let mut out = Vec::new();
        loop {
            let admissions: Vec<Option<Admission>> = ways.iter_mut().map(Iterator::next).collect();
            if !out.is_empty() && admissions.iter().all(Option::is_none) {
                return out;
            }
            out.push(Prepared {
                demand: demand.clone(),
                spec,
                requests: &spec.requests,
                asked: spec.requests.iter().collect(),
                admissions,
                refusals: OnceCell::new(),
                kept_by_volumes: OnceCell::new(),
                nodes: OnceCell::new(),
                nodes_at: RefCell::default(),
                narrowed: RefCell::default(),
            });
        }
    }

    /// Why pods of DaemonSets keep it off new nodes of a column, where nothing else does.
    pub(crate) fn daemon_refusal(&self, tables: &Tables<'a>, pool: PoolId, column: ColumnId) -> Option<&str> {
        let refusals = self.refusals.get_or_init(|| {
            let pools = tables.cluster.node_pools.iter().zip(&*tables.columns);
            pools.map(|(pool, table)| daemon_refusals(tables.cluster, pool, table, &self.demand)).collect()
        });
        let mut of_pool = refusals.get(pool.index())?.iter();
        of_pool.find(|(_, columns)| columns.contains(column.index())).map(|(why, _)| &**why)
    }

    /// Whether its volumes alone keep it off new nodes of a column, whatever pods of DaemonSets do.
    pub(crate) fn is_kept_by_volumes(&self, tables: &Tables<'a>, pool: PoolId, column: ColumnId) -> bool {
        let kept = self.kept_by_volumes.get_or_init(|| {
            let pools = tables.cluster.node_pools.iter().zip(&*tables.columns);
            pools.map(|(pool, table)| columns_kept_by_volumes(tables.cluster, pool, table, &self.demand)).collect()
        });
        kept.get(pool.index()).is_some_and(|columns| columns.contains(column.index()))
    }

    /// What a pool admits of it, whatever its domains.
    pub(crate) fn admission_alone(&self, pool: PoolId) -> Option<&Admission> {
        self.admissions.get(pool.index())?.as_ref()
    }

    /// The nodes whose labels and taints admit the demand, in the cluster's order.
    pub(crate) fn nodes(&self, tables: &Tables<'_>) -> &[usize] {
        self.all_nodes(tables)
    }

    fn all_nodes(&self, tables: &Tables<'_>) -> &Rc<[usize]> {
        self.nodes.get_or_init(|| {
            let cluster = tables.cluster;
            let own = [cluster.well_known.hostname, cluster.well_known.field_name];
            let names = |terms: &Requirements| own.iter().any(|&key| terms.get(key).is_some());
            let by_kind = !self.demand.terms.iter().chain(self.spec.volumes.places().flatten()).any(names);
            let mut kinds: FxHashMap<u32, bool> = FxHashMap::default();
            let nodes = cluster.nodes.iter().zip(&tables.node_kinds).enumerate();
            nodes
                .filter(|(_, (node, kind))| {
                    if by_kind {
                        *kinds.entry(**kind).or_insert_with(|| admits_node(cluster, node, &self.demand))
                    } else {
                        admits_node(cluster, node, &self.demand)
                    }
                })
                .map(|(index, _)| index)
                .collect()
        })
    }

    /// Those of them that may have these topology values: of one of the keys that are pinned, only the nodes of its value.
    pub(crate) fn nodes_at(&self, tables: &Tables<'_>, pins: &Pins) -> Rc<[usize]> {
        let of_pins = pins.iter().map(|&(key, value)| self.nodes_with(tables, key, value));
        of_pins.min_by_key(|nodes| nodes.len()).unwrap_or_else(|| Rc::clone(self.all_nodes(tables)))
    }

    fn nodes_with(&self, tables: &Tables<'_>, key: Sym, value: Sym) -> Rc<[usize]> {
        let mut known = self.nodes_at.borrow_mut();
        let by_value = known.entry(key).or_insert_with(|| {
            let mut by_value: FxHashMap<Sym, Vec<usize>> = FxHashMap::default();
            for &node in self.nodes(tables) {
                if let Some(value) = tables.cluster.nodes.get(node).and_then(|node| node.labels.get(key)) {
                    by_value.entry(value).or_default().push(node);
                }
            }
            by_value.into_iter().map(|(value, nodes)| (value, Rc::from(nodes))).collect()
        });
        by_value.get(&value).map(Rc::clone).unwrap_or_default()
    }

    /// The demand under decided topology values.
    pub(crate) fn scope<'p>(&'p self, tables: &Tables<'_>, pins: &'p Pins) -> Scope<'p> {
        let known = self.narrowed.borrow().get(pins).map(Rc::clone);
        let narrowed = known.unwrap_or_else(|| {
            let pools = tables.pools();
            let narrowed = Rc::new(Narrowed {
                admissions: pools.clone().map(|pool| self.admission(tables, pool, pins)).collect(),
                frontiers: pools.map(|_| OnceCell::new()).collect(),
            });
            self.narrowed.borrow_mut().insert(pins.into(), Rc::clone(&narrowed));
            narrowed
        });
        Scope { prepared: self, pins, narrowed }
    }

    /// What a pool admits of the demand under decided topology values.
    pub(crate) fn admission(&self, tables: &Tables<'_>, pool: PoolId, pins: &Pins) -> Option<Admission> {
        let (admitted, symbols) = (self.admissions.get(pool.index())?.as_ref()?, &tables.cluster.symbols);
        // A key may have many values: what is pinned is narrowed before it is copied.
        let mut open = Requirements::new();
        for (key, requirement) in admitted.open.iter() {
            let pinned = pins.iter().find(|(pinned, _)| *pinned == key);
            let narrowed = pinned.map(|(_, value)| requirement.intersect(&Requirement::value(*value), symbols));
            open.set(key, narrowed.unwrap_or_else(|| requirement.clone()));
        }
        let mut admission = Admission { columns: admitted.columns.clone(), open };
        for &(key, value) in pins {
            tables.pin(tables.table(pool), &mut admission.columns, &mut admission.open, key, value)?;
        }
        Some(admission)
    }
}

/// What pools admit of a demand under decided topology values.
pub(crate) struct Narrowed {
    /// By NodePool.
    admissions: Vec<Option<Admission>>,
    /// By NodePool: the paid columns worth a look.
    pub(crate) frontiers: Vec<OnceCell<Rc<Frontier>>>,
}

/// A demand under decided topology values: what every placement of a round has in common.
pub(crate) struct Scope<'p> {
    pub(crate) prepared: &'p Prepared<'p>,
    pub(crate) pins: &'p Pins,
    pub(crate) narrowed: Rc<Narrowed>,
}

impl std::ops::Deref for Scope<'_> {
    type Target = Demand;
    fn deref(&self) -> &Demand {
        &self.prepared.demand
    }
}

impl<'p> Scope<'p> {
    pub(crate) fn spec(&self) -> &'p PodSpec {
        self.prepared.spec
    }

    pub(crate) fn requests(&self) -> &'p Resources {
        self.prepared.requests
    }

    /// What a pool admits.
    pub(crate) fn admission(&self, pool: PoolId) -> Option<&Admission> {
        self.narrowed.admissions.get(pool.index()).and_then(Option::as_ref)
    }
}

/// A class with some of its preferences, and the ways in which pools admit that.
pub(crate) struct Asking<'a> {
    pub(crate) demand: Demand,
    pub(crate) ways: OnceCell<Vec<Prepared<'a>>>,
}

impl<'a> Asking<'a> {
    pub(crate) fn ways(&self, tables: &Tables<'a>) -> &[Prepared<'a>] {
        self.ways.get_or_init(|| Prepared::alternatives(tables, &self.demand))
    }
}
