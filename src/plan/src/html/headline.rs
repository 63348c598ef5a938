//! What a reader wants first: does everything have a place, on how many nodes, and what does it cost?

use std::io::{self, Write};

use berth_model::Money;

use super::escape::Escaped;
use crate::decimal::{rounded, thousands};
use crate::table::{HOURS_A_MONTH, search_stopped};
use crate::{Plan, Summary};

/// The text of `title`.
pub(super) fn write_title<W: Write>(summary: &Summary, writer: &mut W) -> io::Result<()> {
    let nodes = if summary.node_claims == 1 { "node" } else { "nodes" };
    write!(writer, "Berth plan: {} {nodes}, ${}/h", thousands(summary.node_claims), rounded(summary.hourly_cost, 4))?;
    let left = summary.unschedulable + summary.unschedulable_reservations;
    if left > 0 { write!(writer, ", {} unschedulable", thousands(left)) } else { Ok(()) }
}

/// The list of figures; `relaxed` is what the bound does not count on, and so many running pods give way.
pub(super) fn write<W: Write>(summary: &Summary, relaxed: &[&str], preempted: u64, writer: &mut W) -> io::Result<()> {
    let gone = (preempted > 0).then(|| Figure {
        name: "Pods that give way",
        value: thousands(preempted),
        notes: vec!["to others of higher priority".to_owned()],
        ..Figure::default()
    });
    for figure in figures(summary, relaxed).into_iter().chain(gone) {
        let class = if figure.is_bad { " class=\"bad\"" } else { "" };
        write!(writer, "<div{class}><dt>{}</dt><dd>{}", Escaped(figure.name), Escaped(figure.value))?;
        if let Some((used, total)) = figure.bar {
            // As a whole percent: nobody sees more in a bar of this size.
            let percent = used.saturating_mul(100) / total.max(1);
            write!(writer, "<span class=\"meter\" aria-hidden=\"true\"><i style=\"width:{percent}%\"></i></span>")?;
        }
        for note in figure.notes {
            write!(writer, "<small>{}</small>", Escaped(note))?;
        }
        writeln!(writer, "</dd></div>")?;
    }
    Ok(())
}

/// Why the search for the plan ended.
pub(super) fn write_search<W: Write>(summary: &Summary, writer: &mut W) -> io::Result<()> {
    let Some(stopped) = search_stopped(summary) else { return Ok(()) };
    writeln!(writer, "<div><dt>Search</dt><dd><small>{}</small></dd></div>", Escaped(stopped))
}

/// What the catalogue says of itself, such as that prices are estimates.
pub(super) fn write_notes<W: Write>(notes: &[String], writer: &mut W) -> io::Result<()> {
    for note in notes {
        writeln!(writer, "<div><dt>Note</dt><dd><small>{}</small></dd></div>", Escaped(note.as_str()))?;
    }
    Ok(())
}

/// When the plan was made, and of what.
pub(super) fn write_provenance<W: Write>(plan: &Plan, writer: &mut W) -> io::Result<()> {
    for (name, value) in [("Time", plan.now.to_string())].into_iter().chain(plan.provenance.lines()) {
        writeln!(writer, "<div><dt>{name}</dt><dd><small>{}</small></dd></div>", Escaped(value))?;
    }
    Ok(())
}

/// A figure with its name and what belongs beside it.
#[derive(Default)]
struct Figure {
    name: &'static str,
    value: String,
    notes: Vec<String>,
    bar: Option<(u64, u64)>,
    is_bad: bool,
}

