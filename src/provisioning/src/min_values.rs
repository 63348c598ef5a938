//! minValues: how many values of a label a claim has to leave open.

use berth_model::{Bin, ColumnId, ColumnTable, Requirement, Requirements};
use fixedbitset::FixedBitSet;

use crate::world::World;

/// Whether a set of columns keeps the pool's minValues (Strict). A paid node counts paid types; a node on a slot
/// counts types before the pin.
pub(crate) fn keeps_min_values(
    table: &ColumnTable,
    columns: &FixedBitSet,
    open: &Requirements,
    planned: ColumnId,
) -> bool {
    table.min_values.iter().all(|&(key, least)| {
        if !table.decides(key) {
            return open.get(key).and_then(Requirement::finite_values).is_none_or(|v| v.len() >= least as usize);
        }
        let counted = |columns_with: &FixedBitSet| {
            if table.is_reserved(planned) {
                !columns.is_disjoint(columns_with)
            } else {
                columns.intersection(columns_with).any(|at| !table.reserved.contains(at))
            }
        };
        let least = least as usize;
        table.values(key).iter().filter(|(_, with)| counted(with)).take(least).count() >= least
    })
}

impl World<'_> {
    /// Whether what a claim may list of a set of columns (limits and finite supplies permitting) keeps the pool's minValues.
    pub(crate) fn keeps_min_values_within_limits(
        self,
        bin: &Bin,
        columns: &FixedBitSet,
        open: &Requirements,
        planned: ColumnId,
    ) -> bool {
        let table = self.tables.table(bin.pool);
        if table.min_values.is_empty() {
            return true;
        }
        // A node that is being opened is not debited yet.
        let instead = (!bin.contents.is_empty()).then_some(bin.planned);
        let mut within = columns.clone();
        let is_tight = self.tables.is_limited(bin.pool) && self.is_tight(bin.pool);
        let price = table.column(planned).price;
        for at in ColumnId::of(columns).filter(|&at| at != planned) {
            let is_finite_paid = !table.is_reserved(at) && table.column(at).slots.is_some();
            // Shares may rule out what is cheaper, and a claim lists nothing cheaper than is planned.
            let is_cheaper = !self.tables.shares.is_empty() && !table.is_reserved(at) && table.column(at).price < price;
            if is_finite_paid || is_cheaper || (is_tight && self.allowance(bin.pool, at, instead) == 0) {
                within.set(at.index(), false);
            }
        }
        keeps_min_values(table, &within, open, planned)
    }
}
