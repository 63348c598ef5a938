//! The scenarios. Each begins with an empty cluster, one Berth, and four slots of m5.xlarge.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use berth_api::{NodeClaim, NodePool, Reservation, ReservationPhase, labels};
use berth_cloudprovider::CloudProvider;
use futures::FutureExt;
use futures::future::LocalBoxFuture;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::api::scheduling::v1::PriorityClass;
use kube::Api;
use kube::api::{DeleteParams, PostParams};
use serde_json::{Value, json};

use crate::way::LeaseWay;
use crate::world::World;
use crate::{consolidation, drift, more, slots};

type Scenario = for<'a> fn(&'a mut World) -> LocalBoxFuture<'a, ()>;

/// Those that wait: for heartbeats to be missed, for the next count of slots, for an end. They are played where they are asked for.
pub(crate) const SLOW: [&str; 11] = [
    "an instance vanishes",
    "each capacity type, and where it falls back to",
    "a Reservation expires",
    "a stock-out, and its end",
    "a volume of a zone",
    "the gate off and on while reserved nodes run",
    "a node never joins",
    "a leader loses its Lease",
    "nodes that Karpenter made",
    "a reservation that shrinks and ends",
    "a capacity block that ends",
];

/// All of them, by name.
pub(crate) const ALL: [(&str, Scenario); 35] = [
    ("scale from zero, slots first", |world| slots_first(world).boxed_local()),
    ("a reservation shared by two NodePools", |world| shared_reservation(world).boxed_local()),
    ("a count lowered beforehand", |world| lowered_count(world).boxed_local()),
    ("a count lowered while launching", |world| more::lowered_while_launching(world).boxed_local()),
    ("each capacity type, and where it falls back to", |world| more::capacity_types(world).boxed_local()),
    ("the three NodePools of the proposal", |world| more::three_pools(world).boxed_local()),
    ("anti-affine pods and one slot", |world| more::one_slot(world).boxed_local()),
    ("owners planned with their Reservation", |world| more::owners_with_reservation(world).boxed_local()),
    ("a Reservation expires", |world| more::reservation_expires(world).boxed_local()),
    ("a Reservation ends with its node", |world| more::reservation_loses_node(world).boxed_local()),
    ("a Reservation is pre-allocated", |world| more::pre_allocation(world).boxed_local()),
    ("startup taints and a daemon", |world| more::startup_taints(world).boxed_local()),
    ("minValues on slots", |world| more::min_values(world).boxed_local()),
    ("a stock-out, and its end", |world| more::stock_out(world).boxed_local()),
    ("a volume of a zone", |world| more::volume_of_zone(world).boxed_local()),
    ("a volume that is there", |world| more::local_volume(world).boxed_local()),
    ("the gate off and on while reserved nodes run", |world| more::gate_off_and_on(world).boxed_local()),
    ("a node never joins", |world| more::never_joins(world).boxed_local()),
    ("a Reservation with an owner", |world| reservation_with_owner(world).boxed_local()),
    ("a drain blocked by a PDB, then freed", |world| blocked_drain(world).boxed_local()),
    ("a limit of a NodePool", |world| limit(world).boxed_local()),
    ("preemption waits for its victims", |world| preemption(world).boxed_local()),
    ("Berth is killed while it launches", |world| killed_midway(world).boxed_local()),
    ("two Berths of which one leads", |world| two_berths(world).boxed_local()),
    ("a leader loses its Lease", |world| leader_loses_lease(world).boxed_local()),
    ("nodes that Karpenter made", |world| more::hydration(world).boxed_local()),
    ("a spot instance is taken back", |world| more::spot_interruption(world).boxed_local()),
    ("an instance vanishes", |world| instance_vanishes(world).boxed_local()),
    ("consolidation: an empty node, then an underused one", |world| consolidation::fewer_nodes(world).boxed_local()),
    ("consolidation: a cheaper node, ready before the pods move", |world| {
        consolidation::cheaper_node(world).boxed_local()
    }),
    ("a reservation that grows", |world| slots::grows(world).boxed_local()),
    ("a reservation that shrinks and ends", |world| slots::lets_go(world).boxed_local()),
    ("a capacity block that ends", |world| slots::block_ends(world).boxed_local()),
    ("drift within budgets and a PDB", |world| drift::budgets(world).boxed_local()),
    ("drift beside what is marked", |world| drift::marks(world).boxed_local()),
];

