//! Where a pod may go: tolerations, spread and affinity.

use serde_json::Value;

use super::super::names;
use crate::meta::{self, list_at, text_at};
use crate::status::Cause;

pub(super) fn tolerations(spec: &Value, path: &str, causes: &mut Vec<Cause>) {
    for (index, toleration) in list_at(spec, &["tolerations"]).iter().enumerate() {
        let here = format!("{path}.tolerations[{index}]");
        let text = |field: &str| text_at(toleration, &[field]);
        if !text("key").is_empty() {
            if let Some(why) = names::label_key(text("key")) {
                causes.push(Cause::invalid(format!("{here}.key"), &text("key").into(), &why));
            }
        } else if text("operator") != "Exists" {
            let why = "operator must be Exists when `key` is empty, which means \"match all values and all keys\"";
            causes.push(Cause::invalid(format!("{here}.operator"), &text("operator").into(), why));
        }
        if toleration.get("tolerationSeconds").is_some() && text("effect") != "NoExecute" {
            let why = "effect must be 'NoExecute' when `tolerationSeconds` is set";
            causes.push(Cause::invalid(format!("{here}.effect"), &text("effect").into(), why));
        }
        match text("operator") {
            "" | "Equal" => {}
            "Exists" if text("value").is_empty() => {}
            "Exists" => {
                let why = "value must be empty when `operator` is 'Exists'";
                causes.push(Cause::invalid(format!("{here}.operator"), &text("value").into(), why));
            }
            other => causes.push(Cause::not_supported(format!("{here}.operator"), &other.into(), &["Equal", "Exists"])),
        }
        let effects = ["NoExecute", "NoSchedule", "PreferNoSchedule"];
        if !text("effect").is_empty() && !effects.contains(&text("effect")) {
            let supported = ["NoSchedule", "PreferNoSchedule", "NoExecute"];
            causes.push(Cause::not_supported(format!("{here}.effect"), &text("effect").into(), &supported));
        }
    }
}

pub(super) fn spread(spec: &Value, path: &str, causes: &mut Vec<Cause>) {
    for (index, constraint) in list_at(spec, &["topologySpreadConstraints"]).iter().enumerate() {
        let here = format!("{path}.topologySpreadConstraints[{index}]");
        let skew = meta::int_at(constraint, &["maxSkew"]).unwrap_or(0);
        if skew <= 0 {
            causes.push(Cause::invalid(format!("{here}.maxSkew"), &skew.into(), "must be greater than zero"));
        }
        if text_at(constraint, &["topologyKey"]).is_empty() {
            causes.push(Cause::required(format!("{here}.topologyKey"), "can not be empty"));
        }
        let action = text_at(constraint, &["whenUnsatisfiable"]);
        let actions = ["DoNotSchedule", "ScheduleAnyway"];
        if !actions.contains(&action) {
            causes.push(Cause::not_supported(format!("{here}.whenUnsatisfiable"), &action.into(), &actions));
        }
        if let Some(min) = meta::int_at(constraint, &["minDomains"]) {
            if min <= 0 {
                causes.push(Cause::invalid(format!("{here}.minDomains"), &min.into(), "must be greater than zero"));
            }
            if action != "DoNotSchedule" {
                let why = format!("can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {action}");
                causes.push(Cause::invalid(format!("{here}.minDomains"), &min.into(), &why));
            }
        }
        let key = text_at(constraint, &["topologyKey"]);
        let alike = |other: &&Value| {
            text_at(other, &["topologyKey"]) == key && text_at(other, &["whenUnsatisfiable"]) == action
        };
        if list_at(spec, &["topologySpreadConstraints"]).iter().skip(index + 1).any(|other| alike(&other)) {
            let pair = Value::from(format!("{{{key}, {action}}}"));
            causes.push(Cause::duplicate(format!("{here}.{{topologyKey, whenUnsatisfiable}}"), &pair));
        }
    }
}

