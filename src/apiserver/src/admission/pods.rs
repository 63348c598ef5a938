//! Priority and the tolerations that every pod gets.

use serde_json::{Value, json};

use crate::meta;
use crate::status::{ApiError, Result};
use crate::verbs::Scope;

/// Sets priority and preemption policy from the PriorityClass.
pub(super) fn priority(scope: &Scope<'_>, pod: &mut Value) -> Result<()> {
    let name = meta::text_at(pod, &["spec", "priorityClassName"]).to_owned();
    let forbidden = |why: &str| ApiError::forbidden("", "pods", meta::name(pod), why);
    let class = if name.is_empty() {
        let classes =
            scope.server.values_with("priorityclasses.scheduling.k8s.io", "\"globalDefault\":true").into_iter();
        let defaults = classes.filter(|class| class.get("globalDefault") == Some(&Value::Bool(true)));
        defaults.min_by_key(|class| class.get("value").and_then(Value::as_i64))
    } else {
        let found = scope.server.value("priorityclasses.scheduling.k8s.io", &name);
        Some(found.ok_or_else(|| forbidden(&format!("no PriorityClass with name {name} was found")))?)
    };
    let value = class.as_ref().and_then(|class| class.get("value")).and_then(Value::as_i64).unwrap_or(0);
    let policy =
        class.as_ref().map_or("PreemptLowerPriority", |class| meta::text_at(class, &["preemptionPolicy"])).to_owned();
    if let Some(given) = meta::int_at(pod, &["spec", "priority"])
        && given != value
    {
        return Err(forbidden(&format!(
            "the integer value of priority ({given}) must not be provided in pod spec; priority admission controller computed {value} from the given PriorityClass name"
        )));
    }
    if let Some(given) = meta::at(pod, &["spec", "preemptionPolicy"]).and_then(Value::as_str)
        && given != policy
    {
        return Err(forbidden(&format!(
            "the string value of PreemptionPolicy ({given}) must not be provided in pod spec; priority admission controller computed {policy} from the given PriorityClass name"
        )));
    }
    if let Some(spec) = meta::object_mut(pod, &["spec"]) {
        if let Some(class) = &class {
            spec.insert("priorityClassName".to_owned(), meta::name(class).into());
        }
        spec.insert("priority".to_owned(), value.into());
        spec.insert("preemptionPolicy".to_owned(), policy.into());
    }
    Ok(())
}

/// Five minutes on a node that is lost, unless the pod says how long.
pub(super) fn tolerations(pod: &mut Value) {
    let Some(spec) = meta::object_mut(pod, &["spec"]) else { return };
    let list = spec.entry("tolerations").or_insert_with(|| Value::Array(Vec::new()));
    let Value::Array(list) = list else { return };
    for key in ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"] {
        let tolerates = |toleration: &Value| {
            let text = |field: &str| toleration.get(field).and_then(Value::as_str).unwrap_or_default();
            (text("key") == key || (text("key").is_empty() && text("operator") == "Exists"))
                && ["", "NoExecute"].contains(&text("effect"))
        };
        if !list.iter().any(tolerates) {
            list.push(json!({"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}));
        }
    }
}
