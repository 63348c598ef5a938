//! Measures verdicts on every node of a large cluster, and compares some of them with the full what-if.
//!
//! `cargo run --release -p berth-disruption --example verdicts -- [nodes] [pods] [what-ifs] [load] [preferring]`, 5000, 100000 and 10
//! where nothing is said. With a load, in percent, each node has that much less of CPUs than its type, as if daemons took it: at 100
//! nothing fits elsewhere, and bound and search have to tell. 0 is none. So many of a hundred Deployments prefer a spread over zones
//! and to have no two pods on a node: 0 where nothing is said.

#[path = "../../../decisions/examples/figures/mod.rs"]
mod figures;
mod workload;

use std::time::Instant;

use berth_api::NodePool;
use berth_decisions::Decider;
use berth_disruption::{Options, Verdict, verdicts, what_if_of};
use berth_state::{Event, Kind, Object, State};
use k8s_openapi::api::core::v1::{Node, Pod};
use serde_json::{Value, json};

use figures::{Failure, NOW, object};
use workload::{FAMILIES, catalogue, cpu_of, deployment_of, name_of, namespace_of, planned, zone_of};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> Result<(), Failure> {
    let [n_nodes, n_pods, n_what_ifs, load, preferring] = figures::arguments([5_000, 100_000, 10, 0, 0])?;
    let mut state = filled(n_nodes, n_pods, (load > 0).then_some(load), preferring)?;
    println!("the state has them: {}", memory());
    let start = Instant::now();
    state.cluster(NOW);
    println!("{n_nodes} nodes, {n_pods} pods: converted in {:?}, {}", start.elapsed(), memory());
    let options = Options::default();
    let mut decider = Decider::new();
    let mut last = None;
    for again in ["for the first time", "again"] {
        let (start, cpu) = (Instant::now(), figures::cpu_time());
        let found = verdicts(&mut state, &mut decider, &options, NOW)?;
        let cpu = figures::cpu_time().saturating_sub(cpu);
        println!("a verdict for every node, {again}: {:?}, {cpu:?} of CPU, {}", start.elapsed(), memory());
        last = Some(found);
    }
    let Some(found) = last else { return Ok(()) };
    let tally = found.tally;
    let share = |part: usize| {
        100.0 * f64::from(u32::try_from(part).unwrap_or(u32::MAX))
            / f64::from(u32::try_from(n_nodes).unwrap_or(u32::MAX))
    };
    println!(
        "of the nodes: {:.1}% fit elsewhere, {:.1}% refused by the bound, {:.1}% replaced by a quick packing, {:.1}% searched \
         ({} plans), {:.1}% unknown",
        share(tally.fits),
        share(tally.by_bound),
        share(tally.by_packing),
        share(tally.searched),
        tally.plans,
        share(tally.unknown)
    );
    let count = |is: fn(&Verdict) -> bool| found.nodes.values().filter(|verdict| is(verdict)).count();
    println!(
        "verdicts: {} pay, {} stay, {} blocked, {} unknown",
        count(|verdict| matches!(verdict, Verdict::Pays { .. })),
        count(|verdict| matches!(verdict, Verdict::Stays(_))),
        count(|verdict| matches!(verdict, Verdict::Blocked(_))),
        count(|verdict| matches!(verdict, Verdict::Unknown))
    );
    let step = (n_nodes / n_what_ifs.max(1)).max(1);
    let start = Instant::now();
    let (mut same, mut asked, mut more, mut less) = (0, 0, 0, 0);
    for (node, verdict) in found.nodes.iter().step_by(step).take(n_what_ifs) {
        let full = what_if_of(&mut state, node, &options, NOW)?;
        asked += 1;
        let is_same = match (verdict, &full) {
            (Verdict::Pays { savings: a, by_packing, .. }, Verdict::Pays { savings: b, .. }) => {
                more += usize::from(*by_packing && a < b);
                less += usize::from(*by_packing && a > b);
                *by_packing || a == b
            }
            (Verdict::Stays(_), Verdict::Stays(_))
            | (Verdict::Blocked(_), Verdict::Blocked(_))
            | (Verdict::Unknown, _) => true,
            _ => false,
        };
        same += usize::from(is_same);
        if !is_same {
            println!("{node}: {verdict:?}, and by the full what-if {full:?}");
        }
    }
    if asked > 0 {
        println!("{same} of {asked} as the full what-if has them, which takes {:?} each", start.elapsed() / asked);
        println!("of those by a quick packing it saves more for {more}, and less for {less}");
    }
    Ok(())
}

