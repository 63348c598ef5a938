//! What the server fills in beyond the defaults of the schemas.

pub(crate) mod pod;
pub(crate) mod service;
mod webhook;
mod workload;

use base64::Engine;
use serde_json::{Map, Value, json};

use crate::meta::{self, fill, object_mut};
use crate::resource::Resource;

/// Completes an object of a built-in kind.
pub(crate) fn complete(resource: &Resource, object: &mut Value) {
    match resource.storage.as_str() {
        "pods" => {
            pod::complete_pod(object_mut(object, &["spec"]));
            pod::fill_own_requests(object);
        }
        "podtemplates" => pod::fill_template(object.get_mut("template")),
        "replicationcontrollers" => workload::replication_controller(object),
        "replicasets.apps" => workload::replica_set(object),
        "deployments.apps" => workload::deployment(object),
        "statefulsets.apps" => workload::stateful_set(object),
        "daemonsets.apps" => workload::daemon_set(object),
        "jobs.batch" => {
            workload::job(object_mut(object, &["spec"]));
            label_job(object);
        }
        "namespaces" => {
            let name = meta::name(object).to_owned();
            if !name.is_empty() {
                with(object, &["metadata", "labels"], &[("kubernetes.io/metadata.name", name.into())]);
            }
        }
        "cronjobs.batch" => workload::cron_job(object),
        "services" => service::fill(object),
        "mutatingwebhookconfigurations.admissionregistration.k8s.io" => webhook::fill_webhooks(object, true),
        "validatingwebhookconfigurations.admissionregistration.k8s.io" => webhook::fill_webhooks(object, false),
        "validatingadmissionpolicies.admissionregistration.k8s.io" => webhook::fill_policy(object),
        "validatingadmissionpolicybindings.admissionregistration.k8s.io" => webhook::fill_binding(object),
        "secrets" => secret(object),
        "nodes" => node(object),
        "persistentvolumes" => {
            with(
                object,
                &["spec"],
                &[("persistentVolumeReclaimPolicy", json!("Retain")), ("volumeMode", json!("Filesystem"))],
            );
            if meta::at(object, &["spec", "hostPath"]).is_some() {
                with(object, &["spec", "hostPath"], &[("type", json!(""))]);
            }
        }
        "persistentvolumeclaims" => with(object, &["spec"], &[("volumeMode", json!("Filesystem"))]),
        "storageclasses.storage.k8s.io" => {
            with(object, &[], &[("reclaimPolicy", json!("Delete")), ("volumeBindingMode", json!("Immediate"))]);
        }
        "csidrivers.storage.k8s.io" => with(
            object,
            &["spec"],
            &[
                ("attachRequired", json!(true)),
                ("fsGroupPolicy", json!("ReadWriteOnceWithFSType")),
                ("podInfoOnMount", json!(false)),
                ("requiresRepublish", json!(false)),
                ("seLinuxMount", json!(false)),
                ("storageCapacity", json!(false)),
                ("volumeLifecycleModes", json!(["Persistent"])),
            ],
        ),
        "horizontalpodautoscalers.autoscaling" => {
            with(object, &["spec"], &[("minReplicas", json!(1))]);
        }
        "priorityclasses.scheduling.k8s.io" => {
            with(object, &[], &[("preemptionPolicy", json!("PreemptLowerPriority"))]);
        }
        "limitranges" => limit_range(object),
        "endpoints" => {
            let subsets = object.get_mut("subsets").and_then(Value::as_array_mut);
            for subset in subsets.into_iter().flatten() {
                for port in subset.get_mut("ports").and_then(Value::as_array_mut).into_iter().flatten() {
                    with(port, &[], &[("protocol", json!("TCP"))]);
                }
            }
        }
        "endpointslices.discovery.k8s.io" => {
            for port in object.get_mut("ports").and_then(Value::as_array_mut).into_iter().flatten() {
                with(port, &[], &[("name", json!("")), ("protocol", json!("TCP"))]);
            }
        }
        "networkpolicies.networking.k8s.io" => {
            let is_set = |field: &str| meta::at(object, &["spec", field]).is_some();
            let types = if is_set("egress") { json!(["Ingress", "Egress"]) } else { json!(["Ingress"]) };
            with(object, &["spec"], &[("policyTypes", types)]);
            for direction in ["ingress", "egress"] {
                let rules = object.pointer_mut(&format!("/spec/{direction}")).and_then(Value::as_array_mut);
                let ports = rules.into_iter().flatten().filter_map(|rule| rule.get_mut("ports")?.as_array_mut());
                ports.flatten().for_each(|port| with(port, &[], &[("protocol", json!("TCP"))]));
            }
        }
        "rolebindings.rbac.authorization.k8s.io" | "clusterrolebindings.rbac.authorization.k8s.io" => binding(object),
        _ => {}
    }
}

