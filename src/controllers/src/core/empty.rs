//! Nodes that nobody needs any more: they are tainted, looked at once more, and then they go.

use std::collections::BTreeMap;
use std::time::Duration;

use berth_api::{DisruptionReason, NodeClaim, labels};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, Taint};
use serde_json::json;

use super::budget::{self, Nodes};
use super::{Core, Job};
use crate::claim::{conditions, cordon, is_disruption, is_ready, on};
use crate::clock::after;
use crate::kind::Kind;
use crate::notice::Notice;
use crate::view::pool_of;
use crate::write::Op;

/// How often nodes are looked at.
const PERIOD: Duration = Duration::from_secs(10);
/// How long after its taint a node is looked at once more: a scheduler may have bound a pod before it saw the taint.
const SETTLES: Duration = Duration::from_secs(2);
/// A storm needs so many nodes at least: of two nodes one is half.
const STORM_NODES: usize = 3;

/// A node that is on its way out by a decision of this process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Removal {
    /// Since when its taint was seen.
    tainted: Option<Timestamp>,
}

impl Core {
    /// Looks for nodes that can go, and starts with as many as budgets allow.
    pub(super) fn disrupt(&mut self, now: Timestamp) {
        self.queue.add_at(Job::Disrupt, after(now, PERIOD));
        if self.is_storm(now) {
            return;
        }
        let pools: Vec<_> = self.view.pools.iter().map(|(name, pool)| (name.clone(), pool.clone())).collect();
        for (name, pool) in pools {
            let mut nodes = Nodes { total: 0, off: 0 };
            let mut candidates = Vec::new();
            for (claim_name, claim) in self.view.claims.iter() {
                if pool_of(&claim.metadata) != Some(name.as_str()) || !is_initialized(claim) {
                    continue;
                }
                nodes.total += 1;
                let node = self.node_of(claim);
                let is_going = claim.metadata.deletion_timestamp.is_some() || self.removals.contains_key(claim_name);
                if is_going || !node.is_some_and(is_ready) {
                    nodes.off += 1;
                } else if self.is_removable(claim, now) {
                    candidates.push(claim_name.clone());
                }
            }
            let allowed = budget::allowed(&pool.spec.disruption.budgets, DisruptionReason::Empty, nodes, now);
            for claim in candidates.into_iter().take(allowed) {
                self.removals.insert(claim.clone(), Removal { tainted: None });
                self.queue.add(Job::Remove(claim));
            }
        }
    }

    /// Whether most nodes are not ready at once: then the fault is elsewhere, and nothing is removed or launched.
    pub(super) fn is_storm(&mut self, now: Timestamp) -> bool {
        let registered = self.view.claims.values().filter(|claim| is_initialized(claim));
        let nodes: Vec<bool> = registered.filter_map(|claim| self.node_of(claim)).map(is_ready).collect();
        let n_lost = nodes.iter().filter(|is_ready| !**is_ready).count();
        let is_storm = nodes.len() >= STORM_NODES && n_lost * 2 > nodes.len();
        if is_storm {
            let message = format!(
                "{n_lost} of {} nodes are not ready: nodes are neither removed nor launched until most are",
                nodes.len()
            );
            let pools: Vec<_> = self.view.pools.values().cloned().collect();
            for pool in pools {
                self.tell(Notice::about(Kind::NodePool, &pool.metadata, "DisruptionBlocked", message.clone()), now);
            }
        }
        is_storm
    }

