//! Objects that cannot be read, or cannot be used as they are: an Event says so, and of pods and Reservations their status.

use berth_scheduling::reservation::lifecycle::UNSCHEDULABLE;
use berth_state::RefusedObject;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use serde_json::{Value, json};

use super::live::own_kind;
use super::{Core, Job};
use crate::claim::conditions::whole_seconds;
use crate::claim::on;
use crate::guarded::Unreadable;
use crate::kind::{Kind, NamedObject};
use crate::notice::Notice;
use crate::observed::Observed;
use crate::write::Op;

/// The reason of Events, and of the condition of a Reservation that has a node.
pub(super) const UNUSABLE: &str = "Unusable";
/// The condition's reason of a pod that cannot be decided about, as kube-scheduler's.
const SCHEDULER_ERROR: &str = "SchedulerError";

impl Core {
    /// Tells of what a watch found and nobody can read.
    pub(super) fn tell_unreadable(&mut self, observed: &Observed, now: Timestamp) {
        let (kind, objects) = match observed {
            Observed::Listed { kind, unreadable, .. } => (*kind, unreadable.as_slice()),
            Observed::Unreadable(kind, object) => (*kind, std::slice::from_ref(object)),
            _ => return,
        };
        for object in objects {
            self.tell(Notice::about(kind, &object.metadata, UNUSABLE, why_unreadable(object)), now);
        }
    }

    /// Tells of what the state cannot use. Reservations and NodePools follow in jobs of theirs.
    pub(super) fn tell_refused(&mut self, object: &RefusedObject, now: Timestamp) {
        tracing::warn!("{object}");
        let Some(kind) = own_kind(object.key.kind).filter(|kind| *kind != Kind::NodePool) else { return };
        let (namespace, name) = (object.key.namespace.to_string(), object.key.name.to_string());
        let uid = self.state.observed_uid(&object.key).unwrap_or_default().into_owned();
        let message = object.to_string();
        if kind == Kind::Pod && !self.options.only_lifecycle && !self.is_gated(&object.key) {
            let reference = object.key.clone().with_uid(Some(&uid));
            self.say_unscheduled(&reference, SCHEDULER_ERROR, &message, now);
        }
        let object = NamedObject { kind, namespace, name };
        self.tell(Notice::of(object, uid, UNUSABLE, message), now);
    }

    /// Whether a pod has scheduling gates: the API server says so in its status.
    pub(super) fn is_gated(&self, pod: &berth_state::Key) -> bool {
        let pod = self.state.pod(&pod.namespace, &pod.name);
        let gates = pod.and_then(|pod| pod.spec()).and_then(|spec| spec.scheduling_gates.as_ref());
        gates.is_some_and(|gates| !gates.is_empty())
    }

    /// A Reservation that cannot be read or used says so itself; whether it is such a one.
    pub(super) fn step_unusable_reservation(&mut self, name: &str, now: Timestamp) -> bool {
        let key = berth_state::Key::new(berth_state::Kind::Reservation, "", name);
        let (metadata, status, scheduler, message): (ObjectMeta, Value, Option<String>, String) =
            if let Some(object) = self.view.unreadable(Kind::Reservation, name) {
                let scheduler = object.scheduler_name.clone();
                ((*object.metadata).clone(), object.status.clone(), scheduler, why_unreadable(object))
            } else if let Some((refused, known)) = self.state.refused_as(&key).zip(self.view.reservations.get(name)) {
                let template = known.spec.template.spec.as_ref();
                let scheduler = template.and_then(|spec| spec.scheduler_name.clone());
                (known.metadata.clone(), json!(known.status), scheduler, refused.to_string())
            } else {
                return false;
            };
        if metadata.deletion_timestamp.is_some() || !self.is_scheduler_served(scheduler.as_deref()) {
            return true;
        }
        if let Some(status) = status_of_unusable(&status, &message, now) {
            let body = json!({"metadata": {"resourceVersion": metadata.resource_version}, "status": status});
            let write = on(Kind::Reservation, &metadata, Op::MergeStatus(body));
            self.write(Job::Reservation(name.to_owned()), write);
        }
        true
    }
}

fn why_unreadable(object: &Unreadable) -> String {
    format!("cannot be read: {}", object.error)
}

/// What changes in the status of a Reservation that cannot be used: without a node it is pending and gets none, with one
/// nobody draws from it. `None` where it says so already, or is over.
fn status_of_unusable(status: &Value, message: &str, now: Timestamp) -> Option<Value> {
    let text = |field: &str| status[field].as_str().filter(|text| !text.is_empty());
    if matches!(text("phase"), Some("Succeeded" | "Failed")) {
        return None;
    }
    let (phase, type_, reason) = match text("nodeName") {
        Some(_) => ("Waiting", "Ready", UNUSABLE),
        None => ("Pending", "Scheduled", UNSCHEDULABLE),
    };
    let mut conditions = status["conditions"].as_array().cloned().unwrap_or_default();
    let known = conditions.iter().find(|known| known["type"] == type_);
    let is_false = known.is_some_and(|known| known["status"] == "False");
    let says_so = is_false && known.is_some_and(|known| known["reason"] == reason && known["message"] == message);
    if says_so && text("phase") == Some(phase) {
        return None;
    }
    let time = json!(Time(whole_seconds(now)));
    let since = known.filter(|_| is_false).map(|known| known["lastTransitionTime"].clone()).filter(Value::is_string);
    let condition = json!({"type": type_, "status": "False", "reason": reason, "message": message,
        "lastProbeTime": time, "lastTransitionTime": since.unwrap_or_else(|| time.clone())});
    conditions.retain(|known| known["type"] != type_);
    conditions.push(condition);
    Some(json!({"phase": phase, "conditions": conditions}))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    #[test]
    fn a_reservation_without_a_node_is_pending_and_says_once_why_it_gets_none() {
        let said = status_of_unusable(&Value::Null, "bad", at(5)).unwrap();
        let condition = json!({"type": "Scheduled", "status": "False", "reason": "Unschedulable", "message": "bad",
            "lastProbeTime": "1970-01-01T00:00:05Z", "lastTransitionTime": "1970-01-01T00:00:05Z"});
        assert_eq!(said, json!({"phase": "Pending", "conditions": [condition]}));
        assert_eq!(status_of_unusable(&said, "bad", at(9)), None);
        let other = status_of_unusable(&said, "worse", at(9)).unwrap();
        assert_eq!(other["conditions"].as_array().unwrap().len(), 1);
        assert_eq!(other["conditions"][0]["lastTransitionTime"], "1970-01-01T00:00:05Z", "it was False before");
    }

    #[test]
    fn one_with_a_node_keeps_it_and_is_not_ready() {
        let condition = |type_: &str| json!({"type": type_, "status": "True", "reason": type_});
        let held = json!({"phase": "Available", "nodeName": "n",
            "conditions": [condition("Scheduled"), condition("Ready")]});
        let said = status_of_unusable(&held, "bad", at(5)).unwrap();
        assert_eq!((said["phase"].as_str(), said.get("nodeName")), (Some("Waiting"), None));
        assert_eq!(said["conditions"][0], condition("Scheduled"));
        assert_eq!(
            (&said["conditions"][1]["status"], &said["conditions"][1]["reason"]),
            (&json!("False"), &json!(UNUSABLE))
        );
        let over = json!({"phase": "Failed", "nodeName": "n"});
        assert_eq!(status_of_unusable(&over, "bad", at(5)), None);
    }
}
