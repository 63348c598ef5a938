//! NUMA policies of nodes and pods: where on a node of two NUMA nodes, 8 CPUs and 16 Gi each, pods lie.

use rstest::rstest;

use crate::mk::{Extra, Reserve, World};

const SINGLE: &str = r#"scheduling.koordinator.sh/numa-topology-spec: '{"numaTopologyPolicy":"SingleNUMANode"}'"#;
const RESTRICTED: &str = r#"scheduling.koordinator.sh/numa-topology-spec: '{"numaTopologyPolicy":"Restricted"}'"#;

fn zone(id: u32, cpus: u32, gib: u32) -> String {
    let of = |name: &str, amount: &str| {
        format!("{{name: {name}, capacity: '{amount}', allocatable: '{amount}', available: '{amount}'}}")
    };
    format!(
        "{{name: node-{id}, type: Node, resources: [{}, {}]}}",
        of("cpu", &cpus.to_string()),
        of("memory", &format!("{gib}Gi"))
    )
}

/// CPUs 0 to 7 on NUMA node 0, 8 to 15 on NUMA node 1, two threads a core.
fn topology(world: &mut World, node: &str, policies: &str, cpus: u32, gib: u32) {
    let detail: Vec<String> =
        (0..16).map(|id| format!(r#"{{"id":{id},"core":{},"socket":{},"node":{}}}"#, id / 2, id / 8, id / 8)).collect();
    world.add(&format!(
        "apiVersion: topology.node.k8s.io/v1alpha1\nkind: NodeResourceTopology\nmetadata: {{name: {node}, annotations: \
         {{node.koordinator.sh/cpu-topology: '{{\"detail\":[{}]}}'}}}}\ntopologyPolicies: [{policies}]\nzones: [{}, {}]",
        detail.join(","),
        zone(0, cpus, gib),
        zone(1, cpus, gib)
    ));
}

/// A node whose label or kubelet names the policy.
fn machine(label: &str, policies: &str) -> World {
    let mut world = World::default();
    let label =
        if label.is_empty() { String::new() } else { format!(", node.koordinator.sh/numa-topology-policy: {label}") };
    world.add(&format!(
        "apiVersion: v1\nkind: Node\nmetadata: {{name: node-0, labels: {{kubernetes.io/hostname: node-0{label}}}}}\nstatus: \
         {{allocatable: {{cpu: '16', memory: 32Gi, pods: '100', koordinator.sh/gpu-core: '200'}}}}"
    ));
    topology(&mut world, "node-0", policies, 8, 16);
    world
}

/// A pod that runs on NUMA nodes with so many CPUs of each.
fn running(world: &mut World, name: &str, on: &[(u32, u32)]) {
    let parts: Vec<String> =
        on.iter().map(|(node, cpus)| format!(r#"{{"node":{node},"resources":{{"cpu":"{cpus}"}}}}"#)).collect();
    let status =
        format!("scheduling.koordinator.sh/resource-status: '{{\"numaNodeResources\":[{}]}}'", parts.join(","));
    let cpus: u32 = on.iter().map(|(_, cpus)| cpus).sum();
    world.running(name, "old", "node-0", &format!("cpu: {cpus}"), Extra { annotations: &status, ..Extra::default() });
}

fn asking(annotations: &str) -> Extra<'_> {
    Extra { annotations, ..Extra::default() }
}

/// Where a pod of so many CPUs goes, and its NUMA nodes and CPUs.
fn place(world: &mut World, cpus: u32, extra: Extra<'_>) -> (String, String) {
    world.pod("a", "web", &format!("cpu: {cpus}, memory: 1Gi"), extra);
    let outcome = world.run();
    (outcome.of("a").to_owned(), outcome.assigned.get("a").cloned().unwrap_or_default())
}

fn on(numa: &str) -> (String, String) {
    ("node-0".to_owned(), numa.to_owned())
}

#[rstest]
#[case::by_the_nodes_label("SingleNUMANode", "", "")]
#[case::by_its_kubelet("", "SingleNUMANodePodLevel", "")]
#[case::by_the_pod("", "", SINGLE)]
#[case::the_label_outweighs_the_kubelet("SingleNUMANode", "Restricted", "")]
fn all_of_a_pod_lies_on_the_one_numa_node_that_has_it(#[case] label: &str, #[case] kubelet: &str, #[case] pod: &str) {
    let mut world = machine(label, kubelet);
    running(&mut world, "old", &[(0, 4)]);
    assert_eq!(place(&mut world, 6, asking(pod)), on("numa 1"));
}

#[test]
fn without_a_policy_numa_nodes_are_not_looked_at() {
    assert_eq!(place(&mut machine("", ""), 10, Extra::default()), on(""));
    assert_eq!(
        place(&mut machine("", "SingleNUMANodeContainerLevel"), 10, Extra::default()),
        on(""),
        "is about containers"
    );
}

#[test]
fn of_two_numa_nodes_the_emptier_is_taken() {
    let mut world = machine("SingleNUMANode", "");
    running(&mut world, "old", &[(0, 2)]);
    assert_eq!(place(&mut world, 2, Extra::default()), on("numa 1"));
    assert_eq!(place(&mut machine("SingleNUMANode", ""), 2, Extra::default()), on("numa 0"), "else the first");
}

#[rstest]
#[case::single(
    "SingleNUMANode",
    10,
    "1 Unaligned NUMA Hint cause cpu prefer [11] among [11],memory prefer [11] among [11]",
    ""
)]
#[case::restricted_lies_on_both("Restricted", 10, "node-0", "numa 0, numa 1")]
#[case::restricted_lies_on_one_where_it_can("Restricted", 6, "node-0", "numa 0")]
#[case::best_effort("BestEffort", 10, "node-0", "numa 0, numa 1")]
fn a_pod_that_no_numa_node_holds_is_refused_or_spread(
    #[case] policy: &str,
    #[case] cpus: u32,
    #[case] place_or_reason: &str,
    #[case] numa: &str,
) {
    let expected = (place_or_reason.to_owned(), numa.to_owned());
    assert_eq!(place(&mut machine(policy, ""), cpus, Extra::default()), expected);
}

#[rstest]
#[case::restricted("Restricted", "1 Unsatisfied NUMA cpu, 1 Unsatisfied NUMA memory", "")]
#[case::best_effort("BestEffort", "node-0", "")]
fn what_all_numa_nodes_together_lack_is_told_by_resource(
    #[case] policy: &str,
    #[case] place_or_reason: &str,
    #[case] numa: &str,
) {
    let mut world = machine(policy, "");
    // NUMA nodes count fewer CPUs than the node.
    topology(&mut world, "node-0", "", 4, 16);
    let expected = (place_or_reason.to_owned(), numa.to_owned());
    assert_eq!(place(&mut world, 10, Extra::default()), expected);
}

#[test]
fn a_pod_of_another_policy_than_its_node_is_refused() {
    let reason = "1 node(s) NUMA Topology policy not match".to_owned();
    assert_eq!(place(&mut machine("Restricted", ""), 2, asking(SINGLE)), (reason, String::new()));
}

#[test]
fn a_node_that_does_not_say_what_its_numa_nodes_have_is_no_place_for_it() {
    let mut world = World::nodes(&["node-0", "node-1"], "4", 32);
    topology(&mut world, "node-1", "", 2, 16);
    world.pod("a", "web", "cpu: 3, memory: 1Gi", asking(SINGLE));
    let outcome = world.run();
    let unaligned = "1 Unaligned NUMA Hint cause cpu prefer [11] among [11],memory prefer [11] among [11]";
    assert_eq!(outcome.of("a"), format!("{unaligned}, 1 node(s) missing NUMA resources"));
    // Where no node says it, nobody knows.
    let mut world = World::nodes(&["node-0"], "4", 32);
    assert_eq!(place(&mut world, 3, asking(SINGLE)), on(""));
}

#[rstest]
#[case::the_other_lies_on_both(&[(0, 2), (1, 2)], SINGLE, 2, None)]
#[case::the_other_lies_on_one(&[(0, 2)], RESTRICTED, 10, None)]
#[case::not_where_that_is_only_preferred(&[(0, 2), (1, 2)], r#"scheduling.koordinator.sh/numa-topology-spec: '{"numaTopologyPolicy":"SingleNUMANode","singleNUMANodeExclusive":"Preferred"}'"#, 2, Some("numa 0"))]
fn pods_on_one_numa_node_and_on_several_do_not_meet(
    #[case] others: &[(u32, u32)],
    #[case] asks: &str,
    #[case] cpus: u32,
    #[case] numa: Option<&str>,
) {
    let mut world = machine("", "");
    running(&mut world, "old", others);
    let (place, lies) = place(&mut world, cpus, asking(asks));
    match numa {
        Some(numa) => assert_eq!((place, lies), on(numa)),
        None => assert!(place.starts_with("1 Unaligned NUMA Hint cause cpu prefer ["), "{place}"),
    }
}

#[test]
fn cpus_of_its_own_are_those_of_its_numa_nodes() {
    let lsr = Extra { labels: ", koordinator.sh/qosClass: LSR", annotations: SINGLE, ..Extra::default() };
    let mut world = machine("", "");
    running(&mut world, "old", &[(0, 6)]);
    assert_eq!(place(&mut world, 4, lsr), on("8-11, numa 1"));
    let lsr = Extra { annotations: RESTRICTED, ..lsr };
    assert_eq!(place(&mut machine("", ""), 12, lsr), on("0-5,8-13, numa 0, numa 1"), "as even as can be");
}

#[test]
fn devices_are_near() {
    let mut world = machine("SingleNUMANode", "");
    world.add(
        "apiVersion: scheduling.koordinator.sh/v1alpha1\nkind: Device\nmetadata: {name: node-0}\nspec: {devices: [{type: \
         gpu, minor: 0, health: true, topology: {nodeID: 1}, resources: {koordinator.sh/gpu-core: '100'}}]}",
    );
    world.pod("a", "web", "cpu: 2, koordinator.sh/gpu-core: 50", Extra::default());
    let outcome = world.run();
    assert_eq!((outcome.of("a"), outcome.assigned["a"].as_str()), ("node-0", "gpu 0, numa 1"));
}

#[rstest]
#[case::aligned("allocatePolicy: Aligned,", 7, "node-0 of r", "numa 0")]
#[case::restricted("allocatePolicy: Restricted,", 6, "node-0 of r", "numa 0")]
fn a_reservation_holds_its_part_of_a_numa_node_for_its_owners(
    #[case] policy: &str,
    #[case] cpus: u32,
    #[case] expected: &str,
    #[case] numa: &str,
) {
    let mut world = machine("SingleNUMANode", "");
    world.reservation(&Reserve { name: "r", requests: "cpu: 6, memory: 2Gi", spec: policy, ..Reserve::default() });
    world.pod("other", "db", "cpu: 4, memory: 1Gi", Extra { spec: "priority: 10,", ..Extra::default() });
    world.pod("a", "web", &format!("cpu: {cpus}, memory: 1Gi"), Extra::default());
    let outcome = world.run();
    assert_eq!(outcome.assigned["r"], "numa 0");
    assert_eq!((outcome.of("other"), outcome.assigned["other"].as_str()), ("node-0", "numa 1"));
    assert_eq!((outcome.of("a"), outcome.assigned["a"].as_str()), (expected, numa));
}

#[test]
fn preemption_frees_a_numa_node() {
    let mut world = machine("SingleNUMANode", "");
    world.preempts = true;
    running(&mut world, "old", &[(0, 6)]);
    running(&mut world, "older", &[(1, 6)]);
    let extra = Extra { spec: "priority: 10,", ..Extra::default() };
    assert_eq!(place(&mut world, 4, extra).0, "node-0");
    assert_eq!(world.run().evicted.len(), 1);
}

#[rstest]
#[case::no_such_policy(
    r#"{"numaTopologyPolicy":"Single"}"#,
    "numaTopologyPolicy: found \"Single\", expected BestEffort, Restricted or SingleNUMANode"
)]
#[case::no_such_exclusion(
    r#"{"singleNUMANodeExclusive":"Yes"}"#,
    "singleNUMANodeExclusive: found \"Yes\", expected Preferred or Required"
)]
fn what_a_pod_asks_for_must_be_known(#[case] spec: &str, #[case] says: &str) {
    let mut world = machine("", "");
    let annotation = format!("scheduling.koordinator.sh/numa-topology-spec: '{spec}'");
    world.pod("a", "web", "cpu: 1", asking(&annotation));
    let error = std::panic::catch_unwind(|| world.read()).unwrap_err();
    let text = error.downcast_ref::<String>().unwrap();
    assert!(text.contains("Pod default/a") && text.contains(says), "{text}");
}
