//! NodePool limits and finite paid offerings.

use berth_model::Effect;
use berth_model::Operator::{In, NotIn};
use berth_provisioning::{Effort, Options};

use crate::mk::{CAPACITY_TYPE, HOSTNAME, INSTANCE_TYPE, World, ZONE, mk_world, pod};

#[test]
fn a_limit_is_debited_with_the_planned_type_and_trims_the_list() {
    let mut world = mk_world();
    world.mk_pool("default").limit_cpus(3);
    world.mk_type("small", 2).on_demand("a", 100);
    world.mk_type("medium", 3).on_demand("a", 120);
    world.mk_type("large", 4).on_demand("a", 150);
    world.mk_pods("web", 1, &pod(2000));
    let plan = world.plan();
    assert_eq!(plan.claims(), ["1 × small on-demand a: web:1"]);
    assert_eq!(plan.listed(), [["small", "medium"]], "large would exceed the limit");
}

#[test]
fn what_a_limit_does_not_hold_is_left_over_with_that_reason() {
    let mut world = mk_world();
    world.mk_pool("default").limit_cpus(5);
    world.mk_type("small", 2).on_demand("a", 100);
    world.mk_pods("web", 3, &pod(2000));
    let plan = world.plan();
    assert_eq!(plan.claims(), ["2 × small on-demand a: web:1"]);
    assert_eq!(plan.left(), ["1 × web"]);
    assert_eq!(plan.reasons(), ["1 × NodePool default: limits.cpu would be exceeded"]);
}

#[test]
fn what_exists_counts_against_a_limit() {
    let mut world = mk_world();
    world.mk_pool("default").limit_cpus(5);
    world.mk_type("small", 2).on_demand("a", 100);
    world.cluster.node_pools[0].used = berth_model::Resources::from_amounts(&[2000]);
    world.mk_pods("web", 3, &pod(2000));
    assert_eq!(world.plan().left(), ["2 × web"]);
}

#[test]
fn a_limit_of_nodes_counts_nodes() {
    let mut world = mk_world();
    world.mk_pool("default").limit_nodes(3);
    world.cluster.node_pools[0].nodes = 1;
    world.mk_type("small", 2).on_demand("a", 100);
    world.mk_pods("web", 5, &pod(2000));
    let plan = world.plan();
    assert_eq!(plan.claims(), ["2 × small on-demand a: web:1"]);
    assert_eq!(plan.reasons(), ["1 × NodePool default: limits.nodes would be exceeded"]);
}

#[test]
fn a_limit_also_binds_on_slots() {
    let mut world = mk_world();
    world.mk_pool("default").limit_cpus(4);
    world.mk_type("small", 2).on_demand("a", 100).reserved("a", "r-1", 5, 100);
    world.mk_pods("web", 5, &pod(2000));
    let plan = world.plan();
    assert_eq!(plan.claims(), ["2 × small r-1 a: web:1"]);
    assert_eq!(plan.left(), ["3 × web"]);
}

#[test]
fn what_one_pools_limit_refuses_goes_to_the_next_pool() {
    let mut world = mk_world();
    world.mk_pool("heavy").weight(10).limit_cpus(4);
    world.mk_pool("light");
    world.mk_type("small", 2).on_demand("a", 100);
    world.mk_pods("web", 5, &pod(2000));
    let pools: Vec<_> = world.plan().pools().into_iter().collect();
    assert_eq!(pools, [("heavy".to_owned(), 2), ("light".to_owned(), 3)]);
}

#[test]
fn a_finite_paid_offering_is_never_overdrawn() {
    let mut world = mk_world();
    world.mk_pool("default");
    world.mk_type("small", 2).finite("a", 100, 2);
    world.mk_pods("web", 5, &pod(2000));
    let plan = world.plan();
    assert_eq!(plan.claims(), ["2 × small on-demand a: web:1"]);
    assert_eq!((plan.solution.slots_used.as_slice(), plan.left()), (&[2][..], vec!["3 × web".to_owned()]));
    assert_eq!(plan.reasons(), ["1 × NodePool default: no instance available of finite-a-100"]);
}

#[test]
fn beyond_a_finite_paid_offering_the_next_cheapest_serves() {
    let mut world = mk_world();
    world.mk_pool("default");
    world.mk_type("small", 2).finite("a", 100, 2).on_demand("b", 110);
    world.mk_pods("web", 5, &pod(2000));
    let plan = world.plan();
    assert_eq!(plan.claims(), ["2 × small on-demand a: web:1", "3 × small on-demand b: web:1"]);
}