/// A Job without labels has those of its pods.
pub(crate) fn label_job(job: &mut Value) {
    let labels = meta::at(job, &["spec", "template", "metadata", "labels"]).cloned();
    if let Some(labels) = labels.filter(|_| meta::labels(job).next().is_none()) {
        meta::set(job, "labels", labels);
    }
}

/// Fills fields in at a path that may have to be made.
fn with(object: &mut Value, path: &[&str], defaults: &[(&str, Value)]) {
    if let Some(map) = object_mut(object, path) {
        for (field, value) in defaults {
            fill_value(map, field, value);
        }
    }
}

fn fill_value(map: &mut Map<String, Value>, field: &str, value: &Value) {
    meta::fill(map, field, value.clone());
}

/// The texts of `stringData` become `data`.
fn secret(object: &mut Value) {
    let Some(map) = object.as_object_mut() else { return };
    fill(map, "type", "Opaque");
    let Some(Value::Object(texts)) = map.remove("stringData") else { return };
    let data = map.entry("data").or_insert_with(|| Value::Object(Map::new()));
    if let Value::Object(data) = data {
        for (key, text) in texts {
            data.insert(key, base64(text.as_str().unwrap_or_default().as_bytes()).into());
        }
    }
}

/// Lower case hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    let digit = |nibble: u8| char::from_digit(u32::from(nibble), 16).unwrap_or('0');
    bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect()
}

/// Standard base64, padded.
pub(crate) fn base64(bytes: &[u8]) -> String {
    base64::engine::general_purpose::STANDARD.encode(bytes)
}

/// Allocatable is capacity where the node does not say, and its range is the first of its ranges.
fn node(object: &mut Value) {
    let range = meta::text_at(object, &["spec", "podCIDR"]).to_owned();
    if !range.is_empty() {
        with(object, &["spec"], &[("podCIDRs", json!([range]))]);
    }
    let capacity = meta::at(object, &["status", "capacity"]).cloned();
    if let (Some(capacity), Some(status)) = (capacity, object_mut(object, &["status"])) {
        fill(status, "allocatable", capacity);
    }
}

fn limit_range(object: &mut Value) {
    let limits = object.pointer_mut("/spec/limits").and_then(Value::as_array_mut);
    for limit in limits.into_iter().flatten().filter(|limit| limit.get("type") == Some(&json!("Container"))) {
        let copy = |limit: &mut Value, from: &str, to: &str| {
            let given = limit.get(from).and_then(Value::as_object).cloned().unwrap_or_default();
            if given.is_empty() {
                return;
            }
            if let Some(map) = object_mut(limit, &[to]) {
                for (name, amount) in given {
                    fill(map, &name, amount);
                }
            }
        };
        copy(limit, "max", "default");
        copy(limit, "default", "defaultRequest");
        copy(limit, "min", "defaultRequest");
    }
}

fn binding(object: &mut Value) {
    let group = "rbac.authorization.k8s.io";
    if meta::text_at(object, &["roleRef", "apiGroup"]).is_empty()
        && let Some(Value::Object(reference)) = object.get_mut("roleRef")
    {
        reference.remove("apiGroup");
    }
    with(object, &["roleRef"], &[("apiGroup", json!(group))]);
    for subject in object.get_mut("subjects").and_then(Value::as_array_mut).into_iter().flatten() {
        let is_account = subject.get("kind") == Some(&json!("ServiceAccount"));
        if !is_account {
            with(subject, &[], &[("apiGroup", json!(group))]);
        }
    }
}

/// A label selector as a text: `a=b,c in (d)`.
pub(crate) fn selector_text(selector: Option<&Value>) -> String {
    let Some(selector) = selector else { return String::new() };
    let mut parts: Vec<(String, String)> = Vec::new();
    let is_map = selector.get("matchLabels").is_none() && selector.get("matchExpressions").is_none();
    let labels = if is_map { Some(selector) } else { selector.get("matchLabels") };
    for (key, value) in labels.and_then(Value::as_object).into_iter().flatten() {
        parts.push((key.clone(), format!("{key}={}", value.as_str().unwrap_or_default())));
    }
    for term in meta::list_at(selector, &["matchExpressions"]) {
        let key = meta::text_at(term, &["key"]);
        let mut values: Vec<&str> = meta::list_at(term, &["values"]).iter().filter_map(Value::as_str).collect();
        values.sort_unstable();
        let values = values.join(",");
        parts.push((
            key.to_owned(),
            match meta::text_at(term, &["operator"]) {
                "In" => format!("{key} in ({values})"),
                "NotIn" => format!("{key} notin ({values})"),
                "DoesNotExist" => format!("!{key}"),
                _ => key.to_owned(),
            },
        ));
    }
    parts.sort();
    parts.into_iter().map(|(_, text)| text).collect::<Vec<_>>().join(",")
}
