//! The printed columns of built-in kinds.

use jiff::Timestamp;
use serde_json::Value;

use super::Column;
use super::cells::{age, human, labels, or_none, since};
use crate::defaults::selector_text;
use crate::meta::{self, at, int_at, list_at, text_at};
use crate::resource::Resource;

const NAME: Column = ("Name", "string", "name", 0);
const AGE: Column = ("Age", "string", "", 0);

const fn text(name: &'static str) -> Column {
    (name, "string", "", 0)
}
const fn wide(name: &'static str) -> Column {
    (name, "string", "", 1)
}
const fn number(name: &'static str) -> Column {
    (name, "integer", "", 0)
}

/// The columns of a kind.
#[allow(clippy::too_many_lines)] // A list of lists.
pub(super) fn columns(resource: &Resource) -> &'static [Column] {
    match resource.storage.as_str() {
        "pods" => {
            const {
                &[
                    NAME,
                    text("Ready"),
                    text("Status"),
                    text("Restarts"),
                    AGE,
                    wide("IP"),
                    wide("Node"),
                    wide("Nominated Node"),
                    wide("Readiness Gates"),
                ]
            }
        }
        "nodes" => {
            const {
                &[
                    NAME,
                    text("Status"),
                    text("Roles"),
                    AGE,
                    text("Version"),
                    wide("Internal-IP"),
                    wide("External-IP"),
                    wide("OS-Image"),
                    wide("Kernel-Version"),
                    wide("Container-Runtime"),
                ]
            }
        }
        "namespaces" => const { &[NAME, text("Status"), AGE] },
        "deployments.apps" => {
            const {
                &[
                    NAME,
                    text("Ready"),
                    text("Up-to-date"),
                    text("Available"),
                    AGE,
                    wide("Containers"),
                    wide("Images"),
                    wide("Selector"),
                ]
            }
        }
        "replicasets.apps" | "replicationcontrollers" => {
            const {
                &[
                    NAME,
                    number("Desired"),
                    number("Current"),
                    number("Ready"),
                    AGE,
                    wide("Containers"),
                    wide("Images"),
                    wide("Selector"),
                ]
            }
        }
        "statefulsets.apps" => const { &[NAME, text("Ready"), AGE, wide("Containers"), wide("Images")] },
        "daemonsets.apps" => {
            const {
                &[
                    NAME,
                    number("Desired"),
                    number("Current"),
                    number("Ready"),
                    number("Up-to-date"),
                    number("Available"),
                    text("Node Selector"),
                    AGE,
                    wide("Containers"),
                    wide("Images"),
                    wide("Selector"),
                ]
            }
        }
        "jobs.batch" => {
            const {
                &[
                    NAME,
                    text("Status"),
                    text("Completions"),
                    text("Duration"),
                    AGE,
                    wide("Containers"),
                    wide("Images"),
                    wide("Selector"),
                ]
            }
        }
        "cronjobs.batch" => {
            const {
                &[
                    NAME,
                    text("Schedule"),
                    text("Timezone"),
                    ("Suspend", "boolean", "", 0),
                    number("Active"),
                    text("Last Schedule"),
                    AGE,
                    wide("Containers"),
                    wide("Images"),
                    wide("Selector"),
                ]
            }
        }
        "services" => {
            const { &[NAME, text("Type"), text("Cluster-IP"), text("External-IP"), text("Port(s)"), AGE, wide("Selector")] }
        }
        "configmaps" => const { &[NAME, text("Data"), AGE] },
        "secrets" => const { &[NAME, text("Type"), text("Data"), AGE] },
        "runtimeclasses.node.k8s.io" => const { &[NAME, text("Handler"), AGE] },
        "events" => {
            const {
                &[
                    text("Last Seen"),
                    text("Type"),
                    text("Reason"),
                    text("Object"),
                    wide("Subobject"),
                    wide("Source"),
                    text("Message"),
                    wide("First Seen"),
                    wide("Count"),
                    ("Name", "string", "name", 1),
                ]
            }
        }
        "persistentvolumes" => {
            const {
                &[
                    NAME,
                    text("Capacity"),
                    text("Access Modes"),
                    text("Reclaim Policy"),
                    text("Status"),
                    text("Claim"),
                    text("StorageClass"),
                    text("VolumeAttributesClass"),
                    text("Reason"),
                    AGE,
                    wide("VolumeMode"),
                ]
            }
        }
        "persistentvolumeclaims" => {
            const {
                &[
                    NAME,
                    text("Status"),
                    text("Volume"),
                    text("Capacity"),
                    text("Access Modes"),
                    text("StorageClass"),
                    text("VolumeAttributesClass"),
                    AGE,
                    wide("VolumeMode"),
                ]
            }
        }
        "storageclasses.storage.k8s.io" => {
            const {
                &[
                    NAME,
                    text("Provisioner"),
                    text("ReclaimPolicy"),
                    text("VolumeBindingMode"),
                    text("AllowVolumeExpansion"),
                    AGE,
                ]
            }
        }
        "poddisruptionbudgets.policy" => {
            const { &[NAME, text("Min Available"), text("Max Unavailable"), number("Allowed Disruptions"), AGE] }
        }
        "priorityclasses.scheduling.k8s.io" => {
            const { &[NAME, number("Value"), ("Global-Default", "boolean", "", 0), AGE, text("PreemptionPolicy")] }
        }
        "leases.coordination.k8s.io" => const { &[NAME, text("Holder"), AGE] },
        "resourcequotas" => const { &[NAME, text("Request"), text("Limit"), AGE] },
        "customresourcedefinitions.apiextensions.k8s.io"
        | "roles.rbac.authorization.k8s.io"
        | "limitranges"
        | "clusterroles.rbac.authorization.k8s.io" => const { &[NAME, ("Created At", "date", "", 0)] },
        "rolebindings.rbac.authorization.k8s.io" | "clusterrolebindings.rbac.authorization.k8s.io" => {
            const { &[NAME, text("Role"), AGE, wide("Users"), wide("Groups"), wide("ServiceAccounts")] }
        }
        "csinodes.storage.k8s.io" => const { &[NAME, number("Drivers"), AGE] },
        "endpoints" => const { &[NAME, text("Endpoints"), AGE] },
        _ => const { &[NAME, AGE] },
    }
}

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
        "endpoints" => vec![name(), "<none>".into(), age()],
        _ => vec![name(), age()],
    }
}

