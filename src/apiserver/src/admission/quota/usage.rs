//! What objects take of the things that quotas count.

use std::borrow::Cow;
use std::str::FromStr;

use berth_quantity::Quantity;
use serde_json::Value;

use crate::meta::{self, list_at, text_at};
use crate::resource::Resource;

/// An amount's name, as quotas have it.
type Name = Cow<'static, str>;

/// What one object takes, and what scopes ask of it. Objects that take the same share one.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Charge {
    /// In order of name.
    amounts: Box<[(Name, Quantity)]>,
    facts: Option<Facts>,
}

/// What scopes ask of a pod.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Facts {
    pub(super) best_effort: bool,
    pub(super) terminating: bool,
    pub(super) crosses_namespaces: bool,
    pub(super) priority_class: Box<str>,
}

/// Kinds that quotas know by their plural alone.
const OWN: [&str; 6] =
    ["services", "secrets", "configmaps", "persistentvolumeclaims", "replicationcontrollers", "resourcequotas"];
/// Of these kinds it depends on the object what it takes.
const VARYING: [&str; 3] = ["pods", "services", "persistentvolumeclaims"];
/// Resources that quotas know without `requests.`, too.
const PLAIN: [&str; 3] = ["cpu", "memory", "ephemeral-storage"];

/// The collection that counts for a name of a quota's `hard`; of compute resources that is pods.
pub(super) fn collection_of(name: &str) -> &str {
    if let Some(counted) = name.strip_prefix("count/") {
        return counted;
    }
    if OWN.contains(&name) {
        return name;
    }
    if name.starts_with("services.") {
        return "services";
    }
    if name == "requests.storage" || name.contains(".storageclass.storage.k8s.io/") {
        return "persistentvolumeclaims";
    }
    "pods"
}

/// Whether objects of a kind differ in what they take, so that it is kept of each.
fn varies(resource: &Resource) -> bool {
    resource.custom().is_none() && VARYING.contains(&resource.storage.as_str())
}

// === impl Charge ===

impl Charge {
    /// What an object takes, of a kind whose objects differ in it. A pod that is over takes no more than its place.
    pub(crate) fn of(resource: &Resource, object: &Value) -> Option<Self> {
        varies(resource).then(|| Self::new(resource, object))
    }

    /// What each object of a kind takes whose objects do not differ in it.
    pub(super) fn of_each(resource: &Resource) -> Self {
        Self::new(resource, &Value::Null)
    }

    fn new(resource: &Resource, object: &Value) -> Self {
        let one = Quantity::from_value(1);
        let counted = match resource.storage.as_str() {
            "pods" if resource.custom().is_none() => Name::Borrowed("count/pods"),
            _ if resource.group.is_empty() => Name::Owned(format!("count/{}", resource.plural)),
            _ => Name::Owned(format!("count/{}.{}", resource.plural, resource.group)),
        };
        let mut amounts = vec![(counted, one)];
        if resource.custom().is_none() && OWN.contains(&resource.storage.as_str()) {
            amounts.push((Name::Owned(resource.plural.clone()), one));
        }
        let mut facts = None;
        if resource.is("pods") {
            let total = |of: &str| {
                let mut total = pod_total(object, of);
                read(meta::at(object, &["spec", "overhead"])).for_each(|(name, amount)| add(&mut total, name, amount));
                total
            };
            let (requests, limits) = (total("requests"), total("limits"));
            facts = Some(Facts::of(object, requests.is_empty() && limits.is_empty()));
            if !["Succeeded", "Failed"].contains(&text_at(object, &["status", "phase"])) {
                amounts.push((Name::Borrowed("pods"), one));
                for (name, amount) in requests {
                    if let Some(plain) = PLAIN.iter().find(|plain| **plain == name) {
                        amounts.push((Name::Borrowed(plain), amount));
                    }
                    amounts.push((prefixed("requests.", name), amount));
                }
                amounts.extend(limits.into_iter().map(|(name, amount)| (prefixed("limits.", name), amount)));
            }
        } else if resource.is("persistentvolumeclaims") {
            let storage = text_at(object, &["spec", "resources", "requests", "storage"]);
            if let Ok(amount) = Quantity::from_str(storage) {
                amounts.push((Name::Borrowed("requests.storage"), amount));
                let class = text_at(object, &["spec", "storageClassName"]);
                if !class.is_empty() {
                    let of_class = |name: &str| Name::Owned(format!("{class}.storageclass.storage.k8s.io/{name}"));
                    amounts.push((of_class("requests.storage"), amount));
                    amounts.push((of_class("persistentvolumeclaims"), one));
                }
            }
        } else if resource.is("services") {
            let kind = text_at(object, &["spec", "type"]);
            if kind == "LoadBalancer" {
                amounts.push((Name::Borrowed("services.loadbalancers"), one));
            }
            if ["NodePort", "LoadBalancer"].contains(&kind) {
                amounts.push((Name::Borrowed("services.nodeports"), one));
            }
        }
        amounts.sort_unstable_by(|(a, _), (b, _)| a.cmp(b));
        Self { amounts: amounts.into(), facts }
    }

