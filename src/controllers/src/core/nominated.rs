//! Pods for which others gave way. The room that these left is held for them, as by a Reservation of their own, until they are
//! bound or five minutes have passed: who cannot come by then must not keep others from it.

use std::collections::BTreeMap;
use std::time::Duration;

use berth_state::Patch;
use jiff::Timestamp;
use serde_json::json;

use super::{Core, Job};
use crate::clock::after;
use crate::kind::{Kind, NamedObject};
use crate::view::PodName;
use crate::write::{Op, Write};

/// For how long room is held for a pod for which others gave way.
const HELD_FOR: Duration = Duration::from_secs(5 * 60);

/// Until when room is held for which pod, by uid.
pub(super) type Nominated = BTreeMap<String, (PodName, Timestamp)>;

impl Core {
    /// Room is held for a pod from now on.
    pub(super) fn hold_for(&mut self, pod: &PodName, uid: &str, now: Timestamp) {
        let until = after(now, HELD_FOR);
        self.nominated.entry(uid.to_owned()).or_insert_with(|| (pod.clone(), until));
        self.queue.add_at(Job::Schedule, until);
    }

    /// Takes up the nominations of an earlier process. When these began nobody knows: they have their whole time again.
    pub(super) fn recall_nominations(&mut self, now: Timestamp) {
        let nominated = self.state.pods().filter_map(|pod| {
            let waits = pod.node().is_none() && pod.nominated_node().is_some_and(|node| !node.is_empty());
            let name = PodName { namespace: pod.namespace().to_owned(), name: pod.name().to_string() };
            waits.then(|| Some((name, pod.uid()?.into_owned())))?
        });
        let nominated: Vec<(PodName, String)> = nominated.collect();
        for (pod, uid) in nominated {
            self.hold_for(&pod, &uid, now);
        }
    }

    /// Whoever has not come in time has no room of its own any more, and takes its chance with all others.
    pub(super) fn end_nominations(&mut self, now: Timestamp) {
        let view = &self.view;
        let waits =
            |uid: &str, pod: &PodName| view.pods.get(pod).is_some_and(|own| own.uid == uid && own.node.is_none());
        self.nominated.retain(|uid, (pod, _)| waits(uid, pod));
        let due = self.nominated.iter().filter(|(_, (_, until))| *until <= now);
        let due: Vec<(String, PodName)> = due.map(|(uid, (pod, _))| (uid.clone(), pod.clone())).collect();
        for (uid, pod) in due {
            self.nominated.remove(&uid);
            let key = NamedObject::namespaced(Kind::Pod, pod.namespace.clone(), pod.name.clone());
            let object = berth_state::Key::new(berth_state::Kind::Pod, &pod.namespace, &pod.name).with_uid(Some(&uid));
            let op = Op::MergeStatus(json!({"status": {"nominatedNodeName": null}}));
            self.assume_and_write(Job::Nominate(pod), &object, Patch::Nominate { node: None }, Write { key, uid, op });
        }
        if let Some(next) = self.nominated.values().map(|(_, until)| *until).min() {
            self.queue.add_at(Job::Schedule, next);
        }
    }
}
