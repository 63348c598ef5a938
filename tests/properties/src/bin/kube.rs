//! Holds Berth's scheduler against kube-scheduler's framework on many random clusters, and counts what differs.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use berth_checker::random_standing_case;
use berth_properties::kube::{Decision, Evaluation, NodeVerdict, compare};
use clap::Parser;
use serde_json::Value;

/// Cases that one run of the oracle gets.
const BATCH: u64 = 500;

/// Holds Berth's scheduler against kube-scheduler's framework on many random clusters.
#[derive(Parser)]
struct Arguments {
    /// The binary of hack/schedcompare.
    #[arg(long, default_value = "schedcompare")]
    oracle: PathBuf,
    /// The first seed.
    #[arg(long, default_value_t = 0)]
    from: u64,
    /// How many seeds.
    #[arg(long, default_value_t = 200)]
    count: u64,
    /// How many examples of each difference are printed.
    #[arg(long, default_value_t = 3)]
    examples: usize,
    /// Prints the first case as JSON instead of running.
    #[arg(long)]
    show: bool,
    /// Prints the cases instead, a line each, as `schedcompare --batch --through` takes them: without what an API server
    /// does not admit, and without claims that wait for a controller.
    #[arg(long)]
    cases: bool,
}

fn main() -> anyhow::Result<ExitCode> {
    let arguments = Arguments::parse();
    let mut out = std::io::stdout().lock();
    if arguments.show {
        let items = random_standing_case(arguments.from);
        let list = serde_json::json!({"apiVersion": "v1", "kind": "List", "items": items});
        writeln!(out, "{}", serde_json::to_string_pretty(&list)?)?;
        return Ok(ExitCode::SUCCESS);
    }
    if arguments.cases {
        for seed in arguments.from..arguments.from + arguments.count {
            let items = for_control_plane(random_standing_case(seed));
            writeln!(out, "{}", serde_json::json!({"apiVersion": "v1", "kind": "List", "items": items}))?;
        }
        return Ok(ExitCode::SUCCESS);
    }
    let mut by_kind: BTreeMap<&'static str, Vec<String>> = BTreeMap::new();
    let mut tally: BTreeMap<&'static str, u64> = BTreeMap::new();
    let mut failed = 0;
    let last = arguments.from + arguments.count;
    let mut from = arguments.from;
    while from < last {
        let to = last.min(from + BATCH);
        for case in compare(&arguments.oracle, from..to)? {
            failed += u64::from(!case.differences.is_empty());
            for evaluation in &case.evaluations {
                count(evaluation, &mut tally);
            }
            for difference in case.differences {
                by_kind.entry(difference.what).or_default().push(format!("seed {}: {}", case.seed, difference.detail));
            }
        }
        from = to;
    }
    writeln!(out, "{} cases, {failed} differ", arguments.count)?;
    for (what, count) in &tally {
        writeln!(out, "  {count:>8} {what}")?;
    }
    for (what, details) in &by_kind {
        writeln!(out, "{what}: {}", details.len())?;
        for detail in details.iter().take(arguments.examples) {
            writeln!(out, "  {detail}")?;
        }
    }
    Ok(if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

// A pod with overhead needs a RuntimeClass, and a claim without a volume somebody who provisions it.
fn for_control_plane(mut items: Vec<Value>) -> Vec<Value> {
    let waits = |item: &Value| item["kind"] == "PersistentVolumeClaim" && item["spec"].get("volumeName").is_none();
    let waiting: BTreeSet<String> =
        items.iter().filter(|item| waits(item)).map(|claim| claim["metadata"]["name"].to_string()).collect();
    items.retain(|item| !waits(item));
    for spec in items.iter_mut().filter(|item| item["kind"] == "Pod").filter_map(|pod| pod["spec"].as_object_mut()) {
        spec.remove("overhead");
        if let Some(volumes) = spec.get_mut("volumes").and_then(Value::as_array_mut) {
            volumes.retain(|volume| !waiting.contains(&volume["persistentVolumeClaim"]["claimName"].to_string()));
        }
    }
    items
}

// What the cases were about.
fn count(evaluation: &Evaluation, tally: &mut BTreeMap<&'static str, u64>) {
    let attempt = match (&evaluation.refusal, &evaluation.decision) {
        (Some(_), _) => "attempts refused for the pod itself",
        (_, Decision::Bound(_)) => "attempts that bind",
        (_, Decision::Nominated { .. }) => "attempts that preempt",
        (_, Decision::Left) => "attempts that find nothing",
    };
    *tally.entry(attempt).or_default() += 1;
    for verdict in evaluation.nodes.values() {
        let what = match verdict {
            NodeVerdict::Refused(plugin, _) => plugin,
            NodeVerdict::Feasible(_) => "nodes scored",
        };
        *tally.entry(what).or_default() += 1;
    }
}
