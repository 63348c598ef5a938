//! `berth plan`: which nodes for these manifests?

use std::process::ExitCode;

use anyhow::Result;
use berth_plan::Plan;
use clap::ValueEnum;

use crate::input::{Asked, InputArgs};
use crate::output::{to_stderr, to_stdout};

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
    /// Prove what any plan costs at least, and print by how much this one may be dearer
    #[arg(long)]
    bound: bool,
    /// Print what each restriction costs: shares, node cost, GPU types, and limits, minValues, capacity types and zones of
    /// NodePools; plans once more for each
    #[arg(long)]
    what_restrictions_cost: bool,
    /// Print how long it took: in JSON as solveSeconds, else on stderr
    #[arg(long)]
    timings: bool,
    /// Print every row of long tables
    #[arg(long)]
    wide: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    Table,
    Json,
    /// One self-contained page: every node with its pods and the room left
    Html,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let usage = "  berth plan -f deployment.yaml -f nodepools/\n  \
                 kubectl get pods,nodes,deployments,nodepools -A -o yaml | berth plan -f -";
    let asked = Asked { bound: args.bound, what_restrictions_cost: args.what_restrictions_cost };
    let plan = args.input.plan("plan", usage, asked)?;
    if args.timings && args.output != Format::Json {
        print_timings(&plan);
    }
    to_stdout(|out| match args.output {
        Format::Table => plan.write_tables(args.wide, out),
        Format::Json => plan.write_json(out, args.timings),
        Format::Html => plan.write_html(out),
    })?;
    let code = if plan.is_complete() { ExitCode::SUCCESS } else { ExitCode::FAILURE };
    // A million names are not worth freeing one by one.
    std::mem::forget(plan);
    Ok(code)
}

fn print_timings(plan: &Plan) {
    let timings = plan.timings();
    let total = timings.convert + timings.solve;
    to_stderr(format_args!(
        "solved in {:.4} s: {:.4} s from objects to the cluster, {:.4} s to the plan",
        total.as_secs_f64(),
        timings.convert.as_secs_f64(),
        timings.solve.as_secs_f64()
    ));
}
