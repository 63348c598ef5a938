//! Every refusal explains itself, counted by cause.

use berth_model::{Effect, Operator};

use crate::mk::{CAPACITY_TYPE, HOSTNAME, ZONE, mk_world, pod};

#[test]
fn nodes_are_counted_by_what_keeps_the_pod_off_the_most_frequent_first() {
    let mut world = mk_world();
    world.mk_node("n1", "a", 1, &[]);
    world.mk_node("n2", "a", 1, &[]);
    world.mk_node("n3", "a", 8, &[]);
    world.taint_last_node("team", Effect::NoSchedule);
    world.mk_node("n4", "b", 8, &[]);
    world.mk_node("n5", "a", 8, &[]);
    world.taint_last_node("node.kubernetes.io/unschedulable", Effect::NoSchedule);
    world.mk_pods("web", 7, &pod(2000).needs(ZONE, Operator::In, &["a"]));
    let plan = world.plan();
    assert_eq!(plan.left(), ["7 × web"]);
    let expected = [
        "2 × Insufficient cpu",
        "1 × node(s) didn't match Pod's node affinity/selector",
        "1 × node(s) had untolerated taint {team: }",
        "1 × node(s) were unschedulable",
    ];
    assert_eq!(plan.reasons(), expected);
}

#[test]
fn instance_types_are_counted_by_what_keeps_the_pod_off_each() {
    let mut world = mk_world();
    world.mk_pool("default").require(ZONE, &["a"]);
    world.mk_pool("tainted").taint("team", Effect::NoSchedule);
    world.mk_type("t1", 1).on_demand("a", 100);
    world.mk_type("t2", 2).on_demand("a", 100);
    world.mk_type("t4", 4).on_demand("a", 100).on_demand("b", 100);
    world.mk_pods("web", 1, &pod(3000).resource("nvidia.com/gpu", 1));
    let plan = world.plan();
    let expected = [
        "2 × NodePool default: Insufficient cpu",
        "1 × NodePool default: Insufficient nvidia.com/gpu",
        "3 × NodePool tainted: had untolerated taint {team: }",
    ];
    assert_eq!(plan.reasons(), expected);
}

#[test]
fn a_type_is_counted_by_its_offering_that_comes_furthest() {
    let mut world = mk_world();
    world.mk_pool("default");
    world.mk_type("small", 2).on_demand("a", 100).reserved("a", "r-1", 0, 100);
    world.mk_type("other", 2).on_demand("a", 100);
    world.mk_pods("web", 1, &pod(100).needs(CAPACITY_TYPE, Operator::In, &["reserved"]));
    let expected = [
        "1 × NodePool default: didn't match Pod's node affinity/selector",
        "1 × NodePool default: no free instance in capacity reservation r-1",
    ];
    assert_eq!(world.plan().reasons(), expected);
}

#[test]
fn a_pod_that_is_never_planned_says_why_and_nothing_else() {
    let mut world = mk_world();
    world.mk_node("n1", "a", 8, &[]);
    world.mk_pods("web", 2, &pod(100).refused("persistentvolumeclaim \"data\" not found"));
    let plan = world.plan();
    assert_eq!(plan.left(), ["2 × web"]);
    assert_eq!(plan.reasons(), ["0 × persistentvolumeclaim \"data\" not found"]);
}

#[test]
fn without_nodes_and_pools_there_is_nothing_to_count() {
    let mut world = mk_world();
    world.mk_pods("web", 1, &pod(100));
    assert_eq!(world.plan().reasons(), ["0 × no nodes available to schedule pods"]);
}

#[test]
fn topology_refuses_in_the_plugins_words() {
    let table = [
        (pod(100).app("web").anti_affinity(HOSTNAME, "web"), "1 × node(s) didn't match pod anti-affinity rules"),
        (pod(100).affinity(HOSTNAME, "absent"), "1 × node(s) didn't match pod affinity rules"),
        (pod(100).affinity(ZONE, "absent"), "1 × node(s) didn't match pod affinity rules"),
        (
            pod(100).app("web").spread(ZONE, 1, "web").min_domains(2),
            "1 × node(s) didn't match pod topology spread constraints",
        ),
        (pod(100).port(80), "1 × node(s) didn't have free ports for the requested pod ports"),
    ];
    for (asking, expected) in table {
        let mut world = mk_world();
        world.mk_node("n1", "a", 8, &[pod(100).app("web").port(80)]);
        world.mk_pods("web", 1, &asking);
        let plan = world.plan();
        assert_eq!(plan.reasons(), [expected]);
    }
}
