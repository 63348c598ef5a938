//! When a node was last touched by pods, and whether it was left alone for long enough to be considered for removal.

use berth_api::NodePool;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::conditions::{self, Status};
use super::{Facts, Todo};
use crate::clock::after;

/// The time of the last pod event is written this coarsely: pods come in bursts.
const GRAIN: std::time::Duration = std::time::Duration::from_secs(10);

/// The next step of a NodeClaim that is initialised.
pub(super) fn step(facts: &Facts<'_>) -> Todo {
    let status = facts.status();
    let written = status.last_pod_event_time.as_ref().map(|time| time.0);
    // Where a NodePool never consolidates, nobody asks for it.
    if let Some(seen) = facts.last_pod_event.filter(|_| facts.pool.is_none_or(consolidates)) {
        let since = Some(seen).max(conditions::true_since(&status.conditions, conditions::INITIALIZED));
        let ripe = since.zip(facts.pool).and_then(|(since, pool)| ripe_at(pool, since));
        // Where a node need not be left alone, what was cleared would only be written again.
        let is_left_alone = ripe.is_none_or(|ripe| ripe > facts.now);
        let grain = if is_left_alone { GRAIN } else { facts.timings.pod_event_grain };
        if written.is_none_or(|written| after(written, grain) <= seen) {
            let write = facts.change_status(|status| {
                status.last_pod_event_time = Some(Time(conditions::whole_seconds(seen)));
                if is_left_alone {
                    conditions::clear(&mut status.conditions, conditions::CONSOLIDATABLE);
                }
            });
            return write.map_or_else(Todo::default, Todo::write);
        }
    }
    let since = facts.last_pod_event.max(written);
    let since = since.max(conditions::true_since(&status.conditions, conditions::INITIALIZED));
    let Some(ripe) = since.zip(facts.pool).and_then(|(since, pool)| ripe_at(pool, since)) else {
        let cleared = facts.change_status(|status| {
            conditions::clear(&mut status.conditions, conditions::CONSOLIDATABLE);
        });
        return cleared.map_or_else(Todo::default, Todo::write);
    };
    let is_set = conditions::is_true(&status.conditions, conditions::CONSOLIDATABLE);
    if ripe > facts.now {
        if !is_set {
            return Todo::wait(ripe);
        }
        let cleared = facts.change_status(|status| {
            conditions::clear(&mut status.conditions, conditions::CONSOLIDATABLE);
        });
        return cleared.map_or_else(|| Todo::wait(ripe), Todo::write);
    }
    let set = facts.condition(conditions::CONSOLIDATABLE, Status::True, conditions::CONSOLIDATABLE, "");
    set.map_or_else(Todo::default, Todo::write)
}

/// Whether a NodePool has its nodes considered for removal at all.
fn consolidates(pool: &NodePool) -> bool {
    pool.spec.disruption.consolidate_after.duration().is_some()
}

/// When a node that pods left alone from `since` on may be considered; `None` for never.
fn ripe_at(pool: &NodePool, since: Timestamp) -> Option<Timestamp> {
    let wait = pool.spec.disruption.consolidate_after.duration()?.to_std()?;
    Some(after(since, wait))
}
