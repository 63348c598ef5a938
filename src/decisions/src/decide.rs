//! From a live state to a decision: solve, and say it in names and uids.

use std::collections::{BTreeMap, BTreeSet};

use berth_api::labels::koordinator::RESERVATION_ALLOCATED;
use berth_api::{Operator, Requirement, labels};
use berth_model::{Cluster, MemberKind, Phase, Universe};
use berth_provisioning::{Claims, Launching, Solution};
use berth_scheduling::{Placement, Queue};
use berth_state::{Kind, ObjectRef, State, Time};

use crate::allocation::{self, Allocation};
use crate::assignment::{Assignment, Share};
use crate::coming::{Comes, Placed};
use crate::decider::QUEUE;
use crate::decision::{
    Binding, DecideError, Decision, Eviction, Launch, Nomination, OfferingName, Refusal, ReservationDraw,
};
use crate::displaced::reference;
use crate::existing::{self, Existing};
use crate::expected::{ExpectedDrawers, ExpectedNodes};
use crate::held_room::KeptForMoves;
use crate::joining::PlannedNode;
use crate::leaving::Leaving;
use crate::terms;

/// What a caller may set.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// How nodes are planned.
    pub solve: berth_provisioning::Options,
    /// Whether nodes may be launched. Without, only those that are up are asked, which takes far less time, and nobody is
    /// refused.
    pub launches: bool,
    /// The schedulers whose pods are bound (`spec.schedulerName`); `None`: those of all. Pods of others are planned, and
    /// expected to be bound by their scheduler.
    pub scheduler_names: Option<BTreeSet<String>>,
    /// Pods and Reservations that nodes were launched for: they come to these, and no others are launched for them.
    pub expected: ExpectedNodes,
    /// Pods that were planned to draw from Reservations among them.
    pub drawers: ExpectedDrawers,
    /// Whether nobody gives way to others: who finds no room that is free needs a new node. So it is asked what would become of
    /// pods that run.
    pub spares_others: bool,
}

/// How pods are placed on nodes that exist: beside whom that nodes were launched for, and whether others give way.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Placing<'o> {
    pub(crate) expected: &'o ExpectedNodes,
    pub(crate) drawers: &'o ExpectedDrawers,
    pub(crate) spares_others: bool,
}

// === impl Options ===

impl Options {
    pub(crate) fn placing(&self) -> Placing<'_> {
        Placing { expected: &self.expected, drawers: &self.drawers, spares_others: self.spares_others }
    }
}

// === impl Placing ===

impl Placing<'_> {
    pub(crate) fn queue(self) -> Queue {
        Queue { preempts: !self.spares_others, ..QUEUE }
    }
}

/// Whether there is enough to decide from.
pub(crate) fn expect_synced(state: &State) -> Result<(), DecideError> {
    if state.is_synced() {
        return Ok(());
    }
    Err(DecideError::NotSynced { kinds: state.unlisted().collect(), cloud: !state.has_offerings() })
}

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
    decide_with(state, options, None, now)
}

/// Does the same with what is known of NodePools and catalogue, if that is.
pub(crate) fn decide_with(
    state: &mut State,
    options: &Options,
    launching: Option<&Launching>,
    now: Time,
) -> Result<Decision, DecideError> {
    expect_synced(state)?;
    let mut cluster = state.cluster(now).clone();
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
    let answer = Answer { state, options, cluster: &cluster, allocation: &allocation };
    let assignment = Assignment::new(&cluster, &universe, &solution);
    let mut decision = Decision::default();
    answer.existing(&mut decision)?;
    answer.planned_on_nodes(&assignment, &solution, &mut decision);
    for (at, (claims, shares)) in solution.claims.iter().zip(&assignment.claims).enumerate() {
        for copy in 0..claims.count {
            decision.launches.push(answer.launch(&assignment, claims, shares, (at, copy)));
        }
    }
    let is_any_left = solution.unschedulable.iter().any(|left| left.count > 0);
    let kept = if is_any_left { KeptForMoves::of(&answer, &decision) } else { KeptForMoves::default() };
    for (left, share) in solution.unschedulable.iter().zip(&assignment.unschedulable).filter(|(left, _)| left.count > 0)
    {
        let kind = assignment.kind(*share);
        let objects = assignment.members(*share).map(|member| answer.member(kind, &member.to_string())).collect();
        let reasons = allocation.reasons(left, &cluster, &universe).map(|(text, n)| (text.to_owned(), n));
        let of_kept_room = kept.reason(left.class, &cluster, &universe).map(|text| (text, 0));
        decision.refusals.push(Refusal { objects, reasons: reasons.chain(of_kept_room).collect() });
    }
    Ok(decision)
}

