//! Who may be preempted where Reservations hold room, and what that would help.

use std::cmp::Reverse;

use berth_model::{NodeRoom, ReservationId, Resources};

use super::fit::{Claim, Fit, fit};

/// A pod on the node.
#[derive(Clone, Copy, Debug)]
pub struct Victim<'a> {
    /// Its requests, one of `pods` included.
    pub requests: &'a Resources,
    /// Its priority.
    pub priority: i32,
    /// The Reservation on the node that it draws from.
    pub draws_from: Option<ReservationId>,
    /// Whether it may not be preempted (label `disable-preemptible`).
    pub is_protected: bool,
}

/// The least set of pods, by position, whose eviction makes room for a claim of this priority that matches the holdings
/// at these positions; `None` where no eviction does. Empty where it fits as it is.
///
/// Only pods of lower priority that are not protected are victims, and never a Reservation: what an owner frees goes
/// back to its Reservation, so evicting it helps only those whom that Reservation is for. As kube-scheduler does, all
/// of them are taken away and those of higher priority given back first, where the claim still fits.
pub fn victims(
    room: &NodeRoom,
    matched: &[usize],
    claim: &Claim<'_>,
    priority: i32,
    pods: &[Victim<'_>],
) -> Option<Vec<usize>> {
    let fits = |room: &NodeRoom| !matches!(fit(room, matched, claim), Fit::Refused(_));
    let mut left = room.clone();
    let mut chosen: Vec<usize> = Vec::new();
    if fits(&left) {
        return Some(chosen);
    }
    for (position, pod) in pods.iter().enumerate() {
        if pod.priority < priority && !pod.is_protected {
            left.remove_pod(pod.requests, pod.draws_from);
            chosen.push(position);
        }
    }
    if chosen.is_empty() || !fits(&left) {
        return None;
    }
    chosen.sort_by_key(|&position| pods.get(position).map(|pod| Reverse(pod.priority)));
    chosen.retain(|&position| {
        let Some(pod) = pods.get(position) else { return false };
        left.add_pod(pod.requests, pod.draws_from);
        if fits(&left) {
            return false;
        }
        left.remove_pod(pod.requests, pod.draws_from);
        true
    });
    chosen.sort_unstable();
    Some(chosen)
}
