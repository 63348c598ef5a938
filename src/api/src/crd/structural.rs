//! From schemars' schemas to the structural schemas that the API server takes.

use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value};

/// The structural schema of a type: everything inline, no nulls, no titles, no defaults but those of the rules.
pub(super) fn schema_of<T: JsonSchema>() -> Value {
    let settings = SchemaSettings::openapi3().with(|settings| settings.inline_subschemas = true);
    let mut schema = settings.into_generator().into_root_schema_for::<T>().to_value();
    simplify(&mut schema);
    schema
}

fn simplify(schema: &mut Value) {
    let Value::Object(object) = schema else { return };
    for key in ["$schema", "title", "default", "nullable", "components", "minLength"] {
        object.remove(key);
    }
    flatten_nullable(object);
    flatten_enum(object);
    if let Some(Value::String(description)) = object.get_mut("description") {
        *description = one_line_a_paragraph(description);
    }
    // serde's unsigned and float formats mean nothing to the API server.
    if object.get("format").and_then(Value::as_str).is_some_and(|format| format.starts_with("uint")) {
        object.remove("format");
    }
    if let Some(Value::Object(properties)) = object.get_mut("properties") {
        properties.values_mut().for_each(simplify);
    }
    for key in ["items", "additionalProperties"] {
        if let Some(inner) = object.get_mut(key) {
            simplify(inner);
        }
    }
}

/// `anyOf [X, null]`, `allOf [X]` and `type [x, null]` become X.
fn flatten_nullable(object: &mut Map<String, Value>) {
    if let Some(Value::Array(types)) = object.get_mut("type") {
        types.retain(|name| name != "null");
        if let [only] = types.as_slice() {
            let only = only.clone();
            object.insert("type".to_owned(), only);
        }
    }
    if let Some(Value::Array(values)) = object.get_mut("enum") {
        values.retain(|value| !value.is_null());
    }
    for key in ["anyOf", "oneOf", "allOf"] {
        let Some(Value::Array(options)) = object.get_mut(key) else { continue };
        let is_null = |option: &Value| {
            option.get("type").is_some_and(|name| name == "null")
                || option.get("enum").and_then(Value::as_array).is_some_and(|values| values.iter().all(Value::is_null))
        };
        options.retain(|option| !is_null(option));
        if let [Value::Object(only)] = options.as_slice() {
            let only = only.clone();
            object.remove(key);
            // The field's own description stands before that of its type.
            for (name, value) in only {
                object.entry(name).or_insert(value);
            }
        }
    }
}

/// An enum with a description for each value becomes a plain list of values.
fn flatten_enum(object: &mut Map<String, Value>) {
    let Some(Value::Array(options)) = object.get("oneOf") else { return };
    let value_of = |option: &Value| {
        let single = option.get("enum").and_then(Value::as_array).and_then(|values| values.first());
        option.get("const").or(single).cloned()
    };
    if let Some(values) = options.iter().map(value_of).collect::<Option<Vec<Value>>>() {
        object.remove("oneOf");
        object.insert("type".to_owned(), "string".into());
        object.insert("enum".to_owned(), Value::Array(values));
    }
}

/// Line breaks within a paragraph follow the source's width; only those between paragraphs mean something.
fn one_line_a_paragraph(text: &str) -> String {
    text.split("\n\n").map(|paragraph| paragraph.replace('\n', " ")).collect::<Vec<_>>().join("\n\n")
}
