//! Checks types, enums, bounds, patterns, formats, required fields, lists and logical operators, in the words of the real
//! server. What an update leaves as it was is not checked again.

use std::fmt::Write;

use serde_json::{Map, Value};

use super::{ListType, Structural, Wanted};
use crate::status::Cause;

/// Checks a value; `old` is what an update replaces, where that can be told. The path is left as it was.
pub(in crate::crd) fn validate(
    value: &Value,
    schema: &Structural,
    old: Option<&Value>,
    path: &mut String,
    causes: &mut Vec<Cause>,
) {
    if (value.is_null() && schema.nullable) || old == Some(value) {
        return;
    }
    let fits = check_type(value, schema, path, causes);
    if !schema.allowed.is_empty() && !schema.allowed.contains(value) {
        let names: Vec<String> =
            schema.allowed.iter().map(|item| item.as_str().map_or_else(|| item.to_string(), str::to_owned)).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        causes.push(Cause::not_supported(path.as_str(), value, &names));
    }
    if !fits {
        return;
    }
    match value {
        Value::Object(map) => object(map, value, schema, old, path, causes),
        Value::Array(items) => list(items, schema, old, path, causes),
        Value::String(text) => string(text, value, schema, path, causes),
        Value::Number(_) => number(value, schema, path, causes),
        _ => {}
    }
    logic(value, schema, path, causes);
}

fn in_body(path: &str) -> String {
    if path.is_empty() { "in body".to_owned() } else { format!("{path} in body") }
}

fn shown(path: &str) -> String {
    if path.is_empty() { "<nil>".to_owned() } else { path.to_owned() }
}

fn check_type(value: &Value, schema: &Structural, path: &str, causes: &mut Vec<Cause>) -> bool {
    let found = match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number)
            if number.is_i64() || number.is_u64() || number.as_f64().is_some_and(|n| n.fract() == 0.0) =>
        {
            "integer"
        }
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    };
    let wanted = match &schema.wanted {
        Wanted::Anything => return true,
        Wanted::IntOrString if found == "integer" || found == "string" => return true,
        Wanted::IntOrString => "integer,string",
        Wanted::Type(wanted) if **wanted == *found || (&**wanted == "number" && found == "integer") => return true,
        Wanted::Type(wanted) => wanted,
    };
    let why = format!("{} must be of type {wanted}: {:?}", in_body(path), found);
    causes.push(Cause::type_invalid(shown(path), &Value::from(found), &why));
    false
}

fn child_path(path: &str, key: &str) -> String {
    if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") }
}

fn object(
    map: &Map<String, Value>,
    value: &Value,
    schema: &Structural,
    old: Option<&Value>,
    path: &mut String,
    causes: &mut Vec<Cause>,
) {
    for name in &schema.required {
        if !map.contains_key(&**name) {
            causes.push(Cause::required(child_path(path, name), ""));
        }
    }
    if let Some(max) = schema.max_properties.filter(|max| map.len() > *max) {
        causes.push(Cause::too_many(shown(path), map.len(), max));
    }
    if let Some(min) = schema.min_properties.filter(|min| map.len() < *min) {
        let why = format!("{} should have at least {min} properties", in_body(path));
        causes.push(Cause::invalid(shown(path), value, &why));
    }
    if schema.embedded {
        embedded(map, old, path, causes);
    }
    let length = path.len();
    for (key, child) in map {
        let Some(schema) = schema.below(key) else { continue };
        if length > 0 {
            path.push('.');
        }
        path.push_str(key);
        validate(child, schema, old.and_then(|old| old.get(key)), path, causes);
        path.truncate(length);
    }
}

/// An object within an object has a type, and metadata as any other.
fn embedded(map: &Map<String, Value>, old: Option<&Value>, path: &str, causes: &mut Vec<Cause>) {
    for field in ["apiVersion", "kind"] {
        let text = map.get(field).and_then(Value::as_str).unwrap_or_default();
        if text.is_empty() {
            causes.push(Cause::required(child_path(path, field), "must not be empty"));
        }
    }
    let Some(metadata) = map.get("metadata").filter(|found| old.and_then(|old| old.get("metadata")) != Some(found))
    else {
        return;
    };
    let path = child_path(path, "metadata");
    if !metadata.is_object() {
        causes.push(Cause::type_invalid(path, metadata, "must be an object"));
        return;
    }
    causes.extend(crate::validation::embedded_metadata(metadata, &path));
}

