//! What a kind does to its objects before they are stored, and which of their fields can be selected.

use std::sync::LazyLock;

use serde_json::{Value, json};

use crate::apply::FieldSet;
use crate::meta;
use crate::resource::Resource;
use crate::schema::decode;
use crate::server::ApiServer;
use crate::store::{FieldPaths, Fields};

/// Fields that a write through an endpoint cannot change, and so does not own.
pub(super) fn resets(resource: &Resource, subresource: &str) -> &'static FieldSet {
    static OF_APPS: LazyLock<FieldSet> = LazyLock::new(|| FieldSet::of_fields(&[&["spec"], &["metadata", "labels"]]));
    static OF_PODS: LazyLock<FieldSet> = LazyLock::new(|| {
        FieldSet::of_fields(&[&["spec"], &["metadata", "deletionTimestamp"], &["metadata", "ownerReferences"]])
    });
    static SPEC: LazyLock<FieldSet> = LazyLock::new(|| FieldSet::of_fields(&[&["spec"]]));
    static STATUS: LazyLock<FieldSet> = LazyLock::new(|| FieldSet::of_fields(&[&["status"]]));
    static NONE: LazyLock<FieldSet> = LazyLock::new(FieldSet::default);
    match subresource {
        "status" if resource.group == "apps" => &OF_APPS,
        "status" if resource.is("pods") => &OF_PODS,
        "status" => &SPEC,
        "" if resource.has_status() => &STATUS,
        _ => &NONE,
    }
}

/// The part of an object that is the user's: nodes alone may be created with a status.
fn clears_status(resource: &Resource) -> bool {
    resource.has_status() && !resource.is("nodes")
}

/// Readies a new object.
pub(super) fn prepare_create(server: &ApiServer, resource: &Resource, object: &mut Value) {
    if clears_status(resource)
        && let Some(map) = object.as_object_mut()
    {
        map.remove("status");
    }
    meta::remove(object, "generation");
    if resource.habits.generation {
        meta::set(object, "generation", 1);
    }
    if let Some(custom) = resource.custom() {
        custom.default_again(object);
        return;
    }
    match resource.storage.as_str() {
        "namespaces" => {
            if let Some(spec) = meta::object_mut(object, &["spec"]) {
                let list = spec.entry("finalizers").or_insert_with(|| json!([]));
                if let Value::Array(list) = list
                    && !list.contains(&json!("kubernetes"))
                {
                    list.push(json!("kubernetes"));
                }
            }
            set_status(object, json!({"phase": "Active"}));
            crate::defaults::complete(resource, object);
        }
        "pods" => {
            let class = quality_of_service(object);
            set_status(object, json!({"phase": "Pending", "qosClass": class}));
            if !meta::list_at(object, &["spec", "schedulingGates"]).is_empty() {
                let condition = json!({"type": "PodScheduled", "status": "False", "reason": "SchedulingGated",
                    "message": "Scheduling is blocked due to non-empty scheduling gates",
                    "lastTransitionTime": server.inner.clock.now_text()});
                super::subresource::set_condition(object, &condition);
            }
        }
        "persistentvolumes" => {
            let now = server.inner.clock.now_text();
            set_status(object, json!({"phase": "Pending", "lastPhaseTransitionTime": now}));
        }
        "persistentvolumeclaims" => set_status(object, json!({"phase": "Pending"})),
        "jobs.batch" => label_job(object),
        _ => {}
    }
    if resource.is("customresourcedefinitions.apiextensions.k8s.io") {
        crate::crd::finish(object);
        let now = server.inner.clock.now_text();
        let taken = server.taken_names(object);
        crate::crd::establish(object, &taken, &now);
    }
    // Puts back what a missing status leaves: `status: {}`. Of a pod nothing else can have changed.
    match object.get_mut("status").filter(|_| resource.is("pods")) {
        Some(status) => decode::decode(status, resource.typed().child("status")),
        None => decode::decode(object, resource.typed()),
    };
}

