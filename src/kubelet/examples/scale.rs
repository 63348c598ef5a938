//! What stand-in kubelets cost: `cargo run --release -p berth-kubelet --example scale -- [NODES] [PODS]`.
//!
//! Everything is in one process, on real time: the API server, the kubelets, and this. It prints how long it takes until
//! all nodes are ready and all pods run, what a minute of nothing but heartbeats costs, and how long deleting takes.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a measurement")]

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use berth_apiserver::{ApiServer, Config};
use berth_kubelet::{KubeletConfig, Kubelets, NodeSpec};
use futures::StreamExt;
use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use kube::api::{DeleteParams, ListParams, PostParams};
use kube::{Api, Client};
use serde_json::json;

/// Seconds of processor time that this process has used.
fn cpu() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    let ticks = |index: usize| fields.get(index).and_then(|text| text.parse::<f64>().ok()).unwrap_or_default();
    (ticks(11) + ticks(12)) / 100.0
}

fn memory() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap_or_default();
    line.split_whitespace().nth(1).and_then(|text| text.parse::<u64>().ok()).unwrap_or_default() / 1024
}

async fn count(client: &Client, selector: &str) -> usize {
    let params = ListParams::default().fields(selector);
    Api::<Pod>::all(client.clone()).list_metadata(&params).await.unwrap().items.len()
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let mut args = std::env::args().skip(1).filter_map(|arg| arg.parse::<usize>().ok());
    let (n_nodes, n_pods) = (args.next().unwrap_or(5_000), args.next().unwrap_or(50_000));
    let epoch = jiff::Timestamp::now();
    let client = Client::new(ApiServer::new(Config { epoch, ..Config::default() }), "default");
    let kubelets = Kubelets::start(client.clone(), KubeletConfig { epoch, ..KubeletConfig::default() });
    let start = Instant::now();
    let room: BTreeMap<String, Quantity> = [("cpu", "64"), ("memory", "256Gi"), ("pods", "110")]
        .map(|(name, amount)| (name.to_owned(), Quantity(amount.to_owned())))
        .into();
    for n in 0..n_nodes {
        let name = format!("node-{n:06}");
        kubelets.join(NodeSpec { name, capacity: room.clone(), allocatable: room.clone(), ..NodeSpec::default() });
    }
    let nodes = Api::<Node>::all(client.clone());
    let is_ready = |node: &Node| {
        let conditions = node.status.iter().flat_map(|status| status.conditions.iter().flatten());
        conditions.into_iter().any(|own| own.type_ == "Ready" && own.status == "True")
    };
    while nodes.list(&ListParams::default()).await.unwrap().items.iter().filter(|node| is_ready(node)).count() < n_nodes
    {
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
    println!("{n_nodes} nodes are ready after {:.1} s", start.elapsed().as_secs_f64());

    let (start, used) = (Instant::now(), cpu());
    let pods = Api::<Pod>::default_namespaced(client.clone());
    let made = futures::stream::iter(0..n_pods).map(|n| {
        let pod = json!({
            "metadata": {"name": format!("pod-{n:07}"), "labels": {"app": "a"}},
            "spec": {"nodeName": format!("node-{:06}", n % n_nodes), "terminationGracePeriodSeconds": 1,
                     "containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "100m"}}}]},
        });
        let pod: Pod = serde_json::from_value(pod).unwrap();
        let pods = pods.clone();
        async move { pods.create(&PostParams::default(), &pod).await.map(drop).unwrap() }
    });
    made.buffer_unordered(64).collect::<Vec<()>>().await;
    while count(&client, "status.phase=Running").await < n_pods {
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
    let (wall, used) = (start.elapsed().as_secs_f64(), cpu() - used);
    println!("{n_pods} pods were made and run after {wall:.1} s, {used:.1} s of processor, {} MiB", memory());

    tokio::time::sleep(Duration::from_secs(5)).await;
    let (start, used) = (Instant::now(), cpu());
    tokio::time::sleep(Duration::from_secs(30)).await;
    let share = (cpu() - used) / start.elapsed().as_secs_f64() * 100.0;
    println!("heartbeats alone take {share:.1}% of a core");

    let start = Instant::now();
    pods.delete_collection(&DeleteParams::default(), &ListParams::default()).await.unwrap();
    while count(&client, "").await > 0 {
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
    println!("{n_pods} pods were deleted and are gone after {:.1} s", start.elapsed().as_secs_f64());
}
