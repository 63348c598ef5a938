//! Reservations on nodes, as one class sees them: those that it may draw from are out of its way, those of others hold
//! their room, ports and volumes, and count as pods of their templates.

use std::borrow::Cow;

use berth_model::{
    AllocatePolicy, Assigned, ClassId, CounterId, MemberKind, NodeState, Phase, PodSpec, Reservation, Units, UnitsAsk,
};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use super::index::World;
use super::shape::Shape;
use crate::filter::Obstacle;
use crate::reasons::Insufficient;
use crate::reservation::{
    Claim, Fit, NodeOffer, Seeker, fit, gives_any, may_draw_from, may_share_node, nominate, score,
};
use crate::units::{Given, UnitsLack, assign};

/// A node in the eyes of a class.
#[derive(Clone, Debug)]
pub(super) struct Seen<'w> {
    /// Without the ports and volumes of Reservations that the class may draw from, and without their pods; what they
    /// hold is not free all the same.
    pub(super) state: Cow<'w, NodeState>,
    /// The positions of those Reservations among the holdings.
    pub(super) matched: SmallVec<[usize; 2]>,
}

/// What a node offers to a class beside free room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Offer {
    /// The Reservation that a pod would draw from.
    pub(super) reservation: u32,
    pub(super) node: NodeOffer,
}

impl Seen<'_> {
    /// The node as it is scored: what the class may draw is as good as free.
    pub(super) fn scored(&self) -> Cow<'_, NodeState> {
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
    pub(super) fn to_owned(&self) -> Seen<'static> {
        Seen { state: Cow::Owned(self.state.clone().into_owned()), matched: self.matched.clone() }
    }
}

/// Pods that stand in for Reservations and do not count for a class that may draw from them.
#[derive(Clone, Debug, Default)]
pub(super) struct Discount {
    pub(super) by_domain: FxHashMap<(CounterId, berth_model::Sym), u32>,
    pub(super) total: FxHashMap<CounterId, u32>,
}

fn owns(spec: &PodSpec, reservation: u32) -> bool {
    spec.reservation.owner_of.binary_search(&reservation).is_ok()
}

