//! From a live state to a decision: solve, and say it in names and uids.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use berth_api::labels::koordinator::RESERVATION_ALLOCATED;
use berth_model::{ClassId, Cluster, Constraint, MemberKind, Node, Phase, Universe};
use berth_provisioning::{Launching, Solution};
use berth_scheduling::Placement;
use berth_state::{Kind, OfferedVolumes, State, Time};

use crate::allocation::{self, Allocation};
use crate::answer::Answer;
use crate::assignment::Assignment;
use crate::coming::{Comes, Placed};
use crate::decision::{Binding, DecideError, Decision, Eviction, Nomination, Refusal};
use crate::existing::{self, Existing};
use crate::held_room::KeptForMoves;
use crate::leaving::Leaving;
use crate::options::{Options, expect_synced};
use crate::scarce_volumes::{left_with, shared_out};
use crate::sold_out::SoldOut;
use crate::stand_ins::give_later_places;

/// The decision where pods go to nodes that are up, and nothing else is decided.
pub(crate) fn bind_only(state: &State, options: &Options, existing: Existing) -> Result<Decision, DecideError> {
    let mut decision = Decision::default();
    if let Some(cluster) = state.last_cluster() {
        let allocation = Allocation::of_existing(existing);
        Answer { state, options, cluster, allocation: &allocation }.existing(&mut decision)?;
    }
    Ok(decision)
}

/// Decides what to do now, from the whole cluster: slow and simple. What [`crate::Decider`] keeps is held to it.
///
/// # Errors
/// The state does not know every kind yet.
pub fn decide(state: &mut State, options: &Options, now: Time) -> Result<Decision, DecideError> {
    expect_synced(state)?;
    let shared_out = shared_out(state, options, &OfferedVolumes::default(), now);
    decide_with(state, options, (None, shared_out), now)
}

/// Does the same with what is known of NodePools and catalogue, if that is, and with the cluster whose volumes were shared out,
/// if they are scarce.
pub(crate) fn decide_with(
    state: &mut State,
    options: &Options,
    (launching, given): (Option<&Launching>, Option<(Cluster, OfferedVolumes)>),
    now: Time,
) -> Result<Decision, DecideError> {
    let is_shared_out = given.is_some();
    let (cluster, offered) = given.unwrap_or_else(|| (state.cluster(now).clone(), OfferedVolumes::default()));
    let mut whole = Whole::solve(cluster, options, launching);
    let left = left_with(offered, &whole.cluster, &whole.universe, &whole.solution);
    // What is of no use to one of these may be to others.
    if !left.is_empty()
        && let Some((cluster, _)) = shared_out(state, options, &left, now)
    {
        let again = Whole::solve(cluster, options, launching);
        if again.n_left() < whole.n_left() {
            whole = again;
        }
    }
    let in_part = whole.in_part();
    if !in_part.is_empty() {
        let mut options = options.clone();
        for (node, pods) in in_part {
            Arc::make_mut(options.expected.entry(node).or_default()).extend(pods);
        }
        let shared_out = if is_shared_out { shared_out(state, &options, &left, now) } else { None };
        let cluster = shared_out.map_or_else(|| state.cluster(now).clone(), |(cluster, _)| cluster);
        whole = Whole::solve(cluster, &options, launching);
    }
    let Whole { cluster, universe, solution, allocation } = whole;
    let answer = Answer { state, options, cluster: &cluster, allocation: &allocation };
    let assignment = Assignment::new(&cluster, &universe, &solution);
    let mut decision = Decision::default();
    answer.existing(&mut decision)?;
    decision.holds_back = allocation.holds_back();
    answer.planned_on_nodes(&assignment, &solution, &mut decision);
    for (at, (claims, shares)) in solution.claims.iter().zip(&assignment.claims).enumerate() {
        for copy in 0..claims.count {
            decision.launches.push(answer.launch(&assignment, claims, shares, (at, copy)));
        }
    }
    let mut refused: Vec<ClassId> = Vec::new();
    let n_refused = decision.refusals.len();
    let mut sold_out = SoldOut::of(&cluster);
    for (left, share) in solution.unschedulable.iter().zip(&assignment.unschedulable).filter(|(left, _)| left.count > 0)
    {
        let kind = assignment.kind(*share);
        let objects = assignment.members(*share).map(|member| answer.member(kind, &member.to_string())).collect();
        let reasons = allocation.reasons(left, &cluster, &universe).map(|(text, n)| (text.to_owned(), n));
        let of_sold_out = sold_out.reason(left.class, &universe).map(|text| (text, 0));
        decision.refusals.push(Refusal { objects, reasons: reasons.chain(of_sold_out).collect() });
        refused.push(left.class);
    }
    give_later_places(&mut decision, state);
    let kept = if refused.is_empty() { KeptForMoves::default() } else { KeptForMoves::of(&answer, &decision) };
    for (refusal, class) in decision.refusals.iter_mut().skip(n_refused).zip(refused) {
        refusal.reasons.extend(kept.reason(class, &cluster, &universe).map(|text| (text, 0)));
    }
    Ok(decision)
}

