//! What the controllers cost in a large cluster: idle with heartbeats, and for one change.
//!
//! ```sh
//! cargo run --release -p berth-controller-manager --example world                  # 5,000 nodes, 50,000 pods
//! cargo run --release -p berth-controller-manager --example world -- 500 5000
//! ```
//!
//! Server, controllers, kubelets and whoever changes things share one thread, so what one does, the others wait for. Every
//! node renews its Lease every ten seconds; one DaemonSet is on every node, and a Service and a budget select each
//! Deployment's pods.

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

/// Renews each node's Lease every ten seconds, evenly spread.
async fn beat(client: Client, server: ApiServer, nodes: usize) {
    let mut ticks = tokio::time::interval(Duration::from_millis(10));
    let mut next = 0;
    let per_tick = nodes.div_ceil(1000).max(1);
    loop {
        ticks.tick().await;
        for _ in 0..per_tick {
            let path = format!("/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/n{}", next % nodes);
            let now = format!("{:.6}", server.now());
            let renewed = json!({"spec": {"renewTime": now}});
            send(&client, "PATCH", &path, "application/merge-patch+json", &renewed).await.unwrap();
            next += 1;
        }
    }
}

/// As a scheduler and kubelets: pods without a node get one, and run.
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
            if bound.is_err() {
                continue;
            }
        }
        let ready = json!({"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"});
        let ip = format!("10.{}.{}.{}", next >> 16 & 255, next >> 8 & 255, next & 255);
        let status =
            json!({"status": {"phase": "Running", "podIP": ip, "podIPs": [{"ip": ip}], "conditions": [ready]}});
        let _ =
            send(&client, "PATCH", &format!("{path}/status"), "application/strategic-merge-patch+json", &status).await;
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

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let numbers: Vec<usize> = std::env::args().skip(1).filter_map(|text| text.parse().ok()).collect();
    let (nodes, pods) = (numbers.first().copied().unwrap_or(5_000), numbers.get(1).copied().unwrap_or(50_000));
    let server = ApiServer::new(Config { epoch: jiff::Timestamp::now(), ..Config::default() });
    let client = Client::new(server.clone(), "default");
    for n in 0..nodes {
        let ready = json!({"type": "Ready", "status": "True", "lastHeartbeatTime": "2026-01-01T00:00:00Z",
                           "lastTransitionTime": "2026-01-01T00:00:00Z"});
        let node = json!({"metadata": {"name": format!("n{n}")}, "status": {"conditions": [ready]}});
        create(&client, "/api/v1/nodes", &node).await;
        let lease =
            json!({"metadata": {"name": format!("n{n}")}, "spec": {"renewTime": format!("{:.6}", server.now())}});
        create(&client, "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases", &lease).await;
    }
    let heartbeats = tokio::spawn(beat(client.clone(), server.clone(), nodes));
    let scheduler = tokio::spawn(schedule(client.clone(), nodes));
    let lateness = watch_lateness();
    let (manager, metrics) = start(&server);

    let began = Instant::now();
    let template = |app: &str| json!({"metadata": {"labels": {"app": app}}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
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
        "{nodes} nodes, {pods} pods and {nodes} daemons run after {:.1?}, {cpu:.1} CPU s, {memory:.0} MB; executor held for {:.1} ms at most",
        began.elapsed(),
        lateness.swap(0, Ordering::Relaxed) as f64 / 1000.0
    );

    let with = cores(10).await;
    println!(
        "idle, heartbeats and controllers: {:.1}% of a core; executor held for {:.1} ms at most",
        with * 100.0,
        lateness.swap(0, Ordering::Relaxed) as f64 / 1000.0
    );
    change(&client, nodes, 200, &lateness).await;

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
    heartbeats.abort();
}
