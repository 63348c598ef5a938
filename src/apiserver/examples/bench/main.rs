//! How fast the server is, beside the real kube-apiserver, spoken to by the same client.
//!
//! ```sh
//! cargo run --release -p berth-apiserver --example bench --features listener            # both, where Go is present
//! cargo run --release -p berth-apiserver --example bench --features listener -- --ours 20000
//! ```

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::cast_precision_loss,
    clippy::naive_bytecount
)]

#[path = "../../tests/differential/world.rs"]
#[allow(dead_code, clippy::expect_used)]
mod world;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use berth_apiserver::{ApiServer, Config};
use http_body_util::BodyExt;
use kube::client::Body;
use serde_json::json;

/// Requests under way at a time.
const CONCURRENCY: usize = 32;
const WATCHES: usize = 100;
const CHANGES: usize = 500;
const PODS: &str = "/api/v1/namespaces/default/pods";

struct Figures {
    name: &'static str,
    writes: f64,
    /// Writes for each second of CPU that the client, the server and its store take: what else the machine does counts less.
    writes_per_cpu: f64,
    list: f64,
    list_bytes: usize,
    fan_out: f64,
    memory: f64,
}

fn pod(n: usize) -> Vec<u8> {
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": format!("pod-{n:06}"), "labels": {"app": format!("app-{}", n % 100)}},
        "spec": {"containers": [{"name": "main", "image": "registry.example/app:1",
            "resources": {"requests": {"cpu": "100m", "memory": "128Mi"}}}],
            "tolerations": [{"key": "dedicated", "operator": "Exists"}]}})
    .to_string()
    .into_bytes()
}

async fn send(client: &kube::Client, method: &str, path: &str, body: Vec<u8>) -> (u16, usize) {
    let kind = if method == "PATCH" { "application/merge-patch+json" } else { "application/json" };
    let request = http::Request::builder().method(method).uri(path).header("content-type", kind);
    let response = client.send(request.body(Body::from(body)).unwrap()).await.unwrap();
    let code = response.status().as_u16();
    let mut size = 0;
    let mut body = response.into_body();
    while let Some(frame) = body.frame().await {
        size += frame.unwrap().into_data().map_or(0, |data| data.len());
    }
    (code, size)
}

/// Creates the pods from `range`, so many at a time; gives pods a second.
async fn create(client: &kube::Client, range: std::ops::Range<usize>) -> f64 {
    let next = Arc::new(AtomicUsize::new(range.start));
    let count = range.len();
    let started = Instant::now();
    let workers = (0..CONCURRENCY).map(|_| {
        let (client, next, end) = (client.clone(), next.clone(), range.end);
        tokio::spawn(async move {
            loop {
                let n = next.fetch_add(1, Ordering::Relaxed);
                if n >= end {
                    return;
                }
                let (code, _) = send(&client, "POST", PODS, pod(n)).await;
                assert_eq!(code, 201);
            }
        })
    });
    for worker in workers.collect::<Vec<_>>() {
        worker.await.unwrap();
    }
    count as f64 / started.elapsed().as_secs_f64()
}

/// Events a second, over all watches of one change after another.
async fn fan_out(client: &kube::Client) -> f64 {
    let seen = Arc::new(AtomicUsize::new(0));
    let mut watches = Vec::new();
    for _ in 0..WATCHES {
        let path = format!("{PODS}?watch=true&fieldSelector=metadata.name=pod-000000&timeoutSeconds=600");
        let request = http::Request::builder().uri(path).body(Body::empty()).unwrap();
        let response = client.send(request).await.unwrap();
        let seen = seen.clone();
        watches.push(tokio::spawn(async move {
            let mut body = response.into_body();
            while let Some(Ok(frame)) = body.frame().await {
                let data = frame.into_data().unwrap_or_default();
                seen.fetch_add(data.iter().filter(|byte| **byte == b'\n').count(), Ordering::Relaxed);
            }
        }));
    }
    let wait_for = async |wanted: usize| {
        while seen.load(Ordering::Relaxed) < wanted {
            tokio::time::sleep(std::time::Duration::from_millis(1)).await;
        }
    };
    wait_for(WATCHES).await;
    let started = Instant::now();
    for n in 0..CHANGES {
        let patch = json!({"metadata": {"labels": {"n": n.to_string()}}}).to_string().into_bytes();
        send(client, "PATCH", &format!("{PODS}/pod-000000"), patch).await;
    }
    wait_for(WATCHES * (CHANGES + 1)).await;
    let rate = (WATCHES * CHANGES) as f64 / started.elapsed().as_secs_f64();
    for watch in watches {
        watch.abort();
    }
    rate
}

