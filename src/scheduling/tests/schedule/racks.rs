//! Where a key has many domains, cells are looked at together: the same nodes are chosen as where each is looked at by itself.

use berth_model::{ClassId, PodSpec, Universe};
use berth_scheduling::{Launchable, Scheduler};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

use crate::mk::World;
use crate::shared::spec_of;

const APPS: [&str; 4] = ["a", "b", "c", "d"];

/// A node: its rack, its CPUs, whether it comes up only, and the apps of which pods run there.
type Ground = (usize, i64, bool, Vec<usize>);

fn hold(grounds: &[Ground], rules: &[(usize, usize, i64)], order: &[(usize, usize)]) {
    let mut world = World::new();
    let rules = || APPS.into_iter().zip(rules.iter().cycle());
    let specs: Vec<PodSpec> =
        rules().map(|(_, (of, rule, milli_cpu))| spec_of(&mut world, APPS[*of], *rule, *milli_cpu)).collect();
    for (at, (rack, cpus, is_coming_up, apps)) in grounds.iter().enumerate() {
        world.mk_node(&format!("n{at}"), &format!("rack-{rack}"), cpus * 1000, 64).is_coming_up = *is_coming_up;
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
        prop::collection::vec((0..4_usize, 0..11_usize, prop::sample::select(vec![500_i64, 700])), 4),
        prop::collection::vec((0..4_usize, 0..130_usize), 1..40),
    );
    runner
        .run(&inputs, |(grounds, rules, order)| {
            hold(&grounds, &rules, &order);
            Ok(())
        })
        .unwrap();
}
