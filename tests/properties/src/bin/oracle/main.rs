//! Karpenter's scheduler as an oracle for Berth's, on random small clusters.
//!
//! Every case of [`berth_checker::Size::Tiny`] is planned by both. Berth must place no fewer pods at any priority, and
//! cost no more for the same pods, or a named decision must say why; any difference left over makes the exit code 1.

mod compare;
mod decisions;
mod outcome;
mod peer;
mod shrink;

use std::collections::BTreeMap;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use berth_checker::{Case, Size, random_case};
use clap::Parser;
use compare::{Comparison, Verdict, compare};
use peer::Peer;
use serde_json::Value;

/// Compares Berth with Karpenter on random small clusters; 1 if a difference has no explanation.
#[derive(Parser)]
struct Arguments {
    /// The program of `hack/compare`.
    #[arg(long)]
    karpenter: PathBuf,
    /// The first seed.
    #[arg(long, default_value_t = 0)]
    from: u64,
    /// How many seeds.
    #[arg(long, default_value_t = 2000)]
    count: u64,
    /// The most seconds that Karpenter may take for a case.
    #[arg(long, default_value_t = 10.0)]
    max_seconds: f64,
    /// How many differences of each kind are printed with both plans.
    #[arg(long, default_value_t = 0)]
    examples: usize,
    /// Prints the least input that still shows each unexplained difference.
    #[arg(long)]
    shrink: bool,
}

/// A verdict with what explains it.
type Kind = (Verdict, &'static str);

fn kind(found: &Comparison) -> Kind {
    let why = match found.decision {
        Some(decision) => decision.name(),
        None if found.verdict.is_worse() => "UNEXPLAINED",
        None => "",
    };
    (found.verdict, why)
}

fn main() -> anyhow::Result<ExitCode> {
    let arguments = Arguments::parse();
    let mut peer = Peer::start(&arguments.karpenter, arguments.max_seconds)?;
    let mut out = std::io::stdout().lock();
    let mut by_kind: BTreeMap<Kind, Vec<u64>> = BTreeMap::new();
    let mut refused: BTreeMap<String, Vec<u64>> = BTreeMap::new();
    for seed in arguments.from..arguments.from.saturating_add(arguments.count) {
        let case = random_case(seed, Size::Tiny);
        let found = match compare(&mut peer, &case) {
            Ok(found) => found,
            Err(error) => {
                refused.entry(format!("{error:#}")).or_default().push(seed);
                continue;
            }
        };
        let seeds = by_kind.entry(kind(&found)).or_default();
        seeds.push(seed);
        if seeds.len() <= arguments.examples {
            show(seed, &found, &mut out)?;
        }
        if arguments.shrink && found.is_unexplained() {
            let differs = |case: &Case| compare(&mut peer, case).is_ok_and(|smaller| kind(&smaller) == kind(&found));
            let least = shrink::shrink(&case, differs);
            writeln!(out, "the least input with this difference:")?;
            show(seed, &compare(&mut peer, &least)?, &mut out)?;
            show_input(&least, &mut out)?;
        }
    }
    table(&by_kind, &refused, arguments.count, &mut out)?;
    let is_clean = refused.is_empty() && by_kind.keys().all(|(_, why)| *why != "UNEXPLAINED");
    Ok(if is_clean { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn show(seed: u64, found: &Comparison, out: &mut impl Write) -> anyhow::Result<()> {
    let (verdict, why) = kind(found);
    writeln!(out, "seed {seed}: {} {why}", verdict.name())?;
    writeln!(out, "    Berth     {}\n    Karpenter {}", found.berth, found.peer)?;
    Ok(())
}

fn show_input(case: &Case, out: &mut impl Write) -> anyhow::Result<()> {
    for object in &case.objects {
        let kind = object["kind"].as_str().unwrap_or_default();
        writeln!(out, "  {kind} {} {}", object["metadata"], object["spec"])?;
    }
    for instance_type in case.catalogue.as_array().into_iter().flatten() {
        let mut short = instance_type.clone();
        for offering in short["offerings"].as_array_mut().into_iter().flatten() {
            let values: Vec<&Value> =
                offering["Requirements"].as_array().into_iter().flatten().map(|r| &r["values"][0]).collect();
            *offering = format!("{:?} at {}", values, offering["Price"]).into();
        }
        writeln!(out, "  {short}")?;
    }
    Ok(())
}

fn table(
    by_kind: &BTreeMap<Kind, Vec<u64>>,
    refused: &BTreeMap<String, Vec<u64>>,
    count: u64,
    out: &mut impl Write,
) -> anyhow::Result<()> {
    writeln!(out, "| Berth beside Karpenter | why | cases of {count} | seeds |\n|---|---|---|---|")?;
    let row = |verdict: &str, why: &str, seeds: &[u64], out: &mut dyn Write| {
        let first: Vec<String> = seeds.iter().take(8).map(ToString::to_string).collect();
        writeln!(out, "| {verdict} | {why} | {} | {} |", seeds.len(), first.join(" "))
    };
    for ((verdict, why), seeds) in by_kind {
        row(verdict.name(), why, seeds, out)?;
    }
    for (error, seeds) in refused {
        row("not compared", error, seeds, out)?;
    }
    Ok(())
}
