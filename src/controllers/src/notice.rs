//! What is told about an object: an Event, once for as long as it stays the same.

use std::collections::BTreeMap;
use std::hash::{Hash, Hasher};
use std::time::Duration;

use berth_api::DisruptionReason;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use rustc_hash::FxHasher;
use serde_json::json;

use crate::clock::{after, elapsed};
use crate::kind::{Kind, NamedObject};
use crate::write::{Op, Write};

/// For how long the same notice is not repeated.
const REPEAT_AFTER: Duration = Duration::from_secs(120);
/// So many notices are remembered before those that may be repeated are looked for, to be forgotten.
const FEW: usize = 10_000;
/// Of many pods that nodes are launched for, so many are told at once, and then one each time this has passed, as Karpenter
/// does: an Event for each would be most of what the API server is asked for.
const NOMINATED_AT_ONCE: u32 = 10;
const NOMINATED_EACH: Duration = Duration::from_millis(200);
/// An Event's note holds so many characters.
const MAX_MESSAGE: usize = 1024;

/// Something to tell about an object.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Notice {
    pub(crate) object: NamedObject,
    pub(crate) uid: String,
    pub(crate) reason: &'static str,
    pub(crate) message: String,
    pub(crate) is_warning: bool,
    /// What for, where a command is about to delete the object.
    pub(crate) disrupted_for: Option<DisruptionReason>,
}

// === impl Notice ===

impl Notice {
    /// A notice about an object without a namespace.
    pub(crate) fn about(kind: Kind, metadata: &ObjectMeta, reason: &'static str, message: impl Into<String>) -> Self {
        let namespace = metadata.namespace.clone().unwrap_or_default();
        let object = NamedObject { kind, namespace, name: metadata.name.clone().unwrap_or_default() };
        Self::of(object, metadata.uid.clone().unwrap_or_default(), reason, message)
    }

    /// A notice about the object of this name and UID.
    pub(crate) fn of(
        object: NamedObject,
        uid: impl Into<String>,
        reason: &'static str,
        message: impl Into<String>,
    ) -> Self {
        Self {
            object,
            uid: uid.into(),
            reason,
            message: message.into(),
            is_warning: !matches!(
                reason,
                "Nominated"
                    | "Expired"
                    | "Evicted"
                    | "Scheduled"
                    | "Disrupting"
                    | "Relabelled"
                    | "DisruptionBlocked"
                    | "DisruptionLaunching"
                    | "DisruptionWaitingReadiness"
                    | "DisruptionTerminating"
                    | "Unconsolidatable"
            ),
            disrupted_for: None,
        }
    }

    /// The key under which a notice counts as told. Texts about a pod without a place are the same where they differ only in
    /// counts: these change with each node that comes or goes. (kube-scheduler's Events of a pod are one series.)
    fn but_for_numbers(&self) -> Self {
        let mut alike = self.clone();
        if self.reason == "FailedScheduling" {
            alike.message = self.message.split(|c: char| c.is_ascii_digit()).filter(|part| !part.is_empty()).collect();
        }
        alike
    }

    /// The same of an object that a command is about to delete.
    pub(crate) fn disrupted_for(self, reason: DisruptionReason) -> Self {
        Self { disrupted_for: Some(reason), ..self }
    }
}

/// The notices that were told, so that none is told again and again.
#[derive(Debug, Default)]
pub(crate) struct Notices {
    told: BTreeMap<Notice, Timestamp>,
    /// How many were left when old ones were forgotten last. That is done again once there are twice as many: where none
    /// is old, each notice would look through all others.
    n_left: usize,
    /// When all that were told to pods that nodes are launched for would have come one by one.
    nominated: Timestamp,
}

// === impl Notices ===

impl Notices {
    /// The Event of a notice, unless the same was told shortly before, or the like to many pods.
    pub(crate) fn tell(&mut self, mut notice: Notice, now: Timestamp) -> Option<Write> {
        if notice.message.chars().count() > MAX_MESSAGE {
            notice.message = notice.message.chars().take(MAX_MESSAGE - 1).chain(['…']).collect();
        }
        // Two commands may read alike, and each is told; other notices tell a state.
        let is_state = notice.reason != "Disrupting";
        let key = notice.but_for_numbers();
        if is_state && self.told.get(&key).is_some_and(|&told| elapsed(told, now) < REPEAT_AFTER) {
            return None;
        }
        if self.told.len() >= FEW.max(self.n_left.saturating_mul(2)) {
            self.told.retain(|_, told| elapsed(*told, now) < REPEAT_AFTER);
            self.n_left = self.told.len();
        }
        tracing::info!(object = %notice.object, reason = notice.reason, "{}", notice.message);
        let is_one_of_many = notice.reason == "Nominated" && notice.object.kind == Kind::Pod && !self.may_nominate(now);
        let write = (!is_one_of_many).then(|| event(&notice, now));
        self.told.insert(key, now);
        write
    }

    /// Whether one more pod may be told at `now` that a node is launched for it; if so, it counts.
    fn may_nominate(&mut self, now: Timestamp) -> bool {
        let due = self.nominated.max(now);
        let is_allowed = due < after(now, NOMINATED_EACH * NOMINATED_AT_ONCE);
        if is_allowed {
            self.nominated = after(due, NOMINATED_EACH);
        }
        is_allowed
    }

