//! CPUs and devices one by one: what nodes have, what pods ask for and have.

use std::collections::BTreeMap;

use berth_api::labels::koordinator;
use berth_api::{Device as Object, NodeResourceTopology, ResourceList};
use berth_model::{
    Assigned, Cluster, Cpu, CpuBinding, CpuSet, Device, DeviceAsk, NumaNode, NumaPolicy, Refusal, ResourceId,
    Resources, Sym, Units,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::Deserialize;

use crate::draft::Draft;
use crate::quantities::{Amounts, Named};
use crate::{Problem, annotations};

const GPU_CORE: &str = "koordinator.sh/gpu-core";
const GPU_RATIO: &str = "koordinator.sh/gpu-memory-ratio";
const GPU_MEMORY: &str = "koordinator.sh/gpu-memory";
/// Shares in percent of GPUs, and GPUs.
const GPU_SHARE: &str = "koordinator.sh/gpu";
const GPU_WHOLE: [&str; 3] = ["nvidia.com/gpu", "hygon.com/dcu", "amd.com/gpu"];
/// Other devices, in percent: the resource, and their kind.
const OTHERS: [(&str, &str); 2] = [("koordinator.sh/rdma", "rdma"), ("koordinator.sh/fpga", "fpga")];
/// Koordinator's reason.
const NOT_INTEGER: &str = "the requested CPUs must be integer";

#[derive(Default, Deserialize)]
#[serde(default)]
struct CpuTopology {
    detail: Vec<CpuInfo>,
}

#[derive(Clone, Copy, Default, Deserialize)]
#[serde(default)]
struct CpuInfo {
    id: u32,
    core: u32,
    socket: u32,
    node: u32,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct CpuList {
    cpuset: String,
    #[serde(rename = "cpusetExclusive")]
    is_exclusive: Option<bool>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Reserved {
    #[serde(rename = "reservedCPUs")]
    reserved_cpus: String,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct ResourceSpec {
    #[serde(rename = "preferredCPUBindPolicy")]
    preferred: String,
    #[serde(rename = "requiredCPUBindPolicy")]
    required: String,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct NumaSpec {
    #[serde(rename = "numaTopologyPolicy")]
    policy: String,
    #[serde(rename = "singleNUMANodeExclusive")]
    exclusive: String,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Status {
    cpuset: String,
    numa_node_resources: Vec<OnNuma>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct OnNuma {
    node: u32,
    resources: ResourceList,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Allocation {
    minor: u32,
    resources: ResourceList,
}

fn list(text: &str, key: &str) -> Result<CpuSet, Problem> {
    text.parse().map_err(|error| annotations::at(key, format!("{error}")))
}

/// The CPUs of a node that pods may be bound to: but for those that node, kubelet, system and kubelet's own pods keep; and
/// what its NUMA nodes have without these.
pub(crate) fn read_topology(object: &NodeResourceTopology, cluster: &mut Cluster) -> Result<Units, Problem> {
    let notes = object.metadata.annotations.as_ref();
    let key = koordinator::NODE_CPU_TOPOLOGY;
    let example = r#"{"detail":[{"id":0,"core":0,"socket":0,"node":0}]}"#;
    let topology: CpuTopology = annotations::read(notes, key, example)?.unwrap_or_default();
    let mut kept = CpuSet::default();
    let mut are_kept_listed = false;
    for key in [koordinator::NODE_RESERVATION, koordinator::KUBELET_CPU_MANAGER_POLICY] {
        let reserved: Reserved = annotations::read(notes, key, r#"{"reservedCPUs":"0-3"}"#)?.unwrap_or_default();
        let reserved = list(&reserved.reserved_cpus, key)?;
        are_kept_listed |= key == koordinator::NODE_RESERVATION && !reserved.is_empty();
        kept = kept.union(&reserved);
    }
    let key = koordinator::NODE_SYSTEM_QOS;
    let system: CpuList = annotations::read(notes, key, r#"{"cpuset":"0-1"}"#)?.unwrap_or_default();
    if system.is_exclusive != Some(false) {
        kept = kept.union(&list(&system.cpuset, key)?);
    }
    let key = koordinator::NODE_CPU_ALLOCS;
    let pods: Vec<CpuList> = annotations::read(notes, key, r#"[{"cpuset":"4-5"}]"#)?.unwrap_or_default();
    for pod in pods {
        kept = kept.union(&list(&pod.cpuset, key)?);
    }
    // Cores may be numbered anew in each socket.
    let mut cores: Vec<(u32, u32, u32)> = topology.detail.iter().map(|cpu| (cpu.socket, cpu.node, cpu.core)).collect();
    cores.sort_unstable();
    cores.dedup();
    let core = |cpu: &CpuInfo| cores.binary_search(&(cpu.socket, cpu.node, cpu.core)).unwrap_or_default();
    let free = topology.detail.iter().filter(|cpu| !kept.contains(cpu.id));
    let mut cpus: Vec<Cpu> = free
        .map(|cpu| Cpu { id: cpu.id, core: u32::try_from(core(cpu)).unwrap_or(u32::MAX), numa: cpu.node })
        .collect();
    cpus.sort_unstable();
    cpus.dedup_by_key(|cpu| cpu.id);
    let kept_on = |numa: u32| {
        let kept = topology.detail.iter().filter(|cpu| cpu.node == numa && kept.contains(cpu.id)).count();
        i64::try_from(kept).unwrap_or(i64::MAX)
    };
    let mut numa = Vec::new();
    for (i, zone) in object.zones.iter().enumerate().filter(|(_, zone)| zone.kind == "Node") {
        let Some(id) = zone.name.strip_prefix("node-").and_then(|number| number.parse().ok()) else { continue };
        let allocatable = zone.resources.iter().map(|of| (of.name.clone(), of.allocatable)).collect();
        let mut amounts = Amounts::read_exact(&allocatable, Named::Offered, cluster)
            .map_err(|problem| problem.under(format!("zones[{i}].resources")))?
            .rounded_up();
        // Before what is kept is taken off: a node that keeps all of its CPUs has none, where one that reports none says
        // nothing of them.
        let reported = amounts.iter().filter(|(_, amount)| *amount > 0).map(|(id, _)| id).collect();
        if amounts.get(ResourceId::CPU) > 0 {
            let free = amounts.get(ResourceId::CPU).saturating_sub(kept_on(id).saturating_mul(1000));
            amounts.set(ResourceId::CPU, free.max(0));
        }
        numa.push(NumaNode { id, amounts, reported });
    }
    numa.sort_by_key(|node| node.id);
    numa.dedup_by_key(|node| node.id);
    // Those of the kubelet that are about whole pods.
    let policy = object.topology_policies.iter().find_map(|policy| match policy.as_str() {
        "SingleNUMANodePodLevel" => Some(NumaPolicy::SingleNode),
        name @ ("BestEffort" | "Restricted") => NumaPolicy::of_name(name),
        _ => None,
    });
    Ok(Units { cpus, devices: Vec::new(), numa, policy, are_kept_listed, is_unknown: false })
}

/// The NUMA policy that a node's label names, or its kubelet has.
pub(crate) fn node_policy(label: Option<&str>, of_kubelet: Option<NumaPolicy>) -> Option<NumaPolicy> {
    label.and_then(NumaPolicy::of_name).or(of_kubelet)
}

/// The devices of a node that work.
pub(crate) fn read_devices(object: &Object, cluster: &mut Cluster) -> Result<Vec<Device>, Problem> {
    let mut devices = Vec::with_capacity(object.spec.devices.len());
    for (i, info) in object.spec.devices.iter().enumerate().filter(|(_, info)| info.health) {
        let path = format!("spec.devices[{i}]");
        let Some(minor) = info.minor.and_then(|minor| u32::try_from(minor).ok()) else {
            return Err(Problem::new(format!("{path}.minor"), "expected a number from 0"));
        };
        let total = Amounts::read_exact(&info.resources, Named::Offered, cluster)
            .map_err(|problem| problem.under(format!("{path}.resources")))?
            .rounded_up();
        let memory = [GPU_RATIO, GPU_MEMORY].map(|name| find(cluster, name).filter(|id| total.get(*id) > 0));
        let memory = match memory {
            [Some(percent), Some(bytes)] => Some((percent, bytes)),
            _ => None,
        };
        let numa = info.topology.as_ref().and_then(|topology| u32::try_from(topology.node_id).ok());
        devices.push(Device { kind: cluster.symbols.intern(&info.kind), minor, numa, total, memory });
    }
    devices.sort_by_key(|device| (device.kind, device.minor));
    devices.dedup_by_key(|device| (device.kind, device.minor));
    Ok(devices)
}

// Of a resource that was named before; others stay unknown.
fn find(cluster: &Cluster, name: &str) -> Option<ResourceId> {
    let name = cluster.symbols.get(name)?;
    cluster.resource_names.get(name)
}

/// Both, by node.
pub(crate) fn together(
    topologies: impl IntoIterator<Item = (Sym, Units)>,
    devices: impl IntoIterator<Item = (Sym, Vec<Device>)>,
) -> BTreeMap<Sym, Units> {
    let mut units: BTreeMap<Sym, Units> = topologies.into_iter().collect();
    for (node, devices) in devices {
        units.entry(node).or_default().devices = devices;
    }
    units
}

/// What a pod of this metadata asks for to have to itself, into its draft.
pub(crate) fn add_ask(metadata: &ObjectMeta, draft: &mut Draft) -> Result<(), Problem> {
    add_numa_ask(metadata, draft)?;
    let label = metadata.labels.as_ref().and_then(|labels| labels.get(koordinator::QOS_CLASS));
    if !label.is_some_and(|class| matches!(class.as_str(), "LSE" | "LSR")) {
        return Ok(());
    }
    let notes = metadata.annotations.as_ref();
    let example = r#"{"preferredCPUBindPolicy":"FullPCPUs"}"#;
    let spec: ResourceSpec = annotations::read(notes, koordinator::RESOURCE_SPEC, example)?.unwrap_or_default();
    let policy = if spec.required.is_empty() { &spec.preferred } else { &spec.required };
    let binding = match policy.as_str() {
        "SpreadByPCPUs" => CpuBinding::SpreadCores,
        "" | "Default" | "FullPCPUs" => CpuBinding::FullCores,
        // It shares CPUs with others after all.
        _ => return Ok(()),
    };
    let milli = draft.spec.requests.get(ResourceId::CPU);
    if milli % 1000 != 0 {
        draft.spec.refusal.get_or_insert(Refusal(NOT_INTEGER.to_owned()));
    }
    draft.spec.units.cpus = u32::try_from(milli / 1000).unwrap_or(u32::MAX);
    draft.spec.units.binding = binding;
    draft.spec.units.must_bind_so = !spec.required.is_empty();
    Ok(())
}

fn add_numa_ask(metadata: &ObjectMeta, draft: &mut Draft) -> Result<(), Problem> {
    let key = koordinator::NUMA_TOPOLOGY_SPEC;
    let example = r#"{"numaTopologyPolicy":"SingleNUMANode"}"#;
    let spec: Option<NumaSpec> = annotations::read(metadata.annotations.as_ref(), key, example)?;
    let Some(spec) = spec else { return Ok(()) };
    let ask = &mut draft.spec.units;
    ask.policy = NumaPolicy::of_name(&spec.policy);
    if ask.policy.is_none() && !spec.policy.is_empty() {
        let message = format!("found {:?}, expected BestEffort, Restricted or SingleNUMANode", spec.policy);
        return Err(annotations::at(key, format!("numaTopologyPolicy: {message}")));
    }
    ask.is_exclusive = match spec.exclusive.as_str() {
        "" => ask.policy.is_some(),
        "Required" => true,
        "Preferred" => false,
        other => {
            let message = format!("found {other:?}, expected Preferred or Required");
            return Err(annotations::at(key, format!("singleNUMANodeExclusive: {message}")));
        }
    };
    Ok(())
}

/// The devices that requests ask for.
pub(crate) fn devices_asked(requests: &Resources, cluster: &mut Cluster) -> Vec<DeviceAsk> {
    let amount = |cluster: &Cluster, name: &str| find(cluster, name).map_or(0, |id| requests.get(id).max(0));
    let mut asked = Vec::new();
    let mut shares: Vec<(&str, i64)> = Vec::new();
    let whole: i64 = GPU_WHOLE.iter().map(|name| amount(cluster, name)).sum();
    let percent = whole.saturating_mul(100).saturating_add(amount(cluster, GPU_SHARE));
    if percent > 0 {
        shares.extend([(GPU_CORE, percent), (GPU_RATIO, percent)]);
    } else {
        let parts = [GPU_CORE, GPU_RATIO, GPU_MEMORY].map(|name| (name, amount(cluster, name)));
        shares.extend(parts.into_iter().filter(|(_, amount)| *amount > 0));
    }
    if !shares.is_empty() {
        let most = shares.iter().filter(|(name, _)| *name != GPU_MEMORY).map(|(_, amount)| *amount).max().unwrap_or(0);
        asked.push(device_ask("gpu", most, &shares, cluster));
    }
    for (resource, kind) in OTHERS {
        let percent = amount(cluster, resource);
        if percent > 0 {
            asked.push(device_ask(kind, percent, &[(resource, percent)], cluster));
        }
    }
    asked.sort_unstable();
    asked
}

// More than 100 percent is several devices, whole.
fn device_ask(kind: &str, percent: i64, amounts: &[(&str, i64)], cluster: &mut Cluster) -> DeviceAsk {
    let count = (percent / 100).max(1);
    let mut each = Resources::new();
    for (name, amount) in amounts {
        let name = cluster.symbols.intern(name);
        let id = cluster.resource_names.intern(name);
        each.set(id, (amount + count - 1) / count);
    }
    DeviceAsk { kind: cluster.symbols.intern(kind), count: u32::try_from(count).unwrap_or(u32::MAX), each }
}

/// The CPUs and devices that a pod or Reservation has by its annotations.
pub(crate) fn read_assigned(metadata: &ObjectMeta, cluster: &mut Cluster) -> Result<Assigned, Problem> {
    let notes = metadata.annotations.as_ref();
    let mut assigned = Assigned::default();
    let key = koordinator::RESOURCE_STATUS;
    let status: Status = annotations::read(notes, key, r#"{"cpuset":"0-3"}"#)?.unwrap_or_default();
    assigned.cpus = list(&status.cpuset, key)?;
    for OnNuma { node, resources } in status.numa_node_resources {
        let amounts = Amounts::read_exact(&resources, Named::Asked, cluster)
            .map_err(|problem| annotations::at(key, problem.under("numaNodeResources").to_string()))?;
        assigned.numa.push((node, amounts.rounded_up()));
    }
    assigned.numa.sort_by_key(|(node, _)| *node);
    assigned.numa.dedup_by_key(|(node, _)| *node);
    let key = koordinator::DEVICE_ALLOCATED;
    let example = r#"{"gpu":[{"minor":0,"resources":{"koordinator.sh/gpu-core":"100"}}]}"#;
    let devices: BTreeMap<String, Vec<Allocation>> = annotations::read(notes, key, example)?.unwrap_or_default();
    for (kind, allocations) in devices {
        let kind = cluster.symbols.intern(&kind);
        for Allocation { minor, resources } in allocations {
            let amounts = Amounts::read_exact(&resources, Named::Asked, cluster)
                .map_err(|problem| annotations::at(key, problem.under("resources").to_string()))?;
            assigned.devices.push((kind, minor, amounts.rounded_up()));
        }
    }
    assigned.devices.sort_by_key(|(kind, minor, _)| (*kind, *minor));
    Ok(assigned)
}
