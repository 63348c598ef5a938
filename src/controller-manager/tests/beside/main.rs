//! Random histories, played to these controllers and to the real kube-controller-manager: once both have settled, the same
//! holds. One kind is about workloads, the other about custom resources with their owners, finalizers and quotas.
//!
//! ```sh
//! SEEDS=100 cargo test -p berth-controller-manager --test beside workloads -- --nocapture
//! SEED=17 cargo test -p berth-controller-manager --test beside resources -- --nocapture    # this one alone, with its steps
//! ```
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, clippy::print_stderr)]

mod changes;
#[path = "../../../apiserver/tests/differential/custom.rs"]
#[allow(dead_code)]
mod definitions;
mod history;
#[path = "../../../apiserver/tests/differential/random.rs"]
#[allow(dead_code)]
mod random;
mod resources;
#[path = "../../../apiserver/tests/differential/scene.rs"]
#[allow(dead_code)]
mod scene;
mod seen;
#[path = "../../../apiserver/tests/differential/world.rs"]
#[allow(dead_code)]
mod world;

use std::fmt::Write as _;

use berth_controller_manager::{Clock, Controller, ControllerManager, Controllers, Options};
use changes::Changes;
use futures::StreamExt;
use history::Step;
use serde_json::{Value, json};
use world::{Ask, Client};

/// The real controllers that these stand beside.
const REAL: &str = "deployment-controller,replicaset-controller,statefulset-controller,daemonset-controller,\
    job-controller,garbage-collector-controller,namespace-controller,disruption-controller,resourcequota-controller";
const OURS: [Controller; 9] = [
    Controller::Deployment,
    Controller::ReplicaSet,
    Controller::StatefulSet,
    Controller::DaemonSet,
    Controller::Job,
    Controller::GarbageCollector,
    Controller::Namespace,
    Controller::Disruption,
    Controller::ResourceQuota,
];
/// A history that differs is played again, in a namespace of its own: steps that follow one another without waiting may
/// find the controllers at different points, and what then differs once need not again.
const ATTEMPTS: u32 = 3;
/// Histories under way at a time.
const AT_ONCE: usize = 8;

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

/// A history, and what its widgets are of.
struct History {
    steps: Vec<Step>,
    definition: Option<u64>,
    /// Whether its definition ends with it.
    is_own: bool,
}

/// One of the two clusters.
#[derive(Clone)]
struct Cluster {
    client: Client,
    changes: Changes,
}

