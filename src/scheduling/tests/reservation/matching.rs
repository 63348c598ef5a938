//! Which Reservations are for a pod.

use berth_model::{
    AllocatePolicy::Unset, ControllerMatch, Effect, Identity, Labels, ObjectMatch, OwnerReference, Phase, Requirement,
    Requirements, Reservation, ReservationOwner, Selector, Symbols, Taint, Toleration, TolerationOperator,
};
use berth_scheduling::reservation::{Diagnosis, Mismatch, Seeker, gives_any, may_draw_from};
use rstest::rstest;

use crate::mk::{World, drawing, naming, pod, res, spec};

/// `team/web-0` with the label `app: web`, of ReplicaSet `web-5d` as its controller and of Task `web` beside it.
fn is_owner(make: impl FnOnce(&mut Symbols) -> Option<Vec<ReservationOwner>>) -> bool {
    let mut symbols = Symbols::default();
    let mut reservation = Reservation::new(symbols.intern("r"));
    reservation.owners = make(&mut symbols);
    let labels = Labels::new([(symbols.intern("app"), symbols.intern("web"))]);
    let mut reference = |api_version, kind, name, is_controller| OwnerReference {
        api_version: symbols.intern(api_version),
        kind: symbols.intern(kind),
        name: symbols.intern(name),
        uid: Some(symbols.intern("u-1")),
        is_controller,
    };
    let references =
        [reference("example.com/v1", "Task", "web", false), reference("apps/v1", "ReplicaSet", "web-5d", true)];
    let namespace = symbols.intern("team");
    let pod = Identity { namespace, name: Some("web-0"), uid: Some("u-0"), labels: &labels, references: &references };
    reservation.owns(&pod, &symbols)
}

fn object(symbols: &mut Symbols, namespace: &str, name: &str) -> ReservationOwner {
    let namespace = (!namespace.is_empty()).then(|| symbols.intern(namespace));
    let name = (!name.is_empty()).then(|| name.into());
    ReservationOwner {
        object: Some(ObjectMatch { namespace, name, ..ObjectMatch::default() }),
        ..ReservationOwner::default()
    }
}

fn controller(symbols: &mut Symbols, kind: &str, name: &str, is_controller: Option<bool>) -> ReservationOwner {
    let controller = ControllerMatch {
        kind: (!kind.is_empty()).then(|| symbols.intern(kind)),
        name: (!name.is_empty()).then(|| symbols.intern(name)),
        is_controller,
        ..ControllerMatch::default()
    };
    ReservationOwner { controller: Some(controller), ..ReservationOwner::default() }
}

fn labelled(symbols: &mut Symbols, app: &str) -> ReservationOwner {
    let (key, value) = (symbols.intern("app"), symbols.intern(app));
    let mut requirements = Requirements::new();
    requirements.add(key, Requirement::value(value), symbols);
    ReservationOwner { selector: Some(Selector { requirements: Some(requirements) }), ..ReservationOwner::default() }
}

#[rstest]
#[case::its_name("team", "web-0", true)]
#[case::any_of_its_namespace("team", "", true)]
#[case::its_name_anywhere("", "web-0", true)]
#[case::another_namespace("default", "web-0", false)]
#[case::another_name("team", "web-1", false)]
fn an_owner_may_be_an_object(#[case] namespace: &str, #[case] name: &str, #[case] expected: bool) {
    assert_eq!(is_owner(|symbols| Some(vec![object(symbols, namespace, name)])), expected);
}

#[rstest]
#[case("ReplicaSet", "web-5d", Some(true), true)]
#[case::any_reference_counts("Task", "web", None, true)]
#[case::not_as_controller("Task", "web", Some(true), false)]
#[case::parts_of_two_references("Task", "web-5d", None, false)]
#[case("Deployment", "", None, false)]
fn an_owner_may_be_a_controller(
    #[case] kind: &str,
    #[case] name: &str,
    #[case] is_controller: Option<bool>,
    #[case] expected: bool,
) {
    assert_eq!(is_owner(|symbols| Some(vec![controller(symbols, kind, name, is_controller)])), expected);
}

