//! A dump of a live cluster: owners and owned are both there.

use rstest::rstest;
use serde_json::{Value, json};

use super::{amount, convert, mk_node, mk_pod, mk_workload, node, owned_by, pending, with};

fn deployment(replicas: u32) -> Value {
    with(mk_workload("Deployment", "web", json!({"replicas": replicas})), json!({"metadata": {"uid": "d1"}}))
}

fn replica_set() -> Value {
    let owned = with(owned_by("Deployment", "web", "d1"), json!({"metadata": {"uid": "r1"}}));
    with(mk_workload("ReplicaSet", "web-5d4f", json!({"replicas": 4})), owned)
}

fn child(name: &str, spec: Value) -> Value {
    let labels = json!({"metadata": {"labels": {"app": "web", "pod-template-hash": "5d4f"}}});
    with(mk_pod(name, spec), with(owned_by("ReplicaSet", "web-5d4f", "r1"), labels))
}

#[test]
fn pods_of_a_deployments_replica_set_are_subtracted_from_the_deployment() {
    let converted = convert([
        child("web-5d4f-a", json!({"nodeName": "n1"})),
        child("web-5d4f-b", json!({})),
        replica_set(),
        deployment(5),
        mk_node("n1", json!({})),
    ]);
    assert_eq!(pending(&converted.cluster), ["default/web-5d4f-b", "default/web-0..2"]);
    assert_eq!(node(&converted.cluster, "n1").pods.len(), 1);
}

const GOING: &str = "2026-01-01T00:00:00Z";

fn going(pod: Value) -> Value {
    with(pod, json!({"metadata": {"deletionTimestamp": GOING}}))
}

#[test]
fn a_terminating_pod_holds_its_room_and_its_deployment_has_made_another() {
    let requests = json!({"nodeName": "n1", "containers": [{"name": "c", "resources": {"requests": {"cpu": "3"}}}]});
    let cluster = convert([
        going(child("web-5d4f-a", requests)),
        going(child("web-5d4f-b", json!({}))),
        deployment(2),
        mk_node("n1", json!({})),
    ])
    .cluster;
    assert_eq!(pending(&cluster), ["default/web-0..1"], "one that was never bound is gone");
    let node = node(&cluster, "n1");
    assert_eq!(amount(&node.free, "cpu", &cluster), 1000);
    assert!(node.pods[0].is_terminating() && node.pods[0].replaced_by.is_none());
}

#[test]
fn a_stateful_sets_next_pod_comes_when_the_terminating_one_is_gone_unless_its_node_takes_none() {
    let set = || mk_workload("StatefulSet", "db", json!({"replicas": 2}));
    let pod = |name: &str, node: &str| {
        going(with(mk_pod(name, json!({"nodeName": node})), owned_by("StatefulSet", "db", "")))
    };
    let objects = |cordoned: bool| {
        let unschedulable = json!({"spec": {"unschedulable": cordoned}});
        [set(), pod("db-0", "n1"), mk_node("n1", unschedulable)]
    };
    assert_eq!(pending(&convert(objects(false)).cluster), ["default/db-1..1"]);
    assert_eq!(pending(&convert(objects(true)).cluster), ["default/db-0..1"]);
    // Its node goes with it: it is planned elsewhere, as Karpenter does.
    let leaving = mk_node("n1", json!({"metadata": {"deletionTimestamp": GOING}}));
    assert_eq!(pending(&convert([set(), pod("db-0", "n1"), leaving]).cluster), ["default/db-0", "default/db-1..1"]);
}

#[rstest]
#[case::made_anew(json!({}), &["default/job-0..1"])]
#[case::waits(json!({"podReplacementPolicy": "Failed"}), &["default/job-0..0"])]
fn a_job_replaces_a_terminating_pod_as_it_says(#[case] more: Value, #[case] expected: &[&str]) {
    let job = with(mk_workload("Job", "job", json!({"parallelism": 2, "completions": 2})), json!({"spec": more}));
    let pod = going(with(mk_pod("job-x", json!({"nodeName": "n1"})), owned_by("Job", "job", "")));
    assert_eq!(pending(&convert([job, pod, mk_node("n1", json!({}))]).cluster), expected);
}

