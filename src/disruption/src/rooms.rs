//! Room that Reservations hold on nodes. A node may go once the room has a place elsewhere: it moves there in one write, before
//! the node goes, so that nobody else can take it meanwhile.

use std::collections::BTreeMap;

use berth_api::labels::koordinator::{DEVICE_ALLOCATED, RESERVATION_ALLOCATED, RESOURCE_STATUS};
use berth_api::{NodePool, Reservation, ReservationPhase, ReservationReference};
use berth_state::{PodRecord, State};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

/// The Reservations that hold room, by node.
pub(crate) fn by_node(state: &State) -> BTreeMap<&str, Vec<&Reservation>> {
    let mut rooms: BTreeMap<&str, Vec<&Reservation>> = BTreeMap::new();
    for known in state.all::<Reservation>() {
        let Some(status) = &known.status else { continue };
        if matches!(status.phase, ReservationPhase::Available | ReservationPhase::Waiting)
            && let Some(node) = status.node_name.as_deref()
        {
            rooms.entry(node).or_default().push(known);
        }
    }
    rooms
}

/// Why a Reservation cannot move to another node, and keeps its own; `None` where it can. It has one node, so its room moves
/// as a whole: not while pods draw from it, nor while it waits for room, nor with CPUs or devices of its node to itself.
pub(crate) fn stays(room: &Reservation, pool: &NodePool, pods: &[&PodRecord]) -> Option<String> {
    let name = room.metadata.name.as_deref().unwrap_or_default();
    let status = room.status.as_ref()?;
    let has = |metadata: &ObjectMeta, key: &str| metadata.annotations.as_ref().is_some_and(|all| all.contains_key(key));
    let is_drawn_from = !status.current_owners.is_empty() || pods.iter().any(|pod| draws_from(pod, &room.metadata));
    let why = if is_drawn_from {
        "pods draw from it"
    } else if status.phase != ReservationPhase::Available || room.spec.pre_allocation {
        "it waits for room there"
    } else if has(&room.metadata, RESOURCE_STATUS) || has(&room.metadata, DEVICE_ALLOCATED) {
        "it has CPUs or devices of the node to itself"
    } else if pool.spec.is_static() {
        "nodes of a static NodePool are replaced without a look at what is on them"
    } else {
        return None;
    };
    Some(format!("node holds Reservation {name}, which cannot move: {why}"))
}

/// Whether a pod's annotation names this Reservation, and not one that had its name before.
fn draws_from(pod: &PodRecord, room: &ObjectMeta) -> bool {
    let known = pod.annotation(RESERVATION_ALLOCATED).and_then(ReservationReference::parse);
    let (name, uid) = (room.name.as_deref().unwrap_or_default(), room.uid.as_deref().unwrap_or_default());
    known.is_some_and(|known| known.names(name, uid))
}
