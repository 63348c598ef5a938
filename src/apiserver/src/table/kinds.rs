//! The cells of built-in kinds.

use jiff::Timestamp;
use serde_json::Value;

use super::cells::{age, human, labels, or_none, since};
use super::core_group::{event, node, pod, quota, service};
use crate::defaults::selector_text;
use crate::meta::{self, at, int_at, list_at, text_at};
use crate::resource::Resource;

/// The cells of an object.
#[allow(clippy::too_many_lines)] // One short arm a kind.
pub(super) fn cells(resource: &Resource, object: &Value, now: Timestamp) -> Vec<Value> {
    let name = || Value::from(meta::name(object));
    let age = || age(object, now);
    let status = |field: &str| Value::from(int_at(object, &["status", field]).unwrap_or(0));
    let spec = |field: &str| Value::from(int_at(object, &["spec", field]).unwrap_or(0));
    let selector = || Value::from(or_none(selector_text(at(object, &["spec", "selector"]))));
    let text = |path: &[&str]| Value::from(text_at(object, path));
    match resource.storage.as_str() {
        "pods" => pod(object, now),
        "nodes" => node(object, now),
        "namespaces" => vec![name(), text(&["status", "phase"]), age()],
        "deployments.apps" => {
            let ready = format!("{}/{}", status("readyReplicas"), spec("replicas"));
            let (containers, images) = containers(object);
            vec![
                name(),
                ready.into(),
                status("updatedReplicas"),
                status("availableReplicas"),
                age(),
                containers,
                images,
                selector(),
            ]
        }
        "replicasets.apps" | "replicationcontrollers" => {
            let (containers, images) = containers(object);
            vec![
                name(),
                spec("replicas"),
                status("replicas"),
                status("readyReplicas"),
                age(),
                containers,
                images,
                selector(),
            ]
        }
        "statefulsets.apps" => {
            let (containers, images) = containers(object);
            vec![name(), format!("{}/{}", status("readyReplicas"), spec("replicas")).into(), age(), containers, images]
        }
        "daemonsets.apps" => {
            let (containers, images) = containers(object);
            let nodes = labels(at(object, &["spec", "template", "spec", "nodeSelector"]));
            vec![
                name(),
                status("desiredNumberScheduled"),
                status("currentNumberScheduled"),
                status("numberReady"),
                status("updatedNumberScheduled"),
                status("numberAvailable"),
                nodes.into(),
                age(),
                containers,
                images,
                selector(),
            ]
        }
        "jobs.batch" => job(object, now),
        "cronjobs.batch" => {
            let (containers, images) =
                containers_at(object, &["spec", "jobTemplate", "spec", "template", "spec", "containers"]);
            let last = text_at(object, &["status", "lastScheduleTime"]);
            let last = if last.is_empty() { "<none>".to_owned() } else { since(last, now) };
            let zone = or_none(text_at(object, &["spec", "timeZone"]).to_owned());
            let suspended = at(object, &["spec", "suspend"]) == Some(&Value::Bool(true));
            let active = list_at(object, &["status", "active"]).len();
            vec![
                name(),
                text(&["spec", "schedule"]),
                zone.into(),
                if suspended { "True" } else { "False" }.into(),
                active.into(),
                last.into(),
                age(),
                containers,
                images,
                "<none>".into(),
            ]
        }
        "services" => service(object, now),
        "configmaps" => {
            let count = |field: &str| object.get(field).and_then(Value::as_object).map_or(0, serde_json::Map::len);
            vec![name(), (count("data") + count("binaryData")).into(), age()]
        }
        "secrets" => {
            let count = object.get("data").and_then(Value::as_object).map_or(0, serde_json::Map::len);
            vec![name(), text(&["type"]), count.into(), age()]
        }
        "runtimeclasses.node.k8s.io" => vec![name(), text(&["handler"]), age()],
        "mutatingwebhookconfigurations.admissionregistration.k8s.io"
        | "validatingwebhookconfigurations.admissionregistration.k8s.io" => {
            vec![name(), list_at(object, &["webhooks"]).len().into(), age()]
        }
        "validatingadmissionpolicies.admissionregistration.k8s.io" => {
            let kind = at(object, &["spec", "paramKind"]);
            let kind = kind.map(|kind| format!("{}/{}", text_at(kind, &["apiVersion"]), text_at(kind, &["kind"])));
            let count = list_at(object, &["spec", "validations"]).len();
            vec![name(), count.into(), kind.unwrap_or_else(|| "<unset>".to_owned()).into(), age()]
        }
        "validatingadmissionpolicybindings.admissionregistration.k8s.io" => {
            let param = |field: &str| text_at(object, &["spec", "paramRef", field]);
            let namespace = Some(param("namespace")).filter(|namespace| !namespace.is_empty()).unwrap_or("*");
            let named =
                if param("name").is_empty() { "<unset>".to_owned() } else { format!("{namespace}/{}", param("name")) };
            vec![name(), text(&["spec", "policyName"]), named.into(), age()]
        }
        "events" => event(object, now),
        "persistentvolumes" => {
            let claim = at(object, &["spec", "claimRef"]).map_or(String::new(), |claim| {
                format!("{}/{}", text_at(claim, &["namespace"]), text_at(claim, &["name"]))
            });
            vec![
                name(),
                text(&["spec", "capacity", "storage"]),
                access(list_at(object, &["spec", "accessModes"])),
                text(&["spec", "persistentVolumeReclaimPolicy"]),
                phase(object),
                claim.into(),
                text(&["spec", "storageClassName"]),
                unset(text_at(object, &["spec", "volumeAttributesClassName"])),
                text(&["status", "reason"]),
                age(),
                text(&["spec", "volumeMode"]),
            ]
        }
        "persistentvolumeclaims" => {
            let is_bound = !text_at(object, &["spec", "volumeName"]).is_empty();
            let capacity = if is_bound { text_at(object, &["status", "capacity", "storage"]) } else { "" };
            let modes = if is_bound { access(list_at(object, &["status", "accessModes"])) } else { "".into() };
            vec![
                name(),
                phase(object),
                text(&["spec", "volumeName"]),
                capacity.into(),
                modes,
                text(&["spec", "storageClassName"]),
                unset(text_at(object, &["spec", "volumeAttributesClassName"])),
                age(),
                text(&["spec", "volumeMode"]),
            ]
        }
        "storageclasses.storage.k8s.io" => {
            let is_default = meta::annotation(object, "storageclass.kubernetes.io/is-default-class") == Some("true");
            let shown = format!("{}{}", meta::name(object), if is_default { " (default)" } else { "" });
            let expands = object.get("allowVolumeExpansion") == Some(&Value::Bool(true));
            vec![
                shown.into(),
                text(&["provisioner"]),
                text(&["reclaimPolicy"]),
                text(&["volumeBindingMode"]),
                expands.into(),
                age(),
            ]
        }
        "poddisruptionbudgets.policy" => {
            let bound = |field: &str| match at(object, &["spec", field]) {
                Some(Value::String(text)) => Value::from(text.as_str()),
                Some(other) => other.to_string().into(),
                None => "N/A".into(),
            };
            vec![name(), bound("minAvailable"), bound("maxUnavailable"), status("disruptionsAllowed"), age()]
        }
        "priorityclasses.scheduling.k8s.io" => {
            let is_default = object.get("globalDefault") == Some(&Value::Bool(true));
            vec![
                name(),
                object.get("value").cloned().unwrap_or_default(),
                is_default.into(),
                age(),
                text(&["preemptionPolicy"]),
            ]
        }
        "leases.coordination.k8s.io" => vec![name(), text(&["spec", "holderIdentity"]), age()],
        "resourcequotas" => quota(object, now),
        "customresourcedefinitions.apiextensions.k8s.io"
        | "roles.rbac.authorization.k8s.io"
        | "clusterroles.rbac.authorization.k8s.io"
        | "limitranges" => vec![name(), text(&["metadata", "creationTimestamp"])],
        "rolebindings.rbac.authorization.k8s.io" | "clusterrolebindings.rbac.authorization.k8s.io" => {
            let role = format!("{}/{}", text_at(object, &["roleRef", "kind"]), text_at(object, &["roleRef", "name"]));
            let of = |kind: &str| {
                let subjects = list_at(object, &["subjects"]).iter().filter(|s| text_at(s, &["kind"]) == kind);
                let names = subjects.map(|s| match text_at(s, &["namespace"]) {
                    "" => text_at(s, &["name"]).to_owned(),
                    namespace => format!("{namespace}/{}", text_at(s, &["name"])),
                });
                Value::from(names.collect::<Vec<_>>().join(", "))
            };
            vec![name(), role.into(), age(), of("User"), of("Group"), of("ServiceAccount")]
        }
        "csinodes.storage.k8s.io" => vec![name(), list_at(object, &["spec", "drivers"]).len().into(), age()],
        "endpoints" => vec![name(), endpoints(object).into(), age()],
        "endpointslices.discovery.k8s.io" => {
            let ports = list_at(object, &["ports"]).iter().map(|port| match port.get("port") {
                Some(number) => number.to_string(),
                None => text_at(port, &["name"]).to_owned(),
            });
            let addresses = list_at(object, &["endpoints"]).iter().flat_map(|one| list_at(one, &["addresses"]));
            let addresses = addresses.filter_map(Value::as_str).map(str::to_owned);
            let shown = |list: Vec<String>| Value::from(or(first_three(&list), "<unset>"));
            let kind = text_at(object, &["addressType"]).into();
            vec![name(), kind, shown(ports.collect()), shown(addresses.collect()), age()]
        }
        "controllerrevisions.apps" => {
            let controller = meta::owners(object).find(|owner| owner.get("controller") == Some(&Value::Bool(true)));
            let controller = controller.map_or("<none>".to_owned(), |owner| {
                let (group, _) = crate::resource::split_api_version(text_at(owner, &["apiVersion"]));
                let kind = text_at(owner, &["kind"]).to_lowercase();
                format!("{}/{}", crate::status::qualified(group, &kind), text_at(owner, &["name"]))
            });
            vec![name(), controller.into(), object.get("revision").cloned().unwrap_or_default(), age()]
        }
        "horizontalpodautoscalers.autoscaling" => autoscaler(object, now),
        "ingresses.networking.k8s.io" => ingress(object, now),
        "networkpolicies.networking.k8s.io" => {
            vec![name(), or_none(selector_text(at(object, &["spec", "podSelector"]))).into(), age()]
        }
        _ => vec![name(), age()],
    }
}

