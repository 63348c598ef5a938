//! After any history of events the state decides as one that was told only what there is.

#![allow(clippy::unwrap_used, reason = "a test's helpers")]

mod elsewhere;
mod objects;
mod refreshed;
mod rooms;
mod rules;
mod seen;
mod told;
mod world;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use berth_decisions::{Decider, Decision, ExpectedNodes, Options, SolveOptions, Waits, decide};
use berth_model::{MemberKind, ResourceLimit};
use berth_state::{Event, Kind, Object, State, Time};
use proptest::prelude::*;

use world::{Step, World};

pub(crate) const NOW: Time = Time::UNIX_EPOCH;

pub(crate) fn options() -> Options {
    let solve = SolveOptions { effort: berth_decisions::Effort::Low, ..SolveOptions::default() };
    // Some were made in place of others.
    let remade: BTreeSet<Box<str>> = ["a/p1", "a/p4", "b/p7", "b/p10"].map(Box::from).into();
    Options { launches: true, solve, come_first: Arc::new(remade), ..Options::default() }
}

fn binding() -> Options {
    Options { launches: false, ..options() }
}

/// Who waits is bound, or told where to come, or launched for, or refused: a fault that forgets a pod shows nowhere else. Who runs yet
/// on a node that goes does not wait, and who is to draw from a Reservation that is nominated is told by that one.
fn expect_a_word_on_each(decision: &Decision, state: &mut State, now: Time) {
    if decision.nominations.iter().any(|known| known.object.key.kind == Kind::Reservation) {
        return;
    }
    let bound = decision.bindings.iter().map(|known| &known.object);
    let nominated = decision.nominations.iter().map(|known| &known.object);
    let launched = decision.launches.iter().flat_map(|launch| {
        launch.pods.iter().chain(&launch.reservations).chain(launch.draws.iter().map(|draw| &draw.pod))
    });
    let refused = decision.refusals.iter().flat_map(|refusal| &refusal.objects);
    let told = bound.chain(nominated).chain(launched).chain(refused);
    let told: BTreeSet<(&str, &str)> = told.map(|object| (&*object.key.namespace, &*object.key.name)).collect();
    let cluster = state.cluster(now);
    let rows = cluster.pending.iter().filter(|row| row.kind == MemberKind::Pod);
    let names =
        rows.flat_map(|row| row.members.iter().map(|run| (cluster.symbols.text(row.namespace), run.name.clone())));
    let waiting: Vec<(String, Arc<str>)> = names.map(|(namespace, name)| (namespace.to_owned(), name)).collect();
    for (namespace, name) in waiting {
        let runs = state.pod(&namespace, &name).is_some_and(|pod| pod.node().is_some());
        assert!(runs || told.contains(&(&*namespace, &*name)), "nothing is said of {namespace}/{name}: {decision:#?}");
    }
}

/// Everything that can be seen of what a state decides.
pub(crate) fn decision_of(state: &mut State, decider: &mut Decider, now: Time) -> String {
    let decision = decider.decide(state, &options(), now).unwrap();
    let bound = decider.decide(state, &binding(), now).unwrap();
    // What is kept decides as what is made anew from the same state.
    let whole = (decide(state, &options(), now).unwrap(), decide(state, &binding(), now).unwrap());
    let [kept, whole] = [(&decision, &bound), (&whole.0, &whole.1)].map(|both| format!("{both:#?}"));
    assert!(kept == whole, "{}\n{:#?}", difference(&kept, &whole), state.cluster(now).pending);
    expect_a_word_on_each(&decision, state, now);
    let nodes: Vec<String> = state.nodes().map(|node| node.name().to_string()).collect();
    let nodes: Vec<&str> = nodes.iter().map(String::as_str).collect();
    let mut preferring = |decider: &mut Decider| decider.preferring(state, &nodes, now).unwrap();
    assert_eq!(preferring(decider), preferring(&mut Decider::new()));
    decide_beside_expected(state, decider, now);
    let mut refused: Vec<String> = state.refused().map(ToString::to_string).collect();
    refused.sort();
    let free: Vec<(String, u32)> = {
        let cluster = state.cluster(now);
        cluster.slots.iter().map(|slots| (cluster.symbols.text(slots.id).to_owned(), slots.free)).collect()
    };
    let seen = seen::seen(state.cluster(now));
    format!("{decision:#?}\n{bound:#?}\n{refused:#?}\n{free:?}\n{:#?}\n{seen}", state.warnings(now))
}

