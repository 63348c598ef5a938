//! An instance type.

use std::collections::BTreeMap;

use berth_quantity::Quantity;
use serde::Serialize;

use crate::{CapacityType, Machine, Money, OfferingEntry};

/// An instance type of the catalogue.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct InstanceTypeEntry {
    /// The value of `node.kubernetes.io/instance-type`; unique in a catalogue.
    pub name: String,
    /// The value of `kubernetes.io/arch`, such as `amd64`.
    pub architecture: String,
    /// The values that `kubernetes.io/os` can have, such as `linux`; at least one.
    pub operating_systems: Vec<String>,
    /// What pods may use of a node of this type, all of them together: net of what the system keeps. Has at least
    /// `cpu`, `memory` and `pods`.
    pub resources: BTreeMap<String, Quantity>,
    /// Labels that every node of this type has, the usual ones aside.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// The machine, where it is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub machine: Option<Box<Machine>>,
    /// What a plan that is made with it must tell, such as that its prices are estimates.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// The ways to get it.
    pub offerings: Vec<OfferingEntry>,
}

impl InstanceTypeEntry {
    /// What an instance of `offering`, one of this type's, is worth an hour: its price, but for reserved the on-demand
    /// price of the same zone (the lowest, should there be several), where the catalogue has one.
    pub fn list_price(&self, offering: &OfferingEntry) -> Money {
        if offering.capacity_type() != Some(CapacityType::Reserved) {
            return offering.price;
        }
        self.offerings
            .iter()
            .filter(|o| o.capacity_type() == Some(CapacityType::OnDemand) && o.zone() == offering.zone())
            .map(|o| o.price)
            .min()
            .unwrap_or(offering.price)
    }

    /// What launching one more instance of `offering` adds to the bill an hour: nothing for reserved, which is paid
    /// for already, else its price.
    pub fn marginal_price(&self, offering: &OfferingEntry) -> Money {
        if offering.capacity_type() == Some(CapacityType::Reserved) { Money::ZERO } else { offering.price }
    }
}
