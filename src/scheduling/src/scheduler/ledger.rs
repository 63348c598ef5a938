//! What a decision changes: the free room and the counts of each node, who was placed and who gave way, the room that is held,
//! and what budgets let go. Only functions that take a `&mut Ledger` change it. Who tries something out takes it back.

use berth_model::{ClassId, Cluster, Mark, ReservationId, RowId, Snapshot, Universe};
use rustc_hash::{FxHashMap, FxHashSet};

use super::budgets::Budgets;
use super::eviction::Eviction;
use super::groups::Groups;
use super::members::Members;

/// A pod or a Reservation that the queue placed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Placed {
    /// Its row of [`Cluster::pending`].
    pub(super) row: RowId,
    pub(super) class: ClassId,
    pub(super) node: usize,
    /// Whether it comes only once pods that are being deleted there, or give way to it, have gone.
    pub(super) waits_for_room: bool,
}

/// Where Reservations are, and who is bound to them.
#[derive(Clone, Debug, Default)]
pub(super) struct HeldRoom {
    /// By Reservation: the node where it was held last.
    pub(super) places: Vec<Option<u32>>,
    /// Those that are pending.
    pub(super) members: Members,
    /// Running pods that Reservations were bound to.
    pub(super) bound_to: FxHashMap<Eviction, ReservationId>,
}

/// Nodes that a what-if looks at otherwise; none while nothing is asked.
#[derive(Clone, Debug, Default)]
pub(super) struct WhatIf {
    /// A node that is gone.
    pub(super) gone: Option<usize>,
    /// Nodes that are not as groups and indexes know them; the one that is gone is among them.
    pub(super) aside: Vec<usize>,
}

/// What a ledger was, to go back to.
#[derive(Debug)]
pub(super) struct Before {
    mark: Mark,
    n_evicted: usize,
    n_placed: usize,
    allowed: Vec<i32>,
    nominated: FxHashMap<usize, Vec<ClassId>>,
    placed_members: FxHashMap<ClassId, usize>,
}

/// What a decision changes.
#[derive(Clone, Debug)]
pub(super) struct Ledger {
    /// The nodes and counts as they are now.
    pub(super) state: Snapshot,
    /// The nodes that are alike now. Whoever changes a node says so by [`Ledger::regroup`].
    pub(super) groups: Groups,
    /// Who was placed by the queue, one by one.
    pub(super) log: Vec<Placed>,
    pub(super) evicted: Vec<Eviction>,
    /// Pods that are off their node, for good or in a what-if.
    pub(super) off: FxHashSet<Eviction>,
    pub(super) budgets: Budgets,
    /// Pods that room is held for, by node.
    pub(super) nominated: FxHashMap<usize, Vec<ClassId>>,
    /// Pods that are expected on nodes, by node, while others are placed that make nobody give way: their room is held whatever their
    /// priority.
    pub(super) expected: FxHashMap<usize, Vec<ClassId>>,
    pub(super) held: HeldRoom,
    pub(super) what_if: WhatIf,
}

// === impl Ledger ===

impl Ledger {
    /// Nothing is decided yet.
    pub(super) fn new(cluster: &Cluster, universe: &Universe, state: Snapshot, groups: Groups) -> Self {
        Ledger {
            state,
            groups,
            log: Vec::new(),
            evicted: Vec::new(),
            off: FxHashSet::default(),
            budgets: Budgets::new(cluster),
            nominated: FxHashMap::default(),
            expected: FxHashMap::default(),
            held: HeldRoom {
                places: places(cluster),
                members: Members::new(cluster, universe),
                bound_to: FxHashMap::default(),
            },
            what_if: WhatIf::default(),
        }
    }

    /// What is left of it between two decisions: how nodes and counts are, and what budgets let go.
    pub(super) fn rest(self) -> Self {
        let Ledger { state, groups, budgets: Budgets { allowed, .. }, held: HeldRoom { places, .. }, .. } = self;
        Ledger {
            state,
            groups,
            log: Vec::new(),
            evicted: Vec::new(),
            off: FxHashSet::default(),
            budgets: Budgets { allowed, are_kept: false },
            nominated: FxHashMap::default(),
            expected: FxHashMap::default(),
            held: HeldRoom { places, ..HeldRoom::default() },
            what_if: WhatIf::default(),
        }
    }

    /// Nobody was placed and nobody gave way, and budgets let go what they did. Nodes and counts are the caller's to take back.
    pub(super) fn forget_decisions(&mut self, allowed: Vec<i32>) {
        self.log.clear();
        self.evicted.clear();
        self.off.clear();
        self.nominated.clear();
        self.expected.clear();
        self.held.bound_to.clear();
        self.held.members = Members::default();
        self.budgets.allowed = allowed;
    }

