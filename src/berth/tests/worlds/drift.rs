//! A NodePool's template changes, and its nodes are replaced: as budgets allow, and without what is marked.

use std::collections::BTreeSet;

use berth_api::NodePool;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{Event, Node, Pod};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::Api;
use kube::api::{ListParams, Patch, PatchParams};
use serde_json::{Value, json};

use crate::consolidation::of_types;
use crate::scenarios::{uids, web};
use crate::witness::Witness;
use crate::world::World;

/// Nodes that are only replaced as they drift.
fn drifting(budget: &str) -> Value {
    let mut own = of_types(&["m5.xlarge"], false);
    own["spec"]["disruption"] = json!({"consolidateAfter": "Never", "budgets": [{"nodes": budget}]});
    own
}

async fn change(world: &World, spec: Value) {
    let pools = Api::<NodePool>::all(world.client.clone());
    pools.patch("web", &PatchParams::default(), &Patch::Merge(json!({"spec": spec}))).await.unwrap();
}

async fn drift(world: &World) {
    change(world, json!({"template": {"metadata": {"labels": {"team": "web"}}}})).await;
}

/// The nodes of which Berth says that they stay.
async fn told_to_stay(world: &World) -> BTreeSet<String> {
    let events = Api::<Event>::all(world.client.clone()).list(&ListParams::default()).await.unwrap();
    let why = |event: &Event| event.reason.clone().unwrap_or_default();
    let kept = events.into_iter().filter(|event| ["DisruptionBlocked", "Unconsolidatable"].contains(&&*why(event)));
    let nodes = kept.filter(|event| event.involved_object.kind.as_deref() == Some("Node"));
    nodes.filter_map(|event| event.involved_object.name).collect()
}

async fn mark(world: &World, node: &str, value: Option<&str>) {
    let patch = json!({"metadata": {"annotations": {"karpenter.sh/do-not-disrupt": value}}});
    let nodes = Api::<Node>::all(world.client.clone());
    nodes.patch(node, &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
}

/// First no node may go; then one at a time, and one pod.
pub(crate) async fn budgets(world: &mut World) {
    world.create::<NodePool>(drifting("0")).await;
    let budget = json!({"metadata": {"name": "web"},
        "spec": {"maxUnavailable": 1, "selector": {"matchLabels": {"app": "web"}}}});
    world.create_in::<PodDisruptionBudget>(budget).await;
    world.create_in::<Deployment>(web("web", 6)).await;
    world.run(6).await;
    let before = (uids(world).await, world.node_names().await);
    let witness = Witness::start(&world.client).await;
    drift(world).await;
    world.comes("two nodes that stay", async |world| before.1.is_subset(&told_to_stay(world).await)).await;
    let record = witness.record();
    assert_eq!((record.disrupted, world.node_names().await), (BTreeSet::new(), before.1.clone()));
    change(world, json!({"disruption": {"budgets": [{"nodes": "1"}]}})).await;
    world
        .comes("two other nodes", async |world| {
            let now = world.node_names().await;
            now.len() == 2 && now.is_disjoint(&before.1)
        })
        .await;
    world.run(6).await;
    assert!(uids(world).await.is_disjoint(&before.0), "all were moved");
    let record = witness.record();
    assert_eq!((&record.disrupted, record.most_at_once), (&before.1, 1), "{record:?}");
    assert_eq!((record.least_serving, record.ended_otherwise.len()), (5, 0), "{record:?}");
}

/// Of three nodes one has a pod that says that it is not to be disrupted, and one says so itself, for a while.
pub(crate) async fn marks(world: &mut World) {
    world.create::<NodePool>(drifting("100%")).await;
    world.create_in::<Deployment>(web("web", 9)).await;
    world.run(9).await;
    let pod = world.pods().await.remove(0);
    let with_pod = pod.spec.unwrap().node_name.unwrap();
    let patch = Patch::Merge(json!({"metadata": {"annotations": {"karpenter.sh/do-not-disrupt": "true"}}}));
    let pods = Api::<Pod>::default_namespaced(world.client.clone());
    pods.patch(pod.metadata.name.as_deref().unwrap(), &PatchParams::default(), &patch).await.unwrap();
    let nodes: Vec<String> = world.node_names().await.into_iter().filter(|name| *name != with_pod).collect();
    let [marked, other] = &nodes[..] else { panic!("three nodes: {:?}", world.fleet().await) };
    mark(world, marked, Some("true")).await;
    let witness = Witness::start(&world.client).await;
    drift(world).await;
    let replaced = |gone: BTreeSet<String>| {
        async move |world: &World| {
            let now = world.node_names().await;
            now.len() == 3 && now.is_disjoint(&gone)
        }
    };
    let kept = BTreeSet::from([with_pod.clone(), marked.clone()]);
    world.comes("two nodes that stay", async |world| kept.is_subset(&told_to_stay(world).await)).await;
    world.comes("another node for the third", replaced([other.clone()].into())).await;
    world.run(9).await;
    assert_eq!(witness.record().disrupted, [other.clone()].into());
    // Nobody waits for the pod any more than for the node: only the mark keeps it.
    mark(world, marked, None).await;
    let both = BTreeSet::from([marked.clone(), other.clone()]);
    world.comes("another node for what was marked", replaced(both.clone())).await;
    world.run(9).await;
    let record = witness.record();
    assert_eq!(record.disrupted, both, "{record:?}");
    assert!(uids(world).await.contains(&pod.metadata.uid.unwrap()) && world.node_names().await.contains(&with_pod));
    assert_eq!(record.ended_otherwise, BTreeSet::new(), "{record:?}");
}
