//! What a reader should have without a script, on paper and in a screen reader: tables as plain HTML.

use std::io::{self, Write};

use berth_model::{MemberKind, ResourceId};

use super::escape::Escaped;
use crate::Plan;
use crate::decimal::{exact, rounded, thousands};
use crate::restrictions;
use crate::table::{by_subject, nodes, reservations};
use berth_decisions::Assignment;

/// What cannot be placed, an entry a class of alike pods, with its reasons counted.
pub(super) fn write_unschedulable<W: Write>(
    plan: &Plan,
    assignment: &Assignment<'_>,
    writer: &mut W,
) -> io::Result<()> {
    let left = plan.solution.unschedulable.iter().zip(&assignment.unschedulable).filter(|(left, _)| left.count > 0);
    let mut left = left.peekable();
    if left.peek().is_none() {
        return Ok(());
    }
    writeln!(writer, "<section aria-labelledby=\"left\" class=\"left\">\n<h2 id=\"left\">Unschedulable</h2>\n<ul>")?;
    for (entry, share) in left {
        let kind = match assignment.kind(*share) {
            MemberKind::Pod => "Pod",
            MemberKind::Reservation => "Reservation",
        };
        write!(writer, "<li><h3><span>{kind}</span> ")?;
        if let Some(first) = assignment.members(*share).next() {
            write!(writer, "{}", Escaped(first))?;
        }
        if entry.count > 1 {
            write!(writer, " <span>and {} more alike</span>", thousands(entry.count - 1))?;
        }
        writeln!(writer, "</h3>")?;
        let reasons: Vec<(&str, u32)> = plan.reasons(entry).collect();
        for (subject, reasons) in by_subject(&reasons, plan.cluster.nodes.len() as u64) {
            write!(writer, "<p>")?;
            if !subject.is_empty() {
                write!(writer, "<b>{}</b> ", Escaped(subject))?;
            }
            for (reason, count) in reasons {
                write!(writer, "<span class=\"reason\">")?;
                if count > 0 {
                    write!(writer, "<b>{}</b> ", thousands(count))?;
                }
                write!(writer, "{}</span> ", Escaped(reason))?;
            }
            writeln!(writer, "</p>")?;
        }
        writeln!(writer, "</li>")?;
    }
    writeln!(writer, "</ul>\n</section>")
}

/// Nodes to be launched, a row an offering. The rows carry what the script filters nodes by.
pub(super) fn write_offerings<W: Write>(plan: &Plan, writer: &mut W) -> io::Result<()> {
    let rows = nodes::groups(plan);
    if rows.is_empty() {
        return writeln!(writer, "<p>No nodes are launched.</p>");
    }
    let heads = [
        ("NodePool", ""),
        ("Instance type", ""),
        ("Zone", ""),
        ("Capacity", ""),
        ("Nodes", " class=\"n\""),
        ("Pods", " class=\"n\""),
        ("CPU requested", " class=\"n\""),
        ("Memory requested", " class=\"n\""),
        ("$/h each", " class=\"n\""),
        ("$/h", " class=\"n\""),
    ];
    writeln!(writer, "<div class=\"wide\"><table id=\"offerings\">\n<thead><tr>")?;
    for (head, class) in heads {
        write!(writer, "<th scope=\"col\"{class}>{head}</th>")?;
    }
    writeln!(writer, "</tr></thead>\n<tbody>")?;
    let mut all = nodes::Row::default();
    let mut cost = berth_model::Money::ZERO;
    for (key, row) in &rows {
        all.add(row);
        let total = key.price.times(row.nodes);
        cost += total;
        write!(writer, "<tr>")?;
        for text in [key.node_pool, key.instance_type, key.zone] {
            write!(writer, "<td>{}</td>", Escaped(text))?;
        }
        let capacity = key.capacity_type.name();
        write!(writer, "<td><span class=\"cap {capacity}\">{capacity}</span></td>")?;
        write_amounts(row, writer)?;
        for money in [key.price, total] {
            write!(writer, "<td class=\"n\" data-v=\"{}\">{}</td>", exact(money), rounded(money, 4))?;
        }
        writeln!(writer, "</tr>")?;
    }
    write!(writer, "</tbody>\n<tfoot><tr><th scope=\"row\" colspan=\"4\">Total</th>")?;
    write_amounts(&all, writer)?;
    writeln!(writer, "<td></td><td class=\"n\">{}</td></tr></tfoot>\n</table></div>", rounded(cost, 4))
}

fn write_amounts<W: Write>(row: &nodes::Row, writer: &mut W) -> io::Result<()> {
    for count in [row.nodes, row.pods] {
        write!(writer, "<td class=\"n\" data-v=\"{count}\">{}</td>", thousands(count))?;
    }
    for resource in [ResourceId::CPU, ResourceId::MEMORY] {
        match row.percent(resource) {
            Some(percent) => write!(
                writer,
                "<td class=\"n\" data-v=\"{percent}\">{percent}%<span class=\"meter\" aria-hidden=\"true\">\
                 <i style=\"width:{}%\"></i></span></td>",
                percent.clamp(0, 100)
            )?,
            None => write!(writer, "<td class=\"n\" data-v=\"-1\">-</td>")?,
        }
    }
    Ok(())
}