    /// The next step of a node that is on its way out.
    pub(super) fn remove(&mut self, name: &str, now: Timestamp) {
        let job = Job::Remove(name.to_owned());
        let Some(removal) = self.removals.get(name).copied() else { return self.queue.forget(&job) };
        let claim = self.view.claims.get(&name.to_owned()).cloned();
        let Some(claim) = claim.filter(|claim| claim.metadata.deletion_timestamp.is_none()) else {
            self.removals.remove(name);
            return self.queue.forget(&job);
        };
        let Some(node) = self.node_of(&claim).cloned() else {
            self.removals.remove(name);
            return self.queue.forget(&job);
        };
        let has_taint = disruption_taint(&node).is_some();
        if !self.is_removable(&claim, now) {
            // Somebody needs it after all. A node without a reason for its taint loses it.
            self.removals.remove(name);
            self.queue.forget(&job);
            return self.queue.add(Job::Node(node.metadata.name.clone().unwrap_or_default()));
        }
        if let Some(patch) = cordon(&node) {
            return self.write(job, on(Kind::Node, &node.metadata, Op::Merge(patch)));
        }
        let since = removal.tainted.unwrap_or(now);
        self.removals.insert(name.to_owned(), Removal { tainted: Some(since) });
        if !has_taint || after(since, SETTLES) > now {
            return self.queue.add_at(job, after(since, SETTLES));
        }
        let mut all = claim.status.clone().unwrap_or_default().conditions;
        let reason = (conditions::DISRUPTION_REASON, conditions::Status::True);
        if conditions::set(&mut all, reason, ("Empty", ""), claim.metadata.generation, now) {
            let patch = json!({"metadata": {"resourceVersion": claim.metadata.resource_version},
                "status": {"conditions": all}});
            return self.write(job, on(Kind::NodeClaim, &claim.metadata, Op::MergeStatus(patch)));
        }
        let message = "Disrupting Node: Empty";
        self.tell(Notice::about(Kind::NodeClaim, &claim.metadata, "DisruptionTerminating", message), now);
        self.write(job, on(Kind::NodeClaim, &claim.metadata, Op::Delete { grace: None }));
    }

    /// Whether a node can go without anybody missing it.
    fn is_removable(&self, claim: &NodeClaim, now: Timestamp) -> bool {
        let status = claim.status.clone().unwrap_or_default();
        let Some(node) = self.node_of(claim) else { return false };
        let name = node.metadata.name.as_deref().unwrap_or_default();
        conditions::is_true(&status.conditions, conditions::CONSOLIDATABLE)
            && is_initialized(claim)
            && !is_kept(claim.metadata.annotations.as_ref())
            && !is_kept(node.metadata.annotations.as_ref())
            && self
                .view
                .pods_on(name)
                .all(|pod| pod.goes_with_its_node() && (pod.is_finished || !pod.is_protected(now)))
            && !self.view.holds_reservation(name)
            && !self.is_expected(name)
    }

    /// The node of a NodeClaim.
    pub(super) fn node_of(&self, claim: &NodeClaim) -> Option<&Node> {
        let id = claim.status.as_ref()?.provider_id.as_deref();
        let name = self.view.nodes_of(id).next()?.to_owned();
        self.view.nodes.get(&name).map(|node| &**node)
    }

    /// Takes the disruption taint off a node that nobody disrupts: an earlier process may have left it.
    pub(super) fn untaint(&mut self, node: &Node, claim: &NodeClaim) {
        let is_going = claim.metadata.deletion_timestamp.is_some()
            || node.metadata.deletion_timestamp.is_some()
            || claim.metadata.name.as_ref().is_some_and(|name| self.removals.contains_key(name));
        if is_going || disruption_taint(node).is_none() {
            return;
        }
        let taints = node.spec.as_ref().and_then(|spec| spec.taints.clone()).unwrap_or_default();
        let kept: Vec<Taint> = taints.into_iter().filter(|taint| !is_disruption(taint)).collect();
        let label = BTreeMap::from([("node.kubernetes.io/exclude-from-external-load-balancers", None::<String>)]);
        let patch = json!({"metadata": {"resourceVersion": node.metadata.resource_version, "labels": label},
            "spec": {"taints": kept}});
        let job = Job::Node(node.metadata.name.clone().unwrap_or_default());
        self.write(job, on(Kind::Node, &node.metadata, Op::Merge(patch)));
    }
}

fn disruption_taint(node: &Node) -> Option<&Taint> {
    node.spec.as_ref()?.taints.as_ref()?.iter().find(|taint| is_disruption(taint))
}

fn is_initialized(claim: &NodeClaim) -> bool {
    claim.status.as_ref().is_some_and(|status| conditions::is_true(&status.conditions, conditions::INITIALIZED))
}

fn is_kept(annotations: Option<&BTreeMap<String, String>>) -> bool {
    annotations.and_then(|all| all.get(labels::DO_NOT_DISRUPT)).is_some_and(|value| value == "true")
}
