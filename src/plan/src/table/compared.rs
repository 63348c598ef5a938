//! Two plans beside each other, for people.

use std::io::{self, Write};

use berth_model::Money;

use super::grid::{Column, Grid};
use super::{HOURS_A_MONTH, RowLimit};
use crate::Plan;
use crate::compare::{self, Figures};
use crate::decimal::{rounded, thousands};

/// Names of nodes that a line lists.
const LISTED_NODES: usize = 5;

/// Writes `--repack`: the cluster as it stands beside a plan from scratch.
pub(super) fn write_repack<W: Write>(plan: &Plan, rows: RowLimit, writer: &mut W) -> io::Result<()> {
    let Some(scratch) = plan.scratch.as_deref() else { return Ok(()) };
    let (fleet, planned, scratch) = (&plan.fleet, Figures::of(plan), Figures::of(scratch));
    let mut grid = Grid::new(&[
        Column::Text("CLUSTER"),
        Column::Number("NODES"),
        Column::Number("UNSCHEDULABLE"),
        Column::Money("$/H"),
        Column::Money("$/MONTH"),
        Column::Money("LIST $/H"),
    ]);
    let mut row = |name: &str, nodes: u64, left: String, cost: Money, list: Money| {
        let month = rounded(cost.times(HOURS_A_MONTH), 0);
        grid.row([name.to_owned(), thousands(nodes), left, rounded(cost, 4), month, rounded(list, 4)]);
    };
    let of_nodes = |nodes: u64| plan.node_cost.times(nodes);
    row("now", fleet.nodes, String::new(), fleet.hourly_cost + of_nodes(fleet.nodes), fleet.list_cost);
    let with_plan = fleet.nodes + planned.nodes;
    let cost = fleet.hourly_cost + planned.hourly_cost + of_nodes(with_plan);
    row("with this plan", with_plan, thousands(planned.unschedulable), cost, fleet.list_cost + planned.list_cost);
    let cost = scratch.hourly_cost + scratch.node_cost;
    row("from scratch", scratch.nodes, thousands(scratch.unschedulable), cost, scratch.list_cost);
    grid.write("Planned from scratch", rows, writer)?;
    if !fleet.unpriced.is_empty() {
        let listed: Vec<&str> = fleet.unpriced.iter().take(LISTED_NODES).map(String::as_str).collect();
        let rest = fleet.unpriced.len() - listed.len();
        let rest = if rest > 0 { format!(" and {rest} more") } else { String::new() };
        writeln!(writer, "Without a price, as the catalogue does not have their type: {}{rest}.", listed.join(", "))?;
    }
    Ok(())
}

/// Writes `--diff`: what the second set of files changes.
pub(super) fn write_diff<W: Write>(plan: &Plan, rows: RowLimit, writer: &mut W) -> io::Result<()> {
    let Some(before) = plan.before.as_deref() else { return Ok(()) };
    let (was, is) = (Figures::of(before), Figures::of(plan));
    let mut grid = Grid::new(&[
        Column::Text("CHANGE"),
        Column::Number("PODS"),
        Column::Number("UNSCHEDULABLE"),
        Column::Number("NEW NODES"),
        Column::Money("$/H"),
        Column::Money("$/MONTH"),
    ]);
    for (name, figures) in [("before", was), ("after", is)] {
        let cost = figures.hourly_cost + figures.node_cost;
        grid.row([
            name.to_owned(),
            thousands(figures.pods),
            thousands(figures.unschedulable),
            thousands(figures.nodes),
            rounded(cost, 4),
            rounded(cost.times(HOURS_A_MONTH), 0),
        ]);
    }
    let adds = is.hourly_cost + is.node_cost - was.hourly_cost - was.node_cost;
    grid.row([
        "difference".to_owned(),
        signed(is.pods, was.pods),
        signed(is.unschedulable, was.unschedulable),
        signed(is.nodes, was.nodes),
        with_sign(adds, 4),
        with_sign(adds.times(HOURS_A_MONTH), 0),
    ]);
    grid.write("What the change does", rows, writer)?;
    let changed = compare::changed(before, plan);
    if changed.is_empty() {
        return Ok(());
    }
    let mut grid = Grid::new(&[
        Column::Text("NODEPOOL"),
        Column::Text("INSTANCE TYPE"),
        Column::Text("ZONE"),
        Column::Text("CAPACITY"),
        Column::Number("BEFORE"),
        Column::Number("AFTER"),
        Column::Money("ADDS $/H"),
    ]);
    let shown = rows.shown(changed.len());
    for one in changed.iter().take(shown) {
        let names = [one.node_pool, one.instance_type, one.zone, one.capacity_type].map(str::to_owned);
        let counts = [thousands(one.before), thousands(one.after), with_sign(one.adds, 4)];
        grid.row(names.into_iter().chain(counts));
    }
    if changed.len() > shown {
        let rest: Money = changed.iter().skip(shown).map(|one| one.adds).sum();
        let names = ["…".to_owned(), format!("{} more rows", changed.len() - shown)];
        let blank = std::iter::repeat_n(String::new(), 4);
        grid.row(names.into_iter().chain(blank).chain([with_sign(rest, 4)]));
    }
    grid.write("New nodes that differ", rows, writer)
}

fn signed(after: u64, before: u64) -> String {
    match after.cmp(&before) {
        std::cmp::Ordering::Greater => format!("+{}", thousands(after - before)),
        std::cmp::Ordering::Less => format!("-{}", thousands(before - after)),
        std::cmp::Ordering::Equal => "0".to_owned(),
    }
}

fn with_sign(money: Money, places: usize) -> String {
    let sign = if money > Money::ZERO { "+" } else { "" };
    format!("{sign}{}", rounded(money, places))
}
