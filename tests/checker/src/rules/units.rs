//! CPUs that pods have to themselves, and NUMA nodes that pods lie on: on existing nodes, as the plan's annotations say.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::plan::{NodeUse, Plan};
use crate::quantity;
use crate::violation::Violation;
use crate::world::{Pod, World};

const RULE: &str = "units";
const POLICY: &str = "node.koordinator.sh/numa-topology-policy";
const SPEC: &str = "scheduling.koordinator.sh/numa-topology-spec";
const STATUS: &str = "scheduling.koordinator.sh/resource-status";

/// What a pod has by the annotation: CPUs, and how much of each NUMA node.
#[derive(Debug, Default)]
struct Status {
    cpus: BTreeSet<u32>,
    numa: BTreeMap<u64, BTreeMap<String, i128>>,
}

fn cpu_list(text: &str) -> BTreeSet<u32> {
    let part = |part: &str| -> Option<(u32, u32)> {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        Some((first.trim().parse().ok()?, last.trim().parse().ok()?))
    };
    text.split(',').filter_map(part).flat_map(|(first, last)| first..=last).collect()
}

fn status(annotations: Option<&BTreeMap<String, String>>) -> Option<Status> {
    let written: Value = serde_json::from_str(annotations?.get(STATUS)?).ok()?;
    let numa = written["numaNodeResources"].as_array().into_iter().flatten().map(|entry| {
        let amounts = entry["resources"].as_object().into_iter().flatten();
        let amounts = amounts.filter_map(|(name, amount)| Some((name.clone(), quantity::parse(amount.as_str()?)?)));
        (entry["node"].as_u64().unwrap_or(u64::MAX), amounts.collect())
    });
    Some(Status { cpus: cpu_list(written["cpuset"].as_str().unwrap_or_default()), numa: numa.collect() })
}

fn annotation(topology: &Value, key: &str) -> Value {
    let text = topology["metadata"]["annotations"][key].as_str().unwrap_or("null");
    serde_json::from_str(text).unwrap_or(Value::Null)
}

/// The CPUs that a node lets pods have, and those that pods have which go on running there.
fn cpus(world: &World, used: &NodeUse, topology: &Value) -> (BTreeSet<u32>, BTreeSet<u32>) {
    let written = annotation(topology, "node.koordinator.sh/cpu-topology");
    let ids = written["detail"].as_array().into_iter().flatten().filter_map(|cpu| cpu["id"].as_u64()?.try_into().ok());
    let kept = annotation(topology, "node.koordinator.sh/pod-cpu-allocs");
    let kept =
        kept.as_array().into_iter().flatten().flat_map(|own| cpu_list(own["cpuset"].as_str().unwrap_or_default()));
    let running = world.pods.iter().filter(|pod| pod.node.as_ref() == Some(&used.name));
    let staying = running.filter(|pod| !used.preempted.contains(&pod.name));
    let in_use = staying.filter_map(|pod| status(pod.meta.annotations.as_ref())).flat_map(|status| status.cpus);
    let kept: BTreeSet<u32> = kept.collect();
    (ids.filter(|id| !kept.contains(id)).collect(), in_use.collect())
}

/// How many CPUs a pod must have to itself.
fn own_cpus(pod: &Pod) -> Option<usize> {
    let class = pod.labels.get("koordinator.sh/qosClass").map(String::as_str);
    let text = pod.meta.annotations.as_ref().and_then(|all| all.get("scheduling.koordinator.sh/resource-spec"));
    let spec: Value = text.and_then(|text| serde_json::from_str(text).ok()).unwrap_or(Value::Null);
    let policy = ["requiredCPUBindPolicy", "preferredCPUBindPolicy"].iter().find_map(|key| spec[key].as_str());
    let is_exclusive = matches!(class, Some("LSR" | "LSE"))
        && matches!(policy, None | Some("" | "Default" | "FullPCPUs" | "SpreadByPCPUs"));
    let nano = pod.requests.get("cpu").copied().unwrap_or_default();
    is_exclusive.then(|| usize::try_from(nano / 1_000_000_000).unwrap_or(usize::MAX))
}

