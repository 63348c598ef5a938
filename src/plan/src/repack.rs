//! "What would this cluster cost, planned from scratch?"
//!
//! The plan from scratch has the same objects without nodes and claims; what runs is pending. Whom a workload owns keeps
//! its place in it: a pod that runs is one of its workload's, as ever. Volumes stay where they are.

use std::borrow::Cow;

use berth_manifests::Object;
use berth_model::{CapacityType, Cluster, InstanceType, Money, Node, Sym};

/// What Koordinator's scheduler writes on pods when it binds them.
const ASSIGNED: [&str; 3] = [
    "scheduling.koordinator.sh/reservation-allocated",
    "scheduling.koordinator.sh/resource-status",
    "scheduling.koordinator.sh/device-allocated",
];

/// An object as it would be if no node were there yet; none where it is gone with its node.
pub(crate) fn without_nodes(object: &Object) -> Option<Cow<'_, Object>> {
    match object {
        Object::Node(_)
        | Object::NodeClaim(_)
        | Object::CSINode(_)
        | Object::Device(_)
        | Object::NodeResourceTopology(_) => None,
        Object::Pod(pod) => {
            let owners = pod.metadata.owner_references.iter().flatten();
            let mut controllers = owners.filter(|owner| owner.controller == Some(true));
            // These come with the new nodes: as overhead, or as static pods.
            let kind = controllers.next().map(|owner| owner.kind.as_str());
            let is_running = pod.spec.as_ref().is_some_and(|spec| spec.node_name.is_some());
            let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
            let is_over = matches!(phase, Some("Succeeded" | "Failed"));
            if is_over || pod.metadata.deletion_timestamp.is_some() {
                return None;
            }
            match kind {
                // On a node that is not there any more, it still says what its DaemonSet is like.
                Some("DaemonSet") if is_running => return Some(Cow::Borrowed(object)),
                Some("DaemonSet" | "Node") => return None,
                _ => {}
            }
            let mut pod = pod.clone();
            pod.status = None;
            if let Some(spec) = &mut pod.spec {
                spec.node_name = None;
            }
            if let Some(annotations) = &mut pod.metadata.annotations {
                annotations.retain(|key, _| !ASSIGNED.contains(&key.as_str()));
            }
            Some(Cow::Owned(Object::Pod(pod)))
        }
        Object::Reservation(reservation) => {
            if reservation.status.as_ref().is_some_and(|status| status.phase.is_terminal()) {
                return Some(Cow::Borrowed(object));
            }
            let mut reservation = reservation.clone();
            reservation.status = None;
            Some(Cow::Owned(Object::Reservation(reservation)))
        }
        other => Some(Cow::Borrowed(other)),
    }
}

/// The nodes that a cluster has, and what they cost by the catalogue.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Fleet {
    pub(crate) nodes: u64,
    /// Dollars an hour; reserved costs nothing.
    pub(crate) hourly_cost: Money,
    /// By the price list, reserved included.
    pub(crate) list_cost: Money,
    /// Nodes whose type the catalogue does not have, or that do not say of which type they are, by name.
    pub(crate) unpriced: Vec<String>,
}

impl Fleet {
    pub(crate) fn of(cluster: &Cluster) -> Self {
        let mut fleet = Fleet::default();
        for node in &cluster.nodes {
            fleet.nodes += 1;
            match price(cluster, node) {
                Some((hourly, list)) => {
                    fleet.hourly_cost += hourly;
                    fleet.list_cost += list;
                }
                None => fleet.unpriced.push(cluster.symbols.text(node.name).to_owned()),
            }
        }
        fleet.unpriced.sort_unstable();
        fleet
    }
}

/// What a node costs an hour, and by the price list. Where the catalogue does not have its zone, the dearest of the others tells
/// the price.
fn price(cluster: &Cluster, node: &Node) -> Option<(Money, Money)> {
    let known = &cluster.well_known;
    let name = node.labels.get(known.instance_type)?;
    let zone = node.labels.get(known.zone);
    let capacity = node.labels.get(known.capacity_type).map_or("on-demand", |value| cluster.symbols.text(value));
    let offerings = || {
        let types = cluster.instance_types.iter().filter(|known| known.name == name);
        types.flat_map(InstanceType::known_offerings)
    };
    let of = |capacity: CapacityType| {
        let mut here =
            offerings().filter(|one| one.capacity_type == capacity && (one.zone.is_none() || one.zone == zone));
        let elsewhere = || offerings().filter(|one| one.capacity_type == capacity).max_by_key(|one| one.price);
        here.next().or_else(elsewhere)
    };
    match capacity {
        "reserved" => {
            let list = of(CapacityType::OnDemand).map(|one| one.price);
            Some((Money::ZERO, list.or_else(|| of(CapacityType::Reserved).map(|one| one.list_price))?))
        }
        "spot" => of(CapacityType::Spot).map(|one| (one.price, one.list_price)),
        _ => of(CapacityType::OnDemand).map(|one| (one.price, one.list_price)),
    }
}

/// Gives the slots back that nodes of the current cluster take.
pub(crate) fn free_slots(scratch: &mut Cluster, current: &Cluster) {
    let keys = [
        "berth.sh/capacity-reservation-id",
        "karpenter.sh/reservation-id",
        "karpenter.k8s.aws/capacity-reservation-id",
    ];
    let keys: Vec<Sym> = keys.iter().filter_map(|key| current.symbols.get(key)).collect();
    for node in &current.nodes {
        let is_reserved = node
            .labels
            .get(current.well_known.capacity_type)
            .is_some_and(|value| current.symbols.text(value) == CapacityType::Reserved.name());
        let id = keys.iter().find_map(|key| node.labels.get(*key)).filter(|_| is_reserved);
        let Some(id) = id.and_then(|id| scratch.symbols.get(current.symbols.text(id))) else { continue };
        if let Some(slots) = scratch.slots.iter_mut().find(|slots| slots.is_reservation && slots.id == id) {
            slots.free = slots.free.saturating_add(1);
        }
    }
}
