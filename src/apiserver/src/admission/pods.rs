//! Priority, the tolerations that every pod gets, and what its RuntimeClass adds.

use serde_json::{Map, Value, json};

use crate::meta;
use crate::server::ApiServer;
use crate::status::{ApiError, Result};
use crate::verbs::Scope;

/// The labels of nodes that pods get.
const TOPOLOGY: [&str; 2] = ["topology.kubernetes.io/zone", "topology.kubernetes.io/region"];

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

/// The labels of a node that its pods have, too: where it is. None of a node that is not there.
pub(crate) fn topology_of(server: &ApiServer, node: &str) -> Map<String, Value> {
    let node = if node.is_empty() { None } else { server.inner.store.get("nodes", node) };
    // What selectors look at is there without reading the node's text.
    let Some(labels) = node.as_ref().map(|node| &node.selectable.labels) else { return Map::new() };
    TOPOLOGY.iter().filter_map(|key| Some(((*key).to_owned(), labels.value_of(key)?.into()))).collect()
}

/// A pod that names its node when it is made has the node's zone and region, whatever it says itself.
pub(super) fn label_topology(server: &ApiServer, pod: &mut Value) {
    let labels = topology_of(server, meta::text_at(pod, &["spec", "nodeName"]));
    meta::add_labels(pod, labels);
}

/// The account `default`, where a token is mounted and no account named.
pub(super) fn service_account(pod: &mut Value) {
    let is_token = |source: &Value| source.get("serviceAccountToken").is_some();
    let mut volumes = meta::list_at(pod, &["spec", "volumes"]).iter();
    let has_token = volumes.any(|volume| meta::list_at(volume, &["projected", "sources"]).iter().any(is_token));
    if let Some(spec) = meta::object_mut(pod, &["spec"]).filter(|_| has_token)
        && spec.get("serviceAccountName").and_then(Value::as_str).is_none_or(str::is_empty)
    {
        spec.insert("serviceAccountName".to_owned(), "default".into());
    }
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

/// Sets overhead, node selector and tolerations from the RuntimeClass, where there is one.
pub(super) fn runtime_class(scope: &Scope<'_>, pod: &mut Value) -> Result<()> {
    let name = meta::text_at(pod, &["spec", "runtimeClassName"]).to_owned();
    let Some(class) = scope.server.value("runtimeclasses.node.k8s.io", &name).filter(|_| !name.is_empty()) else {
        return Ok(());
    };
    let forbidden = |pod: &Value, why: &str| ApiError::forbidden("", "pods", meta::name(pod), why);
    let filled = |object: &Value, path: &[&str]| {
        meta::at(object, path).and_then(Value::as_object).filter(|map| !map.is_empty()).cloned()
    };
    let (overhead, given) = (filled(&class, &["overhead", "podFixed"]), filled(pod, &["spec", "overhead"]));
    match (&overhead, &given) {
        (None, Some(_)) => {
            let why = "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead";
            return Err(forbidden(pod, why));
        }
        (Some(overhead), Some(given)) if !are_same_amounts(overhead, given) => {
            let why = "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead";
            return Err(forbidden(pod, why));
        }
        _ => {}
    }
    let selector = filled(&class, &["scheduling", "nodeSelector"]).unwrap_or_default();
    let own = filled(pod, &["spec", "nodeSelector"]).unwrap_or_default();
    for (key, value) in &selector {
        if let Some(own) = own.get(key).filter(|own| *own != value) {
            let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            let (value, own) = (text(value), text(own));
            let why = format!(
                "conflict: runtimeClass.scheduling.nodeSelector[{key}] = {value}; pod.spec.nodeSelector[{key}] = {own}"
            );
            return Err(forbidden(pod, &why));
        }
    }
    let Some(spec) = meta::object_mut(pod, &["spec"]) else { return Ok(()) };
    if let Some(overhead) = overhead {
        spec.insert("overhead".to_owned(), Value::Object(overhead));
    }
    if !selector.is_empty() {
        let mut all = own;
        all.extend(selector);
        spec.insert("nodeSelector".to_owned(), Value::Object(all));
    }
    let more = meta::at(&class, &["scheduling", "tolerations"]).and_then(Value::as_array).cloned().unwrap_or_default();
    if !more.is_empty()
        && let Value::Array(list) = spec.entry("tolerations").or_insert_with(|| Value::Array(Vec::new()))
    {
        let all: Vec<Value> = list.drain(..).chain(more).collect();
        for (at, toleration) in all.iter().enumerate() {
            let covers = |other: &Value| tolerates_all_of(other, toleration);
            // Of equal ones the first stays.
            let is_covered_later = all.iter().skip(at + 1).any(|other| other != toleration && covers(other));
            if !list.iter().any(covers) && !is_covered_later {
                list.push(toleration.clone());
            }
        }
    }
    Ok(())
}

/// Whether a toleration tolerates whatever another does.
fn tolerates_all_of(toleration: &Value, other: &Value) -> bool {
    fn text<'v>(of: &'v Value, field: &str) -> &'v str {
        of.get(field).and_then(Value::as_str).unwrap_or_default()
    }
    if toleration == other {
        return true;
    }
    let (is_any, effect) = (text(toleration, "operator") == "Exists", text(toleration, "effect"));
    let is_any_key = text(toleration, "key").is_empty() && is_any;
    if text(toleration, "key") != text(other, "key") && !is_any_key || !["", text(other, "effect")].contains(&effect) {
        return false;
    }
    let seconds = |of: &Value| of.get("tolerationSeconds").and_then(Value::as_i64);
    if effect == "NoExecute"
        && let Some(own) = seconds(toleration)
        && seconds(other).is_none_or(|other| other > own)
    {
        return false;
    }
    is_any
        || ["", "Equal"].contains(&text(toleration, "operator"))
            && text(other, "operator") == "Equal"
            && text(toleration, "value") == text(other, "value")
}

fn are_same_amounts(a: &Map<String, Value>, b: &Map<String, Value>) -> bool {
    let amount = |value: &Value| value.as_str().and_then(|text| text.parse::<berth_quantity::Quantity>().ok());
    a.len() == b.len() && a.iter().all(|(name, own)| b.get(name).is_some_and(|other| amount(own) == amount(other)))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::server::{Admission, ApiServer, Config};
    use crate::testing::send;

    /// The regression: workloads whose pods mount a token, and name no account, were refused.
    #[tokio::test]
    async fn pods_that_mount_a_token_get_the_default_account() {
        let admission = Admission { service_account: true, ..Admission::default() };
        let server = ApiServer::new(Config { admission, ..Config::default() });
        let spec = json!({"containers": [{"name": "c", "image": "i"}],
            "volumes": [{"name": "p", "projected": {"sources": [{"serviceAccountToken": {"path": "t"}}]}}]});
        let template = json!({"metadata": {"labels": {"app": "web"}}, "spec": spec});
        let web = json!({"metadata": {"name": "web"}, "spec": {"selector": {"matchLabels": {"app": "web"}}, "template": template}});
        assert_eq!(send(&server, "POST", "/apis/apps/v1/namespaces/default/deployments", web).await.0, 201);
        let pod = json!({"metadata": {"name": "p"}, "spec": spec});
        let (code, made) = send(&server, "POST", "/api/v1/namespaces/default/pods", pod).await;
        assert_eq!((code, &made["spec"]["serviceAccountName"]), (201, &json!("default")));
    }
}
