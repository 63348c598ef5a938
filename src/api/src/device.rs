//! Device, `scheduling.koordinator.sh/v1alpha1`: the GPUs and other devices of the node of that name, as koordlet finds
//! them; and NodeResourceTopology, `topology.node.k8s.io/v1alpha1`, whose annotations say which CPUs it has.

use berth_quantity::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::{Deserialize, Serialize};

use crate::ResourceList;
use crate::object::cluster_object;

cluster_object! {
    /// The devices of the node of that name.
    Device {
        group: "scheduling.koordinator.sh", version: "v1alpha1", plural: "devices",
        spec: DeviceSpec, status: DeviceStatus,
    }
}

/// The devices of a node.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "crd", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct DeviceSpec {
    /// Each of them.
    #[serde(default)]
    pub devices: Vec<DeviceInfo>,
}

/// A device. What is not read here, such as its place on the PCI bus, is let pass.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "crd", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct DeviceInfo {
    /// `gpu`, `rdma`, `fpga`, `xpu`.
    #[serde(default, rename = "type")]
    pub kind: String,
    /// By which it is known among those of its kind.
    #[serde(default)]
    pub minor: Option<i32>,
    /// Whether it works; no pod gets one that does not.
    #[serde(default)]
    pub health: bool,
    /// What it has, such as `koordinator.sh/gpu-core: 100`.
    #[serde(default)]
    pub resources: ResourceList,
    /// Where it is.
    #[serde(default)]
    pub topology: Option<DeviceTopology>,
    /// Its UUID.
    #[serde(default)]
    pub id: String,
    /// The physical id.
    #[serde(default, rename = "moduleID")]
    pub module_id: Option<i32>,
}

/// Where a device is.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "crd", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct DeviceTopology {
    /// The CPU socket.
    #[serde(default, rename = "socketID")]
    pub socket_id: i32,
    /// The NUMA node.
    #[serde(default, rename = "nodeID")]
    pub node_id: i32,
    /// The PCIe switch.
    #[serde(default, rename = "pcieID")]
    pub pcie_id: String,
    /// The address on the bus.
    #[serde(default, rename = "busID")]
    pub bus_id: String,
}

/// Nothing that is read.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "crd", derive(schemars::JsonSchema))]
pub struct DeviceStatus {}

/// A part of a node with amounts of its own, such as a NUMA node.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct TopologyZone {
    /// Its name.
    #[serde(default)]
    pub name: String,
    /// `Node` of a NUMA node.
    #[serde(default, rename = "type")]
    pub kind: String,
    /// What it has.
    #[serde(default)]
    pub resources: Vec<ZoneResource>,
}

/// How much of a resource a zone has.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ZoneResource {
    /// The resource.
    #[serde(default)]
    pub name: String,
    /// What there is.
    #[serde(default)]
    pub capacity: Quantity,
    /// What pods may use.
    #[serde(default)]
    pub allocatable: Quantity,
    /// What is left.
    #[serde(default)]
    pub available: Quantity,
}

/// The CPUs of the node of that name, by annotations ([`crate::labels::koordinator::NODE_CPU_TOPOLOGY`]).
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeResourceTopology {
    /// `topology.node.k8s.io/v1alpha1`.
    #[serde(default)]
    pub api_version: String,
    /// `NodeResourceTopology`.
    #[serde(default)]
    pub kind: String,
    /// Name and annotations.
    #[serde(default)]
    pub metadata: ObjectMeta,
    /// The kubelet's topology policies.
    #[serde(default)]
    pub topology_policies: Vec<String>,
    /// NUMA nodes with their amounts.
    #[serde(default)]
    pub zones: Vec<TopologyZone>,
}

impl k8s_openapi::Resource for NodeResourceTopology {
    const API_VERSION: &'static str = "topology.node.k8s.io/v1alpha1";
    const GROUP: &'static str = "topology.node.k8s.io";
    const KIND: &'static str = "NodeResourceTopology";
    const VERSION: &'static str = "v1alpha1";
    const URL_PATH_SEGMENT: &'static str = "noderesourcetopologies";
    type Scope = k8s_openapi::ClusterResourceScope;
}

impl k8s_openapi::Metadata for NodeResourceTopology {
    type Ty = ObjectMeta;

    fn metadata(&self) -> &Self::Ty {
        &self.metadata
    }

    fn metadata_mut(&mut self) -> &mut Self::Ty {
        &mut self.metadata
    }
}
