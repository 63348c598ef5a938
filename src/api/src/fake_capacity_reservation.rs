//! FakeCapacityReservation, `berth.sh/v1alpha1`: capacity that the cloud in memory has sold beforehand.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use serde::{Deserialize, Serialize};

use crate::object::cluster_object;

cluster_object! {
    /// Capacity that the cloud in memory has sold beforehand. Deleting it cancels it.
    FakeCapacityReservation {
        group: "berth.sh", version: "v1alpha1", plural: "fakecapacityreservations",
        spec: FakeCapacityReservationSpec, status: FakeCapacityReservationStatus,
    }
}

/// How many instances of which types are reserved, where and when. It may be changed while it is used.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "crd", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct FakeCapacityReservationSpec {
    /// The id, as nodes carry it in `berth.sh/capacity-reservation-id`; unset is the object's name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// The instance types that it can hold, 1 to 100.
    #[serde(default)]
    pub instance_types: Vec<String>,
    /// The zones that it is in; none where the cloud has no zones. At most 100.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub zones: Vec<String>,
    /// How many instances it holds, 0 to 1,000,000. Fewer than use it is possible: nobody says which are over.
    pub count: i64,
    /// How many of them others use, 0 to 1,000,000.
    #[serde(default)]
    pub used_by_others: i64,
    /// The account that owns it, where reservations are shared.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
    /// What its end, and a lower count, do to its instances.
    #[serde(default, rename = "type")]
    pub reservation_type: FakeReservationType,
    /// Which launches it serves.
    #[serde(default)]
    pub matching: FakeReservationMatching,
    /// When it begins; unset is at once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start: Option<Time>,
    /// When it ends; unset is never.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub end: Option<Time>,
}

/// What the end of a reservation, and a lower count, do to its instances.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "crd", derive(schemars::JsonSchema))]
pub enum FakeReservationType {
    /// They run on, paid for by the hour.
    #[default]
    OnDemand,
    /// They are shut down.
    CapacityBlock,
    /// They are shut down with two minutes' notice: at the end, and those that are over when the count is lowered.
    Interruptible,
}

/// Which launches a reservation serves.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "crd", derive(schemars::JsonSchema))]
pub enum FakeReservationMatching {
    /// Those that name it.
    #[default]
    Targeted,
    /// Any on-demand launch of its types in its zones, too.
    Open,
}

/// What was observed of a FakeCapacityReservation.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "crd", derive(schemars::JsonSchema))]
pub struct FakeCapacityReservationStatus {
    /// How many instances it holds.
    #[serde(default)]
    pub total: i64,
    /// How many use it, others' included; more than `total` where it was made smaller.
    #[serde(default)]
    pub used: i64,
    /// How many slots are free for launches now.
    #[serde(default)]
    pub free: i64,
    /// Scheduled, Active, Expiring or Ended.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub state: String,
    /// Ready.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
}

// === impl FakeCapacityReservation ===

impl FakeCapacityReservation {
    /// The id of the reservation; empty only where the object has no name.
    pub fn id(&self) -> &str {
        self.spec.id.as_deref().or(self.metadata.name.as_deref()).unwrap_or_default()
    }
}
