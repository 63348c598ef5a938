//! Repair, behind the gate `NodeRepair`: a node that has not been ready for long is replaced, as its pods are of no use. Where
//! more than a fifth of a NodePool's nodes are not ready the fault is elsewhere, and none of them is.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use serde_json::json;

use super::{Facts, Todo, conditions, earlier};
use crate::clock::after;

/// For how long a node may not be ready, as in Karpenter's AWS provider.
const TOLERATED: Duration = Duration::from_secs(30 * 60);
/// The share of a NodePool's nodes that may not be ready, in percent, rounded up to whole nodes.
const MOST_PERCENT: usize = 20;
/// How soon it is asked again whether the others are ready.
const RETRY: Duration = Duration::from_secs(60);

/// The nodes of a NodePool, as repair counts them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Health {
    pub(crate) total: usize,
    pub(crate) not_ready: usize,
}

/// Since when a node has not been ready; `None` where it is, or never said.
pub(crate) fn not_ready_since(node: &Node) -> Option<Timestamp> {
    let conditions = node.status.as_ref()?.conditions.as_deref()?;
    let ready = conditions.iter().find(|condition| condition.type_ == "Ready" && condition.status != "True")?;
    ready.last_transition_time.as_ref().map(|time| time.0)
}

/// The repair of a node, where it is due; else `todo`, looked at again in time.
pub(super) fn step(facts: &Facts<'_>, todo: Todo) -> Todo {
    let Some(health) = facts.health else { return todo };
    if !conditions::is_true(&facts.status().conditions, conditions::INITIALIZED) {
        return todo;
    }
    let Some(since) = facts.nodes.iter().filter_map(|node| not_ready_since(node)).min() else { return todo };
    let due = after(since, TOLERATED);
    if due > facts.now {
        return earlier(todo, due);
    }
    if health.not_ready > (health.total * MOST_PERCENT).div_ceil(100) {
        let Health { total, not_ready } = health;
        let message =
            format!("{not_ready} of {total} nodes of its NodePool are not ready: more than 20% are not repaired");
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
    Todo::write(facts.delete()).telling(facts.notice("Repairing", format!("the node has not been ready since {since}")))
}
