//! Node classes that offer different things: each NodePool is planned with what its own offers.

use std::sync::Arc;

use berth_catalogue::Catalogue;
use berth_cloudprovider_fake::cloud::{CloudFaults, FakeReservation, NodeClass};
use berth_controllers::{Ceiling, Ceilings, Money};
use serde_json::{Value, json};

use crate::scenarios::{pool, state_of, web};
use crate::trouble::Rates;
use crate::world::World;

fn of_type(name: &str, cpu: &str, price: f64, zone: &str) -> Value {
    json!({"name": name, "architecture": "amd64", "operatingSystems": ["linux"],
    "resources": {"cpu": cpu, "memory": "16Gi", "pods": "50"}, "offerings": [{"Price": price, "Requirements": [
        {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]},
        {"key": "topology.kubernetes.io/zone", "operator": "In", "values": [zone]}]}]})
}

fn catalogue(types: &Value) -> Catalogue {
    berth_catalogue::read(types.to_string().as_bytes(), "types").unwrap()
}

/// The class `a` has a small type in zone a; `b` has a large one in zone b, two of which are reserved.
async fn world() -> World {
    let everything = json!([of_type("small", "4", 0.2, "zone-a"), of_type("large", "16", 0.5, "zone-b")]);
    let mut world = World::with(5, Rates::default(), CloudFaults::default(), catalogue(&everything)).await;
    let only = |types: Value, zone: &str| NodeClass {
        catalogue: Some(Arc::new(catalogue(&types))),
        zones: vec![zone.to_owned()],
        ..NodeClass::default()
    };
    world.cloud.set_node_class("a", only(json!([of_type("small", "4", 0.2, "zone-a")]), "zone-a"));
    // Only what the class says of a price can be charged for its nodes.
    world.cloud.set_node_class("b", only(json!([of_type("large", "16", 0.5, "zone-b")]), "zone-b"));
    let reserved = FakeReservation {
        instance_types: ["large".to_owned()].into(),
        zones: vec!["zone-b".to_owned()].into_iter().collect(),
        total: 2,
        ..FakeReservation::default()
    };
    world.cloud.set_reservation("cr-b", reserved);
    world.options.ceilings = Ceilings::default();
    world
}

fn pool_of(class: &str) -> Value {
    let mut pool = pool(class, &["on-demand", "reserved"]);
    pool["spec"]["template"]["spec"]["nodeClassRef"]["name"] = json!(class);
    pool
}

/// Pods of which three fit on a small node, thirteen on a large one.
fn only_in(pool: &str, replicas: u32) -> Value {
    let mut deployment = web(replicas);
    deployment["metadata"]["name"] = json!(pool);
    for labels in ["/spec/selector/matchLabels/app", "/spec/template/metadata/labels/app"] {
        *deployment.pointer_mut(labels).unwrap() = json!(pool);
    }
    let requests = "/spec/template/spec/containers/0/resources/requests/memory";
    *deployment.pointer_mut(requests).unwrap() = json!("100Mi");
    deployment["spec"]["template"]["spec"]["nodeSelector"] = json!({"karpenter.sh/nodepool": pool});
    deployment
}

async fn run(world: &World, n: usize) {
    let there = world.settles(10, async |world| world.all_run().await == Some(n)).await;
    assert!(there, "{n} pods do not run: {}", state_of(world).await);
}

fn fleet(of: &[(&str, &str, usize)]) -> std::collections::BTreeMap<(String, String), usize> {
    of.iter().map(|(of_type, on, n)| (((*of_type).to_owned(), (*on).to_owned()), *n)).collect()
}

