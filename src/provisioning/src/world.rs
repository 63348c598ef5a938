//! What all who look at a plan read: tables, and the ledger as it is now.

use crate::ledger::Ledger;
use crate::tables::Tables;

/// Tables and ledger, to be read.
#[derive(Clone, Copy)]
pub(crate) struct World<'w> {
    pub(crate) tables: &'w Tables<'w>,
    pub(crate) ledger: &'w Ledger,
}

// === impl World ===

impl<'w> World<'w> {
    pub(crate) fn new(tables: &'w Tables<'w>, ledger: &'w Ledger) -> Self {
        World { tables, ledger }
    }
}