#[test]
fn nodes_that_grow_do_not_overdraw_a_finite_offering() {
    let mut world = mk_world();
    world.mk_pool("default");
    world.mk_type("small", 2).on_demand("a", 100);
    world.mk_type("large", 4).finite("a", 110, 1);
    world.mk_pods("big", 3, &pod(1500));
    world.mk_pods("more", 3, &pod(1200));
    let plan = world.plan();
    assert!(plan.left().is_empty());
    assert_eq!(plan.solution.slots_used, [1]);
}

#[test]
fn min_values_within_limits_lists_nothing_cheaper_than_planned() {
    // One pod a node, or `cheap-cpu` is none of three types; by what a node could hold `many` is the best.
    let mut world = mk_world();
    world.mk_pool("default").limit_cpus(18).min_values(INSTANCE_TYPE, 3);
    world.mk_type("large", 8).with("gpu", 2).on_demand("a", 284);
    world.mk_type("many", 4).with("gpu", 3).on_demand("a", 321);
    world.mk_type("cheap-cpu", 1).with("gpu", 4).on_demand("a", 367);
    world.mk_pods("web", 3, &pod(1000).resource("gpu", 1));
    let plan = world.plan();
    assert_eq!(plan.claims(), ["2 × large on-demand a: web:1"]);
    assert_eq!(plan.listed(), [["large", "many", "cheap-cpu"]]);
    assert_eq!(plan.left(), ["1 × web"], "another node of 4 cpus would be launched as a large one, beyond the limit");
}

/// What first fit leaves over.
fn left_by_first_fit(world: &World) -> Vec<String> {
    world.plan_with(&Options { effort: Effort::Low, ..Options::default() }).left()
}

#[test]
fn room_that_uses_up_a_limit_is_not_bought_for_being_cheap_where_that_leaves_pods_out() {
    let mut world = mk_world();
    world.mk_pool("default").limit_cpus(8);
    world.mk_type("small", 2).with("disk", 2).on_demand("a", 200);
    world.mk_type("large", 8).with("disk", 2).on_demand("a", 100);
    world.mk_pods("web", 8, &pod(500).resource("disk", 1));
    assert_eq!(left_by_first_fit(&world), ["6 × web"]);
    assert_eq!(world.plan().claims(), ["4 × small on-demand a: web:2"]);
}

#[test]
fn a_large_slot_does_not_take_the_limit_from_small_nodes_that_hold_more_pods() {
    let mut world = mk_world();
    world.mk_pool("default").limit_cpus(8);
    world.mk_type("small", 2).with("disk", 2).on_demand("a", 200).on_demand("b", 200);
    world.mk_type("large", 8).with("disk", 2).reserved("a", "r-1", 1, 100);
    world.mk_pods("web", 8, &pod(500).resource("disk", 1).app("web").spread(ZONE, 1, "web"));
    assert_eq!(left_by_first_fit(&world), ["6 × web"]);
    assert_eq!(world.plan().left(), [""; 0]);
}

#[test]
fn pods_that_first_fit_leaves_out_for_a_limit_are_packed_with_the_others() {
    // Two of 4 CPUs fill a node but for 2, so that one of 3 is left over; 4 + 3 + 3 is a whole node.
    let mut world = mk_world();
    world.mk_pool("default").limit_nodes(2);
    world.mk_type("ten", 10).on_demand("a", 100);
    world.mk_pods("four", 2, &pod(4000));
    world.mk_pods("three", 4, &pod(3000));
    assert_eq!(left_by_first_fit(&world), ["1 × three"]);
    assert_eq!(world.plan().claims(), ["2 × ten on-demand a: four:1 three:2"]);
}

#[test]
fn pods_that_first_fit_leaves_out_for_a_finite_supply_are_packed_with_the_others() {
    let mut world = mk_world();
    world.mk_pool("default");
    world.mk_type("ten", 10).finite("a", 100, 2);
    world.mk_pods("four", 2, &pod(4000));
    world.mk_pods("three", 4, &pod(3000));
    assert_eq!(left_by_first_fit(&world), ["1 × three"]);
    assert_eq!(world.plan().claims(), ["2 × ten on-demand a: four:1 three:2"]);
}

#[test]
fn many_small_pods_do_not_take_a_limit_from_one_of_higher_priority() {
    let mut world = mk_world();
    world.mk_pool("default").limit_cpus(8);
    world.mk_type("small", 2).with("disk", 2).on_demand("a", 200);
    world.mk_type("large", 8).with("disk", 2).on_demand("a", 900);
    world.mk_pods("first", 1, &pod(7000).resource("disk", 1).priority(10));
    world.mk_pods("web", 8, &pod(500).resource("disk", 1));
    let plan = world.plan();
    assert_eq!(plan.claims(), ["1 × large on-demand a: first:1 web:1"]);
    assert_eq!(plan.left(), ["7 × web"]);
}

