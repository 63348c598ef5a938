//! Pods and Reservations come to nodes that exist and leave them: the same lines for scheduler and planner, over one
//! snapshot.

use berth_model::{
    Assigned, ClassId, Cluster, CounterId, Holding, NodeEdit, NodeFilter, PodClass, PodSpec, PodStage, Snapshot,
    Universe,
};
use fixedbitset::FixedBitSet;

use crate::admission::filter_admits_node;
use crate::node_fit::NodeFit;
use crate::reservation::Rules;
use crate::scheduler::{Kinds, names_nodes};

/// What a decision reads of nodes and never changes.
#[derive(Clone, Debug)]
pub struct NodeTables<'a> {
    pub(crate) cluster: &'a Cluster,
    pub(crate) universe: &'a Universe,
    /// By node filter of the universe: the nodes that it admits.
    pub(crate) filters: Vec<FixedBitSet>,
    /// By counter: its filter.
    pub(crate) counter_filters: Vec<Option<u32>>,
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

    /// What the nodes of a snapshot say to pods.
    pub fn fit<'w>(&'w self, state: &'w Snapshot) -> NodeFit<'w> {
        NodeFit { tables: self, state }
    }

    /// Whether pods on a node count in a counter.
    pub(crate) fn counts_on(&self, counter: CounterId, node: usize) -> bool {
        let filter = self.counter_filters.get(counter.index()).copied().flatten();
        filter.is_none_or(|filter| self.admits(filter, node))
    }

    /// Whether a node filter admits a node.
    pub(crate) fn admits(&self, filter: u32, node: usize) -> bool {
        self.filters.get(filter as usize).is_none_or(|nodes| nodes.contains(node))
    }

    pub(crate) fn class_and_spec(&self, id: ClassId) -> Option<(&'a PodClass, &'a PodSpec)> {
        let class = self.universe.class(id)?;
        Some((class, self.cluster.spec(class.spec)?))
    }

    /// Binds a pod of a class to a node. It draws from the Reservation there that suits it best, if any, and spends one
    /// that is for one pod alone: that one is returned, with its room given up.
    pub fn bind(&self, state: &mut Snapshot, id: ClassId, node: usize) -> Option<u32> {
        let (class, spec) = self.class_and_spec(id)?;
        let draws_from = self.fit(state).draws_on(spec, node);
        self.count(state, (class, PodStage::Planned), node, 1);
        for &claim in &spec.volumes.exclusive_claims {
            state.use_claim(claim);
        }
        let on_host = self.host_counters((class, PodStage::Planned), node);
        let assigned = self.fit(state).assigned_on(spec, node, draws_from);
        self.change_owners(state, node, draws_from, |state| {
            state.change_node(node, |state| {
                add_to(state, spec, draws_from, &on_host);
                if !assigned.is_empty() {
                    state.take_units(&assigned, draws_from);
                    state.note_assigned(id, draws_from, assigned);
                }
                if let Some(reservation) = draws_from {
                    state.note_draw(id, reservation);
                }
                state.note_added(id, 1);
            });
        });
        let spent = draws_from.filter(|&reservation| self.is_for_one(reservation))?;
        self.release(state, spent, node);
        Some(spent)
    }

    /// Binds several pods of a class to a node at once, which draw from nothing and have nothing to themselves there.
    pub fn bind_plain(&self, state: &mut Snapshot, id: ClassId, node: usize, pods: u32) {
        let Some((class, spec)) = self.class_and_spec(id) else { return };
        self.count(state, (class, PodStage::Planned), node, i64::from(pods));
        for &claim in &spec.volumes.exclusive_claims {
            state.use_claim(claim);
        }
        let on_host = self.host_counters((class, PodStage::Planned), node);
        state.change_node(node, |state| {
            state.take_times(&spec.requests, pods);
            state.assume(spec.assumed, i64::from(pods));
            // Of their volumes and ports there is one each: only pods that may share them come together.
            state.attach(&spec.host_ports, &spec.volumes);
            for counter in on_host {
                state.add_on_host(counter, pods);
            }
            state.note_added(id, pods);
        });
    }

    /// Takes a running pod off its node.
    pub(crate) fn take_off(&self, state: &mut Snapshot, node: usize, pod: usize, draws_from: Option<u32>) {
        if let Some(running) = self.running(node, pod, draws_from) {
            self.leaves(state, running, node);
        }
    }

    /// Counts a running pod no more: all that matters of who goes with its node, which is not looked at.
    pub(crate) fn count_off(&self, state: &mut Snapshot, node: usize, pod: usize) {
        let Some((class, spec)) = self.resident(node, pod) else { return };
        self.count(state, (class, self.stage_of(node, pod)), node, -1);
        for &claim in &spec.volumes.exclusive_claims {
            state.free_claim(claim);
        }
    }

    /// Puts a running pod back that was taken off.
    pub(crate) fn put_back(&self, state: &mut Snapshot, node: usize, pod: usize, draws_from: Option<u32>) {
        if let Some(running) = self.running(node, pod, draws_from) {
            self.comes(state, running, node);
        }
    }

    fn running(&self, node: usize, pod: usize, draws_from: Option<u32>) -> Option<Running<'a>> {
        let (class, spec) = self.resident(node, pod)?;
        let (stage, assigned) = (self.stage_of(node, pod), self.assigned_to(node, pod));
        Some(Running { class, spec, stage, assigned, draws_from })
    }

    /// A pod that runs is off its node.
    pub(crate) fn leaves(&self, state: &mut Snapshot, pod: Running<'_>, node: usize) {
        let Running { class, spec, stage, assigned, draws_from } = pod;
        self.count(state, (class, stage), node, -1);
        for &claim in &spec.volumes.exclusive_claims {
            state.free_claim(claim);
        }
        let on_host = self.host_counters((class, stage), node);
        self.change_owners(state, node, draws_from, |state| {
            state.change_node(node, |state| {
                state.give_back(&spec.requests, draws_from);
                state.assume(spec.assumed, -1);
                state.detach(&spec.host_ports, &spec.volumes);
                if let Some(assigned) = assigned {
                    state.give_units_back(assigned, draws_from);
                }
                for counter in on_host {
                    state.subtract_on_host(counter, 1);
                }
            });
        });
    }

    /// A pod that runs is on a node.
    pub(crate) fn comes(&self, state: &mut Snapshot, pod: Running<'_>, node: usize) {
        let Running { class, spec, stage, assigned, draws_from } = pod;
        self.count(state, (class, stage), node, 1);
        for &claim in &spec.volumes.exclusive_claims {
            state.use_claim(claim);
        }
        let on_host = self.host_counters((class, stage), node);
        self.change_owners(state, node, draws_from, |state| {
            state.change_node(node, |state| {
                add_to(state, spec, draws_from, &on_host);
                if let Some(assigned) = assigned {
                    state.take_units(assigned, draws_from);
                }
            });
        });
    }

    /// Holds room, ports and volumes of a Reservation on a node.
    pub(crate) fn hold(&self, state: &mut Snapshot, holding: Holding, node: usize) {
        let (id, stands_in) = (holding.reservation, holding.stands_in());
        let Some(reservation) = self.cluster.reservation(id) else { return };
        for &claim in &reservation.volumes.exclusive_claims {
            state.use_claim(claim);
        }
        state.change_node(node, |state| {
            state.hold(holding);
            state.attach(&reservation.host_ports, &reservation.volumes);
        });
        if stands_in {
            self.stand_in(state, id, node, 1);
        }
    }

    /// Gives up what a Reservation holds on a node; whether it held anything.
    pub(crate) fn release(&self, state: &mut Snapshot, reservation: u32, node: usize) -> bool {
        let holding = state.nodes().get(node).and_then(|state| state.holding(reservation));
        let Some(stands_in) = holding.map(Holding::stands_in) else { return false };
        let Some(known) = self.cluster.reservation(reservation) else { return false };
        for &claim in &known.volumes.exclusive_claims {
            state.free_claim(claim);
        }
        if stands_in {
            self.stand_in(state, reservation, node, -1);
        }
        state.change_node(node, |state| {
            state.release(reservation);
            state.detach(&known.host_ports, &known.volumes);
        });
        true
    }

    // The pod that stands in for a Reservation counts, or does not any more.
    fn stand_in(&self, state: &mut Snapshot, reservation: u32, node: usize, pods: i64) {
        let class = self.universe.reserved.get(reservation as usize).copied().flatten();
        let Some(class) = class.and_then(|id| self.universe.class(id)) else { return };
        self.count(state, (class, PodStage::Bound), node, pods);
        let on_host = self.host_counters((class, PodStage::Bound), node);
        state.change_node(node, |state| {
            for &counter in &on_host {
                if pods > 0 {
                    state.add_on_host(counter, 1);
                } else {
                    state.subtract_on_host(counter, 1);
                }
            }
        });
    }

    /// Changes who draws on a node; the pod of the Reservation counts while nobody does.
    fn change_owners(
        &self,
        state: &mut Snapshot,
        node: usize,
        draws_from: Option<u32>,
        change: impl FnOnce(&mut Snapshot),
    ) {
        let stands_in = |state: &Snapshot| Some(state.nodes().get(node)?.holding(draws_from?)?.stands_in());
        let before = stands_in(state);
        change(state);
        if let (Some(reservation), Some(before), Some(after)) = (draws_from, before, stands_in(state))
            && before != after
        {
            self.stand_in(state, reservation, node, if after { 1 } else { -1 });
        }
    }

    // Pods of a class come to a node, or go where there are fewer than none: counted by domain.
    fn count(&self, state: &mut Snapshot, (class, come): (&PodClass, PodStage), node: usize, pods: i64) {
        let Some(fixed) = self.cluster.nodes.get(node) else { return };
        let n_pods = u32::try_from(pods.unsigned_abs()).unwrap_or(u32::MAX);
        for &counter in class.counts_in.iter().chain(&class.weighs_in) {
            if !self.counts_in(counter, come) || !self.counts_on(counter, node) {
                continue;
            }
            let Some(key) = self.universe.counter(counter).map(|counter| counter.key) else { continue };
            let is_host = key == self.cluster.well_known.hostname;
            let domain = if is_host { None } else { fixed.labels.get(key) };
            if !is_host && domain.is_none() {
                continue;
            }
            if pods > 0 {
                state.add_count(counter, domain, n_pods);
            } else {
                state.remove_count(counter, domain, n_pods);
            }
        }
    }

    // Whether a counter counts pods that have come so far.
    fn counts_in(&self, counter: CounterId, stage: PodStage) -> bool {
        stage != PodStage::Terminating || self.universe.counter(counter).is_none_or(|known| !known.skips_terminating)
    }

    /// The counters on the host name in which a pod of the class counts on a node.
    pub(crate) fn host_counters(&self, (class, stage): (&PodClass, PodStage), node: usize) -> Vec<CounterId> {
        let hostname = self.cluster.well_known.hostname;
        let is_on_host = |id: &CounterId| self.universe.counter(*id).is_some_and(|c| c.key == hostname);
        let counters = class.counts_in.iter().chain(&class.weighs_in).copied();
        counters.filter(|id| is_on_host(id) && self.counts_in(*id, stage) && self.counts_on(*id, node)).collect()
    }

    /// The class and spec of a running pod.
    pub(crate) fn resident(&self, node: usize, pod: usize) -> Option<(&'a PodClass, &'a PodSpec)> {
        let class = *self.universe.bound.get(node)?.get(pod)?;
        let spec = self.cluster.nodes.get(node)?.pods.get(pod)?.spec;
        Some((self.universe.class(class)?, self.cluster.spec(spec)?))
    }

    /// How far a pod on a node has come.
    pub(crate) fn stage_of(&self, node: usize, pod: usize) -> PodStage {
        let found = self.cluster.nodes.get(node).and_then(|node| node.pods.get(pod));
        found.map_or(PodStage::Bound, |pod| pod.stage)
    }

    /// The CPUs and devices that a running pod has to itself.
    pub(crate) fn assigned_to(&self, node: usize, pod: usize) -> Option<&'a Assigned> {
        self.cluster.nodes.get(node)?.pods.get(pod)?.assigned.as_deref()
    }

    /// Whether a Reservation is for one pod alone.
    pub(crate) fn is_for_one(&self, reservation: u32) -> bool {
        self.cluster.reservation(reservation).is_some_and(|known| known.allocate_once)
    }
}

