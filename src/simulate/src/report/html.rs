//! The report as one page that needs nothing else.

use std::io::{self, Write};

use super::Report;
use super::plot::{Line, escaped, legend, svg};
use super::table::{FIGURES, RESERVATION_HEADS, reservation_cells};
use super::text::{count, difference, dollars, duration, length, percent, tenths};
use crate::outcome::{Outcome, Sample};

const STYLE: &str = include_str!("style.css");

/// Writes the page.
pub(super) fn write(report: &Report, writer: &mut impl Write) -> io::Result<()> {
    let name = escaped(&report.scenario);
    write!(
        writer,
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\
         <title>{name}: a simulation</title>\n<style>{STYLE}</style></head>\n<body>\n<h1>{name}</h1>\n"
    )?;
    match &report.variants[..] {
        [only] => {
            write_figures(only, writer)?;
            write_plots(&single_plots(only), &only.samples, writer)?;
            write_details(only, writer)?;
        }
        all => {
            write_comparison(report, writer)?;
            if let Some(first) = all.first() {
                write_plots(&compared_plots(all), &first.samples, writer)?;
            }
            for outcome in all {
                writeln!(writer, "<details><summary>{}</summary>", escaped(&outcome.variant))?;
                write_figures(outcome, writer)?;
                write_plots(&single_plots(outcome), &outcome.samples, writer)?;
                write_details(outcome, writer)?;
                writeln!(writer, "</details>")?;
            }
        }
    }
    for (name, value) in report.provenance.iter().flat_map(super::Provenance::lines) {
        writeln!(writer, "<p class=\"note\">{}: {}</p>", escaped(name), escaped(&value))?;
    }
    writeln!(writer, "</body></html>")
}

fn write_figures(outcome: &Outcome, writer: &mut impl Write) -> io::Result<()> {
    let cost = &outcome.cost;
    let used: f64 = outcome.reservations.iter().map(|own| own.used).sum();
    let slots: f64 = outcome.reservations.iter().map(|own| own.slot_hours).sum();
    let waited = outcome.pods.waited.first();
    let unplaced: u64 = outcome.unplaced.iter().map(|own| own.pods).sum();
    let in_vain: usize = outcome.pods.in_vain.iter().map(|own| own.pods).sum();
    let figures = [
        ("Cost", dollars(cost.total), format!("{} of list price", percent(cost.total, cost.list_price))),
        ("At list price", dollars(cost.list_price), format!("{} from {}", length(outcome.hours), outcome.start)),
        (
            "Without reservations",
            dollars(cost.without_reservations),
            if (cost.without_reservations - cost.total).abs() < 0.000_05 {
                "as it was".to_owned()
            } else {
                let more = cost.without_reservations - cost.total;
                format!("{} {} than it was", dollars(more.abs()), if more < 0.0 { "less" } else { "more" })
            },
        ),
        ("Slot-hours used", percent(used, slots), format!("{} of {}", tenths(used), tenths(slots))),
        ("Nodes launched", count(outcome.nodes.launched), format!("{} at a time at most", count(outcome.nodes.most))),
        (
            "Median wait for a node",
            waited.map_or(String::new(), |row| duration(row.median)),
            waited.map_or(String::new(), |row| format!("99% {}, longest {}", duration(row.p99), duration(row.longest))),
        ),
        (
            "Evictions per pod-day",
            format!("{:.3}", outcome.pods.evictions_per_pod_day),
            format!("{} of {} pods", count(outcome.pods.evictions), count(outcome.pods.total)),
        ),
        (
            "Without a node at the end",
            count(unplaced),
            format!("{} more went without ever having had one", count(in_vain)),
        ),
    ];
    writeln!(writer, "<dl class=\"figures\">")?;
    for (name, figure, more) in figures {
        let bad = if name.starts_with("Without a node") && unplaced > 0 { " class=\"bad\"" } else { "" };
        writeln!(
            writer,
            "<div{bad}><dt>{name}</dt><dd>{}<small>{}</small></dd></div>",
            escaped(&figure),
            escaped(&more)
        )?;
    }
    writeln!(writer, "</dl>")
}

/// A plot: its title, the unit of its values, and its lines.
type Plot = (&'static str, &'static str, Vec<Line>);

fn line(name: &str, samples: &[Sample], of: impl Fn(&Sample) -> f64) -> Line {
    Line { name: name.to_owned(), values: samples.iter().map(of).collect(), is_filled: false }
}

fn total(sample: &Sample) -> f64 {
    sample.nodes.iter().map(|count| f64::from(*count)).sum()
}

fn single_plots(outcome: &Outcome) -> Vec<Plot> {
    let samples = &outcome.samples[..];
    // From the highest to the lowest, so that each hides the part of the next below it.
    let stacked = |name: &str, from: usize| Line {
        is_filled: true,
        ..line(name, samples, move |own| own.nodes.iter().skip(from).map(|count| f64::from(*count)).sum())
    };
    let slots = vec![
        line("slots", samples, |own| f64::from(own.slots)),
        line("used", samples, |own| f64::from(own.slots_used)),
    ];
    vec![
        ("Nodes", "", vec![stacked("on-demand", 0), stacked("spot", 1), stacked("reserved", 2)]),
        (
            "Dollars an hour",
            "$",
            vec![
                line("paid, slots included", samples, |own| own.dollars_an_hour),
                line("the same nodes at list price", samples, |own| own.list_dollars_an_hour),
            ],
        ),
        ("Slots", "", slots),
        ("Pods that wait for a node", "", vec![line("waiting", samples, |own| f64::from(own.pending))]),
        ("Pods that run", "", vec![line("running", samples, |own| f64::from(own.running))]),
    ]
}