#[test]
fn entries_are_alternatives_and_the_parts_of_one_hold_together() {
    assert!(is_owner(|symbols| Some(vec![labelled(symbols, "db"), labelled(symbols, "web")])));
    let both = |symbols: &mut Symbols, app: &str, name: &str| ReservationOwner {
        selector: labelled(symbols, app).selector,
        ..object(symbols, "team", name)
    };
    assert!(is_owner(|symbols| Some(vec![both(symbols, "web", "web-0")])));
    assert!(!is_owner(|symbols| Some(vec![both(symbols, "web", "web-1")])));
    assert!(!is_owner(|symbols| Some(vec![both(symbols, "db", "web-0")])));
}

#[test]
fn owners_that_cannot_be_read_are_nobody_and_an_empty_entry_is_everybody() {
    assert!(!is_owner(|_| None));
    assert!(!is_owner(|_| Some(Vec::new())));
    assert!(is_owner(|_| Some(vec![ReservationOwner::default()])));
}

#[test]
fn only_names_tell_pods_of_a_class_apart() {
    let mut symbols = Symbols::default();
    let mut reservation = Reservation::new(symbols.intern("r"));
    reservation.owners = Some(vec![labelled(&mut symbols, "web"), object(&mut symbols, "team", "")]);
    assert!(!reservation.names_pods());
    reservation.owners = Some(vec![object(&mut symbols, "team", "web-0")]);
    assert!(reservation.names_pods());
}

#[rstest]
#[case(Phase::Available, true)]
#[case(Phase::Waiting, false)]
fn owners_draw_from_what_is_available(#[case] phase: Phase, #[case] expected: bool) {
    let mut world = World::new(8000, 8, 10);
    world.reserve_with(Unset, pod(4000, 0), |reservation| reservation.phase = phase);
    let outcome = world.mismatch(&spec(&pod(1000, 0)), 0);
    assert_eq!(outcome, if expected { Ok(()) } else { Err(Mismatch::NotMatchable) });
}

#[test]
fn an_assumed_owner_keeps_others_out_of_what_is_for_one_alone() {
    let mut world = World::new(8000, 8, 10);
    world.reserve_with(Unset, pod(4000, 0), |reservation| reservation.allocate_once = true);
    world.run(&pod(1000, 0), Some(0));
    assert_eq!(world.reservations[0].phase, Phase::Available, "its status is not written yet");
    assert_eq!(world.mismatch(&spec(&pod(1000, 0)), 0), Err(Mismatch::NotMatchable));
}

fn tainted(world: &mut World) {
    let taint =
        Taint { key: world.symbols.intern("team"), value: world.symbols.intern("a"), effect: Effect::NoSchedule };
    world.reserve_with(Unset, pod(4000, 0), |reservation| reservation.taints = vec![taint]);
}

#[test]
fn taints_hold_for_every_owner_against_its_own_tolerations_and_those_of_its_affinity() {
    let mut world = World::new(8000, 8, 10);
    tainted(&mut world);
    let requests = pod(1000, 0);
    for asked in [spec(&requests), drawing(&requests), naming(&world, 0, &requests)] {
        assert!(matches!(world.mismatch(&asked, 0), Err(Mismatch::Taint(_))));
        let toleration = Toleration {
            key: world.symbols.get("team"),
            operator: TolerationOperator::Equal,
            value: world.symbols.get("a").unwrap(),
            effect: None,
        };
        let mut own = asked.clone();
        own.tolerations = vec![toleration.clone()];
        assert_eq!(world.mismatch(&own, 0), Ok(()));
        let mut affine = asked.clone();
        if let Some(affinity) = &mut affine.reservation.affinity {
            affinity.tolerations = vec![toleration];
            assert_eq!(world.mismatch(&affine, 0), Ok(()));
        }
    }
}

