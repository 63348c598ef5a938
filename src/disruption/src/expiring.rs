//! Nodes that are about to be older than their `expireAfter`: they are replaced while budgets still have a say. At its
//! expiry a NodeClaim is deleted whatever they say.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};

use crate::candidate::Candidate;

/// What a node has drifted by that expires soon.
pub(crate) const EXPIRING: &str = "Expiring";
/// What as many nodes as budgets allow at a time take to be replaced: to boot, and to drain.
const ROUND: SignedDuration = SignedDuration::from_mins(15);
/// No more than this part of a node's time is given up for the sake of budgets.
const PART: i32 = 4;

/// Counts those as drifted that expire so soon that no more than budgets allow at a time can be replaced by then: of a
/// NodePool's nodes in the order in which they expire, each goes a round later than those before it that fill a round.
/// `allowed` says how many nodes of a NodePool may go now, where its budgets can be read.
pub(crate) fn mark(candidates: &mut [Candidate], allowed: impl Fn(&str) -> Option<usize>, now: Timestamp) {
    let mut by_pool: BTreeMap<String, Vec<(Timestamp, usize)>> = BTreeMap::new();
    for (at, candidate) in candidates.iter_mut().enumerate() {
        // It may have been marked when there were others.
        candidate.drift = candidate.drift.filter(|drift| *drift != EXPIRING);
        let Some((expires, _)) = candidate.expires else { continue };
        match by_pool.get_mut(&candidate.pool) {
            Some(of_pool) => of_pool.push((expires, at)),
            None => drop(by_pool.insert(candidate.pool.clone(), vec![(expires, at)])),
        }
    }
    for (pool, mut expiring) in by_pool {
        expiring.sort_unstable();
        // Where a schedule lets none go now, it may let one go at a time later.
        let Some(at_once) = allowed(&pool).map(|allowed| allowed.max(1)) else { continue };
        for (behind, (expires, at)) in expiring.into_iter().enumerate() {
            let Some(candidate) = candidates.get_mut(at) else { continue };
            let Some((_, age)) = candidate.expires else { continue };
            let rounds = i32::try_from((behind / at_once).saturating_add(2)).unwrap_or(i32::MAX);
            let lead = ROUND.saturating_mul(rounds).min(age / PART);
            let is_soon = expires.checked_sub(lead).is_ok_and(|begin| begin <= now);
            if is_soon && candidate.drift.is_none() {
                candidate.drift = Some(EXPIRING);
            }
        }
    }
}
