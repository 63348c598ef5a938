//! The ledger of quotas: what each object takes is noted once for each of its states, from the changes of the store.
//!
//! It reads what changed since it was asked last, so a write costs what it changed and not what a namespace holds, and no
//! way of writing is forgotten. Where the history does not reach back, a collection is counted anew.

use std::collections::BTreeMap;
use std::str::FromStr;
use std::sync::Arc;

use berth_quantity::Quantity;
use rustc_hash::FxHashMap;
use serde_json::Value;

use super::usage::{Usage, collection_of, pod_total, usage_of};
use crate::meta::{self, list_at, text_at};
use crate::resource::Resource;
use crate::server::ApiServer;
use crate::store::{ChangeKind, Object, Range};

const QUOTAS: &str = "resourcequotas";
/// Changes read at once.
const BATCH: usize = 1024;

/// What is used in every namespace that has a quota.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    /// Quotas up to this version are known.
    seen: u64,
    namespaces: BTreeMap<String, Namespace>,
}

#[derive(Debug, Default)]
struct Namespace {
    quotas: BTreeMap<Box<str>, Quota>,
    collections: BTreeMap<String, Collection>,
}

/// The objects of one collection in one namespace.
#[derive(Debug, Default)]
struct Collection {
    /// Changes up to this version are counted.
    seen: u64,
    /// What each object takes, by its key.
    taken: FxHashMap<Box<str>, Arc<Taken>>,
}

/// What one object takes, of which quotas.
#[derive(Debug)]
struct Taken {
    usage: Usage,
    facts: Option<Facts>,
}

/// What scopes ask of a pod.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Facts {
    best_effort: bool,
    terminating: bool,
    crosses_namespaces: bool,
    priority_class: String,
}

/// One quota.
#[derive(Debug, Clone)]
pub(super) struct Quota {
    pub(super) name: String,
    pub(super) hard: Usage,
    /// The sum over what is there, for the names in `hard`.
    pub(super) used: Usage,
    scopes: Vec<(String, String, Vec<String>)>,
}

// === impl Ledger ===

impl Ledger {
    /// The quotas of a namespace, with what is used now.
    pub(super) fn quotas(&mut self, server: &ApiServer, namespace: &str) -> Vec<&Quota> {
        self.read_quotas(server);
        let Some(found) = self.namespaces.get_mut(namespace) else { return Vec::new() };
        found.count(server, namespace);
        found.quotas.values().collect()
    }

    fn read_quotas(&mut self, server: &ApiServer) {
        let store = &server.inner.store;
        loop {
            let Ok(changes) = store.changes_after(QUOTAS, self.seen, BATCH) else {
                // Too old to tell what changed.
                let page = store.list(QUOTAS, &Range::default()).unwrap_or_default();
                *self = Self { seen: page.revision, ..Self::default() };
                for object in &page.items {
                    self.take_quota(object);
                }
                return;
            };
            let Some(last) = changes.last() else { return };
            self.seen = last.object.revision;
            for change in &changes {
                if change.kind == ChangeKind::Deleted {
                    self.drop_quota(&change.object);
                } else {
                    self.take_quota(&change.object);
                }
            }
        }
    }

    fn take_quota(&mut self, object: &Object) {
        let mut quota = Quota::read(&object.value());
        let namespace = self.namespaces.entry(object.namespace().to_owned()).or_default();
        if namespace.quotas.get(&object.key).is_some_and(|known| known.counts_as(&quota)) {
            return;
        }
        for name in quota.hard.keys() {
            namespace.collections.entry(collection_of(name)).or_default();
        }
        for collection in namespace.collections.values() {
            for taken in collection.taken.values() {
                quota.add(taken);
            }
        }
        namespace.quotas.insert(object.key.clone(), quota);
    }

    fn drop_quota(&mut self, object: &Object) {
        let Some(namespace) = self.namespaces.get_mut(object.namespace()) else { return };
        namespace.quotas.remove(&object.key);
        if namespace.quotas.is_empty() {
            self.namespaces.remove(object.namespace());
        }
    }
}

// === impl Namespace ===

impl Namespace {
    /// Takes in what changed since it was counted last.
    fn count(&mut self, server: &ApiServer, name: &str) {
        let store = &server.inner.store;
        let prefix = format!("{name}/");
        for (storage, collection) in &mut self.collections {
            let Some(resource) = server.resource_of(storage) else { continue };
            loop {
                let Ok(changes) = store.changes_after(storage, collection.seen, BATCH) else {
                    let range = Range { prefix: &prefix, ..Range::default() };
                    let page = store.list(storage, &range).unwrap_or_default();
                    for quota in self.quotas.values_mut() {
                        collection.taken.values().for_each(|taken| quota.take_off(taken));
                    }
                    *collection = Collection { seen: page.revision, ..Collection::default() };
                    for object in &page.items {
                        collection.note(&mut self.quotas, &resource, object, true);
                    }
                    break;
                };
                let Some(last) = changes.last() else { break };
                collection.seen = last.object.revision;
                for change in changes.iter().filter(|change| change.object.key.starts_with(&prefix)) {
                    let is_there = change.kind != ChangeKind::Deleted;
                    collection.note(&mut self.quotas, &resource, &change.object, is_there);
                }
            }
        }
    }
}

