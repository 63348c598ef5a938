//! Garbage both ways: instances that no NodeClaim is for, and NodeClaims whose instance is gone.

use std::sync::Arc;

use berth_api::{NodeClaim, labels};
use berth_cloudprovider::{CloudError, Instance, InstanceState, ProviderId, tag};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use rustc_hash::FxHashMap;

use super::{Core, Job};
use crate::claim::conditions;
use crate::claim::{Question, created, has_finalizer, is_ready, on, without_finalizer};
use crate::clock::{after, elapsed};
use crate::kind::Kind;
use crate::notice::Notice;
use crate::observed::{Object, Observed};
use crate::write::Op;

/// An instance and the NodeClaim that it is of, neither of which leaves anything to be done: nothing need be compared again
/// while both are the same.
#[derive(Debug)]
pub(super) struct Matched {
    instance: Arc<Instance>,
    claim: Arc<NodeClaim>,
}

/// Instances that are there, by provider id.
type There<'i> = FxHashMap<&'i str, &'i Instance>;

impl Core {
    /// The cloud said which instances there are.
    pub(super) fn listed(&mut self, instances: Result<Vec<Arc<Instance>>, CloudError>, now: Timestamp) {
        let instances = match instances {
            Ok(instances) => instances,
            Err(error) => {
                tracing::warn!(%error, "unable to list instances");
                return self.queue.fail(Job::Garbage, std::time::Duration::from_secs(1), now);
            }
        };
        self.forget_gone_claims();
        self.forget_unused_classes(now);
        self.forget_placed();
        let there: There<'_> = instances
            .iter()
            .filter(|instance| instance.state != InstanceState::Terminated)
            .map(|instance| (instance.provider_id.as_str(), &**instance))
            .collect();
        self.garbage.retain(|id| there.contains_key(id.as_str()));
        self.matched.retain(|id, _| there.contains_key(id.as_str()));
        let changed: Vec<&Arc<Instance>> =
            instances.iter().filter(|instance| instance.state.is_alive() && !self.is_matched(instance)).collect();
        let unclaimed: Vec<String> = changed
            .iter()
            .filter(|instance| self.is_garbage(instance, now))
            .map(|instance| instance.provider_id.0.clone())
            .collect();
        for id in unclaimed {
            tracing::warn!(instance = id, "no NodeClaim is for this instance");
            self.garbage.insert(id.clone());
            self.queue.add(Job::Collect(id));
        }
        self.note_labels(changed.iter().map(|instance| &***instance));
        for instance in changed {
            self.note_match(instance);
        }
        self.note_interruptions(instances.iter().map(|instance| &**instance), now);
        for (name, id) in self.strays(&there, now) {
            tracing::warn!(node = name, instance = id, "the instance of this node is gone, and no NodeClaim is for it");
            self.garbage.insert(id);
            self.queue.add(Job::Node(name));
        }
        let vanished: Vec<String> = self.vanished(&there, now);
        for name in vanished {
            self.queue.add(Job::Check(name));
        }
        self.queue.put_off(Job::Garbage, after(now, self.options.timings.garbage_period));
    }

    /// Whether an instance and its NodeClaim are as they were when there was nothing to do about them.
    pub(super) fn is_matched(&self, instance: &Arc<Instance>) -> bool {
        let known = self.matched.get(&instance.provider_id).filter(|known| Arc::ptr_eq(&known.instance, instance));
        let claim = instance.tags.get(tag::NODE_CLAIM).and_then(|name| self.view.claims.get(name));
        known.zip(claim).is_some_and(|(known, claim)| Arc::ptr_eq(&known.claim, claim))
    }

    /// Notes that there is nothing to do about an instance and its NodeClaim, where that is so.
    fn note_match(&mut self, instance: &Arc<Instance>) {
        let claim = instance.tags.get(tag::NODE_CLAIM).and_then(|name| self.view.claims.get(name));
        if let Some(claim) = claim.filter(|claim| is_in_order(instance, claim)) {
            let matched = Matched { instance: Arc::clone(instance), claim: Arc::clone(claim) };
            self.matched.insert(instance.provider_id.clone(), matched);
        }
    }

