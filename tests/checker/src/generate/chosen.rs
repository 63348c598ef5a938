//! Volumes that are being made for a node.

use serde_json::{Value, json};

use super::rng::Rng;

/// For some claims that wait for their first consumer a node is chosen already: one that is there, or now and then one that is gone.
pub(super) fn choose(rng: &mut Rng, objects: &mut [Value]) {
    let of_kind = |kind: &'static str| move |object: &&Value| object["kind"] == kind;
    let names = objects.iter().filter(of_kind("Node")).filter_map(|node| node["metadata"]["name"].as_str());
    let mut names: Vec<String> = names.map(str::to_owned).collect();
    names.push("gone".to_owned());
    let waits = |claim: &Value| {
        claim["kind"] == "PersistentVolumeClaim"
            && claim["spec"]["storageClassName"] == "late"
            && claim["spec"].get("volumeName").is_none()
    };
    for claim in objects.iter_mut().filter(|object| waits(object)) {
        if rng.percent(70) {
            let node = rng.pick(&names).clone();
            claim["metadata"]["annotations"] = json!({"volume.kubernetes.io/selected-node": node});
        }
    }
}
