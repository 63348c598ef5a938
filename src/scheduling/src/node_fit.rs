//! What nodes that exist say to a pod, topology aside: the one question that scheduler, planner and explanations ask.

use std::borrow::Cow;
use std::ops::Deref;

use berth_model::{
    AllocatePolicy, Assigned, ClassId, Holding, MemberKind, Node, NodeEdit, NodeState, Phase, PodSpec, Reservation,
    ReservationId, Snapshot, Units, UnitsAsk,
};
use smallvec::SmallVec;

use crate::filter::{self, Obstacle};
use crate::node_tables::NodeTables;
use crate::reasons::Insufficient;
use crate::reservation::{
    Claim, Fit, Lack, NodeOffer, Seeker, fit, gives_any, may_draw_from, may_share_node, nominate, score,
};
use crate::units::{Given, UnitsLack, assign};

/// The nodes of a snapshot, to be asked.
#[derive(Clone, Copy, Debug)]
pub struct NodeFit<'w> {
    pub(crate) tables: &'w NodeTables<'w>,
    pub(crate) state: &'w Snapshot,
}

impl<'w> Deref for NodeFit<'w> {
    type Target = NodeTables<'w>;

    fn deref(&self) -> &NodeTables<'w> {
        self.tables
    }
}

/// A node in the eyes of a class.
#[derive(Clone, Debug)]
pub(crate) struct Seen<'w> {
    /// Without the ports and volumes of Reservations that the class may draw from, and without their pods; what they
    /// hold is not free all the same.
    pub(crate) state: Cow<'w, NodeState>,
    /// The positions of those Reservations among the holdings.
    pub(crate) matched: SmallVec<[usize; 2]>,
}

/// What a node offers to a class beside free room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Offer {
    /// The Reservation that a pod would draw from.
    pub(crate) reservation: ReservationId,
    pub(crate) node: NodeOffer,
}

impl Seen<'_> {
    /// The node as it is scored: what the class may draw is as good as free.
    pub(crate) fn scored(&self) -> Cow<'_, NodeState> {
        if self.matched.is_empty() {
            return Cow::Borrowed(&*self.state);
        }
        let mut state = self.state.clone().into_owned();
        for holding in self.matched.iter().filter_map(|&at| self.state.holdings.get(at)) {
            state.free.add(&holding.available());
        }
        Cow::Owned(state)
    }

    /// A clone to change, which keeps what is matched.
    pub(crate) fn to_owned(&self) -> Seen<'static> {
        Seen { state: Cow::Owned(self.state.clone().into_owned()), matched: self.matched.clone() }
    }
}

fn owns(spec: &PodSpec, reservation: ReservationId) -> bool {
    spec.reservation.owner_of.binary_search(&reservation).is_ok()
}

impl NodeTables<'_> {
    /// What the nodes of a snapshot say to pods.
    pub fn fit<'w>(&'w self, state: &'w Snapshot) -> NodeFit<'w> {
        NodeFit { tables: self, state }
    }
}

// === impl NodeFit ===

