//! Nodes that exist come before nodes that would have to be launched.

use berth_model::{Effect, Operator};

use crate::mk::{ZONE, mk_world, pod};

#[test]
fn room_on_a_node_is_used_before_anything_is_launched_even_a_slot() {
    let mut world = mk_world();
    world.mk_pool("default");
    world.mk_type("small", 2).reserved("a", "r-1", 1, 100);
    world.mk_node("n1", "a", 2, &[]);
    world.mk_pods("web", 3, &pod(1000));
    let plan = world.plan();
    assert_eq!(plan.bound(), ["n1: web:2"]);
    assert_eq!(plan.claims(), ["1 × small r-1 a: web:1"]);
}

#[test]
fn a_node_takes_only_who_its_labels_and_taints_admit() {
    let mut world = mk_world();
    world.mk_node("n1", "a", 8, &[]);
    world.mk_node("n2", "b", 8, &[]);
    world.taint_last_node("team", Effect::NoSchedule);
    world.mk_pods("anywhere", 1, &pod(1000));
    world.mk_pods("in-b", 1, &pod(900).needs(ZONE, Operator::In, &["b"]));
    world.mk_pods("guest-in-b", 1, &pod(800).needs(ZONE, Operator::In, &["b"]).tolerates("team"));
    let plan = world.plan();
    assert_eq!(plan.bound(), ["n1: anywhere:1", "n2: guest-in-b:1"]);
    assert_eq!(plan.left(), ["1 × in-b"]);
}

#[test]
fn a_host_port_is_had_once_on_each_node() {
    let mut world = mk_world();
    world.mk_pool("default");
    world.mk_type("large", 64).on_demand("a", 100);
    world.mk_node("n1", "a", 64, &[pod(100).port(80)]);
    world.mk_node("n2", "a", 64, &[pod(100).port(443)]);
    world.mk_pods("web", 3, &pod(100).port(80));
    let plan = world.plan();
    assert_eq!(plan.bound(), ["n2: web:1"]);
    assert_eq!(plan.claims(), ["2 × large on-demand a: web:1"]);
}

#[test]
fn a_disk_that_one_of_two_writes_is_not_on_one_node_for_both() {
    let mut world = mk_world();
    world.mk_pool("default");
    world.mk_type("large", 64).on_demand("a", 100);
    world.mk_node("n1", "a", 64, &[pod(100).disk("x", true)]);
    world.mk_node("n2", "a", 64, &[]);
    world.mk_pods("writer", 2, &pod(200).disk("x", false));
    world.mk_pods("other", 1, &pod(100).disk("y", false));
    let plan = world.plan();
    assert_eq!(plan.bound(), ["n1: other:1", "n2: writer:1"]);
    assert_eq!(plan.claims(), ["1 × large on-demand a: writer:1"]);
}

#[test]
fn pods_that_all_read_a_disk_share_a_new_node() {
    let mut world = mk_world();
    world.mk_pool("default");
    world.mk_type("large", 64).on_demand("a", 100);
    world.mk_pods("reader", 3, &pod(100).disk("x", true));
    world.mk_pods("writer", 1, &pod(50).disk("x", false));
    assert_eq!(world.plan().claims(), ["1 × large on-demand a: reader:3", "1 × large on-demand a: writer:1"]);
}

#[test]
fn the_higher_priority_gets_the_room() {
    let mut world = mk_world();
    world.mk_node("n1", "a", 2, &[]);
    world.mk_pods("large-but-low", 1, &pod(2000));
    world.mk_pods("small-but-high", 1, &pod(1000).priority(10));
    let plan = world.plan();
    assert_eq!(plan.bound(), ["n1: small-but-high:1"]);
    assert_eq!(plan.left(), ["1 × large-but-low"]);
}
