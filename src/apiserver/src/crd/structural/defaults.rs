//! What a schema takes from an object and gives it.

use std::fmt::Write;

use serde_json::Value;

use super::Structural;
use crate::schema::{Typed, decode};

const META: [&str; 3] = ["apiVersion", "kind", "metadata"];

/// Removes what the schema does not know, and names it; `metadata` is the type of embedded objects' metadata.
pub(in crate::crd) fn prune(
    value: &mut Value,
    schema: &Structural,
    is_resource: bool,
    metadata: Typed<'_>,
    path: &mut String,
    unknown: &mut Vec<String>,
) {
    let length = path.len();
    match value {
        Value::Object(map) => {
            if schema.embedded
                && !is_resource
                && let Some(found) = map.get_mut("metadata")
            {
                // Of wrong types nothing is left but what validation finds.
                let problems = decode::decode(found, metadata);
                unknown.extend(problems.unknown.into_iter().map(|field| format!("{path}.metadata.{field}")));
            }
            let is_resource = is_resource || schema.embedded;
            map.retain(|key, child| {
                if is_resource && META.contains(&key.as_str()) {
                    return true;
                }
                if !path.is_empty() {
                    path.push('.');
                }
                path.push_str(key);
                let kept = match schema.below(key) {
                    Some(schema) => {
                        prune(child, schema, false, metadata, path, unknown);
                        true
                    }
                    None if schema.preserves => true,
                    None => {
                        unknown.push(path.clone());
                        false
                    }
                };
                path.truncate(length);
                kept
            });
        }
        Value::Array(items) => {
            let Some(schema) = &schema.items else { return };
            for (index, item) in items.iter_mut().enumerate() {
                let _ = write!(path, "[{index}]");
                prune(item, schema, false, metadata, path, unknown);
                path.truncate(length);
            }
        }
        _ => {}
    }
}

/// A value without what the schema does not know.
pub(in crate::crd) fn prune_copy(value: &Value, schema: &Structural) -> Value {
    let mut copy = value.clone();
    let metadata = crate::schema::builtin().kind("", "v1", "Pod");
    if let Some(metadata) = metadata.map(|pod| pod.child("metadata")) {
        prune(&mut copy, schema, false, metadata, &mut String::new(), &mut Vec::new());
    }
    copy
}

/// Fills in defaults; nulls of fields that may not be null and have a default are replaced.
pub(in crate::crd) fn default(value: &mut Value, schema: &Structural) {
    match value {
        Value::Object(map) => {
            if schema.has_defaults {
                for (key, schema) in &schema.properties {
                    let Some(filled) = &schema.default else { continue };
                    let missing = match map.get(&**key) {
                        None => true,
                        Some(Value::Null) => !schema.nullable,
                        Some(_) => false,
                    };
                    if missing {
                        map.insert(key.to_string(), filled.clone());
                    }
                }
            }
            for (key, child) in map.iter_mut() {
                if let Some(schema) = schema.below(key) {
                    default(child, schema);
                }
            }
        }
        Value::Array(items) => {
            if let Some(schema) = &schema.items {
                for item in items {
                    default(item, schema);
                }
            }
        }
        _ => {}
    }
}

/// Drops nulls of fields that may not be null: they count as absent.
pub(in crate::crd) fn drop_nulls(value: &mut Value, schema: &Structural) {
    match value {
        Value::Object(map) => {
            map.retain(|key, child| !child.is_null() || schema.below(key).is_none_or(|schema| schema.nullable));
            for (key, child) in map.iter_mut() {
                if let Some(schema) = schema.below(key) {
                    drop_nulls(child, schema);
                }
            }
        }
        Value::Array(items) => {
            if let Some(schema) = &schema.items {
                for item in items {
                    drop_nulls(item, schema);
                }
            }
        }
        _ => {}
    }
}
