//! NodeClass, `eks.amazonaws.com/v1`: how EKS Auto Mode makes nodes.

use std::collections::BTreeMap;

use berth_quantity::Quantity;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::CapacityReservationSelectorTerm;
use crate::object::cluster_object;

cluster_object! {
    /// How EKS Auto Mode makes nodes.
    NodeClass {
        group: "eks.amazonaws.com", version: "v1", plural: "nodeclasses",
        spec: EksNodeClassSpec, status: Value,
    }
}

/// Disk and capacity reservations of nodes of EKS Auto Mode.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EksNodeClassSpec {
    /// The capacity reservations that nodes may use, as in an EC2NodeClass.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub capacity_reservation_selector_terms: Vec<CapacityReservationSelectorTerm>,
    /// The volume with kubelet's files.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ephemeral_storage: Option<EksEphemeralStorage>,
    /// Everything else.
    #[serde(flatten)]
    pub rest: BTreeMap<String, Value>,
}

/// The volume with kubelet's files.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EksEphemeralStorage {
    /// Its size.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size: Option<Quantity>,
    /// Everything else.
    #[serde(flatten)]
    pub rest: BTreeMap<String, Value>,
}
