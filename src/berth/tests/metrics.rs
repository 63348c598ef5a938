//! What `/metrics` says after known events, and that docs/metrics.md names all of it and nothing else.

#![cfg(unix)]
#![allow(clippy::unwrap_used, clippy::panic)] // Helpers are not test functions to clippy.

#[path = "common/process.rs"]
mod process;

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use berth_api::{NodeClaim, Reservation};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::{Api, Client};
use process::{Process, client, folder, get, line_with, until};
use serde_json::{Value, json};

const TYPES: &str = "examples/catalogues/four-slots.yaml";

/// A Berth in a cluster with one NodePool.
struct Scene {
    client: Client,
    address: String,
    _berth: Process,
    _cluster: Process,
}

impl Scene {
    async fn new() -> Self {
        let config = folder("metrics").join("kubeconfig");
        let _ = std::fs::remove_file(&config);
        let path = config.to_str().unwrap();
        let pool = json!({"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "web"}, "spec": {
            "disruption": {"consolidateAfter": "0s",
                "budgets": [{"nodes": "100%"}, {"nodes": "1", "reasons": ["Drifted"]}]},
            "limits": {"cpu": "100"},
            "template": {"spec": {"nodeClassRef": {"group": "berth.sh", "kind": "FakeNodeClass", "name": "default"},
                "requirements": [{"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["reserved"]}]}}}});
        let pool_file = folder("metrics").join("pool.json");
        std::fs::write(&pool_file, pool.to_string()).unwrap();
        let cluster = ["sandbox", "--without-berth", "--kubeconfig", path, "--instance-types", TYPES, "-f"];
        let cluster = [&cluster[..], &[pool_file.to_str().unwrap()]].concat();
        let mut cluster = Process::start(&cluster);
        line_with(cluster.0.stdout.take().unwrap(), "kubectl --kubeconfig");
        let client = client(&config).await;
        let run = ["run", "--kubeconfig", path, "--provider", "fake", "--instance-types", TYPES];
        let run = [&run[..], &["--scheduler-names", "*", "--metrics-address", "127.0.0.1:0", "--log-format", "json"]];
        let mut berth = Process::start(&run.concat());
        let told = line_with(berth.0.stderr.take().unwrap(), "serving /metrics");
        let told: Value = serde_json::from_str(&told).unwrap();
        let address = told["address"].as_str().unwrap().to_owned();
        let scene = Self { client, address, _berth: berth, _cluster: cluster };
        // Pods that were there before are no event.
        until("everything is seen", async || scene.value("karpenter_cluster_state_synced") == Some(1.0)).await;
        scene
    }

    fn metrics(&self) -> String {
        get(&self.address, "/metrics")
    }

    /// The value of a name with these labels.
    fn value(&self, series: &str) -> Option<f64> {
        let metrics = self.metrics();
        let mut lines = metrics.lines().filter_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
        lines.next().map(|value| value.parse().unwrap())
    }

    fn expect(&self, expected: &[(&str, f64)]) {
        for (series, value) in expected {
            let found = self.value(series);
            assert!(found.is_some_and(|found| (found - value).abs() < 1e-9), "{series}: {found:?}, not {value}");
        }
    }

    fn expect_at_least(&self, expected: &[(&str, f64)]) {
        for (series, value) in expected {
            let found = self.value(series);
            assert!(found.is_some_and(|found| found >= *value), "{series}: {found:?}, less than {value}");
        }
    }

    /// Waits until it has this value.
    async fn comes(&self, series: &str, value: f64) {
        for _ in 0..600 {
            if self.value(series) == Some(value) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
        panic!("{series} is not {value}: {}", self.metrics());
    }

    /// Waits until it has no value any more.
    async fn gone(&self, series: &str) {
        until("the end of a series", async || self.value(series).is_none()).await;
    }

    async fn claims(&self) -> Vec<NodeClaim> {
        Api::<NodeClaim>::all(self.client.clone()).list(&ListParams::default()).await.unwrap().items
    }

    /// So many pods run, and there are no others.
    async fn run(&self, n: usize) {
        let pods = Api::<Pod>::default_namespaced(self.client.clone());
        let runs = |pod: &Pod| pod.status.as_ref().and_then(|status| status.phase.as_deref()) == Some("Running");
        until("pods that run", async || {
            let pods = pods.list(&ListParams::default()).await.unwrap().items;
            pods.len() == n && pods.iter().all(runs)
        })
        .await;
    }
}

/// Names as the docs have them, in the first column of the table.
fn documented() -> BTreeSet<String> {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/metrics.md");
    let docs = std::fs::read_to_string(docs).unwrap();
    let cells = docs.lines().filter_map(|line| line.strip_prefix("| `")?.split('|').next());
    cells.flat_map(|cell| cell.split(", ").map(|name| name.trim().trim_matches('`').to_owned())).collect()
}

/// Names as they are served; those without a value, too.
fn served(metrics: &str) -> BTreeSet<String> {
    let types = metrics.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split_once(' '));
    types.map(|(name, kind)| if kind == "counter" { format!("{name}_total") } else { name.to_owned() }).collect()
}

/// Six pods come, and two nodes for them.
async fn pods_come(scene: &Scene) {
    let params = PostParams::default();
    let deployment = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": {
        "replicas": 6, "selector": {"matchLabels": {"app": "web"}},
        "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"terminationGracePeriodSeconds": 1, "containers": [{
            "name": "web", "image": "web", "resources": {"requests": {"cpu": "1200m", "memory": "3Gi"}}}]}}}});
    let deployments = Api::<Deployment>::default_namespaced(scene.client.clone());
    deployments.create(&params, &serde_json::from_value(deployment).unwrap()).await.unwrap();
    scene.run(6).await;
    scene.comes("berth_nodeclaims{nodepool=\"web\",state=\"initialized\"}", 2.0).await;
    scene.expect(&[
        ("karpenter_nodes_created_total{nodepool=\"web\",zone=\"port-1a\"}", 2.0),
        ("karpenter_pods_bound_duration_seconds_count", 6.0),
        ("karpenter_pods_scheduling_decision_duration_seconds_count", 6.0),
        ("karpenter_pods_provisioning_bound_duration_seconds_count", 6.0),
        ("karpenter_pods_provisioning_startup_duration_seconds_count", 6.0),
        ("karpenter_pods_unbound_time_seconds", 0.0),
        ("karpenter_pods_unstarted_time_seconds", 0.0),
        ("karpenter_cluster_state_unsynced_time_seconds", 0.0),
        ("karpenter_scheduler_ignored_pods_count", 0.0),
        ("karpenter_nodepools_cost_total{nodepool=\"web\"}", 0.0),
        ("karpenter_nodepools_limit{nodepool=\"web\",resource_type=\"cpu\"}", 100.0),
        ("karpenter_nodepools_allowed_disruptions{nodepool=\"web\",reason=\"Empty\"}", 2.0),
        ("karpenter_nodepools_allowed_disruptions{nodepool=\"web\",reason=\"Drifted\"}", 1.0),
        ("karpenter_nodepools_nodes_consuming_budgets{nodepool=\"web\",reason=\"Empty\"}", 0.0),
    ]);
    let metrics = scene.metrics();
    let ages = metrics.lines().filter(|line| line.starts_with("karpenter_nodes_current_lifetime_seconds{"));
    assert!(ages.filter(|line| line.contains("nodepool=\"web\"") && !line.ends_with(" 0.0")).count() == 1, "{metrics}");
}