/// Whether a pod must lie on one NUMA node here.
fn must_be_on_one(world: &World, pod: &Pod, node: &str) -> bool {
    let label = world.nodes.get(node).and_then(|node| node.metadata.labels.as_ref()?.get(POLICY));
    let text = pod.meta.annotations.as_ref().and_then(|all| all.get(SPEC));
    let own: Value = text.and_then(|text| serde_json::from_str(text).ok()).unwrap_or(Value::Null);
    label.map(String::as_str) == Some("SingleNUMANode") || own["numaTopologyPolicy"] == "SingleNUMANode"
}

fn on_node(world: &World, used: &NodeUse, topology: &Value) -> Vec<Violation> {
    let mut found = Vec::new();
    let (available, mut taken) = cpus(world, used, topology);
    let zones = topology["zones"].as_array().map_or(&[][..], Vec::as_slice);
    let counts_cpus = |zone: &Value| zone["resources"].as_array().into_iter().flatten().any(|of| of["name"] == "cpu");
    let mut on_numa: BTreeMap<u64, i128> = BTreeMap::new();
    for name in &used.pods {
        let Some(pod) = world.pod_index.get(name).and_then(|at| world.pods.get(*at)) else { continue };
        let mut say = |detail: String| found.push(Violation::new(RULE, name, format!("on {}: {detail}", used.name)));
        let said = used.assigned.iter().find(|own| own.pod.as_ref() == Some(name));
        let own = said.and_then(|own| status(Some(&own.annotations))).unwrap_or_default();
        let wanted = own_cpus(pod).filter(|_| !available.is_empty());
        if wanted.is_some_and(|wanted| own.cpus.len() != wanted) {
            say(format!("has CPUs {:?} to itself, not {wanted:?} of them", own.cpus));
        }
        for cpu in &own.cpus {
            if !available.contains(cpu) {
                say(format!("has CPU {cpu}, which the node does not let pods have"));
            }
            if !taken.insert(*cpu) && pod.nominated.as_deref() != Some(&used.name) {
                say(format!("has CPU {cpu}, which another has"));
            }
        }
        // A node that keeps all its CPUs from pods does not count them.
        let counts = !available.is_empty() && zones.iter().any(counts_cpus);
        if counts && must_be_on_one(world, pod, &used.name) {
            let lies: BTreeSet<&u64> = own.numa.keys().collect();
            let asked = pod.requests.get("cpu").copied().unwrap_or_default();
            let has: i128 = own.numa.values().filter_map(|amounts| amounts.get("cpu")).sum();
            if asked > 0 && (lies.len() != 1 || has != asked) {
                say(format!("must lie on one NUMA node, and has {} CPUs on {lies:?}", quantity::show(has)));
            }
        }
        for (id, amounts) in &own.numa {
            *on_numa.entry(*id).or_default() += amounts.get("cpu").copied().unwrap_or_default();
        }
    }
    for zone in zones {
        let id = zone["name"].as_str().and_then(|name| name.strip_prefix("node-")?.parse::<u64>().ok());
        let of_cpu = zone["resources"].as_array().into_iter().flatten().find(|of| of["name"] == "cpu");
        let has = of_cpu.and_then(|of| quantity::parse(of["allocatable"].as_str()?));
        if let (Some(id), Some(has)) = (id, has)
            && let Some(sum) = on_numa.get(&id).filter(|sum| **sum > has)
        {
            let detail = format!("{} CPUs on NUMA node {id} of {}", quantity::show(*sum), quantity::show(has));
            found.push(Violation::new(RULE, &used.name, detail));
        }
    }
    found
}

pub(crate) fn check(world: &World, plan: &Plan) -> Vec<Violation> {
    let nodes = plan.nodes.iter().filter_map(|used| Some((used, world.topologies.get(&used.name)?)));
    nodes.flat_map(|(used, topology)| on_node(world, used, topology)).collect()
}