/// Beside pods that are expected on nodes that are up or come up, what is kept decides as what is made anew, too: where all of
/// them are expected somewhere, and where some are not.
fn decide_beside_expected(state: &mut State, decider: &mut Decider, now: Time) {
    let nodes = state.objects(Kind::NodeClaim).chain(state.objects(Kind::Node)).map(|(key, _)| key.name.to_string());
    let nodes: Vec<String> = nodes.collect();
    let pods: Vec<String> =
        state.objects(Kind::Pod).map(|(key, _)| format!("{}/{}", key.namespace, key.name)).collect();
    for (n_apart, n_left_out) in [(1, 0), (3, 0), (2, 2)] {
        let mut names: BTreeMap<Arc<str>, BTreeSet<Box<str>>> = BTreeMap::new();
        for (at, pod) in pods.iter().enumerate().skip(n_left_out) {
            let Some(node) = nodes.get(at * n_apart % nodes.len().max(1)) else { continue };
            names.entry(node.as_str().into()).or_default().insert(pod.as_str().into());
        }
        let expected: ExpectedNodes = names.into_iter().map(|(node, pods)| (node, Arc::new(pods))).collect();
        for options in [options(), binding(), Options { spares_others: true, ..options() }] {
            let waits = [Some(Waits::ForTheirNode), Some(Waits::Sparing), None].into_iter().cycle();
            let waited_for =
                expected.keys().zip(waits).filter_map(|(node, waits)| Some((node.clone(), waits?))).collect();
            let options = Options { expected: expected.clone(), waited_for, ..options };
            let kept = format!("{:#?}", decider.decide(state, &options, now).unwrap());
            let whole = format!("{:#?}", decide(state, &options, now).unwrap());
            assert!(kept == whole, "{}\n{expected:#?}", difference(&kept, &whole));
        }
    }
}

/// Holds what a state decides to what one decides that is built of what there is.
pub(crate) fn decides_as_rebuilt(world: &mut World) -> Result<(), TestCaseError> {
    let mut expected = rebuilt(&world.objects(), false);
    world.offer_to(&mut expected);
    let expected = decision_of(&mut expected, &mut Decider::new(), world.now);
    let is = world.decision();
    prop_assert!(is == expected, "{}", difference(&is, &expected));
    Ok(())
}

/// The lines from the first on that is not the same.
pub(crate) fn difference(is: &str, expected: &str) -> String {
    let same = is.lines().zip(expected.lines()).take_while(|(a, b)| a == b).count();
    let around = |text: &str| text.lines().skip(same.saturating_sub(12)).take(40).collect::<Vec<_>>().join("\n");
    format!("is:\n{}\nexpected:\n{}", around(is), around(expected))
}

/// A state that knows nothing yet, each with another key of its hashes: no decision depends on it.
pub(crate) fn fresh() -> State {
    static MADE: AtomicU64 = AtomicU64::new(0);
    let hash_key = [1, 2, 3, MADE.fetch_add(1, Ordering::Relaxed)];
    // Pods ask for more resources than are told apart then.
    let resource_limit = ResourceLimit { asked: 9, all: 20 };
    State::new(berth_state::Options { node_overlay: true, hash_key, resource_limit, ..berth_state::Options::default() })
}

/// A state that was told what there is, kind by kind.
pub(crate) fn rebuilt(objects: &[Object], reversed: bool) -> State {
    let mut state = fresh();
    let mut kinds = Kind::ALL.to_vec();
    if reversed {
        kinds.reverse();
    }
    for kind in kinds {
        let mut of_kind: Vec<Object> = objects.iter().filter(|object| object.kind() == kind).cloned().collect();
        if reversed {
            of_kind.reverse();
        }
        // Those that cannot be used are refused, and told by `State::refused`.
        let _ = state.apply(Event::Relisted { kind, objects: of_kind, resource_version: None });
    }
    state
}

fn object() -> impl Strategy<Value = (usize, u8, u8)> {
    // Pods more often than the rest, and what they depend on.
    let kind = prop_oneof![
        12 => Just(Kind::Pod),
        1 => Just(Kind::Node),
        3 => prop::sample::select(REFERRED),
        3 => prop::sample::select(Kind::ALL)
    ];
    let position = |kind: Kind| Kind::ALL.iter().position(|known| *known == kind).unwrap();
    (kind.prop_map(position), any::<u8>(), any::<u8>())
}

