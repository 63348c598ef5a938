//! Twenty-five cases of Koordinator's tables, with their numbers, under Berth's decisions. Amounts that Koordinator
//! counts as requested hold the Reservation's own, and what owners draw twice; here pods are counted once, so a case of
//! 30 cores requested with 6 reserved is a node with 24 cores of pods.

use berth_model::{
    AllocatePolicy::{Aligned, Restricted, Unset},
    Effect, Holding, PreAllocation, PreAllocationMode, ReservationId, Resources, Toleration, TolerationOperator,
};
use berth_scheduling::reservation::{
    Binding, Candidate, Fit, Mismatch, NodeOffer, Settings, bind, may_share_node, nominate, normalized, raw_scores,
    score,
};

use crate::mk::{Bound, GI, World, drawing, naming, pod, refused, res, spec};

/// 32 cores, 32 GiB and 100 pods, of which pods use so much.
fn node(used_milli_cpu: i64, used_gib: i64) -> World {
    let mut world = World::new(32_000, 32, 100);
    world.run(&res(used_milli_cpu, used_gib), None);
    world
}

#[test]
fn case_01_an_aligned_owner_takes_the_rest_from_the_node() {
    let mut world = node(24_000, 24);
    world.reserve(Aligned, res(6000, 0));
    assert_eq!(world.ask("web", &spec(&pod(8000, 8))), Ok(Fit::Draws(vec![0])));
}

#[test]
fn case_02_an_aligned_owner_lacks_what_reservation_and_node_lack_together() {
    let mut world = node(26_000, 24);
    world.reserve(Aligned, res(6000, 0));
    assert_eq!(world.ask("web", &spec(&pod(8000, 8))), Err(vec!["Insufficient cpu by node".to_owned()]));
}

#[test]
fn case_03_a_restricted_owner_takes_what_is_not_reserved_from_the_node() {
    let mut world = node(24_000, 24);
    world.reserve(Restricted, res(6000, 0));
    assert_eq!(world.ask("web", &drawing(&pod(6000, 8))), Ok(Fit::Draws(vec![0])));
}

#[test]
fn case_04_a_restricted_owner_takes_no_more_than_is_reserved() {
    let mut world = node(24_000, 24);
    world.reserve(Restricted, res(6000, 0));
    let asked = drawing(&pod(8000, 8));
    assert_eq!(world.bind("web", &asked), refused(&["Reservation(s) Insufficient cpu"]));
    // Two cores are free: without affinity the node alone cannot serve it either.
    assert_eq!(world.bind("web", &spec(&pod(8000, 8))), refused(&["Insufficient cpu by node"]));
}

#[test]
fn case_05_what_is_kept_inside_of_a_reservation_is_not_for_owners() {
    let mut world = node(24_000, 24);
    world.reserve_with(Restricted, res(6000, 0), |reservation| reservation.kept = res(2000, 0));
    assert_eq!(world.bind("web", &drawing(&pod(6000, 8))), refused(&["Reservation(s) Insufficient cpu"]));
    assert_eq!(world.bind("web", &drawing(&pod(4000, 8))), Bound::Draws(0));
}

/// Seven cores, one of them kept, and two pods, of which `owners` have come with a core each.
fn two_pods(owners: usize) -> World {
    let mut world = node(0, 0);
    world.reserve_with(Restricted, Resources::from_amounts(&[7000, 0, 2]), |reservation| {
        reservation.kept = res(1000, 0);
    });
    for _ in 0..owners {
        world.run(&pod(1000, 0), Some(0));
    }
    world
}

#[test]
fn case_06_pods_that_are_reserved_by_number_are_limited() {
    let mut world = two_pods(2);
    assert_eq!(world.bind("web", &drawing(&pod(3000, 0))), refused(&["Reservation(s) Too many pods"]));
    let named = naming(&world, 0, &pod(3000, 0));
    let reason = "Reservation(s) Too many pods, requested: 1, used: 2, capacity: 2";
    assert_eq!(world.bind("web", &named), refused(&[reason]));
}

