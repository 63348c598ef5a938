//! From the SDK's records to this crate's. Fields that EC2 leaves out are empty; numbers below zero are zero.

use std::collections::BTreeMap;

use aws_sdk_ec2::types;
use jiff::Timestamp;

use crate::{Accelerator, CapacityReservation, InstanceFacts, NeuronDevice};

/// `None` for machines that are none for nodes: of other processors, or without hardware virtualisation.
pub(super) fn facts(info: &types::InstanceTypeInfo) -> Option<InstanceFacts> {
    let name = info.instance_type()?.as_str().to_owned();
    let processor = info.processor_info();
    let architectures = processor.map(types::ProcessorInfo::supported_architectures).unwrap_or_default();
    let architecture = architectures.iter().find_map(|architecture| match architecture.as_str() {
        "x86_64" => Some("amd64"),
        "arm64" => Some("arm64"),
        _ => None,
    })?;
    let virtualization = info.supported_virtualization_types();
    if !virtualization.is_empty() && !virtualization.iter().any(|known| known.as_str() == "hvm") {
        return None;
    }
    let network = info.network_info();
    let cards = network.map(types::NetworkInfo::network_cards).unwrap_or_default();
    let default_card = network.and_then(types::NetworkInfo::default_network_card_index).unwrap_or(0);
    let card = cards.iter().find(|card| card.network_card_index() == Some(default_card)).or(cards.first());
    let storage = info.instance_storage_info();
    let is_nvme =
        storage.is_some_and(|storage| storage.nvme_support().is_some_and(|support| support.as_str() != "unsupported"));
    let is_sold = |class: &str| info.supported_usage_classes().iter().any(|known| known.as_str() == class);
    Some(InstanceFacts {
        name,
        architecture: architecture.to_owned(),
        vcpus: count(info.v_cpu_info().and_then(types::VCpuInfo::default_v_cpus)),
        memory_mib: info
            .memory_info()
            .and_then(types::MemoryInfo::size_in_mib)
            .and_then(|mib| u64::try_from(mib).ok())
            .unwrap_or(0),
        network_interfaces: count(card.and_then(types::NetworkCardInfo::maximum_network_interfaces)),
        ipv4_per_interface: count(network.and_then(types::NetworkInfo::ipv4_addresses_per_interface)),
        hypervisor: info.hypervisor().map(|hypervisor| hypervisor.as_str().to_owned()).unwrap_or_default(),
        is_bare_metal: info.bare_metal() == Some(true),
        local_storage_gb: storage
            .and_then(types::InstanceStorageInfo::total_size_in_gb)
            .and_then(|gb| u64::try_from(gb).ok())
            .unwrap_or(0),
        local_storage_is_nvme: is_nvme,
        gpus: gpus(info),
        accelerators: accelerators(info),
        neuron: neuron(info),
        efas: count(network.and_then(types::NetworkInfo::efa_info).and_then(types::EfaInfo::maximum_efa_interfaces)),
        branch_interfaces: 0,
        cpu_manufacturer: processor.and_then(types::ProcessorInfo::manufacturer).unwrap_or_default().to_owned(),
        clock_mhz: processor.and_then(types::ProcessorInfo::sustained_clock_speed_in_ghz).and_then(thousandfold),
        network_mbps: bandwidth(cards),
        ebs_mbps: ebs(info),
        encrypts_in_transit: network.and_then(types::NetworkInfo::encryption_in_transit_supported) == Some(true),
        has_nitro_enclaves: info.nitro_enclaves_support().map(|support| support.as_str() == "supported"),
        is_on_demand: is_sold("on-demand"),
        is_spot: is_sold("spot"),
    })
}

fn gpus(info: &types::InstanceTypeInfo) -> Vec<Accelerator> {
    let gpus = info.gpu_info().map(types::GpuInfo::gpus).unwrap_or_default().iter();
    gpus.map(|gpu| Accelerator {
        name: gpu.name().unwrap_or_default().to_owned(),
        manufacturer: gpu.manufacturer().unwrap_or_default().to_owned(),
        count: count(gpu.count()),
        memory_mib: u64::from(count(gpu.memory_info().and_then(types::GpuDeviceMemoryInfo::size_in_mib))),
    })
    .collect()
}

