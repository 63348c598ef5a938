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

/// Eight CPUs, four on each of two NUMA nodes.
fn topology(annotations: &[(&str, &str)]) -> Value {
    let cpus: Vec<Value> =
        (0..8).map(|id| json!({"id": id, "core": id / 2, "socket": id / 4, "node": id / 4})).collect();
    let zone = |at: usize| {
        json!({"name": format!("node-{at}"), "type": "Node",
        "resources": [{"name": "cpu", "capacity": "4", "allocatable": "4", "available": "4"}]})
    };
    let detail = json!({"detail": cpus}).to_string();
    let mut notes = serde_json::Map::from_iter([("node.koordinator.sh/cpu-topology".to_owned(), json!(detail))]);
    notes.extend(annotations.iter().map(|(key, text)| ((*key).to_owned(), json!(text))));
    mk("NodeResourceTopology", "n1", json!({"metadata": {"annotations": notes}, "zones": [zone(0), zone(1)]}))
}

#[rstest]
#[case::the_lowest_of_a_count(r#"{"resources":{"cpu":"4500m"}}"#, &[], &[5, 6, 7], [0, 3_000])]
#[case::a_list(r#"{"reservedCPUs":"2,6"}"#, &[], &[0, 1, 3, 4, 5, 7], [3_000, 3_000])]
#[case::what_the_agent_lists(r#"{"resources":{"cpu":"2"}}"#, &[(KEY, r#"{"reservedCPUs":"6-7"}"#)], &[0, 1, 2, 3, 4, 5],
    [4_000, 2_000])]
#[case::none(r#"{"resources":{"memory":"1Gi"}}"#, &[], &[0, 1, 2, 3, 4, 5, 6, 7], [4_000, 4_000])]
#[case::more_than_there_are(r#"{"resources":{"cpu":"64"}}"#, &[], &[], [0, 0])]
fn no_pod_has_kept_cpus_to_itself(
    #[case] reservation: &str,
    #[case] of_agent: &[(&str, &str)],
    #[case] cpus: &[u32],
    #[case] on_numa: [i64; 2],
) {
    let cluster = convert([node_with(reservation), topology(of_agent)]).cluster;
    let units = &cluster.nodes[0].units;
    assert_eq!(units.cpus.iter().map(|cpu| cpu.id).collect::<Vec<_>>(), cpus);
    let numa: Vec<i64> = units.numa.iter().map(|node| amount(&node.amounts, "cpu", &cluster)).collect();
    assert_eq!(numa, on_numa);
}
