//! CPUs and devices that pods have to themselves: the proposal's rows on NUMANodeResources and DeviceShare, and what was
//! worked out for each.

use rstest::rstest;

use crate::mk::{Extra, MUST_DRAW, Outcome, Reserve, World};

const LSR: Extra<'static> =
    Extra { labels: ", koordinator.sh/qosClass: LSR", annotations: "", spec: "", container: "" };
const LSR_LABEL: &str = "koordinator.sh/qosClass: LSR";
const REUSED: &str = "allocateOnce: false,";
const RESTRICTED: &str = "allocateOnce: false, allocatePolicy: Restricted,";

/// 16 CPUs: two threads a core, four cores a NUMA node.
fn topology(node: &str, more: &str) -> String {
    let detail: Vec<String> =
        (0..16).map(|id| format!(r#"{{"id":{id},"core":{},"socket":{},"node":{}}}"#, id / 2, id / 8, id / 8)).collect();
    format!(
        "apiVersion: topology.node.k8s.io/v1alpha1\nkind: NodeResourceTopology\nmetadata: {{name: {node}, annotations: \
         {{{more} node.koordinator.sh/cpu-topology: '{{\"detail\":[{}]}}'}}}}",
        detail.join(",")
    )
}

fn machine() -> World {
    let mut world = World::nodes(&["node-0"], "16", 32);
    world.add(&topology("node-0", ""));
    world
}

fn four_cores(world: &mut World, spec: &str) {
    world.reservation(&Reserve {
        name: "r",
        requests: "cpu: 4",
        spec,
        template_labels: LSR_LABEL,
        ..Reserve::default()
    });
}

fn cpus<'a>(outcome: &'a Outcome, name: &str) -> &'a str {
    outcome.assigned.get(name).map_or("", String::as_str)
}

#[test]
fn numa_row_1_an_owner_of_the_same_size_gets_the_reserved_cpus() {
    let mut world = machine();
    // Others are there first, and the Reservation takes what is next.
    world.running(
        "old",
        "old",
        "node-0",
        "cpu: 2",
        Extra { annotations: r#"scheduling.koordinator.sh/resource-status: '{"cpuset":"0-1"}'"#, ..LSR },
    );
    four_cores(&mut world, "");
    world.pod("a", "web", "cpu: 4", LSR).pod("other", "other", "cpu: 4", LSR);
    let outcome = world.run();
    assert_eq!(cpus(&outcome, "r"), "2-5");
    assert_eq!((outcome.of("a"), cpus(&outcome, "a")), ("node-0 of r", "2-5"));
    assert_eq!((outcome.of("other"), cpus(&outcome, "other")), ("node-0", "8-11"), "on one NUMA node");
}

#[test]
fn numa_row_2_a_larger_owner_gets_the_reserved_cpus_and_more_beside_them() {
    let mut world = machine();
    four_cores(&mut world, "");
    world.pod("a", "web", "cpu: 6", LSR);
    let outcome = world.run();
    assert_eq!((cpus(&outcome, "r"), cpus(&outcome, "a")), ("0-3", "0-5"), "on the same NUMA node");
    assert_eq!(outcome.of("a"), "node-0 of r");
    // Restricted, it gets none of these, and must find six of its own.
    let mut world = machine();
    four_cores(&mut world, RESTRICTED);
    world.pod("a", "web", "cpu: 6", LSR);
    let outcome = world.run();
    assert_eq!((outcome.of("a"), cpus(&outcome, "a")), ("node-0", "8-13"));
    let mut world = machine();
    four_cores(&mut world, RESTRICTED);
    world.pod("a", "web", "cpu: 6", Extra { annotations: MUST_DRAW.annotations, ..LSR });
    assert!(world.run().of("a").starts_with("1 Reservation(s) Insufficient cpu"));
}

#[test]
fn numa_row_3_two_owners_share_the_reserved_cpus() {
    let mut world = machine();
    four_cores(&mut world, REUSED);
    world.pod("a", "web", "cpu: 2", LSR).pod("b", "web", "cpu: 2", LSR);
    let outcome = world.run();
    assert_eq!((outcome.of("a"), outcome.of("b")), ("node-0 of r", "node-0 of r"));
    assert_eq!((cpus(&outcome, "a"), cpus(&outcome, "b")), ("0-1", "2-3"));
}

#[rstest]
#[case::the_rest_is_the_nodes(REUSED, LSR, "node-0 of r", "3-5")]
#[case::restricted_it_uses_the_nodes_alone(RESTRICTED, LSR, "node-0", "4-6")]
fn numa_row_4_the_second_owner_gets_what_is_left(
    #[case] spec: &str,
    #[case] extra: Extra<'_>,
    #[case] place: &str,
    #[case] expected: &str,
) {
    let mut world = machine();
    four_cores(&mut world, spec);
    world.pod("a", "web", "cpu: 3", extra).pod("b", "web", "cpu: 3", extra);
    let outcome = world.run();
    assert_eq!((outcome.of("a"), cpus(&outcome, "a")), ("node-0 of r", "0-2"));
    assert_eq!((outcome.of("b"), cpus(&outcome, "b")), (place, expected));
}

#[test]
fn cpus_of_a_reservation_are_for_its_owners_and_those_that_are_kept_for_nobody() {
    let mut world = World::nodes(&["node-0"], "16", 32);
    let kept = r#"kubelet.koordinator.sh/cpu-manager-policy: '{"policy":"static","reservedCPUs":"0-1"}', node.koordinator.sh/reservation: '{"reservedCPUs":"2-3"}', "#;
    world.add(&topology("node-0", kept));
    let held = r#"scheduling.koordinator.sh/resource-status: '{"cpuset":"4-7"}'"#;
    world.reservation(&Reserve {
        name: "r",
        requests: "cpu: 4",
        annotations: held,
        spec: REUSED,
        template_labels: LSR_LABEL,
        on: Some("node-0"),
        ..Reserve::default()
    });
    world.pod("a", "other", "cpu: 8", LSR).pod("b", "other", "cpu: 2", LSR).pod("c", "web", "cpu: 2", LSR);
    let outcome = world.run();
    assert_eq!((outcome.of("a"), cpus(&outcome, "a")), ("node-0", "8-15"));
    assert_eq!(outcome.of("b"), "1 not enough cpus available to satisfy request");
    assert_eq!((outcome.of("c"), cpus(&outcome, "c")), ("node-0 of r", "4-5"));
}

#[rstest]
#[case::half_a_core("cpu: 500m", "", "the requested CPUs must be integer")]
#[case::half_of_the_threads(
    "cpu: 3",
    r#"scheduling.koordinator.sh/resource-spec: '{"requiredCPUBindPolicy":"FullPCPUs"}'"#,
    "1 node(s) requested cpus not multiple cpus per core"
)]
fn cpus_that_cannot_be_given_are_refused(#[case] requests: &str, #[case] annotations: &str, #[case] reason: &str) {
    let mut world = machine();
    world.pod("a", "web", requests, Extra { annotations, ..LSR });
    assert!(world.run().refusal_of("a").contains(reason), "{}", world.run().refusal_of("a"));
}

