//! What became of writes. The answer to a write counts as an observation; what is not known is read again.

use std::collections::BTreeSet;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::{Core, Effect, Job};
use crate::observed::{Object, Observed};
use crate::write::{Op, Outcome, Write};

/// A pod that was evicted is seen to go within this time, or is evicted again.
const SEEN_WITHIN: Duration = Duration::from_secs(1);

impl Core {
    pub(super) fn written(&mut self, job: Option<Job>, write: &Write, outcome: Outcome, now: Timestamp) {
        let key = &write.key;
        let mut concerned = BTreeSet::new();
        match &outcome {
            Outcome::Done(Some(answered)) => match Object::from_answer(key.kind, answered) {
                Some(Ok(object)) => {
                    self.tell_state(&Observed::Applied(object.clone()), now);
                    self.view.apply(object, &mut concerned);
                }
                // Its status may be written all the same.
                Some(Err(_)) if self.view.unreadable(key.kind, &key.name).is_some() => {}
                Some(Err(error)) => tracing::warn!(object = %key, %error, "the answer to a write cannot be read"),
                None => {}
            },
            // The uid never comes back, so this is final.
            Outcome::NotFound if !write.uid.is_empty() => {
                let metadata = self.view.metadata_of(key, &write.uid).cloned();
                let known = metadata.map(|known| ObjectMeta { resource_version: None, ..known });
                let gone = Observed::Deleted(key.kind, Box::new(known.unwrap_or_else(|| metadata_of(write))));
                self.count_observed(&gone, now);
                self.tell_state(&gone, now);
                self.view.remove(key.kind, &key.namespace, &key.name, &write.uid, &mut concerned);
            }
            _ => {}
        }
        self.touch(concerned, now);
        let Some(job) = job else { return };
        match &job {
            Job::Evict(pod) => self.count_eviction(pod, &write.op, &outcome),
            Job::Bind(_) | Job::Hold(_) | Job::Nominate(_) => return self.bound(&job, write, &outcome, now),
            Job::Volume(_) => return self.selected(&job, &outcome),
            Job::Launch(_) => return self.created(&job, write, &outcome, now),
            // Its answer is known: on to the next.
            Job::Replicas(_) if matches!(outcome, Outcome::Done(_) | Outcome::NotFound) && write.op != Op::Read => {
                self.queue.succeed(job.clone());
                return self.queue.add(job);
            }
            Job::Reread(key) => return self.was_reread(&key.clone(), &outcome, now),
            _ => {}
        }
        let is_read = write.op == Op::Read;
        match outcome {
            // What was read replaces what a write was based on; the write is tried anew, a little later.
            Outcome::Done(_) if is_read => self.queue.fail(job, Duration::ZERO, now),
            Outcome::NotFound if matches!(write.op, Op::Create(_)) => self.queue.fail(job, Duration::ZERO, now),
            // Its answer has no object: only a watch tells that the pod goes, and watches may be late.
            Outcome::Done(None) if write.op == Op::Evict => self.queue.fail(job, SEEN_WITHIN, now),
            Outcome::Done(_) | Outcome::NotFound => self.queue.succeed(job),
            // A patch of another object of the same name is refused as invalid, so the object is read after that, too.
            Outcome::Conflict(_) | Outcome::Unknown(_) | Outcome::Refused(_) if !is_read => {
                if let Outcome::Refused(message) = &outcome {
                    tracing::warn!(object = %key, verb = write.op.verb(), message, "the server refused a write");
                }
                // A pod that two budgets select is refused with an internal error, for good.
                self.refused_for_now(&job, &write.op, outcome.why(), now);
                let read = Write { op: Op::Read, ..write.clone() };
                self.effects.push(Effect::Write(Some(job), Box::new(read)));
            }
            Outcome::TooMany { message, retry_after } => {
                self.refused_for_now(&job, &write.op, &message, now);
                self.queue.fail(job, Duration::from_secs(retry_after.unwrap_or(0).into()), now);
            }
            Outcome::Conflict(_) | Outcome::Unknown(_) | Outcome::Refused(_) => {
                self.queue.fail(job, Duration::ZERO, now);
            }
            Outcome::Fenced => self.queue.fail(job, Duration::from_secs(1), now),
        }
    }
}

/// Name and uid of what a write was about.
fn metadata_of(write: &Write) -> ObjectMeta {
    let namespace = Some(write.key.namespace.clone()).filter(|namespace| !namespace.is_empty());
    ObjectMeta { name: Some(write.key.name.clone()), namespace, uid: Some(write.uid.clone()), ..Default::default() }
}