pub(crate) fn pool(name: &str, capacity_types: &[&str]) -> Value {
    json!({"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": name}, "spec": {
    "disruption": {"consolidateAfter": "0s", "budgets": [{"nodes": "100%"}]},
    "template": {"spec": {
        "nodeClassRef": {"group": "berth.sh", "kind": "FakeNodeClass", "name": "default"},
        "requirements": [{"key": "karpenter.sh/capacity-type", "operator": "In", "values": capacity_types}],
    }}}})
}

/// Pods of which three fit on an m5.xlarge.
pub(crate) fn web(name: &str, replicas: u32) -> Value {
    json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name}, "spec": {
        "replicas": replicas, "selector": {"matchLabels": {"app": name}},
        "template": {"metadata": {"labels": {"app": name}}, "spec": {"terminationGracePeriodSeconds": 1, "containers": [{
            "name": "web", "image": "web", "resources": {"requests": {"cpu": "1200m", "memory": "3Gi"}}}]}}}})
}

pub(crate) fn fleet(of: &[(&str, &str, usize)]) -> BTreeMap<(String, String), usize> {
    of.iter().map(|(of_type, on, n)| (((*of_type).to_owned(), (*on).to_owned()), *n)).collect()
}

async fn slots_first(world: &mut World) {
    world.create::<NodePool>(pool("web", &["on-demand", "reserved"])).await;
    world.create_in::<Deployment>(web("web", 14)).await;
    world.run(14).await;
    assert_eq!(world.fleet().await, fleet(&[("m5.xlarge", "cr-web", 4), ("m5.xlarge", "on-demand", 1)]));
    assert_eq!(world.claims().await.len(), 5, "each node was launched once");
    world.scale("web", 0).await;
    world.is_empty().await;
    // The slots came back.
    world.scale("web", 3).await;
    world.run(3).await;
    assert_eq!(world.fleet().await, fleet(&[("m5.xlarge", "cr-web", 1)]));
}

async fn shared_reservation(world: &mut World) {
    for name in ["left", "right"] {
        let mut own = pool(name, &["on-demand", "reserved"]);
        own["spec"]["template"]["spec"]["taints"] = json!([{"key": "side", "value": name, "effect": "NoSchedule"}]);
        own["spec"]["template"]["metadata"] = json!({"labels": {"side": name}});
        world.create::<NodePool>(own).await;
        let mut deployment = web(name, 9);
        let pod = &mut deployment["spec"]["template"]["spec"];
        pod["nodeSelector"] = json!({"side": name});
        pod["tolerations"] = json!([{"key": "side", "operator": "Equal", "value": name}]);
        world.create_in::<Deployment>(deployment).await;
    }
    world.run(18).await;
    assert_eq!(world.n_on_slots().await, 4, "{:?}", world.fleet().await);
}

/// Room for six pods, which take three seconds to stop; two of a higher priority come.
async fn preemption(world: &mut World) {
    let mut own = pool("web", &["on-demand"]);
    own["spec"]["limits"] = json!({"nodes": "2"});
    own["spec"]["disruption"]["consolidateAfter"] = json!("Never");
    let types = json!({"key": labels::INSTANCE_TYPE, "operator": "In", "values": ["m5.xlarge"]});
    own["spec"]["template"]["spec"]["requirements"].as_array_mut().unwrap().push(types);
    world.create::<NodePool>(own).await;
    let classes = Api::<PriorityClass>::all(world.client.clone());
    let high = json!({"metadata": {"name": "high"}, "value": 1000});
    classes.create(&PostParams::default(), &serde_json::from_value(high).unwrap()).await.unwrap();
    let mut low = web("low", 6);
    low["spec"]["template"]["metadata"]["annotations"] = json!({"berth.sh/stops-after": "3s"});
    low["spec"]["template"]["spec"]["terminationGracePeriodSeconds"] = json!(10);
    world.create_in::<Deployment>(low).await;
    world.run(6).await;
    let before: BTreeSet<String> = world.pods().await.into_iter().filter_map(|pod| pod.metadata.uid).collect();
    let mut high = web("high", 2);
    high["spec"]["template"]["spec"]["priorityClassName"] = json!("high");
    world.create_in::<Deployment>(high).await;
    let runs = |pod: &&Pod| {
        let app = pod.metadata.labels.as_ref().and_then(|labels| labels.get("app"));
        let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
        app.is_some_and(|app| app == "high") && phase == Some("Running")
    };
    world
        .comes("two of high", async |world| {
            let pods = world.pods().await;
            // Two of the others wait, since nothing more is launched.
            pods.len() == 8 && pods.iter().filter(runs).count() == 2
        })
        .await;
    let stay =
        world.pods().await.into_iter().filter_map(|pod| pod.metadata.uid).filter(|uid| before.contains(uid)).count();
    assert_eq!(stay, 4, "two make way for two");
    classes.delete("high", &DeleteParams::default()).await.unwrap();
}