/// The names of the labels that the first series of a name has; empty where there is none.
fn labels_of(metrics: &str, name: &str) -> String {
    let mut series = metrics.lines().filter_map(|line| line.strip_prefix(name)?.strip_prefix('{'));
    let labels = series.next().and_then(|rest| rest.split_once('}')).map_or("", |(labels, _)| labels);
    let mut names: Vec<&str> =
        labels.split("\",").filter_map(|label| label.split_once('=')).map(|(name, _)| name).collect();
    names.sort_unstable();
    names.join(" ")
}

/// Room for pods is told as Koordinator's scheduler tells it.
async fn room_is_reserved(scene: &Scene) {
    let room = json!({"apiVersion": "scheduling.koordinator.sh/v1alpha1", "kind": "Reservation", "metadata": {"name": "room"},
        "spec": {"ttl": "0s", "owners": [{"labelSelector": {"matchLabels": {"app": "none"}}}], "template": {"spec": {
            "containers": [{"name": "a", "image": "a", "resources": {"requests": {"cpu": "100m", "memory": "512Mi"}}}]}}}});
    let rooms = Api::<Reservation>::all(scene.client.clone());
    rooms.create(&PostParams::default(), &serde_json::from_value(room).unwrap()).await.unwrap();
    scene.comes("scheduler_reservation_status_phase{name=\"room\",phase=\"Available\"}", 1.0).await;
    scene.expect(&[
        ("scheduler_reservation_status_phase{name=\"room\",phase=\"Pending\"}", 0.0),
        ("scheduler_reservation_resource{name=\"room\",resource=\"cpu\",type=\"allocatable\",unit=\"core\"}", 0.1),
        ("scheduler_reservation_resource{name=\"room\",resource=\"memory\",type=\"allocatable\",unit=\"Gi\"}", 0.5),
        ("scheduler_reservation_resource{name=\"room\",resource=\"cpu\",type=\"utilization\",unit=\"ratio\"}", 0.0),
    ]);
    let metrics = scene.metrics();
    let of_node = "arch capacity_type instance_type managed nodepool os region";
    let of_node = |more: &str| format!("{of_node} {more}windows_build zone");
    for (name, expected) in [
        ("karpenter_nodes_allocatable", &*of_node("resource_type ")),
        ("karpenter_nodes_total_pod_requests", &of_node("resource_type ")),
        ("karpenter_nodes_system_overhead", &of_node("resource_type ")),
        ("karpenter_nodes_current_lifetime_seconds", &of_node("")),
        ("karpenter_pods_state", "arch capacity_type instance_type managed nodepool phase ready scheduled zone"),
        ("karpenter_nodepools_usage", "nodepool resource_type"),
        ("karpenter_nodepools_limit", "nodepool resource_type"),
        ("karpenter_nodeclaims_created_total", "min_values_relaxed nodepool reason"),
        ("karpenter_cloudprovider_instance_type_cpu_cores", "instance_type"),
        ("karpenter_cloudprovider_instance_type_offering_available", "capacity_type instance_type zone"),
        ("karpenter_cloudprovider_instance_type_offering_price_estimate", "capacity_type instance_type zone"),
        ("operator_nodepool_status_condition_count", "name reason status type"),
        ("operator_nodeclaim_status_condition_count", "reason status type"),
        ("operator_node_status_condition_count", "reason status type"),
        ("operator_nodeclaim_status_condition_transitions_total", "reason status type"),
        ("operator_nodeclaim_status_condition_transition_seconds_count", "status type"),
        ("scheduler_pending_pods", "queue"),
        ("scheduler_reservation_status_phase", "name phase"),
        ("scheduler_reservation_resource", "name resource type unit"),
    ] {
        assert_eq!(labels_of(&metrics, name), expected, "{name}");
    }
    assert!(!metrics.contains("resource_type=\"ephemeral-storage\""), "Karpenter writes ephemeral_storage");
    let bounds = |name: &str| metrics.lines().filter(|line| line.starts_with(&format!("{name}_bucket{{"))).count();
    assert_eq!(bounds("karpenter_pods_bound_duration_seconds"), 46, "Karpenter's buckets");
    rooms.delete("room", &DeleteParams::default()).await.unwrap();
    scene.gone("scheduler_reservation_status_phase{name=\"room\",phase=\"Available\"}").await;
}

