//! Binding a Reservation to pods that already run, to inherit the room that they free.

use std::cmp::Reverse;

use berth_model::{
    AllocatePolicy, PreAllocation, PreAllocationMode, PreAllocationSettings as Settings, Reservation, ResourceId,
    Resources, Room,
};

use super::choice::{candidate_score, pre_allocation_score};
use super::fit::Lack;
use super::reasons;

/// A pod on the node that a Reservation could be bound to: one that its owners describe, or in mode Cluster one that
/// the cluster's label marks.
#[derive(Clone, Copy, Debug)]
pub struct Candidate<'a> {
    /// `namespace/name`, by which ties are broken.
    pub name: &'a str,
    /// Its requests, one of `pods` included.
    pub requests: &'a Resources,
    /// The value of the priority annotation, in mode Cluster; 0 where it has none.
    pub priority: i64,
    /// Whether it draws from a Reservation already: no pod is bound twice.
    pub is_bound: bool,
}

/// How a Reservation would be placed on a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Binding {
    /// The pods that it is bound to, by position; none where free room is enough. With any, it is Waiting until they
    /// have gone, and binding them does not spend `allocateOnce`.
    pub pods: Vec<usize>,
    /// The node's score.
    pub score: i64,
}

/// Why a Reservation cannot be bound on a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// A reason that is told as it is.
    Reason(&'static str),
    /// What is lacking.
    Lacks(Vec<Lack>),
}

/// Binds a Reservation that pre-allocates to running pods of a node, or to none where free room is enough.
///
/// A Restricted Reservation is bound only to pods that it can hold; others may be smaller than the pods they are bound
/// to. Candidates are tried by priority in mode Cluster, then by how much of the Reservation they would fill, then by
/// name. With `is_multiple` they are added up until the Reservation fits, passing over those that would exceed a
/// Restricted one.
pub fn bind<'a>(
    room: impl Into<Room<'a>>,
    reservation: &Reservation,
    how: PreAllocation,
    candidates: &[Candidate<'_>],
    settings: Settings,
) -> Result<Binding, Refusal> {
    let room = room.into();
    if how.mode == PreAllocationMode::Cluster && !settings.cluster_mode {
        return Err(Refusal::Reason(reasons::CLUSTER_MODE_DISABLED));
    }
    let mut wants = reservation.allocatable.clone();
    wants.set(ResourceId::PODS, wants.get(ResourceId::PODS).max(1));
    let lacks = |freed: &Resources| -> Vec<Lack> {
        let short = wants.iter().filter(|&(id, amount)| amount > room.free.get(id).saturating_add(freed.get(id)));
        short.map(|(id, _)| Lack::ByNode(id)).collect()
    };
    let alone = lacks(&Resources::new());
    let needs_none = alone.is_empty() && !how.is_required;
    let none = Binding { pods: Vec::new(), score: if how.is_multiple { pre_allocation_score(0) } else { 0 } };
    if needs_none && settings.prefers_free_room {
        return Ok(none);
    }
    let tried = in_order(&wants, how.mode, candidates);
    if tried.is_empty() && how.is_required {
        return Err(Refusal::Reason(reasons::NO_POD_TO_BIND));
    }
    let mut last = None;
    let found = if how.is_multiple {
        several(reservation, &tried, lacks, &mut last)
    } else {
        one(reservation, &tried, lacks, &mut last)
    };
    match found {
        Some(pods) if how.is_multiple => Ok(Binding { score: pre_allocation_score(pods.len()), pods }),
        Some(pods) => {
            let chosen = pods.first().and_then(|&position| candidates.get(position));
            Ok(Binding { score: chosen.map_or(0, |chosen| candidate_score(&wants, chosen.requests)), pods })
        }
        None if needs_none => Ok(none),
        None => match last {
            Some(lacks) => Err(Refusal::Lacks(lacks)),
            None if how.is_required => Err(Refusal::Reason(reasons::NO_POD_MEETS)),
            None => Err(Refusal::Lacks(alone)),
        },
    }
}

/// The candidates that share a resource with the Reservation and are bound to none yet, best first.
fn in_order<'a>(
    wants: &Resources,
    mode: PreAllocationMode,
    candidates: &'a [Candidate<'a>],
) -> Vec<(usize, &'a Candidate<'a>)> {
    let shares = |candidate: &Candidate<'_>| {
        candidate.requests.iter().any(|(id, amount)| id != ResourceId::PODS && amount > 0 && wants.get(id) > 0)
    };
    let tried = candidates.iter().enumerate();
    let mut tried: Vec<_> = tried.filter(|(_, candidate)| !candidate.is_bound && shares(candidate)).collect();
    tried.sort_by_key(|(_, candidate)| {
        let priority = if mode == PreAllocationMode::Cluster { candidate.priority } else { 0 };
        (Reverse(priority), Reverse(candidate_score(wants, candidate.requests)), candidate.name)
    });
    tried
}

/// What a Restricted Reservation lacks for pods that request so much together.
fn exceeds(reservation: &Reservation, requests: &Resources) -> Vec<Lack> {
    if reservation.policy != AllocatePolicy::Restricted {
        return Vec::new();
    }
    let is_listed = |id: &ResourceId| reservation.restricted.contains(id);
    let lists_any = reservation.restricted.iter().any(|&id| reservation.allocatable.get(id) > 0);
    let limits =
        reservation.allocatable.iter().filter(|(id, _)| !lists_any || is_listed(id) || *id == ResourceId::PODS);
    let over = limits.filter(|&(id, amount)| requests.get(id) > amount - reservation.kept.get(id).clamp(0, amount));
    over.map(|(id, _)| Lack::InReservation(id, None)).collect()
}

fn one(
    reservation: &Reservation,
    tried: &[(usize, &Candidate<'_>)],
    lacks: impl Fn(&Resources) -> Vec<Lack>,
    last: &mut Option<Vec<Lack>>,
) -> Option<Vec<usize>> {
    for (position, candidate) in tried {
        let mut missing = lacks(candidate.requests);
        missing.extend(exceeds(reservation, candidate.requests));
        if missing.is_empty() {
            return Some(vec![*position]);
        }
        *last = Some(missing);
    }
    None
}

fn several(
    reservation: &Reservation,
    tried: &[(usize, &Candidate<'_>)],
    lacks: impl Fn(&Resources) -> Vec<Lack>,
    last: &mut Option<Vec<Lack>>,
) -> Option<Vec<usize>> {
    let (mut together, mut chosen) = (Resources::new(), Vec::new());
    for (position, candidate) in tried {
        let mut with = together.clone();
        with.add(candidate.requests);
        let over = exceeds(reservation, &with);
        if !over.is_empty() {
            last.get_or_insert(over);
            continue;
        }
        together = with;
        chosen.push(*position);
        let missing = lacks(&together);
        if missing.is_empty() {
            return Some(chosen);
        }
        *last = Some(missing);
    }
    None
}
