//! What changes of workloads do to the pods that they have.

use rstest::rstest;
use serde_json::{Value, json};

use super::{add, convert, mk, mk_node, mk_pod, mk_workload, node, owned_by, pending, with};
use crate::{Builder, Converted, Options};

/// What comes of a change.
fn changed(cluster: impl IntoIterator<Item = Value>, change: impl IntoIterator<Item = Value>) -> Converted {
    let mut builder = Builder::new(Options::default());
    builder.expect_change();
    for object in cluster {
        add(&mut builder, object).unwrap();
    }
    builder.begin_change();
    for object in change {
        add(&mut builder, object).unwrap();
    }
    builder.finish().unwrap()
}

/// What is told of the change.
fn told(converted: &Converted) -> Vec<&str> {
    let warnings = converted.warnings.iter().map(String::as_str);
    warnings.filter_map(|told| Some(told.split_once(": the change ")?.1)).collect()
}

/// A pod on `n1` that asks for a core, of a controller.
fn owned_pod(name: &str, (kind, owner): (&str, &str), rest: Value) -> Value {
    let requests = json!({"containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]});
    let pod = with(mk_pod(name, requests), json!({"spec": {"nodeName": "n1"}, "status": {"phase": "Running"}}));
    with(with(pod, owned_by(kind, owner, "u")), rest)
}

fn replica(name: &str, rest: Value) -> Value {
    let labels = json!({"metadata": {"labels": {"app": "web", "pod-template-hash": "abc"}}});
    owned_pod(name, ("ReplicaSet", "web-abc"), with(labels, rest))
}

fn web(replicas: i64, rest: Value) -> Value {
    with(mk_workload("Deployment", "web", json!({"replicas": replicas})), rest)
}

fn autoscaler(least: i64) -> Value {
    json!({"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "metadata": {"name": "h"}, "spec": {
        "minReplicas": least, "maxReplicas": 9,
        "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}}})
}

#[rstest]
#[case::none_turns_the_autoscaler_off(0, &["lets 3 of its pods go"])]
#[case::fewer(2, &["lets 1 of its pods go; its HorizontalPodAutoscaler may add some again"])]
#[case::the_least_holds(1, &["lets 1 of its pods go; its HorizontalPodAutoscaler may add some again"])]
#[case::as_many(3, &[])]
fn a_change_to_fewer_replicas_holds_beside_an_autoscaler(#[case] replicas: i64, #[case] expected: &[&str]) {
    let pods = ["a", "b", "c"].map(|name| replica(name, json!({})));
    let cluster = [mk_node("n1", json!({})), web(3, json!({})), autoscaler(2)].into_iter().chain(pods);
    let converted = changed(cluster, [web(replicas, json!({}))]);
    assert_eq!(told(&converted), expected);
    assert_eq!(converted.ends_pods, !expected.is_empty());
    assert!(pending(&converted.cluster).is_empty());
}

#[rstest]
#[case::cost(json!({"metadata": {"annotations": {"controller.kubernetes.io/pod-deletion-cost": "-1"}}}))]
#[case::readiness(json!({"status": {"conditions": [{"type": "Ready", "status": "False"}]}}))]
#[case::phase(json!({"status": {"phase": "Pending"}}))]
fn pods_go_as_their_controller_lets_them_go(#[case] own: Value) {
    let ready = json!({"status": {"conditions": [
        {"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}]}});
    let pods = ["a", "b", "c"].map(|name| replica(name, ready.clone()));
    let cheap = with(replica("b", ready), own);
    let cluster = [mk_node("n1", json!({})), web(3, json!({}))].into_iter().chain(pods).chain([cheap]);
    let converted = changed(cluster, [web(2, json!({}))]);
    let left: Vec<&str> = node(&converted.cluster, "n1").pods.iter().map(|pod| &*pod.name).collect();
    assert_eq!(left, ["a", "c"]);
}

fn agent(rest: Value) -> Value {
    with(mk_workload("DaemonSet", "agent", json!({})), rest)
}

fn asks(cpu: &str) -> Value {
    json!({"spec": {"template": {"spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": cpu}}}]}}}})
}

fn strategy(name: &str) -> Value {
    json!({"spec": {"updateStrategy": {"type": name}}})
}

#[rstest]
#[case::goes_on(with(agent(strategy("OnDelete")), asks("2")), with(agent(strategy("RollingUpdate")), asks("2")),
    &["makes 1 of its pods anew: its template asks nodes for something else"])]
#[case::has_nothing_to_do(agent(strategy("OnDelete")), agent(strategy("RollingUpdate")), &[])]
#[case::waits(agent(strategy("OnDelete")), with(agent(strategy("OnDelete")), asks("2")), &[])]
#[case::was_under_way(with(agent(json!({})), asks("2")), with(agent(json!({})), asks("2")), &[])]
#[case::leaves_the_node(agent(json!({})), agent(json!({"spec": {"template": {"spec": {"nodeSelector": {"a": "b"}}}}})),
    &["lets 1 of its pods go"])]