#[test]
fn cpus_spread_over_cores_where_the_pod_prefers_that() {
    let mut world = machine();
    let annotations = r#"scheduling.koordinator.sh/resource-spec: '{"preferredCPUBindPolicy":"SpreadByPCPUs"}'"#;
    world.pod("a", "web", "cpu: 4", Extra { annotations, ..LSR });
    assert_eq!(cpus(&world.run(), "a"), "0,2,4,6");
}

// === DeviceShare ===

/// GPUs of 16 GiB.
fn gpus(count: u32) -> World {
    let mut world = World::default();
    let shares = count * 100;
    world.node(
        "node-0",
        &format!(
            "cpu: '16', memory: 32Gi, pods: '100', nvidia.com/gpu: '{count}', koordinator.sh/gpu: '{shares}', \
             koordinator.sh/gpu-core: '{shares}', koordinator.sh/gpu-memory-ratio: '{shares}', \
             koordinator.sh/gpu-memory: {}Gi",
            count * 16
        ),
    );
    let device = |minor| {
        format!(
            "{{type: gpu, minor: {minor}, health: true, resources: {{koordinator.sh/gpu-core: '100', \
             koordinator.sh/gpu-memory-ratio: '100', koordinator.sh/gpu-memory: 16Gi}}}}"
        )
    };
    let devices: Vec<String> = (0..count).map(device).collect();
    world.add(&format!(
        "apiVersion: scheduling.koordinator.sh/v1alpha1\nkind: Device\nmetadata: {{name: node-0}}\nspec: {{devices: [{}, \
         {{type: gpu, minor: 99, health: false, resources: {{koordinator.sh/gpu-core: '100'}}}}]}}",
        devices.join(", ")
    ));
    world
}

fn one_gpu(world: &mut World, spec: &str) {
    world.reservation(&Reserve { name: "r", requests: "koordinator.sh/gpu: '100'", spec, ..Reserve::default() });
}

fn share(percent: u32) -> String {
    format!("koordinator.sh/gpu: '{percent}'")
}

fn none() -> Extra<'static> {
    Extra::default()
}

#[test]
fn device_row_1_an_owner_gets_the_reserved_gpu() {
    let mut world = gpus(2);
    world.running("old", "old", "node-0", &share(30), Extra {
        annotations: r#"scheduling.koordinator.sh/device-allocated: '{"gpu":[{"minor":0,"resources":{"koordinator.sh/gpu-core":"30","koordinator.sh/gpu-memory-ratio":"30"}}]}'"#,
        ..none()
    });
    one_gpu(&mut world, "");
    world.pod("a", "web", &share(100), none()).pod("other", "other", &share(80), none());
    let outcome = world.run();
    assert_eq!((cpus(&outcome, "r"), cpus(&outcome, "a")), ("gpu 1", "gpu 1"), "minor 0 is no whole one");
    assert_eq!(outcome.of("a"), "node-0 of r");
    assert_eq!(outcome.of("other"), "1 Insufficient koordinator.sh/gpu", "70 percent are left");
}

