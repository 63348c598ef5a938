//! Services and controllers that select pods, from which kube-scheduler derives default spreading.

use serde_json::{Value, json};

use super::NAMESPACES;
use super::rng::Rng;

/// Adds Services and controllers that select some of the pods, and makes controllers of them.
pub(super) fn select(rng: &mut Rng, objects: &mut Vec<Value>) {
    let mut labels: Vec<(String, String)> = Vec::new();
    for object in objects.iter().filter(|object| object["kind"] == "Pod") {
        let of_pod = object["metadata"]["labels"].as_object().into_iter().flatten();
        labels.extend(of_pod.filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned()))));
    }
    labels.sort();
    labels.dedup();
    if labels.is_empty() {
        return;
    }
    for index in 0..rng.between(1, 4) {
        let mut spec = json!({"ports": [{"port": 80}]});
        if rng.percent(85) {
            let mut selector = json!({});
            for _ in 0..rng.between(1, 2) {
                let (key, value) = rng.pick(&labels);
                selector[key] = value.clone().into();
            }
            spec["selector"] = selector;
        }
        objects.push(json!({"apiVersion": "v1", "kind": "Service",
            "metadata": {"name": format!("service-{index}"), "namespace": rng.pick(&NAMESPACES)}, "spec": spec}));
    }
    let kinds = [("ReplicaSet", "apps/v1"), ("StatefulSet", "apps/v1"), ("ReplicationController", "v1")];
    for index in 0..rng.between(1, 4) {
        let (kind, version) = *rng.pick(&kinds);
        let (name, namespace) = (format!("owner-{index}"), *rng.pick(&NAMESPACES));
        let (key, value) = rng.pick(&labels).clone();
        let own = json!({key.clone(): value});
        let selector = match kind {
            "ReplicationController" => own.clone(),
            _ if rng.percent(30) => json!({"matchExpressions": [{"key": key, "operator": "Exists"}]}),
            _ => json!({"matchLabels": own}),
        };
        // Pods may name one that is not there, and one whose selector they do not match.
        if rng.percent(85) {
            objects.push(
                json!({"apiVersion": version, "kind": kind, "metadata": {"name": name, "namespace": namespace},
                "spec": {"selector": selector, "serviceName": "service-0", "replicas": 0, "template": {
                    "metadata": {"labels": own}, "spec": {"containers": [{"name": "app", "image": "app"}]}}}}),
            );
            if kind != "StatefulSet"
                && let Some(spec) = objects.last_mut().and_then(|last| last["spec"].as_object_mut())
            {
                spec.remove("serviceName");
            }
        }
        let is_there = |pod: &&mut Value| pod["kind"] == "Pod" && pod["metadata"]["namespace"] == namespace;
        for pod in objects.iter_mut().filter(is_there) {
            if rng.percent(40) && pod["metadata"].get("ownerReferences").is_none() {
                pod["metadata"]["ownerReferences"] =
                    json!([{"apiVersion": version, "kind": kind, "name": name, "uid": name, "controller": true}]);
            }
        }
    }
}
