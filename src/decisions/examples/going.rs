//! Measures what a decision about one more pod takes while nodes go: their pods run yet, and have places elsewhere.
//!
//! `cargo run --release -p berth-decisions --example going -- [nodes] [pods] [rounds]`, 2000, 40000 and 50 where nothing is said.

mod figures;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use berth_decisions::{Decider, ExpectedNodes, Options};
use berth_state::{Event, Object, Patch, State};
use k8s_openapi::api::core::v1::{Node, Taint};
use serde_json::json;

use figures::{DEPLOYMENTS, Failure, NOW, arguments, cpu_time, filled, node_name_of, pod_with};

fn main() -> Result<(), Failure> {
    let [n_nodes, n_pods, n_rounds] = arguments([2_000, 40_000, 50])?;
    let mut state = filled(n_nodes, n_pods, DEPLOYMENTS)?;
    let mut decider = Decider::new();
    let mut n_tainted = 0;
    let small = json!({"containers": [{"name": "app", "resources": {"requests": {"cpu": "100m"}}}]});
    println!("{n_nodes} nodes, {n_pods} pods; CPU time of a decision for one more pod, {n_rounds} times: p50, at most");
    let mut number = 0;
    for n_going in [0, 50, 100, 200].map(|n| n * n_nodes / 2_000) {
        while n_tainted < n_going {
            taint(&mut state, n_nodes - 1 - n_tainted)?;
            n_tainted += 1;
        }
        let options = Options { launches: false, ..Options::default() };
        let decision = decider.decide(&mut state, &options, NOW)?;
        let mut places: BTreeMap<Arc<str>, BTreeSet<Box<str>>> = BTreeMap::new();
        for moves in &decision.moves {
            let pod = format!("{}/{}", moves.object.key.namespace, moves.object.key.name);
            places.entry(moves.node.key.name.clone()).or_default().insert(pod.into());
        }
        let expected: ExpectedNodes = places.into_iter().map(|(node, pods)| (node, Arc::new(pods))).collect();
        for (how, expected) in [("without places", ExpectedNodes::new()), ("with places", expected)] {
            let options = Options { launches: false, expected, ..Options::default() };
            let mut took: Vec<Duration> = Vec::new();
            for _ in 0..n_rounds {
                number += 1;
                let name = format!("more-{number}");
                state.apply(Event::Applied(pod_with(&name, &small)?))?;
                let start = cpu_time();
                let mut found = decider.decide_at_once(&mut state, &options, &BTreeSet::new(), NOW)?;
                if found.is_stale {
                    decider.refresh(&mut state, NOW);
                    found = decider.decide_at_once(&mut state, &options, &BTreeSet::new(), NOW)?;
                }
                took.push(cpu_time().saturating_sub(start));
                let [binding] = &found.decision.bindings[..] else { return Err("it is not bound".into()) };
                let patch = Patch::Bind { node: binding.node.key.name.clone(), annotations: BTreeMap::new() };
                state.assume(&binding.object, patch);
            }
            took.sort_unstable();
            let at = |at: usize| took.get(at).copied().unwrap_or_default();
            let (p50, most) = (at(took.len() / 2), at(took.len().saturating_sub(1)));
            println!(
                "{n_going} nodes with {} pods go, {how}: {:.2} ms, {:.2} ms",
                decision.moves.len(),
                p50.as_secs_f64() * 1e3,
                most.as_secs_f64() * 1e3
            );
        }
    }
    Ok(())
}

fn taint(state: &mut State, at: usize) -> Result<(), Failure> {
    let name = node_name_of(at);
    let mut node: Node = state.node(&name).ok_or("no node")?.to_node();
    let taint = Taint {
        key: berth_api::labels::DISRUPTED_TAINT.to_owned(),
        effect: "NoSchedule".to_owned(),
        ..Taint::default()
    };
    node.spec.get_or_insert_default().taints = Some(vec![taint]);
    state.apply(Event::Applied(Object::from(node)))?;
    Ok(())
}