fn set_status(object: &mut Value, status: Value) {
    if let Some(map) = object.as_object_mut() {
        map.insert("status".to_owned(), status);
    }
}

/// Readies the new state of an object that exists.
pub(super) fn prepare_update(resource: &Resource, subresource: &str, object: &mut Value, old: &Value) {
    for field in ["creationTimestamp", "deletionTimestamp", "generation", "selfLink"] {
        meta::copy(object, old, field);
    }
    if meta::text(object, "uid").is_empty() {
        meta::copy(object, old, "uid");
    }
    if !meta::has(object, "deletionGracePeriodSeconds") {
        meta::copy(object, old, "deletionGracePeriodSeconds");
    }
    if subresource == "status" {
        keep_all_but_status(resource, object, old);
    } else {
        if resource.has_status() && subresource != "approval" {
            restore(object, old, "status");
        }
        let is_balancer = |service: &Value| meta::text_at(service, &["spec", "type"]) == "LoadBalancer";
        if resource.is("services") && is_balancer(old) && !is_balancer(object) {
            set_status(object, json!({"loadBalancer": {}}));
        }
        if resource.habits.generation && is_new_generation(resource, object, old) {
            let next = meta::number(old, "generation").unwrap_or(0) + 1;
            meta::set(object, "generation", next);
        }
    }
    if resource.is("customresourcedefinitions.apiextensions.k8s.io") {
        crate::crd::finish(object);
    }
    if resource.is("daemonsets.apps") && subresource != "status" {
        count_templates(object, old);
    }
    if let Some(custom) = resource.custom() {
        custom.default_again(object);
    }
    if resource.is("namespaces") && subresource != "finalize" {
        let kept = meta::at(old, &["spec", "finalizers"]).cloned();
        if let (Some(kept), Some(spec)) = (kept, meta::object_mut(object, &["spec"])) {
            spec.insert("finalizers".to_owned(), kept);
        }
    }
}

/// Counts the templates that a DaemonSet had. Nobody else can.
fn count_templates(object: &mut Value, old: &Value) {
    const GENERATION: &str = "deprecated.daemonset.template.generation";
    let template = ["spec", "template"];
    let known = meta::text_at(old, &["metadata", "annotations", GENERATION]).parse::<i64>().unwrap_or(1);
    let is_new = meta::at(object, &template) != meta::at(old, &template);
    let next = known.saturating_add(is_new.into()).to_string();
    if let Some(metadata) = meta::object_mut(object, &["metadata"]) {
        let annotations = metadata.entry("annotations").or_insert_with(|| Value::Object(serde_json::Map::new()));
        if let Some(annotations) = annotations.as_object_mut() {
            annotations.insert(GENERATION.to_owned(), next.into());
        }
    }
}

fn restore(object: &mut Value, old: &Value, field: &str) {
    let Some(map) = object.as_object_mut() else { return };
    match (map.get_mut(field), old.get(field)) {
        // Most writes change nothing there, and to compare costs less than to copy.
        (Some(new), Some(old)) if new == old => {}
        (Some(new), Some(old)) => new.clone_from(old),
        (None, Some(old)) => {
            map.insert(field.to_owned(), old.clone());
        }
        (_, None) => {
            map.remove(field);
        }
    }
}

fn keep_all_but_status(resource: &Resource, object: &mut Value, old: &Value) {
    let fields: Vec<String> = match (object.as_object(), old.as_object()) {
        (Some(new), Some(old)) => new.keys().chain(old.keys()).cloned().collect(),
        _ => return,
    };
    for field in fields.iter().filter(|field| !["status", "metadata", "apiVersion", "kind"].contains(&field.as_str())) {
        restore(object, old, field);
    }
    if resource.custom().is_some() {
        let managed = object.pointer("/metadata/managedFields").cloned();
        let version = object.pointer("/metadata/resourceVersion").cloned();
        restore(object, old, "metadata");
        for (field, value) in [("managedFields", managed), ("resourceVersion", version)] {
            match value {
                Some(value) => meta::set(object, field, value),
                None => meta::remove(object, field),
            }
        }
    } else if resource.group == "apps" {
        meta::copy(object, old, "labels");
    } else if resource.is("pods") {
        meta::copy(object, old, "ownerReferences");
    }
}

