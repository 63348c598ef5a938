//! What a node keeps from pods: Koordinator's annotation `node.koordinator.sh/reservation`.

use serde::{Deserialize, Serialize};

use crate::ResourceList;

/// The value of the annotation [`crate::labels::koordinator::NODE_RESERVATION`] on a Node, or in a NodePool's template.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeReservation {
    /// What is kept.
    #[serde(default, skip_serializing_if = "ResourceList::is_empty")]
    pub resources: ResourceList,
    /// The very CPUs that are kept, as `0-3,8`; their number takes the place of `resources.cpu`.
    #[serde(default, rename = "reservedCPUs", skip_serializing_if = "String::is_empty")]
    pub reserved_cpus: String,
    /// What the reservation is applied to.
    #[serde(default)]
    pub apply_policy: NodeReservationApplyPolicy,
}

/// What a node's reservation is applied to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub enum NodeReservationApplyPolicy {
    /// Allocatable is less by what is kept, and the CPUs that are kept are bound to no pod.
    #[default]
    #[serde(alias = "")]
    Default,
    /// Only the CPUs that are kept are bound to no pod; kubelet has taken the amounts off allocatable itself.
    #[serde(rename = "ReservedCPUsOnly")]
    ReservedCpusOnly,
}
