//! ResourceQuotas, counted from the objects that are there each time something is admitted.

use std::collections::BTreeMap;
use std::str::FromStr;

use berth_quantity::Quantity;
use serde_json::Value;

use crate::meta::{self, list_at, text_at};
use crate::resource::Resource;
use crate::server::ApiServer;
use crate::status::{ApiError, Result};
use crate::verbs::Scope;

/// What is used of the things that a quota counts.
pub(crate) type Usage = BTreeMap<String, Quantity>;

/// Refuses an object that its namespace has no quota left for. The caller holds the quota lock until it is stored.
pub(crate) fn check(scope: &Scope<'_>, object: &Value) -> Result<()> {
    let server = scope.server;
    if !server.inner.config.admission.resource_quota || !scope.resource.namespaced {
        return Ok(());
    }
    let quotas = server.values("resourcequotas", &scope.namespace);
    for quota in &quotas {
        let delta = usage_of(&scope.resource, object);
        if delta.is_empty() || !is_in_scope(quota, &scope.resource, object) {
            continue;
        }
        let hard = hard(quota);
        if scope.resource.is("pods") {
            require_amounts(scope, quota, &hard, &delta, object)?;
        }
        let used = used(server, quota, &scope.namespace);
        let exceeded: Vec<&String> = hard
            .iter()
            .filter(|(name, limit)| {
                let Some(more) = delta.get(*name) else { return false };
                let now = used.get(*name).copied().unwrap_or_default();
                now.checked_add(*more).is_none_or(|sum| sum > **limit)
            })
            .map(|(name, _)| name)
            .collect();
        if !exceeded.is_empty() {
            let show = |of: &Usage| {
                let parts =
                    exceeded.iter().map(|name| format!("{name}={}", of.get(*name).copied().unwrap_or_default()));
                parts.collect::<Vec<_>>().join(",")
            };
            let why = format!(
                "exceeded quota: {}, requested: {}, used: {}, limited: {}",
                meta::name(quota),
                show(&delta),
                show(&used),
                show(&hard)
            );
            return Err(ApiError::forbidden(&scope.resource.group, &scope.resource.plural, meta::name(object), &why));
        }
    }
    Ok(())
}

fn require_amounts(scope: &Scope<'_>, quota: &Value, hard: &Usage, delta: &Usage, pod: &Value) -> Result<()> {
    let of_compute = |name: &&String| {
        name.starts_with("requests.") || name.starts_with("limits.") || ["cpu", "memory"].contains(&name.as_str())
    };
    let missing: Vec<String> =
        hard.keys().filter(of_compute).filter(|name| !delta.contains_key(*name)).cloned().collect();
    let missing: Vec<String> =
        missing.into_iter().filter(|name| ["cpu", "memory"].iter().any(|r| name.ends_with(r))).collect();
    if missing.is_empty() {
        return Ok(());
    }
    let containers: Vec<&str> = list_at(pod, &["spec", "containers"]).iter().map(|c| text_at(c, &["name"])).collect();
    let for_each = missing.iter().map(|name| format!("{name} for: {}", containers.join(",")));
    let why = format!("failed quota: {}: must specify {}", meta::name(quota), for_each.collect::<Vec<_>>().join("; "));
    Err(ApiError::forbidden("", &scope.resource.plural, meta::name(pod), &why))
}

fn hard(quota: &Value) -> Usage {
    let hard = meta::at(quota, &["spec", "hard"]).and_then(Value::as_object);
    hard.into_iter()
        .flatten()
        .filter_map(|(name, value)| Some((name.clone(), Quantity::from_str(value.as_str()?).ok()?)))
        .collect()
}

/// What a quota counts in its namespace now.
pub(crate) fn used(server: &ApiServer, quota: &Value, namespace: &str) -> Usage {
    let mut total: Usage = hard(quota).into_keys().map(|name| (name, Quantity::default())).collect();
    let registry = server.registry();
    let mut seen = rustc_hash::FxHashSet::default();
    for resource in registry.iter().filter(|resource| resource.namespaced) {
        let counted = resource.is("pods")
            || total.keys().any(|name| name.contains(resource.plural.as_str()) || name.starts_with("requests.storage"));
        if !counted || !seen.insert(resource.storage.clone()) {
            continue;
        }
        for object in server.values(&resource.storage, namespace) {
            if !is_in_scope(quota, resource, &object) {
                continue;
            }
            for (name, amount) in usage_of(resource, &object) {
                if let Some(sum) = total.get_mut(&name) {
                    *sum = sum.checked_add(amount).unwrap_or(*sum);
                }
            }
        }
    }
    total
}

/// What one object takes. A pod that is over takes nothing.
fn usage_of(resource: &Resource, object: &Value) -> Usage {
    let mut usage = Usage::new();
    let one = Quantity::from_str("1").unwrap_or_default();
    let group = if resource.group.is_empty() { String::new() } else { format!(".{}", resource.group) };
    usage.insert(format!("count/{}{group}", resource.plural), one);
    if resource.is("pods") {
        if ["Succeeded", "Failed"].contains(&text_at(object, &["status", "phase"])) {
            return Usage::new();
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
fn pod_total(pod: &Value, of: &str) -> Usage {
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

/// Whether a quota's scopes hold an object. Scopes are of pods alone.
fn is_in_scope(quota: &Value, resource: &Resource, object: &Value) -> bool {
    let plain = list_at(quota, &["spec", "scopes"]).iter().filter_map(Value::as_str);
    let terms = list_at(quota, &["spec", "scopeSelector", "matchExpressions"]);
    let is_pod = resource.is("pods");
    let holds = |name: &str, operator: &str, values: &[Value]| -> bool {
        if !is_pod {
            return false;
        }
        let best_effort = crate::meta::text_at(object, &["status", "qosClass"]) == "BestEffort"
            || (pod_total(object, "requests").is_empty() && pod_total(object, "limits").is_empty());
        let deadline = meta::int_at(object, &["spec", "activeDeadlineSeconds"]).is_some();
        match name {
            "BestEffort" => best_effort,
            "NotBestEffort" => !best_effort,
            "Terminating" => deadline,
            "NotTerminating" => !deadline,
            "PriorityClass" => {
                let class = text_at(object, &["spec", "priorityClassName"]);
                let listed = values.iter().any(|value| value.as_str() == Some(class));
                match operator {
                    "In" => listed,
                    "NotIn" => !listed,
                    "DoesNotExist" => class.is_empty(),
                    _ => !class.is_empty(),
                }
            }
            _ => false,
        }
    };
    plain.clone().all(|name| holds(name, "Exists", &[]))
        && terms
            .iter()
            .all(|term| holds(text_at(term, &["scopeName"]), text_at(term, &["operator"]), list_at(term, &["values"])))
}
