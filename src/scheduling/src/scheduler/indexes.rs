//! The indexes that are kept, as many as memory allows; of too many those that were asked longest ago go first.

use berth_model::ClassId;
use rustc_hash::FxHashMap;

use super::buckets::BucketCache;
use super::groups::Change;
use super::index::Index;
use super::world::World;

/// Entries of indexes that may be kept whatever the size of the cluster, of all classes together.
const LEAST_ENTRIES: usize = 4_000_000;
/// Entries for each node, where that is more. An index takes at most one and a quarter for each node, so some hundred indexes
/// are kept. With fewer than there are sizes of pods, a look at one node after the other makes every index anew.
const ENTRIES_OF_NODE: usize = 128;

/// An index, by whom it is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum IndexId {
    /// The classes of a view.
    View(ClassId),
    /// All that ask for the same.
    Shared(u32),
}

#[derive(Clone, Debug)]
struct Known {
    /// Which question was the last.
    asked: u64,
    index: Index,
}

/// The indexes that are kept.
#[derive(Clone, Debug, Default)]
pub(super) struct Indexes {
    of: FxHashMap<IndexId, Known>,
    /// Entries of all of them.
    entries: usize,
    /// Counts questions, to tell which index was asked longest ago.
    asked: u64,
    /// The cells of some in the eyes of the classes that asked last.
    buckets: FxHashMap<IndexId, BucketCache>,
    /// Those that were asked in a trial.
    tried: Vec<IndexId>,
}

// === impl Indexes ===

impl Indexes {
    pub(super) fn contains(&self, id: IndexId) -> bool {
        self.of.contains_key(&id)
    }

    pub(super) fn get(&self, id: IndexId) -> Option<&Index> {
        self.of.get(&id).map(|known| &known.index)
    }

    /// An index that is asked where it is.
    pub(super) fn ask(&mut self, id: IndexId) -> Option<&Index> {
        self.asked += 1;
        let known = self.of.get_mut(&id)?;
        known.asked = self.asked;
        Some(&known.index)
    }

    /// An index, to be given back by [`Indexes::keep`].
    pub(super) fn take(&mut self, id: IndexId) -> Option<Index> {
        let Some(Known { index, .. }) = self.of.remove(&id) else {
            // What was known of an index is nothing to the one that is made in its place.
            self.buckets.remove(&id);
            return None;
        };
        self.entries = self.entries.saturating_sub(index.len());
        Some(index)
    }

    /// Keeps an index that was asked now.
    pub(super) fn keep(&mut self, id: IndexId, index: Index, world: World<'_>) {
        let most = LEAST_ENTRIES.max(ENTRIES_OF_NODE.saturating_mul(world.cluster.nodes.len()));
        self.asked += 1;
        self.entries += index.len();
        if world.ledger.groups.is_trial() && self.tried.last() != Some(&id) {
            self.tried.push(id);
        }
        if let Some(before) = self.of.insert(id, Known { asked: self.asked, index }) {
            self.entries = self.entries.saturating_sub(before.index.len());
        }
        while self.entries > most && self.of.len() > 1 {
            let oldest = self.of.iter().min_by_key(|(_, known)| known.asked).map(|(id, _)| *id);
            let Some(oldest) = oldest.filter(|id| self.take(*id).is_some()) else { return };
            self.buckets.remove(&oldest);
        }
    }

    /// The cells of an index in the eyes of the classes that asked last, to be given back by [`Indexes::keep_buckets`].
    pub(super) fn take_buckets(&mut self, id: IndexId) -> BucketCache {
        self.buckets.remove(&id).unwrap_or_default()
    }

    pub(super) fn keep_buckets(&mut self, id: IndexId, buckets: BucketCache) {
        if !buckets.is_empty() {
            self.buckets.insert(id, buckets);
        }
    }

    /// What a trial changed is changed back.
    pub(super) fn take_back(&mut self, undone: &[Change], world: World<'_>) {
        for id in std::mem::take(&mut self.tried) {
            if let Some(Known { asked, mut index }) = self.of.remove(&id) {
                self.entries = self.entries.saturating_sub(index.len());
                index.take_back(undone, world);
                self.entries += index.len();
                self.of.insert(id, Known { asked, index });
            }
        }
    }

    pub(super) fn clear(&mut self) {
        self.of.clear();
        self.buckets.clear();
        self.entries = 0;
    }

    /// Whether what is kept is counted.
    pub(super) fn is_counted(&self) -> bool {
        self.entries == self.of.values().map(|known| known.index.len()).sum::<usize>()
    }
}
