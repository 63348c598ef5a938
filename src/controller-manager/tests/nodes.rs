//! Nodes, taints, the pod garbage collector and volumes, in paused time.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing)]

mod common;

use std::time::Duration;

use common::{World, is_live, name, pod};
use serde_json::{Value, json};

fn on(name: &str, node: &str) -> Value {
    let mut pod = pod(name);
    pod["spec"]["nodeName"] = node.into();
    pod
}

async fn ready(world: &World, node: &str, status: &str) {
    let condition = json!({"type": "Ready", "status": status, "reason": "Test", "message": "",
        "lastHeartbeatTime": format!("2026-01-01T00:00:{:02}Z", world.server.resource_version() % 60),
        "lastTransitionTime": "2026-01-01T00:00:00Z"});
    world.patch_status(&format!("nodes/{node}"), &json!({"status": {"conditions": [condition]}})).await;
}

async fn taints(world: &World, node: &str) -> Vec<String> {
    let node = world.get(&format!("nodes/{node}")).await.unwrap();
    let taints = node["spec"]["taints"].as_array().cloned().unwrap_or_default();
    let text = |taint: &Value| format!("{}:{}", taint["key"].as_str().unwrap(), taint["effect"].as_str().unwrap());
    taints.iter().map(text).collect()
}

/// Renews a node's Lease every ten seconds for some time.
async fn beat(world: &World, node: &str, seconds: u64) {
    for _ in 0..seconds / 10 {
        let now = format!("{:.6}", world.server.now());
        let lease = json!({"metadata": {"name": node}, "spec": {"renewTime": now}});
        if world.get(&format!("leases/kube-node-lease/{node}")).await.is_none() {
            world.create("leases/kube-node-lease", &lease).await;
        } else {
            world.patch(&format!("leases/kube-node-lease/{node}"), &lease).await;
        }
        tokio::time::sleep(Duration::from_secs(10)).await;
    }
}

/// Pods that are bound to a node in the moment of its creation were deleted: the lists of pods and nodes are of two
/// moments, and each change started a round.
#[tokio::test(start_paused = true)]
async fn pods_bound_to_a_node_that_was_just_created_are_not_orphans() {
    let world = World::new();
    for n in 0..100 {
        world.node(&format!("old-{n}"), &json!({})).await;
    }
    for n in 0..50 {
        // The pod is there before its node is: the worst of all orders of two watches.
        world.create("pods/default", &on(&format!("p{n}"), &format!("new-{n}"))).await;
        world.patch(&format!("nodes/old-{n}"), &json!({"metadata": {"labels": {"round": n.to_string()}}})).await;
        tokio::time::sleep(Duration::from_millis(50)).await;
        world.node(&format!("new-{n}"), &json!({})).await;
        ready(&world, &format!("new-{n}"), "True").await;
    }
    for n in 0..50 {
        let lease = json!({"metadata": {"name": format!("new-{n}")}, "spec": {"renewTime": format!("{:.6}", world.server.now())}});
        world.create("leases/kube-node-lease", &lease).await;
    }
    tokio::time::sleep(Duration::from_secs(45)).await;
    let pods = world.pods().await;
    assert_eq!(pods.iter().filter(|pod| is_live(pod)).count(), 50);
}

