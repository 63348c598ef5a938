//! Refusals in kube-scheduler's words.

use berth_model::{Cluster, Constraint, CounterId, Effect, PodSpec, Resources, Volumes};
use berth_scheduling::filter::node_refusal;
use berth_scheduling::reasons::{Insufficient, exhausted, pool_taint, topology};

use crate::mk::{mk_demand, mk_in, mk_node, mk_pool, mk_taint};

#[test]
fn what_is_insufficient_is_named_resource_by_resource() {
    let mut cluster = Cluster::new();
    let gpu = cluster.symbols.intern("nvidia.com/gpu");
    cluster.resource_names.intern(gpu);
    let requests = Resources::from_amounts(&[1000, 10, 1, 1]);
    for (room, expected) in [
        (&[1000, 10, 1, 1][..], &[][..]),
        (&[999, 10, 1, 1], &["Insufficient cpu"]),
        (&[1000, 9, 1, 1], &["Insufficient memory"]),
        (&[1000, 10, 0, 1], &["Too many pods"]),
        (&[1000, 10, 1], &["Insufficient nvidia.com/gpu"]),
        (&[-5], &["Insufficient cpu", "Insufficient memory", "Too many pods", "Insufficient nvidia.com/gpu"]),
    ] {
        let words = Insufficient::of(&requests, &Resources::from_amounts(room)).in_words(&cluster);
        assert_eq!(words, expected, "{room:?}");
    }
}

#[test]
fn a_node_refuses_by_its_taint_then_by_affinity_then_by_volume_topology() {
    let mut cluster = Cluster::new();
    let zone = cluster.well_known.zone;
    let topologies = vec![vec![mk_in(&mut cluster, zone, &["b"])]];
    let spec = PodSpec {
        node_selector: mk_in(&mut cluster, zone, &["a", "b"]),
        volumes: Volumes { topologies, ..Volumes::default() },
        ..PodSpec::default()
    };
    let demand = mk_demand(&mut cluster, spec);
    let mut tainted = mk_node(&mut cluster, "n1", "c");
    tainted.taints.push(mk_taint(&mut cluster, "team", "blue", Effect::NoSchedule));
    let mut cordoned = mk_node(&mut cluster, "n2", "c");
    cordoned.cordon = berth_model::Cordon::Tainted;
    cordoned.taints.push(mk_taint(&mut cluster, "node.kubernetes.io/unschedulable", "", Effect::NoSchedule));
    let (elsewhere, without_volume) = (mk_node(&mut cluster, "n3", "c"), mk_node(&mut cluster, "n4", "a"));
    for (node, expected) in [
        (tainted, "node(s) had untolerated taint {team: blue}"),
        (cordoned, "node(s) were unschedulable"),
        (elsewhere, "node(s) didn't match Pod's node affinity/selector"),
        (without_volume, "node(s) didn't match PersistentVolume's node affinity"),
    ] {
        assert_eq!(node_refusal(&cluster, &node, &demand), expected);
    }
}

#[test]
fn a_pool_names_its_taint() {
    let mut cluster = Cluster::new();
    let mut pool = mk_pool(&mut cluster);
    let demand = mk_demand(&mut cluster, PodSpec::default());
    assert_eq!(pool_taint(&cluster, &pool, &demand), None);
    pool.taints.push(mk_taint(&mut cluster, "team", "blue", Effect::NoExecute));
    assert_eq!(pool_taint(&cluster, &pool, &demand).as_deref(), Some("had untolerated taint {team: blue}"));
}

#[test]
fn topology_and_supplies_are_named() {
    let counter = CounterId(0);
    for (constraint, expected) in [
        (
            Constraint::Spread { counter, max_skew: 1, min_domains: None, counts_self: true },
            "node(s) didn't match pod topology spread constraints",
        ),
        (Constraint::Affinity { counter, counts_self: true }, "node(s) didn't match pod affinity rules"),
        (Constraint::AntiAffinity { counter, counts_self: true }, "node(s) didn't match pod anti-affinity rules"),
    ] {
        assert_eq!(topology(&[constraint]), expected);
    }
    assert_eq!(exhausted("r-1", true), "no free instance in capacity reservation r-1");
    assert_eq!(exhausted("small/a/on-demand", false), "no instance available of small/a/on-demand");
}
