//! Pods that nothing lets leave their node, though it goes away and waits for them: they must not be disrupted, or their budgets never
//! let them go. Nobody knows whether they will ever leave, so no node is launched for them, as in Karpenter: it would stand empty. Once
//! they have left all the same, those who are made in their stead get one.

use std::collections::BTreeSet;
use std::sync::Arc;

use berth_api::labels;
use k8s_openapi::api::core::v1::Node;

use super::Core;
use super::awaited::text;
use crate::claim::{conditions, is_ready};
use crate::view::Protected;

impl Core {
    /// By `namespace/name`.
    pub(super) fn pods_that_stay(&self) -> Arc<BTreeSet<Box<str>>> {
        let leaving = self.view.tainted.iter().filter_map(|name| self.view.nodes.get(name));
        let nodes = leaving.filter(|node| self.drains_for_ever(node)).filter_map(|node| node.metadata.name.as_deref());
        let pods = nodes.flat_map(|node| self.view.pods_on(node)).filter(|pod| pod.deletion.is_none());
        let (protected, others): (Vec<_>, Vec<_>) = pods.partition(|pod| pod.do_not_disrupt == Some(Protected::Always));
        let mut stay: BTreeSet<Box<str>> = protected.iter().map(|pod| text(&pod.name)).collect();
        if !others.is_empty() {
            let others = others.iter().filter_map(|pod| self.state.pod(&pod.name.namespace, &pod.name.name));
            let kept = berth_disruption::never_evicted(&self.state, others.map(|pod| &**pod));
            stay.extend(kept.into_iter().map(|pod| format!("{}/{}", pod.namespace(), pod.name()).into()));
        }
        Arc::new(stay)
    }

    /// Whether a node that goes away waits for its pods for as long as they stay.
    fn drains_for_ever(&self, node: &Node) -> bool {
        if !is_ready(node) {
            return false;
        }
        let Some(claim) = self.view.claims_of_node(node).next() else { return false };
        let status = claim.status.as_ref();
        let is_told_to_end =
            status.is_some_and(|status| conditions::is_true(&status.conditions, conditions::INSTANCE_TERMINATING));
        let has_deadline = claim.spec.termination_grace_period.is_some()
            || claim.metadata.annotations.as_ref().is_some_and(|all| all.contains_key(labels::TERMINATION_TIMESTAMP));
        let id = status.and_then(|status| status.provider_id.as_deref()).unwrap_or_default();
        claim.metadata.deletion_timestamp.is_some()
            && !has_deadline
            && !is_told_to_end
            && !self.interrupted.contains_key(id)
    }
}
