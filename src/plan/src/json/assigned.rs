//! CPUs and devices that pods and Reservations get to themselves, as Koordinator's annotations say it.

use std::collections::BTreeMap;

use berth_api::labels::koordinator::{DEVICE_ALLOCATED, RESOURCE_STATUS};
use berth_model::{Assigned, Cluster, MemberKind};
use berth_quantity::Quantity;
use serde::Serialize;

use super::terms::quantities;
use crate::drawing::Also;

/// Who gets something, and the annotations that say so.
#[derive(Serialize)]
pub(super) struct Entry<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    pod: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reservation: Option<&'a str>,
    annotations: BTreeMap<&'static str, String>,
}

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

/// Those of a kind that get any.
pub(super) fn entries<'a>(
    also: &'a [Also<'a>],
    kind: MemberKind,
    cluster: &'a Cluster,
) -> serde_json::Result<Vec<Entry<'a>>> {
    let has_any = also.iter().filter_map(|also| Some((also.name, also.assigned.filter(|own| !own.is_empty())?)));
    let entry = |(name, assigned)| {
        let (pod, reservation) = match kind {
            MemberKind::Pod => (Some(name), None),
            MemberKind::Reservation => (None, Some(name)),
        };
        Ok(Entry { pod, reservation, annotations: annotations(assigned, cluster)? })
    };
    has_any.map(entry).collect()
}

fn annotations(assigned: &Assigned, cluster: &Cluster) -> serde_json::Result<BTreeMap<&'static str, String>> {
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