impl<'w> World<'w> {
    pub(super) fn reservation(&self, id: u32) -> Option<&'w Reservation> {
        self.cluster.reservations.get(id as usize)
    }

    /// A node as pods of this spec see it.
    pub(super) fn seen(&self, node: usize, spec: &PodSpec) -> Option<Seen<'w>> {
        let state = self.state.nodes().get(node)?;
        let matched = self.matched(node, state, spec);
        if matched.is_empty() {
            return Some(Seen { state: Cow::Borrowed(state), matched });
        }
        let mut cleared = state.clone();
        for holding in matched.iter().filter_map(|&at| state.holdings.get(at)) {
            let Some(reservation) = self.reservation(holding.reservation) else { continue };
            cleared.detach(&reservation.host_ports, &reservation.volumes);
            if holding.stands_in() {
                for counter in self.stand_in_counters(holding.reservation, node) {
                    cleared.host_counts.subtract(counter, 1);
                }
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
        let Some(labels) = self.cluster.nodes.get(node).map(|node| &node.labels) else { return SmallVec::new() };
        let holdings = state.holdings.iter().enumerate();
        let is_matched = |holding: &berth_model::Holding| {
            let reservation = self.reservation(holding.reservation);
            ask.ignores
                || reservation.is_some_and(|reservation| {
                    let seeker = Seeker { is_owner: owns(spec, holding.reservation), spec };
                    may_draw_from(&seeker, reservation, holding, labels, &self.cluster.symbols).is_ok()
                })
        };
        holdings.filter(|(_, holding)| is_matched(holding)).map(|(at, _)| at).collect()
    }

    /// The counters by node in which a Reservation's pod counts on a node.
    pub(super) fn stand_in_counters(&self, reservation: u32, node: usize) -> Vec<CounterId> {
        let hostname = self.cluster.well_known.hostname;
        let counters = self.universe.reserved.get(reservation as usize).copied().flatten();
        let class = counters.and_then(|id| self.universe.class(id));
        let counters = class.map(|class| class.counts_in.iter().chain(&class.weighs_in)).into_iter().flatten();
        let is_on_host = |id: &CounterId| self.universe.counters.get(id.index()).is_some_and(|c| c.key == hostname);
        counters.copied().filter(|id| is_on_host(id) && self.counts_on(*id, node)).collect()
    }

    /// NodeResourcesFit with Reservations: what a node offers to draw from, if anything, to pods that it has room for.
    pub(super) fn room(&self, node: usize, seen: &Seen<'_>, spec: &PodSpec) -> Result<Option<Offer>, Obstacle> {
        let insufficient = |free: &berth_model::Resources| {
            let insufficient = Insufficient::of(&spec.requests, free);
            let allocatable = self.cluster.nodes.get(node).map(|node| &node.allocatable);
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
                let allocatable = self.cluster.nodes.get(node).map(|node| &node.allocatable);
                let exceeds = |lack: &crate::reservation::Lack| {
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
    pub(super) fn given(
        &self,
        node: usize,
        state: &NodeState,
        spec: &PodSpec,
        from: Option<u32>,
    ) -> Result<Given, UnitsLack> {
        let fixed = self.cluster.nodes.get(node);
        let Some(fixed) = fixed.filter(|node| !spec.units.is_empty() || node.units.policy.is_some()) else {
            return Ok(Given { assigned: Assigned::default(), draws: true });
        };
        if spec.units.cpus > 0 && fixed.units.cpus.is_empty() && self.reports_cpus {
            return Err(UnitsLack::Topology);
        }
        if fixed.units.numa.is_empty() && !self.reports_numa {
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
    pub(super) fn reserve_obstacle(&self, id: ClassId, node: usize) -> Option<Obstacle> {
        let class = self.universe.class(id)?;
        let ask = &self.cluster.specs.get(class.spec as usize)?.reservation;
        // Those of a class are alike in all that matters for their node.
        let reservation = ask.reserves.filter(|_| class.kind == MemberKind::Reservation);
        let reservation = reservation.and_then(|id| self.reservation(id));
        let pinned = reservation.filter(|known| known.phase == Phase::Pending).and_then(|known| known.node);
        if pinned.is_some_and(|name| self.cluster.nodes.get(node).is_none_or(|node| node.name != name)) {
            return Some(Obstacle::OtherNode);
        }
        let policy = reservation.map(|known| known.policy).or(ask.operates.then_some(AllocatePolicy::Aligned))?;
        let holdings = self.state.nodes().get(node).map_or(&[][..], |state| &state.holdings);
        (!may_share_node(policy, holdings)).then_some(Obstacle::PolicyConflict)
    }

    /// Whether ReadWriteOncePod claims of a pod are in use, but for what is held for it on the node.
    pub(super) fn is_claim_taken(&self, seen: &Seen<'_>, spec: &PodSpec) -> bool {
        spec.volumes.exclusive_claims.iter().any(|&claim| {
            let mine = seen.matched.iter().filter_map(|&at| seen.state.holdings.get(at));
            let mine = mine.filter(|holding| self.holds_claim(holding.reservation, claim)).count();
            self.state.claim_users(claim) as usize > mine
        })
    }

    pub(super) fn holds_claim(&self, reservation: u32, claim: berth_model::Sym) -> bool {
        self.reservation(reservation).is_some_and(|known| known.volumes.exclusive_claims.contains(&claim))
    }

    /// The holdings anywhere that a class may draw from: node and Reservation.
    pub(super) fn owned<'s>(&'s self, spec: &'s PodSpec) -> impl Iterator<Item = (usize, u32)> + 's {
        let held = spec.reservation.owner_of.iter().filter_map(|&reservation| {
            let node = self.places.get(reservation as usize).copied().flatten()?;
            Some((node as usize, reservation))
        });
        held.filter(|&(node, reservation)| {
            let (Some(fixed), Some(state)) = (self.cluster.nodes.get(node), self.state.nodes().get(node)) else {
                return false;
            };
            let (Some(holding), Some(known)) = (state.holding(reservation), self.reservation(reservation)) else {
                return false;
            };
            let seeker = Seeker { is_owner: true, spec };
            may_draw_from(&seeker, known, holding, &fixed.labels, &self.cluster.symbols).is_ok()
        })
    }

    /// What does not count for a class.
    pub(super) fn discount_of(&self, shape: &Shape<'_>) -> Discount {
        if shape.is_free() || shape.spec.reservation.owner_of.is_empty() {
            return Discount::default();
        }
        self.discount(shape.spec)
    }

    // What is counted of Reservations that a class may draw from.
    fn discount(&self, spec: &PodSpec) -> Discount {
        let mut discount = Discount::default();
        let hostname = self.cluster.well_known.hostname;
        for (node, reservation) in self.owned(spec) {
            let Some(fixed) = self.cluster.nodes.get(node) else { continue };
            let holding = self.state.nodes().get(node).and_then(|state| state.holding(reservation));
            let class = self.universe.reserved.get(reservation as usize).copied().flatten();
            let class = class.and_then(|id| self.universe.class(id));
            let Some(class) = class.filter(|_| holding.is_some_and(berth_model::Holding::stands_in)) else { continue };
            for &counter in class.counts_in.iter().chain(&class.weighs_in) {
                if !self.counts_on(counter, node) {
                    continue;
                }
                let Some(key) = self.universe.counters.get(counter.index()).map(|c| c.key) else { continue };
                if key == hostname {
                    *discount.total.entry(counter).or_default() += 1;
                } else if let Some(domain) = fixed.labels.get(key) {
                    *discount.total.entry(counter).or_default() += 1;
                    *discount.by_domain.entry((counter, domain)).or_default() += 1;
                }
            }
        }
        discount
    }
}
