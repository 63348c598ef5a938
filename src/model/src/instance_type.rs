//! Instance types and their offerings, with integer availability.

use crate::{Labels, Money, Resources, Sym};

/// The capacity types of Karpenter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CapacityType {
    /// Prepaid: a slot of a capacity reservation.
    Reserved,
    /// Spare capacity that may be interrupted.
    Spot,
    /// Paid by use.
    OnDemand,
}

impl CapacityType {
    /// The value of `karpenter.sh/capacity-type`.
    pub fn name(self) -> &'static str {
        match self {
            CapacityType::Reserved => "reserved",
            CapacityType::Spot => "spot",
            CapacityType::OnDemand => "on-demand",
        }
    }
}

/// An entry of [`crate::Cluster::slots`]: one shared integer count of instances.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SlotId(pub u32);

impl SlotId {
    /// As an index.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// A finite supply of instances: a capacity reservation, or a paid offering with integer availability.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Slots {
    /// The reservation's id; of a finite paid offering, a name made from type, zone and capacity type.
    pub id: Sym,
    /// Whether this is a capacity reservation (else a finite paid offering).
    pub is_reservation: bool,
    /// How many instances may still be launched.
    pub free: u32,
}

/// What one may launch: an instance type in a zone with a capacity type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Offering {
    /// The capacity type.
    pub capacity_type: CapacityType,
    /// The zone, if the catalogue names one.
    pub zone: Option<Sym>,
    /// What choosing it costs an hour: zero for reserved.
    pub price: Money,
    /// What it costs by the price list: for reserved, the on-demand price of the same type and zone.
    pub list_price: Money,
    /// The finite supply that a launch draws from; `None` is unlimited.
    pub slots: Option<SlotId>,
    /// The labels a node of this offering gets beyond its type's: zone, capacity type, region, reservation id.
    pub labels: Labels,
}

/// An instance type of the catalogue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InstanceType {
    /// The name, the value of `node.kubernetes.io/instance-type`.
    pub name: Sym,
    /// The labels that every node of this type gets, the operating system aside.
    pub labels: Labels,
    /// The operating systems it can run (values of `kubernetes.io/os`); a node runs one.
    pub operating_systems: Vec<Sym>,
    /// What pods and daemons may use.
    pub resources: Resources,
    /// The node class whose nodes these are, as [`NodePool::node_class`](crate::NodePool::node_class) names it. The type
    /// is in the cluster once for each class that makes other nodes of it.
    pub node_class: Option<Sym>,
    /// Where and how it can be had.
    pub offerings: Vec<Offering>,
    /// Where and how it cannot be had for money now. Nodes of these offerings that are there cost what they say.
    pub sold_out: Vec<Offering>,
}

impl InstanceType {
    /// Its offerings, whether they can be had now or not: those that can come first.
    pub fn known_offerings(&self) -> impl Iterator<Item = &Offering> {
        self.offerings.iter().chain(&self.sold_out)
    }

    /// The same, to change them.
    pub fn known_offerings_mut(&mut self) -> impl Iterator<Item = &mut Offering> {
        self.offerings.iter_mut().chain(&mut self.sold_out)
    }
}
