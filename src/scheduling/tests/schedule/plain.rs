//! Which pods are counted on a node, and which are bound one after another.

use berth_model::{Holding, Phase, PodSpec, Reservation, ReservationId, Resources, Universe};
use berth_scheduling::NodeTables;

use crate::mk::{World, mk_pod};

#[test]
fn a_node_with_a_reservation_is_plain_to_all_but_its_owners() {
    let mut world = World::new();
    world.mk_node("n", "a", 4000, 8);
    let mut reservation = Reservation::new(world.sym("r"));
    reservation.phase = Phase::Available;
    reservation.allocatable = Resources::from_amounts(&[1000, 1 << 30]);
    world.cluster.nodes[0].holdings.push(Holding::new(ReservationId(0), &reservation));
    world.cluster.reservations.push(reservation);
    let mut owner = mk_pod(500, 1);
    owner.reservation.owner_of.push(ReservationId(0));
    let universe = Universe::new(&mut world.cluster);
    let tables = NodeTables::new(&world.cluster, &universe);
    let state = tables.snapshot();
    let is_plain = |spec: &PodSpec| tables.fit(&state).is_plain(spec, 0);
    assert!(is_plain(&mk_pod(500, 1)));
    assert!(!is_plain(&owner));
}
