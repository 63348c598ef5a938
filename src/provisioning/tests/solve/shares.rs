//! How much of a plan may be where.

use berth_model::Operator;
use berth_provisioning::{Effort, MaxShare, Options, ShareKey};

use crate::mk::{World, ZONE, milli, mk_world, pod};

fn share(key: ShareKey, value: Option<&str>, percent: u32) -> MaxShare {
    MaxShare { key, value: value.map(str::to_owned), billionths: percent * 10_000_000 }
}

/// One type of four CPUs, cheaper in zone a than in b.
fn two_zones(shares: &[MaxShare]) -> World {
    let mut world = mk_world();
    world.options.max_shares = shares.to_vec();
    world.mk_pool("default");
    world.mk_type("large", 4).on_demand("a", 100).on_demand("b", 150);
    world
}

#[test]
fn no_zone_has_more_than_its_share_of_what_is_requested() {
    let mut world = two_zones(&[share(ShareKey::Zone, None, 50)]);
    world.mk_pods("web", 16, &pod(1000));
    let plan = world.plan();
    assert_eq!(plan.claims(), ["2 × large on-demand a: web:4", "2 × large on-demand b: web:4"]);

    let mut world = two_zones(&[share(ShareKey::Zone, Some("a"), 25)]);
    world.mk_pods("web", 16, &pod(1000));
    assert_eq!(world.plan().claims(), ["1 × large on-demand a: web:4", "3 × large on-demand b: web:4"]);
}

#[test]
fn a_large_node_is_no_way_round_a_share() {
    let mut world = mk_world();
    world.options.max_shares = vec![share(ShareKey::Zone, None, 50)];
    world.mk_pool("default");
    world.mk_type("huge", 64).on_demand("a", 100).on_demand("b", 100);
    world.mk_pods("web", 16, &pod(1000));
    assert_eq!(world.plan().claims(), ["1 × huge on-demand a: web:8", "1 × huge on-demand b: web:8"]);
}

#[test]
fn a_share_is_rounded_up_to_a_whole_pod() {
    let mut world = two_zones(&[share(ShareKey::Zone, None, 50)]);
    world.mk_pods("web", 3, &pod(1000));
    assert_eq!(world.plan().claims(), ["1 × large on-demand a: web:2", "1 × large on-demand b: web:1"]);
}

#[test]
fn who_may_go_anywhere_leaves_the_share_to_those_who_may_not() {
    for effort in [Effort::Low, Effort::Default, Effort::High] {
        let mut world = two_zones(&[share(ShareKey::Zone, None, 50)]);
        world.mk_pods("free", 8, &pod(2000));
        world.mk_pods("bound", 8, &pod(1000).needs(ZONE, Operator::In, &["a"]));
        let plan = world.plan_with(&Options { effort, ..world.options.clone() });
        assert!(plan.left().is_empty(), "{effort:?}: {:?}", plan.left());
    }
}

#[test]
fn what_a_share_leaves_out_is_told_why() {
    let mut world = mk_world();
    world.options.max_shares = vec![share(ShareKey::Zone, None, 50)];
    world.mk_pool("default");
    world.mk_type("small", 1).on_demand("a", 100);
    world.mk_pods("web", 4, &pod(1000));
    let plan = world.plan();
    assert_eq!(plan.left(), ["3 × web"]);
    assert_eq!(plan.reasons(), ["1 × NodePool default: zone a has its max-share of 50%"]);
}

#[test]
fn a_share_of_nothing_keeps_a_value_out() {
    let mut world = mk_world();
    world.options.max_shares = vec![share(ShareKey::CapacityType, Some("spot"), 0)];
    world.mk_pool("default");
    world.mk_type("large", 4).spot("a", 30).on_demand("a", 100);
    world.mk_pods("web", 8, &pod(1000));
    assert_eq!(world.plan().claims(), ["2 × large on-demand a: web:4"]);
}

