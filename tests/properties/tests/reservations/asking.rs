//! What pods and Reservations may ask of each other by their fields, annotations and labels, through the scheduler.

use rstest::rstest;

use crate::mk::{Extra, MUST_DRAW, Reserve, World};

const NODE: Option<&str> = Some("node-0");

fn none() -> Extra<'static> {
    Extra::default()
}

fn affinity(json: &str) -> String {
    format!("scheduling.koordinator.sh/reservation-affinity: '{json}'")
}

/// Where a pod of four cores goes, with these annotations, of a node with a Reservation of four cores.
fn place(reserve: &Reserve<'_>, extra: Extra<'_>) -> String {
    let mut world = World::nodes(&["node-0"], "32", 32);
    world.reservation(&Reserve { name: "r", requests: "cpu: 4, memory: 8Gi", on: NODE, ..*reserve });
    world.pod("a", "web", "cpu: 4, memory: 8Gi", extra);
    world.run().of("a").to_owned()
}

#[rstest]
#[case::another_entry("[{labelSelector: {matchLabels: {app: x}}}, {labelSelector: {matchLabels: {app: web}}}]", true)]
#[case::the_pod_by_name("[{object: {name: a, namespace: default}}]", true)]
#[case::another_name("[{object: {name: b, namespace: default}}]", false)]
#[case::parts_that_hold_together("[{object: {namespace: default}, labelSelector: {matchLabels: {app: web}}}]", true)]
#[case::parts_that_do_not("[{object: {namespace: other}, labelSelector: {matchLabels: {app: web}}}]", false)]
#[case::another_controller("[{controller: {apiVersion: apps/v1, kind: ReplicaSet, name: web, uid: u}}]", false)]
fn entries_of_owners_are_alternatives_and_their_parts_hold_together(#[case] owners: &str, #[case] draws: bool) {
    let spec = format!("owners: {owners},");
    let expected = if draws { "node-0 of r" } else { "node-0" };
    assert_eq!(place(&Reserve { spec: &spec, ..Reserve::default() }, none()), expected);
}

#[test]
fn a_controller_that_is_an_owner_owns_the_pods_of_its_workload() {
    let mut world = World::nodes(&["node-0"], "32", 32);
    let spec = "allocateOnce: false, owners: [{controller: {apiVersion: apps/v1, kind: StatefulSet, name: db, namespace: \
                default, uid: of-an-earlier-one}}],";
    world.reservation(&Reserve { name: "r", requests: "cpu: 4", spec, on: NODE, ..Reserve::default() });
    world.add(
        "apiVersion: apps/v1\nkind: StatefulSet\nmetadata: {name: db, namespace: default}\nspec: {replicas: 2, \
         serviceName: db, selector: {matchLabels: {app: db}}, template: {metadata: {labels: {app: db}}, spec: \
         {containers: [{name: c, image: i, resources: {requests: {cpu: 2}}}]}}}",
    );
    let outcome = world.run();
    assert_eq!((outcome.of("db-0"), outcome.of("db-1")), ("node-0 of r", "node-0 of r"));
}

#[rstest]
#[case::by_its_label(r#"{"reservationSelector":{"team":"blue"}}"#, true)]
#[case::by_a_label_of_the_node(r#"{"reservationSelector":{"topology.kubernetes.io/zone":"z-node-0"}}"#, true)]
#[case::by_another_label(r#"{"reservationSelector":{"team":"red"}}"#, false)]
#[case::by_terms(
    r#"{"requiredDuringSchedulingIgnoredDuringExecution":{"reservationSelectorTerms":[{"matchExpressions":[{"key":"team","operator":"In","values":["blue","green"]}]}]}}"#,
    true
)]
#[case::by_name(r#"{"name":"r"}"#, true)]
fn affinity_says_which_reservation(#[case] json: &str, #[case] draws: bool) {
    let annotations = affinity(json);
    let found =
        place(&Reserve { labels: "team: blue", ..Reserve::default() }, Extra { annotations: &annotations, ..none() });
    if draws {
        assert_eq!(found, "node-0 of r");
    } else {
        let why = "1 Reservation(s) didn't match affinity rules, 1 Reservation(s) matched owner total";
        assert_eq!(found, format!("1 node(s) no reservations match reservation affinity, {why}"));
    }
}

