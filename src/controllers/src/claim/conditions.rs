//! Conditions of NodeClaims and NodePools, with Karpenter's names, and `Ready`, which sums them up.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};

pub(crate) const LAUNCHED: &str = "Launched";
pub(crate) const REGISTERED: &str = "Registered";
pub(crate) const INITIALIZED: &str = "Initialized";
pub(crate) const CONSOLIDATABLE: &str = "Consolidatable";
pub(crate) const CONSISTENT: &str = "ConsistentStateFound";
pub(crate) const DRIFTED: &str = "Drifted";
pub(crate) const DRAINED: &str = "Drained";
pub(crate) const VOLUMES_DETACHED: &str = "VolumesDetached";
pub(crate) const INSTANCE_TERMINATING: &str = "InstanceTerminating";
pub(crate) const DISRUPTION_REASON: &str = "DisruptionReason";
pub(crate) const READY: &str = "Ready";

/// A condition's status.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Status {
    True,
    False,
    Unknown,
}

// === impl Status ===

impl Status {
    const fn as_str(self) -> &'static str {
        match self {
            Self::True => "True",
            Self::False => "False",
            Self::Unknown => "Unknown",
        }
    }
}

/// The condition of a type.
pub(crate) fn get<'a>(conditions: &'a [Condition], type_: &str) -> Option<&'a Condition> {
    conditions.iter().find(|condition| condition.type_ == type_)
}

/// Whether the condition of a type is True.
pub(crate) fn is_true(conditions: &[Condition], type_: &str) -> bool {
    get(conditions, type_).is_some_and(|condition| condition.status == "True")
}

/// Since when the condition of a type is True.
pub(crate) fn true_since(conditions: &[Condition], type_: &str) -> Option<Timestamp> {
    get(conditions, type_)
        .filter(|condition| condition.status == "True")
        .map(|condition| condition.last_transition_time.0)
}

/// Sets a condition; returns whether that changed anything. The time of the last transition moves with the status alone.
pub(crate) fn set(
    conditions: &mut Vec<Condition>,
    (type_, status): (&str, Status),
    (reason, message): (&str, &str),
    generation: Option<i64>,
    now: Timestamp,
) -> bool {
    let condition = Condition {
        type_: type_.to_owned(),
        status: status.as_str().to_owned(),
        reason: reason.to_owned(),
        message: message.to_owned(),
        observed_generation: generation,
        last_transition_time: Time(whole_seconds(now)),
    };
    let Some(known) = conditions.iter_mut().find(|known| known.type_ == type_) else {
        conditions.push(condition);
        conditions.sort_by(|a, b| a.type_.cmp(&b.type_));
        return true;
    };
    let same_status = known.status == condition.status;
    if same_status && known.reason == condition.reason && known.message == condition.message {
        return false;
    }
    let since = if same_status { known.last_transition_time.clone() } else { condition.last_transition_time.clone() };
    *known = Condition { last_transition_time: since, ..condition };
    true
}

/// Removes the condition of a type; returns whether there was one.
pub(crate) fn clear(conditions: &mut Vec<Condition>, type_: &str) -> bool {
    let before = conditions.len();
    conditions.retain(|condition| condition.type_ != type_);
    conditions.len() != before
}

/// Sets `Ready` from the conditions that it depends on: False if one is, else Unknown if one is not True.
pub(crate) fn summarise(
    conditions: &mut Vec<Condition>,
    parts: &[&str],
    generation: Option<i64>,
    now: Timestamp,
) -> bool {
    let of_status = |status: &str| {
        let parts = parts.iter().copied();
        parts.filter(|part| get(conditions, part).is_some_and(|known| known.status == status)).collect::<Vec<_>>()
    };
    let (failed, fine) = (of_status("False"), of_status("True"));
    let open: Vec<&str> = parts.iter().copied().filter(|part| !failed.contains(part) && !fine.contains(part)).collect();
    let list = |types: &[&str], status: &str| {
        types.iter().map(|type_| format!("{type_}={status}")).collect::<Vec<_>>().join(", ")
    };
    let (status, reason, message) = if !failed.is_empty() {
        (Status::False, "UnhealthyDependents", list(&failed, "False"))
    } else if !open.is_empty() {
        (Status::Unknown, "ReconcilingDependents", list(&open, "Unknown"))
    } else {
        (Status::True, READY, String::new())
    };
    set(conditions, (READY, status), (reason, &message), generation, now)
}

/// The API server keeps whole seconds of `metav1.Time`.
pub(crate) fn whole_seconds(time: Timestamp) -> Timestamp {
    Timestamp::from_second(time.as_second()).unwrap_or(time)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(seconds).unwrap()
    }

    #[test]
    fn a_condition_keeps_its_time_until_its_status_changes() {
        let mut all = Vec::new();
        assert!(set(&mut all, (LAUNCHED, Status::Unknown), ("A", ""), None, at(1)));
        assert!(!set(&mut all, (LAUNCHED, Status::Unknown), ("A", ""), None, at(2)));
        assert!(set(&mut all, (LAUNCHED, Status::Unknown), ("B", "why"), None, at(3)));
        assert_eq!(all[0].last_transition_time.0, at(1));
        assert!(set(&mut all, (LAUNCHED, Status::True), (LAUNCHED, ""), None, at(4)));
        assert_eq!(true_since(&all, LAUNCHED), Some(at(4)));
    }

    #[test]
    fn ready_needs_every_part() {
        let parts = [LAUNCHED, REGISTERED];
        let mut all = Vec::new();
        set(&mut all, (LAUNCHED, Status::True), (LAUNCHED, ""), None, at(1));
        summarise(&mut all, &parts, None, at(1));
        assert_eq!(get(&all, READY).map(|ready| ready.message.as_str()), Some("Registered=Unknown"));
        set(&mut all, (REGISTERED, Status::False), ("X", ""), None, at(2));
        summarise(&mut all, &parts, None, at(2));
        assert_eq!(get(&all, READY).map(|ready| ready.status.as_str()), Some("False"));
        set(&mut all, (REGISTERED, Status::True), (REGISTERED, ""), None, at(3));
        summarise(&mut all, &parts, None, at(3));
        assert!(is_true(&all, READY));
    }
}