async fn measure(name: &'static str, client: &kube::Client, pods: usize, pid: u32, others: &[u32]) -> Figures {
    create(client, 0..200).await;
    let before = resident(pid);
    let used = || others.iter().copied().chain([std::process::id()]).map(cpu).sum::<f64>();
    let busy = used();
    let writes = create(client, 200..pods).await;
    let writes_per_cpu = (pods - 200) as f64 / (used() - busy);
    let memory = (resident(pid) - before) / (pods - 200) as f64;
    let mut best = f64::MAX;
    let mut list_bytes = 0;
    for _ in 0..3 {
        let started = Instant::now();
        let (code, size) = send(client, "GET", PODS, Vec::new()).await;
        assert_eq!(code, 200);
        best = best.min(started.elapsed().as_secs_f64());
        list_bytes = size;
    }
    let fan_out = fan_out(client).await;
    eprintln!("{name}: done");
    Figures { name, writes, writes_per_cpu, list: pods as f64 / best, list_bytes, fan_out, memory }
}

/// Seconds of CPU that a process has taken.
fn cpu(pid: u32) -> f64 {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // After the name, which may hold anything: user and system time in hundredths.
    let fields = text.rsplit(')').next().unwrap_or_default().split_whitespace();
    fields.skip(11).take(2).filter_map(|ticks| ticks.parse::<f64>().ok()).sum::<f64>() / 100.0
}

/// Resident memory of a process, in bytes.
fn resident(pid: u32) -> f64 {
    let text = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = text.lines().find(|line| line.starts_with("VmRSS:")).unwrap_or_default();
    line.split_whitespace().nth(1).and_then(|kib| kib.parse::<f64>().ok()).unwrap_or(0.0) * 1024.0
}

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[tokio::main]
async fn main() {
    let mut arguments = std::env::args().skip(1).peekable();
    let ours_alone = arguments.next_if(|argument| argument == "--ours").is_some();
    let pods = arguments.next().and_then(|text| text.parse().ok()).unwrap_or(100_000);
    let own = std::process::id();
    let mut all = Vec::new();

    let server = ApiServer::new(Config { epoch: jiff::Timestamp::now(), ..Config::default() });
    all.push(measure("in process", &kube::Client::new(server, "default"), pods, own, &[]).await);

    let server = ApiServer::new(Config { epoch: jiff::Timestamp::now(), ..Config::default() });
    let listener = berth_apiserver::listener::Listener::start(server, "127.0.0.1:0".parse().unwrap()).await.unwrap();
    let client = world::client(serde_json::from_str(&listener.kubeconfig()).unwrap()).await;
    all.push(measure("over HTTPS", client.inner(), pods, own, &[]).await);
    drop(listener);

    if !ours_alone && let Some(real) = world::Real::start(&[]) {
        let client = real.client().await;
        all.push(
            measure("kube-apiserver", client.inner(), pods, real.apiserver_pid, &[real.apiserver_pid, real.etcd_pid])
                .await,
        );
    }
    println!("| {pods} pods | writes/s | writes/CPU s | list, pods/s | MB of a list | watch events/s | bytes a pod |");
    println!("|---|---|---|---|---|---|---|");
    for Figures { name, writes, writes_per_cpu, list, list_bytes, fan_out, memory } in &all {
        let megabytes = *list_bytes as f64 / 1e6;
        println!(
            "| {name} | {writes:.0} | {writes_per_cpu:.0} | {list:.0} | {megabytes:.1} | {fan_out:.0} | {memory:.0} |"
        );
    }
    if let [inside, https, real] = all.as_slice() {
        println!(
            "times the real one: writes {:.1} over HTTPS and {:.1} in process (for the same CPU {:.1} and {:.1}), lists {:.1} and {:.1}, watch events {:.1}",
            https.writes / real.writes,
            inside.writes / real.writes,
            https.writes_per_cpu / real.writes_per_cpu,
            inside.writes_per_cpu / real.writes_per_cpu,
            https.list / real.list,
            inside.list / real.list,
            https.fan_out / real.fan_out
        );
    }
}
