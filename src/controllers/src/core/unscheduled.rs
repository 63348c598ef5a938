//! Why pods have no node, in their status. Of a pod one write at a time is on its way: a second one, made of the same version of the
//! pod, would be refused. What was to be said meanwhile is said once the first one shows.

use std::collections::BTreeMap;
use std::time::Duration;

use berth_state::ObjectRef;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::PodCondition;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde_json::json;

use super::schedule::pod_name;
use super::{Core, Effect};
use crate::claim::conditions::whole_seconds;
use crate::clock::elapsed;
use crate::kind::{Kind, NamedObject};
use crate::notice::Notice;
use crate::observed::{Object, Observed};
use crate::view::PodName;
use crate::write::{Op, Write};

/// A write that does not show by then was refused or lost.
const SHOWS_WITHIN: Duration = Duration::from_secs(30);

/// What was said to pods that have no node.
#[derive(Debug, Default)]
pub(super) struct Unscheduled {
    last: BTreeMap<PodName, Said>,
}

/// What was said to a pod last.
#[derive(Debug)]
struct Said {
    /// Of which pod, and of which version of it.
    uid: String,
    version: Option<String>,
    at: Timestamp,
    message: String,
    /// What is to be said once that shows.
    next: Option<Saying>,
}

/// What a pod is to be told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Tells {
    InStatus,
    /// There, and by an event.
    InEventToo,
}

#[derive(Debug)]
struct Saying {
    reason: &'static str,
    message: String,
    tells: Tells,
}

// === impl Unscheduled ===

impl Unscheduled {
    /// What was said last to a pod, and when.
    pub(super) fn last_of(&self, pod: &PodName, uid: &str) -> Option<(&str, Timestamp)> {
        let last = self.last.get(pod).filter(|last| last.uid == uid)?;
        Some((&last.message, last.at))
    }
}

impl Core {
    /// Says, in a pod's status and by an event, why it has no node.
    pub(super) fn explain_pod(&mut self, object: &ObjectRef, message: &str, now: Timestamp) {
        let message = message.to_owned();
        self.say(object, Saying { reason: "Unschedulable", message, tells: Tells::InEventToo }, now);
    }

    /// Says so in its status alone.
    pub(super) fn say_unscheduled(&mut self, object: &ObjectRef, reason: &'static str, message: &str, now: Timestamp) {
        self.say(object, Saying { reason, message: message.to_owned(), tells: Tells::InStatus }, now);
    }

    /// What was said to pods may show now.
    pub(super) fn follow_unscheduled(&mut self, observed: &Observed, now: Timestamp) {
        if self.unscheduled.last.is_empty() {
            return;
        }
        let pods: Vec<PodName> = match observed {
            Observed::Applied(Object::Pod(pod)) => vec![PodName::of(&pod.metadata)],
            Observed::Deleted(Kind::Pod, metadata) => vec![PodName::of(metadata)],
            Observed::Listed { kind: Kind::Pod, .. } => self.unscheduled.last.keys().cloned().collect(),
            _ => return,
        };
        for pod in pods {
            self.says_next(&pod, now);
        }
    }

    fn says_next(&mut self, name: &PodName, now: Timestamp) {
        let Some(last) = self.unscheduled.last.get_mut(name) else { return };
        let pod = self.state.pod(&name.namespace, &name.name).filter(|pod| pod.node().is_none());
        let Some(pod) = pod.filter(|pod| pod.uid().as_deref() == Some(&last.uid)) else {
            self.unscheduled.last.remove(name);
            return;
        };
        let object = pod.reference();
        if pod.resource_version() != last.version
            && let Some(next) = last.next.take()
        {
            self.say(&object, next, now);
        }
    }

    /// Writes it, unless the pod says so already, is another scheduler's, or is being told something just now.
    fn say(&mut self, object: &ObjectRef, saying: Saying, now: Timestamp) {
        let Some(pod) = self.state.pod(&object.key.namespace, &object.key.name) else { return };
        // One whose node goes away is planned for, and runs still.
        if pod.node().is_some() {
            return;
        }
        if self.options.scheduler_names.as_ref().is_some_and(|names| !names.contains(pod.scheduler_name())) {
            return;
        }
        let name = pod_name(object);
        let (uid, version) = (pod.uid().unwrap_or_default(), pod.resource_version());
        let last = self.unscheduled.last.get_mut(&name).filter(|last| last.uid == uid);
        let is_on_its_way = |last: &&mut Said| last.version == version && elapsed(last.at, now) < SHOWS_WITHIN;
        if let Some(last) = last.filter(is_on_its_way) {
            last.next = (last.message != saying.message).then_some(saying);
            return;
        }
        if pod.unscheduled().is_some_and(|known| known.message.as_ref() == Some(&saying.message)) {
            return;
        }
        let uid = uid.into_owned();
        let pod = pod.to_pod();
        let mut all = pod.status.and_then(|status| status.conditions).unwrap_or_default();
        let known = all.iter().find(|condition| condition.type_ == "PodScheduled");
        let since = known.filter(|known| known.status == "False").and_then(|known| known.last_transition_time.clone());
        all.retain(|condition| condition.type_ != "PodScheduled");
        all.push(PodCondition {
            type_: "PodScheduled".to_owned(),
            status: "False".to_owned(),
            reason: Some(saying.reason.to_owned()),
            message: Some(saying.message.clone()),
            last_transition_time: Some(since.unwrap_or(Time(whole_seconds(now)))),
            ..PodCondition::default()
        });
        let patch =
            json!({"metadata": {"resourceVersion": pod.metadata.resource_version}, "status": {"conditions": all}});
        let key = NamedObject::namespaced(Kind::Pod, &*object.key.namespace, &*object.key.name);
        let write = Write { key, uid: uid.clone(), op: Op::MergeStatus(patch) };
        self.effects.push(Effect::Write(None, Box::new(write)));
        if saying.tells == Tells::InEventToo {
            self.tell(Notice::about(Kind::Pod, &pod.metadata, "FailedScheduling", &saying.message), now);
        }
        let said = Said { uid, version, at: now, message: saying.message, next: None };
        self.unscheduled.last.insert(name, said);
    }
}
