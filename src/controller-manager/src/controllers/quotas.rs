//! ResourceQuotas: what is used of them, in their status. Usage is a sum that is kept as objects change.

use std::collections::BTreeMap;
use std::str::FromStr;
use std::sync::Arc;

use berth_quantity::Quantity;
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, ResourceQuota, ResourceQuotaStatus, Service};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity as Text;
use rustc_hash::FxHashMap;

use crate::core::Core;
use crate::key::NamespacedName;
use crate::objects::{Container, Pod};
use crate::resource::{QUOTAS, Resource};
use crate::work::Work;
use crate::write::{Effect, Write};

/// Amounts by name.
type Usage = BTreeMap<String, Quantity>;

/// What pods and claims use, by quota. Only namespaces with quotas are counted.
#[derive(Debug, Default)]
pub(crate) struct Totals(FxHashMap<NamespacedName, Total>);

#[derive(Debug)]
struct Total {
    scopes: Vec<Scope>,
    used: Usage,
}

/// A scope that pods must be in to count.
#[derive(Debug, Clone, PartialEq)]
struct Scope {
    name: String,
    operator: String,
    values: Vec<String>,
}

/// Takes in a change of a pod.
pub(crate) fn pod_changed(core: &mut Core, key: &NamespacedName, old: Option<&Pod>, new: Option<&Pod>) {
    // Most changes are of where a pod is and how it fares.
    if let (Some(old), Some(new)) = (old, new)
        && Arc::ptr_eq(&old.spec.template, &new.spec.template)
        && old.has_ended() == new.has_ended()
    {
        return;
    }
    let of = |pod: Option<&Pod>, scopes: &[Scope]| pod.map(|pod| pod_usage(pod, scopes)).unwrap_or_default();
    changed(core, key, &|scopes| (of(old, scopes), of(new, scopes)));
}

/// Takes in a change of a claim.
pub(crate) fn claim_changed(
    core: &mut Core,
    key: &NamespacedName,
    old: Option<&PersistentVolumeClaim>,
    new: Option<&PersistentVolumeClaim>,
) {
    let of = |claim: Option<&PersistentVolumeClaim>, scopes: &[Scope]| {
        claim.filter(|_| scopes.is_empty()).map(claim_usage).unwrap_or_default()
    };
    changed(core, key, &|scopes| (of(old, scopes), of(new, scopes)));
}

fn changed(core: &mut Core, key: &NamespacedName, usages: &dyn Fn(&[Scope]) -> (Usage, Usage)) {
    let quotas: Vec<NamespacedName> =
        core.caches.quotas.namespace(&key.namespace).map(|(key, _)| key.clone()).collect();
    for quota in quotas {
        let Some(total) = core.totals.0.get_mut(&quota) else { continue };
        let (before, after) = usages(&total.scopes);
        if before != after {
            for (name, amount) in before {
                total.add(name, amount, Quantity::checked_sub);
            }
            for (name, amount) in after {
                total.add(name, amount, Quantity::checked_add);
            }
            core.add(Work::Quota(quota));
        }
    }
}

impl Total {
    fn add(&mut self, name: String, amount: Quantity, how: fn(Quantity, Quantity) -> Option<Quantity>) {
        let sum = self.used.entry(name).or_default();
        *sum = how(*sum, amount).unwrap_or(*sum);
    }
}

/// Counts anew for a quota that is new, whose spec changed, or that is gone.
pub(crate) fn recount(core: &mut Core, key: &NamespacedName, quota: Option<&ResourceQuota>) {
    let Some(quota) = quota else {
        core.totals.0.remove(key);
        return;
    };
    let mut total = Total { scopes: scopes(quota), used: Usage::new() };
    for (_, pod) in core.caches.pods.namespace(&key.namespace) {
        for (name, amount) in pod_usage(pod, &total.scopes) {
            total.add(name, amount, Quantity::checked_add);
        }
    }
    // Scopes are of pods alone.
    let counts_claims = total.scopes.is_empty();
    for (_, claim) in core.caches.claims.namespace(&key.namespace).filter(|_| counts_claims) {
        for (name, amount) in claim_usage(claim) {
            total.add(name, amount, Quantity::checked_add);
        }
    }
    core.totals.0.insert(key.clone(), total);
}

fn scopes(quota: &ResourceQuota) -> Vec<Scope> {
    let Some(spec) = &quota.spec else { return Vec::new() };
    let plain = spec.scopes.iter().flatten();
    let plain = plain.map(|name| Scope { name: name.clone(), operator: "Exists".to_owned(), values: Vec::new() });
    let terms = spec.scope_selector.iter().flat_map(|selector| selector.match_expressions.iter().flatten());
    let terms = terms.map(|term| Scope {
        name: term.scope_name.clone(),
        operator: term.operator.clone(),
        values: term.values.clone().unwrap_or_default(),
    });
    plain.chain(terms).collect()
}

/// Writes what is used into the status.
pub(crate) fn sync(core: &mut Core, key: &NamespacedName) -> Effect {
    let Some(quota) = core.caches.quotas.get(key).cloned() else { return Effect::Done };
    let hard = quota.spec.as_ref().and_then(|spec| spec.hard.clone()).unwrap_or_default();
    let used: BTreeMap<String, Text> =
        hard.keys().map(|name| (name.clone(), Text(used(core, key, name).to_string()))).collect();
    let status = ResourceQuotaStatus { hard: Some(hard), used: Some(used) };
    if quota.status.as_ref() == Some(&status) {
        return Effect::Done;
    }
    let mut object = (*quota).clone();
    object.status = Some(status);
    Effect::InOrder(vec![Write::replace_status(&QUOTAS, key, &object)])
}

