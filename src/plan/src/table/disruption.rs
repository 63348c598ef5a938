//! What would be disrupted, in order, and why every other node stays.

use std::io::{self, Write};

use berth_decisions::Launch;
use berth_disruption::{Command, Disruption, Reason};
use berth_model::Money;

use super::RowLimit;
use super::grid::{Column, Grid};
use crate::Plan;
use crate::decimal::{rounded, thousands};

/// Names of nodes in one cell, unless everything is asked for.
const NAMES: usize = 3;

pub(super) fn write<W: Write>(plan: &Plan, rows: RowLimit, writer: &mut W) -> io::Result<()> {
    let Some(disruption) = &plan.disruption else { return Ok(()) };
    let (now, then) = (disruption.hourly_cost, disruption.settled_hourly_cost);
    if disruption.commands.is_empty() {
        writeln!(writer, "\nNothing to disrupt: the nodes cost ${}/h", rounded(now, 4))?;
    } else {
        let mut heads = vec![
            Column::Number("BATCH"),
            Column::Text("METHOD"),
            Column::Text("NODES THAT GO"),
            Column::Text("REPLACED BY"),
            Column::Number("EVICTIONS"),
            Column::Money("SAVES $/H"),
        ];
        // What each node costs beside its price decides with it.
        let has_node_cost = disruption.commands.iter().any(|command| command.node_savings != Money::ZERO);
        if has_node_cost {
            heads.push(Column::Money("NODE COST $/H"));
        }
        let mut grid = Grid::new(&heads);
        let shown = rows.shown(disruption.commands.len());
        for command in disruption.commands.iter().take(shown) {
            let mut row = vec![
                command.batch.to_string(),
                command.method.as_str().to_owned(),
                nodes(command, if rows.are_all() { usize::MAX } else { NAMES }),
                replaced_by(command),
                thousands(command.evictions as u64),
                rounded(command.savings, 4),
            ];
            if has_node_cost {
                row.push(rounded(command.node_savings, 4));
            }
            grid.row(row);
        }
        grid.write("Nodes to disrupt, in order; those of batch 0 may begin now", rows, writer)?;
        if shown < disruption.commands.len() {
            writeln!(writer, "and {} more", thousands((disruption.commands.len() - shown) as u64))?;
        }
        writeln!(
            writer,
            "The nodes cost ${}/h now, and ${}/h once all of this is done.",
            rounded(now, 4),
            rounded(then, 4)
        )?;
    }
    if let Some(text) = pending(disruption) {
        writeln!(writer, "{text}")?;
    }
    if let Some(bound) = disruption.lower_bound {
        let priced = disruption.priced_hourly_cost;
        let gap = if priced > Money::ZERO { 100.0 * (1.0 - bound.dollars() / priced.dollars()) } else { 0.0 };
        writeln!(
            writer,
            "With what is disrupted at its price that is ${}/h; no consolidation costs less than ${}/h ({gap:.2}% less).",
            rounded(priced, 4),
            rounded(bound, 4)
        )?;
    }
    if disruption.kept.is_empty() {
        return Ok(());
    }
    let mut grid = Grid::new(&[Column::Text("NODE"), Column::Text("WHY IT STAYS")]);
    let shown = rows.shown(disruption.kept.len());
    for kept in disruption.kept.iter().take(shown) {
        let reasons: Vec<String> = kept.reasons.iter().map(why).collect();
        grid.row([kept.node.key.name.to_string(), reasons.join("; ")]);
    }
    grid.write("Nodes that stay", rows, writer)?;
    if shown < disruption.kept.len() {
        writeln!(writer, "and {} more", thousands((disruption.kept.len() - shown) as u64))?;
    }
    Ok(())
}

/// What nodes for pods that wait cost beside the others.
pub(crate) fn pending(disruption: &Disruption) -> Option<String> {
    let (now, then) = (disruption.pending_hourly_cost, disruption.settled_pending_hourly_cost);
    if now == Money::ZERO && then == Money::ZERO {
        return None;
    }
    let (now, then) = (rounded(now, 4), rounded(then, 4));
    Some(format!("Beside that, new nodes for pods that wait cost ${now}/h as things are, and ${then}/h then."))
}

/// One reason with its count of pods.
pub(crate) fn why(reason: &Reason) -> String {
    match reason.count {
        0 => reason.reason.clone(),
        1 => format!("{} (1 pod)", reason.reason),
        n => format!("{} ({n} pods)", reason.reason),
    }
}

/// The nodes that go: the first `most` by name, and how many more.
pub(crate) fn nodes(command: &Command, most: usize) -> String {
    let mut names = command.nodes.iter().map(|node| &*node.key.name);
    let shown = names.by_ref().take(most).collect::<Vec<_>>().join(", ");
    match names.count() {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

/// The offerings that take the place of a command's nodes, alike ones as one with their count.
pub(crate) fn replaced_by(command: &Command) -> String {
    if command.replacements.is_empty() {
        return "nothing".to_owned();
    }
    let launches: Vec<String> = command.replacements.iter().map(|(_, launch)| offering(launch)).collect();
    let mut counted: Vec<(&str, usize)> = Vec::new();
    for launch in &launches {
        match counted.iter_mut().find(|(known, _)| known == launch) {
            Some((_, count)) => *count += 1,
            None => counted.push((launch, 1)),
        }
    }
    let parts = counted
        .into_iter()
        .map(|(launch, count)| if count > 1 { format!("{count} x {launch}") } else { launch.to_owned() });
    parts.collect::<Vec<_>>().join(", ")
}

/// `m5.large zone-a on-demand`.
pub(crate) fn offering(launch: &Launch) -> String {
    let of = &launch.offering;
    let place = of.zone.as_deref().map(|zone| format!(" {zone}")).unwrap_or_default();
    let means = of.reservation_id.as_ref().map_or_else(|| of.capacity_type.clone(), |id| format!("reserved {id}"));
    format!("{}{place} {means}", of.instance_type)
}
