//! Spread, affinity and anti-affinity over zones and hostnames.

use berth_model::{Operator, Universe};
use berth_provisioning::{Effort, Options};
use berth_scheduling::{Queue, Scheduler};

use crate::mk::{CAPACITY_TYPE, HOSTNAME, INSTANCE_TYPE, World, ZONE, mk_world, pod};
use crate::plan::Plan;

/// Three zones, `c` the cheapest.
fn mk_zones() -> World {
    let mut world = mk_world();
    world.mk_pool("default");
    world.mk_type("large", 16).on_demand("a", 300).on_demand("b", 200).on_demand("c", 100);
    world
}

fn by_zone(plan: &Plan) -> Vec<(String, u32)> {
    plan.pods_by_zone().into_iter().collect()
}

fn zones(counts: &[(&str, u32)]) -> Vec<(String, u32)> {
    counts.iter().map(|(zone, pods)| ((*zone).to_owned(), *pods)).collect()
}

#[test]
fn a_zone_spread_shares_pods_out_evenly() {
    let mut world = mk_zones();
    world.mk_pods("web", 9, &pod(100).app("web").spread(ZONE, 1, "web"));
    assert_eq!(by_zone(&world.plan()), zones(&[("a", 3), ("b", 3), ("c", 3)]));
}

#[test]
fn what_does_not_divide_goes_to_the_cheapest_zones() {
    let mut world = mk_zones();
    world.mk_pods("web", 5, &pod(16_000).app("web").spread(ZONE, 1, "web"));
    assert_eq!(by_zone(&world.plan()), zones(&[("a", 1), ("b", 2), ("c", 2)]));
}

#[test]
fn running_pods_count_in_a_spread() {
    let mut world = mk_zones();
    world.mk_node("n1", "a", 0, &[pod(100).app("web"), pod(100).app("web"), pod(100).app("other")]);
    world.mk_pods("web", 4, &pod(100).app("web").spread(ZONE, 1, "web"));
    assert_eq!(by_zone(&world.plan()), zones(&[("b", 2), ("c", 2)]));
}

#[test]
fn a_node_without_the_keys_of_all_spreads_counts_for_none() {
    let mut world = mk_world();
    world.mk_pool("default").require("team", &["red"]);
    world.mk_type("large", 16).on_demand("a", 300).on_demand("b", 200).on_demand("c", 100);
    world.mk_node("n1", "a", 0, &[pod(100).app("web")]);
    world.mk_pods("web", 3, &pod(100).app("web").spread(ZONE, 1, "web").spread("team", 9, "web"));
    assert_eq!(by_zone(&world.plan()), zones(&[("a", 1), ("b", 1), ("c", 1)]));
}

#[test]
fn a_value_that_only_pods_choose_is_a_domain_for_those_packed_before() {
    let mut world = mk_world();
    world.mk_pool("green").require("team", &["green"]);
    world.mk_pool("others").excludes("team", &["green"]);
    world.mk_type("large", 16).on_demand("a", 100);
    world.mk_pods("web", 5, &pod(1000).app("web").spread("team", 1, "web"));
    world.mk_pods("blue", 1, &pod(500).needs("team", Operator::In, &["blue"]));
    let plan = world.plan();
    assert_eq!(plan.claims(), ["1 × large on-demand a: blue:1 web:3", "1 × large on-demand a: web:2"]);
}

#[test]
fn a_node_that_counts_for_a_spread_with_a_bound_is_launched_within_it() {
    let mut world = mk_zones();
    world.cluster.node_pools.clear();
    world.mk_pool("default").bound("generation", Operator::Gt, "2");
    let other = pod(2000).app("web").needs(ZONE, Operator::In, &["a"]);
    world.mk_pods("other", 2, &other);
    let spread = pod(1000).app("web").needs("generation", Operator::Gt, &["3"]).spread(ZONE, 1, "web");
    world.mk_pods("web", 4, &spread);
    let plan = world.plan();
    assert_eq!(by_zone(&plan), zones(&[("a", 2), ("b", 2), ("c", 2)]));
    let generation = plan.cluster.symbols.get("generation").unwrap();
    for claims in &plan.solution.claims {
        let bounds = claims.requirements.get(generation).unwrap().to_operators();
        assert_eq!(bounds, [(Operator::Gte, vec!["4".to_owned()], Vec::new())]);
    }
}

