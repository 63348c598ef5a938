//! More scenarios: capacity types, Reservations, daemons, stock-outs, and nodes that never join.

use std::collections::BTreeMap;
use std::time::Duration;

use berth_api::{NodeClaim, NodePool, Reservation, ReservationPhase, labels};
use k8s_openapi::api::apps::v1::{DaemonSet, Deployment};
use k8s_openapi::api::core::v1::{Node, PersistentVolume, PersistentVolumeClaim, Pod};
use k8s_openapi::api::storage::v1::StorageClass;
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::{Value, json};

use crate::scenarios::{fleet, pool, web};
use crate::world::World;

/// A Deployment of pods with more in their spec.
fn with(mut deployment: Value, spec: &Value) -> Value {
    let pod = deployment["spec"]["template"]["spec"].as_object_mut().unwrap();
    pod.extend(spec.as_object().unwrap().clone());
    deployment
}

pub(crate) async fn lowered_while_launching(world: &mut World) {
    world.create::<NodePool>(pool("web", &["on-demand", "reserved"])).await;
    world.create_in::<Deployment>(web("web", 12)).await;
    world.comes("a NodeClaim", async |world| !world.claims().await.is_empty()).await;
    world.set_slots(1).await;
    world.run(12).await;
    // Those that were launched before stay, whatever the count says; and later ones find it full.
    let n = world.n_on_slots().await;
    assert!((1..=4).contains(&n), "{:?}", world.fleet().await);
}

/// A NodePool whose nodes stay.
fn lasting(name: &str, capacity_types: &[&str]) -> Value {
    let mut own = pool(name, capacity_types);
    own["spec"]["disruption"]["consolidateAfter"] = json!("Never");
    own
}

pub(crate) async fn capacity_types(world: &mut World) {
    world.create::<NodePool>(lasting("web", &["spot", "on-demand", "reserved"])).await;
    world.set_slots(1).await;
    world.create_in::<Deployment>(web("any", 6)).await;
    world.run(6).await;
    // Three on the slot, and three where it is cheapest.
    assert_eq!(world.fleet().await, fleet(&[("m5.xlarge", "cr-web", 1), ("m5.xlarge", "spot", 1)]));
    let paid = json!({"nodeSelector": {labels::CAPACITY_TYPE: "on-demand"}});
    world.create_in::<Deployment>(with(web("paid", 3), &paid)).await;
    world.run(9).await;
    let on_demand: usize = world.fleet().await.iter().filter(|((_, on), _)| on == "on-demand").map(|(_, n)| n).sum();
    assert!(on_demand > 0, "{:?}", world.fleet().await);
    // Nothing is left of what these need: they wait, and say why.
    let reserved = json!({"nodeSelector": {labels::CAPACITY_TYPE: "reserved"}});
    world.create_in::<Deployment>(with(web("slots", 3), &reserved)).await;
    world.comes("three refusals", async |world| world.refused().await.len() == 3).await;
    world.set_slots(2).await;
    world.run(12).await;
    assert_eq!(world.n_on_slots().await, 2, "{:?}", world.fleet().await);
}

pub(crate) async fn three_pools(world: &mut World) {
    let pools: [(&str, &[&str], u32); 3] = [
        ("reserved-only", &["reserved"], 6),
        ("prefer-reserved", &["on-demand", "reserved"], 6),
        ("default", &["spot", "on-demand", "reserved"], 6),
    ];
    for (name, capacity_types, replicas) in pools {
        world.create::<NodePool>(lasting(name, capacity_types)).await;
        let selector = json!({"nodeSelector": {labels::NODEPOOL: name}});
        world.create_in::<Deployment>(with(web(name, replicas), &selector)).await;
    }
    world.run(18).await;
    assert_eq!(world.capacity_of("reserved-only").await, ["cr-web", "cr-web"], "{:?}", world.fleet().await);
    // Of what the first leaves nothing lies idle.
    assert_eq!(world.n_on_slots().await, 4, "{:?}", world.fleet().await);
    let paid: Vec<String> = world.capacity_of("prefer-reserved").await;
    assert!(paid.iter().all(|on| on != "spot"), "{paid:?}");
}

