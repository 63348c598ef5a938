//! Pods that come before others of their priority: those that are made in place of pods which were told to leave.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use berth_model::RowId;

/// By row of the input: the names of those of its pods that come before others of their priority.
pub type ComeFirst = BTreeMap<RowId, BTreeSet<Arc<str>>>;

/// Who comes first while a queue is worked off. Pods of a row are alike: it is counted how many of them come first, and those
/// that do are named first.
#[derive(Clone, Debug, Default)]
pub(super) struct First {
    names: ComeFirst,
    /// By row: how many of them are not placed yet.
    left: BTreeMap<RowId, u32>,
    /// Those that are named last, as they wait.
    last: BTreeMap<RowId, BTreeSet<Arc<str>>>,
}

// === impl First ===

impl First {
    /// These come first.
    pub(super) fn put(&mut self, names: ComeFirst) {
        let n_of = |names: &BTreeSet<Arc<str>>| u32::try_from(names.len()).unwrap_or(u32::MAX);
        self.left = names.iter().map(|(row, names)| (*row, n_of(names))).collect();
        self.names = names;
    }

    /// Others of their rows are named before these.
    pub(super) fn name_last(&mut self, names: BTreeMap<RowId, BTreeSet<Arc<str>>>) {
        self.last = names;
    }

    /// Whether nobody does.
    pub(super) fn is_empty(&self) -> bool {
        self.left.is_empty()
    }

    /// How many of a row are left of those who do.
    pub(super) fn left_of(&self, row: RowId) -> u32 {
        self.left.get(&row).copied().unwrap_or_default()
    }

    /// So many of a row are placed: as they are alike, those who come first are the first of them.
    pub(super) fn came(&mut self, row: RowId, count: u32) {
        if let Some(left) = self.left.get_mut(&row) {
            *left = left.saturating_sub(count);
        }
    }

    /// The queue is worked off. Who was placed is yet to be named.
    pub(super) fn end(&mut self) {
        self.left.clear();
    }

    /// The names of those of a row.
    pub(super) fn names_of(&self, row: RowId) -> Option<&BTreeSet<Arc<str>>> {
        self.names.get(&row)
    }

    /// The names of those of a row that are named last.
    pub(super) fn last_of(&self, row: RowId) -> Option<&BTreeSet<Arc<str>>> {
        self.last.get(&row)
    }
}
