//! What a NodeClaim is to be launched as, from the decision on until the node is there.

use serde::{Deserialize, Serialize};

/// The value of the annotation [`PLANNED_OFFERING`](crate::labels::PLANNED_OFFERING), as JSON:
/// `{"instanceType":"m5.large","zone":"us-east-1a","capacityType":"reserved","reservationID":"cr-1"}`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PlannedOffering {
    /// The instance type.
    pub instance_type: String,
    /// The zone, where the offering is of one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub zone: Option<String>,
    /// `reserved`, `spot` or `on-demand`.
    pub capacity_type: String,
    /// The capacity reservation of which the claim takes a slot.
    #[serde(rename = "reservationID", default, skip_serializing_if = "Option::is_none")]
    pub reservation_id: Option<String>,
}

/// The value of the annotation [`PLANNED_FOR`](crate::labels::PLANNED_FOR), as JSON: `{"pods":12,"reservations":1}`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PlannedFor {
    /// How many pods.
    pub pods: usize,
    /// How many Reservations.
    pub reservations: usize,
}
