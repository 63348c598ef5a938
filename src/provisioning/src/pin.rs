//! Labels of nodes to be launched: which value is decided, and which columns have it.

use berth_model::{ColumnId, ColumnTable, Requirement, Requirements, Sym};
use fixedbitset::FixedBitSet;

use crate::tables::Tables;

impl Tables<'_> {
    /// Narrows a set of columns to those with a label value; `None` if nothing remains.
    pub(crate) fn pin(
        &self,
        table: &ColumnTable,
        columns: &mut FixedBitSet,
        open: &mut Requirements,
        key: Sym,
        value: Sym,
    ) -> Option<()> {
        if table.decides(key) {
            let (_, with_value) = table.values(key).iter().find(|(known, _)| *known == value)?;
            columns.intersect_with(with_value);
            return (!columns.is_clear()).then_some(());
        }
        open.get(key)?;
        open.add(key, Requirement::value(value), &self.cluster.symbols);
        (!open.is_contradiction()).then_some(())
    }

    /// The value a node of the planned column would have for a label.
    pub(crate) fn value_on(
        &self,
        table: &ColumnTable,
        open: &Requirements,
        planned: ColumnId,
        key: Sym,
    ) -> Option<Sym> {
        if table.decides(key) {
            return table
                .values(key)
                .iter()
                .find(|(_, columns)| columns.contains(planned.index()))
                .map(|(value, _)| *value);
        }
        let values = open.get(key)?.finite_values()?;
        values.iter().copied().min_by_key(|&value| self.cluster.symbols.text(value))
    }
}