/// What is used of one thing that a quota counts.
fn used(core: &Core, key: &NamespacedName, name: &str) -> Quantity {
    let Some(total) = core.totals.0.get(key) else { return Quantity::default() };
    if let Some(amount) = total.used.get(name) {
        return *amount;
    }
    // Scopes are of pods alone.
    if !total.scopes.is_empty() {
        return Quantity::default();
    }
    let services = |is: fn(&str) -> bool| {
        let kind = |service: &Service| service.spec.as_ref().and_then(|spec| spec.type_.clone()).unwrap_or_default();
        core.caches.services.namespace(&key.namespace).filter(|(_, service)| is(&kind(service))).count()
    };
    let count = match name {
        "services.loadbalancers" => services(|kind| kind == "LoadBalancer"),
        "services.nodeports" => services(|kind| matches!(kind, "NodePort" | "LoadBalancer")),
        "services" | "secrets" | "configmaps" | "replicationcontrollers" | "resourcequotas" => {
            core.graph.count_of(&key.namespace, "", name)
        }
        _ => match name.strip_prefix("count/") {
            Some(counted) => {
                let (plural, group) = counted.split_once('.').unwrap_or((counted, ""));
                core.graph.count_of(&key.namespace, group, plural)
            }
            None => 0,
        },
    };
    Quantity::from_str(&count.to_string()).unwrap_or_default()
}

impl Core {
    /// Takes in that a namespace has one more or one less of a resource.
    pub(crate) fn counted(&mut self, resource: &Resource, namespace: &str) {
        if namespace.is_empty() || resource.is("", "pods") {
            return;
        }
        let quotas: Vec<NamespacedName> = self.caches.quotas.namespace(namespace).map(|(key, _)| key.clone()).collect();
        for quota in quotas {
            self.add(Work::Quota(quota));
        }
    }
}

/// What a pod takes. One that has ended takes nothing.
fn pod_usage(pod: &Pod, scopes: &[Scope]) -> Usage {
    let mut usage = Usage::new();
    let one = one();
    let (requests, limits) =
        (total(pod, |container| &container.resources.requests), total(pod, |container| &container.resources.limits));
    let is_best_effort = requests.is_empty() && limits.is_empty();
    if !scopes.iter().all(|scope| is_in(scope, pod, is_best_effort)) {
        return usage;
    }
    // Counts of objects are of all that are stored.
    usage.insert("count/pods".to_owned(), one);
    if pod.has_ended() {
        return usage;
    }
    usage.insert("pods".to_owned(), one);
    for (name, amount) in requests {
        if ["cpu", "memory", "ephemeral-storage"].contains(&name.as_str()) {
            usage.insert(name.clone(), amount);
        }
        usage.insert(format!("requests.{name}"), amount);
    }
    usage.extend(limits.into_iter().map(|(name, amount)| (format!("limits.{name}"), amount)));
    usage
}

fn is_in(scope: &Scope, pod: &Pod, is_best_effort: bool) -> bool {
    let has_deadline = pod.spec.template.active_deadline_seconds.is_some();
    match scope.name.as_str() {
        "BestEffort" => is_best_effort,
        "NotBestEffort" => !is_best_effort,
        "Terminating" => has_deadline,
        "NotTerminating" => !has_deadline,
        "PriorityClass" => {
            let class = pod.spec.template.priority_class_name.as_deref().unwrap_or_default();
            let is_listed = scope.values.iter().any(|value| value == class);
            match scope.operator.as_str() {
                "In" => is_listed,
                "NotIn" => !is_listed,
                "DoesNotExist" => class.is_empty(),
                _ => !class.is_empty(),
            }
        }
        _ => false,
    }
}

/// The sum over containers, or what the largest init container needs, where that is more; with the overhead.
fn total(pod: &Pod, of: fn(&Container) -> &BTreeMap<String, Text>) -> Usage {
    let amounts = |map: &BTreeMap<String, Text>| -> Usage {
        let parsed = map.iter().filter_map(|(name, text)| Some((name.clone(), Quantity::from_str(&text.0).ok()?)));
        parsed.collect()
    };
    let add = |sum: &mut Usage, more: Usage| {
        for (name, amount) in more {
            let entry = sum.entry(name).or_default();
            *entry = entry.checked_add(amount).unwrap_or(*entry);
        }
    };
    let mut sum = Usage::new();
    for container in &pod.spec.template.containers {
        add(&mut sum, amounts(of(container)));
    }
    let mut sidecars = Usage::new();
    for container in &pod.spec.template.init_containers {
        let own = amounts(of(container));
        if container.restart_policy.as_deref() == Some("Always") {
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
    if !sum.is_empty() {
        add(&mut sum, amounts(&pod.spec.template.overhead));
    }
    sum
}

fn claim_usage(claim: &PersistentVolumeClaim) -> Usage {
    let mut usage = Usage::new();
    usage.insert("persistentvolumeclaims".to_owned(), one());
    usage.insert("count/persistentvolumeclaims".to_owned(), one());
    let Some(spec) = &claim.spec else { return usage };
    let requests = spec.resources.as_ref().and_then(|resources| resources.requests.as_ref());
    let storage = requests.and_then(|requests| requests.get("storage"));
    let storage = storage.and_then(|text| Quantity::from_str(&text.0).ok());
    let class = spec.storage_class_name.as_deref().filter(|class| !class.is_empty());
    if let Some(amount) = storage {
        usage.insert("requests.storage".to_owned(), amount);
        if let Some(class) = class {
            usage.insert(format!("{class}.storageclass.storage.k8s.io/requests.storage"), amount);
        }
    }
    if let Some(class) = class {
        usage.insert(format!("{class}.storageclass.storage.k8s.io/persistentvolumeclaims"), one());
    }
    usage
}

fn one() -> Quantity {
    Quantity::from_str("1").unwrap_or_default()
}