fn figures(summary: &Summary, relaxed: &[&str]) -> Vec<Figure> {
    let mut out = vec![cost(summary)];
    if let Some(bound) = summary.lower_bound {
        let mut notes = vec!["to put the same on new nodes cannot cost less".to_owned()];
        notes.extend(summary.nearness().map(|nearness| format!("this one is {nearness}")));
        notes.extend(relaxed.iter().map(|relaxed| format!("even without {relaxed}")));
        out.push(Figure { name: "Lower bound", value: hourly(bound), notes, ..Figure::default() });
    }
    out.push(Figure {
        name: "Nodes to launch",
        value: thousands(summary.node_claims),
        notes: Vec::new(),
        ..Figure::default()
    });
    out.push(members("Pods placed", summary.pods, summary.unschedulable));
    if summary.reservations > 0 {
        let left = summary.unschedulable_reservations;
        out.push(members("Reservations placed", summary.reservations, left));
    }
    if summary.slots_total > 0 {
        let (used, total) = (summary.slots_used, summary.slots_total);
        out.push(Figure {
            name: "Reserved slots used",
            value: format!("{} of {}", thousands(used), thousands(total)),
            bar: Some((used, total)),
            ..Figure::default()
        });
    }
    out
}

fn cost(summary: &Summary) -> Figure {
    let cost = summary.hourly_cost;
    let mut notes = vec![format!("about ${} a month", rounded(cost.times(HOURS_A_MONTH), 0))];
    if summary.list_cost != cost {
        notes.push(format!("{} by list price", hourly(summary.list_cost)));
    }
    if summary.node_cost > Money::ZERO {
        notes.push(format!("{} node cost on top", hourly(summary.node_cost)));
    }
    Figure { name: "Cost", value: hourly(cost), notes, ..Figure::default() }
}

/// Dollars an hour; of hundreds of them nobody reads fractions of a cent.
fn hourly(money: Money) -> String {
    let places = if money.pico() < 100_000_000_000_000 { 4 } else { 2 };
    format!("${}/h", rounded(money, places))
}

fn members(name: &'static str, all: u64, left: u64) -> Figure {
    let notes = if left > 0 { vec![format!("{} unschedulable", thousands(left))] } else { Vec::new() };
    let placed = thousands(all.saturating_sub(left));
    let value = if left > 0 { format!("{placed} of {}", thousands(all)) } else { placed };
    Figure { name, value, notes, is_bad: left > 0, ..Figure::default() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dollars(dollars: i128) -> Money {
        Money::from_pico(dollars * 1_000_000_000_000)
    }

    fn page(summary: &Summary) -> String {
        let mut out = Vec::new();
        write(summary, &["minValues"], 0, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_bound_is_told_with_its_gap_and_what_it_relaxes_where_one_was_asked_for() {
        let summary = Summary { hourly_cost: dollars(103), list_cost: dollars(103), ..Summary::default() };
        assert!(!page(&summary).contains("bound"));
        let page = page(&Summary { lower_bound: Some(dollars(100)), ..summary });
        assert!(page.contains("<dt>Lower bound</dt><dd>$100.00/h"), "{page}");
        assert!(page.contains("within 3.00%"), "{page}");
        assert!(page.contains("even without minValues"), "{page}");
    }

    #[test]
    fn a_page_says_why_the_search_stopped() {
        let page = |search| {
            let mut out = Vec::new();
            let is_optimal = search == Some(berth_provisioning::StopReason::Solved);
            write_search(&Summary { search, is_optimal, ..Summary::default() }, &mut out).unwrap();
            String::from_utf8(out).unwrap()
        };
        assert_eq!(page(None), "");
        let solved = page(Some(berth_provisioning::StopReason::Solved));
        let says = "<dt>Search</dt><dd><small>every way to fill the new nodes was tried; the plan is optimal<";
        assert!(solved.contains(says), "{solved}");
    }

    #[test]
    fn what_has_no_place_is_marked() {
        let summary = Summary { pods: 1_200, placed: 1_190, unschedulable: 10, ..Summary::default() };
        let page = page(&summary);
        assert!(page.contains("<div class=\"bad\"><dt>Pods placed</dt><dd>1,190 of 1,200"), "{page}");
        assert!(page.contains("10 unschedulable"));
    }
}
