//! Names, labels, annotations, owners and finalizers.

use serde_json::Value;

use super::names;
use crate::meta;
use crate::resource::Resource;
use crate::status::Cause;

/// Bytes that all annotations of an object may take.
const ANNOTATIONS_LIMIT: usize = 256 * 1024;

pub(super) fn check(resource: &Resource, object: &Value, causes: &mut Vec<Cause>) {
    check_name(resource, object, causes);
    if resource.namespaced
        && let Some(why) = names::label(meta::namespace(object))
    {
        causes.push(Cause::invalid("metadata.namespace", &meta::namespace(object).into(), &why));
    }
    check_labels(meta::at(object, &["metadata", "labels"]), "metadata.labels", causes);
    let annotations = meta::at(object, &["metadata", "annotations"]).and_then(Value::as_object);
    let mut size = 0;
    for (key, value) in annotations.into_iter().flatten() {
        if let Some(why) = names::label_key(&key.to_lowercase()) {
            causes.push(Cause::invalid("metadata.annotations", &key.as_str().into(), &why));
        }
        size += key.len() + value.as_str().map_or(0, str::len);
    }
    if size > ANNOTATIONS_LIMIT {
        causes.push(Cause::too_long("metadata.annotations", ANNOTATIONS_LIMIT));
    }
    check_owners(object, causes);
    if ["orphan", "foregroundDeletion"].iter().all(|finalizer| meta::has_finalizer(object, finalizer)) {
        let list = object.pointer("/metadata/finalizers").cloned().unwrap_or_default();
        let why = "finalizer orphan and foregroundDeletion cannot be both set";
        causes.push(Cause::invalid("metadata.finalizers", &list, why));
    }
    for (index, finalizer) in meta::finalizers(object).enumerate() {
        let is_known = ["orphan", "foregroundDeletion", "kubernetes"].contains(&finalizer);
        if !finalizer.contains('/') && !is_known {
            let why = "name is neither a standard finalizer name nor is it fully qualified";
            causes.push(Cause::invalid(format!("metadata.finalizers[{index}]"), &finalizer.into(), why));
        } else if let Some(why) = names::label_key(finalizer) {
            causes.push(Cause::invalid("metadata.finalizers", &finalizer.into(), &why));
        }
    }
}

fn check_name(resource: &Resource, object: &Value, causes: &mut Vec<Cause>) {
    let wrong = |name: &str| match resource.storage.as_str() {
        "namespaces" if name.contains('.') => Some("must not contain dots".to_owned()),
        "namespaces" => names::label(name),
        "services" => names::label_1035(name),
        storage if storage.ends_with("rbac.authorization.k8s.io") => names::path_segment(name),
        _ => names::subdomain(name),
    };
    let base = meta::text(object, "generateName");
    // It ends with what comes after it.
    let begun = base.trim_end_matches('-');
    if let Some(why) = wrong(begun).filter(|_| !begun.is_empty()) {
        causes.push(Cause::invalid("metadata.generateName", &base.into(), &why));
    }
    let name = meta::name(object);
    if name.is_empty() {
        causes.push(Cause::required("metadata.name", "name or generateName is required"));
    } else if let Some(why) = wrong(name) {
        causes.push(Cause::invalid("metadata.name", &name.into(), &why));
    }
}

/// Checks a map of labels.
pub(super) fn check_labels(labels: Option<&Value>, path: &str, causes: &mut Vec<Cause>) {
    for (key, value) in labels.and_then(Value::as_object).into_iter().flatten() {
        if let Some(why) = names::label_key(key) {
            causes.push(Cause::invalid(path, &key.as_str().into(), &why));
        }
        if let Some(why) = value.as_str().and_then(names::label_value) {
            causes.push(Cause::invalid(path, value, &why));
        }
    }
}

fn check_owners(object: &Value, causes: &mut Vec<Cause>) {
    let mut controllers = Vec::new();
    for owner in meta::owners(object) {
        let (_, version) = crate::resource::split_api_version(meta::text_at(owner, &["apiVersion"]));
        for (field, value, why) in [
            ("apiVersion", version, "version must not be empty"),
            ("kind", meta::text_at(owner, &["kind"]), "must not be empty"),
            ("name", meta::text_at(owner, &["name"]), "must not be empty"),
            ("uid", meta::text_at(owner, &["uid"]), "must not be empty"),
        ] {
            if value.is_empty() {
                causes.push(Cause::invalid(format!("metadata.ownerReferences.{field}"), &"".into(), why));
            }
        }
        let (of, kind) = (meta::text_at(owner, &["apiVersion"]), meta::text_at(owner, &["kind"]));
        if (of, kind) == ("v1", "Event") {
            let why = "/v1, Kind=Event is disallowed from being an owner";
            causes.push(Cause::invalid("metadata.ownerReferences", owner, why));
        }
        if owner.get("controller") == Some(&Value::Bool(true)) {
            controllers.push(format!("{}/{}", meta::text_at(owner, &["kind"]), meta::text_at(owner, &["name"])));
        }
    }
    if let [first, second, ..] = controllers.as_slice() {
        let list = object.pointer("/metadata/ownerReferences").cloned().unwrap_or_default();
        let why = format!(
            "Only one reference can have Controller set to true. Found \"true\" in references for {first} and {second}"
        );
        causes.push(Cause::invalid("metadata.ownerReferences", &list, &why));
    }
}

/// What may not change about an object.
pub(super) fn check_change(new: &Value, old: &Value, causes: &mut Vec<Cause>) {
    for field in ["name", "namespace", "uid", "creationTimestamp"] {
        let is = meta::at(new, &["metadata", field]);
        if is != meta::at(old, &["metadata", field]) {
            causes.push(Cause::invalid(format!("metadata.{field}"), is.unwrap_or(&Value::Null), "field is immutable"));
        }
    }
    if meta::has(old, "deletionTimestamp") {
        let added: Vec<&str> = meta::finalizers(new).filter(|finalizer| !meta::has_finalizer(old, finalizer)).collect();
        if !added.is_empty() {
            let listed: Vec<String> = added.iter().map(|finalizer| format!("{finalizer:?}")).collect();
            let why = format!(
                "no new finalizers can be added if the object is being deleted, found new finalizers []string{{{}}}",
                listed.join(", ")
            );
            causes.push(Cause::forbidden("metadata.finalizers", &why));
        }
    }
}
