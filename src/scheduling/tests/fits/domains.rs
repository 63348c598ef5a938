//! Which domains are open to a pod, given the counts.

use berth_model::{Cluster, Constraint, PodSpec, Snapshot, Sym};
use berth_scheduling::topology::Domains;

use crate::mk::{mk_demands, mk_spread, mk_term};

/// What a pod asks of the zone.
#[derive(Clone, Copy, Debug)]
enum Asks {
    Spread { max_skew: u32, min_domains: Option<u32> },
    Affinity,
    AntiAffinity,
}

/// Zones `a`, `b`, … with these counts, seen by a pod that counts itself or not.
fn mk_domains(asks: Asks, counts_self: bool, counts: &[u32], eligible: &[bool]) -> Domains {
    let mut cluster = Cluster::new();
    let zone = cluster.well_known.zone;
    let mut spec = PodSpec::default();
    match asks {
        Asks::Spread { max_skew, min_domains } => {
            spec.spread =
                vec![berth_model::SpreadConstraint { min_domains, ..mk_spread(&mut cluster, zone, max_skew, "web") }];
        }
        Asks::Affinity => spec.affinity = vec![mk_term(&mut cluster, zone, "web")],
        Asks::AntiAffinity => spec.anti_affinity = vec![mk_term(&mut cluster, zone, "web")],
    }
    let app = if counts_self { "web" } else { "other" };
    let (universe, demands) = mk_demands(&mut cluster, app, spec);
    let constraints: Vec<Constraint> = demands[0].keyed[0].1.clone();
    let mut state = Snapshot::new(&cluster, &universe, |_, _| true);
    let names: Vec<Sym> =
        ["a", "b", "c", "d"].iter().take(counts.len()).map(|name| cluster.symbols.intern(name)).collect();
    for (&name, &count) in names.iter().zip(counts) {
        for constraint in &constraints {
            if count > 0 {
                state.add_count(constraint.counter(), Some(name), count);
            }
        }
    }
    let known = names.clone();
    Domains::new(&state, names, &constraints, |_, name| {
        known.iter().position(|&known| known == name).is_none_or(|at| eligible.get(at).copied().unwrap_or(true))
    })
}

fn open(domains: &Domains) -> Vec<bool> {
    (0..domains.names.len()).map(|at| domains.allows(at)).collect()
}

#[test]
fn a_spread_allows_domains_within_the_skew() {
    // max skew, min domains, whether the pod counts itself, counts, eligible domains, open domains.
    type Row = (u32, Option<u32>, bool, &'static [u32], &'static [bool], &'static [bool]);
    let table: [Row; 12] = [
        (1, None, true, &[0, 0, 0], &[], &[true, true, true]),
        (1, None, true, &[1, 0, 0], &[], &[false, true, true]),
        (1, None, true, &[2, 1, 1], &[], &[false, true, true]),
        (2, None, true, &[2, 1, 1], &[], &[true, true, true]),
        (2, None, true, &[3, 1, 1], &[], &[false, true, true]),
        (1, None, true, &[5, 5, 5], &[], &[true, true, true]),
        // A pod that does not count itself adds nothing.
        (1, None, false, &[1, 0, 0], &[], &[true, true, true]),
        (1, None, false, &[2, 0, 0], &[], &[false, true, true]),
        // With fewer domains than minDomains the least count is 0.
        (1, Some(4), true, &[1, 1, 1], &[], &[false, false, false]),
        (2, Some(4), true, &[1, 1, 1], &[], &[true, true, true]),
        (1, Some(3), true, &[1, 1, 1], &[], &[true, true, true]),
        // A domain that the node filter leaves out neither takes pods nor holds others back.
        (1, None, true, &[1, 0, 1], &[true, false, true], &[true, false, true]),
    ];
    for (max_skew, min_domains, counts_self, counts, eligible, expected) in table {
        let domains = mk_domains(Asks::Spread { max_skew, min_domains }, counts_self, counts, eligible);
        assert_eq!(open(&domains), expected, "skew {max_skew}, min {min_domains:?}, {counts_self}, {counts:?}");
    }
}

#[test]
fn counting_pods_one_by_one_keeps_a_spread_within_its_skew() {
    let mut domains = mk_domains(Asks::Spread { max_skew: 2, min_domains: None }, true, &[4, 0, 1], &[]);
    let mut counts = [4_u32, 0, 1];
    for _ in 0..20 {
        let at = (0..3).rev().find(|&at| domains.allows(at)).unwrap();
        domains.add(at);
        counts[at] += 1;
        assert_eq!(domains.load(at), u64::from(counts[at]));
        assert!(counts[at] - counts.iter().min().unwrap() <= 2, "{counts:?}");
    }
}

#[test]
fn the_first_pod_of_an_affinity_may_go_anywhere_only_if_it_matches_itself() {
    for (counts_self, counts, expected, chooses) in [
        (true, [0, 0], [true, true], true),
        (false, [0, 0], [false, false], false),
        (true, [0, 3], [false, true], false),
        (false, [0, 3], [false, true], false),
    ] {
        let domains = mk_domains(Asks::Affinity, counts_self, &counts, &[]);
        assert_eq!(open(&domains), expected, "{counts_self} {counts:?}");
        assert_eq!(domains.chooses_home(), chooses);
    }
}

#[test]
fn the_first_pod_of_an_affinity_chooses_for_all() {
    let mut domains = mk_domains(Asks::Affinity, true, &[0, 0, 0], &[]);
    domains.add(1);
    assert_eq!(open(&domains), [false, true, false]);
    assert!(!domains.chooses_home());
}

#[test]
fn anti_affinity_allows_domains_without_any_and_closes_them_one_by_one() {
    let mut domains = mk_domains(Asks::AntiAffinity, true, &[0, 2, 0], &[]);
    assert_eq!(open(&domains), [true, false, true]);
    domains.add(0);
    assert_eq!(open(&domains), [false, false, true]);
}
