//! Deployments: a ReplicaSet for each template, and a roll from the old to the new within surge and unavailability.

use std::sync::Arc;

use jiff::SignedDuration;
use k8s_openapi::api::apps::v1::{
    Deployment, DeploymentCondition, DeploymentSpec, DeploymentStatus, ReplicaSet, ReplicaSetSpec,
};
use k8s_openapi::api::core::v1::PodTemplateSpec;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};

use super::adoption::{Claimed, Owner};
use super::template::{annotate, annotation, hash_of, scaled, set_label, size};
use crate::core::{Core, controlled_by};
use crate::index::workload_selector;
use crate::key::Key;
use crate::objects::View;
use crate::resource::{DEPLOYMENTS, REPLICA_SETS};
use crate::work::Work;
use crate::write::{Effect, Write};

const HASH: &str = "pod-template-hash";
const REVISION: &str = "deployment.kubernetes.io/revision";
const DESIRED: &str = "deployment.kubernetes.io/desired-replicas";
const MAX: &str = "deployment.kubernetes.io/max-replicas";
/// Annotations that a ReplicaSet does not take over from its Deployment.
const OWN_ANNOTATIONS: [&str; 6] = [
    "kubectl.kubernetes.io/last-applied-configuration",
    REVISION,
    "deployment.kubernetes.io/revision-history",
    DESIRED,
    MAX,
    "deprecated.deployment.rollback.to",
];

/// A Deployment with its ReplicaSets.
struct Rollout<'d> {
    key: &'d Key,
    deployment: &'d Deployment,
    spec: &'d DeploymentSpec,
    /// Oldest first.
    sets: Vec<Arc<ReplicaSet>>,
    wanted: i32,
    max_surge: i32,
    max_unavailable: i32,
}

