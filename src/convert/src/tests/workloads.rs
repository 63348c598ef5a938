//! How many pods a workload stands for.

use rstest::rstest;
use serde_json::{Value, json};

use super::{add, convert, mk, mk_workload, pending, with};
use crate::{Builder, Options};

#[rstest]
#[case("Deployment", json!({}), json!({}), &["default/w-0..0"])]
#[case("Deployment", json!({"replicas": 3}), json!({}), &["default/w-0..2"])]
#[case("Deployment", json!({"replicas": 0}), json!({}), &[])]
#[case("ReplicaSet", json!({"replicas": 2}), json!({}), &["default/w-0..1"])]
#[case("ReplicationController", json!({"replicas": 2, "selector": null}), json!({}), &["default/w-0..1"])]
#[case("StatefulSet", json!({"replicas": 2, "ordinals": {"start": 5}}), json!({}), &["default/w-5..6"])]
#[case("Job", json!({}), json!({}), &["default/w-0..0"])]
#[case("Job", json!({"parallelism": 4}), json!({}), &["default/w-0..3"])]
#[case("Job", json!({"parallelism": 4, "completions": 10}), json!({}), &["default/w-0..3"])]
#[case("Job", json!({"parallelism": 4, "completions": 10}), json!({"succeeded": 8}), &["default/w-0..1"])]
#[case("Job", json!({"parallelism": 4}), json!({"succeeded": 1}), &[])]
#[case("Job", json!({"suspend": true}), json!({}), &[])]
#[case("Job", json!({}), json!({"conditions": [{"type": "Failed", "status": "True"}]}), &[])]
fn a_workload_wants_so_many_pods(
    #[case] kind: &str,
    #[case] spec: Value,
    #[case] status: Value,
    #[case] expected: &[&str],
) {
    let object = with(mk_workload(kind, "w", spec), json!({"status": status}));
    assert_eq!(pending(&convert([object]).cluster), expected);
}

fn cron_job(spec: Value) -> Value {
    let job = mk_workload("Job", "x", json!({"parallelism": 2}))["spec"].clone();
    mk(
        "CronJob",
        "c",
        json!({"metadata": {"uid": "u1"}, "spec": with(json!({"schedule": "* * * * *", "jobTemplate": {"spec": job}}), spec)}),
    )
}

#[test]
fn a_cron_job_is_one_run_unless_it_is_suspended_or_running() {
    assert_eq!(pending(&convert([cron_job(json!({}))]).cluster), ["default/c-0..1"]);
    assert!(convert([cron_job(json!({"suspend": true}))]).cluster.pending.is_empty());
    let run = |status: Value| {
        with(
            mk_workload("Job", "c-1", json!({"completions": 1})),
            with(super::owned_by("CronJob", "c", "u1"), json!({"status": status})),
        )
    };
    assert_eq!(pending(&convert([run(json!({})), cron_job(json!({}))]).cluster), ["default/c-1-0..0"]);
    let finished = json!({"completionTime": "2026-01-01T00:00:00Z"});
    assert_eq!(pending(&convert([run(finished), cron_job(json!({}))]).cluster), ["default/c-0..1"]);
}

#[test]
fn daemons_are_overhead_and_tolerate_what_their_controller_lets_them() {
    let cluster = convert([mk_workload("DaemonSet", "d", json!({}))]).cluster;
    assert!(cluster.pending.is_empty());
    assert_eq!(cluster.daemons[0].name, "default/d");
    assert_eq!(cluster.specs[cluster.daemons[0].spec as usize].tolerations.len(), 6);
}

#[test]
fn a_workload_being_deleted_wants_nothing() {
    let going = json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}});
    assert!(convert([with(mk_workload("Deployment", "w", json!({})), going)]).cluster.pending.is_empty());
}

#[test]
fn an_error_in_a_template_names_its_place() {
    let bad = json!({"template": {"spec": {"tolerations": [{"effect": "Never"}]}}});
    let error = add(&mut Builder::new(Options::default()), mk_workload("Deployment", "w", bad)).unwrap_err();
    assert_eq!(error.name(), "default/w");
    assert_eq!(error.problems()[0].path, "spec.template.spec.tolerations[0].effect");
}

#[test]
fn namespaces_keep_their_labels_and_name() {
    let cluster = convert([mk("Namespace", "team", json!({"metadata": {"labels": {"tier": "gold"}}}))]).cluster;
    let labels = &cluster.namespaces[0].labels;
    let get = |key: &str| labels.get(cluster.symbols.get(key).unwrap()).map(|value| cluster.symbols.text(value));
    assert_eq!((get("tier"), get("kubernetes.io/metadata.name")), (Some("gold"), Some("team")));
}
