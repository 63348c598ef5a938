//! What is told of what does not work: nodes that never join, pods that a kubelet does not let in, pods of two budgets.

use std::collections::BTreeSet;
use std::time::Duration;

use berth_api::NodePool;
use berth_cloudprovider_fake::cloud::CloudFaults;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use serde_json::json;

use crate::disruption::events;
use crate::scenarios::{catalogue, pool, run, state_of, web};
use crate::trouble::Rates;
use crate::world::World;

async fn world(faults: CloudFaults) -> World {
    let mut world = World::with(5, Rates::default(), faults, catalogue()).await;
    world.start_controllers(false);
    let mut own = pool("web", &["on-demand"]);
    own["spec"]["disruption"]["consolidateAfter"] = json!("Never");
    world.create::<NodePool>(own).await;
    world
}

async fn registration_health(world: &World) -> (String, String) {
    let pool = Api::<NodePool>::all(world.client.clone()).get("web").await.unwrap();
    let mut conditions = pool.status.unwrap_or_default().conditions.into_iter();
    let health = conditions.find(|own| own.type_ == "NodeRegistrationHealthy").unwrap();
    (health.status, health.reason)
}

#[tokio::test(start_paused = true)]
async fn a_pool_whose_nodes_do_not_join_is_unhealthy_until_they_do() {
    let world = world(CloudFaults { never_joins: 1.0, ..CloudFaults::default() }).await;
    world.deploy(web(1)).await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(registration_health(&world).await.0, "Unknown");
    let is_unhealthy = world.settles(60, async |world| registration_health(world).await.0 == "False").await;
    assert!(is_unhealthy, "{}", state_of(&world).await);
    assert_eq!(registration_health(&world).await.1, "RegistrationFailed");
    world.cloud.set_faults(CloudFaults::default());
    // Two failures of the last four are too many: it takes some that join.
    for replicas in [4, 7, 10, 13] {
        world.scale("web", replicas).await;
        let n = usize::try_from(replicas).unwrap();
        let there = world.settles(60, async |world| world.all_run().await == Some(n)).await;
        assert!(there, "{}", state_of(&world).await);
    }
    let is_healthy = world.settles(1, async |world| registration_health(world).await.0 == "True").await;
    assert!(is_healthy, "{:?}", registration_health(&world).await);
}

#[tokio::test(start_paused = true)]
async fn a_node_that_did_not_let_a_pod_in_is_avoided_by_its_controller_s_pods() {
    let world = world(CloudFaults::default()).await;
    // Three on one node, one on another, which has room for more.
    world.deploy(web(4)).await;
    run(&world, 4).await;
    let pods = world.pods().await;
    let node_of = |pod: &Pod| pod.spec.as_ref().unwrap().node_name.clone().unwrap();
    let alone = |pod: &&Pod| pods.iter().filter(|other| node_of(other) == node_of(pod)).count() == 1;
    let rejected = pods.iter().find(alone).unwrap();
    let node = node_of(rejected);
    let before: BTreeSet<String> = pods.iter().filter_map(|pod| pod.metadata.uid.clone()).collect();
    let api = Api::<Pod>::default_namespaced(world.client.clone());
    let status = json!({"status": {"phase": "Failed", "reason": "OutOfcpu", "message": "Node didn't have enough cpu"}});
    let name = rejected.metadata.name.as_deref().unwrap();
    api.patch_status(name, &PatchParams::default(), &Patch::Merge(status)).await.unwrap();
    let is_new = |pod: &Pod| !before.contains(pod.metadata.uid.as_ref().unwrap());
    let runs = |pod: &Pod| pod.status.as_ref().and_then(|status| status.phase.as_deref()) == Some("Running");
    let there = world.settles(5, async |world| world.pods().await.iter().any(|pod| is_new(pod) && runs(pod))).await;
    assert!(there, "{}", state_of(&world).await);
    let replacement = world.pods().await.into_iter().find(is_new).unwrap();
    assert_ne!(node_of(&replacement), node, "{}", state_of(&world).await);
    assert!(!events(&world, "PodRejected").await.is_empty());
    // Not for ever.
    tokio::time::sleep(Duration::from_secs(330)).await;
    let n_nodes = world.nodes().await.len();
    // The stand-in kubelet let it in; it has the room back now.
    api.delete(name, &DeleteParams::default()).await.unwrap();
    tokio::time::sleep(Duration::from_secs(60)).await;
    world.scale("web", 5).await;
    let there = world.settles(5, async |world| world.pods().await.iter().filter(|pod| runs(pod)).count() == 5);
    assert!(there.await, "{}", state_of(&world).await);
    assert_eq!(world.nodes().await.len(), n_nodes, "the node has room for one: {}", state_of(&world).await);
    assert!(world.pods().await.iter().any(|pod| runs(pod) && node_of(pod) == node), "{}", state_of(&world).await);
}

