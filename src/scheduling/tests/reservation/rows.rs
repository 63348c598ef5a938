//! The rows of the test tables in the proposal of resource reservation, as far as these rules decide them: what comes of
//! each was worked out from its text and is written in the test.

use berth_model::AllocatePolicy::{Restricted, Unset};

use crate::mk::{Bound, GI, World, drawing, pod, refused, res, spec};

// === NodeResources: a machine of 16 cores and 32 GiB ===

fn machine() -> World {
    World::new(16_000, 32, 110)
}

/// A Reservation for one owner alone, as is the default.
fn reserve_once(world: &mut World, milli_cpu: i64, gib: i64) {
    world.reserve_with(Unset, res(milli_cpu, gib), |reservation| reservation.allocate_once = true);
}

/// Free milli-CPU and GiB.
fn free(world: &World) -> (i64, i64) {
    let amounts = world.room.free().amounts();
    (amounts.first().copied().unwrap_or(0), amounts.get(1).copied().unwrap_or(0) / GI)
}

#[test]
fn node_resources_1_an_owner_of_the_same_size_takes_its_place() {
    let mut world = machine();
    reserve_once(&mut world, 4000, 4);
    assert_eq!(free(&world), (12_000, 28));
    assert_eq!(world.bind("web", &spec(&pod(4000, 4))), Bound::Draws(0));
    assert_eq!(free(&world), (12_000, 28));
}

#[test]
fn node_resources_2_what_the_one_owner_leaves_is_free_again() {
    let mut world = machine();
    reserve_once(&mut world, 4000, 4);
    assert_eq!(world.bind("web", &spec(&pod(4000, 0))), Bound::Draws(0));
    assert_eq!(free(&world), (12_000, 32));
}

#[test]
fn node_resources_3_also_where_it_uses_a_part() {
    let mut world = machine();
    reserve_once(&mut world, 4000, 4);
    assert_eq!(world.bind("web", &spec(&pod(4000, 1))), Bound::Draws(0));
    assert_eq!(free(&world), (12_000, 31));
}

#[test]
fn node_resources_4_what_is_not_reserved_comes_from_the_node() {
    let mut world = machine();
    reserve_once(&mut world, 4000, 0);
    assert_eq!(free(&world), (12_000, 32));
    assert_eq!(world.bind("web", &spec(&pod(4000, 1))), Bound::Draws(0));
    assert_eq!(free(&world), (12_000, 31));
}

#[test]
fn node_resources_5_a_larger_owner_takes_the_rest_from_the_node() {
    let mut world = machine();
    reserve_once(&mut world, 4000, 0);
    world.run(&pod(10_000, 0), None);
    assert_eq!(free(&world), (2000, 32));
    assert_eq!(world.bind("web", &spec(&pod(6000, 0))), Bound::Draws(0));
    assert_eq!(free(&world), (0, 32));
}

#[test]
fn node_resources_6_two_owners_share_what_may_be_used_again() {
    let mut world = machine();
    world.reserve(Unset, res(8000, 0));
    for _ in 0..2 {
        assert_eq!(world.bind("web", &spec(&pod(4000, 0))), Bound::Draws(0));
        assert_eq!(free(&world), (8000, 32));
    }
}

#[test]
fn node_resources_7_the_second_owner_takes_what_is_left_and_the_rest_from_the_node() {
    let mut world = machine();
    world.reserve(Unset, res(6000, 0));
    assert_eq!(world.bind("web", &spec(&pod(4000, 0))), Bound::Draws(0));
    assert_eq!(free(&world), (10_000, 32));
    assert_eq!(world.bind("web", &spec(&pod(4000, 0))), Bound::Draws(0));
    assert_eq!(free(&world), (8000, 32), "two of its four cores are the node's");
    // Restricted, the second one uses free room, and two cores stay held.
    let mut world = machine();
    world.reserve(Restricted, res(6000, 0));
    assert_eq!(world.bind("web", &spec(&pod(4000, 0))), Bound::Draws(0));
    assert_eq!(world.bind("web", &spec(&pod(4000, 0))), Bound::Free);
    assert_eq!(free(&world), (6000, 32));
}

#[test]
fn node_resources_8_one_that_is_no_owner_gets_what_is_not_reserved() {
    let mut world = machine();
    reserve_once(&mut world, 4000, 0);
    for left in [8000, 4000, 0] {
        assert_eq!(world.bind("other", &spec(&pod(4000, 0))), Bound::Free);
        assert_eq!(free(&world), (left, 32));
    }
    assert_eq!(world.bind("other", &spec(&pod(4000, 0))), refused(&["Insufficient cpu by node"]));
    assert_eq!(world.bind("web", &spec(&pod(4000, 0))), Bound::Draws(0), "the room was kept");
}

#[test]
fn node_resources_9_others_get_what_an_owner_leaves_only_once_the_reservation_is_spent() {
    let mut world = machine();
    reserve_once(&mut world, 4000, 0);
    world.run(&pod(12_000, 0), None);
    let other = spec(&pod(2000, 0));
    assert_eq!(world.bind("other", &other), refused(&["Insufficient cpu by node"]));
    assert_eq!(world.bind("web", &spec(&pod(2000, 0))), Bound::Draws(0));
    assert_eq!(world.bind("other", &other), Bound::Free);
    // One that may be used again keeps what is left for its next owner.
    let mut world = machine();
    world.reserve(Unset, res(4000, 0));
    world.run(&pod(12_000, 0), None);
    assert_eq!(world.bind("web", &spec(&pod(2000, 0))), Bound::Draws(0));
    assert_eq!(world.bind("other", &other), refused(&["Insufficient cpu by node"]));
}

#[test]
fn restricted_options_restrict_what_they_list_and_lose_track_of_nothing() {
    let mut world = machine();
    world.reserve_with(Restricted, res(4000, 8), |reservation| {
        reservation.restricted = vec![berth_model::ResourceId::CPU];
    });
    assert_eq!(world.bind("web", &drawing(&pod(6000, 1))), refused(&["Reservation(s) Insufficient cpu"]));
    assert_eq!(world.bind("web", &drawing(&pod(2000, 10))), Bound::Draws(0), "memory may overflow");
    assert_eq!(free(&world), (12_000, 22), "and is counted");
    assert_eq!(world.bind("web", &drawing(&pod(2000, 22))), Bound::Draws(0));
    assert_eq!(free(&world), (12_000, 0));
}
