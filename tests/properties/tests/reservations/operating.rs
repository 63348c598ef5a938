//! Pods in operating mode Reservation: on their node they are Reservations, Aligned and for one owner.

use rstest::rstest;

use crate::mk::{Extra, Outcome, Reserve, World};

const READY: &str = "phase: Running, conditions: [{type: Ready, status: 'True'}]";
const OWNERS: &str =
    r#"scheduling.koordinator.sh/reservation-owners: '[{"labelSelector":{"matchLabels":{"app":"web"}}}]'"#;

/// One node of 8 cores, 16 Gi and 100 pods, on which a pod of 6 cores and 4 Gi is a Reservation for the app `web`.
fn world(annotations: &str, spec: &str, status: &str) -> World {
    let mut world = World::nodes(&["node-0"], "8", 16);
    operating(&mut world, annotations, spec, status);
    world
}

fn operating(world: &mut World, annotations: &str, spec: &str, status: &str) {
    world.add(&format!(
        "apiVersion: v1\nkind: Pod\nmetadata: {{name: hold, namespace: default, uid: u-hold, labels: {{app: hold, \
         scheduling.koordinator.sh/operating-mode: Reservation}}, annotations: {{{annotations}}}}}\nspec: {{{spec} \
         containers: [{{name: c, image: i, resources: {{requests: {{cpu: '6', memory: 4Gi}}}}}}]}}\nstatus: {{{status}}}"
    ));
}

fn held() -> World {
    world(OWNERS, "nodeName: node-0,", READY)
}

fn pod(world: &mut World, name: &str, app: &str, cores: u32) {
    world.pod(name, app, &format!("cpu: '{cores}', memory: 1Gi"), Extra::default());
}

fn free_cores(outcome: &Outcome) -> i64 {
    outcome.free["node-0"].0 / 1000
}

#[test]
fn an_owner_draws_from_the_pod_and_others_are_kept_out() {
    let mut world = held();
    pod(&mut world, "other", "db", 3);
    pod(&mut world, "owner", "web", 4);
    let outcome = world.run();
    assert_eq!((outcome.of("owner"), outcome.of("other")), ("node-0 of hold", "node-0"));
    // It is spent: of 8 cores the owner has 4, and the other 3.
    assert_eq!(free_cores(&outcome), 1);

    let mut world = held();
    pod(&mut world, "other", "db", 3);
    assert_eq!(world.run().of("other"), "1 Insufficient cpu");
}

#[test]
fn it_is_for_one_owner_alone() {
    let mut world = held();
    pod(&mut world, "first", "web", 2);
    pod(&mut world, "second", "web", 2);
    let outcome = world.run();
    assert_eq!((outcome.of("first"), outcome.of("second")), ("node-0 of hold", "node-0"));
}

#[test]
fn an_owner_that_needs_more_takes_the_rest_from_the_node() {
    let mut world = held();
    pod(&mut world, "owner", "web", 7);
    let outcome = world.run();
    assert_eq!((outcome.of("owner"), free_cores(&outcome)), ("node-0 of hold", 1));
}

#[rstest]
#[case::it_starts("phase: Pending")]
#[case::it_is_not_ready("phase: Running, conditions: [{type: Ready, status: 'False'}]")]
fn while_it_is_not_ready_it_holds_its_room_and_nobody_draws(#[case] status: &str) {
    let mut world = world(OWNERS, "nodeName: node-0,", status);
    pod(&mut world, "owner", "web", 3);
    let outcome = world.run();
    assert_eq!((outcome.of("owner"), free_cores(&outcome)), ("1 Insufficient cpu", 2));
}

#[rstest]
#[case::by_its_annotation(true)]
#[case::by_the_owners_annotation(false)]
fn once_its_owner_has_come_it_holds_nothing(#[case] is_told: bool) {
    let current = r#", scheduling.koordinator.sh/reservation-current-owner: '{"namespace":"default","name":"came"}'"#;
    let annotations = format!("{OWNERS}{}", if is_told { current } else { "" });
    let mut world = world(&annotations, "nodeName: node-0,", READY);
    world.owner_of(if is_told { "" } else { "hold" }, "came", "node-0", "cpu: '4', memory: 1Gi");
    pod(&mut world, "late", "web", 3);
    let outcome = world.run();
    assert_eq!((outcome.of("late"), free_cores(&outcome)), ("node-0", 1));
}

