use k8s_openapi::api::core::v1::Pod;
use serde_json::{Value, json};

use super::*;

fn pod(name: &str, uid: &str, version: u64, node: Option<&str>) -> Object {
    let mut pod = json!({
        "metadata": {"name": name, "namespace": "default", "uid": uid, "resourceVersion": version.to_string()},
        "spec": {"containers": []},
    });
    if let Some(node) = node {
        pod["spec"]["nodeName"] = Value::from(node);
    }
    Object::from(serde_json::from_value::<Pod>(pod).unwrap())
}

fn on(view: &View, node: &str) -> Vec<String> {
    view.pods_on(node).map(|pod| pod.name.name.clone()).collect()
}

fn deleted(name: &str, uid: &str) -> Observed {
    let metadata = json!({"name": name, "namespace": "default", "uid": uid});
    Observed::Deleted(Kind::Pod, Box::new(serde_json::from_value(metadata).unwrap()))
}

#[test]
fn an_older_version_changes_nothing() {
    let mut view = View::default();
    assert!(!view.observe(Observed::Applied(pod("p", "u", 5, Some("n")))).is_empty());
    assert!(view.observe(Observed::Applied(pod("p", "u", 4, None))).is_empty());
    assert!(view.observe(Observed::Applied(pod("p", "u", 5, None))).is_empty());
    assert_eq!(on(&view, "n"), ["p"]);
}

fn node(name: &str, version: u64) -> Object {
    let node = json!({"metadata": {"name": name, "uid": name, "resourceVersion": version.to_string()}});
    Object::from(serde_json::from_value::<k8s_openapi::api::core::v1::Node>(node).unwrap())
}

fn idle(view: &View) -> Vec<&str> {
    view.idle_nodes().filter_map(|node| node.metadata.name.as_deref()).collect()
}

#[test]
fn nodes_are_idle_while_they_have_no_pods_that_would_have_to_move() {
    let mut view = View::default();
    // A pod may be seen before its node.
    view.observe(Observed::Applied(pod("early", "e", 1, Some("b"))));
    view.observe(Observed::Applied(node("a", 2)));
    view.observe(Observed::Applied(node("b", 3)));
    assert_eq!(idle(&view), ["a"]);
    view.observe(Observed::Applied(pod("p", "p", 4, None)));
    assert_eq!(idle(&view), ["a"]);
    view.observe(Observed::Applied(pod("p", "p", 5, Some("a"))));
    view.observe(Observed::Applied(pod("p", "p", 6, Some("a"))));
    assert_eq!((idle(&view), view.has_moving_pods("a")), (vec![], true));
    // Another pod of the same name takes its place on another node.
    view.observe(Observed::Applied(pod("p", "p2", 7, Some("b"))));
    assert_eq!(idle(&view), ["a"]);
    view.observe(deleted("early", "e"));
    assert_eq!(idle(&view), ["a"]);
    view.observe(deleted("p", "p2"));
    assert_eq!(idle(&view), ["a", "b"]);
    let gone = serde_json::from_value(json!({"name": "a", "uid": "a"})).unwrap();
    view.observe(Observed::Deleted(Kind::Node, Box::new(gone)));
    assert_eq!(idle(&view), ["b"]);
    view.observe(listed(Kind::Pod, vec![pod("q", "q", 8, Some("b"))], Vec::new()));
    assert_eq!(idle(&view), Vec::<&str>::new());
}

#[test]
fn a_late_answer_does_not_bring_a_deleted_object_back() {
    let mut view = View::default();
    view.observe(Observed::Applied(pod("p", "u", 5, Some("n"))));
    view.observe(deleted("p", "u"));
    assert!(view.observe(Observed::Applied(pod("p", "u", 6, Some("n")))).is_empty());
    assert_eq!(on(&view, "n"), Vec::<String>::new());
    // Another object of the same name does come.
    assert!(!view.observe(Observed::Applied(pod("p", "u2", 7, Some("n")))).is_empty());
    // And the late deletion of the first does not take it away.
    view.observe(deleted("p", "u"));
    assert_eq!(on(&view, "n"), ["p"]);
}

#[test]
fn a_list_takes_away_what_it_does_not_have_but_does_not_bury_it() {
    let mut view = View::default();
    view.observe(Observed::Applied(pod("a", "a", 5, Some("n"))));
    view.observe(Observed::Applied(pod("b", "b", 6, Some("n"))));
    let concerned = view.observe(listed(Kind::Pod, vec![pod("a", "a", 5, Some("n"))], Vec::new()));
    assert!(concerned.contains(&Concerns::Node("n".to_owned())));
    assert_eq!(on(&view, "n"), ["a"]);
    // It was younger than the list, and the watch tells it again.
    view.observe(Observed::Applied(pod("b", "b", 6, Some("n"))));
    assert_eq!(on(&view, "n"), ["a", "b"]);
}

#[test]
fn a_pod_that_is_bound_concerns_its_node() {
    let mut view = View::default();
    view.observe(Observed::Applied(pod("p", "u", 5, None)));
    let concerned = view.observe(Observed::Applied(pod("p", "u", 6, Some("n"))));
    assert!(concerned.contains(&Concerns::Node("n".to_owned())));
}

