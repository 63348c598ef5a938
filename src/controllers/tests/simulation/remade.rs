//! Pods that are made in place of those whose node went.

use std::time::Duration;

use berth_api::{NodeClaim, NodePool};
use berth_cloudprovider_fake::cloud::CloudFaults;
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::json;

use crate::disruption::pool_with;
use crate::scenarios::{catalogue, run, state_of, web};
use crate::trouble::Rates;
use crate::world::World;

/// The pods of a Deployment that have a node, and how many it has.
async fn placed(world: &World, app: &str) -> (Vec<String>, usize) {
    let is_own = |pod: &Pod| pod.metadata.labels.iter().flatten().any(|(key, value)| key == "app" && value == app);
    let own: Vec<Pod> = world.pods().await.into_iter().filter(is_own).collect();
    let nodes = own.iter().filter_map(|pod| pod.spec.as_ref().and_then(|spec| spec.node_name.clone()));
    (nodes.collect(), own.len())
}

/// Two full nodes, of which one goes and none may come. A pod has waited since before, and would be first otherwise.
#[rstest::rstest]
#[case::decided_in_turn(2)]
#[case::decided_elsewhere(1)]
#[tokio::test(start_paused = true)]
async fn a_pod_whose_node_went_gets_room_before_one_that_has_waited_for_longer(#[case] seed: u64) {
    let mut world = World::with(seed, Rates::default(), CloudFaults::default(), catalogue()).await;
    world.start_controllers(false);
    let mut pool = pool_with(&["on-demand"], &json!({"budgets": [{"nodes": "0"}]}));
    pool["spec"]["limits"] = json!({"cpu": "8"});
    world.create::<NodePool>(pool).await;
    let named = |name: &str, replicas: u32| {
        let mut deployment = web(replicas);
        deployment["metadata"]["name"] = json!(name);
        deployment["spec"]["selector"]["matchLabels"]["app"] = json!(name);
        deployment["spec"]["template"]["metadata"]["labels"]["app"] = json!(name);
        deployment
    };
    world.deploy(named("other", 3)).await;
    run(&world, 3).await;
    let (first, _) = placed(&world, "other").await;
    world.deploy(named("web", 3)).await;
    run(&world, 6).await;
    world.deploy(named("a-waiting", 1)).await;
    let limits = json!({"spec": {"limits": {"cpu": "4"}}});
    let pools: Api<NodePool> = Api::all(world.client.clone());
    pools.patch("web", &PatchParams::default(), &Patch::Merge(limits)).await.unwrap();
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(placed(&world, "a-waiting").await, (Vec::new(), 1), "{}", state_of(&world).await);
    let is_first =
        |claim: &NodeClaim| claim.status.as_ref().and_then(|status| status.node_name.as_ref()) == first.first();
    let going = world.claims().await.into_iter().find(|claim| !is_first(claim)).unwrap().metadata.name.unwrap();
    let claims: Api<NodeClaim> = Api::all(world.client.clone());
    claims.delete(&going, &DeleteParams::default()).await.unwrap();
    let gone = world.settles(10, async |world| world.nodes().await.len() == 1).await;
    assert!(gone, "{}", state_of(&world).await);
    assert_eq!(placed(&world, "web").await, (Vec::new(), 3), "{}", state_of(&world).await);
    for (replicas, of_web, of_waiting) in [(2, 1, 0), (1, 2, 0), (0, 3, 0)] {
        world.scale("other", replicas).await;
        tokio::time::sleep(Duration::from_secs(60)).await;
        let (web, waiting) = (placed(&world, "web").await.0.len(), placed(&world, "a-waiting").await.0.len());
        assert_eq!((web, waiting), (of_web, of_waiting), "{replicas}: {}", state_of(&world).await);
    }
    world.scale("web", 2).await;
    run(&world, 3).await;
    assert_eq!(placed(&world, "a-waiting").await.0.len(), 1, "{}", state_of(&world).await);
    assert_eq!(world.violations(), Vec::<String>::new());
}
