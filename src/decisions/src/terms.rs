//! Requirements, taints and amounts in the API's types.

use std::collections::BTreeMap;

use berth_api::Requirement;
use berth_model::{Cluster, Requirements, ResourceId, Resources, Sym, Taint};
use berth_quantity::Quantity;
use k8s_openapi::api::core::v1 as core;
use serde::Serialize;

/// Requirements in order of their keys; one that is bounded on both sides is two entries.
pub(crate) fn requirements(cluster: &Cluster, requirements: &Requirements) -> Vec<Requirement> {
    let symbols = &cluster.symbols;
    let mut by_key: Vec<_> = requirements.iter().map(|(key, requirement)| (symbols.text(key), requirement)).collect();
    by_key.sort_unstable_by_key(|(key, _)| *key);
    let mut entries = Vec::with_capacity(by_key.len());
    for (key, requirement) in by_key {
        let operators = requirement.to_operators();
        let last = operators.len().saturating_sub(1);
        for (index, (operator, bounds, values)) in operators.into_iter().enumerate() {
            let values = values.iter().map(|value: &Sym| symbols.text(*value).to_owned());
            let mut values: Vec<String> = bounds.into_iter().chain(values).collect();
            values.sort_unstable();
            let min_values = requirement.min_values().filter(|_| index == last).map(i64::from);
            entries.push(Requirement { key: key.to_owned(), operator, values, min_values });
        }
    }
    entries
}

/// Taints as Kubernetes writes them.
pub(crate) fn taints(cluster: &Cluster, taints: &[Taint]) -> Vec<core::Taint> {
    let symbols = &cluster.symbols;
    let taint = |taint: &Taint| {
        let value = symbols.text(taint.value);
        core::Taint {
            key: symbols.text(taint.key).to_owned(),
            value: (!value.is_empty()).then(|| value.to_owned()),
            effect: taint.effect.name().to_owned(),
            time_added: None,
        }
    };
    taints.iter().map(taint).collect()
}

/// Amounts by name as canonical quantities.
pub fn quantities<'a>(cluster: &'a Cluster, resources: &Resources) -> BTreeMap<&'a str, Quantity> {
    let named = |(id, amount)| {
        let name = cluster.symbols.text(cluster.resource_names.name(id)?);
        Some((name, quantity(id, name, amount)))
    };
    resources.iter().filter_map(named).collect()
}

fn quantity(id: ResourceId, name: &str, amount: i64) -> Quantity {
    match Unit::of(id, name) {
        Unit::Milli => Quantity::from_milli(amount),
        Unit::Bytes => Quantity::from_bytes_binary(amount),
        Unit::Count => Quantity::from_value(amount),
    }
}

/// What an amount of a resource counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Unit {
    /// Thousandths of a CPU.
    Milli,
    /// Bytes.
    Bytes,
    /// Pods or devices.
    Count,
}

impl Unit {
    /// What amounts of a resource count, by its name.
    pub fn of(id: ResourceId, name: &str) -> Unit {
        let is_bytes = id == ResourceId::MEMORY
            || name == "ephemeral-storage"
            || name.starts_with("hugepages-")
            || name.ends_with("/gpu-memory");
        if id == ResourceId::CPU {
            Unit::Milli
        } else if is_bytes {
            Unit::Bytes
        } else {
            Unit::Count
        }
    }
}
