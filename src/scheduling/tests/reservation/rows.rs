//! The rows of the test tables in the proposal of resource reservation, as far as these rules decide them: what comes of
//! each was worked out from its text and is written in the test.

use berth_model::{
    AllocatePolicy::{Restricted, Unset},
    HostPort, Reservation, Resources, Sym, Symbols, Volumes,
};
use berth_scheduling::reservation::held::{Held, attachments_fit, exclusive_claim_conflict, ports_conflict};

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

// === NodePorts ===

fn ports(symbols: &mut Symbols, numbers: &[u16]) -> Vec<HostPort> {
    let protocol = symbols.intern("TCP");
    numbers.iter().map(|&port| HostPort { ip: None, protocol, port }).collect()
}

/// One Reservation for each list of ports, and whether a pod that matches all of them, or none, conflicts.
fn conflict(reserved: &[&[u16]], is_owner: bool, of_pods: &[u16], asked: &[u16]) -> bool {
    let mut symbols = Symbols::default();
    let mk = |numbers: &&[u16]| {
        let mut reservation = Reservation::new(symbols.intern("r"));
        reservation.phase = berth_model::Phase::Available;
        reservation.host_ports = ports(&mut symbols, numbers);
        reservation
    };
    let reservations: Vec<Reservation> = reserved.iter().map(mk).collect();
    let held = |reservation| Held { reservation, owners: 0, is_matched: is_owner };
    let held: Vec<Held<'_>> = reservations.iter().map(held).collect();
    ports_conflict(&ports(&mut symbols, asked), &ports(&mut symbols, of_pods), &held)
}

#[test]
fn node_ports_1_owners_take_their_ports_of_one_reservation_in_turn() {
    let reserved: [&[u16]; 1] = [&[7777, 8888, 9999]];
    assert!(!conflict(&reserved, true, &[], &[7777]), "owner A");
    assert!(!conflict(&reserved, true, &[7777], &[8888]), "owner B");
    assert!(conflict(&reserved, true, &[7777], &[7777]), "a port that an owner uses is not free");
}

#[test]
fn node_ports_2_a_pod_may_take_ports_of_several_reservations() {
    let reserved: [&[u16]; 2] = [&[7777], &[8888]];
    assert!(!conflict(&reserved, true, &[], &[7777]), "owner A");
    assert!(!conflict(&reserved, true, &[7777], &[8888]), "owner B");
    assert!(!conflict(&reserved, true, &[], &[7777, 8888, 9000]), "two reserved ports and one of the node");
}

#[test]
fn node_ports_3_others_do_not_get_reserved_ports() {
    let reserved: [&[u16]; 1] = [&[7777, 8888, 9999]];
    assert!(conflict(&reserved, false, &[], &[7777]));
    assert!(!conflict(&reserved, false, &[], &[6666]));
}

// === VolumeRestrictions and NodeVolumeLimits ===

fn with_volumes(volumes: Volumes) -> Reservation {
    let mut reservation = Reservation::new(Symbols::default().intern("r"));
    reservation.phase = berth_model::Phase::Available;
    reservation.volumes = volumes;
    reservation
}

fn held(reservation: &Reservation, is_matched: bool) -> [Held<'_>; 1] {
    [Held { reservation, owners: 0, is_matched }]
}

#[test]
fn volume_restrictions_a_claim_for_one_pod_is_held_for_the_owner() {
    let claim: Sym = Symbols::default().intern("default/data");
    let volumes = Volumes { exclusive_claims: vec![claim], ..Volumes::default() };
    let reservation = with_volumes(volumes.clone());
    assert!(!exclusive_claim_conflict(&volumes, &[], &held(&reservation, true)), "its owner, where it is");
    assert!(exclusive_claim_conflict(&volumes, &[], &held(&reservation, false)), "others, and its owner elsewhere");
    assert!(exclusive_claim_conflict(&volumes, &[claim], &held(&reservation, true)), "a second owner");
    assert!(!exclusive_claim_conflict(&Volumes::default(), &[claim], &held(&reservation, false)));
}