fn list(items: &[Value], schema: &Structural, old: Option<&Value>, path: &mut String, causes: &mut Vec<Cause>) {
    if let Some(max) = schema.max_items.filter(|max| items.len() > *max) {
        causes.push(Cause::too_many(shown(path), items.len(), max));
    }
    if let Some(min) = schema.min_items.filter(|min| items.len() < *min) {
        let why = format!("{} should have at least {min} items", in_body(path));
        causes.push(Cause::invalid(shown(path), &items.len().into(), &why));
    }
    let mut seen = rustc_hash::FxHashSet::default();
    let length = path.len();
    for (index, item) in items.iter().enumerate() {
        let _ = write!(path, "[{index}]");
        let identity = match &schema.list {
            ListType::Atomic => None,
            ListType::Set => Some(item.clone()),
            ListType::Map(keys) => Some(Value::Object(
                keys.iter().filter_map(|key| Some((key.to_string(), item.get(&**key)?.clone()))).collect(),
            )),
        };
        if let Some(identity) = identity
            && !seen.insert(identity.to_string())
        {
            causes.push(Cause::duplicate(path.clone(), &identity));
        }
        if let Some(schema_of_item) = &schema.items {
            validate(item, schema_of_item, schema.old_item(item, old), path, causes);
        }
        path.truncate(length);
    }
}

fn string(text: &str, value: &Value, schema: &Structural, path: &str, causes: &mut Vec<Cause>) {
    if schema.max_length.is_some() || schema.min_length.is_some() {
        let length = text.chars().count();
        if let Some(max) = schema.max_length.filter(|max| length > *max) {
            causes.push(Cause::too_long(shown(path), max));
        }
        if let Some(min) = schema.min_length.filter(|min| length < *min) {
            let why = format!("{} should be at least {min} chars long", in_body(path));
            causes.push(Cause::invalid(shown(path), value, &why));
        }
    }
    if let Some(pattern) = schema.pattern.as_ref().filter(|pattern| !pattern.is_match(text)) {
        let why = format!("{} should match '{pattern}'", in_body(path));
        causes.push(Cause::invalid(shown(path), value, &why));
    }
    if schema.format.is_some_and(|format| !format.holds_of(text)) {
        let why = format!("{} must be of type {}: {text:?}", in_body(path), schema.format_name);
        causes.push(Cause::type_invalid(shown(path), value, &why));
    }
}

fn number(value: &Value, schema: &Structural, path: &str, causes: &mut Vec<Cause>) {
    let Some(n) = value.as_f64() else { return };
    let print = |n: f64| Value::from(n).to_string().trim_end_matches(".0").to_owned();
    if let Some((min, strict)) = schema.minimum.filter(|(min, strict)| n < *min || (*strict && n <= *min)) {
        let relation = if strict { "greater than" } else { "greater than or equal to" };
        let why = format!("{} should be {relation} {}", in_body(path), print(min));
        causes.push(Cause::invalid(shown(path), value, &why));
    }
    if let Some((max, strict)) = schema.maximum.filter(|(max, strict)| n > *max || (*strict && n >= *max)) {
        let relation = if strict { "less than" } else { "less than or equal to" };
        let why = format!("{} should be {relation} {}", in_body(path), print(max));
        causes.push(Cause::invalid(shown(path), value, &why));
    }
    if let Some(step) = schema.multiple_of.filter(|step| (n / step).fract() != 0.0) {
        let why = format!("{} should be a multiple of {}", in_body(path), print(step));
        causes.push(Cause::invalid(shown(path), value, &why));
    }
}

fn logic(value: &Value, schema: &Structural, path: &mut String, causes: &mut Vec<Cause>) {
    let fits = |schema: &Structural| {
        let mut inner = Vec::new();
        validate(value, schema, None, &mut String::new(), &mut inner);
        inner.is_empty()
    };
    for schema in &schema.all_of {
        validate(value, schema, None, path, causes);
    }
    let is_wrong = |why: &str| {
        let shown_value = if value.is_object() { Value::from("object") } else { value.clone() };
        Cause::invalid(shown(path), &shown_value, &format!("\"{path}\" {why}"))
    };
    if !schema.any_of.is_empty() && !schema.any_of.iter().any(fits) {
        causes.push(is_wrong("must validate at least one schema (anyOf)"));
    }
    if !schema.one_of.is_empty() && schema.one_of.iter().filter(|schema| fits(schema)).count() != 1 {
        causes.push(is_wrong("must validate one and only one schema (oneOf). Found none valid"));
    }
    if schema.not.as_deref().is_some_and(fits) {
        causes.push(is_wrong("must not validate the schema (not)"));
    }
}
