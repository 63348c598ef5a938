//! Deployments: a ReplicaSet for each template, and a roll from the old to the new within surge and unavailability.

use std::sync::Arc;

use jiff::SignedDuration;
use k8s_openapi::api::apps::v1::{
    Deployment, DeploymentCondition, DeploymentSpec, DeploymentStatus, ReplicaSet, ReplicaSetSpec,
};
use k8s_openapi::api::core::v1::PodTemplateSpec;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};

use super::adoption::{Claimed, Owner};
use super::rollout::{Bounds, DESIRED, MAX, Step, available, replicas, rescale, roll, sized_for};
use super::template::{annotate, annotation, hash_of, scaled, set_label, size};
use crate::core::{Core, controlled_by};
use crate::events::{Involved, Telling};
use crate::index::workload_selector;
use crate::key::NamespacedName;
use crate::objects::View;
use crate::resource::{DEPLOYMENTS, REPLICA_SETS};
use crate::work::Work;
use crate::write::{Effect, Write};

const HASH: &str = "pod-template-hash";
const REVISION: &str = "deployment.kubernetes.io/revision";
const HISTORY: &str = "deployment.kubernetes.io/revision-history";
/// How long the text of former revisions may become.
const MAX_HISTORY: usize = 2000;
/// Annotations that a ReplicaSet does not take over from its Deployment.
const OWN_ANNOTATIONS: [&str; 6] = [
    "kubectl.kubernetes.io/last-applied-configuration",
    REVISION,
    HISTORY,
    DESIRED,
    MAX,
    "deprecated.deployment.rollback.to",
];

/// A Deployment with its ReplicaSets.
struct Rollout<'d> {
    key: &'d NamespacedName,
    deployment: &'d Deployment,
    spec: &'d DeploymentSpec,
    /// Oldest first.
    sets: Vec<Arc<ReplicaSet>>,
    wanted: i32,
    max_surge: i32,
    max_unavailable: i32,
}

pub(crate) fn sync(core: &mut Core, key: &NamespacedName) -> Effect {
    let Some(deployment) = core.caches.deployments.get(key).cloned() else { return Effect::Done };
    let Some(spec) = deployment.spec.as_ref().filter(|_| deployment.metadata.deletion_timestamp.is_none()) else {
        return Effect::Done;
    };
    let work = Work::Deployment(key.clone());
    let view = View::of(&deployment.metadata);
    let owner = Owner { resource: &DEPLOYMENTS, view, selector: workload_selector(Some(&spec.selector)) };
    let caches = &core.caches;
    let own = caches.indexes.sets_of.get(view.uid).filter_map(|key| caches.replica_sets.get(key)).cloned();
    let free = caches.indexes.orphan_sets.members(&work).filter_map(|key| caches.replica_sets.get(key));
    let free = free.filter(|set| set.metadata.deletion_timestamp.is_none());
    let mut sets = match owner.claim(core, &REPLICA_SETS, own.collect(), free) {
        Claimed::Owned(sets) => sets,
        Claimed::First(effect) => return effect,
    };
    sets.retain(|set| set.metadata.deletion_timestamp.is_none());
    sets.sort_by(|a, b| (created(a), &a.metadata.name).cmp(&(created(b), &b.metadata.name)));
    let wanted = spec.replicas.unwrap_or(1);
    let rolling = spec.strategy.as_ref().and_then(|strategy| strategy.rolling_update.as_ref());
    let max_surge = scaled(rolling.and_then(|rolling| rolling.max_surge.as_ref()), wanted, true);
    let max_unavailable = scaled(rolling.and_then(|rolling| rolling.max_unavailable.as_ref()), wanted, false);
    // Both may have been rounded to nothing, with which no roll would ever move. Without a roll nothing may be unavailable.
    let is_stuck = rolling.is_some() && max_surge == 0 && max_unavailable == 0;
    let max_unavailable = if is_stuck { 1 } else { max_unavailable }.min(wanted);
    let rollout = Rollout { key, deployment: &deployment, spec, sets, wanted, max_surge, max_unavailable };
    let mut writes = rollout.write_sets(core);
    let notes = rollout.new_set().map(|new| rollout.note_revision(new)).unwrap_or_default();
    if notes.is_empty() {
        writes.extend(rollout.write_status(core));
    }
    // A write of the status takes the annotations as well, so it waits until they are known here.
    writes.extend(notes);
    Effect::of(writes)
}

