//! What pods may use of a machine, as Karpenter's AWS provider counts it.

use std::collections::BTreeMap;

use berth_catalogue::Machine;
use berth_quantity::Quantity;

use crate::{EvictionThreshold, InstanceFacts, NodeSettings};

/// Memory that machines of Arm keep for devices, beside what their size says.
const ARM_RESERVED_MIB: u64 = 64;
/// Addresses of a prefix, with prefix delegation.
const PREFIX: u32 = 16;
/// kubelet's limit of pods on machines of up to 30 vCPUs, and on larger ones, with prefix delegation.
const PREFIX_PODS: [u32; 2] = [110, 250];
/// Pods of a node whose images do not count addresses.
const DEFAULT_PODS: u32 = 110;
const MIB: i64 = 1 << 20;
/// What images reserve for kubelet: so much, and so much a pod.
const KUBELET_MIB: u64 = 255;
const KUBELET_MIB_PER_POD: u64 = 11;
const KUBELET_STORAGE: Quantity = Quantity::from_bytes_binary(1 << 30);
const EVICTION_MEMORY: EvictionThreshold = EvictionThreshold::Amount(Quantity::from_bytes_binary(100 * MIB));
const EVICTION_STORAGE: EvictionThreshold = EvictionThreshold::Part(100_000);

/// The machine behind an instance type, with what `settings` say of the whole cluster: memory overhead, reserved
/// interfaces, prefix delegation.
pub(crate) fn machine(facts: &InstanceFacts, settings: &NodeSettings) -> Machine {
    let arm = if facts.architecture == "arm64" { ARM_RESERVED_MIB } else { 0 };
    let mut machine = Machine {
        vcpus: facts.vcpus,
        memory_mib: facts.memory_mib,
        usable_memory_mib: settings.vm_memory_overhead.left_of(facts.memory_mib.saturating_sub(arm)),
        network_interfaces: facts.network_interfaces,
        ipv4_per_interface: facts.ipv4_per_interface,
        max_pods: 0,
        local_storage_gb: facts.local_storage_gb,
    };
    let interfaces = facts.network_interfaces.saturating_sub(settings.reserved_interfaces);
    let has_prefixes = facts.hypervisor == "nitro" || facts.is_bare_metal;
    machine.max_pods = if settings.prefix_delegation && has_prefixes {
        let most = if facts.vcpus > 30 { PREFIX_PODS[1] } else { PREFIX_PODS[0] };
        pods_with_addresses(interfaces, facts.ipv4_per_interface, PREFIX).min(most)
    } else {
        pods_with_addresses(interfaces, facts.ipv4_per_interface, 1)
    };
    machine
}

/// Pods that get an address: each interface has one of its own, and two pods use the host's.
fn pods_with_addresses(interfaces: u32, ipv4_per_interface: u32, per_slot: u32) -> u32 {
    if interfaces == 0 {
        return 0;
    }
    let slots = interfaces.saturating_mul(ipv4_per_interface.saturating_sub(1));
    slots.saturating_mul(per_slot).saturating_add(2)
}

/// CPU, memory, pods and ephemeral storage that pods may use.
///
/// `None` if nothing is left of CPU or memory: no pod can run there.
pub(crate) fn allocatable(machine: &Machine, settings: &NodeSettings) -> Option<BTreeMap<String, Quantity>> {
    let capacity = capacity(machine, settings);
    let mut left = capacity.clone();
    let kubelet = kube_reserved(machine, settings, pods(machine, settings));
    for reserved in [&kubelet, &settings.system_reserved, &eviction(&capacity, settings)] {
        for (name, amount) in reserved {
            if let Some(known) = left.get_mut(name) {
                *known = known.checked_sub(*amount).filter(|left| !left.is_negative()).unwrap_or(Quantity::ZERO);
            }
        }
    }
    let has_room = ["cpu", "memory"].iter().all(|name| left.get(*name).is_some_and(|left| !left.is_zero()));
    has_room.then_some(left)
}

/// Accelerators and other devices, by the names under which their plugins announce them.
pub(crate) fn devices(facts: &InstanceFacts) -> BTreeMap<String, Quantity> {
    let neuron = |of: fn(&crate::NeuronDevice) -> u32| facts.neuron.iter().map(of).fold(0, u32::saturating_add);
    let counts = [
        ("nvidia.com/gpu", facts.gpus_of("NVIDIA")),
        ("amd.com/gpu", facts.gpus_of("AMD")),
        ("habana.ai/gaudi", facts.gpus_of("Habana")),
        ("aws.amazon.com/neuron", neuron(|device| device.count)),
        ("aws.amazon.com/neuroncore", neuron(|device| device.count.saturating_mul(device.cores))),
        ("vpc.amazonaws.com/efa", facts.efas),
        ("vpc.amazonaws.com/pod-eni", facts.branch_interfaces),
    ];
    let some = counts.into_iter().filter(|(_, count)| *count > 0);
    some.map(|(name, count)| (name.to_owned(), Quantity::from_value(count.into()))).collect()
}