#[test]
fn a_pod_that_others_must_join_gets_a_node_with_room_for_them() {
    let mut world = mk_world();
    world.mk_pool("default");
    world.mk_type("small", 2).reserved("a", "r-1", 1, 100);
    world.mk_type("large", 4).reserved("a", "r-2", 1, 400);
    world.mk_pods("leads", 1, &pod(1500).app("leads"));
    world.mk_pods("follows", 1, &pod(1000).affinity(HOSTNAME, "leads"));
    let plan = world.plan_with(&Options::default());
    assert_eq!(plan.claims(), ["1 × large r-2 a: follows:1 leads:1"]);
}

#[test]
fn a_pod_with_min_domains_goes_before_one_that_would_fill_the_only_domain() {
    let mut world = mk_world();
    world.mk_pool("default");
    world.mk_type("large", 4).on_demand("a", 100);
    world.mk_pods("counts", 1, &pod(1000).app("web"));
    world.mk_pods("spread", 1, &pod(500).app("web").spread(ZONE, 1, "web").min_domains(3));
    assert!(world.plan_with(&Options::default()).left().is_empty());
}

#[test]
fn a_node_that_can_never_pass_a_spreads_filter_takes_pods_all_the_same() {
    let mut world = mk_world();
    world.mk_pool("default").excludes("team", &[]);
    world.mk_type("large", 16).on_demand("a", 100);
    world.mk_pods("red", 1, &pod(100).app("web").needs("team", Operator::In, &["red"]).spread(HOSTNAME, 1, "web"));
    world.mk_pods("blue", 1, &pod(100).app("web").needs("team", Operator::In, &["blue"]));
    assert!(world.plan().left().is_empty());
}

#[test]
fn a_spread_looks_only_at_zones_that_the_pod_admits() {
    let mut world = mk_zones();
    let web = pod(100).app("web").spread(ZONE, 1, "web").needs(ZONE, Operator::In, &["a", "b"]);
    world.mk_pods("web", 8, &web);
    assert_eq!(by_zone(&world.plan()), zones(&[("a", 4), ("b", 4)]));
}

#[test]
fn with_fewer_zones_than_min_domains_each_takes_no_more_than_the_skew() {
    let mut world = mk_zones();
    world.mk_pods("web", 9, &pod(100).app("web").spread(ZONE, 2, "web").min_domains(4));
    let plan = world.plan();
    assert_eq!(by_zone(&plan), zones(&[("a", 2), ("b", 2), ("c", 2)]));
    assert_eq!(plan.left(), ["3 × web"]);
}

#[test]
fn a_zone_without_room_holds_a_spread_back() {
    let mut world = mk_world();
    world.mk_node("n1", "a", 1, &[]);
    world.mk_node("n2", "b", 64, &[]);
    world.mk_pods("web", 9, &pod(1000).app("web").spread(ZONE, 1, "web"));
    let plan = world.plan();
    assert_eq!(by_zone(&plan), zones(&[("a", 1), ("b", 2)]));
    assert_eq!(plan.left(), ["6 × web"]);
}

#[test]
fn a_spread_that_may_be_ignored_is_ignored_rather_than_leave_a_pod_over() {
    let mut world = mk_world();
    world.mk_node("n1", "a", 1, &[]);
    world.mk_node("n2", "b", 8, &[]);
    world.mk_pods("web", 9, &pod(1000).app("web").spread(ZONE, 1, "web").schedule_anyway());
    assert_eq!(by_zone(&world.plan()), zones(&[("a", 1), ("b", 8)]));
}

