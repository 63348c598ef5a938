//! The nodes that static NodePools miss are in the plan: they cost money whatever pods need.

#![allow(clippy::unwrap_used)] // Helpers are not test functions to clippy.

use berth_plan::{Money, Options, Plan, Summary, plan_objects};
use serde_json::{Value, json};

fn pool(name: &str, spec: &Value) -> Value {
    let mut pool = json!({"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": name}, "spec": {
        "template": {"spec": {"requirements": [
            {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand", "reserved"]}],
            "nodeClassRef": {"group": "berth.sh", "kind": "FakeNodeClass", "name": "default"}}}}});
    for (key, value) in spec.as_object().into_iter().flatten() {
        pool["spec"][key] = value.clone();
    }
    pool
}

fn pod(name: &str, cpu: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name},
        "spec": {"containers": [{"name": "app", "image": "app", "resources": {"requests": {"cpu": cpu}}}]}})
}

/// A type of two CPUs for a dollar, with one slot, and one of eight CPUs for four.
fn catalogue() -> Value {
    let of_type = |name: &str, cpu: &str, offerings: Value| {
        json!({"name": name, "architecture": "amd64", "operatingSystems": ["linux"],
            "resources": {"cpu": cpu, "memory": "32Gi", "pods": "50"}, "offerings": offerings})
    };
    let is = |key: &str, value: &str| json!({"key": key, "operator": "In", "values": [value]});
    let zone = is("topology.kubernetes.io/zone", "a");
    let paid =
        |price: f64| json!({"Price": price, "Requirements": [is("karpenter.sh/capacity-type", "on-demand"), zone]});
    let slot = json!({"Price": 1.0, "ReservationCapacity": 1, "Requirements": [
        is("karpenter.sh/capacity-type", "reserved"), zone, is("berth.sh/capacity-reservation-id", "cr-1")]});
    json!([of_type("small", "2", json!([paid(1.0), slot])), of_type("large", "8", json!([paid(4.0)]))])
}

fn plan_with(objects: &[Value], options: &Options) -> Plan {
    plan_objects(objects, Some(&catalogue()), options).unwrap()
}

fn plan(objects: &[Value]) -> Plan {
    let mut options = Options { bound: true, ..Options::default() };
    options.gates.static_capacity = true;
    plan_with(objects, &options)
}

/// `pool type capacity`, a line for each NodeClaim.
fn claims(plan: &Value) -> Vec<String> {
    let claims = plan["nodeClaims"].as_array().unwrap().iter().map(|claim| {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let offering = &claim["offering"];
        [&claim["name"], &offering["instanceType"], &offering["capacityType"]].map(text).join(" ")
    });
    claims.collect()
}

#[test]
fn missing_replicas_are_launched_on_slots_first_and_pods_use_them() {
    let objects = [pool("fixed", &json!({"replicas": 3})), pool("open", &json!({})), pod("web", "1"), pod("big", "6")];
    let plan = plan(&objects);
    let Summary { node_claims, placed, slots_used, slots_total, hourly_cost, lower_bound, .. } = plan.summary();
    assert_eq!((node_claims, placed, slots_used, slots_total), (4, 2, 1, 1));
    let six = Money::from_pico(6_000_000_000_000);
    // It is proved with little loss, and not above the truth.
    let bound = lower_bound.unwrap();
    assert!(
        hourly_cost == six && bound <= six && six - bound < Money::from_pico(100_000_000),
        "{hourly_cost:?} {bound:?}"
    );
    let value = plan.to_value().unwrap();
    let mut launched = claims(&value);
    launched.sort();
    let expected = [
        "fixed-00001 small reserved",
        "fixed-00002 small on-demand",
        "fixed-00003 small on-demand",
        "open-00001 large on-demand",
    ];
    assert_eq!(launched, expected);
    let nodes = value["nodes"].as_array().unwrap();
    assert_eq!(
        (nodes.len(), &nodes[0]["name"], &nodes[0]["pods"]),
        (1, &json!("fixed-00001"), &json!(["default/web"]))
    );
    assert_eq!(value["reservations"], json!([{"id": "cr-1", "total": 1, "used": 1}]));
}

#[test]
fn nodes_that_are_there_count_and_limits_hold() {
    let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n", "labels": {
        "karpenter.sh/nodepool": "fixed", "karpenter.sh/capacity-type": "on-demand",
        "node.kubernetes.io/instance-type": "small", "topology.kubernetes.io/zone": "a",
        "kubernetes.io/arch": "amd64", "kubernetes.io/os": "linux", "kubernetes.io/hostname": "n"}},
        "status": {"allocatable": {"cpu": "2", "memory": "32Gi", "pods": "50"}}});
    for (spec, n, warning) in [
        (json!({"replicas": 3}), 2, None),
        (json!({"replicas": 1}), 0, None),
        (json!({"replicas": 0}), 0, None),
        (json!({"replicas": 2_000_000_000}), 0, Some("NodePool fixed: 1 of 2000000000 replicas: a plan has no")),
        (json!({"replicas": 5, "limits": {"nodes": "3"}}), 2, Some("NodePool fixed: 3 of 5 replicas")),
    ] {
        let plan = plan(&[pool("fixed", &spec), node.clone()]);
        assert_eq!(plan.summary().node_claims, n, "{spec}");
        let told = plan.warnings().iter().find(|told| told.contains("replicas"));
        assert_eq!(
            told.map(|told| told.starts_with(warning.unwrap_or("none"))),
            warning.map(|_| true),
            "{spec} {told:?}"
        );
    }
}

#[test]
fn two_static_pools_share_the_slots_and_without_the_gate_there_is_nothing() {
    let objects = [pool("a", &json!({"replicas": 1})), pool("b", &json!({"replicas": 2}))];
    let shared = plan(&objects).to_value().unwrap();
    assert_eq!(claims(&shared), ["a-00001 small reserved", "b-00001 small on-demand", "b-00002 small on-demand"]);
    assert_eq!(plan_with(&objects, &Options::default()).summary().node_claims, 0);
}

#[test]
fn tables_and_pages_tell_them() {
    let plan = plan(&[pool("fixed", &json!({"replicas": 2})), pod("web", "1")]);
    let mut page = Vec::new();
    plan.write_html(&mut page).unwrap();
    let mut text = Vec::new();
    plan.write_tables(true, berth_plan::Terminal::default(), &mut text).unwrap();
    let text = String::from_utf8(text).unwrap();
    assert!(text.contains("Nodes:         2 to launch") && text.contains("fixed-00001"), "{text}");
    // Nobody is told that a node exists which is yet to be launched.
    assert!(
        text.contains("Nodes to launch for static NodePools that get pods") && !text.contains("Existing nodes that"),
        "{text}"
    );
    assert!(text.contains("fixed-00001 (of a static NodePool, to launch)"), "{text}");
    let story = plan.explain(&"node/fixed-00001".parse().unwrap(), &Options::default()).unwrap();
    let mut told = Vec::new();
    story.write_text(false, berth_plan::Terminal::default(), &mut told).unwrap();
    let told = String::from_utf8(told).unwrap();
    assert!(told.starts_with("Node fixed-00001 is to be launched for its static NodePool"), "{told}");
}
