//! Scores, with the numbers that kube-scheduler's formulas give.

use berth_model::{Effect, Images, PodSpec, PodTerm, SpreadConstraint, Taint};
use berth_scheduling::Verdict;
use berth_scheduling::score::Scores;

use crate::mk::{FIRST, World, mk_pod};

fn scores(world: &mut World) -> Vec<Scores> {
    let assessed = world.scheduled(|scheduler, _| scheduler.assess(FIRST));
    let scores = assessed.into_iter().map(|assessment| match assessment.verdict {
        Verdict::Feasible(scores) => scores,
        other => panic!("node {} says {other:?}", assessment.node),
    });
    scores.collect()
}

#[test]
fn the_share_that_stays_free_is_averaged_over_cpu_and_memory() {
    let mut world = World::new();
    world.mk_node("n1", "a", 4000, 8);
    world.mk_pods("web", 1, &mk_pod(1000, 4));
    let found = scores(&mut world)[0];
    // 3000 of 4000 and 4 of 8 stay: (75 + 50) / 2. Requested are 0.25 and 0.5, which deviate by 0.125 from their mean.
    assert_eq!((found.node_resources_fit, found.balanced_allocation), (62, 87));
    // Nobody prefers or avoids anything: taints score full, affinity not at all.
    assert_eq!((found.taint_toleration, found.node_affinity, found.inter_pod_affinity), (100, 0, 0));
    assert_eq!(found.total(), 3 * 100 + 62 + 87);
}

#[test]
fn what_containers_do_not_state_is_assumed_and_best_effort_is_not_balanced() {
    let mut world = World::new();
    world.mk_node("n1", "a", 4000, 8);
    let assumed = [100, 200 << 20];
    world.mk_running("old", &PodSpec { assumed, ..mk_pod(1000, 0) }, 0);
    world.mk_pods("web", 1, &PodSpec { assumed, ..mk_pod(0, 0) });
    let found = scores(&mut world)[0];
    // 4000 - 1000 - 2 × 100 of 4000 is 70 %; 8192 - 2 × 200 of 8192 MiB is 95.1 %.
    assert_eq!((found.node_resources_fit, found.balanced_allocation), (82, 0));
}

#[test]
fn taints_that_are_merely_preferred_are_normalised_over_the_feasible_nodes() {
    let mut world = World::new();
    let [slow, old, none] = ["slow", "old", ""].map(|text| world.sym(text));
    let taint = |key| Taint { key, value: none, effect: Effect::PreferNoSchedule };
    world.mk_node("n1", "a", 4000, 8).taints = vec![taint(slow), taint(old)];
    world.mk_node("n2", "a", 4000, 8).taints = vec![taint(slow)];
    world.mk_node("n3", "a", 4000, 8);
    world.mk_pods("web", 1, &mk_pod(100, 1));
    let found: Vec<i64> = scores(&mut world).iter().map(|scores| scores.taint_toleration).collect();
    assert_eq!(found, [0, 50, 100]);
}

#[test]
fn an_image_counts_by_its_size_and_the_share_of_nodes_that_have_it() {
    let mut world = World::new();
    let image = world.sym("app:v1");
    world.mk_node("n1", "a", 4000, 8).images = vec![(image, 500 << 20)];
    world.mk_node("n2", "a", 4000, 8);
    let images = Images { names: vec![image], containers: 1 };
    world.mk_pods("web", 1, &PodSpec { images, ..mk_pod(100, 1) });
    let found: Vec<i64> = scores(&mut world).iter().map(|scores| scores.image_locality).collect();
    // Half of 500 MiB, between 23 and 1000 MiB: 227 / 977.
    assert_eq!(found, [23, 0]);
}

#[test]
fn a_preferred_spread_costs_pods_times_the_logarithm_of_the_domains() {
    let mut world = World::new();
    world.mk_node("n1", "a", 4000, 8);
    world.mk_running("web", &mk_pod(100, 1), 0);
    world.mk_running("web", &mk_pod(100, 1), 0);
    world.mk_node("n2", "b", 4000, 8);
    world.mk_running("web", &mk_pod(100, 1), 0);
    world.mk_node("n3", "c", 4000, 8);
    let constraint = SpreadConstraint {
        key: world.cluster.well_known.zone,
        max_skew: 1,
        min_domains: None,
        is_required: false,
        selector: world.selector("web"),
        match_label_keys: Vec::new(),
        honors_node_affinity: true,
        honors_taints: false,
    };
    world.mk_pods("web", 1, &PodSpec { spread: vec![constraint], ..mk_pod(100, 1) });
    let found: Vec<i64> = scores(&mut world).iter().map(|scores| scores.pod_topology_spread).collect();
    // ln 5 = 1.609 a pod: raw 3, 2 and 0; normalised 100 × (3 + 0 - raw) / 3.
    assert_eq!(found, [0, 33, 100]);
}

#[test]
fn affinity_is_scored_from_both_sides() {
    let mut world = World::new();
    let key = world.cluster.well_known.zone;
    let selector = |world: &mut World, app: &str| PodTerm {
        key,
        selector: world.selector(app),
        namespaces: Vec::new(),
        namespace_selector: None,
        match_label_keys: Vec::new(),
        mismatch_label_keys: Vec::new(),
    };
    let (to_web, to_db) = (selector(&mut world, "web"), selector(&mut world, "db"));
    world.mk_node("n1", "a", 4000, 8);
    world.mk_running("db", &PodSpec { preferred_anti_affinity: vec![(40, to_web.clone())], ..mk_pod(100, 1) }, 0);
    world.mk_node("n2", "b", 4000, 8);
    // A required affinity for the pod weighs 1.
    world.mk_running("guest", &PodSpec { affinity: vec![to_web], ..mk_pod(100, 1) }, 0);
    world.mk_node("n3", "c", 4000, 8);
    world.mk_running("db", &mk_pod(100, 1), 0);
    world.mk_pods("web", 1, &PodSpec { preferred_affinity: vec![(60, to_db)], ..mk_pod(100, 1) });
    let found: Vec<i64> = scores(&mut world).iter().map(|scores| scores.inter_pod_affinity).collect();
    // Raw: 60 - 40, 1, 60; normalised between 1 and 60: 100 × 19 / 59.
    assert_eq!(found, [32, 0, 100]);
}

#[test]
fn of_nodes_with_as_much_left_the_balanced_one_is_chosen() {
    let mut world = World::new();
    world.mk_node("a", "z", 10_000, 10);
    world.mk_running("old", &mk_pod(2000, 8), 0);
    world.mk_node("b", "z", 10_000, 10);
    world.mk_running("old", &mk_pod(5000, 5), 0);
    world.mk_pods("web", 1, &mk_pod(1000, 1));
    assert_eq!(world.run(false).0, ["b: 1"]);
}
