//! An explanation for people.

use std::io::{self, Write};

use berth_scheduling::reservation::counts_reservations;

use super::{Explanation, Obstacle};
use crate::decimal::thousands;

/// Lines of a list that are shown, unless all are.
const MOST: usize = 20;

pub(super) fn write<W: Write>(story: &Explanation, is_wide: bool, mut writer: W) -> io::Result<()> {
    let most = if is_wide { usize::MAX } else { MOST };
    writeln!(writer, "{} {}", story.object, story.outcome)?;
    let width = story.facts.iter().map(|fact| fact.name.len()).max().unwrap_or(0);
    for fact in &story.facts {
        writeln!(writer, "  {:width$}  {}", format!("{}:", fact.name), fact.text, width = width + 1)?;
    }
    let pods = if story.object.starts_with("Reservation") { "Pods that draw from it" } else { "Pods that come" };
    list(&mut writer, pods, &story.pods, most, String::clone)?;
    for said in &story.nodes {
        let n = said.admitting.len() as u64;
        let title = format!("{} of {} {} would take it", thousands(n), thousands(u64::from(said.total)), said.of);
        writeln!(writer, "\n{title}")?;
        let shown = if is_wide { said.admitting.len() } else { 3 };
        for admitting in said.admitting.iter().take(shown) {
            writeln!(writer, "  {} (score {})", admitting.node, admitting.score)?;
        }
        more(&mut writer, said.admitting.len(), shown)?;
        reasons(&mut writer, &said.reasons)?;
    }
    for pool in &story.node_pools {
        let (open, all) = (thousands(u64::from(pool.admitting)), thousands(u64::from(pool.offerings)));
        writeln!(writer, "\n{open} of {all} offerings of NodePool {} would take it on a new node", pool.node_pool)?;
        reasons(&mut writer, &pool.reasons)?;
    }
    let says = |said: &super::ReservationSays| {
        let node = said.node.as_ref().map_or_else(String::new, |node| format!(" on {node}"));
        let matches = if said.matches { "matches" } else { "does not match" };
        format!("{}{node} {matches}: {}", said.reservation, said.says)
    };
    list(&mut writer, "Reservations", &story.reservations, most, says)?;
    if story.other_reservations > 0 {
        let count = thousands(u64::from(story.other_reservations));
        let title = if story.reservations.is_empty() { "\nReservations\n" } else { "" };
        writeln!(writer, "{title}  {count} for others: no owner of theirs describes the pod")?;
    }
    let was_considered = !story.nodes.is_empty() || !story.node_pools.is_empty();
    if was_considered && !story.has_place {
        writeln!(writer, "\nWhat would have to change")?;
        for change in &story.changes {
            writeln!(writer, "  If {}: {}", change.what, who(&change.nodes, change.offerings))?;
        }
        if story.changes.is_empty() {
            writeln!(writer, "  No single change of it would do.")?;
        }
    }
    list(&mut writer, "Without a place, and what this node says to them", &story.refused, most, |refused| {
        let others = match refused.count {
            0 | 1 => String::new(),
            count => format!(" and {} more", thousands(u64::from(count) - 1)),
        };
        format!("{}{others}: {}", refused.object, refused.reasons.join(", "))
    })?;
    writeln!(writer, "\nMade of")?;
    for (name, value) in [("Time", story.time.clone())].into_iter().chain(story.provenance.lines()) {
        writeln!(writer, "  {:11} {value}", format!("{name}:"))?;
    }
    writer.flush()
}

fn list<W: Write, T>(
    writer: &mut W,
    title: &str,
    items: &[T],
    most: usize,
    line: impl Fn(&T) -> String,
) -> io::Result<()> {
    if items.is_empty() {
        return Ok(());
    }
    writeln!(writer, "\n{title}")?;
    for item in items.iter().take(most) {
        writeln!(writer, "  {}", line(item))?;
    }
    more(writer, items.len(), most)
}

fn more<W: Write>(writer: &mut W, all: usize, shown: usize) -> io::Result<()> {
    match all.checked_sub(shown) {
        None | Some(0) => Ok(()),
        Some(rest) => writeln!(writer, "  … and {} more", thousands(rest as u64)),
    }
}

fn reasons<W: Write>(writer: &mut W, reasons: &[Obstacle]) -> io::Result<()> {
    for Obstacle { reason, count, examples } in reasons {
        if *count == 0 && !counts_reservations(reason) {
            writeln!(writer, "  {reason}")?;
            continue;
        }
        let rest = u64::from(*count).saturating_sub(examples.len() as u64);
        let examples = match (examples.is_empty(), rest) {
            (true, _) => String::new(),
            (false, 0) => format!(" ({})", examples.join(", ")),
            (false, rest) => format!(" ({} and {} more)", examples.join(", "), thousands(rest)),
        };
        writeln!(writer, "  {} {reason}{examples}", thousands(u64::from(*count)))?;
    }
    Ok(())
}

fn who(nodes: &[String], offerings: u32) -> String {
    let mut parts = Vec::new();
    match nodes {
        [] => {}
        [one] => parts.push(format!("node {one}")),
        [first, rest @ ..] => parts.push(format!("node {first} and {} more", thousands(rest.len() as u64))),
    }
    match offerings {
        0 => {}
        1 => parts.push("1 offering".to_owned()),
        many => parts.push(format!("{} offerings", thousands(u64::from(many)))),
    }
    parts.join(", ")
}
