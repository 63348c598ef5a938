//! Small clusters, built by hand.

use berth_model::{
    BoundPod, Cluster, Labels, MemberKind, MemberRun, Node, PodSpec, PodTerm, Requirement, Requirements, Resources,
    Selector, SpreadConstraint, Universe,
};

/// `matchLabels` of pairs.
pub(crate) fn mk_selector(cluster: &mut Cluster, pairs: &[(&str, &str)]) -> Selector {
    let mut requirements = Requirements::new();
    for (key, value) in pairs {
        let (key, value) = (cluster.symbols.intern(key), cluster.symbols.intern(value));
        requirements.add(key, Requirement::value(value), &cluster.symbols);
    }
    Selector { requirements: Some(requirements) }
}

/// A term on the hostname, in the pod's own namespace.
pub(crate) fn mk_term(cluster: &mut Cluster, pairs: &[(&str, &str)]) -> PodTerm {
    PodTerm {
        key: cluster.well_known.hostname,
        selector: mk_selector(cluster, pairs),
        namespaces: Vec::new(),
        namespace_selector: None,
        match_label_keys: Vec::new(),
        mismatch_label_keys: Vec::new(),
    }
}

/// A zone spread of skew 1 over the pods with these labels.
pub(crate) fn mk_spread(cluster: &mut Cluster, pairs: &[(&str, &str)]) -> SpreadConstraint {
    SpreadConstraint {
        key: cluster.well_known.zone,
        max_skew: 1,
        min_domains: None,
        is_required: true,
        selector: mk_selector(cluster, pairs),
        match_label_keys: Vec::new(),
        honors_node_affinity: false,
        honors_taints: false,
    }
}

pub(crate) fn mk_labels(cluster: &mut Cluster, pairs: &[(&str, &str)]) -> Labels {
    Labels::new(pairs.iter().map(|(key, value)| (cluster.symbols.intern(key), cluster.symbols.intern(value))))
}

/// A row of pending pods `name-0 …`; returns its index.
pub(crate) fn mk_pods(
    cluster: &mut Cluster,
    place: (&str, &str),
    labels: &[(&str, &str)],
    spec: PodSpec,
    count: u32,
) -> usize {
    let (namespace, name) = place;
    let namespace = cluster.symbols.intern(namespace);
    let (spec, labels) = (cluster.intern_spec(spec), mk_labels(cluster, labels));
    let labels = cluster.intern_labels(labels);
    let row = cluster.pending_row(MemberKind::Pod, namespace, spec, labels).unwrap();
    row.members.push(MemberRun { name: name.into(), numbers: Some((0, count)) });
    let known = |row: &berth_model::PendingRow| (row.namespace, row.spec, row.labels) == (namespace, spec, labels);
    cluster.pending.iter().position(known).unwrap()
}

/// A node of a zone with one running pod of each of these.
pub(crate) fn mk_node(cluster: &mut Cluster, name: &str, zone: &str, pods: &[(&[(&str, &str)], PodSpec)]) {
    let labels = mk_labels(cluster, &[("kubernetes.io/hostname", name), ("topology.kubernetes.io/zone", zone)]);
    let namespace = cluster.symbols.intern("default");
    let mut bound = Vec::new();
    for (labels, spec) in pods {
        let (spec, labels) = (cluster.intern_spec(spec.clone()), mk_labels(cluster, labels));
        let labels = cluster.intern_labels(labels);
        bound.push(BoundPod {
            namespace,
            name: name.into(),
            spec,
            labels,
            stage: berth_model::PodStage::Bound,
            started: i64::MAX,
            draws_from: None,
            candidate: None,
            replaced_by: None,
            assigned: None,
            has_held_room: false,
        });
    }
    let name = cluster.symbols.intern(name);
    cluster.nodes.push(Node {
        name,
        labels,
        open: berth_model::Requirements::new(),
        taints: Vec::new(),
        free: Resources::from_amounts(&[4000, 1 << 34, 10]),
        allocatable: Resources::from_amounts(&[4000, 1 << 34, 10]),
        capacity: Resources::from_amounts(&[4000, 1 << 34, 10]),
        cordon: berth_model::Cordon::None,
        is_coming_up: false,
        is_leaving: false,
        images: Vec::new(),
        node_pool: None,
        attach_limits: Vec::new(),
        volume_pools: Vec::new(),
        holdings: Vec::new(),
        units: berth_model::Units::default(),
        pods: bound,
    });
}

/// The class that a pending row belongs to.
pub(crate) fn class_of(universe: &Universe, row: usize) -> usize {
    universe.classes.iter().position(|class| class.rows.iter().any(|known| known.index() == row)).unwrap()
}
