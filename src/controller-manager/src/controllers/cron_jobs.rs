//! CronJobs: a Job for each time that is due, as far as concurrency and deadlines let it.

use std::sync::Arc;

use berth_schedule::{Schedule, zone_of};
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::batch::v1::{CronJob, CronJobSpec, CronJobStatus, Job};
use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use serde_json::json;

use super::jobs::finished;
use super::template::{annotate, annotation, size};
use crate::core::{Core, controlled_by};
use crate::events::{Involved, Telling};
use crate::key::NamespacedName;
use crate::objects::View;
use crate::resource::{CRON_JOBS, JOBS};
use crate::work::Work;
use crate::write::{Effect, Write};

const SCHEDULED_AT: &str = "batch.kubernetes.io/cronjob-scheduled-timestamp";

pub(crate) fn sync(core: &mut Core, key: &NamespacedName) -> Effect {
    let Some(cron) = core.caches.cron_jobs.get(key).cloned() else { return Effect::Done };
    let Some(spec) = cron.spec.as_ref().filter(|_| cron.metadata.deletion_timestamp.is_none()) else {
        return Effect::Done;
    };
    let caches = &core.caches;
    let uid = cron.metadata.uid.as_deref().unwrap_or_default();
    let jobs: Vec<Arc<Job>> = caches.indexes.jobs_of.get(uid).filter_map(|key| caches.jobs.get(key)).cloned().collect();
    let mut status = progress(&cron, &jobs);
    let mut writes = Vec::new();
    if spec.suspend != Some(true) {
        start_if_due(core, key, &cron, spec, &jobs, &mut status, &mut writes);
    }
    writes.extend(forget_finished(spec, &jobs));
    if cron.status.clone().unwrap_or_default() != status {
        let mut object = (*cron).clone();
        object.status = Some(status);
        writes.push(Write::replace_status(&CRON_JOBS, key, &object));
    }
    Effect::of(writes)
}

fn view(job: &Job) -> View<'_> {
    View::of(&job.metadata)
}

/// Where a CronJob stands by its Jobs: each that it made and that runs is active. One that a user made of it
/// (`kubectl create job --from`) stands in nobody's way.
fn progress(cron: &CronJob, jobs: &[Arc<Job>]) -> CronJobStatus {
    let was = cron.status.clone().unwrap_or_default();
    // A reference stays as it was noted: its version is that of the Job's creation.
    let noted = |job: &Job| was.active.iter().flatten().find(|one| one.uid == job.metadata.uid).cloned();
    let is_own = |job: &Job| noted(job).is_some() || annotation(&job.metadata, SCHEDULED_AT).is_some();
    let mut running: Vec<&Arc<Job>> = jobs.iter().filter(|job| finished(job).is_none() && is_own(job)).collect();
    running.sort_by_key(|job| (created(job), view(job).name));
    let active = running.into_iter().map(|job| noted(job).unwrap_or_else(|| reference(job)));
    let active: Vec<ObjectReference> = active.collect();
    let succeeded = jobs.iter().filter(|job| finished(job).is_some_and(|condition| condition.type_ == "Complete"));
    let ended = succeeded.filter_map(|job| job.status.as_ref()?.completion_time.as_ref().map(|time| time.0));
    let last = ended.chain(was.last_successful_time.as_ref().map(|time| time.0)).max();
    CronJobStatus {
        active: Some(active).filter(|active| !active.is_empty()),
        last_schedule_time: was.last_schedule_time,
        last_successful_time: last.map(Time),
    }
}

fn reference(job: &Job) -> ObjectReference {
    ObjectReference {
        api_version: Some("batch/v1".to_owned()),
        kind: Some("Job".to_owned()),
        namespace: job.metadata.namespace.clone(),
        name: job.metadata.name.clone(),
        uid: job.metadata.uid.clone(),
        resource_version: job.metadata.resource_version.clone(),
        ..ObjectReference::default()
    }
}

fn created(job: &Job) -> Option<Timestamp> {
    job.metadata.creation_timestamp.as_ref().map(|time| time.0)
}

