//! Which types nodes are planned on.

use berth_model::Resources;
use berth_provisioning::{Effort, Options, StopReason};

use crate::mk::{GIB, HOSTNAME, ZONE, milli, mk_world, pod};

#[test]
fn node_cost_makes_fewer_and_larger_nodes() {
    for (node_cost, expected) in [(0, "4 × small on-demand a: web:1"), (50, "1 × large on-demand a: web:4")] {
        let mut world = mk_world();
        world.options.node_cost = milli(node_cost);
        world.mk_pool("default");
        world.mk_type("small", 1).on_demand("a", 100);
        world.mk_type("large", 4).on_demand("a", 410);
        world.mk_pods("web", 4, &pod(1000));
        assert_eq!(world.plan().claims(), [expected], "node cost {node_cost}");
    }
}

#[test]
fn a_plan_that_keeps_pods_in_their_domains_was_not_searched_in_every_way() {
    let search = |is_spread: bool| {
        let mut world = mk_world();
        world.mk_pool("default");
        world.mk_type("large", 4).on_demand("a", 150).on_demand("b", 160);
        let web = pod(1000).app("web");
        world.mk_pods("web", 4, &if is_spread { web.spread(ZONE, 1, "web") } else { web });
        world.plan_with(&Options { effort: Effort::Default, ..Options::default() }).solution.search
    };
    assert_eq!((search(false), search(true)), (Some(StopReason::Solved), Some(StopReason::NoColumn)));
}

#[test]
fn a_slot_stays_free_where_its_node_costs_more_than_it_saves() {
    let plan = |pods, node_cost| {
        let mut world = mk_world();
        world.options.node_cost = milli(node_cost);
        world.options.effort = Effort::Default;
        world.mk_pool("default");
        world.mk_type("small", 1).reserved("a", "cr-small", 1, 200);
        world.mk_type("medium", 4).reserved("a", "cr-medium", 1, 500);
        world.mk_type("large", 12).on_demand("a", 173);
        world.mk_pods("web", pods, &pod(900));
        world.plan().claims()
    };
    // Both slots would serve five of six, and cost two nodes beside the one that is paid for anyway.
    assert_eq!(plan(6, 70), ["1 × large on-demand a: web:6"]);
    assert_eq!(plan(6, 0).len(), 3, "they cost nothing");
    assert_eq!(plan(4, 70), ["1 × medium cr-medium a: web:4"], "it saves a node that is paid for");
}

#[test]
fn the_last_node_is_no_larger_than_its_pods_need() {
    let mut world = mk_world();
    world.mk_pool("default");
    world.mk_type("large", 4).on_demand("a", 150);
    world.mk_type("small", 1).on_demand("a", 50);
    world.mk_pods("web", 5, &pod(1000));
    let plan = world.plan();
    assert_eq!(plan.claims(), ["1 × large on-demand a: web:4", "1 × small on-demand a: web:1"]);
    assert_eq!(plan.cost(), 200);
}

#[test]
fn small_pods_fill_the_room_that_large_ones_leave() {
    let mut world = mk_world();
    world.mk_pool("default");
    world.mk_type("large", 4).on_demand("a", 100);
    world.mk_pods("tiny", 2, &pod(500));
    world.mk_pods("big", 2, &pod(3000));
    let plan = world.plan();
    assert_eq!(plan.solution.claims.iter().map(|claims| claims.count).sum::<u32>(), 2);
}

#[test]
fn a_type_with_a_device_is_bought_only_for_who_asks_for_it() {
    let mut world = mk_world();
    world.mk_pool("default");
    world.mk_type("gpu", 8).with("nvidia.com/gpu", 1).on_demand("a", 900);
    world.mk_type("plain", 8).on_demand("a", 300);
    world.mk_pods("trains", 1, &pod(1000).resource("nvidia.com/gpu", 1));
    world.mk_pods("serves", 1, &pod(8000));
    let plan = world.plan();
    assert_eq!(plan.claims(), ["1 × gpu on-demand a: trains:1", "1 × plain on-demand a: serves:1"]);
}

#[test]
fn the_same_input_gives_the_same_plan() {
    let plan = || {
        let mut world = mk_world();
        world.mk_pool("default");
        for (name, cpus, price) in [("s", 2, 100), ("m", 4, 200), ("l", 8, 400)] {
            world.mk_type(name, cpus).on_demand("a", price).on_demand("b", price).spot("b", price);
        }
        for (name, size) in [("x", 300), ("y", 700), ("z", 1900)] {
            world.mk_pods(name, 40, &pod(size));
        }
        let solution = world.plan().solution;
        format!("{solution:?}")
    };
    assert_eq!(plan(), plan());
}

/// Six of 4 and twelve of 3 fill six nodes of 10; first fit puts fours together, and threes, and takes seven.
#[test]
fn a_search_finds_what_first_fit_misses_within_what_holds_there() {
    for (effort, apart, expected) in [
        (Effort::Low, false, 700),
        (Effort::Default, false, 600),
        (Effort::High, false, 600),
        (Effort::High, true, 700),
    ] {
        let mut world = mk_world();
        world.options.effort = effort;
        world.mk_pool("default");
        world.mk_type("ten", 10).on_demand("a", 100);
        let four = pod(4000).app("four");
        world.mk_pods("four", 6, &if apart { four.anti_affinity(HOSTNAME, "three") } else { four });
        world.mk_pods("three", 12, &pod(3000).app("three"));
        let plan = world.plan();
        assert!(plan.left().is_empty());
        assert_eq!(plan.cost(), expected, "{effort:?}, apart: {apart}");
    }
}

