//! What nodes keep from pods, `node.koordinator.sh/reservation`.

use rstest::rstest;
use serde_json::{Value, json};

use super::{add, amount, convert, mk, mk_node, with};
use crate::{Builder, Options};

const KEY: &str = "node.koordinator.sh/reservation";

/// 96 cores, 512 GiB and what Koordinator overcommits.
fn node_with(reservation: &str) -> Value {
    let amounts = json!({"cpu": "96", "memory": "512Gi", "pods": "110", "kubernetes.io/batch-cpu": "20k"});
    mk_node("n1", json!({"metadata": {"annotations": {KEY: reservation}}, "status": {"allocatable": amounts}}))
}

#[rstest]
#[case::amounts(r#"{"resources":{"cpu":"16","memory":"12Gi"}}"#, 80_000, 500)]
#[case::the_default_policy_by_name(r#"{"resources":{"cpu":"16"},"applyPolicy":"Default"}"#, 80_000, 512)]
#[case::cpus_are_counted(r#"{"reservedCPUs":"0-3"}"#, 92_000, 512)]
#[case::listed_cpus_take_the_place_of_an_amount(r#"{"resources":{"cpu":"16"},"reservedCPUs":"0,2-3"}"#, 93_000, 512)]
#[case::parts_of_a_cpu(r#"{"resources":{"cpu":"2500m"}}"#, 93_500, 512)]
#[case::kubelet_has_taken_it_off_already(r#"{"reservedCPUs":"0-3","applyPolicy":"ReservedCPUsOnly"}"#, 96_000, 512)]
#[case::nothing_below_zero(r#"{"resources":{"cpu":"200"}}"#, 0, 512)]
#[case::negative_is_none(r#"{"resources":{"cpu":"-4"}}"#, 96_000, 512)]
#[case::empty("", 96_000, 512)]
fn a_node_keeps(#[case] reservation: &str, #[case] milli_cpu: i64, #[case] gib: i64) {
    let cluster = convert([node_with(reservation)]).cluster;
    let free = &cluster.nodes[0].free;
    assert_eq!((amount(free, "cpu", &cluster), amount(free, "memory", &cluster)), (milli_cpu, gib << 30));
}

#[test]
fn overcommitted_resources_are_not_trimmed_twice() {
    let cluster = convert([node_with(r#"{"resources":{"cpu":"1","kubernetes.io/batch-cpu":"5k"}}"#)]).cluster;
    assert_eq!(amount(&cluster.nodes[0].free, "kubernetes.io/batch-cpu", &cluster), 20_000);
}

#[rstest]
#[case::no_json("0-3", "expected JSON such as")]
#[case::no_cpus(r#"{"reservedCPUs":"3-0"}"#, r#"reservedCPUs: found "3-0", expected CPUs"#)]
#[case::no_policy(r#"{"applyPolicy":"Some"}"#, "unknown variant `Some`")]
fn a_mistake_is_named(#[case] reservation: &str, #[case] message: &str) {
    let mut builder = Builder::new(Options::default());
    let error = add(&mut builder, node_with(reservation)).unwrap_err().to_string();
    assert!(error.starts_with(&format!("Node n1: metadata.annotations[{KEY}]: ")), "{error}");
    assert!(error.contains(message), "{error}");
}

#[test]
fn a_node_in_flight_keeps_what_its_claim_says() {
    let claim = mk(
        "NodeClaim",
        "flying",
        json!({"metadata": {"annotations": {KEY: r#"{"resources":{"cpu":"500m"}}"#}}, "spec": {"requirements": []},
            "status": {"providerID": "x://1", "allocatable": {"cpu": "2", "memory": "1Gi", "pods": "5"}}}),
    );
    let cluster = convert([claim]).cluster;
    assert_eq!(amount(&cluster.nodes[0].free, "cpu", &cluster), 1500);
}

#[test]
fn a_pools_nodes_will_keep_what_its_template_says() {
    let class = json!({"group": "berth.sh", "kind": "FakeNodeClass", "name": "default"});
    let template = json!({"metadata": {"annotations": {KEY: r#"{"reservedCPUs":"0-1"}"#}},
        "spec": {"requirements": [], "nodeClassRef": class}});
    let pool = mk("NodePool", "general", with(json!({"spec": {}}), json!({"spec": {"template": template}})));
    let cluster = convert([pool]).cluster;
    assert_eq!(amount(&cluster.node_pools[0].reserved, "cpu", &cluster), 2000);
}
