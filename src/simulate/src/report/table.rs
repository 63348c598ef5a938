//! The report as tables.

use std::io::{self, Write};

use comfy_table::{Cell, CellAlignment, Table, presets};

use super::Report;
use super::text::{count, difference, dollars, duration, length, percent, tenths};
use crate::outcome::{Outcome, ReservationUse};

/// Writes what came of one scenario, or a comparison and then each variant.
pub(super) fn write(report: &Report, writer: &mut impl Write) -> io::Result<()> {
    if let [only] = &report.variants[..] {
        write_one(only, writer)?;
    } else {
        write_comparison(report, writer)?;
        for outcome in &report.variants {
            writeln!(writer, "\n=== {} ===", outcome.variant)?;
            write_one(outcome, writer)?;
        }
    }
    let Some(provenance) = &report.provenance else { return Ok(()) };
    writeln!(writer, "\nMADE OF")?;
    for (name, value) in provenance.lines() {
        writeln!(writer, "{:11} {value}", format!("{name}:"))?;
    }
    Ok(())
}

/// What a comparison says of a variant.
type Figure = fn(&Outcome) -> String;

/// The figures of a comparison, a row each.
pub(super) const FIGURES: [(&str, Figure); 16] = [
    ("cost", |o| dollars(o.cost.total)),
    ("  nodes outside reservations", |o| dollars(o.cost.nodes)),
    ("  slots, used or not", |o| dollars(o.cost.reservations)),
    ("same nodes at list price", |o| dollars(o.cost.list_price)),
    ("same nodes without reservations", |o| dollars(o.cost.without_reservations)),
    ("slot-hours", |o| tenths(o.reservations.iter().map(|own| own.slot_hours).sum())),
    ("  used", |o| tenths(o.reservations.iter().map(|own| own.used).sum())),
    ("  idle", |o| tenths(o.reservations.iter().map(|own| own.idle).sum())),
    ("nodes launched", |o| count(o.nodes.launched)),
    ("most nodes at a time", |o| count(o.nodes.most)),
    ("evictions per pod-day", |o| format!("{:.3}", o.pods.evictions_per_pod_day)),
    ("median wait for a node", |o| wait(o, |row| row.median)),
    ("99% wait at most", |o| wait(o, |row| row.p99)),
    ("hours that pods waited", |o| tenths(o.pods.waiting_hours)),
    ("went without ever having had a node", |o| count(o.pods.in_vain.iter().map(|row| row.pods).sum::<usize>())),
    ("without a node at the end", |o| count(o.unplaced.iter().map(|own| own.pods).sum::<u64>())),
];

fn wait(outcome: &Outcome, of: fn(&crate::WaitRow) -> f64) -> String {
    outcome.pods.waited.first().map_or(String::new(), |row| duration(of(row)))
}

fn write_comparison(report: &Report, writer: &mut impl Write) -> io::Result<()> {
    let names = report.variants.iter().map(|outcome| outcome.variant.clone());
    let mut grid = Grid::new(std::iter::once(String::new()).chain(names));
    for (index, (name, figure)) in FIGURES.iter().enumerate() {
        grid.row(std::iter::once((*name).to_owned()).chain(report.variants.iter().map(figure)));
        if index == 0 {
            let same = std::iter::once("-".to_owned());
            let differences = report.differences.iter().map(|own| difference(own.total));
            grid.row(std::iter::once("  more than the first".to_owned()).chain(same).chain(differences));
        }
    }
    grid.write("COMPARISON", writer)
}

fn write_one(outcome: &Outcome, writer: &mut impl Write) -> io::Result<()> {
    writeln!(writer, "{} from {}", length(outcome.hours), outcome.start)?;
    for note in &outcome.notes {
        writeln!(writer, "note: {note}")?;
    }
    write_cost(outcome, writer)?;
    write_reservations(outcome, writer)?;
    write_nodes(outcome, writer)?;
    write_pods(outcome, writer)
}

fn write_cost(outcome: &Outcome, writer: &mut impl Write) -> io::Result<()> {
    let cost = &outcome.cost;
    let mut grid = Grid::new(["", "DOLLARS", "OF LIST PRICE"].map(str::to_owned));
    for (name, amount) in [
        ("total", cost.total),
        ("  nodes outside reservations", cost.nodes),
        ("  slots, used or not", cost.reservations),
        ("the same nodes at list price", cost.list_price),
        ("the same nodes without reservations", cost.without_reservations),
    ] {
        grid.row([name.to_owned(), dollars(amount), percent(amount, cost.list_price)]);
    }
    grid.write("COST", writer)
}

