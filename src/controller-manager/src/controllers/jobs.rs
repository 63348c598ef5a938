//! Jobs: pods until enough have succeeded, or too many have failed.

use std::collections::BTreeSet;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::batch::v1::{Job, JobCondition, JobSpec, JobStatus, UncountedTerminatedPods};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde_json::json;

use super::adoption::{Claimed, Owner};
use super::template::{annotate, count, pod_of, set_label, size};
use crate::core::{Core, controlled_by};
use crate::index::workload_selector;
use crate::key::Key;
use crate::objects::{Pod, View};
use crate::resource::{JOBS, PODS};
use crate::work::Work;
use crate::write::{Effect, Write};

const INDEX: &str = "batch.kubernetes.io/job-completion-index";
/// Pods that are created at a time for one Job.
const BURST: usize = 500;

/// Why a Job has ended: type, reason and message of its condition.
type Verdict = (&'static str, &'static str, &'static str);

pub(crate) fn sync(core: &mut Core, key: &Key) -> Effect {
    let Some(job) = core.caches.jobs.get(key).cloned() else { return Effect::Done };
    let Some(spec) = job.spec.as_ref().filter(|_| job.metadata.deletion_timestamp.is_none()) else {
        return Effect::Done;
    };
    if let Some(condition) = finished(&job) {
        return expire(core, key, &job, spec, condition);
    }
    if spec.managed_by.as_deref().is_some_and(|by| by != "kubernetes.io/job-controller") {
        return Effect::Done;
    }
    let work = Work::Job(key.clone());
    let view = View::of(&job.metadata);
    let owner = Owner { resource: &JOBS, view, selector: workload_selector(spec.selector.as_ref()) };
    let pods = match owner.pods(core, &work, |_| true) {
        Claimed::Owned(pods) => pods,
        Claimed::First(effect) => return effect,
    };
    run(core, key, &job, spec, &pods)
}

/// The condition that says that a Job is complete or has failed.
pub(crate) fn finished(job: &Job) -> Option<&JobCondition> {
    let conditions = job.status.as_ref()?.conditions.as_ref()?;
    conditions.iter().find(|one| matches!(one.type_.as_str(), "Complete" | "Failed") && one.status == "True")
}

/// A finished Job goes after its time to live.
fn expire(core: &mut Core, key: &Key, job: &Job, spec: &JobSpec, condition: &JobCondition) -> Effect {
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

fn run(core: &mut Core, key: &Key, job: &Job, spec: &JobSpec, pods: &[Arc<Pod>]) -> Effect {
    let now = core.now();
    let phase = |wanted: &str| pods.iter().filter(|pod| pod.phase() == wanted).count();
    let failed = phase("Failed");
    let indexed = spec.completion_mode.as_deref() == Some("Indexed");
    let completions = spec.completions.map(size);
    // Two pods of one index that both succeeded complete it once.
    let done: BTreeSet<i32> =
        pods.iter().filter(|pod| pod.phase() == "Succeeded").filter_map(|pod| index(pod)).collect();
    let succeeded = if indexed { done.len() } else { phase("Succeeded") };
    let mut active: Vec<&Arc<Pod>> = pods.iter().filter(|pod| pod.is_active()).collect();
    let is_suspended = spec.suspend == Some(true);
    let is_late = is_late(core, key, job, spec, now);
    let backoff = size(spec.backoff_limit.unwrap_or(6));
    let is_complete = match completions {
        Some(wanted) => succeeded >= wanted,
        // A work queue is empty when one has succeeded and none runs.
        None => succeeded > 0 && active.is_empty(),
    };
    let verdict: Option<Verdict> = if is_complete {
        Some(("Complete", "CompletionsReached", "Reached expected number of succeeded pods"))
    } else if is_late {
        Some(("Failed", "DeadlineExceeded", "Job was active longer than specified deadline"))
    } else if failed > backoff {
        Some(("Failed", "BackoffLimitExceeded", "Job has reached the specified backoff limit"))
    } else {
        None
    };
    let delete = |pod: &Arc<Pod>| Write::delete(&PODS, &pod.view().key(), &pod.metadata.uid);
    let mut writes = Vec::new();
    if verdict.is_some() || is_suspended {
        writes.extend(active.iter().map(|pod| delete(pod)));
        active.clear();
    } else {
        let parallelism = size(spec.parallelism.unwrap_or(1));
        let left = completions.map_or(parallelism, |wanted| wanted.saturating_sub(succeeded));
        // A work queue that has begun to end gets no more workers.
        let wanted = if completions.is_none() && succeeded > 0 { active.len() } else { parallelism.min(left) };
        active.sort_by(|a, b| a.rank().cmp(&b.rank()));
        let surplus = active.len().saturating_sub(wanted);
        writes.extend(active.drain(..surplus).map(delete));
        let taken = pods.iter().filter(|pod| pod.phase() != "Failed" && !pod.is_terminating());
        let taken: BTreeSet<i32> = taken.filter_map(|pod| index(pod)).collect();
        let free = (0..spec.completions.unwrap_or(0)).filter(|index| !taken.contains(index));
        let missing = wanted.saturating_sub(active.len()).min(BURST);
        if indexed {
            writes.extend(free.take(missing).map(|index| create(job, spec, Some(index))));
        } else {
            writes.extend(std::iter::repeat_n(create(job, spec, None), missing));
        }
    }
    let mut status = JobStatus {
        active: Some(count(active.len())).filter(|n| *n > 0),
        ready: Some(count(active.iter().filter(|pod| pod.is_ready()).count())),
        terminating: Some(count(pods.iter().filter(|pod| pod.is_terminating() && !pod.has_ended()).count())),
        succeeded: Some(count(succeeded)).filter(|n| *n > 0),
        failed: Some(count(failed)).filter(|n| *n > 0),
        completed_indexes: indexed.then(|| ranges(&done)).filter(|text| !text.is_empty()),
        ..job.status.clone().unwrap_or_default()
    };
    finish_status(&mut status, is_suspended, verdict, &Time(now));
    if job.status.as_ref() == Some(&status) && writes.is_empty() {
        return Effect::Done;
    }
    let mut object = job.clone();
    object.status = Some(status);
    Effect::Burst(writes, vec![Write::replace_status(&JOBS, key, &object)])
}

/// Whether a Job is active for longer than it may be. It is looked at again when it will have been.
fn is_late(core: &mut Core, key: &Key, job: &Job, spec: &JobSpec, now: Timestamp) -> bool {
    let started = job.status.as_ref().and_then(|status| status.start_time.as_ref());
    let (Some(seconds), Some(started)) = (spec.active_deadline_seconds, started) else { return false };
    let due = started.0.saturating_add(SignedDuration::from_secs(seconds)).unwrap_or(Timestamp::MAX);
    if due > now {
        core.add_when(Work::Job(key.clone()), due);
    }
    due <= now
}

fn finish_status(status: &mut JobStatus, is_suspended: bool, verdict: Option<Verdict>, now: &Time) {
    status.uncounted_terminated_pods.get_or_insert_with(UncountedTerminatedPods::default);
    if is_suspended {
        status.start_time = None;
    } else {
        status.start_time.get_or_insert_with(|| now.clone());
    }
    let was_suspended = status.conditions.iter().flatten().any(|one| one.type_ == "Suspended" && one.status == "True");
    if is_suspended && !was_suspended {
        set_condition(status, "Suspended", "True", "JobSuspended", "Job suspended", now);
    } else if !is_suspended && was_suspended {
        set_condition(status, "Suspended", "False", "JobResumed", "Job resumed", now);
    }
    let Some((type_, reason, message)) = verdict else { return };
    if type_ == "Complete" {
        status.completion_time.get_or_insert_with(|| now.clone());
    }
    let before = if type_ == "Complete" { "SuccessCriteriaMet" } else { "FailureTarget" };
    set_condition(status, before, "True", reason, message, now);
    set_condition(status, type_, "True", reason, message, now);
}

fn set_condition(status: &mut JobStatus, type_: &str, is: &str, reason: &str, message: &str, now: &Time) {
    let all = status.conditions.get_or_insert_default();
    all.retain(|condition| condition.type_ != type_);
    all.push(JobCondition {
        type_: type_.to_owned(),
        status: is.to_owned(),
        reason: Some(reason.to_owned()),
        message: Some(message.to_owned()),
        last_probe_time: Some(now.clone()),
        last_transition_time: Some(now.clone()),
    });
}

fn create(job: &Job, spec: &JobSpec, index: Option<i32>) -> Write {
    let view = View::of(&job.metadata);
    let mut pod = pod_of(&spec.template, controlled_by(&JOBS, view));
    let prefix = match index {
        Some(index) => {
            annotate(&mut pod.metadata, INDEX, &index.to_string());
            set_label(&mut pod.metadata, INDEX, &index.to_string());
            format!("{}-{index}-", view.name)
        }
        None => format!("{}-", view.name),
    };
    let key = Key::new(view.namespace, &prefix);
    pod.metadata.generate_name = Some(prefix);
    Write::create(&PODS, &key, &pod)
}

fn index(pod: &Pod) -> Option<i32> {
    pod.metadata.annotations.get(INDEX)?.parse().ok()
}

/// Numbers as `1,3-5`.
fn ranges(numbers: &BTreeSet<i32>) -> String {
    let mut runs: Vec<(i32, i32)> = Vec::new();
    for number in numbers {
        match runs.last_mut() {
            Some((_, last)) if last.checked_add(1) == Some(*number) => *last = *number,
            _ => runs.push((*number, *number)),
        }
    }
    let show = |(first, last): (i32, i32)| match last - first {
        0 => first.to_string(),
        1 => format!("{first},{last}"),
        _ => format!("{first}-{last}"),
    };
    runs.into_iter().map(show).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn completed_indexes_are_told_as_ranges() {
        assert_eq!(ranges(&[].into()), "");
        assert_eq!(ranges(&[1, 3, 4, 5, 8, 9].into()), "1,3-5,8,9");
    }
}
