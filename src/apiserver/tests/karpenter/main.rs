//! Karpenter's own KWOK program lives on the server, with everything on: it leads, launches, registers, initialises, drains
//! and consolidates.
//!
//! Beside it run the built-in controllers, stand-in kubelets and a real kube-scheduler, all of them clients of the
//! listener or of the server in process. Needs Go, with which Karpenter and the scheduler are built; without it this passes
//! and says that it did nothing.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, clippy::print_stderr)]

mod world;

use serde_json::{Value, json};

use world::{World, condition, name};

/// Pods of the Deployment, a CPU each; three fit on the largest node that the NodePool allows.
const REPLICAS: u64 = 20;
/// How many of them the budget keeps.
const KEPT: u64 = 15;
/// What is left of them when nodes are to go.
const FEW: u64 = 5;

const CLAIMS: &str = "/apis/karpenter.sh/v1/nodeclaims";
const NODES: &str = "/api/v1/nodes";
const PODS: &str = "/api/v1/namespaces/default/pods";
const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";
const LEADER: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/karpenter-leader-election";

fn node_pool() -> Value {
    let within = |key: &str, value: &str| json!({"key": key, "operator": "In", "values": [value]});
    json!({"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "default"}, "spec": {
        "template": {"spec": {
            "nodeClassRef": {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"},
            "expireAfter": "Never",
            "requirements": [within("kubernetes.io/arch", "amd64"), within("kubernetes.io/os", "linux"),
                within("karpenter.sh/capacity-type", "on-demand"),
                {"key": "karpenter.kwok.sh/instance-cpu", "operator": "Lt", "values": ["5"]}]}},
        "disruption": {"consolidationPolicy": "WhenEmptyOrUnderutilized", "consolidateAfter": "2s",
            "budgets": [{"nodes": "100%"}]}}})
}

fn deployment() -> Value {
    json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": {"replicas": REPLICAS,
        "selector": {"matchLabels": {"app": "web"}},
        "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "web", "image": "web",
            "resources": {"requests": {"cpu": "1", "memory": "512Mi"}}}]}}}})
}

/// Whether a NodeClaim was launched, and its node registered and initialized.
fn is_initialized(claim: &Value) -> bool {
    ["Launched", "Registered", "Initialized"].iter().all(|kind| condition(claim, kind) == Some("True"))
}

fn is_usable(node: &Value) -> bool {
    let taints = node["spec"]["taints"].as_array().map_or(0, Vec::len);
    let labels = &node["metadata"]["labels"];
    condition(node, "Ready") == Some("True")
        && taints == 0
        && labels["karpenter.sh/registered"] == "true"
        && labels["karpenter.sh/initialized"] == "true"
}

fn is_ready(pod: &Value) -> bool {
    condition(pod, "Ready") == Some("True") && pod["metadata"]["deletionTimestamp"].is_null()
}

/// CPUs of all nodes.
fn cpus(nodes: &[Value]) -> u64 {
    let of = |node: &Value| node["metadata"]["labels"]["karpenter.kwok.sh/instance-cpu"].as_str()?.parse::<u64>().ok();
    nodes.iter().filter_map(of).sum()
}

/// Waits until so many pods are ready, and all claims and nodes are at rest.
async fn settled(world: &World, replicas: u64, what: &str) -> Vec<Value> {
    world
        .until(what, async || {
            let (claims, nodes, pods) = (world.list(CLAIMS).await, world.list(NODES).await, world.list(PODS).await);
            let ready = pods.iter().filter(|pod| is_ready(pod)).count() as u64;
            let is_settled = ready == replicas
                && pods.len() as u64 == replicas
                && !claims.is_empty()
                && claims.len() == nodes.len()
                && claims.iter().all(is_initialized)
                && nodes.iter().all(is_usable);
            is_settled.then_some(nodes)
        })
        .await
}

#[tokio::test(flavor = "multi_thread")]
async fn karpenter_leads_launches_drains_and_consolidates() {
    let Some(world) = World::start().await else { return };
    let budget = json!({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "web"},
        "spec": {"minAvailable": KEPT, "selector": {"matchLabels": {"app": "web"}}}});
    let quota = json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "all"},
        "spec": {"hard": {"pods": 2 * REPLICAS}}});
    world.create("/apis/policy/v1/namespaces/default/poddisruptionbudgets", &budget).await;
    world.create("/api/v1/namespaces/default/resourcequotas", &quota).await;
    let class =
        json!({"apiVersion": "karpenter.kwok.sh/v1alpha1", "kind": "KWOKNodeClass", "metadata": {"name": "default"}});
    world.create("/apis/karpenter.kwok.sh/v1alpha1/kwoknodeclasses", &class).await;
    world.create("/apis/karpenter.sh/v1/nodepools", &node_pool()).await;

    world
        .until("Karpenter leads", async || {
            let lease = world.get(LEADER).await?;
            lease["spec"]["holderIdentity"].as_str().filter(|holder| !holder.is_empty()).map(str::to_owned)
        })
        .await;

    world.create(DEPLOYMENTS, &deployment()).await;
    let nodes = settled(&world, REPLICAS, "nodes are launched, registered and initialized, and every pod runs").await;
    let most = cpus(&nodes);
    assert!(most > REPLICAS, "{most} CPUs do not hold {REPLICAS} pods");

    let drained = world.list(CLAIMS).await.first().map(|claim| name(claim).to_owned()).unwrap();
    let least = world.least_ready("app=web");
    world.delete(&format!("{CLAIMS}/{drained}")).await;
    world
        .until("the node of a deleted NodeClaim is drained and goes", async || {
            world.list(CLAIMS).await.iter().all(|claim| name(claim) != drained).then_some(())
        })
        .await;
    settled(&world, REPLICAS, "the pods of the drained node run elsewhere").await;
    let least = least.stop().await;
    assert!((KEPT..REPLICAS).contains(&least), "{least} pods were ready while a node was drained");
    assert!(world.evictions() > 0, "nothing was evicted");

    world.patch(&format!("{DEPLOYMENTS}/web"), &json!({"spec": {"replicas": FEW}})).await;
    world.delete("/apis/policy/v1/namespaces/default/poddisruptionbudgets/web").await;
    world
        .until("nodes that are hardly used are consolidated", async || {
            let nodes = settled(&world, FEW, "few pods run").await;
            (cpus(&nodes) <= 2 * FEW).then_some(())
        })
        .await;

    world.delete(&format!("{DEPLOYMENTS}/web")).await;
    world
        .until("nothing is left", async || {
            let leases = world.list("/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases").await;
            let quota = world.get("/api/v1/namespaces/default/resourcequotas/all").await?;
            let left = [world.list(CLAIMS).await, world.list(NODES).await, world.list(PODS).await, leases];
            (left.iter().all(Vec::is_empty) && quota["status"]["used"]["pods"] == "0").then_some(())
        })
        .await;
    world.end();
}
