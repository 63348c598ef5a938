//! `berth plan`: which nodes for these manifests?

use std::process::ExitCode;

use anyhow::Result;
use berth_plan::{Money, Plan, parse_money};
use clap::ValueEnum;

use crate::input::{Asked, InputArgs};
use crate::output::{Colour, terminal, to_stderr, to_stdout};

/// Say which nodes would be launched for manifests, without a cluster
///
/// Reads Pods, workloads, NodePools, Reservations, Nodes and what else placement depends on. Exits with 0 if everything
/// has a place, 1 if something is unschedulable, and 2, printing no plan, if an input cannot be used.
#[derive(clap::Args)]
#[expect(clippy::struct_excessive_bools, reason = "independent flags")]
pub(crate) struct Args {
    #[command(flatten)]
    input: InputArgs,
    /// Output format
    #[arg(short, long, value_enum, default_value_t = Format::Table)]
    output: Format,
    /// Prove what any plan costs at least, and print by how much this one may be dearer; with --disrupt, the same of any
    /// consolidation
    #[arg(long)]
    bound: bool,
    /// Print what each restriction costs: shares, node cost, GPU types, and limits, minValues, capacity types and zones of
    /// NodePools; plans once more for each
    #[arg(long)]
    what_restrictions_cost: bool,
    /// Say, too, what the whole cluster would cost planned from scratch, beside what its nodes cost now
    #[arg(long)]
    repack: bool,
    /// Say what these files change: their objects take the place of those of the same kind, namespace and name, or are
    /// added; the plan is the one with them
    #[arg(long, num_args = 1.., value_name = "FILE")]
    diff: Vec<String>,
    /// Exit with 1 if the new nodes cost more, in dollars an hour, node cost included
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = parse_money)]
    max_cost: Option<Money>,
    /// Say which nodes would be removed or replaced, in which order, what that saves, and why every other node stays
    #[arg(long)]
    disrupt: bool,
    /// Dollars an hour that a removal must save for each node that goes and each pod that it evicts (with --disrupt)
    #[arg(long, value_name = "N", default_value = "0", allow_negative_numbers = true, value_parser = parse_money, requires = "disrupt")]
    eviction_price: Money,
    /// Print how long it took: in JSON as readSeconds and solveSeconds, else on stderr
    #[arg(long)]
    timings: bool,
    /// Print every row of long tables, and the pods of each node
    #[arg(long)]
    wide: bool,
    /// Whether tables are coloured
    #[arg(long, value_enum, default_value_t = Colour::Auto)]
    color: Colour,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    Table,
    Json,
    /// The JSON contract as YAML
    Yaml,
    /// One self-contained page: every node with its pods and the room left
    Html,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let usage = "  berth plan -f deployment.yaml -f nodepools/\n  \
                 berth plan --from-cluster";
    let asked = Asked {
        bound: args.bound,
        what_restrictions_cost: args.what_restrictions_cost,
        repack: args.repack,
        diff: &args.diff,
        disrupt: args.disrupt,
        eviction_price: args.eviction_price,
        without_node: None,
        keeps_objects: false,
    };
    let plan = args.input.plan("plan", usage, asked)?;
    if args.timings && !matches!(args.output, Format::Json | Format::Yaml) {
        print_timings(&plan);
    }
    to_stdout(|out| match args.output {
        Format::Table => plan.write_tables(args.wide, terminal(args.color), out),
        Format::Json => plan.write_json(out, args.timings),
        Format::Yaml => plan.write_yaml(out, args.timings),
        Format::Html => plan.write_html(out),
    })?;
    let is_affordable = is_affordable(&plan, args.max_cost);
    let code = if plan.is_complete() && is_affordable { ExitCode::SUCCESS } else { ExitCode::FAILURE };
    // A million names are not worth freeing one by one.
    std::mem::forget(plan);
    Ok(code)
}

/// Whether the plan costs no more than it may; if it does, says so.
fn is_affordable(plan: &Plan, most: Option<Money>) -> bool {
    let summary = plan.summary();
    let cost = summary.hourly_cost + summary.node_cost;
    let Some(most) = most.filter(|most| cost > *most) else { return true };
    let (cost, most) = (berth_plan::dollars(cost), berth_plan::dollars(most));
    to_stderr(format_args!("the new nodes cost ${cost}/h, more than --max-cost ${most}/h"));
    false
}

fn print_timings(plan: &Plan) {
    let timings = plan.timings();
    let total = timings.read + timings.convert + timings.solve;
    to_stderr(format_args!(
        "planned in {:.4} s: {:.4} s to read and parse, {:.4} s from objects to the cluster, {:.4} s to the plan",
        total.as_secs_f64(),
        timings.read.as_secs_f64(),
        timings.convert.as_secs_f64(),
        timings.solve.as_secs_f64()
    ));
}