    /// When the same may be told again; for tests.
    #[cfg(test)]
    fn again_at(now: Timestamp) -> Timestamp {
        crate::clock::after(now, REPEAT_AFTER)
    }
}

fn event(notice: &Notice, now: Timestamp) -> Write {
    let mut hasher = FxHasher::default();
    (&notice.uid, notice.reason, &notice.message, now.as_nanosecond()).hash(&mut hasher);
    let object = &notice.object;
    // Events of objects without a namespace are kept in `default`.
    let namespace = if object.namespace.is_empty() { "default" } else { &object.namespace };
    let name = format!("{}.{:016x}", object.name.chars().take(230).collect::<String>(), hasher.finish());
    let time = super::claim::conditions::whole_seconds(now).to_string();
    let body = json!({
        "apiVersion": "v1", "kind": "Event",
        "metadata": {"name": name, "namespace": namespace},
        "involvedObject": {
            "apiVersion": object.kind.api_version(), "kind": object.kind.as_str(),
            "namespace": object.namespace, "name": object.name, "uid": notice.uid,
        },
        "reason": notice.reason, "message": notice.message,
        "type": if notice.is_warning { "Warning" } else { "Normal" },
        "source": {"component": "berth"}, "reportingComponent": "berth", "reportingInstance": "berth",
        "firstTimestamp": time, "lastTimestamp": time, "count": 1,
    });
    Write { key: NamedObject::namespaced(Kind::Event, namespace, name), uid: String::new(), op: Op::Create(body) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_is_not_told_twice_within_two_minutes() {
        let now = Timestamp::from_second(1_000_000).unwrap();
        let metadata = ObjectMeta { name: Some("n".to_owned()), ..ObjectMeta::default() };
        let notice = Notice::about(Kind::Node, &metadata, "FailedDraining", "one pod");
        let mut notices = Notices::default();
        assert!(notices.tell(notice.clone(), now).is_some());
        assert!(notices.tell(notice.clone(), now).is_none());
        assert!(notices.tell(Notice { message: "two pods".to_owned(), ..notice.clone() }, now).is_some());
        assert!(notices.tell(notice.clone(), Notices::again_at(now)).is_some());
        // Why a pod waits is told anew where more than a count changes.
        let waits = |message: &str| Notice {
            reason: "FailedScheduling",
            message: message.to_owned(),
            ..Notice::about(Kind::Pod, &metadata, "FailedScheduling", "")
        };
        assert!(notices.tell(waits("0/9 nodes are available: 9 Insufficient cpu."), now).is_some());
        assert!(notices.tell(waits("0/10 nodes are available: 10 Insufficient cpu."), now).is_none());
        assert!(notices.tell(waits("0/10 nodes are available: 10 Insufficient memory."), now).is_some());
        // Two nodes that make way alike are two.
        let command = Notice { reason: "Disrupting", message: "1 node → 1 × m5.xlarge".to_owned(), ..notice };
        assert!(notices.tell(command.clone(), now).is_some() && notices.tell(command, now).is_some());
    }

    #[test]
    fn of_many_pods_that_nodes_are_launched_for_a_few_are_told_at_a_time() {
        let now = Timestamp::from_second(1_000_000).unwrap();
        let mut notices = Notices::default();
        let mut n_told = |from: u32, now: Timestamp| {
            let about = |n: u32| {
                let metadata = ObjectMeta { name: Some(format!("p{n}")), ..ObjectMeta::default() };
                Notice::about(Kind::Pod, &metadata, "Nominated", "a node")
            };
            (from..from + 100).filter(|&n| notices.tell(about(n), now).is_some()).count()
        };
        assert_eq!(n_told(0, now), 10);
        assert_eq!(n_told(100, now), 0);
        assert_eq!(n_told(200, after(now, Duration::from_secs(1))), 5, "five a second");
        assert_eq!(n_told(300, after(now, Duration::from_secs(60))), 10);
        let metadata = ObjectMeta { name: Some("r".to_owned()), ..ObjectMeta::default() };
        let of_reservation = Notice::about(Kind::Reservation, &metadata, "Nominated", "a node");
        assert!(notices.tell(of_reservation, after(now, Duration::from_secs(60))).is_some());
    }

    #[test]
    fn notices_that_may_be_told_again_are_forgotten_once_many_are_known() {
        let now = Timestamp::from_second(1_000_000).unwrap();
        let about = |n: usize| {
            let metadata = ObjectMeta { name: Some(format!("p{n}")), ..ObjectMeta::default() };
            Notice::about(Kind::Pod, &metadata, "Scheduled", "somewhere")
        };
        let mut notices = Notices::default();
        for n in 0..=FEW {
            assert!(notices.tell(about(n), now).is_some());
        }
        // None of them was old: they are not looked through again before there are twice as many.
        assert_eq!((notices.told.len(), notices.n_left), (FEW + 1, FEW));
        let later = Notices::again_at(now);
        for n in 0..FEW {
            notices.tell(about(FEW + 1 + n), later);
        }
        assert_eq!(notices.told.len(), FEW);
    }
}