async fn lowered_count(world: &mut World) {
    world.create::<NodePool>(pool("web", &["on-demand", "reserved"])).await;
    // Berth has not looked since: it plans for slots that are gone, and what is refused is launched elsewhere.
    world.set_slots(1).await;
    world.create_in::<Deployment>(web("web", 12)).await;
    world.run(12).await;
    assert_eq!(world.n_on_slots().await, 1, "{:?}", world.fleet().await);
}

async fn reservation_with_owner(world: &mut World) {
    world.create::<NodePool>(pool("web", &["on-demand", "reserved"])).await;
    let room = json!({"apiVersion": "scheduling.koordinator.sh/v1alpha1", "kind": "Reservation",
        "metadata": {"name": "room"}, "spec": {"ttl": "1h", "allocateOnce": true,
            "template": {"spec": {"containers": [{"name": "room", "image": "room",
                "resources": {"requests": {"cpu": "1200m", "memory": "3Gi"}}}]}},
            "owners": [{"labelSelector": {"matchLabels": {"app": "web"}}}]}});
    world.create::<Reservation>(room).await;
    let phase = async |world: &World| {
        let room = Api::<Reservation>::all(world.client.clone()).get("room").await.unwrap();
        room.status.map(|status| (status.phase, status.node_name, status.current_owners.len()))
    };
    world
        .comes("room that is held", async |world| {
            phase(world).await.is_some_and(|(phase, ..)| phase == ReservationPhase::Available)
        })
        .await;
    let (_, node, _) = phase(world).await.unwrap();
    world.create_in::<Deployment>(web("web", 1)).await;
    world.run(1).await;
    world
        .comes("its owner", async |world| {
            phase(world).await.is_some_and(|(phase, _, n)| phase == ReservationPhase::Succeeded && n == 1)
        })
        .await;
    let pods = world.pods().await;
    assert_eq!(pods[0].spec.as_ref().unwrap().node_name, node);
    let allocated = labels::koordinator::RESERVATION_ALLOCATED;
    assert!(pods[0].metadata.annotations.as_ref().is_some_and(|all| all[allocated].contains("\"room\"")));
    assert_eq!(world.claims().await.len(), 1);
}

/// The uids of the pods.
pub(crate) async fn uids(world: &World) -> BTreeSet<String> {
    world.pods().await.into_iter().filter_map(|pod| pod.metadata.uid).collect()
}

async fn blocked_drain(world: &mut World) {
    world.create::<NodePool>(pool("web", &["on-demand"])).await;
    let budget = json!({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "web"},
        "spec": {"maxUnavailable": 0, "selector": {"matchLabels": {"app": "web"}}}});
    world.create_in::<PodDisruptionBudget>(budget).await;
    world.create_in::<Deployment>(web("web", 3)).await;
    world.run(3).await;
    let before = uids(world).await;
    let claim = world.claims().await.remove(0).metadata.name.unwrap();
    Api::<NodeClaim>::all(world.client.clone()).delete(&claim, &DeleteParams::default()).await.unwrap();
    world
        .comes("a node that is drained", async |world| {
            let nodes = world.nodes().await;
            let taints = |node: &k8s_openapi::api::core::v1::Node| node.spec.clone().unwrap_or_default().taints;
            nodes
                .iter()
                .any(|node| taints(node).into_iter().flatten().any(|taint| taint.key == "karpenter.sh/disrupted"))
        })
        .await;
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!(uids(world).await, before, "nobody was evicted");
    let budgets = Api::<PodDisruptionBudget>::default_namespaced(world.client.clone());
    budgets.delete("web", &DeleteParams::default()).await.unwrap();
    world
        .comes("the end of the node", async |world| {
            world.claims().await.iter().all(|own| own.metadata.name.as_ref() != Some(&claim))
        })
        .await;
    world.run(3).await;
    assert!(uids(world).await.is_disjoint(&before), "they were made anew");
}