    /// How it is now, for pods to be placed that all come or none; to be given to [`Ledger::go_on`] or [`Ledger::go_back`].
    pub(super) fn before(&mut self) -> Before {
        Before {
            mark: self.state.mark(),
            n_evicted: self.evicted.len(),
            n_placed: self.log.len(),
            allowed: self.budgets.allowed.clone(),
            nominated: self.nominated.clone(),
            placed_members: self.held.members.placed.clone(),
        }
    }

    /// What has changed since stays.
    pub(super) fn go_on(&mut self, before: &Before) {
        self.state.forget(before.mark);
    }

    /// Takes back that pods came to these nodes, others gave way, and room was held.
    pub(super) fn go_back(&mut self, before: Before, mut nodes: Vec<usize>) {
        let Before { mark, n_evicted, n_placed, allowed, nominated, placed_members } = before;
        self.state.rollback(mark);
        for eviction in self.evicted.drain(n_evicted..) {
            self.off.remove(&eviction);
            nodes.push(eviction.node);
        }
        self.log.truncate(n_placed);
        let is_other = |(node, held): &(&usize, &Vec<ClassId>)| self.nominated.get(node) != Some(held);
        nodes.extend(nominated.iter().filter(is_other).map(|(node, _)| *node));
        nodes.sort_unstable();
        nodes.dedup();
        (self.held.members.placed, self.nominated, self.budgets.allowed) = (placed_members, nominated, allowed);
        self.state.forget(mark);
        for node in nodes {
            self.regroup(node);
        }
    }

    /// Puts a node among those that it is like now.
    pub(super) fn regroup(&mut self, node: usize) {
        let is_apart =
            self.nominated.contains_key(&node) || self.expected.contains_key(&node) || self.what_if.gone == Some(node);
        if let Some(state) = self.state.node(node) {
            self.groups.regroup(node, state, is_apart);
        }
    }

    /// Holds room on a node for a pod of a class that is to come, against pods of equal and lower priority.
    pub(super) fn nominate(&mut self, id: ClassId, node: usize) {
        self.nominated.entry(node).or_default().push(id);
        self.regroup(node);
    }

    /// Ends what [`Ledger::nominate`] began; whether it had.
    pub(super) fn withdraw(&mut self, id: ClassId, node: usize) -> bool {
        let mut was_held = false;
        if let Some(held) = self.nominated.get_mut(&node) {
            if let Some(at) = held.iter().position(|known| *known == id) {
                held.remove(at);
                was_held = true;
            }
            if held.is_empty() {
                self.nominated.remove(&node);
            }
        }
        self.regroup(node);
        was_held
    }

    /// Whether room is held for anybody.
    pub(super) fn holds_room(&self) -> bool {
        !self.nominated.is_empty() || !self.expected.is_empty()
    }

    /// Whether a running pod is off its node, for good or in a what-if.
    pub(super) fn is_off(&self, node: usize, pod: usize) -> bool {
        !self.off.is_empty() && self.off.contains(&Eviction { node, pod })
    }

    /// From which Reservation a running pod draws.
    pub(super) fn drawn_by(&self, cluster: &Cluster, node: usize, pod: usize) -> Option<ReservationId> {
        let bound = self.held.bound_to.get(&Eviction { node, pod }).copied();
        bound.or_else(|| cluster.node(node)?.pods.get(pod)?.draws_from)
    }

    /// The pods that gave way, in order of their nodes.
    pub(super) fn evicted_in_order(&self) -> Vec<Eviction> {
        let mut evicted = self.evicted.clone();
        evicted.sort_unstable();
        evicted
    }
}

// === impl HeldRoom ===

impl HeldRoom {
    /// The node where a Reservation was held last.
    pub(super) fn place(&self, reservation: ReservationId) -> Option<usize> {
        self.places.get(reservation.index()).copied().flatten().map(|node| node as usize)
    }

    /// Whether a Reservation had no node yet.
    pub(super) fn had_no_node(&self, reservation: ReservationId) -> bool {
        self.places.get(reservation.index()).is_some_and(Option::is_none)
    }

    /// The running pods that a Reservation was bound to, in order.
    pub(super) fn pods_bound_to(&self, reservation: ReservationId) -> Vec<Eviction> {
        let bound = self.bound_to.iter().filter(|(_, bound)| **bound == reservation);
        let mut bound: Vec<Eviction> = bound.map(|(pod, _)| *pod).collect();
        bound.sort_unstable();
        bound
    }
}

// Where Reservations are held.
fn places(cluster: &Cluster) -> Vec<Option<u32>> {
    let mut places = vec![None; cluster.reservations.len()];
    for (node, at) in cluster.nodes.iter().zip(0..) {
        for holding in &node.holdings {
            if let Some(place) = places.get_mut(holding.reservation.index()) {
                *place = Some(at);
            }
        }
    }
    places
}