/// A HorizontalPodAutoscaler, of `autoscaling/v2` or `v1`.
fn autoscaler(object: &Value, now: Timestamp) -> Vec<Value> {
    let target = |field: &str| text_at(object, &["spec", "scaleTargetRef", field]);
    let current = list_at(object, &["status", "currentMetrics"]);
    let metrics = list_at(object, &["spec", "metrics"]).iter().enumerate().map(|(at_, metric)| {
        let of = |path: &[&str]| {
            let kind = text_at(metric, &["type"]);
            let field =
                format!("{}{}", kind.get(..1).unwrap_or_default().to_lowercase(), kind.get(1..).unwrap_or_default());
            at(metric, &[&field]).and_then(|source| at(source, path)).cloned().unwrap_or_default()
        };
        let name = of(&["name"]);
        let name = name.as_str().map(|name| format!("{name}: ")).unwrap_or_default();
        let was = |path: &[&str]| at(current.get(at_)?, path).and_then(Value::as_i64).map(|n| format!("{n}%"));
        let was = was(&["resource", "current", "averageUtilization"]).unwrap_or_else(|| "<unknown>".to_owned());
        match (
            of(&["target", "averageUtilization"]).as_i64(),
            of(&["target", "averageValue"]),
            of(&["target", "value"]),
        ) {
            (Some(percent), ..) => format!("{name}{was}/{percent}%"),
            (None, Value::String(value), _) => format!("{name}<unknown>/{value} (avg)"),
            (None, _, Value::String(value)) => format!("{name}<unknown>/{value}"),
            _ => format!("{name}<unknown>/<auto>"),
        }
    });
    let mut metrics: Vec<String> = metrics.collect();
    if let Some(percent) = int_at(object, &["spec", "targetCPUUtilizationPercentage"]) {
        metrics.push(format!("cpu: <unknown>/{percent}%"));
    }
    let number = |field: &str| int_at(object, &["spec", field]).map_or("<unset>".to_owned(), |n| n.to_string());
    vec![
        meta::name(object).into(),
        format!("{}/{}", target("kind"), target("name")).into(),
        or_none(metrics.join(", ")).into(),
        number("minReplicas").into(),
        number("maxReplicas").into(),
        int_at(object, &["status", "currentReplicas"]).unwrap_or(0).into(),
        age(object, now),
    ]
}

