//! `berth trace`: traces for `berth simulate`.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result};
use berth_simulate::{GenerateOptions, OpenbOptions};
use clap::Subcommand;

use crate::output::{to_stderr, to_stdout};

/// Make a trace for `berth simulate`: generate days, or convert the trace of another cluster
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    /// Days of a made-up cluster: Deployments that follow the day, rollouts, and batch at night
    Generate(Generate),
    /// Alibaba's trace of GPU pods (openb), laid over itself to a larger cluster
    Openb(Openb),
}

#[derive(clap::Args)]
struct Generate {
    /// Decides everything that is left to chance
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u64,
    /// How many days, 1 to 400
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=400))]
    days: u64,
    /// How many Deployments
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u64).range(0..=10_000))]
    services: u64,
    /// Pods of all Deployments at the busiest time of a weekday
    #[arg(long, value_name = "N", default_value_t = 400, value_parser = clap::value_parser!(u64).range(0..=200_000))]
    service_pods: u64,
    /// Pods of batch a day, most of them at night
    #[arg(long, value_name = "N", default_value_t = 1_000, value_parser = clap::value_parser!(u64).range(0..=1_000_000))]
    batch_pods: u64,
}

#[derive(clap::Args)]
struct Openb {
    /// The CSV file, or the same compressed with gzip
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Decides by how much each copy of the trace is shifted
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u64,
    /// Pods at a time, on average
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = clap::value_parser!(u64).range(1..=200_000))]
    concurrency: u64,
    /// How many days, 1 to 400
    #[arg(long, value_name = "N", default_value_t = 30, value_parser = clap::value_parser!(u16).range(1..=400))]
    days: u16,
    /// Leave out pods that ask for GPUs
    #[arg(long)]
    without_gpus: bool,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    match &args.what {
        What::Generate(own) => {
            let Generate { seed, days, services, service_pods, batch_pods } = *own;
            let least = services * berth_simulate::LEAST_SERVICE_PODS;
            anyhow::ensure!(
                service_pods >= least,
                "--service-pods: found {service_pods}, expected {least} or more: {services} Deployments have {} or more each",
                berth_simulate::LEAST_SERVICE_PODS
            );
            let options = GenerateOptions { seed, days, services, service_pods, batch_pods };
            to_stdout(|out| berth_simulate::generate(&options, out))?;
        }
        What::Openb(own) => {
            let reader =
                berth_simulate::open(&own.file).with_context(|| format!("unable to read {}", own.file.display()))?;
            let options = OpenbOptions {
                seed: own.seed,
                concurrency: own.concurrency,
                days: f64::from(own.days),
                without_gpus: own.without_gpus,
            };
            let mut trace = Vec::new();
            let file = own.file.display().to_string();
            let summary = berth_simulate::openb(reader, &file, &options, &mut trace)?;
            if let Some(first) = summary.without_length.first() {
                let n = summary.without_length.len();
                let pods =
                    if n == 1 { "1 pod ends as it comes".to_owned() } else { format!("{n} pods end as they come") };
                to_stderr(format_args!("warning: {file}: line {first}: {pods}: left out"));
            }
            to_stdout(|out| std::io::Write::write_all(out, &trace))?;
            to_stderr(format_args!(
                "{} copies with seed {}: {} pods, {:.1} at a time",
                summary.copies, own.seed, summary.pods, summary.concurrency
            ));
        }
    }
    Ok(ExitCode::SUCCESS)
}
