//! The hash of a NodePool's template, by which nodes drift.

use std::hash::{Hash, Hasher};

use berth_api::{NodePool, labels};
use rustc_hash::FxHasher;

/// Which fields the hash covers, and how. Not Karpenter's: a hash of another version is replaced, it does not drift.
pub const HASH_VERSION: &str = "berth-v1";

/// The hash of what nodes of a pool are made from, its requirements aside: those may narrow without nodes drifting.
#[must_use]
pub fn template_hash(pool: &NodePool) -> String {
    let mut template = pool.spec.template.clone();
    template.spec.requirements.clear();
    let mut hasher = FxHasher::default();
    // Maps are ordered, so the text is the same for the same template.
    serde_json::to_string(&template).unwrap_or_default().hash(&mut hasher);
    hasher.finish().to_string()
}

/// Sets the hash of a changed NodePool, as a controller would: files have none. It differs from the hash before where the
/// template differs, whoever computed that one; so nodes tell by it whether they have drifted.
pub fn rehash(after: &mut NodePool, before: &NodePool) {
    let of = |key: &str| before.metadata.annotations.as_ref().and_then(|all| all.get(key)).cloned();
    let (Some(hash), version) = (of(labels::NODEPOOL_HASH), of(labels::NODEPOOL_HASH_VERSION)) else { return };
    let (was, is) = (template_hash(before), template_hash(after));
    let annotations = after.metadata.annotations.get_or_insert_default();
    annotations.insert(labels::NODEPOOL_HASH.to_owned(), if was == is { hash } else { is });
    match version {
        Some(version) => drop(annotations.insert(labels::NODEPOOL_HASH_VERSION.to_owned(), version)),
        None => drop(annotations.remove(labels::NODEPOOL_HASH_VERSION)),
    }
}
