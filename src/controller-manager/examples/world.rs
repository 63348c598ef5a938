//! What the controllers cost in a large cluster: idle with heartbeats, and for one change.
//!
//! ```sh
//! cargo run --release -p berth-controller-manager --example world                  # 5,000 nodes, 50,000 pods
//! cargo run --release -p berth-controller-manager --example world -- 500 5000
//! ```
//!
//! Server, controllers, kubelets and whoever changes things share one thread, so what one does, the others wait for. Every
//! node has a stand-in kubelet, which runs its pods and renews its Lease every ten seconds, and a NodeClaim, whose definition
//! has defaults, patterns and rules; one DaemonSet is on every node, a Service and a budget select each Deployment's pods,
//! and a quota counts all of them.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::indexing_slicing,
    clippy::cast_precision_loss
)]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use berth_apiserver::{ApiServer, Config};
use berth_controller_manager::{Clock, ControllerManager, Metrics, Options};
use berth_kubelet::{KubeletConfig, Kubelets, NodeSpec};
use futures::TryStreamExt;
use kube::Client;
use kube::core::WatchEvent;
use serde_json::{Value, json};
use tokio::task::JoinHandle;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Pods of one Deployment.
const REPLICAS: usize = 500;

/// CPU seconds of this process, and its resident memory in MB.
fn cost() -> (f64, f64) {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    let ticks = |at: usize| fields.get(at).and_then(|text| text.parse::<f64>().ok()).unwrap_or(0.0);
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap_or_default();
    let kib: f64 = line.split_whitespace().nth(1).and_then(|kib| kib.parse().ok()).unwrap_or(0.0);
    ((ticks(11) + ticks(12)) / 100.0, kib / 1024.0)
}

async fn send(client: &Client, method: &str, path: &str, kind: &str, body: &Value) -> kube::Result<Value> {
    let body = if body.is_null() { Vec::new() } else { body.to_string().into_bytes() };
    let request = http::Request::builder().method(method).uri(path).header("content-type", kind);
    client.request(request.body(body).unwrap()).await
}

async fn create(client: &Client, path: &str, object: &Value) {
    send(client, "POST", path, "application/json", object).await.unwrap_or_else(|error| panic!("{path}: {error}"));
}

