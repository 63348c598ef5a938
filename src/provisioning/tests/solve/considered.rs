//! What is said of all that could be launched for a class, and what pods cost at least.

use berth_model::{ClassId, Money, Operator, Requirements, ResourceId, Universe};
use berth_provisioning::{Considered, Floor, Launching, Options, Raised, Smaller, consider};

use crate::mk::{INSTANCE_TYPE, World, ZONE, mk_world, pod};

fn considered(world: &mut World) -> Vec<Considered> {
    let universe = Universe::new(&mut world.cluster);
    consider(&world.cluster, &universe, ClassId(0), &Options::default(), &[])
}

#[test]
fn an_offering_is_open_if_one_of_several_terms_admits_it() {
    let mut world = mk_world();
    world.mk_pool("default").require("team", &["red", "blue"]);
    world.mk_type("large", 16).on_demand("a", 100).on_demand("b", 100).on_demand("c", 100);
    world.mk_pods("web", 1, &pod(1000));
    let terms: Vec<Requirements> = [("red", "a"), ("blue", "b")]
        .map(|(team, zone)| {
            let mut term = Requirements::new();
            for (key, value) in [("team", team), (ZONE, zone)] {
                let (key, value) = (world.sym(key), world.sym(value));
                let one = berth_model::Requirement::new(Operator::In, vec![value], &world.cluster.symbols);
                term.add(key, one, &world.cluster.symbols);
            }
            term
        })
        .into();
    let spec = world.cluster.pending[0].spec.index();
    world.cluster.specs[spec].required_terms = terms;
    let found = considered(&mut world);
    assert_eq!((found[0].offerings, found[0].open), (3, 2), "{found:?}");
}

#[test]
fn the_limit_that_would_have_to_grow_least_is_told() {
    let mut world = mk_world();
    world.mk_pool("default").limit_cpus(10);
    world.mk_type("large", 16).on_demand("a", 100);
    world.mk_type("medium", 12).on_demand("a", 200).spot("a", 150);
    world.mk_pods("web", 1, &pod(11_000));
    let raised = Raised { limits: vec![(Some(ResourceId::CPU), 10_000, 12_000)], offerings: 2 };
    assert_eq!(considered(&mut world)[0].raised, Some(raised));
}

/// Two types are to be left to choose from; limits hold one.
fn with_min_values(milli_cpu: i64, cpus: i64) -> World {
    let mut world = mk_world();
    world.mk_pool("default").min_values(INSTANCE_TYPE, 2).limit_cpus(cpus);
    world.mk_type("small", 2).on_demand("a", 100);
    world.mk_type("medium", 4).on_demand("a", 200);
    world.mk_type("large", 8).on_demand("a", 400);
    world.mk_pods("web", 1, &pod(milli_cpu));
    world
}

#[test]
fn an_offering_is_open_where_it_keeps_min_values() {
    let found = considered(&mut with_min_values(4_000, 100));
    assert_eq!((found[0].open, &*found[0].reasons[0].reason), (2, "Insufficient cpu"), "{found:?}");
    let found = considered(&mut with_min_values(5_000, 100));
    let reasons: Vec<(&str, u32)> = found[0].reasons.iter().map(|known| (&*known.reason, known.count)).collect();
    assert_eq!((found[0].open, reasons), (0, vec![("Insufficient cpu", 2), ("minValues requirement is not met", 1)]));
}

#[test]
fn what_is_told_to_do_without_leaves_enough_types() {
    // With 8 CPUs it would have one type; with 4 two.
    let smaller = Smaller { instance_type: 1, at_most: vec![(ResourceId::CPU, 4_000)], offerings: 2 };
    assert_eq!(considered(&mut with_min_values(9_000, 100))[0].smaller, Some(smaller));
    // A limit of 2 CPUs would do for the pod, and leave one type.
    let raised = Raised { limits: vec![(Some(ResourceId::CPU), 1_000, 4_000)], offerings: 2 };
    assert_eq!(considered(&mut with_min_values(1_000, 1))[0].raised, Some(raised));
}

#[test]
fn pods_cost_at_least_their_share_of_the_cheapest_nodes() {
    let mut world = mk_world();
    world.mk_pool("default");
    world.mk_type("large", 16).on_demand("a", 100);
    world.mk_pods("web", 3, &pod(12_000));
    let launching = Launching::new(&world.cluster);
    let universe = Universe::new(&mut world.cluster);
    let mut floor = Floor::new(&world.cluster, &universe, &launching, &Options::default());
    let of = |floor: &mut Floor<'_>, count| floor.of(&[(ClassId(0), count)]).unwrap().dollars();
    assert!((of(&mut floor, 1) - 0.1).abs() < 1e-6, "a whole node for one");
    assert!((of(&mut floor, 3) - 0.225).abs() < 1e-3, "36 of 16 CPUs");
    let mut may = |cents: i128| floor.may_cost_less(&[(ClassId(0), 3)], Money::from_pico(cents * 10_000_000_000));
    assert!(!may(25) && !may(30) && may(31), "three whole nodes");
}
