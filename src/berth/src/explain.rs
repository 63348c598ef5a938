//! `berth explain`: why does this object go where it goes, or nowhere?

use std::process::ExitCode;

use anyhow::{Result, bail};
use berth_plan::{Money, ObjectRef, parse_money};
use clap::ValueEnum;

use crate::input::{Asked, InputArgs};
use crate::output::{Colour, terminal, to_stdout};

/// Tell the whole story of one object in the plan for manifests, without a cluster
///
/// Where it goes; what every node and every offering says to it, counted by reason; which Reservations it matches, and why
/// the others are not for it; what would have to change. Exits with 0 if it has a place, 1 if it has none, and 2, printing
/// nothing, if an input cannot be used or has no such object.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// pod/NAME, pod/NAMESPACE/NAME, deployment/NAME (or another workload, for one of its pods), reservation/NAME or node/NAME (of a node, or of a claim in the plan)
    #[arg(value_name = "KIND/NAME")]
    object: Option<String>,
    /// The namespace of a pod or workload that is named without one
    #[arg(short, long, default_value = "default")]
    namespace: String,
    #[command(flatten)]
    input: InputArgs,
    /// Dollars an hour that removing a node must save for it and each pod that it evicts
    #[arg(long, value_name = "N", default_value = "0", allow_negative_numbers = true, value_parser = parse_money)]
    eviction_price: Money,
    /// Output format
    #[arg(short, long, value_enum, default_value_t = Format::Text)]
    output: Format,
    /// Print every line of long lists
    #[arg(long)]
    wide: bool,
    /// Whether tables are coloured
    #[arg(long, value_enum, default_value_t = Colour::Auto)]
    color: Colour,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    Text,
    Json,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let usage = "  berth explain -f deployment.yaml -f nodepools/ pod/web-0\n  \
                 kubectl get pods,nodes,nodepools -A -o yaml | berth explain -f - node/worker-1";
    let mut input = args.input.clone();
    let parse = |text: &str| ObjectRef::parse_in(text, &args.namespace);
    let object = match &args.object {
        Some(object) => parse(object)?,
        // `-f FILE… pod/NAME`: it was taken for a file.
        None => match input.pop_file() {
            Some(last) => parse(&last)?,
            None => bail!("nothing to explain: name an object and give manifests\n\n{usage}"),
        },
    };
    let without_node = (object.kind == berth_plan::Kind::Node).then_some(object.name.as_str());
    let plan = input.plan(
        "explain",
        usage,
        Asked { without_node, eviction_price: args.eviction_price, keeps_objects: true, ..Asked::default() },
    )?;
    let story = plan.explain(&object, &input.options()?)?;
    to_stdout(|out| match args.output {
        Format::Text => story.write_text(args.wide, terminal(args.color), out),
        Format::Json => story.write_json(out),
    })?;
    let code = if story.has_place() { ExitCode::SUCCESS } else { ExitCode::FAILURE };
    Ok(code)
}