#[test]
fn several_shares_hold_together() {
    let mut world = mk_world();
    world.options.max_shares = vec![share(ShareKey::Zone, None, 50), share(ShareKey::CapacityType, Some("spot"), 50)];
    world.mk_pool("default");
    world.mk_type("large", 4).spot("a", 30).on_demand("a", 100).spot("b", 31).on_demand("b", 101);
    world.mk_pods("web", 32, &pod(1000));
    let plan = world.plan();
    assert_eq!(plan.pods_by_zone().into_values().collect::<Vec<u32>>(), [16, 16]);
    assert_eq!(plan.cost(), 4 * 30 + 4 * 101);
}

#[test]
fn a_free_slot_counts_as_any_other_node() {
    let mut world = mk_world();
    world.options.max_shares = vec![share(ShareKey::Zone, None, 50)];
    world.mk_pool("default");
    world.mk_type("large", 4).reserved("a", "cr", 8, 100).on_demand("b", 100);
    world.mk_pods("web", 32, &pod(1000));
    let plan = world.plan();
    assert_eq!(plan.claims(), ["4 × large cr a: web:4", "4 × large on-demand b: web:4"]);
}

#[test]
fn room_on_existing_nodes_is_no_part_of_the_plan() {
    let mut world = two_zones(&[share(ShareKey::Zone, None, 50)]);
    world.mk_node("n1", "a", 8, &[]);
    world.mk_pods("web", 16, &pod(1000));
    let plan = world.plan();
    assert_eq!(plan.bound(), ["n1: web:8"]);
    assert_eq!(plan.claims(), ["1 × large on-demand a: web:4", "1 × large on-demand b: web:4"]);
}

#[test]
fn a_claim_leaves_no_other_zone_open_that_has_a_share() {
    for (shares, zones) in [(vec![], 2), (vec![share(ShareKey::Zone, None, 60)], 1)] {
        let mut world = mk_world();
        world.options.max_shares = shares;
        world.mk_pool("default");
        world.mk_type("large", 4).on_demand("a", 100).on_demand("b", 100);
        world.mk_pods("web", 8, &pod(1000));
        let plan = world.plan();
        let zone = plan.cluster.well_known.zone;
        for claims in &plan.solution.claims {
            let values = claims.requirements.get(zone).and_then(|zones| zones.finite_values()).unwrap();
            assert_eq!(values.len(), zones);
        }
    }
}

#[test]
fn what_a_restriction_costs_is_the_difference_to_the_plan_without() {
    let mut world = two_zones(&[share(ShareKey::Zone, None, 50), share(ShareKey::Zone, Some("b"), 90)]);
    world.options.what_restrictions_cost = true;
    world.mk_pods("web", 16, &pod(1000));
    let plan = world.plan();
    let costs: Vec<i128> = plan.solution.restrictions.iter().map(|known| known.cost.unwrap().hourly.pico()).collect();
    assert_eq!(costs, [2 * 50_000_000_000, 0]);
}

#[test]
fn what_a_limit_leaves_out_is_told_of_the_limit() {
    let mut world = mk_world();
    world.options.what_restrictions_cost = true;
    world.mk_pool("default").limit_cpus(8);
    world.mk_type("large", 4).on_demand("a", 100);
    world.mk_pods("web", 12, &pod(1000));
    let plan = world.plan();
    assert_eq!(plan.left(), ["4 × web"]);
    let [limits] = plan.solution.restrictions.as_slice() else { panic!("{:?}", plan.solution.restrictions) };
    let cost = limits.cost.unwrap();
    assert_eq!(
        (cost.unplaced, cost.hourly.pico()),
        (4, -100_000_000_000),
        "the plan without costs more, and places more"
    );
}

#[test]
fn who_must_be_in_every_zone_comes_before_those_who_choose_one() {
    for effort in [Effort::Low, Effort::Default] {
        let mut world = two_zones(&[share(ShareKey::Zone, None, 60)]);
        world.mk_pods("home", 8, &pod(2000).app("home").affinity(ZONE, "home"));
        world.mk_pods("spread", 16, &pod(1000).app("spread").spread(ZONE, 1, "spread"));
        world.mk_pods("free", 8, &pod(2000));
        let plan = world.plan_with(&Options { effort, ..world.options.clone() });
        assert!(plan.left().is_empty(), "{effort:?}: {:?}", plan.left());
    }
}

