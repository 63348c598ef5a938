//! Plans many random cases and counts what is wrong by rule.

use std::collections::BTreeMap;
use std::io::Write;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use berth_checker::{Size, random_case};
use berth_properties::narrowing::try_narrowing;
use berth_properties::{Failure, effort_of, gpu_types_for_any_pod, has_reserved_capacity, shares_of, try_case};
use clap::{Parser, ValueEnum};
use rayon::prelude::*;

#[derive(Clone, Copy, ValueEnum)]
enum Cases {
    Tiny,
    Small,
    Medium,
}

/// Plans many random cases and counts what is wrong by rule.
#[derive(Parser)]
struct Arguments {
    /// How large the cases are.
    #[arg(long, default_value = "small")]
    size: Cases,
    /// The first seed.
    #[arg(long, default_value_t = 0)]
    from: u64,
    /// How many seeds.
    #[arg(long, default_value_t = 500)]
    count: u64,
    /// Checks narrowing instead of plans.
    #[arg(long)]
    narrowing: bool,
    /// Prints the first case's objects, catalogue and plan as JSON instead of running.
    #[arg(long)]
    show: bool,
    /// How many examples of each rule are printed, from different seeds.
    #[arg(long, default_value_t = 3)]
    examples: usize,
}

struct Outcome {
    seed: u64,
    failures: Vec<Failure>,
    took: Duration,
}

fn main() -> anyhow::Result<ExitCode> {
    let arguments = Arguments::parse();
    let size = match arguments.size {
        Cases::Tiny => Size::Tiny,
        Cases::Small => Size::Small,
        Cases::Medium => Size::Medium,
    };
    let mut out = std::io::stdout().lock();
    if arguments.show {
        show(arguments.from, size, &mut out)?;
        return Ok(ExitCode::SUCCESS);
    }
    let seeds = arguments.from..arguments.from.saturating_add(arguments.count);
    let run = |seed| {
        let start = Instant::now();
        let failures = if arguments.narrowing { try_narrowing(seed, size) } else { try_case(seed, size) };
        Outcome { seed, failures, took: start.elapsed() }
    };
    let outcomes: Vec<Outcome> = seeds.into_par_iter().map(run).collect();
    let is_clean = report(&outcomes, arguments.examples, &mut out)?;
    Ok(if is_clean { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn show(seed: u64, size: Size, out: &mut impl Write) -> anyhow::Result<()> {
    let case = random_case(seed, size);
    let mut options = berth_plan::Options::default();
    options.gates.reserved_capacity = has_reserved_capacity(seed);
    options.effort = effort_of(seed);
    options.max_shares = shares_of(seed);
    options.gpu_types_for_any_pod = gpu_types_for_any_pod(seed);
    let plan = berth_plan::plan_documents(&case.objects, Some(&case.catalogue), &options)?;
    let all = serde_json::json!({"objects": case.objects, "catalogue": case.catalogue, "plan": plan});
    writeln!(out, "{all:#}")?;
    Ok(())
}

/// Prints the failures by rule; whether there are none.
fn report(outcomes: &[Outcome], n_examples: usize, out: &mut impl Write) -> anyhow::Result<bool> {
    let mut by_rule: BTreeMap<&str, Vec<(u64, &str)>> = BTreeMap::new();
    for outcome in outcomes {
        for failure in &outcome.failures {
            by_rule.entry(&failure.rule).or_default().push((outcome.seed, &failure.detail));
        }
    }
    let n_failed = outcomes.iter().filter(|outcome| !outcome.failures.is_empty()).count();
    writeln!(out, "{} cases, {n_failed} with failures", outcomes.len())?;
    if let Some(slowest) = outcomes.iter().max_by_key(|outcome| outcome.took) {
        writeln!(out, "slowest: seed {}, {:.2} s with the checks", slowest.seed, slowest.took.as_secs_f64())?;
    }
    for (rule, found) in &by_rule {
        let mut seeds: Vec<u64> = found.iter().map(|(seed, _)| *seed).collect();
        seeds.dedup();
        writeln!(out, "\n{rule}: {} in {} seeds", found.len(), seeds.len())?;
        for seed in seeds.iter().take(n_examples) {
            if let Some((_, detail)) = found.iter().find(|(known, _)| known == seed) {
                writeln!(out, "  seed {seed}: {detail}")?;
            }
        }
    }
    Ok(by_rule.is_empty())
}
