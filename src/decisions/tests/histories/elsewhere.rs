//! Decisions that are made of a replica while the state goes on.

use std::collections::{BTreeMap, BTreeSet};

use berth_decisions::{Finished, Replica, decide};
use berth_state::{Key, Kind, ObjectRef, Patch, State};
use proptest::prelude::*;

use crate::world::World;
use crate::{cases, decision_of, difference, options, step};

/// What happens meanwhile. No decision is made between: that would only take longer.
pub(crate) fn event(world: &mut World, (kind, name, variant, what): (Kind, u8, u8, u8)) {
    world.event(kind, name % 6, variant, what - u8::from(what.is_multiple_of(3) && what > 0));
}

fn events() -> impl Strategy<Value = Vec<(Kind, u8, u8, u8)>> {
    let kind = prop_oneof![
        5 => Just(Kind::Pod),
        2 => Just(Kind::Node),
        1 => Just(Kind::NodeClaim),
        1 => Just(Kind::Reservation),
        1 => prop::sample::select(Kind::ALL),
    ];
    prop::collection::vec((kind, any::<u8>(), any::<u8>(), 1..=254_u8), 0..8)
}

fn is_there(state: &State, object: &ObjectRef) -> bool {
    state.has(&object.key) && state.uid_of(&object.key).as_deref() == object.uid.as_deref()
}

/// What is overdrawn: by node, the resources of which less than nothing is left.
fn overdrawn(world: &mut World) -> BTreeMap<String, usize> {
    let cluster = world.state.cluster(world.now);
    let nodes = cluster.nodes.iter().map(|node| {
        let n_overdrawn = node.free.iter().filter(|(_, amount)| *amount < 0).count();
        (cluster.symbols.text(node.name).to_owned(), n_overdrawn)
    });
    nodes.collect()
}

/// Holds what is left of a decision to the state as it is now.
fn hold(world: &mut World, finished: &Finished) {
    let decision = &finished.decision;
    let mut bound: BTreeSet<&Key> = BTreeSet::new();
    for binding in &decision.bindings {
        let key = &binding.object.key;
        assert!(is_there(&world.state, &binding.object), "{key} is bound, and not there");
        assert!(is_there(&world.state, &binding.node), "{key} is bound to a node that is not there");
        assert!(world.state.node(&binding.node.key.name).is_some(), "{key} is bound to no node");
        assert!(bound.insert(key), "{key} is bound twice");
        let pod = world.state.pod(&key.namespace, &key.name);
        let node = pod.and_then(|pod| pod.node());
        assert_eq!(node, None, "{key} is bound already");
    }
    for eviction in &decision.evictions {
        assert!(is_there(&world.state, &eviction.pod), "{} is evicted, and not there", eviction.pod.key);
    }
    let mut launched: BTreeMap<&str, u32> = BTreeMap::new();
    for id in decision.launches.iter().filter_map(|launch| launch.offering.reservation_id.as_deref()) {
        *launched.entry(id).or_default() += 1;
    }
    for launch in &decision.launches {
        for object in launch.pods.iter().chain(&launch.reservations) {
            assert!(is_there(&world.state, object), "a node is launched for {}, which is not there", object.key);
        }
    }
    let cluster = world.state.cluster(world.now);
    for slots in &*cluster.slots {
        let n_launched = launched.get(cluster.symbols.text(slots.id)).copied().unwrap_or_default();
        assert!(n_launched <= slots.free, "{n_launched} launches on {} slots", slots.free);
    }
    let before = overdrawn(world);
    for binding in decision.bindings.iter().filter(|binding| binding.object.key.kind == Kind::Pod) {
        let (node, annotations) = (binding.node.key.name.clone(), binding.annotations.clone());
        let write = world.state.assume(&binding.object, Patch::Bind { node, annotations });
        assert!(write.is_some(), "{} cannot be bound", binding.object.key);
    }
    for (node, n_overdrawn) in overdrawn(world) {
        let was = before.get(&node).copied().unwrap_or_default();
        assert!(n_overdrawn <= was, "{node} has not room enough for who is bound to it");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(), ..ProptestConfig::default() })]

    #[test]
    fn a_replica_decides_as_the_state_that_it_follows(
        first in prop::collection::vec(step(), 1..30),
        later in prop::collection::vec((events(), 1..40_usize), 1..5),
    ) {
        let mut world = World::new();
        for step in first {
            world.take(step);
        }
        world.settle(0);
        let mut replica = Replica::of(&mut world.state);
        for (events, most) in later {
            for happened in events {
                event(&mut world, happened);
            }
            while !world.state.is_almost_told(most) {
                replica = replica.catch_up(&mut world.state, most).ask(|_, _| ()).0;
            }
            let now = world.now;
            let (next, is) = replica.begin(&mut world.state).ask(|state, decider| decision_of(state, decider, now));
            replica = next;
            let expected = world.decision();
            prop_assert!(is == expected, "{}", difference(&is, &expected));
        }
    }

    #[test]
    fn what_is_decided_elsewhere_is_what_is_decided_at_once_while_nothing_happens(
        first in prop::collection::vec(step(), 1..40),
    ) {
        let mut world = World::new();
        for step in first {
            world.take(step);
        }
        world.settle(0);
        let problem = Replica::of(&mut world.state).begin(&mut world.state);
        let solved = problem.solve(&options(), world.now);
        let (finished, _) = solved.finish(&mut world.state, world.now);
        let finished = finished.unwrap();
        let expected = decide(&mut world.state, &options(), world.now).unwrap();
        let [is, expected] = [&finished.decision, &expected].map(|decision| format!("{decision:#?}"));
        prop_assert!(is == expected, "{}", difference(&is, &expected));
        prop_assert!(!finished.again);
    }

    #[test]
    fn what_is_decided_elsewhere_holds_whatever_happens_meanwhile(
        first in prop::collection::vec(step(), 1..40),
        rounds in prop::collection::vec(events(), 1..4),
    ) {
        let mut world = World::new();
        for step in first {
            world.take(step);
        }
        world.settle(0);
        let mut replica = Replica::of(&mut world.state);
        for events in rounds {
            let (problem, then) = (replica.begin(&mut world.state), world.now);
            for happened in events {
                event(&mut world, happened);
            }
            // In another thread, as far as it may know.
            let solved = problem.solve(&options(), then);
            let waited = solved.placed();
            let (finished, next) = solved.finish(&mut world.state, world.now);
            replica = next;
            let finished = finished.unwrap();
            hold(&mut world, &finished);
            // Nobody is lost: who was decided about, and is not any more, is to be asked again if he waits still.
            let decision = &finished.decision;
            let mut kept: BTreeSet<&Key> = decision.bindings.iter().map(|binding| &binding.object.key).collect();
            kept.extend(decision.nominations.iter().map(|nomination| &nomination.object.key));
            kept.extend(decision.launches.iter().flat_map(|launch| launch.pods.iter().chain(&launch.reservations)).map(|object| &object.key));
            let is_lost = |object: &&ObjectRef| {
                let pod = world.state.pod(&object.key.namespace, &object.key.name);
                let waits = pod.is_some_and(|pod| pod.node().is_none());
                waits && !kept.contains(&object.key)
            };
            let lost: Vec<&ObjectRef> = waited.iter().filter(is_lost).collect();
            prop_assert!(lost.is_empty() || finished.again, "{lost:?} are lost");
        }
    }
}
