//! Instances that come under a reservation later, by group or wherever they are.

use std::collections::BTreeSet;
use std::time::Duration;

use berth_cloudprovider::{ReservationAdoption, ReservationMatching};
use berth_cloudprovider_fake::cloud::{CloudConfig, FakeReservation};
use k8s_openapi::api::core::v1::Node;
use kube::api::{Patch, PatchParams};
use kube::{Api, ResourceExt};
use serde_json::{Value, json};

use crate::disruption::{events, pool_with, set_slots, uids};
use crate::scenarios::{catalogue, fleet, state_of, web};
use crate::trouble::Rates;
use crate::world::World;

/// A NodePool, and pods for it alone.
async fn deploy(world: &World, name: &str, capacity_types: &[&str], n: u32) {
    let mut pool = pool_with(capacity_types, &json!({}));
    pool["metadata"]["name"] = json!(name);
    world.create::<berth_api::NodePool>(pool).await;
    let mut pods: Value = web(n);
    pods["metadata"]["name"] = json!(name);
    pods["spec"]["selector"]["matchLabels"] = json!({"app": name});
    pods["spec"]["template"]["metadata"]["labels"] = json!({"app": name});
    pods["spec"]["template"]["spec"]["nodeSelector"] = json!({"karpenter.sh/nodepool": name});
    world.deploy(pods).await;
}

/// A NodePool that admits slots, and three pods for it alone that do not.
async fn deploy_paid_alone(world: &World, name: &str) {
    let mut pool = pool_with(&["on-demand", "reserved"], &json!({}));
    pool["metadata"]["name"] = json!(name);
    world.create::<berth_api::NodePool>(pool).await;
    deploy_paid(world, (name, name), 3).await;
}

/// Pods for a NodePool alone that do not admit slots.
async fn deploy_paid(world: &World, (name, pool): (&str, &str), n: u32) {
    let mut pods: Value = web(n);
    pods["metadata"]["name"] = json!(name);
    pods["spec"]["selector"]["matchLabels"] = json!({"app": name});
    pods["spec"]["template"]["metadata"]["labels"] = json!({"app": name});
    pods["spec"]["template"]["spec"]["nodeSelector"] =
        json!({"karpenter.sh/nodepool": pool, "karpenter.sh/capacity-type": "on-demand"});
    world.deploy(pods).await;
}

#[tokio::test(start_paused = true)]
async fn a_node_whose_pods_do_not_want_slots_is_not_relabelled() {
    let config = CloudConfig { seed: 1, adoption: ReservationAdoption::Relabel, ..CloudConfig::default() };
    let mut world = World::beside(config, Rates::default(), catalogue()).await;
    set_slots(&world, 0);
    world.start_controllers(false);
    // Who came first admitted them, so that the node does not avoid reservations.
    deploy(&world, "any", &["on-demand", "reserved"], 1).await;
    let runs = world.settles(10, async |world| world.all_run().await == Some(1)).await;
    deploy_paid(&world, ("marked", "any"), 2).await;
    let all_run = world.settles(10, async |world| world.all_run().await == Some(3)).await;
    world.scale("any", 0).await;
    let are_left = world.settles(10, async |world| world.all_run().await == Some(2)).await;
    assert!(runs && all_run && are_left, "{}", state_of(&world).await);
    let before = world.cloud.reservation_definitions()["cr-web"].clone();
    world.had_slots("cr-web", 0);
    world.cloud.set_reservation("cr-web", FakeReservation { total: 1, matching: ReservationMatching::Open, ..before });
    tokio::time::sleep(Duration::from_secs(1800)).await;
    assert_eq!(world.fleet(), fleet(&[("m5.xlarge", "cr-web", 1)]), "the cloud asks nobody");
    for labels in [&world.nodes().await[0].metadata.labels, &world.claims().await[0].metadata.labels] {
        let labels = labels.clone().unwrap_or_default();
        let own = |key: &str| labels.get(key).map(String::as_str);
        let bought_as = (own("karpenter.sh/capacity-type"), own("berth.sh/capacity-reservation-id"));
        assert_eq!(bought_as, (Some("on-demand"), None));
    }
    assert!(events(&world, "Relabelled").await.is_empty());
    assert_eq!(world.violations(), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn nodes_of_the_group_take_slots_that_come_later_and_no_pod_moves() {
    let config = CloudConfig { seed: 1, adoption: ReservationAdoption::Group, ..CloudConfig::default() };
    let mut world = World::beside(config, Rates::default(), catalogue()).await;
    set_slots(&world, 0);
    world.start_controllers(false);
    deploy(&world, "web", &["on-demand", "reserved"], 6).await;
    deploy(&world, "paid", &["on-demand"], 3).await;
    deploy_paid_alone(&world, "marked").await;
    let runs = world.settles(10, async |world| world.all_run().await == Some(12)).await;
    assert!(runs && world.fleet() == fleet(&[("m5.xlarge", "on-demand", 4)]), "{}", state_of(&world).await);
    let ids = |world: &World| world.alive().into_iter().map(|own| own.provider_id).collect::<BTreeSet<_>>();
    let (pods, instances) = (uids(&world).await, ids(&world));
    set_slots(&world, 3);
    let expected = fleet(&[("m5.xlarge", "cr-web", 2), ("m5.xlarge", "on-demand", 2)]);
    let is_on = |labels: Option<&std::collections::BTreeMap<String, String>>| {
        let own = |key: &str| labels.and_then(|all| all.get(key)).map(String::as_str);
        match own("karpenter.sh/nodepool") {
            Some("web") => {
                own("karpenter.sh/capacity-type") == Some("reserved")
                    && own("berth.sh/capacity-reservation-id") == Some("cr-web")
            }
            _ => own("karpenter.sh/capacity-type") == Some("on-demand"),
        }
    };
    let taken_in = world
        .settles(10, async |world| {
            world.fleet() == expected
                && world.nodes().await.iter().all(|node| is_on(node.metadata.labels.as_ref()))
                && world.claims().await.iter().all(|claim| is_on(claim.metadata.labels.as_ref()))
        })
        .await;
    assert!(taken_in, "{}", state_of(&world).await);
    // The regression: a process ended between the labels of the NodeClaim and those of its node, which nobody mended.
    let nodes = world.nodes().await;
    let of_web = nodes.iter().find(|node| node.labels().get("karpenter.sh/nodepool").is_some_and(|pool| pool == "web"));
    let as_before = json!({"metadata": {"labels": {"karpenter.sh/capacity-type": "on-demand", "berth.sh/capacity-reservation-id": null}}});
    let api: Api<Node> = Api::all(world.client.clone());
    api.patch(&of_web.unwrap().name_any(), &PatchParams::default(), &Patch::Merge(as_before)).await.unwrap();
    world.kill();
    let mended = async |world: &World| world.nodes().await.iter().all(|node| is_on(node.metadata.labels.as_ref()));
    assert!(world.settles(10, mended).await, "{}", state_of(&world).await);
    // The third slot is no other node's, and nobody moves for it.
    tokio::time::sleep(Duration::from_secs(1800)).await;
    assert_eq!((world.fleet(), ids(&world), uids(&world).await), (expected, instances, pods));
    assert_eq!(events(&world, "Relabelled").await.len(), 2);
    assert_eq!(world.violations(), Vec::<String>::new());
}
