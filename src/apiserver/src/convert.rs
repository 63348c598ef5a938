//! Between the versions of a kind. Few kinds have more than one: events, and custom resources without a webhook.

use bytes::Bytes;
use serde_json::{Map, Value};

use crate::resource::Resource;

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
        None => resource.storage == "events" && !resource.group.is_empty(),
    }
}

/// A stored text in the version of a resource.
pub(crate) fn to_version(resource: &Resource, body: &Bytes) -> Bytes {
    if is_stored_form(resource, body) {
        return body.clone();
    }
    let mut value: Value = serde_json::from_slice(body).unwrap_or_default();
    from_storage(resource, &mut value);
    crate::store::text_of(&value).into()
}

/// Whether a text is stored as the resource serves it. Stored texts begin with their apiVersion.
pub(crate) fn is_stored_form(resource: &Resource, body: &Bytes) -> bool {
    !differs(resource) || body.starts_with(format!("{{\"apiVersion\":{:?},", resource.api_version()).as_bytes())
}

/// A stored value in the version of a resource.
pub(crate) fn from_storage(resource: &Resource, value: &mut Value) {
    if resource.storage == "events" && !resource.group.is_empty() && resource.custom().is_none() {
        rename(value, EVENT_FIELDS.iter().copied());
        if let Some(map) = value.as_object_mut() {
            let is_empty = |value: &Value| value.as_str() == Some("");
            map.retain(|field, value| !(field.starts_with("reporting") && is_empty(value)));
        }
    }
    set_version(value, &resource.api_version());
}

/// A value of a resource in the version in which it is stored.
pub(crate) fn to_storage(resource: &Resource, value: &mut Value) {
    match resource.custom() {
        Some(custom) => set_version(value, &crate::resource::api_version(&custom.group, &custom.storage_version)),
        None if differs(resource) => {
            rename(value, EVENT_FIELDS.iter().map(|(core, new)| (*new, *core)));
            set_version(value, "v1");
            for (field, empty) in [("involvedObject", Value::Object(Map::new())), ("source", Value::Object(Map::new()))]
            {
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
        None => {}
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
