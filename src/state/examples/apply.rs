//! Measures events applied to a large cluster, with a full conversion beside them in the same run.
//!
//! `cargo run --release -p berth-state --example apply -- [nodes] [pods]`, 5000 and 100000 where nothing is said.

use std::time::{Duration, Instant};

use berth_state::{Event, Kind, Object, Options, State, Time};
use k8s_openapi::api::core::v1::{Node, Pod};
use serde_json::json;

const NOW: Time = Time::UNIX_EPOCH;
const DEPLOYMENTS: usize = 2_000;
const EVENTS: usize = 2_000;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1).map(|text| text.parse::<usize>());
    let n_nodes = arguments.next().transpose()?.unwrap_or(5_000);
    let n_pods = arguments.next().transpose()?.unwrap_or(100_000);
    let mut state = State::new(Options::default());
    let nodes = (0..n_nodes).map(node).collect::<Result<Vec<_>, _>>()?;
    let pods = (0..n_pods).map(|i| pod(i, 0, Some(i % n_nodes))).collect::<Result<Vec<_>, _>>()?;
    let start = Instant::now();
    for (kind, objects) in [(Kind::Node, nodes), (Kind::Pod, pods)] {
        state.apply(Event::Relisted { kind, objects, resource_version: None }, NOW)?;
    }
    println!("{n_nodes} nodes, {n_pods} pods: listed in {:?}", start.elapsed());
    let start = Instant::now();
    let pods_on_nodes: usize = state.cluster(NOW).nodes.iter().map(|node| node.pods.len()).sum();
    let full = start.elapsed();
    println!("full conversion: {full:?}, {pods_on_nodes} pods on nodes");

    // Each event, and the cluster brought up to date with it.
    let step = (n_pods / EVENTS).max(1);
    let chosen: Vec<usize> = (0..n_pods).step_by(step).collect();
    measure("a status that decides nothing", &mut state, &chosen, |i| {
        let mut object = pod(i, 1, Some(i % n_nodes))?;
        if let Object::Pod(pod) = &mut object {
            let pod = std::sync::Arc::make_mut(pod);
            pod.status.get_or_insert_default().host_ip = Some("10.0.0.1".to_owned());
        }
        Ok(Event::Applied(object))
    })?;
    measure("a pod on a node is gone", &mut state, &chosen, |i| {
        let object = pod(i, 1, None)?.reference().ok_or("no name")?;
        Ok(Event::Deleted { object, resource_version: None })
    })?;
    measure("a pod is created", &mut state, &chosen, |i| Ok(Event::Applied(pod(i, 2, None)?)))?;
    measure("a pending pod is bound", &mut state, &chosen, |i| {
        Ok(Event::Applied(pod(i, 3, Some((i + 1) % n_nodes))?))
    })?;
    let start = Instant::now();
    state.forget_cluster();
    state.cluster(NOW);
    println!("full conversion again: {:?}", start.elapsed());
    Ok(())
}

fn measure(
    what: &str,
    state: &mut State,
    chosen: &[usize],
    event: impl Fn(usize) -> Result<Event, Box<dyn std::error::Error>>,
) -> Result<(), Box<dyn std::error::Error>> {
    let mut times = Vec::with_capacity(chosen.len());
    let mut with_cluster = Vec::with_capacity(chosen.len());
    for &i in chosen {
        let event = event(i)?;
        let start = Instant::now();
        state.apply(event, NOW)?;
        times.push(start.elapsed());
        state.cluster(NOW);
        with_cluster.push(start.elapsed());
    }
    times.sort_unstable();
    with_cluster.sort_unstable();
    let at = |times: &[Duration], part: usize| times.get(times.len() * part / 100).copied().unwrap_or_default();
    println!(
        "{what}: applied p50 {:?} p99 {:?}; with the cluster p50 {:?} p99 {:?}",
        at(&times, 50),
        at(&times, 99),
        at(&with_cluster, 50),
        at(&with_cluster, 99)
    );
    Ok(())
}

fn node(i: usize) -> Result<Object, serde_json::Error> {
    let room = json!({"cpu": "32", "memory": "128Gi", "pods": "110"});
    let node: Node = serde_json::from_value(json!({
        "metadata": {"name": format!("node-{i}"), "uid": format!("node-{i}"), "labels": {
            "kubernetes.io/hostname": format!("node-{i}"), "unique": format!("u{i}"),
            "topology.kubernetes.io/zone": format!("zone-{}", i % 3)}},
        "status": {"allocatable": room, "capacity": room}}))?;
    Ok(Object::from(node))
}

fn pod(i: usize, version: u64, on: Option<usize>) -> Result<Object, serde_json::Error> {
    let deployment = i % DEPLOYMENTS;
    let mut spec = json!({"containers": [{"name": "app", "image": format!("app-{deployment}"), "resources": {
        "requests": {"cpu": format!("{}m", 50 + deployment % 10 * 10), "memory": "128Mi"}}}]});
    if deployment.is_multiple_of(3) {
        spec["topologySpreadConstraints"] = json!([{"maxSkew": 1, "topologyKey": "topology.kubernetes.io/zone",
            "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": {"matchLabels": {"app": format!("app-{deployment}")}}}]);
    }
    if let Some(node) = on {
        spec["nodeName"] = format!("node-{node}").into();
    }
    let pod: Pod = serde_json::from_value(json!({
        "metadata": {"name": format!("app-{deployment}-{i}"), "namespace": format!("ns-{}", deployment % 50),
            "uid": format!("pod-{i}"), "resourceVersion": (version + 1).to_string(),
            "creationTimestamp": format!("2026-01-01T00:{:02}:{:02}Z", i / 60 % 60, i % 60),
            "labels": {"app": format!("app-{deployment}"), "pod-template-hash": "abc"},
            "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": format!("app-{deployment}"),
                "uid": format!("rs-{deployment}"), "controller": true}]},
        "spec": spec}))?;
    Ok(Object::from(pod))
}