/// A NodeClaim as a provisioner writes it.
fn claim(n: usize) -> Value {
    let types: Vec<String> = (0..20).map(|t| format!("c-{}x-amd64-{}", t + 1, n % 7)).collect();
    let within = |key: &str, values: &[String]| json!({"key": key, "operator": "In", "values": values});
    json!({"apiVersion": "karpenter.sh/v1", "kind": "NodeClaim",
        "metadata": {"name": format!("n{n}"), "labels": {"karpenter.sh/nodepool": "default"}},
        "spec": {
            "requirements": [within("karpenter.sh/capacity-type", &["on-demand".to_owned()]),
                within("topology.kubernetes.io/zone", &[format!("zone-{}", n % 3)]),
                within("node.kubernetes.io/instance-type", &types)],
            "resources": {"requests": {"cpu": "4", "memory": "16Gi"}},
            "nodeClassRef": {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"},
            "expireAfter": "720h"}})
}

/// As a scheduler: pods without a node get one.
async fn schedule(client: Client, nodes: usize) {
    let mut next = 0;
    let request = http::Request::get("/api/v1/pods?watch=1&resourceVersion=0").body(Vec::new()).unwrap();
    let mut events = Box::pin(client.request_events::<Value>(request).await.unwrap());
    while let Ok(Some(event)) = events.try_next().await {
        let WatchEvent::Added(pod) = event else { continue };
        let (namespace, name) =
            (pod["metadata"]["namespace"].as_str().unwrap(), pod["metadata"]["name"].as_str().unwrap());
        let path = format!("/api/v1/namespaces/{namespace}/pods/{name}");
        if pod["spec"]["nodeName"].is_null() {
            let own = "/spec/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution/nodeSelectorTerms/0/matchFields/0/values/0";
            let node =
                pod.pointer(own).and_then(Value::as_str).map_or_else(|| format!("n{}", next % nodes), str::to_owned);
            next += 1;
            let binding = json!({"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name},
                                 "target": {"kind": "Node", "name": node}});
            let bound = send(&client, "POST", &format!("{path}/binding"), "application/json", &binding).await;
            // It may have gone meanwhile.
            drop(bound);
        }
    }
}

/// The longest that a task which sleeps a millisecond had to wait, since it was last asked, in microseconds.
fn watch_lateness() -> Arc<AtomicU64> {
    let worst = Arc::new(AtomicU64::new(0));
    let out = worst.clone();
    tokio::spawn(async move {
        loop {
            let start = Instant::now();
            tokio::time::sleep(Duration::from_millis(1)).await;
            let late = start.elapsed().saturating_sub(Duration::from_millis(2));
            worst.fetch_max(u64::try_from(late.as_micros()).unwrap_or(u64::MAX), Ordering::Relaxed);
        }
    });
    out
}

fn start(server: &ApiServer) -> (JoinHandle<()>, Metrics) {
    let client = Client::new(server.clone(), "default");
    let clock = server.clone();
    let manager = ControllerManager::new(client, Options::new(Clock::new(move || clock.now())));
    let metrics = manager.metrics();
    (tokio::spawn(manager.run(std::future::pending())), metrics)
}

/// Waits until the server has seen no write but heartbeats for a while: until the queue is empty and stays so.
async fn settled(metrics: &Metrics) {
    let mut quiet = 0;
    let mut seen = metrics.syncs();
    while quiet < 20 {
        tokio::time::sleep(Duration::from_millis(50)).await;
        let now = metrics.syncs();
        quiet = if now.saturating_sub(seen) < 5 { quiet + 1 } else { 0 };
        seen = now;
    }
}

/// Cores taken over some seconds.
async fn cores(seconds: u64) -> f64 {
    let (before, start) = (cost().0, Instant::now());
    tokio::time::sleep(Duration::from_secs(seconds)).await;
    (cost().0 - before) / start.elapsed().as_secs_f64()
}

fn show(what: &str, mut times: Vec<Duration>, lateness: &AtomicU64) {
    times.sort_unstable();
    let at = |percent: usize| times[(times.len() - 1) * percent / 100];
    let late = lateness.swap(0, Ordering::Relaxed) as f64 / 1000.0;
    println!(
        "{what}: p50 {:.2?}, p99 {:.2?}, max {:.2?} of {}; executor held for {late:.1} ms at most",
        at(50),
        at(99),
        at(100),
        times.len()
    );
}

async fn until(client: &Client, path: &str, is: impl Fn(&Value) -> bool) {
    loop {
        if let Ok(object) = send(client, "GET", path, "application/json", &Value::Null).await
            && is(&object)
        {
            return;
        }
        tokio::task::yield_now().await;
    }
}

async fn change(client: &Client, nodes: usize, rounds: usize, lateness: &AtomicU64) {
    let mut times = Vec::new();
    for n in 0..rounds {
        let path = format!("/api/v1/nodes/n{}", n * 7 % nodes);
        let start = Instant::now();
        let cordon = json!({"spec": {"unschedulable": true}});
        send(client, "PATCH", &path, "application/merge-patch+json", &cordon).await.unwrap();
        until(client, &path, |node| node["spec"]["taints"].to_string().contains("unschedulable")).await;
        times.push(start.elapsed());
        let back = json!({"spec": {"unschedulable": null}});
        send(client, "PATCH", &path, "application/merge-patch+json", &back).await.unwrap();
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    show("a node is cordoned, until its taint is there", times, lateness);

    let mut times = Vec::new();
    for n in 0..rounds {
        let app = format!("web-{}", n % 10);
        let pods = format!("/api/v1/namespaces/default/pods?labelSelector=app%3D{app}");
        let list = send(client, "GET", &format!("{pods}&limit=1"), "application/json", &Value::Null).await.unwrap();
        let version = list["metadata"]["resourceVersion"].as_str().unwrap().to_owned();
        let name = list["items"][0]["metadata"]["name"].as_str().unwrap().to_owned();
        let watch = http::Request::get(format!("{pods}&watch=1&resourceVersion={version}")).body(Vec::new()).unwrap();
        let mut events = Box::pin(client.request_events::<Value>(watch).await.unwrap());
        let start = Instant::now();
        let path = format!("/api/v1/namespaces/default/pods/{name}");
        send(client, "DELETE", &path, "application/json", &json!({"gracePeriodSeconds": 0})).await.unwrap();
        while let Ok(Some(event)) = events.try_next().await {
            if matches!(event, WatchEvent::Added(_)) {
                break;
            }
        }
        times.push(start.elapsed());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    show("a pod is deleted, until its ReplicaSet has another", times, lateness);
}

/// Gives the pods of some Deployments another image, and waits until all run with it.
async fn roll(client: &Client, deployments: usize, metrics: &Metrics, lateness: &AtomicU64) {
    let (busy, began) = (cost().0, Instant::now());
    for n in 0..deployments {
        let path = format!("/apis/apps/v1/namespaces/default/deployments/web-{n}");
        let image = json!({"spec": {"template": {"spec": {"containers": [{"name": "c", "image": "i:2"}]}}}});
        send(client, "PATCH", &path, "application/strategic-merge-patch+json", &image).await.unwrap();
    }
    for n in 0..deployments {
        let path = format!("/apis/apps/v1/namespaces/default/deployments/web-{n}");
        loop {
            tokio::time::sleep(Duration::from_millis(100)).await;
            let found = send(client, "GET", &path, "application/json", &Value::Null).await.unwrap();
            let (wanted, status) = (&found["spec"]["replicas"], &found["status"]);
            let is_seen = status["observedGeneration"] == found["metadata"]["generation"];
            if is_seen && ["replicas", "updatedReplicas", "readyReplicas"].iter().all(|count| status[count] == *wanted)
            {
                break;
            }
        }
    }
    settled(metrics).await;
    println!(
        "a rolling update of {} pods: {:.1?}, {:.1} CPU s; executor held for {:.1} ms at most",
        deployments * REPLICAS,
        began.elapsed(),
        cost().0 - busy,
        lateness.swap(0, Ordering::Relaxed) as f64 / 1000.0
    );
}

/// Creates the definition of NodeClaims.
async fn define_claims(client: &Client) {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../crds/karpenter.sh_nodeclaims.yaml");
    let definition: Value = serde_saphyr::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    create(client, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", &definition).await;
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let numbers: Vec<usize> = std::env::args().skip(1).filter_map(|text| text.parse().ok()).collect();
    let (nodes, pods) = (numbers.first().copied().unwrap_or(5_000), numbers.get(1).copied().unwrap_or(50_000));
    let server = ApiServer::new(Config { epoch: jiff::Timestamp::now(), ..Config::default() });
    let client = Client::new(server.clone(), "default");
    let kubelets = Kubelets::start(client.clone(), KubeletConfig { epoch: server.now(), ..KubeletConfig::default() });
    for n in 0..nodes {
        kubelets.join(NodeSpec { name: format!("n{n}"), ..NodeSpec::default() });
    }
    until(&client, "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases?limit=1", |list| {
        let rest = list["metadata"]["remainingItemCount"].as_u64().unwrap_or_default();
        list["items"].as_array().map_or(0, Vec::len) as u64 + rest == nodes as u64
    })
    .await;
    let scheduler = tokio::spawn(schedule(client.clone(), nodes));
    let lateness = watch_lateness();
    let (manager, metrics) = start(&server);

    define_claims(&client).await;
    let quota = json!({"metadata": {"name": "all"}, "spec": {"hard": {"pods": "1000000", "requests.cpu": "1000000"}}});
    create(&client, "/api/v1/namespaces/default/resourcequotas", &quota).await;
    let (busy, began) = (cost().0, Instant::now());
    for n in 0..nodes {
        create(&client, "/apis/karpenter.sh/v1/nodeclaims", &claim(n)).await;
    }
    println!(
        "{nodes} NodeClaims: {:.0} a second, {:.0} a CPU second, their client, kubelets and controllers included",
        nodes as f64 / began.elapsed().as_secs_f64(),
        nodes as f64 / (cost().0 - busy)
    );

    let (written, began) = (server.resource_version(), Instant::now());
    let container = json!({"name": "c", "image": "i", "resources": {"requests": {"cpu": "100m", "memory": "128Mi"}}});
    let template = |app: &str| json!({"metadata": {"labels": {"app": app}}, "spec": {"containers": [container]}});
    let log = json!({"metadata": {"name": "log"}, "spec": {"selector": {"matchLabels": {"app": "log"}}, "template": template("log")}});
    create(&client, "/apis/apps/v1/namespaces/default/daemonsets", &log).await;
    let deployments = pods.div_ceil(REPLICAS);
    for n in 0..deployments {
        let app = format!("web-{n}");
        let selector = json!({"matchLabels": {"app": app}});
        let web = json!({"metadata": {"name": app}, "spec": {"replicas": REPLICAS.min(pods - n * REPLICAS), "selector": selector, "template": template(&app)}});
        create(&client, "/apis/apps/v1/namespaces/default/deployments", &web).await;
        let service = json!({"metadata": {"name": app}, "spec": {"selector": {"app": app}, "ports": [{"port": 80}]}});
        create(&client, "/api/v1/namespaces/default/services", &service).await;
        let budget = json!({"metadata": {"name": app}, "spec": {"maxUnavailable": "10%", "selector": selector}});
        create(&client, "/apis/policy/v1/namespaces/default/poddisruptionbudgets", &budget).await;
    }
    settled(&metrics).await;
    let (cpu, memory) = cost();
    println!(
        "{nodes} nodes, {pods} pods and {nodes} daemons run after {:.1?} and {} writes, {cpu:.1} CPU s, {memory:.0} MB; executor held for {:.1} ms at most",
        began.elapsed(),
        server.resource_version() - written,
        lateness.swap(0, Ordering::Relaxed) as f64 / 1000.0
    );

    let with = cores(10).await;
    println!(
        "idle, heartbeats and controllers: {:.1}% of a core; executor held for {:.1} ms at most",
        with * 100.0,
        lateness.swap(0, Ordering::Relaxed) as f64 / 1000.0
    );
    change(&client, nodes, 200, &lateness).await;
    roll(&client, deployments.min(10_000 / REPLICAS), &metrics, &lateness).await;

    scheduler.abort();
    manager.abort();
    let _ = manager.await;
    tokio::time::sleep(Duration::from_millis(200)).await;
    let without = cores(10).await;
    println!(
        "idle, heartbeats alone: {:.1}% of a core, so the controllers take {:.1}%",
        without * 100.0,
        (with - without) * 100.0
    );

    lateness.store(0, Ordering::Relaxed);
    let began = Instant::now();
    let (manager, metrics) = start(&server);
    settled(&metrics).await;
    println!(
        "controllers started anew have settled after {:.1?}; executor held for {:.1} ms at most; {} failures, {:?}; {:.0} MB",
        began.elapsed().saturating_sub(Duration::from_secs(1)),
        lateness.swap(0, Ordering::Relaxed) as f64 / 1000.0,
        metrics.failures(),
        metrics.last_error(),
        cost().1
    );
    manager.abort();
    let list = Instant::now();
    let mut listed = 0;
    let mut next = String::new();
    loop {
        let page = format!("/api/v1/pods?limit=500&continue={next}");
        let page = send(&client, "GET", &page, "application/json", &Value::Null).await.unwrap();
        listed += page["items"].as_array().map_or(0, Vec::len);
        match page["metadata"]["continue"].as_str() {
            Some(token) if !token.is_empty() => token.clone_into(&mut next),
            _ => break,
        }
    }
    println!("{listed} pods listed in pages of 500 within {:.1?}", list.elapsed());
    drop(kubelets);
}
