//! ResourceQuotas: names and amounts, and scopes that fit them.

use std::collections::BTreeSet;
use std::str::FromStr;

use berth_quantity::Quantity;
use serde_json::Value;

use super::names;
use crate::meta::{at, list_at, text_at};
use crate::status::Cause;

const SCOPES: [&str; 7] = [
    "Terminating",
    "NotTerminating",
    "BestEffort",
    "NotBestEffort",
    "PriorityClass",
    "CrossNamespacePodAffinity",
    "VolumeAttributesClass",
];
/// Scopes that are or are not, and have no values.
const PLAIN: [&str; 5] = ["BestEffort", "NotBestEffort", "Terminating", "NotTerminating", "CrossNamespacePodAffinity"];
const CONFLICTS: [[&str; 2]; 2] = [["BestEffort", "NotBestEffort"], ["Terminating", "NotTerminating"]];
/// What is counted in whole numbers.
const OBJECTS: [&str; 9] = [
    "pods",
    "resourcequotas",
    "services",
    "replicationcontrollers",
    "secrets",
    "configmaps",
    "persistentvolumeclaims",
    "services.nodeports",
    "services.loadbalancers",
];
const OF_PODS: [&str; 6] = ["cpu", "memory", "limits.cpu", "limits.memory", "requests.cpu", "requests.memory"];
const OTHER: [&str; 4] =
    ["ephemeral-storage", "requests.ephemeral-storage", "limits.ephemeral-storage", "requests.storage"];

/// Judges a quota.
pub(super) fn quota(quota: &Value, causes: &mut Vec<Cause>) {
    let hard = at(quota, &["spec", "hard"]).and_then(Value::as_object);
    for (name, value) in hard.into_iter().flatten() {
        amount(name, value, causes);
    }
    let names: Vec<&str> = hard.into_iter().flatten().map(|(name, _)| name.as_str()).collect();
    let scopes = list_at(quota, &["spec", "scopes"]);
    let shown = Value::Array(scopes.to_vec());
    for scope in scopes.iter().filter_map(Value::as_str) {
        if !SCOPES.contains(&scope) {
            causes.push(Cause::invalid("spec.scopes", &shown, "unsupported scope"));
        }
        for _ in names.iter().filter(|name| !applies(scope, name)) {
            causes.push(Cause::invalid("spec.scopes", &shown, "unsupported scope applied to resource"));
        }
    }
    for pair in CONFLICTS {
        if pair.iter().all(|scope| scopes.iter().any(|present| present == scope)) {
            causes.push(Cause::invalid("spec.scopes", &shown, "conflicting scopes"));
        }
    }
    selector(quota, &names, &shown, causes);
}

/// What may change about a quota: not what it is of.
pub(super) fn quota_change(new: &Value, old: &Value, causes: &mut Vec<Cause>) {
    let scopes = |quota: &Value| -> BTreeSet<String> {
        let list = list_at(quota, &["spec", "scopes"]);
        list.iter().filter_map(Value::as_str).map(str::to_owned).collect()
    };
    if scopes(new) != scopes(old) {
        let shown = list_at(new, &["spec", "scopes"]).to_vec().into();
        causes.push(Cause::invalid("spec.scopes", &shown, "field is immutable"));
    }
}

fn amount(name: &str, value: &Value, causes: &mut Vec<Cause>) {
    let here = format!("spec.hard[{name}]");
    let wrong = names::label_key_causes(name);
    for why in &wrong {
        causes.push(Cause::invalid(here.clone(), &name.into(), why));
    }
    if !name.contains('/') && !is_standard(name) {
        if wrong.is_empty() && name != "storage" {
            let why = "must be a standard resource type or fully qualified";
            causes.push(Cause::invalid(here.clone(), &name.into(), why));
        }
        causes.push(Cause::invalid(here.clone(), &name.into(), "must be a standard resource for quota"));
    }
    let Some(amount) = value.as_str().and_then(|text| Quantity::from_str(text).ok()) else { return };
    if amount < Quantity::default() {
        causes.push(Cause::invalid(here.clone(), value, "must be greater than or equal to 0"));
    }
    let is_whole = OBJECTS.contains(&name) || is_extended(name);
    if is_whole && amount.value_ceil() != amount.value_floor() {
        causes.push(Cause::invalid(here, value, "must be an integer"));
    }
}

fn is_standard(name: &str) -> bool {
    OBJECTS.contains(&name)
        || OF_PODS.contains(&name)
        || OTHER.contains(&name)
        || name.starts_with("hugepages-")
        || name.starts_with("requests.hugepages-")
}

/// Resources of others' making are counted in whole numbers; requests of them have a name of their own.
fn is_extended(name: &str) -> bool {
    name.contains('/') && !name.contains("kubernetes.io/") && !name.starts_with("requests.")
}

/// Whether a scope is one for something that is counted.
fn applies(scope: &str, name: &str) -> bool {
    if !is_standard(name) {
        return true;
    }
    match scope {
        "BestEffort" => name == "pods",
        "Terminating" | "NotTerminating" | "NotBestEffort" | "PriorityClass" | "CrossNamespacePodAffinity" => {
            name == "pods" || OF_PODS.contains(&name)
        }
        "VolumeAttributesClass" => ["persistentvolumeclaims", "requests.storage"].contains(&name),
        _ => true,
    }
}

fn selector(quota: &Value, names: &[&str], scopes: &Value, causes: &mut Vec<Cause>) {
    const PATH: &str = "spec.scopeSelector.matchExpressions";
    let terms = list_at(quota, &["spec", "scopeSelector", "matchExpressions"]);
    for term in terms {
        let (scope, operator) = (text_at(term, &["scopeName"]), text_at(term, &["operator"]));
        if !SCOPES.contains(&scope) {
            causes.push(Cause::invalid(format!("{PATH}.scopeName"), &scope.into(), "unsupported scope"));
        }
        for _ in names.iter().filter(|name| !applies(scope, name)) {
            let shown = at(quota, &["spec", "scopeSelector"]).unwrap_or(&Value::Null);
            causes.push(Cause::invalid(PATH, shown, "unsupported scope applied to resource"));
        }
        if PLAIN.contains(&scope) && operator != "Exists" {
            let why = "must be 'Exists' when scope is any of ResourceQuotaScopeTerminating, ResourceQuotaScopeNotTerminating, ResourceQuotaScopeBestEffort, ResourceQuotaScopeNotBestEffort or ResourceQuotaScopeCrossNamespacePodAffinity";
            causes.push(Cause::invalid(format!("{PATH}.operator"), &operator.into(), why));
        }
        let values = list_at(term, &["values"]);
        match operator {
            "In" | "NotIn" if values.is_empty() => {
                let why = "must be at least one value when `operator` is 'In' or 'NotIn' for scope selector";
                causes.push(Cause::required(format!("{PATH}.values"), why));
            }
            "Exists" | "DoesNotExist" if !values.is_empty() => {
                let why = "must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector";
                causes.push(Cause::invalid(format!("{PATH}.values"), &values.to_vec().into(), why));
            }
            "In" | "NotIn" | "Exists" | "DoesNotExist" => {}
            other => {
                causes.push(Cause::invalid(format!("{PATH}.operator"), &other.into(), "not a valid selector operator"));
            }
        }
    }
    for pair in CONFLICTS {
        if pair.iter().all(|scope| terms.iter().any(|term| text_at(term, &["scopeName"]) == *scope)) {
            causes.push(Cause::invalid(PATH, scopes, "conflicting scopes"));
        }
    }
}
