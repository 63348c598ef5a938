use serde_json::json;

use super::*;
use crate::schema::builtin;

fn read(schema: &Value) -> Structural {
    Structural::read(schema, false)
}

fn pruned(object: &mut Value, schema: &Value) -> Vec<String> {
    let mut unknown = Vec::new();
    let metadata = builtin().schemas.get(crate::schema::SchemaId::MISSING);
    prune(object, &read(schema), true, metadata, &mut String::new(), &mut unknown);
    unknown
}

#[test]
fn unknown_fields_go_unless_the_schema_keeps_them() {
    let schema = json!({"type": "object", "properties": {
        "spec": {"type": "object", "properties": {"a": {"type": "integer"},
                 "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}}});
    let mut object = json!({"kind": "X", "spec": {"a": 1, "b": 2, "free": {"c": 3}}, "other": 1});
    let unknown = pruned(&mut object, &schema);
    assert_eq!(object, json!({"kind": "X", "spec": {"a": 1, "free": {"c": 3}}}));
    assert_eq!(unknown, ["other", "spec.b"]);
}

#[test]
fn defaults_fill_what_is_missing_or_null() {
    let schema = json!({"properties": {"spec": {"default": {}, "properties": {"a": {"default": 1}, "b": {"nullable": true, "default": 2}}}}});
    let mut object = json!({});
    default(&mut object, &read(&schema));
    assert_eq!(object, json!({"spec": {"a": 1, "b": 2}}));
    let mut object = json!({"spec": {"a": null, "b": null}});
    default(&mut object, &read(&schema));
    assert_eq!(object, json!({"spec": {"a": 1, "b": null}}));
}

#[test]
fn violations_are_told_by_field() {
    let schema = json!({"type": "object", "required": ["n"], "properties": {
        "n": {"type": "integer", "minimum": 1}, "s": {"type": "string", "enum": ["a", "b"]},
        "l": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string", "pattern": "^x"}}}});
    let mut causes = Vec::new();
    validate(&json!({"s": "c", "l": ["x", "x", "y"]}), &read(&schema), None, &mut String::new(), &mut causes);
    let told: Vec<_> = causes.iter().map(|cause| format!("{}: {}", cause.field, cause.message)).collect();
    let expected = [
        "n: Required value",
        "l[1]: Duplicate value: \"x\"",
        "l[2]: Invalid value: \"y\": l[2] in body should match '^x'",
        "s: Unsupported value: \"c\": supported values: \"a\", \"b\"",
    ];
    assert_eq!(told, expected);
    causes.clear();
    validate(&json!({"n": "one"}), &read(&schema), None, &mut String::new(), &mut causes);
    assert_eq!(causes[0].message, "Invalid value: \"string\": n in body must be of type integer: \"string\"");
}

#[test]
fn what_an_update_leaves_as_it_was_is_not_checked_again() {
    let schema = json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {
        "name": {"type": "string", "maxLength": 2}, "n": {"type": "integer"}}}}});
    let old = json!({"spec": {"name": "too long", "n": 1}});
    let mut causes = Vec::new();
    validate(
        &json!({"spec": {"name": "too long", "n": 2}}),
        &read(&schema),
        Some(&old),
        &mut String::new(),
        &mut causes,
    );
    assert_eq!(causes, []);
    validate(
        &json!({"spec": {"name": "as long", "n": 1}}),
        &read(&schema),
        Some(&old),
        &mut String::new(),
        &mut causes,
    );
    assert_eq!(causes.len(), 1);
}

#[test]
fn an_embedded_resource_has_a_type_and_metadata() {
    let schema = json!({"type": "object", "properties": {"template": {"type": "object",
        "x-kubernetes-embedded-resource": true, "x-kubernetes-preserve-unknown-fields": true}}});
    let mut causes = Vec::new();
    validate(
        &json!({"template": {"metadata": {"name": "Not A Name"}}}),
        &read(&schema),
        None,
        &mut String::new(),
        &mut causes,
    );
    let fields: Vec<_> = causes.iter().map(|cause| cause.field.as_str()).collect();
    assert_eq!(fields, ["template.apiVersion", "template.kind", "template.metadata.name"]);
    causes.clear();
    let good = json!({"template": {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "spec": {}}});
    validate(&good, &read(&schema), None, &mut String::new(), &mut causes);
    assert_eq!(causes, []);
}

#[test]
fn formats_that_are_not_held_are_told() {
    let schema = json!({"type": "object", "properties": {"ttl": {"type": "string", "format": "duration"},
        "n": {"type": "integer", "format": "int32"}}});
    let mut causes = Vec::new();
    // Formats of numbers are not held, there as here.
    validate(&json!({"ttl": "soon", "n": 3_000_000_000_i64}), &read(&schema), None, &mut String::new(), &mut causes);
    let told: Vec<_> = causes.iter().map(|cause| (cause.field.as_str(), cause.message.as_str())).collect();
    assert_eq!(told, [("ttl", "Invalid value: \"soon\": ttl in body must be of type duration: \"soon\"")]);
}