pub(crate) fn sync(core: &mut Core, key: &Key) -> Effect {
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
    sets.sort_by(|a, b| (revision(a), created(a), &a.metadata.name).cmp(&(revision(b), created(b), &b.metadata.name)));
    let wanted = spec.replicas.unwrap_or(1);
    let rolling = spec.strategy.as_ref().and_then(|strategy| strategy.rolling_update.as_ref());
    let max_surge = scaled(rolling.and_then(|rolling| rolling.max_surge.as_ref()), wanted, true);
    let max_unavailable = scaled(rolling.and_then(|rolling| rolling.max_unavailable.as_ref()), wanted, false);
    // Both may have been rounded to nothing, with which no roll would ever move.
    let max_unavailable = if max_surge == 0 && max_unavailable == 0 { 1 } else { max_unavailable.min(wanted) };
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

    /// One step of the roll.
    fn write_sets(&self, core: &Core) -> Vec<Write> {
        let new = self.new_set();
        let is_new = |set: &&Arc<ReplicaSet>| new.is_some_and(|new| new.metadata.uid == set.metadata.uid);
        let old: Vec<&Arc<ReplicaSet>> = self.sets.iter().filter(|set| !is_new(set)).collect();
        let mut writes = Vec::new();
        if self.is_paused() {
            // A paused roll is still scaled.
            if let ([], Some(new)) = (&active(&old)[..], new) {
                writes.extend(self.scale(new, self.wanted));
            }
            return writes;
        }
        let old_pods: i32 = old.iter().map(|set| replicas(set)).sum();
        if self.recreates() {
            writes.extend(old.iter().filter_map(|set| self.scale(set, 0)));
            let is_gone = old_pods == 0 && !has_pods(core, &old);
            match new {
                Some(new) if is_gone => writes.extend(self.scale(new, self.wanted)),
                Some(_) => {}
                None => writes.extend(is_gone.then(|| self.create(self.wanted))),
            }
        } else {
            let room = self.wanted.saturating_add(self.max_surge).saturating_sub(old_pods);
            match new {
                None => writes.push(self.create(room.clamp(0, self.wanted))),
                Some(new) => {
                    let now = replicas(new);
                    // Beyond what is wanted it shrinks at once; else it grows as far as there is room.
                    let next = if now > self.wanted { self.wanted } else { room.clamp(now, self.wanted) };
                    writes.extend(self.scale(new, next));
                    writes.extend(self.scale_down(new, &old));
                }
            }
        }
        if let Some(new) = new {
            writes.extend(self.adopt_revision(new));
            writes.extend(self.forget_old(&old));
        }
        writes
    }

    /// Pods of old sets that are not available go first, available ones only as far as enough are left.
    fn scale_down(&self, new: &ReplicaSet, old: &[&Arc<ReplicaSet>]) -> Vec<Write> {
        let serving = |set: &ReplicaSet| available(set).min(replicas(set));
        let all: i32 = old.iter().map(|set| serving(set)).sum::<i32>() + serving(new);
        let mut spare = (all - (self.wanted - self.max_unavailable)).max(0);
        let mut writes = Vec::new();
        for set in old {
            let (has, own) = (replicas(set), serving(set));
            let taken = own.min(spare);
            let gone = (has - own) + taken;
            spare -= taken;
            if gone > 0 {
                writes.extend(self.scale(set, has - gone));
            }
        }
        writes
    }

    fn scale(&self, set: &ReplicaSet, replicas: i32) -> Option<Write> {
        let mut new = set.clone();
        let spec = new.spec.as_mut()?;
        spec.replicas = Some(replicas);
        self.note_size(&mut new.metadata);
        let is_changed = self::replicas(set) != replicas || new.metadata.annotations != set.metadata.annotations;
        is_changed.then(|| Write::replace(&REPLICA_SETS, &self.beside(set), &new))
    }

    fn note_size(&self, meta: &mut ObjectMeta) {
        annotate(meta, DESIRED, &self.wanted.to_string());
        annotate(meta, MAX, &self.wanted.saturating_add(self.max_surge).to_string());
    }

    fn beside(&self, set: &ReplicaSet) -> Key {
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
        for (key, value) in self.deployment.metadata.annotations.iter().flatten() {
            if !OWN_ANNOTATIONS.contains(&key.as_str()) {
                annotate(&mut metadata, key, value);
            }
        }
        annotate(&mut metadata, REVISION, &(self.newest() + 1).to_string());
        self.note_size(&mut metadata);
        let spec = ReplicaSetSpec {
            replicas: Some(replicas),
            min_ready_seconds: self.spec.min_ready_seconds,
            selector,
            template: Some(template),
        };
        let set = ReplicaSet { metadata, spec: Some(spec), status: None };
        Write::create(&REPLICA_SETS, &self.key.beside(&name), &set)
    }

    /// The revision that the set of the present template should have: the highest.
    fn present_revision(&self, new: &Arc<ReplicaSet>) -> i64 {
        let old = self.sets.iter().filter(|set| set.metadata.uid != new.metadata.uid);
        let highest_old = old.map(|set| revision(set)).max().unwrap_or(0);
        if revision(new) > highest_old { revision(new) } else { highest_old + 1 }
    }

    fn adopt_revision(&self, new: &Arc<ReplicaSet>) -> Option<Write> {
        let number = self.present_revision(new);
        let patch = serde_json::json!({"metadata": {"annotations": {REVISION: number.to_string()}}});
        (number != revision(new)).then(|| Write::merge(&REPLICA_SETS, &self.beside(new), &patch))
    }

    /// The Deployment says which revision it is at.
    fn note_revision(&self, new: &Arc<ReplicaSet>) -> Vec<Write> {
        let number = self.present_revision(new).to_string();
        if self.is_paused() || annotation(&self.deployment.metadata, REVISION) == Some(&number) {
            return Vec::new();
        }
        let patch = serde_json::json!({"metadata": {"annotations": {REVISION: number}}});
        vec![Write::merge(&DEPLOYMENTS, self.key, &patch)]
    }

    /// Old sets without pods are kept as far as the history goes.
    fn forget_old(&self, old: &[&Arc<ReplicaSet>]) -> Vec<Write> {
        let pods = |set: &ReplicaSet| set.status.as_ref().map_or(0, |status| status.replicas);
        let empty: Vec<_> = old.iter().filter(|set| replicas(set) == 0 && pods(set) == 0).collect();
        let kept = size(self.spec.revision_history_limit.unwrap_or(10));
        let surplus = empty.iter().take(empty.len().saturating_sub(kept));
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
        self.tell_progress(core, &was, &mut status, new, &now);
        if status == was {
            return None;
        }
        let mut object = self.deployment.clone();
        object.status = Some(status);
        Some(Write::replace_status(&DEPLOYMENTS, self.key, &object))
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

/// Whether pods of some sets are still there, terminating ones as well.
fn has_pods(core: &Core, sets: &[&Arc<ReplicaSet>]) -> bool {
    let caches = &core.caches;
    sets.iter().any(|set| {
        let uid = set.metadata.uid.as_deref().unwrap_or_default();
        let mut pods = caches.indexes.pods_of.get(uid).filter_map(|key| caches.pods.get(key));
        pods.any(|pod| !pod.has_ended())
    })
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

fn replicas(set: &ReplicaSet) -> i32 {
    set.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or(0)
}

fn available(set: &ReplicaSet) -> i32 {
    set.status.as_ref().and_then(|status| status.available_replicas).unwrap_or(0)
}

fn active<'s>(sets: &[&'s Arc<ReplicaSet>]) -> Vec<&'s Arc<ReplicaSet>> {
    sets.iter().copied().filter(|set| replicas(set) > 0).collect()
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
