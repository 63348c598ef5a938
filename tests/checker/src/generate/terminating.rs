//! Pods that are being deleted, and pods that are nominated to nodes.

use serde_json::Value;

use super::rng::Rng;

/// Deletes some of the running pods, none of which any pod may preempt, and nominates some pending ones.
pub(super) fn terminate(rng: &mut Rng, objects: &mut [Value]) {
    let nodes: Vec<Value> =
        objects.iter().filter(|object| object["kind"] == "Node").map(|node| node["metadata"]["name"].clone()).collect();
    for object in objects.iter_mut().filter(|object| object["kind"] == "Pod") {
        if object["spec"].get("nodeName").is_none() {
            if !nodes.is_empty() && rng.percent(25) {
                object["status"]["nominatedNodeName"] = rng.pick(&nodes).clone();
            }
        } else if rng.percent(40) {
            object["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
            object["spec"]["priorityClassName"] = "high".into();
            object["spec"]["priority"] = 1000.into();
            object["spec"]["containers"][0]["resources"]["requests"]["cpu"] = (*rng.pick(&["500m", "1", "3"])).into();
        }
    }
}