#[test]
fn device_row_2_two_owners_of_a_half_share_the_reserved_gpu() {
    let mut world = gpus(2);
    one_gpu(&mut world, REUSED);
    world.pod("a", "web", &share(50), none()).pod("b", "web", &share(50), none());
    let outcome = world.run();
    assert_eq!((outcome.of("a"), outcome.of("b")), ("node-0 of r", "node-0 of r"));
    assert_eq!((cpus(&outcome, "a"), cpus(&outcome, "b"), cpus(&outcome, "r")), ("gpu 0", "gpu 0", "gpu 0"));
}

#[rstest]
#[case::on_another_gpu(2, REUSED, "node-0", "gpu 1")]
#[case::there_is_no_other(1, REUSED, "1 Insufficient koordinator.sh/gpu by node", "")]
#[case::restricted_on_another_as_any_pod(2, RESTRICTED, "node-0", "gpu 1")]
fn device_row_3_a_share_that_the_reserved_gpu_has_not_left_is_taken_of_another(
    #[case] count: u32,
    #[case] spec: &str,
    #[case] place: &str,
    #[case] device: &str,
) {
    let mut world = gpus(count);
    one_gpu(&mut world, spec);
    world.pod("a", "web", &share(60), none()).pod("b", "web", &share(50), none());
    let outcome = world.run();
    assert_eq!((outcome.of("a"), cpus(&outcome, "a")), ("node-0 of r", "gpu 0"));
    assert!(outcome.of("b").starts_with(place), "{}", outcome.of("b"));
    assert_eq!(cpus(&outcome, "b"), device);
    assert_eq!(outcome.allocated["r"].0, 1, "who has nothing of it holds nothing of it");
}

#[test]
fn gpus_by_count_by_percent_and_by_memory_are_the_same_gpus() {
    let mut world = gpus(2);
    world.pod("1-whole", "x", "nvidia.com/gpu: '1'", none());
    world.pod("2-memory", "x", "koordinator.sh/gpu-memory: 12Gi", none());
    world.pod("3-percent", "x", "koordinator.sh/gpu-core: '20', koordinator.sh/gpu-memory-ratio: '20'", none());
    world.pod("4-much", "x", "koordinator.sh/gpu-memory-ratio: '30'", none());
    let outcome = world.run();
    assert_eq!(
        (cpus(&outcome, "1-whole"), cpus(&outcome, "2-memory"), cpus(&outcome, "3-percent")),
        ("gpu 0", "gpu 1", "gpu 1")
    );
    assert_eq!(outcome.of("4-much"), "1 Insufficient gpu devices", "three quarters and a fifth are taken");
}

#[test]
fn an_evicted_owner_leaves_its_gpu_to_the_reservation() {
    let mut world = gpus(1);
    let held = r#"scheduling.koordinator.sh/device-allocated: '{"gpu":[{"minor":0,"resources":{"koordinator.sh/gpu-core":"100","koordinator.sh/gpu-memory-ratio":"100"}}]}'"#;
    let reserve = Reserve {
        name: "r",
        requests: "koordinator.sh/gpu: '100'",
        spec: RESTRICTED,
        annotations: held,
        on: Some("node-0"),
        ..Reserve::default()
    };
    world.reservation(&reserve);
    let drawn = format!(r#"scheduling.koordinator.sh/reservation-allocated: '{{"name":"r","uid":""}}', {held}"#);
    world.running("low", "web", "node-0", &share(100), Extra { annotations: &drawn, ..none() });
    world.preempts = true;
    let high = Extra { spec: "priority: 10,", ..none() };
    world.pod("other", "other", &share(100), high).pod("owner", "web", &share(100), high);
    let outcome = world.run();
    assert_eq!(
        (outcome.of("owner"), cpus(&outcome, "owner"), &*outcome.evicted),
        ("node-0 of r", "gpu 0", &["low".to_owned()][..])
    );
    assert!(!outcome.of("other").starts_with("node"), "{}", outcome.of("other"));
}

#[rstest]
#[case::aligned("allocateOnce: false, allocatePolicy: Aligned,", "node-0 of r", "gpu 2")]
#[case::restricted(RESTRICTED, "1 Insufficient gpu devices", "")]
fn a_share_that_no_reserved_gpu_has_left_is_had_of_others_unless_the_reservation_is_restricted(
    #[case] spec: &str,
    #[case] place: &str,
    #[case] device: &str,
) {
    let mut world = gpus(3);
    world.reservation(&Reserve { name: "r", requests: "koordinator.sh/gpu: '200'", spec, ..Reserve::default() });
    world.pod("a", "web", &share(60), none()).pod("b", "web", &share(60), none());
    world.pod("c", "web", &share(50), MUST_DRAW);
    let outcome = world.run();
    assert_eq!((cpus(&outcome, "a"), cpus(&outcome, "b")), ("gpu 0", "gpu 1"), "40 percent are left of each");
    assert!(outcome.of("c").starts_with(place), "{}", outcome.of("c"));
    assert_eq!(cpus(&outcome, "c"), device);
}
