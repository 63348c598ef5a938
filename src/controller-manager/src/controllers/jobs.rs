//! Jobs: pods until enough have succeeded, or too many have failed.

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::batch::v1::{Job, JobCondition, JobSpec, JobStatus, UncountedTerminatedPods};
use k8s_openapi::api::core::v1::{Container, EnvVar, EnvVarSource, ObjectFieldSelector};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde_json::json;

use super::adoption::{Claimed, Owner};
use super::job_pods::{INDEX, TRACKING, Tally, index, is_tracked, release};
use super::template::{annotate, count, pod_of, set_label, size};
use crate::core::{Core, controlled_by};
use crate::events::{Involved, Telling};
use crate::index::workload_selector;
use crate::key::NamespacedName;
use crate::objects::{Pod, View};
use crate::resource::{JOBS, PODS};
use crate::work::Work;
use crate::write::{Effect, Write};

/// So much of a generated name comes before its last five characters.
const MAX_PREFIX: usize = 58;
/// Pods that are created at a time for one Job.
const BURST: usize = 500;

/// Why a Job has ended: type, reason and message of its condition.
type Verdict = (&'static str, &'static str, &'static str);

pub(crate) fn sync(core: &mut Core, key: &NamespacedName) -> Effect {
    let Some(job) = core.caches.jobs.get(key).cloned() else {
        core.backoffs.forget(key);
        return Effect::Done;
    };
    let Some(spec) = job.spec.as_ref() else { return Effect::Done };
    if spec.managed_by.as_deref().is_some_and(|by| by != "kubernetes.io/job-controller") {
        return Effect::Done;
    }
    let view = View::of(&job.metadata);
    if job.metadata.deletion_timestamp.is_some() {
        core.backoffs.forget(key);
        let caches = &core.caches;
        let pods = caches.indexes.pods_of.get(view.uid).filter_map(|key| caches.pods.get(key));
        return Effect::Burst(pods.filter(|pod| is_tracked(pod)).map(|pod| release(pod)).collect(), Vec::new());
    }
    if let Some(condition) = finished(&job) {
        core.backoffs.forget(key);
        return expire(core, key, &job, spec, condition);
    }
    let work = Work::Job(key.clone());
    let owner = Owner { resource: &JOBS, view, selector: workload_selector(spec.selector.as_ref()) };
    let pods = match owner.pods(core, &work, |_| true) {
        Claimed::Owned(pods) => pods,
        Claimed::First(effect) => return effect,
    };
    run(core, key, &job, spec, &pods)
}

/// Releases a pod whose Job is gone: nobody will count it.
pub(crate) fn sync_orphan(core: &mut Core, key: &NamespacedName) -> Effect {
    let Some(pod) = core.caches.pods.get(key).filter(|pod| is_tracked(pod)) else { return Effect::Done };
    let owner = pod.view().controller().filter(|owner| owner.kind == "Job");
    let has_job = owner.is_some_and(|owner| {
        let job = core.caches.jobs.get(&key.beside(&owner.name));
        job.is_some_and(|job| job.metadata.uid.as_deref() == Some(owner.uid.as_str()))
    });
    if has_job { Effect::Done } else { Effect::InOrder(vec![release(pod)]) }
}

/// The condition that says that a Job is complete or has failed.
pub(crate) fn finished(job: &Job) -> Option<&JobCondition> {
    let conditions = job.status.as_ref()?.conditions.as_ref()?;
    conditions.iter().find(|one| matches!(one.type_.as_str(), "Complete" | "Failed") && one.status == "True")
}

/// A finished Job goes after its time to live.
fn expire(core: &mut Core, key: &NamespacedName, job: &Job, spec: &JobSpec, condition: &JobCondition) -> Effect {
    let ttl = spec.ttl_seconds_after_finished.map(i64::from);
    let (Some(ttl), Some(ended)) = (ttl, condition.last_transition_time.as_ref()) else { return Effect::Done };
    let due = ended.0.saturating_add(SignedDuration::from_secs(ttl)).unwrap_or(Timestamp::MAX);
    if due > core.now() {
        core.add_when(Work::Job(key.clone()), due);
        return Effect::Done;
    }
    let uid = job.metadata.uid.as_deref().unwrap_or_default();
    Effect::InOrder(vec![Write::delete_with(&JOBS, key, uid, json!({"propagationPolicy": "Foreground"}))])
}

fn run(core: &mut Core, key: &NamespacedName, job: &Job, spec: &JobSpec, pods: &[Arc<Pod>]) -> Effect {
    let now = core.now();
    let indexed = spec.completion_mode.as_deref() == Some("Indexed");
    let completions = spec.completions.map(size);
    let mut tally = Tally::of(job, spec, pods);
    core.backoffs.take_in(key, job, &tally, now);
    let (succeeded, failed) = (tally.succeeded(), tally.failed());
    let mut active: Vec<&Arc<Pod>> = pods.iter().filter(|pod| pod.is_active()).collect();
    let is_suspended = spec.suspend == Some(true);
    let is_late = !is_suspended && is_late(core, key, job, spec, now);
    let backoff_limit = size(spec.backoff_limit.unwrap_or(6));
    let is_complete = match completions {
        Some(wanted) => succeeded >= wanted,
        // A work queue is empty when one has succeeded and none runs.
        None => succeeded > 0 && active.is_empty(),
    };
    let verdict: Option<Verdict> = if is_complete {
        Some(("Complete", "CompletionsReached", "Reached expected number of succeeded pods"))
    } else if is_late {
        Some(("Failed", "DeadlineExceeded", "Job was active longer than specified deadline"))
    } else if failed > backoff_limit || restarts_too_often(spec, pods, backoff_limit) {
        Some(("Failed", "BackoffLimitExceeded", "Job has reached the specified backoff limit"))
    } else {
        None
    };
    let about = Involved::new(&JOBS, View::of(&job.metadata));
    let delete = |pod: &Arc<Pod>| {
        let delete = Write::delete(&PODS, &pod.view().key(), &pod.metadata.uid);
        delete.telling(Telling::deleted_pod(about.clone()))
    };
    // That the Job does without it is no failure of the pod: it is not counted.
    let take_back = |pod: &Arc<Pod>| if is_tracked(pod) { delete(pod).after(release(pod)) } else { delete(pod) };
    let mut writes = Vec::new();
    if let Some((type_, ..)) = verdict {
        tally.finish(spec, pods, type_ == "Failed");
        writes.extend(active.drain(..).map(delete));
    } else if is_suspended {
        writes.extend(active.drain(..).map(take_back));
    } else {
        let parallelism = size(spec.parallelism.unwrap_or(1));
        let left = completions.map_or(parallelism, |wanted| wanted.saturating_sub(succeeded));
        // A work queue that has begun to end gets no more workers.
        let wanted = if completions.is_none() && succeeded > 0 { active.len() } else { parallelism.min(left) };
        if indexed {
            // Pods beyond the last index go, and all but one of each.
            let wanted = 0..spec.completions.unwrap_or(0);
            let mut taken = std::collections::BTreeSet::new();
            let is_wanted = |pod: &&Arc<Pod>| index(pod).is_some_and(|own| wanted.contains(&own) && taken.insert(own));
            let (kept, beyond): (Vec<&Arc<Pod>>, Vec<&Arc<Pod>>) = active.into_iter().partition(is_wanted);
            writes.extend(beyond.into_iter().map(take_back));
            active = kept;
        }
        active.sort_by_cached_key(|pod| (pod.standing().rank(0, None), pod.metadata.name.clone()));
        let surplus = active.len().saturating_sub(wanted);
        writes.extend(active.drain(..surplus).map(take_back));
        let waits = pods.iter().filter(|pod| pod.is_terminating() && !pod.has_ended());
        let replaces_only_failed = spec.pod_replacement_policy.as_deref() == Some("Failed");
        let waits = if replaces_only_failed { waits.count() } else { 0 };
        let missing = wanted.saturating_sub(active.len()).saturating_sub(waits).min(BURST);
        if missing > 0
            && let Some(due) = core.backoffs.due(key).filter(|due| *due > now)
        {
            // After failures the next pods wait.
            core.add_when(Work::Job(key.clone()), due);
        } else if indexed {
            let mut taken = tally.completed.clone();
            taken.extend(active.iter().filter_map(|pod| index(pod)));
            let waiting = pods.iter().filter(|pod| replaces_only_failed && !pod.has_ended());
            taken.extend(waiting.filter_map(|pod| index(pod)));
            let free = (0..spec.completions.unwrap_or(0)).filter(|index| !taken.contains(index));
            writes.extend(free.take(missing).map(|index| create(job, spec, Some(index))));
        } else {
            writes.extend(std::iter::repeat_n(create(job, spec, None), missing));
        }
    }
    let terminating = pods.iter().filter(|pod| pod.is_terminating() && !pod.has_ended()).count();
    let mut status = JobStatus {
        active: Some(count(active.len())).filter(|n| *n > 0),
        ready: Some(count(active.iter().filter(|pod| pod.is_ready()).count())),
        terminating: Some(count(terminating)),
        ..job.status.clone().unwrap_or_default()
    };
    tally.note(&mut status);
    // The end is told when all pods are gone or counted.
    let has_ended = terminating == 0 && writes.is_empty() && tally.is_settled();
    let resumption = finish_status(&mut status, is_suspended, (verdict, has_ended), &Time(now));
    let mut then = Vec::new();
    if job.status.as_ref() != Some(&status) {
        let mut object = job.clone();
        object.status = Some(status);
        let write = Write::replace_status(&JOBS, key, &object);
        then.push(match verdict.filter(|_| finished(&object).is_some()) {
            Some(("Complete", ..)) => write.telling(Telling::done(about.clone(), "Completed", "Job completed")),
            Some((_, reason, message)) => write.telling(Telling::warning(about.clone(), reason, message)),
            None => match resumption {
                Some((reason, message)) => write.telling(Telling::done(about.clone(), reason, message)),
                None => write,
            },
        });
    }
    // A pod is released once it is written down.
    then.extend(tally.counted.iter().map(|pod| release(pod)));
    if writes.is_empty() && then.is_empty() { Effect::Done } else { Effect::Burst(writes, then) }
}

/// Whether containers that are restarted in place were, in all pods together, as often as pods may fail.
fn restarts_too_often(spec: &JobSpec, pods: &[Arc<Pod>], limit: usize) -> bool {
    let policy = spec.template.spec.as_ref().and_then(|template| template.restart_policy.as_deref());
    if policy != Some("OnFailure") {
        return false;
    }
    let restarts: usize = pods.iter().filter(|pod| !pod.has_ended()).map(|pod| size(pod.status.restarts)).sum();
    restarts >= limit.max(1)
}

/// Whether a Job is active for longer than it may be. It is looked at again when it will have been.
fn is_late(core: &mut Core, key: &NamespacedName, job: &Job, spec: &JobSpec, now: Timestamp) -> bool {
    let started = job.status.as_ref().and_then(|status| status.start_time.as_ref());
    let (Some(seconds), Some(started)) = (spec.active_deadline_seconds, started) else { return false };
    let due = started.0.saturating_add(SignedDuration::from_secs(seconds)).unwrap_or(Timestamp::MAX);
    if due > now {
        core.add_when(Work::Job(key.clone()), due);
    }
    due <= now
}

/// Writes conditions and times. Returns reason and message of the Event where the Job was suspended or resumed.
fn finish_status(
    status: &mut JobStatus,
    is_suspended: bool,
    (verdict, has_ended): (Option<Verdict>, bool),
    now: &Time,
) -> Option<(&'static str, &'static str)> {
    status.uncounted_terminated_pods.get_or_insert_with(UncountedTerminatedPods::default);
    if !is_suspended {
        status.start_time.get_or_insert_with(|| now.clone());
    }
    let Some((type_, reason, message)) = verdict else {
        let is_known = |one: &JobCondition| one.type_ == "Suspended" && one.status == "True";
        let was_suspended = status.conditions.iter().flatten().any(is_known);
        return match (was_suspended, is_suspended) {
            (false, true) => {
                // The start time stays, as in kube-controller-manager.
                set_condition(status, "Suspended", "True", "JobSuspended", "Job suspended", now);
                Some(("Suspended", "Job suspended"))
            }
            (true, false) => {
                set_condition(status, "Suspended", "False", "JobResumed", "Job resumed", now);
                status.start_time = Some(now.clone());
                Some(("Resumed", "Job resumed"))
            }
            _ => None,
        };
    };
    let before = if type_ == "Complete" { "SuccessCriteriaMet" } else { "FailureTarget" };
    if !status.conditions.iter().flatten().any(|one| one.type_ == before && one.status == "True") {
        set_condition(status, before, "True", reason, message, now);
    }
    if !has_ended {
        return None;
    }
    if type_ == "Complete" {
        status.completion_time.get_or_insert_with(|| now.clone());
    }
    set_condition(status, type_, "True", reason, message, now);
    None
}

fn set_condition(status: &mut JobStatus, type_: &str, is: &str, reason: &str, message: &str, now: &Time) {
    let new = JobCondition {
        type_: type_.to_owned(),
        status: is.to_owned(),
        reason: Some(reason.to_owned()),
        message: Some(message.to_owned()),
        last_probe_time: Some(now.clone()),
        last_transition_time: Some(now.clone()),
    };
    let all = status.conditions.get_or_insert_default();
    match all.iter_mut().find(|condition| condition.type_ == type_) {
        Some(known) => *known = new,
        None => all.push(new),
    }
}

fn create(job: &Job, spec: &JobSpec, index: Option<i32>) -> Write {
    let view = View::of(&job.metadata);
    let mut pod = pod_of(&spec.template, controlled_by(&JOBS, view));
    pod.metadata.finalizers.get_or_insert_default().push(TRACKING.to_owned());
    let prefix = match index {
        Some(index) => {
            annotate(&mut pod.metadata, INDEX, &index.to_string());
            set_label(&mut pod.metadata, INDEX, &index.to_string());
            if let Some(spec) = &mut pod.spec {
                spec.hostname = Some(format!("{}-{index}", view.name));
                let inits = spec.init_containers.iter_mut().flatten();
                inits.chain(&mut spec.containers).for_each(tell_index);
            }
            let end = format!("-{index}-");
            let room = MAX_PREFIX.saturating_sub(end.len());
            view.name.chars().take(room).chain(end.chars()).collect()
        }
        None => format!("{}-", view.name),
    };
    let key = NamespacedName::new(view.namespace, &prefix);
    pod.metadata.generate_name = Some(prefix);
    Write::create(&PODS, &key, &pod).telling(Telling::created_pod(Involved::new(&JOBS, view)))
}

/// Tells a container the index of its pod, unless it has a variable of that name.
fn tell_index(container: &mut Container) {
    const NAME: &str = "JOB_COMPLETION_INDEX";
    if container.env.iter().flatten().any(|variable| variable.name == NAME) {
        return;
    }
    let label = ObjectFieldSelector { field_path: format!("metadata.labels['{INDEX}']"), ..Default::default() };
    let source = EnvVarSource { field_ref: Some(label), ..EnvVarSource::default() };
    let variable = EnvVar { name: NAME.to_owned(), value_from: Some(source), ..EnvVar::default() };
    container.env.get_or_insert_default().push(variable);
}
