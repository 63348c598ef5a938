//! Instances: what a cloud launched.

use std::collections::BTreeMap;
use std::fmt;

use berth_api::ResourceList;
use berth_catalogue::CapacityType;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::LaunchToken;

/// The identity of an instance, as its node has it in `spec.providerID`, such as `fake:///port-1a/i-000001`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ProviderId(pub String);

/// One offering: a type, where, and how it is bought.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct OfferingKey {
    /// The instance type.
    pub instance_type: String,
    /// The zone; `None` where the cloud has none.
    pub zone: Option<String>,
    /// How the capacity is bought.
    #[serde(with = "capacity_type")]
    pub capacity_type: CapacityType,
}

/// An instance as the cloud shows it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Instance {
    /// Its identity.
    pub provider_id: ProviderId,
    /// What it is doing.
    pub state: InstanceState,
    /// Which offering it is. The capacity type is `reserved` as long as it is under a reservation: an on-demand
    /// reservation that ends leaves its instances running as on-demand.
    pub offering: OfferingKey,
    /// The reservation whose slot it uses now, where the cloud says so.
    pub reservation: Option<String>,
    /// When it was launched.
    pub launched_at: Timestamp,
    /// The token of its launch; `None` if Berth did not launch it.
    pub token: Option<LaunchToken>,
    /// Its tags.
    pub tags: BTreeMap<String, String>,
    /// The image that it runs.
    pub image_id: Option<String>,
    /// The labels that its node has for what it is: type, zone, capacity type, architecture, the offering's own.
    pub labels: BTreeMap<String, String>,
    /// What it has in all.
    pub capacity: ResourceList,
    /// What pods may use of it.
    pub allocatable: ResourceList,
    /// Set once the cloud has said that it will take the instance back.
    pub interruption: Option<Interruption>,
}

/// What an instance is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum InstanceState {
    /// Launched, not yet running. It is paid for, and its slot is used.
    Pending,
    /// Running; whether its node has joined is for the node to say.
    Running,
    /// On its way out; it comes back never.
    ShuttingDown,
    /// Gone. It may be listed for a while yet.
    Terminated,
}

/// A cloud's announcement that it will take an instance back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Interruption {
    /// Why.
    pub reason: InterruptionReason,
    /// When the instance will be shut down.
    pub at: Timestamp,
}

/// Why a cloud takes an instance back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum InterruptionReason {
    /// Spot capacity is wanted by someone who pays more.
    Spot,
    /// The capacity block that it runs in ends.
    CapacityBlockEnd,
    /// The owner of the interruptible reservation that it runs in wants its slot back.
    Reclaimed,
    /// The machine is to be retired.
    Maintenance,
}

// === impl ProviderId ===

impl ProviderId {
    /// The text, as in `spec.providerID`.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ProviderId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

// === impl OfferingKey ===

impl fmt::Display for OfferingKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.instance_type, self.capacity_type)?;
        self.zone.as_ref().map_or(Ok(()), |zone| write!(f, " in {zone}"))
    }
}

// === impl InstanceState ===

impl InstanceState {
    /// Whether the instance is there for pods, or will be.
    pub const fn is_alive(self) -> bool {
        matches!(self, Self::Pending | Self::Running)
    }
}

// === impl InterruptionReason ===

impl InterruptionReason {
    /// Whether the notice is of a few minutes only: what takes its place is launched at once.
    pub const fn is_on_short_notice(self) -> bool {
        matches!(self, Self::Spot | Self::Reclaimed)
    }

    /// The name, as events and metrics have it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Spot => "SpotInterrupted",
            Self::CapacityBlockEnd => "CapacityBlockEnding",
            Self::Reclaimed => "ReservationReclaimed",
            Self::Maintenance => "Maintenance",
        }
    }
}

/// A capacity type as labels have it.
mod capacity_type {
    use berth_catalogue::CapacityType;
    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serializer};

    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde's signature")]
    pub(super) fn serialize<S: Serializer>(known: &CapacityType, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(known.as_str())
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<CapacityType, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(|()| D::Error::custom(format!("{text:?} is no capacity type")))
    }
}
