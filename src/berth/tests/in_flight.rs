//! What is on its way counts: terminating pods until they are gone, NodeClaims before they are launched.

mod common;

use common::{plan_json, with_input};
use serde_json::{Value, json};

const CATALOGUE: [&str; 2] = ["--instance-types", "examples/catalogues/one-slot.yaml"];

fn node() -> Value {
    let amounts = json!({"cpu": "4", "memory": "8Gi", "pods": "10"});
    json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-a"},
        "status": {"allocatable": amounts, "capacity": amounts}})
}

fn pod(name: &str, cpu: &str, patch: impl Fn(&mut Value)) -> Value {
    let mut pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": {"containers": [
        {"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}]}});
    patch(&mut pod);
    pod
}

fn going(name: &str, cpu: &str) -> Value {
    pod(name, cpu, |pod| {
        pod["spec"]["nodeName"] = "node-a".into();
        pod["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
    })
}

fn list(items: &[Value]) -> String {
    json!({"apiVersion": "v1", "kind": "List", "items": items}).to_string()
}

#[test]
fn the_room_of_a_terminating_pod_is_not_given_away() {
    let plan = plan_json(&list(&[node(), going("old", "3"), pod("new", "3", |_| ())]), &[]);
    assert_eq!((&plan["nodes"], &plan["summary"]["nodeClaims"]), (&json!([]), &json!(1)), "{plan}");
    // Only a pod that is nominated there may count on it; others keep off what it will have.
    let nominated = |pod: &mut Value| pod["status"] = json!({"nominatedNodeName": "node-a"});
    let manifests = list(&[node(), going("old", "3"), pod("small", "1", |_| ()), pod("new", "4", nominated)]);
    let plan = plan_json(&manifests, &[]);
    assert_eq!(plan["nodes"][0]["pods"], json!(["default/new"]), "{plan}");
    assert_eq!((&plan["summary"]["nodeClaims"], &plan["nodes"][0]["preempted"]), (&json!(1), &json!([])), "{plan}");
    let told = with_input(&["explain", "-f", "-", "pod/new"], &manifests);
    assert!(told.stdout.contains("goes to node node-a"), "{}{}", told.stdout, told.stderr);
    assert!(told.stdout.contains("1 of 1 nodes that exist would take it"), "{}", told.stdout);
}

#[test]
fn a_pod_that_would_preempt_a_terminating_one_waits_for_it_and_nobody_gives_way() {
    let urgent = |pod: &mut Value| pod["spec"]["priority"] = 10.into();
    let plan = plan_json(&list(&[node(), going("old", "3"), pod("new", "3", urgent), pod("next", "3", urgent)]), &[]);
    assert_eq!(plan["nodes"][0]["pods"], json!(["default/new"]), "{plan}");
    assert_eq!((&plan["nodes"][0]["preempted"], &plan["summary"]["nodeClaims"]), (&json!([]), &json!(1)), "{plan}");
}

#[test]
fn ports_and_anti_affinity_of_a_terminating_pod_hold_and_its_count_in_a_spread_does_not() {
    let port = |pod: &mut Value| {
        pod["spec"]["containers"][0]["ports"] = json!([{"containerPort": 80, "hostPort": 80}]);
    };
    let mut old = going("old", "1");
    port(&mut old);
    let plan = plan_json(&list(&[node(), old, pod("new", "1", port)]), &[]);
    assert_eq!(plan["nodes"], json!([]), "{plan}");
    let labelled = |pod: &mut Value| pod["metadata"]["labels"] = json!({"app": "web"});
    let apart = |pod: &mut Value| {
        labelled(pod);
        pod["spec"]["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"] =
            json!([{"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "web"}}}]);
    };
    let mut old = going("old", "1");
    labelled(&mut old);
    let plan = plan_json(&list(&[node(), old.clone(), pod("new", "1", apart)]), &[]);
    assert_eq!(plan["nodes"], json!([]), "{plan}");
    // kube-scheduler passes over it where it counts for a spread: a second node has one, this one none.
    let mut other = node();
    other["metadata"]["name"] = "node-b".into();
    let there = pod("there", "1", |pod| {
        labelled(pod);
        pod["spec"]["nodeName"] = "node-b".into();
    });
    let spread = |pod: &mut Value| {
        labelled(pod);
        pod["spec"]["topologySpreadConstraints"] = json!([{"maxSkew": 1, "topologyKey": "kubernetes.io/hostname",
            "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {"matchLabels": {"app": "web"}}}]);
    };
    let mut second = going("older", "1");
    labelled(&mut second);
    let plan = plan_json(&list(&[node(), other, old, second, there, pod("new", "1", spread)]), &[]);
    assert_eq!(plan["nodes"][0]["name"], "node-a", "{plan}");
}

#[test]
fn a_claim_that_is_not_launched_takes_its_slot_and_the_pod_that_fits_it() {
    let pool = json!({"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "general"},
        "spec": {"limits": {"nodes": "2"}, "template": {"spec": {"requirements": [],
            "nodeClassRef": {"group": "berth.sh", "kind": "FakeNodeClass", "name": "default"}}}}});
    let planned = plan_json(&list(&[pool.clone(), pod("first", "1", |_| ())]), &CATALOGUE);
    let claim = &planned["nodeClaims"][0];
    assert_eq!(claim["offering"]["capacityType"], "reserved", "{planned}");
    let offering: serde_json::Map<String, Value> = claim["offering"]
        .as_object()
        .into_iter()
        .flatten()
        .filter(|(key, _)| *key != "price")
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect();
    let asked = json!({"apiVersion": "karpenter.sh/v1", "kind": "NodeClaim", "metadata": {"name": "asked",
        "labels": {"karpenter.sh/nodepool": "general"},
        "annotations": {"berth.sh/planned-offering": Value::Object(offering).to_string()}},
        "spec": {"requirements": claim["requirements"]}});
    // The same pod goes to the claim that was made for it; the next finds no slot, and the third no node left of the limit.
    let alone = |name: &str| {
        pod(name, "1", |pod| {
            pod["metadata"]["labels"] = json!({"app": "alone"});
            pod["spec"]["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"] =
                json!([{"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "alone"}}}]);
        })
    };
    let items = [pool, asked, alone("first"), alone("second"), alone("third")];
    let plan = plan_json(&list(&items), &CATALOGUE);
    assert_eq!(plan["nodes"][0]["name"], "asked", "{plan}");
    assert_eq!(plan["nodes"][0]["pods"], json!(["default/first"]));
    assert_eq!(plan["summary"]["nodeClaims"], 1, "{plan}");
    assert_ne!(plan["nodeClaims"][0]["offering"]["capacityType"], "reserved", "{plan}");
    assert_eq!((&plan["summary"]["unschedulable"], &plan["summary"]["reservedSlots"]["used"]), (&json!(1), &json!(0)));
    let run = crate::common::plan(&list(&items), &[&CATALOGUE[..], &["--wide"]].concat());
    assert!(run.stdout.contains("asked (on its way)"), "it is no node yet: {}", run.stdout);
    assert!(!run.stdout.contains("(exists)"), "{}", run.stdout);
}

#[test]
fn a_pod_bound_by_name_without_a_start_time_is_no_newcomer() {
    let bound = pod("bound", "1", |pod| pod["spec"]["nodeName"] = "node-a".into());
    let told = with_input(&["explain", "-f", "-", "-o", "json", "node/node-a"], &list(&[node(), bound.clone()]));
    let told: Value = serde_json::from_str(&told.stdout).unwrap_or_default();
    assert_eq!(told["pods"], json!([]), "{told}");
    assert!(told["facts"].to_string().contains(r#"{"name":"Pods that run here","text":"1"}"#), "{told}");
    let told = with_input(&["explain", "-f", "-", "pod/bound"], &list(&[node(), bound]));
    assert!(told.stdout.contains("runs on node node-a"), "{}", told.stdout);
}