#[test]
fn taints_are_tolerated_by_the_pod_or_by_its_affinity() {
    let tainted = Reserve { spec: "taints: [{key: team, value: blue, effect: NoSchedule}],", ..Reserve::default() };
    assert_eq!(place(&tainted, none()), "node-0", "on free room");
    let refused = place(&tainted, MUST_DRAW);
    assert!(refused.contains("1 Reservation(s) had untolerated taint {team: blue}"), "{refused}");
    let own = "tolerations: [{key: team, operator: Exists}],";
    assert_eq!(place(&tainted, Extra { spec: own, ..none() }), "node-0 of r");
    let annotations = affinity(r#"{"tolerations":[{"key":"team","operator":"Equal","value":"blue"}]}"#);
    assert_eq!(place(&tainted, Extra { annotations: &annotations, ..none() }), "node-0 of r");
}

#[test]
fn an_exact_match_wants_the_very_amounts() {
    let exact = r#"scheduling.koordinator.sh/exact-match-reservation: '{"resourceNames":["cpu","memory"]}'"#;
    let extra = Extra { annotations: exact, ..none() };
    assert_eq!(place(&Reserve::default(), extra), "node-0 of r");
    let mut world = World::nodes(&["node-0"], "32", 32);
    world.reservation(&Reserve { name: "r", requests: "cpu: 6, memory: 8Gi", on: NODE, ..Reserve::default() });
    world.pod("a", "web", "cpu: 4, memory: 8Gi", extra);
    assert_eq!(world.run().of("a"), "node-0", "on free room");
}

#[test]
fn who_ignores_reservations_takes_what_they_hold_and_draws_from_none() {
    let mut world = World::nodes(&["node-0"], "4", 32);
    world.reservation(&Reserve { name: "r", requests: "cpu: 4", on: NODE, ..Reserve::default() });
    world.pod("other", "other", "cpu: 4", none());
    assert_eq!(world.run().of("other"), "1 Insufficient cpu");
    let labels = ", scheduling.koordinator.sh/reservation-ignored: 'true'";
    world.pod("system", "system", "cpu: 4", Extra { labels, ..none() });
    let outcome = world.run();
    assert_eq!((outcome.of("system"), outcome.free["node-0"].0), ("node-0", -4000), "the room is taken");
}

#[test]
fn restricted_options_restrict_what_they_list() {
    let options = r#"scheduling.koordinator.sh/reservation-restricted-options: '{"resources":["cpu"]}'"#;
    let asks = |requests: &str| {
        let mut world = World::nodes(&["node-0"], "32", 32);
        let spec = "allocateOnce: false, allocatePolicy: Restricted,";
        let reserve = Reserve {
            name: "r",
            requests: "cpu: 4, memory: 8Gi",
            spec,
            annotations: options,
            on: NODE,
            ..Reserve::default()
        };
        world.reservation(&reserve).pod("a", "web", requests, MUST_DRAW);
        let outcome = world.run();
        (outcome.of("a").to_owned(), outcome.free["node-0"])
    };
    assert_eq!(asks("cpu: 4, memory: 10Gi"), ("node-0 of r".to_owned(), (28_000, 22 * 1024)), "memory overflows");
    assert!(asks("cpu: 5, memory: 8Gi").0.starts_with("1 Reservation(s) Insufficient cpu"));
}

#[test]
fn a_resized_reservation_holds_what_it_is_resized_to() {
    let mut world = World::nodes(&["node-0"], "32", 32);
    let resized = r#"scheduling.koordinator.sh/reservation-resize-allocatable: '{"resources":{"cpu":"6"}}'"#;
    world.reservation(&Reserve { name: "r", requests: "cpu: 4", annotations: resized, ..Reserve::default() });
    assert_eq!(world.run().free["node-0"].0, 26_000);
}

#[test]
fn a_reservation_goes_to_the_node_that_its_template_names_or_nowhere() {
    let mut world = World::nodes(&["node-0", "node-1"], "4", 32);
    world.reservation(&Reserve { name: "r", requests: "cpu: 4", template: "nodeName: node-1,", ..Reserve::default() });
    assert_eq!(world.run().of("r"), "node-1");
    world.running("old", "old", "node-1", "cpu: 1", none());
    let other = "1 Insufficient cpu, 1 node(s) didn't match the nodeName specified by reservation";
    assert_eq!(world.run().of("r"), other);
}

#[test]
fn owners_prefer_nodes_with_room_that_is_reserved_for_them() {
    let names = ["node-0", "node-1", "node-2"];
    let mut world = World::nodes(&names, "32", 32);
    world.running("busy", "x", "node-2", "cpu: 20", none());
    world.reservation(&Reserve { name: "r", requests: "cpu: 4", on: Some("node-2"), ..Reserve::default() });
    world.pod("a", "web", "cpu: 2", none()).pod("b", "other", "cpu: 2", none());
    let outcome = world.run();
    assert_eq!((outcome.of("a"), outcome.of("b")), ("node-2 of r", "node-0"), "though it is the fullest");
}

#[test]
fn an_owner_of_several_reservations_takes_the_one_that_it_fills_whatever_their_number() {
    // Few are looked at by themselves, many with all nodes; both find the same.
    for n in [2, 100] {
        let names: Vec<String> = (0..n).map(|i| format!("node-{i:03}")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let mut world = World::nodes(&names, "32", 32);
        for (i, node) in names.iter().enumerate() {
            let (name, requests) = (format!("r{i:03}"), if i == n - 1 { "cpu: 2" } else { "cpu: 4" });
            world.reservation(&Reserve { name: &name, requests, on: Some(node), ..Reserve::default() });
        }
        let filled = format!("node-{:03} of r{:03}", n - 1, n - 1);
        world.pod("a", "web", "cpu: 2", none());
        assert_eq!(world.run().of("a"), filled);
        world.pod("b", "web", "cpu: 2", none());
        let outcome = world.run();
        assert_eq!((outcome.of("a"), outcome.of("b")), ("node-000 of r000", filled.as_str()), "of equals the first");
    }
}

#[test]
fn a_reservation_that_must_be_bound_to_running_pods_takes_no_free_room() {
    let required = Reserve {
        name: "r",
        requests: "cpu: 4",
        labels: "scheduling.koordinator.sh/pre-allocation-required: 'true'",
        spec: "preAllocation: true, allocateOnce: false,",
        ..Reserve::default()
    };
    let mut world = World::nodes(&["node-0"], "32", 32);
    world.reservation(&required);
    assert_eq!(world.run().of("r"), "1 node(s) no pod match reservation with pre allocation required");
    world.running("a", "web", "node-0", "cpu: 4", none());
    let outcome = world.run();
    assert_eq!((outcome.of("r"), &*outcome.bound), ("node-0", &["r: a".to_owned()][..]));
    assert_eq!(outcome.free["node-0"].0, 28_000, "the pod has the room still");
}

#[test]
fn while_running_pods_hold_its_room_nobody_draws_from_a_waiting_reservation() {
    let mut world = World::nodes(&["node-0"], "4", 32);
    let spec = "preAllocation: true, allocateOnce: false,";
    world.reservation(&Reserve {
        name: "r",
        requests: "cpu: 4",
        spec,
        on: NODE,
        phase: "Waiting",
        ..Reserve::default()
    });
    world.owner_of("r", "old", "node-0", "cpu: 3");
    world.pod("a", "web", "cpu: 1", none()).pod("b", "other", "cpu: 1", none());
    let outcome = world.run();
    assert_eq!(
        (outcome.of("a"), outcome.of("b")),
        ("1 Insufficient cpu", "1 Insufficient cpu"),
        "the last core is held"
    );
}
