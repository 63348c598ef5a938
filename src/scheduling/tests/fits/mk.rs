//! Small clusters, built by hand.

use berth_model::{
    CapacityType, ClassId, Cluster, Effect, InstanceType, Labels, MemberKind, MemberRun, Money, Node, NodePool,
    Offering, PodSpec, PodTerm, Requirement, Requirements, Resources, Selector, SpreadConstraint, Sym, Taint, Universe,
};
use berth_scheduling::{Demand, demands};

/// `In` on one key.
pub(crate) fn mk_in(cluster: &mut Cluster, key: Sym, values: &[&str]) -> Requirements {
    let values: Vec<Sym> = values.iter().map(|value| cluster.symbols.intern(value)).collect();
    let mut requirements = Requirements::new();
    requirements.add(key, Requirement::one_of(values), &cluster.symbols);
    requirements
}

/// `matchLabels` of `app`.
pub(crate) fn mk_selector(cluster: &mut Cluster, app: &str) -> Selector {
    let key = cluster.symbols.intern("app");
    Selector { requirements: Some(mk_in(cluster, key, &[app])) }
}

pub(crate) fn mk_term(cluster: &mut Cluster, key: Sym, app: &str) -> PodTerm {
    PodTerm {
        key,
        selector: mk_selector(cluster, app),
        namespaces: Vec::new(),
        namespace_selector: None,
        match_label_keys: Vec::new(),
        mismatch_label_keys: Vec::new(),
    }
}

pub(crate) fn mk_spread(cluster: &mut Cluster, key: Sym, max_skew: u32, app: &str) -> SpreadConstraint {
    SpreadConstraint {
        key,
        max_skew,
        min_domains: None,
        is_required: true,
        selector: mk_selector(cluster, app),
        match_label_keys: Vec::new(),
        honors_node_affinity: false,
        honors_taints: false,
    }
}

pub(crate) fn mk_taint(cluster: &mut Cluster, key: &str, value: &str, effect: Effect) -> Taint {
    Taint { key: cluster.symbols.intern(key), value: cluster.symbols.intern(value), effect }
}

/// A pool that admits everything.
pub(crate) fn mk_pool(cluster: &mut Cluster) -> NodePool {
    NodePool {
        name: cluster.symbols.intern("default"),
        weight: 0,
        requirements: Requirements::new(),
        taints: Vec::new(),
        limits: Vec::new(),
        node_limit: None,
        used: Resources::new(),
        nodes: 0,
        reserved: Resources::new(),
        node_class: None,
        refusal: None,
    }
}

/// One instance type, offered in these zones, the first the cheapest.
pub(crate) fn mk_type(cluster: &mut Cluster, zones: &[&str]) {
    let offerings = zones.iter().zip(1..).map(|(zone, price)| {
        let zone = cluster.symbols.intern(zone);
        Offering {
            capacity_type: CapacityType::OnDemand,
            zone: Some(zone),
            price: Money::from_pico(price),
            list_price: Money::from_pico(price),
            slots: None,
            labels: Labels::new([(cluster.well_known.zone, zone)]),
        }
    });
    let offerings = offerings.collect();
    let name = cluster.symbols.intern("small");
    cluster.instance_types.push(InstanceType {
        name,
        labels: Labels::new([(cluster.well_known.instance_type, name)]),
        operating_systems: Vec::new(),
        node_class: None,
        resources: Resources::from_amounts(&[2000, 1 << 33, 10]),
        offerings,
        sold_out: Vec::new(),
    });
}

/// A node of a zone.
pub(crate) fn mk_node(cluster: &mut Cluster, name: &str, zone: &str) -> Node {
    let (name, zone) = (cluster.symbols.intern(name), cluster.symbols.intern(zone));
    Node {
        name,
        labels: Labels::new([(cluster.well_known.hostname, name), (cluster.well_known.zone, zone)]),
        open: berth_model::Requirements::new(),
        taints: Vec::new(),
        free: Resources::from_amounts(&[2000, 1 << 33, 10]),
        allocatable: Resources::from_amounts(&[2000, 1 << 33, 10]),
        capacity: Resources::from_amounts(&[2000, 1 << 33, 10]),
        cordon: berth_model::Cordon::None,
        is_coming_up: false,
        is_leaving: false,
        images: Vec::new(),
        node_pool: None,
        attach_limits: Vec::new(),
        volume_pools: Vec::new(),
        holdings: Vec::new(),
        units: berth_model::Units::default(),
        pods: Vec::new(),
    }
}

/// One pending pod with the label `app`, and its demands, from all preferences kept to none.
pub(crate) fn mk_demands(cluster: &mut Cluster, app: &str, spec: PodSpec) -> (Universe, Vec<Demand>) {
    let (key, app) = (cluster.symbols.intern("app"), cluster.symbols.intern(app));
    let namespace = cluster.symbols.intern("default");
    let (spec, labels) = (cluster.intern_spec(spec), cluster.intern_labels(Labels::new([(key, app)])));
    let row = cluster.pending_row(MemberKind::Pod, namespace, spec, labels).unwrap();
    row.members.push(MemberRun { name: "web".into(), numbers: None });
    let universe = Universe::new(cluster);
    let demands = demands(cluster, &universe, ClassId(0));
    (universe, demands)
}

/// The demand of a pod that prefers nothing.
pub(crate) fn mk_demand(cluster: &mut Cluster, spec: PodSpec) -> Demand {
    mk_demands(cluster, "web", spec).1.pop().unwrap()
}
