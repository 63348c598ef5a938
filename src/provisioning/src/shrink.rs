//! The end of a packing: the cheapest column for what each node came to hold.

use berth_model::ColumnId;

use crate::ledger::Ledger;
use crate::listing::Listings;
use crate::share_tally::Move;
use crate::tables::Tables;
use crate::world::World;

impl World<'_> {
    // The cheapest paid column for a paid group, within limits and finite supplies.
    fn cheapest_column(self, index: usize) -> Option<ColumnId> {
        let bin = self.ledger.state.bins().get(index)?;
        let table = self.tables.table(bin.pool);
        if bin.nodes == 0 || table.is_reserved(bin.planned) {
            return None;
        }
        let load = if self.tables.shares.is_empty() { 0 } else { self.tables.shares.load(bin) };
        ColumnId::of(&bin.columns).filter(|&at| !table.is_reserved(at)).find(|&at| {
            if at == bin.planned {
                return true;
            }
            let before = Some((bin.planned, load));
            let moved =
                Move { pool: bin.pool, column: at, before, after: load, least_pod: self.tables.shares.least_pod(bin) };
            if !self.shares_allow(moved, bin.nodes) {
                return false;
            }
            let slots = table.column(at).slots;
            slots.is_none_or(|slot| self.ledger.state.free_slots(slot) >= bin.nodes)
                && self.allowance(bin.pool, at, Some(bin.planned)) >= bin.nodes
        })
    }
}

/// Plans, for every paid node, the cheapest column that holds its pods.
pub(crate) fn shrink(tables: &Tables<'_>, ledger: &mut Ledger, listings: &mut Listings) {
    for index in 0..ledger.state.bins().len() {
        let Some(column) = World::new(tables, ledger).cheapest_column(index) else { continue };
        let Some(bin) = ledger.state.bins().get(index).filter(|bin| bin.planned != column) else { continue };
        let pool = bin.pool;
        if !tables.may_lack_lists(pool) {
            ledger.move_bin(tables, index, column);
            continue;
        }
        let mark = ledger.state.mark();
        ledger.move_bin(tables, index, column);
        if !World::new(tables, ledger).keeps_lists(listings, pool) {
            ledger.state.rollback(mark);
        }
        ledger.state.forget(mark);
    }
}