/// A node goes as its NodeClaim is deleted, and its three pods with it.
async fn node_is_deleted(scene: &Scene) {
    let first = scene.claims().await.remove(0).metadata.name.unwrap();
    let claims = Api::<NodeClaim>::all(scene.client.clone());
    claims.delete(&first, &DeleteParams::default()).await.unwrap();
    until("the end of the NodeClaim", async || claims.get_opt(&first).await.unwrap().is_none()).await;
    scene.run(6).await;
    scene.comes("karpenter_nodes_lifetime_duration_seconds_count{nodepool=\"web\"}", 1.0).await;
    scene.expect(&[
        ("karpenter_nodes_drained_total{nodepool=\"web\"}", 1.0),
        ("karpenter_nodes_terminated_total{nodepool=\"web\",zone=\"port-1a\"}", 1.0),
        ("karpenter_nodes_termination_duration_seconds_count{nodepool=\"web\"}", 1.0),
        ("karpenter_nodeclaims_termination_duration_seconds_count{nodepool=\"web\"}", 1.0),
        ("karpenter_nodeclaims_instance_termination_duration_seconds_count{nodepool=\"web\"}", 1.0),
        ("karpenter_pods_provisioning_bound_duration_seconds_count", 9.0),
    ]);
    // An eviction that does not show soon is asked for again.
    scene.expect_at_least(&[
        ("karpenter_pods_eviction_requests_total{code=\"200\"}", 3.0),
        ("karpenter_pods_drained_total{reason=\"Forceful Termination\"}", 3.0),
    ]);
}

