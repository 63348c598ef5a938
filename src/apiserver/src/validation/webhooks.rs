//! Webhook configurations and admission policies: what their fields may say. CEL of policies is not looked at.

use std::collections::BTreeSet;

use serde_json::Value;

use super::names;
use crate::meta::{at, int_at, list_at, text_at};
use crate::status::Cause;

const REVIEWS: [&str; 2] = ["v1", "v1beta1"];
const OPERATIONS: [&str; 5] = ["*", "CONNECT", "CREATE", "DELETE", "UPDATE"];
const SCOPES: [&str; 3] = ["*", "Cluster", "Namespaced"];

pub(super) fn webhooks(object: &Value, causes: &mut Vec<Cause>) {
    let mut known = BTreeSet::new();
    for (index, webhook) in list_at(object, &["webhooks"]).iter().enumerate() {
        let path = format!("webhooks[{index}]");
        name(webhook, &format!("{path}.name"), causes);
        for (at, rule) in list_at(webhook, &["rules"]).iter().enumerate() {
            check_rule(rule, &format!("{path}.rules[{at}]"), causes);
        }
        one_of(webhook, "failurePolicy", &path, &["Fail", "Ignore"], causes);
        one_of(webhook, "matchPolicy", &path, &["Equivalent", "Exact"], causes);
        one_of(webhook, "reinvocationPolicy", &path, &["IfNeeded", "Never"], causes);
        let effects = ["None", "NoneOnDryRun"];
        if at_or_null(webhook, "sideEffects").is_none() {
            causes.push(Cause::required(format!("{path}.sideEffects"), "must specify one of None, NoneOnDryRun"));
        }
        one_of(webhook, "sideEffects", &path, &effects, causes);
        if let Some(seconds) = int_at(webhook, &["timeoutSeconds"]).filter(|seconds| !(1..=30).contains(seconds)) {
            let why = "the timeout value must be between 1 and 30 seconds";
            causes.push(Cause::invalid(format!("{path}.timeoutSeconds"), &seconds.into(), why));
        }
        client(webhook, &format!("{path}.clientConfig"), causes);
        reviews(webhook, &format!("{path}.admissionReviewVersions"), causes);
        let own = text_at(webhook, &["name"]);
        if !own.is_empty() && !known.insert(own) {
            causes.push(Cause::duplicate(format!("{path}.name"), &own.into()));
        }
    }
}

pub(super) fn policy(object: &Value, causes: &mut Vec<Cause>) {
    let null = Value::Null;
    let spec = object.get("spec").unwrap_or(&null);
    one_of(spec, "failurePolicy", "spec", &["Fail", "Ignore"], causes);
    if list_at(spec, &["validations"]).is_empty() && list_at(spec, &["auditAnnotations"]).is_empty() {
        let why = "validations or auditAnnotations must contain at least one item";
        causes.push(Cause::required("spec.validations", why));
    }
    for (index, validation) in list_at(spec, &["validations"]).iter().enumerate() {
        if text_at(validation, &["expression"]).trim().is_empty() {
            causes
                .push(Cause::required(format!("spec.validations[{index}].expression"), "expression is not specified"));
        }
    }
    match at_or_null(spec, "matchConstraints") {
        None => causes.push(Cause::required("spec.matchConstraints", "")),
        Some(constraints) => {
            if list_at(constraints, &["resourceRules"]).is_empty() {
                causes.push(Cause::required("spec.matchConstraints.resourceRules", ""));
            }
            match_resources(constraints, "spec.matchConstraints", causes);
        }
    }
}

pub(super) fn binding(object: &Value, causes: &mut Vec<Cause>) {
    let null = Value::Null;
    let spec = object.get("spec").unwrap_or(&null);
    if text_at(spec, &["policyName"]).is_empty() {
        causes.push(Cause::required("spec.policyName", ""));
    }
    let actions = list_at(spec, &["validationActions"]);
    if actions.is_empty() {
        causes.push(Cause::required("spec.validationActions", "at least one validation action is required"));
    }
    for (index, action) in actions.iter().enumerate() {
        let supported = ["Audit", "Deny", "Warn"];
        if !action.as_str().is_some_and(|action| supported.contains(&action)) {
            causes.push(Cause::not_supported(format!("spec.validationActions[{index}]"), action, &supported));
        }
    }
    if let Some(resources) = at_or_null(spec, "matchResources") {
        match_resources(resources, "spec.matchResources", causes);
    }
}

