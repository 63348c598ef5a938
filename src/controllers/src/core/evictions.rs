//! Jobs of pods that must leave their node: each asks by itself, with its own delays, until the pod is gone.

use std::time::Duration;

use jiff::Timestamp;

use super::{Core, Job};
use crate::claim::{Eviction, Manner};
use crate::kind::{Kind, NamedObject};
use crate::notice::Notice;
use crate::view::PodName;
use crate::write::{Op, Write};

/// Evictions that a disruption budget refuses are not tried more often than this.
const LONGEST_DELAY: Duration = Duration::from_secs(10);

impl Core {
    pub(super) fn want_eviction(&mut self, eviction: &Eviction) {
        let job = Job::Evict(eviction.pod.clone());
        let before = self.evictions.insert(eviction.pod.clone(), eviction.clone());
        // What a budget refused is due by force now: that does not wait.
        if before.is_some_and(|before| before.manner != eviction.manner) && !self.queue.is_running(&job) {
            self.queue.forget(&job);
        }
        self.queue.add(job);
    }

    pub(super) fn evict(&mut self, pod: PodName, now: Timestamp) {
        let job = Job::Evict(pod.clone());
        let Some(eviction) = self.evictions.get(&pod).cloned() else { return self.queue.forget(&job) };
        let record = self.view.pods.get(&pod).filter(|record| record.uid == eviction.uid);
        let Some(record) = record.cloned().filter(|record| record.is_active()) else {
            self.evictions.remove(&pod);
            return self.queue.forget(&job);
        };
        let op = match eviction.manner {
            Manner::Evict if record.deletion.is_some() => {
                self.evictions.remove(&pod);
                return self.queue.forget(&job);
            }
            Manner::Evict => Op::Evict,
            Manner::Delete { grace } => {
                let ends = crate::clock::after(now, Duration::from_secs(u64::try_from(grace).unwrap_or(1)));
                // Where its machine is gone nobody ends it, however long ago it should have.
                let ends_in_time = grace > 0 && record.deletion.is_some_and(|deletion| deletion <= ends);
                if record.was_given(grace) || ends_in_time {
                    self.evictions.remove(&pod);
                    return self.queue.forget(&job);
                }
                Op::Delete { grace: Some(grace) }
            }
        };
        let key = NamedObject::namespaced(Kind::Pod, pod.namespace, pod.name);
        self.write(job, Write { key, uid: eviction.uid, op });
    }

    /// A pod changed: if it is gone, nobody tells it to go any more.
    pub(super) fn forget_eviction(&mut self, pod: &PodName) {
        let Some(eviction) = self.evictions.get(pod) else { return };
        if self.view.pods.uid(pod) != Some(eviction.uid.as_str()) {
            self.evictions.remove(pod);
        }
    }

    /// A write was put off: a disruption budget, where it was an eviction.
    pub(super) fn refused_for_now(&mut self, job: &Job, op: &Op, message: &str, now: Timestamp) {
        let (Job::Evict(pod), Op::Evict) = (job, op) else { return };
        let uid = self.view.pods.uid(pod).unwrap_or_default().to_owned();
        let object = NamedObject::namespaced(Kind::Pod, pod.namespace.clone(), pod.name.clone());
        let notice = Notice::of(object, uid, "FailedDraining", message);
        self.tell(notice, now);
        if self.queue.failures(job) > 6 {
            self.queue.cap_failures(job, LONGEST_DELAY);
        }
    }
}