#[test]
fn who_waits_for_an_equal_comes_before_those_of_lower_priority() {
    // "near" is larger, so it is tried before "far", whom it is to be with.
    let mut world = mk_world();
    world.mk_pool("default").limit_nodes(1);
    world.mk_type("large", 8).on_demand("a", 900);
    world.mk_pods("near", 1, &pod(4000).affinity(ZONE, "far").priority(10));
    world.mk_pods("far", 1, &pod(2000).app("far").priority(10));
    world.mk_pods("low", 3, &pod(2000));
    let plan = world.plan();
    assert_eq!(plan.claims(), ["1 × large on-demand a: far:1 low:1 near:1"]);
    assert_eq!(plan.left(), ["2 × low"]);
}

#[test]
fn a_node_lists_the_one_type_for_which_later_nodes_left_no_room_as_min_values_asks_for_it() {
    let mut world = mk_world();
    world.mk_pool("default").limit_cpus(19).min_values(INSTANCE_TYPE, 2);
    world.mk_type("small", 4).on_demand("a", 100);
    world.mk_type("medium", 10).on_demand("a", 200);
    world.mk_type("large", 11).on_demand("a", 300);
    world.mk_pods("first", 1, &pod(3000).priority(1).needs(INSTANCE_TYPE, NotIn, &["large"]));
    world.mk_pods("second", 1, &pod(9000));
    let plan = world.plan();
    assert_eq!(plan.claims(), ["1 × medium on-demand a: second:1", "1 × small on-demand a: first:1"]);
    let mut listed = plan.listed();
    listed.sort();
    assert_eq!(listed, [vec!["medium", "large"], vec!["small", "medium"]]);
}

#[test]
fn pods_that_first_fit_leaves_out_within_limits_are_packed_anew_with_the_others() {
    let mut world = mk_world();
    world.mk_pool("default").limit_nodes(2);
    world.mk_type("ten", 10).on_demand("a", 100);
    for (name, cpus, count) in [("five", 5, 1), ("four", 4, 1), ("three", 3, 3), ("two", 2, 1)] {
        world.mk_pods(name, count, &pod(cpus * 1000));
    }
    // First fit: 5 and 4, 3 and 3 and 3, and no room for 2.
    let plan = world.plan_with(&Options { effort: Effort::Default, ..Options::default() });
    assert_eq!(plan.claims(), ["1 × ten on-demand a: five:1 three:1 two:1", "1 × ten on-demand a: four:1 three:2"]);
}

#[test]
fn zones_that_the_plan_leaves_no_room_for_within_limits_count_for_no_spread() {
    for effort in [Effort::Low, Effort::Default, Effort::High] {
        let mut world = mk_world();
        // Any two of the three zones, and then nothing more.
        world.mk_pool("default").limit_cpus(10);
        world.mk_type("five", 5).on_demand("a", 100);
        world.mk_type("three", 3).on_demand("b", 60);
        world.mk_type("six", 6).on_demand("c", 200);
        world.mk_pods("web", 6, &pod(100).app("web").spread(ZONE, 2, "web"));
        let plan = world.plan_with(&Options { effort, bound: true, ..Options::default() });
        assert_eq!(plan.claims(), ["1 × five on-demand a: web:3", "1 × three on-demand b: web:3"], "{effort:?}");
    }
}

fn left_at_each_effort(world: &World) -> [Vec<String>; 3] {
    [Effort::Low, Effort::Default, Effort::High]
        .map(|effort| world.plan_with(&Options { effort, ..Options::default() }).left())
}

#[test]
fn nodes_are_launched_for_who_was_left_over_for_a_zone_beyond_the_limit() {
    for limit in 8..=24 {
        let mut world = mk_world();
        world.mk_pool("default").limit_cpus(limit);
        world.mk_type("large", 16).on_demand("c", 400);
        world.mk_type("small", 4).on_demand("b", 100);
        world.mk_pods("web", 2, &pod(2500).app("web").spread(ZONE, 1, "web"));
        assert_eq!(left_at_each_effort(&world), [[""; 0]; 3], "{limit}");
    }
}

