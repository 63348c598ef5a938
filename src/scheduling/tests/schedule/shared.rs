//! Classes that share an index are told what their own would tell them, in what-ifs too.

use berth_model::{ClassId, PodSpec, Requirement, Requirements, SpreadConstraint, Universe};
use berth_scheduling::{Expected, Launchable, Queue, Scheduler};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

use crate::mk::{World, mk_pod};
use crate::queue::own_term;

const APPS: [&str; 5] = ["a", "b", "c", "d", "e"];

/// A node: its zone, its CPUs, whether it comes up only, and the apps of which pods run there.
type Ground = (usize, i64, bool, Vec<usize>);

pub(crate) fn spread(
    world: &mut World,
    app: &str,
    is_zonal: bool,
    max_skew: u32,
    is_required: bool,
) -> SpreadConstraint {
    let known = &world.cluster.well_known;
    SpreadConstraint {
        key: if is_zonal { known.zone } else { known.hostname },
        max_skew,
        min_domains: None,
        is_required,
        selector: world.selector(app),
        match_label_keys: Vec::new(),
        honors_node_affinity: true,
        honors_taints: false,
    }
}

fn on_node(world: &mut World, name: &str) -> Requirements {
    let hostname = world.cluster.well_known.hostname;
    let name = world.cluster.symbols.intern(name);
    let mut requirements = Requirements::new();
    requirements.add(hostname, Requirement::one_of(vec![name]), &world.cluster.symbols);
    requirements
}

/// A pod of an app, with one rule of ten about another, or its own, or none.
pub(crate) fn spec_of(world: &mut World, of: &str, rule: usize, milli_cpu: i64) -> PodSpec {
    let (zone, hostname) = (world.cluster.well_known.zone, world.cluster.well_known.hostname);
    let mut spec = mk_pod(milli_cpu, 1);
    match rule {
        1 => spec.spread = vec![spread(world, of, true, 1, true)],
        2 => spec.spread = vec![spread(world, of, false, 1, true)],
        3 => spec.spread = vec![spread(world, of, false, 1, false)],
        4 => spec.spread = vec![spread(world, of, true, 1, false), spread(world, of, false, 2, true)],
        5 => spec.anti_affinity = vec![own_term(world, hostname, of)],
        6 => spec.anti_affinity = vec![own_term(world, zone, of)],
        7 => spec.affinity = vec![own_term(world, hostname, of)],
        8 => spec.preferred_affinity = vec![(7, own_term(world, zone, of)), (9, own_term(world, hostname, of))],
        // Such a class has an index of its own, and who goes with it is tried out.
        10 => spec.required_terms = vec![on_node(world, "n1"), on_node(world, "n2")],
        9 => spec.preferred_anti_affinity = vec![(9, own_term(world, hostname, of))],
        _ => {}
    }
    spec
}

/// By app: the priority of its pods.
const PRIORITIES: [i32; 5] = [0, -3, 5, 0, 5];

fn hold(grounds: &[Ground], rules: &[(usize, usize, i64)], order: &[usize], rooms: &[(usize, usize)]) {
    let mut world = World::new();
    let rules = || APPS.into_iter().zip(rules.iter().cycle());
    let mut specs: Vec<PodSpec> =
        rules().map(|(_, (of, rule, milli_cpu))| spec_of(&mut world, APPS[*of], *rule, *milli_cpu)).collect();
    specs.iter_mut().zip(PRIORITIES).for_each(|(spec, priority)| spec.priority = priority);
    for (at, (zone, cpus, is_coming_up, apps)) in grounds.iter().enumerate() {
        world.mk_node(&format!("n{at}"), APPS[*zone], cpus * 1000, 64).is_coming_up = *is_coming_up;
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
    let mut scheduler = Scheduler::new(&world.cluster, &universe, Launchable::default());
    let again: Vec<ClassId> = order.iter().map(|at| classes[at % classes.len()]).collect();
    let rooms: Vec<(ClassId, usize)> =
        rooms.iter().map(|(app, node)| (classes[app % classes.len()], node % grounds.len())).collect();
    let mut expected = Expected::new();
    for (id, node) in &rooms {
        let row = universe.class(*id).unwrap().rows[0];
        expected.entry(row).or_default().push_back((*node, 1));
    }
    for &id in &again {
        let mut own = scheduler.clone().with_own_indexes();
        let [mut holding, mut of_own] = [scheduler.clone(), own.clone()];
        for &(id, node) in &rooms {
            holding.nominate(id, node);
            of_own.nominate(id, node);
        }
        for &id in &classes {
            assert_eq!(holding.choose(id), of_own.choose(id), "{id:?} beside room that is held: {rooms:?}");
        }
        let trials = [&mut scheduler, &mut own].map(|scheduler| {
            scheduler.expect(expected.clone());
            scheduler.try_out(Queue::default()).map(|trial| (trial.left, trial.placements))
        });
        assert_eq!(trials[0], trials[1], "expected on {rooms:?}");
        for node in 0..grounds.len() {
            let without = (scheduler.try_without(node, &again), own.try_without(node, &again));
            assert_eq!(without.0, without.1, "without {node}, {again:?}");
        }
        // What is tried out and taken back leaves no trace in what classes keep.
        let trials = [scheduler.try_out(Queue::default()), own.try_out(Queue::default())];
        let [trial, of_own] = trials.map(|trial| trial.map(|trial| (trial.left, trial.placements)));
        assert_eq!(trial, of_own, "{again:?}");
        let node = scheduler.choose(id);
        assert_eq!(node, own.choose(id), "{id:?} of {again:?}");
        if let Some(node) = node {
            scheduler.bind(id, node);
        }
    }
}

#[test]
fn a_shared_index_tells_what_an_own_one_tells() {
    let cases = std::env::var("BERTH_CASES").ok().and_then(|text| text.parse().ok()).unwrap_or(24);
    let mut runner = TestRunner::new(Config { cases, failure_persistence: None, ..Config::default() });
    let ground = (0..3_usize, 2..6_i64, prop::bool::weighted(0.1), prop::collection::vec(0..5_usize, 0..4));
    let inputs = (
        prop::collection::vec(ground, 3..10),
        prop::collection::vec((0..5_usize, 0..11_usize, prop::sample::select(vec![500_i64, 700])), 5),
        prop::collection::vec(0..5_usize, 1..12),
        prop::collection::vec((0..5_usize, 0..10_usize), 0..6),
    );
    runner
        .run(&inputs, |(grounds, rules, order, rooms)| {
            hold(&grounds, &rules, &order, &rooms);
            Ok(())
        })
        .unwrap();
}
