//! Capacity reservations: proposals/capacity-reservations.md.

use berth_model::Operator::{In, NotIn};
use berth_provisioning::{Effort, Options};

use crate::mk::{CAPACITY_TYPE, HOSTNAME, INSTANCE_TYPE, ZONE, mk_world, pod};

#[test]
fn final_reserved_offering_is_retained() {
    let mut world = mk_world();
    world.mk_pool("default");
    world.mk_type("small", 2).reserved("a", "r-1", 1, 100).on_demand("a", 100);
    world.mk_type("large", 4).on_demand("a", 150);
    world.mk_pods("web", 4, &pod(1000));
    let plan = world.plan();
    // All four would fit one large node: rather a second node than the reserved type packed past.
    assert_eq!(plan.claims(), ["1 × small on-demand a: web:2", "1 × small r-1 a: web:2"]);
    assert_eq!(plan.cost(), 100);
}

#[test]
fn a_reserved_node_does_not_grow_for_a_later_class() {
    let mut world = mk_world();
    world.mk_pool("default");
    world.mk_type("small", 2).reserved("a", "r-1", 1, 100).on_demand("a", 100);
    world.mk_type("large", 4).on_demand("a", 101);
    world.mk_pods("big", 1, &pod(1500));
    world.mk_pods("tiny", 1, &pod(1000));
    let plan = world.plan();
    assert_eq!(plan.claims(), ["1 × small on-demand a: tiny:1", "1 × small r-1 a: big:1"]);
}

#[test]
fn reserved_first_then_on_demand_in_one_pass() {
    let mut world = mk_world();
    world.mk_pool("default");
    world.mk_type("small", 2).on_demand("a", 100).spot("a", 30).reserved("a", "r-1", 2, 100);
    world.mk_pods("web", 5, &pod(2000));
    let plan = world.plan();
    assert_eq!(plan.claims(), ["2 × small r-1 a: web:1", "3 × small spot a: web:1"]);
    assert_eq!(plan.solution.slots_used, [2]);
    assert_eq!(plan.cost(), 90);
}

#[test]
fn ten_thousand_anti_affinity_pods_take_one_slot() {
    let mut world = mk_world();
    world.mk_pool("default");
    world.mk_type("large", 64).on_demand("a", 100).reserved("a", "r-1", 1, 100);
    world.mk_pods("web", 10_000, &pod(100).app("web").anti_affinity(HOSTNAME, "web"));
    let plan = world.plan();
    assert_eq!(plan.claims(), ["9999 × large on-demand a: web:1", "1 × large r-1 a: web:1"]);
    assert!(plan.left().is_empty());
}

#[test]
fn reserved_only_pool_leaves_9999_with_that_reason() {
    let mut world = mk_world();
    world.mk_pool("default").require(CAPACITY_TYPE, &["reserved"]);
    world.mk_type("large", 64).on_demand("a", 100).reserved("a", "r-1", 1, 100);
    world.mk_pods("web", 10_000, &pod(100).app("web").anti_affinity(HOSTNAME, "web"));
    let plan = world.plan();
    assert_eq!(plan.claims(), ["1 × large r-1 a: web:1"]);
    assert_eq!(plan.left(), ["9999 × web"]);
    assert_eq!(plan.reasons(), ["1 × NodePool default: no free instance in capacity reservation r-1"]);
    assert_eq!(plan.listed(), [Vec::<&str>::new()], "no paid fallback");
}

#[test]
fn who_may_land_on_reserved() {
    for (operator, values, expected) in [
        (In, &["on-demand"][..], "1 × small on-demand a: web:1"),
        (In, &["spot", "on-demand"], "1 × small spot a: web:1"),
        (NotIn, &["spot"], "1 × small r-1 a: web:1"),
        (NotIn, &["reserved"], "1 × small spot a: web:1"),
        (In, &["reserved", "on-demand"], "1 × small r-1 a: web:1"),
    ] {
        let mut world = mk_world();
        world.mk_pool("default");
        world.mk_type("small", 2).on_demand("a", 100).spot("a", 30).reserved("a", "r-1", 1, 100);
        world.mk_pods("web", 1, &pod(1000).needs(CAPACITY_TYPE, operator, values));
        assert_eq!(world.plan().claims(), [expected], "{operator:?} {values:?}");
    }
}

#[test]
fn one_reservation_under_two_types_is_one_count() {
    let mut world = mk_world();
    world.mk_pool("default").require(CAPACITY_TYPE, &["reserved"]);
    world.mk_type("small", 2).reserved("a", "r-1", 1, 100);
    world.mk_type("large", 4).reserved("b", "r-1", 1, 200);
    world.mk_pods("small", 1, &pod(2000));
    world.mk_pods("large", 1, &pod(4000));
    let plan = world.plan();
    assert_eq!((plan.claims().len(), plan.left().len()), (1, 1), "{:?}", plan.claims());
    assert_eq!(plan.solution.slots_used, [1]);
}

