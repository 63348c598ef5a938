//! Initialisation: the node is ready, what had to come up on it has, and its resources are there.

use berth_api::labels;
use berth_quantity::Quantity;
use k8s_openapi::api::core::v1::{Node, Taint};
use serde_json::json;

use super::conditions::{self, Status};
use super::{Facts, Todo, on};
use crate::kind::Kind;
use crate::write::Op;

/// Taints that Kubernetes takes off by itself once the node works.
const EPHEMERAL: [&str; 4] = [
    "node.kubernetes.io/not-ready",
    "node.kubernetes.io/unreachable",
    "node.cloudprovider.kubernetes.io/uninitialized",
    labels::UNREGISTERED_TAINT,
];

/// The next step of a NodeClaim whose node is registered and not initialised.
pub(super) fn step(facts: &Facts<'_>) -> Todo {
    let waits = |reason: &str, message: &str| {
        facts
            .condition(conditions::INITIALIZED, Status::Unknown, reason, message)
            .map_or_else(Todo::default, Todo::write)
    };
    let Some(node) = facts.node() else { return waits("NodeNotFound", "Node not registered with cluster") };
    if !is_ready(node) {
        return waits("NodeNotReady", "Node status is NotReady");
    }
    let taints = node.spec.as_ref().and_then(|spec| spec.taints.as_deref()).unwrap_or_default();
    let same = |a: &Taint, b: &Taint| a.key == b.key && a.effect == b.effect && a.value == b.value;
    if let Some(taint) =
        facts.claim.spec.startup_taints.iter().find(|wanted| taints.iter().any(|has| same(wanted, has)))
    {
        return waits("StartupTaintsExist", &format!("StartupTaint \"{}:{}\" still exists", taint.key, taint.effect));
    }
    if let Some(taint) = taints.iter().find(|taint| EPHEMERAL.contains(&taint.key.as_str())) {
        let message = format!("KnownEphemeralTaint \"{}:{}\" still exists", taint.key, taint.effect);
        return waits("KnownEphemeralTaintsExist", &message);
    }
    if let Some(resource) = missing_resource(facts, node) {
        return waits("ResourceNotRegistered", &format!("Resource \"{resource}\" was requested but not registered"));
    }
    let is_labelled = node.metadata.labels.as_ref().is_some_and(|all| all.get(labels::INITIALIZED).is_some());
    if !is_labelled {
        let patch = json!({"metadata": {"labels": {labels::INITIALIZED: "true"}}});
        return Todo::write(on(Kind::Node, &node.metadata, Op::Merge(patch)));
    }
    let done = facts.condition(conditions::INITIALIZED, Status::True, conditions::INITIALIZED, "");
    done.map_or_else(Todo::default, Todo::write)
}

/// Whether the kubelet says that the node works.
pub(crate) fn is_ready(node: &Node) -> bool {
    let conditions = node.status.as_ref().and_then(|status| status.conditions.as_deref()).unwrap_or_default();
    conditions.iter().any(|condition| condition.type_ == "Ready" && condition.status == "True")
}

/// A resource that was asked for and that the node does not have yet, such as a GPU before its plugin runs.
fn missing_resource<'a>(facts: &'a Facts<'_>, node: &Node) -> Option<&'a str> {
    let allocatable = node.status.as_ref().and_then(|status| status.allocatable.as_ref());
    let has = |name: &str| {
        let amount = allocatable.and_then(|all| all.get(name))?;
        amount.0.parse::<Quantity>().ok().filter(|amount| *amount != Quantity::default())
    };
    let requests = facts.claim.spec.resources.requests.iter();
    let missing = requests.filter(|(name, amount)| **amount != Quantity::default() && has(name).is_none());
    missing.map(|(name, _)| name.as_str()).next()
}
