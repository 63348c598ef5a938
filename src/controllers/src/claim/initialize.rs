//! Initialisation: the node is ready, what had to come up on it has, and its resources are there.

use std::time::Duration;

use berth_api::labels;
use berth_quantity::Quantity;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, Taint};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde_json::json;

use super::conditions::{self, Status};
use super::{Facts, Todo, on};
use crate::clock::after;
use crate::kind::Kind;
use crate::write::Op;

/// Taints that Kubernetes takes off by itself once the node works.
const EPHEMERAL: [&str; 4] = [
    "node.kubernetes.io/not-ready",
    "node.kubernetes.io/unreachable",
    "node.cloudprovider.kubernetes.io/uninitialized",
    labels::UNREGISTERED_TAINT,
];

/// While a node comes up, what it lacks changes from moment to moment: another reason is told after so long.
const TOLD_AFTER: Duration = Duration::from_secs(10);

/// The next step of a NodeClaim whose node is registered and not initialised.
pub(super) fn step(facts: &Facts<'_>) -> Todo {
    let waits = |reason: &str, message: &str| {
        let Some(write) = facts.condition(conditions::INITIALIZED, Status::Unknown, reason, message) else {
            return Todo::default();
        };
        let told_at = unknown_since(facts).map(|since| after(since, TOLD_AFTER));
        told_at.filter(|told_at| *told_at > facts.now).map_or_else(|| Todo::write(write), Todo::wait)
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
    let generation = facts.claim.metadata.generation;
    let done = facts.change_status(|status| {
        let all = &mut status.conditions;
        let initialized = (conditions::INITIALIZED, Status::True);
        conditions::set(all, initialized, (conditions::INITIALIZED, ""), generation, facts.now);
        if super::consistent::missing(facts).is_empty() {
            let consistent = (conditions::CONSISTENT, Status::True);
            conditions::set(all, consistent, (conditions::CONSISTENT, ""), generation, facts.now);
        }
        // Pods that were quicker need no write of their own.
        if let Some(seen) = facts.last_pod_event {
            status.last_pod_event_time = Some(Time(conditions::whole_seconds(seen)));
        }
    });
    done.map_or_else(Todo::default, Todo::write)
}

/// Since when it is said that the node is not initialised yet.
fn unknown_since(facts: &Facts<'_>) -> Option<Timestamp> {
    let known = conditions::get(&facts.status().conditions, conditions::INITIALIZED)?;
    (known.status == "Unknown").then_some(known.last_transition_time.0)
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
