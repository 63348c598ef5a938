//! CPUs and devices that pods and Reservations get to themselves, as Koordinator's annotations say it.

use std::collections::BTreeMap;

use berth_api::labels::koordinator::{DEVICE_ALLOCATED, RESOURCE_STATUS};
use berth_model::{Assigned, Cluster};
use berth_quantity::Quantity;
use serde::Serialize;

use crate::terms::quantities;

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ResourceStatus<'a> {
    #[serde(skip_serializing_if = "String::is_empty")]
    cpuset: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    numa_node_resources: Vec<OnNuma<'a>>,
}

#[derive(Serialize)]
struct OnNuma<'a> {
    node: u32,
    resources: BTreeMap<&'a str, Quantity>,
}

#[derive(Serialize)]
struct Allocation<'a> {
    minor: u32,
    resources: BTreeMap<&'a str, Quantity>,
}

/// The annotations that say what a pod or a Reservation has to itself; none where it has nothing.
///
/// # Errors
/// None that is known; serialization asks for it.
pub fn annotations(assigned: &Assigned, cluster: &Cluster) -> serde_json::Result<BTreeMap<&'static str, String>> {
    let mut annotations = BTreeMap::new();
    if !assigned.cpus.is_empty() || !assigned.numa.is_empty() {
        let numa = assigned.numa.iter();
        let status = ResourceStatus {
            cpuset: assigned.cpus.to_string(),
            numa_node_resources: numa
                .map(|(node, amounts)| OnNuma { node: *node, resources: quantities(cluster, amounts) })
                .collect(),
        };
        annotations.insert(RESOURCE_STATUS, serde_json::to_string(&status)?);
    }
    if !assigned.devices.is_empty() {
        let mut by_kind: BTreeMap<&str, Vec<Allocation<'_>>> = BTreeMap::new();
        for (kind, minor, amounts) in &assigned.devices {
            let allocation = Allocation { minor: *minor, resources: quantities(cluster, amounts) };
            by_kind.entry(cluster.symbols.text(*kind)).or_default().push(allocation);
        }
        annotations.insert(DEVICE_ALLOCATED, serde_json::to_string(&by_kind)?);
    }
    Ok(annotations)
}
