//! What a state tells the one that follows it.

use std::collections::{BTreeMap, BTreeSet};

use crate::entry::Entry;
use crate::slots::Cloud;
use crate::{Key, Kind};

/// What has changed in a state since it was told to a replica last.
#[derive(Clone, Debug, Default)]
pub(crate) struct Noted {
    pub(crate) told: Told,
    /// The objects, and whether decisions depend on what changed.
    pub(crate) keys: BTreeMap<Key, bool>,
    /// Whether the cloud said something else.
    pub(crate) cloud: bool,
    /// Whether it offers something else, counts aside.
    pub(crate) offers: bool,
}

/// What a replica is told: see [`take_update`](crate::State::take_update).
#[derive(Debug)]
pub struct Update {
    pub(crate) entries: Vec<(Key, Option<Entry>)>,
    pub(crate) cloud: Option<Cloud>,
    pub(crate) listed: BTreeSet<Kind>,
    pub(crate) next_assumption: u64,
    pub(crate) told: Told,
}

/// Which replica was told of a state, and how often: what comes of it can be adopted while it was told nothing more.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Told {
    pub(crate) replica: u64,
    pub(crate) n_updates: u64,
}

// === impl Update ===

impl Update {
    /// How many objects it tells of.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether it tells of no object.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }
}
