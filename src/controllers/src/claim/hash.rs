//! The hash of a NodePool's template, by which nodes drift.

use std::hash::{Hash, Hasher};

use berth_api::NodePool;
use rustc_hash::FxHasher;

/// Which fields the hash covers, and how. Not Karpenter's: a hash of another version is replaced, it does not drift.
pub(crate) const HASH_VERSION: &str = "berth-v1";

/// The hash of what nodes of a pool are made from, its requirements aside: those may narrow without nodes drifting.
pub(crate) fn template_hash(pool: &NodePool) -> String {
    let mut template = pool.spec.template.clone();
    template.spec.requirements.clear();
    let mut hasher = FxHasher::default();
    // Maps are ordered, so the text is the same for the same template.
    serde_json::to_string(&template).unwrap_or_default().hash(&mut hasher);
    hasher.finish().to_string()
}
