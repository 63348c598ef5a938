//! Where a key has many domains, cells are looked at together: the same nodes are chosen as where each is looked at by itself.

use berth_model::{ClassId, Labels, PodSpec, SpreadConstraint, Sym, Universe};
use berth_scheduling::{Launchable, Scheduler};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

use crate::mk::World;
use crate::queue::own_term;
use crate::shared::spec_of;

const APPS: [&str; 4] = ["a", "b", "c", "d"];

/// A node: its rack, its CPUs, whether it comes up only, and the apps of which pods run there.
type Ground = (usize, i64, bool, Vec<usize>);

/// A rule: the app that it is about, which it is, the CPUs of its pods, and what it asks of the hall, of which there are few.
type Rule = (usize, usize, i64, usize);

fn specs_of(world: &mut World, hall: Sym, rules: &[Rule]) -> Vec<PodSpec> {
    let mut specs = Vec::new();
    for &(of, rule, milli_cpu, of_hall) in rules.iter().cycle().take(APPS.len()) {
        let mut spec = spec_of(world, APPS[of], rule, milli_cpu);
        let spread = |is_required: bool, selector| SpreadConstraint {
            key: hall,
            max_skew: 1,
            min_domains: None,
            is_required,
            selector,
            match_label_keys: Vec::new(),
            honors_node_affinity: true,
            honors_taints: false,
        };
        match of_hall {
            1 | 2 => spec.spread.push(spread(of_hall == 1, world.selector(APPS[of]))),
            3 => spec.preferred_affinity.push((5, own_term(world, hall, APPS[of]))),
            4 => spec.affinity.push(own_term(world, hall, APPS[of])),
            _ => {}
        }
        specs.push(spec);
    }
    specs
}

fn hold(grounds: &[Ground], rules: &[Rule], order: &[(usize, usize)]) {
    let mut world = World::new();
    let hall = world.sym("example.com/hall");
    let specs = specs_of(&mut world, hall, rules);
    for (at, (rack, cpus, is_coming_up, apps)) in grounds.iter().enumerate() {
        let named = world.sym(&format!("hall-{}", at % 3));
        let node = world.mk_node(&format!("n{at}"), &format!("rack-{rack}"), cpus * 1000, 64);
        node.is_coming_up = *is_coming_up;
        // Some are in no hall.
        if at % 7 > 0 {
            node.labels = Labels::new(node.labels.iter().chain([(hall, named)]));
        }
        for &app in apps {
            world.mk_running(APPS[app], &specs[app], 0);
        }
    }
    for (app, spec) in APPS.iter().zip(&specs) {
        world.mk_pods(app, 4, spec);
    }
    let universe = Universe::with_scores(&mut world.cluster);
    let asking = universe.classes.iter().zip((0..).map(ClassId)).filter(|(class, _)| class.count > 0);
    let classes: Vec<ClassId> = asking.map(|(_, id)| id).collect();
    for shares in [true, false] {
        let mut merged = Scheduler::new(&world.cluster, &universe, Launchable::default());
        if !shares {
            merged = merged.with_own_indexes();
        }
        let mut single = merged.clone().with_single_cells();
        for &(at, gone) in order {
            let id = classes[at % classes.len()];
            let again = [id, classes[gone % classes.len()], id];
            let gone = gone % grounds.len();
            assert_eq!(merged.try_without(gone, &again), single.try_without(gone, &again), "without {gone}, {again:?}");
            let node = merged.choose(id);
            assert_eq!(node, single.choose(id), "{id:?} of {order:?}");
            if let Some(node) = node {
                merged.bind(id, node);
                single.bind(id, node);
            }
        }
    }
}

#[test]
fn merged_cells_tell_what_single_ones_tell() {
    let cases = std::env::var("BERTH_CASES").ok().and_then(|text| text.parse().ok()).unwrap_or(24);
    let mut runner = TestRunner::new(Config { cases, failure_persistence: None, ..Config::default() });
    let ground = (0..90_usize, 2..6_i64, prop::bool::weighted(0.1), prop::collection::vec(0..4_usize, 0..3));
    let inputs = (
        prop::collection::vec(ground, 90..130),
        prop::collection::vec((0..4_usize, 0..11_usize, prop::sample::select(vec![500_i64, 700]), 0..7_usize), 4),
        prop::collection::vec((0..4_usize, 0..130_usize), 1..40),
    );
    runner
        .run(&inputs, |(grounds, rules, order)| {
            hold(&grounds, &rules, &order);
            Ok(())
        })
        .unwrap();
}
