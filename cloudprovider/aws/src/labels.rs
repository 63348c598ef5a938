//! The labels that nodes of an instance type have, as Karpenter's AWS provider and EKS Auto Mode set them.

use std::collections::BTreeMap;

use crate::InstanceFacts;

/// Karpenter's prefix of them, and EKS Auto Mode's.
const PREFIXES: [&str; 2] = ["karpenter.k8s.aws/instance-", "eks.amazonaws.com/instance-"];
/// The zone by the id that is the same in every account.
pub(crate) const ZONE_ID: &str = "topology.k8s.aws/zone-id";
/// The reservation's id.
pub(crate) const RESERVATION_ID: &str = "karpenter.k8s.aws/capacity-reservation-id";

/// The labels of an instance type, under both prefixes.
pub(crate) fn labels(facts: &InstanceFacts) -> BTreeMap<String, String> {
    let mut labels: Vec<(&str, String)> = vec![
        ("cpu", facts.vcpus.to_string()),
        ("memory", facts.memory_mib.to_string()),
        ("family", facts.family().to_owned()),
        ("capability-flex", facts.family().contains("-flex").to_string()),
        ("encryption-in-transit-supported", facts.encrypts_in_transit.to_string()),
        ("hypervisor", facts.hypervisor.clone()),
        ("cpu-manufacturer", kebab(&facts.cpu_manufacturer)),
    ];
    labels.extend(facts.size().map(|size| ("size", size.to_owned())));
    if let Some((category, generation)) = facts.category_and_generation() {
        labels.extend([("category", category.to_owned()), ("generation", generation.to_owned())]);
    }
    let numbers = [
        ("cpu-sustained-clock-speed-mhz", facts.clock_mhz),
        ("network-bandwidth", facts.network_mbps),
        ("ebs-bandwidth", facts.ebs_mbps),
    ];
    labels.extend(numbers.into_iter().filter_map(|(name, number)| Some((name, number?.to_string()))));
    labels.extend(facts.has_nitro_enclaves.map(|has| ("nitro-enclaves-supported", has.to_string())));
    if facts.local_storage_is_nvme && facts.local_storage_gb > 0 {
        labels.push(("local-nvme", facts.local_storage_gb.to_string()));
    }
    // Machines with several kinds have no one name.
    if let [gpu] = facts.gpus.as_slice() {
        labels.extend([
            ("gpu-name", kebab(&gpu.name)),
            ("gpu-manufacturer", kebab(&gpu.manufacturer)),
            ("gpu-count", gpu.count.to_string()),
            ("gpu-memory", gpu.memory_mib.to_string()),
        ]);
    }
    let accelerator = match (facts.neuron.as_slice(), facts.accelerators.as_slice()) {
        ([device], _) => Some((device.name.as_str(), "aws", device.count)),
        ([], [other]) => Some((other.name.as_str(), other.manufacturer.as_str(), other.count)),
        _ => None,
    };
    if let Some((name, manufacturer, count)) = accelerator {
        labels.extend([
            ("accelerator-name", kebab(name)),
            ("accelerator-manufacturer", kebab(manufacturer)),
            ("accelerator-count", count.to_string()),
        ]);
    }
    let of_prefix = |prefix: &'static str| {
        // Pools keep machines without a hypervisor out by `NotIn [""]`.
        let is_valid = |name: &str, value: &str| is_label_value(value) || (name == "hypervisor" && value.is_empty());
        let valid = labels.iter().filter(move |(name, value)| is_valid(name, value));
        valid.map(move |(name, value)| (format!("{prefix}{name}"), value.clone()))
    };
    PREFIXES.into_iter().flat_map(of_prefix).collect()
}

/// Lower case, with dashes for blanks.
fn kebab(text: &str) -> String {
    text.to_lowercase().replace(' ', "-")
}

/// Whether a node can be labelled with it; what a cloud makes up may not be.
pub(crate) fn is_label_value(text: &str) -> bool {
    let bytes = text.as_bytes();
    let ends_well = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
    bytes.len() <= 63
        && bytes.iter().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.'))
        && ends_well(bytes.first())
        && ends_well(bytes.last())
}
