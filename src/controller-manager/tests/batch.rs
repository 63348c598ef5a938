//! CronJobs, in paused time.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing)]

mod common;

use std::time::Duration;

use common::{World, is_live, name};
use serde_json::{Value, json};

async fn cron(world: &World, more: &Value) {
    let mut spec = json!({"schedule": "*/5 * * * *", "jobTemplate": {"metadata": {"labels": {"of": "cron"}}, "spec": {
        "template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}}}});
    for (field, value) in more.as_object().unwrap() {
        spec[field] = value.clone();
    }
    world.create("cronjobs/default", &json!({"metadata": {"name": "tick"}, "spec": spec})).await;
}

async fn minutes(minutes: u64) {
    tokio::time::sleep(Duration::from_secs(minutes * 60)).await;
}

async fn names(world: &World) -> Vec<String> {
    world.names("jobs/default").await
}

/// Lets every pod succeed, and their Jobs with them.
async fn succeed(world: &World) {
    for pod in world.pods().await {
        let place = format!("pods/default/{}", name(&pod));
        world.patch_status(&place, &json!({"status": {"phase": "Succeeded"}})).await;
    }
    world.settle().await;
}

async fn status(world: &World) -> Value {
    world.get("cronjobs/default/tick").await.unwrap()["status"].clone()
}

#[tokio::test(start_paused = true)]
async fn a_cron_job_makes_a_job_for_each_time_that_is_due() {
    let world = World::new();
    cron(&world, &json!({})).await;
    minutes(11).await;
    // 2026-01-01T00:05:00Z is minute 29,453,765 of Unix.
    assert_eq!(names(&world).await, ["tick-29453765", "tick-29453770"]);
    let job = &world.list("jobs/default").await[0];
    let told = &job["metadata"]["annotations"]["batch.kubernetes.io/cronjob-scheduled-timestamp"];
    assert_eq!((told.as_str(), job["metadata"]["labels"]["of"].as_str()), (Some("2026-01-01T00:05:00Z"), Some("cron")));
    let status = status(&world).await;
    assert_eq!(status["active"].as_array().unwrap().len(), 2);
    assert_eq!(status["lastScheduleTime"], "2026-01-01T00:10:00Z");
}

#[tokio::test(start_paused = true)]
async fn a_cron_job_that_forbids_it_runs_one_job_at_a_time_and_the_missed_one_after_it() {
    let world = World::new();
    cron(&world, &json!({"concurrencyPolicy": "Forbid"})).await;
    minutes(16).await;
    assert_eq!(names(&world).await, ["tick-29453765"]);
    succeed(&world).await;
    assert_eq!(names(&world).await, ["tick-29453765", "tick-29453775"]);
    let last = status(&world).await["lastSuccessfulTime"].as_str().unwrap().to_owned();
    assert!(last.starts_with("2026-01-01T00:16:0"), "{last}");
}

/// As `kubectl create job --from` makes it.
#[tokio::test(start_paused = true)]
async fn a_job_that_a_user_made_of_a_cron_job_does_not_hold_it_up() {
    let world = World::new();
    cron(&world, &json!({"concurrencyPolicy": "Forbid"})).await;
    let tick = world.get("cronjobs/default/tick").await.unwrap();
    let owner = json!({"apiVersion": "batch/v1", "kind": "CronJob", "name": "tick", "uid": tick["metadata"]["uid"],
        "controller": true});
    let job = json!({"metadata": {"name": "now", "ownerReferences": [owner],
        "annotations": {"cronjob.kubernetes.io/instantiate": "manual"}}, "spec": tick["spec"]["jobTemplate"]["spec"]});
    world.create("jobs/default", &job).await;
    world.settle().await;
    assert!(status(&world).await["active"].is_null());
    minutes(6).await;
    assert_eq!(names(&world).await, ["now", "tick-29453765"]);
}

#[tokio::test(start_paused = true)]
async fn a_cron_job_that_replaces_ends_what_still_runs() {
    let world = World::new();
    cron(&world, &json!({"concurrencyPolicy": "Replace"})).await;
    minutes(16).await;
    assert_eq!(names(&world).await, ["tick-29453775"]);
    assert_eq!(status(&world).await["active"].as_array().unwrap().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn finished_jobs_are_kept_as_far_as_the_limits_go() {
    let world = World::new();
    cron(&world, &json!({"successfulJobsHistoryLimit": 2})).await;
    for _ in 0..5 {
        minutes(5).await;
        world.settle().await;
        succeed(&world).await;
    }
    assert_eq!(names(&world).await, ["tick-29453780", "tick-29453785"]);
}

/// A controller that was down meets a time only until its deadline.
#[tokio::test(start_paused = true)]
async fn a_time_that_is_past_its_deadline_is_let_go() {
    let server = berth_apiserver::ApiServer::new(common::config());
    {
        let world = World::of(server.clone(), common::options(&server));
        cron(&world, &json!({"startingDeadlineSeconds": 30, "schedule": "0 * * * *"})).await;
        world.settle().await;
    }
    minutes(62).await;
    let world = World::of(server.clone(), common::options(&server));
    world.settle().await;
    assert!(names(&world).await.is_empty());
    minutes(60).await;
    assert_eq!(names(&world).await.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_suspended_cron_job_makes_nothing() {
    let world = World::new();
    cron(&world, &json!({"suspend": true})).await;
    minutes(60).await;
    assert!(names(&world).await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_finished_job_goes_after_its_time_to_live() {
    let world = World::new();
    let job = json!({"metadata": {"name": "j"}, "spec": {"ttlSecondsAfterFinished": 100, "template": {
        "spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}}});
    world.create("jobs/default", &job).await;
    world.settle().await;
    succeed(&world).await;
    minutes(1).await;
    assert_eq!(names(&world).await, ["j"]);
    minutes(1).await;
    assert!(names(&world).await.is_empty());
    world.settle().await;
    assert!(world.pods().await.is_empty());
}

async fn job(world: &World, more: &Value) {
    let mut spec =
        json!({"template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}});
    for (field, value) in more.as_object().unwrap() {
        spec[field] = value.clone();
    }
    world.create("jobs/default", &json!({"metadata": {"name": "j"}, "spec": spec})).await;
    world.settle().await;
}

async fn end(world: &World, pod: &Value, phase: &str) {
    world.patch_status(&format!("pods/default/{}", name(pod)), &json!({"status": {"phase": phase}})).await;
    world.settle().await;
}

/// A node goes, and the pods that succeeded on it with it: their work is done all the same.
#[tokio::test(start_paused = true)]
async fn a_pod_that_succeeded_counts_after_it_is_deleted() {
    let world = World::new();
    job(&world, &json!({"completions": 3})).await;
    for round in 1..=3 {
        let pod = world.pods().await.into_iter().next().unwrap();
        end(&world, &pod, "Succeeded").await;
        world.delete(&format!("pods/default/{}", name(&pod))).await;
        world.settle().await;
        let job = world.get("jobs/default/j").await.unwrap();
        assert_eq!(job["status"]["succeeded"], round, "{job}");
        assert_eq!(job["status"]["uncountedTerminatedPods"], json!({}));
    }
    assert!(common::is_true(&world.get("jobs/default/j").await.unwrap(), "Complete"));
    assert!(world.pods().await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn an_index_whose_pod_is_deleted_after_it_succeeded_stays_completed() {
    let world = World::new();
    job(&world, &json!({"completions": 3, "parallelism": 3, "completionMode": "Indexed"})).await;
    for pod in world.pods().await.iter().take(2) {
        end(&world, pod, "Succeeded").await;
        world.delete(&format!("pods/default/{}", name(pod))).await;
    }
    world.settle().await;
    let job = world.get("jobs/default/j").await.unwrap();
    assert_eq!((&job["status"]["succeeded"], &job["status"]["completedIndexes"]), (&json!(2), &json!("0,1")));
    assert_eq!(world.pods().await.len(), 1);
}

/// The regression: pods of the lowest indexes went, and those beyond the last one ran on.
#[tokio::test(start_paused = true)]
async fn an_indexed_job_that_shrinks_keeps_the_indexes_that_it_wants() {
    let world = World::new();
    job(&world, &json!({"completions": 4, "parallelism": 4, "completionMode": "Indexed"})).await;
    world.patch("jobs/default/j", &json!({"spec": {"completions": 2, "parallelism": 2}})).await;
    world.settle().await;
    let live = world.pods().await.into_iter().filter(is_live);
    let index = |pod: Value| pod["metadata"]["annotations"]["batch.kubernetes.io/job-completion-index"].clone();
    let mut left: Vec<Value> = live.map(index).collect();
    left.sort_by_key(ToString::to_string);
    assert_eq!(left, ["0", "1"]);
}

/// The regression: the wait was counted from the end of the grace period.
#[tokio::test(start_paused = true)]
async fn a_job_whose_pod_is_deleted_waits_from_when_that_was_asked_for() {
    let world = World::new();
    world.node("n1", &json!({})).await;
    job(&world, &json!({"backoffLimit": 3})).await;
    world.run_all("n1").await;
    let pod = world.pods().await.remove(0);
    world.delete_with(&format!("pods/default/{}", name(&pod)), &json!({"gracePeriodSeconds": 600})).await;
    tokio::time::sleep(Duration::from_secs(13)).await;
    assert_eq!(world.pods().await.iter().filter(|pod| is_live(pod)).count(), 1);
}

#[tokio::test(start_paused = true)]
async fn after_failures_the_next_pod_of_a_job_waits_twice_as_long_each_time() {
    let world = World::new();
    job(&world, &json!({"backoffLimit": 2})).await;
    for wait in [10, 20] {
        let pods = world.pods().await;
        let running: Vec<&Value> = pods.iter().filter(|pod| pod["status"]["phase"] == "Pending").collect();
        let before = pods.len();
        end(&world, running[0], "Failed").await;
        tokio::time::sleep(Duration::from_secs(wait - 3)).await;
        assert_eq!(world.pods().await.len(), before, "not before {wait} s");
        tokio::time::sleep(Duration::from_secs(5)).await;
        assert_eq!(world.pods().await.len(), before + 1, "after {wait} s");
    }
    let pods = world.pods().await;
    let last = pods.iter().find(|pod| pod["status"]["phase"] == "Pending").unwrap();
    end(&world, last, "Failed").await;
    let job = world.get("jobs/default/j").await.unwrap();
    assert_eq!(job["status"]["failed"], 3);
    assert!(common::is_true(&job, "Failed"));
}

#[tokio::test(start_paused = true)]
async fn a_job_that_failed_says_so_once_its_pods_have_ended() {
    let world = World::new();
    world.node("n1", &json!({})).await;
    job(&world, &json!({"completions": 2, "parallelism": 2, "backoffLimit": 0})).await;
    world.run_all("n1").await;
    let pods = world.pods().await;
    end(&world, &pods[0], "Failed").await;
    let job = world.get("jobs/default/j").await.unwrap();
    assert!(common::is_true(&job, "FailureTarget") && !common::is_true(&job, "Failed"), "{job}");
    world.reap().await;
    world.settle().await;
    let job = world.get("jobs/default/j").await.unwrap();
    assert!(common::is_true(&job, "Failed"), "{job}");
    assert_eq!(job["status"]["failed"], 2);
}

/// The regression: pods that were never on a node were held by their finalizer for good, and the Job never failed.
#[tokio::test(start_paused = true)]
async fn a_job_that_replaces_only_failed_pods_lets_go_of_all_once_it_fails() {
    for has_node in [false, true] {
        let world = World::new();
        world.node("n1", &json!({})).await;
        job(&world, &json!({"parallelism": 4, "backoffLimit": 0, "podReplacementPolicy": "Failed"})).await;
        if has_node {
            world.run_all("n1").await;
        }
        let pods = world.pods().await;
        end(&world, &pods[0], "Failed").await;
        let left = world.pods().await;
        assert!(left.iter().all(|pod| pod["metadata"]["finalizers"].is_null()), "{left:?}");
        // The failed one, and those that wait for their kubelet.
        assert_eq!(left.len(), if has_node { 4 } else { 1 });
        world.reap().await;
        world.settle().await;
        let job = world.get("jobs/default/j").await.unwrap();
        assert!(common::is_true(&job, "Failed"), "{job}");
        assert_eq!((&job["status"]["failed"], &job["status"]["terminating"]), (&json!(4), &json!(0)), "{job}");
    }
}

/// As upstream, where the collector of pods gives it the phase Failed.
#[tokio::test(start_paused = true)]
async fn a_pod_that_is_deleted_before_it_has_a_node_is_replaced_whatever_the_policy() {
    let world = World::new();
    job(&world, &json!({"podReplacementPolicy": "Failed"})).await;
    world.delete(&format!("pods/default/{}", name(&world.pods().await[0]))).await;
    minutes(1).await;
    let pods = world.pods().await;
    let job = world.get("jobs/default/j").await.unwrap();
    assert!(pods.len() == 1 && is_live(&pods[0]), "{pods:?}");
    assert_eq!(job["status"]["failed"], 1);
}

#[tokio::test(start_paused = true)]
async fn pods_of_a_deleted_job_are_not_held_by_its_finalizer() {
    for policy in ["Background", "Foreground"] {
        let world = World::new();
        job(&world, &json!({"completions": 3, "parallelism": 3})).await;
        assert_eq!(world.pods().await.iter().filter(|pod| is_live(pod)).count(), 3);
        world.delete_with("jobs/default/j", &json!({"propagationPolicy": policy})).await;
        world.settle().await;
        assert!(world.pods().await.is_empty() && names(&world).await.is_empty(), "{policy}");
    }
    let world = World::new();
    job(&world, &json!({"completions": 1})).await;
    world.delete_with("jobs/default/j", &json!({"propagationPolicy": "Orphan"})).await;
    world.settle().await;
    let left = world.pods().await;
    assert!(left[0]["metadata"]["finalizers"].is_null(), "{}", left[0]);
}

async fn set_job(world: &World, more: &Value) -> Value {
    world.patch("jobs/default/j", &json!({"spec": more})).await;
    world.settle().await;
    world.reap().await;
    world.settle().await;
    world.get("jobs/default/j").await.unwrap()
}

/// The regression: pods that a Job itself took back counted as failures, and it failed.
#[tokio::test(start_paused = true)]
async fn pods_that_a_job_takes_back_are_no_failures() {
    let world = World::new();
    world.node("n1", &json!({})).await;
    job(&world, &json!({"completions": 20, "parallelism": 8, "backoffLimit": 2})).await;
    world.run_all("n1").await;
    for (taken_back, given) in
        [(json!({"suspend": true}), json!({"suspend": false})), (json!({"parallelism": 0}), json!({"parallelism": 8}))]
    {
        let job = set_job(&world, &taken_back).await;
        assert_eq!((&job["status"]["failed"], world.pods().await.len()), (&Value::Null, 0), "{taken_back}: {job}");
        let job = set_job(&world, &given).await;
        assert_eq!((&job["status"]["active"], world.pods().await.len()), (&json!(8), 8), "at once: {job}");
        world.run_all("n1").await;
    }
}

#[tokio::test(start_paused = true)]
async fn indexes_that_a_job_does_without_are_no_failures() {
    let world = World::new();
    world.node("n1", &json!({})).await;
    job(&world, &json!({"completions": 4, "parallelism": 4, "completionMode": "Indexed", "backoffLimit": 0})).await;
    world.run_all("n1").await;
    let job = set_job(&world, &json!({"completions": 2, "parallelism": 2})).await;
    assert_eq!((&job["status"]["failed"], &job["status"]["active"]), (&Value::Null, &json!(2)), "{job}");
}

/// The regression: a Job whose containers are restarted in place never failed.
#[tokio::test(start_paused = true)]
async fn restarts_in_place_count_as_far_as_pods_may_fail() {
    for (limit, counts) in [(0, [0, 1]), (1, [0, 1]), (3, [2, 3])] {
        let world = World::new();
        world.node("n1", &json!({})).await;
        let template = json!({"spec": {"restartPolicy": "OnFailure", "containers": [{"name": "c", "image": "i"}]}});
        job(&world, &json!({"backoffLimit": limit, "template": template})).await;
        world.run_all("n1").await;
        let pod = format!("pods/default/{}", name(&world.pods().await[0]));
        for (count, has_failed) in counts.into_iter().zip([false, true]) {
            let container = json!({"name": "c", "image": "i", "imageID": "", "ready": true, "restartCount": count});
            world.patch_status(&pod, &json!({"status": {"containerStatuses": [container]}})).await;
            world.settle().await;
            let job = world.get("jobs/default/j").await.unwrap();
            assert_eq!(common::is_true(&job, "FailureTarget"), has_failed, "{count} of {limit}: {job}");
        }
    }
}

/// The regression: the start time went with the suspension.
#[tokio::test(start_paused = true)]
async fn a_suspended_job_keeps_its_start_time_until_it_is_resumed() {
    let world = World::new();
    job(&world, &json!({"completions": 2})).await;
    let started = world.get("jobs/default/j").await.unwrap()["status"]["startTime"].clone();
    assert!(started.is_string());
    minutes(1).await;
    let job = set_job(&world, &json!({"suspend": true})).await;
    let suspended = common::condition(&job, "Suspended").unwrap();
    assert_eq!((&suspended["status"], &suspended["reason"]), (&json!("True"), &json!("JobSuspended")));
    assert_eq!(job["status"]["startTime"], started);
    minutes(1).await;
    let job = set_job(&world, &json!({"suspend": false})).await;
    let suspended = common::condition(&job, "Suspended").unwrap();
    assert_eq!((&suspended["status"], &suspended["reason"]), (&json!("False"), &json!("JobResumed")));
    assert_eq!(job["status"]["startTime"], suspended["lastTransitionTime"]);
    assert_ne!(job["status"]["startTime"], started);
    let told = world.list("events/default").await;
    let told: Vec<&str> = told.iter().filter_map(|event| event["reason"].as_str()).collect();
    assert!(told.contains(&"Suspended") && told.contains(&"Resumed"), "{told:?}");
}

#[tokio::test(start_paused = true)]
async fn the_deadline_of_a_suspended_job_does_not_pass() {
    let world = World::new();
    job(&world, &json!({"activeDeadlineSeconds": 90})).await;
    let job = set_job(&world, &json!({"suspend": true})).await;
    assert!(common::is_true(&job, "Suspended"), "{job}");
    minutes(10).await;
    let job = world.get("jobs/default/j").await.unwrap();
    assert!(common::is_true(&job, "Suspended") && !common::is_true(&job, "FailureTarget"), "{job}");
}