#[tokio::test(flavor = "multi_thread")]
async fn after_any_history_of_workloads_the_same_holds_as_with_the_real_controllers() {
    compare(0, |seed| History { steps: history::of(seed), definition: None, is_own: false }).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn after_any_history_of_custom_resources_the_same_holds_as_with_the_real_controllers() {
    compare(resources::STANDING, |seed| {
        let subject = resources::subject(seed);
        History { steps: resources::of(seed), definition: Some(subject.definition), is_own: subject.is_own }
    })
    .await;
}

async fn compare(n_before: u64, history: impl Fn(u64) -> History) {
    let controllers = format!("--controllers={REAL}");
    let flags = ["--controller-manager", &controllers, "--service-account-admission=false"];
    let Some(mut real) = world::Real::start(&flags) else {
        eprintln!("no Go in the PATH: nothing was compared");
        return;
    };
    let (server, listener) = world::ours().await;
    let now = server.clone();
    let options = Options { controllers: Controllers::of(&OURS), ..Options::new(Clock::new(move || now.now())) };
    let own = kube::Client::new(server, "default");
    tokio::spawn(ControllerManager::new(own, options).run(std::future::pending()));
    let kubeconfig = kube::config::Kubeconfig::from_yaml(&listener.kubeconfig()).unwrap();
    let (theirs, ours) = (real.client().await, world::client(kubeconfig).await);
    for client in [&theirs, &ours] {
        for (name, pool) in [("n1", "a"), ("n2", "a"), ("n3", "b")] {
            let node =
                json!({"kind": "Node", "apiVersion": "v1", "metadata": {"name": name, "labels": {"pool": pool}}});
            ask(client, "POST", "/api/v1/nodes", &node).await;
        }
        for number in 0..n_before {
            assert_eq!(history::define(client, number).await.0, 201, "definition {number}");
        }
    }
    if n_before > 0 {
        // The real garbage collector asks every half minute which kinds there are, and when it starts.
        real.restart("kube-controller-manager");
    }
    let [theirs, ours] =
        [theirs, ours].map(|client| Cluster { changes: Changes::watch(client.inner(), n_before), client });
    let one = number("SEED");
    let first = number("FROM").unwrap_or_default();
    let seeds = one.map_or(first..first + number("SEEDS").unwrap_or(16), |seed| seed..seed + 1);
    let n_seeds = seeds.end - seeds.start;
    let plays = futures::stream::iter(seeds).map(|seed| {
        let (theirs, ours) = (theirs.clone(), ours.clone());
        let history = history(seed);
        async move {
            let mut attempt = 1;
            loop {
                let namespace = format!("s{seed}-{attempt}");
                let (real, own) = tokio::join!(
                    play(&theirs, &namespace, &history, false),
                    play(&ours, &namespace, &history, one.is_some())
                );
                if real == own || attempt == ATTEMPTS {
                    return (seed, history.steps, real, own);
                }
                attempt += 1;
            }
        }
    });
    let mut report = String::new();
    let (mut n_done, mut differ) = (0, 0);
    let mut plays = std::pin::pin!(plays.buffered(number("AT_ONCE").map_or(AT_ONCE, |n| n.try_into().unwrap())));
    while let Some((seed, steps, theirs, ours)) = plays.next().await {
        n_done += 1;
        if theirs != ours {
            differ += 1;
            let before = report.len();
            let _ = writeln!(report, "== seed {seed}");
            for step in &steps {
                let _ = writeln!(report, "   {step}");
            }
            for line in beyond(&theirs, &ours) {
                let _ = writeln!(report, "-- real: {line}");
            }
            for line in beyond(&ours, &theirs) {
                let _ = writeln!(report, "-- ours: {line}");
            }
            eprint!("{}", &report[before..]);
        }
        if n_done % 100 == 0 {
            eprintln!("{n_done} histories, {differ} differ");
        }
    }
    eprintln!("{n_seeds} histories, {differ} differ");
    assert!(report.is_empty(), "{report}");
}

/// The lines that one side has more often than the other.
fn beyond<'l>(some: &'l [String], other: &[String]) -> Vec<&'l String> {
    let mut other: Vec<&String> = other.iter().collect();
    let mut out = Vec::new();
    for line in some {
        match other.iter().position(|known| *known == line) {
            Some(place) => {
                other.swap_remove(place);
            }
            None => out.push(line),
        }
    }
    out
}

pub(crate) async fn ask(client: &Client, method: &str, path: &str, body: &Value) -> (u16, Value) {
    let kind = if method == "PATCH" { "application/merge-patch+json" } else { "application/json" };
    let headers = vec![("content-type".to_owned(), kind.to_owned())];
    let body = if body.is_null() { Vec::new() } else { body.to_string().into_bytes() };
    let ask = Ask { method: method.to_owned(), path: path.to_owned(), headers, body, lines: None };
    let answer = client.ask(&ask).await;
    (answer.code, answer.body)
}

/// Plays a history in a namespace of its own, and says what was answered to what followed a rest, and what holds in the
/// end.
async fn play(cluster: &Cluster, namespace: &str, history: &History, is_told: bool) -> Vec<String> {
    let client = &cluster.client;
    ask(client, "POST", "/api/v1/namespaces", &json!({"metadata": {"name": namespace}})).await;
    let mut out = Vec::new();
    let mut has_settled = true;
    for (number, step) in history.steps.iter().enumerate() {
        let said = step.play(client, namespace).await;
        if is_told {
            eprintln!("{step}: {said}");
        }
        if has_settled && history.definition.is_some() {
            out.push(format!("step {number} is answered {}", said.split(' ').next().unwrap_or_default()));
        }
        has_settled = step.settles;
        if step.settles {
            live(cluster, namespace).await;
        }
    }
    live(cluster, namespace).await;
    out.extend(seen::lines(client, namespace, history.definition).await);
    if let Some(definition) = history.definition.filter(|_| history.is_own) {
        history::remove(client, namespace, definition).await;
    }
    out
}

/// Waits until nothing changes, has pods do what their images say, and again, until that changes nothing either.
async fn live(cluster: &Cluster, namespace: &str) {
    for _ in 0..20 {
        cluster.changes.settle(namespace).await;
        if !seen::run_pods(&cluster.client, namespace).await {
            return;
        }
    }
}
