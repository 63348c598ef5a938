//! Who may give way to whom: owners and priorities of running pods, disruption budgets, nominated nodes.

use serde_json::{Value, json};

use super::rng::Rng;
use super::{APPS, NAMESPACES};

fn is_running(object: &Value) -> bool {
    object["kind"] == "Pod" && object["spec"]["nodeName"].is_string()
}

fn running_pod(rng: &mut Rng, pod: &mut Value) {
    if rng.percent(50) {
        let kind = *rng.pick(&["ReplicaSet", "ReplicaSet", "StatefulSet", "DaemonSet"]);
        pod["metadata"]["ownerReferences"] =
            json!([{"apiVersion": "apps/v1", "kind": kind, "name": "elsewhere", "uid": "1-2-3", "controller": true}]);
    }
    if rng.percent(30) {
        pod["spec"]["priority"] = (*rng.pick(&[-10, -10, 1000])).into();
    }
    if rng.percent(8) {
        pod["metadata"]["labels"]["scheduling.koordinator.sh/disable-preemptible"] = "true".into();
    }
    if rng.percent(40) {
        // Enough to stand in somebody's way.
        pod["spec"]["containers"][0]["resources"]["requests"]["cpu"] = (*rng.pick(&["1", "1500m"])).into();
    }
}

/// Adds what preemption looks at.
pub(super) fn rank(rng: &mut Rng, objects: &mut Vec<Value>) {
    objects.iter_mut().filter(|object| is_running(object)).for_each(|pod| running_pod(rng, pod));
    let is_node = |object: &&Value| object["kind"] == "Node";
    let nodes: Vec<String> = objects
        .iter()
        .filter(is_node)
        .filter_map(|node| node["metadata"]["name"].as_str().map(str::to_owned))
        .collect();
    for pod in objects.iter_mut().filter(|object| object["kind"] == "Pod" && !is_running(object)) {
        if !nodes.is_empty() && rng.percent(10) {
            pod["status"] = json!({"nominatedNodeName": rng.pick(&nodes)});
        }
        if rng.percent(5) {
            pod["spec"]["preemptionPolicy"] = "Never".into();
        }
    }
    for index in 0..rng.between(0, 2) {
        let selector = if rng.percent(15) { json!({}) } else { json!({"matchLabels": {"app": rng.pick(&APPS)}}) };
        objects.push(json!({
            "apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
            "metadata": {"name": format!("budget-{index}"), "namespace": rng.pick(&NAMESPACES)},
            "spec": {"minAvailable": 1, "selector": selector},
            "status": {
                "disruptionsAllowed": rng.between(0, 2), "currentHealthy": 1, "desiredHealthy": 1, "expectedPods": 1,
            },
        }));
    }
}
