//! Repair, behind the gate `NodeRepair`: a node whose machine is broken for long is replaced, as its pods are of no use. Which
//! conditions of a node say so, and how long they are borne, is the cloud's to know. Where more than a fifth of a NodePool's nodes
//! are broken the fault is elsewhere, and none of them is replaced.

use std::time::Duration;

use berth_cloudprovider::RepairPolicy;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use serde_json::json;

use super::{Facts, Todo, conditions, earlier};
use crate::clock::after;

/// The share of a NodePool's nodes that may be broken, in percent, rounded up to whole nodes.
const MOST_PERCENT: usize = 20;
/// How soon it is asked again whether the others are sound.
const RETRY: Duration = Duration::from_secs(60);

/// The nodes of a NodePool, as repair counts them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Health {
    pub(crate) total: usize,
    pub(crate) broken: usize,
}

/// What is wrong with a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Fault<'a> {
    /// When it is to be replaced.
    due: Timestamp,
    since: Timestamp,
    policy: &'a RepairPolicy,
}

// === impl Fault ===

impl Fault<'_> {
    /// The type of the condition that says it.
    pub(crate) fn condition(&self) -> &str {
        &self.policy.condition_type
    }
}

/// The fault of a node that is due first, by what its cloud says of conditions; `None` where it is sound, or never said.
pub(crate) fn fault<'a>(node: &Node, policies: &'a [RepairPolicy]) -> Option<Fault<'a>> {
    let conditions = node.status.as_ref()?.conditions.as_deref()?;
    let faults = policies.iter().flat_map(|policy| {
        let of_policy = conditions
            .iter()
            .filter(|known| known.type_ == policy.condition_type && known.status == policy.condition_status);
        of_policy.filter_map(|known| known.last_transition_time.as_ref()).map(|time| Fault {
            due: after(time.0, policy.toleration),
            since: time.0,
            policy,
        })
    });
    faults.min_by_key(|fault| (fault.due, fault.since))
}

/// The repair of a node, where it is due; else `todo`, looked at again in time.
pub(super) fn step(facts: &Facts<'_>, todo: Todo) -> Todo {
    let Some(health) = facts.health else { return todo };
    if !conditions::is_true(&facts.status().conditions, conditions::INITIALIZED) {
        return todo;
    }
    let faults = facts.nodes.iter().filter_map(|node| fault(node, facts.repair_policies));
    let Some(Fault { due, since, policy }) = faults.min_by_key(|fault| fault.due) else { return todo };
    if due > facts.now {
        return earlier(todo, due);
    }
    if health.broken > (health.total * MOST_PERCENT).div_ceil(100) {
        let Health { total, broken } = health;
        let message = format!("{broken} of {total} nodes of its NodePool are broken: more than 20% are not repaired");
        return earlier(todo.telling(facts.notice("NodeRepairBlocked", message)), after(facts.now, RETRY));
    }
    let annotations = facts.claim.metadata.annotations.as_ref();
    let has_deadline = annotations.is_some_and(|all| all.contains_key(berth_api::labels::TERMINATION_TIMESTAMP));
    if !has_deadline {
        // Nothing answers on the node: its pods are not waited for.
        return Todo::write(facts.merge(json!({"metadata": {
            "resourceVersion": facts.claim.metadata.resource_version,
            "annotations": {berth_api::labels::TERMINATION_TIMESTAMP: facts.now.to_string()},
        }})));
    }
    let message =
        format!("the node's condition {} is {} since {since}", policy.condition_type, policy.condition_status);
    Todo::write(facts.delete()).telling(facts.notice("Repairing", message))
}
