//! Requirements and taints as a NodeClaim writes them.

use berth_model::{Cluster, Requirement, Requirements, Sym, Taint};
use serde::Serialize;

/// A requirement in Karpenter's form.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct RequirementJson<'a> {
    key: &'a str,
    operator: &'static str,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    values: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    min_values: Option<u32>,
}

/// A taint as Kubernetes writes it.
#[derive(Serialize)]
pub(super) struct TaintJson<'a> {
    key: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    value: &'a str,
    effect: &'static str,
}

/// Requirements in order of their keys; one that is bounded on both sides is two entries.
pub(super) fn requirements<'a>(cluster: &'a Cluster, requirements: &Requirements) -> Vec<RequirementJson<'a>> {
    let symbols = &cluster.symbols;
    let mut by_key: Vec<(&str, &Requirement)> =
        requirements.iter().map(|(key, requirement)| (symbols.text(key), requirement)).collect();
    by_key.sort_unstable_by_key(|(key, _)| *key);
    let mut entries = Vec::with_capacity(by_key.len());
    for (key, requirement) in by_key {
        let operators = requirement.to_operators();
        let last = operators.len().saturating_sub(1);
        for (index, (operator, bounds, values)) in operators.into_iter().enumerate() {
            let values: Vec<&str> = values.iter().map(|&value: &Sym| symbols.text(value)).collect();
            let mut values: Vec<String> = bounds.into_iter().chain(values.into_iter().map(str::to_owned)).collect();
            values.sort_unstable();
            let min_values = requirement.min_values().filter(|_| index == last);
            entries.push(RequirementJson { key, operator: operator.as_str(), values, min_values });
        }
    }
    entries
}

pub(super) fn taints<'a>(cluster: &'a Cluster, taints: &[Taint]) -> Vec<TaintJson<'a>> {
    let symbols = &cluster.symbols;
    let taint = |taint: &Taint| TaintJson {
        key: symbols.text(taint.key),
        value: symbols.text(taint.value),
        effect: taint.effect.name(),
    };
    taints.iter().map(taint).collect()
}
