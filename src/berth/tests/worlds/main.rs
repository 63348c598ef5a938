//! Scenarios against the Kubernetes API alone, with Berth and its cloud as processes of their own, played to two worlds:
//! the in-memory API server, and the real control plane of `hack/testenv`.
//!
//! The real one is played where `BERTH_TESTENV` names its binary, or one of the present sources has been built
//! (`hack/testenv/build.sh`); else that test says that it did nothing. `BERTH_SCENARIOS=drain,kill` plays those whose names
//! contain one of these, `BERTH_SCENARIOS=all` also those that take a minute and more.

#![cfg(unix)]
#![allow(clippy::unwrap_used, clippy::panic)] // Helpers are not test functions to clippy.

mod consolidation;
mod drift;
mod more;
mod observer;
#[path = "../common/process.rs"]
mod process;
mod scenarios;
mod slots;
mod way;
mod witness;
mod world;

use world::World;

async fn play_all(mut world: World) {
    let wanted = std::env::var("BERTH_SCENARIOS").ok();
    let is_wanted = |name: &str| match wanted.as_deref() {
        None => !scenarios::SLOW.contains(&name),
        Some("all") => true,
        Some(wanted) => wanted.split(',').any(|part| name.contains(part)),
    };
    for (name, scenario) in scenarios::ALL {
        if !is_wanted(name) {
            continue;
        }
        let start = std::time::Instant::now();
        world.clear().await;
        scenario(&mut world).await;
        assert_eq!(world.violations(), Vec::<String>::new(), "{name}");
        println!("{}: {name} ({:.1} s)", world.name, start.elapsed().as_secs_f64());
    }
    world.clear().await;
    assert_eq!(world.violations(), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_scenarios_play_on_the_in_memory_server() {
    play_all(World::in_memory("in memory").await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_scenarios_play_on_a_real_control_plane() {
    if let Some(world) = World::real().await {
        play_all(world).await;
    } else {
        eprintln!("no testenv: run hack/testenv/build.sh first");
    }
}

/// The same as the scene of a lost Lease, by one who does not see that it is lost.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_berth_that_keeps_no_fence_is_found() {
    let mut world = World::in_memory("without a fence").await;
    world.clear().await;
    scenarios::lose_lease(&mut world, way::LeaseWay::Pretended).await;
    world.scale("web", 14).await;
    world
        .comes("what may never be", async |world| {
            world.violations().iter().any(|seen| seen.contains("does not lead and writes"))
        })
        .await;
}