    /// Whether an instance of this cluster is nobody's.
    fn is_garbage(&self, instance: &Instance, now: Timestamp) -> bool {
        let (Some(name), Some(uid)) = (instance.tags.get(tag::NODE_CLAIM), instance.tags.get(tag::NODE_CLAIM_UID))
        else {
            return false;
        };
        // A launch that is under way may not be known here yet.
        let settles = self.options.timings.garbage_age.max(self.provider.consistency_lag());
        if elapsed(instance.launched_at, now) < settles {
            return false;
        }
        if !self.view.has_claim(name, uid) {
            return true;
        }
        let claim = self.view.claims.get(name).filter(|_| !self.queue.is_running(&Job::Claim(name.clone())));
        let own = claim.and_then(|claim| Self::instance_of(self.memories.get(uid), claim));
        own.is_some_and(|own| own != &*instance.provider_id.0)
    }

    /// Nodes that are left of instances which are gone: one that joins as its NodeClaim ends is never registered.
    fn strays(&self, there: &There<'_>, now: Timestamp) -> Vec<(String, String)> {
        let settles = self.options.timings.garbage_age.max(self.provider.consistency_lag());
        let scheme = format!("{}://", self.provider.name());
        let stray = |name: &String, node: &Node| {
            // Most are.
            if is_ready(node) {
                return None;
            }
            let id = node.spec.as_ref()?.provider_id.clone().filter(|id| id.starts_with(&scheme))?;
            let is_old = created(&node.metadata).is_some_and(|created| elapsed(created, now) > settles);
            let is_stray = is_old
                && is_ours(node)
                && !there.contains_key(id.as_str())
                && self.view.claims_of_node(node).next().is_none();
            is_stray.then(|| (name.clone(), id))
        };
        self.view.nodes.iter().filter_map(|(name, node)| stray(name, node)).collect()
    }

    /// NodeClaims whose instance is not listed although it would have shown, and whose node does not say that it lives.
    fn vanished(&self, there: &There<'_>, now: Timestamp) -> Vec<String> {
        let settles = self.options.timings.garbage_age.max(self.provider.consistency_lag());
        let is_vanished = |claim: &NodeClaim| {
            let Some(status) = &claim.status else { return false };
            let Some(id) = status.provider_id.as_deref() else { return false };
            if there.contains_key(id) {
                return false;
            }
            let since = conditions::true_since(&status.conditions, conditions::LAUNCHED);
            let nodes = self.view.nodes_of(Some(id));
            let lives = nodes.filter_map(|node| self.view.nodes.get(node)).any(|node| is_ready(node));
            claim.metadata.deletion_timestamp.is_none()
                && self.serves(claim)
                && since.is_some_and(|since| elapsed(since, now) > settles)
                && !lives
        };
        self.view.claims.iter().filter(|(_, claim)| is_vanished(claim)).map(|(name, _)| name.clone()).collect()
    }

    /// A node that was ready and is not may have lost its instance: the cloud is asked at once, not in the next round.
    pub(super) fn suspect(&mut self, observed: &Observed, now: Timestamp) {
        let Observed::Applied(Object::Node(node)) = observed else { return };
        let name = node.metadata.name.clone().unwrap_or_default();
        let was_ready = self.view.nodes.get(&name).is_some_and(|known| is_ready(known));
        if !was_ready || is_ready(node) {
            return;
        }
        let settles = self.options.timings.garbage_age.max(self.provider.consistency_lag());
        let is_settled = |claim: &NodeClaim| {
            let conditions = claim.status.as_ref().map(|status| status.conditions.as_slice()).unwrap_or_default();
            let since = conditions::true_since(conditions, conditions::LAUNCHED);
            claim.metadata.deletion_timestamp.is_none() && since.is_some_and(|since| elapsed(since, now) > settles)
        };
        let claims = self.view.claims_of_node(node).filter(|claim| self.serves(claim) && is_settled(claim));
        let names: Vec<String> = claims.filter_map(|claim| claim.metadata.name.clone()).collect();
        for name in names {
            self.queue.add(Job::Check(name));
        }
    }

