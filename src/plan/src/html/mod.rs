//! One self-contained page for people: figures and tables as plain HTML, the nodes as data that its script draws.
//!
//! Alike nodes, of one offering and with the same pods by class, are one bin, so a page grows with what differs, not
//! with nodes or pods. The page requests nothing, and its policy lets no script run but its own.

mod bins;
mod disruption;
mod escape;
mod headline;
mod tables;

use std::io::{self, Write};

use crate::Plan;
use berth_decisions::Assignment;

const PAGE: &str = include_str!("assets/page.html");
/// The style of pages: colours in light and dark, figures, tables and dialogs.
pub const STYLE: &str = include_str!("assets/style.css");
const SCRIPT: &str = concat!(
    include_str!("assets/plan.js"),
    include_str!("assets/search.js"),
    include_str!("assets/bins.js"),
    include_str!("assets/list.js"),
    include_str!("assets/details.js"),
    include_str!("assets/page.js"),
    include_str!("assets/address.js"),
);
/// Of [`SCRIPT`], for the page's Content-Security-Policy.
const SCRIPT_SHA256: &str = "rvgGzWgYr43YuXBAO9Uaat5fTxBRF6B0AX79KWg5C3I=";

/// Writes the page, as a stream.
pub(crate) fn write<W: Write>(plan: &Plan, mut writer: W) -> io::Result<()> {
    let assignment = Assignment::new(&plan.cluster, &plan.universe, &plan.solution);
    let writer = &mut writer;
    for (name, text) in parts(PAGE) {
        match name {
            "style" => writer.write_all(STYLE.as_bytes())?,
            "script" => writer.write_all(SCRIPT.as_bytes())?,
            "script-sha256" => writer.write_all(SCRIPT_SHA256.as_bytes())?,
            "title" => headline::write_title(&plan.summary(), writer)?,
            "headline" => {
                let relaxed = plan.solution.bound.as_ref().map_or(&[][..], |bound| &bound.relaxed);
                headline::write(&plan.summary(), relaxed, plan.allocation.n_preempted() as u64, writer)?;
                headline::write_search(&plan.summary(), writer)?;
                headline::write_notes(&plan.notes, writer)?;
                headline::write_provenance(plan, writer)?;
            }
            "unschedulable" => tables::write_unschedulable(plan, &assignment, writer)?,
            "offerings" => tables::write_offerings(plan, writer)?,
            "reservations" => tables::write_reservations(plan, writer)?,
            "restrictions" => tables::write_restrictions(plan, writer)?,
            "disruption" => disruption::write(plan, writer)?,
            "preempted" => tables::write_preempted(plan, writer)?,
            "data" => bins::write(plan, &assignment, escape::ScriptSafe(&mut *writer))?,
            _ => {}
        }
        writer.write_all(text.as_bytes())?;
    }
    writer.flush()
}

/// The page cut at its `{{name}}`s: each name with the text that follows it; the first has none.
fn parts(page: &str) -> impl Iterator<Item = (&str, &str)> {
    page.split("{{").map(|part| part.split_once("}}").unwrap_or(("", part)))
}

#[cfg(test)]
mod tests;
