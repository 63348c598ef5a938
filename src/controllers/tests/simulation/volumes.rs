//! Volumes that wait for their first consumer, and pods that another scheduler binds.

use std::time::Duration;

use berth_cloudprovider_fake::cloud::CloudFaults;
use k8s_openapi::api::core::v1::{Binding, Event, PersistentVolume, PersistentVolumeClaim, Pod};
use k8s_openapi::api::storage::v1::StorageClass;
use kube::Api;
use kube::api::{ListParams, PostParams};
use serde_json::{Value, json};

use crate::scenarios::{catalogue, pool, state_of, web};
use crate::trouble::Rates;
use crate::world::World;

async fn world() -> World {
    let mut world = World::with(7, Rates::default(), CloudFaults::default(), catalogue()).await;
    world.start_controllers(false);
    world.create::<berth_api::NodePool>(pool("web", &["on-demand"])).await;
    world
}

async fn create_class(world: &World, name: &str, provisioner: &str) {
    let class = json!({"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": name},
        "provisioner": provisioner, "volumeBindingMode": "WaitForFirstConsumer"});
    world.create::<StorageClass>(class).await;
}

async fn create_claim(claims: &Api<PersistentVolumeClaim>, name: &str, class: &str, selector: Option<Value>) {
    let claim = json!({"metadata": {"name": name}, "spec": {"storageClassName": class, "selector": selector,
        "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}});
    claims.create(&PostParams::default(), &serde_json::from_value(claim).unwrap()).await.unwrap();
}

async fn create_local_volume(world: &World, name: &str, (size, disk): (&str, &str), zone: &str) {
    let zone = json!({"key": "topology.kubernetes.io/zone", "operator": "In", "values": [zone]});
    let volume = json!({"apiVersion": "v1", "kind": "PersistentVolume",
        "metadata": {"name": name, "labels": {"disk": disk}},
        "spec": {"capacity": {"storage": size}, "accessModes": ["ReadWriteOnce"], "storageClassName": "local",
            "persistentVolumeReclaimPolicy": "Retain", "local": {"path": "/mnt"},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [zone]}]}}}});
    world.create::<PersistentVolume>(volume).await;
}

/// The volumes of a pod with these claims.
fn uses(claims: &[&str]) -> Value {
    claims.iter().map(|name| json!({"name": name, "persistentVolumeClaim": {"claimName": name}})).collect()
}

#[tokio::test(start_paused = true)]
async fn a_volume_is_made_for_the_node_before_its_pod_is_bound() {
    let world = world().await;
    create_class(&world, "disks", "ebs.csi.aws.com").await;
    let claims = Api::<PersistentVolumeClaim>::default_namespaced(world.client.clone());
    create_claim(&claims, "data", "disks", None).await;
    let mut deployment = web(1);
    deployment["spec"]["template"]["spec"]["volumes"] = uses(&["data"]);
    let began = tokio::time::Instant::now();
    world.deploy(deployment).await;
    let runs = world.settles(10, async |world| world.all_run().await == Some(1)).await;
    assert!(runs, "{}", state_of(&world).await);
    // In virtual time. The regression: ten seconds more, as the pod stood in its own way where it was nominated.
    assert!(began.elapsed() < Duration::from_secs(15), "{:?}", began.elapsed());
    let node = world.pods().await[0].spec.as_ref().unwrap().node_name.clone();
    let claim = claims.get("data").await.unwrap();
    let selected = claim.metadata.annotations.unwrap_or_default().get("volume.kubernetes.io/selected-node").cloned();
    assert_eq!(selected, node, "nobody else tells provisioners the node");
    assert!(claim.spec.unwrap().volume_name.is_some_and(|volume| !volume.is_empty()));
    assert_eq!(world.claims().await.len(), 1, "{}", state_of(&world).await);
    assert_eq!(world.violations(), Vec::<String>::new());
}

