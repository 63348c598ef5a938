//! Berth's command line: flags in, exit code out. Everything else is in the libraries.
//!
//! Exit codes: 0 all placed (or what is explained is), 1 something is unschedulable or above --max-cost (the plan is
//! printed), 2 bad input (nothing on stdout).

mod adoption;
mod catalog;
mod cloud;
mod cluster;
mod completions;
mod controllers;
mod crds;
mod explain;
mod input;
mod kustomize;
mod onlookers;
mod output;
mod plan;
mod progress;
mod recording;
mod run;
mod sandbox;
mod simulate;
mod telemetry;
mod trace;

use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};

// Reading and converting a million objects is mostly small allocations.
#[cfg(feature = "mimalloc")]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// A node autoscaler for Kubernetes that knows what has been reserved.
#[derive(Parser)]
#[command(name = "berth", version, propagate_version = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Plan(Box<plan::Args>),
    Explain(Box<explain::Args>),
    Crds(crds::Args),
    Catalog(Box<catalog::Args>),
    Sandbox(Box<sandbox::Args>),
    Run(Box<run::Args>),
    Cloud(cloud::Args),
    Simulate(simulate::Args),
    Trace(trace::Args),
    Completions(completions::Args),
    Man(completions::ManArgs),
}

fn main() -> ExitCode {
    let result = match &Cli::parse().command {
        Command::Plan(args) => plan::run(args),
        Command::Explain(args) => explain::run(args),
        Command::Crds(args) => crds::run(args),
        Command::Catalog(args) => catalog::run(args),
        Command::Sandbox(args) => sandbox::run(args),
        Command::Run(args) => run::run(args),
        Command::Cloud(args) => cloud::run(args),
        Command::Simulate(args) => simulate::run(args),
        Command::Trace(args) => trace::run(args),
        Command::Completions(args) => completions::run(args, Cli::command()),
        Command::Man(args) => completions::write_pages(args, Cli::command()),
    };
    result.unwrap_or_else(|error| {
        output::to_stderr(format_args!("error: {}", output::with_causes(&error)));
        ExitCode::from(2)
    })
}