pub(crate) struct Answer<'a> {
    pub(crate) state: &'a State,
    pub(crate) options: &'a Options,
    pub(crate) cluster: &'a Cluster,
    pub(crate) allocation: &'a Allocation,
}

impl Answer<'_> {
    fn reference(&self, kind: Kind, namespace: &str, name: &str) -> ObjectRef {
        reference(self.state, kind, namespace, name)
    }

    /// A pod by `namespace/name`, or a Reservation by name.
    pub(crate) fn member(&self, kind: MemberKind, name: &str) -> ObjectRef {
        match (kind, name.split_once('/')) {
            (MemberKind::Pod, Some((namespace, name))) => self.reference(Kind::Pod, namespace, name),
            (MemberKind::Pod, None) => self.reference(Kind::Pod, "", name),
            (MemberKind::Reservation, _) => self.reference(Kind::Reservation, "", name),
        }
    }

    /// A node, or the NodeClaim that it is to be of.
    fn node(&self, index: usize) -> ObjectRef {
        let name = self.cluster.nodes.get(index).map_or("", |node| self.cluster.symbols.text(node.name));
        let node = self.reference(Kind::Node, "", name);
        let is_claim = !self.state.has(&node.key);
        if is_claim { self.reference(Kind::NodeClaim, "", name) } else { node }
    }

    /// Whether a pod is on no node yet, and one of those that are bound here.
    fn is_bound_here(&self, object: &ObjectRef) -> bool {
        let Some(pod) = self.state.pod(&object.key.namespace, &object.key.name) else { return false };
        self.options.scheduler_names.as_ref().is_none_or(|names| names.contains(pod.scheduler_name()))
    }

    /// Whether a pod is on a node already: one that goes away, and it is planned as it will be made anew.
    fn is_yet_to_be_remade(&self, object: &ObjectRef) -> bool {
        let pod = self.state.pod(&object.key.namespace, &object.key.name);
        pod.is_some_and(|pod| pod.node().is_some())
    }

    /// What goes to nodes that are up, and who gives way there.
    fn existing(&self, decision: &mut Decision) -> Result<(), DecideError> {
        let mut on_nodes: Vec<_> = self.allocation.on_existing().collect();
        on_nodes
            .sort_by_key(|(node, _)| self.cluster.nodes.get(*node).map(|node| self.cluster.symbols.text(node.name)));
        let victims = self.allocation.all_preempted().flat_map(|(_, pods)| pods).map(|pod| &**pod);
        let leaving = if on_nodes.is_empty() { None } else { Some(Leaving::of(self.state, victims)) };
        let mut placed = Vec::new();
        for (node, placements) in on_nodes {
            let gives_way = !self.allocation.preempted(node).is_empty();
            for placement in placements {
                let after_evictions = gives_way || placement.waits_for_room;
                placed.push(self.placed(node, placement, (after_evictions, leaving.as_ref())));
            }
        }
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
            of_kind.push(Nomination { object, node: self.node(*node), after_evictions: false, waits_for: None });
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
        match comes {
            Comes::Next { after_evictions: true } => return Ok(()),
            Comes::Next { after_evictions } => {
                decision.moves.push(Nomination { object, node, after_evictions, waits_for });
                return Ok(());
            }
            Comes::ByAnother | Comes::AfterEvictions | Comes::Later => {
                let after_evictions = comes == Comes::AfterEvictions;
                decision.nominations.push(Nomination { object, node, after_evictions, waits_for });
                return Ok(());
            }
            Comes::Now => {}
        }
        let draws_from = placement.draws_from.and_then(|id| self.cluster.reservation(id));
        let draws_from =
            draws_from.map(|known| self.member(MemberKind::Reservation, self.cluster.symbols.text(known.name)));
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

    /// What is planned on nodes beyond what goes there now: those that come up.
    pub(crate) fn planned_on_nodes(&self, assignment: &Assignment<'_>, solution: &Solution, decision: &mut Decision) {
        for (entry, shares) in solution.nodes.iter().zip(&assignment.nodes) {
            for share in shares {
                let kind = assignment.kind(*share);
                for member in assignment.members(*share) {
                    let object = self.member(kind, &member.to_string());
                    let moves = kind == MemberKind::Pod && self.is_yet_to_be_remade(&object);
                    let of_kind = if moves { &mut decision.moves } else { &mut decision.nominations };
                    let node = self.node(entry.node);
                    of_kind.push(Nomination { object, node, after_evictions: false, waits_for: None });
                }
            }
        }
    }

    pub(crate) fn launch(
        &self,
        assignment: &Assignment<'_>,
        claims: &Claims,
        shares: &[Share],
        (at, copy): (usize, u32),
    ) -> Launch {
        let cluster = self.cluster;
        let text = |sym| cluster.symbols.text(sym).to_owned();
        let type_name =
            |id: u32| cluster.instance_types.get(id as usize).map_or_else(String::new, |of_type| text(of_type.name));
        let pool = cluster.node_pools.get(claims.node_pool);
        let slots = claims.slots.and_then(|slots| cluster.slots.get(slots.index()));
        let offering = OfferingName {
            instance_type: type_name(claims.instance_type),
            zone: claims.zone.map(text),
            capacity_type: claims.capacity_type.name().to_owned(),
            reservation_id: slots.filter(|slots| slots.is_reservation).map(|slots| text(slots.id)),
            price: claims.price,
        };
        let instance_types: Vec<String> = claims.instance_types.iter().map(|&id| type_name(id)).collect();
        let mut requirements = terms::requirements(cluster, &claims.requirements);
        narrow_types(&mut requirements, &offering, &instance_types);
        forget_unreachable_counts(&mut requirements);
        let members = |kind: MemberKind| {
            let shares = shares.iter().filter(move |share| assignment.kind(**share) == kind);
            let names = shares.flat_map(move |share| assignment.members(share.of_node(copy)));
            names.map(move |member| self.member(kind, &member.to_string()))
        };
        let drawn = self.allocation.with(assignment, shares, copy, cluster);
        let mut pods: Vec<ObjectRef> = members(MemberKind::Pod).collect();
        pods.extend(drawn.iter().map(|also| self.member(MemberKind::Pod, also.name)));
        let joined: Vec<_> = self.allocation.joined(PlannedNode::Claim(at, copy), cluster).collect();
        let allocations = drawn.iter().chain(&joined).filter_map(|also| {
            let reservation = self.member(MemberKind::Reservation, also.draws_from?);
            Some(ReservationDraw { pod: self.member(MemberKind::Pod, also.name), reservation })
        });
        Launch {
            node_pool: self.reference(Kind::NodePool, "", pool.map_or("", |pool| cluster.symbols.text(pool.name))),
            instance_types,
            requirements,
            taints: terms::taints(cluster, pool.map_or(&[], |pool| &pool.taints)),
            requests: terms::quantities(cluster, &claims.requests)
                .into_iter()
                .map(|(name, amount)| (name.to_owned(), amount))
                .collect(),
            pods,
            reservations: members(MemberKind::Reservation).collect(),
            draws: allocations.collect(),
            offering,
        }
    }
}

