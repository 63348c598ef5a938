//! Pod classes and counters: which pods no rule can tell apart, and who counts where.

use berth_model::{Cluster, Constraint, Labels, LiveUniverse, MemberKind, Namespace, PodSpec, Selector, Universe};

use crate::mk::{class_of, mk_labels, mk_node, mk_pods, mk_selector, mk_spread, mk_term};

fn n_owner_counters(universe: &Universe) -> usize {
    let counts_owners = |id: berth_model::CounterId| universe.counters[id.index()].counts_owners;
    let mut ids: Vec<_> = universe.classes.iter().flat_map(|class| &class.counts_in).copied().collect();
    ids.retain(|&id| counts_owners(id));
    ids.sort_unstable();
    ids.dedup();
    ids.len()
}

fn selects(universe: &Universe, owner: usize, other: usize) -> bool {
    let counters = universe.classes[class_of(universe, owner)].required.iter().map(Constraint::counter);
    counters.into_iter().any(|counter| universe.classes[class_of(universe, other)].counts_in.contains(&counter))
}

#[test]
fn labels_that_no_selector_asks_for_make_no_classes() {
    let mut cluster = Cluster::new();
    for n in 0..50 {
        let id = n.to_string();
        mk_pods(&mut cluster, ("default", &id), &[("app", "web"), ("pod-id", &id)], PodSpec::default(), 2);
    }
    let spec = PodSpec { spread: vec![mk_spread(&mut cluster, &[("app", "web")])], ..PodSpec::default() };
    mk_pods(&mut cluster, ("default", "asks"), &[("app", "web")], spec, 1);
    let universe = Universe::new(&mut cluster);
    let counts: Vec<u32> = universe.classes.iter().map(|class| class.count).collect();
    assert_eq!(counts, [100, 1]);
    assert_eq!(universe.classes[0].rows.len(), 50, "in 50 rows of their own names");
}

#[test]
fn labels_that_a_selector_asks_for_part_the_classes() {
    let mut cluster = Cluster::new();
    for n in 0..50 {
        let id = n.to_string();
        mk_pods(&mut cluster, ("default", &id), &[("pod-id", &id)], PodSpec::default(), 1);
    }
    let spec = PodSpec { spread: vec![mk_spread(&mut cluster, &[("pod-id", "7")])], ..PodSpec::default() };
    mk_pods(&mut cluster, ("default", "asks"), &[], spec, 1);
    let universe = Universe::new(&mut cluster);
    let counts: Vec<u32> = universe.classes.iter().map(|class| class.count).collect();
    assert_eq!(counts, [49, 1, 1]);
}

#[test]
fn reservations_and_pods_are_never_one_class() {
    let mut cluster = Cluster::new();
    mk_pods(&mut cluster, ("default", "web"), &[], PodSpec::default(), 3);
    let (namespace, spec) = (cluster.symbols.intern("default"), cluster.intern_spec(PodSpec::default()));
    let labels = cluster.intern_labels(Labels::default());
    let row = cluster.pending_row(MemberKind::Reservation, namespace, spec, labels).unwrap();
    row.members.push(berth_model::MemberRun { name: "room".into(), numbers: None });
    let universe = Universe::new(&mut cluster);
    let kinds: Vec<_> = universe.classes.iter().map(|class| (class.kind, class.count)).collect();
    assert_eq!(kinds, [(MemberKind::Pod, 3), (MemberKind::Reservation, 1)]);
}

#[test]
fn self_anti_affinity_needs_no_counter_of_owners() {
    let mut cluster = Cluster::new();
    let spec = PodSpec { anti_affinity: vec![mk_term(&mut cluster, &[("app", "web")])], ..PodSpec::default() };
    mk_pods(&mut cluster, ("default", "web"), &[("app", "web")], spec, 3);
    mk_pods(&mut cluster, ("default", "other"), &[("app", "other")], PodSpec::default(), 3);
    let universe = Universe::new(&mut cluster);
    assert_eq!(n_owner_counters(&universe), 0);
    assert!(
        matches!(universe.classes[0].required[..], [Constraint::AntiAffinity { counts_self: true, .. }]),
        "{:?}",
        universe.classes[0].required
    );
    assert!(universe.classes[1].required.is_empty());
}

#[test]
fn self_anti_affinity_keeps_pods_away_that_it_matches_and_that_do_not_ask_for_it() {
    let mut cluster = Cluster::new();
    let spec = PodSpec { anti_affinity: vec![mk_term(&mut cluster, &[("app", "web")])], ..PodSpec::default() };
    let owner = mk_pods(&mut cluster, ("default", "owner"), &[("app", "web")], spec, 3);
    let bare = mk_pods(&mut cluster, ("default", "bare"), &[("app", "web")], PodSpec::default(), 3);
    let universe = Universe::new(&mut cluster);
    assert!(selects(&universe, owner, bare) && selects(&universe, bare, owner));
    assert!(!selects(&universe, bare, bare), "they may share a node with each other");
}

