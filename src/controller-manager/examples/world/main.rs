//! What the controllers cost in a large cluster: idle with heartbeats, for one change, and for a rolling update.
//!
//! ```sh
//! cargo run --release -p berth-controller-manager --example world                  # 5,000 nodes, 100,000 pods
//! cargo run --release -p berth-controller-manager --example world -- 500 5000
//! cargo run --release -p berth-controller-manager --example world -- 1000 10000 --beside    # and the real control plane
//! cargo run --release -p berth-controller-manager --example world -- 100000 200000 --virtual
//! ```
//!
//! Server, controllers, kubelets and whoever changes things share one thread, so what one does, the others wait for. Every
//! node has a stand-in kubelet, which runs its pods and renews its Lease every ten seconds, and a NodeClaim, whose definition
//! has defaults, patterns and rules; one DaemonSet is on every node, a Service and a budget select each Deployment's pods,
//! and a quota counts all of them. With `--beside` the same is done with kube-apiserver and kube-controller-manager of
//! `hack/testenv` (needs Go); what kubelets and clients cost is left out there, and counted with ours.
//!
//! With `--virtual` time goes on only when there is nothing to do, so that heartbeats are never late, however little of the
//! machine is left: idle is then CPU time for a second of virtual time. `--trace` tells what the server was asked during
//! each change that took long.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::indexing_slicing,
    clippy::cast_precision_loss
)]

mod figures;
mod load;
mod plane;
#[path = "../../../apiserver/tests/differential/world.rs"]
#[allow(dead_code, clippy::expect_used)]
mod real;
mod trace;

use std::time::{Duration, Instant};

use berth_kubelet::{KubeletConfig, Kubelets, NodeSpec};
use futures::TryStreamExt;
use kube::Client;
use kube::core::WatchEvent;
use serde_json::{Value, json};

use figures::{Lateness, Since, Taken, show};
use load::{REPLICAS, all_ready, claim_nodes, create, define_claims, deploy, schedule, send, until, write};
use plane::Plane;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Changes of each kind.
const ROUNDS: usize = 200;
/// Pods of the rolling update.
const ROLLED: usize = 10_000;
/// Objects of each kind that are written without a rest.
const WRITTEN: usize = 5_000;

/// Cores taken over some seconds.
async fn cores(plane: &Plane, seconds: u64) -> f64 {
    let (before, start) = (plane.cpu(), tokio::time::Instant::now());
    tokio::time::sleep(Duration::from_secs(seconds)).await;
    (plane.cpu() - before) / start.elapsed().as_secs_f64()
}

