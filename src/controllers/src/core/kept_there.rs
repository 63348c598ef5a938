//! Pods that nothing lets leave their node, though it goes away and waits for them: they must not be disrupted, or their budgets never
//! let them go. Nobody knows whether they will ever leave, so no node is launched for them, as in Karpenter: it would stand empty. Once
//! they have left all the same, those who are made in their stead get one.

use std::collections::BTreeSet;
use std::sync::Arc;

use berth_api::labels;
use berth_state::PodRecord;
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::api::policy::v1::{PodDisruptionBudget, PodDisruptionBudgetSpec};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use super::Core;
use super::awaited::text;
use crate::claim::{conditions, is_ready};
use crate::view::Protected;

impl Core {
    /// By `namespace/name`.
    pub(super) fn pods_that_stay(&self) -> Arc<BTreeSet<Box<str>>> {
        let leaving = self.view.tainted.iter().filter_map(|name| self.view.nodes.get(name));
        let nodes = leaving.filter(|node| self.drains_for_ever(node)).filter_map(|node| node.metadata.name.as_deref());
        let pods = nodes.flat_map(|node| self.view.pods_on(node)).filter(|pod| {
            let is_never_evicted = || {
                let known = self.state.pod(&pod.name.namespace, &pod.name.name);
                known.is_some_and(|known| self.is_never_evicted(known))
            };
            pod.deletion.is_none() && (pod.do_not_disrupt == Some(Protected::Always) || is_never_evicted())
        });
        Arc::new(pods.map(|pod| text(&pod.name)).collect())
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

    /// Whether the budgets of a pod allow no eviction however many others are ready.
    fn is_never_evicted(&self, pod: &PodRecord) -> bool {
        let is_its = |budget: &&Arc<PodDisruptionBudget>| {
            let selector = budget.spec.as_ref().and_then(|spec| spec.selector.as_ref());
            budget.metadata.namespace.as_deref() == Some(pod.namespace())
                && selector.is_some_and(|selector| pod.is_selected_by(selector))
        };
        let mut budgets = self.state.all::<PodDisruptionBudget>().filter(is_its);
        match (budgets.next(), budgets.next()) {
            (Some(budget), None) => budget.spec.as_ref().is_some_and(|spec| allows_none(spec) && !frees(spec, pod)),
            // The API server evicts no pod of two budgets.
            (first, _) => first.is_some(),
        }
    }
}

fn allows_none(spec: &PodDisruptionBudgetSpec) -> bool {
    let is_zero = match &spec.max_unavailable {
        Some(IntOrString::Int(number)) => *number == 0,
        Some(IntOrString::String(text)) => text == "0%",
        None => false,
    };
    is_zero || matches!(&spec.min_available, Some(IntOrString::String(text)) if text == "100%")
}

/// Whether a budget lets go of a pod that is not ready, whatever it allows.
fn frees(spec: &PodDisruptionBudgetSpec, pod: &PodRecord) -> bool {
    let is_ready = pod.conditions().iter().any(|condition| condition.type_ == "Ready" && condition.status == "True");
    spec.unhealthy_pod_eviction_policy.as_deref() == Some("AlwaysAllow") && !is_ready
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn only_a_budget_of_none_or_of_all_lets_nobody_go_for_ever() {
        let of = |spec: Value| allows_none(&serde_json::from_value::<PodDisruptionBudgetSpec>(spec).unwrap());
        for spec in [json!({"maxUnavailable": 0}), json!({"maxUnavailable": "0%"}), json!({"minAvailable": "100%"})] {
            assert!(of(spec.clone()), "{spec}");
        }
        for spec in [json!({"maxUnavailable": 1}), json!({"minAvailable": 0}), json!({"minAvailable": "0%"}), json!({})]
        {
            assert!(!of(spec.clone()), "{spec}");
        }
    }
}
