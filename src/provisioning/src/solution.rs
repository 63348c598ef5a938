//! The answer: claims, bindings to existing nodes, and what is left over.

use std::sync::Arc;

use berth_model::{Assigned, ClassId, Money, Requirements, Resources};
use berth_packing::StopReason;

use crate::restrictions::Restricted;

/// A plan, in terms of classes; who exactly goes where follows by assigning each class's members in the order of
/// nodes, then claims.
#[derive(Clone, Debug, Default)]
pub struct Solution {
    /// Nodes to be launched, identical ones together.
    pub claims: Vec<Claims>,
    /// Existing nodes that get pods, by index into the cluster's nodes.
    pub nodes: Vec<NodePlan>,
    /// What could not be placed.
    pub unschedulable: Vec<Unschedulable>,
    /// Instances used of each entry of the cluster's slots.
    pub slots_used: Vec<u32>,
    /// Why the search for cheaper nodes than first fit's stopped; none at the least effort, and where there was nothing to
    /// search for.
    pub search: Option<StopReason>,
    /// What every plan costs at least, if that was asked for.
    pub bound: Option<Bound>,
    /// What every plan costs at least, of plans so small that all were tried, if it was to be proved that this one is the cheapest.
    pub least: Option<Money>,
    /// What the plan was restricted by: shares, and all else with what it costs if that was asked for.
    pub restrictions: Vec<Restricted>,
}

/// Identical NodeClaims.
#[derive(Clone, Debug)]
pub struct Claims {
    /// How many.
    pub count: u32,
    /// The NodePool, by index.
    pub node_pool: usize,
    /// The planned instance type, by index.
    pub instance_type: u32,
    /// The planned offering among the type's.
    pub zone: Option<berth_model::Sym>,
    /// The planned capacity type.
    pub capacity_type: berth_model::CapacityType,
    /// The finite supply it draws from.
    pub slots: Option<berth_model::SlotId>,
    /// What it costs an hour; zero for reserved.
    pub price: Money,
    /// What it costs by the price list.
    pub list_price: Money,
    /// Every type that fits the pods on paid capacity, cheapest first; of a claim on a slot this is the fallback.
    pub instance_types: Arc<[u32]>,
    /// Requirements of the claim: the pool's, narrowed by pods, domains and the pin to a reservation.
    pub requirements: Arc<Requirements>,
    /// Requests of the pods and of the planned type's daemons.
    pub requests: Resources,
    /// Pods on each, by class.
    pub contents: Vec<(ClassId, u32)>,
}

/// What a plan binds to an existing node.
#[derive(Clone, Debug)]
pub struct NodePlan {
    /// The node, by index.
    pub node: usize,
    /// Pods bound to it, by class.
    pub contents: Vec<(ClassId, u32)>,
    /// What the first pods of a class there draw from, and what of CPUs and devices they have to themselves; none of
    /// classes of which no pod has anything.
    pub came: Vec<(ClassId, Vec<Came>)>,
}

/// From which Reservation a pod draws on its node, by index, and what it has to itself.
pub type Came = (Option<berth_model::ReservationId>, Assigned);

/// Members of a class that could not be placed: the last ones of the class.
#[derive(Clone, Debug)]
pub struct Unschedulable {
    /// The class.
    pub class: ClassId,
    /// How many of its members.
    pub count: u32,
    /// Why.
    pub reasons: Vec<Refusal>,
}

/// A cause, and the number of nodes or of instance types that it holds for (0 where it is about neither).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The cause, in the field's words.
    pub reason: String,
    /// Of nodes for existing nodes, of instance types for NodePools.
    pub count: u32,
}

/// What every plan that places the same pods costs at least.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Bound {
    /// Dollars an hour for new nodes, node cost included.
    pub cost: Money,
    /// What plans must keep to and the bound does not count on, in the field's words; none of the others.
    pub relaxed: Vec<&'static str>,
}