fn write_reservations(outcome: &Outcome, writer: &mut impl Write) -> io::Result<()> {
    if outcome.reservations.is_empty() {
        return Ok(());
    }
    let mut grid = Grid::new(RESERVATION_HEADS.map(str::to_uppercase));
    for own in &outcome.reservations {
        grid.row(reservation_cells(own));
    }
    grid.write("RESERVATIONS", writer)
}

fn write_nodes(outcome: &Outcome, writer: &mut impl Write) -> io::Result<()> {
    let nodes = &outcome.nodes;
    let heads = ["LAUNCHED", "REFUSED", "INTERRUPTED", "DIED", "MOST AT A TIME", "ON-DEMAND H", "SPOT H", "RESERVED H"];
    let mut grid = Grid::new(heads.map(str::to_owned));
    grid.row([
        count(nodes.launched),
        count(nodes.refused),
        count(nodes.interrupted),
        count(nodes.died),
        count(nodes.most),
        tenths(nodes.on_demand_hours),
        tenths(nodes.spot_hours),
        tenths(nodes.reserved_hours),
    ]);
    grid.write("NODES", writer)
}

fn write_pods(outcome: &Outcome, writer: &mut impl Write) -> io::Result<()> {
    let pods = &outcome.pods;
    let heads = ["TOTAL", "POD-DAYS", "MOST RUNNING", "MOST WAITING", "HOURS WAITED", "EVICTIONS", "PER POD-DAY"];
    let mut grid = Grid::new(heads.map(str::to_owned));
    grid.row([
        count(pods.total),
        tenths(pods.pod_days),
        count(pods.most_running),
        count(pods.most_pending),
        tenths(pods.waiting_hours),
        count(pods.evictions),
        format!("{:.3}", pods.evictions_per_pod_day),
    ]);
    grid.write("PODS", writer)?;
    let mut grid = Grid::new(["WAITED FOR", "PODS", "MEDIAN", "99%", "LONGEST"].map(str::to_owned));
    for row in &pods.waited {
        let times = [row.median, row.p99, row.longest].map(duration);
        grid.row([row.reason.clone(), count(row.pods)].into_iter().chain(times));
    }
    grid.write("WAITING", writer)?;
    if !pods.in_vain.is_empty() {
        let mut grid = Grid::new(["WAITED IN VAIN", "PODS", "MEDIAN", "99%", "LONGEST"].map(str::to_owned));
        for row in &pods.in_vain {
            let times = [row.median, row.p99, row.longest].map(duration);
            grid.row([row.reason.clone(), count(row.pods)].into_iter().chain(times));
        }
        grid.write("WENT WITHOUT EVER HAVING HAD A NODE", writer)?;
    }
    if outcome.unplaced.is_empty() {
        return Ok(());
    }
    let mut grid = Grid::new(["WAITS STILL", "PODS", "LONGEST"].map(str::to_owned));
    for own in &outcome.unplaced {
        grid.row([own.reason.clone(), count(own.pods), duration(own.longest)]);
    }
    grid.write("WITHOUT A NODE AT THE END", writer)
}

/// A table as kubectl prints it: the first column is text, the others are numbers.
struct Grid(Table);

impl Grid {
    fn new(heads: impl IntoIterator<Item = String>) -> Self {
        let mut table = Table::new();
        table.load_style(presets::NOTHING);
        table.set_header(cells(heads));
        Self(table)
    }

    fn row(&mut self, texts: impl IntoIterator<Item = String>) {
        self.0.add_row(cells(texts));
    }

    fn write(mut self, title: &str, writer: &mut impl Write) -> io::Result<()> {
        writeln!(writer, "\n{title}")?;
        if let Some(first) = self.0.column_mut(0) {
            first.set_padding((0, 1));
        }
        for line in self.0.lines() {
            writeln!(writer, "{}", line.trim_end())?;
        }
        Ok(())
    }
}

fn cells(texts: impl IntoIterator<Item = String>) -> Vec<Cell> {
    let set = |(index, text): (usize, String)| {
        let alignment = if index == 0 { CellAlignment::Left } else { CellAlignment::Right };
        Cell::new(text).set_alignment(alignment)
    };
    texts.into_iter().enumerate().map(set).collect()
}

/// What is told of each reservation.
pub(super) const RESERVATION_HEADS: [&str; 9] =
    ["Reservation", "Slot-hours", "Used", "By others", "Idle", "Used %", "$/slot-hour", "Dollars", "Most used"];

/// The cells below [`RESERVATION_HEADS`].
pub(super) fn reservation_cells(own: &ReservationUse) -> [String; 9] {
    [
        own.id.clone(),
        tenths(own.slot_hours),
        tenths(own.used),
        tenths(own.used_by_others),
        tenths(own.idle),
        percent(own.used, own.slot_hours),
        format!("{:.4}", own.price),
        dollars(own.cost),
        count(own.most_used),
    ]
}
