//! Faults by seed, in virtual time: whatever befalls the controllers, nothing is seen that may never be seen, and the
//! cluster settles once the faults stop.
//!
//! `BERTH_SEEDS=100..300 cargo test -p berth-controllers --test simulation` plays other seeds than the usual ones.

#![allow(clippy::unwrap_used, clippy::panic)] // Helpers are not test functions to clippy.

mod at_writes;
mod churn;
mod classes;
mod cloud;
mod crashes;
mod disruption;
mod do_not_disrupt;
mod group;
mod guard;
mod health;
mod interrupted;
mod leaders;
mod no_pool;
mod plan_comes_true;
mod planted;
mod refused;
mod remade;
mod replicas;
mod restart;
mod restored;
mod rooms;
mod scenarios;
mod sets;
mod shutdown;
mod trouble;
mod volumes;
mod world;

use std::ops::Range;
use std::time::Duration;

use berth_cloudprovider_fake::cloud::CloudFaults;
use berth_controllers::Effort;
use k8s_openapi::api::core::v1::Node;
use kube::Api;
use kube::api::ListParams;
use trouble::{Rates, Table};
use world::{World, claim, is_initialized};

fn seeds(usual: Range<u64>) -> Range<u64> {
    let text = std::env::var("BERTH_SEEDS").ok();
    let range = text.as_deref().and_then(|text| text.split_once("..")).map(|(from, to)| (from.parse(), to.parse()));
    match range {
        Some((Ok(from), Ok(to))) => from..to,
        _ => usual,
    }
}

/// The command that plays a seed again; threads are named after the test that began them.
fn repeat(seed: u64) -> String {
    let thread = std::thread::current();
    let (test, next) = (thread.name().unwrap_or_default(), seed + 1);
    format!("repeat it with: BERTH_SEEDS={seed}..{next} cargo test -p berth-controllers --test simulation -- {test}")
}

/// What befell a world that has settled, in which nothing was seen that may never be seen.
async fn held(world: &World, settled: bool, seed: u64) -> (Table, u32) {
    let left = format!("violations {:?}; {}", world.violations(), repeat(seed));
    assert!(settled, "{}; {left}", scenarios::state_of(world).await);
    assert_eq!(world.violations(), Vec::<String>::new(), "{left}");
    (world.trouble.table(), world.n_starts())
}

const CLAIMS: usize = 4;

async fn play(seed: u64, rates: Rates, faults: CloudFaults, with_lease: bool) -> (Table, u32) {
    let mut world = World::new(seed, rates, faults).await;
    world.start_controllers(with_lease);
    for n in 0..CLAIMS {
        world.create::<berth_api::NodeClaim>(claim(&format!("claim-{n}"))).await;
    }
    // Half of them go while trouble lasts.
    tokio::time::sleep(Duration::from_secs(30)).await;
    world.delete_claims().await;
    for n in 0..CLAIMS {
        world.create::<berth_api::NodeClaim>(claim(&format!("second-{n}"))).await;
    }
    tokio::time::sleep(Duration::from_secs(120)).await;
    world.trouble.stop();
    world.cloud.set_faults(CloudFaults::default());
    let settled = world
        .settles(30, async |world| {
            let claims = world.claims().await;
            claims.iter().all(|claim| is_initialized(claim) && claim.metadata.deletion_timestamp.is_none())
                && world.alive().len() == claims.len()
        })
        .await;
    let left = || format!("violations {:?}; {}", world.violations(), repeat(seed));
    assert!(settled, "claims {:#?}, instances {:#?}; {}", world.claims().await, world.alive(), left());
    world.delete_claims().await;
    let gone = world.settles(30, async |world| world.claims().await.is_empty() && world.alive().is_empty()).await;
    assert!(gone, "claims {:#?}, instances {:#?}; {}", world.claims().await, world.alive(), left());
    let nodes = Api::<Node>::all(world.client.clone());
    let swept = world.settles(30, async |_| nodes.list(&ListParams::default()).await.unwrap().items.is_empty()).await;
    assert!(swept, "nodes {:#?}; {}", nodes.list(&ListParams::default()).await.unwrap().items, left());
    assert_eq!(world.violations(), Vec::<String>::new(), "{}", repeat(seed));
    (world.trouble.table(), world.n_starts())
}