#[test]
fn a_status_of_a_pod_concerns_nobody_until_it_ends() {
    let mut view = View::default();
    let with_phase = |version, phase| {
        let Object::Pod(mut pod) = pod("p", "u", version, Some("n")) else { panic!() };
        std::sync::Arc::make_mut(&mut pod).status.get_or_insert_default().phase = Some(String::from(phase));
        Observed::Applied(Object::Pod(pod))
    };
    assert!(!view.observe(with_phase(5, "Pending")).is_empty());
    assert!(view.observe(with_phase(6, "Running")).is_empty());
    assert!(view.observe(with_phase(7, "Succeeded")).contains(&Concerns::PodsOn("n".to_owned())));
}

/// The regression: while a DaemonSet was rolled out its pods came and went, and no empty node went for that.
#[test]
fn pods_of_daemon_sets_are_none_that_come_to_a_node_or_leave_it() {
    let mut view = View::default();
    let daemon = |version, node| {
        let Object::Pod(mut pod) = pod("d", "u", version, node) else { panic!() };
        let owner =
            json!([{"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "agent", "uid": "ds", "controller": true}]);
        std::sync::Arc::make_mut(&mut pod).metadata.owner_references = serde_json::from_value(owner).unwrap();
        Observed::Applied(Object::Pod(pod))
    };
    let on_n = Concerns::PodsOn("n".to_owned());
    view.observe(daemon(5, None));
    let bound = view.observe(daemon(6, Some("n")));
    assert!(bound.contains(&Concerns::Node("n".to_owned())) && !bound.contains(&on_n), "{bound:?}");
    let gone = view.observe(listed(Kind::Pod, Vec::new(), Vec::new()));
    assert!(gone.contains(&Concerns::Node("n".to_owned())) && !gone.contains(&on_n), "{gone:?}");
}

#[test]
fn what_a_pool_has_is_counted_where_its_claims_have_something_else() {
    let mut view = View::default();
    let claim = |version: u64, status: &Value| {
        let claim = json!({"metadata": {"name": "c", "uid": "c", "resourceVersion": version.to_string(),
            "labels": {"karpenter.sh/nodepool": "general"}}, "spec": {"requirements": []}, "status": status});
        Observed::Applied(Object::from(serde_json::from_value::<NodeClaim>(claim).unwrap()))
    };
    let time = "2026-01-01T00:00:00Z";
    let is = |type_: &str| json!({"type": type_, "status": "True", "lastTransitionTime": time});
    let launched = json!({"providerID": "i"});
    let statuses = [
        (json!({}), true),
        (launched.clone(), true),
        (json!({"providerID": "i", "conditions": [is("Consolidatable")], "lastPodEventTime": time}), false),
        (json!({"providerID": "i", "conditions": [is("Registered")]}), true),
        (json!({"providerID": "i", "conditions": [is("Registered")], "capacity": {"cpu": "4"}}), true),
        (launched.clone(), true),
        (json!({"providerID": "i", "conditions": [is("Initialized")]}), true),
        (launched.clone(), true),
    ];
    let count = Concerns::ClaimsOf("general".to_owned());
    for (version, (status, is_counted)) in (1..).zip(statuses) {
        let concerned = view.observe(claim(version, &status));
        assert_eq!(concerned.contains(&count), is_counted, "{status}");
    }
    let going = json!({"metadata": {"name": "c", "uid": "c", "resourceVersion": "9", "deletionTimestamp": time,
        "labels": {"karpenter.sh/nodepool": "general"}}, "spec": {"requirements": []}, "status": launched});
    let going = Object::from(serde_json::from_value::<NodeClaim>(going).unwrap());
    assert!(view.observe(Observed::Applied(going)).contains(&count), "one that is deleted counts no more");
}

fn listed(kind: Kind, objects: Vec<Object>, unreadable: Vec<Unreadable>) -> Observed {
    Observed::Listed { kind, objects, unreadable, resource_version: None }
}

#[test]
fn an_unreadable_claim_still_exists() {
    let mut view = View::default();
    let metadata = || Box::new(serde_json::from_value(json!({"name": "c", "uid": "u"})).unwrap());
    let unreadable = || Unreadable { metadata: metadata(), error: "bad".to_owned(), ..Unreadable::default() };
    view.observe(Observed::Unreadable(Kind::NodeClaim, unreadable()));
    assert!(view.has_claim("c", "u") && view.has_unreadable_claims());
    // A process that starts learns of it by a list, which must not forget it.
    view.observe(listed(Kind::NodeClaim, Vec::new(), vec![unreadable()]));
    assert!(view.has_claim("c", "u") && view.has_unreadable_claims());
    view.observe(Observed::Deleted(Kind::NodeClaim, metadata()));
    assert!(!view.has_claim("c", "u") && !view.has_unreadable_claims());
}

#[test]
fn nothing_is_synced_before_every_kind_was_listed() {
    let mut view = View::default();
    for kind in WATCHED.iter().copied() {
        assert!(!view.is_synced());
        view.observe(Observed::nothing_of(kind));
    }
    assert!(view.is_synced());
}