#[test]
fn a_hostname_spread_caps_the_pods_of_a_node() {
    for (skew, expected) in [(1, "6 × large on-demand c: web:1"), (3, "2 × large on-demand c: web:3")] {
        let mut world = mk_zones();
        world.mk_pods("web", 6, &pod(100).app("web").spread(HOSTNAME, skew, "web"));
        assert_eq!(world.plan().claims(), [expected], "skew {skew}");
    }
}

#[test]
fn zone_and_hostname_spread_hold_at_once() {
    let mut world = mk_zones();
    world.mk_pods("web", 6, &pod(100).app("web").spread(ZONE, 1, "web").spread(HOSTNAME, 1, "web"));
    let each = |zone| format!("2 × large on-demand {zone}: web:1");
    assert_eq!(world.plan().claims(), ["a", "b", "c"].map(each));
}

#[test]
fn a_host_that_the_zone_spread_forbids_is_no_empty_host() {
    let mut world = mk_world();
    world.mk_pool("default");
    world.mk_type("large", 8).finite("a", 300, 1).on_demand("b", 300);
    world.mk_pods("web", 4, &pod(100).app("web").spread(ZONE, 1, "web").spread(HOSTNAME, 1, "web"));
    let plan = world.plan();
    assert_eq!(plan.claims(), ["1 × large on-demand a: web:2", "2 × large on-demand b: web:1"]);
}

/// The zones of the nodes that the scheduler binds pods to where these may still be launched for.
fn bound_by_scheduler(mut world: World) -> Vec<String> {
    let universe = Universe::with_scores(&mut world.cluster);
    let launchable = berth_provisioning::launchable(&world.cluster, &universe);
    let mut scheduler = Scheduler::new(&world.cluster, &universe, launchable);
    scheduler.run(Queue::default());
    let nodes = world.cluster.nodes.iter().zip(scheduler.state().nodes());
    let with_pods = nodes.filter(|(_, state)| !state.added.is_empty());
    let zone = |node: &berth_model::Node| node.labels.get(world.cluster.well_known.zone).unwrap();
    with_pods.map(|(node, _)| world.cluster.symbols.text(zone(node)).to_owned()).collect()
}

#[test]
fn the_scheduler_waits_for_an_empty_host_only_where_the_pod_may_be_launched() {
    // Nodes with a pod each, CPUs of the type, and where the next pod is bound.
    for (zones, cpus, expected) in [
        (&["a", "b", "b"][..], 8, &["a"][..]),
        (&["a", "b"], 8, &[]),
        // Too small for the pod.
        (&["a", "b"], 1, &["a"]),
    ] {
        let mut world = mk_world();
        world.mk_pool("default");
        world.mk_type("large", cpus).finite("a", 300, 0).on_demand("b", 300);
        let web = pod(2000).app("web").spread(ZONE, 1, "web").spread(HOSTNAME, 1, "web");
        for (at, zone) in zones.iter().enumerate() {
            world.mk_node(&format!("n{at}"), zone, if *zone == "a" { 16 } else { 8 }, std::slice::from_ref(&web));
        }
        world.mk_pods("web", 1, &web);
        assert_eq!(bound_by_scheduler(world), expected, "{zones:?} {cpus}");
    }
}

/// The regression: where others can never be placed more packings are tried, one of which left a pod that joined a node beside others
/// then. Nobody bound it there, since a further host may come, nor launched for it.
#[test]
fn who_a_packing_leaves_comes_beside_no_others_while_a_host_may_come() {
    let mut world = mk_world();
    world.mk_pool("default").require(CAPACITY_TYPE, &["reserved"]);
    world.mk_type("large", 4).reserved("a", "r-1", 5, 200);
    let web = pod(1800).app("web").spread(HOSTNAME, 1, "web").anti_affinity(HOSTNAME, "beside");
    world.mk_node("n1", "b", 8, &[web.clone(), web.clone()]);
    world.mk_node("n2", "b", 8, std::slice::from_ref(&web));
    world.mk_node("n3", "a", 4, std::slice::from_ref(&web));
    world.mk_pods("beside", 5, &pod(500).app("beside").affinity(HOSTNAME, "web"));
    world.mk_pods("web", 3, &web);
    let plan = world.plan();
    assert_eq!((plan.claims(), plan.bound()), (vec!["3 × large r-1 a: web:1".to_owned()], Vec::new()));
}