    /// How much it takes of something; `None` where the object says nothing of it.
    pub(super) fn get(&self, name: &str) -> Option<Quantity> {
        let at = self.amounts.binary_search_by(|(own, _)| (**own).cmp(name)).ok()?;
        self.amounts.get(at).map(|(_, amount)| *amount)
    }

    /// What scopes hold of a pod; they hold nothing else.
    pub(super) const fn facts(&self) -> Option<&Facts> {
        self.facts.as_ref()
    }
}

fn prefixed(prefix: &'static str, name: &str) -> Name {
    match (prefix, name) {
        ("requests.", "cpu") => Name::Borrowed("requests.cpu"),
        ("requests.", "memory") => Name::Borrowed("requests.memory"),
        ("limits.", "cpu") => Name::Borrowed("limits.cpu"),
        ("limits.", "memory") => Name::Borrowed("limits.memory"),
        _ => Name::Owned(format!("{prefix}{name}")),
    }
}

// === impl Facts ===

impl Facts {
    /// Of a pod that asks for nothing, or for something.
    fn of(pod: &Value, asks_nothing: bool) -> Self {
        let affinity = ["podAffinity", "podAntiAffinity"].iter().any(|kind| {
            let Some(terms) = meta::at(pod, &["spec", "affinity", kind]) else { return false };
            let required = list_at(terms, &["requiredDuringSchedulingIgnoredDuringExecution"]);
            let preferred = list_at(terms, &["preferredDuringSchedulingIgnoredDuringExecution"]);
            let mut terms = required.iter().chain(preferred.iter().filter_map(|term| term.get("podAffinityTerm")));
            terms.any(|term| {
                !list_at(term, &["namespaces"]).is_empty()
                    || term.get("namespaceSelector").is_some_and(|selector| !selector.is_null())
            })
        });
        Self {
            best_effort: asks_nothing || text_at(pod, &["status", "qosClass"]) == "BestEffort",
            terminating: meta::int_at(pod, &["spec", "activeDeadlineSeconds"]).is_some_and(|seconds| seconds >= 0),
            crosses_namespaces: affinity,
            priority_class: text_at(pod, &["spec", "priorityClassName"]).into(),
        }
    }
}

/// Amounts by resource: few, so that they are looked for one by one.
pub(crate) type Amounts<'p> = Vec<(&'p str, Quantity)>;

fn add<'p>(sum: &mut Amounts<'p>, name: &'p str, amount: Quantity) {
    match sum.iter_mut().find(|(own, _)| *own == name) {
        Some((_, sum)) => *sum = sum.checked_add(amount).unwrap_or(*sum),
        None => sum.push((name, amount)),
    }
}

fn read(map: Option<&Value>) -> impl Iterator<Item = (&str, Quantity)> {
    let map = map.and_then(Value::as_object).into_iter().flatten();
    map.filter_map(|(name, value)| Some((name.as_str(), Quantity::from_str(value.as_str()?).ok()?)))
}

/// The requests or limits of a pod: the sum over containers and sidecars, or what the largest init container needs beside the
/// sidecars before it, where that is more; what the pod itself states takes its place. Without the overhead.
pub(crate) fn pod_total<'p>(pod: &'p Value, of: &str) -> Amounts<'p> {
    let mut sum = Amounts::new();
    for container in list_at(pod, &["spec", "containers"]) {
        for (name, amount) in read(meta::at(container, &["resources", of])) {
            add(&mut sum, name, amount);
        }
    }
    let mut sidecars = Amounts::new();
    for container in list_at(pod, &["spec", "initContainers"]) {
        let own = read(meta::at(container, &["resources", of]));
        if text_at(container, &["restartPolicy"]) == "Always" {
            for (name, amount) in own {
                add(&mut sum, name, amount);
                add(&mut sidecars, name, amount);
            }
            continue;
        }
        let mut while_it_runs = sidecars.clone();
        own.for_each(|(name, amount)| add(&mut while_it_runs, name, amount));
        for (name, amount) in while_it_runs {
            match sum.iter_mut().find(|(own, _)| *own == name) {
                Some((_, sum)) => *sum = (*sum).max(amount),
                None => sum.push((name, amount)),
            }
        }
    }
    for (name, amount) in read(meta::at(pod, &["spec", "resources", of])) {
        match sum.iter_mut().find(|(own, _)| *own == name) {
            Some((_, sum)) => *sum = amount,
            None => sum.push((name, amount)),
        }
    }
    sum
}