fn is_new_generation(resource: &Resource, object: &Value, old: &Value) -> bool {
    if resource.custom().is_some() {
        let skipped: &[&str] = if resource.has_status() { &["metadata", "status"] } else { &["metadata"] };
        return !same_without(object, old, skipped);
    }
    let counted: &[&str] = match resource.storage.as_str() {
        "deployments.apps" => &["/spec", "/metadata/annotations"],
        "endpointslices.discovery.k8s.io" => &["/addressType", "/endpoints", "/ports", "/metadata/labels"],
        "podtemplates" => &["/template"],
        "mutatingwebhookconfigurations.admissionregistration.k8s.io"
        | "validatingwebhookconfigurations.admissionregistration.k8s.io" => &["/webhooks"],
        _ => &["/spec"],
    };
    counted.iter().any(|field| object.pointer(field) != old.pointer(field))
}

/// A job's pods are told by its uid, unless it brings a selector of its own.
fn label_job(job: &mut Value) {
    if meta::at(job, &["spec", "manualSelector"]) == Some(&Value::Bool(true)) {
        return;
    }
    let (uid, name) = (meta::text(job, "uid").to_owned(), meta::name(job).to_owned());
    if let Some(labels) = meta::object_mut(job, &["spec", "template", "metadata", "labels"]) {
        for (key, value) in [
            ("batch.kubernetes.io/controller-uid", &uid),
            ("controller-uid", &uid),
            ("batch.kubernetes.io/job-name", &name),
            ("job-name", &name),
        ] {
            meta::fill(labels, key, value.as_str());
        }
    }
    crate::defaults::label_job(job);
    if let Some(labels) = meta::object_mut(job, &["spec", "selector", "matchLabels"]) {
        meta::fill(labels, "batch.kubernetes.io/controller-uid", uid);
    }
}

/// Guaranteed, Burstable or BestEffort, from requests and limits of CPU and memory.
pub(super) fn quality_of_service(pod: &Value) -> &'static str {
    let (mut any, mut guaranteed) = (false, true);
    let containers = meta::list_at(pod, &["spec", "containers"]).iter();
    let mut asking: Vec<&Value> = containers.chain(meta::list_at(pod, &["spec", "initContainers"])).collect();
    // What the pod itself asks for counts alone.
    if let Some(spec) = pod.get("spec").filter(|spec| spec.get("resources").is_some_and(Value::is_object)) {
        asking = vec![spec];
    }
    for container in asking {
        for resource in ["cpu", "memory"] {
            let amount =
                |kind: &str| meta::at(container, &["resources", kind, resource]).filter(|amount| *amount != "0");
            any |= amount("requests").is_some() || amount("limits").is_some();
            guaranteed &= amount("limits").is_some() && amount("limits") == amount("requests");
        }
    }
    match (any, guaranteed) {
        (false, _) => "BestEffort",
        (true, true) => "Guaranteed",
        (true, false) => "Burstable",
    }
}