pub(crate) fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => object().prop_map(|(kind, name, variant)| Step::Put(Kind::ALL[kind], name, variant)),
        2 => object().prop_map(|(kind, name, _)| Step::Delete(Kind::ALL[kind], name)),
        2 => object().prop_map(|(kind, name, variant)| Step::Recreate(Kind::ALL[kind], name, variant)),
        8 => any::<u8>().prop_map(Step::Deliver),
        2 => any::<u8>().prop_map(Step::Redeliver),
        1 => object().prop_map(|(kind, ..)| Step::Relist(Kind::ALL[kind], false)),
        1 => object().prop_map(|(kind, ..)| Step::Relist(Kind::ALL[kind], true)),
        1 => object().prop_map(|(kind, ..)| Step::List(Kind::ALL[kind])),
        1 => Just(Step::Listed),
        4 => (any::<u8>(), any::<u8>(), any::<u8>()).prop_map(|(what, a, b)| Step::Assume(what, a, b)),
        3 => (any::<u8>(), any::<u8>()).prop_map(|(which, outcome)| Step::Write(which, outcome)),
        2 => any::<u8>().prop_map(Step::Answer),
        1 => Just(Step::ReadAgain),
        1 => Just(Step::Ask),
        1 => any::<u8>().prop_map(Step::Read),
        2 => (prop::collection::vec((any::<u8>(), any::<u8>(), any::<u8>()), 1..5), any::<bool>())
            .prop_map(|(changes, commits)| Step::Fork(changes, commits)),
        1 => (0..4_u8, any::<bool>()).prop_map(|(free, sees)| Step::Offer(free, sees)),
        1 => (0..4_u8, any::<bool>()).prop_map(|(free, sees)| Step::Count(free, sees)),
        1 => (0..3_u8, 0..4_u8).prop_map(|(types, classes)| Step::Types(types, classes)),
        2 => (0..8_u8).prop_map(Step::Stays),
        1 => any::<u8>().prop_map(Step::Wait),
        4 => any::<bool>().prop_map(Step::Look),
    ]
}

/// What happens to few objects that are written again and again.
fn write_step() -> impl Strategy<Value = Step> {
    let kinds = &[Kind::Pod, Kind::Pod, Kind::Node, Kind::NodeClaim, Kind::NodeClaim, Kind::Reservation][..];
    let written = || (prop::sample::select(kinds), 0..2_u8, any::<u8>());
    prop_oneof![
        4 => written().prop_map(|(kind, name, variant)| Step::Put(kind, name, variant)),
        2 => written().prop_map(|(kind, name, _)| Step::Delete(kind, name)),
        2 => written().prop_map(|(kind, name, variant)| Step::Recreate(kind, name, variant)),
        8 => any::<u8>().prop_map(Step::Deliver),
        1 => any::<u8>().prop_map(Step::Redeliver),
        1 => (written(), any::<bool>()).prop_map(|((kind, ..), versioned)| Step::Relist(kind, versioned)),
        1 => written().prop_map(|(kind, ..)| Step::List(kind)),
        1 => Just(Step::Listed),
        6 => (any::<u8>(), 0..2_u8, any::<u8>()).prop_map(|(what, a, b)| Step::Assume(what, a, b)),
        6 => (any::<u8>(), any::<u8>()).prop_map(|(which, outcome)| Step::Write(which, outcome)),
        4 => any::<u8>().prop_map(Step::Answer),
        1 => Just(Step::ReadAgain),
        1 => Just(Step::Ask),
        1 => any::<u8>().prop_map(Step::Read),
        4 => Just(Step::Look(false)),
        2 => (prop::collection::vec((any::<u8>(), 0..2_u8, any::<u8>()), 1..4), any::<bool>())
            .prop_map(|(changes, commits)| Step::Fork(changes, commits)),
    ]
}

/// Kinds that pods refer to, and that hold room for them.
const REFERRED: &[Kind] = &[
    Kind::DaemonSet,
    Kind::DaemonSet,
    Kind::Reservation,
    Kind::Reservation,
    Kind::PersistentVolumeClaim,
    Kind::PriorityClass,
    Kind::StorageClass,
];

