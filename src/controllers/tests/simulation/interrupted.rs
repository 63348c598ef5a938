//! The cloud takes instances back: their pods are elsewhere by then.

use std::time::Duration;

use berth_cloudprovider::{Instance, ProviderId};
use berth_cloudprovider_fake::cloud::CloudFaults;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::Api;
use kube::api::PostParams;
use serde_json::json;

use crate::disruption::events;
use crate::scenarios::{pool, run, state_of, web};
use crate::trouble::Rates;
use crate::world::{World, is_initialized};
use crate::{RATES, cloud_faults, held, seeds};

async fn world(seed: u64, rates: Rates, faults: CloudFaults, kinds: &[&str]) -> World {
    let mut world = World::new(seed, rates, faults).await;
    world.start_controllers(false);
    world.create::<berth_api::NodePool>(pool("web", kinds)).await;
    world
}

fn on_spot(world: &World) -> Vec<Instance> {
    let is_spot = |instance: &Instance| instance.offering.capacity_type.as_str() == "spot";
    world.alive().into_iter().filter(is_spot).collect()
}

/// How many pods are on nodes of these instances.
async fn n_pods_on(world: &World, ids: &[ProviderId]) -> usize {
    let nodes = world.nodes().await;
    let is_on = |name: &str| {
        let node = nodes.iter().find(|node| node.metadata.name.as_deref() == Some(name));
        let id = node.and_then(|node| node.spec.as_ref()?.provider_id.clone());
        id.is_some_and(|id| ids.iter().any(|known| known.as_str() == id))
    };
    let pods = world.pods().await;
    pods.iter().filter(|pod| pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref()).is_some_and(is_on)).count()
}

#[tokio::test(start_paused = true)]
async fn pods_leave_spot_instances_that_are_interrupted_before_these_end() {
    let world = world(1, Rates::default(), CloudFaults::default(), &["spot"]).await;
    world.deploy(web(6)).await;
    run(&world, 6).await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    let before = on_spot(&world);
    let ids: Vec<ProviderId> = before.iter().map(|instance| instance.provider_id.clone()).collect();
    for id in &ids {
        world.cloud.interrupt(id);
    }
    // The notice is two minutes.
    tokio::time::sleep(Duration::from_secs(100)).await;
    assert_eq!(n_pods_on(&world, &ids).await, 0, "{}", state_of(&world).await);
    assert_eq!(world.all_run().await, Some(6), "{}", state_of(&world).await);
    let told = events(&world, "SpotInterrupted").await;
    assert_eq!(told.len(), ids.len(), "{told:?}");
    // Not where others were taken back just now.
    let same =
        on_spot(&world).into_iter().filter(|instance| before.iter().any(|old| old.offering == instance.offering));
    assert_eq!(same.count(), 0, "{}", state_of(&world).await);
    assert_eq!(world.violations(), Vec::<String>::new());
}

/// How many pods run on nodes of these instances, and are not told to leave.
async fn n_serving_on(world: &World, ids: &[ProviderId]) -> usize {
    let nodes = world.nodes().await;
    let id_of = |name: &str| {
        let node = nodes.iter().find(|node| node.metadata.name.as_deref() == Some(name));
        node.and_then(|node| node.spec.as_ref()?.provider_id.clone())
    };
    let pods = world.pods().await;
    let serving = pods.iter().filter(|pod| {
        let id = pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref()).and_then(id_of);
        pod.metadata.deletion_timestamp.is_none() && id.is_some_and(|id| ids.iter().any(|known| known.as_str() == id))
    });
    serving.count()
}

