//! What was found when a question was asked, kept for the next one and brought up to date by what has changed. It could all
//! be made anew from tables and ledger: nothing is decided here.

use std::sync::Arc;

use berth_model::ClassId;

use super::groups::Change;
use super::index::Index;
use super::indexes::{IndexId, Indexes};
use super::shape::Shape;
use super::sharers::Sharers;
use super::victims::{Kept, Residents};
use super::view::Views;
use super::world::World;

/// What is kept between questions.
#[derive(Clone, Debug)]
pub(super) struct Caches {
    views: Views,
    pub(super) indexes: Indexes,
    /// Which classes share indexes.
    pub(super) sharers: Sharers,
    /// Whether cells that a class cannot tell apart are looked at together where there are many.
    pub(super) merges_cells: bool,
    /// The pods that may give way; made when they are needed first.
    pub(super) residents: Option<Arc<Residents>>,
    /// Where room could be made for pods of the class that was asked about last.
    pub(super) kept: Option<Kept>,
}

// === impl Caches ===

impl Caches {
    pub(super) fn new(views: Views) -> Self {
        Caches {
            views,
            indexes: Indexes::default(),
            sharers: Sharers::new(),
            merges_cells: true,
            residents: None,
            kept: None,
        }
    }

    /// With other views, while nothing is kept yet.
    pub(super) fn set_views(&mut self, views: Views) {
        self.views = views;
    }

    /// What is left of it between two decisions.
    pub(super) fn rest(self) -> Self {
        debug_assert!(self.indexes.is_counted(), "what is kept is counted");
        Caches { merges_cells: true, residents: None, kept: None, ..self }
    }

    /// The index that a class has for its view.
    pub(super) fn index_of(&self, id: ClassId) -> IndexId {
        IndexId::View(self.views.of(id))
    }

    /// A class's index, brought up to date; to be given back by [`Caches::keep_index`].
    pub(super) fn take_index(&mut self, world: World<'_>, id: ClassId) -> Option<Index> {
        let Some(mut index) = self.indexes.take(self.index_of(id)) else {
            return Some(Index::new(Shape::of(world.tables, id)?, world));
        };
        if index.shape.class == id && index.knows_nodes(world) {
            index.catch_up(world);
        } else {
            index.look_as(Shape::of(world.tables, id)?, world);
        }
        Some(index)
    }

    /// Keeps a class's index.
    pub(super) fn keep_index(&mut self, world: World<'_>, id: ClassId, index: Index) {
        self.indexes.keep(self.index_of(id), index, world);
    }

    /// Runs `ask` with a class's index, brought up to date.
    pub(super) fn with_index<T>(&mut self, world: World<'_>, id: ClassId, ask: impl FnOnce(&Index) -> T) -> Option<T> {
        let index = self.take_index(world, id)?;
        let answer = ask(&index);
        self.keep_index(world, id, index);
        Some(answer)
    }

    /// What a trial changed is changed back; tables and ledger are as they were.
    pub(super) fn take_back(&mut self, undone: &[Change], world: World<'_>) {
        self.sharers.take_back(undone, &self.indexes, world);
        self.indexes.take_back(undone, world);
    }
}
