//! Which preferences of running pods hold.

use berth_model::Insists;

use super::*;

const ZONE: &str = "topology.kubernetes.io/zone";
const HOST: &str = "kubernetes.io/hostname";

fn in_zone(name: &str, zone: &str) -> Object {
    mk_node(name, "8", &json!({ZONE: zone, HOST: name, "kubernetes.io/os": "linux"}))
}

fn web(name: &str, node: &str, spec: Value) -> Object {
    let owner = json!([{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "u", "controller": true}]);
    let mut more = json!({"metadata": {"labels": {"app": "web"}, "ownerReferences": owner},
        "spec": {"nodeName": node}, "status": {"phase": "Running"}});
    merge(&mut more["spec"], spec);
    mk_pod(name, "1", more)
}

fn spread(key: &str, more: Value) -> Value {
    let mut rule = json!({"maxSkew": 1, "topologyKey": key, "whenUnsatisfiable": "ScheduleAnyway",
        "labelSelector": {"matchLabels": {"app": "web"}}});
    merge(&mut rule, more);
    rule
}

/// By pod: the places of its preferences that hold, in the order of the spec.
fn kept(objects: &[Object], nodes: &[&str]) -> Vec<(String, Vec<usize>)> {
    let found = Decider::new().preferring(&mut state_of(objects), nodes, NOW).unwrap();
    let places = |on: Insists| (0..6).filter(|place| on.has(*place)).collect();
    let held = found.into_iter().filter(|known| !known.holds.is_empty());
    held.map(|known| (known.pod.name.to_string(), places(known.holds))).collect()
}

#[test]
fn spreads_hold_up_to_their_skew_over_the_domains_that_count() {
    let both = json!({"topologySpreadConstraints": [spread(ZONE, json!({})), spread(HOST, json!({}))]});
    let mut objects = vec![in_zone("a1", "a"), in_zone("a2", "a"), in_zone("b1", "b")];
    objects.extend([web("p", "a1", both.clone()), web("q", "a2", both.clone())]);
    let of_all = |objects: &[Object]| kept(objects, &["a1", "a2", "b1"]);
    // Two in zone a and none in b; one on each host.
    assert_eq!(of_all(&objects), [("p".to_owned(), vec![2]), ("q".to_owned(), vec![2])]);
    objects.push(web("r", "b1", both.clone()));
    assert_eq!(of_all(&objects).iter().map(|(_, places)| places.len()).collect::<Vec<_>>(), [2, 2, 2]);
    // A second one on a host.
    objects.push(web("s", "b1", both));
    assert_eq!(of_all(&objects)[2], ("r".to_owned(), vec![1]));
    // Who is being deleted does not count.
    let Some(Object::Pod(pod)) = objects.pop() else { panic!("a pod") };
    let mut pod = (*pod).clone();
    pod.metadata.deletion_timestamp = Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(NOW));
    objects.push(pod.into());
    assert_eq!(of_all(&objects)[2], ("r".to_owned(), vec![1, 2]));
}

#[test]
fn domains_that_the_pod_rules_out_do_not_count() {
    let zones = |more: Value| {
        let mut spec = json!({"topologySpreadConstraints": [spread(ZONE, json!({}))]});
        merge(&mut spec, more);
        spec
    };
    let on_two = |spec: &Value| {
        let mut objects = vec![in_zone("a1", "a"), in_zone("b1", "b")];
        objects.extend([web("p", "a1", spec.clone()), web("q", "a1", spec.clone())]);
        objects.push(mk_open_pool());
        kept(&objects, &["a1"]).len()
    };
    assert_eq!(on_two(&zones(json!({}))), 0, "two in zone a, none in b");
    assert_eq!(on_two(&zones(json!({"nodeSelector": {ZONE: "a"}}))), 2, "there is one zone for them");
}

#[test]
fn affinity_holds_beside_others_and_anti_affinity_without_them() {
    let terms = |key: &str, app: &str| {
        json!({"affinity": {key: {"preferredDuringSchedulingIgnoredDuringExecution": [
            {"weight": 1, "podAffinityTerm": {"topologyKey": HOST, "labelSelector": {"matchLabels": {"app": app}}}}]}}})
    };
    let places = |spec: &Value, n_beside: usize| {
        let mut objects = vec![in_zone("a", "a"), in_zone("b", "a"), web("p", "a", spec.clone())];
        objects.extend((0..n_beside).map(|i| web(&format!("q{i}"), "a", json!({}))));
        objects.push(web("far", "b", json!({})));
        kept(&objects, &["a"]).len()
    };
    assert_eq!([0, 1].map(|n| places(&terms("podAffinity", "web"), n)), [0, 1]);
    assert_eq!([0, 1].map(|n| places(&terms("podAntiAffinity", "web"), n)), [1, 0]);
    assert_eq!([0, 1].map(|n| places(&terms("podAntiAffinity", "other"), n)), [1, 1]);
    // The first of its kind is beside nobody, and could not be.
    let alone = [in_zone("a", "a"), web("p", "a", terms("podAffinity", "web"))];
    assert_eq!(kept(&alone, &["a"]).len(), 1);
    // Pods that are nowhere are beside nobody.
    for app in ["nowhere", "far"] {
        assert_eq!(places(&terms("podAffinity", app), 0), 0, "{app}");
    }
}

#[test]
fn pods_that_nobody_makes_again_or_that_prefer_nothing_are_left_out() {
    let bare =
        mk_pod("bare", "1", json!({"spec": {"nodeName": "a", "topologySpreadConstraints": [spread(HOST, json!({}))]}}));
    assert_eq!(kept(&[in_zone("a", "a"), bare, web("p", "a", json!({}))], &["a", "unknown"]), []);
}