fn match_resources(resources: &Value, path: &str, causes: &mut Vec<Cause>) {
    one_of(resources, "matchPolicy", path, &["Equivalent", "Exact"], causes);
    for field in ["resourceRules", "excludeResourceRules"] {
        for (index, rule) in list_at(resources, &[field]).iter().enumerate() {
            check_rule(rule, &format!("{path}.{field}[{index}]"), causes);
        }
    }
}

fn check_rule(rule: &Value, path: &str, causes: &mut Vec<Cause>) {
    for (field, others) in [
        ("operations", "operations"),
        ("apiGroups", "API groups"),
        ("apiVersions", "API versions"),
        ("resources", "resources without subresources"),
    ] {
        let (values, path) = (list_at(rule, &[field]), format!("{path}.{field}"));
        if values.is_empty() {
            causes.push(Cause::required(path, ""));
            continue;
        }
        let is_whole = |value: &&Value| field != "resources" || value.as_str().is_some_and(|text| !text.contains('/'));
        let whole: Vec<&Value> = values.iter().filter(is_whole).collect();
        // The core group has an empty name.
        let empty = values.iter().enumerate().filter(|(_, value)| *value == "" && field != "apiGroups");
        if whole.len() > 1 && whole.iter().any(|value| **value == "*") {
            let why = format!("if '*' is present, must not specify other {others}");
            causes.push(Cause::invalid(path.clone(), &Value::Array(values.to_vec()), &why));
        }
        for (index, _) in empty {
            causes.push(Cause::required(format!("{path}[{index}]"), ""));
        }
        for (index, value) in values.iter().enumerate().filter(|_| field == "operations") {
            if !value.as_str().is_some_and(|text| OPERATIONS.contains(&text)) {
                causes.push(Cause::not_supported(format!("{path}[{index}]"), value, &OPERATIONS));
            }
        }
    }
    one_of(rule, "scope", path, &SCOPES, causes);
}

/// A webhook's name is a domain of three parts at least.
fn name(webhook: &Value, path: &str, causes: &mut Vec<Cause>) {
    let name = text_at(webhook, &["name"]);
    if name.is_empty() {
        causes.push(Cause::required(path, ""));
    } else if let Some(why) = names::subdomain(name) {
        causes.push(Cause::invalid(path, &name.into(), &why));
    } else if name.split('.').count() < 3 {
        let why = "should be a domain with at least three segments separated by dots";
        causes.push(Cause::invalid(path, &name.into(), why));
    }
}

fn client(webhook: &Value, path: &str, causes: &mut Vec<Cause>) {
    let (url, service) = (at(webhook, &["clientConfig", "url"]), at(webhook, &["clientConfig", "service"]));
    match (url, service) {
        (Some(url), None) => {
            if !url.as_str().is_some_and(|url| url.starts_with("https://")) {
                let why = "'https' is the only allowed URL scheme; desired format: https://host[/path]";
                causes.push(Cause::invalid(format!("{path}.url"), url, why));
            }
        }
        (None, Some(service)) => {
            for field in ["name", "namespace"] {
                if text_at(service, &[field]).is_empty() {
                    causes.push(Cause::required(format!("{path}.service.{field}"), ""));
                }
            }
            if let Some(port) = int_at(service, &["port"]).filter(|port| !(1..=65_535).contains(port)) {
                let why = "port is not valid: must be between 1 and 65535, inclusive";
                causes.push(Cause::invalid(format!("{path}.service.port"), &port.into(), why));
            }
        }
        _ => causes.push(Cause::required(path, "exactly one of url or service is required")),
    }
}

fn reviews(webhook: &Value, path: &str, causes: &mut Vec<Cause>) {
    let versions = list_at(webhook, &["admissionReviewVersions"]);
    let is_known = |version: &Value| version.as_str().is_some_and(|version| REVIEWS.contains(&version));
    if versions.is_empty() {
        causes.push(Cause::required(path, "must specify one of v1, v1beta1"));
    } else if !versions.iter().any(is_known) {
        let why = "must include at least one of v1, v1beta1";
        causes.push(Cause::invalid(path, &Value::Array(versions.to_vec()), why));
    }
}

fn one_of(object: &Value, field: &str, path: &str, supported: &[&str], causes: &mut Vec<Cause>) {
    if let Some(value) =
        at_or_null(object, field).filter(|value| !value.as_str().is_some_and(|v| supported.contains(&v)))
    {
        causes.push(Cause::not_supported(format!("{path}.{field}"), value, supported));
    }
}

fn at_or_null<'v>(object: &'v Value, field: &str) -> Option<&'v Value> {
    object.get(field).filter(|value| !value.is_null())
}
