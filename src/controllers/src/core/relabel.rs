//! Instances that are on other capacity than they were launched on: a reservation ended, or took one in. The NodeClaim and
//! the node say so by their labels; nothing is killed.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use berth_api::{NodeClaim, labels};
use berth_cloudprovider::{Instance, tag};
use berth_quantity::Operator;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{NodeSelector, NodeSelectorRequirement, NodeSelectorTerm, PodSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::json;

use super::{Core, Job, class_key};
use crate::claim::{admit_reserved, conditions, on};
use crate::clock::after;
use crate::kind::Kind;
use crate::notice::Notice;
use crate::view::pool_of;
use crate::write::Op;

type Labels = BTreeMap<String, String>;

impl Core {
    /// Compares the labels of instances with those of their NodeClaims.
    pub(super) fn note_labels<'i>(&mut self, instances: impl Iterator<Item = &'i Instance>) {
        for instance in instances.filter(|instance| instance.state.is_alive()) {
            let Some(name) = instance.tags.get(tag::NODE_CLAIM) else { continue };
            let Some(claim) = self.view.claims.get(name) else { continue };
            let is_its = claim.metadata.uid.as_ref() == instance.tags.get(tag::NODE_CLAIM_UID)
                && claim.status.as_ref().is_some_and(|status| {
                    status.provider_id.as_deref() == Some(instance.provider_id.as_str())
                        && conditions::is_true(&status.conditions, conditions::REGISTERED)
                });
            // An instance that does not say how it is paid for takes no label away. A node is written after its NodeClaim, and a
            // process may end in between.
            let differs_of_node = || self.node_of(claim).is_some_and(|node| differ(&node.metadata, &instance.labels));
            let differs = instance.labels.contains_key(labels::CAPACITY_TYPE)
                && (differ(&claim.metadata, &instance.labels) || differs_of_node());
            if is_its && differs && claim.metadata.deletion_timestamp.is_none() && self.admits(claim, &instance.labels)
            {
                self.relabels.insert(name.clone(), instance.labels.clone());
                self.queue.add(Job::Relabel(name.clone()));
            }
        }
    }

    /// A slot that took an instance in counts only where the NodePool and the pods on the node admit reserved capacity.
    fn admits(&self, claim: &NodeClaim, now: &Labels) -> bool {
        let is_reserved = now.get(labels::CAPACITY_TYPE).is_some_and(|value| value == labels::RESERVED);
        let pool = pool_of(&claim.metadata).and_then(|pool| self.view.pools.get(pool));
        let by_pool = || pool.is_some_and(|pool| admit_reserved(&pool.spec.template.spec.requirements));
        !is_reserved || (by_pool() && self.pods_admit(claim, now))
    }

    /// Whether no pod on a NodeClaim's node requires what its labels say now, and would not say any more.
    fn pods_admit(&self, claim: &NodeClaim, wanted: &Labels) -> bool {
        let Some(node) = self.node_of(claim) else { return true };
        let name = node.metadata.name.as_deref().unwrap_or_default();
        let before = node.metadata.labels.clone().unwrap_or_default();
        let mut after = before.clone();
        for (key, value) in changes(&node.metadata, wanted) {
            match value {
                Some(value) => after.insert(key, value),
                None => after.remove(&key),
            };
        }
        self.state.pods_on(name).filter(|pod| !pod.has_ended()).filter_map(|pod| pod.spec()).all(|spec| {
            // A requirement counts as a pod comes, and others may change the node later. Berth does not.
            requires(spec, name, &after) || !requires(spec, name, &before)
        })
    }

    /// The NodeClaim first, then its node.
    pub(super) fn relabel(&mut self, name: &str, now: Timestamp) {
        let job = Job::Relabel(name.to_owned());
        let claim = self.view.claims.get(name).cloned();
        let (Some(wanted), Some(claim)) = (self.relabels.get(name).cloned(), claim) else {
            self.relabels.remove(name);
            return self.queue.forget(&job);
        };
        let patch = |metadata: &ObjectMeta| {
            let changes = changes(metadata, &wanted);
            let patch = json!({"metadata": {"resourceVersion": metadata.resource_version, "labels": changes}});
            (!changes.is_empty()).then_some(patch)
        };
        if let Some(patch) = patch(&claim.metadata) {
            return self.write(job, on(Kind::NodeClaim, &claim.metadata, Op::Merge(patch)));
        }
        let node = self.node_of(&claim).map(|node| node.metadata.clone());
        if let Some((metadata, patch)) = node.and_then(|node| Some((node.clone(), patch(&node)?))) {
            return self.write(job, on(Kind::Node, &metadata, Op::Merge(patch)));
        }
        self.relabels.remove(name);
        self.queue.forget(&job);
        let of = |key: &str| wanted.get(key).map_or("", String::as_str);
        let id = labels::reservation_id(&wanted);
        let on = id.map_or_else(String::new, |id| format!(" on {id}"));
        let message = format!("its instance is {}{on} now", of(labels::CAPACITY_TYPE));
        self.tell(Notice::about(Kind::NodeClaim, &claim.metadata, "Relabelled", message), now);
    }

    /// Where a reservation does not hold an instance any more that carries its id, or holds one that does not, the cloud is
    /// asked at once what its instances are.
    pub(super) fn look_for_lost_slots(&mut self, class: &str) {
        let Some(offers) = self.offers.get(class) else { return };
        let reservations = &offers.types.reservations;
        let holder: BTreeMap<&str, &str> = reservations
            .iter()
            .flat_map(|known| known.includes.iter().map(|id| (id.as_str(), known.id.as_str())))
            .collect();
        let of_class = |claim: &NodeClaim| claim.spec.node_class_ref.as_ref().map(class_key).as_deref() == Some(class);
        let is_other = |claim: &NodeClaim| {
            let Some(status) = claim.status.as_ref() else { return false };
            let Some(id) = status.provider_id.as_deref() else { return false };
            let own = claim.metadata.labels.as_ref();
            let told = own.and_then(labels::reservation_id);
            conditions::is_true(&status.conditions, conditions::INITIALIZED)
                && told.map(String::as_str) != holder.get(id).copied()
        };
        if self.view.claims.values().any(|claim| of_class(claim) && is_other(claim)) {
            self.queue.add(Job::Garbage);
        }
    }

    /// A NodeClaim is gone. Where its instance had a slot, the cloud is asked how many there are, as soon as it may know: until
    /// the next regular count others would buy what is free by then.
    pub(super) fn look_for_freed_slot(&mut self, name: &str, now: Timestamp) {
        let Some(claim) = self.view.claims.get(name) else { return };
        let own = claim.metadata.labels.as_ref();
        let is_reserved =
            own.and_then(|own| own.get(labels::CAPACITY_TYPE)).is_some_and(|value| value == labels::RESERVED);
        let class = claim.spec.node_class_ref.as_ref().map(class_key);
        if let Some(class) = class.filter(|class| is_reserved && self.node_classes.contains_key(class)) {
            // Nodes often go several at a time.
            let wait = self.provider.consistency_lag().max(Duration::from_secs(1));
            self.queue.add_at(Job::Offers(class), after(now, wait));
        }
    }

    /// Where a NodePool asks for something else now, its nodes are looked at.
    pub(super) fn look_for_drift(&mut self, name: &str) {
        let Some(pool) = self.view.pools.get(name) else { return };
        let hash = pool.metadata.annotations.as_ref().and_then(|all| all.get(labels::NODEPOOL_HASH)).cloned();
        let seen = (pool.metadata.generation, hash);
        if self.pools_seen.insert(name.to_owned(), seen.clone()) == Some(seen) {
            return;
        }
        let of_pool = self.view.claims.iter().filter(|(_, claim)| pool_of(&claim.metadata) == Some(name));
        let claims: Vec<String> = of_pool.map(|(claim, _)| claim.clone()).collect();
        for claim in claims {
            self.queue.add(Job::Claim(claim));
        }
    }
}

