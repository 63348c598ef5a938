//! Measures how long pods wait for their binding while nodes are looked at, beside while they are not.
//!
//! `cargo run --release -p berth-controllers --example bindings -- [nodes] [pods] [seconds] [pods a second]`, 5000, 100000, 120
//! and 20 where nothing is said. The cluster is on a thread of its own; the controllers run as `berth run` has them: two threads,
//! and what takes long in others. Pods come at a steady pace, find room on nodes that exist, and go 20 s later. It is measured
//! from just before the request that creates a pod until the request for its binding. Three times so many seconds, in one run:
//! nodes do not make way; one at a time may; a tenth may, from when the first of them are told to go. Of that part it tells how many
//! are on their way out at its end, and how many have gone; other bindings are those of pods that were made in place of theirs.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a measurement")]

mod cluster;
mod steps;
#[path = "../../../disruption/examples/verdicts/workload.rs"]
mod workload;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use berth_controllers::metrics::{Metrics, Values};
use berth_controllers::{Ceiling, Ceilings, Clock, Controllers, Options};
use kube::Client;

use cluster::{Bindings, Cluster, Failure, Remote};
use steps::{Steps, Took};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// The budget of the last part.
const TENTH: &str = "10%";

/// How long a pod stays.
const STAYS: Duration = Duration::from_secs(20);

/// For how long it is waited at most until the first nodes begin to go that may: what is looked at may be many nodes.
const UNTIL_NODES_GO: Duration = Duration::from_secs(300);

/// How long what begins or ends at the start of a phase takes.
const BETWEEN: Duration = Duration::from_secs(15);

fn main() -> Result<(), Failure> {
    let mut arguments = std::env::args().skip(1).map(|text| text.parse::<usize>());
    let mut next = |usual| arguments.next().transpose().map(|given| given.unwrap_or(usual));
    let (n_nodes, n_pods, seconds, pace) = (next(5_000)?, next(100_000)?, next(120)?, next(20)?);
    let steps = Steps::default();
    tracing::subscriber::set_global_default(steps.clone())?;
    let berth = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let beside = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let epoch = jiff::Timestamp::now();
    let done: Result<(), Failure> = beside.block_on(async {
        let cluster = Cluster::start(epoch).await?;
        let bindings = Bindings::default();
        let thread = tokio::runtime::Handle::current();
        let remote = Remote { server: cluster.server.clone(), thread, bindings: bindings.clone() };
        let entered = berth.enter();
        let client = Client::new(remote, "default");
        let unbounded = Ceiling { launches_per_hour: None, dollars_per_hour: None };
        let ceilings = Ceilings { of_each_pool: unbounded.clone(), in_all: unbounded };
        let options = Options { ceilings, ..Options::default() };
        let clock = Clock::starting_at(jiff::Timestamp::now());
        let (controllers, metrics) =
            Controllers::new(client, Arc::new(cluster.cloud.clone()), clock, options).with_metrics();
        let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
        let running = berth.spawn(controllers.run(async move { drop(stopped.await) }));
        drop(entered);
        let per_node = n_pods / n_nodes.max(1);
        cluster.launch(n_nodes, per_node).await?;
        println!("{n_nodes} nodes are up");
        let n_pods = cluster.fill(n_nodes, per_node).await?;
        println!("{n_pods} pods run");
        tokio::time::sleep(BETWEEN).await;
        let mut n = 1_000_000;
        for (phase, nodes) in [("nobody makes way", None), ("one node at a time", Some("1")), ("a tenth", Some(TENTH))]
        {
            if let Some(nodes) = nodes {
                cluster.consolidate(nodes).await?;
            }
            let mut ticks = tokio::time::interval(Duration::from_secs(1) / u32::try_from(pace.max(1))?);
            let mut visits = async |length: Duration| {
                let end = tokio::time::Instant::now() + length;
                while ticks.tick().await < end {
                    n += 1;
                    cluster.visit(n, STAYS, &bindings);
                }
            };
            visits(BETWEEN).await;
            if nodes == Some(TENTH) {
                let until = tokio::time::Instant::now() + UNTIL_NODES_GO;
                while cluster.n_nodes().await?.1 < 2 && tokio::time::Instant::now() < until {
                    visits(Duration::from_secs(1)).await;
                }
            }
            let (n_before, _) = cluster.n_nodes().await?;
            drop((bindings.take(), steps.take()));
            let looked = looks(&metrics).await;
            visits(Duration::from_secs(u64::try_from(seconds)?)).await;
            let (took, others, waiting) = bindings.take();
            let steps = steps.take();
            let after = looks(&metrics).await;
            let looks = after.iter().map(|(of, (n, s))| {
                let (n_before, s_before) = looked.get(of).copied().unwrap_or_default();
                format!("{} looks for {of} of {:.1} s in all", n - n_before, s - s_before)
            });
            let (n_nodes, n_going) = cluster.n_nodes().await?;
            let n_gone = n_before.saturating_sub(n_nodes);
            let looks = looks.collect::<Vec<_>>().join(", ");
            println!("\n{phase}: {n_nodes} nodes, of which {n_going} are told to go, and {n_gone} have gone; {looks}");
            tell(&took, others, waiting);
            tell_steps(&steps);
        }
        drop(stop);
        running.await?;
        Ok(())
    });
    // The cluster goes last: who still asks it anything would find its thread gone.
    berth.shutdown_timeout(Duration::from_secs(1));
    drop(beside);
    done
}

/// Looks at the nodes so far, by what they are for: how many, and how many seconds they took.
async fn looks(metrics: &Metrics) -> BTreeMap<String, (u64, f64)> {
    let mut all = BTreeMap::new();
    for metric in metrics.read().await.unwrap_or_default() {
        let Values::Histogram(values) = metric.values else { continue };
        if !metric.name.contains("voluntary_disruption") {
            continue;
        }
        for (labels, histogram) in values {
            let of = labels.into_iter().map(|(_, value)| value).next_back().unwrap_or_default();
            all.insert(of, (histogram.buckets.iter().map(|(_, n)| n).sum(), histogram.sum));
        }
    }
    all
}

fn tell(took: &[Duration], others: usize, waiting: usize) {
    let at = |share: usize| took.get(took.len().saturating_sub(1) * share / 1_000).copied().unwrap_or_default();
    println!(
        "  {} pods that came: p50 {:.1} ms, p99 {:.1} ms, p99.9 {:.1} ms, at most {:.1} ms; {others} other bindings; {waiting} wait",
        took.len(),
        millis(at(500)),
        millis(at(990)),
        millis(at(999)),
        millis(at(1_000))
    );
}

fn tell_steps(steps: &BTreeMap<String, Took>) {
    let n_long: u64 = steps.values().map(|took| took.n_long).sum();
    println!("  {n_long} steps took more than 5 ms of CPU time; the longest of each kind:");
    let mut all: Vec<_> = steps.iter().collect();
    all.sort_by_key(|(_, took)| std::cmp::Reverse(took.longest));
    for (of, took) in all.into_iter().take(16) {
        println!(
            "  {of}: at most {:.1} ms ({:.1} ms of CPU time), {} of {} times more than 5 ms, {:.0} ms of CPU time in all",
            millis(took.longest),
            millis(took.longest_cpu),
            took.n_long,
            took.times,
            millis(took.cpu)
        );
    }
}

fn millis(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}