#[case::leaves_it_whatever_the_strategy(agent(strategy("OnDelete")),
    with(agent(strategy("OnDelete")), json!({"spec": {"template": {"spec": {"nodeSelector": {"a": "b"}}}}})),
    &["lets 1 of its pods go"])]
fn a_change_of_a_daemon_set_is_told_by_its_nodes(
    #[case] before: Value,
    #[case] after: Value,
    #[case] expected: &[&str],
) {
    let converted =
        changed([mk_node("n1", json!({})), before, owned_pod("agent-x", ("DaemonSet", "agent"), json!({}))], [after]);
    assert_eq!(told(&converted), expected);
    assert!(pending(&converted.cluster).is_empty());
}

fn set(hash: &str, cpu: &str) -> Value {
    let labels = json!({"app": "web", "pod-template-hash": hash});
    let set = mk_workload("ReplicaSet", &format!("web-{hash}"), json!({"template": {"metadata": {"labels": labels}}}));
    with(with(set, asks(cpu)), owned_by("Deployment", "web", "d"))
}

#[test]
fn a_rollout_that_is_under_way_is_no_part_of_a_change() {
    let rolled = || web(2, asks("2"));
    let sets = || [mk_node("n1", json!({})), set("abc", "1"), set("new", "2"), replica("a", json!({}))];
    let converted = changed(sets().into_iter().chain([rolled()]), [rolled()]);
    assert_eq!((told(&converted).len(), converted.ends_pods), (0, false), "{:?}", converted.warnings);
    // One that was held back and goes on is.
    let paused = with(rolled(), json!({"spec": {"paused": true}}));
    let converted = changed(sets().into_iter().chain([paused]), [rolled()]);
    assert_eq!(told(&converted), ["makes 1 of its pods anew: its template asks nodes for something else"]);

    let db = |partition: u32| {
        let set = mk_workload(
            "StatefulSet",
            "db",
            json!({"replicas": 3, "updateStrategy": {"rollingUpdate": {"partition": partition}}}),
        );
        with(set, json!({"status": {"updateRevision": "new"}}))
    };
    let member = |number: u32| {
        let labels = json!({"metadata": {"labels": {"app": "db", "controller-revision-hash": "old"}}});
        owned_pod(&format!("db-{number}"), ("StatefulSet", "db"), labels)
    };
    for (before, after, expected) in [(1, 1, None), (2, 1, Some(1)), (2, 0, Some(2)), (0, 2, None)] {
        let cluster = [mk_node("n1", json!({})), db(before)].into_iter().chain((0..3).map(member));
        let converted = changed(cluster, [db(after)]);
        let expected =
            expected.map(|n| format!("makes {n} of its pods anew: its template asks nodes for something else"));
        assert_eq!(told(&converted), expected.iter().map(String::as_str).collect::<Vec<_>>(), "{before} {after}");
    }
}

#[test]
fn a_deployment_that_is_paused_from_the_start_gets_no_pods() {
    let paused = || web(2, json!({"spec": {"paused": true}}));
    let none = |converted: &Converted| {
        converted
            .warnings
            .iter()
            .any(|told| told.contains("it is paused and has no ReplicaSet: nothing makes its pods"))
    };
    let converted = convert([paused()]);
    assert_eq!((pending(&converted.cluster).len(), none(&converted)), (0, true));
    // It has one: by itself, by its pods, or as it says.
    let revision = json!({"metadata": {"annotations": {"deployment.kubernetes.io/revision": "1"}}});
    for (objects, wanted) in [
        (vec![paused(), set("abc", "1")], "default/web-0..1"),
        (vec![mk_node("n1", json!({})), paused(), replica("a", json!({}))], "default/web-0..0"),
        (vec![with(paused(), revision)], "default/web-0..1"),
    ] {
        let converted = convert(objects);
        assert_eq!(pending(&converted.cluster), [wanted]);
        assert!(!none(&converted));
    }
    let converted = changed([paused()], [web(2, json!({}))]);
    assert_eq!((pending(&converted.cluster), none(&converted)), (vec!["default/web-0..1".to_owned()], false));
}

#[test]
fn a_daemon_without_room_on_its_node_is_pending() {
    let full = mk(
        "Pod",
        "full",
        json!({"spec": {"nodeName": "n1", "containers": [
        {"name": "c", "resources": {"requests": {"cpu": "3500m"}}}]}}),
    );
    let objects = [mk_node("n1", json!({})), mk_node("n2", json!({})), full, agent(json!({}))];
    let converted = convert(objects.clone());
    assert_eq!(pending(&converted.cluster), ["default/agent-n1"]);
    let free = |name: &str| super::amount(&node(&converted.cluster, name).free, "cpu", &converted.cluster);
    assert_eq!((free("n1"), free("n2")), (500, 3000), "room is kept where there is some");
    // The pod that waits already has its name.
    let affinity = json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
        {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]}]}}});
    let waiting = with(mk_pod("agent-x7k2p", json!({"affinity": affinity})), owned_by("DaemonSet", "agent", "u"));
    let converted = convert(objects.into_iter().chain([waiting]));
    assert_eq!(pending(&converted.cluster), ["default/agent-x7k2p"]);
}
