//! Budgets, limits and priorities.

use std::str::FromStr;

use berth_quantity::Quantity;
use serde_json::Value;

use super::not_negative;

use crate::meta::{self, at, list_at, text_at};
use crate::status::Cause;

pub(super) fn budget(budget: &Value, causes: &mut Vec<Cause>) {
    let (min, max) = (at(budget, &["spec", "minAvailable"]), at(budget, &["spec", "maxUnavailable"]));
    if min.is_some() && max.is_some() {
        let spec = budget.get("spec").cloned().unwrap_or_default();
        causes.push(Cause::invalid("spec", &spec, "minAvailable and maxUnavailable cannot be both set"));
    }
    if let Some(policy) = at(budget, &["spec", "unhealthyPodEvictionPolicy"]).and_then(Value::as_str) {
        let supported = ["AlwaysAllow", "IfHealthyBudget"];
        if !supported.contains(&policy) {
            causes.push(Cause::not_supported("spec.unhealthyPodEvictionPolicy", &policy.into(), &supported));
        }
    }
    for field in ["minAvailable", "maxUnavailable"] {
        int_or_percent(budget, &["spec", field], causes);
        at_most_100_percent(budget, &["spec", field], causes);
    }
}

/// A count that is not negative, or a percentage.
pub(super) fn int_or_percent(object: &Value, path: &[&str], causes: &mut Vec<Cause>) {
    match at(object, path) {
        Some(Value::String(text)) if !is_percent(text) => {
            let why = "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', regex used for validation is '[0-9]+%')";
            causes.push(Cause::invalid(path.join("."), &text.as_str().into(), why));
        }
        _ => not_negative(object, path, causes),
    }
}

pub(super) fn at_most_100_percent(object: &Value, path: &[&str], causes: &mut Vec<Cause>) {
    if let Some(Value::String(text)) = at(object, path)
        && is_percent(text)
        && percent_of(text).is_none_or(|percent| percent > 100)
    {
        causes.push(Cause::invalid(path.join("."), &text.as_str().into(), "must not be greater than 100%"));
    }
}

/// Whether a count or a percentage is not zero. Text that is neither counts as zero, as in Kubernetes.
pub(super) fn is_not_zero(object: &Value, path: &[&str]) -> bool {
    match at(object, path) {
        Some(Value::String(text)) if is_percent(text) => percent_of(text) != Some(0),
        Some(Value::String(text)) => text.parse::<i64>().is_ok_and(|number| number != 0),
        Some(value) => value.as_i64().is_some_and(|number| number != 0),
        None => false,
    }
}

fn is_percent(text: &str) -> bool {
    text.strip_suffix('%').is_some_and(|digits| !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit()))
}

/// The number before the sign; `None` where it is too large.
fn percent_of(text: &str) -> Option<u64> {
    text.strip_suffix('%')?.parse().ok()
}

pub(super) fn limit_range(range: &Value, causes: &mut Vec<Cause>) {
    for (index, limit) in list_at(range, &["spec", "limits"]).iter().enumerate() {
        let path = format!("spec.limits[{index}]");
        let amount = |field: &str, name: &str| Quantity::from_str(text_at(limit, &[field, name])).ok();
        let fields = ["max", "min", "default", "defaultRequest"];
        let mut seen = std::collections::BTreeSet::new();
        for field in fields {
            seen.extend(at(limit, &[field]).and_then(Value::as_object).into_iter().flatten().map(|(name, _)| name));
        }
        for name in seen {
            let mut above = |low: &str, high: &str, field: &str, shown: &str, why: [&str; 2]| {
                if let (Some(least), Some(most)) = (amount(low, name), amount(high, name))
                    && least > most
                {
                    let value = amount(shown, name).map(|q| q.to_string()).unwrap_or_default();
                    let text = format!("{} value {least} is greater than {} value {most}", why[0], why[1]);
                    causes.push(Cause::invalid(format!("{path}.{field}[{name}]"), &value.into(), &text));
                }
            };
            above("min", "max", "min", "min", ["min", "max"]);
            above("min", "defaultRequest", "defaultRequest", "defaultRequest", ["min", "default request"]);
            above("defaultRequest", "max", "defaultRequest", "defaultRequest", ["default request", "max"]);
            above(
                "defaultRequest",
                "default",
                "defaultRequest",
                "defaultRequest",
                ["default request", "default limit"],
            );
            above("min", "default", "default", "min", ["min", "default"]);
            above("default", "max", "default", "max", ["default", "max"]);
        }
    }
}

pub(super) fn priority_class(class: &Value, causes: &mut Vec<Cause>) {
    let name = meta::name(class);
    let value = class.get("value").and_then(Value::as_i64).unwrap_or(0);
    let is_system = name.starts_with("system-");
    let known = [("system-cluster-critical", 2_000_000_000), ("system-node-critical", 2_000_001_000)];
    if is_system && !known.contains(&(name, value)) {
        let why = "priority class names with 'system-' prefix are reserved for system use only. error: ".to_owned()
            + &format!("{name} is not a known system priority class");
        causes.push(Cause::forbidden("metadata.name", &why));
    } else if !is_system && value > 1_000_000_000 {
        let why = "maximum allowed value of a user defined priority is 1000000000";
        causes.push(Cause::forbidden("value", why));
    }
    let policies = ["Never", "PreemptLowerPriority"];
    let policy = text_at(class, &["preemptionPolicy"]);
    if !policies.contains(&policy) {
        causes.push(Cause::not_supported("preemptionPolicy", &policy.into(), &policies));
    }
}