fn ingress(object: &Value, now: Timestamp) -> Vec<Value> {
    let class = match text_at(object, &["spec", "ingressClassName"]) {
        "" => text_at(object, &["metadata", "annotations", "kubernetes.io/ingress.class"]),
        class => class,
    };
    let hosts = list_at(object, &["spec", "rules"]).iter().map(|rule| text_at(rule, &["host"]));
    let hosts: Vec<&str> = hosts.filter(|host| !host.is_empty()).collect();
    let addresses =
        list_at(object, &["status", "loadBalancer", "ingress"]).iter().map(|one| match text_at(one, &["ip"]) {
            "" => text_at(one, &["hostname"]),
            ip => ip,
        });
    let addresses: Vec<&str> = addresses.collect();
    let ports = if list_at(object, &["spec", "tls"]).is_empty() { "80" } else { "80, 443" };
    vec![
        meta::name(object).into(),
        or_none(class.to_owned()).into(),
        if hosts.is_empty() { "*".into() } else { hosts.join(",").into() },
        addresses.join(",").into(),
        ports.into(),
        age(object, now),
    ]
}

fn phase(object: &Value) -> Value {
    if meta::has(object, "deletionTimestamp") {
        "Terminating".into()
    } else {
        text_at(object, &["status", "phase"]).into()
    }
}