#[tokio::test(start_paused = true)]
async fn pods_of_nodes_that_are_gone_go_after_the_quarantine() {
    let world = World::new();
    world.node("n1", &json!({})).await;
    world.create("pods/default", &on("p", "n1")).await;
    world.settle().await;
    world.delete("nodes/n1").await;
    tokio::time::sleep(Duration::from_secs(35)).await;
    assert_eq!(world.names("pods/default").await, ["p"]);
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert!(world.pods().await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_node_that_comes_back_within_the_quarantine_keeps_its_pods() {
    let world = World::new();
    world.node("n1", &json!({})).await;
    world.create("pods/default", &on("p", "n1")).await;
    world.settle().await;
    world.delete("nodes/n1").await;
    tokio::time::sleep(Duration::from_secs(30)).await;
    world.node("n1", &json!({})).await;
    tokio::time::sleep(Duration::from_secs(20)).await;
    assert_eq!(world.names("pods/default").await, ["p"]);
}

#[tokio::test(start_paused = true)]
async fn pods_of_a_silent_node_are_evicted_when_their_tolerations_end() {
    evicts_pods_of_a_silent_node(false).await;
}

/// The regression: where a machine died while its node was being drained, what its pods waited for never came, and they stayed for good.
#[tokio::test(start_paused = true)]
async fn pods_of_a_silent_node_that_is_being_deleted_are_evicted_as_others_are() {
    evicts_pods_of_a_silent_node(true).await;
}

async fn evicts_pods_of_a_silent_node(is_being_deleted: bool) {
    let world = World::new();
    world.node("n1", &json!({})).await;
    ready(&world, "n1", "True").await;
    world.create("pods/default", &on("p", "n1")).await;
    if is_being_deleted {
        world.patch("nodes/n1", &json!({"metadata": {"finalizers": ["karpenter.sh/termination"]}})).await;
        world.delete("nodes/n1").await;
    }
    beat(&world, "n1", 120).await;
    assert!(taints(&world, "n1").await.is_empty());
    tokio::time::sleep(Duration::from_secs(35)).await;
    assert!(taints(&world, "n1").await.is_empty());
    tokio::time::sleep(Duration::from_secs(10)).await;
    let unreachable = ["node.kubernetes.io/unreachable:NoSchedule", "node.kubernetes.io/unreachable:NoExecute"];
    assert_eq!(taints(&world, "n1").await, unreachable);
    let is_going = async || !is_live(&world.get("pods/default/p").await.unwrap());
    tokio::time::sleep(Duration::from_secs(290)).await;
    assert!(!is_going().await);
    tokio::time::sleep(Duration::from_secs(20)).await;
    assert!(is_going().await);
}

/// A heartbeat must not cost more in a larger cluster: it was a round over all DaemonSets, nodes and pods.
#[tokio::test(start_paused = true)]
async fn a_heartbeat_makes_no_work() {
    let world = World::new();
    world.node("n1", &json!({})).await;
    ready(&world, "n1", "True").await;
    let set = json!({"metadata": {"name": "log"}, "spec": {"selector": {"matchLabels": {"app": "log"}}, "template": {
        "metadata": {"labels": {"app": "log"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}}});
    world.create("daemonsets/default", &set).await;
    beat(&world, "n1", 60).await;
    world.settle().await;
    let (before, version) = (world.metrics.syncs(), world.server.resource_version());
    beat(&world, "n1", 600).await;
    // Each renewal is one write of ours; the grace period is looked at once in a while.
    assert_eq!(world.server.resource_version(), version + 60);
    assert!(world.metrics.syncs() - before <= 20, "{} syncs for 60 heartbeats", world.metrics.syncs() - before);
}

#[tokio::test(start_paused = true)]
async fn tolerations_of_a_time_end_when_they_began_whatever_else_changes() {
    let world = World::new();
    world.node("n1", &json!({})).await;
    beat(&world, "n1", 10).await;
    for (name, tolerations) in [
        ("never", json!([])),
        ("always", json!([{"operator": "Exists"}])),
        ("short", json!([{"key": "gone", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 60}])),
    ] {
        let mut pod = on(name, "n1");
        pod["spec"]["tolerations"] = tolerations;
        pod["spec"]["terminationGracePeriodSeconds"] = 0.into();
        world.create("pods/default", &pod).await;
    }
    let taint = json!([{"key": "gone", "value": "yes", "effect": "NoExecute"}]);
    world.patch("nodes/n1", &json!({"spec": {"taints": taint}})).await;
    beat(&world, "n1", 30).await;
    assert_eq!(world.names("pods/default").await, ["always", "short"]);
    world.patch("nodes/n1", &json!({"metadata": {"labels": {"a": "b"}}})).await;
    beat(&world, "n1", 40).await;
    assert_eq!(world.names("pods/default").await, ["always"]);
}

#[tokio::test(start_paused = true)]
async fn the_taint_of_a_new_node_goes_but_what_evicts_waits_for_the_node_to_be_ready() {
    let world = World::with_admission();
    world.node("n1", &json!({})).await;
    world.settle().await;
    assert!(taints(&world, "n1").await.is_empty());
    let not_ready = json!([{"key": "node.kubernetes.io/not-ready", "effect": "NoExecute"}]);
    world.patch("nodes/n1", &json!({"spec": {"taints": not_ready}})).await;
    world.settle().await;
    assert_eq!(taints(&world, "n1").await.len(), 1);
    ready(&world, "n1", "True").await;
    world.settle().await;
    assert!(taints(&world, "n1").await.is_empty());
}

fn volume(name: &str, size: &str, more: &Value) -> Value {
    let mut spec = json!({"capacity": {"storage": size}, "accessModes": ["ReadWriteOnce"], "hostPath": {"path": "/d"}});
    for (field, value) in more.as_object().unwrap() {
        spec[field] = value.clone();
    }
    json!({"metadata": {"name": name}, "spec": spec})
}

fn claim(size: &str, more: &Value) -> Value {
    let mut spec = json!({"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": size}}});
    for (field, value) in more.as_object().unwrap() {
        spec[field] = value.clone();
    }
    json!({"metadata": {"name": "c"}, "spec": spec})
}

async fn phase(world: &World, volume: &str) -> String {
    let volume = world.get(&format!("persistentvolumes/{volume}")).await.unwrap();
    volume["status"]["phase"].as_str().unwrap_or_default().to_owned()
}

#[tokio::test(start_paused = true)]
async fn a_claim_takes_the_smallest_of_the_volumes_with_no_more_modes_than_it_asks_for() {
    let world = World::new();
    for (name, size, more) in [
        ("small", "1Gi", json!({})),
        ("versatile", "3Gi", json!({"accessModes": ["ReadWriteOnce", "ReadOnlyMany"]})),
        ("middle", "5Gi", json!({})),
        ("large", "9Gi", json!({})),
    ] {
        world.create("persistentvolumes", &volume(name, size, &more)).await;
    }
    world.create("persistentvolumeclaims/default", &claim("2Gi", &json!({}))).await;
    world.settle().await;
    let claim = world.get("persistentvolumeclaims/default/c").await.unwrap();
    assert_eq!(claim["spec"]["volumeName"], "middle");
    assert_eq!([phase(&world, "middle").await, phase(&world, "versatile").await], ["Bound", "Available"]);
    let volume = world.get("persistentvolumes/middle").await.unwrap();
    assert_eq!(volume["metadata"]["annotations"]["pv.kubernetes.io/bound-by-controller"], "yes");
}

#[tokio::test(start_paused = true)]
async fn a_claim_that_waits_is_bound_when_a_node_is_chosen_for_it_and_its_volume_goes_with_it() {
    let world = World::with_admission();
    world.node("n1", &json!({"topology.kubernetes.io/zone": "z1"})).await;
    let class =
        json!({"metadata": {"name": "late"}, "provisioner": "p.io/x", "volumeBindingMode": "WaitForFirstConsumer"});
    world.create("storageclasses", &class).await;
    let waiting = claim("1Gi", &json!({"storageClassName": "late"}));
    world.create("persistentvolumeclaims/default", &waiting).await;
    world.settle().await;
    let claim = async || world.get("persistentvolumeclaims/default/c").await.unwrap();
    assert_eq!(claim().await["status"]["phase"], "Pending");
    let selected = json!({"metadata": {"annotations": {"volume.kubernetes.io/selected-node": "n1"}}});
    world.patch("persistentvolumeclaims/default/c", &selected).await;
    world.settle().await;
    assert_eq!(claim().await["status"]["phase"], "Bound");
    let made = claim().await["spec"]["volumeName"].as_str().unwrap().to_owned();
    assert_eq!(phase(&world, &made).await, "Bound");
    let volume = world.get(&format!("persistentvolumes/{made}")).await.unwrap();
    assert!(volume["spec"]["nodeAffinity"].to_string().contains("z1"));
    world.delete("persistentvolumeclaims/default/c").await;
    world.settle().await;
    assert!(world.names("persistentvolumes").await.is_empty());
}

/// The regression: its volume could be used in every zone, and its pod went to another than plans had it in.
#[tokio::test(start_paused = true)]
async fn a_volume_that_is_made_before_its_pod_is_placed_is_where_its_class_allows() {
    let world = World::new();
    let zones = json!({"key": "topology.kubernetes.io/zone", "values": ["z1", "z2"]});
    let class = json!({"metadata": {"name": "now"}, "provisioner": "p.io/x", "volumeBindingMode": "Immediate",
        "allowedTopologies": [{"matchLabelExpressions": [zones]}]});
    world.create("storageclasses", &class).await;
    world.create("persistentvolumeclaims/default", &claim("1Gi", &json!({"storageClassName": "now"}))).await;
    world.settle().await;
    let claim = world.get("persistentvolumeclaims/default/c").await.unwrap();
    let volume =
        world.get(&format!("persistentvolumes/{}", claim["spec"]["volumeName"].as_str().unwrap())).await.unwrap();
    let expected = json!([{"matchExpressions": [
        {"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["z1", "z2"]}]}]);
    assert_eq!(volume["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"], expected);
}

#[tokio::test(start_paused = true)]
async fn a_claim_in_use_stays_until_its_pods_are_gone() {
    let world = World::with_admission();
    world.node("n1", &json!({})).await;
    world.create("persistentvolumes", &volume("v", "5Gi", &json!({}))).await;
    world.create("persistentvolumeclaims/default", &claim("1Gi", &json!({}))).await;
    let mut user = pod("user");
    user["spec"]["nodeName"] = "n1".into();
    user["spec"]["volumes"] = json!([{"name": "d", "persistentVolumeClaim": {"claimName": "c"}}]);
    world.create("pods/default", &user).await;
    world.settle().await;
    world.delete("persistentvolumeclaims/default/c").await;
    world.settle().await;
    assert!(!is_live(&world.get("persistentvolumeclaims/default/c").await.unwrap()));
    world.delete("pods/default/user").await;
    world.live("n1").await;
    assert!(world.get("persistentvolumeclaims/default/c").await.is_none());
    assert_eq!(phase(&world, "v").await, "Released");
}

#[tokio::test(start_paused = true)]
async fn a_volume_that_is_kept_for_a_claim_is_bound_though_its_class_waits() {
    let world = World::new();
    let class = json!({"metadata": {"name": "local"}, "provisioner": "kubernetes.io/no-provisioner",
        "volumeBindingMode": "WaitForFirstConsumer"});
    world.create("storageclasses", &class).await;
    world.create("persistentvolumes", &volume("v", "5Gi", &json!({"storageClassName": "local"}))).await;
    let made =
        world.create("persistentvolumeclaims/default", &claim("1Gi", &json!({"storageClassName": "local"}))).await;
    world.settle().await;
    assert_eq!(phase(&world, "v").await, "Available");
    // A node alone is said to provisioners, and there is none.
    let selected = json!({"metadata": {"annotations": {"volume.kubernetes.io/selected-node": "n1"}}});
    world.patch("persistentvolumeclaims/default/c", &selected).await;
    world.settle().await;
    assert_eq!(phase(&world, "v").await, "Available");
    let reference = json!({"kind": "PersistentVolumeClaim", "namespace": "default", "name": name(&made),
        "uid": made["metadata"]["uid"]});
    world.patch("persistentvolumes/v", &json!({"spec": {"claimRef": reference}})).await;
    world.settle().await;
    assert_eq!(phase(&world, "v").await, "Bound");
    let claim = world.get("persistentvolumeclaims/default/c").await.unwrap();
    assert_eq!(claim["status"]["phase"], "Bound");
}

#[tokio::test(start_paused = true)]
async fn a_claim_whose_volume_is_gone_is_lost() {
    let world = World::with_admission();
    world.create("persistentvolumes", &volume("v", "5Gi", &json!({}))).await;
    world.create("persistentvolumeclaims/default", &claim("1Gi", &json!({}))).await;
    world.settle().await;
    let claim = async || world.get("persistentvolumeclaims/default/c").await.unwrap()["status"]["phase"].clone();
    assert_eq!(claim().await, "Bound");
    world.delete("persistentvolumes/v").await;
    world.settle().await;
    assert_eq!(claim().await, "Bound", "it is kept while a claim is bound to it");
    world.patch("persistentvolumes/v", &json!({"metadata": {"finalizers": null}})).await;
    world.settle().await;
    assert!(world.names("persistentvolumes").await.is_empty());
    assert_eq!(claim().await, "Lost");
}

/// The regression: the volume that was made for a first node did not fit the second one, and the claim waited for ever.
#[tokio::test(start_paused = true)]
async fn a_claim_is_bound_to_the_volume_that_is_kept_for_it_though_another_node_is_chosen() {
    let world = World::with_admission();
    world.node("n2", &json!({"topology.kubernetes.io/zone": "z2"})).await;
    let class =
        json!({"metadata": {"name": "late"}, "provisioner": "p.io/x", "volumeBindingMode": "WaitForFirstConsumer"});
    world.create("storageclasses", &class).await;
    let zone = json!({"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["z1"]});
    let more = json!({"storageClassName": "late", "claimRef": {"namespace": "default", "name": "c"},
        "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [zone]}]}}});
    world.create("persistentvolumes", &volume("first", "1Gi", &more)).await;
    let mut chosen = claim("1Gi", &json!({"storageClassName": "late"}));
    chosen["metadata"]["annotations"] = json!({"volume.kubernetes.io/selected-node": "n2"});
    world.create("persistentvolumeclaims/default", &chosen).await;
    world.settle().await;
    let claim = world.get("persistentvolumeclaims/default/c").await.unwrap();
    assert_eq!((&claim["status"]["phase"], &claim["spec"]["volumeName"]), (&json!("Bound"), &json!("first")));
    assert_eq!(world.names("persistentvolumes").await, ["first"]);
}

/// As provisioners do: who schedules is to choose another node.
#[tokio::test(start_paused = true)]
async fn a_claim_is_told_when_the_node_that_was_chosen_for_it_is_gone() {
    let world = World::with_admission();
    let class =
        json!({"metadata": {"name": "late"}, "provisioner": "p.io/x", "volumeBindingMode": "WaitForFirstConsumer"});
    world.create("storageclasses", &class).await;
    let mut chosen = claim("1Gi", &json!({"storageClassName": "late"}));
    chosen["metadata"]["annotations"] = json!({"volume.kubernetes.io/selected-node": "gone"});
    world.create("persistentvolumeclaims/default", &chosen).await;
    world.settle().await;
    let claim = world.get("persistentvolumeclaims/default/c").await.unwrap();
    assert_eq!(claim["status"]["phase"], "Pending");
    assert!(claim["metadata"]["annotations"].get("volume.kubernetes.io/selected-node").is_none());
    assert!(world.names("persistentvolumes").await.is_empty());
}

/// The regression: nobody made the claims, and such pods waited for ever.
#[tokio::test(start_paused = true)]
async fn claims_of_ephemeral_volumes_come_and_go_with_their_pod() {
    let world = World::new();
    let template = json!({"metadata": {"labels": {"for": "scratch"}}, "spec": {"accessModes": ["ReadWriteOnce"],
        "storageClassName": "none", "resources": {"requests": {"storage": "1Gi"}}}});
    let pod = json!({"metadata": {"name": "p"}, "spec": {
        "volumes": [{"name": "e", "ephemeral": {"volumeClaimTemplate": template}}],
        "containers": [{"name": "c", "image": "i"}]}});
    world.create("pods/default", &pod).await;
    world.settle().await;
    let claim = async || world.get("persistentvolumeclaims/default/p-e").await;
    let made = claim().await.unwrap();
    assert_eq!(made["metadata"]["labels"], json!({"for": "scratch"}));
    assert_eq!(made["spec"]["resources"]["requests"]["storage"], "1Gi");
    let owner = &made["metadata"]["ownerReferences"][0];
    let of_pod = &world.get("pods/default/p").await.unwrap()["metadata"]["uid"];
    assert_eq!((&owner["kind"], &owner["uid"], &owner["controller"]), (&json!("Pod"), of_pod, &json!(true)));
    // Somebody else's claim of that name is left alone, and nobody's is made again.
    world.delete("persistentvolumeclaims/default/p-e").await;
    world.settle().await;
    assert_ne!(claim().await.unwrap()["metadata"]["uid"], made["metadata"]["uid"]);
    world.delete("pods/default/p").await;
    world.settle().await;
    world.settle().await;
    let left = claim().await;
    assert!(left.is_none_or(|left| !left["metadata"]["deletionTimestamp"].is_null()), "it goes with its pod");
}

/// The regression: the next pod of a name counted as a user of the claim that went with the pod before it. So that claim never went, and
/// the pod waited for good.
#[tokio::test(start_paused = true)]
async fn the_next_pod_of_a_name_gets_a_claim_of_its_own_for_an_ephemeral_volume() {
    let world = World::with_admission();
    let template = json!({"spec": {"accessModes": ["ReadWriteOnce"], "storageClassName": "none",
        "resources": {"requests": {"storage": "1Gi"}}}});
    let pod = |name: &str, node: Value| {
        json!({"metadata": {"name": name}, "spec": {"nodeName": node, "containers": [{"name": "c", "image": "i"}],
            "volumes": [{"name": "e", "ephemeral": {"volumeClaimTemplate": template}}]}})
    };
    let claim = async |name: &str| world.get(&format!("persistentvolumeclaims/default/{name}-e")).await.unwrap();
    world.create("pods/default", &pod("p", Value::Null)).await;
    world.create("pods/default", &pod("runs", "n".into())).await;
    world.settle().await;
    assert_eq!(claim("p").await["metadata"]["finalizers"], json!(["kubernetes.io/pvc-protection"]));
    world.delete("pods/default/p").await;
    world.create("pods/default", &pod("p", Value::Null)).await;
    world.delete("persistentvolumeclaims/default/runs-e").await;
    world.settle().await;
    world.settle().await;
    let of_pod = &world.get("pods/default/p").await.unwrap()["metadata"]["uid"];
    let metadata = &claim("p").await["metadata"];
    assert_eq!((&metadata["ownerReferences"][0]["uid"], &metadata["deletionTimestamp"]), (of_pod, &Value::Null));
    // Who is on a node keeps its claim until it has gone.
    assert!(!claim("runs").await["metadata"]["deletionTimestamp"].is_null());
}
