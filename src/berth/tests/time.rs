//! A plan has a time: what has expired by then is over.
#![allow(clippy::unwrap_used, reason = "tests stop at what they did not expect; clippy looks only into test functions")]

mod common;

use common::{plan, plan_json};

const NODE: &str = "apiVersion: v1\nkind: Node\nmetadata: {name: node-a, labels: {kubernetes.io/os: linux}}\nstatus: \
                    {allocatable: {cpu: '4', memory: 8Gi, pods: '10'}, capacity: {cpu: '4', memory: 8Gi, pods: '10'}}\n---\n";
const HELD: &str = "apiVersion: scheduling.koordinator.sh/v1alpha1\nkind: Reservation\nmetadata: {name: old}\nspec: \
                    {expires: '2020-02-01T00:00:00Z', owners: [{labelSelector: {matchLabels: {app: web}}}], template: \
                    {spec: {containers: [{name: c, image: i, resources: {requests: {cpu: '3'}}}]}}}\nstatus: {phase: \
                    Available, nodeName: node-a, allocatable: {cpu: '3'}}\n---\n";
const POD: &str = "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec: {containers: [{name: c, image: i, resources: \
                   {requests: {cpu: '3'}}}]}\n";

#[test]
fn a_reservation_that_has_expired_holds_nothing() {
    let manifests = format!("{NODE}{HELD}{POD}");
    let before = plan_json(&manifests, &["--now", "2020-01-31T23:59:59Z"]);
    assert_eq!(before["summary"]["time"], "2020-01-31T23:59:59Z");
    assert_eq!(before["summary"]["nodeClaims"], 1, "{before}");
    let after = plan_json(&manifests, &["--now", "2020-02-01T01:00:01+01:00"]);
    assert_eq!(after["nodes"][0]["pods"], serde_json::json!(["default/p"]), "{after}");
    assert_eq!(after["summary"]["time"], "2020-02-01T00:00:01Z");
    let said = plan(&manifests, &["--now", "2026-01-01T00:00:00Z"]);
    assert!(said.stderr.contains("Reservation old: expired at 2020-02-01T00:00:00Z"), "{}", said.stderr);
    assert!(said.stdout.starts_with("Time:          2026-01-01T00:00:00Z\n"), "{}", said.stdout);
}

#[test]
fn the_same_time_gives_the_same_bytes_and_without_one_it_is_the_clocks() {
    let manifests = format!("{NODE}{POD}");
    let run = |args: &[&str]| plan(&manifests, args).stdout;
    let args = ["-o", "json", "--now", "2026-01-01T00:00:00Z"];
    assert_eq!(run(&args), run(&args));
    let time = plan_json(&manifests, &[])["summary"]["time"].as_str().unwrap().to_owned();
    assert!(time.as_str() > "2026" && time.ends_with('Z'), "{time}");
}

#[test]
fn a_time_that_is_none_is_refused() {
    let run = plan(POD, &["--now", "yesterday"]);
    assert_eq!((run.code, run.stdout.as_str()), (2, ""));
    assert!(run.stderr.contains("RFC 3339"), "{}", run.stderr);
}

#[test]
fn the_last_moment_of_the_year_9999_is_a_time() {
    let manifests = format!("{NODE}{HELD}{POD}");
    for time in ["9999-12-31T23:59:59Z", "9999-12-30T22:00:01+00:00", "9999-12-31T23:59:59.999999999-12:00"] {
        let json = plan_json(&manifests, &["--now", time]);
        assert_eq!(json["nodes"][0]["pods"], serde_json::json!(["default/p"]), "{json}");
    }
    for time in ["9999-12-31", "9999-12-31T23:59:59"] {
        assert_eq!(plan(POD, &["--now", time]).code, 2);
    }
}
