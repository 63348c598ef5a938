//! The workload of the figures: what 2,000 Deployments ask for, and nodes of 96 types for it, on demand in three zones, of which
//! most are nearly full, some less and a few hardly used.

use serde_json::{Value, json};

pub(crate) const DEPLOYMENTS: usize = 2_000;
/// vCPUs, and by family GiB for each and dollars an hour for each.
const SIZES: [usize; 8] = [2, 4, 8, 16, 32, 48, 64, 96];
pub(crate) const FAMILIES: [(usize, f64); 12] = [
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

/// A node's size and family, and the pods that are on it: as many are meant for each, so the load decides its size.
pub(crate) fn planned(at: usize, per_node: usize) -> (usize, usize, Vec<usize>) {
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

pub(crate) fn cpu_of(pod: usize) -> usize {
    [100, 250, 500, 1_000, 200, 400, 750, 1_500, 150, 300][mixed(pod) % DEPLOYMENTS % 10]
}

fn memory_of(pod: usize) -> usize {
    [256, 512, 1_024, 2_048, 300, 700, 1_500][mixed(pod) % DEPLOYMENTS % 7]
}

pub(crate) fn name_of(size: usize, family: usize) -> String {
    format!("f{family}.{size}")
}

pub(crate) fn zone_of(i: usize) -> String {
    format!("zone-{}", i % 3)
}

pub(crate) fn catalogue() -> Value {
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

/// One in ten of the Deployments has a spread over zones, one in ten wants no two of its pods on a node.
pub(crate) fn spec_of(pod: usize) -> Value {
    let deployment = deployment_of(pod);
    let app = json!({"matchLabels": {"app": format!("app-{deployment}")}});
    let mut spec = json!({"containers": [{"name": "app", "image": "app", "resources": {
        "requests": {"cpu": format!("{}m", cpu_of(pod)), "memory": format!("{}Mi", memory_of(pod))}}}]});
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
    spec
}

pub(crate) fn deployment_of(pod: usize) -> usize {
    mixed(pod) % DEPLOYMENTS
}

pub(crate) fn namespace_of(deployment: usize) -> String {
    format!("ns-{}", deployment % 50)
}
