//! The machine behind an instance type, and what is known of a capacity reservation beside its count.

use std::collections::BTreeMap;

use serde::Serialize;

/// What a machine is before anything is kept from pods: what a node class with other kubelet settings is worked out from.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Machine {
    /// Virtual CPUs; more than 0.
    #[serde(rename = "vCPUs")]
    pub vcpus: u32,
    /// Memory as the cloud lists it, in MiB.
    #[serde(rename = "memoryMiB")]
    pub memory_mib: u64,
    /// Memory that kubelet finds, in MiB: net of what firmware, hypervisor and kernel take.
    #[serde(rename = "usableMemoryMiB")]
    pub usable_memory_mib: u64,
    /// Network interfaces that can have pods' addresses.
    #[serde(rename = "networkInterfaces")]
    pub network_interfaces: u32,
    /// IPv4 addresses of each network interface.
    #[serde(rename = "ipv4PerInterface")]
    pub ipv4_per_interface: u32,
    /// How many pods have network addresses, with what the cluster's network plugin reserves or adds.
    pub max_pods: u32,
    /// Instance store, all its volumes together, in GB (10^9 bytes).
    #[serde(rename = "localStorageGB")]
    pub local_storage_gb: u64,
}

/// What is known of a capacity reservation beside its free count; node classes select reservations by it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct ReservationDetails {
    /// How many instances were reserved, used or free.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub total_instances: Option<u32>,
    /// The account that owns it.
    #[serde(rename = "OwnerID", skip_serializing_if = "String::is_empty")]
    pub owner_id: String,
    /// The account that it was shared with and whose catalogue this is; empty if that is the owner.
    #[serde(rename = "SharedWith", skip_serializing_if = "String::is_empty")]
    pub shared_with: String,
    /// `open` to any instance of its kind, or `targeted` by name.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub instance_match_criteria: String,
    /// The cloud's word for its state, such as `active`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub state: String,
    /// When it begins, RFC 3339.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub start: String,
    /// When it ends, RFC 3339; empty is never.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub end: String,
    /// Its tags.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub tags: BTreeMap<String, String>,
}
