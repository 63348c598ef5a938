//! EC2NodeClass, `karpenter.k8s.aws/v1`: how Karpenter makes nodes in EC2.
//!
//! Fields that a plan depends on have types; the others are kept as they are written.

use std::collections::BTreeMap;

use berth_quantity::Quantity;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::object::cluster_object;

cluster_object! {
    /// How Karpenter makes nodes in EC2.
    EC2NodeClass {
        group: "karpenter.k8s.aws", version: "v1", plural: "ec2nodeclasses",
        spec: EC2NodeClassSpec, status: EC2NodeClassStatus,
    }
}

/// Images, disks, kubelet and capacity reservations of nodes.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[allow(
    missing_docs,
    reason = "fields that say nothing of what pods may use are kept as written, under Karpenter's names"
)]
pub struct EC2NodeClassSpec {
    /// The capacity reservations that nodes may use, those that any term selects; none without terms. At most 30.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub capacity_reservation_selector_terms: Vec<CapacityReservationSelectorTerm>,
    /// The family of machine images, such as `AL2023`; where it is unset, that of the alias.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ami_family: Option<String>,
    /// The machine images.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ami_selector_terms: Vec<AmiSelectorTerm>,
    /// kubelet's configuration.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kubelet: Option<EC2Kubelet>,
    /// Disks. At most 50.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub block_device_mappings: Vec<BlockDeviceMapping>,
    /// `RAID0`: the instance store holds kubelet's files.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub instance_store_policy: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subnet_selector_terms: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub security_group_selector_terms: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub placement_group_selector: Option<Value>,
    #[serde(rename = "associatePublicIPAddress", skip_serializing_if = "Option::is_none")]
    pub associate_public_ip_address: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ip_prefix_count: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user_data: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub role: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub instance_profile: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tags: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub network_interfaces: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub detailed_monitoring: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metadata_options: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub connection_tracking: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub context: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu_options: Option<Value>,
}

/// A capacity reservation with an id, or those that have all that is named here.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CapacityReservationSelectorTerm {
    /// The id, `cr-…`; not together with the others.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// Tags; `*` is any value. At most 20.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub tags: BTreeMap<String, String>,
    /// The account that owns it, of 12 digits.
    #[serde(rename = "ownerID", skip_serializing_if = "Option::is_none")]
    pub owner_id: Option<String>,
    /// `open` or `targeted`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub instance_match_criteria: Option<String>,
}

/// Machine images; the alias says of which family they are.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[allow(missing_docs, reason = "the names are Karpenter's")]
pub struct AmiSelectorTerm {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub alias: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub owner: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ssm_parameter: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tags: Option<Value>,
}

/// The fields of a KubeletConfiguration that decide what pods may use; all others are kept as they are written.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EC2Kubelet {
    /// The most pods: a number, or an expression where Karpenter's gate NodeClassCEL is on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_pods: Option<Value>,
    /// The most pods for each vCPU.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pods_per_core: Option<i64>,
    /// What is reserved for kubelet and the container runtime.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub kube_reserved: BTreeMap<String, String>,
    /// What is reserved for the rest of the system.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub system_reserved: BTreeMap<String, String>,
    /// When kubelet evicts at once, by signal: quantities or percentages.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub eviction_hard: BTreeMap<String, String>,
    /// Everything else.
    #[serde(flatten)]
    pub rest: BTreeMap<String, Value>,
}

/// A disk.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BlockDeviceMapping {
    /// The device, such as `/dev/xvda`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub device_name: Option<String>,
    /// The volume.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ebs: Option<BlockDevice>,
    /// Whether it holds kubelet's files; at most one does.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub root_volume: bool,
}

/// A volume.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[allow(missing_docs, reason = "the names are EC2's")]
pub struct BlockDevice {
    /// Its size.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub volume_size: Option<Quantity>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delete_on_termination: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub encrypted: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub iops: Option<Value>,
    #[serde(rename = "kmsKeyID", skip_serializing_if = "Option::is_none")]
    pub kms_key_id: Option<Value>,
    #[serde(rename = "snapshotID", skip_serializing_if = "Option::is_none")]
    pub snapshot_id: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub throughput: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub volume_initialization_rate: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub volume_type: Option<Value>,
}

/// What Karpenter found: subnets with their zones, and the reservations that were selected.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EC2NodeClassStatus {
    /// The subnets that nodes are launched in.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub subnets: Vec<SubnetStatus>,
    /// The capacity reservations that were selected.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub capacity_reservations: Vec<CapacityReservationStatus>,
    /// Everything else.
    #[serde(flatten)]
    pub rest: BTreeMap<String, Value>,
}

/// A subnet.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct SubnetStatus {
    /// Its zone.
    #[serde(default)]
    pub zone: String,
    /// Everything else.
    #[serde(flatten)]
    pub rest: BTreeMap<String, Value>,
}

/// A capacity reservation that was selected.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct CapacityReservationStatus {
    /// Its id.
    #[serde(default)]
    pub id: String,
    /// Everything else.
    #[serde(flatten)]
    pub rest: BTreeMap<String, Value>,
}

// === impl EC2NodeClassSpec ===

impl EC2NodeClassSpec {
    /// The names of the fields that are set and say nothing of what pods may use.
    pub fn opaque_fields(&self) -> Vec<&'static str> {
        let fields = [
            ("associatePublicIPAddress", &self.associate_public_ip_address),
            ("connectionTracking", &self.connection_tracking),
            ("context", &self.context),
            ("cpuOptions", &self.cpu_options),
            ("detailedMonitoring", &self.detailed_monitoring),
            ("instanceProfile", &self.instance_profile),
            ("ipPrefixCount", &self.ip_prefix_count),
            ("metadataOptions", &self.metadata_options),
            ("networkInterfaces", &self.network_interfaces),
            ("placementGroupSelector", &self.placement_group_selector),
            ("role", &self.role),
            ("securityGroupSelectorTerms", &self.security_group_selector_terms),
            ("subnetSelectorTerms", &self.subnet_selector_terms),
            ("tags", &self.tags),
            ("userData", &self.user_data),
        ];
        fields.into_iter().filter(|(_, value)| value.is_some()).map(|(name, _)| name).collect()
    }
}