impl Rollout<'_> {
    fn newest(&self) -> i64 {
        self.sets.iter().map(|set| revision(set)).max().unwrap_or(0)
    }

    /// The set of the present template; of several the oldest, as upstream.
    fn new_set(&self) -> Option<&Arc<ReplicaSet>> {
        let of = |set: &&Arc<ReplicaSet>| template_of(set).is_some_and(|own| is_same(&own, &self.spec.template));
        self.sets.iter().filter(of).min_by_key(|set| (created(set), set.metadata.name.clone()))
    }

    fn is_paused(&self) -> bool {
        self.spec.paused == Some(true)
    }

    fn recreates(&self) -> bool {
        self.spec.strategy.as_ref().and_then(|strategy| strategy.type_.as_deref()) == Some("Recreate")
    }

    /// One step of the roll, as upstream's `syncDeployment`: each set is written at most once.
    fn write_sets(&self, core: &Core) -> Vec<Write> {
        let new_uid = self.new_set().map(|new| new.metadata.uid.clone());
        let steps = self.sets.iter().map(|set| Step {
            set,
            is_new: new_uid.as_ref().is_some_and(|uid| *uid == set.metadata.uid),
            size: replicas(set),
        });
        let mut steps: Vec<Step<'_>> = steps.collect();
        let is_scaling = self.is_scaling();
        if self.is_paused() || is_scaling {
            rescale(&mut steps, &self.bounds());
        } else if self.recreates() {
            let has_shrunk = steps.iter_mut().filter(|step| !step.is_new && step.size > 0).map(|step| step.size = 0);
            let has_shrunk = has_shrunk.count() > 0;
            if !has_shrunk && !has_pods(core, &steps) {
                match steps.iter_mut().find(|step| step.is_new) {
                    Some(new) => new.size = self.wanted,
                    None => return vec![self.create(self.wanted)],
                }
            }
        } else if new_uid.is_none() {
            let pods: i32 = steps.iter().map(|step| step.size).sum();
            let room = self.wanted.saturating_add(self.max_surge).saturating_sub(pods);
            return vec![self.create(room.clamp(0, self.wanted))];
        } else {
            roll(&mut steps, &self.bounds());
        }
        let mut writes: Vec<Write> = steps.iter().filter_map(|step| self.write_set(step, is_scaling)).collect();
        if self.is_paused() || self.is_complete() {
            writes.extend(self.forget_old(&steps));
        }
        writes
    }

    fn bounds(&self) -> Bounds {
        let status = self.deployment.status.as_ref();
        Bounds {
            wanted: self.wanted,
            max_surge: self.max_surge,
            max_unavailable: self.max_unavailable,
            was: status.and_then(|status| status.replicas).unwrap_or(0),
            is_rolling: !self.recreates(),
        }
    }

    /// Whether the number of replicas was changed since the sets were sized.
    fn is_scaling(&self) -> bool {
        let mut active = self.sets.iter().filter(|set| replicas(set) > 0);
        active.any(|set| sized_for(set).is_some_and(|sized_for| sized_for != self.wanted))
    }

    /// Whether the roll is over, as the status has it.
    fn is_complete(&self) -> bool {
        let Some(status) = &self.deployment.status else { return false };
        [status.updated_replicas, status.replicas, status.available_replicas].map(|n| n.unwrap_or(0))
            == [self.wanted; 3]
            && status.observed_generation >= self.deployment.metadata.generation
    }

    /// Writes a set's size, and what the set of the present template has from the Deployment.
    fn write_set(&self, step: &Step<'_>, is_scaling: bool) -> Option<Write> {
        let mut new = (**step.set).clone();
        let spec = new.spec.as_mut()?;
        if step.is_new {
            spec.min_ready_seconds = self.spec.min_ready_seconds;
            self.take_annotations(&mut new.metadata);
            self.take_revision(step.set, &mut new.metadata);
        }
        if replicas(step.set) != step.size || (is_scaling && step.size > 0) {
            spec.replicas = Some(step.size);
            self.note_size(&mut new.metadata);
        }
        if new == **step.set {
            return None;
        }
        let write = Write::replace(&REPLICA_SETS, &self.beside(step.set), &new);
        let was = replicas(step.set);
        Some(if was == step.size { write } else { write.telling(self.scaled(was, step.size)) })
    }

    /// Why a Deployment was changed is told by its annotations, so its present set has them too.
    fn take_annotations(&self, meta: &mut ObjectMeta) {
        for (key, value) in self.deployment.metadata.annotations.iter().flatten() {
            if !OWN_ANNOTATIONS.contains(&key.as_str()) {
                annotate(meta, key, value);
            }
        }
    }

    /// A set whose template is the present one again becomes the newest, and remembers which it was.
    fn take_revision(&self, set: &Arc<ReplicaSet>, meta: &mut ObjectMeta) {
        let (was, now) = (revision(set), self.present_revision(set));
        if was >= now {
            return;
        }
        annotate(meta, REVISION, &now.to_string());
        if was > 0 {
            let history = annotation(meta, HISTORY).filter(|history| !history.is_empty());
            let history = history.map_or_else(|| was.to_string(), |history| remembered(history, was));
            annotate(meta, HISTORY, &history);
        }
    }

    fn note_size(&self, meta: &mut ObjectMeta) {
        annotate(meta, DESIRED, &self.wanted.to_string());
        annotate(meta, MAX, &self.wanted.saturating_add(self.max_surge).to_string());
    }

    fn scaled(&self, was: i32, now: i32) -> Telling {
        let way = if now > was { "up" } else { "down" };
        let message = format!("Scaled {way} replica set {{}} from {was} to {now}");
        Telling::done(Involved::new(&DEPLOYMENTS, View::of(&self.deployment.metadata)), "ScalingReplicaSet", message)
    }

    fn beside(&self, set: &ReplicaSet) -> NamespacedName {
        self.key.beside(set.metadata.name.as_deref().unwrap_or_default())
    }

    fn create(&self, replicas: i32) -> Write {
        let collisions = self.deployment.status.as_ref().and_then(|status| status.collision_count);
        let hash = hash_of(&(&self.spec.template, collisions));
        let name = format!("{}-{hash}", self.key.name);
        let mut template = self.spec.template.clone();
        set_label(template.metadata.get_or_insert_default(), HASH, &hash);
        let mut selector = self.spec.selector.clone();
        selector.match_labels.get_or_insert_default().insert(HASH.to_owned(), hash);
        let mut metadata = ObjectMeta {
            name: Some(name.clone()),
            labels: template.metadata.as_ref().and_then(|meta| meta.labels.clone()),
            owner_references: Some(vec![controlled_by(&DEPLOYMENTS, View::of(&self.deployment.metadata))]),
            ..ObjectMeta::default()
        };
        self.take_annotations(&mut metadata);
        annotate(&mut metadata, REVISION, &(self.newest() + 1).to_string());
        self.note_size(&mut metadata);
        let spec = ReplicaSetSpec {
            replicas: Some(replicas),
            min_ready_seconds: self.spec.min_ready_seconds,
            selector,
            template: Some(template),
        };
        let set = ReplicaSet { metadata, spec: Some(spec), status: None };
        let write = Write::create(&REPLICA_SETS, &self.key.beside(&name), &set);
        let refused = format!("Failed to create new replica set \"{name}\": {{}}");
        let telling = || self.scaled(0, replicas).or_refused("ReplicaSetCreateError", refused);
        if replicas > 0 { write.telling(telling()) } else { write }
    }

    /// The revision that the set of the present template should have: the highest.
    fn present_revision(&self, new: &Arc<ReplicaSet>) -> i64 {
        let old = self.sets.iter().filter(|set| set.metadata.uid != new.metadata.uid);
        let highest_old = old.map(|set| revision(set)).max().unwrap_or(0);
        if revision(new) > highest_old { revision(new) } else { highest_old + 1 }
    }

    /// The Deployment says which revision it is at.
    fn note_revision(&self, new: &Arc<ReplicaSet>) -> Vec<Write> {
        let number = self.present_revision(new).to_string();
        if self.is_paused() || annotation(&self.deployment.metadata, REVISION) == Some(&number) {
            return Vec::new();
        }
        let patch = serde_json::json!({"metadata": {"annotations": {REVISION: number}}});
        // With its status, as upstream: by itself an annotation would be another generation.
        vec![Write::patch_status(&DEPLOYMENTS, self.key, &patch)]
    }

    /// Old sets without pods are kept as far as the history goes.
    fn forget_old(&self, steps: &[Step<'_>]) -> Vec<Write> {
        let mut old: Vec<&Arc<ReplicaSet>> = steps.iter().filter(|step| !step.is_new).map(|step| step.set).collect();
        old.sort_by_key(|set| (revision(set), created(set)));
        let kept = size(self.spec.revision_history_limit.unwrap_or(10));
        let surplus = old.iter().take(old.len().saturating_sub(kept)).filter(|set| is_empty(set));
        let uid = |set: &ReplicaSet| set.metadata.uid.clone().unwrap_or_default();
        surplus.map(|set| Write::delete(&REPLICA_SETS, &self.beside(set), &uid(set))).collect()
    }

    fn write_status(&self, core: &mut Core) -> Option<Write> {
        let sum = |field: fn(&ReplicaSet) -> i32| self.sets.iter().map(|set| field(set)).sum::<i32>();
        let status_of = |set: &ReplicaSet| set.status.clone().unwrap_or_default();
        let new = self.new_set();
        let total = sum(|set| set.status.as_ref().map_or(0, |status| status.replicas));
        let ready = sum(|set| set.status.as_ref().and_then(|status| status.ready_replicas).unwrap_or(0));
        let available = sum(available);
        let updated = new.map_or(0, |set| status_of(set).replicas);
        let was = self.deployment.status.clone().unwrap_or_default();
        let some = |n: i32| Some(n).filter(|n| *n > 0);
        let mut status = DeploymentStatus {
            observed_generation: self.deployment.metadata.generation,
            replicas: some(total),
            updated_replicas: some(updated),
            ready_replicas: some(ready),
            available_replicas: some(available),
            unavailable_replicas: some((total.max(self.wanted) - available).max(0)),
            collision_count: was.collision_count,
            terminating_replicas: was.terminating_replicas,
            conditions: was.conditions.clone(),
        };
        let now = core.now_time();
        let available_condition = if available >= self.wanted - self.max_unavailable {
            condition("Available", "True", "MinimumReplicasAvailable", "Deployment has minimum availability.", &now)
        } else {
            let message = "Deployment does not have minimum availability.";
            condition("Available", "False", "MinimumReplicasUnavailable", message, &now)
        };
        set_condition(&mut status, available_condition);
        self.tell_refusal(&mut status, new, &now);
        self.tell_progress(core, &was, &mut status, new, &now);
        if status == was {
            return None;
        }
        let mut object = self.deployment.clone();
        object.status = Some(status);
        Some(Write::replace_status(&DEPLOYMENTS, self.key, &object))
    }

    /// That the pods of a set are refused, those of the new one first.
    fn tell_refusal(&self, status: &mut DeploymentStatus, new: Option<&Arc<ReplicaSet>>, now: &Time) {
        const FAILURE: &str = "ReplicaFailure";
        let refused = |set: &Arc<ReplicaSet>| {
            let all = set.status.as_ref().and_then(|status| status.conditions.clone()).unwrap_or_default();
            all.into_iter().find(|condition| condition.type_ == FAILURE)
        };
        match new.and_then(refused).or_else(|| self.sets.iter().find_map(refused)) {
            Some(own) => {
                let (reason, message) = (own.reason.unwrap_or_default(), own.message.unwrap_or_default());
                set_condition(status, condition(FAILURE, &own.status, &reason, &message, now));
            }
            None => status.conditions.iter_mut().for_each(|all| all.retain(|condition| condition.type_ != FAILURE)),
        }
    }

    /// The condition Progressing, as upstream's `syncRolloutStatus` sets it.
    fn tell_progress(
        &self,
        core: &mut Core,
        was: &DeploymentStatus,
        status: &mut DeploymentStatus,
        new: Option<&Arc<ReplicaSet>>,
        now: &Time,
    ) {
        let deadline = self.spec.progress_deadline_seconds.filter(|seconds| *seconds != i32::MAX);
        let Some(deadline) = deadline else {
            status.conditions.iter_mut().for_each(|all| all.retain(|condition| condition.type_ != "Progressing"));
            return;
        };
        let known = condition_of(was, "Progressing").cloned();
        let has_reason = |reason: &str| known.as_ref().is_some_and(|known| known.reason.as_deref() == Some(reason));
        if self.is_paused() {
            if !has_reason("DeploymentPaused") && !has_reason("ProgressDeadlineExceeded") {
                let message = "Deployment is paused";
                set_condition(status, condition("Progressing", "Unknown", "DeploymentPaused", message, now));
            }
            return;
        }
        let get = |n: Option<i32>| n.unwrap_or(0);
        let (updated, total) = (get(status.updated_replicas), get(status.replicas));
        let is_complete =
            updated == self.wanted && total == self.wanted && get(status.available_replicas) >= self.wanted;
        if total == updated && has_reason("NewReplicaSetAvailable") {
            return;
        }
        let name = new.and_then(|set| set.metadata.name.clone());
        let what = match &name {
            Some(name) => format!("ReplicaSet {name:?}"),
            None => format!("Deployment {:?}", &*self.key.name),
        };
        let old_of = |status: &DeploymentStatus| get(status.replicas) - get(status.updated_replicas);
        let progresses = updated > get(was.updated_replicas)
            || old_of(status) < old_of(was)
            || get(status.ready_replicas) > get(was.ready_replicas)
            || get(status.available_replicas) > get(was.available_replicas);
        if is_complete {
            let message = format!("{what} has successfully progressed.");
            set_condition(status, condition("Progressing", "True", "NewReplicaSetAvailable", &message, now));
        } else if progresses || known.is_none() {
            let message = format!("{what} is progressing.");
            let mut next = condition("Progressing", "True", "ReplicaSetUpdated", &message, now);
            if let Some(known) = known.filter(|known| known.status == "True") {
                next.last_transition_time = known.last_transition_time;
            }
            status.conditions.iter_mut().for_each(|all| all.retain(|condition| condition.type_ != "Progressing"));
            status.conditions.get_or_insert_default().push(next);
            core.add_after(
                Work::Deployment(self.key.clone()),
                std::time::Duration::from_secs(deadline.unsigned_abs().into()),
            );
        } else if let Some(since) = known.as_ref().and_then(|known| known.last_update_time.as_ref())
            && !has_reason("ProgressDeadlineExceeded")
        {
            let due = since.0.saturating_add(SignedDuration::from_secs(deadline.into())).unwrap_or(since.0);
            if due <= now.0 {
                let message = format!("{what} has timed out progressing.");
                set_condition(status, condition("Progressing", "False", "ProgressDeadlineExceeded", &message, now));
            } else {
                core.add_when(Work::Deployment(self.key.clone()), due);
            }
        }
    }
}