#[tokio::test(start_paused = true)]
async fn without_trouble_claims_become_nodes_and_go() {
    let (_, n_starts) = play(1, Rates::default(), CloudFaults::default(), true).await;
    assert_eq!(n_starts, 1);
}

/// Pods that wait, come and go while trouble lasts: in the end each has its place, once, and then nothing is left.
async fn play_pods(seed: u64, rates: Rates, faults: CloudFaults, with_lease: bool) -> (Table, u32) {
    let mut world = World::with(seed, rates, faults, scenarios::catalogue()).await;
    world.options.solve.effort = Effort::Low;
    world.start_controllers(with_lease);
    world.create::<berth_api::NodePool>(scenarios::pool("web", &["on-demand", "reserved"])).await;
    world.deploy(scenarios::web(14)).await;
    for replicas in [5, 17] {
        tokio::time::sleep(Duration::from_secs(40)).await;
        world.scale("web", replicas).await;
    }
    tokio::time::sleep(Duration::from_secs(60)).await;
    world.trouble.stop();
    world.cloud.set_faults(CloudFaults::default());
    let left = || format!("violations {:?}; {}", world.violations(), repeat(seed));
    // A pod that was refused again and again waits for up to half an hour.
    let settled = world
        .settles(60, async |world| {
            let claims = world.claims().await;
            world.all_run().await == Some(17)
                && claims.iter().all(|claim| is_initialized(claim) && claim.metadata.deletion_timestamp.is_none())
                && world.alive().len() == claims.len()
        })
        .await;
    assert!(settled, "{}; {}", scenarios::state_of(&world).await, left());
    let n_nodes = world.alive().len();
    assert!((6..=8).contains(&n_nodes), "{n_nodes} nodes for what six hold: {}", left());
    world.scale("web", 0).await;
    let gone = world
        .settles(30, async |world| {
            world.claims().await.is_empty() && world.alive().is_empty() && world.nodes().await.is_empty()
        })
        .await;
    assert!(gone, "{}; {}", scenarios::state_of(&world).await, left());
    assert_eq!(world.violations(), Vec::<String>::new(), "{}", repeat(seed));
    (world.trouble.table(), world.n_starts())
}

const RATES: Rates = Rates { lost_request: 40, lost_answer: 40, late: 80, crash: 15, at_writes: 0 };

fn cloud_faults() -> CloudFaults {
    CloudFaults {
        throttled: 0.05,
        unavailable: 0.05,
        lost_request: 0.05,
        lost_answer: 0.1,
        late: 0.05,
        doubled: 0.05,
        lag: Duration::from_secs(1),
        latency: Duration::from_secs(1),
        ..CloudFaults::default()
    }
}

/// Adds up what befell, over seeds, and prints it.
#[derive(Default)]
struct Befell {
    table: Table,
    n_starts: u32,
}

impl Befell {
    fn add(&mut self, (table, n_starts): (Table, u32)) {
        for (step, n) in table {
            *self.table.entry(step).or_default() += n;
        }
        self.n_starts += n_starts;
    }

    fn print(&self) {
        for ((step, what), n) in &self.table {
            println!("{step:32} {what:16} {n:5}");
        }
        println!("{} starts", self.n_starts);
        assert!(self.table.keys().any(|(_, what)| *what == "crash after"), "nothing crashed: the test says nothing");
    }
}

#[tokio::test(start_paused = true)]
async fn without_trouble_pods_get_nodes_and_both_go() {
    let (_, n_starts) = play_pods(1, Rates::default(), CloudFaults::default(), true).await;
    assert_eq!(n_starts, 1);
}

#[tokio::test(start_paused = true)]
async fn nothing_is_leaked_or_launched_twice_whatever_befalls_the_controllers() {
    let mut befell = Befell::default();
    for seed in seeds(0..4) {
        befell.add(play(seed, RATES, cloud_faults(), seed % 2 == 0).await);
    }
    befell.print();
}

#[tokio::test(start_paused = true)]
async fn every_pod_gets_one_place_whatever_befalls_the_controllers() {
    let mut befell = Befell::default();
    for seed in seeds(0..4) {
        befell.add(play_pods(seed, RATES, cloud_faults(), seed % 2 == 0).await);
    }
    befell.print();
}