#[test]
fn nodes_are_launched_for_who_was_left_over_for_a_capacity_type_beyond_the_limit() {
    for limit in 4..=12 {
        let mut world = mk_world();
        world.mk_pool("default").limit_cpus(limit);
        world.mk_type("large", 8).spot("a", 150);
        world.mk_type("small", 2).on_demand("a", 100);
        world.mk_pods("web", 5, &pod(450).app("web").spread(CAPACITY_TYPE, 1, "web"));
        assert_eq!(left_at_each_effort(&world), [[""; 0]; 3], "{limit}");
    }
}

#[test]
fn no_effort_chooses_a_packing_whose_pods_find_no_place_once_a_zone_counts_no_more() {
    let mut world = mk_world();
    world.mk_pool("slots").require(CAPACITY_TYPE, &["reserved"]);
    world.mk_pool("limited").limit_cpus(12);
    world.mk_type("large", 8).spot("a", 155).reserved("b", "r-1", 3, 388).on_demand("c", 404);
    world.mk_pods("web", 4, &pod(2500).app("web").spread(ZONE, 1, "web"));
    world.mk_pods("job", 3, &pod(2500));
    assert_eq!(left_at_each_effort(&world), [[""; 0]; 3]);
}

#[test]
fn a_free_slot_is_taken_by_who_was_left_over_for_a_zone_beyond_the_limit() {
    let mut world = mk_world();
    world.mk_pool("limited").limit_cpus(2);
    world.mk_pool("reserved").require(CAPACITY_TYPE, &["reserved"]);
    world.mk_type("small", 2).on_demand("a", 102).on_demand("c", 101);
    world.mk_type("large", 8).reserved("d", "r-1", 2, 400);
    world.mk_pods("web", 3, &pod(400).app("web").spread(ZONE, 1, "web").spread(HOSTNAME, 1, "web"));
    assert_eq!(world.plan().claims(), ["2 × large r-1 d: web:1", "1 × small on-demand c: web:1"]);
}

#[test]
fn a_zone_that_limits_leave_room_for_counts_for_a_spread_though_its_node_is_too_small() {
    let mut world = mk_world();
    world.mk_pool("default").limit_cpus(10);
    world.mk_type("five", 5).on_demand("a", 100);
    world.mk_type("one", 1).on_demand("b", 60);
    world.mk_pods("web", 6, &pod(1500).app("web").spread(ZONE, 1, "web"));
    let plan = world.plan();
    assert_eq!(plan.claims(), ["1 × five on-demand a: web:1"]);
    assert_eq!(plan.left(), ["5 × web"]);
}

#[test]
fn hosts_that_limits_allow_no_more_of_are_all_that_a_host_spread_looks_at() {
    let mut world = mk_world();
    world.mk_pool("default").limit_nodes(2);
    world.mk_type("large", 16).on_demand("a", 100);
    world.mk_pods("web", 8, &pod(100).app("web").spread(HOSTNAME, 2, "web"));
    world.options.bound = true;
    let plan = world.plan();
    assert_eq!(plan.claims(), ["2 × large on-demand a: web:4"]);
    let bound = plan.solution.bound.as_ref().unwrap();
    assert!(bound.cost <= crate::mk::milli(200), "{bound:?}");
}

#[test]
fn a_host_spread_is_kept_over_hosts_that_fill_up() {
    let mut world = mk_world();
    world.mk_pool("default").limit_nodes(2);
    world.cluster.node_pools[0].nodes = 2;
    world.mk_type("large", 16).on_demand("a", 100);
    world.mk_node("n1", "a", 2, &[]);
    world.mk_node("n2", "a", 16, &[]);
    world.mk_pods("web", 8, &pod(1000).app("web").spread(HOSTNAME, 2, "web"));
    assert_eq!(world.plan().left(), ["2 × web"], "two on the first, and two more on the second");
}

#[test]
fn a_node_that_another_pool_may_launch_is_a_host_where_pods_ask_for_it() {
    for (is_asked, left) in [(false, &[][..]), (true, &["4 × web"])] {
        let mut world = mk_world();
        world.mk_pool("default").limit_nodes(2);
        world.mk_pool("tainted").taint("team", Effect::NoSchedule);
        world.mk_type("large", 16).on_demand("a", 100);
        world.mk_pods("web", 8, &pod(100).app("web").spread(HOSTNAME, 2, "web"));
        if is_asked {
            // It goes last, and brings an empty host.
            let late = pod(50).tolerates("team").needs("karpenter.sh/nodepool", In, &["tainted"]);
            world.mk_pods("late", 1, &late);
        }
        assert_eq!(world.plan().left(), left, "{is_asked}");
    }
}