// === impl Collection ===

impl Collection {
    /// Counts an object as it is now in place of what it was.
    fn note(&mut self, quotas: &mut BTreeMap<Box<str>, Quota>, resource: &Resource, object: &Object, is_there: bool) {
        if let Some(before) = self.taken.remove(&object.key) {
            for quota in quotas.values_mut() {
                quota.take_off(&before);
            }
        }
        if is_there {
            let taken = Arc::new(Taken::of(resource, &object.value()));
            for quota in quotas.values_mut() {
                quota.add(&taken);
            }
            self.taken.insert(object.key.clone(), taken);
        }
    }
}

// === impl Taken ===

impl Taken {
    fn of(resource: &Resource, object: &Value) -> Self {
        Self { usage: usage_of(resource, object), facts: Facts::of(resource, object) }
    }
}

// === impl Facts ===

impl Facts {
    /// Of a pod; scopes hold nothing else.
    fn of(resource: &Resource, pod: &Value) -> Option<Self> {
        if !resource.is("pods") {
            return None;
        }
        let best_effort = text_at(pod, &["status", "qosClass"]) == "BestEffort"
            || (pod_total(pod, "requests").is_empty() && pod_total(pod, "limits").is_empty());
        let affinity = ["podAffinity", "podAntiAffinity"].iter().any(|kind| {
            let required = list_at(pod, &["spec", "affinity", kind, "requiredDuringSchedulingIgnoredDuringExecution"]);
            let preferred =
                list_at(pod, &["spec", "affinity", kind, "preferredDuringSchedulingIgnoredDuringExecution"]);
            let terms = required.iter().chain(preferred.iter().filter_map(|term| term.get("podAffinityTerm")));
            terms.into_iter().any(|term| {
                !list_at(term, &["namespaces"]).is_empty()
                    || term.get("namespaceSelector").is_some_and(|selector| !selector.is_null())
            })
        });
        Some(Self {
            best_effort,
            terminating: meta::int_at(pod, &["spec", "activeDeadlineSeconds"]).is_some_and(|seconds| seconds >= 0),
            crosses_namespaces: affinity,
            priority_class: text_at(pod, &["spec", "priorityClassName"]).to_owned(),
        })
    }
}

// === impl Quota ===

impl Quota {
    fn read(quota: &Value) -> Self {
        let hard = meta::at(quota, &["spec", "hard"]).and_then(Value::as_object);
        let hard: Usage = hard
            .into_iter()
            .flatten()
            .filter_map(|(name, value)| Some((name.clone(), Quantity::from_str(value.as_str()?).ok()?)))
            .collect();
        let plain = list_at(quota, &["spec", "scopes"]).iter().filter_map(Value::as_str);
        let mut scopes: Vec<_> = plain.map(|name| (name.to_owned(), "Exists".to_owned(), Vec::new())).collect();
        for term in list_at(quota, &["spec", "scopeSelector", "matchExpressions"]) {
            let values = list_at(term, &["values"]).iter().filter_map(Value::as_str).map(str::to_owned);
            let operator = text_at(term, &["operator"]);
            scopes.push((text_at(term, &["scopeName"]).to_owned(), operator.to_owned(), values.collect()));
        }
        let used = hard.keys().map(|name| (name.clone(), Quantity::default())).collect();
        Self { name: meta::name(quota).to_owned(), hard, used, scopes }
    }

    /// Whether another state of the quota counts the same, so that what was counted stands.
    fn counts_as(&self, other: &Self) -> bool {
        self.hard == other.hard && self.scopes == other.scopes
    }

    /// Whether an object counts.
    pub(super) fn holds(&self, resource: &Resource, object: &Value) -> bool {
        self.scopes.is_empty() || self.holds_facts(Facts::of(resource, object).as_ref())
    }

    fn holds_facts(&self, facts: Option<&Facts>) -> bool {
        self.scopes.iter().all(|(name, operator, values)| {
            let Some(facts) = facts else { return false };
            match name.as_str() {
                "BestEffort" => facts.best_effort,
                "NotBestEffort" => !facts.best_effort,
                "Terminating" => facts.terminating,
                "NotTerminating" => !facts.terminating,
                "CrossNamespacePodAffinity" => facts.crosses_namespaces,
                "PriorityClass" => match operator.as_str() {
                    "In" => values.contains(&facts.priority_class),
                    "NotIn" => !values.contains(&facts.priority_class),
                    "DoesNotExist" => facts.priority_class.is_empty(),
                    _ => !facts.priority_class.is_empty(),
                },
                _ => false,
            }
        })
    }

    fn add(&mut self, taken: &Taken) {
        self.change(taken, Quantity::checked_add);
    }

    fn take_off(&mut self, taken: &Taken) {
        self.change(taken, Quantity::checked_sub);
    }

    fn change(&mut self, taken: &Taken, with: fn(Quantity, Quantity) -> Option<Quantity>) {
        if !self.holds_facts(taken.facts.as_ref()) {
            return;
        }
        for (name, sum) in &mut self.used {
            if let Some(amount) = taken.usage.get(name) {
                *sum = with(*sum, *amount).unwrap_or(*sum);
            }
        }
    }
}