/// Capacity reservations and how much of each is used.
pub(super) fn write_reservations<W: Write>(plan: &Plan, writer: &mut W) -> io::Result<()> {
    let rows = reservations::rows(plan);
    if rows.is_empty() {
        return Ok(());
    }
    writeln!(
        writer,
        "<section aria-labelledby=\"slots\">\n<h2 id=\"slots\">Capacity reservations</h2>\n<div class=\"wide\">\
         <table id=\"reservations\">\n<thead><tr><th scope=\"col\">Reservation</th><th scope=\"col\">Instance type</th>\
         <th scope=\"col\">Zone</th><th scope=\"col\" class=\"n\">Used</th><th scope=\"col\" class=\"n\">Total</th>\
         <th scope=\"col\" class=\"n\">Share</th></tr></thead>\n<tbody>"
    )?;
    for row in rows {
        write!(writer, "<tr>")?;
        for text in [row.id, row.instance_type, row.zone] {
            write!(writer, "<td>{}</td>", Escaped(text))?;
        }
        for count in [row.used, row.total] {
            write!(writer, "<td class=\"n\" data-v=\"{count}\">{}</td>", thousands(count))?;
        }
        let percent = row.used.saturating_mul(100) / row.total.max(1);
        writeln!(
            writer,
            "<td class=\"n\" data-v=\"{percent}\">{percent}%<span class=\"meter\" aria-hidden=\"true\">\
             <i style=\"width:{percent}%\"></i></span></td></tr>"
        )?;
    }
    writeln!(writer, "</tbody>\n</table></div>\n</section>")
}

/// Values of a share that are named, the largest first.
const SHARES: usize = 3;

/// What the plan was restricted by: shares with their largest values, and what each restriction costs.
pub(super) fn write_restrictions<W: Write>(plan: &Plan, writer: &mut W) -> io::Result<()> {
    let all = &plan.solution.restrictions;
    if all.is_empty() {
        return Ok(());
    }
    let has_costs = all.iter().any(|known| known.cost.is_some());
    writeln!(
        writer,
        "<section aria-labelledby=\"restricted\">\n<h2 id=\"restricted\">Restrictions</h2>\n<div class=\"wide\">\
         <table id=\"restrictions\">\n<thead><tr><th scope=\"col\">Restriction</th><th scope=\"col\">Shares</th>\
         <th scope=\"col\" class=\"n\">Largest</th>"
    )?;
    if has_costs {
        writeln!(writer, "<th scope=\"col\" class=\"n\">Costs $/h</th><th scope=\"col\" class=\"n\">Leaves out</th>")?;
    }
    writeln!(writer, "</tr></thead>\n<tbody>")?;
    for known in all {
        let (name, shares) = (restrictions::name(plan, known), restrictions::shares(known, SHARES));
        write!(writer, "<tr><td>{}</td><td>{}</td><td class=\"n\">", Escaped(name), Escaped(shares))?;
        if let Some(first) = known.values.first() {
            let percent = first.billionths / 10_000_000;
            let largest = restrictions::percent(first.billionths);
            write!(
                writer,
                "{largest}<span class=\"meter\" aria-hidden=\"true\"><i style=\"width:{percent}%\"></i></span>"
            )?;
        }
        write!(writer, "</td>")?;
        if has_costs {
            let cost = known.cost.map_or_else(String::new, |cost| rounded(cost.hourly, 4));
            write!(writer, "<td class=\"n\">{cost}</td><td class=\"n\">{}</td>", restrictions::unplaced(known))?;
        }
        writeln!(writer, "</tr>")?;
    }
    writeln!(writer, "</tbody>\n</table></div>\n</section>")
}

/// Who gives way to whom has a higher priority, and where, a row a pod.
pub(super) fn write_preempted<W: Write>(plan: &Plan, writer: &mut W) -> io::Result<()> {
    if plan.allocation.n_preempted() == 0 {
        return Ok(());
    }
    writeln!(
        writer,
        "<section aria-labelledby=\"gone\">\n<h2 id=\"gone\">Pods that give way</h2>\n<div class=\"wide\">\
         <table id=\"preempted\">\n<thead><tr><th scope=\"col\">Pod</th><th scope=\"col\">Node</th></tr></thead>\n<tbody>"
    )?;
    for entry in &plan.solution.nodes {
        let node = plan.cluster.nodes.get(entry.node).map_or("", |node| plan.cluster.symbols.text(node.name));
        for pod in plan.allocation.preempted(entry.node) {
            writeln!(writer, "<tr><td>{}</td><td>{}</td></tr>", Escaped(pod), Escaped(node))?;
        }
    }
    writeln!(writer, "</tbody>\n</table></div>\n</section>")
}
