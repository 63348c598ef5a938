//! Random pods and workloads.

use serde_json::{Value, json};

use super::rng::Rng;
use super::topology::constrain;
use super::{APPS, GPU, NAMESPACES, Size, TAINT_KEY, TEAMS};

fn resources(rng: &mut Rng, size: Size) -> Value {
    let cpu = *rng.pick(&["100m", "250m", "500m", "1", "1500m", "3"]);
    let memory = *rng.pick(&["100Mi", "256Mi", "512Mi", "1Gi", "2Gi", "6Gi"]);
    let mut resources = json!({"requests": {"cpu": cpu, "memory": memory}});
    if rng.percent(15) {
        resources["limits"] = json!({"cpu": "4", "memory": "8Gi"});
    }
    if size != Size::Tiny && rng.percent(5) {
        // Only a limit: the request is the same.
        resources = json!({"limits": {"cpu": cpu, "memory": memory}});
    }
    resources
}

fn containers(rng: &mut Rng, size: Size, spec: &mut Value) {
    let mut main = json!({"name": "main", "image": "app", "resources": resources(rng, size)});
    if rng.percent(8) {
        let count = rng.between(1, 2).to_string();
        main["resources"]["requests"][GPU] = count.clone().into();
        main["resources"]["limits"][GPU] = count.into();
    }
    if rng.percent(8) {
        let port = rng.between(8000, 8002);
        main["ports"] = json!([{"containerPort": port, "hostPort": port, "protocol": rng.pick(&["TCP", "UDP"])}]);
    }
    let mut containers = vec![main];
    if rng.percent(15) {
        containers.push(json!({"name": "second", "image": "app", "resources": resources(rng, size)}));
    }
    spec["containers"] = containers.into();
    let mut init = Vec::new();
    if rng.percent(12) {
        init.push(
            json!({"name": "sidecar", "image": "app", "restartPolicy": "Always", "resources": resources(rng, size)}),
        );
    }
    if rng.percent(12) {
        init.push(json!({"name": "init", "image": "app", "resources": resources(rng, size)}));
    }
    if !init.is_empty() {
        spec["initContainers"] = init.into();
    }
    if size != Size::Tiny && rng.percent(5) {
        spec["overhead"] = json!({"cpu": "250m", "memory": "128Mi"});
    }
    if size != Size::Tiny && rng.percent(4) {
        spec["resources"] = json!({"requests": {"cpu": "2", "memory": "4Gi"}});
    }
}

/// The spec of a pod of this app; `claims` are names of PersistentVolumeClaims of its namespace.
pub(super) fn pod_spec(rng: &mut Rng, size: Size, app: &str, claims: &[String]) -> Value {
    let mut spec = json!({});
    containers(rng, size, &mut spec);
    constrain(rng, size, app, &mut spec);
    if rng.percent(35) {
        let toleration = match rng.between(0, 2) {
            0 => json!({"key": TAINT_KEY, "operator": "Exists"}),
            1 => json!({"operator": "Exists"}),
            _ => json!({"key": TAINT_KEY, "operator": "Equal", "value": rng.pick(&TEAMS), "effect": "NoSchedule"}),
        };
        spec["tolerations"] = json!([toleration]);
    }
    if rng.percent(15) {
        let (name, value) = *rng.pick(&[("high", 1000), ("low", -10)]);
        spec["priorityClassName"] = name.into();
        spec["priority"] = value.into();
    }
    if size != Size::Tiny && rng.percent(3) {
        spec["schedulingGates"] = json!([{"name": "example.com/wait"}]);
    }
    if !claims.is_empty() && rng.percent(20) {
        spec["volumes"] = json!([{"name": "data", "persistentVolumeClaim": {"claimName": rng.pick(claims)}}]);
    } else if size != Size::Tiny && rng.percent(2) {
        spec["volumes"] = json!([{"name": "data", "persistentVolumeClaim": {"claimName": "no-such-claim"}}]);
    }
    spec
}

pub(super) fn labels(rng: &mut Rng, app: &str) -> Value {
    if rng.percent(30) { json!({"app": app, "version": rng.pick(&["v1", "v2"])}) } else { json!({"app": app}) }
}

fn workload(rng: &mut Rng, size: Size, index: u64, volumes: &[Value]) -> Value {
    let app = *rng.pick(&APPS);
    let namespace = *rng.pick(&NAMESPACES);
    let claims: Vec<String> = volumes
        .iter()
        .filter(|v| v["kind"] == "PersistentVolumeClaim" && v["metadata"]["namespace"] == namespace)
        .filter_map(|v| v["metadata"]["name"].as_str().map(str::to_owned))
        .collect();
    let labels = labels(rng, app);
    let replicas = match size {
        Size::Tiny => rng.between(1, 3),
        Size::Small => rng.between(1, 6),
        Size::Medium => rng.between(1, 25),
    };
    // One pod of a workload by its own label, so that selectors of owners stay apart.
    let mut pod_labels = labels;
    let name = format!("{app}-{index}");
    pod_labels["workload"] = name.clone().into();
    let kind = rng.between(0, 9);
    // A shared claim would bind all replicas to one volume, so only single pods have claims.
    let spec = pod_spec(rng, size, app, if kind == 0 { &claims } else { &[] });
    let metadata = json!({"name": name, "namespace": namespace});
    let template = json!({"metadata": {"labels": pod_labels}, "spec": spec});
    let selector = json!({"matchLabels": {"workload": name}});
    if kind <= 2 || size == Size::Tiny {
        let metadata = json!({"name": name, "namespace": namespace, "labels": pod_labels});
        return json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec});
    }
    match kind {
        3 => json!({
            "apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": metadata,
            "spec": {"replicas": replicas, "serviceName": name, "selector": selector, "template": template},
        }),
        4 => {
            let mut template = template;
            template["spec"]["restartPolicy"] = "Never".into();
            json!({
                "apiVersion": "batch/v1", "kind": "Job", "metadata": metadata,
                "spec": {"parallelism": replicas, "completions": rng.between(1, 6), "template": template},
            })
        }
        5 => json!({
            "apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": metadata,
            "spec": {"replicas": replicas, "selector": selector, "template": template},
        }),
        _ => json!({
            "apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata,
            "spec": {"replicas": replicas, "selector": selector, "template": template},
        }),
    }
}

/// Single pods and workloads.
pub(super) fn workloads(rng: &mut Rng, size: Size, volumes: &[Value]) -> Vec<Value> {
    let count = match size {
        Size::Tiny => rng.between(2, 8),
        Size::Small => rng.between(3, 10),
        Size::Medium => rng.between(10, 30),
    };
    (0..count).map(|index| workload(rng, size, index, volumes)).collect()
}
