//! What Kubernetes lets pods say and few do: the host's network, ports of sidecars, disk space, labels to differ in.

use serde_json::{Value, json};

use super::rng::Rng;

/// Gives pods, single ones and those of workloads, what the rest of a case never has.
pub(super) fn widen(rng: &mut Rng, objects: &mut [Value]) {
    for object in objects {
        match object["kind"].as_str() {
            Some("Pod") => pod(rng, &mut object["spec"]),
            Some("Deployment" | "ReplicaSet" | "StatefulSet" | "Job" | "DaemonSet") => {
                pod(rng, &mut object["spec"]["template"]["spec"]);
            }
            _ => {}
        }
    }
}

fn pod(rng: &mut Rng, spec: &mut Value) {
    if rng.percent(12) {
        // Every port of a container is one of the host then.
        spec["hostNetwork"] = true.into();
        if spec["containers"][0]["ports"].is_null() {
            spec["containers"][0]["ports"] = json!([{"containerPort": rng.between(8000, 8002)}]);
        }
    }
    if rng.percent(15) {
        let disk = *rng.pick(&["1Gi", "4Gi", "15Gi", "30Gi"]);
        spec["containers"][0]["resources"]["requests"]["ephemeral-storage"] = disk.into();
    }
    let Some(init) = spec["initContainers"].as_array_mut() else { return };
    for container in init {
        if rng.percent(50) {
            continue;
        }
        // A sidecar keeps its port, an init container has none that counts.
        let port = rng.between(8000, 8002);
        container["ports"] = json!([{"containerPort": port, "hostPort": port}]);
    }
}

/// Lets pod affinity and anti-affinity be about pods of another version alone.
pub(super) fn differ(rng: &mut Rng, objects: &mut [Value]) {
    for object in objects {
        let template = match object["kind"].as_str() {
            Some("Pod") => Some(&mut *object),
            Some("Deployment" | "ReplicaSet" | "StatefulSet" | "Job") => object["spec"].get_mut("template"),
            _ => None,
        };
        let Some(template) = template else { continue };
        for kind in ["podAffinity", "podAntiAffinity"] {
            let path = format!("/spec/affinity/{kind}/requiredDuringSchedulingIgnoredDuringExecution");
            let terms = template.pointer_mut(&path).and_then(Value::as_array_mut);
            for term in terms.into_iter().flatten() {
                if rng.percent(60) && !term["labelSelector"].is_null() && term["matchLabelKeys"].is_null() {
                    term["mismatchLabelKeys"] = json!(["version"]);
                }
            }
        }
    }
}