/// Each pod wants a node for itself, and there is one slot: one NodeClaim, not one for each pod.
pub(crate) async fn one_slot(world: &mut World) {
    let n: u32 = if std::env::var_os("BERTH_SCENARIOS").is_none() {
        100
    } else if world.name == "real" {
        1_000
    } else {
        10_000
    };
    world.set_slots(1).await;
    world.create::<NodePool>(pool("web", &["reserved"])).await;
    let apart = json!({"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{
        "labelSelector": {"matchLabels": {"app": "web"}}, "topologyKey": "kubernetes.io/hostname"}]}}});
    world.create_in::<Deployment>(with(web("web", n), &apart)).await;
    let n = usize::try_from(n).unwrap();
    let runs = |pod: &&Pod| pod.status.as_ref().and_then(|status| status.phase.as_deref()) == Some("Running");
    world
        .comes("one that runs, and all others told why not", async |world| {
            let pods = world.pods().await;
            pods.len() == n && pods.iter().filter(runs).count() == 1 && world.refused().await.len() == n - 1
        })
        .await;
    assert_eq!((world.claims().await.len(), world.instances().await.len()), (1, 1));
    world.scale("web", 0).await;
}

/// Pods of a spot instance that is taken back run elsewhere, and it is given back, long before its notice is over.
pub(crate) async fn spot_interruption(world: &mut World) {
    world.create::<NodePool>(lasting("web", &["spot"])).await;
    world.create_in::<Deployment>(web("web", 3)).await;
    world.run(3).await;
    let before = world.instances().await;
    assert_eq!(before.len(), 1, "{:?}", world.fleet().await);
    let node = world.nodes().await.remove(0).metadata.name.unwrap();
    let patch = Patch::Merge(json!({"metadata": {"annotations": {"berth.sh/interrupt-in": "10m"}}}));
    let nodes = Api::<Node>::all(world.client.clone());
    nodes.patch(&node, &PatchParams::default(), &patch).await.unwrap();
    world
        .comes("pods on another instance, and the end of the first", async |world| {
            let pods = world.pods().await;
            let runs_elsewhere = |pod: &Pod| {
                let on = pod.spec.as_ref().and_then(|spec| spec.node_name.as_ref());
                let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
                on.is_some_and(|on| *on != node) && phase == Some("Running")
            };
            // What was taken back is not launched again for a while, so the others may be smaller ones, and more.
            let instances = world.instances().await;
            pods.len() == 3
                && pods.iter().all(runs_elsewhere)
                && instances.iter().all(|instance| instance.provider_id != before[0].provider_id)
        })
        .await;
}

fn room(change: impl FnOnce(&mut Value)) -> Value {
    let mut room = json!({"apiVersion": "scheduling.koordinator.sh/v1alpha1", "kind": "Reservation",
        "metadata": {"name": "room"}, "spec": {"ttl": "1h", "allocateOnce": false,
            "template": {"spec": {"containers": [{"name": "room", "image": "room",
                "resources": {"requests": {"cpu": "1200m", "memory": "3Gi"}}}]}},
            "owners": [{"labelSelector": {"matchLabels": {"app": "web"}}}]}});
    change(&mut room["spec"]);
    room
}

/// Phase and node of the Reservation.
async fn held(world: &World) -> Option<(ReservationPhase, Option<String>)> {
    let room = Api::<Reservation>::all(world.client.clone()).get_opt("room").await.unwrap()?;
    room.status.map(|status| (status.phase, status.node_name))
}

async fn comes_to(world: &World, phase: ReservationPhase) {
    let is = async |world: &World| held(world).await.is_some_and(|(known, _)| known == phase);
    world.comes(&format!("a Reservation that is {phase:?}"), is).await;
}

pub(crate) async fn owners_with_reservation(world: &mut World) {
    world.create::<NodePool>(pool("web", &["on-demand"])).await;
    world.create::<Reservation>(room(|_| {})).await;
    world.create_in::<Deployment>(web("web", 1)).await;
    world.run(1).await;
    let pods = world.pods().await;
    let node = pods[0].spec.as_ref().unwrap().node_name.clone();
    assert_eq!(held(world).await.unwrap().1, node);
    let allocated = labels::koordinator::RESERVATION_ALLOCATED;
    assert!(pods[0].metadata.annotations.as_ref().is_some_and(|all| all.contains_key(allocated)), "it draws");
    assert_eq!(world.claims().await.len(), 1, "one node for both");
}

pub(crate) async fn reservation_expires(world: &mut World) {
    world.create::<NodePool>(pool("web", &["on-demand"])).await;
    world.create::<Reservation>(room(|spec| spec["ttl"] = json!("25s"))).await;
    comes_to(world, ReservationPhase::Available).await;
    assert_eq!(world.nodes().await.len(), 1);
    // It holds its node until then; afterwards nobody does.
    comes_to(world, ReservationPhase::Failed).await;
    world.comes("no node", async |world| world.nodes().await.is_empty()).await;
}

