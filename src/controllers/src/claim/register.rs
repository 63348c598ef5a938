//! Registration: the node of the instance is matched with its NodeClaim, and gets what the NodeClaim promises.

use std::collections::BTreeMap;

use berth_api::labels;
use k8s_openapi::api::core::v1::{Node, Taint};
use serde_json::json;

use super::conditions::{self, Status};
use super::{Facts, Todo, created, has_finalizer, on};
use crate::clock::after;
use crate::kind::Kind;
use crate::notice::Notice;
use crate::write::Op;

/// The next step of a NodeClaim that is launched and whose node is not registered.
pub(super) fn step(facts: &Facts<'_>) -> Todo {
    match facts.nodes.as_slice() {
        [] => not_there(facts),
        [node] => sync(facts, node),
        _ => {
            let message = "several nodes have the provider id of this NodeClaim";
            let write = facts.condition(conditions::REGISTERED, Status::False, "MultipleNodesFound", message);
            write.map_or_else(|| not_there(facts), Todo::write)
        }
    }
}

fn not_there(facts: &Facts<'_>) -> Todo {
    let timeout = facts.timings.registration_timeout;
    // When it was launched is by our own clock; when it was created is by the API server's, which may be far from it.
    let launched =
        facts.claim.status.as_ref().and_then(|own| conditions::true_since(&own.conditions, conditions::LAUNCHED));
    let Some(deadline) = launched.or_else(|| created(&facts.claim.metadata)).map(|since| after(since, timeout)) else {
        return Todo::default();
    };
    if deadline <= facts.now {
        let message = format!("no node registered within {timeout:?}");
        return Todo::write(facts.delete()).telling(facts.notice("RegistrationTimeout", message));
    }
    Todo::wait(deadline)
}

fn sync(facts: &Facts<'_>, node: &Node) -> Todo {
    let known = node.metadata.labels.clone().unwrap_or_default();
    if known.get(labels::REGISTERED).map(String::as_str) == Some("true") && has_finalizer(&node.metadata) {
        let name = node.metadata.name.clone();
        let generation = facts.claim.metadata.generation;
        let write = facts.change_status(|status| {
            status.node_name = name;
            let (all, now) = (&mut status.conditions, facts.now);
            conditions::set(all, (conditions::REGISTERED, Status::True), (conditions::REGISTERED, ""), generation, now);
            let waiting = ("NodeNotReady", "Node status is NotReady");
            conditions::set(all, (conditions::INITIALIZED, Status::Unknown), waiting, generation, now);
        });
        return write.map_or_else(Todo::default, Todo::write);
    }
    let taints = node.spec.as_ref().and_then(|spec| spec.taints.clone()).unwrap_or_default();
    let was_held = taints.iter().any(|taint| taint.key == labels::UNREGISTERED_TAINT);
    let mut todo = Todo::write(on(Kind::Node, &node.metadata, Op::Merge(patch(facts, node, &known, &taints))));
    if !was_held {
        let message = "the node joined without the taint karpenter.sh/unregistered, so pods may have come early";
        todo = todo.telling(Notice::about(Kind::Node, &node.metadata, "UnregisteredTaintMissing", message));
    }
    todo
}

/// Labels, annotations, taints, owner and finalizer in one patch, over the version that was seen: there is no moment at
/// which the node is open to pods without its taints.
fn patch(facts: &Facts<'_>, node: &Node, known: &BTreeMap<String, String>, taints: &[Taint]) -> serde_json::Value {
    let claim = facts.claim;
    let mut wanted_labels = claim.metadata.labels.clone().unwrap_or_default();
    wanted_labels.insert(labels::REGISTERED.to_owned(), "true".to_owned());
    let own = |key: &String| !key.starts_with("berth.sh/launch-") && !key.starts_with("kubectl.kubernetes.io/");
    let annotations: BTreeMap<&String, &String> =
        claim.metadata.annotations.iter().flatten().filter(|(key, _)| own(key)).collect();
    let mut wanted: Vec<Taint> =
        taints.iter().filter(|taint| taint.key != labels::UNREGISTERED_TAINT).cloned().collect();
    if known.get(labels::DO_NOT_SYNC_TAINTS).map(String::as_str) != Some("true") {
        for taint in claim.spec.taints.iter().chain(&claim.spec.startup_taints) {
            if !wanted.iter().any(|known| known.key == taint.key && known.effect == taint.effect) {
                wanted.push(taint.clone());
            }
        }
    }
    let mut finalizers = node.metadata.finalizers.clone().unwrap_or_default();
    if !has_finalizer(&node.metadata) {
        finalizers.push(labels::TERMINATION_FINALIZER.to_owned());
    }
    let mut owners: Vec<_> = node.metadata.owner_references.clone().unwrap_or_default();
    let uid = facts.uid();
    if !owners.iter().any(|owner| owner.uid == uid) {
        owners.push(k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference {
            api_version: Kind::NodeClaim.api_version().to_owned(),
            kind: Kind::NodeClaim.as_str().to_owned(),
            name: claim.metadata.name.clone().unwrap_or_default(),
            uid,
            block_owner_deletion: Some(true),
            controller: None,
        });
    }
    json!({
        "metadata": {
            "resourceVersion": node.metadata.resource_version, "labels": wanted_labels, "annotations": annotations,
            "finalizers": finalizers, "ownerReferences": owners,
        },
        "spec": {"taints": wanted},
    })
}