    pub(super) fn check(&mut self, name: String) {
        let id = self.view.claims.get(&name).and_then(|claim| claim.status.as_ref()?.provider_id.clone());
        match id {
            Some(id) => self.ask(Job::Check(name), Question::Get(ProviderId(id))),
            None => self.queue.forget(&Job::Check(name)),
        }
    }

    pub(super) fn checked(&mut self, name: &str, outcome: Result<Instance, CloudError>, now: Timestamp) {
        let job = Job::Check(name.to_owned());
        let claim = self.view.claims.get(name).cloned();
        match (outcome, claim) {
            (Err(CloudError::NotFound { .. }), Some(claim)) if claim.metadata.deletion_timestamp.is_none() => {
                let message = "the cloud does not have its instance any more";
                self.tell(Notice::about(Kind::NodeClaim, &claim.metadata, "InstanceVanished", message), now);
                let delete = on(Kind::NodeClaim, &claim.metadata, Op::Delete { grace: None });
                // Deleted once; the next round finds it if that fails.
                self.effects.push(super::Effect::Write(None, Box::new(delete)));
            }
            (Err(error), Some(_)) if error.is_retryable() => {
                return self.queue.fail(job, std::time::Duration::ZERO, now);
            }
            _ => {}
        }
        self.queue.done(&job);
    }

    pub(super) fn collect(&mut self, id: String) {
        self.ask(Job::Collect(id.clone()), Question::Delete(ProviderId(id)));
    }

    pub(super) fn collected(&mut self, id: &str, outcome: Result<(), CloudError>, now: Timestamp) {
        let job = Job::Collect(id.to_owned());
        match outcome {
            // The next round sees whether it went.
            Ok(()) | Err(CloudError::NotFound { .. }) => self.queue.done(&job),
            Err(error) => {
                tracing::warn!(instance = id, %error, "unable to shut down an instance that no NodeClaim is for");
                self.queue.fail(job, std::time::Duration::from_secs(1), now);
            }
        }
        let nodes: Vec<String> = self.view.nodes_of(Some(id)).map(str::to_owned).collect();
        for node in nodes {
            self.queue.add(Job::Node(node));
        }
    }

    /// A node that Berth registered and whose NodeClaim is gone.
    pub(super) fn step_node(&mut self, name: &str) {
        let job = Job::Node(name.to_owned());
        let Some(node) = self.view.nodes.get(name).cloned() else { return self.queue.forget(&job) };
        let claim = self.view.claims_of_node(&node).next().cloned();
        if let Some(claim) = claim {
            return self.untaint(&node, &claim);
        }
        // A NodeClaim that cannot be read may be this node's.
        if !is_ours(&node) || self.view.has_unreadable_claims() {
            return;
        }
        let owner = node.metadata.owner_references.iter().flatten().find(|owner| owner.kind == "NodeClaim");
        if owner.is_some_and(|owner| self.view.has_claim(&owner.name, &owner.uid)) {
            return;
        }
        let id = node.spec.as_ref().and_then(|spec| spec.provider_id.clone()).unwrap_or_default();
        if node.metadata.deletion_timestamp.is_some() {
            if has_finalizer(&node.metadata) {
                self.write(job, without_finalizer(Kind::Node, &node.metadata));
            }
        } else if self.garbage.contains(&id) {
            self.write(job, on(Kind::Node, &node.metadata, Op::Delete { grace: None }));
        }
    }
}

/// Whether a NodeClaim is of this very instance, and says of it what it is, whatever else becomes of either.
fn is_in_order(instance: &Instance, claim: &NodeClaim) -> bool {
    let status = claim.status.as_ref();
    claim.metadata.uid.as_ref() == instance.tags.get(tag::NODE_CLAIM_UID)
        && status.and_then(|status| status.provider_id.as_deref()) == Some(instance.provider_id.as_str())
        && !super::relabel::differ(&claim.metadata, &instance.labels)
}

/// Whether Berth registered a node, or was about to.
fn is_ours(node: &Node) -> bool {
    let taints = node.spec.as_ref().and_then(|spec| spec.taints.as_deref()).unwrap_or_default();
    node.metadata.labels.as_ref().is_some_and(|all| all.contains_key(labels::REGISTERED))
        || taints.iter().any(|taint| taint.key == labels::UNREGISTERED_TAINT)
}