fn accelerators(info: &types::InstanceTypeInfo) -> Vec<Accelerator> {
    let known = info.inference_accelerator_info().map(types::InferenceAcceleratorInfo::accelerators);
    let known = known.unwrap_or_default().iter();
    known
        .map(|device| Accelerator {
            name: device.name().unwrap_or_default().to_owned(),
            manufacturer: device.manufacturer().unwrap_or_default().to_owned(),
            count: count(device.count()),
            memory_mib: 0,
        })
        .collect()
}

fn neuron(info: &types::InstanceTypeInfo) -> Vec<NeuronDevice> {
    let devices = info.neuron_info().map(types::NeuronInfo::neuron_devices).unwrap_or_default().iter();
    devices
        .map(|device| NeuronDevice {
            name: device.name().unwrap_or_default().to_owned(),
            count: count(device.count()),
            cores: count(device.core_info().and_then(types::NeuronDeviceCoreInfo::count)),
        })
        .collect()
}

/// The baseline of all network cards, in Mbit/s.
fn bandwidth(cards: &[types::NetworkCardInfo]) -> Option<u32> {
    let each: Option<Vec<u32>> = cards.iter().map(|card| thousandfold(card.baseline_bandwidth_in_gbps()?)).collect();
    each.filter(|each| !each.is_empty()).map(|each| each.into_iter().fold(0, u32::saturating_add))
}

fn ebs(info: &types::InstanceTypeInfo) -> Option<u32> {
    let ebs =
        info.ebs_info().filter(|ebs| ebs.ebs_optimized_support().is_some_and(|known| known.as_str() == "default"))?;
    let bandwidth = ebs.ebs_optimized_info()?.maximum_bandwidth_in_mbps()?;
    u32::try_from(bandwidth).ok()
}

/// A speed in a unit a thousand times smaller, rounded; `None` if it is none.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "checked before")]
fn thousandfold(speed: f64) -> Option<u32> {
    let speed = (speed * 1000.0).round();
    (speed > 0.0 && speed < f64::from(u32::MAX)).then_some(speed as u32)
}

fn count(number: Option<i32>) -> u32 {
    number.and_then(|number| u32::try_from(number).ok()).unwrap_or(0)
}

/// `None` where EC2 leaves out the id, the type or the zone.
pub(super) fn reservation(found: &types::CapacityReservation) -> Option<CapacityReservation> {
    let text = |text: Option<&str>| text.unwrap_or_default().to_owned();
    let time = |time: Option<&aws_smithy_types::DateTime>| {
        let time = time?;
        Timestamp::new(time.secs(), i32::try_from(time.subsec_nanos()).ok()?).ok()
    };
    let tags: BTreeMap<String, String> =
        found.tags().iter().filter_map(|tag| Some((tag.key()?.to_owned(), text(tag.value())))).collect();
    Some(CapacityReservation {
        id: found.capacity_reservation_id()?.to_owned(),
        owner_id: text(found.owner_id()),
        instance_type: found.instance_type()?.to_owned(),
        platform: text(found.instance_platform().map(types::CapacityReservationInstancePlatform::as_str)),
        zone: found.availability_zone()?.to_owned(),
        zone_id: text(found.availability_zone_id()),
        tenancy: text(found.tenancy().map(types::CapacityReservationTenancy::as_str)),
        total: count(found.total_instance_count()),
        available: count(found.available_instance_count()),
        match_criteria: text(found.instance_match_criteria().map(types::InstanceMatchCriteria::as_str)),
        kind: text(found.reservation_type().map(types::CapacityReservationType::as_str)),
        is_interruptible: found.interruptible() == Some(true),
        state: text(found.state().map(types::CapacityReservationState::as_str)),
        start: time(found.start_date()),
        end: time(found.end_date()),
        tags,
        outpost: text(found.outpost_arn()),
        placement_group: text(found.placement_group_arn()),
    })
}