#[test]
fn a_bound_counts_on_shares_rounded_up_to_a_pod() {
    for (percent, least) in [(50, 4990), (100, 4000)] {
        let mut world = two_zones(&[share(ShareKey::Zone, Some("a"), percent)]);
        world.options.bound = true;
        world.mk_pods("web", 160, &pod(1000));
        let plan = world.plan();
        let bound = plan.solution.bound.as_ref().unwrap();
        assert!(bound.relaxed.is_empty(), "{:?}", bound.relaxed);
        // Half of forty nodes at 100, and half of them at 150, but for one pod.
        assert!(bound.cost > milli(least - 20) && bound.cost <= milli(least + 10), "{:?}", bound.cost);
    }
}

#[test]
fn a_share_is_used_to_the_last_pod() {
    // 40 of 50 CPUs are not for spot, which five nodes hold if they are filled to the last; the others go to two.
    let mut world = mk_world();
    world.options.max_shares = vec![share(ShareKey::CapacityType, Some("spot"), 20)];
    world.options.effort = Effort::Default;
    world.mk_pool("default");
    world.mk_type("large", 8).with("seats", 4).spot("a", 10).on_demand("a", 100);
    world.mk_pods("computes", 40, &pod(1000));
    world.mk_pods("sits", 20, &pod(500).resource("seats", 1));
    let plan = world.plan();
    assert!(plan.left().is_empty(), "{:?}", plan.left());
    assert_eq!(plan.cost(), 5 * 100 + 2 * 10, "{:?}", plan.claims());
}

// One number after the other, by splitmix64.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % end
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kinds {
    /// Pods that may go to any zone.
    Free,
    /// Also pods that are spread over zones, and pods that are bound to one.
    All,
}

// Two to five Deployments and Jobs on three zones of unlike prices: of several sizes, some for GPUs.
fn random_world(seed: u64, percent: u32, kinds: Kinds) -> World {
    const NAMES: [&str; 5] = ["a", "b", "c", "d", "e"];
    let mut numbers = Numbers(seed);
    let mut world = mk_world();
    world.options.max_shares = vec![share(ShareKey::Zone, None, percent)];
    world.mk_pool("default");
    let mut price = |base: u32| base + u32::try_from(numbers.below(20)).unwrap();
    let (small, large, gpu) = ([price(50), price(50), price(50)], [price(180), price(180), price(180)], price(900));
    world.mk_type("small", 4).on_demand("a", small[0]).on_demand("b", small[1]).on_demand("c", small[2]);
    world.mk_type("large", 16).on_demand("a", large[0]).on_demand("b", large[1]).on_demand("c", large[2]);
    let gpus = world.mk_type("gpu", 16).with("nvidia.com/gpu", 4);
    gpus.on_demand("a", gpu).on_demand("b", gpu + 10).on_demand("c", gpu + 20);
    for name in NAMES.into_iter().take(2 + usize::try_from(numbers.below(4)).unwrap()) {
        let mut template =
            pod([250, 500, 1000, 1500, 2000, 3500][usize::try_from(numbers.below(6)).unwrap()]).app(name);
        match numbers.below(8) {
            0 | 1 => template = template.resource("nvidia.com/gpu", 1),
            2..=4 if kinds == Kinds::All => template = template.spread(ZONE, 1, name),
            5 if kinds == Kinds::All => template = template.needs(ZONE, Operator::In, &["b"]),
            _ => {}
        }
        world.mk_pods(name, 1 + u32::try_from(numbers.below(24)).unwrap(), &template);
    }
    world
}

fn n_left(world: &World, effort: Effort) -> u32 {
    let plan = world.plan_with(&Options { effort, ..world.options.clone() });
    plan.solution.unschedulable.iter().map(|left| left.count).sum()
}