fn phase(object: &Value) -> Value {
    if meta::has(object, "deletionTimestamp") {
        "Terminating".into()
    } else {
        text_at(object, &["status", "phase"]).into()
    }
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

fn pod(pod: &Value, now: Timestamp) -> Vec<Value> {
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
    let mut reason = text_at(pod, &["status", "phase"]).to_owned();
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
    if meta::has(pod, "deletionTimestamp") {
        let lost = own == "NodeLost";
        return if lost { "Unknown".to_owned() } else { "Terminating".to_owned() };
    }
    reason
}

fn node(node: &Value, now: Timestamp) -> Vec<Value> {
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

fn service(service: &Value, now: Timestamp) -> Vec<Value> {
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

fn event(event: &Value, now: Timestamp) -> Vec<Value> {
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

fn quota(quota: &Value, now: Timestamp) -> Vec<Value> {
    let (mut requests, mut limits) = (Vec::new(), Vec::new());
    for (name, hard) in at(quota, &["status", "hard"]).and_then(Value::as_object).into_iter().flatten() {
        let used = text_at(quota, &["status", "used", name]);
        let part = format!("{name}: {used}/{}", hard.as_str().unwrap_or_default());
        if name.starts_with("limits.") { limits.push(part) } else { requests.push(part) }
    }
    vec![meta::name(quota).into(), requests.join(", ").into(), limits.join(", ").into(), age(quota, now)]
}