/// The regression: nobody made the volume, and nobody kept one that was there for the claim, so that its pod waited for good.
#[tokio::test(start_paused = true)]
async fn volumes_that_are_there_are_kept_for_the_claims_of_a_pod_before_it_is_bound() {
    let world = world().await;
    create_class(&world, "local", "kubernetes.io/no-provisioner").await;
    let claims = Api::<PersistentVolumeClaim>::default_namespaced(world.client.clone());
    let fast = json!({"matchLabels": {"disk": "fast"}});
    for (name, selector) in [("data", None), ("more", None), ("fast", Some(fast))] {
        create_claim(&claims, name, "local", selector).await;
    }
    for (name, size, zone, disk) in [
        ("big", "9Gi", "port-1a", "slow"),
        ("small", "2Gi", "port-1a", "slow"),
        ("elsewhere", "1Gi", "port-1b", "slow"),
        ("quick", "9Gi", "port-1a", "fast"),
    ] {
        create_local_volume(&world, name, (size, disk), zone).await;
    }
    let mut deployment = web(1);
    deployment["spec"]["template"]["spec"]["volumes"] = uses(&["data", "more", "fast"]);
    world.deploy(deployment).await;
    let runs = world.settles(10, async |world| world.all_run().await == Some(1)).await;
    assert!(runs, "{}", state_of(&world).await);
    let mut bound = Vec::new();
    for name in ["data", "more", "fast"] {
        let claim = claims.get(name).await.unwrap();
        let annotations = claim.metadata.annotations.unwrap_or_default();
        assert_eq!(annotations.get("volume.kubernetes.io/selected-node"), None, "there is no provisioner to be told");
        bound.push(claim.spec.unwrap().volume_name.unwrap());
    }
    assert_eq!(bound.pop().unwrap(), "quick", "the only one with the label");
    bound.sort();
    assert_ne!(bound[0], bound[1]);
    assert!(bound.contains(&"small".to_owned()), "{bound:?}");
    assert_eq!(world.claims().await.len(), 1, "{}", state_of(&world).await);
    assert_eq!(world.violations(), Vec::<String>::new());
}

fn single(name: &str, spec: Value) -> Value {
    let mut pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default"}, "spec": {
        "containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "100m"}}}]}});
    if let (Some(pod), Value::Object(more)) = (pod["spec"].as_object_mut(), spec) {
        pod.extend(more);
    }
    pod
}

#[tokio::test(start_paused = true)]
async fn another_scheduler_on_the_same_node_is_warned_about() {
    let mut world = World::with(7, Rates::default(), CloudFaults::default(), catalogue()).await;
    world.options.scheduler_names = Some(["default-scheduler".to_owned()].into());
    world.start_controllers(false);
    world.create::<berth_api::NodePool>(pool("web", &["on-demand"])).await;
    world.deploy(web(1)).await;
    let runs = world.settles(10, async |world| world.all_run().await == Some(1)).await;
    assert!(runs, "{}", state_of(&world).await);
    let warnings = async |world: &World| {
        let events = Api::<Event>::all(world.client.clone()).list(&ListParams::default()).await.unwrap().items;
        events.into_iter().filter(|event| event.reason.as_deref() == Some("AnotherSchedulerBinds")).count()
    };
    assert_eq!(warnings(&world).await, 0, "Berth's own bindings are no rival's");
    let pods = Api::<Pod>::default_namespaced(world.client.clone());
    let rival = single("rival", json!({"schedulerName": "another"}));
    pods.create(&PostParams::default(), &serde_json::from_value(rival).unwrap()).await.unwrap();
    tokio::time::sleep(std::time::Duration::from_secs(5)).await;
    let node = world.nodes().await[0].metadata.name.clone().unwrap();
    let binding = json!({"metadata": {"name": "rival"}, "target": {"apiVersion": "v1", "kind": "Node", "name": node}});
    let binding: Binding = serde_json::from_value(binding).unwrap();
    let _: Value = pods.create_subresource("binding", "rival", &PostParams::default(), &binding).await.unwrap();
    let warned = world.settles(2, async |world| warnings(world).await == 1).await;
    assert!(warned);
}

#[tokio::test(start_paused = true)]
async fn a_pod_with_claims_of_devices_is_refused_with_that_reason() {
    let world = world().await;
    let pods = Api::<Pod>::default_namespaced(world.client.clone());
    let claims = json!({"resourceClaims": [{"name": "gpu", "resourceClaimName": "gpu"}]});
    pods.create(&PostParams::default(), &serde_json::from_value(single("dra", claims)).unwrap()).await.unwrap();
    let said = world.settles(5, async |world| {
        let pods = world.pods().await;
        let conditions =
            pods.iter().flat_map(|pod| pod.status.iter().flat_map(|status| status.conditions.iter().flatten()));
        conditions.filter_map(|known| known.message.as_deref()).any(|why| why.contains("Dynamic Resource Allocation"))
    });
    assert!(said.await, "{}", state_of(&world).await);
    assert!(world.alive().is_empty());
}