fn capacity(machine: &Machine, settings: &NodeSettings) -> BTreeMap<String, Quantity> {
    let memory = i64::try_from(machine.usable_memory_mib).unwrap_or(i64::MAX).saturating_mul(MIB);
    [
        ("cpu", Quantity::from_value(machine.vcpus.into())),
        ("memory", Quantity::from_bytes_binary(memory)),
        ("pods", Quantity::from_value(pods(machine, settings).into())),
        ("ephemeral-storage", storage(machine, settings)),
    ]
    .map(|(name, amount)| (name.to_owned(), amount))
    .into()
}

fn pods(machine: &Machine, settings: &NodeSettings) -> u32 {
    let family = settings.ami_family;
    let most = match settings.max_pods {
        Some(pods) => pods,
        None if family.limits_pods_by_interfaces() => machine.max_pods,
        None => DEFAULT_PODS,
    };
    match settings.pods_per_core {
        Some(per_core @ 1..) if family.obeys_pods_per_core() => most.min(per_core.saturating_mul(machine.vcpus)),
        _ => most,
    }
}

fn storage(machine: &Machine, settings: &NodeSettings) -> Quantity {
    if settings.uses_instance_store && machine.local_storage_gb > 0 {
        let bytes = i64::try_from(machine.local_storage_gb).unwrap_or(i64::MAX).saturating_mul(1_000_000_000);
        return Quantity::from_value(bytes);
    }
    settings.volume.unwrap_or_else(|| settings.ami_family.default_volume())
}

fn kube_reserved(machine: &Machine, settings: &NodeSettings, pods: u32) -> BTreeMap<String, Quantity> {
    let counted = if settings.ami_family.reserves_for_addresses() {
        pods_with_addresses(machine.network_interfaces, machine.ipv4_per_interface, 1)
    } else {
        pods
    };
    let memory = i64::try_from(KUBELET_MIB_PER_POD * u64::from(counted) + KUBELET_MIB).unwrap_or(i64::MAX);
    let mut reserved: BTreeMap<String, Quantity> = [
        ("cpu", Quantity::from_milli(reserved_milli_cpu(machine.vcpus))),
        ("memory", Quantity::from_bytes_binary(memory.saturating_mul(MIB))),
        ("ephemeral-storage", KUBELET_STORAGE),
    ]
    .map(|(name, amount)| (name.to_owned(), amount))
    .into();
    reserved.extend(settings.kube_reserved.iter().map(|(name, amount)| (name.clone(), *amount)));
    reserved
}

/// 6% of the first vCPU, 1% of the second, 0.5% of the next two and 0.25% of all others, each rounded down.
fn reserved_milli_cpu(vcpus: u32) -> i64 {
    /// First milli-CPU of a step, the first after it, and its part in 1/10,000.
    const STEPS: [(i64, i64, i64); 4] = [(0, 1000, 600), (1000, 2000, 100), (2000, 4000, 50), (4000, i64::MAX, 25)];
    let milli = i64::from(vcpus) * 1000;
    STEPS.into_iter().map(|(from, to, part)| (milli.min(to) - from).max(0) * part / 10_000).sum()
}

