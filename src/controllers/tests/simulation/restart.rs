//! What a process that starts knows of what an earlier one did.

use std::collections::BTreeSet;
use std::time::Duration;

use berth_api::{NodeClaim, NodePool};
use berth_cloudprovider_fake::cloud::CloudFaults;
use berth_controllers::{Ceiling, Ceilings};
use kube::Api;
use kube::api::DeleteParams;

use crate::disruption::set_slots;
use crate::scenarios::{catalogue, fleet, pool, run, state_of, web};
use crate::trouble::Rates;
use crate::world::World;

#[tokio::test(start_paused = true)]
async fn launches_of_the_last_hour_count_after_a_restart() {
    let mut world = World::with(6, Rates::default(), CloudFaults::default(), catalogue()).await;
    let two = Ceiling { launches_per_hour: Some(2), dollars_per_hour: None };
    world.options.ceilings = Ceilings { of_each_pool: two, ..Ceilings::default() };
    world.start_controllers(false);
    let mut small = pool("web", &["on-demand"]);
    small["spec"]["template"]["spec"]["requirements"] = serde_json::json!([
        {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]},
        {"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["m5.xlarge"]},
    ]);
    world.create::<NodePool>(small).await;
    world.deploy(web(30)).await;
    for n in 1..4 {
        tokio::time::sleep(Duration::from_secs(300)).await;
        assert_eq!(world.alive().len(), 2, "at start {n}: {}", state_of(&world).await);
        world.kill();
    }
    // An hour after the first two, two more may come.
    tokio::time::sleep(Duration::from_secs(3600)).await;
    assert_eq!(world.alive().len(), 4, "{}", state_of(&world).await);
    assert_eq!(world.n_starts(), 4);
}

#[tokio::test(start_paused = true)]
async fn a_pod_for_which_nodes_were_launched_in_vain_is_known_after_a_restart() {
    let mut world =
        World::with(1, Rates::default(), CloudFaults { never_joins: 1.0, ..CloudFaults::default() }, catalogue()).await;
    world.start_controllers(false);
    world.create::<NodePool>(pool("web", &["on-demand"])).await;
    world.deploy(web(1)).await;
    let in_vain = async |world: &World| {
        let pods = world.pods().await;
        let conditions =
            pods.iter().flat_map(|pod| pod.status.iter().flat_map(|status| status.conditions.iter().flatten()));
        let mut messages = conditions.filter_map(|known| known.message.as_deref());
        messages.find_map(|message| message.split_once(" nodes were launched for it")?.0.parse::<u32>().ok())
    };
    let mut known = 0;
    for start in 1..6 {
        let grown = world.settles(180, async |world| in_vain(world).await.is_some_and(|n| n > known)).await;
        assert!(grown, "after start {start}: {}", state_of(&world).await);
        known = in_vain(&world).await.unwrap();
        world.kill();
        // It waits, as if nobody had died.
        tokio::time::sleep(Duration::from_secs(50)).await;
        assert!(world.claims().await.is_empty(), "after start {start}: {}", state_of(&world).await);
    }
}

#[tokio::test(start_paused = true)]
async fn a_process_that_dies_in_a_consolidation_uses_what_it_launched() {
    for delay in [0, 3, 6, 9, 15] {
        let mut world = World::with(1, Rates::default(), CloudFaults::default(), catalogue()).await;
        world.start_controllers(false);
        world.create::<NodePool>(pool("web", &["on-demand"])).await;
        world.deploy(web(6)).await;
        run(&world, 6).await;
        let mut seen: BTreeSet<Option<String>> =
            world.claims().await.into_iter().map(|claim| claim.metadata.uid).collect();
        assert_eq!(seen.len(), 1, "{}", state_of(&world).await);
        world.scale("web", 1).await;
        let has_begun = world.settles(10, async |world| world.claims().await.len() == 2).await;
        assert!(has_begun, "{}", state_of(&world).await);
        tokio::time::sleep(Duration::from_secs(delay)).await;
        world.kill();
        let is_done = world
            .settles(30, async |world| {
                let claims = world.claims().await;
                seen.extend(claims.into_iter().map(|claim| claim.metadata.uid));
                world.fleet() == fleet(&[("m5.large", "on-demand", 1)]) && world.all_run().await == Some(1)
            })
            .await;
        assert!(is_done, "{}", state_of(&world).await);
        assert_eq!(seen.len(), 2, "killed {delay} seconds after its launch: {}", state_of(&world).await);
    }
}

#[tokio::test(start_paused = true)]
async fn a_replacement_that_is_deleted_is_launched_again_and_the_others_are_used() {
    let mut world = World::with(1, Rates::default(), CloudFaults::default(), catalogue()).await;
    world.options.timings.offers_period = Duration::from_secs(20);
    set_slots(&world, 0);
    world.start_controllers(false);
    world.create::<NodePool>(pool("web", &["on-demand", "reserved"])).await;
    world.deploy(web(12)).await;
    run(&world, 12).await;
    let mut seen: BTreeSet<Option<String>> = world.claims().await.into_iter().map(|claim| claim.metadata.uid).collect();
    let before = seen.clone();
    set_slots(&world, 4);
    let fresh = async |world: &World| -> Vec<String> {
        let claims = world.claims().await.into_iter().filter(|claim| !before.contains(&claim.metadata.uid));
        claims.filter_map(|claim| claim.metadata.name).collect()
    };
    let mut seconds = 0;
    while fresh(&world).await.len() < 4 {
        assert!(seconds < 600, "{}", state_of(&world).await);
        seconds += 1;
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    let first = fresh(&world).await.remove(0);
    Api::<NodeClaim>::all(world.client.clone()).delete(&first, &DeleteParams::default()).await.unwrap();
    let is_done = world
        .settles(30, async |world| {
            seen.extend(world.claims().await.into_iter().map(|claim| claim.metadata.uid));
            world.fleet() == fleet(&[("m5.xlarge", "cr-web", 4)]) && world.all_run().await == Some(12)
        })
        .await;
    assert!(is_done, "{}", state_of(&world).await);
    assert_eq!(seen.len(), before.len() + 5, "one more than without: {}", state_of(&world).await);
}