#[test]
fn case_07_an_evicted_owner_leaves_less_than_a_pod_needs() {
    let mut world = two_pods(2);
    world.room.remove_pod(&pod(1000, 0), Some(ReservationId(0)));
    let named = naming(&world, 0, &pod(6000, 0));
    let reason = "Reservation(s) Insufficient cpu, requested: 6000, used: 1000, capacity: 6000";
    assert_eq!(world.bind("web", &named), refused(&[reason]));
}

#[test]
fn case_09_what_is_not_reserved_is_the_nodes_to_lack() {
    let mut world = World::new(32_000, 32, 100);
    let batch = world.resource("kubernetes.io/batch-cpu");
    let mut allocatable = world.room.allocatable().clone();
    allocatable.set(batch, 7500);
    world.room = berth_model::NodeRoom::new(allocatable);
    let mut used = Resources::new();
    used.set(batch, 1500);
    world.run(&used, None);
    world.reserve(Restricted, res(6000, 0));
    let mut requests = pod(0, 0);
    requests.set(batch, 8000);
    let reason = "Insufficient kubernetes.io/batch-cpu by node";
    assert_eq!(world.bind("web", &spec(&requests)), refused(&[reason]));
    assert_eq!(world.bind("web", &drawing(&requests)), refused(&[reason]));
}

#[test]
fn case_10_room_in_a_full_reservation_is_no_more_than_was_freed_in_it() {
    let mut world = node(26_000, 0);
    world.reserve(Unset, res(6000, 0));
    let owners = [pod(4000, 0), pod(2000, 0)];
    for owner in &owners {
        world.run(owner, Some(0));
    }
    let requests = pod(4000, 0);
    world.room.remove_pod(&owners[1], Some(ReservationId(0)));
    assert_eq!(world.bind("web", &spec(&requests)), refused(&["Insufficient cpu by node"]));
}

#[test]
fn case_11_evicting_others_does_not_fill_a_restricted_reservation() {
    let mut world = node(26_000, 0);
    world.reserve(Restricted, res(6000, 0));
    world.run(&pod(6000, 0), Some(0));
    let other = res(4000, 0);
    world.room.remove_pod(&other, None);
    assert_eq!(world.bind("web", &drawing(&pod(4000, 0))), refused(&["Reservation(s) Insufficient cpu"]));
}

#[test]
fn case_12_a_node_is_seen_with_the_room_of_the_matched_and_without_that_of_others() {
    let mut world = World::new(32_000, 64, 100);
    world.run(&pod(4000, 8), None);
    world.run(&pod(8000, 16), None);
    let unmatched = world.reserve_with(Aligned, res(12_000, 24), |reservation| reservation.owners = Some(Vec::new()));
    world.run(&pod(4000, 8), Some(unmatched));
    world.reserve(Aligned, res(8000, 16));
    let used = |free: &Resources| {
        (32_000 - free.amounts().first().unwrap_or(&0), 64 - free.amounts().get(1).unwrap_or(&0) / GI)
    };
    assert_eq!(used(world.room.free()), (32_000, 64), "all is used or held");
    assert_eq!(used(&world.room.free_with(1)), (24_000, 48));
    assert_eq!(world.matched("web", &spec(&pod(1, 0))), [1]);
}

#[test]
fn case_13_half_filled_scores_half() {
    let mut world = node(0, 0);
    world.reserve(Unset, res(4000, 8));
    assert_eq!(score(&world.room.holdings()[0], &pod(2000, 4)), 50);
}

#[test]
fn case_14_what_would_overflow_scores_nothing() {
    let mut world = node(0, 0);
    world.reserve(Unset, res(2000, 4));
    world.run(&pod(2000, 3), Some(0));
    assert_eq!(score(&world.room.holdings()[0], &pod(2000, 4)), 0);
}

#[test]
fn case_15_the_reservation_that_a_pod_fills_is_nominated() {
    let mut world = node(0, 0);
    world.reserve(Unset, res(4000, 8));
    world.reserve(Unset, res(2000, 4));
    let requests = pod(2000, 4);
    let nominated = nominate(&world.room, &[0, 1], &requests, &world.reservations, &world.symbols);
    assert_eq!(nominated, Some(1));
    assert_eq!(score(&world.room.holdings()[1], &requests), 100);
}