#[test]
fn a_job_whose_deadline_has_passed_makes_no_more_pods() {
    let job = mk_workload("Job", "job", json!({"activeDeadlineSeconds": 60}));
    let job = with(job, json!({"status": {"startTime": "2026-01-01T00:00:00Z"}}));
    let wanted = |now: &str| pending(&super::convert_at(now, [job.clone()]).cluster).len();
    assert_eq!((wanted("2026-01-01T00:00:59Z"), wanted("2026-01-01T00:01:00Z")), (1, 0));
}

#[test]
fn without_the_replica_set_its_name_tells_the_deployment() {
    let cluster = convert([deployment(3), child("web-5d4f-a", json!({}))]).cluster;
    assert_eq!(pending(&cluster), ["default/web-5d4f-a", "default/web-0..1"]);
}

#[test]
fn a_replica_set_of_another_deployments_uid_stands_for_itself() {
    let other = with(deployment(1), json!({"metadata": {"uid": "d2"}}));
    let cluster = convert([other, replica_set()]).cluster;
    assert_eq!(pending(&cluster), ["default/web-0..0", "default/web-5d4f-0..3"]);
}

#[test]
fn a_replica_set_whose_controller_is_not_given_stands_for_itself() {
    let owned = owned_by("Rollout", "web", "x");
    let cluster = convert([with(mk_workload("ReplicaSet", "web-1", json!({"replicas": 2})), owned)]).cluster;
    assert_eq!(pending(&cluster), ["default/web-1-0..1"]);
}

#[test]
fn owners_that_form_a_ring_are_not_followed_for_ever() {
    let a = with(mk_workload("Deployment", "a", json!({})), owned_by("ReplicaSet", "b", ""));
    let b = with(mk_workload("ReplicaSet", "b", json!({})), owned_by("Deployment", "a", ""));
    let pod = with(mk_pod("p", json!({})), owned_by("Deployment", "a", ""));
    assert_eq!(pending(&convert([a, b, pod]).cluster), ["default/p", "default/b-0..0"]);
}

#[test]
fn a_stateful_set_lacks_the_ordinals_that_have_no_pod() {
    let set = mk_workload("StatefulSet", "db", json!({"replicas": 4}));
    let pod = with(mk_pod("db-1", json!({})), owned_by("StatefulSet", "db", ""));
    let cluster = convert([set, pod]).cluster;
    assert_eq!(pending(&cluster), ["default/db-1", "default/db-0..0", "default/db-2..3"]);
}

#[test]
fn a_daemon_takes_its_room_once_whether_its_pod_is_there_or_not() {
    let daemon = mk_workload("DaemonSet", "log", json!({}));
    let core = json!({"nodeName": "n1", "containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]});
    let pod = with(mk_pod("log-x", core), owned_by("DaemonSet", "log", ""));
    let waiting = with(mk_pod("log-y", json!({})), owned_by("DaemonSet", "log", ""));
    let tainted = json!({"spec": {"taints": [{"key": "own", "effect": "NoSchedule"}]}});
    let cluster =
        convert([pod, waiting, mk_node("n1", json!({})), mk_node("n2", json!({})), mk_node("n3", tainted), daemon])
            .cluster;
    let free = |name: &str| amount(&node(&cluster, name).free, "cpu", &cluster);
    assert_eq!((free("n1"), free("n2"), free("n3")), (3000, 3000, 4000));
    assert!(cluster.pending.is_empty(), "the daemon's waiting pod has its room already");
}

#[test]
fn pods_of_a_node_that_goes_are_pending_again_but_for_daemons_and_static_pods() {
    let going = json!({"spec": {"taints": [{"key": "karpenter.sh/disrupted", "effect": "NoSchedule"}]}});
    let on = |name: &str, owner: Value| with(mk_pod(name, json!({"nodeName": "n1"})), owner);
    let converted = convert([
        mk_node("n1", going),
        on("web", json!({})),
        on("log", owned_by("DaemonSet", "log", "")),
        on("kube-proxy", owned_by("Node", "n1", "")),
    ]);
    assert_eq!(pending(&converted.cluster), ["default/web"]);
    assert!(converted.cluster.nodes.is_empty());
}

#[test]
fn pods_on_nodes_that_are_not_given_count_as_children_alone() {
    let converted = convert([deployment(1), replica_set(), child("web-5d4f-a", json!({"nodeName": "far"}))]);
    assert!(converted.cluster.pending.is_empty());
    assert!(converted.warnings.iter().any(|w| w.starts_with("1 pod is bound to a node that is not in the input")));
}