/// A pod that runs, with what it has.
#[derive(Clone, Copy)]
pub(crate) struct Running<'r> {
    pub(crate) class: &'r PodClass,
    pub(crate) spec: &'r PodSpec,
    pub(crate) stage: PodStage,
    /// The CPUs and devices that it has to itself.
    pub(crate) assigned: Option<&'r Assigned>,
    pub(crate) draws_from: Option<u32>,
}

/// A pod comes to a node.
pub(crate) fn add_to(state: &mut NodeEdit<'_>, spec: &PodSpec, draws_from: Option<u32>, on_host: &[CounterId]) {
    state.take(&spec.requests, draws_from);
    state.assume(spec.assumed, 1);
    state.attach(&spec.host_ports, &spec.volumes);
    for &counter in on_host {
        state.add_on_host(counter, 1);
    }
}

// The nodes that a filter admits, asked once for each kind where it does not tell nodes of a kind apart.
fn admitted(cluster: &Cluster, kinds: &Kinds, filter: &NodeFilter) -> FixedBitSet {
    let mut terms = filter.required_terms.iter().chain(std::iter::once(&filter.node_selector));
    let by_node = terms.any(|term| names_nodes(cluster, term));
    let admits = |node: usize| cluster.nodes.get(node).is_some_and(|node| filter_admits_node(cluster, node, filter));
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