fn compared_plots(all: &[Outcome]) -> Vec<Plot> {
    let lines = |of: fn(&Sample) -> f64| {
        all.iter().map(|outcome| line(&outcome.variant, &outcome.samples, of)).collect::<Vec<Line>>()
    };
    vec![
        ("Dollars an hour, slots included", "$", lines(|own| own.dollars_an_hour)),
        ("Nodes", "", lines(total)),
        ("Slots that are used", "", lines(|own| f64::from(own.slots_used))),
        ("Pods that wait for a node", "", lines(|own| f64::from(own.pending))),
    ]
}

fn write_plots(plots: &[Plot], samples: &[Sample], writer: &mut impl Write) -> io::Result<()> {
    #[allow(clippy::cast_precision_loss)]
    let seconds: Vec<f64> = samples.iter().map(|own| own.seconds as f64).collect();
    writeln!(writer, "<div class=\"plots\">")?;
    for (title, unit, lines) in plots {
        // Nothing to see: no slot, or nobody who waited.
        if lines.iter().flat_map(|line| &line.values).all(|value| *value <= 0.0) {
            continue;
        }
        writeln!(
            writer,
            "<figure><figcaption>{}</figcaption>{}{}</figure>",
            escaped(title),
            svg(title, unit, &seconds, lines),
            legend(lines)
        )?;
    }
    writeln!(writer, "</div>")
}

fn write_comparison(report: &Report, writer: &mut impl Write) -> io::Result<()> {
    let names: Vec<&str> = report.variants.iter().map(|outcome| outcome.variant.as_str()).collect();
    open_table("Comparison", std::iter::once("").chain(names), writer)?;
    for (index, (name, figure)) in FIGURES.iter().enumerate() {
        write_row(std::iter::once((*name).to_owned()).chain(report.variants.iter().map(figure)), writer)?;
        if index == 0 {
            let rest = report.differences.iter().map(|own| difference(own.total));
            let start = ["  more than the first".to_owned(), "-".to_owned()];
            write_row(start.into_iter().chain(rest), writer)?;
        }
    }
    close_table(writer)
}

fn write_details(outcome: &Outcome, writer: &mut impl Write) -> io::Result<()> {
    if !outcome.reservations.is_empty() {
        open_table("Reservations", RESERVATION_HEADS, writer)?;
        for own in &outcome.reservations {
            write_row(reservation_cells(own), writer)?;
        }
        close_table(writer)?;
    }
    open_table("Waiting for a node", ["Waited for", "Pods", "Median", "99%", "Longest"], writer)?;
    for row in &outcome.pods.waited {
        let times = [row.median, row.p99, row.longest].map(duration);
        write_row([row.reason.clone(), count(row.pods)].into_iter().chain(times), writer)?;
    }
    close_table(writer)?;
    if !outcome.pods.in_vain.is_empty() {
        let heads = ["Waited in vain", "Pods", "Median", "99%", "Longest"];
        open_table("Went without ever having had a node", heads, writer)?;
        for row in &outcome.pods.in_vain {
            let times = [row.median, row.p99, row.longest].map(duration);
            write_row([row.reason.clone(), count(row.pods)].into_iter().chain(times), writer)?;
        }
        close_table(writer)?;
    }
    if !outcome.unplaced.is_empty() {
        open_table("Without a node at the end", ["Why", "Pods", "Longest"], writer)?;
        for own in &outcome.unplaced {
            write_row([own.reason.clone(), count(own.pods), duration(own.longest)], writer)?;
        }
        close_table(writer)?;
    }
    for note in &outcome.notes {
        writeln!(writer, "<p class=\"note\">{}</p>", escaped(note))?;
    }
    Ok(())
}

fn open_table<'t>(title: &str, heads: impl IntoIterator<Item = &'t str>, writer: &mut impl Write) -> io::Result<()> {
    write!(writer, "<section><h2>{}</h2><div class=\"wide\"><table><thead><tr>", escaped(title))?;
    for head in heads {
        write!(writer, "<th>{}</th>", escaped(head))?;
    }
    writeln!(writer, "</tr></thead><tbody>")
}

fn write_row(cells: impl IntoIterator<Item = String>, writer: &mut impl Write) -> io::Result<()> {
    write!(writer, "<tr>")?;
    for (index, cell) in cells.into_iter().enumerate() {
        let indented = if index == 0 && cell.starts_with(' ') { " class=\"in\"" } else { "" };
        write!(writer, "<td{indented}>{}</td>", escaped(cell.trim()))?;
    }
    writeln!(writer, "</tr>")
}

fn close_table(writer: &mut impl Write) -> io::Result<()> {
    writeln!(writer, "</tbody></table></div></section>")
}
