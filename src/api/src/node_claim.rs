//! NodeClaim, `karpenter.sh/v1`: one node that was asked for.

use k8s_openapi::api::core::v1::Taint;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use serde::{Deserialize, Serialize};

use crate::node_pool::default_expire_after;
use crate::object::cluster_object;
use crate::{GoDuration, NillableDuration, NodeClassRef, Requirement, ResourceList};

cluster_object! {
    /// One node that was asked for, and what became of it.
    NodeClaim {
        group: "karpenter.sh", version: "v1", plural: "nodeclaims", spec: NodeClaimSpec, status: NodeClaimStatus,
    }
}

/// What is required of the node. Immutable.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "crd", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct NodeClaimSpec {
    /// Taints that the node gets.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub taints: Vec<Taint>,
    /// Taints that the node starts with and that something else removes soon.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub startup_taints: Vec<Taint>,
    /// Conditions on the labels of the node, at most 100.
    #[serde(default)]
    pub requirements: Vec<Requirement>,
    /// The least resources that the node must have.
    #[serde(default, skip_serializing_if = "ResourceRequirements::is_empty")]
    pub resources: ResourceRequirements,
    /// The node class of the node.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_class_ref: Option<NodeClassRef>,
    /// How long the node may drain before its pods are deleted, whatever their disruption budgets say.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub termination_grace_period: Option<GoDuration>,
    /// The age at which the node is replaced, or `Never`.
    #[serde(default = "default_expire_after")]
    pub expire_after: NillableDuration,
}

impl Default for NodeClaimSpec {
    fn default() -> Self {
        Self {
            taints: Vec::new(),
            startup_taints: Vec::new(),
            requirements: Vec::new(),
            resources: ResourceRequirements::default(),
            node_class_ref: None,
            termination_grace_period: None,
            expire_after: default_expire_after(),
        }
    }
}

/// The least resources that a node must have.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "crd", derive(schemars::JsonSchema))]
pub struct ResourceRequirements {
    /// Amounts by resource: the pods planned on the node and its DaemonSets.
    #[serde(default, skip_serializing_if = "ResourceList::is_empty")]
    pub requests: ResourceList,
}

impl ResourceRequirements {
    fn is_empty(&self) -> bool {
        self.requests.is_empty()
    }
}

/// What was observed of a NodeClaim.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "crd", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct NodeClaimStatus {
    /// The name of the node.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_name: Option<String>,
    /// The cloud's id of the instance, as in the node's spec.
    #[serde(rename = "providerID", skip_serializing_if = "Option::is_none")]
    pub provider_id: Option<String>,
    /// The image that the node runs.
    #[serde(rename = "imageID", skip_serializing_if = "Option::is_none")]
    pub image_id: Option<String>,
    /// What the node is expected to have in all.
    #[serde(default, skip_serializing_if = "ResourceList::is_empty")]
    pub capacity: ResourceList,
    /// What pods are expected to be able to use of it.
    #[serde(default, skip_serializing_if = "ResourceList::is_empty")]
    pub allocatable: ResourceList,
    /// Launched, Registered, Initialized, Consolidatable, Drifted, Drained, VolumesDetached, InstanceTerminating,
    /// ConsistentStateFound, DisruptionReason and Ready.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
    /// When a pod last came to the node or left it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_pod_event_time: Option<Time>,
}