#[test]
fn larger_slots_stay_free() {
    let mut world = mk_world();
    world.mk_pool("default");
    world.mk_type("gpu", 4).reserved("a", "r-gpu", 1, 3000);
    world.mk_type("large", 4).reserved("a", "r-large", 1, 200);
    world.mk_type("small", 2).reserved("a", "r-small", 1, 100);
    world.mk_pods("web", 1, &pod(1000));
    let plan = world.plan();
    assert_eq!(plan.claims(), ["1 × small r-small a: web:1"]);
}

#[test]
fn slots_are_matched_so_that_each_node_gets_one() {
    // Whoever is packed first could take the slot that the other one needs.
    for (first, second) in [("flexible", "picky"), ("picky", "flexible")] {
        let mut world = mk_world();
        world.mk_pool("default");
        world.mk_type("small", 2).on_demand("a", 100).reserved("a", "r-a", 1, 100);
        world.mk_type("other", 2).on_demand("a", 100).reserved("a", "r-b", 1, 110);
        for name in [first, second] {
            let only_small = pod(2000).needs(INSTANCE_TYPE, In, &["small"]);
            world.mk_pods(name, 1, &if name == "picky" { only_small } else { pod(2000) });
        }
        let plan = world.plan();
        assert_eq!(plan.claims(), ["1 × other r-b a: flexible:1", "1 × small r-a a: picky:1"]);
    }
}

#[test]
fn the_slots_used_together_are_the_cheapest_that_serve() {
    // First come, first served would use x and z: 400 by the list, where x and y do for 300.
    let mut world = mk_world();
    world.mk_pool("default");
    for (name, id, list_price) in [("x", "r-x", 100), ("y", "r-y", 200), ("z", "r-z", 300)] {
        world.mk_type(name, 2).on_demand("a", 500).reserved("a", id, 1, list_price);
    }
    world.mk_pods("first", 1, &pod(2000).needs(INSTANCE_TYPE, In, &["x", "y"]));
    world.mk_pods("second", 1, &pod(1900).needs(INSTANCE_TYPE, In, &["x", "z"]));
    assert_eq!(world.plan().claims(), ["1 × x r-x a: second:1", "1 × y r-y a: first:1"]);
}

#[test]
fn pods_that_only_reserved_capacity_takes_come_before_those_that_could_pay() {
    let mut world = mk_world();
    world.mk_pool("default");
    world.mk_type("small", 2).on_demand("a", 100).reserved("a", "r-1", 1, 100);
    world.mk_pods("pays", 1, &pod(2000));
    world.mk_pods("cannot", 1, &pod(1000).needs(CAPACITY_TYPE, In, &["reserved"]));
    let plan = world.plan();
    assert_eq!(plan.claims(), ["1 × small on-demand a: pays:1", "1 × small r-1 a: cannot:1"]);
}

#[test]
fn an_exhausted_reservation_serves_nobody() {
    let mut world = mk_world();
    world.mk_pool("default");
    world.mk_type("small", 2).on_demand("a", 100).reserved("a", "r-1", 0, 100);
    world.mk_pods("web", 1, &pod(1000));
    assert_eq!(world.plan().claims(), ["1 × small on-demand a: web:1"]);
}

#[test]
fn a_claim_on_a_slot_is_pinned_to_it_and_lists_the_paid_fallback() {
    let mut world = mk_world();
    world.mk_pool("default");
    world.mk_type("small", 2).on_demand("a", 100).reserved("a", "r-1", 1, 100);
    world.mk_type("large", 4).on_demand("a", 150);
    world.mk_type("tiny", 1).on_demand("a", 50);
    world.mk_pods("web", 1, &pod(2000));
    let plan = world.plan();
    assert_eq!(plan.listed(), [["small", "large"]], "cheapest first; tiny does not hold it");
    let requirements = &plan.solution.claims[0].requirements;
    let keys = &plan.cluster.well_known;
    let single = |key| requirements.get(key).and_then(berth_model::Requirement::single);
    assert_eq!(single(keys.reservation_id).map(|id| plan.cluster.symbols.text(id)), Some("r-1"));
    assert_eq!(single(keys.capacity_type), Some(keys.reserved));
}

#[test]
fn who_took_the_only_slot_of_another_moves_to_one_of_its_own() {
    let mut world = mk_world();
    world.mk_pool("default");
    world.mk_type("large", 16).on_demand("a", 500).reserved("a", "r-a", 1, 100);
    world.mk_type("medium", 8).on_demand("b", 500).reserved("b", "r-b", 1, 200);
    // First, as it is larger, and to the slot of the lesser list price.
    world.mk_pods("any", 1, &pod(6000).app("any"));
    world.mk_pods("only-a", 1, &pod(4000).needs(ZONE, In, &["a"]).anti_affinity(HOSTNAME, "any"));
    let plan = world.plan_with(&Options { effort: Effort::Low, ..Options::default() });
    assert_eq!(plan.claims(), ["1 × large r-a a: only-a:1", "1 × medium r-b b: any:1"]);
}
