//! The cells of pods, nodes, Services, Events and ResourceQuotas.

use jiff::Timestamp;
use serde_json::Value;

use super::cells::{age, labels, or_none, since};
use crate::meta::{self, at, int_at, list_at, text_at};

pub(super) fn pod(pod: &Value, now: Timestamp) -> Vec<Value> {
    let statuses = list_at(pod, &["status", "containerStatuses"]);
    let n_ready = statuses.iter().filter(|status| status.get("ready") == Some(&Value::Bool(true))).count();
    let n_containers = list_at(pod, &["spec", "containers"]).len();
    let restarts: i64 = statuses.iter().filter_map(|status| int_at(status, &["restartCount"])).sum();
    let or = |path: &[&str]| Value::from(or_none(text_at(pod, path).to_owned()));
    let gates = list_at(pod, &["spec", "readinessGates"]);
    let gates_text = if gates.is_empty() {
        "<none>".to_owned()
    } else {
        let met = gates.iter().filter(|gate| {
            let kind = text_at(gate, &["conditionType"]);
            let conditions = list_at(pod, &["status", "conditions"]);
            conditions.iter().any(|c| text_at(c, &["type"]) == kind && text_at(c, &["status"]) == "True")
        });
        format!("{}/{}", met.count(), gates.len())
    };
    vec![
        meta::name(pod).into(),
        format!("{n_ready}/{n_containers}").into(),
        pod_status(pod, statuses).into(),
        restarts.to_string().into(),
        age(pod, now),
        or(&["status", "podIP"]),
        or(&["spec", "nodeName"]),
        or(&["status", "nominatedNodeName"]),
        gates_text.into(),
    ]
}

fn pod_status(pod: &Value, statuses: &[Value]) -> String {
    let phase = text_at(pod, &["status", "phase"]);
    let mut reason = phase.to_owned();
    let own = text_at(pod, &["status", "reason"]);
    if !own.is_empty() {
        own.clone_into(&mut reason);
    }
    let gated = list_at(pod, &["status", "conditions"])
        .iter()
        .any(|c| text_at(c, &["type"]) == "PodScheduled" && text_at(c, &["reason"]) == "SchedulingGated");
    if gated {
        "SchedulingGated".clone_into(&mut reason);
    }
    for status in statuses.iter().rev() {
        for state in ["waiting", "terminated"] {
            let why = text_at(status, &["state", state, "reason"]);
            if !why.is_empty() {
                why.clone_into(&mut reason);
            }
        }
    }
    let has_ended = ["Succeeded", "Failed"].contains(&phase);
    match meta::has(pod, "deletionTimestamp") {
        true if own == "NodeLost" => "Unknown".to_owned(),
        true if !has_ended => "Terminating".to_owned(),
        _ => reason,
    }
}

pub(super) fn node(node: &Value, now: Timestamp) -> Vec<Value> {
    let ready = list_at(node, &["status", "conditions"]).iter().find(|c| text_at(c, &["type"]) == "Ready");
    let mut status = match ready.map(|condition| text_at(condition, &["status"])) {
        Some("True") => "Ready".to_owned(),
        Some(_) => "NotReady".to_owned(),
        None => "Unknown".to_owned(),
    };
    if at(node, &["spec", "unschedulable"]) == Some(&Value::Bool(true)) {
        status.push_str(",SchedulingDisabled");
    }
    let mut roles: Vec<&str> = meta::labels(node)
        .filter_map(|(key, value)| match key.strip_prefix("node-role.kubernetes.io/") {
            Some(role) if !role.is_empty() => Some(role),
            _ => (key == "kubernetes.io/role" && !value.is_empty()).then_some(value),
        })
        .collect();
    roles.sort_unstable();
    let address = |kind: &str| {
        let found = list_at(node, &["status", "addresses"]).iter().find(|a| text_at(a, &["type"]) == kind);
        or_none(found.map(|address| text_at(address, &["address"]).to_owned()).unwrap_or_default())
    };
    let info = |field: &str| {
        let text = text_at(node, &["status", "nodeInfo", field]);
        if text.is_empty() { "<unknown>".to_owned() } else { text.to_owned() }
    };
    vec![
        meta::name(node).into(),
        status.into(),
        or_none(roles.join(",")).into(),
        age(node, now),
        text_at(node, &["status", "nodeInfo", "kubeletVersion"]).into(),
        address("InternalIP").into(),
        address("ExternalIP").into(),
        info("osImage").into(),
        info("kernelVersion").into(),
        info("containerRuntimeVersion").into(),
    ]
}

