//! What an object leaves out that its CustomResourceDefinition requires. Types fill it in, so that such an object can be
//! planned, but no API server takes it.

use std::sync::OnceLock;

use berth_api::CRDS;
use serde_json::Value;

use crate::check::Problems;
use crate::error::Problem;
use crate::path;
use crate::value::from_yaml;

/// The schemas that were asked for, in the order of [`CRDS`].
static SCHEMAS: [OnceLock<Option<Definition>>; CRDS.len()] = [const { OnceLock::new() }; CRDS.len()];

struct Definition {
    api_version: String,
    kind: String,
    schema: Value,
}

/// Notes what is missing in an object. What is told of its status, which no user writes, does not matter.
pub(crate) fn check(api_version: &str, kind: &str, object: &Value, problems: &mut Problems) {
    let group = api_version.split('/').next().unwrap_or_default();
    let of_group = CRDS.iter().zip(&SCHEMAS).filter(|((file, _), _)| file.split('_').next() == Some(group));
    for ((_, text), known) in of_group {
        let definition = known.get_or_init(|| read(text)).as_ref();
        if let Some(known) = definition.filter(|known| known.kind == kind && known.api_version == api_version) {
            look(&known.schema, object, &mut String::new(), problems);
        }
    }
}

fn read(text: &str) -> Option<Definition> {
    let definition = from_yaml(text, text.len()).ok()?;
    let spec = definition.get("spec")?;
    let version = spec.get("versions")?.get(0)?;
    let group = spec.get("group")?.as_str()?;
    let mut schema = version.pointer("/schema/openAPIV3Schema")?.clone();
    schema.get_mut("properties")?.as_object_mut()?.remove("status");
    Some(Definition {
        api_version: format!("{group}/{}", version.get("name")?.as_str()?),
        kind: spec.pointer("/names/kind")?.as_str()?.to_owned(),
        schema,
    })
}

fn look(schema: &Value, value: &Value, at: &mut String, problems: &mut Problems) {
    match value {
        Value::Object(fields) => {
            let of_any = schema.get("additionalProperties");
            let of_field = |name: &str| schema.get("properties").and_then(|known| known.get(name));
            for name in schema.get("required").and_then(Value::as_array).into_iter().flatten() {
                let Some(name) = name.as_str().filter(|name| fields.get(*name).is_none_or(Value::is_null)) else {
                    continue;
                };
                let wanted = of_field(name).unwrap_or(&Value::Null);
                if wanted.get("default").is_none() {
                    let length = at.len();
                    path::push_key(at, name);
                    problems.push(Problem::new(
                        at.as_str(),
                        format!("missing, expected {}; it is planned, but no API server takes it", shape(wanted)),
                    ));
                    at.truncate(length);
                }
            }
            for (name, field) in fields {
                if let Some(schema) = of_field(name).or(of_any) {
                    let length = at.len();
                    path::push_key(at, name);
                    look(schema, field, at, problems);
                    at.truncate(length);
                }
            }
        }
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                let length = at.len();
                path::push_index(at, index);
                look(schema.get("items").unwrap_or(&Value::Null), item, at, problems);
                at.truncate(length);
            }
        }
        _ => {}
    }
}

/// What a value of a schema looks like.
fn shape(schema: &Value) -> String {
    let texts = |field: &str| -> Vec<&str> {
        let all = schema.get(field).and_then(Value::as_array);
        all.into_iter().flatten().filter_map(Value::as_str).collect()
    };
    let choices = texts("enum");
    if !choices.is_empty() {
        return format!("one of {}", choices.join(", "));
    }
    match schema.get("type").and_then(Value::as_str) {
        Some("object") => match texts("required").as_slice() {
            [] => "an object".to_owned(),
            [only] => format!("an object with {only}"),
            [first @ .., last] => format!("an object with {} and {last}", first.join(", ")),
        },
        Some("array") => "a list".to_owned(),
        Some("integer" | "number") => "a number".to_owned(),
        Some("boolean") => "true or false".to_owned(),
        _ => "text".to_owned(),
    }
}
