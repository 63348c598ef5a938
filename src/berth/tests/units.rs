//! CPUs and devices that pods get to themselves on nodes that exist: in the plan as Koordinator's annotations, and told of.

mod common;

use common::{plan_json, with_input};
use serde_json::json;

/// A node of 8 CPUs, two threads a core, and one GPU of 8 Gi; a pod that has its CPUs to itself, one with half a GPU, and a
/// Reservation that holds CPUs.
fn manifests() -> String {
    let cpus: Vec<_> = (0..8).map(|id| json!({"id": id, "core": id / 2, "socket": 0, "node": 0})).collect();
    let detail = json!({ "detail": cpus }).to_string();
    let amounts = json!({"cpu": "8", "memory": "16Gi", "pods": "20", "koordinator.sh/gpu-core": "100",
        "koordinator.sh/gpu-memory-ratio": "100", "koordinator.sh/gpu-memory": "8Gi"});
    let gpu = json!({"koordinator.sh/gpu-core": "100", "koordinator.sh/gpu-memory-ratio": "100",
        "koordinator.sh/gpu-memory": "8Gi"});
    let pod = |name: &str, labels: serde_json::Value, requests: serde_json::Value| {
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": labels},
            "spec": {"containers": [{"name": "c", "image": "i", "resources": {"requests": requests, "limits": requests}}]}})
    };
    let lsr = json!({"koordinator.sh/qosClass": "LSR"});
    let items = json!([
        {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-a"},
            "status": {"allocatable": amounts, "capacity": amounts}},
        {"apiVersion": "topology.node.k8s.io/v1alpha1", "kind": "NodeResourceTopology",
            "metadata": {"name": "node-a", "annotations": {"node.koordinator.sh/cpu-topology": detail}}},
        {"apiVersion": "scheduling.koordinator.sh/v1alpha1", "kind": "Device", "metadata": {"name": "node-a"},
            "spec": {"devices": [{"type": "gpu", "minor": 0, "health": true, "resources": gpu}]}},
        pod("alone", lsr.clone(), json!({"cpu": "2"})),
        pod("half", json!({}), json!({"koordinator.sh/gpu-core": "50", "koordinator.sh/gpu-memory-ratio": "50"})),
        pod("plain", json!({}), json!({"cpu": "1"})),
        {"apiVersion": "scheduling.koordinator.sh/v1alpha1", "kind": "Reservation", "metadata": {"name": "room"},
            "spec": {"owners": [{"labelSelector": {"matchLabels": {"app": "web"}}}], "template": {
                "metadata": {"labels": lsr},
                "spec": {"containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "4"}}}]}}}},
    ]);
    json!({"apiVersion": "v1", "kind": "List", "items": items}).to_string()
}

#[test]
fn the_plan_has_the_annotations_that_say_who_gets_what() {
    let plan = plan_json(&manifests(), &[]);
    let assigned = plan["nodes"][0]["assigned"].clone();
    let devices = r#"{"gpu":[{"minor":0,"resources":{"koordinator.sh/gpu-core":"50","koordinator.sh/gpu-memory":"4Gi","koordinator.sh/gpu-memory-ratio":"50"}}]}"#;
    let expected = json!([
        {"reservation": "room", "annotations": {"scheduling.koordinator.sh/resource-status": r#"{"cpuset":"0-3"}"#}},
        {"pod": "default/alone", "annotations": {"scheduling.koordinator.sh/resource-status": r#"{"cpuset":"4-5"}"#}},
        {"pod": "default/half", "annotations": {"scheduling.koordinator.sh/device-allocated": devices}},
    ]);
    assert_eq!(assigned, expected, "{plan}");
}

#[test]
fn the_annotation_says_where_a_pod_lies_on_numa_nodes() {
    let zone = r#"{"name":"node-0","type":"Node","resources":[{"name":"cpu","allocatable":"8"}]}"#;
    let spec = r#"{\"numaTopologyPolicy\":\"SingleNUMANode\"}"#;
    let annotated = format!(
        r#"{{"annotations":{{"scheduling.koordinator.sh/numa-topology-spec":"{spec}"}},"labels":{{}},"name":"plain"}}"#
    );
    let manifests = manifests()
        .replace(r#""kind":"NodeResourceTopology","#, &format!(r#""kind":"NodeResourceTopology","zones":[{zone}],"#))
        .replace(r#"{"labels":{},"name":"plain"}"#, &annotated);
    let plan = plan_json(&manifests, &[]);
    let assigned = plan["nodes"][0]["assigned"].as_array().unwrap();
    let entry = assigned.iter().find(|entry| entry["pod"] == "default/plain").unwrap();
    let status = r#"{"numaNodeResources":[{"node":0,"resources":{"cpu":"1"}}]}"#;
    assert_eq!(entry["annotations"], json!({"scheduling.koordinator.sh/resource-status": status}));
}

#[test]
fn the_plan_of_nodes_without_such_pods_says_nothing_of_it() {
    let plan = plan_json(
        &manifests()
            .replace("LSR", "LS")
            .replace("\"koordinator.sh/gpu-core\":\"50\"", "\"cpu\":\"1\"")
            .replace("\"koordinator.sh/gpu-memory-ratio\":\"50\"", "\"memory\":\"1Gi\""),
        &[],
    );
    assert_eq!(plan["nodes"][0].get("assigned"), None, "{plan}");
}

#[test]
fn the_story_of_a_pod_a_reservation_and_a_node_tells_of_it() {
    let tell = |object: &str| {
        let run = with_input(&["explain", "-f", "-", object], &manifests());
        assert_eq!(run.code, 0, "{}", run.stderr);
        run.stdout
    };
    let has = |text: &str, what: &str| assert!(text.contains(what), "{what:?} in {text}");
    has(&tell("pod/alone"), "CPUs of its own:  4-5");
    has(
        &tell("pod/half"),
        "gpu 0 (koordinator.sh/gpu-core 50, koordinator.sh/gpu-memory 4Gi, koordinator.sh/gpu-memory-ratio 50)",
    );
    has(&tell("reservation/room"), "CPUs of its own:      0-3");
    has(&tell("node/node-a"), "default/alone (CPUs 4-5)");
}

/// Two NUMA nodes of 8 CPUs, of which every pod must lie on one; and a pod of so many CPUs.
fn two_numa_nodes(cpus: u32) -> String {
    let amounts = json!({"cpu": "16", "memory": "64Gi", "pods": "20"});
    let zone = |id: u32| json!({"name": format!("node-{id}"), "type": "Node", "resources": [{"name": "cpu", "allocatable": "8"}]});
    let items = json!([
        {"apiVersion": "v1", "kind": "Node",
            "metadata": {"name": "node-a", "labels": {"node.koordinator.sh/numa-topology-policy": "SingleNUMANode"}},
            "status": {"allocatable": amounts, "capacity": amounts}},
        {"apiVersion": "topology.node.k8s.io/v1alpha1", "kind": "NodeResourceTopology",
            "metadata": {"name": "node-a"}, "zones": [zone(0), zone(1)]},
        {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "wide"}, "spec": {"nodeName": "", "containers": [
            {"name": "c", "image": "i", "resources": {"requests": {"cpu": cpus.to_string()}}}]}},
        {"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "none"}, "spec": {"template": {"spec": {
            "nodeClassRef": {"group": "berth.sh", "kind": "FakeNodeClass", "name": "default"},
            "requirements": [{"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["no-such"]}]}}}},
    ]);
    json!({"apiVersion": "v1", "kind": "List", "items": items}).to_string()
}

#[test]
fn a_pod_that_no_numa_node_holds_is_not_planned_onto_their_sum() {
    let plan = plan_json(&two_numa_nodes(8), &[]);
    assert_eq!(plan["nodes"][0]["pods"], json!(["default/wide"]));
    let plan = plan_json(&two_numa_nodes(10), &[]);
    assert_eq!((&plan["nodes"], &plan["summary"]["unschedulable"]), (&json!([]), &json!(1)), "{plan}");
    let reasons = plan["unschedulable"][0]["reasons"].to_string();
    let explained = with_input(&["explain", "-f", "-", "-o", "json", "pod/wide"], &two_numa_nodes(10));
    let explained: serde_json::Value = serde_json::from_str(&explained.stdout).unwrap();
    let said = explained["nodes"][0]["reasons"][0]["reason"].as_str().unwrap();
    assert!(reasons.contains(said), "plan: {reasons}; explain: {said}");
}
