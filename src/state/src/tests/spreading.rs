//! From whom pods are spread by default, as Services and controllers come, change and go.

use berth_model::LabelsId;
use k8s_openapi::api::apps::v1::{ReplicaSet, StatefulSet};
use k8s_openapi::api::core::v1::{ReplicationController, Service};

use super::*;

/// By pod: what it is spread from, `key=value` in order.
fn told(state: &mut State) -> Vec<String> {
    let cluster = state.cluster(NOW);
    let words = |labels: LabelsId| -> String {
        let own = cluster.spread_from(labels).into_iter().flat_map(berth_model::Requirements::iter);
        let mut words: Vec<String> = own
            .map(|(key, requirement)| {
                let values: Vec<&str> =
                    requirement.finite_values().unwrap_or_default().iter().map(|v| cluster.symbols.text(*v)).collect();
                format!("{}={}", cluster.symbols.text(key), values.join("|"))
            })
            .collect();
        words.sort();
        words.join(",")
    };
    let mut lines: Vec<String> = Vec::new();
    for row in &cluster.pending {
        lines.extend(row.members.iter().map(|run| format!("{} {}", run.name, words(row.labels))));
    }
    let bound = cluster.nodes.iter().flat_map(|node| &node.pods);
    lines.extend(bound.map(|pod| format!("{} {}", pod.name, words(pod.labels))));
    lines.sort();
    lines
}

fn mk_owned(name: &str, node: Option<&str>, kind: &str) -> Object {
    let version = if kind == "ReplicationController" { "v1" } else { "apps/v1" };
    Object::from(typed::<Pod>(json!({
        "metadata": {"name": name, "namespace": "default", "uid": name,
            "labels": {"app": "web", "tier": "front", "hash": "1"},
            "ownerReferences": [{"apiVersion": version, "kind": kind, "name": "own", "uid": "own", "controller": true}]},
        "spec": {"nodeName": node, "containers": [{"name": "app"}]}})))
}

fn mk_service(name: &str, selector: &Value) -> Object {
    Object::from(typed::<Service>(json!({"metadata": {"name": name, "namespace": "default", "uid": name},
        "spec": {"selector": selector}})))
}

/// A controller `own` of a kind; ReplicationControllers select by labels.
fn mk_controller(kind: &str, labels: &Value) -> Object {
    let metadata = json!({"name": "own", "namespace": "default", "uid": "own"});
    let template = json!({"metadata": {"labels": {}}, "spec": {"containers": [{"name": "app"}]}});
    let selector = json!({"matchLabels": labels});
    match kind {
        "ReplicaSet" => Object::from(typed::<ReplicaSet>(
            json!({"metadata": metadata, "spec": {"selector": selector, "template": template}}),
        )),
        "StatefulSet" => Object::from(typed::<StatefulSet>(
            json!({"metadata": metadata, "spec": {"selector": selector, "serviceName": "s", "template": template}}),
        )),
        _ => Object::from(typed::<ReplicationController>(
            json!({"metadata": metadata, "spec": {"selector": labels, "template": template}}),
        )),
    }
}

#[test]
fn services_and_controllers_tell_from_whom_pods_are_spread_as_they_come_change_and_go() {
    for kind in ["ReplicaSet", "StatefulSet", "ReplicationController"] {
        let pods = [mk_owned("bound", Some("n"), kind), mk_owned("waiting", None, kind)];
        let mut state = state_of([mk_node("n", 1)].into_iter().chain(pods));
        told(&mut state);
        let before = state.n_conversions();
        let gone = |object: Object| Event::Deleted { object: object.reference().unwrap(), resource_version: None };
        let put = Event::Applied;
        let own = mk_controller(kind, &json!({"app": "web", "hash": "1"}));
        let steps = [
            (put(mk_service("a", &json!({"tier": "front"}))), "tier=front"),
            (put(own), "app=web,hash=1,tier=front"),
            // Of another pod, of all, and of none.
            (put(mk_service("b", &json!({"tier": "back"}))), "app=web,hash=1,tier=front"),
            (put(mk_service("b", &json!({}))), "app=web,hash=1,tier=front"),
            (put(mk_service("a", &json!({"app": "web"}))), "app=web,hash=1"),
            (put(mk_controller(kind, &json!({"app": "web"}))), "app=web"),
            (gone(mk_service("a", &json!({}))), "app=web"),
            (gone(mk_controller(kind, &json!({}))), ""),
            (put(mk_service("b", &json!({"hash": "1"}))), "hash=1"),
        ];
        for (event, expected) in steps {
            let what = format!("{kind}: {event:?}");
            state.apply(event).unwrap();
            let is = told(&mut state);
            assert_eq!(is, [format!("bound {expected}"), format!("waiting {expected}")], "{what}");
            assert_eq!(is, told(&mut state.snapshot()), "{what}");
            assert_eq!(state.n_conversions(), before, "{what}");
        }
    }
}

#[test]
fn a_controller_of_another_group_selects_nothing() {
    let mut pod = mk_owned("waiting", None, "ReplicaSet");
    pod.metadata_mut().owner_references.as_mut().unwrap()[0].api_version = "example.com/v1".to_owned();
    let mut state = state_of([mk_controller("ReplicaSet", &json!({"app": "web"})), pod]);
    assert_eq!(told(&mut state), ["waiting "]);
}