#[test]
fn pods_that_may_go_anywhere_are_split_evenly_at_any_share() {
    for seed in 0..60 {
        for percent in [34, 36, 40] {
            let world = random_world(seed, percent, Kinds::Free);
            assert_eq!(n_left(&world, Effort::Low), 0, "seed {seed}, {percent}%");
        }
    }
}

#[test]
fn more_share_never_places_fewer() {
    for seed in 0..12 {
        let mut least = u32::MAX;
        for percent in [35, 40, 45, 60, 80, 100] {
            let left = n_left(&random_world(seed, percent, Kinds::All), Effort::Low);
            assert!(left <= least, "seed {seed}: {left} are left at {percent}%, {least} at less");
            least = left;
        }
        assert_eq!(least, 0, "seed {seed}: all have a place at 100%");
    }
}

#[test]
fn a_job_for_gpus_beside_spread_pods_is_split_evenly_at_any_share() {
    for percent in [34, 35, 36, 38, 40] {
        for effort in [Effort::Low, Effort::Default] {
            let mut world = mk_world();
            world.options.max_shares = vec![share(ShareKey::Zone, None, percent)];
            world.mk_pool("default");
            world.mk_type("plain", 8).on_demand("a", 100).on_demand("b", 101).on_demand("c", 102);
            let gpu = world.mk_type("gpu", 8).with("nvidia.com/gpu", 1);
            gpu.on_demand("a", 900).on_demand("b", 910).on_demand("c", 920);
            world.mk_pods("job", 6, &pod(4000).resource("nvidia.com/gpu", 1));
            world.mk_pods("web", 23, &pod(1000).app("web").spread(ZONE, 1, "web"));
            assert_eq!(n_left(&world, effort), 0, "{percent}%, {effort:?}");
        }
    }
}

#[test]
fn who_is_bound_to_one_value_comes_first_in_an_even_split_however_many_types_would_do() {
    // The large pods fit one type in each zone, the small one five types of one zone.
    for percent in 34..=60 {
        let mut world = mk_world();
        world.options.max_shares = vec![share(ShareKey::Zone, None, percent)];
        world.mk_pool("default");
        world.mk_type("huge", 8).on_demand("a", 100).on_demand("b", 101).on_demand("c", 102);
        for name in ["s1", "s2", "s3", "s4"] {
            world.mk_type(name, 2).on_demand("a", 30);
        }
        world.mk_pods("large", 2, &pod(6000));
        world.mk_pods("bound", 1, &pod(1500).needs(ZONE, Operator::In, &["a"]));
        let plan = world.plan();
        assert!(plan.left().is_empty(), "{percent}%: {:?}", plan.left());
    }
}

#[test]
fn more_share_of_whole_percents_never_places_fewer() {
    // A Job of large pods beside web pods that are spread over zones, and some that are bound to one.
    for (n_large, cpu, n_web, n_bound) in [(4, 8000, 12, 0), (3, 10_000, 9, 5)] {
        let mut left = u32::MAX;
        for percent in [34, 35, 36, 38, 40, 45, 100] {
            let mut world = mk_world();
            world.options.max_shares = vec![share(ShareKey::Zone, None, percent)];
            world.mk_pool("default");
            for (name, cpus) in [("small", 2_u32), ("large", 8), ("huge", 32)] {
                world
                    .mk_type(name, cpus.into())
                    .on_demand("a", 50 * cpus)
                    .on_demand("b", 51 * cpus)
                    .on_demand("c", 52 * cpus);
            }
            world.mk_pods("train", n_large, &pod(cpu));
            world.mk_pods("web", n_web, &pod(1000).app("web").spread(ZONE, 1, "web"));
            world.mk_pods("bound", n_bound, &pod(1500).needs(ZONE, Operator::In, &["b"]));
            let now = world.plan().solution.unschedulable.iter().map(|left| left.count).sum::<u32>();
            assert!(now <= left, "{n_large} × {cpu}, {n_web}, {n_bound} at {percent}%: {now} left, {left} at less");
            left = now;
        }
        assert_eq!(left, 0, "all of it is no share");
    }
}
