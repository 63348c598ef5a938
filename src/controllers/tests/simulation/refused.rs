//! An API server that takes no NodeClaims, as where a webhook of somebody else fails.

use k8s_openapi::api::core::v1::Event;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::Api;
use kube::api::{ListParams, PostParams};
use serde_json::{Value, json};

use crate::scenarios::{catalogue, pool, run, state_of, web};
use crate::trouble::Rates;
use crate::world::World;
use berth_cloudprovider_fake::cloud::CloudFaults;

const WHY: &str = "closed for maintenance";

/// From now on NodeClaims are refused, or no longer.
async fn refuse_claims(world: &World, refuses: bool) {
    let definitions: Api<CustomResourceDefinition> = Api::all(world.client.clone());
    let known = definitions.get("nodeclaims.karpenter.sh").await.unwrap();
    let mut changed: Value = serde_json::to_value(known).unwrap();
    let rules = if refuses { json!([{"rule": "false", "message": WHY}]) } else { json!([]) };
    changed["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["x-kubernetes-validations"] = rules;
    let changed = serde_json::from_value(changed).unwrap();
    definitions.replace("nodeclaims.karpenter.sh", &PostParams::default(), &changed).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn who_waits_is_told_that_node_claims_are_refused_and_gets_its_node_once_they_are_not() {
    let mut world = World::with(1, Rates::default(), CloudFaults::default(), catalogue()).await;
    world.start_controllers(false);
    refuse_claims(&world, true).await;
    world.create::<berth_api::NodePool>(pool("web", &["on-demand"])).await;
    world.deploy(web(3)).await;
    let told = world
        .settles(3, async |world| {
            let pods = world.pods().await;
            let all = pods.iter().filter_map(|pod| pod.status.as_ref()?.conditions.as_deref()).flatten();
            let is_told = |message: &str| message.contains("NodeClaims cannot be created") && message.contains(WHY);
            all.filter(|known| known.message.as_deref().is_some_and(is_told)).count() == 3
        })
        .await;
    assert!(told, "{}", state_of(&world).await);
    tokio::time::sleep(std::time::Duration::from_secs(300)).await;
    let events = Api::<Event>::all(world.client.clone()).list(&ListParams::default()).await.unwrap().items;
    let reasons: Vec<&str> = events.iter().filter_map(|event| event.reason.as_deref()).collect();
    assert!(reasons.contains(&"FailedCreate"), "{reasons:?}");
    assert!(!reasons.contains(&"LaunchBackoff"), "no node was launched in vain: {reasons:?}");
    refuse_claims(&world, false).await;
    run(&world, 3).await;
    assert_eq!(world.violations(), Vec::<String>::new());
}