#[test]
fn a_taint_that_only_prefers_keeps_nobody_out() {
    let mut world = World::new(8000, 8, 10);
    tainted(&mut world);
    world.reservations[0].taints[0].effect = Effect::PreferNoSchedule;
    assert_eq!(world.mismatch(&spec(&pod(1000, 0)), 0), Ok(()));
}

#[test]
fn affinity_looks_at_the_reservations_labels_over_those_of_its_node() {
    let mut world = World::new(8000, 8, 10);
    world.node_labels = world.labels(&[("zone", "a"), ("tier", "silver")]);
    let labels = world.labels(&[("tier", "gold")]);
    world.reserve_with(Unset, pod(4000, 0), |reservation| reservation.labels = labels);
    let by_selector = |world: &mut World, key, value| {
        let mut asked = drawing(&pod(1000, 0));
        asked.reservation.affinity.as_mut().unwrap().selector = world.selector(key, value);
        world.mismatch(&asked, 0)
    };
    assert_eq!(by_selector(&mut world, "tier", "gold"), Ok(()));
    assert_eq!(by_selector(&mut world, "zone", "a"), Ok(()));
    assert_eq!(by_selector(&mut world, "tier", "silver"), Err(Mismatch::Affinity));
    let mut asked = drawing(&pod(1000, 0));
    let terms = vec![world.selector("zone", "b"), world.selector("tier", "gold")];
    asked.reservation.affinity.as_mut().unwrap().terms = terms;
    assert_eq!(world.mismatch(&asked, 0), Ok(()), "terms are alternatives");
    asked.reservation.affinity.as_mut().unwrap().terms.pop();
    assert_eq!(world.mismatch(&asked, 0), Err(Mismatch::Affinity));
    asked.reservation.affinity.as_mut().unwrap().name = Some(world.reservations[0].name);
    assert_eq!(world.mismatch(&asked, 0), Ok(()), "a name overrides selectors");
}

#[test]
fn a_name_opens_what_is_unschedulable_unless_it_is_being_deleted() {
    let mut world = World::new(8000, 8, 10);
    world.reserve_with(Unset, pod(4000, 0), |reservation| reservation.is_unschedulable = true);
    let named = naming(&world, 0, &pod(1000, 0));
    assert_eq!(world.mismatch(&named, 0), Ok(()));
    world.reservations[0].is_terminating = true;
    assert_eq!(world.mismatch(&named, 0), Err(Mismatch::Unschedulable));
}

#[test]
fn exact_match_wants_the_very_amounts_of_every_resource_that_is_listed() {
    use berth_model::ResourceId;
    let mut world = World::new(8000, 8, 10);
    world.reserve(Unset, pod(4000, 0));
    let exact = |milli_cpu, gib, ids: &[ResourceId]| {
        let mut asked = spec(&pod(milli_cpu, gib));
        asked.reservation.exact = ids.to_vec();
        asked
    };
    let (cpu, memory) = (ResourceId::CPU, ResourceId::MEMORY);
    assert_eq!(world.mismatch(&exact(4000, 1, &[cpu]), 0), Ok(()));
    assert_eq!(world.mismatch(&exact(3000, 0, &[cpu]), 0), Err(Mismatch::NotExact));
    assert_eq!(world.mismatch(&exact(4000, 1, &[cpu, memory]), 0), Err(Mismatch::NotExact));
    assert_eq!(world.mismatch(&exact(3000, 0, &[memory, cpu]), 0), Err(Mismatch::NotExact), "both lack memory");
}

#[test]
fn who_ignores_reservations_draws_from_none_and_takes_what_they_hold() {
    let mut world = World::new(8000, 8, 10);
    world.reserve(Unset, pod(6000, 0));
    let mut asked = spec(&pod(7000, 0));
    asked.reservation.ignores = true;
    assert_eq!(world.mismatch(&asked, 0), Err(Mismatch::NotOwner));
    assert!(asked.requests.fits(&world.room.free_ignoring()));
    world.run(&asked.requests, None);
    assert!(world.room.is_room_taken());
}