/// What a whole cluster comes to.
struct Whole {
    cluster: Cluster,
    universe: Universe,
    solution: Solution,
    allocation: Allocation,
}

// === impl Whole ===

impl Whole {
    fn solve(mut cluster: Cluster, options: &Options, launching: Option<&Launching>) -> Self {
        cluster.sort_nodes();
        let launching = launching.cloned().unwrap_or_else(|| Launching::new(&cluster));
        let (universe, solution, allocation) = if options.launches {
            allocation::solve_beside(&mut cluster, &options.solve, &launching, options.placing(), None)
        } else {
            let mut existing = existing::bind(&mut cluster, &launching, options.placing());
            // Who is to come later is told where launches are decided.
            existing.settled.clear();
            (Universe::default(), Solution::default(), Allocation::of_existing(existing))
        };
        Whole { cluster, universe, solution, allocation }
    }

    /// Pods of one class that must be together, and of which no node has room for all: those that the plan has on a node that is up, by
    /// its name. Where the plan has others of the class on nodes that are not up yet, all of them wait for these.
    fn in_part(&self) -> BTreeMap<Arc<str>, BTreeSet<Box<str>>> {
        let Whole { cluster, universe, solution, .. } = self;
        let is_together = |rule: &Constraint| matches!(rule, Constraint::Affinity { counts_self: true, .. });
        let may_come = |class: ClassId| universe.class(class).is_some_and(|of| of.required.iter().any(is_together));
        let is_up = |at: usize| cluster.nodes.get(at).is_some_and(Node::is_up);
        let (up, coming): (Vec<_>, Vec<_>) =
            solution.nodes.iter().enumerate().partition(|(_, entry)| is_up(entry.node));
        let mut found = BTreeMap::new();
        if !up.iter().flat_map(|(_, entry)| &entry.contents).any(|(class, _)| may_come(*class)) {
            return found;
        }
        let later = coming.iter().flat_map(|(_, entry)| &entry.contents);
        let later = later.chain(solution.claims.iter().flat_map(|claims| &claims.contents));
        let later: BTreeSet<ClassId> = later.map(|(class, _)| *class).collect();
        let assignment = Assignment::new(cluster, universe, solution);
        for (at, entry) in up {
            let name = cluster.nodes.get(entry.node).map_or("", |node| cluster.symbols.text(node.name));
            let shares = assignment.nodes.get(at).into_iter().flatten();
            for share in shares.filter(|share| may_come(share.class) && !later.contains(&share.class)) {
                let names = assignment.members(*share).map(|member| member.to_string().into());
                found.entry(name.into()).or_insert_with(BTreeSet::new).extend(names);
            }
        }
        found
    }

    fn n_left(&self) -> u64 {
        self.solution.unschedulable.iter().map(|left| u64::from(left.count)).sum()
    }
}

