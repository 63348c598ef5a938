//! Instances that the cloud will take back: their pods leave while there is time. Replacements of spot instances, and of those
//! in interruptible reservations, are launched at once, as two minutes are little. Machines that are told of earlier are
//! replaced within budgets first, and go by force ten minutes before. Each pod leaves when its next place is ready, or in the
//! last seconds, see [`super::drain`].

use berth_api::labels;
use berth_cloudprovider::InterruptionReason;
use jiff::{SignedDuration, Timestamp};
use serde_json::json;

use super::{Facts, Todo, conditions};
use crate::clock::elapsed;
use crate::write::Write;

/// How long before the end of what is told of early its pods are made to leave.
const FORCED: SignedDuration = SignedDuration::from_mins(10);
/// So long before its end an instance is shut down, whatever is still on it.
const SPARE: SignedDuration = SignedDuration::from_secs(5);

/// When a NodeClaim is to be deleted for its instance's sake.
pub(super) fn begins(facts: &Facts<'_>) -> Option<Timestamp> {
    let interruption = facts.interruption?;
    if interruption.reason.is_on_short_notice() {
        return Some(facts.now);
    }
    Some(interruption.at.checked_sub(FORCED).unwrap_or(interruption.at))
}

/// Deletes the NodeClaim once it is time.
pub(super) fn step(facts: &Facts<'_>) -> Option<Todo> {
    let interruption = facts.interruption.filter(|_| begins(facts).is_some_and(|begins| begins <= facts.now))?;
    let reason = match interruption.reason {
        InterruptionReason::Spot => "SpotInterrupted",
        InterruptionReason::CapacityBlockEnd => "CapacityBlockEnding",
        InterruptionReason::Reclaimed => "ReservationReclaimed",
        InterruptionReason::Maintenance => "InstanceRetiring",
    };
    let message = format!(
        "the cloud takes the instance back at {}: its pods leave as their next places are ready",
        interruption.at
    );
    Some(Todo::write(facts.delete()).telling(facts.notice(reason, message)))
}

/// Whoever has not left by then goes, whatever its budget says: the instance ends. `deadline` is what stands there.
pub(super) fn end_in_time(facts: &Facts<'_>, deadline: Option<Timestamp>) -> Option<Write> {
    let interruption = facts.interruption?;
    let at = conditions::whole_seconds(interruption.at.checked_sub(SPARE).unwrap_or(interruption.at));
    // What ends sooner by its grace period does.
    let grace = facts.claim.spec.termination_grace_period.as_ref().and_then(berth_api::GoDuration::to_std);
    let deletion = facts.claim.metadata.deletion_timestamp.as_ref().map_or(facts.now, |time| time.0);
    let ends_sooner = grace.is_some_and(|grace| elapsed(deletion, at) > grace);
    if ends_sooner || deadline.is_some_and(|deadline| deadline <= at) {
        return None;
    }
    Some(facts.merge(json!({"metadata": {"annotations": {labels::TERMINATION_TIMESTAMP: at.to_string()}}})))
}