/// The ready addresses of Endpoints, with their ports.
fn endpoints(object: &Value) -> String {
    let mut all = Vec::new();
    for subset in list_at(object, &["subsets"]) {
        let ip = |address: &Value| text_at(address, &["ip"]).to_owned();
        let addresses = list_at(subset, &["addresses"]);
        let ports = list_at(subset, &["ports"]);
        if ports.is_empty() {
            all.extend(addresses.iter().map(ip));
        }
        for port in ports.iter().filter_map(|port| int_at(port, &["port"])) {
            all.extend(addresses.iter().map(|address| format!("{}:{port}", ip(address))));
        }
    }
    if list_at(object, &["subsets"]).is_empty() { "<none>".to_owned() } else { first_three(&all) }
}

/// Some of a list, and how many more there are.
fn first_three(list: &[String]) -> String {
    let shown = list.iter().take(3).map(String::as_str).collect::<Vec<_>>().join(",");
    if list.len() > 3 { format!("{shown} + {} more...", list.len() - 3) } else { shown }
}

fn or(text: String, otherwise: &str) -> String {
    if text.is_empty() { otherwise.to_owned() } else { text }
}

fn unset(text: &str) -> Value {
    if text.is_empty() { "<unset>".into() } else { text.into() }
}

fn access(modes: &[Value]) -> Value {
    let short = modes.iter().filter_map(Value::as_str).map(|mode| match mode {
        "ReadWriteOnce" => "RWO",
        "ReadOnlyMany" => "ROX",
        "ReadWriteMany" => "RWX",
        "ReadWriteOncePod" => "RWOP",
        other => other,
    });
    short.collect::<Vec<_>>().join(",").into()
}

fn containers(object: &Value) -> (Value, Value) {
    containers_at(object, &["spec", "template", "spec", "containers"])
}

fn containers_at(object: &Value, path: &[&str]) -> (Value, Value) {
    let list = list_at(object, path);
    let join = |field: &str| list.iter().map(|c| text_at(c, &[field])).collect::<Vec<_>>().join(",");
    (join("name").into(), join("image").into())
}

fn job(job: &Value, now: Timestamp) -> Vec<Value> {
    let succeeded = int_at(job, &["status", "succeeded"]).unwrap_or(0);
    let completions = match (int_at(job, &["spec", "completions"]), int_at(job, &["spec", "parallelism"])) {
        (Some(completions), _) => format!("{succeeded}/{completions}"),
        (None, Some(parallelism)) if parallelism > 1 => format!("{succeeded}/1 of {parallelism}"),
        _ => format!("{succeeded}/1"),
    };
    let holds = |kind: &str| {
        let conditions = list_at(job, &["status", "conditions"]);
        conditions.iter().any(|c| text_at(c, &["type"]) == kind && text_at(c, &["status"]) == "True")
    };
    let status = if holds("Complete") {
        "Complete"
    } else if holds("Failed") {
        "Failed"
    } else if meta::has(job, "deletionTimestamp") {
        "Terminating"
    } else if holds("Suspended") {
        "Suspended"
    } else if holds("FailureTarget") {
        "FailureTarget"
    } else {
        "Running"
    };
    let start = text_at(job, &["status", "startTime"]);
    let end = text_at(job, &["status", "completionTime"]);
    let seconds = |text: &str| text.parse::<Timestamp>().map(Timestamp::as_second);
    let duration = match (seconds(start), seconds(end)) {
        (Ok(start), Ok(end)) => human(end - start),
        (Ok(start), Err(_)) => human(now.as_second() - start),
        _ => String::new(),
    };
    let (containers, images) = containers(job);
    let selector = or_none(selector_text(at(job, &["spec", "selector"])));
    vec![
        meta::name(job).into(),
        status.into(),
        completions.into(),
        duration.into(),
        age(job, now),
        containers,
        images,
        selector.into(),
    ]
}
