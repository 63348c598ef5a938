//! An offering of an instance type: where, how it is bought, at what price, and how many there are.

use std::fmt;
use std::str::FromStr;

use berth_quantity::Operator;
use serde::Serialize;
use serde::ser::{SerializeStruct, Serializer};

use crate::{Money, ReservationDetails};

/// The label names that say what an offering is.
pub mod label {
    /// How the capacity is bought: `on-demand`, `spot` or `reserved`.
    pub const CAPACITY_TYPE: &str = "karpenter.sh/capacity-type";
    /// The zone.
    pub const ZONE: &str = "topology.kubernetes.io/zone";
    /// The reservation that a reserved offering draws from; every reserved offering of a [`Catalogue`] has it.
    ///
    /// [`Catalogue`]: crate::Catalogue
    pub const CAPACITY_RESERVATION_ID: &str = "berth.sh/capacity-reservation-id";
    /// The names under which a reserved offering may name its reservation.
    pub const RESERVATION_IDS: [&str; 3] =
        [CAPACITY_RESERVATION_ID, "karpenter.sh/reservation-id", "karpenter.k8s.aws/capacity-reservation-id"];
    /// What the end of a reservation does: `default`, or `capacity-block` where its instances are shut down.
    pub const RESERVATION_TYPE: &str = "karpenter.k8s.aws/capacity-reservation-type";
    /// Whether the owner of a reservation may take instances back: `true` or `false`.
    pub const RESERVATION_INTERRUPTIBLE: &str = "karpenter.k8s.aws/capacity-reservation-interruptible";
}

/// One way to get instances of a type.
///
/// A [`Catalogue`](crate::Catalogue) holds only offerings of one capacity type and of at most one zone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OfferingEntry {
    /// Dollars an hour, 0 to 1,000,000, as the file has it. Of a reserved offering this is neither what a node costs
    /// (nothing) nor what it is worth ([`InstanceTypeEntry::list_price`](crate::InstanceTypeEntry::list_price)).
    pub price: Money,
    /// How many instances can be launched, apart from what a reservation holds.
    pub availability: Availability,
    /// How many instances its reservation still has free; set on reserved offerings only, and in a
    /// [`Catalogue`](crate::Catalogue) on all of them, equal for all that share a reservation id.
    pub reservation_capacity: Option<u32>,
    /// The labels that nodes of this offering have.
    pub requirements: Vec<RequirementEntry>,
    /// What is known of its reservation beside the count; on reserved offerings only.
    pub reservation: Option<Box<ReservationDetails>>,
}

/// How many instances of an offering can be launched.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Availability {
    /// As many as anyone asks for: `true`, or 4294967295 in the form of the proposal (capacity-reservations.md,
    /// CloudProvider interface Changes).
    #[default]
    Unlimited,
    /// So many; `false` is none.
    Count(u32),
}

/// How capacity is bought.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CapacityType {
    /// Paid for in advance, in limited number.
    Reserved,
    /// Cheap, and taken back at short notice.
    Spot,
    /// At list price.
    OnDemand,
}

/// A requirement that an offering's nodes meet, as in a node selector term.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RequirementEntry {
    /// The label.
    pub key: String,
    /// How the label's value relates to `values`.
    pub operator: Operator,
    /// At least one for `In` and `NotIn`, one whole number for the comparisons, else none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub values: Vec<String>,
}

// === impl OfferingEntry ===

impl OfferingEntry {
    /// How this offering's capacity is bought; `None` only where no single known one is named, which no offering of a
    /// [`Catalogue`](crate::Catalogue) lacks.
    pub fn capacity_type(&self) -> Option<CapacityType> {
        self.single_value(label::CAPACITY_TYPE)?.parse().ok()
    }

    /// The zone; `None` where the cloud has no zones.
    pub fn zone(&self) -> Option<&str> {
        self.single_value(label::ZONE)
    }

    /// The reservation that it draws from, under any of the names in [`label::RESERVATION_IDS`].
    pub fn reservation_id(&self) -> Option<&str> {
        label::RESERVATION_IDS.iter().find_map(|key| self.single_value(key))
    }

    /// The requirements that are not on capacity type, zone or reservation id.
    pub fn other_requirements(&self) -> impl Iterator<Item = &RequirementEntry> {
        self.requirements.iter().filter(|r| {
            r.key != label::CAPACITY_TYPE && r.key != label::ZONE && !label::RESERVATION_IDS.contains(&r.key.as_str())
        })
    }

    /// How many instances can be launched, its reservation counted. Offerings of one reservation share one count.
    pub fn launchable(&self) -> Availability {
        match (self.availability, self.reservation_capacity) {
            (Availability::Count(available), Some(capacity)) => Availability::Count(available.min(capacity)),
            (Availability::Unlimited, Some(capacity)) => Availability::Count(capacity),
            (availability, None) => availability,
        }
    }

    /// The value of `key`, where a requirement `In` with one value sets it.
    pub fn single_value(&self, key: &str) -> Option<&str> {
        self.requirements.iter().find_map(|r| match (r.operator, r.values.as_slice()) {
            (Operator::In, [value]) if r.key == key => Some(value.as_str()),
            _ => None,
        })
    }
}

impl Serialize for OfferingEntry {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let n_fields = 3 + usize::from(self.reservation_capacity.is_some()) + usize::from(self.reservation.is_some());
        let mut fields = serializer.serialize_struct("Offering", n_fields)?;
        fields.serialize_field("Price", &self.price)?;
        fields.serialize_field("Available", &self.availability)?;
        if let Some(capacity) = self.reservation_capacity {
            fields.serialize_field("ReservationCapacity", &capacity)?;
        }
        if let Some(details) = &self.reservation {
            fields.serialize_field("Reservation", details)?;
        }
        fields.serialize_field("Requirements", &self.requirements)?;
        fields.end()
    }
}

// === impl Availability ===

impl Availability {
    /// Whether nothing can be launched.
    pub const fn is_none(self) -> bool {
        matches!(self, Self::Count(0))
    }

    /// The count, where there is one.
    pub const fn count(self) -> Option<u32> {
        match self {
            Self::Unlimited => None,
            Self::Count(count) => Some(count),
        }
    }
}

impl From<u32> for Availability {
    /// A count as the proposal has it, in which the greatest is no limit.
    fn from(count: u32) -> Self {
        if count == u32::MAX { Self::Unlimited } else { Self::Count(count) }
    }
}

impl Serialize for Availability {
    /// `true`, `false` or the count.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Unlimited => serializer.serialize_bool(true),
            Self::Count(0) => serializer.serialize_bool(false),
            Self::Count(count) => serializer.serialize_u32(*count),
        }
    }
}

// === impl CapacityType ===

impl CapacityType {
    /// The label value.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Reserved => "reserved",
            Self::Spot => "spot",
            Self::OnDemand => "on-demand",
        }
    }
}

impl fmt::Display for CapacityType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for CapacityType {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        [Self::Reserved, Self::Spot, Self::OnDemand].into_iter().find(|c| c.as_str() == text).ok_or(())
    }
}

// === impl RequirementEntry ===

impl RequirementEntry {
    /// `key In [value]`.
    pub fn is(key: impl Into<String>, value: impl Into<String>) -> Self {
        Self { key: key.into(), operator: Operator::In, values: vec![value.into()] }
    }
}
