//! LimitRanges: defaults for containers that say nothing, and bounds for what they say.

use std::collections::BTreeSet;
use std::str::FromStr;

use berth_quantity::Quantity;
use serde_json::Value;

use crate::meta::{self, fill, list_at, object_mut};
use crate::status::{ApiError, Result};
use crate::verbs::Scope;

fn quantity(value: Option<&Value>) -> Option<Quantity> {
    Quantity::from_str(value?.as_str()?).ok()
}

/// The limits of a type in the request's namespace.
fn limits(scope: &Scope<'_>, kind: &str) -> Vec<Value> {
    let ranges = scope.server.values("limitranges", &scope.namespace);
    let all = ranges.iter().flat_map(|range| list_at(range, &["spec", "limits"]));
    all.filter(|limit| meta::text_at(limit, &["type"]) == kind).cloned().collect()
}

/// Defaults and checks the containers of a pod.
pub(super) fn apply(scope: &Scope<'_>, pod: &mut Value) -> Result<()> {
    let of_containers = limits(scope, "Container");
    let mut wrong = Vec::new();
    let name = meta::name(pod).to_owned();
    let mut told = Vec::new();
    for limit in &of_containers {
        for (field, kind) in [("containers", "container"), ("initContainers", "init container")] {
            let path = format!("/spec/{field}");
            for container in pod.pointer_mut(&path).and_then(Value::as_array_mut).into_iter().flatten() {
                default(limit, container, kind, &mut told);
                check(limit, container.get("resources").unwrap_or(&Value::Null), "Container", &mut wrong);
            }
        }
    }
    if !told.is_empty()
        && let Some(annotations) = object_mut(pod, &["metadata", "annotations"])
    {
        let text = format!("LimitRanger plugin set: {}", told.join("; "));
        annotations.insert("kubernetes.io/limit-ranger".to_owned(), text.into());
    }
    for limit in limits(scope, "Pod") {
        check(&limit, &total(pod), "Pod", &mut wrong);
    }
    refuse(wrong, "pods", &name)
}

/// Checks the storage that a claim asks for.
pub(super) fn check_claim(scope: &Scope<'_>, claim: &Value) -> Result<()> {
    let mut wrong = Vec::new();
    for limit in limits(scope, "PersistentVolumeClaim") {
        let resources = meta::at(claim, &["spec", "resources"]).unwrap_or(&Value::Null);
        check(&limit, resources, "PersistentVolumeClaim", &mut wrong);
    }
    refuse(wrong, "persistentvolumeclaims", meta::name(claim))
}

/// Refuses with all that is wrong; what is wrong with several containers alike is said once.
fn refuse(mut wrong: Vec<String>, plural: &str, name: &str) -> Result<()> {
    let mut told = BTreeSet::new();
    wrong.retain(|one| told.insert(one.clone()));
    match &wrong[..] {
        [] => Ok(()),
        [one] => Err(ApiError::forbidden("", plural, name, one)),
        several => Err(ApiError::forbidden("", plural, name, &format!("[{}]", several.join(", ")))),
    }
}

fn default(limit: &Value, container: &mut Value, kind: &str, told: &mut Vec<String>) {
    let container_name = meta::text_at(container, &["name"]).to_owned();
    for (from, to, what) in [("defaultRequest", "requests", "request"), ("default", "limits", "limit")] {
        let given = limit.get(from).and_then(Value::as_object).cloned().unwrap_or_default();
        if given.is_empty() {
            continue;
        }
        if let Some(map) = object_mut(container, &["resources", to]) {
            let set: Vec<String> = given.keys().filter(|name| !map.contains_key(*name)).cloned().collect();
            for (name, amount) in given {
                fill(map, &name, amount);
            }
            if !set.is_empty() {
                told.push(format!("{} {what} for {kind} {container_name}", set.join(", ")));
            }
        }
    }
}

fn check(limit: &Value, resources: &Value, kind: &str, wrong: &mut Vec<String>) {
    let amount = |of: &str, name: &str| quantity(resources.get(of).and_then(|map| map.get(name)));
    let bound = |which: &str| limit.get(which).and_then(Value::as_object).cloned().unwrap_or_default();
    for (name, bound) in bound("min") {
        let Some(min) = quantity(Some(&bound)) else { continue };
        match amount("requests", &name) {
            None => wrong.push(format!("minimum {name} usage per {kind} is {min}.  No request is specified")),
            Some(request) if request < min => {
                wrong.push(format!("minimum {name} usage per {kind} is {min}, but request is {request}"));
            }
            Some(_) => {}
        }
    }
    check_ratio(limit, resources, kind, wrong);
    for (name, bound) in bound("max") {
        let Some(max) = quantity(Some(&bound)) else { continue };
        let is_claim = kind == "PersistentVolumeClaim";
        match amount(if is_claim { "requests" } else { "limits" }, &name) {
            None => wrong.push(format!("maximum {name} usage per {kind} is {max}.  No limit is specified")),
            Some(used) if used > max => {
                let what = if is_claim { "request" } else { "limit" };
                wrong.push(format!("maximum {name} usage per {kind} is {max}, but {what} is {used}"));
            }
            Some(_) => {}
        }
    }
}

/// An amount, for a ratio of two.
#[allow(clippy::cast_precision_loss)] // As the real server computes it.
fn thousandths(amount: Quantity) -> f64 {
    amount.milli_ceil().unwrap_or(i64::MAX) as f64
}

/// The limit may be so many times the request.
fn check_ratio(limit: &Value, resources: &Value, kind: &str, wrong: &mut Vec<String>) {
    for (name, bound) in limit.get("maxLimitRequestRatio").and_then(Value::as_object).into_iter().flatten() {
        let amount = |of: &str| {
            let text = resources.get(of).and_then(|map| map.get(name));
            quantity(text).map(thousandths).filter(|value| *value > 0.0)
        };
        let Some(most) = quantity(Some(bound)) else { continue };
        let before = format!("{name} max limit to request ratio per {kind} is {most}");
        match (amount("requests"), amount("limits")) {
            (None, _) => wrong.push(format!("{before}, but no request is specified or request is 0")),
            (_, None) => wrong.push(format!("{before}, but no limit is specified or limit is 0")),
            (Some(request), Some(limit)) if limit / request > thousandths(most) / 1000.0 => {
                wrong.push(format!("{before}, but provided ratio is {:.6}", limit / request));
            }
            _ => {}
        }
    }
}

/// What a pod's containers request and are limited to, all in all.
fn total(pod: &Value) -> Value {
    let of = |of: &str| {
        let sums = super::quota::pod_total(pod, of).into_iter();
        let sums = sums.map(|(name, sum)| (name.to_owned(), Value::from(sum.to_string())));
        (of.to_owned(), Value::Object(sums.collect()))
    };
    Value::Object(["requests", "limits"].into_iter().map(of).collect())
}
