//! Plans of new nodes that were made before. The same pods are planned for again and again: by a look, by the command that
//! comes of it, and for others of their kind. A plan does not depend on names, nor on nodes where there are none.

use berth_model::{
    Cluster, Daemon, InstanceType, Labels, LabelsId, MemberKind, Namespace, NodePool, PodSpec, Resources, Shared,
    Slots, SpecId, Sym, Universe,
};
use berth_provisioning::{Options, Solution};
use rustc_hash::FxHashMap;

/// How many plans are kept: before there are more, all go.
const MOST: usize = 2_048;
/// Rows and pods of a plan that is kept: of more, hardly any is asked for twice.
const MOST_ROWS: usize = 16;
const MOST_PODS: u32 = 256;

/// Plans by what they are for.
#[derive(Debug, Default)]
pub(crate) struct Plans {
    supply: Option<Supply>,
    /// Each with the classes that it is said in.
    known: FxHashMap<Question, (Universe, Solution)>,
}

/// What may be launched, slots aside.
#[derive(Debug)]
struct Supply {
    instance_types: Shared<Vec<InstanceType>>,
    daemons: Shared<Vec<Daemon>>,
    namespaces: Shared<Vec<Namespace>>,
    node_pools: Vec<NodePool>,
    options: Options,
}

/// Pods that need new nodes, and the slots that are free.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Question {
    rows: Vec<Row>,
    free: Vec<(Sym, u32)>,
}

/// So many of one kind: indexes are part of it, since a plan is said in them.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Row {
    namespace: Sym,
    spec: (SpecId, PodSpec),
    labels: (LabelsId, Labels),
    count: u32,
}

// === impl Plans ===

impl Plans {
    /// What to ask by in a cluster of pending pods; `None` where a plan depends on more: on nodes, on Reservations.
    fn question(&mut self, cluster: &Cluster, options: &Options) -> Option<Question> {
        if !cluster.nodes.is_empty()
            || !cluster.reservations.is_empty()
            || cluster.pending.len() > MOST_ROWS
            || options.bound
            || options.what_restrictions_cost
        {
            return None;
        }
        let rows: Option<Vec<Row>> = cluster.pending.iter().map(|row| Row::of(cluster, row)).collect();
        let rows = rows.filter(|rows| rows.iter().map(|row| row.count).sum::<u32>() <= MOST_PODS)?;
        if !self.supply.as_ref().is_some_and(|supply| supply.is_of(cluster, options)) {
            self.known.clear();
            self.supply = Some(Supply {
                instance_types: cluster.instance_types.clone(),
                daemons: cluster.daemons.clone(),
                namespaces: cluster.namespaces.clone(),
                node_pools: cluster.node_pools.iter().map(as_far_as_it_matters).collect(),
                options: options.clone(),
            });
        }
        let free = |slots: &Slots| (slots.id, slots.free);
        Some(Question { rows, free: cluster.slots.iter().map(free).collect() })
    }

    /// The plan for what is pending in a cluster: one that was made before, or the one that `made` makes.
    pub(crate) fn plan(
        &mut self,
        cluster: &mut Cluster,
        options: &Options,
        made: impl FnOnce(&mut Cluster) -> (Universe, Solution),
    ) -> (Universe, Solution) {
        let Some(question) = self.question(cluster, options) else { return made(cluster) };
        if let Some(known) = self.known.get(&question) {
            return known.clone();
        }
        let plan = made(cluster);
        if self.known.len() >= MOST {
            self.known.clear();
        }
        self.known.insert(question, plan.clone());
        plan
    }
}

// === impl Supply ===

impl Supply {
    fn is_of(&self, cluster: &Cluster, options: &Options) -> bool {
        // What is in one place with what is kept here has not changed, whoever converted it.
        self.instance_types.is_same(&cluster.instance_types)
            && self.daemons.is_same(&cluster.daemons)
            && self.namespaces.is_same(&cluster.namespaces)
            && self.options == *options
            && self.node_pools.len() == cluster.node_pools.len()
            && self.node_pools.iter().zip(cluster.node_pools.iter()).all(|(a, b)| *a == as_far_as_it_matters(b))
    }
}

/// What a NodePool has counts only against its limits.
fn as_far_as_it_matters(pool: &NodePool) -> NodePool {
    let mut pool = pool.clone();
    if pool.limits.is_empty() && pool.node_limit.is_none() {
        (pool.used, pool.nodes) = (Resources::new(), 0);
    }
    pool
}

// === impl Row ===

impl Row {
    fn of(cluster: &Cluster, row: &berth_model::PendingRow) -> Option<Self> {
        if row.kind != MemberKind::Pod {
            return None;
        }
        let labels = cluster.labels(row.labels)?;
        Some(Row {
            namespace: row.namespace,
            spec: (row.spec, cluster.spec(row.spec)?.clone()),
            labels: (row.labels, labels.clone()),
            count: row.members.iter().map(berth_model::MemberRun::len).sum(),
        })
    }
}
