//! What a decision reads of nodes that exist: which of them counters and filters are about, who runs there, and with what.

use berth_model::{
    Assigned, ClassId, Cluster, CounterId, FilterId, NodeFilter, PodClass, PodSpec, PodStage, ReservationId, Snapshot,
    StandIn, Universe,
};
use fixedbitset::FixedBitSet;

use crate::admission::filter_admits_node;
use crate::kinds::{Kinds, names_nodes};
use crate::reservation::Rules;

/// What a decision reads of nodes and never changes.
#[derive(Clone, Debug)]
pub struct NodeTables<'a> {
    pub(crate) cluster: &'a Cluster,
    pub(crate) universe: &'a Universe,
    /// By node filter of the universe: the nodes that it admits.
    pub(crate) filters: Vec<FixedBitSet>,
    /// By counter: its filter.
    pub(crate) counter_filters: Vec<Option<FilterId>>,
    pub(crate) rules: Rules,
    /// How many nodes say which CPUs they have.
    pub(crate) reports_cpus: usize,
    /// How many nodes say what their NUMA nodes have.
    pub(crate) reports_numa: usize,
}

impl<'a> NodeTables<'a> {
    /// The tables of a cluster.
    pub fn new(cluster: &'a Cluster, universe: &'a Universe) -> Self {
        Self::of_kinds(cluster, universe, &Kinds::new(cluster))
    }

    /// The same where it is known which nodes are alike.
    pub(crate) fn of_kinds(cluster: &'a Cluster, universe: &'a Universe, kinds: &Kinds) -> Self {
        NodeTables {
            cluster,
            universe,
            filters: universe.filters.iter().map(|filter| admitted(cluster, kinds, filter)).collect(),
            counter_filters: universe.counters.iter().map(|counter| counter.filter).collect(),
            rules: cluster.rules.clone(),
            reports_cpus: cluster.nodes.iter().filter(|node| !node.units.cpus.is_empty()).count(),
            reports_numa: cluster.nodes.iter().filter(|node| !node.units.numa.is_empty()).count(),
        }
    }

    /// Takes in the counters and node filters that came to the universe; of nodes without a kind nothing is known.
    pub(crate) fn extend_counters(&mut self, kinds: &Kinds) {
        let (cluster, universe) = (self.cluster, self.universe);
        let filters = universe.filters.iter().skip(self.filters.len());
        self.filters.extend(filters.map(|filter| admitted(cluster, kinds, filter)));
        let counters = universe.counters.iter().skip(self.counter_filters.len());
        self.counter_filters.extend(counters.map(|counter| counter.filter));
    }

    /// The cluster as it stands, to be changed by a decision.
    pub fn snapshot(&self) -> Snapshot {
        Snapshot::new(self.cluster, self.universe, |counter, node| self.counts_on(counter, node))
    }

    /// Whether pods on a node count in a counter.
    pub(crate) fn counts_on(&self, counter: CounterId, node: usize) -> bool {
        let filter = self.counter_filters.get(counter.index()).copied().flatten();
        filter.is_none_or(|filter| self.admits(filter, node))
    }

    /// Whether a node filter admits a node.
    pub(crate) fn admits(&self, filter: FilterId, node: usize) -> bool {
        self.filters.get(filter.index()).is_none_or(|nodes| nodes.contains(node))
    }

    pub(crate) fn class_and_spec(&self, id: ClassId) -> Option<(&'a PodClass, &'a PodSpec)> {
        let class = self.universe.class(id)?;
        Some((class, self.cluster.spec(class.spec)?))
    }

    // Whether a counter counts pods that have come so far.
    pub(crate) fn counts_in(&self, counter: CounterId, stage: PodStage) -> bool {
        stage != PodStage::Terminating || self.universe.counter(counter).is_none_or(|known| !known.skips_terminating)
    }

    /// The counters on the host name in which a pod of the class counts on a node.
    pub(crate) fn host_counters(&self, (class, stage): (&PodClass, PodStage), node: usize) -> Vec<CounterId> {
        let hostname = self.cluster.well_known.hostname;
        let is_on_host = |id: &CounterId| self.universe.counter(*id).is_some_and(|c| c.key == hostname);
        let counters = class.counts_in.iter().chain(&class.weighs_in).copied();
        counters.filter(|id| is_on_host(id) && self.counts_in(*id, stage) && self.counts_on(*id, node)).collect()
    }

    /// The counters on the host name in which the pod that stands in for a Reservation counts on a node.
    pub(crate) fn stand_in_counters(
        &self,
        (reservation, how): (ReservationId, StandIn),
        node: usize,
    ) -> Vec<CounterId> {
        let class = self.universe.reserved(reservation).and_then(|id| self.universe.class(id));
        let mut counters = class.map(|class| self.host_counters((class, PodStage::Bound), node)).unwrap_or_default();
        counters.retain(|id| self.universe.counter(*id).is_some_and(|known| how.counts_in(known)));
        counters
    }

    /// The class and spec of a running pod.
    pub(crate) fn resident(&self, node: usize, pod: usize) -> Option<(&'a PodClass, &'a PodSpec)> {
        let class = *self.universe.bound.get(node)?.get(pod)?;
        let spec = self.cluster.node(node)?.pods.get(pod)?.spec;
        Some((self.universe.class(class)?, self.cluster.spec(spec)?))
    }

    /// How far a pod on a node has come.
    pub(crate) fn stage_of(&self, node: usize, pod: usize) -> PodStage {
        let found = self.cluster.node(node).and_then(|node| node.pods.get(pod));
        found.map_or(PodStage::Bound, |pod| pod.stage)
    }

    /// The CPUs and devices that a running pod has to itself.
    pub(crate) fn assigned_to(&self, node: usize, pod: usize) -> Option<&'a Assigned> {
        self.cluster.node(node)?.pods.get(pod)?.assigned.as_deref()
    }

    /// Whether a Reservation is for one pod alone.
    pub(crate) fn is_for_one(&self, reservation: ReservationId) -> bool {
        self.cluster.reservation(reservation).is_some_and(|known| known.allocate_once)
    }
}

// The nodes that a filter admits, asked once for each kind where it does not tell nodes of a kind apart.
fn admitted(cluster: &Cluster, kinds: &Kinds, filter: &NodeFilter) -> FixedBitSet {
    let mut terms = filter.required_terms.iter().chain(std::iter::once(&filter.node_selector));
    let by_node = terms.any(|term| names_nodes(cluster, term));
    let admits = |node: usize| cluster.node(node).is_some_and(|node| filter_admits_node(cluster, node, filter));
    let by_kind: Vec<bool> =
        if by_node { Vec::new() } else { kinds.samples().map(|node| node.is_some_and(admits)).collect() };
    let mut nodes = FixedBitSet::with_capacity(cluster.nodes.len());
    for node in 0..cluster.nodes.len() {
        let is_admitted =
            if by_node { admits(node) } else { by_kind.get(kinds.of(node) as usize).copied().unwrap_or(false) };
        nodes.set(node, is_admitted);
    }
    nodes
}
