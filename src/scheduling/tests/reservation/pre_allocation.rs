//! Binding to pods that already run.

use berth_model::{AllocatePolicy, Holding, PreAllocation, PreAllocationMode, Reservation, ReservationId, Resources};
use berth_scheduling::reservation::{Binding, Candidate, Lack, Refusal, Settings, bind, reasons};
use rstest::rstest;

use crate::mk::{World, pod, res};

const OWNERS: PreAllocation = PreAllocation { mode: PreAllocationMode::Owners, is_multiple: false, is_required: false };
const CLUSTER: PreAllocation = PreAllocation { mode: PreAllocationMode::Cluster, ..OWNERS };
const ON: Settings = Settings { cluster_mode: true, prefers_free_room: false };

fn run(
    (milli_cpu, gib): (i64, i64),
    policy: AllocatePolicy,
    how: PreAllocation,
    settings: Settings,
    candidates: &[(&str, Resources, i64, bool)],
) -> Result<Binding, Refusal> {
    let mut world = World::new(milli_cpu, gib, 100);
    let mut reservation = Reservation::new(world.symbols.intern("r"));
    reservation.policy = policy;
    reservation.allocatable = res(2000, 4);
    for (_, requests, ..) in candidates {
        world.run(requests, None);
    }
    let candidates: Vec<Candidate<'_>> = candidates
        .iter()
        .map(|(name, requests, priority, is_bound)| Candidate {
            name,
            requests,
            priority: *priority,
            is_bound: *is_bound,
        })
        .collect();
    bind(&world.room, &reservation, how, &candidates, settings)
}

fn pods(outcome: Result<Binding, Refusal>) -> Vec<usize> {
    outcome.unwrap().pods
}

#[rstest]
#[case(AllocatePolicy::Unset)]
#[case(AllocatePolicy::Aligned)]
#[case(AllocatePolicy::Restricted)]
fn a_full_nodes_pod_is_bound_under_every_policy(#[case] policy: AllocatePolicy) {
    let candidates = [("default/a", pod(2000, 4), 0, false)];
    assert_eq!(pods(run((2000, 4), policy, OWNERS, ON, &candidates)), [0]);
}

#[test]
fn a_pod_larger_than_the_reservation_is_bound_unless_it_is_restricted() {
    let candidates = [("default/a", pod(3000, 4), 0, false)];
    assert_eq!(pods(run((3000, 4), AllocatePolicy::Aligned, OWNERS, ON, &candidates)), [0]);
    let refused = run((3000, 4), AllocatePolicy::Restricted, OWNERS, ON, &candidates);
    assert_eq!(refused, Err(Refusal::Lacks(vec![Lack::InReservation(berth_model::ResourceId::CPU, None)])));
}

#[test]
fn one_pod_that_frees_too_little_is_not_enough_but_two_are() {
    let candidates = [("default/a", pod(1000, 2), 100, false), ("default/b", pod(1000, 2), 90, false)];
    let full = (2000, 4);
    assert!(run(full, AllocatePolicy::Unset, CLUSTER, ON, &candidates).is_err());
    let multiple = PreAllocation { is_multiple: true, ..CLUSTER };
    let binding = run(full, AllocatePolicy::Unset, multiple, ON, &candidates).unwrap();
    assert_eq!(binding, Binding { pods: vec![0, 1], score: 33 });
}

#[test]
fn in_mode_cluster_the_highest_priority_is_bound_else_the_pod_that_fills_most() {
    let candidates = [("default/a", pod(2000, 4), 10, false), ("default/b", pod(1000, 2), 100, false)];
    let roomy = (6000, 12);
    assert_eq!(pods(run(roomy, AllocatePolicy::Unset, CLUSTER, ON, &candidates)), [1]);
    assert_eq!(pods(run(roomy, AllocatePolicy::Unset, OWNERS, ON, &candidates)), [0]);
}

#[test]
fn equal_candidates_are_taken_by_name() {
    let candidates = [("default/b", pod(2000, 4), 0, false), ("default/a", pod(2000, 4), 0, false)];
    assert_eq!(pods(run((4000, 8), AllocatePolicy::Unset, CLUSTER, ON, &candidates)), [1]);
}

