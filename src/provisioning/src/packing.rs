//! A packing: how it goes about what it reads. What it changes is handed to it.

use crate::ledger::Ledger;
use crate::strategy::Strategy;
use crate::tables::Tables;
use crate::world::World;

/// What a packing reads and never changes.
#[derive(Clone, Copy)]
pub(crate) struct Packing<'p, 'a> {
    pub(crate) tables: &'p Tables<'a>,
    pub(crate) strategy: Strategy,
}

// === impl Packing ===

impl Packing<'_, '_> {
    /// What is there now.
    pub(crate) fn world<'w>(&'w self, ledger: &'w Ledger) -> World<'w> {
        World::new(self.tables, ledger)
    }
}
