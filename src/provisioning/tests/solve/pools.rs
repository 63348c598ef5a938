//! Which NodePool a pod goes to.

use berth_model::{CapacityType, Effect, Operator};
use berth_provisioning::{Effort, Options};

use crate::mk::{CAPACITY_TYPE, INSTANCE_TYPE, mk_world, pod};

#[test]
fn the_heavier_pool_comes_first_though_it_costs_more() {
    let mut world = mk_world();
    world.mk_pool("light").require(CAPACITY_TYPE, &["spot"]);
    world.mk_pool("heavy").weight(10).require(CAPACITY_TYPE, &["on-demand"]);
    world.mk_type("small", 2).on_demand("a", 100).spot("a", 30);
    world.mk_pods("web", 1, &pod(1000));
    assert_eq!(world.plan().claims(), ["1 × small on-demand a: web:1"]);
}

#[test]
fn pools_of_equal_weight_compete_on_cost() {
    let mut world = mk_world();
    world.mk_pool("a-dear").weight(10).require(CAPACITY_TYPE, &["on-demand"]);
    world.mk_pool("b-cheap").weight(10).require(CAPACITY_TYPE, &["spot"]);
    world.mk_type("small", 2).on_demand("a", 100).spot("a", 30);
    world.mk_pods("web", 1, &pod(1000));
    assert_eq!(world.plan().claims(), ["1 × small spot a: web:1"]);
}

#[test]
fn a_free_slot_in_a_lighter_pool_comes_before_paid_capacity_in_a_heavier_one() {
    let mut world = mk_world();
    world.mk_pool("heavy").weight(10).require(CAPACITY_TYPE, &["on-demand"]);
    world.mk_pool("light").require(CAPACITY_TYPE, &["reserved", "on-demand"]);
    world.mk_type("small", 2).on_demand("a", 100).reserved("a", "r-1", 2, 100);
    world.mk_pods("web", 3, &pod(2000));
    let plan = world.plan();
    assert_eq!(plan.claims(), ["1 × small on-demand a: web:1", "2 × small r-1 a: web:1"]);
    let pools: Vec<_> = plan.pools().into_iter().collect();
    assert_eq!(pools, [("heavy".to_owned(), 1), ("light".to_owned(), 2)]);
}

#[test]
fn a_tainted_pool_takes_only_who_tolerates_it() {
    let mut world = mk_world();
    world.mk_pool("tainted").weight(10).taint("team", Effect::NoSchedule);
    world.mk_pool("plain");
    world.mk_type("small", 2).on_demand("a", 100);
    world.mk_pods("stranger", 1, &pod(2000));
    world.mk_pods("guest", 1, &pod(2000).tolerates("team"));
    let plan = world.plan();
    let pools: Vec<_> = plan.pools().into_iter().collect();
    assert_eq!(pools, [("plain".to_owned(), 1), ("tainted".to_owned(), 1)]);
}

#[test]
fn prefer_no_schedule_is_avoided_until_nothing_else_is_left() {
    let mut world = mk_world();
    world.mk_pool("avoided").weight(10).taint("team", Effect::PreferNoSchedule).require(CAPACITY_TYPE, &["spot"]);
    world.mk_pool("plain").require(CAPACITY_TYPE, &["on-demand"]).limit_nodes(1);
    world.mk_type("small", 2).on_demand("a", 100).spot("a", 30);
    world.mk_pods("web", 3, &pod(2000));
    let plan = world.plan();
    assert_eq!(plan.claims(), ["1 × small on-demand a: web:1", "2 × small spot a: web:1"]);
}

#[test]
fn min_values_keeps_so_many_types_possible() {
    for (least, expected) in [(1, "1 × large on-demand a: web:4"), (2, "2 × small on-demand a: web:2")] {
        let mut world = mk_world();
        world.mk_pool("default").min_values(INSTANCE_TYPE, least);
        world.mk_type("small", 2).on_demand("a", 100);
        world.mk_type("large", 4).on_demand("a", 150);
        world.mk_pods("web", 4, &pod(1000));
        let plan = world.plan();
        assert_eq!(plan.claims(), [expected], "minValues {least}");
        assert!(plan.listed().iter().all(|types| types.len() >= least as usize));
    }
}

#[test]
fn a_pod_that_leaves_too_few_types_for_min_values_is_not_placed() {
    let mut world = mk_world();
    world.mk_pool("default").min_values(INSTANCE_TYPE, 2);
    world.mk_type("small", 2).on_demand("a", 100);
    world.mk_type("large", 4).on_demand("a", 150);
    world.mk_pods("web", 1, &pod(3000));
    let plan = world.plan();
    assert_eq!(plan.left(), ["1 × web"]);
    let expected = ["1 × NodePool default: Insufficient cpu", "1 × NodePool default: minValues requirement is not met"];
    assert_eq!(plan.reasons(), expected);
}

#[test]
fn min_values_does_not_count_a_finite_supply_that_no_claim_may_list() {
    for (free, expected) in [(None, vec!["1 × small on-demand a: web:1"]), (Some(2), vec![])] {
        let mut world = mk_world();
        world.mk_pool("default").min_values(INSTANCE_TYPE, 2);
        world.mk_type("small", 4).on_demand("a", 100);
        match free {
            Some(free) => world.mk_type("large", 8).finite("a", 200, free),
            None => world.mk_type("large", 8).on_demand("a", 200),
        };
        world.mk_pods("web", 1, &pod(1000));
        let plan = world.plan();
        assert_eq!(plan.claims(), expected);
        assert!(plan.listed().iter().all(|types| types.len() == 2));
    }
}