pub(crate) async fn reservation_loses_node(world: &mut World) {
    world.create::<NodePool>(pool("web", &["on-demand"])).await;
    world.create::<Reservation>(room(|_| {})).await;
    comes_to(world, ReservationPhase::Available).await;
    let before = held(world).await.unwrap();
    let claim = world.claims().await.remove(0).metadata.name.unwrap();
    Api::<NodeClaim>::all(world.client.clone()).delete(&claim, &DeleteParams::default()).await.unwrap();
    // Nobody draws from it, and its node runs: its room is had elsewhere.
    world
        .comes("the Reservation on another node", async |world| {
            held(world).await.is_some_and(|now| now.0 == ReservationPhase::Available && now != before)
        })
        .await;
}

pub(crate) async fn pre_allocation(world: &mut World) {
    world.create::<NodePool>(pool("web", &["on-demand"])).await;
    world.create_in::<Deployment>(web("web", 1)).await;
    world.run(1).await;
    let node = world.pods().await[0].spec.as_ref().unwrap().node_name.clone();
    world.create::<Reservation>(room(|spec| spec["preAllocation"] = json!(true))).await;
    comes_to(world, ReservationPhase::Waiting).await;
    assert_eq!(held(world).await.unwrap().1, node, "it is bound to the pod that runs");
    world.scale("web", 0).await;
    comes_to(world, ReservationPhase::Available).await;
    assert_eq!(held(world).await.unwrap().1, node, "what was freed is kept");
    world.scale("web", 1).await;
    world.run(1).await;
    assert_eq!(world.pods().await[0].spec.as_ref().unwrap().node_name, node);
    assert_eq!(world.claims().await.len(), 1);
}

pub(crate) async fn startup_taints(world: &mut World) {
    let mut tainted = pool("web", &["on-demand"]);
    tainted["spec"]["template"]["spec"]["startupTaints"] =
        json!([{"key": "example.com/agent", "effect": "NoSchedule"}]);
    world.create::<NodePool>(tainted).await;
    let agent = json!({"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": "agent"}, "spec": {
        "selector": {"matchLabels": {"app": "agent"}}, "template": {"metadata": {"labels": {"app": "agent"}}, "spec": {
            "tolerations": [{"operator": "Exists"}], "terminationGracePeriodSeconds": 1,
            "containers": [{"name": "a", "image": "a", "resources": {"requests": {"cpu": "100m"}}}]}}}});
    world.create_in::<DaemonSet>(agent).await;
    world.create_in::<Deployment>(web("web", 3)).await;
    let runs = |pod: &Pod, app: &str| {
        let is_of = pod.metadata.labels.as_ref().and_then(|all| all.get("app")).is_some_and(|own| own == app);
        is_of && pod.status.as_ref().and_then(|status| status.phase.as_deref()) == Some("Running")
    };
    world.comes("the daemon", async |world| world.pods().await.iter().any(|pod| runs(pod, "agent"))).await;
    assert!(!world.pods().await.iter().any(|pod| runs(pod, "web")), "the startup taint keeps them off");
    for node in world.nodes().await {
        let taints = node.spec.iter().flat_map(|spec| spec.taints.iter().flatten());
        let kept: Vec<_> = taints.filter(|taint| taint.key != "example.com/agent").collect();
        let patch = Patch::Merge(json!({"spec": {"taints": kept}}));
        let nodes = Api::<Node>::all(world.client.clone());
        nodes.patch(node.metadata.name.as_deref().unwrap(), &PatchParams::default(), &patch).await.unwrap();
    }
    world
        .comes("all others", async |world| world.pods().await.iter().filter(|pod| runs(pod, "web")).count() == 3)
        .await;
    assert_eq!(world.claims().await.len(), 1, "nothing more was launched meanwhile");
}

pub(crate) async fn min_values(world: &mut World) {
    let mut own = pool("web", &["on-demand", "reserved"]);
    let types = json!({"key": labels::INSTANCE_TYPE, "operator": "Exists", "minValues": 2});
    own["spec"]["template"]["spec"]["requirements"].as_array_mut().unwrap().push(types);
    world.create::<NodePool>(own).await;
    world.create_in::<Deployment>(web("web", 14)).await;
    world.run(14).await;
    assert_eq!(world.n_on_slots().await, 4, "{:?}", world.fleet().await);
}