/// The version of the last write.
async fn version(client: &Client) -> u64 {
    // Versions are of all resources; this list is a short one.
    let now = send(client, "GET", "/api/v1/namespaces?limit=1", "application/json", &Value::Null).await.unwrap();
    now["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap()
}

/// Does something, and waits for the first event of a list that is what was wanted.
async fn seen_after(
    client: &Client,
    list: &str,
    act: impl AsyncFnOnce(),
    is: impl Fn(&WatchEvent<Value>) -> bool,
) -> Taken {
    let version = version(client).await;
    let watch = http::Request::get(format!("{list}&watch=1&resourceVersion={version}")).body(Vec::new()).unwrap();
    let mut events = Box::pin(client.request_events::<Value>(watch).await.unwrap());
    trace::begin();
    let start = Since::now();
    act().await;
    while let Ok(Some(event)) = events.try_next().await {
        if is(&event) {
            break;
        }
    }
    let taken = start.taken();
    trace::end(taken.clock);
    taken
}

async fn change(client: &Client, nodes: usize, deployments: usize, lateness: &Lateness) {
    lateness.told();
    let mut times = Vec::new();
    for n in 0..ROUNDS {
        let name = format!("n{}", n * 7 % nodes);
        let path = format!("/api/v1/nodes/{name}");
        let cordon = async |spec: Value| {
            send(client, "PATCH", &path, "application/merge-patch+json", &json!({"spec": spec})).await.unwrap();
        };
        let list = format!("/api/v1/nodes?fieldSelector=metadata.name%3D{name}");
        let is_tainted = |event: &WatchEvent<Value>| matches!(event, WatchEvent::Modified(node) if node["spec"]["taints"].to_string().contains("unschedulable"));
        let act = async || cordon(json!({"unschedulable": true})).await;
        times.push(seen_after(client, &list, act, is_tainted).await);
        cordon(json!({"unschedulable": null})).await;
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    show("a node is cordoned, until its taint is there", &times, lateness);

    let mut times = Vec::new();
    for n in 0..ROUNDS {
        let list = format!("/api/v1/namespaces/default/pods?labelSelector=app%3Dweb-{}", n % deployments);
        let pods = send(client, "GET", &format!("{list}&limit=1"), "application/json", &Value::Null).await.unwrap();
        let path =
            format!("/api/v1/namespaces/default/pods/{}", pods["items"][0]["metadata"]["name"].as_str().unwrap());
        // What the list has held up is done before the change.
        tokio::time::sleep(Duration::from_millis(20)).await;
        let act = async || {
            send(client, "DELETE", &path, "application/json", &json!({"gracePeriodSeconds": 0})).await.unwrap();
        };
        times.push(seen_after(client, &list, act, |event| matches!(event, WatchEvent::Added(_))).await);
    }
    show("a pod is deleted, until its ReplicaSet has another", &times, lateness);
}

/// Gives the pods of some Deployments another image, and waits until all run with it.
async fn roll(client: &Client, nodes: usize, deployments: usize, plane: &Plane, lateness: &Lateness) {
    let (busy, began) = (plane.cpu(), Instant::now());
    for n in 0..deployments {
        let path = format!("/apis/apps/v1/namespaces/default/deployments/web-{n}");
        let image = json!({"spec": {"template": {"spec": {"containers": [{"name": "c", "image": "i:2"}]}}}});
        send(client, "PATCH", &path, "application/strategic-merge-patch+json", &image).await.unwrap();
    }
    all_ready(client, deployments, nodes).await;
    println!(
        "a rolling update of {} pods: {:.1?}, {:.1} CPU s; {}",
        deployments * REPLICAS,
        began.elapsed(),
        plane.cpu() - busy,
        lateness.told()
    );
}

/// How long single requests take while everything goes on.
async fn ask(client: &Client, nodes: usize, lateness: &Lateness) {
    lateness.told();
    let empty = Value::Null;
    let (mut gets, mut lists, mut creates) = (Vec::new(), Vec::new(), Vec::new());
    for n in 0..ROUNDS {
        let since = Since::now();
        let node = format!("/api/v1/nodes/n{}", n * 7 % nodes);
        send(client, "GET", &node, "application/json", &empty).await.unwrap();
        gets.push(since.taken());
        let since = Since::now();
        send(client, "GET", "/api/v1/pods?limit=500", "application/json", &empty).await.unwrap();
        lists.push(since.taken());
        let since = Since::now();
        let map = json!({"metadata": {"name": format!("asked-{n}")}, "data": {"n": n.to_string()}});
        create(client, "/api/v1/namespaces/default/configmaps", &map).await;
        creates.push(since.taken());
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    show("a node is read", &gets, lateness);
    show("500 pods are listed", &lists, lateness);
    show("a ConfigMap is created", &creates, lateness);
}

/// Writes a second while everything goes on.
async fn write_all(client: &Client, plane: &Plane, nodes: usize) {
    let pod = |n: usize| {
        let container = json!({"name": "c", "image": "i", "resources": {"requests": {"cpu": "1m"}}});
        json!({"metadata": {"name": format!("written-{n}")}, "spec": {"containers": [container]}})
    };
    let map = |n: usize| json!({"metadata": {"name": format!("written-{n}")}, "data": {"n": n.to_string()}});
    for (plural, object) in [("pods", &pod as &dyn Fn(usize) -> Value), ("configmaps", &map)] {
        plane.settle(nodes).await;
        let (before, busy, began) = (version(client).await, plane.cpu(), Instant::now());
        write(client, &format!("/api/v1/namespaces/default/{plural}"), WRITTEN, object).await;
        let (seconds, busy) = (began.elapsed().as_secs_f64(), (plane.cpu() - busy).max(0.01));
        // Every write of anybody is a version.
        let all = (version(client).await - before) as f64;
        println!(
            "{WRITTEN} {plural} created: {:.0} a second, {:.0} a CPU second; with what others wrote {:.0} and {:.0}",
            WRITTEN as f64 / seconds,
            WRITTEN as f64 / busy,
            all / seconds,
            all / busy
        );
    }
}

async fn list(client: &Client) {
    let began = Instant::now();
    let mut listed = 0;
    let mut next = String::new();
    loop {
        let page = format!("/api/v1/pods?limit=500&continue={next}");
        let page = send(client, "GET", &page, "application/json", &Value::Null).await.unwrap();
        listed += page["items"].as_array().map_or(0, Vec::len);
        match page["metadata"]["continue"].as_str() {
            Some(token) if !token.is_empty() => token.clone_into(&mut next),
            _ => break,
        }
    }
    println!("{listed} pods listed in pages of 500 within {:.1?}", began.elapsed());
}

async fn measure(mut plane: Plane, client: Client, nodes: usize, pods: usize) {
    println!("== {}: {nodes} nodes, {pods} pods", plane.name());
    let memory = |plane: &Plane| {
        let (now, most) = plane.memory();
        println!("    memory: {now:.0} MiB, {most:.0} MiB at most so far");
    };
    let lateness = Lateness::watch();
    let config = KubeletConfig { epoch: jiff::Timestamp::now(), ..KubeletConfig::default() };
    let kubelets = Kubelets::start(client.clone(), config);
    for n in 0..nodes {
        kubelets.join(NodeSpec { name: format!("n{n}"), ..NodeSpec::default() });
    }
    until(&client, "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases?limit=1", |list| {
        let rest = list["metadata"]["remainingItemCount"].as_u64().unwrap_or_default();
        list["items"].as_array().map_or(0, Vec::len) as u64 + rest == nodes as u64
    })
    .await;
    let scheduler = tokio::spawn(schedule(client.clone(), nodes));

    define_claims(&client).await;
    let quota = json!({"metadata": {"name": "all"}, "spec": {"hard": {"pods": "1000000", "requests.cpu": "1000000"}}});
    create(&client, "/api/v1/namespaces/default/resourcequotas", &quota).await;
    plane.settle(nodes).await;
    let (busy, began) = (plane.cpu(), Instant::now());
    claim_nodes(&client, nodes).await;
    println!(
        "{nodes} NodeClaims: {:.0} a second, {:.0} a CPU second",
        nodes as f64 / began.elapsed().as_secs_f64(),
        nodes as f64 / (plane.cpu() - busy).max(0.01)
    );

    let (busy, began) = (plane.cpu(), Instant::now());
    let deployments = deploy(&client, pods).await;
    all_ready(&client, deployments, nodes).await;
    println!(
        "{pods} pods and {nodes} daemons run after {:.1?}, {:.1} CPU s; {}",
        began.elapsed(),
        plane.cpu() - busy,
        lateness.told()
    );
    memory(&plane);
    plane.settle(nodes).await;

    let with = cores(&plane, 10).await;
    println!("idle, heartbeats and controllers: {:.1}% of a core; {}", with * 100.0, lateness.told());
    memory(&plane);
    ask(&client, nodes, &lateness).await;
    change(&client, nodes, deployments, &lateness).await;
    memory(&plane);
    write_all(&client, &plane, nodes).await;
    plane.settle(nodes).await;
    roll(&client, nodes, deployments.min(ROLLED.div_ceil(REPLICAS)), &plane, &lateness).await;
    plane.settle(nodes).await;
    memory(&plane);
    scheduler.abort();

    let without = async |plane: &Plane| {
        tokio::time::sleep(Duration::from_millis(200)).await;
        cores(plane, 10).await
    };
    if let Some(without) = plane.restart_controllers(without).await {
        println!(
            "idle, heartbeats alone: {:.1}% of a core, so the controllers take {:.1}%",
            without * 100.0,
            (with - without) * 100.0
        );
        lateness.told();
        let began = Instant::now();
        plane.settle(nodes).await;
        println!(
            "controllers started anew have settled after {:.1?}; {}",
            began.elapsed().saturating_sub(Duration::from_secs(1)),
            lateness.told()
        );
    }
    if let Plane::Ours { metrics, .. } = &plane {
        println!("{} failures, {:?}", metrics.failures(), metrics.last_error());
    }
    memory(&plane);
    list(&client).await;
    memory(&plane);
    drop(kubelets);
}

fn main() {
    // Whoever changes things and waits is the main future, and a runtime looks at that only once in 61 turns of the others,
    // unless it is told to do so more often. A change that was there long ago would seem to take all these turns.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().event_interval(4).build().unwrap();
    runtime.block_on(run());
}

async fn run() {
    let numbers: Vec<usize> = std::env::args().skip(1).filter_map(|text| text.parse().ok()).collect();
    let (nodes, pods) = (numbers.first().copied().unwrap_or(5_000), numbers.get(1).copied().unwrap_or(100_000));
    if std::env::args().any(|text| text == "--virtual") {
        tokio::time::pause();
    }
    let (plane, client) = Plane::ours();
    measure(plane, client, nodes, pods).await;
    if std::env::args().any(|text| text == "--beside")
        && let Some((plane, client)) = Plane::real().await
    {
        measure(plane, client, nodes, pods).await;
    }
}
