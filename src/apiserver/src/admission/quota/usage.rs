//! What objects take of the things that quotas count.

use std::collections::BTreeMap;
use std::str::FromStr;

use berth_quantity::Quantity;
use serde_json::Value;

use crate::meta::{self, list_at, text_at};
use crate::resource::Resource;

/// Amounts by the names that quotas have for them.
pub(crate) type Usage = BTreeMap<String, Quantity>;

/// The collection that counts for a name of a quota's `hard`; of compute resources that is pods.
pub(super) fn collection_of(name: &str) -> String {
    const OWN: [&str; 6] =
        ["services", "secrets", "configmaps", "persistentvolumeclaims", "replicationcontrollers", "resourcequotas"];
    if let Some(counted) = name.strip_prefix("count/") {
        return counted.to_owned();
    }
    if OWN.contains(&name) {
        return name.to_owned();
    }
    if name.starts_with("services.") {
        return "services".to_owned();
    }
    if name == "requests.storage" || name.contains(".storageclass.storage.k8s.io/") {
        return "persistentvolumeclaims".to_owned();
    }
    "pods".to_owned()
}

/// What one object takes. A pod that is over takes no more than its place.
pub(super) fn usage_of(resource: &Resource, object: &Value) -> Usage {
    let mut usage = Usage::new();
    let one = Quantity::from_str("1").unwrap_or_default();
    let group = if resource.group.is_empty() { String::new() } else { format!(".{}", resource.group) };
    usage.insert(format!("count/{}{group}", resource.plural), one);
    if resource.is("pods") {
        if ["Succeeded", "Failed"].contains(&text_at(object, &["status", "phase"])) {
            return usage;
        }
        usage.insert("pods".to_owned(), one);
        for (of, prefix) in [("requests", "requests."), ("limits", "limits.")] {
            for (name, amount) in pod_total(object, of) {
                if of == "requests" && ["cpu", "memory", "ephemeral-storage"].contains(&name.as_str()) {
                    usage.insert(name.clone(), amount);
                }
                usage.insert(format!("{prefix}{name}"), amount);
            }
        }
        return usage;
    }
    let simple =
        ["services", "secrets", "configmaps", "persistentvolumeclaims", "replicationcontrollers", "resourcequotas"];
    if resource.custom().is_none() && simple.contains(&resource.storage.as_str()) {
        usage.insert(resource.plural.clone(), one);
    }
    if resource.is("persistentvolumeclaims") {
        let storage = text_at(object, &["spec", "resources", "requests", "storage"]);
        if let Ok(amount) = Quantity::from_str(storage) {
            usage.insert("requests.storage".to_owned(), amount);
            let class = text_at(object, &["spec", "storageClassName"]);
            if !class.is_empty() {
                usage.insert(format!("{class}.storageclass.storage.k8s.io/requests.storage"), amount);
                usage.insert(format!("{class}.storageclass.storage.k8s.io/persistentvolumeclaims"), one);
            }
        }
    }
    if resource.is("services") {
        let kind = text_at(object, &["spec", "type"]);
        if kind == "LoadBalancer" {
            usage.insert("services.loadbalancers".to_owned(), one);
        }
        if ["NodePort", "LoadBalancer"].contains(&kind) {
            usage.insert("services.nodeports".to_owned(), one);
        }
    }
    usage
}

/// The sum over containers, or what the largest init container needs, where that is more; with the overhead.
pub(super) fn pod_total(pod: &Value, of: &str) -> Usage {
    let amounts = |container: &Value| -> Usage {
        let map = meta::at(container, &["resources", of]).and_then(Value::as_object);
        map.into_iter()
            .flatten()
            .filter_map(|(name, value)| Some((name.clone(), Quantity::from_str(value.as_str()?).ok()?)))
            .collect()
    };
    let add = |sum: &mut Usage, more: Usage| {
        for (name, amount) in more {
            let entry = sum.entry(name).or_default();
            *entry = entry.checked_add(amount).unwrap_or(*entry);
        }
    };
    let mut sum = Usage::new();
    for container in list_at(pod, &["spec", "containers"]) {
        add(&mut sum, amounts(container));
    }
    let mut sidecars = Usage::new();
    for container in list_at(pod, &["spec", "initContainers"]) {
        let own = amounts(container);
        if text_at(container, &["restartPolicy"]) == "Always" {
            add(&mut sum, own.clone());
            add(&mut sidecars, own);
            continue;
        }
        let mut while_it_runs = sidecars.clone();
        add(&mut while_it_runs, own);
        for (name, amount) in while_it_runs {
            let entry = sum.entry(name).or_insert(amount);
            *entry = (*entry).max(amount);
        }
    }
    let overhead = meta::at(pod, &["spec", "overhead"]).and_then(Value::as_object);
    for (name, value) in overhead.into_iter().flatten() {
        if let Some(amount) = value.as_str().and_then(|text| Quantity::from_str(text).ok()) {
            add(&mut sum, Usage::from([(name.clone(), amount)]));
        }
    }
    sum
}