/// What a type is offered as: how many instances there are, any number for `None`.
type Offered = Option<Option<u32>>;

/// Whether a node of `planned` may be launched where minValues asks for two types, and `all` are offered in one zone, each with
/// its type, capacity type, price and number: a claim lists what is unlimited and no cheaper, and names types and capacity types
/// apart, so that a type is out where it might come cheaper.
fn keeps_two_types(all: &[(usize, CapacityType, u32, Option<u32>)], planned: usize) -> bool {
    let (own, kind, price, _) = all[planned];
    [true, false].into_iter().any(|one_kind| {
        let named = |of: CapacityType| !one_kind || of == kind;
        let is_cheaper = |of: usize| all.iter().any(|(other, k, p, _)| *other == of && named(*k) && *p < price);
        let lists = |of: usize| {
            let listed = |(other, k, p, free): &(usize, CapacityType, u32, Option<u32>)| {
                *other == of && named(*k) && *p >= price && free.is_none()
            };
            (of == own || all.iter().any(listed)) && !is_cheaper(of)
        };
        (0..2).all(lists)
    })
}

#[test]
fn min_values_counts_a_type_that_is_unlimited_in_one_way_and_finite_in_another() {
    use CapacityType::{OnDemand, Spot};
    let prices = [[100, 200, 300, 400], [200, 100, 400, 300], [400, 300, 200, 100], [300, 100, 200, 400]];
    let offered: [Offered; 3] = [None, Some(Some(1)), Some(None)];
    for case in 0..offered.len().pow(4) * prices.len() {
        let supply = |at: u32| offered[case / offered.len().pow(at) % offered.len()];
        let price = prices[case / offered.len().pow(4)];
        let ways = [(0, OnDemand), (0, Spot), (1, OnDemand), (1, Spot)];
        let ways = ways.into_iter().zip(price).enumerate();
        let all: Vec<_> = ways
            .filter_map(|(at, ((of, kind), price))| Some((of, kind, price, supply(u32::try_from(at).unwrap())?)))
            .collect();
        let mut world = mk_world();
        world.mk_pool("default").min_values(INSTANCE_TYPE, 2);
        for (of, name) in ["small", "large"].into_iter().enumerate() {
            let mut made = world.mk_type(name, 4);
            for &(_, kind, price, free) in all.iter().filter(|(other, ..)| *other == of) {
                made = made.offered(kind, "a", price, free);
            }
        }
        world.mk_pods("web", 1, &pod(1000));
        let may_be_placed = (0..all.len()).any(|planned| keeps_two_types(&all, planned));
        let plan = world.plan_with(&Options { effort: Effort::Low, ..Options::default() });
        assert_eq!(plan.left().is_empty(), may_be_placed, "{all:?}: {:?}", plan.claims());
    }
}

#[test]
fn daemons_take_their_room_on_every_planned_node() {
    let mut world = mk_world();
    world.mk_pool("default");
    world.mk_type("small", 2).on_demand("a", 100);
    world.mk_daemon(&pod(500));
    world.mk_pods("web", 4, &pod(1000));
    let plan = world.plan();
    assert_eq!(plan.claims(), ["4 × small on-demand a: web:1"]);
    assert_eq!(plan.solution.claims[0].requests.get(berth_model::ResourceId::CPU), 1500);
}

#[test]
fn a_weight_is_no_reason_to_give_a_slot_to_who_has_no_choice() {
    let mut world = mk_world();
    let pool = "karpenter.sh/nodepool";
    world.mk_pool("heavy").weight(10).require(INSTANCE_TYPE, &["two", "four", "eight"]);
    world.mk_pool("light").require(INSTANCE_TYPE, &["two", "cheap"]);
    world.mk_type("two", 2).reserved("a", "cr", 1, 500).on_demand("a", 500);
    world.mk_type("four", 4).on_demand("a", 700);
    world.mk_type("eight", 8).on_demand("a", 9000);
    world.mk_type("cheap", 2).on_demand("a", 100);
    for (name, only) in [("first", "heavy"), ("bound", "light"), ("last", "heavy")] {
        world.mk_pods(name, 2, &pod(1000).needs(pool, Operator::In, &[only]));
    }
    let plan = world.plan();
    // With the slot for the bound pods, those of the heavy pool would share a node of 700.
    assert_eq!(plan.cost(), 600, "{:?}", plan.claims());
}

/// The regression: each slot of a lighter NodePool drew one more node to its paid capacity, since the slot went to the dearer node of
/// the heavier one.
#[test]
fn slots_of_a_lighter_pool_draw_nobody_to_its_paid_capacity() {
    for (n_slots, n_heavy) in [(0, 4), (1, 3), (2, 2), (4, 0)] {
        for effort in [Effort::Low, Effort::Default] {
            let mut world = mk_world();
            world.mk_pool("heavy").weight(20).require(CAPACITY_TYPE, &["on-demand"]);
            world.mk_pool("light").weight(10);
            world.mk_type("large", 4).on_demand("a", 100).spot("a", 30).reserved("a", "cr", n_slots, 100);
            world.mk_pods("web", 4, &pod(3000));
            let plan = world.plan_with(&Options { effort, ..Options::default() });
            let mut expected = Vec::new();
            if n_slots > 0 {
                expected.push(format!("{n_slots} × large cr a: web:1"));
            }
            if n_heavy > 0 {
                expected.push(format!("{n_heavy} × large on-demand a: web:1"));
            }
            assert_eq!(plan.claims(), expected, "{n_slots} slots");
            assert_eq!(plan.pools().get("heavy").copied().unwrap_or_default(), n_heavy, "{n_slots} slots");
        }
    }
}
