//! The end of a packing: the cheapest column for what each node came to hold.

use crate::planner::Planner;
use crate::shares::Move;

impl Planner<'_> {
    /// Plans, for every paid node, the cheapest column that holds its pods.
    pub(crate) fn shrink(&mut self) {
        for index in 0..self.ledger.state.bins().len() {
            let Some(column) = self.cheapest_column(index) else { continue };
            let Some(bin) = self.ledger.state.bins().get(index).filter(|bin| bin.planned != column) else { continue };
            let pool = bin.pool;
            if !self.limits_lists(pool) {
                self.move_bin(index, column);
                continue;
            }
            let mark = self.ledger.state.mark();
            self.move_bin(index, column);
            if !self.keeps_lists(pool) {
                self.ledger.state.rollback(mark);
            }
            self.ledger.state.forget(mark);
        }
    }

    // The cheapest paid column for a paid group, within limits and finite supplies.
    fn cheapest_column(&self, index: usize) -> Option<usize> {
        let bin = self.ledger.state.bins().get(index)?;
        let table = self.tables.columns.get(bin.pool)?;
        if bin.nodes == 0 || table.reserved.contains(bin.planned) {
            return None;
        }
        let load = if self.ledger.shares.is_empty() { 0 } else { self.ledger.shares.load(bin) };
        bin.columns.ones().filter(|&at| !table.reserved.contains(at)).find(|&at| {
            if at == bin.planned {
                return true;
            }
            let before = Some((bin.planned, load));
            let moved =
                Move { pool: bin.pool, column: at, before, after: load, least_pod: self.ledger.shares.least_pod(bin) };
            if !self.shares_allow(moved, bin.nodes) {
                return false;
            }
            let slots = table.columns.get(at).and_then(|column| column.slots);
            slots.is_none_or(|slot| self.ledger.state.free_slots(slot) >= bin.nodes)
                && self.allowance(bin.pool, at, Some(bin.planned)) >= bin.nodes
        })
    }
}