#[test]
fn a_host_that_is_too_small_is_no_empty_host() {
    let mut world = mk_world();
    world.mk_pool("default");
    world.mk_type("small", 2).on_demand("a", 100);
    world.mk_node("n1", "a", 16, &[]);
    world.mk_node("n2", "a", 16, &[]);
    world.mk_pods("web", 8, &pod(4000).app("web").spread(HOSTNAME, 1, "web"));
    let plan = world.plan();
    assert_eq!(plan.bound(), ["n1: web:4", "n2: web:4"]);
}

#[test]
fn zone_self_affinity_keeps_all_pods_in_one_zone_the_cheapest() {
    let mut world = mk_zones();
    world.mk_pods("web", 40, &pod(1000).app("web").affinity(ZONE, "web"));
    let plan = world.plan();
    assert_eq!(by_zone(&plan), zones(&[("c", 40)]));
    assert!(plan.left().is_empty());
}

#[test]
fn zone_self_affinity_follows_the_pods_that_run() {
    let mut world = mk_zones();
    world.mk_node("n1", "a", 0, &[pod(100).app("web")]);
    world.mk_pods("web", 3, &pod(1000).app("web").affinity(ZONE, "web"));
    assert_eq!(by_zone(&world.plan()), zones(&[("a", 3)]));
}

#[test]
fn affinity_to_a_class_that_is_packed_later_is_tried_again() {
    let mut world = mk_zones();
    world.mk_pods("follows", 1, &pod(4000).affinity(ZONE, "leads"));
    world.mk_pods("leads", 1, &pod(100).app("leads").needs(ZONE, Operator::In, &["b"]));
    let plan = world.plan();
    assert_eq!(by_zone(&plan), zones(&[("b", 2)]));
}

#[test]
fn affinity_to_nobody_is_refused() {
    let mut world = mk_zones();
    world.mk_pods("follows", 1, &pod(100).affinity(ZONE, "absent"));
    assert_eq!(world.plan().left(), ["1 × follows"]);
}

#[test]
fn hostname_self_affinity_keeps_all_pods_on_one_node() {
    let mut world = mk_zones();
    world.mk_type("small", 2).on_demand("c", 1);
    world.mk_pods("web", 20, &pod(1000).app("web").affinity(HOSTNAME, "web"));
    let plan = world.plan();
    assert_eq!(plan.claims(), ["1 × large on-demand c: web:16"]);
    assert_eq!(plan.left(), ["4 × web"]);
}

#[test]
fn anti_affinity_holds_both_ways_between_pending_pods() {
    for sizes in [(100, 2000), (2000, 100)] {
        let mut world = mk_zones();
        world.mk_pods("quiet", 2, &pod(sizes.0).app("quiet").anti_affinity(HOSTNAME, "noisy"));
        world.mk_pods("noisy", 2, &pod(sizes.1).app("noisy"));
        let plan = world.plan();
        let expected = ["1 × large on-demand c: noisy:2", "1 × large on-demand c: quiet:2"];
        assert_eq!(plan.claims(), expected, "whoever is packed first");
    }
}

#[test]
fn anti_affinity_of_a_running_pod_holds_for_pending_ones() {
    let mut world = mk_zones();
    world.mk_node("n1", "a", 8, &[pod(100).app("quiet").anti_affinity(HOSTNAME, "noisy")]);
    world.mk_node("n2", "a", 8, &[pod(100).app("quiet")]);
    world.mk_pods("noisy", 1, &pod(100).app("noisy"));
    assert_eq!(world.plan().bound(), ["n2: noisy:1"]);
}

