//! Maps and sets in the order of insertion, with keys of our own choice.

use berth_model::Keyed;
use indexmap::{IndexMap, IndexSet};
use rustc_hash::FxBuildHasher;

pub(crate) type FxIndexMap<K, V> = IndexMap<K, V, FxBuildHasher>;
pub(crate) type FxIndexSet<T> = IndexSet<T, FxBuildHasher>;

/// Texts in the order in which they came. They have names in them that anybody may choose, so it hashes with the cluster's key.
pub(crate) type Texts = IndexSet<String, Keyed>;

/// A position, as others keep it.
pub(crate) fn index(position: usize) -> u32 {
    u32::try_from(position).unwrap_or(u32::MAX)
}