async fn limit(world: &mut World) {
    let mut small = pool("web", &["on-demand"]);
    small["spec"]["limits"] = json!({"nodes": "2"});
    small["spec"]["template"]["spec"]["requirements"]
        .as_array_mut()
        .unwrap()
        .push(json!({"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["m5.xlarge"]}));
    world.create::<NodePool>(small).await;
    world.create_in::<Deployment>(web("web", 9)).await;
    world
        .comes("six pods that run and three that say why not", async |world| {
            let pods = world.pods().await;
            let is_refused = |pod: &&k8s_openapi::api::core::v1::Pod| {
                let conditions = pod.status.iter().flat_map(|status| status.conditions.iter().flatten());
                conditions.into_iter().any(|own| own.type_ == "PodScheduled" && own.status == "False")
            };
            let runs = |pod: &&k8s_openapi::api::core::v1::Pod| {
                pod.status.as_ref().and_then(|status| status.phase.as_deref()) == Some("Running")
            };
            pods.iter().filter(runs).count() == 6 && pods.iter().filter(is_refused).count() == 3
        })
        .await;
    assert_eq!(world.claims().await.len(), 2);
}

async fn killed_midway(world: &mut World) {
    world.create::<NodePool>(pool("web", &["on-demand", "reserved"])).await;
    world.create_in::<Deployment>(web("web", 14)).await;
    world.comes("a launch", async |world| !world.claims().await.is_empty()).await;
    world.kill_berths();
    world.start_berth().await;
    world.run(14).await;
    world
        .comes("as many instances as claims", async |world| {
            let claims = world.claims().await;
            claims.iter().all(|claim| claim.metadata.deletion_timestamp.is_none())
                && world.instances().await.len() == claims.len()
        })
        .await;
    assert_eq!(world.n_on_slots().await, 4, "{:?}", world.fleet().await);
    assert_eq!(world.claims().await.len(), 5, "nothing was launched twice");
}

/// Who leads, as the Lease says.
async fn leader(world: &World) -> String {
    let leases = Api::<Lease>::namespaced(world.client.clone(), "kube-system");
    let lease = leases.get_opt("karpenter-leader-election").await.unwrap();
    lease.and_then(|lease| lease.spec?.holder_identity).unwrap_or_default()
}

async fn two_berths(world: &mut World) {
    world.create::<NodePool>(pool("web", &["on-demand", "reserved"])).await;
    world.create_in::<Deployment>(web("web", 6)).await;
    world.run(6).await;
    let first = leader(world).await;
    world.start_berth().await;
    // The second stands by, and works once the first is gone.
    world.scale("web", 9).await;
    world.run(9).await;
    assert_eq!(leader(world).await, first);
    drop(world.berths.remove(0));
    world.scale("web", 14).await;
    world.run(14).await;
    let second = leader(world).await;
    assert!(second != first && !second.is_empty(), "{first}, then {second}");
    assert_eq!(world.n_on_slots().await, 4, "{:?}", world.fleet().await);
}

/// Six pods run, and the Lease goes from one Berth to another, as the first cannot reach it. Who led first.
pub(crate) async fn lose_lease(world: &mut World, lease: LeaseWay) -> String {
    world.create::<NodePool>(pool("web", &["on-demand", "reserved"])).await;
    world.create_in::<Deployment>(web("web", 6)).await;
    world.run(6).await;
    let first = leader(world).await;
    world.start_berth().await;
    world.berths[0].set_lease(lease);
    world
        .comes("another leader", async |world| {
            let now = leader(world).await;
            now != first && !now.is_empty()
        })
        .await;
    first
}

async fn leader_loses_lease(world: &mut World) {
    let first = lose_lease(world, LeaseWay::Closed).await;
    world.scale("web", 14).await;
    world.run(14).await;
    assert_eq!(world.n_on_slots().await, 4, "{:?}", world.fleet().await);
    // It stands by, and works again once the other is gone.
    world.berths[0].set_lease(LeaseWay::Open);
    drop(world.berths.remove(1));
    world.scale("web", 9).await;
    world.comes("the first again", async |world| leader(world).await == first).await;
    world.run(9).await;
    world.comes("no node too many", async |world| world.claims().await.len() <= 4).await;
}

async fn instance_vanishes(world: &mut World) {
    world.create::<NodePool>(pool("web", &["on-demand"])).await;
    world.create_in::<Deployment>(web("web", 3)).await;
    world.run(3).await;
    let before = uids(world).await;
    let lost = world.instances().await.remove(0).provider_id;
    world.cloud.delete(&lost).await.unwrap();
    world
        .comes("pods on another node", async |world| {
            let pods = world.pods().await;
            uids(world).await.is_disjoint(&before)
                && pods.len() == 3
                && pods
                    .iter()
                    .all(|pod| pod.status.as_ref().and_then(|status| status.phase.as_deref()) == Some("Running"))
        })
        .await;
    assert!(world.instances().await.iter().all(|instance| instance.provider_id != lost));
}
