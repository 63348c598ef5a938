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
fn what_budgets_keep_is_said_of_the_node_where_they_keep_the_fewest() {
    let mut world = World::new();
    world.mk_budget("guarded", 0);
    for (name, n_guarded) in [("n1", 2), ("n2", 1)] {
        world.mk_node(name, "a", 2000, 8);
        (0..n_guarded).for_each(|_| world.mk_running("guarded", &mk_pod(2000 / n_guarded, 1), 0));
    }
    world.mk_pods("urgent", 1, &PodSpec { priority: 100, ..mk_pod(2000, 1) });
    world.mk_pods("equal", 1, &PodSpec { priority: 0, ..mk_pod(2000, 1) });
    world.scheduled(|scheduler, _| {
        let kept = scheduler.kept_by_budgets(FIRST).unwrap();
        assert_eq!((kept.node, kept.pods, kept.budgets), (1, vec![0], vec![0]));
        assert_eq!(scheduler.kept_by_budgets(berth_model::ClassId(1)), None, "it preempts nobody");
        assert!(scheduler.evicted().is_empty(), "nothing was decided");
    });
    world.cluster.budgets[0].allowed = 1;
    let kept = world.scheduled(|scheduler, _| scheduler.kept_by_budgets(FIRST));
    assert_eq!(kept, None, "who may go is kept by none");
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

/// What runs on the last node is of a controller that makes another pod in its place.
fn owned(world: &mut World) {
    let spec = world.cluster.nodes.last().unwrap().pods.last().unwrap().spec;
    world.cluster.nodes.last_mut().unwrap().pods.last_mut().unwrap().replaced_by = Some(spec);
}

#[test]
fn who_gave_way_comes_again_before_those_that_are_less_important() {
    let mut world = World::new();
    world.mk_node("n1", "a", 2000, 8);
    world.mk_running("victim", &PodSpec { priority: 5, ..mk_pod(2000, 1) }, 0);
    owned(&mut world);
    world.mk_node("n2", "a", 2000, 8);
    let only = |world: &mut World, name: &str| {
        let (key, name) = (world.cluster.well_known.hostname, world.sym(name));
        let mut selector = berth_model::Requirements::new();
        selector.add(key, berth_model::Requirement::value(name), &world.cluster.symbols);
        selector
    };
    let node_selector = only(&mut world, "n1");
    world.mk_pods("urgent", 1, &PodSpec { node_selector, ..urgent() });
    world.mk_pods("later", 1, &PodSpec { priority: 1, ..mk_pod(2000, 1) });
    let (gone, pending) = world.run_and_apply();
    assert_eq!((gone, pending), (vec!["n1/victim-0".to_owned()], vec!["later".to_owned()]));
    assert_eq!((world.pods_on(0), world.pods_on(1)), (vec!["urgent-0".to_owned()], vec!["victim-0".to_owned()]));
}

#[test]
fn who_gave_way_and_has_no_controller_is_gone() {
    let mut world = World::new();
    world.mk_node("n1", "a", 2000, 8);
    world.mk_running("bare", &mk_pod(2000, 1), 0);
    world.mk_pods("urgent", 1, &urgent());
    assert_eq!(world.run_and_apply(), (vec!["n1/bare-0".to_owned()], Vec::new()));
}

#[test]
fn through_the_api_nobody_gives_way_whom_a_budget_does_not_let_go() {
    for (budgets, expected) in [(vec![1], vec!["n1/guarded-0".to_owned()]), (vec![0], vec![]), (vec![1, 1], vec![])] {
        let mut world = World::new();
        for allowed in &budgets {
            world.mk_budget("guarded", *allowed);
        }
        world.mk_node("n1", "a", 2000, 8);
        world.mk_running("guarded", &mk_pod(2000, 1), 0);
        world.mk_pods("urgent", 1, &urgent());
        assert_eq!(world.run_and_apply().0, expected, "{budgets:?}");
    }
}

#[test]
fn the_first_pods_of_a_self_affinity_make_room_for_all_of_them_or_for_none() {
    for (cpu, expected) in [(2000, 2), (1000, 0)] {
        let mut world = World::new();
        let hostname = world.cluster.well_known.hostname;
        world.mk_node("n1", "a", cpu, 8);
        world.mk_running("a", &mk_pod(1000, 1), 0);
        let together = own_term(&mut world, hostname, "web");
        world.mk_pods("web", 2, &PodSpec { affinity: vec![together], ..urgent() });
        let (gone, _) = world.run_and_apply();
        let came = world.pods_on(0).iter().filter(|name| name.starts_with("web")).count();
        assert_eq!((gone.len(), came), (usize::from(expected > 0), expected), "{cpu}");
    }
}

#[test]
fn a_pod_goes_to_the_node_that_room_was_made_on_and_equals_keep_off_it() {
    let mut world = World::new();
    world.mk_node("n1", "a", 1000, 8);
    world.mk_node("n2", "a", 4000, 8);
    let n1 = world.sym("n1");
    world.mk_pods("equal", 1, &PodSpec { priority: 100, ..mk_pod(4000, 1) });
    world.mk_pods("equal", 1, &PodSpec { priority: 100, ..mk_pod(1000, 1) });
    world.mk_pods("nominated", 1, &PodSpec { nominated_node: Some(n1), ..urgent() });
    let (_, pending) = world.run_and_apply();
    assert_eq!((world.pods_on(0), world.pods_on(1)), (vec!["nominated-0".to_owned()], vec!["equal-0".to_owned()]));
    assert_eq!(pending, ["equal"]);
}

#[test]
fn each_of_many_looks_at_what_those_before_have_left() {
    let mut world = World::new();
    world.mk_node("n1", "a", 2000, 8);
    world.mk_running("a", &PodSpec { priority: 1, ..mk_pod(1000, 1) }, 0);
    world.mk_running("b", &PodSpec { priority: 3, ..mk_pod(1000, 1) }, 0);
    world.mk_node("n2", "a", 1000, 8);
    world.mk_running("c", &PodSpec { priority: 2, ..mk_pod(1000, 1) }, 0);
    world.mk_node("n3", "a", 1000, 8);
    world.mk_running("d", &PodSpec { priority: 100, ..mk_pod(1000, 1) }, 0);
    world.mk_pods("urgent", 4, &urgent());
    let (bound, left, evicted) = world.run(true);
    assert_eq!((bound, left), (vec!["n1: 2".to_owned(), "n2: 1".to_owned()], 1), "none gives way to its equal");
    assert_eq!(evicted, ["n1/a-0", "n1/b-1", "n2/c-0"]);
}

#[test]
fn the_fewest_go_wherever_amounts_alone_decide_it() {
    let mut world = World::new();
    for (name, sizes) in [("n1", [500, 500]), ("n2", [900, 100]), ("n3", [100, 900])] {
        world.mk_node(name, "a", 1000, 8);
        for size in sizes {
            world.mk_running("low", &mk_pod(size, 1), 0);
        }
    }
    world.mk_pods("urgent", 1, &PodSpec { priority: 100, ..mk_pod(600, 1) });
    assert_eq!(world.run(true).2, ["n2/low-0"]);
}
