//! OpenAPI v2: the definitions of the built-in kinds, as JSON and as gnostic's protobuf (`openapiv2/OpenAPIv2.proto`).
//!
//! kubectl reads it, in protobuf alone, to check objects of kinds that cannot be patched: reviews, bindings, lists. Paths
//! are left out: no client looks there for what version 3 does not tell.

use std::sync::LazyLock;

use bytes::Bytes;
use serde_json::{Map, Value, json};

use crate::reply::Answer;
use crate::schema::builtin;
use crate::status::{ApiError, Result};

/// What kubectl asks for.
/// What clients ask for.
const PROTOBUF: &str = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf";
/// What is answered: `@` is not allowed in a media type, and Go's parser refuses it.
const PROTOBUF_ANSWER: &str = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf";
const JSON: &str = "application/json";
const REFERENCE: &str = "#/definitions/";

static AS_JSON: LazyLock<Bytes> = LazyLock::new(|| {
    let definitions: Map<String, Value> =
        builtin().raw.iter().map(|(name, schema)| (name.clone(), definition(schema))).collect();
    let document = json!({"swagger": "2.0", "info": {"title": "Kubernetes", "version": builtin().version},
                          "paths": {}, "definitions": definitions});
    document.to_string().into()
});

static AS_PROTOBUF: LazyLock<Bytes> = LazyLock::new(|| {
    let mut info = Message::default();
    info.text(1, "Kubernetes").text(2, &builtin().version);
    let mut definitions = Message::default();
    for (name, schema) in &builtin().raw {
        definitions.message(1, Message::default().text(1, name).message(2, &schema_message(schema)));
    }
    let mut document = Message::default();
    document.text(1, "2.0").message(2, &info).message(8, &Message::default()).message(9, &definitions);
    document.0.into()
});

/// The document in the form that a client accepts.
pub(super) fn document(accept: &str) -> Result<Answer> {
    let is_accepted =
        |media: &str| accept.split(',').any(|part| part.split(';').next().unwrap_or_default().trim() == media);
    if is_accepted(PROTOBUF) || is_accepted(PROTOBUF_ANSWER) {
        return Ok(Answer::Ready { content_type: PROTOBUF_ANSWER, body: AS_PROTOBUF.clone() });
    }
    if accept.is_empty() || is_accepted(JSON) || is_accepted("*/*") {
        return Ok(Answer::Ready { content_type: JSON, body: AS_JSON.clone() });
    }
    Err(ApiError::not_acceptable(&[JSON, PROTOBUF]))
}

/// A schema with full references, and without what only this server reads.
fn definition(schema: &Value) -> Value {
    match schema {
        Value::Object(map) => {
            let fields =
                map.iter().filter(|(key, _)| !["x-go-omit-zero", "x-proto", "default"].contains(&key.as_str()));
            let full = |(key, value): (&String, &Value)| match (key.as_str(), value) {
                ("$ref", Value::String(name)) => (key.clone(), format!("{REFERENCE}{name}").into()),
                // A field may be named like a keyword.
                ("properties", Value::Object(properties)) => {
                    let properties = properties.iter().map(|(name, schema)| (name.clone(), definition(schema)));
                    (key.clone(), Value::Object(properties.collect()))
                }
                _ => (key.clone(), definition(value)),
            };
            Value::Object(fields.map(full).collect())
        }
        Value::Array(items) => Value::Array(items.iter().map(definition).collect()),
        other => other.clone(),
    }
}

/// `Schema`: its fields by number.
fn schema_message(schema: &Value) -> Message {
    let text = |key: &str| schema.get(key).and_then(Value::as_str);
    let mut out = Message::default();
    if let Some(name) = text("$ref") {
        out.text(1, &format!("{REFERENCE}{name}"));
    }
    for (number, key) in [(2, "format"), (4, "description")] {
        if let Some(text) = text(key) {
            out.text(number, text);
        }
    }
    for name in schema.get("required").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str) {
        out.text(19, name);
    }
    match schema.get("additionalProperties") {
        Some(Value::Bool(allowed)) => {
            out.message(21, Message::default().number(2, u64::from(*allowed)));
        }
        Some(values) => {
            out.message(21, Message::default().message(1, &schema_message(values)));
        }
        None => {}
    }
    if let Some(kind) = text("type") {
        out.message(22, Message::default().text(1, kind));
    }
    if let Some(items) = schema.get("items") {
        out.message(23, Message::default().message(1, &schema_message(items)));
    }
    if let Some(properties) = schema.get("properties").and_then(Value::as_object) {
        let mut all = Message::default();
        for (name, schema) in properties {
            all.message(1, Message::default().text(1, name).message(2, &schema_message(schema)));
        }
        out.message(25, &all);
    }
    // Extensions are YAML, which JSON is.
    let extensions = schema.as_object().into_iter().flatten().filter(|(key, _)| key.starts_with("x-kubernetes-"));
    for (name, value) in extensions {
        let any = value.to_string();
        out.message(31, Message::default().text(1, name).message(2, Message::default().text(2, &any)));
    }
    out
}

/// A message of protobuf that is being written.
#[derive(Debug, Default)]
struct Message(Vec<u8>);

// === impl Message ===

impl Message {
    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push(u8::try_from(value & 0x7f).unwrap_or_default() | 0x80);
            value >>= 7;
        }
        self.0.push(u8::try_from(value).unwrap_or_default());
    }

    fn number(&mut self, field: u64, value: u64) -> &mut Self {
        self.varint(field << 3);
        self.varint(value);
        self
    }

    fn bytes(&mut self, field: u64, bytes: &[u8]) -> &mut Self {
        self.varint(field << 3 | 2);
        self.varint(u64::try_from(bytes.len()).unwrap_or_default());
        self.0.extend_from_slice(bytes);
        self
    }

    fn text(&mut self, field: u64, text: &str) -> &mut Self {
        self.bytes(field, text.as_bytes())
    }

    fn message(&mut self, field: u64, message: &Message) -> &mut Self {
        self.bytes(field, &message.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_lengths_are_varints() {
        let mut message = Message::default();
        message.number(2, 300).text(31, &"x".repeat(200));
        assert_eq!(message.0[..6], [0x10, 0xac, 0x02, 0xfa, 0x01, 0xc8]);
        assert_eq!(message.0.len(), 3 + 2 + 2 + 200);
    }
}
