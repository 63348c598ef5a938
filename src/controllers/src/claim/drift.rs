//! Whether a node is still what its NodePool and its node class ask for: the condition `Drifted`.

use std::collections::BTreeMap;
use std::time::Duration;

use berth_api::labels;
use berth_cloudprovider::{CapacityReservation, ReservationKind};
use jiff::{SignedDuration, Timestamp};

use super::conditions::{self, Status};
use super::{Facts, Question, Todo, earlier};
use crate::clock::after;

/// A capacity block's instances are shut down so long before its end.
const BLOCK_NOTICE: Duration = Duration::from_secs(30 * 60);
/// Those of an interruptible reservation are told of its end so long before.
const RECLAIM_NOTICE: Duration = Duration::from_secs(2 * 60);
/// How long another node takes to boot, at most.
const BOOT: Duration = Duration::from_secs(15 * 60);
/// How long a node may take to drain where its NodeClaim does not say.
const DRAIN: Duration = Duration::from_secs(15 * 60);

/// The next step of a node that has nothing else to do but `todo`.
pub(super) fn step(facts: &Facts<'_>, todo: Todo) -> Todo {
    let status = facts.status();
    let write = match reason(facts) {
        Some((reason, message)) => facts.condition(conditions::DRIFTED, Status::True, &reason, &message),
        None if conditions::get(&status.conditions, conditions::DRIFTED).is_some() => facts.change_status(|status| {
            conditions::clear(&mut status.conditions, conditions::DRIFTED);
        }),
        None => None,
    };
    if let Some(write) = write {
        return Todo::write(write);
    }
    let todo = match block(facts).map(vacated_at) {
        Some(Some(time)) if time > facts.now => earlier(todo, time),
        _ => todo,
    };
    match (facts.memory.drift_asked_at, facts.timings.drift_period) {
        (Some(_), None) => todo,
        (Some(asked), Some(period)) if after(asked, period) > facts.now => earlier(todo, after(asked, period)),
        _ => Todo::ask(Question::Drift(Box::new(facts.claim.clone()))),
    }
}

/// Why it drifted.
fn reason(facts: &Facts<'_>) -> Option<(String, String)> {
    let none = BTreeMap::new();
    let node_labels = facts.node().and_then(|node| node.metadata.labels.as_ref()).unwrap_or(&none);
    let told = |pool| berth_disruption::static_drift(Some(facts.claim), node_labels, pool, facts.with_reserved);
    if let Some(reason) = facts.pool.and_then(told) {
        return Some((reason.to_owned(), String::new()));
    }
    if let Some(block) = block(facts)
        && vacated_at(block).is_some_and(|time| time <= facts.now)
    {
        let end = block.end.map(|end| end.to_string()).unwrap_or_default();
        let (reason, what) = match block.kind {
            ReservationKind::Interruptible => ("ReservationEnding", "interruptible reservation"),
            ReservationKind::CapacityBlock | ReservationKind::OnDemand => ("CapacityBlockEnding", "capacity block"),
        };
        return Some((reason.to_owned(), format!("{what} {} ends at {end}", block.id)));
    }
    facts.memory.drift.clone()
}

/// The capacity block, or other reservation, that the node is on.
fn block<'a>(facts: &'a Facts<'_>) -> Option<&'a CapacityReservation> {
    let own = facts.claim.metadata.labels.as_ref()?;
    let id = labels::RESERVATION_IDS.iter().find_map(|key| own.get(*key))?;
    facts.offers?.types.reservations.iter().find(|known| known.id == *id)
}

/// When nodes leave a reservation whose end is that of its instances: early enough for others to boot and for their pods to
/// move. `None` for what leaves its instances running, or has no end.
pub(crate) fn vacated_at(reservation: &CapacityReservation) -> Option<Timestamp> {
    let notice = match reservation.kind {
        ReservationKind::OnDemand => return None,
        ReservationKind::CapacityBlock => BLOCK_NOTICE,
        ReservationKind::Interruptible => RECLAIM_NOTICE,
    };
    let lead = SignedDuration::try_from(notice + BOOT + DRAIN).ok()?;
    reservation.end?.checked_sub(lead).ok()
}
