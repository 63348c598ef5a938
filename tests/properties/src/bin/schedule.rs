//! How long Berth's scheduler takes for the pending pods of a cluster, as a line of JSON: the counterpart of
//! `schedcompare --bench` on the same file. Reading and reducing the file are set-up there and here.

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use berth_convert::{Builder, Options};
use berth_model::Universe;
use berth_scheduling::{Launchable, Queue, Scheduler};
use clap::Parser;
use serde_json::json;

/// Schedules the pending pods of a cluster and says how long it took.
#[derive(Parser)]
struct Arguments {
    /// YAML or JSON of nodes and pods.
    #[arg(short, long = "file", required = true)]
    file: Vec<PathBuf>,
    /// Lets pods make room by preemption.
    #[arg(long)]
    preempts: bool,
}

fn main() -> anyhow::Result<ExitCode> {
    let arguments = Arguments::parse();
    let begin = Instant::now();
    let mut builder = Builder::new(Options::default());
    for file in &arguments.file {
        let text = std::fs::File::open(file)?;
        let name = file.display().to_string();
        berth_manifests::read_from(&name, text, &berth_manifests::Options::default(), |_, object| {
            berth_properties::fold(&mut builder, &object)
        })?;
    }
    let mut cluster = builder.finish()?.cluster;
    let read = begin.elapsed();

    let begin = Instant::now();
    let universe = Universe::with_scores(&mut cluster);
    let mut scheduler = Scheduler::new(&cluster, &universe, Launchable::default());
    let setup = begin.elapsed();
    let pods = universe.classes.iter().fold(0_u32, |sum, class| sum.saturating_add(class.count));

    let begin = Instant::now();
    let cpu_before = cpu_seconds();
    let left = scheduler.run(Queue { preempts: arguments.preempts, ..Queue::default() });
    let seconds = begin.elapsed().as_secs_f64();
    let cpu = cpu_before.zip(cpu_seconds()).map(|(before, after)| after - before);
    let left = left.iter().fold(0_u32, |sum, (_, count)| sum.saturating_add(*count));
    let figures = json!({
        "nodes": cluster.nodes.len(), "classes": universe.classes.len(), "pods": pods, "scheduled": pods - left,
        "unschedulable": left, "seconds": seconds, "podsPerSecond": f64::from(pods) / seconds,
        "cpuSeconds": cpu, "setupSeconds": setup.as_secs_f64(), "readSeconds": read.as_secs_f64(),
    });
    writeln!(std::io::stdout(), "{figures}")?;
    Ok(ExitCode::SUCCESS)
}

// What this process has used of its only thread so far, which a busy machine does not change; Linux tells.
fn cpu_seconds() -> Option<f64> {
    let text = std::fs::read_to_string("/proc/self/schedstat").ok()?;
    let nanoseconds: u64 = text.split_ascii_whitespace().next()?.parse().ok()?;
    Some(std::time::Duration::from_nanos(nanoseconds).as_secs_f64())
}