#[test]
fn zone_anti_affinity_places_one_pod_a_zone() {
    let mut world = mk_zones();
    world.mk_pods("web", 5, &pod(100).app("web").anti_affinity(ZONE, "web"));
    let plan = world.plan();
    assert_eq!(by_zone(&plan), zones(&[("a", 1), ("b", 1), ("c", 1)]));
    assert_eq!(plan.left(), ["2 × web"]);
    assert_eq!(plan.reasons(), ["1 × NodePool default: node(s) didn't match pod anti-affinity rules"]);
}

#[test]
fn pods_that_share_a_host_pass_over_a_node_without_room_for_all_of_them() {
    let mut world = mk_world();
    world.mk_pool("default");
    world.mk_type("large", 16).on_demand("a", 100);
    world.mk_pods("filler", 1, &pod(10_000));
    world.mk_pods("web", 4, &pod(2000).app("web").affinity(HOSTNAME, "web"));
    assert_eq!(world.plan().claims(), ["1 × large on-demand a: filler:1", "1 × large on-demand a: web:4"]);
}

#[test]
fn a_zone_whose_room_is_kept_by_a_port_is_no_cheaper_than_its_price() {
    let mut world = mk_zones();
    world.mk_pods("filler", 1, &pod(2000).needs(ZONE, Operator::In, &["a"]).port(80));
    world.mk_pods("web", 1, &pod(1000).app("web").spread(ZONE, 1, "web").port(80));
    let plan = world.plan_with(&Options { effort: Effort::Low, ..Options::default() });
    assert_eq!(by_zone(&plan), zones(&[("a", 1), ("c", 1)]));
}

#[test]
fn a_zone_is_as_dear_as_what_limits_leave_of_it() {
    let mut world = mk_world();
    world.mk_pool("full").require(INSTANCE_TYPE, &["cheap"]).limit_nodes(0);
    world.mk_pool("open").require(INSTANCE_TYPE, &["dear"]);
    world.mk_type("cheap", 16).on_demand("a", 10);
    world.mk_type("dear", 16).on_demand("a", 300).on_demand("b", 200);
    world.mk_pods("web", 1, &pod(1000).app("web").spread(ZONE, 1, "web"));
    assert_eq!(world.plan().claims(), ["1 × dear on-demand b: web:1"]);
}

#[test]
fn a_zone_where_volumes_cannot_be_counts_in_their_spread_once_others_have_a_node_there() {
    let mut world = mk_zones();
    world.mk_pods("other", 1, &pod(1000).needs(ZONE, Operator::In, &["c"]));
    world.mk_pods("db", 5, &pod(500).app("db").spread(ZONE, 1, "db").volume_in(&["a", "b"]));
    let plan = world.plan();
    assert_eq!(by_zone(&plan), zones(&[("a", 1), ("b", 1), ("c", 1)]));
    assert_eq!(plan.left(), ["3 × db"]);
}

#[test]
fn pods_that_may_be_anywhere_keep_off_zones_where_the_volumes_of_a_spread_cannot_be() {
    let mut world = mk_zones();
    world.mk_pods("other", 1, &pod(16_000));
    world.mk_pods("db", 5, &pod(500).app("db").spread(ZONE, 1, "db").volume_in(&["a", "b"]));
    let plan = world.plan();
    assert!(plan.left().is_empty(), "{:?}", plan.claims());
    assert_eq!(by_zone(&plan), zones(&[("a", 3), ("b", 3)]));
}

#[test]
fn a_zone_that_nobody_launches_in_does_not_count_where_volumes_cannot_be() {
    let mut world = mk_zones();
    world.mk_pods("db", 5, &pod(500).app("db").spread(ZONE, 1, "db").volume_in(&["a", "b"]));
    assert_eq!(by_zone(&world.plan()), zones(&[("a", 3), ("b", 2)]));
}
