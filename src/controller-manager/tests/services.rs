//! Endpoints and EndpointSlices, in paused time.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing)]

mod common;

use std::time::Duration;

use berth_apiserver::ApiServer;
use berth_controller_manager::{Options, Timings};
use common::{World, config, name, options};
use serde_json::{Value, json};

async fn pod(world: &World, name: &str, port: i64) {
    let object = json!({"metadata": {"name": name, "labels": {"app": "web"}}, "spec": {"nodeName": "n1", "containers": [
        {"name": "c", "image": "i", "ports": [{"name": "http", "containerPort": port}]}]}});
    world.create("pods/default", &object).await;
}

async fn address(world: &World, name: &str, ip: &str, ready: &str) {
    let condition = json!({"type": "Ready", "status": ready, "lastTransitionTime": "2026-01-01T00:00:00Z"});
    let status = json!({"status": {"podIP": ip, "podIPs": [{"ip": ip}], "conditions": [condition]}});
    world.patch_status(&format!("pods/default/{name}"), &status).await;
}

async fn service(world: &World) {
    let object = json!({"metadata": {"name": "web", "labels": {"tier": "front"}},
        "spec": {"selector": {"app": "web"}, "ports": [{"port": 80, "targetPort": "http"}]}});
    world.create("services/default", &object).await;
}

async fn slices(world: &World) -> Vec<Value> {
    world.list("endpointslices/default").await
}

fn endpoints(slice: &Value) -> &[Value] {
    slice["endpoints"].as_array().map(Vec::as_slice).unwrap_or_default()
}

#[tokio::test(start_paused = true)]
async fn the_pods_of_a_service_are_its_endpoints_once_they_have_an_address() {
    let world = World::new();
    world.node("n1", &json!({"topology.kubernetes.io/zone": "z1"})).await;
    pod(&world, "a", 8080).await;
    pod(&world, "b", 8080).await;
    service(&world).await;
    world.settle().await;
    let [empty] = &slices(&world).await[..] else { panic!("one slice") };
    assert!(endpoints(empty).is_empty());
    address(&world, "a", "10.0.0.1", "True").await;
    address(&world, "b", "10.0.0.2", "False").await;
    world.settle().await;
    let [slice] = &slices(&world).await[..] else { panic!("one slice") };
    assert_eq!(name(slice), name(empty));
    assert_eq!(slice["metadata"]["labels"]["kubernetes.io/service-name"], "web");
    assert_eq!(slice["metadata"]["labels"]["tier"], "front");
    assert_eq!(slice["ports"], json!([{"name": "", "port": 8080, "protocol": "TCP"}]));
    let ready: Vec<&Value> = endpoints(slice).iter().map(|endpoint| &endpoint["conditions"]["ready"]).collect();
    assert_eq!(ready, [true, false]);
    assert_eq!(slice["endpoints"][0]["zone"], "z1");
    let endpoints = world.get("endpoints/default/web").await.unwrap();
    assert_eq!(endpoints["subsets"][0]["addresses"][0]["ip"], "10.0.0.1");
    assert_eq!(endpoints["subsets"][0]["notReadyAddresses"][0]["ip"], "10.0.0.2");
    assert_eq!(endpoints["subsets"][0]["ports"], json!([{"port": 8080, "protocol": "TCP"}]));
}

#[tokio::test(start_paused = true)]
async fn pods_that_serve_on_other_ports_have_a_slice_of_their_own() {
    let world = World::new();
    world.node("n1", &json!({})).await;
    pod(&world, "a", 8080).await;
    pod(&world, "b", 9090).await;
    service(&world).await;
    address(&world, "a", "10.0.0.1", "True").await;
    address(&world, "b", "10.0.0.2", "True").await;
    world.settle().await;
    let slices = slices(&world).await;
    let mut ports: Vec<i64> = slices.iter().map(|slice| slice["ports"][0]["port"].as_i64().unwrap()).collect();
    ports.sort_unstable();
    assert_eq!(ports, [8080, 9090]);
}