#[test]
fn case_16_the_node_of_the_lowest_order_is_preferred_above_all() {
    let plain = NodeOffer { nominated: Some(100), lowest_order: None };
    let ordered = NodeOffer { nominated: Some(100), lowest_order: Some(123_456) };
    let raw = raw_scores(&[plain, plain, plain, ordered]);
    assert_eq!(raw, [100, 100, 100, 1000]);
    assert_eq!(normalized(&raw), [10, 10, 10, 100]);
}

#[test]
fn case_17_reservations_without_a_policy_share_a_node_only_with_their_like() {
    let conflict = |a, b| {
        let mut world = node(0, 0);
        world.reserve(b, res(1000, 0));
        !may_share_node(a, world.room.holdings())
    };
    assert!(conflict(Unset, Aligned) && conflict(Unset, Restricted) && conflict(Restricted, Unset));
    assert!(!conflict(Aligned, Restricted) && !conflict(Restricted, Aligned) && !conflict(Unset, Unset));
}

#[test]
fn case_18_an_unschedulable_reservation_takes_those_who_tolerate_it() {
    let mut world = node(0, 0);
    world.reserve_with(Unset, res(4000, 0), |reservation| reservation.is_unschedulable = true);
    let mut asked = drawing(&pod(1000, 0));
    assert_eq!(world.mismatch(&asked, 0), Err(Mismatch::Unschedulable));
    let toleration = Toleration {
        key: Some(world.symbols.intern("node.kubernetes.io/unschedulable")),
        operator: TolerationOperator::Exists,
        value: world.symbols.intern(""),
        effect: Some(Effect::NoSchedule),
    };
    asked.reservation.affinity.as_mut().unwrap().tolerations = vec![toleration];
    assert_eq!(world.mismatch(&asked, 0), Ok(()));
    asked.reservation.affinity.as_mut().unwrap().name = Some(world.symbols.intern("another"));
    assert_eq!(world.mismatch(&asked, 0), Err(Mismatch::Name));
}

// Cases 19 and 20 are in lifecycle.rs.

/// A node of 16 cores and 32 GiB with `used`, on which a Reservation is bound to running pods.
fn bind_to(
    used: &[Resources],
    reserved: Resources,
    candidates: &[(&str, Resources, i64)],
    settings: Settings,
) -> Binding {
    let mut world = World::new(16_000, 32, 100);
    let mut reservation = berth_model::Reservation::new(world.symbols.intern("r"));
    reservation.policy = Restricted;
    reservation.allocatable = reserved;
    for requests in used.iter().chain(candidates.iter().map(|(_, requests, _)| requests)) {
        world.run(requests, None);
    }
    let how = PreAllocation { mode: PreAllocationMode::Cluster, is_multiple: true, is_required: false };
    let candidates: Vec<Candidate<'_>> = candidates
        .iter()
        .map(|(name, requests, priority)| Candidate { name, requests, priority: *priority, is_bound: false })
        .collect();
    bind(&world.room, &reservation, how, &candidates, settings).unwrap()
}

#[test]
fn case_21_running_pods_are_added_up_by_priority_passing_over_what_exceeds() {
    let candidates = [("a", pod(1000, 2), 70), ("b", pod(5000, 10), 90), ("c", pod(1000, 2), 50)];
    let settings = Settings { cluster_mode: true, prefers_free_room: false };
    let binding = bind_to(&[pod(7000, 14)], res(4000, 8), &candidates, settings);
    assert_eq!(binding, Binding { pods: vec![0, 2], score: 33 });
}

#[test]
fn case_22_free_room_may_come_before_running_pods() {
    let candidates = [("a", pod(2000, 4), 10), ("b", pod(2000, 4), 20)];
    let bind = |prefers_free_room| {
        let settings = Settings { cluster_mode: true, prefers_free_room };
        bind_to(&[pod(1000, 2)], res(8000, 16), &candidates, settings)
    };
    assert_eq!(bind(false), Binding { pods: vec![1], score: 50 });
    assert_eq!(bind(true), Binding { pods: vec![], score: 100 });
}