/// One type, of which there are instances or none.
fn of_stock(is_available: bool) -> String {
    format!(
        "[{{name: m5.xlarge, architecture: amd64, operatingSystems: [linux],
            resources: {{cpu: 3920m, memory: 14Gi, pods: 58}}, offerings: [{{Price: 0.192, Available: {is_available}, Requirements: [
            {{key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}},
            {{key: topology.kubernetes.io/zone, operator: In, values: [port-1a]}}]}}]}}]"
    )
}

pub(crate) async fn stock_out(world: &mut World) {
    world.set_class(Some(&of_stock(false)), "0s").await;
    world.create::<NodePool>(pool("web", &["on-demand"])).await;
    world.create_in::<Deployment>(web("web", 6)).await;
    world.comes("six that say why not", async |world| world.refused().await.len() == 6).await;
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!(world.instances().await.len(), 0);
    // The cloud has some again, and the class is read anew as it changes.
    world.set_class(Some(&of_stock(true)), "1s").await;
    world.run(6).await;
}

/// The cheapest node would be in the first zone; the volume is in the other.
pub(crate) async fn volume_of_zone(world: &mut World) {
    let zone = "port-1b";
    let volume = json!({"metadata": {"name": "disk"}, "spec": {"capacity": {"storage": "1Gi"},
        "accessModes": ["ReadWriteOnce"], "storageClassName": "by-hand", "persistentVolumeReclaimPolicy": "Retain",
        "csi": {"driver": "disks.example.com", "volumeHandle": "disk"},
        "claimRef": {"namespace": "default", "name": "data"},
        "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [
            {"key": labels::ZONE, "operator": "In", "values": [zone]}]}]}}}});
    world.create::<PersistentVolume>(volume).await;
    let claim = json!({"metadata": {"name": "data"}, "spec": {"storageClassName": "by-hand", "volumeName": "disk",
        "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}});
    world.create_in::<PersistentVolumeClaim>(claim).await;
    world.create::<NodePool>(pool("web", &["on-demand", "reserved"])).await;
    let uses = json!({"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]});
    world.create_in::<Deployment>(with(web("web", 1), &uses)).await;
    world.run(1).await;
    let nodes = world.nodes().await;
    let zones: Vec<_> = nodes.iter().map(|node| node.metadata.labels.as_ref().unwrap()[labels::ZONE].clone()).collect();
    assert_eq!((zones, world.n_on_slots().await), (vec![zone.to_owned()], 0), "slots are in the other zone");
}

/// Nobody makes the volumes of this class: of those that there are one is kept for the claim, and the controller binds both.
pub(crate) async fn local_volume(world: &mut World) {
    let class = json!({"metadata": {"name": "local"}, "provisioner": "kubernetes.io/no-provisioner",
        "volumeBindingMode": "WaitForFirstConsumer"});
    world.create::<StorageClass>(class).await;
    for (name, size) in [("big", "9Gi"), ("small", "2Gi")] {
        let volume = json!({"metadata": {"name": name}, "spec": {"capacity": {"storage": size},
            "accessModes": ["ReadWriteOnce"], "storageClassName": "local", "persistentVolumeReclaimPolicy": "Retain",
            "local": {"path": "/mnt"}, "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [
                {"key": labels::ZONE, "operator": "In", "values": ["port-1b"]}]}]}}}});
        world.create::<PersistentVolume>(volume).await;
    }
    let claim = json!({"metadata": {"name": "data"}, "spec": {"storageClassName": "local",
        "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}});
    world.create_in::<PersistentVolumeClaim>(claim).await;
    world.create::<NodePool>(pool("web", &["on-demand"])).await;
    let uses = json!({"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]});
    world.create_in::<Deployment>(with(web("web", 1), &uses)).await;
    world.run(1).await;
    let claims = Api::<PersistentVolumeClaim>::default_namespaced(world.client.clone());
    let claim = claims.get("data").await.unwrap();
    assert_eq!(claim.spec.unwrap().volume_name.as_deref(), Some("small"));
    assert_eq!(world.nodes().await.len(), 1);
}

pub(crate) async fn gate_off_and_on(world: &mut World) {
    world.create::<NodePool>(lasting("web", &["on-demand", "reserved"])).await;
    world.create_in::<Deployment>(web("web", 6)).await;
    world.run(6).await;
    assert_eq!(world.fleet().await, fleet(&[("m5.xlarge", "cr-web", 2)]));
    world.kill_berths();
    world.start_berth_with(&["--feature-gates", "ReservedCapacity=false"]).await;
    world.scale("web", 9).await;
    world.run(9).await;
    // What runs on slots stays there, and nothing new comes to them.
    assert_eq!(world.n_on_slots().await, 2, "{:?}", world.fleet().await);
    assert_eq!(world.claims().await.len(), 3);
    world.kill_berths();
    world.start_berth().await;
    world.scale("web", 12).await;
    world.run(12).await;
    assert_eq!((world.n_on_slots().await, world.claims().await.len()), (3, 4), "{:?}", world.fleet().await);
}

pub(crate) async fn never_joins(world: &mut World) {
    world.kill_berths();
    world.start_berth_with(&["--registration-timeout", "10"]).await;
    world.set_class(None, "1h").await;
    world.create::<NodePool>(pool("web", &["on-demand"])).await;
    world.create_in::<Deployment>(web("web", 1)).await;
    world.comes("an instance", async |world| !world.instances().await.is_empty()).await;
    let first = world.instances().await.remove(0).provider_id;
    // It is given up, and shut down.
    world
        .comes("another instance", async |world| {
            let there = world.instances().await;
            !there.is_empty() && there.iter().all(|instance| instance.provider_id != first)
        })
        .await;
    world.set_class(None, "0s").await;
    world.run(1).await;
}

/// What Karpenter, or an earlier Berth, would have left of a NodePool, its NodeClaims and nodes: a hash of another version, and no
/// label of the node class.
async fn make_foreign(world: &World, class: &str) {
    let hash = json!({"karpenter.sh/nodepool-hash": "1", "karpenter.sh/nodepool-hash-version": "v3"});
    let without = json!({"metadata": {"labels": {class: null}}});
    let foreign = json!({"metadata": {"labels": {class: null}, "annotations": hash}});
    let params = PatchParams::default();
    let pools = Api::<NodePool>::all(world.client.clone());
    pools.patch("web", &params, &Patch::Merge(json!({"metadata": {"annotations": hash}}))).await.unwrap();
    for claim in world.claims().await {
        let claims = Api::<NodeClaim>::all(world.client.clone());
        claims.patch(claim.metadata.name.as_deref().unwrap(), &params, &Patch::Merge(&foreign)).await.unwrap();
    }
    for node in world.nodes().await {
        let nodes = Api::<Node>::all(world.client.clone());
        nodes.patch(node.metadata.name.as_deref().unwrap(), &params, &Patch::Merge(&without)).await.unwrap();
    }
}

pub(crate) async fn hydration(world: &mut World) {
    let class = "berth.sh/fakenodeclass";
    world.create::<NodePool>(pool("web", &["on-demand"])).await;
    world.create_in::<Deployment>(web("web", 6)).await;
    world.run(6).await;
    let names = |claims: Vec<NodeClaim>| claims.into_iter().filter_map(|claim| claim.metadata.name).collect::<Vec<_>>();
    let before = names(world.claims().await);
    world.kill_berths();
    make_foreign(world, class).await;
    world.start_berth().await;
    let hash = async |world: &World| {
        let pool = Api::<NodePool>::all(world.client.clone()).get("web").await.unwrap();
        let annotations = pool.metadata.annotations.unwrap_or_default();
        let has = |key: &str| annotations.get(key).cloned();
        (has("karpenter.sh/nodepool-hash"), has("karpenter.sh/nodepool-hash-version"))
    };
    world
        .comes("labels and hashes", async |world| {
            let (of_pool, version) = hash(world).await;
            let is_labelled = |all: Option<&BTreeMap<String, String>>| {
                all.and_then(|all| all.get(class)).is_some_and(|own| own == "default")
            };
            let is_whole = |claim: &NodeClaim| {
                let annotations = claim.metadata.annotations.clone().unwrap_or_default();
                is_labelled(claim.metadata.labels.as_ref())
                    && annotations.get("karpenter.sh/nodepool-hash") == of_pool.as_ref()
                    && annotations.get("karpenter.sh/nodepool-hash-version") == version.as_ref()
            };
            version.as_deref() == Some("berth-v2")
                && world.claims().await.iter().all(is_whole)
                && world.nodes().await.iter().all(|node| is_labelled(node.metadata.labels.as_ref()))
        })
        .await;
    // Nobody drifts for it, and everybody does when the template changes.
    tokio::time::sleep(Duration::from_secs(15)).await;
    assert_eq!(names(world.claims().await), before);
    let patch = json!({"spec": {"template": {"metadata": {"labels": {"team": "web"}}}}});
    let pools = Api::<NodePool>::all(world.client.clone());
    pools.patch("web", &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
    world
        .comes("other nodes", async |world| {
            let now = names(world.claims().await);
            !now.is_empty() && now.iter().all(|name| !before.contains(name))
        })
        .await;
    world.run(6).await;
}
