//! A cluster that lives for a long time, in virtual time: workloads come and go, nodes die, controllers, kubelets and
//! watchers start anew, and the server forgets its history. Nothing may be lost, nothing may leak, and memory must stay.
//!
//! ```sh
//! cargo test -p berth-controller-manager --test soak                                     # four hours of it
//! BERTH_SOAK_HOURS=168 cargo test --release -p berth-controller-manager --test soak -- --nocapture
//! BERTH_SOAK_SEED=7 cargo test -p berth-controller-manager --test soak -- --nocapture
//! ```
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, clippy::print_stderr)]

mod churn;
#[path = "../common/mod.rs"]
mod common;
mod mirror;

use std::collections::BTreeMap;
use std::time::Duration;

use berth_apiserver::{Admission, ApiServer, Config};
use berth_kubelet::{KubeletConfig, Kubelets, NodeSpec};
use serde_json::Value;
use tokio::task::JoinHandle;

use churn::Churn;
use common::{World, condition, is_live, is_ready, name};
use mirror::Mirror;

/// Nodes at any time.
const NODES: u64 = 6;
const MINUTE: Duration = Duration::from_secs(60);
/// Between two looks at the whole.
const ROUND: u64 = 60;
/// How long the cluster gets to come to rest: longer than an Event lives on, or a lost node's pods.
const REST: Duration = Duration::from_secs(20 * 60);
/// Changes that each resource remembers: few, so that watchers that were away do miss some.
const HISTORY: usize = 1500;

/// What is watched all the time, and compared.
const WATCHED: [&str; 8] = ["pods", "nodes", "configmaps", "leases", "deployments", "replicasets", "jobs", "widgets"];

fn number(name: &str, otherwise: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(otherwise)
}

/// Where a resource is listed, over all namespaces.
pub(crate) fn path(plural: &str) -> String {
    let api = match plural {
        "deployments" | "replicasets" | "statefulsets" | "daemonsets" | "controllerrevisions" => "/apis/apps/v1",
        "jobs" | "cronjobs" => "/apis/batch/v1",
        "leases" => "/apis/coordination.k8s.io/v1",
        "endpointslices" => "/apis/discovery.k8s.io/v1",
        "widgets" => "/apis/example.com/v1",
        _ => "/api/v1",
    };
    format!("{api}/{plural}")
}

/// Everything that runs.
struct Soak {
    server: ApiServer,
    world: World,
    kubelets: Kubelets,
    scheduler: JoinHandle<()>,
    mirrors: Vec<Mirror>,
    churn: Churn,
}

fn start_kubelets(server: &ApiServer) -> Kubelets {
    let client = kube::Client::new(server.clone(), "default");
    Kubelets::start(client, KubeletConfig { epoch: server.now(), ..KubeletConfig::default() })
}

/// Binds what has no node: pods of DaemonSets to theirs, others to one after another.
async fn schedule(client: kube::Client) {
    let mut next = 0;
    loop {
        tokio::time::sleep(Duration::from_secs(2)).await;
        let ask = async |path: &str| common::send(&client, "GET", path, "application/json", &Value::Null).await;
        let Ok(pods) = ask("/api/v1/pods?fieldSelector=spec.nodeName=").await else { continue };
        let pods = pods["items"].as_array().cloned().unwrap_or_default();
        if pods.is_empty() {
            continue;
        }
        let Ok(nodes) = ask("/api/v1/nodes").await else { continue };
        let nodes = nodes["items"].as_array().cloned().unwrap_or_default();
        let usable: Vec<&Value> =
            nodes.iter().filter(|node| is_ready(node) && node["spec"]["taints"].is_null()).collect();
        for pod in pods.iter().filter(|pod| is_live(pod)) {
            let own = "/spec/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution/nodeSelectorTerms/0/matchFields/0/values/0";
            let node = match pod.pointer(own).and_then(Value::as_str) {
                Some(node) => node,
                None if usable.is_empty() => continue,
                None => {
                    next += 1;
                    name(usable[next % usable.len()])
                }
            };
            let namespace = pod["metadata"]["namespace"].as_str().unwrap();
            let path = format!("/api/v1/namespaces/{namespace}/pods/{}/binding", name(pod));
            let binding = serde_json::json!({"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name(pod)},
                "target": {"kind": "Node", "name": node}});
            // It may have gone meanwhile.
            drop(common::send(&client, "POST", &path, "application/json", &binding).await);
        }
    }
}

// === impl Soak ===

