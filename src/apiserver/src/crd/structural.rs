//! Structural schemas: pruning, defaults and validation, with the messages of the real server.

use std::fmt::Write;

use serde_json::{Map, Value};

use crate::status::Cause;

const META: [&str; 3] = ["apiVersion", "kind", "metadata"];

fn flag(schema: &Value, key: &str) -> bool {
    schema.get(key).and_then(Value::as_bool).unwrap_or_default()
}

/// The schema below a key, if the schema says anything of it.
fn below<'s>(schema: &'s Value, key: &str) -> Option<&'s Value> {
    let named = schema.get("properties").and_then(|properties| properties.get(key));
    named.or_else(|| schema.get("additionalProperties").filter(|more| more.is_object()))
}

/// Removes what the schema does not know.
pub(super) fn prune(
    value: &mut Value,
    schema: &Value,
    is_resource: bool,
    path: &mut String,
    unknown: &mut Vec<String>,
) {
    let length = path.len();
    match value {
        Value::Object(map) => {
            let keeps = flag(schema, "x-kubernetes-preserve-unknown-fields")
                || schema.get("additionalProperties") == Some(&Value::Bool(true));
            let is_resource = is_resource || flag(schema, "x-kubernetes-embedded-resource");
            map.retain(|key, child| {
                if is_resource && META.contains(&key.as_str()) {
                    return true;
                }
                if !path.is_empty() {
                    path.push('.');
                }
                path.push_str(key);
                let kept = match below(schema, key) {
                    Some(schema) => {
                        prune(child, schema, false, path, unknown);
                        true
                    }
                    None if keeps => true,
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
            let Some(schema) = schema.get("items") else { return };
            for (index, item) in items.iter_mut().enumerate() {
                let _ = write!(path, "[{index}]");
                prune(item, schema, false, path, unknown);
                path.truncate(length);
            }
        }
        _ => {}
    }
}

/// Fills in defaults; nulls of fields that may not be null and have a default are replaced.
pub(super) fn default(value: &mut Value, schema: &Value) {
    match value {
        Value::Object(map) => {
            for (key, schema) in schema.get("properties").and_then(Value::as_object).into_iter().flatten() {
                if let Some(filled) = schema.get("default") {
                    let missing = match map.get(key) {
                        None => true,
                        Some(Value::Null) => !flag(schema, "nullable"),
                        Some(_) => false,
                    };
                    if missing {
                        map.insert(key.clone(), filled.clone());
                    }
                }
            }
            // A null that may not be one counts as absent.
            map.retain(|key, child| {
                !child.is_null() || below(schema, key).is_none_or(|schema| flag(schema, "nullable"))
            });
            for (key, child) in map.iter_mut() {
                if let Some(schema) = below(schema, key) {
                    default(child, schema);
                }
            }
        }
        Value::Array(items) => {
            if let Some(schema) = schema.get("items") {
                for item in items {
                    default(item, schema);
                }
            }
        }
        _ => {}
    }
}

/// What a path of an error points at.
pub(super) fn value_at<'v>(object: &'v Value, path: &str) -> Option<&'v Value> {
    let normal = path.replace('[', ".").replace(']', "");
    normal.split('.').filter(|part| !part.is_empty()).try_fold(object, |value, part| match value {
        Value::Array(items) => items.get(part.parse::<usize>().ok()?),
        other => other.get(part),
    })
}

/// Checks types, enums, bounds, patterns, formats, required fields, lists and logical operators.
pub(super) fn validate(value: &Value, schema: &Value, path: &str, causes: &mut Vec<Cause>) {
    if value.is_null() && flag(schema, "nullable") {
        return;
    }
    let fits = check_type(value, schema, path, causes);
    if let Some(allowed) = schema.get("enum").and_then(Value::as_array)
        && !allowed.contains(value)
    {
        let names: Vec<String> =
            allowed.iter().map(|item| item.as_str().map_or_else(|| item.to_string(), str::to_owned)).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        causes.push(Cause::not_supported(path, value, &names));
    }
    if !fits {
        return;
    }
    match value {
        Value::Object(map) => object(map, value, schema, path, causes),
        Value::Array(items) => list(items, schema, path, causes),
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

fn check_type(value: &Value, schema: &Value, path: &str, causes: &mut Vec<Cause>) -> bool {
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
    let wanted = if flag(schema, "x-kubernetes-int-or-string") {
        if found == "integer" || found == "string" {
            return true;
        }
        "integer,string"
    } else {
        match schema.get("type").and_then(Value::as_str) {
            None | Some("") => return true,
            Some(wanted) => wanted,
        }
    };
    if wanted == found || (wanted == "number" && found == "integer") {
        return true;
    }
    let why = format!("{} must be of type {wanted}: {:?}", in_body(path), found);
    causes.push(Cause::type_invalid(shown(path), &Value::from(found), &why));
    false
}

fn child_path(path: &str, key: &str) -> String {
    if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") }
}

fn count(schema: &Value, key: &str) -> Option<usize> {
    schema.get(key).and_then(Value::as_u64).and_then(|n| usize::try_from(n).ok())
}

fn object(map: &Map<String, Value>, value: &Value, schema: &Value, path: &str, causes: &mut Vec<Cause>) {
    for name in schema.get("required").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str) {
        if !map.contains_key(name) {
            causes.push(Cause::required(child_path(path, name), ""));
        }
    }
    if count(schema, "maxProperties").is_some_and(|max| map.len() > max) {
        let max = count(schema, "maxProperties").unwrap_or_default();
        causes.push(Cause::too_many(shown(path), map.len(), max));
    }
    if count(schema, "minProperties").is_some_and(|min| map.len() < min) {
        let min = count(schema, "minProperties").unwrap_or_default();
        let why = format!("{} should have at least {min} properties", in_body(path));
        causes.push(Cause::invalid(shown(path), value, &why));
    }
    for (key, child) in map {
        if let Some(schema) = below(schema, key) {
            validate(child, schema, &child_path(path, key), causes);
        }
    }
}

fn list(items: &[Value], schema: &Value, path: &str, causes: &mut Vec<Cause>) {
    if let Some(max) = count(schema, "maxItems").filter(|max| items.len() > *max) {
        causes.push(Cause::too_many(shown(path), items.len(), max));
    }
    if let Some(min) = count(schema, "minItems").filter(|min| items.len() < *min) {
        let why = format!("{} should have at least {min} items", in_body(path));
        causes.push(Cause::invalid(shown(path), &items.len().into(), &why));
    }
    let keys: Option<Vec<&str>> = match schema.get("x-kubernetes-list-type").and_then(Value::as_str) {
        Some("set") => Some(Vec::new()),
        Some("map") => {
            let keys = schema.get("x-kubernetes-list-map-keys").and_then(Value::as_array);
            Some(keys.into_iter().flatten().filter_map(Value::as_str).collect())
        }
        _ => None,
    };
    let mut seen = rustc_hash::FxHashSet::default();
    for (index, item) in items.iter().enumerate() {
        let here = format!("{path}[{index}]");
        if let Some(keys) = &keys {
            let identity: Value = if keys.is_empty() {
                item.clone()
            } else {
                Value::Object(
                    keys.iter().filter_map(|key| Some(((*key).to_owned(), item.get(*key)?.clone()))).collect(),
                )
            };
            if !seen.insert(identity.to_string()) {
                causes.push(Cause::duplicate(here.clone(), &identity));
            }
        }
        if let Some(schema) = schema.get("items") {
            validate(item, schema, &here, causes);
        }
    }
}

fn string(text: &str, value: &Value, schema: &Value, path: &str, causes: &mut Vec<Cause>) {
    let length = text.chars().count();
    if let Some(max) = count(schema, "maxLength").filter(|max| length > *max) {
        causes.push(Cause::too_long(shown(path), max));
    }
    if let Some(min) = count(schema, "minLength").filter(|min| length < *min) {
        let why = format!("{} should be at least {min} chars long", in_body(path));
        causes.push(Cause::invalid(shown(path), value, &why));
    }
    if let Some(pattern) = schema.get("pattern").and_then(Value::as_str)
        && regex::Regex::new(pattern).is_ok_and(|pattern| !pattern.is_match(text))
    {
        let why = format!("{} should match '{pattern}'", in_body(path));
        causes.push(Cause::invalid(shown(path), value, &why));
    }
    if let Some(format) = schema.get("format").and_then(Value::as_str)
        && !fits_format(text, format)
    {
        let why = format!("{} must be of type {format}: {text:?}", in_body(path));
        causes.push(Cause::type_invalid(shown(path), value, &why));
    }
}

fn fits_format(text: &str, format: &str) -> bool {
    match format {
        "date-time" => text.parse::<jiff::Timestamp>().is_ok(),
        "date" => text.parse::<jiff::civil::Date>().is_ok(),
        "ipv4" => text.parse::<std::net::Ipv4Addr>().is_ok(),
        "ipv6" => text.parse::<std::net::Ipv6Addr>().is_ok(),
        "uuid" => {
            let hex: String = text.chars().filter(|c| *c != '-').collect();
            hex.len() == 32 && hex.chars().all(|c| c.is_ascii_hexdigit())
        }
        _ => true,
    }
}

fn number(value: &Value, schema: &Value, path: &str, causes: &mut Vec<Cause>) {
    let Some(n) = value.as_f64() else { return };
    let bound = |key: &str| schema.get(key).and_then(Value::as_f64);
    let print = |n: f64| Value::from(n).to_string().trim_end_matches(".0").to_owned();
    if let Some(min) = bound("minimum") {
        let strict = flag(schema, "exclusiveMinimum");
        if n < min || (strict && n <= min) {
            let relation = if strict { "greater than" } else { "greater than or equal to" };
            let why = format!("{} should be {relation} {}", in_body(path), print(min));
            causes.push(Cause::invalid(shown(path), value, &why));
        }
    }
    if let Some(max) = bound("maximum") {
        let strict = flag(schema, "exclusiveMaximum");
        if n > max || (strict && n >= max) {
            let relation = if strict { "less than" } else { "less than or equal to" };
            let why = format!("{} should be {relation} {}", in_body(path), print(max));
            causes.push(Cause::invalid(shown(path), value, &why));
        }
    }
    if let Some(step) = bound("multipleOf").filter(|step| *step > 0.0)
        && (n / step).fract() != 0.0
    {
        let why = format!("{} should be a multiple of {}", in_body(path), print(step));
        causes.push(Cause::invalid(shown(path), value, &why));
    }
}

fn logic(value: &Value, schema: &Value, path: &str, causes: &mut Vec<Cause>) {
    let fits = |schema: &Value| {
        let mut inner = Vec::new();
        validate(value, schema, path, &mut inner);
        inner.is_empty()
    };
    let several = |key: &str| schema.get(key).and_then(Value::as_array);
    for schema in several("allOf").into_iter().flatten() {
        validate(value, schema, path, causes);
    }
    let shown_value = if value.is_object() { Value::from("object") } else { value.clone() };
    if let Some(schemas) = several("anyOf").filter(|_| !flag(schema, "x-kubernetes-int-or-string"))
        && !schemas.iter().any(fits)
    {
        let why = format!("{} must validate at least one schema (anyOf)", quoted(path));
        causes.push(Cause::invalid(shown(path), &shown_value, &why));
    }
    if let Some(schemas) = several("oneOf")
        && schemas.iter().filter(|schema| fits(schema)).count() != 1
    {
        let why = format!("{} must validate one and only one schema (oneOf). Found none valid", quoted(path));
        causes.push(Cause::invalid(shown(path), &shown_value, &why));
    }
    if let Some(not) = schema.get("not")
        && fits(not)
    {
        let why = format!("{} must not validate the schema (not)", quoted(path));
        causes.push(Cause::invalid(shown(path), &shown_value, &why));
    }
}

fn quoted(path: &str) -> String {
    format!("\"{path}\"")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn unknown_fields_go_unless_the_schema_keeps_them() {
        let schema = json!({"type": "object", "properties": {
            "spec": {"type": "object", "properties": {"a": {"type": "integer"},
                     "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}}});
        let mut object = json!({"kind": "X", "spec": {"a": 1, "b": 2, "free": {"c": 3}}, "other": 1});
        let mut unknown = Vec::new();
        prune(&mut object, &schema, true, &mut String::new(), &mut unknown);
        assert_eq!(object, json!({"kind": "X", "spec": {"a": 1, "free": {"c": 3}}}));
        assert_eq!(unknown, ["other", "spec.b"]);
    }

    #[test]
    fn defaults_fill_what_is_missing_or_null() {
        let schema = json!({"properties": {"spec": {"default": {}, "properties": {"a": {"default": 1}, "b": {"nullable": true, "default": 2}}}}});
        let mut object = json!({});
        default(&mut object, &schema);
        assert_eq!(object, json!({"spec": {"a": 1, "b": 2}}));
        let mut object = json!({"spec": {"a": null, "b": null}});
        default(&mut object, &schema);
        assert_eq!(object, json!({"spec": {"a": 1, "b": null}}));
    }

    #[test]
    fn violations_are_told_by_field() {
        let schema = json!({"type": "object", "required": ["n"], "properties": {
            "n": {"type": "integer", "minimum": 1}, "s": {"type": "string", "enum": ["a", "b"]},
            "l": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string", "pattern": "^x"}}}});
        let mut causes = Vec::new();
        validate(&json!({"s": "c", "l": ["x", "x", "y"]}), &schema, "", &mut causes);
        let told: Vec<_> = causes.iter().map(|cause| format!("{}: {}", cause.field, cause.message)).collect();
        let expected = [
            "n: Required value",
            "l[1]: Duplicate value: \"x\"",
            "l[2]: Invalid value: \"y\": l[2] in body should match '^x'",
            "s: Unsupported value: \"c\": supported values: \"a\", \"b\"",
        ];
        assert_eq!(told, expected);
        causes.clear();
        validate(&json!({"n": "one"}), &schema, "", &mut causes);
        assert_eq!(causes[0].message, "Invalid value: \"string\": n in body must be of type integer: \"string\"");
    }
}
