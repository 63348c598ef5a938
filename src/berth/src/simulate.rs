//! `berth simulate`: what would these days cost?

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use berth_simulate::{Provenance, Report, Simulation, Variation, variants};
use clap::ValueEnum;

use crate::output::{to_stderr, to_stdout};
use crate::recording::Recording;

/// Let days pass for a cluster in virtual time, and say what they cost
///
/// A scenario says what the cluster begins with and what happens when; hours pass in seconds, since time costs nothing where
/// nothing happens. The same scenario gives the same bytes. Exits with 0 if every pod has a node at the end, 1 if some have
/// none, and 2, printing no report, if an input cannot be used.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The scenario, YAML (see docs/simulate.md); or a report in JSON, to show it as a table or a page
    #[arg(value_name = "SCENARIO")]
    scenario: PathBuf,
    /// Run a variant for each value, and compare: reservation.ID=N,N%, gate.NAME=BOOL,BOOL, effort=…, consolidation=…,
    /// nodeCost=N,N, evictionPrice=N,N, preferencePolicy=Respect,Ignore or seed=N,N; several give every combination
    #[arg(long, value_name = "KEY=VALUE,VALUE…")]
    vary: Vec<String>,
    /// Output format
    #[arg(short, long, value_enum, default_value_t = Format::Table)]
    output: Format,
    /// Write the cluster as it changes to this file: one page with a slider for its time
    #[arg(long, value_name = "FILE.html")]
    record: Option<PathBuf>,
    /// Variants that run at a time, 1 to 64; the report does not depend on them (default: one a core)
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=64))]
    threads: Option<u16>,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    Table,
    Json,
    /// One self-contained page with plots over time
    Html,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let variations: Vec<Variation> = args.vary.iter().map(|text| text.parse()).collect::<Result<_, _>>()?;
    let report = match Report::read(&args.scenario)? {
        Some(_) if !variations.is_empty() => bail!("--vary: expected a scenario to vary, found a report"),
        Some(_) if args.record.is_some() => bail!("--record: expected a scenario to record, found a report"),
        Some(report) => report,
        None => simulated(args, &variations)?,
    };
    to_stdout(|out| match args.output {
        Format::Table => report.write_tables(out),
        Format::Json => report.write_json(out),
        Format::Html => report.write_html(out),
    })?;
    Ok(if report.is_complete() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn simulated(args: &Args, variations: &[Variation]) -> Result<Report> {
    let simulation = Simulation::read(&args.scenario)?;
    for warning in simulation.warnings() {
        to_stderr(format_args!("warning: {warning}"));
    }
    let all = variants(&simulation, variations)?;
    let name = args.scenario.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
    let provenance = Some(Provenance::of(&name, &simulation));
    if let Some(path) = &args.record {
        let [only] = all.as_slice() else {
            bail!("--record: expected one variant, found {}: vary one value at a time", all.len());
        };
        let mut recording = Recording::create(path, &name, only.duration())?;
        let outcome = only.run_watched(&mut recording).context("unable to simulate")?;
        recording.end()?;
        return Ok(Report::new(&name, vec![outcome]).made_of(provenance));
    }
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZeroUsize::get);
    let threads = args.threads.map_or(cores, usize::from);
    let outcomes = berth_simulate::run_all(&all, threads).context("unable to simulate")?;
    Ok(Report::new(&name, outcomes).made_of(provenance))
}
