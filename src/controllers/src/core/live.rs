//! The live state: told what is observed and what became of writes, in the same order as the view.

use std::time::Duration;

use berth_api::{NodeClaim, NodeClaimStatus};
use berth_state::{AssumptionId, Event, ObjectRef, Refused, Touched};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

use super::{Core, Effect, Job};
use crate::claim::conditions;
use crate::clock::after;
use crate::guarded::Unreadable;
use crate::kind::{Kind, NamedObject};
use crate::observed::{Object, Observed};
use crate::write::{Answered, Op, Outcome, Write};

/// Kinds that decisions about live pods do not depend on: their pods exist, or do not.
const UNWATCHED: [berth_state::Kind; 3] =
    [berth_state::Kind::Deployment, berth_state::Kind::Job, berth_state::Kind::CronJob];

/// What comes within this time is placed together: a decision looks at all of the cluster.
const GATHER: Duration = Duration::from_millis(20);
/// Refusals within this time are answered together.
const MOMENT: Duration = Duration::from_millis(200);

/// The state's kind of a kind that it knows.
pub(super) fn state_kind(kind: Kind) -> Option<berth_state::Kind> {
    berth_state::Kind::ALL.iter().copied().find(|known| known.name() == kind.as_str())
}

pub(super) fn own_kind(kind: berth_state::Kind) -> Option<Kind> {
    crate::observed::WATCHED.iter().copied().find(|known| known.as_str() == kind.name())
}

impl Core {
    /// Kinds that are not watched have no objects.
    pub(super) fn start_state(&mut self, now: Timestamp) {
        for kind in UNWATCHED {
            self.apply(Event::Relisted { kind, objects: Vec::new(), resource_version: None }, now);
        }
    }

    /// Tells the state what a watch told.
    pub(super) fn tell_state(&mut self, observed: &Observed, now: Timestamp) {
        let event = match observed {
            Observed::Applied(object) => self.as_avoiding(object).for_state().map(Event::Applied),
            Observed::Deleted(kind, metadata) => state_kind(*kind).map(|kind| {
                let namespace = metadata.namespace.as_deref().unwrap_or_default();
                let key = berth_state::Key::new(kind, namespace, metadata.name.as_deref().unwrap_or_default());
                let resource_version = metadata.resource_version.clone();
                Event::Deleted { object: key.with_uid(metadata.uid.as_deref()), resource_version }
            }),
            Observed::Listed { kind, objects, resource_version, .. } => state_kind(*kind).map(|kind| {
                let objects = objects.iter().filter_map(|object| self.as_avoiding(object).for_state()).collect();
                Event::Relisted { kind, objects, resource_version: resource_version.clone() }
            }),
            // What cannot be read counts as not there.
            Observed::Unreadable(kind, Unreadable { metadata, .. }) => state_kind(*kind).map(|kind| {
                let namespace = metadata.namespace.as_deref().unwrap_or_default();
                let key = berth_state::Key::new(kind, namespace, metadata.name.as_deref().unwrap_or_default());
                let object = key.with_uid(metadata.uid.as_deref());
                Event::Deleted { object, resource_version: metadata.resource_version.clone() }
            }),
            Observed::SetBack => None,
        };
        if let Some(event) = event {
            self.apply(event, now);
        }
        self.look_at_do_not_disrupt(observed, now);
        self.follow_unscheduled(observed, now);
        if let Observed::Applied(Object::NodeClaim(claim)) = observed {
            self.look_at_progress(claim, now);
            self.look_at_deletion(claim);
        }
        if is_end_of_claim(observed) {
            self.replan_at_once(now);
        }
        if let Observed::Deleted(Kind::NodeClaim, metadata) = observed {
            self.look_for_freed_slot(metadata.name.as_deref().unwrap_or_default(), now);
        }
        // A list, or a newer version, may leave open what became of a write.
        self.read_again();
    }