/// The selectable fields of a resource, as they are asked for, with the path of each.
fn selectable(resource: &Resource) -> FieldPaths {
    match resource.storage.as_str() {
        "pods" => &[
            ("spec.nodeName", &["spec", "nodeName"]),
            ("spec.restartPolicy", &["spec", "restartPolicy"]),
            ("spec.schedulerName", &["spec", "schedulerName"]),
            ("spec.serviceAccountName", &["spec", "serviceAccountName"]),
            ("spec.hostNetwork", &["spec", "hostNetwork"]),
            ("status.phase", &["status", "phase"]),
            ("status.podIP", &["status", "podIP"]),
            ("status.nominatedNodeName", &["status", "nominatedNodeName"]),
        ],
        "nodes" => &[("spec.unschedulable", &["spec", "unschedulable"])],
        "namespaces" => &[("status.phase", &["status", "phase"])],
        "secrets" => &[("type", &["type"])],
        "services" => &[("spec.clusterIP", &["spec", "clusterIP"]), ("spec.type", &["spec", "type"])],
        "replicationcontrollers" | "replicasets.apps" => &[("status.replicas", &["status", "replicas"])],
        "jobs.batch" => &[("status.successful", &["status", "succeeded"])],
        "events" => &[
            ("involvedObject.kind", &["involvedObject", "kind"]),
            ("involvedObject.namespace", &["involvedObject", "namespace"]),
            ("involvedObject.name", &["involvedObject", "name"]),
            ("involvedObject.uid", &["involvedObject", "uid"]),
            ("involvedObject.apiVersion", &["involvedObject", "apiVersion"]),
            ("involvedObject.resourceVersion", &["involvedObject", "resourceVersion"]),
            ("involvedObject.fieldPath", &["involvedObject", "fieldPath"]),
            ("regarding.kind", &["involvedObject", "kind"]),
            ("regarding.namespace", &["involvedObject", "namespace"]),
            ("regarding.name", &["involvedObject", "name"]),
            ("regarding.uid", &["involvedObject", "uid"]),
            ("reason", &["reason"]),
            ("reportingComponent", &["reportingComponent"]),
            ("reportingController", &["reportingComponent"]),
            ("source", &["source", "component"]),
            ("type", &["type"]),
        ],
        _ => &[],
    }
}

/// Whether a field can be selected.
pub(super) fn is_selectable(resource: &Resource, field: &str) -> bool {
    if field == "metadata.name" || (field == "metadata.namespace" && resource.namespaced) {
        return true;
    }
    match resource.custom() {
        Some(custom) => custom.selectable_fields.iter().any(|path| path.trim_start_matches('.') == field),
        None => selectable(resource).iter().any(|(name, _)| *name == field),
    }
}

/// The values of an object's selectable fields, in the form in which it is stored.
pub(super) fn selectable_fields(resource: &Resource, object: &Value) -> Fields {
    let text = |value: &Value| match value {
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        other => other.to_string(),
    };
    if let Some(custom) = resource.custom() {
        let fields = custom.selectable_fields.iter().flat_map(|path| {
            let path = path.trim_start_matches('.');
            let parts: Vec<&str> = path.split('.').collect();
            [path.to_owned(), meta::at(object, &parts).map(text).unwrap_or_default()]
        });
        return Fields::named(fields.collect());
    }
    let names = selectable(resource);
    let values = names.iter().map(|(name, path)| match (*name, meta::at(object, path).map(text)) {
        // What a bool or a number of Go shows where JSON leaves it out.
        ("spec.hostNetwork" | "spec.unschedulable", None) => "false".to_owned(),
        ("status.replicas" | "status.successful", None) => "0".to_owned(),
        (_, found) => found.unwrap_or_default(),
    });
    Fields::in_order(names, values.collect())
}

/// Whether two states of an object differ in nothing but what a server sets with every write.
pub(super) fn is_unchanged(new: &Value, old: &Value) -> bool {
    same_without(new, old, &["metadata"]) && {
        let (new, old) = (new.get("metadata"), old.get("metadata"));
        match (new, old) {
            (Some(new), Some(old)) => {
                same_without(new, old, &["resourceVersion", "managedFields"])
                    && match (new.get("managedFields"), old.get("managedFields")) {
                        (Some(Value::Array(new)), Some(Value::Array(old))) => {
                            new.len() == old.len()
                                && new.iter().zip(old).all(|(new, old)| same_without(new, old, &["time"]))
                        }
                        (new, old) => new == old,
                    }
            }
            (new, old) => new == old,
        }
    }
}

/// Whether two objects are the same but for some fields.
fn same_without(a: &Value, b: &Value, skipped: &[&str]) -> bool {
    let (Value::Object(a), Value::Object(b)) = (a, b) else { return a == b };
    let is_kept = |(key, _): &(&String, &Value)| !skipped.contains(&key.as_str());
    a.iter().filter(is_kept).eq(b.iter().filter(is_kept))
}
