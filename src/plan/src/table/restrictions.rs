//! What the plan was restricted by, and what that costs.

use std::io::{self, Write};

use super::RowLimit;
use super::grid::{Column, Grid};
use crate::Plan;
use crate::decimal::rounded;
use crate::restrictions::{largest, name, unplaced};

/// Writes a row a restriction; of those without a cost, where costs were not asked for, shares alone.
pub(super) fn write<W: Write>(plan: &Plan, rows: RowLimit, writer: &mut W) -> io::Result<()> {
    let all = &plan.solution.restrictions;
    if all.is_empty() {
        return Ok(());
    }
    let (has_shares, has_costs) =
        (all.iter().any(|known| !known.values.is_empty()), all.iter().any(|known| known.cost.is_some()));
    let mut columns = vec![Column::Text("RESTRICTION")];
    columns.extend(has_shares.then_some(Column::Text("LARGEST SHARE")));
    columns.extend(has_costs.then_some(Column::Money("COSTS $/H")));
    columns.extend(has_costs.then_some(Column::Number("LEAVES OUT")));
    let mut grid = Grid::new(&columns);
    for known in all {
        let mut row = vec![name(plan, known)];
        row.extend(has_shares.then(|| largest(known)));
        if has_costs {
            row.push(known.cost.map_or_else(String::new, |cost| rounded(cost.hourly, 4)));
            row.push(unplaced(known));
        }
        grid.row(row);
    }
    grid.write("Restrictions", rows, writer)
}
