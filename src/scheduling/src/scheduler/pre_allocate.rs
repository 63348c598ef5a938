//! Reservations that pre-allocate: onto free room, or bound to running pods whose room they inherit.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use berth_model::{
    Assigned, BoundPod, ClassId, HeldUnits, Holding, NodeState, Phase, PreAllocation, PreAllocationMode, Reservation,
    ReservationId,
};

use super::eviction::Eviction;
use super::index::Index;
use super::ledger::Ledger;
use super::shape::Shape;
use super::tables::Tables;
use super::world::World;
use crate::filter::{self, Obstacle};
use crate::reservation::{Binding, Candidate, Refusal, bind, in_words, may_share_node};

/// A Reservation that pre-allocates and has no node.
struct Seeker<'s> {
    id: ReservationId,
    known: &'s Reservation,
    how: PreAllocation,
    class: ClassId,
    index: Index,
}

/// How it would be bound on a node.
struct Found {
    node: usize,
    binding: Binding,
    /// The candidates, by position among the node's pods.
    pods: Vec<usize>,
}

/// What all nodes say to it.
struct Answer {
    /// The best node.
    best: Option<Found>,
    /// Why others refuse, with how many.
    reasons: BTreeMap<String, u32>,
}

/// The Reservations that pre-allocate and have no node, by index into [`berth_model::Cluster::reservations`].
pub(super) fn pre_allocating(tables: &Tables<'_>, ledger: &Ledger) -> Vec<ReservationId> {
    let pending = tables
        .cluster
        .reservations_with_ids()
        .filter(|(_, known)| known.phase == Phase::Pending && known.pre_allocation.is_some() && !known.is_terminating);
    // One that is spent already had its node.
    pending.map(|(id, _)| id).filter(|&id| ledger.held.had_no_node(id)).collect()
}

/// Places a Reservation that pre-allocates where it needs the fewest running pods, or those that suit it best; the
/// node. It is Waiting while pods that it is bound to run, and owns nothing of them: what they free is its own.
pub(super) fn pre_allocate(tables: &Tables<'_>, ledger: &mut Ledger, reservation: ReservationId) -> Option<usize> {
    let Found { node, binding, pods } = bindings(tables, ledger, reservation)?.best?;
    let known = tables.cluster.reservation(reservation)?;
    let mut holding = Holding::new(reservation, known);
    holding.waits = !binding.pods.is_empty();
    for pod in binding.pods.iter().filter_map(|&at| pods.get(at).copied()) {
        if let Some((_, spec)) = tables.resident(node, pod) {
            holding.draw_in_sum(&spec.requests);
        }
        ledger.held.bound_to.insert(Eviction { node, pod }, reservation);
    }
    // It inherits the CPUs and devices of those pods, or takes free ones.
    let mut reserved = Assigned::default();
    let bound = ledger.held.pods_bound_to(reservation);
    for pod in &bound {
        if let Some(assigned) = tables.assigned_to(pod.node, pod.pod) {
            reserved.add(assigned);
        }
    }
    let drawn = reserved.clone();
    let class = tables.universe.reserved(reservation);
    if let Some((_, spec)) = class.and_then(|class| tables.class_and_spec(class)).filter(|_| bound.is_empty()) {
        reserved = tables.fit(&ledger.state).assigned_on(spec, node, None);
    }
    ledger.hold(tables, holding, node);
    ledger.state.change_node(node, |state| {
        state.note_placed(reservation);
        if !reserved.is_empty() {
            state.hold_units(HeldUnits { reservation, policy: known.policy, reserved, drawn });
        }
    });
    ledger.regroup(node);
    Some(node)
}

/// Why nodes refuse a Reservation that pre-allocates now, each reason with the number of nodes. The ledger is as it was
/// afterwards.
pub(super) fn refusals_of_pre_allocation(
    tables: &Tables<'_>,
    ledger: &mut Ledger,
    reservation: ReservationId,
) -> BTreeMap<String, u32> {
    bindings(tables, ledger, reservation).map(|answer| answer.reasons).unwrap_or_default()
}