impl Soak {
    async fn start(seed: u64) -> Self {
        let admission = Admission { taint_new_nodes: true, storage_protection: true, ..Admission::default() };
        let server = ApiServer::new(Config { admission, history: HISTORY, seed, ..common::config() });
        let world = World::of(server.clone(), common::options(&server));
        let churn = Churn::new(seed);
        churn.prepare(&world).await;
        let mirrors = WATCHED.iter().map(|plural| Mirror::start(world.client.clone(), path(plural))).collect();
        let kubelets = start_kubelets(&server);
        let scheduler = tokio::spawn(schedule(world.client.clone()));
        let mut soak = Self { server, world, kubelets, scheduler, mirrors, churn };
        for _ in 0..NODES {
            soak.join();
        }
        soak
    }

    /// A new node comes.
    fn join(&mut self) {
        let name = self.churn.new_node();
        self.kubelets.join(NodeSpec { name, ..NodeSpec::default() });
    }

    /// A node dies without a word, and its object goes; another one comes.
    async fn replace_node(&mut self) {
        let gone = self.churn.lose_node();
        self.kubelets.power_off(&gone);
        if self.world.get(&format!("nodes/{gone}")).await.is_some() {
            self.world.delete(&format!("nodes/{gone}")).await;
        }
        self.join();
    }

    /// What happens in one minute.
    async fn minute(&mut self, minute: u64) {
        self.churn.act(&self.world).await;
        if self.churn.chance(4) {
            self.replace_node().await;
        }
        if self.churn.chance(10) {
            let which = self.churn.below(self.mirrors.len());
            let is_forgetful = self.churn.chance(20);
            self.mirrors[which].restart(is_forgetful);
        }
        if self.churn.chance(2) {
            // Until the next look at the whole.
            let which = self.churn.below(self.mirrors.len());
            self.mirrors[which].pause();
        }
        if minute.is_multiple_of(47) {
            self.server.compact();
        }
        if minute.is_multiple_of(190) {
            self.world = World::of(self.server.clone(), common::options(&self.server));
        }
        if minute.is_multiple_of(310) {
            self.kubelets = start_kubelets(&self.server);
            for name in self.churn.nodes() {
                self.kubelets.join(NodeSpec { name: name.clone(), ..NodeSpec::default() });
            }
        }
        tokio::time::sleep(MINUTE).await;
    }

    async fn objects(&self, plural: &str) -> Vec<Value> {
        let list = common::send(&self.world.client, "GET", &path(plural), "application/json", &Value::Null).await;
        list.unwrap()["items"].as_array().cloned().unwrap_or_default()
    }

    /// After a rest: watchers know what there is, workloads have what they want, and nobody is without an owner.
    async fn check(&mut self, hour: u64) {
        for mirror in &mut self.mirrors {
            mirror.resume();
        }
        tokio::time::sleep(REST).await;
        let mut uids = Vec::new();
        let mut owned = Vec::new();
        for plural in WATCHED.iter().copied().chain([
            "statefulsets",
            "daemonsets",
            "cronjobs",
            "controllerrevisions",
            "services",
            "endpointslices",
        ]) {
            for object in self.objects(plural).await {
                uids.push(object["metadata"]["uid"].as_str().unwrap().to_owned());
                for owner in object["metadata"]["ownerReferences"].as_array().into_iter().flatten() {
                    let what = format!("{plural} {} of {} {}", name(&object), owner["kind"], owner["name"]);
                    owned.push((owner["uid"].as_str().unwrap().to_owned(), what));
                }
            }
        }
        for (owner, what) in owned {
            assert!(uids.contains(&owner), "hour {hour}: {what} is left without its owner");
        }
        let pods = self.objects("pods").await;
        let nodes: Vec<String> = self.objects("nodes").await.iter().map(|node| name(node).to_owned()).collect();
        for pod in &pods {
            assert!(is_live(pod), "hour {hour}: pod {} does not go", name(pod));
            let node = pod["spec"]["nodeName"].as_str().unwrap_or_default().to_owned();
            assert!(nodes.contains(&node), "hour {hour}: pod {} is on node {node:?}, which is gone", name(pod));
        }
        for plural in ["deployments", "statefulsets", "replicasets"] {
            for workload in self.objects(plural).await {
                let wanted = workload["spec"]["replicas"].as_u64().unwrap_or_default();
                let uid = &workload["metadata"]["uid"];
                let of = |object: &Value| object["metadata"]["ownerReferences"][0]["uid"] == *uid;
                let ready = match plural {
                    "deployments" => workload["status"]["readyReplicas"].as_u64().unwrap_or_default(),
                    _ => pods.iter().filter(|pod| of(pod) && is_ready(pod)).count() as u64,
                };
                assert_eq!(
                    ready,
                    wanted,
                    "hour {hour}: pods of {plural} {}: {:?}",
                    name(&workload),
                    self.world.metrics.last_error()
                );
            }
        }
        let mut expected = self.churn.nodes().to_vec();
        expected.sort();
        assert_eq!(nodes, expected, "hour {hour}: nodes");
        let leases: Vec<String> = self.objects("leases").await.iter().map(|lease| name(lease).to_owned()).collect();
        assert_eq!(leases, expected, "hour {hour}: each node has a Lease");
        for node in self.objects("nodes").await {
            assert_eq!(condition(&node, "Ready").unwrap()["status"], "True", "hour {hour}: node {}", name(&node));
        }
        for namespace in self.objects("namespaces").await {
            assert_eq!(namespace["status"]["phase"], "Active", "hour {hour}: namespace {}", name(&namespace));
        }
        for quota in self.objects("resourcequotas").await {
            let own = |pod: &&Value| {
                let phase = pod["status"]["phase"].as_str().unwrap_or_default();
                pod["metadata"]["namespace"] == quota["metadata"]["namespace"]
                    && !["Succeeded", "Failed"].contains(&phase)
            };
            let used = pods.iter().filter(own).count().to_string();
            assert_eq!(
                quota["status"]["used"]["pods"], *used,
                "hour {hour}: quota of {}",
                quota["metadata"]["namespace"]
            );
        }
        for (plural, mirror) in WATCHED.iter().zip(&self.mirrors) {
            // Leases are renewed all the time.
            let state = |object: &Value| {
                let version =
                    if *plural == "leases" { String::new() } else { object["metadata"]["resourceVersion"].to_string() };
                (mirror::key(object), version)
            };
            let there: BTreeMap<String, String> = self.objects(plural).await.iter().map(state).collect();
            assert_eq!(
                mirror.known(*plural == "leases"),
                there,
                "hour {hour}: a watcher of {plural} has lost something"
            );
        }
    }

