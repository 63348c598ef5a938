//! Measures verdicts on every node of a large cluster, and compares some of them with the full what-if.
//!
//! `cargo run --release -p berth-disruption --example verdicts -- [nodes] [pods] [what-ifs] [load]`, 5000, 100000 and 10 where
//! nothing is said. With a load, in percent, each node has that much less of CPUs than its type, as if daemons took it: at 100
//! nothing fits elsewhere, and bound and search have to tell.

#[path = "../../decisions/examples/figures/mod.rs"]
mod figures;

use std::time::Instant;

use berth_api::NodePool;
use berth_decisions::Decider;
use berth_disruption::{Options, Verdict, verdicts, what_if_of};
use berth_state::{Event, Kind, Object, State};
use k8s_openapi::api::core::v1::{Node, Pod};
use serde_json::{Value, json};

use figures::{Failure, NOW, object};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const DEPLOYMENTS: usize = 2_000;
/// vCPUs, and by family GiB for each and dollars an hour for each.
const SIZES: [usize; 8] = [2, 4, 8, 16, 32, 48, 64, 96];
const FAMILIES: [(usize, f64); 12] = [
    (2, 0.0425),
    (2, 0.0408),
    (2, 0.0340),
    (2, 0.0362),
    (4, 0.0480),
    (4, 0.0505),
    (4, 0.0385),
    (4, 0.0432),
    (8, 0.0630),
    (8, 0.0665),
    (8, 0.0504),
    (8, 0.0567),
];
/// How full nodes are, in percent of their CPUs, and how many of a hundred.
const LOADS: [(usize, usize); 3] = [(95, 60), (70, 30), (30, 10)];

fn main() -> Result<(), Failure> {
    let mut arguments = std::env::args().skip(1).map(|text| text.parse::<usize>());
    let n_nodes = arguments.next().transpose()?.unwrap_or(5_000);
    let n_pods = arguments.next().transpose()?.unwrap_or(100_000);
    let n_what_ifs = arguments.next().transpose()?.unwrap_or(10);
    let load = arguments.next().transpose()?;
    let mut state = filled(n_nodes, n_pods, load)?;
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

fn filled(n_nodes: usize, n_pods: usize, load: Option<usize>) -> Result<State, Failure> {
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
                pods.into_iter().map(move |index| pod(index, at))
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

/// A node's size and family, and the pods that are on it: as many are meant for each, so the load decides its size.
fn planned(at: usize, per_node: usize) -> (usize, usize, Vec<usize>) {
    let draw = mixed(at);
    let (family, load) = (draw % FAMILIES.len(), load_of(draw / 100 % 100));
    let meant = at * per_node..(at + 1) * per_node;
    let wanted: usize = meant.clone().map(cpu_of).sum::<usize>() * 100 / load;
    let size = SIZES.iter().copied().find(|size| size * 1000 >= wanted).unwrap_or(96);
    let mut room = (size * 1000, size * FAMILIES[family].0 * 1024);
    let mut pods = Vec::with_capacity(per_node);
    for index in meant {
        let (cpu, memory) = (cpu_of(index), memory_of(index));
        if room.0 >= cpu && room.1 >= memory {
            room = (room.0 - cpu, room.1 - memory);
            pods.push(index);
        }
    }
    (size, family, pods)
}

// Numbers that look random, each by its place (splitmix64).
fn mixed(at: usize) -> usize {
    let mut z = (at as u64).wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    usize::try_from((z ^ (z >> 31)) >> 16).unwrap_or(0)
}

fn load_of(draw: usize) -> usize {
    let mut sum = 0;
    for (load, share) in LOADS {
        sum += share;
        if draw < sum {
            return load;
        }
    }
    100
}

fn cpu_of(pod: usize) -> usize {
    [100, 250, 500, 1_000, 200, 400, 750, 1_500, 150, 300][mixed(pod) % DEPLOYMENTS % 10]
}

fn memory_of(pod: usize) -> usize {
    [256, 512, 1_024, 2_048, 300, 700, 1_500][mixed(pod) % DEPLOYMENTS % 7]
}

fn name_of(size: usize, family: usize) -> String {
    format!("f{family}.{size}")
}

fn zone_of(i: usize) -> String {
    format!("zone-{}", i % 3)
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

fn catalogue() -> Value {
    let requirement = |key: &str, value: &str| json!({"key": key, "operator": "In", "values": [value]});
    let mut types = Vec::new();
    for (family, (memory, price)) in FAMILIES.iter().enumerate() {
        for size in SIZES {
            let cpus = f64::from(u32::try_from(size).unwrap_or(0));
            let offerings: Vec<Value> = (0..3)
                .map(|zone| {
                    json!({"Price": (price * cpus * 1e4).round() / 1e4, "Requirements": [
                        requirement("karpenter.sh/capacity-type", "on-demand"),
                        requirement("topology.kubernetes.io/zone", &zone_of(zone))]})
                })
                .collect();
            types.push(json!({"name": name_of(size, family), "architecture": "amd64", "operatingSystems": ["linux"],
                "resources": {"cpu": size.to_string(), "memory": format!("{}Gi", size * memory), "pods": "250"},
                "offerings": offerings}));
        }
    }
    json!(types)
}

// One in ten of the Deployments has a spread over zones, one in ten wants no two of its pods on a node.
fn pod(i: usize, on: usize) -> Result<Object, Failure> {
    let deployment = mixed(i) % DEPLOYMENTS;
    let app = json!({"matchLabels": {"app": format!("app-{deployment}")}});
    let mut spec = json!({"nodeName": format!("node-{on}"), "containers": [{"name": "app", "image": "app", "resources": {
        "requests": {"cpu": format!("{}m", cpu_of(i)), "memory": format!("{}Mi", memory_of(i))}}}]});
    match deployment / 10 % 10 {
        1 => {
            spec["topologySpreadConstraints"] = json!([{"maxSkew": 5, "topologyKey": "topology.kubernetes.io/zone",
                "whenUnsatisfiable": "DoNotSchedule", "labelSelector": app}]);
        }
        2 => {
            spec["affinity"] = json!({"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
                {"topologyKey": "kubernetes.io/hostname", "labelSelector": app}]}});
        }
        _ => {}
    }
    object::<Pod>(json!({
        "metadata": {"name": format!("app-{deployment}-{i}"), "namespace": format!("ns-{}", deployment % 50),
            "uid": format!("pod-{i}"), "creationTimestamp": format!("2026-01-01T00:{:02}:{:02}Z", i / 60 % 60, i % 60),
            "labels": {"app": format!("app-{deployment}"), "pod-template-hash": "abc"},
            "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": format!("app-{deployment}"),
                "uid": format!("rs-{deployment}"), "controller": true}]},
        "spec": spec, "status": {"phase": "Running"}}))
}
