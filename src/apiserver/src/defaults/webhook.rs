//! Defaults of webhook configurations and admission policies, which are kept and asked for nothing.

use serde_json::{Value, json};

use super::with;
use crate::meta;

/// What decides to whom a webhook or a policy applies.
fn match_resources() -> [(&'static str, Value); 3] {
    [("matchPolicy", json!("Equivalent")), ("namespaceSelector", json!({})), ("objectSelector", json!({}))]
}

pub(super) fn fill_webhooks(object: &mut Value, is_mutating: bool) {
    for webhook in items(object, "/webhooks") {
        with(webhook, &[], &[("failurePolicy", json!("Fail")), ("timeoutSeconds", json!(10))]);
        with(webhook, &[], &match_resources());
        if is_mutating {
            with(webhook, &[], &[("reinvocationPolicy", json!("Never"))]);
        }
        if meta::at(webhook, &["clientConfig", "service"]).is_some() {
            with(webhook, &["clientConfig", "service"], &[("port", json!(443))]);
        }
        fill_rules(webhook, "/rules");
    }
}

pub(super) fn fill_policy(object: &mut Value) {
    with(object, &["spec"], &[("failurePolicy", json!("Fail"))]);
    fill_match(object, "matchConstraints");
}

pub(super) fn fill_binding(object: &mut Value) {
    fill_match(object, "matchResources");
}

fn fill_match(object: &mut Value, field: &str) {
    if meta::at(object, &["spec", field]).is_none() {
        return;
    }
    with(object, &["spec", field], &match_resources());
    for rules in ["resourceRules", "excludeResourceRules"] {
        fill_rules(object, &format!("/spec/{field}/{rules}"));
    }
}

fn fill_rules(object: &mut Value, pointer: &str) {
    for rule in items(object, pointer) {
        with(rule, &[], &[("scope", json!("*"))]);
    }
}

fn items<'o>(object: &'o mut Value, pointer: &str) -> impl Iterator<Item = &'o mut Value> {
    object.pointer_mut(pointer).and_then(Value::as_array_mut).into_iter().flatten()
}
