//! `berth plan`: which nodes for these manifests?

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use berth_plan::{Effort, FeatureGates, Input, Money, Options, Plan, Validate, parse_money};
use clap::ValueEnum;

use crate::output::to_stdout;

/// Say which nodes would be launched for manifests, without a cluster
///
/// Reads Pods, workloads, NodePools, Reservations, Nodes and what else placement depends on. Exits with 0 if everything
/// has a place, 1 if something is unschedulable, and 2, printing no plan, if an input cannot be used.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// A file, a folder of *.yaml, *.yml and *.json, or - for standard input; may be repeated
    #[arg(short, long = "filename", num_args = 1.., value_name = "FILE")]
    filename: Vec<String>,
    /// Instance catalogue, JSON or YAML; without it, the fake provider's (see `berth catalog`)
    #[arg(long, value_name = "FILE")]
    instance_types: Option<PathBuf>,
    /// Output format
    #[arg(short, long, value_enum, default_value_t = Format::Table)]
    output: Format,
    /// How much work to spend on a cheaper plan
    #[arg(long, value_enum, default_value_t = EffortArg::Default)]
    effort: EffortArg,
    /// Dollars an hour that every new node costs beyond its price
    #[arg(long, value_name = "N", default_value = "0", value_parser = parse_money)]
    node_cost: Money,
    /// Print how long it took: in JSON as solveSeconds, else on stderr
    #[arg(long)]
    timings: bool,
    /// Feature gates: ReservedCapacity (on by default), NodeOverlay, SpotToSpotConsolidation, NodeRepair, StaticCapacity
    #[arg(long, value_name = "GATE=BOOL,…", default_value = "", hide_default_value = true, value_parser = parse_gates)]
    feature_gates: FeatureGates,
    /// kube-scheduler configuration whose ReservationArgs hold for Reservations
    #[arg(long, value_name = "FILE")]
    scheduler_config: Option<PathBuf>,
    /// What becomes of fields that a kind does not have
    #[arg(long, value_enum, default_value_t = ValidateArg::Strict)]
    validate: ValidateArg,
    /// Threads that parse; the plan does not depend on them (default: one a core)
    #[arg(long, value_name = "N")]
    threads: Option<NonZeroUsize>,
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

#[derive(Clone, Copy, ValueEnum)]
enum EffortArg {
    Low,
    Default,
    High,
}

#[derive(Clone, Copy, ValueEnum)]
enum ValidateArg {
    Strict,
    Warn,
    Ignore,
}

fn parse_gates(text: &str) -> Result<FeatureGates, berth_plan::UnknownGate> {
    let mut gates = FeatureGates::default();
    gates.set_gates(text)?;
    Ok(gates)
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    if args.filename.is_empty() {
        bail!(
            "nothing to plan: give manifests with -f FILE, a folder, or - for standard input\n\n  \
             berth plan -f deployment.yaml -f nodepools/\n  \
             kubectl get pods,nodes,deployments,nodepools -A -o yaml | berth plan -f -"
        );
    }
    if let Some(threads) = args.threads {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads.get());
        pool.build_global().context("unable to start threads")?;
    }
    let inputs: Vec<Input> = args.filename.iter().map(|name| Input::from_arg(name)).collect();
    let mut options = args.options();
    if let Some(file) = &args.scheduler_config {
        options.gates.reservations = berth_plan::read_scheduler_config(file)?;
    }
    let plan = berth_plan::plan_inputs(&inputs, args.instance_types.as_deref(), &options)?;
    for warning in plan.warnings() {
        eprintln!("warning: {warning}");
    }
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

impl Args {
    fn options(&self) -> Options {
        Options {
            effort: match self.effort {
                EffortArg::Low => Effort::Low,
                EffortArg::Default => Effort::Default,
                EffortArg::High => Effort::High,
            },
            node_cost: self.node_cost,
            gates: self.feature_gates.clone(),
            validate: match self.validate {
                ValidateArg::Strict => Validate::Strict,
                ValidateArg::Warn => Validate::Warn,
                ValidateArg::Ignore => Validate::Ignore,
            },
        }
    }
}

fn print_timings(plan: &Plan) {
    let timings = plan.timings();
    let total = timings.convert + timings.solve;
    eprintln!(
        "solved in {:.4} s: {:.4} s from objects to the cluster, {:.4} s to the plan",
        total.as_secs_f64(),
        timings.convert.as_secs_f64(),
        timings.solve.as_secs_f64()
    );
}