pub(super) fn affinity(spec: &Value, path: &str, causes: &mut Vec<Cause>) {
    for kind in ["podAffinity", "podAntiAffinity"] {
        let list = list_at(spec, &["affinity", kind, "requiredDuringSchedulingIgnoredDuringExecution"]);
        for (index, term) in list.iter().enumerate() {
            let here = format!("{path}.affinity.{kind}.requiredDuringSchedulingIgnoredDuringExecution[{index}]");
            affinity_term(term, &here, causes);
        }
        let list = list_at(spec, &["affinity", kind, "preferredDuringSchedulingIgnoredDuringExecution"]);
        for (index, preferred) in list.iter().enumerate() {
            let here = format!("{path}.affinity.{kind}.preferredDuringSchedulingIgnoredDuringExecution[{index}]");
            weight(preferred, &here, causes);
            let empty = Value::Null;
            let term = preferred.get("podAffinityTerm").unwrap_or(&empty);
            affinity_term(term, &format!("{here}.podAffinityTerm"), causes);
        }
    }
    let preferred = ["affinity", "nodeAffinity", "preferredDuringSchedulingIgnoredDuringExecution"];
    for (index, term) in list_at(spec, &preferred).iter().enumerate() {
        let here = format!("{path}.{}[{index}]", preferred.join("."));
        weight(term, &here, causes);
        for (n, expression) in list_at(term, &["preference", "matchExpressions"]).iter().enumerate() {
            node_expression(expression, &format!("{here}.preference.matchExpressions[{n}]"), causes);
        }
    }
    let required = ["affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution"];
    if meta::at(spec, &required).is_some() {
        let here = format!("{path}.{}.nodeSelectorTerms", required.join("."));
        let mut terms_path = required.to_vec();
        terms_path.push("nodeSelectorTerms");
        let terms = list_at(spec, &terms_path);
        if terms.is_empty() {
            causes.push(Cause::required(here.clone(), "must have at least one node selector term"));
        }
        for (at, term) in terms.iter().enumerate() {
            for (n, expression) in list_at(term, &["matchExpressions"]).iter().enumerate() {
                node_expression(expression, &format!("{here}[{at}].matchExpressions[{n}]"), causes);
            }
        }
    }
}

fn weight(term: &Value, path: &str, causes: &mut Vec<Cause>) {
    let weight = meta::int_at(term, &["weight"]).unwrap_or(0);
    if !(1..=100).contains(&weight) {
        causes.push(Cause::invalid(format!("{path}.weight"), &weight.into(), "must be in the range 1-100"));
    }
}

fn affinity_term(term: &Value, path: &str, causes: &mut Vec<Cause>) {
    let key = text_at(term, &["topologyKey"]);
    if key.is_empty() {
        causes.push(Cause::required(format!("{path}.topologyKey"), "can not be empty"));
    }
    for why in names::label_key_causes(key) {
        causes.push(Cause::invalid(format!("{path}.topologyKey"), &key.into(), &why));
    }
}

fn node_expression(expression: &Value, path: &str, causes: &mut Vec<Cause>) {
    let n_values = list_at(expression, &["values"]).len();
    match text_at(expression, &["operator"]) {
        "In" | "NotIn" if n_values == 0 => {
            causes.push(Cause::required(
                format!("{path}.values"),
                "must be specified when `operator` is 'In' or 'NotIn'",
            ));
        }
        "Exists" | "DoesNotExist" if n_values > 0 => {
            let why = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'";
            causes.push(Cause::forbidden(format!("{path}.values"), why));
        }
        "Gt" | "Lt" if n_values != 1 => {
            let why = "must be specified single value when `operator` is 'Lt' or 'Gt'";
            causes.push(Cause::required(format!("{path}.values"), why));
        }
        "In" | "NotIn" | "Exists" | "DoesNotExist" | "Gt" | "Lt" => {}
        other => {
            causes.push(Cause::invalid(format!("{path}.operator"), &other.into(), "not a valid selector operator"));
        }
    }
    if let Some(why) = names::label_key(text_at(expression, &["key"])) {
        causes.push(Cause::invalid(format!("{path}.key"), &text_at(expression, &["key"]).into(), &why));
    }
}
