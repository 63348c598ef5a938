//! Random histories, played to these controllers and to the real kube-controller-manager: once both have settled, the same
//! holds.
//!
//! ```sh
//! SEEDS=100 cargo test -p berth-controller-manager --test beside -- --nocapture
//! SEED=17 cargo test -p berth-controller-manager --test beside -- --nocapture    # this one alone, with its steps
//! ```
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, clippy::print_stderr)]

mod history;
mod seen;
#[path = "../../../apiserver/tests/differential/world.rs"]
#[allow(dead_code)]
mod world;

use std::fmt::Write as _;
use std::time::Duration;

use berth_controller_manager::{Clock, Controller, ControllerManager, Controllers, Options};
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
/// For so long nothing changes in a cluster that has settled.
const QUIET: Duration = Duration::from_millis(1500);

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

#[tokio::test(flavor = "multi_thread")]
async fn after_any_history_the_same_holds_as_with_the_real_controllers() {
    let controllers = format!("--controllers={REAL}");
    let Some(real) = world::Real::start(&["--controller-manager", &controllers, "--service-account-admission=false"])
    else {
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
    }
    let one = number("SEED");
    let seeds = one.map_or(0..number("SEEDS").unwrap_or(16), |seed| seed..seed + 1);
    let n_seeds = seeds.end - seeds.start;
    let plays = futures::stream::iter(seeds).map(|seed| {
        let (theirs, ours) = (theirs.clone(), ours.clone());
        async move {
            let steps = history::of(seed);
            let mut attempt = 1;
            loop {
                let namespace = format!("s{seed}-{attempt}");
                let (real, own) = tokio::join!(
                    play(&theirs, &namespace, &steps, false),
                    play(&ours, &namespace, &steps, one.is_some())
                );
                if real == own || attempt == ATTEMPTS {
                    return (seed, steps, real, own);
                }
                attempt += 1;
            }
        }
    });
    let mut report = String::new();
    let mut differ = 0;
    let mut plays = std::pin::pin!(plays.buffered(AT_ONCE));
    while let Some((seed, steps, theirs, ours)) = plays.next().await {
        if theirs != ours {
            differ += 1;
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

/// Plays a history in a namespace of its own, and says what holds in the end.
async fn play(client: &Client, namespace: &str, steps: &[Step], is_told: bool) -> Vec<String> {
    ask(client, "POST", "/api/v1/namespaces", &json!({"metadata": {"name": namespace}})).await;
    for step in steps {
        let said = step.play(client, namespace).await;
        if is_told {
            eprintln!("{step}: {said}");
        }
        if step.settles {
            live(client, namespace).await;
        }
    }
    live(client, namespace).await;
    seen::lines(client, namespace).await
}

/// Waits until nothing changes, has pods do what their images say, and again, until that changes nothing either.
async fn live(client: &Client, namespace: &str) {
    for _ in 0..20 {
        settle(client, namespace).await;
        if !seen::run_pods(client, namespace).await {
            return;
        }
    }
}

async fn settle(client: &Client, namespace: &str) {
    let step = Duration::from_millis(250);
    let (mut quiet, mut last) = (Duration::ZERO, Vec::new());
    for _ in 0..160 {
        tokio::time::sleep(step).await;
        let now = seen::lines(client, namespace).await;
        quiet = if now == last { quiet + step } else { Duration::ZERO };
        last = now;
        if quiet >= QUIET {
            return;
        }
    }
}