/// minValues were counted before a slot was chosen: a NodeClaim whose values are fewer would be refused.
fn forget_unreachable_counts(requirements: &mut [Requirement]) {
    for requirement in requirements.iter_mut().filter(|known| known.operator == Operator::In) {
        let n_values = i64::try_from(requirement.values.len()).unwrap_or(i64::MAX);
        requirement.min_values = requirement.min_values.filter(|least| *least <= n_values);
    }
}

/// Names the instance types: all that may be launched, on a slot the one that the slot is of.
fn narrow_types(requirements: &mut Vec<Requirement>, offering: &OfferingName, instance_types: &[String]) {
    let mut values = if offering.reservation_id.is_some() || instance_types.is_empty() {
        vec![offering.instance_type.clone()]
    } else {
        instance_types.to_vec()
    };
    values.sort_unstable();
    let of_type = |requirement: &Requirement| requirement.key == labels::INSTANCE_TYPE;
    let min_values = requirements.iter().find(|known| of_type(known)).and_then(|known| known.min_values);
    requirements.retain(|known| !of_type(known));
    let at = requirements.partition_point(|known| known.key.as_str() < labels::INSTANCE_TYPE);
    let key = labels::INSTANCE_TYPE.to_owned();
    requirements.insert(at, Requirement { key, operator: Operator::In, values, min_values });
}
