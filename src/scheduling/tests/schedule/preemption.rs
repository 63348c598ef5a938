//! Who gives way, as kube-scheduler's DefaultPreemption chooses.

use berth_model::PodSpec;

use crate::mk::{FIRST, World, mk_pod};
use crate::queue::own_term;

fn urgent() -> PodSpec {
    PodSpec { priority: 100, ..mk_pod(1000, 1) }
}

#[test]
fn the_least_important_give_way_and_no_more_than_need_to() {
    let mut world = World::new();
    world.mk_node("n1", "a", 2000, 8);
    world.mk_running("a", &PodSpec { priority: 1, ..mk_pod(1000, 1) }, 0);
    world.mk_running("b", &PodSpec { priority: 2, ..mk_pod(1000, 1) }, 0);
    world.mk_pods("urgent", 1, &urgent());
    assert_eq!(world.run(true), (vec!["n1: 1".to_owned()], 0, vec!["n1/a-0".to_owned()]));
}

#[test]
fn of_equals_the_one_that_runs_longer_stays() {
    let mut world = World::new();
    world.mk_node("n1", "a", 2000, 8);
    world.mk_running("a", &mk_pod(1000, 1), 10);
    world.mk_running("b", &mk_pod(1000, 1), 20);
    world.mk_pods("urgent", 1, &urgent());
    assert_eq!(world.run(true).2, ["n1/b-1"]);
}

#[test]
fn a_node_where_no_budget_is_violated_comes_first_even_if_more_important_pods_go() {
    let mut world = World::new();
    world.mk_budget("guarded", 0);
    world.mk_node("n1", "a", 1000, 8);
    world.mk_running("guarded", &mk_pod(1000, 1), 0);
    world.mk_node("n2", "a", 1000, 8);
    world.mk_running("free", &PodSpec { priority: 50, ..mk_pod(1000, 1) }, 0);
    world.mk_pods("urgent", 1, &urgent());
    assert_eq!(world.run(true).2, ["n2/free-0"]);
}

#[test]
fn a_budget_that_is_used_up_protects_the_next() {
    let mut world = World::new();
    world.mk_budget("guarded", 1);
    for name in ["n1", "n2", "n3"] {
        world.mk_node(name, "a", 1000, 8);
        let (app, priority) = if name == "n3" { ("free", 1) } else { ("guarded", 0) };
        world.mk_running(app, &PodSpec { priority, ..mk_pod(1000, 1) }, 0);
    }
    world.mk_pods("urgent", 2, &urgent());
    assert_eq!(world.run(true).2, ["n1/guarded-0", "n3/free-0"]);
}

#[test]
fn a_pod_without_rules_does_not_mind_those_of_pods_that_room_is_held_for_but_their_requests() {
    let mut world = World::new();
    let hostname = world.cluster.well_known.hostname;
    world.mk_node("n1", "a", 2000, 8);
    let apart = own_term(&mut world, hostname, "web");
    world.mk_pods("held", 1, &PodSpec { anti_affinity: vec![apart], ..urgent() });
    world.mk_pods("web", 1, &urgent());
    world.mk_pods("web", 1, &PodSpec { priority: 100, ..mk_pod(2000, 1) });
    let [web, large] = [1, 2].map(berth_model::ClassId);
    world.scheduled(|scheduler, _| {
        scheduler.nominate(FIRST, 0);
        // As kube-scheduler, which does not run InterPodAffinity for a pod that no pod on a node has a rule about.
        assert_eq!((scheduler.choose(web), scheduler.choose(large)), (Some(0), None));
    });
}

#[test]
fn who_uses_a_claim_that_only_one_pod_may_use_gives_way_to_it() {
    let mut world = World::new();
    let claim = world.sym("default/data");
    let with_claim = |mut spec: PodSpec| {
        spec.volumes.exclusive_claims = vec![claim];
        spec
    };
    world.mk_node("n1", "a", 2000, 8);
    world.mk_node("n2", "a", 2000, 8);
    world.mk_running("user", &with_claim(mk_pod(1000, 1)), 0);
    world.mk_pods("urgent", 1, &with_claim(urgent()));
    assert_eq!(world.run(false), (Vec::new(), 1, Vec::new()));
    assert_eq!(world.run(true), (vec!["n2: 1".to_owned()], 0, vec!["n2/user-0".to_owned()]));
}

#[test]
fn nobody_gives_way_to_an_equal_to_one_that_never_preempts_or_where_it_would_not_help() {
    for spec in
        [mk_pod(1000, 1), PodSpec { never_preempts: true, ..urgent() }, PodSpec { priority: 100, ..mk_pod(3000, 1) }]
    {
        let mut world = World::new();
        world.mk_node("n1", "a", 2000, 8);
        world.mk_running("a", &mk_pod(2000, 1), 0);
        world.mk_pods("pod", 1, &spec);
        assert_eq!(world.run(true), (Vec::new(), 1, Vec::new()));
    }
}