fn start_if_due(
    core: &mut Core,
    key: &NamespacedName,
    cron: &CronJob,
    spec: &CronJobSpec,
    jobs: &[Arc<Job>],
    status: &mut CronJobStatus,
    writes: &mut Vec<Write>,
) {
    let now = core.now();
    let Some(zone) = zone_of(spec.time_zone.as_deref().unwrap_or_default()) else { return };
    let Ok(schedule) = Schedule::parse(&spec.schedule) else { return };
    if let Some(next) = schedule.next(now, &zone) {
        core.add_when(Work::CronJob(key.clone()), next);
    }
    let last = status.last_schedule_time.as_ref().map(|time| time.0);
    let Some(time) = unmet(cron, spec, last, &schedule, &zone, now) else { return };
    let name = format!("{}-{}", key.name, time.as_second().div_euclid(60));
    if jobs.iter().any(|job| view(job).name == name) {
        // It was created before, and the status was not written.
        status.last_schedule_time = Some(Time(time));
        return;
    }
    match spec.concurrency_policy.as_deref() {
        Some("Forbid") if status.active.is_some() => return,
        Some("Replace") => {
            let running = jobs.iter().filter(|job| finished(job).is_none());
            writes.extend(running.map(|job| remove(job)));
            status.active = None;
        }
        _ => {}
    }
    writes.push(create(cron, spec, &name, time, &zone));
    status.last_schedule_time = Some(Time(time));
}

fn create(cron: &CronJob, spec: &CronJobSpec, name: &str, time: Timestamp, zone: &TimeZone) -> Write {
    let owner = View::of(&cron.metadata);
    let given = spec.job_template.metadata.clone().unwrap_or_default();
    let mut metadata = ObjectMeta {
        name: Some(name.to_owned()),
        labels: given.labels,
        annotations: given.annotations,
        owner_references: Some(vec![controlled_by(&CRON_JOBS, owner)]),
        ..ObjectMeta::default()
    };
    let offset = zone.to_offset(time);
    let told = if offset.is_zero() { time.to_string() } else { time.display_with_offset(offset).to_string() };
    annotate(&mut metadata, SCHEDULED_AT, &told);
    let job = Job { metadata, spec: spec.job_template.spec.clone(), status: None };
    let telling = Telling::done(Involved::new(&CRON_JOBS, owner), "SuccessfulCreate", "Created job {}");
    let telling = telling.or_refused("FailedCreate", "Error creating job: {}");
    Write::ensure(&JOBS, &NamespacedName::new(owner.namespace, name), &job).telling(telling)
}

fn remove(job: &Job) -> Write {
    Write::delete_with(&JOBS, &view(job).key(), view(job).uid, json!({"propagationPolicy": "Background"}))
}

/// Finished Jobs are kept as far as the limits go; the oldest go first.
fn forget_finished(spec: &CronJobSpec, jobs: &[Arc<Job>]) -> Vec<Write> {
    let mut writes = Vec::new();
    for (type_, limit) in [
        ("Complete", spec.successful_jobs_history_limit.unwrap_or(3)),
        ("Failed", spec.failed_jobs_history_limit.unwrap_or(1)),
    ] {
        let is_such = |job: &&Arc<Job>| finished(job).is_some_and(|condition| condition.type_ == type_);
        let live = jobs.iter().filter(|job| job.metadata.deletion_timestamp.is_none());
        let mut ended: Vec<&Arc<Job>> = live.filter(is_such).collect();
        let started = |job: &Job| job.status.as_ref().and_then(|status| status.start_time.clone()).map(|time| time.0);
        ended.sort_by_key(|job| (started(job), view(job).name));
        let surplus = ended.len().saturating_sub(size(limit));
        writes.extend(ended.iter().take(surplus).map(|job| remove(job)));
    }
    writes
}

/// The last time that is due and was not met, where it is not too late for it.
fn unmet(
    cron: &CronJob,
    spec: &CronJobSpec,
    last: Option<Timestamp>,
    schedule: &Schedule,
    zone: &TimeZone,
    now: Timestamp,
) -> Option<Timestamp> {
    let created = cron.metadata.creation_timestamp.as_ref()?.0;
    let mut after = last.unwrap_or(created);
    if let Some(seconds) = spec.starting_deadline_seconds {
        after = after.max(now.checked_sub(SignedDuration::from_secs(seconds)).unwrap_or(Timestamp::MIN));
    }
    let first = schedule.next(after, zone).filter(|first| *first <= now)?;
    let Some(second) = schedule.next(first, zone).filter(|second| *second <= now) else { return Some(first) };
    // Many may have been missed: near the last of them, as regular schedules go, and on from there.
    let between = (second.as_second() - first.as_second()).max(1);
    let missed = (now.as_second() - first.as_second()) / between + 1;
    let ahead = SignedDuration::from_secs((missed - 2).max(0).saturating_mul(between));
    let mut latest = None;
    let mut time = first.checked_add(ahead).ok()?;
    while let Some(next) = schedule.next(time, zone).filter(|next| *next <= now) {
        latest = Some(next);
        time = next;
    }
    latest
}
