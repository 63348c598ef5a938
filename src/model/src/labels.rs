//! Label sets and label selectors.

use crate::{Requirements, Sym, Symbols};

/// Labels, sorted by the symbol of their key; a key is there once.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Labels(Box<[(Sym, Sym)]>);

impl Labels {
    /// From pairs; of several values for one key the last holds.
    pub fn new(pairs: impl IntoIterator<Item = (Sym, Sym)>) -> Self {
        let mut pairs: Vec<(Sym, Sym)> = pairs.into_iter().collect();
        pairs.sort_by_key(|(key, _)| *key);
        pairs.reverse();
        pairs.dedup_by_key(|(key, _)| *key);
        pairs.reverse();
        Labels(pairs.into())
    }

    /// The value of a key.
    pub fn get(&self, key: Sym) -> Option<Sym> {
        let at = self.0.binary_search_by_key(&key, |(known, _)| *known).ok()?;
        self.0.get(at).map(|(_, value)| *value)
    }

    /// All pairs, in order of the keys' symbols.
    pub fn iter(&self) -> impl Iterator<Item = (Sym, Sym)> + '_ {
        self.0.iter().copied()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// A label selector. `None` as requirements selects nothing (an absent selector); no requirement selects everything
/// (an empty selector), as in Kubernetes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Selector {
    /// What labels must satisfy, or `None` for a selector that selects nothing.
    pub requirements: Option<Requirements>,
}

impl Selector {
    /// Whether the labels are selected.
    pub fn matches(&self, labels: &Labels, symbols: &Symbols) -> bool {
        self.requirements.as_ref().is_some_and(|r| r.match_labels(symbols, |key| labels.get(key)))
    }
}
