//! Which Reservation a pod draws from, and which node it prefers for that.

use std::cmp::Reverse;

use berth_model::{
    Cluster, Holding, Labels, PodSpec, Reservation, ReservationId, ResourceId, Resources, Room, Symbols,
};

use super::fit::{Claim, Fit, fit};
use super::matching::{Seeker, may_draw_from};

/// The weight of this score among those of kube-scheduler's plugins.
pub const WEIGHT: i64 = 5000;
/// The highest score of a node, as kube-scheduler's.
const MAX_SCORE: i64 = 100;
/// The score of the node with the lowest order label, before scores are normalised.
const MOST_PREFERRED: i64 = 1000;

/// How full the Reservation would be with a pod: the mean over what it reserves of 100 × (requested + allocated) /
/// reserved, a resource that overflows counting 0. Owners that fill a Reservation leave others whole.
pub fn score(holding: &Holding, requests: &Resources) -> i64 {
    let (mut sum, mut n) = (0_i64, 0_i64);
    for (resource, reserved) in holding.reserved().iter().filter(|(_, reserved)| *reserved > 0) {
        n += 1;
        let filled = i128::from(requests.get(resource)) + i128::from(holding.allocated().get(resource));
        if filled <= i128::from(reserved) {
            let percent = i128::from(MAX_SCORE) * filled.max(0) / i128::from(reserved);
            sum += i64::try_from(percent).unwrap_or(MAX_SCORE);
        }
    }
    if n == 0 { 0 } else { sum / n }
}

/// Of the holdings at these positions, which all could serve the pod, the one that it draws from: the lowest order
/// label, else the highest score, the earliest created, and the first name.
pub fn nominate<'a>(
    room: impl Into<Room<'a>>,
    serving: &[usize],
    requests: &Resources,
    reservations: &[Reservation],
    symbols: &Symbols,
) -> Option<usize> {
    let room = room.into();
    let key = |position: &usize| {
        let holding = room.holdings.get(*position)?;
        let reservation = reservations.get(holding.reservation.index())?;
        Some((
            reservation.order.unwrap_or(i64::MAX),
            Reverse(score(holding, requests)),
            reservation.created.unwrap_or(i64::MAX),
            symbols.text(reservation.name),
        ))
    };
    serving.iter().copied().filter(|position| key(position).is_some()).min_by_key(key)
}

/// Whether a Reservation has any left of what a pod requests. One that has not gives it no more than free room would.
pub fn gives_any(holding: &Holding, spec: &PodSpec) -> bool {
    let available = holding.available();
    let mut asked = spec.requests.iter().filter(|(id, amount)| *id != ResourceId::PODS && *amount > 0);
    asked.any(|(id, _)| available.get(id) > 0)
}

/// From which of the Reservations on a node of these labels a pod draws that comes to it, by index; `None` where none is
/// for it, or has any left. CPUs and devices are not looked at one by one.
pub fn draws_from(cluster: &Cluster, labels: &Labels, room: Room<'_>, spec: &PodSpec) -> Option<ReservationId> {
    let is_for = |(_, holding): &(usize, &Holding)| {
        let is_owner = spec.reservation.owner_of.binary_search(&holding.reservation).is_ok();
        let known = cluster.reservation(holding.reservation);
        let seeker = Seeker { is_owner, spec };
        known.is_some_and(|known| may_draw_from(&seeker, known, holding, labels, &cluster.symbols).is_ok())
    };
    let matched: Vec<usize> = room.holdings.iter().enumerate().filter(is_for).map(|(at, _)| at).collect();
    let affinity = spec.reservation.affinity.as_ref();
    let claim = Claim {
        requests: &spec.requests,
        must_draw: affinity.is_some(),
        is_named: affinity.is_some_and(|affinity| affinity.name.is_some()),
        ignored: &cluster.rules.ignored,
    };
    let Fit::Draws(mut serving) = fit(room, &matched, &claim) else { return None };
    serving.retain(|&at| claim.must_draw || room.holdings.get(at).is_some_and(|own| gives_any(own, spec)));
    let at = nominate(room, &serving, &spec.requests, &cluster.reservations, &cluster.symbols)?;
    room.holdings.get(at).map(|holding| holding.reservation)
}

/// What a node offers to a pod, as far as Reservations go.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct NodeOffer {
    /// The score of the Reservation that the pod would draw from; `None` where it draws from none.
    pub nominated: Option<i64>,
    /// The lowest order label among the Reservations that could serve it.
    pub lowest_order: Option<i64>,
}

/// Scores of nodes before they are normalised: that of the Reservation to draw from, and above all others those with
/// the lowest order label.
pub fn raw_scores(offers: &[NodeOffer]) -> Vec<i64> {
    let lowest = offers.iter().filter_map(|offer| offer.lowest_order).min();
    let is_preferred = |offer: &NodeOffer| lowest.is_some() && offer.lowest_order == lowest;
    let score = |offer: &NodeOffer| if is_preferred(offer) { MOST_PREFERRED } else { offer.nominated.unwrap_or(0) };
    offers.iter().map(score).collect()
}

/// Scores as parts of the highest, which becomes 100; all 0 where that is 0.
pub fn normalized(scores: &[i64]) -> Vec<i64> {
    let highest = scores.iter().copied().max().unwrap_or(0).max(0);
    scores.iter().map(|score| if highest == 0 { 0 } else { score.saturating_mul(MAX_SCORE) / highest }).collect()
}

/// The score of a node for a Reservation that is bound to running pods: the fewer it needs the better.
pub fn pre_allocation_score(n_pods: usize) -> i64 {
    MAX_SCORE / (1 + i64::try_from(n_pods).unwrap_or(i64::MAX - 1))
}

/// How much of the Reservation's resources a running pod would leave behind, by the same score.
pub fn candidate_score(reserved: &Resources, requests: &Resources) -> i64 {
    let (mut sum, mut n) = (0, 0);
    for (resource, reserved) in reserved.iter().filter(|(id, reserved)| *id != ResourceId::PODS && *reserved > 0) {
        n += 1;
        let requested = requests.get(resource);
        if requested <= reserved {
            let percent = i128::from(MAX_SCORE) * i128::from(requested.max(0)) / i128::from(reserved);
            sum += i64::try_from(percent).unwrap_or(MAX_SCORE);
        }
    }
    if n == 0 { 0 } else { sum / n }
}