fn eviction(capacity: &BTreeMap<String, Quantity>, settings: &NodeSettings) -> BTreeMap<String, Quantity> {
    let signals =
        [("memory", "memory.available", EVICTION_MEMORY), ("ephemeral-storage", "nodefs.available", EVICTION_STORAGE)];
    let amount = |(name, signal, default): (&str, &str, EvictionThreshold)| {
        let threshold = settings.eviction_hard.get(signal).copied().unwrap_or(default);
        (name.to_owned(), threshold.of(capacity.get(name).copied().unwrap_or(Quantity::ZERO)))
    };
    signals.map(amount).into()
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;
    use crate::AmiFamily;

    fn m5_xlarge() -> InstanceFacts {
        InstanceFacts {
            name: "m5.xlarge".to_owned(),
            architecture: "amd64".to_owned(),
            vcpus: 4,
            memory_mib: 16_384,
            network_interfaces: 4,
            ipv4_per_interface: 15,
            hypervisor: "nitro".to_owned(),
            ..InstanceFacts::default()
        }
    }

    fn of(settings: &NodeSettings) -> [String; 4] {
        let left = allocatable(&machine(&m5_xlarge(), settings), settings).unwrap();
        ["cpu", "memory", "pods", "ephemeral-storage"].map(|name| left[name].to_string())
    }

    fn amounts(list: &[(&str, &str)]) -> BTreeMap<String, Quantity> {
        list.iter().map(|(name, amount)| ((*name).to_owned(), amount.parse().unwrap())).collect()
    }

    #[rstest]
    #[case::default(NodeSettings::default(), ["3920m", "14162Mi", "58", "17Gi"])]
    #[case::no_overhead(
        NodeSettings { vm_memory_overhead: "0".parse().unwrap(), ..NodeSettings::default() },
        ["3920m", "15391Mi", "58", "17Gi"]
    )]
    #[case::max_pods(NodeSettings { max_pods: Some(30), ..NodeSettings::default() }, ["3920m", "14162Mi", "30", "17Gi"])]
    #[case::max_pods_of_bottlerocket_reserve_less_memory(
        NodeSettings { max_pods: Some(30), ami_family: AmiFamily::Bottlerocket, ..NodeSettings::default() },
        ["3920m", "14470Mi", "30", "17Gi"]
    )]
    #[case::pods_per_core(
        NodeSettings { pods_per_core: Some(10), ..NodeSettings::default() }, ["3920m", "14162Mi", "40", "17Gi"]
    )]
    #[case::reserved_interfaces_take_pods_but_no_reserve(
        NodeSettings { reserved_interfaces: 1, ..NodeSettings::default() }, ["3920m", "14162Mi", "44", "17Gi"]
    )]
    #[case::prefixes(
        NodeSettings { prefix_delegation: true, ..NodeSettings::default() }, ["3920m", "14162Mi", "110", "17Gi"]
    )]
    #[case::reserves(
        NodeSettings {
            kube_reserved: amounts(&[("cpu", "100m"), ("memory", "1Gi")]),
            system_reserved: amounts(&[("cpu", "100m"), ("memory", "100Mi"), ("pid", "100")]),
            eviction_hard: [("memory.available".to_owned(), "5%".parse().unwrap())].into(),
            ..NodeSettings::default()
        },
        ["3800m", "13591808Ki", "58", "17Gi"]
    )]
    #[case::eviction_turned_off(
        NodeSettings { eviction_hard: [("memory.available".to_owned(), "100%".parse().unwrap())].into(), ..NodeSettings::default() },
        ["3920m", "14262Mi", "58", "17Gi"]
    )]
    #[case::a_volume(NodeSettings { volume: "100Gi".parse().ok(), ..NodeSettings::default() }, ["3920m", "14162Mi", "58", "89Gi"])]
    #[case::windows(
        NodeSettings { ami_family: AmiFamily::Windows2022, ..NodeSettings::default() },
        ["3920m", "13590Mi", "110", "44Gi"]
    )]
    fn settings_decide_what_is_left_for_pods(#[case] settings: NodeSettings, #[case] expected: [&str; 4]) {
        assert_eq!(of(&settings), expected);
    }

    #[test]
    fn the_instance_store_counts_where_it_is_used() {
        let mut facts = m5_xlarge();
        facts.local_storage_gb = 150;
        let settings = NodeSettings { uses_instance_store: true, ..NodeSettings::default() };
        let left = allocatable(&machine(&facts, &settings), &settings).unwrap();
        // 150 GB less a tenth and 1 GiB.
        assert_eq!(left["ephemeral-storage"].value_floor(), Some(150_000_000_000 - 15_000_000_000 - (1 << 30)));
        let settings = NodeSettings::default();
        assert_eq!(
            allocatable(&machine(&facts, &settings), &settings).unwrap()["ephemeral-storage"].to_string(),
            "17Gi"
        );
    }

    #[test]
    fn a_machine_that_keeps_everything_is_none() {
        let settings = NodeSettings { system_reserved: amounts(&[("memory", "20Gi")]), ..NodeSettings::default() };
        assert_eq!(allocatable(&machine(&m5_xlarge(), &settings), &settings), None);
    }

    #[test]
    fn machines_without_interfaces_for_pods_have_no_pods() {
        let settings = NodeSettings { reserved_interfaces: 4, ..NodeSettings::default() };
        assert_eq!(of(&settings)[2], "0");
    }
}
