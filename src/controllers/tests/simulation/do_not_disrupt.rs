//! Values of `karpenter.sh/do-not-disrupt` that mean nothing.

use std::time::Duration;

use berth_api::{NodeClaim, NodePool};
use berth_cloudprovider_fake::cloud::CloudFaults;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::Api;
use kube::api::{ListParams, Patch, PatchParams};
use serde_json::{Value, json};

use crate::disruption::{events, pool_with, set_slots, taints, undercut};
use crate::scenarios::{catalogue, run, state_of, web};
use crate::trouble::Rates;
use crate::world::World;

/// What the one object of a kind says of its annotation, and its version.
async fn said<K>(api: &Api<K>, type_: &str) -> (Option<Value>, String)
where
    K: Clone + std::fmt::Debug + serde::Serialize + serde::de::DeserializeOwned,
{
    let all = api.list(&ListParams::default()).await.unwrap().items;
    let [object] = &all[..] else { panic!("one object: {all:#?}") };
    let object = json!(object);
    let conditions = object["status"]["conditions"].as_array().unwrap();
    let own = conditions.iter().find(|known| known["type"] == type_).cloned();
    (own, object["metadata"]["resourceVersion"].as_str().unwrap().to_owned())
}

/// Gives the one object of a kind this value of the annotation.
async fn annotate<K>(api: &Api<K>, value: Value)
where
    K: kube::Resource + Clone + std::fmt::Debug + serde::de::DeserializeOwned,
{
    let [object] = &api.list(&ListParams::default()).await.unwrap().items[..] else { panic!("one object") };
    let patch = json!({"metadata": {"annotations": {"karpenter.sh/do-not-disrupt": value}}});
    api.patch(object.meta().name.as_deref().unwrap(), &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_value_that_means_nothing_gets_a_condition_and_keeps_the_node_until_it_is_mended() {
    let mut world = World::with(1, Rates::default(), CloudFaults::default(), catalogue()).await;
    set_slots(&world, 0);
    world.options.timings.offers_period = Duration::from_secs(1);
    world.start_controllers(false);
    world.create::<NodePool>(pool_with(&["on-demand"], &json!({}))).await;
    let mut deployment = web(1);
    deployment["spec"]["template"]["metadata"]["annotations"] = json!({"karpenter.sh/do-not-disrupt": "soon"});
    world.deploy(deployment).await;
    run(&world, 1).await;
    let minutes = |n: u64| tokio::time::sleep(Duration::from_secs(n * 60));
    let (pods, nodes) = (Api::<Pod>::default_namespaced(world.client.clone()), Api::<Node>::all(world.client.clone()));
    let claims = Api::<NodeClaim>::all(world.client.clone());
    let (on_others, on_claims) = ("berth.sh/DoNotDisruptReadable", "DoNotDisruptReadable");
    let first = world.alive()[0].provider_id.clone();
    minutes(1).await;
    let (condition, version) = said(&pods, on_others).await;
    let condition = condition.unwrap();
    assert_eq!((&condition["status"], &condition["reason"]), (&json!("False"), &json!("InvalidDoNotDisrupt")));
    let message = "metadata.annotations[karpenter.sh/do-not-disrupt]: expected \"true\" or a time such as 1h, found \"soon\": \
        its node is not disrupted";
    assert_eq!(condition["message"], message);
    assert!(events(&world, "InvalidDoNotDisrupt").await.iter().any(|told| told.ends_with(message)));
    undercut(&world, "0.15");
    minutes(5).await;
    assert_eq!(world.alive()[0].provider_id, first, "{}", state_of(&world).await);
    assert_eq!((said(&pods, on_others).await.1, taints(&world).await), (version, Vec::new()), "it is written once");
    annotate(&pods, Value::Null).await;
    minutes(10).await;
    assert_ne!(world.alive()[0].provider_id, first, "the node is not kept any more: {}", state_of(&world).await);
    // The next pod is of the same template.
    annotate(&pods, json!("false")).await;
    minutes(1).await;
    assert_eq!(said(&pods, on_others).await.0, None);
    annotate(&nodes, json!("yes")).await;
    annotate(&claims, json!("1h")).await;
    minutes(1).await;
    let second = world.alive()[0].provider_id.clone();
    let of_node = said(&nodes, on_others).await.0.unwrap();
    let of_claim = said(&claims, on_claims).await.0.unwrap();
    let told = |value: &str| {
        format!(
            "metadata.annotations[karpenter.sh/do-not-disrupt]: expected \"true\", found {value:?}: the node is not disrupted"
        )
    };
    assert_eq!((&of_node["message"], &of_claim["message"]), (&json!(told("yes")), &json!(told("1h"))));
    undercut(&world, "0.03");
    minutes(5).await;
    assert_eq!(world.alive()[0].provider_id, second, "{}", state_of(&world).await);
    // What an earlier process wrote is taken away, too.
    world.kill();
    annotate(&nodes, json!("true")).await;
    annotate(&claims, json!("false")).await;
    minutes(1).await;
    assert_eq!((said(&nodes, on_others).await.0, said(&claims, on_claims).await.0), (None, None));
    assert_eq!(world.alive()[0].provider_id, second, "the node says that it stays");
    assert_eq!(world.violations(), Vec::<String>::new());
}