impl Answer<'_> {
    /// What goes to nodes that are up, and who gives way there.
    fn existing(&self, decision: &mut Decision) -> Result<(), DecideError> {
        let mut on_nodes: Vec<_> = self.allocation.on_existing().collect();
        on_nodes
            .sort_by_key(|(node, _)| self.cluster.nodes.get(*node).map(|node| self.cluster.symbols.text(node.name)));
        let named = self.named_as_expected(&on_nodes);
        if let Some(named) = &named {
            on_nodes = named.iter().map(|(node, placements)| (*node, &placements[..])).collect();
        }
        let victims = self.allocation.all_preempted().flat_map(|(_, pods)| pods).map(|pod| &**pod);
        let placed = on_nodes.iter().flat_map(|(node, placements)| placements.iter().map(move |own| (*node, own)));
        let coming = placed.filter_map(|(node, placement)| {
            let (namespace, name) = placement.name.split_once('/').filter(|_| placement.kind == MemberKind::Pod)?;
            let object = self.member(placement.kind, &placement.name);
            let waits = placement.waits_for_room || !self.allocation.preempted(node).is_empty();
            let comes_now = !waits && self.is_bound_here(&object) && !self.is_yet_to_be_remade(&object);
            let node = self.cluster.nodes.get(node).filter(|_| comes_now)?;
            Some((namespace, name, self.cluster.symbols.text(node.name)))
        });
        let leaving = if on_nodes.is_empty() { None } else { Some(Leaving::of(self.state, victims).beside(coming)) };
        let mut placed = Vec::new();
        for (node, placements) in on_nodes {
            let gives_way = !self.allocation.preempted(node).is_empty();
            for placement in placements {
                let after_evictions = gives_way || placement.waits_for_room;
                placed.push(self.placed(node, placement, (after_evictions, leaving.as_ref())));
            }
        }
        self.come_where_nobody_leaves(&mut placed, leaving.as_ref());
        self.leave_places_of_next(&mut placed, leaving.as_ref());
        self.await_others(&mut placed, leaving.as_ref());
        while self.keep_held_room(&mut placed) {
            self.await_others(&mut placed, leaving.as_ref());
        }
        // In the order of the decision spreads hold after each binding, too, not after all of them alone.
        placed.sort_by_key(|placed| placed.placement.nth);
        for placed in placed {
            self.place(placed, decision)?;
        }
        // Owners come before those who use what their Reservations give up.
        decision.bindings.sort_by_key(|binding| (binding.object.key.kind == Kind::Pod, binding.draws_from.is_none()));
        let kind = |name: &str| if name.contains('/') { MemberKind::Pod } else { MemberKind::Reservation };
        for (name, node) in self.allocation.settled() {
            let object = self.member(kind(name), name);
            let moves = object.key.kind == Kind::Pod && self.is_yet_to_be_remade(&object);
            let of_kind = if moves { &mut decision.moves } else { &mut decision.nominations };
            of_kind.push(Nomination {
                object,
                node: self.node(*node),
                draws_from: None,
                after_evictions: false,
                waits_for: None,
                is_kept_out: true,
            });
        }
        for (node, pods) in self.allocation.all_preempted().filter(|(node, _)| self.makes_way_on(*node)) {
            let evicted = pods.iter().map(|pod| self.member(MemberKind::Pod, pod));
            decision.evictions.extend(evicted.map(|pod| Eviction { pod, node: self.node(node) }));
        }
        Ok(())
    }

    /// Whether any who is bound here makes others give way on a node. Those of another scheduler are evicted by that one,
    /// which may well choose others.
    fn makes_way_on(&self, node: usize) -> bool {
        let mut waiting = self.allocation.placed_on(node).iter().filter(|placement| placement.waits_for_room);
        waiting.any(|placement| {
            if placement.kind == MemberKind::Reservation {
                return true;
            }
            let pod = self.member(placement.kind, &placement.name);
            // For one that runs yet nobody gives way: a budget may keep it where it is.
            self.is_bound_here(&pod) && !self.is_yet_to_be_remade(&pod)
        })
    }

    /// What becomes of who is placed on a node.
    fn placed<'p>(
        &self,
        node: usize,
        placement: &'p Placement,
        (after_evictions, leaving): (bool, Option<&Leaving<'_>>),
    ) -> Placed<'p> {
        let object = self.member(placement.kind, &placement.name);
        let is_pod = placement.kind == MemberKind::Pod;
        let node = self.node(node);
        let (namespace, name) = (&object.key.namespace, &object.key.name);
        let mut waits_for = None;
        let comes = if is_pod && self.is_yet_to_be_remade(&object) {
            Comes::Next { after_evictions }
        } else if is_pod && !self.is_bound_here(&object) {
            Comes::ByAnother
        } else if after_evictions {
            Comes::AfterEvictions
        } else {
            let of_pods = leaving.filter(|_| is_pod);
            waits_for = of_pods.and_then(|pods| pods.keeps_off(namespace, name, &node.key.name)).map(Into::into);
            // It is bound once they have stopped; nothing is launched for it meanwhile.
            if waits_for.is_some() { Comes::Later } else { Comes::Now }
        };
        Placed { object, node, placement, comes, waits_for }
    }

    fn place(&self, placed: Placed<'_>, decision: &mut Decision) -> Result<(), DecideError> {
        let Placed { object, node, placement, comes, waits_for } = placed;
        let is_pod = placement.kind == MemberKind::Pod;
        let of_kind = match comes {
            Comes::Next { after_evictions: true } => return Ok(()),
            Comes::Next { .. } => Some(&mut decision.moves),
            Comes::ByAnother | Comes::AfterEvictions | Comes::Later => Some(&mut decision.nominations),
            Comes::Now => None,
        };
        if let Some(of_kind) = of_kind {
            let after_evictions = comes == Comes::AfterEvictions;
            of_kind.push(Nomination { object, node, draws_from: None, after_evictions, waits_for, is_kept_out: false });
            return Ok(());
        }
        let draws_from = placement.draws_from.and_then(|id| self.cluster.reservation(id));
        let draws_from = draws_from.map(|known| self.room(known));
        let own = crate::annotations(&placement.assigned, self.cluster);
        let own = own
            .map_err(|error| DecideError::Annotations { object: object.clone(), message: error.to_string().into() })?;
        let mut annotations: BTreeMap<String, String> =
            own.into_iter().map(|(key, value)| (key.to_owned(), value)).collect();
        if let Some(reservation) = &draws_from {
            let uid = reservation.uid.as_deref().unwrap_or_default();
            let allocated = serde_json::json!({"name": &*reservation.key.name, "uid": uid});
            annotations.insert(RESERVATION_ALLOCATED.to_owned(), allocated.to_string());
        }
        let waits = !is_pod && self.waits(&placement.name);
        decision.bindings.push(Binding { object, node, draws_from, annotations, waits });
        Ok(())
    }

    fn waits(&self, reservation: &str) -> bool {
        let name = self.cluster.symbols.get(reservation);
        let known = self.cluster.reservations.iter().find(|known| Some(known.name) == name);
        known.is_some_and(|known| known.phase == Phase::Waiting)
    }
}
