//! What the pods and Reservations of a place use of it.

use crate::pool::Reservation;
use crate::quantity::{self, Resources};
use crate::requests;
use crate::sites::Site;
use crate::world::{Pod, World};

/// What a Reservation to be placed reserves, one of `pods` included.
pub(crate) fn reserved(reservation: &Reservation) -> Resources {
    reservation.template.spec.as_ref().map(requests::of_pod).unwrap_or_default()
}

/// The pods of this place that draw from the Reservation.
pub(crate) fn drawing<'w>(world: &'w World, site: &Site<'_>, reservation: &str) -> Vec<&'w Pod> {
    let of_it = site.allocations.iter().filter(|a| a.reservation == reservation);
    of_it.filter_map(|a| world.pods.get(*world.pod_index.get(&a.pod)?)).collect()
}

pub(crate) fn sum<'p>(pods: impl Iterator<Item = &'p Pod>) -> Resources {
    let mut total = Resources::new();
    for pod in pods {
        quantity::add(&mut total, &pod.requests);
    }
    total
}

/// Room of one Reservation and its drawing pods together: what is drawn counts inside the room, what exceeds it on top.
/// A Reservation that is drawn from once keeps nothing else.
pub(crate) fn with_room(room: &Resources, drawn: Resources, once: bool) -> Resources {
    if once && !drawn.is_empty() {
        return drawn;
    }
    let mut both = drawn;
    quantity::raise_to(&mut both, room);
    both
}

/// The pods that run on the place and stay, and what is held there for owners, before anything is planned.
pub(crate) fn before(world: &World, site: &Site<'_>) -> Resources {
    let mut total = sum(site.bound.iter().filter_map(|i| world.pods.get(*i)));
    for reservation in world.reservations.values() {
        if reservation.is_holding() && reservation.node.as_deref() == Some(site.name) && site.claim().is_none() {
            quantity::add(&mut total, &reservation.unallocated());
        }
    }
    total
}

/// Everything on the place but DaemonSets of new nodes: running pods, planned pods, Reservations here.
pub(crate) fn of_site(world: &World, site: &Site<'_>) -> Resources {
    let pod = |i: &usize| world.pods.get(*i);
    let mut total = sum(site.bound.iter().filter_map(pod));
    let is_owner = |p: &&Pod| site.allocations.iter().any(|a| a.pod == p.name);
    quantity::add(&mut total, &sum(site.planned.iter().filter_map(pod).filter(|p| !is_owner(p))));
    for reservation in world.reservations.values() {
        let drawn = sum(drawing(world, site, &reservation.name).into_iter());
        let room =
            if reservation.is_holding() && reservation.node.as_deref() == Some(site.name) && site.claim().is_none() {
                reservation.unallocated()
            } else if site.reservations.contains(&reservation.name) {
                reserved(reservation)
            } else {
                // Drawn from a Reservation that is elsewhere: wrong, and told by another rule; the pods count all the same.
                drawn.clone()
            };
        quantity::add(&mut total, &with_room(&room, drawn, reservation.allocate_once));
    }
    total
}