pub(super) fn service(service: &Value, now: Timestamp) -> Vec<Value> {
    let ports: Vec<String> = list_at(service, &["spec", "ports"])
        .iter()
        .map(|port| {
            let (number, protocol) = (int_at(port, &["port"]).unwrap_or(0), text_at(port, &["protocol"]));
            match int_at(port, &["nodePort"]).filter(|port| *port > 0) {
                Some(node_port) => format!("{number}:{node_port}/{protocol}"),
                None => format!("{number}/{protocol}"),
            }
        })
        .collect();
    let kind = text_at(service, &["spec", "type"]);
    let external = match kind {
        "ExternalName" => or_none(text_at(service, &["spec", "externalName"]).to_owned()),
        "LoadBalancer" => {
            let ingress = list_at(service, &["status", "loadBalancer", "ingress"]).iter();
            let shown: Vec<&str> = ingress
                .map(|i| if text_at(i, &["ip"]).is_empty() { text_at(i, &["hostname"]) } else { text_at(i, &["ip"]) })
                .collect();
            if shown.is_empty() { "<pending>".to_owned() } else { shown.join(",") }
        }
        _ => or_none(
            list_at(service, &["spec", "externalIPs"]).iter().filter_map(Value::as_str).collect::<Vec<_>>().join(","),
        ),
    };
    let selector = labels(at(service, &["spec", "selector"]));
    vec![
        meta::name(service).into(),
        kind.into(),
        or_none(text_at(service, &["spec", "clusterIP"]).to_owned()).into(),
        external.into(),
        or_none(ports.join(",")).into(),
        age(service, now),
        selector.into(),
    ]
}

pub(super) fn event(event: &Value, now: Timestamp) -> Vec<Value> {
    // In either of its two versions.
    let either = |core: &str, new: &str| event.get(core).or_else(|| event.get(new)).cloned().unwrap_or_default();
    let object = either("involvedObject", "regarding");
    let source = either("source", "deprecatedSource");
    let time = |core: &str, new: &str| {
        let text = either(core, new).as_str().unwrap_or_default().to_owned();
        if text.is_empty() { text_at(event, &["eventTime"]).to_owned() } else { text }
    };
    let series = text_at(event, &["series", "lastObservedTime"]);
    let last = if series.is_empty() { time("lastTimestamp", "deprecatedLastTimestamp") } else { series.to_owned() };
    let count = int_at(event, &["series", "count"]).or(either("count", "deprecatedCount").as_i64()).unwrap_or(1);
    let component = text_at(&source, &["component"]);
    let from = if component.is_empty() {
        either("reportingComponent", "reportingController").as_str().unwrap_or_default().to_owned()
    } else {
        component.to_owned()
    };
    let host = text_at(&source, &["host"]);
    let from = if host.is_empty() { from } else { format!("{from}, {host}") };
    vec![
        since(&last, now).into(),
        text_at(event, &["type"]).into(),
        text_at(event, &["reason"]).into(),
        format!("{}/{}", text_at(&object, &["kind"]).to_lowercase(), text_at(&object, &["name"])).into(),
        text_at(&object, &["fieldPath"]).into(),
        from.into(),
        either("message", "note").as_str().unwrap_or_default().trim().into(),
        since(&time("firstTimestamp", "deprecatedFirstTimestamp"), now).into(),
        count.into(),
        meta::name(event).into(),
    ]
}

pub(super) fn quota(quota: &Value, now: Timestamp) -> Vec<Value> {
    let (mut requests, mut limits) = (Vec::new(), Vec::new());
    for (name, hard) in at(quota, &["status", "hard"]).and_then(Value::as_object).into_iter().flatten() {
        let used = text_at(quota, &["status", "used", name]);
        let part = format!("{name}: {used}/{}", hard.as_str().unwrap_or_default());
        if name.starts_with("limits.") { limits.push(part) } else { requests.push(part) }
    }
    vec![meta::name(quota).into(), requests.join(", ").into(), limits.join(", ").into(), age(quota, now)]
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    #[rstest]
    #[case::runs(json!({"phase": "Running"}), "Terminating")]
    #[case::on_a_lost_node(json!({"phase": "Running", "reason": "NodeLost"}), "Unknown")]
    #[case::succeeded(json!({"phase": "Succeeded", "containerStatuses": [
        {"state": {"terminated": {"exitCode": 0, "reason": "Completed"}}}]}), "Completed")]
    #[case::failed(json!({"phase": "Failed", "containerStatuses": [
        {"state": {"terminated": {"exitCode": 1, "reason": "Error"}}}]}), "Error")]
    #[case::rejected(json!({"phase": "Failed", "reason": "OutOfcpu"}), "OutOfcpu")]
    fn a_pod_that_is_being_deleted_is_terminating_until_it_has_ended(#[case] status: Value, #[case] told: &str) {
        let metadata =
            json!({"name": "p", "deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["example.com/a"]});
        let cells = pod(&json!({"metadata": metadata, "spec": {}, "status": status}), Timestamp::UNIX_EPOCH);
        assert_eq!(cells[2], told);
    }
}
