//! Nodes that are about to be older than their `expireAfter`: they are replaced while budgets still have a say. At its
//! expiry a NodeClaim is deleted whatever they say.

use std::collections::BTreeMap;

use berth_api::{DisruptionReason, NodeClaim};
use jiff::{SignedDuration, Timestamp};

use crate::survey::Survey;

/// What a node has drifted by that expires soon.
pub(crate) const EXPIRING: &str = "Expiring";
/// What as many nodes as budgets allow at a time take to be replaced: to boot, and to drain.
const ROUND: SignedDuration = SignedDuration::from_mins(15);
/// No more than this part of a node's time is given up for the sake of budgets.
const PART: i32 = 4;

/// When a NodeClaim will be older than its `expireAfter`, and how long that is.
pub(crate) fn expiry(claim: &NodeClaim) -> Option<(Timestamp, SignedDuration)> {
    let age = SignedDuration::try_from(claim.spec.expire_after.duration()?.to_std()?).ok()?;
    let created = claim.metadata.creation_timestamp.as_ref()?.0;
    Some((created.checked_add(age).ok()?, age))
}

/// Counts those as drifted that expire so soon that no more than budgets allow at a time can be replaced by then: of a
/// NodePool's nodes in the order in which they expire, each goes a round later than those before it that fill a round.
pub(crate) fn mark(survey: &mut Survey, now: Timestamp) {
    let mut by_pool: BTreeMap<String, Vec<(Timestamp, usize)>> = BTreeMap::new();
    for (at, candidate) in survey.candidates.iter_mut().enumerate() {
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
        let Some(pool) = survey.pools.get(&pool) else { continue };
        let Ok(budgets) = &pool.budgets else { continue };
        // Where a schedule lets none go now, it may let one go at a time later.
        let at_once = budgets.allowed(DisruptionReason::Drifted, pool.nodes, now).max(1);
        for (behind, (expires, at)) in expiring.into_iter().enumerate() {
            let Some(candidate) = survey.candidates.get_mut(at) else { continue };
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