#[tokio::test(start_paused = true)]
async fn pods_of_an_interrupted_instance_serve_until_their_next_node_is_up() {
    let world = world(1, Rates::default(), CloudFaults::default(), &["spot"]).await;
    world.deploy(web(6)).await;
    run(&world, 6).await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    let ids: Vec<ProviderId> = on_spot(&world).into_iter().map(|instance| instance.provider_id).collect();
    for id in &ids {
        world.cloud.interrupt(id);
    }
    let is_new = |claim: &berth_api::NodeClaim| {
        let id = claim.status.as_ref().and_then(|status| status.provider_id.as_deref());
        is_initialized(claim) && ids.iter().all(|known| Some(known.as_str()) != id)
    };
    let mut left_after = None;
    for second in 0..115 {
        tokio::time::sleep(Duration::from_secs(1)).await;
        let (n_serving, claims) = (n_serving_on(&world, &ids).await, world.claims().await);
        if n_serving == 6 {
            continue;
        }
        left_after.get_or_insert(second);
        let n_ready = claims.iter().filter(|claim| is_new(claim)).count();
        assert!(n_ready > 0, "{second} s: pods left, and nothing was up: {}", state_of(&world).await);
    }
    let second = left_after.expect("nobody left before the end");
    assert!(second < 69, "they left in the last seconds ({second}), whatever was ready");
    assert_eq!(world.all_run().await, Some(6), "{}", state_of(&world).await);
    assert_eq!(world.claims().await.len(), world.alive().len(), "{}", state_of(&world).await);
    assert_eq!(world.violations(), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn pods_of_an_interrupted_instance_without_a_next_place_serve_to_the_last_seconds() {
    let world = world(1, Rates::default(), CloudFaults::default(), &["spot"]).await;
    world.deploy(web(6)).await;
    run(&world, 6).await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    let ids: Vec<ProviderId> = on_spot(&world).into_iter().map(|instance| instance.provider_id).collect();
    world.cloud.set_faults(CloudFaults { never_joins: 1.0, ..CloudFaults::default() });
    for id in &ids {
        world.cloud.interrupt(id);
    }
    // 120 of notice, 5 to spare, 30 for the pods' own end, 15 in which budgets are kept.
    tokio::time::sleep(Duration::from_secs(69)).await;
    assert_eq!(n_serving_on(&world, &ids).await, 6, "{}", state_of(&world).await);
    tokio::time::sleep(Duration::from_secs(48)).await;
    assert_eq!(n_pods_on(&world, &ids).await, 0, "{}", state_of(&world).await);
}

#[tokio::test(start_paused = true)]
async fn a_budget_holds_a_pod_until_its_instance_is_about_to_end_and_no_longer() {
    let world = world(1, Rates::default(), CloudFaults::default(), &["spot"]).await;
    let budget = json!({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "web"},
        "spec": {"maxUnavailable": 0, "selector": {"matchLabels": {"app": "web"}}}});
    let budgets = Api::<PodDisruptionBudget>::default_namespaced(world.client.clone());
    budgets.create(&PostParams::default(), &serde_json::from_value(budget).unwrap()).await.unwrap();
    world.deploy(web(1)).await;
    run(&world, 1).await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    let ids: Vec<ProviderId> = on_spot(&world).into_iter().map(|instance| instance.provider_id).collect();
    world.cloud.interrupt(&ids[0]);
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(n_pods_on(&world, &ids).await, 1, "{}", state_of(&world).await);
    // A pod has 30 seconds to stop, and these are left to it.
    tokio::time::sleep(Duration::from_secs(65)).await;
    assert_eq!(n_pods_on(&world, &ids).await, 0, "{}", state_of(&world).await);
    run(&world, 1).await;
}

#[tokio::test(start_paused = true)]
async fn a_machine_that_is_to_be_retired_is_left_in_time() {
    let world = world(1, Rates::default(), CloudFaults::default(), &["on-demand"]).await;
    world.deploy(web(3)).await;
    run(&world, 3).await;
    let ids: Vec<ProviderId> = world.alive().into_iter().map(|instance| instance.provider_id).collect();
    world.cloud.retire(&ids[0], Duration::from_secs(3600));
    tokio::time::sleep(Duration::from_secs(40 * 60)).await;
    assert_eq!(n_pods_on(&world, &ids).await, 3, "{}", state_of(&world).await);
    tokio::time::sleep(Duration::from_secs(15 * 60)).await;
    assert_eq!(n_pods_on(&world, &ids[..1]).await, 0, "{}", state_of(&world).await);
    run(&world, 3).await;
    assert_eq!(events(&world, "InstanceRetiring").await.len(), 1);
    assert_eq!(world.violations(), Vec::<String>::new());
}

async fn plays_in_trouble(seed: u64) -> (crate::trouble::Table, u32) {
    let faults = CloudFaults { interrupted_within_an_hour: 0.7, ..cloud_faults() };
    let world = world(seed, RATES, faults, &["spot", "on-demand"]).await;
    world.deploy(web(8)).await;
    tokio::time::sleep(Duration::from_secs(3600)).await;
    world.trouble.stop();
    world.cloud.set_faults(CloudFaults::default());
    let settled = world
        .settles(120, async |world| {
            world.all_run().await == Some(8)
                && world.nodes().await.len() == world.alive().len()
                && world.claims().await.len() == world.alive().len()
        })
        .await;
    held(&world, settled, seed).await
}

#[tokio::test(start_paused = true)]
async fn interruptions_in_trouble_leave_nothing_behind() {
    let mut befell = crate::Befell::default();
    for seed in seeds(0..4) {
        befell.add(plays_in_trouble(seed).await);
    }
    befell.print();
}