/// Kinds of which changes are taken in where they are, and some others.
fn followed() -> impl Strategy<Value = Kind> {
    prop_oneof![
        4 => prop::sample::select(REFERRED),
        6 => Just(Kind::Pod),
        3 => Just(Kind::Node),
        2 => Just(Kind::NodeClaim),
        1 => Just(Kind::PersistentVolume),
        1 => Just(Kind::PersistentVolumeClaim),
        1 => Just(Kind::PodDisruptionBudget),
        2 => prop::sample::select(Kind::ALL),
    ]
}

/// Nodes, what makes them, and who is on them.
fn node_kind() -> impl Strategy<Value = Kind> {
    prop_oneof![
        6 => Just(Kind::Node),
        3 => Just(Kind::Pod),
        2 => Just(Kind::NodeClaim),
        1 => prop::sample::select(&[Kind::CSINode, Kind::Device, Kind::Namespace, Kind::NodePool, Kind::NodeOverlay][..]),
    ]
}

/// Every kind alike.
fn any_kind() -> impl Strategy<Value = Kind> {
    prop::sample::select(Kind::ALL)
}

/// Of pods that are taken in one by one: without claims, and of no DaemonSet.
fn plain_variant() -> impl Strategy<Value = u8> {
    any::<u8>().prop_filter("one that has everything converted anew", |variant| variant % 7 != 2 && variant % 6 != 1)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(), ..ProptestConfig::default() })]

    #[test]
    fn any_history_decides_as_what_there_is(
        steps in prop::collection::vec(step(), 1..60),
        end in any::<u64>(),
        later in prop::collection::vec((followed(), any::<u8>(), any::<u8>(), any::<u8>()), 0..24),
    ) {
        let mut world = World::new();
        for step in steps {
            world.take(step);
        }
        world.settle(end);
        // What comes and goes from here on is told at once, and mostly taken in where it is.
        world.decision();
        for (kind, name, variant, what) in later {
            world.event(kind, name, variant, what);
        }
        world.settle(1);
        let mut expected = rebuilt(&world.objects(), end % 2 == 0);
        world.offer_to(&mut expected);
        let expected = decision_of(&mut expected, &mut Decider::new(), world.now);
        let is = world.decision();
        prop_assert!(is == expected, "{}", difference(&is, &expected));
    }

    #[test]
    fn any_history_of_writes_ends_in_what_there_is(
        // No decision is made, so that there is time for many.
        histories in prop::collection::vec((prop::collection::vec(write_step(), 1..50), any::<u64>()), 20),
    ) {
        for (steps, end) in histories {
            let mut world = World::new();
            world.decides = false;
            for step in steps {
                world.take(step);
            }
            world.settle(end);
            world.expect_what_there_is();
        }
    }

    #[test]
    fn pods_that_come_and_go_are_taken_in_as_they_are(
        nodes in prop::collection::vec(0..3_u8, 1..4),
        pods in prop::collection::vec((any::<u8>(), plain_variant(), any::<u8>()), 1..40),
    ) {
        let mut world = World::new();
        for (node, variant) in (0..).zip(nodes) {
            // Without taints, and there.
            world.put(Kind::Node, node, [1, 2, 3][usize::from(variant)]);
        }
        world.settle(0);
        world.decision();
        for (name, variant, what) in pods {
            world.event(Kind::Pod, name, variant, what);
        }
        world.settle(1);
        decides_as_rebuilt(&mut world)?;
    }

    #[test]
    fn nodes_that_come_change_and_go_are_taken_in_as_they_are(
        first in prop::collection::vec((any::<u8>(), any::<u8>()), 1..4),
        pods in prop::collection::vec((any::<u8>(), plain_variant()), 1..14),
        later in prop::collection::vec((node_kind(), any::<u8>(), plain_variant(), any::<u8>()), 1..24),
    ) {
        let mut world = World::new();
        for (name, variant) in first {
            world.put(Kind::Node, name, variant);
        }
        for (name, variant) in pods {
            world.put(Kind::Pod, name, variant);
        }
        world.settle(0);
        world.decision();
        for (kind, name, variant, what) in later {
            world.event(kind, name, variant, what);
        }
        world.settle(1);
        decides_as_rebuilt(&mut world)?;
    }

    #[test]
    fn each_change_leaves_what_a_conversion_of_everything_gives(
        // Some of each kind, so that what changes matters to others.
        first in prop::collection::vec(any::<u8>(), Kind::ALL.len() * 3),
        later in prop::collection::vec((any_kind(), any::<u8>(), any::<u8>(), any::<u8>()), 1..24),
    ) {
        let mut world = World::new();
        for (at, variant) in first.into_iter().enumerate().filter(|(_, variant)| variant % 5 > 0) {
            let (kind, name) = (Kind::ALL[at % Kind::ALL.len()], u8::try_from(at / Kind::ALL.len()).unwrap());
            world.put(kind, name, variant);
        }
        world.settle(0);
        world.decision();
        for (kind, name, variant, what) in later {
            // Few names, so that most change what is there.
            world.event(kind, name % 4, variant, what);
            world.hold_cluster();
        }
    }

    #[test]
    fn the_order_of_objects_and_those_that_came_and_went_change_nothing(
        specs in prop::collection::vec(object(), 1..30),
        passing in prop::collection::vec(object(), 0..6),
        order in any::<u64>(),
    ) {
        let mut world = World::new();
        for (kind, name, variant) in specs {
            world.put(Kind::ALL[kind], name, variant);
        }
        let mut objects = world.objects();
        let mut expected = rebuilt(&objects, false);
        world.offer_to(&mut expected);
        let expected = decision_of(&mut expected, &mut Decider::new(), NOW);
        let taken: Vec<_> = objects.iter().filter_map(berth_state::Key::of).collect();
        let passing: Vec<Object> = passing
            .into_iter()
            .map(|(kind, name, variant)| objects::object(Kind::ALL[kind], name, variant, "passing", 1))
            .filter(|object| !taken.contains(&berth_state::Key::of(object).unwrap()))
            .collect();
        let mut state = rebuilt(&[], false);
        world.offer_to(&mut state);
        for object in &passing {
            let _ = state.apply(Event::Applied(object.clone()));
        }
        let mut decider = Decider::new();
        let _ = decider.decide(&mut state, &binding(), NOW);
        world::shuffle(&mut objects, order);
        for object in objects {
            let _ = state.apply(Event::Applied(object));
        }
        for object in passing {
            let _ = state.apply(Event::Deleted { object: object.reference().unwrap(), resource_version: None });
        }
        let is = decision_of(&mut state, &mut decider, NOW);
        prop_assert!(is == expected, "{}", difference(&is, &expected));
    }
}

