//! Between the versions of a kind. Few kinds have more than one: events, autoscalers, and custom resources.

mod autoscaling;

use bytes::Bytes;
use serde_json::{Map, Value};

use crate::resource::Resource;
use crate::store::Object;

/// Fields of an Event, in the core group and in `events.k8s.io`.
const EVENT_FIELDS: &[(&str, &str)] = &[
    ("involvedObject", "regarding"),
    ("message", "note"),
    ("source", "deprecatedSource"),
    ("firstTimestamp", "deprecatedFirstTimestamp"),
    ("lastTimestamp", "deprecatedLastTimestamp"),
    ("count", "deprecatedCount"),
    ("reportingComponent", "reportingController"),
];

/// Whether an object of this resource is stored in another version than it is served in.
pub(crate) fn differs(resource: &Resource) -> bool {
    match resource.custom() {
        Some(_) => true,
        None => is_new_event(resource) || is_old_autoscaler(resource),
    }
}

fn is_new_event(resource: &Resource) -> bool {
    resource.is("events") && !resource.group.is_empty()
}

fn is_old_autoscaler(resource: &Resource) -> bool {
    resource.is(autoscaling::COLLECTION) && resource.version == "v1"
}

/// The text of a stored object in the version of a resource.
pub(crate) fn to_version(resource: &Resource, object: &Object) -> Bytes {
    if is_stored_form(resource, object) {
        return object.body.clone();
    }
    crate::store::text_of(&value_of(resource, object)).into()
}

/// Whether an object is stored as the resource serves it: in its version, and of a custom resource with the defaults of
/// the schema that is served now. Stored texts begin with their apiVersion.
pub(crate) fn is_stored_form(resource: &Resource, object: &Object) -> bool {
    if !differs(resource) {
        return true;
    }
    let has_form = resource.custom().is_none_or(|custom| custom.form == object.form);
    has_form && object.body.starts_with(resource.head().as_bytes())
}

/// A stored object in the version of a resource.
pub(crate) fn value_of(resource: &Resource, object: &Object) -> Value {
    let mut value = object.value();
    if is_new_event(resource) {
        rename(&mut value, EVENT_FIELDS.iter().copied());
        if let Some(map) = value.as_object_mut() {
            let is_empty = |value: &Value| value.as_str() == Some("");
            map.retain(|field, value| !(field.starts_with("reporting") && is_empty(value)));
        }
    }
    if is_old_autoscaler(resource) {
        autoscaling::to_v1(&mut value);
        crate::schema::decode::decode(&mut value, resource.typed());
    }
    // What was written under another schema of its version gets the defaults of the present one, and loses what that does not
    // know.
    if let Some(custom) = resource.custom() {
        let stored_in = crate::meta::text_at(&value, &["apiVersion"]);
        let stored_in = crate::resource::split_api_version(stored_in).1.to_owned();
        custom.show(&mut value, &stored_in, object.form);
    }
    if differs(resource) {
        set_version(&mut value, &resource.api_version());
    }
    value
}

/// A value of a resource in the version in which it is stored.
pub(crate) fn to_storage(resource: &Resource, value: &mut Value) {
    if let Some(custom) = resource.custom() {
        custom.store(value);
        set_version(value, &crate::resource::api_version(&custom.group, &custom.storage_version));
    }
    if is_old_autoscaler(resource) {
        autoscaling::to_v2(value);
        set_version(value, "autoscaling/v2");
        if let Some(typed) = crate::schema::builtin().kind("autoscaling", "v2", "HorizontalPodAutoscaler") {
            crate::schema::decode::decode(value, typed);
        }
    }
    if is_new_event(resource) {
        rename(value, EVENT_FIELDS.iter().map(|(core, new)| (*new, *core)));
        set_version(value, "v1");
        for (field, empty) in [("involvedObject", Value::Object(Map::new())), ("source", Value::Object(Map::new()))] {
            if let Some(map) = value.as_object_mut() {
                crate::meta::fill(map, field, empty);
            }
        }
        if let Some(map) = value.as_object_mut() {
            for field in ["reportingComponent", "reportingInstance"] {
                crate::meta::fill(map, field, "");
            }
        }
    }
}

fn set_version(value: &mut Value, version: &str) {
    if let Some(map) = value.as_object_mut() {
        map.insert("apiVersion".to_owned(), version.into());
    }
}

fn rename<'a>(value: &mut Value, fields: impl Iterator<Item = (&'a str, &'a str)>) {
    let Some(map) = value.as_object_mut() else { return };
    for (from, to) in fields {
        if let Some(value) = map.remove(from) {
            map.insert(to.to_owned(), value);
        }
    }
}
