//! The fake cloud's catalogue.

use std::collections::BTreeMap;

use berth_catalogue::{
    Availability, CapacityType, Catalogue, InstanceTypeEntry, Money, OfferingEntry, RequirementEntry, label as offered,
};
use berth_quantity::Quantity;

use crate::family::{FAMILIES, Family};
use crate::overhead::{allocatable, mib};

/// The zones of the fake cloud's one region.
pub const ZONES: [&str; 3] = ["port-1a", "port-1b", "port-1c"];

/// Labels that every node of the fake cloud has besides the usual ones. They stand among the offerings' requirements,
/// which is where the file format has room for labels.
pub mod label {
    /// Category, generation and variant: `m5a` of `m5a.large`.
    pub const INSTANCE_FAMILY: &str = "berth.sh/instance-family";
    /// `large` of `m5a.large`.
    pub const INSTANCE_SIZE: &str = "berth.sh/instance-size";
    /// `5` of `m5a.large`.
    pub const INSTANCE_GENERATION: &str = "berth.sh/instance-generation";
    /// vCPUs of the machine, what the system keeps included; fit for `Gt` and `Lt`.
    pub const INSTANCE_CPU: &str = "berth.sh/instance-cpu";
    /// MiB of the machine's memory, what the system keeps included; fit for `Gt` and `Lt`.
    pub const INSTANCE_MEMORY: &str = "berth.sh/instance-memory";
    /// The kind of GPU; on machines that have some.
    pub const INSTANCE_GPU_NAME: &str = "berth.sh/instance-gpu-name";
}

/// The instance types of the fake cloud: the same on every call, every offering unlimited, none reserved.
///
/// A price is the family's price a vCPU times the vCPUs, plus the GPUs. Spot costs 28% to 58% of on-demand, by type and
/// zone, in steps of a percent.
pub fn catalogue() -> Catalogue {
    // The entries pass by construction, which the tests show; without them the cloud would have nothing to offer.
    Catalogue::new(FAMILIES.iter().flat_map(types_of).collect()).unwrap_or_default()
}

fn types_of(family: &Family) -> Vec<InstanceTypeEntry> {
    let mut types = Vec::new();
    for (age, &generation) in (0_u32..).zip(family.generations) {
        for (size_idx, &(size, vcpus)) in family.sizes.iter().enumerate() {
            types.push(instance_type(family, age, generation, size_idx, size, vcpus));
        }
    }
    types
}

fn instance_type(
    family: &Family,
    age: u32,
    generation: u64,
    size_idx: usize,
    size: &str,
    vcpus: u64,
) -> InstanceTypeEntry {
    let family_name = format!("{}{generation}{}", family.category, family.variant);
    let name = format!("{family_name}.{size}");
    let memory_mib = mib(vcpus * family.gib_per_vcpu);
    let room = allocatable(vcpus, memory_mib);
    let mut resources = BTreeMap::from([
        ("cpu".to_owned(), Quantity::from_milli(count(room.milli_cpu))),
        ("memory".to_owned(), Quantity::from_bytes_binary(count(room.memory_mib) << 20)),
        ("pods".to_owned(), Quantity::from_value(count(room.pods))),
        ("ephemeral-storage".to_owned(), Quantity::from_bytes_binary(count(mib(90)) << 20)),
    ]);
    let mut labels = vec![
        RequirementEntry::is(label::INSTANCE_FAMILY, &family_name),
        RequirementEntry::is(label::INSTANCE_SIZE, size),
        RequirementEntry::is(label::INSTANCE_GENERATION, generation.to_string()),
        RequirementEntry::is(label::INSTANCE_CPU, vcpus.to_string()),
        RequirementEntry::is(label::INSTANCE_MEMORY, memory_mib.to_string()),
    ];
    let mut micro_dollars = vcpus * family.micro_dollars_per_vcpu * 96_u64.pow(age) / 100_u64.pow(age);
    if let Some(gpu) = family.gpu {
        let n_gpus = gpu.counts.get(size_idx).copied().unwrap_or_default();
        resources.insert("nvidia.com/gpu".to_owned(), Quantity::from_value(count(n_gpus)));
        labels.push(RequirementEntry::is(label::INSTANCE_GPU_NAME, gpu.name));
        // A newer generation has the faster GPU, a quarter dearer each time.
        micro_dollars += n_gpus * gpu.micro_dollars * 5_u64.pow(age) / 4_u64.pow(age);
    }
    let offerings = ZONES
        .iter()
        .flat_map(|zone| {
            let spot = micro_dollars * spot_percent(&name, zone) / 100;
            [(CapacityType::OnDemand, micro_dollars), (CapacityType::Spot, spot)]
                .map(|(capacity_type, price)| offering(capacity_type, zone, price, &labels))
        })
        .collect();
    InstanceTypeEntry {
        architecture: family.architecture.to_owned(),
        operating_systems: vec!["linux".to_owned()],
        name,
        resources,
        labels: BTreeMap::new(),
        machine: None,
        notes: Vec::new(),
        offerings,
    }
}

fn offering(capacity_type: CapacityType, zone: &str, micro_dollars: u64, labels: &[RequirementEntry]) -> OfferingEntry {
    let mut requirements = vec![
        RequirementEntry::is(offered::CAPACITY_TYPE, capacity_type.as_str()),
        RequirementEntry::is(offered::ZONE, zone),
    ];
    requirements.extend_from_slice(labels);
    OfferingEntry {
        price: Money::from_pico(i128::from(micro_dollars) * 1_000_000),
        availability: Availability::Unlimited,
        reservation_capacity: None,
        requirements,
        reservation: None,
    }
}

/// What spot costs, in percent of on-demand: 28 to 58, spread by a hash (FNV-1a) of zone and type, as a market would
/// have it, but the same for ever.
fn spot_percent(name: &str, zone: &str) -> u64 {
    let hash = zone
        .bytes()
        .chain(name.bytes())
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
    28 + hash % 31
}

fn count(n: u64) -> i64 {
    i64::try_from(n).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests;
