//! Static NodePools: as many nodes as their `replicas` say, whatever pods need.

use std::collections::BTreeSet;
use std::time::Duration;

use berth_api::NodePool;
use berth_cloudprovider_fake::cloud::{CloudFaults, FakeReservation};
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};

use crate::disruption::{events, taints};
use crate::scenarios::{catalogue, fleet, pool, run, state_of, web};
use crate::trouble::Rates;
use crate::world::{World, is_initialized};
use crate::{RATES, cloud_faults, held, seeds};

/// A NodePool of so many m5.xlarge.
fn static_pool(replicas: i64) -> Value {
    let mut pool = pool("fixed", &["on-demand", "reserved"]);
    let only = json!({"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["m5.xlarge"]});
    pool["spec"]["template"]["spec"]["requirements"].as_array_mut().unwrap().push(only);
    pool["spec"]["replicas"] = json!(replicas);
    pool
}

async fn world(seed: u64, rates: Rates, faults: CloudFaults) -> World {
    let mut world = World::with(seed, rates, faults, catalogue()).await;
    let before: FakeReservation = world.cloud.reservation_definitions()["cr-web"].clone();
    world.cloud.set_reservation("cr-web", FakeReservation { total: 2, ..before });
    world.options.convert.static_capacity = true;
    world
}

async fn patch(world: &World, spec: Value) {
    let pools: Api<NodePool> = Api::all(world.client.clone());
    pools.patch("fixed", &PatchParams::default(), &Patch::Merge(json!({"spec": spec}))).await.unwrap();
}

/// How many nodes there are by type and capacity, once that is all that there is to be.
async fn comes_to(world: &World, expected: &[(&str, &str, usize)]) {
    let expected = fleet(expected);
    let there = world
        .settles(20, async |world| {
            let claims = world.claims().await;
            world.fleet() == expected
                && claims.len() == world.alive().len()
                && claims.iter().all(|claim| is_initialized(claim) && claim.metadata.deletion_timestamp.is_none())
                && world.nodes().await.len() == claims.len()
                && taints(world).await.is_empty()
        })
        .await;
    assert!(there, "expected {expected:?}: {}", state_of(world).await);
    assert_eq!(world.violations(), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn a_static_pool_has_its_replicas_on_slots_first_and_keeps_them() {
    let mut world = world(1, Rates::default(), CloudFaults::default()).await;
    world.start_controllers(false);
    world.create::<NodePool>(static_pool(3)).await;
    comes_to(&world, &[("m5.xlarge", "cr-web", 2), ("m5.xlarge", "on-demand", 1)]).await;
    patch(&world, json!({"replicas": 5})).await;
    let five = [("m5.xlarge", "cr-web", 2), ("m5.xlarge", "on-demand", 3)];
    comes_to(&world, &five).await;
    world.deploy(web(1)).await;
    run(&world, 1).await;
    // Nothing is consolidated, and pods find room without another node.
    tokio::time::sleep(Duration::from_secs(3600)).await;
    comes_to(&world, &five).await;
    // Those without pods go first, and of those the ones that are paid for.
    let busy: BTreeSet<String> = world.pods().await.into_iter().filter_map(|pod| pod.spec?.node_name).collect();
    patch(&world, json!({"replicas": 3})).await;
    let three = world.settles(20, async |world| world.claims().await.len() == 3).await;
    assert!(three, "{}", state_of(&world).await);
    let left: Vec<String> = world.nodes().await.into_iter().filter_map(|node| node.metadata.name).collect();
    assert!(busy.iter().all(|node| left.contains(node)), "{busy:?} of {left:?}");
    assert_eq!(world.fleet().get(&("m5.xlarge".to_owned(), "cr-web".to_owned())), Some(&2), "slots stay");
    patch(&world, json!({"replicas": 0})).await;
    let none = world.settles(20, async |world| world.alive().is_empty() && world.claims().await.is_empty()).await;
    assert!(none, "{}", state_of(&world).await);
    assert_eq!(world.violations(), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn replicas_beyond_all_bounds_are_launched_up_to_the_ceiling() {
    let mut world = world(1, Rates::default(), CloudFaults::default()).await;
    let few = berth_controllers::Ceiling { launches_per_hour: Some(30), dollars_per_hour: None };
    world.options.ceilings = berth_controllers::Ceilings { of_each_pool: few, ..Default::default() };
    world.start_controllers(false);
    world.create::<NodePool>(static_pool(2_000_000_000)).await;
    tokio::time::sleep(Duration::from_secs(300)).await;
    assert_eq!(world.alive().len(), 30, "{}", state_of(&world).await);
    assert!(!events(&world, "ReplicasMissing").await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn with_the_gate_off_a_static_pool_gets_no_nodes() {
    let mut world = world(1, Rates::default(), CloudFaults::default()).await;
    world.options.convert.static_capacity = false;
    world.start_controllers(false);
    world.create::<NodePool>(static_pool(3)).await;
    tokio::time::sleep(Duration::from_secs(600)).await;
    assert!(world.claims().await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn drifted_nodes_of_a_static_pool_are_replaced_one_for_one_within_its_limit() {
    let mut world = world(1, Rates::default(), CloudFaults::default()).await;
    world.start_controllers(false);
    let mut pool = static_pool(4);
    pool["spec"]["limits"] = json!({"nodes": 5});
    world.create::<NodePool>(pool).await;
    let four = [("m5.xlarge", "cr-web", 2), ("m5.xlarge", "on-demand", 2)];
    comes_to(&world, &four).await;
    world.deploy(web(4)).await;
    run(&world, 4).await;
    let before: Vec<Option<String>> = world.claims().await.into_iter().map(|claim| claim.metadata.uid).collect();
    patch(&world, json!({"template": {"metadata": {"labels": {"generation": "two"}}}})).await;
    let (mut least, mut most) = (usize::MAX, 0);
    let replaced = world
        .settles(120, async |world| {
            let claims = world.claims().await;
            let is_up =
                |claim: &&berth_api::NodeClaim| is_initialized(claim) && claim.metadata.deletion_timestamp.is_none();
            least = least.min(claims.iter().filter(is_up).count());
            most = most.max(claims.len());
            claims.len() == 4
                && claims.iter().filter(is_up).count() == 4
                && claims.iter().all(|claim| !before.contains(&claim.metadata.uid))
        })
        .await;
    assert!(replaced, "{}", state_of(&world).await);
    assert_eq!((least, most), (4, 5), "the fewest and the most nodes: {}", state_of(&world).await);
    run(&world, 4).await;
    assert_eq!(world.violations(), Vec::<String>::new());
    // None begins for which there is no room within the limit: it would be left alone for longer and longer.
    let blocked = events(&world, "DisruptionBlocked").await;
    assert!(blocked.iter().all(|message| !message.contains("came to nothing")), "{blocked:?}");
}

#[tokio::test(start_paused = true)]
async fn a_process_that_dies_while_a_static_pool_drifts_launches_nothing_in_vain() {
    let mut world = world(1, Rates::default(), CloudFaults::default()).await;
    world.start_controllers(false);
    world.create::<NodePool>(static_pool(3)).await;
    comes_to(&world, &[("m5.xlarge", "cr-web", 2), ("m5.xlarge", "on-demand", 1)]).await;
    world.deploy(web(9)).await;
    run(&world, 9).await;
    let mut seen: BTreeSet<Option<String>> = world.claims().await.into_iter().map(|claim| claim.metadata.uid).collect();
    let before = seen.clone();
    patch(&world, json!({"template": {"metadata": {"labels": {"generation": "two"}}}})).await;
    let mut n_kills = 0;
    let replaced = world
        .settles(60, async |world| {
            let claims = world.claims().await;
            let n_before = seen.len();
            seen.extend(claims.iter().map(|claim| claim.metadata.uid.clone()));
            if seen.len() > n_before && n_kills < 4 {
                n_kills += 1;
                world.kill();
            }
            claims.len() == 3
                && claims.iter().all(|claim| is_initialized(claim) && !before.contains(&claim.metadata.uid))
        })
        .await;
    assert!(replaced, "{}", state_of(&world).await);
    assert_eq!((seen.len(), n_kills), (6, world.n_starts() - 1), "{}", state_of(&world).await);
    assert!(n_kills > 0);
    run(&world, 9).await;
    assert_eq!(world.violations(), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn a_node_of_a_static_pool_that_drains_for_long_is_replaced_meanwhile() {
    let mut world = world(1, Rates::default(), CloudFaults::default()).await;
    world.start_controllers(false);
    world.create::<NodePool>(static_pool(2)).await;
    comes_to(&world, &[("m5.xlarge", "cr-web", 2)]).await;
    let mut stays = web(2);
    stays["spec"]["template"]["metadata"]["annotations"] = json!({"karpenter.sh/do-not-disrupt": "true"});
    world.deploy(stays).await;
    run(&world, 2).await;
    world.delete_claims().await;
    let two_more = world
        .settles(5, async |world| {
            let claims = world.claims().await;
            let is_new = |claim: &&berth_api::NodeClaim| claim.metadata.deletion_timestamp.is_none();
            let n_new = claims.iter().filter(is_new).filter(|claim| is_initialized(claim)).count();
            n_new == 2 && claims.len() > 2
        })
        .await;
    assert!(two_more, "{}", state_of(&world).await);
}

async fn plays_in_trouble(seed: u64) -> (crate::trouble::Table, u32) {
    let mut world = world(seed, RATES, cloud_faults()).await;
    world.start_controllers(seed.is_multiple_of(2));
    world.create::<NodePool>(static_pool(4)).await;
    world.deploy(web(3)).await;
    tokio::time::sleep(Duration::from_secs(120)).await;
    patch(&world, json!({"replicas": 6, "template": {"metadata": {"labels": {"generation": "two"}}}})).await;
    tokio::time::sleep(Duration::from_secs(300)).await;
    world.kill();
    patch(&world, json!({"replicas": 3})).await;
    tokio::time::sleep(Duration::from_secs(120)).await;
    world.trouble.stop();
    world.cloud.set_faults(CloudFaults::default());
    let settled = world
        .settles(180, async |world| {
            let claims = world.claims().await;
            claims.len() == 3
                && world.alive().len() == 3
                && claims.iter().all(is_initialized)
                && world.nodes().await.len() == 3
                && world.all_run().await == Some(3)
        })
        .await;
    held(&world, settled, seed).await
}

#[tokio::test(start_paused = true)]
async fn whatever_befalls_a_static_pool_comes_to_its_replicas() {
    let mut befell = crate::Befell::default();
    for seed in seeds(0..6) {
        befell.add(plays_in_trouble(seed).await);
    }
    befell.print();
}
