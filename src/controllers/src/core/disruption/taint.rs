//! The taint of nodes that go, and taking it off those that stay after all.

use std::collections::BTreeMap;

use berth_api::NodeClaim;
use k8s_openapi::api::core::v1::{Node, Taint};
use serde_json::json;

use crate::claim::{conditions, is_disruption, on};
use crate::core::{Core, Job};
use crate::kind::Kind;
use crate::write::Op;

impl Core {
    /// The node of a NodeClaim.
    pub(in crate::core) fn node_of(&self, claim: &NodeClaim) -> Option<&Node> {
        let id = claim.status.as_ref()?.provider_id.as_deref();
        let name = self.view.nodes_of(id).next()?.to_owned();
        self.view.nodes.get(&name).map(|node| &**node)
    }

    /// Whether a node is on its way out.
    pub(in crate::core) fn makes_way(&self, node: &Node) -> bool {
        let mut claims = self.view.claims_of_node(node);
        node.metadata.deletion_timestamp.is_some()
            || disruption_taint(node).is_some()
            || claims.any(|claim| claim.metadata.deletion_timestamp.is_some())
    }

    /// Takes the disruption's taint off a node that nobody disrupts, and then the condition off its NodeClaim: an earlier
    /// process may have left them.
    pub(in crate::core) fn untaint(&mut self, node: &Node, claim: &NodeClaim) {
        let is_going = claim.metadata.deletion_timestamp.is_some()
            || node.metadata.deletion_timestamp.is_some()
            || claim.metadata.name.as_ref().is_some_and(|name| self.disrupting.takes(name));
        if is_going {
            return;
        }
        let job = Job::Node(node.metadata.name.clone().unwrap_or_default());
        if disruption_taint(node).is_some() {
            let taints = node.spec.as_ref().and_then(|spec| spec.taints.clone()).unwrap_or_default();
            let kept: Vec<Taint> = taints.into_iter().filter(|taint| !is_disruption(taint)).collect();
            let label = BTreeMap::from([("node.kubernetes.io/exclude-from-external-load-balancers", None::<String>)]);
            let patch = json!({"metadata": {"resourceVersion": node.metadata.resource_version, "labels": label},
                "spec": {"taints": kept}});
            return self.write(job, on(Kind::Node, &node.metadata, Op::Merge(patch)));
        }
        let mut all = claim.status.clone().unwrap_or_default().conditions;
        if conditions::clear(&mut all, conditions::DISRUPTION_REASON) {
            let patch = json!({"metadata": {"resourceVersion": claim.metadata.resource_version},
                "status": {"conditions": all}});
            self.write(job, on(Kind::NodeClaim, &claim.metadata, Op::MergeStatus(patch)));
        }
    }
}

pub(super) fn disruption_taint(node: &Node) -> Option<&Taint> {
    node.spec.as_ref()?.taints.as_ref()?.iter().find(|taint| is_disruption(taint))
}

pub(super) fn is_initialized(claim: &NodeClaim) -> bool {
    claim.status.as_ref().is_some_and(|status| conditions::is_true(&status.conditions, conditions::INITIALIZED))
}