#[test]
fn asymmetric_anti_affinity_keeps_both_sides_apart() {
    let mut cluster = Cluster::new();
    let spec = PodSpec { anti_affinity: vec![mk_term(&mut cluster, &[("app", "noisy")])], ..PodSpec::default() };
    let quiet = mk_pods(&mut cluster, ("default", "quiet"), &[("app", "quiet")], spec, 1);
    let noisy = mk_pods(&mut cluster, ("default", "noisy"), &[("app", "noisy")], PodSpec::default(), 1);
    let universe = Universe::new(&mut cluster);
    assert_eq!(n_owner_counters(&universe), 1);
    assert!(selects(&universe, quiet, noisy), "the owner stays away from who is matched");
    assert!(selects(&universe, noisy, quiet), "and who is matched from the owner");
    for row in [quiet, noisy] {
        let class = &universe.classes[class_of(&universe, row)];
        assert!(
            class.required.iter().all(|c| matches!(c, Constraint::AntiAffinity { counts_self: false, .. })),
            "{class:?}"
        );
    }
}

#[test]
fn anti_affinity_of_a_running_pod_keeps_pending_ones_away() {
    let mut cluster = Cluster::new();
    let spec = PodSpec { anti_affinity: vec![mk_term(&mut cluster, &[("app", "noisy")])], ..PodSpec::default() };
    mk_node(&mut cluster, "n1", "a", &[(&[("app", "quiet")], spec)]);
    let noisy = mk_pods(&mut cluster, ("default", "noisy"), &[("app", "noisy")], PodSpec::default(), 1);
    let universe = Universe::new(&mut cluster);
    let running = &universe.classes[universe.bound[0][0].index()];
    let asks: Vec<_> = universe.classes[class_of(&universe, noisy)].required.iter().map(Constraint::counter).collect();
    assert_eq!((asks.len(), running.count), (1, 0));
    assert!(running.counts_in.contains(&asks[0]));
}

#[test]
fn a_term_looks_at_its_own_namespace_the_named_ones_and_those_that_its_selector_matches() {
    let everywhere = Some(Selector { requirements: Some(berth_model::Requirements::new()) });
    for (names, by_label, expected) in [
        (vec![], None, [true, false, false]),
        (vec!["b"], None, [false, true, false]),
        (vec!["a", "b"], None, [true, true, false]),
        (vec![], Some(("team", "blue")), [false, false, true]),
        (vec!["b"], Some(("team", "blue")), [false, true, true]),
        (vec![], Some(("kubernetes.io/metadata.name", "b")), [false, true, false]),
        (vec![], Some(("*", "")), [true, true, true]),
    ] {
        let mut cluster = Cluster::new();
        let blue = mk_labels(&mut cluster, &[("kubernetes.io/metadata.name", "c"), ("team", "blue")]);
        let name = cluster.symbols.intern("c");
        cluster.namespaces.push(Namespace { name, labels: blue });
        let mut term = mk_term(&mut cluster, &[("app", "web")]);
        term.namespaces = names.iter().map(|name| cluster.symbols.intern(name)).collect();
        term.namespace_selector = match by_label {
            Some(("*", _)) => everywhere.clone(),
            Some(pair) => Some(mk_selector(&mut cluster, &[pair])),
            None => None,
        };
        let spec = PodSpec { affinity: vec![term], ..PodSpec::default() };
        let owner = mk_pods(&mut cluster, ("a", "owner"), &[("app", "owner")], spec, 1);
        let webs = ["a", "b", "c"]
            .map(|namespace| mk_pods(&mut cluster, (namespace, "web"), &[("app", "web")], PodSpec::default(), 1));
        let universe = Universe::new(&mut cluster);
        assert_eq!(webs.map(|web| selects(&universe, owner, web)), expected, "{names:?} {by_label:?}");
    }
}

#[test]
fn match_label_keys_count_each_revision_apart_and_mismatch_keys_every_other() {
    let rows = |mismatch: bool| {
        let mut cluster = Cluster::new();
        let hash = cluster.symbols.intern("pod-template-hash");
        let mut term = mk_term(&mut cluster, &[("app", "web")]);
        if mismatch { &mut term.mismatch_label_keys } else { &mut term.match_label_keys }.push(hash);
        let spec = PodSpec { affinity: vec![term], ..PodSpec::default() };
        let [old, new] = ["1", "2"].map(|hash| {
            mk_pods(&mut cluster, ("d", hash), &[("app", "web"), ("pod-template-hash", hash)], spec.clone(), 1)
        });
        let universe = Universe::new(&mut cluster);
        [(old, old), (old, new), (new, old), (new, new)].map(|(owner, other)| selects(&universe, owner, other))
    };
    assert_eq!(rows(false), [true, false, false, true]);
    assert_eq!(rows(true), [false, true, true, false]);
}