    /// Takes in the conditions of a NodeClaim, before the view knows them: the state does not. One that got further may let pods
    /// be placed; one that was left alone for long enough may only go.
    fn look_at_progress(&mut self, claim: &NodeClaim, now: Timestamp) {
        let name = claim.metadata.name.clone().unwrap_or_default();
        let known = self.view.claims.get(&name);
        // The answer to the last write may come after a watch has told that it is gone.
        let is_known = known.is_some();
        let known = known.and_then(|known| known.status.as_ref());
        let status = claim.status.as_ref();
        let event_time =
            |status: Option<&NodeClaimStatus>| status.and_then(|status| status.last_pod_event_time.clone());
        let (before, after) = (conditions_of(known), conditions_of(status));
        if before == after && event_time(known) == event_time(status) {
            return;
        }
        let (before, after) = (before.to_vec(), after.to_vec());
        if is_known {
            self.note_registration(claim, &before, &after, now);
            self.count_progress(claim, &before, &after);
        }
        let (before, after) = (&*before, &*after);
        if progress(before).eq(progress(after)) {
            self.disrupting.changed();
        } else {
            let objects = vec![berth_state::Key::new(berth_state::Kind::NodeClaim, "", &name)];
            self.wake(&Touched { objects, room: true, ..Touched::default() }, now);
        }
    }

    /// Takes in, before the view does, that a NodeClaim is deleted: its pods wait for places from then on, before they are
    /// evicted. Commands have looked for places of theirs.
    fn look_at_deletion(&mut self, claim: &NodeClaim) {
        let name = claim.metadata.name.clone().unwrap_or_default();
        let known = self.view.claims.get(&name);
        let is_news = claim.metadata.deletion_timestamp.is_some()
            && known.is_some_and(|known| known.metadata.deletion_timestamp.is_none());
        let node = claim.status.as_ref().and_then(|status| status.node_name.as_deref());
        let has_pods =
            || node.is_some_and(|node| self.state.pods_on(node).any(|pod| !pod.has_ended() && !pod.is_mirror()));
        // Who was to come there, but runs on elsewhere, needs another place.
        let is_place = node.is_some_and(|node| self.moves_to.contains(node));
        if is_news && (is_place || !self.disrupting.takes(&name) && has_pods()) {
            self.has_waiting = true;
        }
    }

    /// Applies an event. What cannot be used is told of, on its object, and all else goes on.
    pub(super) fn apply(&mut self, event: Event, now: Timestamp) {
        let touched = match self.state.apply(event) {
            Ok(touched) => touched,
            Err(Refused { objects, touched }) => {
                for object in &objects {
                    self.tell_refused(object, now);
                }
                touched
            }
        };
        self.wake(&touched, now);
    }

    /// What changed may let somebody be placed: on nodes that are up shortly, on new ones once no more comes for a while.
    pub(super) fn wake(&mut self, touched: &Touched, now: Timestamp) {
        if !touched.is_nothing() {
            self.disrupting.changed();
            self.disrupting.cause.note(touched);
        }
        if touched.room {
            self.room_came();
        }
        if touched.waiting {
            self.has_waiting = true;
            self.batch = Some(self.batch.map_or((now, now), |(first, _)| (first, now)));
        }
        if touched.waiting || (touched.room && self.has_waiting) {
            self.binding_cause.note(touched);
            self.launching_cause.note(touched);
            self.queue.add_at(Job::Schedule, after(now, GATHER));
            self.queue.add_at(Job::Provision, after(now, self.options.timings.batch_idle));
        }
    }

    /// What launches were refused for is planned anew, together with what else is refused in the same moment: one by one
    /// they would get more nodes.
    pub(super) fn replan_at_once(&mut self, now: Timestamp) {
        if self.has_waiting {
            self.batch = None;
            self.queue.add_at(Job::Provision, after(now, MOMENT));
        }
    }

    /// What became of a write that the state assumes.
    pub(super) fn settle(&mut self, job: &Job, write: &Write, outcome: &Outcome, now: Timestamp) {
        let Some(assumption) = self.assumed.remove(job) else { return };
        let settled = match outcome {
            Outcome::Done(answered) => {
                let version = answered.as_ref().map(Answered::version).unwrap_or_default();
                berth_state::Outcome::Written { resource_version: version.resource_version, uid: version.uid }
            }
            Outcome::Unknown(_) => berth_state::Outcome::Unknown,
            _ => berth_state::Outcome::Refused,
        };
        self.apply(Event::Settled { assumption, outcome: settled }, now);
        self.read_again();
        if matches!(outcome, Outcome::Conflict(_) | Outcome::Refused(_)) {
            // What was known is out of date.
            let read = Write { op: Op::Read, ..write.clone() };
            self.effects.push(Effect::Write(None, Box::new(read)));
        }
    }

