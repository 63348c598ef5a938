//! A snapshot of a cluster as it stands, whose nodes come, change and go between two decisions.

use super::Snapshot;
use super::domains::DomainCounts;
use super::node::NodeEdit;
use super::node_state::NodeState;
use crate::{
    Assigned, BoundPod, ClassId, Cluster, CounterId, HeldUnits, Holding, Labels, PodStage, Reservation, ReservationId,
    StandIn, Universe,
};

/// A node as counters see it: its labels, and whether pods on it count in a counter.
#[derive(Clone, Copy, Debug)]
pub struct Site<'n, F> {
    /// The node's labels.
    pub labels: &'n Labels,
    /// Whether the counter's node filter admits the node.
    pub counts: F,
}

/// A pod as counters see it: its class, and how far it has come.
type Counted = (ClassId, PodStage);

// === impl Snapshot ===

impl Snapshot {
    /// The cluster as it stands. `counts_on(counter, node)` tells whether the counter's node filter admits the node.
    pub fn new(cluster: &Cluster, universe: &Universe, counts_on: impl Fn(CounterId, usize) -> bool) -> Self {
        let mut snapshot = Snapshot {
            nodes: Vec::with_capacity(cluster.nodes.len()),
            bins: Vec::new(),
            slack: Vec::new(),
            counts: vec![DomainCounts::default(); universe.counters.len()],
            totals: vec![0; universe.counters.len()],
            slots: cluster.slots.iter().map(|slots| slots.free).collect(),
            pools: cluster.node_pools.iter().map(|pool| (pool.used.clone(), u64::from(pool.nodes))).collect(),
            claims: std::collections::BTreeMap::new(),
            journal: Vec::new(),
            marks: 0,
            bins_version: 0,
        };
        for index in 0..cluster.nodes.len() {
            snapshot.push_node();
            snapshot.count_node(cluster, universe, index, |counter| counts_on(counter, index));
        }
        snapshot.journal.clear();
        snapshot
    }

    /// The universe has so many counters now: nothing is counted in those that came.
    pub fn extend_counters(&mut self, n_counters: usize) {
        if n_counters > self.counts.len() {
            self.counts.resize_with(n_counters, Default::default);
            self.totals.resize(n_counters, 0);
        }
    }

    /// A node came, as the last one. Nothing is known of it before [`Snapshot::count_node`].
    pub fn push_node(&mut self) {
        self.nodes.push(NodeState::default());
    }

    /// A node went that counts nowhere any more; the last one takes its place.
    pub fn swap_remove_node(&mut self, index: usize) {
        if index < self.nodes.len() {
            self.nodes.swap_remove(index);
        }
    }

    /// Makes a node what the cluster says, which counts nowhere yet. `counts` tells whether a counter's node filter admits it.
    pub fn count_node(
        &mut self,
        cluster: &Cluster,
        universe: &Universe,
        index: usize,
        counts: impl Fn(CounterId) -> bool,
    ) {
        let Some(node) = cluster.nodes.get(index) else { return };
        let site = Site { labels: &node.labels, counts };
        let mut state = NodeState { free: node.free.clone(), holdings: node.holdings.clone(), ..NodeState::default() };
        for holding in &node.holdings {
            let known = cluster.reservation(holding.reservation);
            state.units.held.extend(known.and_then(|known| held_units(holding.reservation, known)));
        }
        let mut edit = NodeEdit::unrecorded(&mut state);
        for (pod, class) in node.pods.iter().zip(universe.bound.get(index).into_iter().flatten()) {
            if let Some(spec) = cluster.spec(pod.spec) {
                edit.attach(&spec.host_ports, &spec.volumes);
                edit.assume(spec.assumed, 1);
            }
            if let Some(assigned) = &pod.assigned {
                edit.take_units(assigned, pod.draws_from);
            }
            for counter in self.count_bound(cluster, universe, (*class, pod), &site, true) {
                edit.add_on_host(counter, 1);
            }
        }
        for holding in &node.holdings {
            if let Some(reservation) = cluster.reservation(holding.reservation) {
                edit.attach(&reservation.host_ports, &reservation.volumes);
            }
            let class = universe.reserved(holding.reservation);
            for counter in self.count_holding(cluster, universe, (holding, class), &site, true) {
                edit.add_on_host(counter, 1);
            }
        }
        if let Some(known) = self.nodes.get_mut(index) {
            *known = state;
        }
    }

    /// Counts a pod that comes to a node or leaves it; the counters on the host name in which it does.
    pub fn count_bound(
        &mut self,
        cluster: &Cluster,
        universe: &Universe,
        (class, pod): (ClassId, &BoundPod),
        site: &Site<'_, impl Fn(CounterId) -> bool>,
        comes: bool,
    ) -> Vec<CounterId> {
        let spec = cluster.spec(pod.spec);
        for &claim in spec.into_iter().flat_map(|spec| &spec.volumes.exclusive_claims) {
            if comes { self.use_claim(claim) } else { self.free_claim(claim) }
        }
        self.count_on(cluster, universe, (class, pod.stage), site, comes)
    }

    /// Counts what a Reservation holds on a node, or not any more, with the class of the pod that stands in for it; the counters
    /// on the host name in which that one counts.
    pub fn count_holding(
        &mut self,
        cluster: &Cluster,
        universe: &Universe,
        (holding, class): (&Holding, Option<ClassId>),
        site: &Site<'_, impl Fn(CounterId) -> bool>,
        comes: bool,
    ) -> Vec<CounterId> {
        let Some(reservation) = cluster.reservation(holding.reservation) else { return Vec::new() };
        for &claim in &reservation.volumes.exclusive_claims {
            if comes { self.use_claim(claim) } else { self.free_claim(claim) }
        }
        let how = holding.stand_in();
        let Some(class) = class.filter(|_| how != StandIn::Nothing) else { return Vec::new() };
        let counts =
            |counter| universe.counter(counter).is_some_and(|known| how.counts_in(known)) && (site.counts)(counter);
        self.count_on(cluster, universe, (class, PodStage::Bound), &Site { labels: site.labels, counts }, comes)
    }

    fn count_on(
        &mut self,
        cluster: &Cluster,
        universe: &Universe,
        (class, stage): Counted,
        site: &Site<'_, impl Fn(CounterId) -> bool>,
        comes: bool,
    ) -> Vec<CounterId> {
        let mut on_host = Vec::new();
        let counters = universe.class(class).map(|class| class.counts_in.iter().chain(&class.weighs_in));
        for &counter in counters.into_iter().flatten() {
            let Some(known) = universe.counter(counter) else { continue };
            let is_skipped = stage == PodStage::Terminating && known.skips_terminating;
            if is_skipped || !(site.counts)(counter) {
                continue;
            }
            let is_host = known.key == cluster.well_known.hostname;
            let domain = if is_host { None } else { site.labels.get(known.key) };
            if is_host {
                on_host.push(counter);
            } else if domain.is_none() {
                continue;
            }
            if comes { self.add_count(counter, domain, 1) } else { self.remove_count(counter, domain, 1) }
        }
        on_host
    }
}

/// What a Reservation holds of a node's units; `None` where it holds none.
fn held_units(id: ReservationId, reservation: &Reservation) -> Option<HeldUnits> {
    let held = HeldUnits {
        reservation: id,
        policy: reservation.policy,
        reserved: reservation.assigned.clone(),
        drawn: Assigned::default(),
    };
    (!held.reserved.is_empty()).then_some(held)
}