#[test]
fn no_pod_is_bound_twice_in_any_mode() {
    for how in [OWNERS, CLUSTER] {
        let candidates = [("default/a", pod(2000, 4), 100, true), ("default/b", pod(2000, 4), 1, false)];
        assert_eq!(pods(run((4000, 8), AllocatePolicy::Unset, how, ON, &candidates)), [1]);
        assert!(run((2000, 4), AllocatePolicy::Unset, how, ON, &candidates[..1]).is_err());
    }
}

#[test]
fn mode_cluster_needs_the_schedulers_configuration() {
    let candidates = [("default/a", pod(2000, 4), 0, false)];
    let outcome = run((2000, 4), AllocatePolicy::Unset, CLUSTER, Settings::default(), &candidates);
    assert_eq!(outcome, Err(Refusal::Reason(reasons::CLUSTER_MODE_DISABLED)));
}

#[test]
fn without_candidates_free_room_will_do_unless_pods_are_required() {
    let free = run((4000, 8), AllocatePolicy::Unset, OWNERS, ON, &[]);
    assert_eq!(free, Ok(Binding { pods: vec![], score: 0 }));
    let required = PreAllocation { is_required: true, ..OWNERS };
    let refused = run((4000, 8), AllocatePolicy::Unset, required, ON, &[]);
    assert_eq!(refused, Err(Refusal::Reason(reasons::NO_POD_TO_BIND)));
    let candidates = [("default/a", pod(1000, 2), 0, false)];
    assert_eq!(pods(run((4000, 8), AllocatePolicy::Unset, required, ON, &candidates)), [0]);
}

#[test]
fn where_free_room_comes_first_no_pod_is_bound_unless_one_is_required() {
    let settings = Settings { prefers_free_room: true, ..ON };
    let candidates = [("default/a", pod(1000, 2), 0, false)];
    let roomy = (4000, 8);
    assert!(pods(run(roomy, AllocatePolicy::Unset, OWNERS, settings, &candidates)).is_empty());
    let required = PreAllocation { is_required: true, ..OWNERS };
    assert_eq!(pods(run(roomy, AllocatePolicy::Unset, required, settings, &candidates)), [0]);
    assert_eq!(
        pods(run((2000, 4), AllocatePolicy::Unset, OWNERS, settings, &[("default/a", pod(2000, 4), 0, false)])),
        [0]
    );
}

#[test]
fn what_a_bound_pod_frees_is_kept_for_owners() {
    let mut world = World::new(2000, 4, 100);
    let mut reservation = Reservation::new(world.symbols.intern("r"));
    reservation.allocatable = res(2000, 4);
    // The pod ran, then the Reservation is bound to it.
    world.run(&pod(2000, 4), None);
    world.room.remove_pod(&pod(2000, 4), None);
    world.room.hold(Holding::new(ReservationId(0), &reservation));
    world.run(&pod(2000, 4), Some(0));
    assert!(!world.room.is_room_taken(), "it is counted once");
    world.room.remove_pod(&pod(2000, 4), Some(ReservationId(0)));
    assert_eq!(world.room.free(), &Resources::from_amounts(&[0, 0, 99]), "nothing for others");
    assert_eq!(world.room.free_with(0), Resources::from_amounts(&[2000, 4 << 30, 100]));
}

#[test]
fn of_single_pods_the_score_says_how_well_one_fills_the_reservation() {
    let score = |how, requests| {
        let candidates = [("default/a", requests, 0, false)];
        run((4000, 8), AllocatePolicy::Unset, PreAllocation { is_required: true, ..how }, ON, &candidates)
            .unwrap()
            .score
    };
    let multiple = PreAllocation { is_multiple: true, ..OWNERS };
    assert_eq!(score(multiple, pod(2000, 4)), score(multiple, pod(4000, 8)), "the fewer pods, the better");
    assert!(score(OWNERS, pod(2000, 4)) > score(OWNERS, pod(4000, 8)), "the pod that leaves least");
}