#[test]
fn a_spread_with_match_label_keys_counts_only_its_own_revision() {
    let mut cluster = Cluster::new();
    let mut spread = mk_spread(&mut cluster, &[("app", "web")]);
    spread.match_label_keys.push(cluster.symbols.intern("pod-template-hash"));
    let spec = PodSpec { spread: vec![spread], ..PodSpec::default() };
    let [old, new] = ["1", "2"].map(|hash| {
        mk_pods(&mut cluster, ("d", hash), &[("app", "web"), ("pod-template-hash", hash)], spec.clone(), 1)
    });
    let universe = Universe::new(&mut cluster);
    assert!(selects(&universe, old, old) && !selects(&universe, old, new) && !selects(&universe, new, old));
}

#[test]
fn an_absent_selector_counts_nobody_not_even_its_owner() {
    let mut cluster = Cluster::new();
    let mut spread = mk_spread(&mut cluster, &[]);
    spread.selector = Selector { requirements: None };
    let spec = PodSpec { spread: vec![spread], ..PodSpec::default() };
    let row = mk_pods(&mut cluster, ("d", "web"), &[("app", "web")], spec, 2);
    let universe = Universe::new(&mut cluster);
    let class = &universe.classes[class_of(&universe, row)];
    assert!(class.counts_in.is_empty());
    assert!(matches!(class.required[..], [Constraint::Spread { counts_self: false, .. }]), "{:?}", class.required);
}

#[test]
fn an_empty_selector_counts_every_pod_of_the_namespace() {
    let mut cluster = Cluster::new();
    let spread = mk_spread(&mut cluster, &[]);
    let spec = PodSpec { spread: vec![spread], ..PodSpec::default() };
    let owner = mk_pods(&mut cluster, ("d", "web"), &[("app", "web")], spec, 2);
    let same = mk_pods(&mut cluster, ("d", "other"), &[], PodSpec::default(), 1);
    let elsewhere = mk_pods(&mut cluster, ("e", "other"), &[], PodSpec::default(), 1);
    let universe = Universe::new(&mut cluster);
    assert!(selects(&universe, owner, owner) && selects(&universe, owner, same));
    assert!(!selects(&universe, owner, elsewhere));
}

#[test]
fn a_preference_counts_but_does_not_bind() {
    let mut cluster = Cluster::new();
    let spread = berth_model::SpreadConstraint { is_required: false, ..mk_spread(&mut cluster, &[("app", "web")]) };
    let spec = PodSpec { spread: vec![spread], ..PodSpec::default() };
    let row = mk_pods(&mut cluster, ("d", "web"), &[("app", "web")], spec, 2);
    let universe = Universe::new(&mut cluster);
    let class = &universe.classes[class_of(&universe, row)];
    assert!(class.required.is_empty());
    assert_eq!((class.preferred.spread.len(), class.counts_in.len()), (1, 1));
}

/// The regression: each plan of a few nodes copied the names of everything in the cluster.
#[test]
fn a_cluster_that_shares_its_names_shares_them_still_once_it_is_reduced() {
    let mut cluster = Cluster::new();
    mk_pods(&mut cluster, ("default", "web"), &[], PodSpec::default(), 3);
    Universe::new(&mut cluster);
    let mut supply = cluster.without_nodes();
    Universe::new(&mut supply);
    assert!(supply.symbols.is_same(&cluster.symbols));
}

#[test]
fn a_position_that_is_another_pods_by_now_is_found_out() {
    let mut cluster = Cluster::new();
    let small = PodSpec { priority: 1, ..PodSpec::default() };
    mk_node(&mut cluster, "n", "z", &[(&[], PodSpec::default()), (&[], small)]);
    let mut classes = LiveUniverse::new(&cluster);
    let [first, _] = &cluster.nodes[0].pods[..] else { panic!("two pods") };
    assert!(classes.pod_left(0, 0, first).is_some());
    assert!(!classes.has_all_pods_of(&cluster), "the node has it yet");
    // What is told twice is about the pod that came to its place.
    let told = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| classes.pod_left(0, 0, first))).ok();
    assert_eq!(told, if cfg!(debug_assertions) { None } else { Some(None) });
}