impl<'w> NodeFit<'w> {
    pub(crate) fn reservation(&self, id: ReservationId) -> Option<&'w Reservation> {
        self.tables.cluster.reservation(id)
    }

    /// A node as pods of this spec see it.
    pub(crate) fn seen(&self, node: usize, spec: &PodSpec) -> Option<Seen<'w>> {
        let state = self.state.node(node)?;
        let matched = self.matched(node, state, spec);
        if matched.is_empty() {
            return Some(Seen { state: Cow::Borrowed(state), matched });
        }
        let mut cleared = state.clone();
        let mut edit = NodeEdit::unrecorded(&mut cleared);
        for holding in matched.iter().filter_map(|&at| state.holdings.get(at)) {
            let Some(reservation) = self.reservation(holding.reservation) else { continue };
            edit.detach(&reservation.host_ports, &reservation.volumes);
            for counter in self.tables.stand_in_counters((holding.reservation, holding.stand_in()), node) {
                edit.subtract_on_host(counter, 1);
            }
        }
        Some(Seen { state: Cow::Owned(cleared), matched })
    }

    // Who ignores Reservations matches all of them, and draws from none.
    fn matched(&self, node: usize, state: &NodeState, spec: &PodSpec) -> SmallVec<[usize; 2]> {
        let ask = &spec.reservation;
        if state.holdings.is_empty() || (ask.owner_of.is_empty() && !ask.ignores) {
            return SmallVec::new();
        }
        let Some(labels) = self.cluster.node(node).map(|node| &node.labels) else { return SmallVec::new() };
        let holdings = state.holdings.iter().enumerate();
        let is_matched = |holding: &Holding| {
            let reservation = self.reservation(holding.reservation);
            ask.ignores
                || reservation.is_some_and(|reservation| {
                    let seeker = Seeker { is_owner: owns(spec, holding.reservation), spec };
                    may_draw_from(&seeker, reservation, holding, labels, &self.cluster.symbols).is_ok()
                })
        };
        holdings.filter(|(_, holding)| is_matched(holding)).map(|(at, _)| at).collect()
    }

    /// NodeResourcesFit with Reservations: what a node offers to draw from, if anything, to pods that it has room for.
    pub(crate) fn room(&self, node: usize, seen: &Seen<'_>, spec: &PodSpec) -> Result<Option<Offer>, Obstacle> {
        let insufficient = |free: &berth_model::Resources| {
            let insufficient = Insufficient::of(&spec.requests, free);
            let allocatable = self.cluster.node(node).map(|node| &node.allocatable);
            let exceeds_node = allocatable.is_some_and(|has| insufficient.exceeds(&spec.requests, has));
            Obstacle::Resources(insufficient, exceeds_node)
        };
        let state = &*seen.state;
        if spec.reservation.ignores && !seen.matched.is_empty() {
            let free = state.room().free_ignoring();
            return if spec.requests.fits(&free) {
                self.given(node, state, spec, None).map(|_| None).map_err(Obstacle::Units)
            } else {
                Err(insufficient(&free))
            };
        }
        let affinity = spec.reservation.affinity.as_ref();
        if seen.matched.is_empty() {
            if affinity.is_some() {
                return Err(Obstacle::NoReservation);
            }
            return if spec.requests.fits(&state.free) {
                self.given(node, state, spec, None).map(|_| None).map_err(Obstacle::Units)
            } else {
                Err(insufficient(&state.free))
            };
        }
        let claim = Claim {
            requests: &spec.requests,
            must_draw: affinity.is_some(),
            is_named: affinity.is_some_and(|affinity| affinity.name.is_some()),
            ignored: &self.rules.ignored,
        };
        match fit(state.room(), &seen.matched, &claim) {
            Fit::Draws(mut serving) => {
                // A Reservation that has nothing left gives a pod no more than free room would.
                serving.retain(|&at| claim.must_draw || state.holdings.get(at).is_some_and(|own| gives_any(own, spec)));
                let mut lack = None;
                serving.retain(|&at| {
                    let from = state.holdings.get(at).map(|holding| holding.reservation);
                    match self.given(node, state, spec, from) {
                        Ok(given) => claim.must_draw || given.draws,
                        Err(why) => {
                            lack = Some(why);
                            false
                        }
                    }
                });
                if let Some(offer) = self.offer(state, &serving, spec) {
                    return Ok(Some(offer));
                }
                if let Some(lack) = lack.as_ref().filter(|_| claim.must_draw) {
                    return Err(Obstacle::Units(lack.clone()));
                }
                if !spec.requests.fits(&state.free) {
                    return Err(lack.map_or_else(|| insufficient(&state.free), Obstacle::Units));
                }
                self.given(node, state, spec, None).map(|_| None).map_err(Obstacle::Units)
            }
            Fit::FreeRoom => self.given(node, state, spec, None).map(|_| None).map_err(Obstacle::Units),
            Fit::Refused(lacks) => {
                let allocatable = self.cluster.node(node).map(|node| &node.allocatable);
                let exceeds = |lack: &Lack| {
                    lack.resource().is_some_and(|id| {
                        allocatable.is_some_and(|allocatable| spec.requests.get(id) > allocatable.get(id))
                    })
                };
                let exceeds_node = lacks.iter().any(exceeds);
                Err(Obstacle::Reservations(lacks, exceeds_node))
            }
        }
    }

    /// Which CPUs and devices a pod gets on a node to itself that draws from a Reservation there, or from none.
    pub(crate) fn given(
        &self,
        node: usize,
        state: &NodeState,
        spec: &PodSpec,
        from: Option<ReservationId>,
    ) -> Result<Given, UnitsLack> {
        let fixed = self.cluster.node(node);
        let asks = |node: &&Node| !spec.units.is_empty() || node.units.policy.is_some();
        let Some(fixed) = fixed.filter(|node| asks(node) && !node.units.is_unknown) else {
            return Ok(Given { assigned: Assigned::default(), draws: true });
        };
        if spec.units.cpus > 0 && fixed.units.cpus.is_empty() && self.reports_cpus > 0 {
            return Err(UnitsLack::Topology);
        }
        if fixed.units.numa.is_empty() && self.reports_numa == 0 {
            let ask = UnitsAsk { policy: None, ..spec.units.clone() };
            let units = Units { policy: None, ..fixed.units.clone() };
            return assign(&units, &state.units, &ask, &spec.requests, from);
        }
        assign(&fixed.units, &state.units, &spec.units, &spec.requests, from)
    }

    fn offer(&self, state: &NodeState, serving: &[usize], spec: &PodSpec) -> Option<Offer> {
        let cluster = self.cluster;
        let at = nominate(state.room(), serving, &spec.requests, &cluster.reservations, &cluster.symbols)?;
        let holding = state.holdings.get(at)?;
        let order = |at: &usize| self.reservation(state.holdings.get(*at)?.reservation)?.order;
        let lowest_order = serving.iter().filter_map(order).min();
        let node = NodeOffer { nominated: Some(score(holding, &spec.requests)), lowest_order };
        Some(Offer { reservation: holding.reservation, node })
    }

    /// What the Reservation that a class stands in for, or is, says of a node beside what its pod says.
    pub(crate) fn reserve_obstacle(&self, id: ClassId, node: usize) -> Option<Obstacle> {
        let class = self.universe.class(id)?;
        let ask = &self.cluster.spec(class.spec)?.reservation;
        // Those of a class are alike in all that matters for their node.
        let reservation = ask.reserves.filter(|_| class.kind == MemberKind::Reservation);
        let reservation = reservation.and_then(|id| self.reservation(id));
        let pinned = reservation.filter(|known| known.phase == Phase::Pending).and_then(|known| known.node);
        if pinned.is_some_and(|name| self.cluster.node(node).is_none_or(|node| node.name != name)) {
            return Some(Obstacle::OtherNode);
        }
        let policy = reservation.map(|known| known.policy).or(ask.operates.then_some(AllocatePolicy::Aligned))?;
        let holdings = self.state.node(node).map_or(&[][..], |state| &state.holdings);
        (!may_share_node(policy, holdings)).then_some(Obstacle::PolicyConflict)
    }

    /// Whether ReadWriteOncePod claims of a pod are in use, but for what is held for it on the node.
    pub(crate) fn is_claim_taken(&self, seen: &Seen<'_>, spec: &PodSpec) -> bool {
        spec.volumes.exclusive_claims.iter().any(|&claim| {
            let mine = seen.matched.iter().filter_map(|&at| seen.state.holdings.get(at));
            let mine = mine.filter(|holding| self.holds_claim(holding.reservation, claim)).count();
            self.state.claim_users(claim) as usize > mine
        })
    }

    pub(crate) fn holds_claim(&self, reservation: ReservationId, claim: berth_model::Sym) -> bool {
        self.reservation(reservation).is_some_and(|known| known.volumes.exclusive_claims.contains(&claim))
    }

    /// What keeps a pod of a class off a node as far as what is on it tells: ports, room, CPUs and devices, disks, claims,
    /// attachments, and what a Reservation asks of its node. Taints, labels and topology are not looked at.
    pub fn load_obstacle(&self, id: ClassId, node: usize) -> Option<Obstacle> {
        let (_, spec) = self.class_and_spec(id)?;
        let (fixed, seen) = (self.cluster.node(node)?, self.seen(node, spec)?);
        self.reserve_obstacle(id, node).or_else(|| {
            let room = || self.room(node, &seen, spec).err();
            filter::load(fixed, spec, &seen.state, room, || self.is_claim_taken(&seen, spec))
        })
    }

    /// Whether all that a pod may have on a node is free room: no Reservation there matters to it, and none of the CPUs
    /// and devices, nor of volumes that are there, is given out one by one. Pods of one shape can be counted then, not bound one after another.
    pub fn is_plain(&self, spec: &PodSpec, node: usize) -> bool {
        let (Some(fixed), Some(state)) = (self.cluster.node(node), self.state.node(node)) else {
            return true;
        };
        let ask = &spec.reservation;
        let asks_reservations = !ask.owner_of.is_empty() || ask.ignores || ask.affinity.is_some();
        let Units { cpus, devices, numa, policy, is_unknown, .. } = &fixed.units;
        let says_nothing = cpus.is_empty() && devices.is_empty() && numa.is_empty();
        let has_units = !says_nothing && !is_unknown;
        (state.holdings.is_empty() || !asks_reservations)
            && spec.volumes.kept.is_empty()
            && ask.affinity.is_none()
            && (!has_units || (spec.units.is_empty() && policy.is_none()))
    }

    /// From which Reservation a pod would draw on a node.
    pub(crate) fn draws_on(&self, spec: &PodSpec, node: usize) -> Option<ReservationId> {
        if spec.reservation.owner_of.is_empty() {
            return None;
        }
        let seen = self.seen(node, spec)?;
        Some(self.room(node, &seen, spec).ok()??.reservation)
    }

    /// The CPUs and devices that a pod gets now.
    pub(crate) fn assigned_on(&self, spec: &PodSpec, node: usize, draws_from: Option<ReservationId>) -> Assigned {
        let Some(state) = self.state.node(node) else { return Assigned::default() };
        self.given(node, state, spec, draws_from).map(|given| given.assigned).unwrap_or_default()
    }
}
