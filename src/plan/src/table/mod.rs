//! Tables for people.

mod compared;
pub(crate) mod disruption;
mod grid;
mod members;
pub(crate) mod nodes;
pub(crate) mod reservations;
mod restrictions;
mod unschedulable;

use std::io::{self, Write};

use berth_model::Money;
use berth_provisioning::StopReason;

use crate::decimal::{rounded, thousands};
use crate::{Plan, Summary};
use berth_decisions::Assignment;

pub(crate) use unschedulable::by_subject;

/// Hours of a month, as clouds bill it: 365 days of 24 hours in twelve parts.
pub(crate) const HOURS_A_MONTH: u64 = 730;

/// How many rows a table has before the rest is summed up, unless everything is asked for, and how wide it may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RowLimit {
    most: Option<usize>,
    /// Columns of the terminal, if it is one.
    width: Option<usize>,
}

impl RowLimit {
    pub(crate) fn new(is_wide: bool, width: Option<usize>) -> Self {
        RowLimit { most: (!is_wide).then_some(30), width }
    }

    /// Whether everything is asked for.
    fn are_all(self) -> bool {
        self.most.is_none()
    }

    /// How many of `total` rows are shown; one row too many is not worth a summary.
    fn shown(self, total: usize) -> usize {
        self.most.filter(|&most| total > most + 1).unwrap_or(total)
    }
}

pub(crate) fn write<W: Write>(plan: &Plan, rows: RowLimit, mut writer: W) -> io::Result<()> {
    let assignment = Assignment::new(&plan.cluster, &plan.universe, &plan.solution);
    headline(plan, &mut writer)?;
    compared::write_diff(plan, rows, &mut writer)?;
    compared::write_repack(plan, rows, &mut writer)?;
    nodes::write_claims(plan, rows, &mut writer)?;
    nodes::write_used(plan, rows, &mut writer)?;
    reservations::write(plan, rows, &mut writer)?;
    restrictions::write(plan, rows, &mut writer)?;
    unschedulable::write(plan, &assignment, rows, &mut writer)?;
    disruption::write(plan, rows, &mut writer)?;
    if rows.are_all() {
        members::write(plan, &assignment, &mut writer)?;
    }
    writer.flush()
}

fn headline<W: Write>(plan: &Plan, writer: &mut W) -> io::Result<()> {
    let summary = plan.summary();
    let pods = match summary.unschedulable {
        0 if summary.pods == 0 => "none pending".to_owned(),
        0 => format!("{} placed", thousands(summary.placed)),
        left => format!("{} placed, {} unschedulable", thousands(summary.placed), thousands(left)),
    };
    writeln!(writer, "Time:          {}", plan.now)?;
    for (name, value) in plan.provenance.lines() {
        writeln!(writer, "{:14} {value}", format!("{name}:"))?;
    }
    writeln!(writer, "Pods:          {pods}")?;
    if summary.reservations > 0 {
        let left = summary.unschedulable_reservations;
        let placed = thousands(summary.reservations.saturating_sub(left));
        let left = if left > 0 { format!(", {} unschedulable", thousands(left)) } else { String::new() };
        writeln!(writer, "Reservations:  {placed} placed{left}")?;
    }
    writeln!(writer, "Nodes:         {} to launch", thousands(summary.node_claims))?;
    if summary.slots_total > 0 {
        let (used, total) = (thousands(summary.slots_used), thousands(summary.slots_total));
        writeln!(writer, "Slots:         {used} of {total} reserved slots used")?;
    }
    let cost = summary.hourly_cost;
    let month = rounded(cost.times(HOURS_A_MONTH), 0);
    write!(writer, "Cost:          ${}/h, about ${month} a month", rounded(cost, 4))?;
    if summary.list_cost != cost {
        write!(writer, "; ${}/h by list price", rounded(summary.list_cost, 4))?;
    }
    if summary.node_cost > Money::ZERO {
        write!(writer, "; ${}/h node cost on top", rounded(summary.node_cost, 4))?;
    }
    writeln!(writer)?;
    write_bound(plan, &summary, writer)?;
    if let Some(stopped) = search_stopped(&summary) {
        writeln!(writer, "Search:        {stopped}")?;
    }
    for note in &plan.notes {
        writeln!(writer, "Note:          {note}")?;
    }
    Ok(())
}

/// Why the search for a plan ended, where there was one, and whether its plan is proved to be the cheapest.
pub(crate) fn search_stopped(summary: &Summary) -> Option<String> {
    let stopped = match summary.search? {
        StopReason::Unsolved => return None,
        StopReason::Solved => "every way to fill the new nodes was tried",
        StopReason::Optimal => "stopped at the optimum of its linear program",
        StopReason::NoColumn => "stopped, as it found no better way to fill a node",
        StopReason::Rounds | StopReason::Work => "stopped, as the work of its effort was spent",
    };
    let proved = match (summary.is_optimal, summary.is_beside_existing) {
        (false, _) => "",
        (true, false) => "; the plan is optimal",
        (true, true) => "; they are optimal for the pods that existing nodes leave",
    };
    Some(format!("{stopped}{proved}"))
}

fn write_bound<W: Write>(plan: &Plan, summary: &Summary, writer: &mut W) -> io::Result<()> {
    let (Some(bound), Some(proof)) = (summary.lower_bound, &plan.solution.bound) else { return Ok(()) };
    write!(writer, "Bound:         to put the same on new nodes costs ${}/h at least", rounded(bound, 4))?;
    if let Some(nearness) = summary.nearness() {
        write!(writer, "; this one is {nearness}")?;
    }
    writeln!(writer)?;
    for relaxed in &proof.relaxed {
        writeln!(writer, "               even without {relaxed}")?;
    }
    Ok(())
}

/// `1 node`, `2 nodes`.
fn counted(count: u64, noun: &str) -> String {
    format!("{} {noun}{}", thousands(count), if count == 1 { "" } else { "s" })
}