fn memory() -> String {
    format!("{} MiB at most", figures::memory().1)
}

fn filled(n_nodes: usize, n_pods: usize, load: Option<usize>, preferring: usize) -> Result<State, Failure> {
    let mut state = State::new(berth_state::Options::default());
    let per_node = n_pods / n_nodes.max(1);
    let mut n_placed = 0;
    for &kind in Kind::ALL {
        let objects: Box<dyn Iterator<Item = Result<Object, Failure>>> = match kind {
            Kind::Node => Box::new((0..n_nodes).map(|at| {
                let (size, family, pods) = planned(at, per_node);
                let used: usize = pods.iter().copied().map(cpu_of).sum();
                let millis = load.map_or(size * 1000, |load| (used * 100 / load.max(1)).min(size * 1000));
                node(at, size, family, millis)
            })),
            Kind::Pod => Box::new((0..n_nodes).flat_map(|at| {
                let pods = planned(at, per_node).2;
                n_placed += pods.len();
                pods.into_iter().map(move |index| pod(index, at, preferring))
            })),
            Kind::NodePool => Box::new(std::iter::once(object::<NodePool>(json!({"apiVersion": "karpenter.sh/v1",
                "kind": "NodePool", "metadata": {"name": "pool", "uid": "pool"},
                "spec": {"disruption": {"budgets": [{"nodes": "100%"}]},
                "template": {"spec": {"nodeClassRef": {"group": "berth.sh", "kind": "FakeNodeClass", "name": "x"},
                "requirements": []}}}})))),
            _ => Box::new(std::iter::empty()),
        };
        figures::list(&mut state, kind, objects)?;
    }
    println!("{n_placed} pods are on nodes");
    let catalogue = berth_catalogue::read(catalogue().to_string().as_bytes(), "types.json")?;
    state.apply(Event::Offered { catalogue: catalogue.into(), seen: None })?;
    Ok(state)
}

fn node(i: usize, size: usize, family: usize, milli_cpu: usize) -> Result<Object, Failure> {
    let room =
        json!({"cpu": format!("{milli_cpu}m"), "memory": format!("{}Gi", size * FAMILIES[family].0), "pods": "250"});
    object::<Node>(json!({
        "metadata": {"name": format!("node-{i}"), "uid": format!("node-{i}"), "labels": {
            "kubernetes.io/hostname": format!("node-{i}"), "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64",
            "karpenter.sh/nodepool": "pool", "karpenter.sh/capacity-type": "on-demand", "karpenter.sh/initialized": "true",
            "node.kubernetes.io/instance-type": name_of(size, family), "topology.kubernetes.io/zone": zone_of(i)}},
        "status": {"allocatable": room, "capacity": room}}))
}

fn pod(i: usize, on: usize, preferring: usize) -> Result<Object, Failure> {
    let deployment = deployment_of(i);
    let mut spec = workload::spec_of(i);
    if deployment % 100 < preferring
        && spec.get("topologySpreadConstraints").is_none()
        && spec.get("affinity").is_none()
    {
        prefer_to_part(&mut spec, deployment);
    }
    spec["nodeName"] = format!("node-{on}").into();
    object::<Pod>(json!({
        "metadata": {"name": format!("app-{deployment}-{i}"), "namespace": namespace_of(deployment),
            "uid": format!("pod-{i}"), "creationTimestamp": format!("2026-01-01T00:{:02}:{:02}Z", i / 60 % 60, i % 60),
            "labels": {"app": format!("app-{deployment}"), "pod-template-hash": "abc"},
            "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": format!("app-{deployment}"),
                "uid": format!("rs-{deployment}"), "controller": true}]},
        "spec": spec, "status": {"phase": "Running"}}))
}

/// Pods of a Deployment that are to be in all zones alike and on nodes of their own, if that can be.
fn prefer_to_part(spec: &mut Value, deployment: usize) {
    let app = json!({"matchLabels": {"app": format!("app-{deployment}")}});
    let spread = json!({"maxSkew": 5, "topologyKey": "topology.kubernetes.io/zone", "whenUnsatisfiable": "ScheduleAnyway",
        "labelSelector": app});
    spec["topologySpreadConstraints"] = json!([spread]);
    spec["affinity"] = json!({"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [
        {"weight": 100, "podAffinityTerm": {"topologyKey": "kubernetes.io/hostname", "labelSelector": app}}]}});
}
