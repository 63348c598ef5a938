//! The order in which preferences are given up: Karpenter's.

use berth_model::{Cluster, Constraint, Effect, PodSpec, Requirement, Toleration, TolerationOperator};
use berth_scheduling::Demand;

use crate::mk::{mk_demands, mk_in, mk_pool, mk_spread, mk_taint, mk_term};

/// What a demand asks for: constraints by kind and key, the preferred zone, whether preferred taints count.
fn in_words(cluster: &Cluster, demand: &Demand) -> String {
    let word = |constraint: &Constraint| match constraint {
        Constraint::Affinity { .. } => "affinity",
        Constraint::AntiAffinity { .. } => "anti-affinity",
        Constraint::Spread { .. } => "spread",
    };
    let mut words: Vec<String> = demand.host.iter().map(|c| format!("{}/host", word(c))).collect();
    for (key, constraints) in &demand.keyed {
        let key = cluster.symbols.text(*key).rsplit('/').next().unwrap();
        words.extend(constraints.iter().map(|constraint| format!("{}/{key}", word(constraint))));
    }
    words.sort();
    let zone = demand.terms[0].get(cluster.well_known.zone).and_then(Requirement::single);
    words.extend(zone.map(|zone| cluster.symbols.text(zone).to_owned()));
    words.extend(demand.avoids_preferred_taints.then(|| "taints".to_owned()));
    words.join(" ")
}

#[test]
fn preferences_are_given_up_in_karpenters_order_the_heaviest_of_a_kind_first() {
    let mut cluster = Cluster::new();
    let (host, zone) = (cluster.well_known.hostname, cluster.well_known.zone);
    let rack = cluster.symbols.intern("rack");
    let mut pool = mk_pool(&mut cluster);
    pool.taints.push(mk_taint(&mut cluster, "team", "", Effect::PreferNoSchedule));
    cluster.node_pools.push(pool);
    let anyway = |cluster: &mut Cluster, key| berth_model::SpreadConstraint {
        is_required: false,
        ..mk_spread(cluster, key, 1, "web")
    };
    let spec = PodSpec {
        preferred_affinity: vec![(1, mk_term(&mut cluster, host, "a")), (9, mk_term(&mut cluster, rack, "a"))],
        preferred_anti_affinity: vec![(9, mk_term(&mut cluster, rack, "b")), (1, mk_term(&mut cluster, host, "b"))],
        preferred_terms: vec![(1, mk_in(&mut cluster, zone, &["light"])), (9, mk_in(&mut cluster, zone, &["heavy"]))],
        spread: vec![anyway(&mut cluster, rack), anyway(&mut cluster, host), mk_spread(&mut cluster, zone, 1, "web")],
        ..PodSpec::default()
    };
    let (_, demands) = mk_demands(&mut cluster, "web", spec);
    let words: Vec<String> = demands.iter().map(|demand| in_words(&cluster, demand)).collect();
    let expected = [
        "affinity/host affinity/rack anti-affinity/host anti-affinity/rack spread/host spread/rack spread/zone heavy taints",
        "affinity/host anti-affinity/host anti-affinity/rack spread/host spread/rack spread/zone heavy taints",
        "anti-affinity/host anti-affinity/rack spread/host spread/rack spread/zone heavy taints",
        "anti-affinity/host spread/host spread/rack spread/zone heavy taints",
        "spread/host spread/rack spread/zone heavy taints",
        "spread/host spread/rack spread/zone light taints",
        "spread/host spread/rack spread/zone taints",
        "spread/host spread/zone taints",
        "spread/zone taints",
        "spread/zone",
    ];
    assert_eq!(words, expected);
    assert_eq!(demands.iter().map(|demand| demand.relaxed).collect::<Vec<_>>(), (0..10).collect::<Vec<_>>());
}

#[test]
fn preferred_taints_that_are_tolerated_or_absent_need_no_relaxation() {
    for (has_taint, tolerates, expected) in [(false, false, 1), (true, true, 1), (true, false, 2)] {
        let mut cluster = Cluster::new();
        let mut pool = mk_pool(&mut cluster);
        let taint = mk_taint(&mut cluster, "team", "", Effect::PreferNoSchedule);
        let operator = TolerationOperator::Exists;
        let toleration = Toleration { key: Some(taint.key), operator, value: taint.value, effect: None };
        pool.taints.extend(has_taint.then_some(taint));
        cluster.node_pools.push(pool);
        let spec = PodSpec { tolerations: tolerates.then_some(toleration).into_iter().collect(), ..PodSpec::default() };
        assert_eq!(mk_demands(&mut cluster, "web", spec).1.len(), expected);
    }
}

#[test]
fn a_preferred_term_joins_the_selector_and_every_alternative() {
    let mut cluster = Cluster::new();
    let (zone, os, arch) = (cluster.well_known.zone, cluster.well_known.os, cluster.well_known.arch);
    let spec = PodSpec {
        node_selector: mk_in(&mut cluster, os, &["linux"]),
        required_terms: vec![mk_in(&mut cluster, zone, &["a", "b"]), mk_in(&mut cluster, zone, &["c"])],
        preferred_terms: vec![(1, mk_in(&mut cluster, arch, &["arm64"]))],
        ..PodSpec::default()
    };
    let (_, demands) = mk_demands(&mut cluster, "web", spec);
    let keys = |demand: &Demand| demand.terms.iter().map(|term| term.iter().count()).collect::<Vec<_>>();
    assert_eq!(demands.iter().map(keys).collect::<Vec<_>>(), [[3, 3], [2, 2]]);
}

#[test]
fn a_pod_that_counts_in_a_zone_has_its_zone_decided_though_it_is_not_constrained() {
    let mut cluster = Cluster::new();
    let (host, zone) = (cluster.well_known.hostname, cluster.well_known.zone);
    let spec = PodSpec {
        affinity: vec![mk_term(&mut cluster, host, "web")],
        preferred_affinity: vec![(1, mk_term(&mut cluster, zone, "web"))],
        ..PodSpec::default()
    };
    let (_, mut demands) = mk_demands(&mut cluster, "web", spec);
    let last = demands.pop().unwrap();
    assert!(last.keyed.is_empty());
    assert_eq!(last.decided_keys, [zone]);
    assert_eq!((last.keyed_counts.len(), last.host_counts.len()), (1, 1));
}