/// Nodes go as they become empty.
async fn nodes_are_empty(scene: &Scene) {
    let deployments = Api::<Deployment>::default_namespaced(scene.client.clone());
    let none = Patch::Merge(json!({"spec": {"replicas": 0}}));
    deployments.patch("web", &PatchParams::default(), &none).await.unwrap();
    let nodes = Api::<Node>::all(scene.client.clone());
    until("no node", async || nodes.list(&ListParams::default()).await.unwrap().items.is_empty()).await;
    scene.comes("karpenter_nodes_lifetime_duration_seconds_count{nodepool=\"web\"}", 3.0).await;
    let of_empty = "{capacity_type=\"reserved\",consolidation_policy=\"when_empty_or_underutilized\",nodepool=\"web\",\
        reason=\"empty\",termination_mode=\"graceful\"}";
    scene.expect(&[
        (&format!("karpenter_nodeclaims_disrupted_total{of_empty}"), 2.0),
        (&format!("karpenter_pods_disruption_initiated_total{of_empty}"), 0.0),
        ("karpenter_nodes_drained_total{nodepool=\"web\"}", 3.0),
    ]);
    let decided = "consolidation_type=\"empty\",decision=\"delete\"";
    scene.expect_at_least(&[
        (&format!("karpenter_voluntary_disruption_decisions_total{{{decided},reason=\"empty\"}}"), 1.0),
        (
            &format!(
                "karpenter_voluntary_disruption_decisions_by_nodepool_total{{{decided},nodepool=\"web\",reason=\"empty\"}}"
            ),
            1.0,
        ),
        (
            "karpenter_voluntary_disruption_decision_evaluation_duration_seconds_count{consolidation_type=\"all\",\
             reason=\"all\"}",
            1.0,
        ),
        ("karpenter_voluntary_disruption_eligible_nodes{reason=\"underutilized\"}", 0.0),
        ("karpenter_voluntary_disruption_consolidation_timeouts_total{consolidation_type=\"multi\"}", 0.0),
        ("karpenter_scheduler_unfinished_work_seconds{controller=\"provisioner\"}", 0.0),
    ]);
}

/// A pod that finds no node waits from then on.
async fn pod_waits(scene: &Scene) {
    let large = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "large"}, "spec": {"containers": [{
        "name": "a", "image": "a", "resources": {"requests": {"cpu": "1000"}}}]}});
    let pods = Api::<Pod>::default_namespaced(scene.client.clone());
    pods.create(&PostParams::default(), &serde_json::from_value(large).unwrap()).await.unwrap();
    scene.comes("karpenter_scheduler_unschedulable_pods_count{controller=\"provisioner\"}", 1.0).await;
    until("a pod that waits", async || {
        scene.value("karpenter_pods_unbound_time_seconds").is_some_and(|seconds| seconds > 1.0)
    })
    .await;
    scene.expect(&[
        ("karpenter_pods_scheduling_decision_duration_seconds_count", 10.0),
        ("karpenter_pods_provisioning_bound_duration_seconds_count", 9.0),
        ("karpenter_scheduler_queue_depth{controller=\"provisioner\"}", 1.0),
        ("scheduler_pending_pods{queue=\"unschedulable\"}", 1.0),
        ("scheduler_pending_pods{queue=\"active\"}", 0.0),
    ]);
}

#[tokio::test]
async fn metrics_say_what_happened_and_the_docs_name_them_all() {
    let scene = Scene::new().await;
    pods_come(&scene).await;
    room_is_reserved(&scene).await;
    node_is_deleted(&scene).await;
    nodes_are_empty(&scene).await;
    pod_waits(&scene).await;
    let served = served(&scene.metrics());
    let documented = documented();
    assert_eq!(served.difference(&documented).collect::<Vec<_>>(), Vec::<&String>::new(), "not in docs/metrics.md");
    assert_eq!(documented.difference(&served).collect::<Vec<_>>(), Vec::<&String>::new(), "not served");
}