    /// Objects of each collection, and open watches, by the server's own count.
    async fn counts(&self) -> BTreeMap<String, u64> {
        let request = http::Request::get("/metrics").body(Vec::new()).unwrap();
        let text = self.world.client.request_text(request).await.unwrap();
        let gauges = ["apiserver_resource_objects{", "apiserver_longrunning_requests{"];
        let wanted = text.lines().filter(|line| gauges.iter().any(|gauge| line.starts_with(gauge)));
        let counts = wanted.filter_map(|line| {
            let (what, count) = line.rsplit_once(' ')?;
            Some((what.to_owned(), count.parse().ok()?))
        });
        let counts: BTreeMap<String, u64> = counts.filter(|(_, count)| *count > 0).collect();
        assert!(counts.len() > 2 * WATCHED.len(), "the server counts what it holds: {counts:?}");
        counts
    }
}

/// Resident memory of this process in MiB, where the system tells.
fn memory() -> Option<f64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with("VmRSS:"))?;
    Some(line.split_whitespace().nth(1)?.parse::<f64>().ok()? / 1024.0)
}

#[tokio::test(start_paused = true)]
async fn a_cluster_that_lives_long_loses_nothing_and_leaks_nothing() {
    let hours = number("BERTH_SOAK_HOURS", 4);
    let seed = number("BERTH_SOAK_SEED", 1);
    let mut soak = Soak::start(seed).await;
    // CronJobs begin every ten minutes: looks are five minutes after.
    tokio::time::sleep(REST + 5 * MINUTE).await;
    let fresh = soak.counts().await;
    let mut sizes = Vec::new();
    for hour in 0..hours {
        for minute in 0..ROUND {
            soak.minute(hour * ROUND + minute).await;
        }
        soak.check(hour).await;
        sizes.extend(memory());
        if hour % 24 == 23 || hours < 24 {
            let (resumed, relisted) = soak.mirrors.iter().fold((0, 0), |(a, b), m| (a + m.resumed(), b + m.relisted()));
            eprintln!(
                "hour {}: {} writes, {:.0} MiB; watchers resumed {resumed} times and began anew {relisted} times; {} failures",
                hour + 1,
                soak.server.resource_version(),
                sizes.last().copied().unwrap_or_default(),
                soak.world.metrics.failures(),
            );
        }
    }
    // The peaks of the second quarter and of the last: what was reached once is kept by the allocator.
    let peak = |part: &[f64]| part.iter().copied().fold(0.0, f64::max);
    if sizes.len() >= 4 {
        let quarter = sizes.len() / 4;
        let (early, late) = (peak(&sizes[..2 * quarter]), peak(&sizes[sizes.len() - quarter..]));
        assert!(late < early * 1.1 + 8.0, "memory grows: {early:.0} MiB at first, {late:.0} MiB in the end");
    }
    let (resumed, relisted) = soak.mirrors.iter().fold((0, 0), |(a, b), m| (a + m.resumed(), b + m.relisted()));
    assert!(resumed > 0 && relisted > soak.mirrors.len() as u64, "no watcher was put to the test");
    soak.churn.clear(&soak.world).await;
    // Events live for an hour.
    tokio::time::sleep(Duration::from_secs(3 * 60 * 60)).await;
    let left = soak.counts().await;
    assert_eq!(left, fresh, "what is there before and after");
    soak.scheduler.abort();
}
