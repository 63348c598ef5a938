//! The ledger of quotas: what is used, kept from the changes of the store. What an object takes was noted when it was written,
//! so no object is read again.
//!
//! It reads what changed since it was asked last, so a write costs what it changed and not what a namespace holds, and no
//! way of writing is forgotten. Where the history does not reach back, a collection is summed up anew.

use std::collections::BTreeMap;
use std::str::FromStr;
use std::sync::Arc;

use berth_quantity::Quantity;
use serde_json::Value;

use super::usage::{Charge, Facts, collection_of};
use crate::meta::{self, list_at, text_at};
use crate::server::ApiServer;
use crate::store::{ChangeKind, Object, Range, Store};

const QUOTAS: &str = "resourcequotas";
/// Changes read at once.
const BATCH: usize = 1024;

/// Amounts by name.
pub(super) type Usage = BTreeMap<String, Quantity>;

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
    /// Changes up to this version are counted; none where all must be counted anew.
    seen: Option<u64>,
    /// What each of them takes, where they do not differ.
    each: Option<Arc<Charge>>,
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
        let quota = Quota::read(&object.value());
        let namespace = self.namespaces.entry(object.namespace().to_owned()).or_default();
        if namespace.quotas.get(&object.key).is_some_and(|known| known.counts_as(&quota)) {
            return;
        }
        for name in quota.hard.keys() {
            // All of it, for every quota: that of this one cannot be told from changes.
            namespace.collections.entry(collection_of(name).to_owned()).or_default().seen = None;
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
        let prefix = format!("{name}/");
        for (storage, collection) in &mut self.collections {
            let Some(resource) = server.resource_of(storage) else { continue };
            let each = || Arc::new(Charge::of_each(&resource));
            let each = collection.each.get_or_insert_with(each).clone();
            let taken = |object: &Object| object.charge.clone().unwrap_or_else(|| each.clone());
            let store = &server.inner.store;
            if !collection.follow(store, storage, &prefix, &mut self.quotas, &taken) {
                collection.count_anew(store, storage, &prefix, &mut self.quotas, &taken);
            }
        }
    }
}

// === impl Collection ===

impl Collection {
    /// Counts what changed; not where that is not known.
    fn follow(
        &mut self,
        store: &Store,
        storage: &str,
        prefix: &str,
        quotas: &mut BTreeMap<Box<str>, Quota>,
        taken: &dyn Fn(&Object) -> Arc<Charge>,
    ) -> bool {
        let Some(mut seen) = self.seen else { return false };
        loop {
            let Ok(changes) = store.changes_after(storage, seen, BATCH) else { return false };
            let Some(last) = changes.last() else { return true };
            seen = last.object.revision;
            self.seen = Some(seen);
            for change in changes.iter().filter(|change| change.object.key.starts_with(prefix)) {
                let before = change.previous.as_deref().map(taken);
                let after = (change.kind != ChangeKind::Deleted).then(|| taken(&change.object));
                // Most changes are of a status, and take what was taken before.
                if before == after {
                    continue;
                }
                for quota in quotas.values_mut() {
                    if let Some(before) = &before {
                        quota.change(before, Quantity::checked_sub);
                    }
                    if let Some(after) = &after {
                        quota.change(after, Quantity::checked_add);
                    }
                }
            }
        }
    }

    /// Sums up all that is there.
    fn count_anew(
        &mut self,
        store: &Store,
        storage: &str,
        prefix: &str,
        quotas: &mut BTreeMap<Box<str>, Quota>,
        taken: &dyn Fn(&Object) -> Arc<Charge>,
    ) {
        for quota in quotas.values_mut() {
            let own = quota.used.iter_mut().filter(|(name, _)| collection_of(name) == storage);
            own.for_each(|(_, sum)| *sum = Quantity::default());
        }
        let page = store.list(storage, &Range { prefix, ..Range::default() }).unwrap_or_default();
        for object in &page.items {
            let taken = taken(object);
            for quota in quotas.values_mut() {
                quota.change(&taken, Quantity::checked_add);
            }
        }
        self.seen = Some(page.revision);
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

    /// Whether what is taken counts.
    pub(super) fn holds(&self, taken: &Charge) -> bool {
        let facts = taken.facts();
        self.scopes.iter().all(|scope| facts.is_some_and(|facts| is_in(scope, facts)))
    }

    fn change(&mut self, taken: &Charge, with: fn(Quantity, Quantity) -> Option<Quantity>) {
        if !self.holds(taken) {
            return;
        }
        for (name, sum) in &mut self.used {
            if let Some(amount) = taken.get(name) {
                *sum = with(*sum, amount).unwrap_or(*sum);
            }
        }
    }
}

fn is_in((name, operator, values): &(String, String, Vec<String>), facts: &Facts) -> bool {
    match name.as_str() {
        "BestEffort" => facts.best_effort,
        "NotBestEffort" => !facts.best_effort,
        "Terminating" => facts.terminating,
        "NotTerminating" => !facts.terminating,
        "CrossNamespacePodAffinity" => facts.crosses_namespaces,
        "PriorityClass" => {
            let is_listed = values.iter().any(|value| **value == *facts.priority_class);
            match operator.as_str() {
                "In" => is_listed,
                "NotIn" => !is_listed,
                "DoesNotExist" => facts.priority_class.is_empty(),
                _ => !facts.priority_class.is_empty(),
            }
        }
        _ => false,
    }
}
