//! Requests, as k8s.io/component-helpers `resource.PodRequests` counts them after the API server's defaults.

use rstest::rstest;
use serde_json::{Value, json};

use super::{add, amount, convert, first_spec, mk_pod};
use crate::{Builder, Converted, Options};

fn container(requests: Value) -> Value {
    json!({"name": "c", "resources": {"requests": requests}})
}

fn sidecar(cpu: &str) -> Value {
    json!({"name": "s", "restartPolicy": "Always", "resources": {"requests": {"cpu": cpu}}})
}

#[rstest]
#[case::containers_add_up(json!({"containers": [container(json!({"cpu": "1"})), container(json!({"cpu": "500m"}))]}), 1500)]
#[case::the_largest_init_container_counts(
    json!({"containers": [container(json!({"cpu": "1"}))], "initContainers": [container(json!({"cpu": "3"})), container(json!({"cpu": "2"}))]}), 3000)]
#[case::a_smaller_init_container_does_not(
    json!({"containers": [container(json!({"cpu": "2"}))], "initContainers": [container(json!({"cpu": "1"}))]}), 2000)]
#[case::a_sidecar_runs_beside_the_containers(
    json!({"containers": [container(json!({"cpu": "1"}))], "initContainers": [sidecar("2")]}), 3000)]
#[case::an_init_container_runs_beside_earlier_sidecars(
    json!({"containers": [container(json!({"cpu": "1"}))], "initContainers": [sidecar("2"), container(json!({"cpu": "5"}))]}), 7000)]
#[case::but_not_beside_later_ones(
    json!({"containers": [container(json!({"cpu": "1"}))], "initContainers": [container(json!({"cpu": "5"})), sidecar("2")]}), 5000)]
#[case::overhead_is_added(
    json!({"containers": [container(json!({"cpu": "1"}))], "overhead": {"cpu": "250m"}}), 1250)]
#[case::a_limit_without_request_is_the_request(
    json!({"containers": [{"name": "c", "resources": {"limits": {"cpu": "2"}}}]}), 2000)]
#[case::a_request_beats_its_limit(
    json!({"containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}, "limits": {"cpu": "2"}}}]}), 1000)]
#[case::pod_level_request_takes_the_place_of_the_containers(
    json!({"containers": [container(json!({"cpu": "1"}))], "resources": {"requests": {"cpu": "4"}}, "overhead": {"cpu": "1"}}), 5000)]
#[case::pod_level_limit_alone_yields_to_container_requests(
    json!({"containers": [container(json!({"cpu": "1"}))], "resources": {"limits": {"cpu": "4"}}}), 1000)]
#[case::pod_level_limit_counts_where_no_container_asks(
    json!({"containers": [{"name": "c"}], "resources": {"limits": {"cpu": "4"}}}), 4000)]
#[case::milli_are_rounded_up_after_adding(
    json!({"containers": [container(json!({"cpu": "100500u"})), container(json!({"cpu": "100500u"}))]}), 201)]
fn cpu_requests_follow_kubelet(#[case] spec: Value, #[case] milli: i64) {
    let converted = convert([mk_pod("a", spec)]);
    assert_eq!(amount(&first_spec(&converted.cluster).requests, "cpu", &converted.cluster), milli);
}

#[test]
fn every_resource_counts_in_whole_units_and_each_pod_is_one() {
    let requests = json!({"memory": "1500m", "nvidia.com/gpu": "2", "ephemeral-storage": "1Gi"});
    let Converted { cluster, .. } = convert([mk_pod("a", json!({"containers": [container(requests)]}))]);
    let spec = first_spec(&cluster);
    for (name, expected) in [("memory", 2), ("nvidia.com/gpu", 2), ("ephemeral-storage", 1 << 30), ("pods", 1)] {
        assert_eq!(amount(&spec.requests, name, &cluster), expected, "{name}");
    }
}

#[rstest]
#[case("-1", "found \"-1\", expected zero or more")]
#[case("1e20", "found \"1e20\", expected at most 2^60")]
#[case("much", "found \"much\", expected a quantity such as 500m or 2Gi")]
fn a_bad_quantity_names_object_and_field(#[case] quantity: &str, #[case] message: &str) {
    let mut builder = Builder::new(Options::default());
    let pod = mk_pod("a", json!({"containers": [container(json!({"cpu": quantity}))]}));
    let error = add(&mut builder, pod).unwrap_err();
    assert_eq!(error.problems()[0].path, "spec.containers[0].resources.requests[cpu]");
    let expected = format!("Pod default/a: spec.containers[0].resources.requests[cpu]: {message}");
    assert!(error.to_string().starts_with(&expected), "{error}");
}

fn asks_for(name: &str, resource: &str) -> Value {
    mk_pod(name, json!({"containers": [container(json!({"cpu": "1", resource: "1"}))]}))
}

#[test]
fn only_pods_that_ask_for_resources_beyond_the_limit_are_refused() {
    let mut builder = Builder::new(Options::default());
    for i in 0..5000 {
        add(&mut builder, asks_for(&format!("own-{i}"), &format!("example.com/r{i}"))).unwrap();
    }
    add(&mut builder, asks_for("known", "example.com/r7")).unwrap();
    let cluster = builder.finish().unwrap().cluster;
    let spec = |name: &str| {
        let row = cluster.pending.iter().find(|row| row.members.iter().any(|run| *run.name == *name)).unwrap();
        &cluster.specs[row.spec.index()]
    };
    let is_refused = |name: &str| spec(name).refusal.is_some();
    assert!(!is_refused("own-0") && !is_refused("own-1499") && !is_refused("known"));
    assert!(is_refused("own-4999"));
    assert_eq!(amount(&spec("own-0").requests, "example.com/r0", &cluster), 1);
}

#[test]
fn no_pod_takes_the_place_of_a_resource_that_nodes_have() {
    let mut builder = Builder::new(Options::default());
    for i in 0..5000 {
        add(&mut builder, asks_for(&format!("own-{i}"), &format!("example.com/r{i}"))).unwrap();
    }
    let node = json!({"kind": "Node", "metadata": {"name": "n"}, "spec": {},
                      "status": {"allocatable": {"cpu": "8", "example.com/gpu": "2"}}});
    add(&mut builder, node).unwrap();
    add(&mut builder, asks_for("gpu", "example.com/gpu")).unwrap();
    let cluster = builder.finish().unwrap().cluster;
    assert_eq!(amount(&cluster.nodes[0].allocatable, "example.com/gpu", &cluster), 2);
    let row = cluster.pending.iter().find(|row| &*row.members[0].name == "gpu").unwrap();
    assert_eq!(cluster.specs[row.spec.index()].refusal, None);
}

#[test]
fn only_pods_that_request_neither_cpu_nor_memory_are_told() {
    let with = |requests: Value| {
        let container = json!({"name": "c", "resources": {"requests": requests}});
        let converted = convert([mk_pod("p", json!({"containers": [container]}))]);
        converted.warnings.iter().any(|told| told.contains("requests neither CPU nor memory (default/p)"))
    };
    assert!(with(json!({})) && with(json!({"ephemeral-storage": "1Gi"})));
    assert!(!with(json!({"cpu": "1"})) && !with(json!({"memory": "1Gi"})));
}