/// Whether pods of old sets are still there, terminating ones as well.
fn has_pods(core: &Core, steps: &[Step<'_>]) -> bool {
    let caches = &core.caches;
    steps.iter().filter(|step| !step.is_new).any(|step| {
        let uid = step.set.metadata.uid.as_deref().unwrap_or_default();
        let mut pods = caches.indexes.pods_of.get(uid).filter_map(|key| caches.pods.get(key));
        pods.any(|pod| !pod.has_ended())
    })
}

/// Whether a set neither has nor wants pods, as far as its controller has seen.
fn is_empty(set: &ReplicaSet) -> bool {
    let status = set.status.clone().unwrap_or_default();
    replicas(set) == 0
        && status.replicas == 0
        && status.observed_generation.unwrap_or(0) >= set.metadata.generation.unwrap_or(0)
}

/// Whether two templates are the same but for the hash.
fn is_same(a: &PodTemplateSpec, b: &PodTemplateSpec) -> bool {
    let labels = |template: &PodTemplateSpec| {
        let labels = template.metadata.as_ref().and_then(|meta| meta.labels.clone()).unwrap_or_default();
        labels.into_iter().filter(|(key, _)| key != HASH).collect::<Vec<_>>()
    };
    let annotations = |template: &PodTemplateSpec| {
        template.metadata.as_ref().and_then(|meta| meta.annotations.clone()).unwrap_or_default()
    };
    a.spec == b.spec && labels(a) == labels(b) && annotations(a) == annotations(b)
}

fn template_of(set: &ReplicaSet) -> Option<PodTemplateSpec> {
    set.spec.as_ref()?.template.clone()
}

fn revision(set: &ReplicaSet) -> i64 {
    annotation(&set.metadata, REVISION).and_then(|text| text.parse().ok()).unwrap_or(0)
}

fn created(set: &ReplicaSet) -> Option<jiff::Timestamp> {
    set.metadata.creation_timestamp.as_ref().map(|time| time.0)
}

/// The former revisions of a set with one more; the oldest are forgotten where the text becomes too long.
fn remembered(history: &str, revision: i64) -> String {
    let mut all: Vec<&str> = history.split(',').collect();
    let last = revision.to_string();
    all.push(&last);
    while all.len() > 1 && all.iter().map(|one| one.len() + 1).sum::<usize>() > MAX_HISTORY {
        all.remove(0);
    }
    all.join(",")
}

fn condition(type_: &str, status: &str, reason: &str, message: &str, now: &Time) -> DeploymentCondition {
    DeploymentCondition {
        type_: type_.to_owned(),
        status: status.to_owned(),
        reason: Some(reason.to_owned()),
        message: Some(message.to_owned()),
        last_update_time: Some(now.clone()),
        last_transition_time: Some(now.clone()),
    }
}

fn condition_of<'s>(status: &'s DeploymentStatus, type_: &str) -> Option<&'s DeploymentCondition> {
    status.conditions.iter().flatten().find(|condition| condition.type_ == type_)
}

/// Sets a condition. One of the same status and reason stays as it is, or every sync would be a change.
fn set_condition(status: &mut DeploymentStatus, mut new: DeploymentCondition) {
    let known = condition_of(status, &new.type_);
    if known.is_some_and(|known| (&known.status, &known.reason) == (&new.status, &new.reason)) {
        return;
    }
    if let Some(known) = known.filter(|known| known.status == new.status) {
        new.last_transition_time.clone_from(&known.last_transition_time);
    }
    let all = status.conditions.get_or_insert_default();
    all.retain(|condition| condition.type_ != new.type_);
    all.push(new);
}