// The best node with how it would be bound there, and why the others refuse. The ledger is as it was afterwards.
fn bindings(tables: &Tables<'_>, ledger: &mut Ledger, id: ReservationId) -> Option<Answer> {
    let known = tables.cluster.reservation(id)?;
    let (how, class) = (known.pre_allocation?, tables.universe.reserved(id)?);
    if !ledger.held.had_no_node(id) {
        return None;
    }
    let index = Index::bare(Shape::of(tables, class)?, World::new(tables, ledger));
    let seeker = Seeker { id, known, how, class, index };
    let mut best: Option<((Reverse<i64>, u64), Found)> = None;
    let mut reasons: BTreeMap<String, u32> = BTreeMap::new();
    for node in (0..tables.cluster.nodes.len()).filter(|&node| tables.stands_at(node)) {
        match seeker.binding(tables, ledger, node) {
            Ok(found) => {
                let order = (Reverse(found.binding.score), ledger.groups.rank(node));
                if best.as_ref().is_none_or(|(least, _)| order < *least) {
                    best = Some((order, found));
                }
            }
            Err(words) => words.into_iter().for_each(|word| *reasons.entry(word).or_default() += 1),
        }
    }
    Some(Answer { best: best.map(|(_, found)| found), reasons })
}

// === impl Seeker ===

impl Seeker<'_> {
    // How it would be bound on a node, or why not. The ledger is as it was afterwards.
    fn binding(&self, tables: &Tables<'_>, ledger: &mut Ledger, node: usize) -> Result<Found, Vec<String>> {
        let (cluster, index) = (tables.cluster, &self.index);
        let in_own_words = |obstacle: &Obstacle| obstacle.in_words(cluster);
        if let Some(obstacle) = self.obstacle_before(tables, ledger, node) {
            return Err(in_own_words(&obstacle));
        }
        let pods = self.candidates(tables, ledger, node);
        let candidates: Vec<Candidate<'_>> = pods
            .iter()
            .filter_map(|&at| {
                let bound = cluster.node(node)?.pods.get(at)?;
                let spec = cluster.spec(bound.spec)?;
                let priority = bound.candidate.as_ref().and_then(|candidate| candidate.priority).unwrap_or(0);
                let is_bound = ledger.drawn_by(cluster, node, at).is_some();
                Some(Candidate { name: &bound.name, requests: &spec.requests, priority, is_bound })
            })
            .collect();
        let room = ledger.state.node(node).map(NodeState::room).ok_or_else(Vec::new)?;
        let bound = bind(room, self.known, self.how, &candidates, tables.rules.pre_allocation);
        let binding = bound.map_err(|refusal| match refusal {
            Refusal::Reason(reason) => vec![reason.to_owned()],
            Refusal::Lacks(lacks) => in_words(&lacks, &cluster.resource_names, &cluster.symbols),
        })?;
        // What is no matter of amounts, as it will be when those pods have gone.
        let mark = ledger.state.mark();
        for &pod in binding.pods.iter().filter_map(|&at| pods.get(at)) {
            ledger.take_off(tables, node, pod);
        }
        let world = World::new(tables, ledger);
        let obstacle = world.obstacle(index, &world.values(index), node);
        ledger.state.rollback(mark);
        ledger.state.forget(mark);
        for &pod in binding.pods.iter().filter_map(|&at| pods.get(at)) {
            ledger.off.remove(&Eviction { node, pod });
        }
        match obstacle {
            Some(Obstacle::Resources(..) | Obstacle::Reservations(..)) | None => Ok(Found { node, binding, pods }),
            Some(obstacle) => Err(in_own_words(&obstacle)),
        }
    }

    // What keeps it off a node whatever it would be bound to.
    fn obstacle_before(&self, tables: &Tables<'_>, ledger: &Ledger, node: usize) -> Option<Obstacle> {
        let fixed = tables.cluster.node(node)?;
        if self.known.node.is_some_and(|name| name != fixed.name) {
            return Some(Obstacle::OtherNode);
        }
        let holdings = ledger.state.node(node).map_or(&[][..], |state| &state.holdings);
        if !may_share_node(self.known.policy, holdings) {
            return Some(Obstacle::PolicyConflict);
        }
        let (_, spec) = tables.class_and_spec(self.class)?;
        filter::before_load(tables.cluster, fixed, spec)
    }

    // Pods of a node that it could be bound to, by position.
    fn candidates(&self, tables: &Tables<'_>, ledger: &Ledger, node: usize) -> Vec<usize> {
        let pods = tables.cluster.node(node).map_or(&[][..], |node| &node.pods);
        let is_candidate = |(at, pod): &(usize, &BoundPod)| {
            !ledger.is_off(node, *at)
                && !pod.is_terminating()
                && pod.candidate.as_ref().is_some_and(|candidate| match self.how.mode {
                    PreAllocationMode::Owners => candidate.owned_by.binary_search(&self.id).is_ok(),
                    PreAllocationMode::Cluster => candidate.priority.is_some(),
                })
        };
        pods.iter().enumerate().filter(is_candidate).map(|(at, _)| at).collect()
    }
}