/// Owners of 2C2Gi, 2C2Gi, 3Gi and 2Gi in turn on a reusable Reservation of 4C8Gi, on a node with `gib` in all.
fn four_owners(policy: berth_model::AllocatePolicy, gib: i64, last_must_draw: bool) -> (World, Vec<Bound>) {
    let mut world = World::new(16_000, gib, 100);
    world.reserve(policy, res(4000, 8));
    let last = if last_must_draw { drawing(&pod(0, 2)) } else { spec(&pod(0, 2)) };
    let owners = [spec(&pod(2000, 2)), spec(&pod(2000, 2)), spec(&pod(0, 3)), last];
    let bound = owners.iter().map(|owner| world.bind("web", owner)).collect();
    (world, bound)
}

fn allocated(world: &World) -> (u32, i64, i64) {
    let holding = &world.room.holdings()[0];
    let amounts = holding.allocated().amounts();
    (holding.owners(), amounts[0], amounts[1] / GI)
}

#[test]
fn case_23_a_restricted_reservation_refuses_the_last_owner_that_must_draw() {
    let (world, bound) = four_owners(Restricted, 32, true);
    assert_eq!(bound[..3], [Bound::Draws(0), Bound::Draws(0), Bound::Draws(0)]);
    assert_eq!(bound[3], refused(&["Reservation(s) Insufficient memory"]));
    assert_eq!(allocated(&world), (3, 4000, 7));
}

#[test]
fn case_23_without_affinity_the_last_owner_uses_free_room_and_holds_nothing_of_it() {
    let (world, bound) = four_owners(Restricted, 32, false);
    assert_eq!(bound[3], Bound::Free);
    assert_eq!(allocated(&world), (3, 4000, 7), "three owners as before");
    assert_eq!(world.room.free().amounts()[1], (32 - 8 - 2) * GI, "one GiB stays held for owners");
    let (_, bound) = four_owners(Restricted, 8, false);
    assert_eq!(bound[3], refused(&["Insufficient memory by node"]), "a full node");
}

#[test]
fn case_23_an_aligned_reservation_lets_the_last_owner_overflow() {
    let (world, bound) = four_owners(Aligned, 32, false);
    assert!(bound.iter().all(|bound| *bound == Bound::Draws(0)));
    assert_eq!(allocated(&world), (4, 4000, 9));
    assert_eq!(world.room.free().amounts()[1], (32 - 9) * GI, "what overflows is counted against others");
}

#[test]
fn case_24_reservations_are_not_merged() {
    let mut world = World::new(0, 0, 100);
    let unit = world.resource("example.com/unit");
    let amount = |n| {
        let mut amount = Resources::from_amounts(&[0, 0, 1]);
        amount.set(unit, n);
        amount
    };
    let mut allocatable = amount(1000);
    allocatable.set(berth_model::ResourceId::PODS, 100);
    world.room = berth_model::NodeRoom::new(allocatable);
    for _ in 0..5 {
        let mut reserved = amount(200);
        reserved.set(berth_model::ResourceId::PODS, 0);
        world.reserve(Aligned, reserved);
    }
    assert_eq!(world.bind("web", &spec(&amount(300))), refused(&["Insufficient example.com/unit by node"]));
    assert_eq!(world.bind("web", &spec(&amount(200))), Bound::Draws(0));
}

#[test]
fn case_25_preemption_frees_the_room_of_owners_for_owners_alone() {
    let mut world = World::new(1000, 0, 100);
    world.reserve(Aligned, res(1000, 0));
    let owner = pod(1000, 0);
    world.run(&owner, Some(0));
    world.room.remove_pod(&owner, Some(ReservationId(0)));
    assert_eq!(world.bind("other", &spec(&owner)), refused(&["Insufficient cpu by node"]));
    assert_eq!(world.bind("web", &spec(&owner)), Bound::Draws(0));
}

#[test]
fn a_holding_gives_owners_one_place_among_the_nodes_pods() {
    let mut world = World::new(8000, 8, 2);
    world.reserve(Aligned, res(4000, 0));
    assert_eq!(world.bind("other", &spec(&pod(1000, 0))), Bound::Free);
    assert_eq!(world.bind("other", &spec(&pod(1000, 0))), refused(&["Insufficient pods by node"]));
    assert_eq!(world.bind("web", &spec(&pod(1000, 0))), Bound::Draws(0));
    assert_eq!(Holding::new(ReservationId(0), &world.reservations[0]).owners(), 0);
}