/// Whether a pod may be on reserved capacity, whatever else it requires.
pub(super) fn admits_slots(spec: &PodSpec) -> bool {
    let is_it = |key: &str| key == labels::CAPACITY_TYPE;
    let fits = |term: &NodeSelectorTerm| {
        let mut expressions = term.match_expressions.iter().flatten().filter(|own| is_it(&own.key));
        expressions.all(|expression| holds(expression, Some(labels::RESERVED)))
    };
    let selected = spec.node_selector.as_ref().and_then(|selector| selector.get(labels::CAPACITY_TYPE));
    selected.is_none_or(|value| value == labels::RESERVED)
        && required_of(spec).is_none_or(|required| required.node_selector_terms.iter().any(fits))
}

fn required_of(spec: &PodSpec) -> Option<&NodeSelector> {
    let nodes = spec.affinity.as_ref()?.node_affinity.as_ref()?;
    nodes.required_during_scheduling_ignored_during_execution.as_ref()
}

fn holds(requirement: &NodeSelectorRequirement, value: Option<&str>) -> bool {
    let operator: Option<Operator> = requirement.operator.parse().ok();
    operator.is_some_and(|operator| operator.admits(requirement.values.as_deref().unwrap_or_default(), value))
}

/// Whether a node of this name and these labels is what a pod requires of its node.
fn requires(spec: &PodSpec, name: &str, labels: &Labels) -> bool {
    let fits = |term: &NodeSelectorTerm| {
        let mut expressions = term.match_expressions.iter().flatten();
        let mut fields = term.match_fields.iter().flatten();
        expressions.all(|expression| holds(expression, labels.get(&expression.key).map(String::as_str)))
            && fields.all(|field| holds(field, Some(name)))
    };
    spec.node_selector.iter().flatten().all(|(key, value)| labels.get(key) == Some(value))
        && required_of(spec).is_none_or(|required| required.node_selector_terms.iter().any(fits))
}

/// The labels that say what an instance is bought as.
fn bought_as() -> impl Iterator<Item = &'static str> {
    labels::RESERVATION_IDS.into_iter().chain([labels::CAPACITY_TYPE])
}

/// Whether an object's labels say something else of what its instance is bought as.
pub(super) fn differ(metadata: &ObjectMeta, wanted: &Labels) -> bool {
    let known = metadata.labels.as_ref();
    bought_as().any(|key| known.and_then(|known| known.get(key)) != wanted.get(key))
}

/// What must change of an object's labels for what its instance is bought as; `None` takes a label away.
fn changes(metadata: &ObjectMeta, wanted: &Labels) -> BTreeMap<String, Option<String>> {
    let none = Labels::new();
    let known = metadata.labels.as_ref().unwrap_or(&none);
    let keys: BTreeSet<&str> = bought_as().collect();
    let differs = keys.into_iter().filter(|key| known.get(*key) != wanted.get(*key));
    differs.map(|key| (key.to_owned(), wanted.get(key).cloned())).collect()
}