    /// Assumes a write and sends it for a job of its own. Nothing is done where the state does not know the object so.
    pub(super) fn assume_and_write(
        &mut self,
        job: Job,
        object: &ObjectRef,
        patch: berth_state::Patch,
        write: Write,
    ) -> bool {
        let is_assumed = self.assume(job.clone(), object, patch);
        if is_assumed {
            self.write(job, write);
        }
        is_assumed
    }

    /// Assumes what a job is about to write, unless it waits for an answer, or the state does not know the object so.
    pub(super) fn assume(&mut self, job: Job, object: &ObjectRef, patch: berth_state::Patch) -> bool {
        if self.queue.is_running(&job) {
            return false;
        }
        let Some(assumed) = self.state.assume(object, patch) else { return false };
        self.assumed.insert(job, assumed.assumption);
        true
    }

    /// Reads what the state does not know any more, as of late.
    fn read_again(&mut self) {
        for key in self.state.take_told_doubts() {
            self.read_again_if_in_doubt(&key);
        }
        debug_assert!(
            self.state
                .to_read_again()
                .filter_map(|object| reread_of(&object.key))
                .all(|job| self.queue.is_running(&job) || self.queue.is_to_be_done(&job)),
            "an object in doubt is not read again"
        );
    }

    fn read_again_if_in_doubt(&mut self, key: &berth_state::Key) {
        if self.state.in_doubt_as(key).is_some()
            && let Some(job) = reread_of(key)
            && !self.queue.is_running(&job)
        {
            self.queue.add(job);
        }
    }

    pub(super) fn reread(&mut self, key: NamedObject) {
        let unknown = state_kind(key.kind)
            .and_then(|kind| self.state.in_doubt_as(&berth_state::Key::new(kind, &key.namespace, &key.name)));
        match unknown {
            Some(object) => {
                let uid = object.uid.map(|uid| uid.to_string()).unwrap_or_default();
                self.write(Job::Reread(key.clone()), Write { key, uid, op: Op::Read });
            }
            None => self.queue.forget(&Job::Reread(key)),
        }
    }

    /// An object was read again, or is not there.
    pub(super) fn was_reread(&mut self, key: &NamedObject, outcome: &Outcome, now: Timestamp) {
        let job = Job::Reread(key.clone());
        let Some(kind) = state_kind(key.kind) else { return self.queue.done(&job) };
        let found = match outcome {
            Outcome::Done(Some(answered)) => match Object::from_answer(key.kind, answered) {
                Some(Ok(object)) => self.as_avoiding(&object).for_state(),
                _ => None,
            },
            Outcome::NotFound => None,
            _ => return self.queue.fail(job, std::time::Duration::ZERO, now),
        };
        let known_as = berth_state::Key::new(kind, &key.namespace, &key.name);
        self.apply(Event::Read { object: known_as.clone().with_uid(None), found }, now);
        self.queue.done(&job);
        // Doubts that came while it was read.
        self.read_again_if_in_doubt(&known_as);
        self.read_again();
    }
}

/// The job that reads an object again.
fn reread_of(key: &berth_state::Key) -> Option<Job> {
    let kind = own_kind(key.kind)?;
    Some(Job::Reread(NamedObject { kind, namespace: key.namespace.to_string(), name: key.name.to_string() }))
}

fn conditions_of(status: Option<&NodeClaimStatus>) -> &[Condition] {
    status.map_or(&[][..], |status| &status.conditions)
}

/// What conditions say of how far a NodeClaim has come.
fn progress(conditions: &[Condition]) -> impl Iterator<Item = (&str, &str)> {
    let told = conditions.iter().filter(|one| one.type_ != conditions::CONSOLIDATABLE);
    told.map(|one| (&*one.type_, &*one.status))
}

/// Whether a NodeClaim will be no node, or none much longer: what was planned for it needs another.
fn is_end_of_claim(observed: &Observed) -> bool {
    match observed {
        Observed::Applied(Object::NodeClaim(claim)) => claim.metadata.deletion_timestamp.is_some(),
        Observed::Deleted(kind, _) => *kind == Kind::NodeClaim,
        _ => false,
    }
}

/// What a job's write is assumed as.
pub(super) type Assumed = std::collections::BTreeMap<Job, AssumptionId>;
