//! Hydration: NodeClaims and nodes that Karpenter or an earlier Berth made get what they lack, and do not drift for it.

use std::collections::BTreeMap;

use berth_api::{NodeClaim, NodePool, labels};
use serde_json::{Map, Value, json};

use super::{Facts, conditions, on};
use crate::kind::Kind;
use crate::write::{Op, Write};
use berth_disruption::{HASH_VERSION, template_hash};

/// What is to be added, if anything is: to the NodeClaim first, then to its node.
pub(super) fn step(facts: &Facts<'_>) -> Option<Write> {
    let claim = facts.claim;
    let class = claim.spec.node_class_ref.as_ref()?;
    let key = labels::node_class(&class.group, &class.kind);
    let lacks = |known: Option<&BTreeMap<String, String>>| {
        known.and_then(|all| all.get(&key)).is_none_or(|name| *name != class.name)
    };
    let mut metadata = Map::new();
    if lacks(claim.metadata.labels.as_ref()) {
        metadata.insert("labels".to_owned(), json!({(key.clone()): class.name}));
    }
    if let Some(annotations) = facts.pool.and_then(|pool| hash_annotations(claim, pool)) {
        metadata.insert("annotations".to_owned(), annotations);
    }
    if !metadata.is_empty() {
        metadata.insert("resourceVersion".to_owned(), json!(claim.metadata.resource_version));
        return Some(facts.merge(json!({"metadata": metadata})));
    }
    // One that is not registered yet gets the labels of its NodeClaim as it is.
    let is_registered = conditions::is_true(&facts.status().conditions, conditions::REGISTERED);
    let node = facts.node().filter(|node| is_registered && lacks(node.metadata.labels.as_ref()))?;
    let patch = json!({"metadata": {"labels": {(key): class.name}}});
    Some(on(Kind::Node, &node.metadata, Op::Merge(patch)))
}

/// Whether a NodeClaim has a hash that its NodePool's cannot be compared with.
pub(crate) fn has_foreign_hash(claim: &NodeClaim) -> bool {
    annotation(claim.metadata.annotations.as_ref(), labels::NODEPOOL_HASH_VERSION) != Some(HASH_VERSION)
}

/// The hash of today's version. One that had drifted from its template keeps the old hash, which is none of today's: whoever
/// replaces the NodePool's own hash waits until all its NodeClaims were looked at.
fn hash_annotations(claim: &NodeClaim, pool: &NodePool) -> Option<Value> {
    if !has_foreign_hash(claim) {
        return None;
    }
    let own = |key| annotation(claim.metadata.annotations.as_ref(), key);
    let of_pool = |key| annotation(pool.metadata.annotations.as_ref(), key);
    let version = own(labels::NODEPOOL_HASH_VERSION);
    let has_drifted = if version.is_some() && version == of_pool(labels::NODEPOOL_HASH_VERSION) {
        own(labels::NODEPOOL_HASH) != of_pool(labels::NODEPOOL_HASH)
    } else {
        // What was found before stands, as the hashes themselves say nothing.
        let all = claim.status.as_ref().map(|status| &status.conditions[..]).unwrap_or_default();
        let drifted = conditions::get(all, conditions::DRIFTED);
        drifted.is_some_and(|known| known.status == "True" && known.reason == "NodePoolDrifted")
    };
    let mut annotations = json!({labels::NODEPOOL_HASH_VERSION: HASH_VERSION});
    if !has_drifted || own(labels::NODEPOOL_HASH).is_none() {
        annotations[labels::NODEPOOL_HASH] = json!(template_hash(pool));
    }
    Some(annotations)
}

fn annotation<'a>(all: Option<&'a BTreeMap<String, String>>, key: &str) -> Option<&'a str> {
    all?.get(key).map(String::as_str)
}