#[tokio::test(start_paused = true)]
async fn each_pool_launches_what_its_own_node_class_offers() {
    let mut world = world().await;
    world.start_controllers(false);
    for class in ["a", "b"] {
        world.create::<berth_api::NodePool>(pool_of(class)).await;
    }
    world.deploy(only_in("a", 7)).await;
    world.deploy(only_in("b", 30)).await;
    run(&world, 37).await;
    let expected = fleet(&[("small", "on-demand", 3), ("large", "cr-b", 2), ("large", "on-demand", 1)]);
    assert_eq!(world.fleet(), expected, "{}", state_of(&world).await);
    assert_eq!(world.claims().await.len(), 6, "nothing was launched in vain: {}", state_of(&world).await);
    assert_eq!(world.violations(), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn a_slot_of_one_class_comes_before_paid_nodes_of_another() {
    let mut world = world().await;
    world.start_controllers(false);
    for (class, weight) in [("a", 50), ("b", 1)] {
        let mut pool = pool_of(class);
        pool["spec"]["weight"] = json!(weight);
        world.create::<berth_api::NodePool>(pool).await;
    }
    world.deploy(web(4)).await;
    run(&world, 4).await;
    assert_eq!(world.fleet(), fleet(&[("large", "cr-b", 1)]), "{}", state_of(&world).await);
}

#[tokio::test(start_paused = true)]
async fn a_ceiling_counts_prices_of_each_class() {
    let mut world = world().await;
    // A large node and a half.
    let ceiling = Ceiling { launches_per_hour: None, dollars_per_hour: Some(Money::from_pico(750_000_000_000)) };
    world.options.ceilings = Ceilings { in_all: ceiling, ..Ceilings::default() };
    world.start_controllers(false);
    for class in ["a", "b"] {
        let mut pool = pool_of(class);
        pool["spec"]["template"]["spec"]["requirements"][0]["values"] = json!(["on-demand"]);
        world.create::<berth_api::NodePool>(pool).await;
    }
    world.deploy(only_in("b", 13)).await;
    run(&world, 13).await;
    // $0.50 is spent, so that one small node for $0.20 is within the ceiling, and two are not.
    world.deploy(only_in("a", 6)).await;
    tokio::time::sleep(std::time::Duration::from_secs(300)).await;
    let expected = fleet(&[("small", "on-demand", 1), ("large", "on-demand", 1)]);
    assert_eq!(world.fleet(), expected, "{}", state_of(&world).await);
}

#[tokio::test(start_paused = true)]
async fn a_class_that_cannot_be_used_leaves_its_pods_to_other_pools() {
    let mut world = world().await;
    let broken = NodeClass { not_ready: Some(("Broken".to_owned(), "no image".to_owned())), ..NodeClass::default() };
    world.cloud.set_node_class("b", broken);
    world.start_controllers(false);
    for (class, weight) in [("a", 1), ("b", 50)] {
        let mut pool = pool_of(class);
        pool["spec"]["weight"] = json!(weight);
        world.create::<berth_api::NodePool>(pool).await;
    }
    world.deploy(web(3)).await;
    run(&world, 3).await;
    assert_eq!(world.fleet(), fleet(&[("small", "on-demand", 1)]), "{}", state_of(&world).await);
}

#[tokio::test(start_paused = true)]
async fn a_pool_of_another_autoscaler_keeps_no_pod_from_those_that_are_served() {
    let mut world = world().await;
    let mut theirs = pool_of("theirs");
    theirs["spec"]["weight"] = json!(100);
    theirs["spec"]["template"]["spec"]["nodeClassRef"] =
        json!({"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"});
    world.start_controllers(false);
    world.create::<berth_api::NodePool>(theirs.clone()).await;
    world.create::<berth_api::NodePool>(pool_of("a")).await;
    world.deploy(web(3)).await;
    run(&world, 3).await;
    assert_eq!(world.fleet(), fleet(&[("small", "on-demand", 1)]), "{}", state_of(&world).await);
    // One that comes while others run is left alone, too, and its pods are told why.
    theirs["metadata"]["name"] = json!("theirs-too");
    theirs["spec"]["template"]["spec"]["nodeClassRef"]["name"] = json!("another");
    world.create::<berth_api::NodePool>(theirs).await;
    world.deploy(only_in("theirs-too", 2)).await;
    world.scale("web", 6).await;
    tokio::time::sleep(std::time::Duration::from_secs(120)).await;
    assert_eq!(world.fleet(), fleet(&[("small", "on-demand", 2)]), "{}", state_of(&world).await);
    let told = state_of(&world).await;
    assert!(told.contains("EC2NodeClass of karpenter.k8s.aws is not served by the provider fake"), "{told}");
}
