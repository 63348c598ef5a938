//! What a NodePool and a node admit, whatever else is on them.

use berth_model::{
    Cluster, ColumnTable, Daemon, Effect, HostPort, Labels, NodeFilter, NodePool, PodSpec, PodTerm, Requirement,
    Requirements, Selector, SpecId, Sym, Toleration, TolerationOperator, Volumes,
};
use berth_scheduling::{Demand, admit, admits_node, filter_admits_node, filter_passages};

use crate::mk::{mk_demand, mk_in, mk_node, mk_pool, mk_taint, mk_type};

/// Zones `a`, `b`, `c`; the pool leaves `team` open between `blue` and `red`.
fn mk_world() -> (Cluster, NodePool) {
    let mut cluster = Cluster::new();
    mk_type(&mut cluster, &["a", "b", "c"]);
    let mut pool = mk_pool(&mut cluster);
    let team = cluster.symbols.intern("team");
    pool.requirements = mk_in(&mut cluster, team, &["blue", "red"]);
    (cluster, pool)
}

/// Each admission: its zones and its teams.
fn admitted(cluster: &Cluster, pool: &NodePool, demand: &Demand) -> Vec<String> {
    let table = ColumnTable::new(cluster, pool);
    let text = |sym| cluster.symbols.text(sym);
    let team = cluster.symbols.get("team").unwrap();
    let in_words = |admission: &berth_scheduling::Admission| {
        let zones: String = admission
            .columns
            .ones()
            .filter_map(|at| table.columns[at].zone)
            .map(|zone| text(zone).to_owned())
            .collect();
        let teams = admission.open.get(team).and_then(Requirement::finite_values).unwrap_or_default();
        let teams: Vec<&str> = teams.iter().map(|&team| text(team)).collect();
        format!("{zones} {}", teams.join("|"))
    };
    admit(cluster, pool, &table, demand).iter().map(in_words).collect()
}