/// The regression: what was still written of an owner that had gone left the room to anybody.
#[rstest]
#[case::it_is_not_there("gone", "")]
#[case::it_was_made_anew("came", "u-of-old")]
fn once_its_owner_has_gone_it_holds_its_room_again(#[case] name: &str, #[case] uid: &str) {
    let key = "scheduling.koordinator.sh/reservation-current-owner";
    let current = format!(r#"{OWNERS}, {key}: '{{"namespace":"default","name":"{name}","uid":"{uid}"}}'"#);
    let mut world = world(&current, "nodeName: node-0,", READY);
    world.owner_of("", "came", "node-0", "cpu: '1', memory: 1Gi");
    pod(&mut world, "other", "db", 3);
    pod(&mut world, "owner", "web", 4);
    let outcome = world.run();
    assert_eq!((outcome.of("owner"), outcome.of("other")), ("node-0 of hold", "node-0"));
}

#[test]
fn what_is_kept_inside_of_it_is_for_nobody() {
    let kept = format!(r#"{OWNERS}, node.koordinator.sh/reservation: '{{"resources":{{"cpu":"1"}}}}'"#);
    let mut world = world(&kept, "nodeName: node-0,", READY);
    pod(&mut world, "owner", "web", 8);
    assert_eq!(world.run().of("owner"), "1 Insufficient cpu by node, 1 Reservation(s) matched owner total");
}

#[test]
fn a_pod_may_ask_for_it_by_name() {
    let mut world = held();
    let named = r#"scheduling.koordinator.sh/reservation-affinity: '{"name":"hold"}'"#;
    world.pod("owner", "web", "cpu: '1'", Extra { annotations: named, ..Extra::default() });
    assert_eq!(world.run().of("owner"), "node-0 of hold");
}

#[test]
fn it_counts_as_a_pod_of_its_labels_but_not_against_its_owner() {
    let apart = "affinity: {podAntiAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{labelSelector: \
                 {matchLabels: {app: hold}}, topologyKey: kubernetes.io/hostname}]}},";
    let mut world = held();
    world.pod("owner", "web", "cpu: '1'", Extra { spec: apart, ..Extra::default() });
    assert_eq!(world.run().of("owner"), "node-0 of hold");
    let mut world = held();
    world.pod("other", "db", "cpu: '1'", Extra { spec: apart, ..Extra::default() });
    assert_eq!(world.run().of("other"), "1 node(s) didn't match pod anti-affinity rules");
}

#[test]
fn nobody_preempts_it() {
    let mut world = held();
    world.preempts = true;
    world.pod("urgent", "db", "cpu: '3'", Extra { spec: "priority: 100,", ..Extra::default() });
    let outcome = world.run();
    assert_eq!((outcome.of("urgent"), &outcome.evicted[..]), ("1 Insufficient cpu", &[][..]));
}

#[rstest]
#[case::of_no_policy("", "1 node(s) reservation allocate policy conflict")]
#[case::aligned("allocatePolicy: Aligned,", "node-0")]
fn while_it_is_pending_it_is_a_pod_that_shares_a_node_as_an_aligned_reservation(
    #[case] policy: &str,
    #[case] place: &str,
) {
    let mut world = world(OWNERS, "", "phase: Pending");
    world.reservation(&Reserve {
        name: "room",
        requests: "cpu: '1'",
        spec: policy,
        on: Some("node-0"),
        ..Reserve::default()
    });
    assert_eq!(world.run().of("hold"), place);
}

#[test]
fn nobody_draws_from_it_before_it_runs() {
    let mut world = world(OWNERS, "", "phase: Pending");
    pod(&mut world, "owner", "web", 2);
    let outcome = world.run();
    assert_eq!((outcome.of("hold"), outcome.of("owner"), free_cores(&outcome)), ("node-0", "node-0", 0));
}

#[test]
fn a_reservation_without_policy_does_not_go_where_it_is() {
    let mut world = held();
    world.reservation(&Reserve { name: "room", requests: "cpu: '1'", ..Reserve::default() });
    assert_eq!(world.run().of("room"), "1 node(s) reservation allocate policy conflict");
}

#[test]
fn its_cpus_are_for_its_owner_first() {
    let owners = format!(r#"{OWNERS}, scheduling.koordinator.sh/resource-status: '{{"cpuset":"2-7"}}'"#);
    let mut world = world(&owners, "nodeName: node-0,", READY);
    let cpus: Vec<String> =
        (0..8).map(|id| format!(r#"{{"id":{id},"core":{},"socket":0,"node":0}}"#, id / 2)).collect();
    world.add(&format!(
        "apiVersion: topology.node.k8s.io/v1alpha1\nkind: NodeResourceTopology\nmetadata: {{name: node-0, annotations: \
         {{node.koordinator.sh/cpu-topology: '{{\"detail\":[{}]}}'}}}}",
        cpus.join(",")
    ));
    let lsr = ", koordinator.sh/qosClass: LSR";
    world.pod("owner", "web", "cpu: '4'", Extra { labels: lsr, ..Extra::default() });
    let outcome = world.run();
    assert_eq!((outcome.of("owner"), outcome.assigned["owner"].as_str()), ("node-0 of hold", "2-5"));
}

#[rstest]
#[case::no_json("'web'", "metadata.annotations[scheduling.koordinator.sh/reservation-owners]")]
#[case::no_operator(
    r#"'[{"labelSelector":{"matchExpressions":[{"key":"a","operator":"Like"}]}}]'"#,
    "metadata.annotations[scheduling.koordinator.sh/reservation-owners]: [0].labelSelector"
)]
fn owners_that_cannot_be_read_are_an_error_that_names_pod_and_annotation(#[case] value: &str, #[case] place: &str) {
    let annotations = format!("scheduling.koordinator.sh/reservation-owners: {value}");
    let world = world(&annotations, "nodeName: node-0,", READY);
    let error = std::panic::catch_unwind(|| world.read()).unwrap_err();
    let text = error.downcast_ref::<String>().unwrap();
    assert!(text.contains("Pod default/hold") && text.contains(place), "{text}");
}
