//! Which classes share which index, and what is kept for each beside it.

use std::sync::Arc;

use berth_model::{ClassId, CounterId, PodSpec, Sym};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use super::counted::CountedNodes;
use super::groups::Change;
use super::indexes::{IndexId, Indexes};
use super::shape::Shape;
use super::world::World;

/// Such nodes that are kept at most, of all classes together.
const MOST_KEPT: usize = 4_000_000;

/// All that a shared index reads of a class.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Asked {
    pub(super) spec: Arc<PodSpec>,
    pub(super) keys: Vec<Sym>,
}

/// What a sharer is made of: with another one, it is to be made anew.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SharerVersion {
    /// [`super::groups::Groups::version`].
    pub(super) nodes: u64,
    /// [`Sharers::version`].
    pub(super) launchable: u64,
}

/// A class that shares an index.
#[derive(Debug)]
pub(super) struct Sharer {
    /// When it was made.
    pub(super) version: SharerVersion,
    pub(super) index: u32,
    pub(super) shape: Shape,
    /// Counters by node that matter.
    pub(super) counters: SmallVec<[CounterId; 2]>,
    /// By spread rule on hosts: on how many nodes it counts.
    pub(super) n_counted: SmallVec<[u32; 1]>,
}

/// The classes that share indexes.
#[derive(Clone, Debug, Default)]
pub(super) struct Sharers {
    /// Whether classes share indexes.
    pub(super) is_used: bool,
    /// `None` for those that do not.
    pub(super) of_class: FxHashMap<ClassId, Option<Arc<Sharer>>>,
    pub(super) ids: FxHashMap<Asked, u32>,
    /// Changes with what could be launched.
    pub(super) version: u64,
    /// The nodes with pods that a class counts on the host name; none of classes that count none.
    pub(super) counted: FxHashMap<ClassId, CountedNodes>,
    /// How many these are.
    n_kept: usize,
    /// Whose nodes were looked at again in a trial.
    pub(super) tried: Vec<ClassId>,
}

// === impl Sharers ===

impl Sharers {
    pub(super) fn new() -> Self {
        Sharers { is_used: true, ..Sharers::default() }
    }

    /// What could be launched is another.
    pub(super) fn launchable_changed(&mut self) {
        self.version += 1;
    }

    /// Keeps the nodes of a class; forgets all where they are too many.
    pub(super) fn keep_counted(&mut self, id: ClassId, counted: CountedNodes) {
        if self.n_kept + counted.len() > MOST_KEPT {
            self.counted.clear();
            self.n_kept = 0;
        }
        self.n_kept += counted.len();
        if let Some(before) = self.counted.insert(id, counted) {
            self.n_kept = self.n_kept.saturating_sub(before.len());
        }
    }

    /// The nodes of a class, to be given back by [`Sharers::keep_counted`].
    pub(super) fn take_counted(&mut self, id: ClassId) -> Option<CountedNodes> {
        let counted = self.counted.remove(&id)?;
        self.n_kept = self.n_kept.saturating_sub(counted.len());
        Some(counted)
    }

    /// What was changed is changed back.
    pub(super) fn take_back(&mut self, undone: &[Change], indexes: &Indexes, world: World<'_>) {
        for id in std::mem::take(&mut self.tried) {
            let Some(mut counted) = self.take_counted(id) else { continue };
            let sharer = self.of_class.get(&id).cloned().flatten();
            let index = indexes.get(IndexId::Shared(counted.beside));
            if let (Some(sharer), Some(index)) = (sharer, index) {
                counted.take_back(undone, &sharer.shape, index, world);
                self.keep_counted(id, counted);
            }
        }
    }
}