/// `PROPTEST_CASES`, or few enough for every build.
pub(crate) fn cases() -> u32 {
    std::env::var("PROPTEST_CASES").ok().and_then(|text| text.parse().ok()).unwrap_or(48)
}

/// Found by a random seed.
#[test]
fn nodes_that_change_beside_expected_pods_leave_the_order_of_bindings() {
    let mut world = World::new();
    world.put(Kind::Node, 37, 0);
    for (name, variant) in [(149, 70), (45, 70)] {
        world.put(Kind::Pod, name, variant);
    }
    world.settle(0);
    world.decision();
    for (kind, name, variant, what) in [(Kind::Node, 4, 96, 73), (Kind::Pod, 0, 3, 57), (Kind::Node, 49, 69, 25)] {
        world.event(kind, name, variant, what);
    }
    world.settle(1);
    decides_as_rebuilt(&mut world).unwrap();
}

/// Found by a random seed: those who come in place of pods that gave way were in the order of the numbers of their specs, which
/// depend on what there was before.
#[test]
fn who_comes_in_place_of_pods_that_gave_way_is_in_no_order_of_ids() {
    let mut world = World::new();
    world.put(Kind::Node, 4, 0);
    for (name, variant) in [(65, 224), (236, 68), (34, 63), (18, 3), (153, 74), (24, 74), (11, 99), (12, 62)] {
        world.put(Kind::Pod, name, variant);
    }
    world.settle(0);
    world.decision();
    for (name, variant, what) in [(123, 122, 9), (92, 77, 217), (52, 32, 0)] {
        world.event(Kind::Node, name, variant, what);
    }
}

/// Found by a random seed: who was expected on a node that is not known came before those alike, where it was told at once.
#[test]
fn who_is_expected_on_a_node_that_is_not_known_comes_in_the_order_of_age() {
    let mut world = World::new();
    for (node, variant) in [(0, 2), (1, 1)] {
        world.put(Kind::Node, node, variant);
    }
    world.settle(0);
    world.decision();
    for (name, variant, what) in [(51, 236, 17), (4, 10, 153), (63, 47, 100), (213, 236, 17), (4, 87, 29)] {
        world.event(Kind::Pod, name, variant, what);
    }
}