#[tokio::test(start_paused = true)]
async fn a_slice_holds_a_hundred_endpoints() {
    let world = World::new();
    world.node("n1", &json!({})).await;
    service(&world).await;
    for n in 0..150 {
        pod(&world, &format!("p{n:03}"), 8080).await;
        address(&world, &format!("p{n:03}"), &format!("10.0.1.{n}"), "True").await;
        // One after the other: of those that come at once, what does not fit into one slice begins another.
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    world.settle().await;
    let mut sizes: Vec<usize> = slices(&world).await.iter().map(|slice| endpoints(slice).len()).collect();
    sizes.sort_unstable();
    assert_eq!(sizes, [50, 100]);
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_comes_or_goes_writes_one_slice() {
    let world = World::new();
    world.node("n1", &json!({})).await;
    service(&world).await;
    for n in 0..250 {
        pod(&world, &format!("p{n:03}"), 8080).await;
        address(&world, &format!("p{n:03}"), &format!("10.0.1.{n}"), "True").await;
        // One after the other: of those that come at once, what does not fit into one slice begins another.
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    world.settle().await;
    let versions = async || -> Vec<(String, Value, usize)> {
        let slices = slices(&world).await;
        let of = |slice: &Value| (name(slice).to_owned(), slice["metadata"]["resourceVersion"].clone());
        slices.iter().map(|slice| (of(slice).0, of(slice).1, endpoints(slice).len())).collect()
    };
    let first = versions().await;
    world.delete_with("pods/default/p000", &json!({"gracePeriodSeconds": 0})).await;
    world.settle().await;
    let second = versions().await;
    assert_eq!(first.iter().filter(|slice| !second.contains(slice)).count(), 1, "{first:?} {second:?}");
    // Another takes the place that is free in a slice; none moves.
    pod(&world, "p000", 8080).await;
    address(&world, "p000", "10.0.2.0", "True").await;
    world.settle().await;
    let third = versions().await;
    assert_eq!(second.iter().filter(|slice| !third.contains(slice)).count(), 1, "{second:?} {third:?}");
    let mut sizes: Vec<usize> = third.iter().map(|slice| slice.2).collect();
    sizes.sort_unstable();
    assert_eq!(sizes, [50, 100, 100]);
    // All of one slice go: it goes, too.
    for n in 0..250 {
        if n != 7 {
            world.delete_with(&format!("pods/default/p{n:03}"), &json!({"gracePeriodSeconds": 0})).await;
        }
    }
    world.settle().await;
    assert_eq!(versions().await.iter().map(|slice| slice.2).collect::<Vec<_>>(), [1]);
}

#[tokio::test(start_paused = true)]
async fn endpoints_go_with_their_service_and_those_made_by_hand_stay() {
    let world = World::new();
    service(&world).await;
    let outside = json!({"metadata": {"name": "outside"}, "spec": {"ports": [{"port": 80}]}});
    world.create("services/default", &outside).await;
    world.create("endpoints/default", &json!({"metadata": {"name": "outside"}})).await;
    world.settle().await;
    assert_eq!(world.names("endpoints/default").await, ["outside", "web"]);
    world.delete("services/default/web").await;
    world.settle().await;
    assert_eq!(world.names("endpoints/default").await, ["outside"]);
    assert!(slices(&world).await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn changes_of_pods_within_a_batch_period_are_one_write() {
    let server = ApiServer::new(config());
    let endpoint_updates_batch_period = Duration::from_secs(1);
    let timings = Timings { endpoint_updates_batch_period, ..Timings::default() };
    let world = World::of(server.clone(), Options { timings, ..options(&server) });
    world.node("n1", &json!({})).await;
    service(&world).await;
    tokio::time::sleep(Duration::from_secs(2)).await;
    let generation = async || slices(&world).await[0]["metadata"]["generation"].as_i64().unwrap();
    let first = generation().await;
    for n in 0..5 {
        pod(&world, &format!("p{n}"), 8080).await;
        address(&world, &format!("p{n}"), &format!("10.0.1.{n}"), "True").await;
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert_eq!(generation().await, first, "the period is not over");
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!((generation().await, endpoints(&slices(&world).await[0]).len()), (first + 1, 5));
    let addresses = &world.get("endpoints/default/web").await.unwrap()["subsets"][0]["addresses"];
    assert_eq!(addresses.as_array().unwrap().len(), 5);
}
