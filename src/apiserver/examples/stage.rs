//! A stage for autoscalers that are to be measured side by side; `hack/compare/live.py` plays on it.
//!
//! ```sh
//! stage memory         # serves an empty cluster on loopback, with the built-in controllers, and says its kubeconfig
//! stage KUBECONFIG     # looks at a cluster that is there
//! ```
//!
//! Nodes that Karpenter's KWOK provider makes get a stand-in kubelet. Commands on standard input, each answered by a line of
//! JSON: `bound N` once N pods of the namespace `default` have a node, with the seconds from the first pod to the last
//! binding; `running N` likewise; `calls` with the requests so far by user, program, verb and resource, of the server in
//! memory. It ends when standard input closes.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a measurement")]

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use berth_apiserver::listener::Listener;
use berth_apiserver::{Admission, ApiServer, Config, RequestLine, RequestLog};
use berth_controller_manager::{Clock, ControllerManager, Options};
use berth_kubelet::{KubeletConfig, Kubelets};
use futures::StreamExt;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Api, Client, ResourceExt};
use serde_json::{Value, json};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// What the providerIDs of Karpenter's KWOK nodes begin with.
const KWOK: &str = "kwok://";

/// Requests by user, program, verb and resource.
type Calls = Arc<Mutex<BTreeMap<String, u64>>>;

/// When pods were seen first, with a node, and running.
#[derive(Debug, Default)]
struct Pods {
    first: Option<Instant>,
    bound: BTreeMap<String, Instant>,
    running: BTreeMap<String, Instant>,
}

#[tokio::main]
async fn main() {
    let target = std::env::args().nth(1).unwrap_or_else(|| "memory".to_owned());
    let epoch = jiff::Timestamp::now();
    let calls = Calls::default();
    let (client, _listener) = if target == "memory" {
        let (client, listener) = serve(epoch, Arc::clone(&calls)).await;
        println!("{}", listener.kubeconfig());
        (client, Some(listener))
    } else {
        let config = Kubeconfig::read_from(&target).unwrap();
        let config = kube::Config::from_custom_kubeconfig(config, &KubeConfigOptions::default()).await.unwrap();
        let client = Client::try_from(config).unwrap();
        println!("{}", json!({"kubeconfig": target}));
        (client, None)
    };
    tokio::spawn(host(client.clone(), epoch));
    let pods = Arc::new(Mutex::new(Pods::default()));
    tokio::spawn(look(client, Arc::clone(&pods)));
    let (said, mut commands) = tokio::sync::mpsc::unbounded_channel();
    std::thread::spawn(move || std::io::stdin().lines().map_while(Result::ok).try_for_each(|line| said.send(line)));
    while let Some(command) = commands.recv().await {
        println!("{}", answer(&command, &pods, &calls).await);
    }
}

/// A server with everything on, and the built-in controllers beside it.
async fn serve(epoch: jiff::Timestamp, calls: Calls) -> (Client, Listener) {
    let log = RequestLog::new(move |line| *calls.lock().unwrap().entry(call(line)).or_default() += 1);
    let admission = Admission { storage_protection: true, taint_new_nodes: true, ..Admission::default() };
    let server = ApiServer::new(Config { epoch, admission, log: Some(log), ..Config::default() });
    let listener = Listener::start(server.clone(), "127.0.0.1:0".parse().unwrap()).await.unwrap();
    let client = Client::new(server.clone(), "default");
    let manager = ControllerManager::new(client.clone(), Options::new(Clock::new(move || server.now())));
    tokio::spawn(manager.run(std::future::pending()));
    (client, listener)
}

/// `user program VERB resource`: the program without its version, and of the path the resource with its subresource.
fn call(line: &RequestLine<'_>) -> String {
    let program = line.user_agent.split(['/', ' ']).next().unwrap_or_default();
    let (path, query) = line.uri.split_once('?').unwrap_or((line.uri, ""));
    let verb =
        if query.split('&').any(|part| part == "watch=true" || part == "watch=1") { "WATCH" } else { line.method };
    format!("{} {} {verb} {}", named(line.user), named(program), resource(path))
}

fn named(text: &str) -> String {
    if text.is_empty() { "-".to_owned() } else { text.replace(' ', "_") }
}

/// The resource of a path, with its subresource.
fn resource(path: &str) -> String {
    let mut parts = path.trim_matches('/').split('/');
    // `api/v1/…` or `apis/GROUP/VERSION/…`.
    let n_before = if path.starts_with("/apis/") { 3 } else { 2 };
    for _ in 0..n_before {
        parts.next();
    }
    let rest: Vec<&str> = parts.collect();
    let rest = if rest.len() > 2 && rest.first() == Some(&"namespaces") { rest.get(2..) } else { Some(&rest[..]) };
    match rest.unwrap_or_default() {
        [resource, _, subresource, ..] => format!("{resource}/{subresource}"),
        [resource, ..] => (*resource).to_owned(),
        [] => "-".to_owned(),
    }
}

/// The stand-in kubelets of nodes that a provider made without a machine.
async fn host(client: Client, epoch: jiff::Timestamp) {
    let kubelets = Kubelets::start(client.clone(), KubeletConfig { epoch, ..KubeletConfig::default() });
    let mut events = std::pin::pin!(watcher(Api::<Node>::all(client), watcher::Config::default()));
    let mut hosted = BTreeSet::new();
    while let Some(event) = events.next().await {
        match event {
            Ok(Event::Apply(node) | Event::InitApply(node)) => {
                let id = node.spec.as_ref().and_then(|spec| spec.provider_id.clone()).unwrap_or_default();
                if id.starts_with(KWOK) && hosted.insert(node.name_any()) {
                    kubelets.join(node.into());
                }
            }
            Ok(Event::Delete(node)) => kubelets.power_off(&node.name_any()),
            _ => {}
        }
    }
}

/// Notes how far pods are, as a watch tells it.
async fn look(client: Client, pods: Arc<Mutex<Pods>>) {
    let all = Api::<Pod>::default_namespaced(client);
    let mut events = std::pin::pin!(watcher(all, watcher::Config::default()));
    while let Some(event) = events.next().await {
        let Ok(Event::Apply(pod) | Event::InitApply(pod)) = event else { continue };
        let (now, name) = (Instant::now(), pod.name_any());
        let mut pods = pods.lock().unwrap();
        pods.first.get_or_insert(now);
        if pod.spec.as_ref().is_some_and(|spec| spec.node_name.is_some()) {
            pods.bound.entry(name.clone()).or_insert(now);
        }
        if pod.status.as_ref().and_then(|status| status.phase.as_deref()) == Some("Running") {
            pods.running.entry(name).or_insert(now);
        }
    }
}

async fn answer(command: &str, pods: &Mutex<Pods>, calls: &Calls) -> Value {
    let (what, wanted) = command.split_once(' ').unwrap_or((command, ""));
    let wanted: usize = wanted.trim().parse().unwrap_or_default();
    match what {
        "calls" => json!(*calls.lock().unwrap()),
        "bound" | "running" => loop {
            {
                let pods = pods.lock().unwrap();
                let seen = if what == "bound" { &pods.bound } else { &pods.running };
                if seen.len() >= wanted {
                    let first = pods.first.unwrap_or_else(Instant::now);
                    let mut after: Vec<f64> = seen.values().map(|at| (*at - first).as_secs_f64()).collect();
                    after.sort_by(f64::total_cmp);
                    break json!({"pods": seen.len(), "half": after.get(wanted / 2), "last": after.last()});
                }
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        },
        _ => json!({"error": format!("{command:?}: expected bound N, running N or calls")}),
    }
}