/// The API server evicts no pod of two budgets: that is said, and the drain goes on once there is one.
#[tokio::test(start_paused = true)]
async fn a_pod_of_two_budgets_holds_up_its_drain_and_says_why() {
    let world = world(CloudFaults::default()).await;
    let budgets = Api::<PodDisruptionBudget>::default_namespaced(world.client.clone());
    for name in ["one", "another"] {
        let budget = json!({"metadata": {"name": name},
            "spec": {"maxUnavailable": 1, "selector": {"matchLabels": {"app": "web"}}}});
        budgets.create(&PostParams::default(), &serde_json::from_value(budget).unwrap()).await.unwrap();
    }
    world.deploy(web(3)).await;
    run(&world, 3).await;
    let before = world.alive().remove(0).provider_id;
    world.delete_claims().await;
    tokio::time::sleep(Duration::from_secs(300)).await;
    assert!(world.alive().iter().any(|instance| instance.provider_id == before), "it waits for its pods");
    let told = Api::<k8s_openapi::api::core::v1::Event>::all(world.client.clone());
    let told = told.list(&kube::api::ListParams::default()).await.unwrap().items.into_iter();
    let mut told = told.filter(|event| event.reason.as_deref() == Some("FailedDraining"));
    assert!(told.any(|event| event.message.unwrap_or_default().contains("more than one PodDisruptionBudget")));
    budgets.delete("another", &DeleteParams::default()).await.unwrap();
    let gone = world.settles(10, async |world| {
        world.alive().iter().all(|instance| instance.provider_id != before) && world.all_run().await == Some(3)
    });
    assert!(gone.await, "{}", state_of(&world).await);
    assert_eq!(world.violations(), Vec::<String>::new());
}

/// Two of three machines die within minutes, without a word, and stay as they are: what waits is launched after a while.
#[tokio::test(start_paused = true)]
async fn nodes_that_do_not_come_back_do_not_hold_up_launches_for_ever() {
    let world = world(CloudFaults::default()).await;
    world.deploy(web(18)).await;
    run(&world, 18).await;
    let alive = world.alive();
    assert!(alive.len() >= 3, "{}", state_of(&world).await);
    let n_dead = alive.len() / 2 + 1;
    for instance in &alive[..n_dead] {
        world.cloud.kill(&instance.provider_id);
    }
    // Their nodes are tainted, and their pods are made anew.
    tokio::time::sleep(Duration::from_secs(7 * 60)).await;
    let told = events(&world, "DisruptionBlocked").await;
    assert!(told.iter().any(|text| text.contains("nodes are neither removed nor launched")), "{told:?}");
    let waits = |pod: &Pod| {
        let conditions = pod.status.iter().flat_map(|status| status.conditions.iter().flatten());
        conditions.filter_map(|known| known.message.as_deref()).any(|text| text.contains("nodes are not ready"))
    };
    assert!(world.pods().await.iter().any(waits), "pods are told why they wait: {}", state_of(&world).await);
    assert_eq!(world.claims().await.len(), alive.len(), "that may pass: {}", state_of(&world).await);
    let runs = |pod: &Pod| pod.status.as_ref().and_then(|status| status.phase.as_deref()) == Some("Running");
    let is_alive = |pod: &Pod| runs(pod) && pod.metadata.deletion_timestamp.is_none();
    let there = world.settles(20, async |world| world.pods().await.iter().filter(|pod| is_alive(pod)).count() == 18);
    assert!(there.await, "{}", state_of(&world).await);
    assert!(world.claims().await.len() > alive.len(), "{}", state_of(&world).await);
}