/// Pods that are all different: a search at effort high that began with the plan of effort default ended above it.
#[test]
fn more_effort_costs_no_more_where_all_pods_are_different() {
    let sizes = [
        (10, 12),
        (3, 20),
        (11, 13),
        (17, 8),
        (6, 8),
        (16, 9),
        (3, 18),
        (10, 1),
        (10, 19),
        (10, 17),
        (7, 14),
        (14, 20),
        (10, 14),
        (15, 6),
        (8, 10),
        (9, 2),
        (3, 2),
        (15, 9),
        (17, 18),
        (16, 11),
        (5, 7),
        (3, 14),
        (7, 15),
        (9, 6),
        (12, 14),
        (19, 11),
        (18, 7),
        (11, 4),
        (2, 8),
        (9, 19),
        (20, 8),
        (4, 11),
        (6, 10),
        (15, 1),
        (2, 12),
        (3, 10),
        (11, 1),
        (11, 10),
        (11, 5),
        (14, 20),
        (3, 10),
        (20, 7),
        (15, 10),
        (5, 9),
        (13, 20),
        (6, 11),
        (19, 1),
        (12, 2),
        (15, 6),
        (12, 12),
        (10, 19),
        (4, 15),
        (7, 14),
        (7, 4),
        (2, 2),
        (2, 6),
        (20, 5),
        (20, 2),
        (18, 16),
        (19, 8),
        (11, 2),
        (4, 17),
        (10, 14),
        (7, 16),
        (7, 8),
        (15, 14),
    ];
    let types = [
        ("type-0", 8, 40, 816),
        ("type-1", 32, 160, 2_480),
        ("type-2", 32, 160, 2_666),
        ("type-3", 16, 160, 2_261),
        ("type-4", 16, 80, 1_697),
        ("type-5", 16, 160, 1_732),
    ];
    let mut world = mk_world();
    world.mk_pool("default");
    for (name, cpus, memory, price) in types {
        world.mk_type(name, cpus).on_demand("a", price);
        let resources = Resources::from_amounts(&[cpus * 1000, memory * GIB, 110]);
        world.cluster.instance_types.last_mut().unwrap().resources = resources;
    }
    for (index, (cpu, memory)) in sizes.into_iter().enumerate() {
        world.mk_pods(&format!("work-{index}"), 1, &pod(cpu * 100).resource("memory", memory * GIB));
    }
    let cost = |effort| world.plan_with(&Options { effort, ..world.options.clone() }).cost();
    let (low, default, high) = (cost(Effort::Low), cost(Effort::Default), cost(Effort::High));
    assert!(high <= default && default <= low, "{high}, {default}, {low}");
    assert!(high < low, "the search finds something: {high}, {low}");
}

#[test]
fn a_bound_is_proved_and_says_what_it_does_not_count_on() {
    for (zones, expected) in [(1, 0), (2, 1)] {
        let mut world = mk_world();
        world.options.bound = true;
        world.mk_pool("default");
        world.mk_type("ten", 10).on_demand("a", 100).on_demand("b", 100);
        let four = pod(4000).app("four");
        world.mk_pods("four", 6, &if zones == 2 { four.spread(ZONE, 1, "four") } else { four });
        world.mk_pods("three", 12, &pod(3000));
        let plan = world.plan();
        let bound = plan.solution.bound.as_ref().unwrap();
        assert!(bound.cost <= milli(600) && bound.cost > milli(599), "{:?}", bound.cost);
        assert_eq!(bound.relaxed.len(), expected, "{:?}", bound.relaxed);
    }
}

/// A node that is there takes three of four; one more must be paid for, and no plan can do with less.
#[test]
fn a_bound_counts_existing_nodes_and_slots_as_free() {
    let mut world = mk_world();
    world.options.bound = true;
    world.mk_pool("default");
    world.mk_node("old", "a", 10, &[]);
    world.mk_type("ten", 10).on_demand("a", 100).reserved("a", "cr", 1, 100);
    world.mk_pods("three", 12, &pod(3000));
    let plan = world.plan();
    assert_eq!(plan.cost(), 200);
    let bound = plan.solution.bound.as_ref().unwrap();
    assert!(bound.cost <= milli(200) && bound.cost > milli(199), "{:?}", bound.cost);
}

/// The same with three of the nodes in a reservation and a limit on nodes.
#[test]
fn a_search_uses_all_slots_and_keeps_to_limits() {
    let mut world = mk_world();
    world.options.effort = Effort::High;
    world.mk_pool("default").limit_nodes(7);
    world.mk_type("ten", 10).on_demand("a", 100).reserved("a", "cr", 3, 100);
    world.mk_pods("four", 6, &pod(4000));
    world.mk_pods("three", 12, &pod(3000));
    let plan = world.plan();
    assert!(plan.left().is_empty());
    assert_eq!(plan.cost(), 300);
    plan.check();
}
