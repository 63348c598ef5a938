//! Defaults of pods and of the templates of workloads.

use serde_json::{Map, Value, json};

use crate::meta::object_mut;

/// Completes a pod template.
pub(crate) fn fill_template(template: Option<&mut Value>) {
    if let Some(template) = template {
        complete(object_mut(template, &["spec"]));
    }
}

/// Completes a pod: what templates leave open, too.
pub(crate) fn complete_pod(spec: Option<&mut Map<String, Value>>) {
    let Some(spec) = spec else { return };
    crate::meta::fill(spec, "enableServiceLinks", true);
    complete(Some(spec));
}

/// What a pod with limits of its own requests itself: as much as its containers, or else its limits.
pub(crate) fn fill_own_requests(pod: &mut Value) {
    let limits = pod.pointer("/spec/resources/limits").and_then(Value::as_object).cloned().unwrap_or_default();
    if limits.is_empty() {
        return;
    }
    let total = crate::admission::pod_total(pod, "requests").into_iter();
    let of_containers = total.map(|(name, amount)| (name.to_owned(), Value::from(amount.to_string())));
    let of_containers: Vec<_> = of_containers.filter(|(name, _)| ["cpu", "memory"].contains(&name.as_str())).collect();
    let Some(requests) = object_mut(pod, &["spec", "resources", "requests"]) else { return };
    for (name, amount) in of_containers.into_iter().chain(limits) {
        crate::meta::fill(requests, &name, amount);
    }
}

/// Completes a pod's spec.
pub(crate) fn complete(spec: Option<&mut Map<String, Value>>) {
    use crate::meta::fill as default;
    let Some(spec) = spec else { return };
    default(spec, "dnsPolicy", "ClusterFirst");
    default(spec, "restartPolicy", "Always");
    default(spec, "schedulerName", "default-scheduler");
    default(spec, "securityContext", json!({}));
    default(spec, "terminationGracePeriodSeconds", 30);
    // The old name of the field goes with the new one.
    let account = ["serviceAccountName", "serviceAccount"].into_iter().find_map(|field| spec.get(field).cloned());
    if let Some(account) = account {
        default(spec, "serviceAccount", account.clone());
        default(spec, "serviceAccountName", account);
    }
    let host_network = spec.get("hostNetwork") == Some(&Value::Bool(true));
    for field in ["containers", "initContainers", "ephemeralContainers"] {
        for container in spec.get_mut(field).and_then(Value::as_array_mut).into_iter().flatten() {
            fill_container(container, host_network);
        }
    }
    for volume in spec.get_mut("volumes").and_then(Value::as_array_mut).into_iter().flatten() {
        fill_volume(volume);
    }
}

fn fill_container(container: &mut Value, host_network: bool) {
    let image = container.get("image").and_then(Value::as_str).unwrap_or_default().to_owned();
    for probe in ["livenessProbe", "readinessProbe", "startupProbe"] {
        if let Some(probe) = container.get_mut(probe) {
            fill_probe(probe);
        }
    }
    for port in container.get_mut("ports").and_then(Value::as_array_mut).into_iter().flatten() {
        if host_network
            && let Some(number) = port.get("containerPort").cloned()
            && let Some(port) = port.as_object_mut()
        {
            crate::meta::fill(port, "hostPort", number);
        }
    }
    for variable in container.get_mut("env").and_then(Value::as_array_mut).into_iter().flatten() {
        if let Some(Value::Object(reference)) = variable.pointer_mut("/valueFrom/fieldRef") {
            crate::meta::fill(reference, "apiVersion", "v1");
        }
    }
    // Requests are limits where only these are given.
    let limits = container.pointer("/resources/limits").and_then(Value::as_object).cloned().unwrap_or_default();
    if !limits.is_empty()
        && let Some(requests) = object_mut(container, &["resources", "requests"])
    {
        for (name, amount) in limits {
            crate::meta::fill(requests, &name, amount);
        }
    }
    let Some(map) = container.as_object_mut() else { return };
    let is_latest = {
        let name = image.rsplit('/').next().unwrap_or_default();
        !image.contains('@') && (name.ends_with(":latest") || !name.contains(':'))
    };
    crate::meta::fill(map, "imagePullPolicy", if is_latest { "Always" } else { "IfNotPresent" });
    crate::meta::fill(map, "terminationMessagePath", "/dev/termination-log");
    crate::meta::fill(map, "terminationMessagePolicy", "File");
}

fn fill_probe(probe: &mut Value) {
    if let Some(Value::Object(get)) = probe.get_mut("httpGet") {
        crate::meta::fill(get, "path", "/");
        crate::meta::fill(get, "scheme", "HTTP");
    }
    let Some(map) = probe.as_object_mut() else { return };
    for (field, value) in
        [("timeoutSeconds", 1), ("periodSeconds", 10), ("successThreshold", 1), ("failureThreshold", 3)]
    {
        crate::meta::fill(map, field, value);
    }
}

fn fill_volume(volume: &mut Value) {
    for source in ["secret", "configMap", "downwardAPI", "projected"] {
        if let Some(Value::Object(map)) = volume.get_mut(source) {
            crate::meta::fill(map, "defaultMode", 420);
        }
    }
    for list in ["/downwardAPI/items", "/projected/sources/0/downwardAPI/items"] {
        for item in volume.pointer_mut(list).and_then(Value::as_array_mut).into_iter().flatten() {
            if let Some(Value::Object(reference)) = item.get_mut("fieldRef") {
                crate::meta::fill(reference, "apiVersion", "v1");
            }
        }
    }
    if let Some(Value::Object(map)) = volume.get_mut("hostPath") {
        crate::meta::fill(map, "type", "");
    }
    let sources = volume.pointer_mut("/projected/sources").and_then(Value::as_array_mut);
    for source in sources.into_iter().flatten() {
        if let Some(Value::Object(token)) = source.get_mut("serviceAccountToken") {
            crate::meta::fill(token, "expirationSeconds", 3600);
        }
    }
    let template = volume.pointer_mut("/ephemeral/volumeClaimTemplate/spec").and_then(Value::as_object_mut);
    if let Some(spec) = template {
        crate::meta::fill(spec, "volumeMode", "Filesystem");
    }
    let is_bare = volume.as_object().is_some_and(|map| map.len() == 1 && map.contains_key("name"));
    if is_bare && let Some(map) = volume.as_object_mut() {
        map.insert("emptyDir".to_owned(), json!({}));
    }
}
