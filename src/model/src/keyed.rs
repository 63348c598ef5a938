//! Hash maps of names that others choose.
//!
//! [`rustc_hash`] is quick and has no key: whoever may choose many names (of pods, labels, resources) can choose such as
//! share one hash, and looking one up then takes as long as there are names. These maps hash with a key that whoever makes a
//! cluster gives it ([`crate::Cluster::with_hash_key`]). No answer may depend on their order, which differs from key to key:
//! they are looked up, and never iterated.

use std::hash::BuildHasher;

/// A map of names, to be looked up only.
#[expect(clippy::disallowed_types, reason = "keyed, and never iterated")]
pub type KeyedMap<K, V> = std::collections::HashMap<K, V, Keyed>;

/// A set of names, to be looked up only.
#[expect(clippy::disallowed_types, reason = "keyed, and never iterated")]
pub type KeyedSet<K> = std::collections::HashSet<K, Keyed>;

/// Hashes with a key.
#[derive(Clone, Debug)]
pub struct Keyed(ahash::RandomState);

impl Keyed {
    /// Hashes with this key.
    pub fn with_key([a, b, c, d]: [u64; 4]) -> Self {
        Keyed(ahash::RandomState::with_seeds(a, b, c, d))
    }
}

/// With a key that everyone knows, as is right for tests, and for names that nobody else chooses.
impl Default for Keyed {
    fn default() -> Self {
        Self::with_key([0; 4])
    }
}

impl BuildHasher for Keyed {
    type Hasher = ahash::AHasher;

    fn build_hasher(&self) -> ahash::AHasher {
        self.0.build_hasher()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn which_names_collide_depends_on_the_key() {
        let low_bits = |key: [u64; 4]| {
            let hasher = Keyed::with_key(key);
            (0..64).map(|i| hasher.hash_one(format!("pod-{i}")) & 0xff).collect::<Vec<u64>>()
        };
        assert_eq!(low_bits([1, 2, 3, 4]), low_bits([1, 2, 3, 4]));
        assert_ne!(low_bits([1, 2, 3, 4]), low_bits([1, 2, 3, 5]));
    }
}
