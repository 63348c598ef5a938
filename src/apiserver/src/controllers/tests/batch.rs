//! CronJobs.

use std::time::Duration;

use serde_json::{Value, json};

use super::{make, server, settle};
use crate::controllers::Controllers;
use crate::meta::{self, at, list_at, text_at};
use crate::server::ApiServer;

fn cron(server: &ApiServer, more: &Value) {
    let mut spec = json!({"schedule": "*/5 * * * *", "jobTemplate": {"metadata": {"labels": {"of": "cron"}}, "spec": {
        "template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}}}});
    for (field, value) in more.as_object().unwrap() {
        spec[field] = value.clone();
    }
    make(server, "cronjobs.batch", json!({"metadata": {"name": "tick"}, "spec": spec}));
}

fn jobs(server: &ApiServer) -> Vec<Value> {
    server.values("jobs.batch", "default")
}

fn names(server: &ApiServer) -> Vec<String> {
    jobs(server).iter().map(|job| meta::name(job).to_owned()).collect()
}

/// Lets every pod succeed, and their jobs with them.
fn succeed(server: &ApiServer) {
    for pod in super::pods(server) {
        server
            .change_object("pods", &super::super::world::key(&pod), |pod| pod["status"]["phase"] = "Succeeded".into());
    }
    settle(server);
}

fn status(server: &ApiServer) -> Value {
    server.value("cronjobs.batch", "default/tick").unwrap()["status"].clone()
}

#[tokio::test(start_paused = true)]
async fn a_cron_job_makes_a_job_for_each_time_that_is_due() {
    let server = server();
    cron(&server, &json!({}));
    let running = server.clone();
    let task = tokio::spawn(async move { running.run_controllers(Controllers::default()).await });
    tokio::time::sleep(Duration::from_secs(11 * 60)).await;
    task.abort();
    // 2026-01-01T00:05:00Z is minute 29,454,005 of Unix.
    assert_eq!(names(&server), ["tick-29453765", "tick-29453770"]);
    let job = &jobs(&server)[0];
    assert_eq!(meta::annotation(job, "batch.kubernetes.io/cronjob-scheduled-timestamp"), Some("2026-01-01T00:05:00Z"));
    assert_eq!(at(job, &["metadata", "labels", "of"]), Some(&json!("cron")));
    let status = status(&server);
    assert_eq!(status["active"].as_array().unwrap().len(), 2);
    assert_eq!(status["lastScheduleTime"], "2026-01-01T00:10:00Z");
}

#[tokio::test(start_paused = true)]
async fn a_cron_job_that_forbids_it_runs_one_job_at_a_time_and_the_missed_one_after_it() {
    let server = server();
    cron(&server, &json!({"concurrencyPolicy": "Forbid"}));
    settle(&server);
    for _ in 0..3 {
        tokio::time::advance(Duration::from_secs(5 * 60)).await;
        settle(&server);
    }
    assert_eq!(names(&server), ["tick-29453765"]);
    succeed(&server);
    assert_eq!(names(&server), ["tick-29453765", "tick-29453775"]);
    assert_eq!(text_at(&status(&server), &["lastSuccessfulTime"]), "2026-01-01T00:15:00Z");
}

#[tokio::test(start_paused = true)]
async fn a_cron_job_that_replaces_ends_what_still_runs() {
    let server = server();
    cron(&server, &json!({"concurrencyPolicy": "Replace"}));
    for _ in 0..3 {
        tokio::time::advance(Duration::from_secs(5 * 60)).await;
        settle(&server);
    }
    assert_eq!(names(&server), ["tick-29453775"]);
    assert_eq!(list_at(&status(&server), &["active"]).len(), 1);
}

#[tokio::test(start_paused = true)]
async fn finished_jobs_are_kept_as_far_as_the_limits_go() {
    let server = server();
    cron(&server, &json!({"successfulJobsHistoryLimit": 2}));
    for _ in 0..5 {
        tokio::time::advance(Duration::from_secs(5 * 60)).await;
        settle(&server);
        succeed(&server);
    }
    assert_eq!(names(&server), ["tick-29453780", "tick-29453785"]);
}

#[tokio::test(start_paused = true)]
async fn a_time_that_is_past_its_deadline_is_let_go() {
    let server = server();
    cron(&server, &json!({"startingDeadlineSeconds": 30, "schedule": "0 * * * *"}));
    tokio::time::advance(Duration::from_secs(62 * 60)).await;
    settle(&server);
    assert!(jobs(&server).is_empty());
    tokio::time::advance(Duration::from_secs(58 * 60 + 10)).await;
    settle(&server);
    assert_eq!(names(&server).len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_suspended_cron_job_makes_nothing() {
    let server = server();
    cron(&server, &json!({"suspend": true}));
    tokio::time::advance(Duration::from_secs(3600)).await;
    settle(&server);
    assert!(jobs(&server).is_empty());
}