#[test]
fn node_volume_limits_an_attachment_is_held_for_the_owner() {
    let mut symbols = Symbols::default();
    let driver = symbols.intern("csi.example.com");
    let (mine, theirs) = ((driver, symbols.intern("default/mine")), (driver, symbols.intern("default/theirs")));
    let volumes = |volume| Volumes { attachments: vec![volume], ..Volumes::default() };
    let reservation = with_volumes(volumes(mine));
    let fits = |asked, of_pods: &[(Sym, Sym)], is_matched, limit| {
        attachments_fit(&volumes(asked), of_pods, &held(&reservation, is_matched), &[(driver, limit)])
    };
    assert!(fits(mine, &[], true, 1), "its owner takes the one place that there is");
    assert!(!fits(theirs, &[], false, 1), "which is kept from others");
    assert!(fits(theirs, &[], false, 2));
    assert!(fits(mine, &[], false, 1), "the same volume counts once");
    assert!(!fits(theirs, &[mine], true, 1), "an owner's volume counts");
}

// === InterPodAffinity and PodTopologySpread: whether the Reservation counts as a pod of its template ===

/// How many pods of `app` a pod of `app` sees on each node: `(pods, reservations that are matched or not)`.
fn seen(pods: u32, reserved: &[(u32, bool)]) -> u32 {
    let mut reservation = Reservation::new(Symbols::default().intern("r"));
    reservation.phase = berth_model::Phase::Available;
    let stands_in =
        |&&(owners, is_matched): &&(u32, bool)| Held { reservation: &reservation, owners, is_matched }.stands_in();
    pods + u32::try_from(reserved.iter().filter(stands_in).count()).unwrap()
}

#[test]
fn inter_pod_affinity_1_and_2_owners_are_near_the_pods_that_they_must_be_near() {
    // Node a has the pod that the template must be near, so the Reservation is there, and so is every owner. The
    // Reservation itself is no such pod to its owners: it neither helps nor hinders them.
    let (on_a, on_b) = (seen(1, &[(0, true)]), seen(0, &[]));
    assert!(on_a > 0 && on_b == 0, "owners may go to a alone");
    assert_eq!(seen(1, &[(1, true)]), 1, "also once the first has come");
}

#[test]
fn inter_pod_affinity_3_a_reservation_does_not_keep_its_owner_away() {
    assert_eq!(seen(0, &[(0, true)]), 0, "the owner excludes pods of its kind, and sees none");
}

#[test]
fn inter_pod_affinity_4_owners_that_exclude_each_other_get_a_reservation_each() {
    // Reservations on a and b, two owners that exclude each other: once the first is on a, the second sees it there
    // (of the spent Reservation nothing is left) and nobody on b.
    assert_eq!((seen(1, &[]), seen(0, &[(0, true)])), (1, 0));
}

#[test]
fn inter_pod_affinity_5_others_count_a_reservation_as_a_pod_of_its_template() {
    // One that is no owner must be near pods of this kind: the Reservation stands for one.
    assert_eq!(seen(0, &[(0, false)]), 1);
    assert_eq!(seen(1, &[(1, false)]), 1, "but not beside its owner, who would be counted twice");
}

#[test]
fn inter_pod_affinity_6_a_reservation_keeps_others_away() {
    assert_eq!(seen(0, &[(0, false)]), 1, "one that excludes pods of this kind sees one");
}

#[test]
fn topology_spread_owners_spread_as_if_nothing_were_reserved() {
    // A Reservation on each of two nodes, DoNotSchedule with maxSkew 1, two owners: the first sees 0 and 0 and goes to
    // a; the second sees 1 on a and 0 on b, goes to b, and all Reservations are spent.
    assert_eq!((seen(0, &[(0, true)]), seen(0, &[(0, true)])), (0, 0));
    assert_eq!((seen(1, &[]), seen(0, &[(0, true)])), (1, 0));
    let requests = Resources::from_amounts(&[1000, 0, 1]);
    for _node in 0..2 {
        let mut world = machine();
        reserve_once(&mut world, 1000, 0);
        assert_eq!(world.bind("web", &spec(&requests)), Bound::Draws(0));
        assert!(world.room.holdings().is_empty());
    }
}