/// As Koordinator prints them, each with its count in front.
fn told(diagnosis: &Diagnosis, must_draw: bool) -> Vec<String> {
    diagnosis.reasons(must_draw).into_iter().map(|(count, reason)| format!("{count} {reason}")).collect()
}

#[test]
fn reasons_are_counted_in_koordinators_words() {
    let mut world = World::new(8000, 8, 10);
    tainted(&mut world);
    tainted(&mut world);
    world.reserve_with(Unset, pod(1000, 0), |reservation| reservation.is_unschedulable = true);
    world.reserve(Unset, pod(1000, 0));
    world.reserve(Unset, pod(2000, 0));
    world.reserve_with(Unset, pod(1000, 0), |reservation| reservation.owners = Some(Vec::new()));
    let mut asked = drawing(&pod(2000, 0));
    asked.reservation.exact = vec![berth_model::ResourceId::CPU];
    let mut diagnosis = Diagnosis::default();
    for index in 0..6 {
        diagnosis.count(&world.mismatch(&asked, index), false, &world.symbols);
    }
    diagnosis.count_node_reason("node(s) had untolerated taint {k: v}", 1);
    let expected = [
        "1 Reservation(s) is unschedulable",
        "1 Reservation(s) is not exact matched",
        "2 Reservation(s) had untolerated taint {team: a}",
        "1 Reservation(s) for node reason that node(s) had untolerated taint {k: v}",
        "5 Reservation(s) matched owner total",
    ];
    assert_eq!(told(&diagnosis, true), expected);
}

#[test]
fn names_are_told_and_no_owner_is_told_only_to_those_who_must_draw() {
    let mut world = World::new(8000, 8, 10);
    world.reserve(Unset, pod(1000, 0));
    world.reserve(Unset, pod(1000, 0));
    let named = naming(&world, 1, &pod(1000, 0));
    let mut diagnosis = Diagnosis::default();
    for index in 0..2 {
        diagnosis.count(&world.mismatch(&named, index), true, &world.symbols);
    }
    let expected = [
        "1 Reservation(s) exactly matches the requested reservation name",
        "1 Reservation(s) didn't match the requested reservation name",
        "2 Reservation(s) matched owner total",
    ];
    assert_eq!(told(&diagnosis, true), expected);
    assert_eq!(told(&Diagnosis::default(), true), ["0 Reservation(s) matched owner total"]);
    assert!(Diagnosis::default().reasons(false).is_empty());
}

#[test]
fn a_reservation_for_one_is_for_nobody_else_once_it_has_its_owner() {
    let mut world = World::new(4000, 8, 100);
    let id = world.reserve_with(Unset, res(2000, 4), |reservation| reservation.allocate_once = true);
    let asked = spec(&pod(1000, 2));
    let draws = |world: &World| {
        let seeker = Seeker { is_owner: true, spec: &asked };
        let holding = &world.room.holdings()[0];
        may_draw_from(&seeker, &world.reservations[id], holding, &world.node_labels, &world.symbols)
    };
    assert_eq!(draws(&world), Ok(()));
    world.run(&pod(1000, 2), Some(id));
    assert_eq!(draws(&world), Err(Mismatch::NotMatchable));
}

#[test]
fn a_reservation_that_has_nothing_left_of_what_a_pod_asks_gives_it_nothing() {
    let mut world = World::new(4000, 8, 100);
    let id = world.reserve(Unset, res(2000, 4));
    world.run(&pod(2000, 1), Some(id));
    let gives = |world: &World, requests| gives_any(&world.room.holdings()[0], &spec(&requests));
    assert!(gives(&world, pod(1000, 2)), "memory");
    assert!(!gives(&world, pod(1000, 0)), "no CPU is left, and pods are not counted");
}
