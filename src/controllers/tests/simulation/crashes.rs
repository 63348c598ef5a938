//! A disruption that moves nodes to slots, in which at each single write (taints, launches, drains, deletions, what the cloud
//! is asked to change) the process dies, before it and after it, or slots are taken away. With all tests each other or third
//! write is tried; `BERTH_WHOLE=1 cargo test -p berth-controllers --test simulation crashes -- --nocapture` tries all.

use berth_api::NodePool;
use berth_cloudprovider_fake::cloud::CloudFaults;
use serde_json::json;

use crate::disruption::{pool_with, set_slots, taints};
use crate::scenarios::{catalogue, fleet, run, state_of, web};
use crate::trouble::{Rates, SLOTS_GO, Table};
use crate::world::World;

/// More than there are writes.
const NEVER: u32 = u32::MAX;

/// Two nodes on demand, for which two slots appear; at the write after `after` others `fault` befalls. How many writes there
/// were, and what befell which.
async fn play(after: u32, fault: &'static str) -> (u32, Table) {
    let mut world = World::with(1, Rates::default(), CloudFaults::default(), catalogue()).await;
    set_slots(&world, 0);
    world.start_controllers(false);
    world.create::<NodePool>(pool_with(&["on-demand", "reserved"], &json!({}))).await;
    world.deploy(web(6)).await;
    run(&world, 6).await;
    world.trouble.arm(after, fault);
    set_slots(&world, 2);
    if fault == SLOTS_GO {
        tokio::select! {
            () = world.trouble.reached() => set_slots(&world, 1),
            () = tokio::time::sleep(std::time::Duration::from_secs(1200)) => {}
        }
    }
    // What came to a slot before it went stays there.
    let on_slots = world.cloud.reservation_definitions()["cr-web"].total as usize;
    let either = [2, on_slots].map(|n| {
        let mut fleet = fleet(&[("m5.xlarge", "cr-web", n), ("m5.xlarge", "on-demand", 2 - n)]);
        fleet.retain(|_, n| *n > 0);
        fleet
    });
    let settled = world
        .settles(60, async |world| {
            either.contains(&world.fleet())
                && world.all_run().await == Some(6)
                && world.claims().await.len() == 2
                && world.nodes().await.len() == 2
                && taints(world).await.is_empty()
        })
        .await;
    let left = format!("{fault} at write {after}: {:?}", world.trouble.table());
    assert!(settled, "{left}; {}", state_of(&world).await);
    assert_eq!(world.violations(), Vec::<String>::new(), "{left}");
    (NEVER - world.trouble.to_come().unwrap_or(NEVER), world.trouble.table())
}

/// Tries all writes, or each one of so many.
async fn at_each_write(fault: &'static str, (first, step): (u32, usize)) {
    let is_whole = std::env::var_os("BERTH_WHOLE").is_some();
    let (first, step_by) = if is_whole { (0, 1) } else { (first, step) };
    let (n, _) = play(NEVER, fault).await;
    assert!(n > 20, "{n} writes are no disruption");
    let mut befell = Table::new();
    for after in (first..n).step_by(step_by) {
        for (step, n) in play(after, fault).await.1 {
            *befell.entry(step).or_default() += n;
        }
    }
    println!("{n} writes: {befell:?}");
    for step in
        ["PATCH nodes", "POST nodeclaims", "cloud create", "POST pods/eviction", "DELETE nodeclaims", "cloud delete"]
    {
        let is_hit = befell.contains_key(&(step.to_owned(), fault));
        assert!(is_hit || !is_whole, "{step} is no step of it: {befell:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_crash_before_each_write_of_a_disruption_loses_nothing() {
    at_each_write("crash before", (0, 2)).await;
}

#[tokio::test(start_paused = true)]
async fn a_crash_after_each_write_of_a_disruption_loses_nothing() {
    at_each_write("crash after", (1, 2)).await;
}

#[tokio::test(start_paused = true)]
async fn slots_that_go_at_each_write_of_a_disruption_leave_paid_nodes() {
    at_each_write(SLOTS_GO, (2, 3)).await;
}
