//! CronJobs: a Job for each time that is due, as far as concurrency and deadlines let it.

use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::world::{World, condition, controlled_by, is_true, key, set_label};
use crate::clock::time_text;
use crate::meta::{self, at, int_at, list_at, text_at};
use crate::request::{Options, Propagation};
use crate::server::ApiServer;
use berth_schedule::{Schedule, zone_of};

const SCHEDULED_AT: &str = "batch.kubernetes.io/cronjob-scheduled-timestamp";

/// What a round makes of the status of a CronJob.
struct Progress {
    active: Vec<Value>,
    last_scheduled: Option<Timestamp>,
    last_successful: Option<Timestamp>,
}

impl ApiServer {
    pub(super) fn reconcile_cron_jobs(&self, world: &World) {
        for cron in self.unsettled(world, "cronjobs.batch", 0) {
            let jobs = world.controlled("jobs.batch", meta::text(&cron, "uid"));
            let mut progress = progress(&cron, &jobs);
            if at(&cron, &["spec", "suspend"]) != Some(&Value::Bool(true)) {
                self.start_if_due(&cron, &mut progress);
            }
            self.forget_finished(&cron, &jobs);
            self.write_cron_status(&cron, &progress);
        }
    }

    fn start_if_due(&self, cron: &Value, progress: &mut Progress) {
        let now = self.now();
        let Some(zone) = zone_of(text_at(cron, &["spec", "timeZone"])) else { return };
        let Ok(schedule) = Schedule::parse(text_at(cron, &["spec", "schedule"])) else { return };
        if let Some(next) = schedule.next(now, &zone) {
            self.look_again(meta::text(cron, "uid"), next);
        }
        let Some(time) = unmet(cron, progress.last_scheduled, &schedule, &zone, now) else { return };
        let name = format!("{}-{}", meta::name(cron), time.as_second().div_euclid(60));
        let is_known = progress.active.iter().any(|job| text_at(job, &["name"]) == name);
        if is_known || progress.last_scheduled == Some(time) {
            return;
        }
        match text_at(cron, &["spec", "concurrencyPolicy"]) {
            "Forbid" if !progress.active.is_empty() => return,
            "Replace" => {
                for job in progress.active.drain(..) {
                    self.remove_job(&format!("{}/{}", meta::namespace(cron), text_at(&job, &["name"])));
                }
            }
            _ => {}
        }
        if let Some(reference) = self.make_job(cron, &name, time, &zone) {
            progress.active.push(reference);
            progress.last_scheduled = Some(time);
        }
    }

    /// Makes the job of a time; one that was made before is taken as it is. Gives a reference to it.
    fn make_job(&self, cron: &Value, name: &str, time: Timestamp, zone: &TimeZone) -> Option<Value> {
        let template = at(cron, &["spec", "jobTemplate"])?;
        let mut job = json!({"metadata": {"name": name, "ownerReferences": [controlled_by(cron)]},
                             "spec": template.get("spec")});
        for field in ["labels", "annotations"] {
            if let Some(given) = at(template, &["metadata", field]) {
                meta::set(&mut job, field, given.clone());
            }
        }
        let offset = zone.to_offset(time);
        let told = if offset.is_zero() { time_text(time) } else { time.display_with_offset(offset).to_string() };
        set_label(&mut job, &["metadata", "annotations"], SCHEDULED_AT, &told);
        let namespace = meta::namespace(cron);
        let resource = self.resource_of("jobs.batch")?;
        let made = match self.create_internal(&resource, namespace, job, "kube-controller-manager") {
            Ok(object) => object.value(),
            Err(_) => self.value("jobs.batch", &format!("{namespace}/{name}")).filter(|job| {
                super::world::controller(job).is_some_and(|owner| text_at(owner, &["uid"]) == meta::text(cron, "uid"))
            })?,
        };
        Some(json!({"kind": "Job", "namespace": namespace, "name": name, "uid": meta::text(&made, "uid"),
                    "apiVersion": "batch/v1", "resourceVersion": meta::text(&made, "resourceVersion")}))
    }

    /// Finished jobs are kept as far as the limits go, the oldest go first.
    fn forget_finished(&self, cron: &Value, jobs: &[Value]) {
        for (kind, limit, default) in
            [("Complete", "successfulJobsHistoryLimit", 3), ("Failed", "failedJobsHistoryLimit", 1)]
        {
            let limit = int_at(cron, &["spec", limit]).unwrap_or(default);
            let mut finished: Vec<&Value> = jobs.iter().filter(|job| is_true(job, kind)).collect();
            finished.sort_by_key(|job| (text_at(job, &["status", "startTime"]).to_owned(), meta::name(job).to_owned()));
            let kept = usize::try_from(limit).unwrap_or(0);
            for job in finished.iter().take(finished.len().saturating_sub(kept)) {
                self.remove_job(&key(job));
            }
        }
    }

    fn remove_job(&self, path: &str) {
        let options = Options { propagation: Some(Propagation::Background), ..Options::default() };
        if let Some(resource) = self.resource_of("jobs.batch") {
            self.delete_quietly(&resource, path, &options);
        }
    }

    fn write_cron_status(&self, cron: &Value, progress: &Progress) {
        self.change_object("cronjobs.batch", &key(cron), |cron| {
            let Some(status) = meta::object_mut(cron, &["status"]) else { return };
            if progress.active.is_empty() {
                status.remove("active");
            } else {
                status.insert("active".to_owned(), progress.active.clone().into());
            }
            for (field, time) in
                [("lastScheduleTime", progress.last_scheduled), ("lastSuccessfulTime", progress.last_successful)]
            {
                if let Some(time) = time {
                    status.insert(field.to_owned(), time_text(time).into());
                }
            }
        });
    }
}

fn time_at(object: &Value, path: &[&str]) -> Option<Timestamp> {
    text_at(object, path).parse().ok()
}

/// Where a CronJob stands by its jobs.
fn progress(cron: &Value, jobs: &[Value]) -> Progress {
    let is_running = |reference: &&Value| {
        let uid = text_at(reference, &["uid"]);
        let mut running = jobs.iter().filter(|job| !is_true(job, "Complete") && !is_true(job, "Failed"));
        running.any(|job| meta::text(job, "uid") == uid)
    };
    let active = list_at(cron, &["status", "active"]).iter().filter(is_running).cloned().collect();
    let succeeded = jobs.iter().filter(|job| is_true(job, "Complete") && condition(job, "Complete").is_some());
    let ended = succeeded.filter_map(|job| time_at(job, &["status", "completionTime"]));
    let known = time_at(cron, &["status", "lastSuccessfulTime"]);
    Progress {
        active,
        last_scheduled: time_at(cron, &["status", "lastScheduleTime"]),
        last_successful: ended.chain(known).max(),
    }
}

/// The last time that is due and was not met, where it is not too late for it.
fn unmet(
    cron: &Value,
    last: Option<Timestamp>,
    schedule: &Schedule,
    zone: &TimeZone,
    now: Timestamp,
) -> Option<Timestamp> {
    let created = time_at(cron, &["metadata", "creationTimestamp"])?;
    let mut after = last.unwrap_or(created);
    if let Some(seconds) = int_at(cron, &["spec", "startingDeadlineSeconds"]) {
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
