//! Reading and writing the metadata of an object that is plain JSON.

use serde_json::{Map, Value};

/// A text of the metadata; empty where there is none.
pub(crate) fn text<'a>(object: &'a Value, field: &str) -> &'a str {
    object.get("metadata").and_then(|meta| meta.get(field)).and_then(Value::as_str).unwrap_or_default()
}

pub(crate) fn name(object: &Value) -> &str {
    text(object, "name")
}

pub(crate) fn namespace(object: &Value) -> &str {
    text(object, "namespace")
}

pub(crate) fn has(object: &Value, field: &str) -> bool {
    object.get("metadata").and_then(|meta| meta.get(field)).is_some_and(|value| !value.is_null())
}

pub(crate) fn number(object: &Value, field: &str) -> Option<i64> {
    object.get("metadata")?.get(field)?.as_i64()
}

/// The version that a client sent along; `None` where it sent none.
pub(crate) fn revision(object: &Value) -> Option<&str> {
    Some(text(object, "resourceVersion")).filter(|version| !version.is_empty() && *version != "0")
}

/// The pairs of a map of texts in the metadata.
fn pairs<'a>(object: &'a Value, field: &str) -> impl Iterator<Item = (&'a str, &'a str)> {
    let map = object.get("metadata").and_then(|meta| meta.get(field)).and_then(Value::as_object);
    map.into_iter().flatten().filter_map(|(key, value)| Some((key.as_str(), value.as_str()?)))
}

pub(crate) fn labels(object: &Value) -> impl Iterator<Item = (&str, &str)> {
    pairs(object, "labels")
}

/// Labels that take the place of those of the same keys.
pub(crate) fn add_labels(object: &mut Value, labels: Map<String, Value>) {
    if labels.is_empty() {
        return;
    }
    if let Some(all) = object_mut(object, &["metadata", "labels"]) {
        all.extend(labels);
    }
}

pub(crate) fn annotation<'a>(object: &'a Value, key: &str) -> Option<&'a str> {
    object.get("metadata")?.get("annotations")?.get(key)?.as_str()
}

pub(crate) fn owners(object: &Value) -> impl Iterator<Item = &Value> {
    let list = object.get("metadata").and_then(|meta| meta.get("ownerReferences")).and_then(Value::as_array);
    list.into_iter().flatten()
}

/// Leaves one of each owner that is named twice, and gives the UIDs of these.
pub(crate) fn dedup_owners(object: &mut Value) -> Vec<String> {
    let list = meta_mut(object).and_then(|meta| meta.get_mut("ownerReferences")).and_then(Value::as_array_mut);
    let Some(list) = list.filter(|list| list.len() > 1) else { return Vec::new() };
    let (mut kept, mut twice): (Vec<Value>, Vec<String>) = (Vec::new(), Vec::new());
    for owner in list.drain(..) {
        if !kept.contains(&owner) {
            kept.push(owner);
            continue;
        }
        let uid = text_at(&owner, &["uid"]);
        if !twice.iter().any(|known| known == uid) {
            twice.push(uid.to_owned());
        }
    }
    *list = kept;
    twice
}

pub(crate) fn finalizers(object: &Value) -> impl Iterator<Item = &str> {
    let list = object.get("metadata").and_then(|meta| meta.get("finalizers")).and_then(Value::as_array);
    list.into_iter().flatten().filter_map(Value::as_str)
}

pub(crate) fn has_finalizer(object: &Value, finalizer: &str) -> bool {
    finalizers(object).any(|present| present == finalizer)
}

pub(crate) fn add_finalizer(object: &mut Value, finalizer: &str) {
    if !has_finalizer(object, finalizer)
        && let Some(meta) = meta_mut(object)
    {
        let list = meta.entry("finalizers").or_insert_with(|| Value::Array(Vec::new()));
        if let Value::Array(items) = list {
            items.push(finalizer.into());
        }
    }
}

pub(crate) fn remove_finalizer(object: &mut Value, finalizer: &str) {
    if let Some(meta) = meta_mut(object)
        && let Some(Value::Array(items)) = meta.get_mut("finalizers")
    {
        items.retain(|item| item.as_str() != Some(finalizer));
        if items.is_empty() {
            meta.remove("finalizers");
        }
    }
}

/// The metadata, made where there is none; `None` if the object is no object.
pub(crate) fn meta_mut(object: &mut Value) -> Option<&mut Map<String, Value>> {
    let meta = object.as_object_mut()?.entry("metadata").or_insert_with(|| Value::Object(Map::new()));
    if !meta.is_object() {
        *meta = Value::Object(Map::new());
    }
    meta.as_object_mut()
}

pub(crate) fn set(object: &mut Value, field: &str, value: impl Into<Value>) {
    if let Some(meta) = meta_mut(object) {
        meta.insert(field.to_owned(), value.into());
    }
}

pub(crate) fn remove(object: &mut Value, field: &str) {
    if let Some(Value::Object(meta)) = object.get_mut("metadata") {
        meta.remove(field);
    }
}

/// Copies a field of the metadata from another object, or removes it.
pub(crate) fn copy(object: &mut Value, from: &Value, field: &str) {
    match from.get("metadata").and_then(|meta| meta.get(field)) {
        Some(value) => set(object, field, value.clone()),
        None => remove(object, field),
    }
}

/// The value at a path of fields.
pub(crate) fn at<'a>(object: &'a Value, path: &[&str]) -> Option<&'a Value> {
    path.iter().try_fold(object, |value, field| value.get(field))
}

/// The text at a path of fields; empty where there is none.
pub(crate) fn text_at<'a>(object: &'a Value, path: &[&str]) -> &'a str {
    at(object, path).and_then(Value::as_str).unwrap_or_default()
}

/// The integer at a path of fields.
pub(crate) fn int_at(object: &Value, path: &[&str]) -> Option<i64> {
    at(object, path).and_then(Value::as_i64)
}

/// The items of a list at a path of fields.
pub(crate) fn list_at<'a>(object: &'a Value, path: &[&str]) -> &'a [Value] {
    at(object, path).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// The object at a path of fields, made where it is missing; `None` if something else is in the way.
pub(crate) fn object_mut<'a>(object: &'a mut Value, path: &[&str]) -> Option<&'a mut Map<String, Value>> {
    let mut current = object.as_object_mut()?;
    for field in path {
        let next = current.entry(*field).or_insert_with(|| Value::Object(Map::new()));
        if next.is_null() {
            *next = Value::Object(Map::new());
        }
        current = next.as_object_mut()?;
    }
    Some(current)
}

/// Fills a field in where it is missing.
pub(crate) fn fill(map: &mut Map<String, Value>, field: &str, value: impl Into<Value>) {
    if map.get(field).is_none_or(Value::is_null) {
        map.insert(field.to_owned(), value.into());
    }
}