#[test]
fn alternatives_that_agree_on_open_labels_are_one_admission_and_others_apart() {
    type Term<'a> = &'a [(&'a str, &'a str)];
    let table: [(&[Term<'_>], &[&str]); 6] = [
        (&[], &["abc blue|red"]),
        (&[&[("zone", "a")], &[("zone", "c")]], &["ac blue|red"]),
        (&[&[("zone", "a"), ("team", "red")], &[("zone", "b")]], &["a red", "b blue|red"]),
        (&[&[("team", "green")], &[("zone", "b")]], &["b blue|red"]),
        (&[&[("team", "green")]], &[]),
        (&[&[("zone", "x")]], &[]),
    ];
    for (terms, expected) in table {
        let (mut cluster, pool) = mk_world();
        let mut required_terms = Vec::new();
        for pairs in terms {
            let mut term = Requirements::new();
            for (key, value) in *pairs {
                let key = if *key == "zone" { cluster.well_known.zone } else { cluster.symbols.intern(key) };
                let more = mk_in(&mut cluster, key, &[value]);
                term.add_all(&more, &cluster.symbols);
            }
            required_terms.push(term);
        }
        let demand = mk_demand(&mut cluster, PodSpec { required_terms, ..PodSpec::default() });
        assert_eq!(admitted(&cluster, &pool, &demand), expected, "{terms:?}");
    }
}

#[test]
fn each_volume_needs_one_of_its_alternatives() {
    type Alternatives<'a> = &'a [&'a [&'a str]];
    let table: [(&[Alternatives<'_>], &[&str]); 5] = [
        (&[&[&["a"]]], &["a blue|red"]),
        (&[&[&["a"], &["b"]]], &["ab blue|red"]),
        (&[&[&["a", "b"]], &[&["b", "c"]]], &["b blue|red"]),
        (&[&[&["a"]], &[&["b"]]], &[]),
        (&[&[]], &[]),
    ];
    for (volumes, expected) in table {
        let (mut cluster, pool) = mk_world();
        let zone = cluster.well_known.zone;
        let mut topologies = Vec::new();
        for volume in volumes {
            topologies.push(volume.iter().map(|zones| mk_in(&mut cluster, zone, zones)).collect::<Vec<_>>());
        }
        let volumes_of = Volumes { topologies, ..Volumes::default() };
        let demand = mk_demand(&mut cluster, PodSpec { volumes: volumes_of, ..PodSpec::default() });
        assert_eq!(admitted(&cluster, &pool, &demand), expected, "{volumes:?}");
        let nodes = ["a", "b", "c"].map(|zone| mk_node(&mut cluster, zone, zone));
        let on_nodes: String = nodes
            .iter()
            .filter(|node| admits_node(&cluster, node, &demand))
            .map(|node| cluster.symbols.text(node.name))
            .collect();
        let on_columns = expected.first().and_then(|words| words.split(' ').next()).unwrap_or_default();
        assert_eq!(on_nodes, on_columns, "a node is a bin with one candidate: {volumes:?}");
    }
}

#[test]
fn taints_keep_off_who_does_not_tolerate_them_preferred_ones_only_while_they_count() {
    for (effect, tolerates, avoids, expected) in [
        (Effect::NoSchedule, false, false, false),
        (Effect::NoExecute, false, false, false),
        (Effect::NoSchedule, true, true, true),
        (Effect::PreferNoSchedule, false, true, false),
        (Effect::PreferNoSchedule, false, false, true),
        (Effect::PreferNoSchedule, true, true, true),
    ] {
        let (mut cluster, mut pool) = mk_world();
        let taint = mk_taint(&mut cluster, "gpu", "", effect);
        let operator = TolerationOperator::Exists;
        let toleration = Toleration { key: Some(taint.key), operator, value: taint.value, effect: None };
        let tolerations = tolerates.then_some(toleration).into_iter().collect();
        let mut demand = mk_demand(&mut cluster, PodSpec { tolerations, ..PodSpec::default() });
        demand.avoids_preferred_taints = avoids;
        let mut node = mk_node(&mut cluster, "n1", "a");
        node.taints.push(taint.clone());
        pool.taints.push(taint);
        let label = format!("{effect:?}, tolerates {tolerates}, avoids {avoids}");
        assert_eq!(!admitted(&cluster, &pool, &demand).is_empty(), expected, "{label}");
        assert_eq!(admits_node(&cluster, &node, &demand), expected, "{label}");
    }
}

fn mk_daemon(cluster: &mut Cluster, app: &str, spec: SpecId) {
    let (key, value) = (cluster.symbols.intern("app"), cluster.symbols.intern(app));
    let (namespace, labels) = (cluster.symbols.intern("default"), cluster.intern_labels(Labels::new([(key, value)])));
    cluster.daemons.push(Daemon { name: format!("default/{app}"), namespace, spec, labels });
}

fn mk_apart(cluster: &mut Cluster, key: Sym, app: &str) -> Vec<PodTerm> {
    let own = cluster.symbols.intern("app");
    let selector = Selector { requirements: Some(mk_in(cluster, own, &[app])) };
    let (namespaces, match_label_keys, mismatch_label_keys) = (Vec::new(), Vec::new(), Vec::new());
    vec![PodTerm { key, selector, namespaces, namespace_selector: None, match_label_keys, mismatch_label_keys }]
}

#[test]
fn a_pod_is_not_beside_a_daemon_that_anti_affinity_keeps_it_from() {
    let keys = [
        ("kubernetes.io/hostname", ["c blue|red"]),
        ("topology.kubernetes.io/zone", ["c blue|red"]),
        ("example.com/rack", ["abc blue|red"]),
    ];
    for (name, expected) in keys {
        for is_of_daemon in [false, true] {
            let (mut cluster, pool) = mk_world();
            let key = cluster.symbols.intern(name);
            let zone = cluster.well_known.zone;
            let node_selector = mk_in(&mut cluster, zone, &["a", "b"]);
            let mut daemon = PodSpec { node_selector, ..PodSpec::default() };
            let mut pod = PodSpec::default();
            if is_of_daemon {
                daemon.anti_affinity = mk_apart(&mut cluster, key, "web");
            } else {
                pod.anti_affinity = mk_apart(&mut cluster, key, "agent");
            }
            let daemon = cluster.intern_spec(daemon);
            mk_daemon(&mut cluster, "agent", daemon);
            let demand = mk_demand(&mut cluster, pod);
            assert_eq!(admitted(&cluster, &pool, &demand), expected, "{name}, of the daemon: {is_of_daemon}");
        }
    }
}

#[test]
fn a_port_that_a_daemon_uses_is_not_to_be_had_where_the_daemon_runs() {
    let (mut cluster, pool) = mk_world();
    let protocol = cluster.symbols.intern("TCP");
    let port = |port| vec![HostPort { ip: None, protocol, port }];
    let zone = cluster.well_known.zone;
    let node_selector = mk_in(&mut cluster, zone, &["a", "b"]);
    let spec = cluster.intern_spec(PodSpec { node_selector, host_ports: port(9100), ..PodSpec::default() });
    mk_daemon(&mut cluster, "exporter", spec);
    let demand = mk_demand(&mut cluster, PodSpec { host_ports: port(9100), ..PodSpec::default() });
    assert_eq!(admitted(&cluster, &pool, &demand), ["c blue|red"]);
    let (mut cluster, pool) = mk_world();
    let demand = mk_demand(&mut cluster, PodSpec { host_ports: port(80), ..PodSpec::default() });
    assert_eq!(admitted(&cluster, &pool, &demand), ["abc blue|red"]);
}

#[test]
fn a_refused_pool_admits_nobody() {
    let (mut cluster, mut pool) = mk_world();
    pool.refusal = Some("NodePool is being deleted".to_owned());
    let demand = mk_demand(&mut cluster, PodSpec::default());
    assert!(admitted(&cluster, &pool, &demand).is_empty());
}

#[test]
fn node_affinity_matches_a_node_by_its_name_field() {
    let mut cluster = Cluster::new();
    let nodes = ["n1", "n2"].map(|name| mk_node(&mut cluster, name, "a"));
    let field = cluster.well_known.field_name;
    let required_terms = vec![mk_in(&mut cluster, field, &["n2"])];
    let demand = mk_demand(&mut cluster, PodSpec { required_terms, ..PodSpec::default() });
    assert_eq!(nodes.map(|node| admits_node(&cluster, &node, &demand)), [false, true]);
}

#[test]
fn a_node_filter_sees_nodes_and_columns_alike() {
    let (mut cluster, mut pool) = mk_world();
    let zone = cluster.well_known.zone;
    let filter = NodeFilter {
        node_selector: mk_in(&mut cluster, zone, &["a", "b"]),
        required_terms: vec![mk_in(&mut cluster, zone, &["b", "c"]), mk_in(&mut cluster, zone, &["c"])],
        tolerations: Some(Vec::new()),
        keys: Vec::new(),
        places: Vec::new(),
    };
    let zones = |cluster: &Cluster, pool: &NodePool| {
        let table = ColumnTable::new(cluster, pool);
        let passages = filter_passages(cluster, pool, &table, &filter);
        assert!(passages.len() < 2 && passages.iter().all(|passage| passage.open.is_empty()));
        let columns = passages.iter().flat_map(|passage| passage.columns.ones());
        let names = columns.filter_map(|at| table.columns[at].zone).map(|zone| cluster.symbols.text(zone));
        names.map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(zones(&cluster, &pool), ["b"]);
    let mut nodes = ["a", "b", "c"].map(|zone| mk_node(&mut cluster, zone, zone));
    assert_eq!(nodes.each_ref().map(|node| filter_admits_node(&cluster, node, &filter)), [false, true, false]);
    let taint = mk_taint(&mut cluster, "gpu", "", Effect::NoSchedule);
    nodes[1].taints.push(taint.clone());
    pool.taints.push(taint);
    assert!(zones(&cluster, &pool).is_empty() && !filter_admits_node(&cluster, &nodes[1], &filter));
}
