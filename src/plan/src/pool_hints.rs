//! Why no instance type meets what a NodePool requires: which requirement no type has, or which two no type has at once.

use std::collections::{BTreeMap, BTreeSet};

use berth_manifests::nearest;
use berth_model::{Cluster, ColumnTable, NodePool, Requirement, Requirements, Sym};
use berth_quantity::Operator;
use berth_scheduling::reasons::{NO_TYPE, said_by_pool};

use crate::FeatureGates;
use crate::hints::{NO_RESERVED, listed};

/// By name of a NodePool that nothing can be launched from: why.
pub(crate) struct PoolHints<'a> {
    cluster: &'a Cluster,
    gates: &'a FeatureGates,
    known: BTreeMap<String, Option<String>>,
}

impl<'a> PoolHints<'a> {
    pub(crate) fn new(cluster: &'a Cluster, gates: &'a FeatureGates) -> Self {
        PoolHints { cluster, gates, known: BTreeMap::new() }
    }

    /// What explains a reason such as `NodePool web: no instance type meets its requirements`; `None` for other reasons.
    pub(crate) fn of_reason(&mut self, reason: &str) -> Option<String> {
        let (name, why) = said_by_pool(reason)?;
        if why == NO_TYPE { self.of_pool(name) } else { None }
    }

    /// Why nothing can be launched from the NodePool of this name.
    pub(crate) fn of_pool(&mut self, name: &str) -> Option<String> {
        let (cluster, gates) = (self.cluster, self.gates);
        let find = || cluster.node_pools.iter().find(|pool| cluster.symbols.text(pool.name) == name);
        let why = || find().and_then(|pool| why(cluster, gates, pool));
        self.known.entry(name.to_owned()).or_insert_with(why).clone()
    }
}

fn why(cluster: &Cluster, gates: &FeatureGates, pool: &NodePool) -> Option<String> {
    let name = cluster.symbols.text(pool.name);
    let mut asked: Vec<(Sym, &Requirement)> = pool.requirements.iter().collect();
    asked.sort_by_key(|(key, _)| cluster.symbols.text(*key));
    if !has_types(cluster, pool, &[]) {
        return Some(format!("no instance type of the catalogue is for the node class of NodePool {name}"));
    }
    for &(key, requirement) in &asked {
        if !has_types(cluster, pool, &[(key, requirement)]) {
            let said = in_words(cluster, key, requirement);
            let instead = instead(cluster, gates, pool, key, requirement);
            return Some(format!("no instance type has {said}, which NodePool {name} requires: {instead}"));
        }
    }
    for (at, &first) in asked.iter().enumerate() {
        let second = asked.iter().skip(at + 1).find(|second| !has_types(cluster, pool, &[first, **second]));
        if let Some(&second) = second {
            let [first, second] = [first, second].map(|(key, requirement)| in_words(cluster, key, requirement));
            return Some(format!("no instance type has both {first} and {second}, which NodePool {name} requires"));
        }
    }
    None
}

/// Whether a type could be launched if these were all that a NodePool requires.
fn has_types(cluster: &Cluster, pool: &NodePool, asked: &[(Sym, &Requirement)]) -> bool {
    let mut requirements = Requirements::new();
    for (key, requirement) in asked {
        requirements.add(*key, (*requirement).clone(), &cluster.symbols);
    }
    let alone = NodePool { requirements, ..pool.clone() };
    !ColumnTable::new(cluster, &alone).columns.is_empty()
}

/// As a person writes it: `kubernetes.io/arch=arm64`, `topology.kubernetes.io/zone in (a, b)`, `cpu Gte 4`.
pub(crate) fn in_words(cluster: &Cluster, key: Sym, requirement: &Requirement) -> String {
    let (key, text) = (cluster.symbols.text(key), |value: &Sym| cluster.symbols.text(*value).to_owned());
    let parts = requirement.to_operators().into_iter().map(|(operator, bounds, values)| {
        let values: Vec<String> = bounds.into_iter().chain(values.iter().map(text)).collect();
        match (operator, values.as_slice()) {
            (Operator::In, [one]) => format!("{key}={one}"),
            (Operator::In, several) => format!("{key} in ({})", several.join(", ")),
            (Operator::Gte, [bound]) => format!("{key} of {bound} at least"),
            (Operator::Lte, [bound]) => format!("{key} of {bound} at most"),
            (operator, several) => format!("{key} {} {}", operator.as_str(), several.join(", ")).trim_end().to_owned(),
        }
    });
    parts.collect::<Vec<_>>().join(" and ")
}

/// What there is in place of what is asked for.
fn instead(cluster: &Cluster, gates: &FeatureGates, pool: &NodePool, key: Sym, requirement: &Requirement) -> String {
    let text = |sym: Sym| cluster.symbols.text(sym);
    let mut there = BTreeSet::new();
    for of_type in cluster.instance_types.iter().filter(|of_type| of_type.node_class == pool.node_class) {
        let offered = of_type.offerings.iter().flat_map(|offering| offering.labels.iter());
        let labels = of_type.labels.iter().chain(offered).filter(|(known, _)| *known == key);
        there.extend(labels.map(|(_, value)| text(value)));
        if key == cluster.well_known.os {
            there.extend(of_type.operating_systems.iter().map(|os| text(*os)));
        }
        if key == cluster.well_known.instance_type {
            there.insert(text(of_type.name));
        }
    }
    let wanted: Vec<&str> = requirement.finite_values().into_iter().flatten().map(|value| text(*value)).collect();
    if key == cluster.well_known.capacity_type && wanted.contains(&"reserved") && !gates.reserved_capacity {
        return NO_RESERVED.to_owned();
    }
    match wanted.iter().find_map(|wanted| nearest(wanted, there.iter().copied())) {
        Some(near) => format!("did you mean {near}?"),
        None => format!("there is {}", listed(&there)),
    }
}
