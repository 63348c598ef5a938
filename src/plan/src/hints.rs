//! What a pod that has no place may have been meant to ask for: labels that nothing has, with the nearest that exists.

use std::collections::{BTreeMap, BTreeSet};

use berth_manifests::nearest;
use berth_model::{Cluster, PodSpec, Requirement, Requirements, Sym};
use berth_provisioning::{Refusal, Solution};

use crate::FeatureGates;

/// Hints a class gets at most, and values that a hint lists.
const MOST_HINTS: usize = 3;
const MOST_VALUES: usize = 5;
const NOTHING: &str = "no node, NodePool or instance type has";

/// The labels that nodes have or may have.
struct Known<'a> {
    cluster: &'a Cluster,
    gates: &'a FeatureGates,
    /// By key: the values.
    values: BTreeMap<&'a str, BTreeSet<&'a str>>,
    /// Keys of which any value may be chosen for a new node.
    open: BTreeSet<&'a str>,
}

/// Adds to the reasons of what has no place which labels it asks for that nothing has.
pub(crate) fn add(solution: &mut Solution, specs: &[Option<u32>], cluster: &Cluster, gates: &FeatureGates) {
    let mut known = None;
    for (left, spec) in solution.unschedulable.iter_mut().zip(specs) {
        let spec = spec.and_then(|spec| cluster.specs.get(spec as usize));
        let Some(spec) = spec.filter(|spec| spec.refusal.is_none()) else { continue };
        let known = known.get_or_insert_with(|| Known::of(cluster, gates));
        let hints = known.hints(spec).into_iter().take(MOST_HINTS);
        left.reasons.extend(hints.map(|reason| Refusal { reason, count: 0 }));
    }
}

impl<'a> Known<'a> {
    fn of(cluster: &'a Cluster, gates: &'a FeatureGates) -> Self {
        let text = |sym: Sym| cluster.symbols.text(sym);
        let mut known = Known { cluster, gates, values: BTreeMap::new(), open: BTreeSet::new() };
        let mut add = |key: Sym, value: Sym| {
            known.values.entry(text(key)).or_default().insert(text(value));
        };
        for node in &cluster.nodes {
            node.labels.iter().for_each(|(key, value)| add(key, value));
        }
        for instance_type in &cluster.instance_types {
            instance_type.labels.iter().for_each(|(key, value)| add(key, value));
            instance_type.operating_systems.iter().for_each(|os| add(cluster.well_known.os, *os));
            for offering in &instance_type.offerings {
                offering.labels.iter().for_each(|(key, value)| add(key, value));
            }
        }
        for pool in &cluster.node_pools {
            for (key, requirement) in pool.requirements.iter() {
                match requirement.finite_values() {
                    Some(values) => values.iter().for_each(|value| add(key, *value)),
                    None => {
                        known.open.insert(text(key));
                    }
                }
            }
        }
        // Of these, types decide.
        known.open.retain(|key| !known.values.contains_key(key));
        known.open.insert(text(cluster.well_known.hostname));
        known.open.insert(text(cluster.well_known.field_name));
        known
    }

    fn hints(&self, spec: &PodSpec) -> BTreeSet<String> {
        let mut hints = BTreeSet::new();
        if self.values.is_empty() {
            return hints;
        }
        hints.extend(spec.node_selector.iter().filter_map(|(key, asked)| self.hint(key, asked)));
        hints.extend(self.hints_of_any(&spec.required_terms));
        for places in spec.volumes.places() {
            let found = self.hints_of_any(places);
            if !found.is_empty() {
                hints.extend(found.iter().map(|hint| format!("{}: {hint}", self.whose(places))));
            }
        }
        hints
    }

    // One of the terms must hold: hints are given where none can.
    fn hints_of_any(&self, terms: &[Requirements]) -> BTreeSet<String> {
        let of_term = |term: &Requirements| term.iter().find_map(|(key, asked)| self.hint(key, asked));
        terms.iter().map(of_term).collect::<Option<BTreeSet<String>>>().unwrap_or_default()
    }

    fn hint(&self, key: Sym, asked: &Requirement) -> Option<String> {
        let (key, symbols) = (self.cluster.symbols.text(key), &self.cluster.symbols);
        if asked.allows_absent() || self.open.contains(key) {
            return None;
        }
        let Some(values) = self.values.get(key) else {
            let near = nearest(key, self.values.keys().chain(&self.open).copied());
            let near = near.map(|near| format!(": did you mean {near}?")).unwrap_or_default();
            return Some(format!("{NOTHING} the label {key}{near}"));
        };
        let has_any = values.iter().filter_map(|value| symbols.get(value)).any(|value| asked.has(value, symbols));
        if has_any {
            return None;
        }
        let wanted: Vec<&str> = asked.finite_values().into_iter().flatten().map(|value| symbols.text(*value)).collect();
        let is_reserved = key == symbols.text(self.cluster.well_known.capacity_type) && wanted.contains(&"reserved");
        if is_reserved && !self.gates.reserved_capacity {
            return Some(format!(
                "{key}=reserved: there is no reserved capacity, the feature gate ReservedCapacity is off"
            ));
        }
        let near = wanted.iter().find_map(|wanted| nearest(wanted, values.iter().copied()));
        let instead = match near {
            Some(near) => format!("did you mean {near}?"),
            None => format!("there is {}", listed(values)),
        };
        Some(match wanted.as_slice() {
            [] => format!("{NOTHING} a {key} as it is asked for: {instead}"),
            [one] => format!("{NOTHING} {key}={one}: {instead}"),
            several => format!("{NOTHING} {key} in ({}): {instead}", several.join(", ")),
        })
    }

    // Whose topology it is.
    fn whose(&self, places: &[Requirements]) -> String {
        let classes = self.cluster.storage_topologies.iter();
        let names = classes.filter(|(_, known)| known == places).map(|(name, _)| self.cluster.symbols.text(*name));
        match names.min() {
            Some(name) => format!("allowedTopologies of StorageClass {name}"),
            None => "a volume's node affinity".to_owned(),
        }
    }
}

fn listed(values: &BTreeSet<&str>) -> String {
    let listed: Vec<&str> = values.iter().take(MOST_VALUES).copied().collect();
    let rest = match values.len().saturating_sub(MOST_VALUES) {
        0 => String::new(),
        rest => format!(" and {rest} more"),
    };
    format!("{}{rest}", listed.join(", "))
}
