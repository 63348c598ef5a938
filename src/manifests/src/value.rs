//! Text to an untyped value: duplicate keys refused, size and depth bounded.

use std::cell::Cell;
use std::fmt;

use serde::de::{self, DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};
use serde_saphyr::budget::BudgetBreach;

use crate::syntax::{json_in_words, yaml_in_words};

/// Bytes that an object's values may take up once aliases are expanded, per byte of its limit.
const EXPANSION: usize = 4;
/// Bytes that a value counts besides its text, roughly what it takes in memory beyond that.
const NODE_BYTES: usize = 8;
/// Values of one document.
const MAX_NODES: usize = 2_000_000;

/// How deep an object's values may be nested.
const MAX_DEPTH: usize = 100;
/// The parser's own limit for JSON.
const MAX_DEPTH_OF_JSON: usize = 128;

/// Why text is no value, and where: line and column in the text, from 1.
#[derive(Debug)]
pub(crate) struct SyntaxError {
    pub(crate) message: String,
    pub(crate) position: Option<(u64, u64)>,
}

/// Parses one JSON value.
pub(crate) fn from_json(text: &str, max_object_bytes: usize) -> Result<Value, SyntaxError> {
    let room = Cell::new(max_object_bytes.saturating_mul(EXPANSION));
    let mut json = serde_json::Deserializer::from_str(text);
    let value = Node { room: &room }.deserialize(&mut json);
    value.and_then(|value| json.end().map(|()| value)).map_err(|error| {
        let message = error.to_string();
        // The position is told apart from the message.
        let message = match message.split(" at line ").next().unwrap_or_default() {
            "recursion limit exceeded" => too_deep(MAX_DEPTH_OF_JSON),
            message => json_in_words(message),
        };
        let position = (error.line() > 0).then(|| (error.line() as u64, error.column() as u64));
        SyntaxError { message, position }
    })
}

/// Parses one YAML document, by kubectl's reading of scalars. An empty document is null.
pub(crate) fn from_yaml(text: &str, max_object_bytes: usize) -> Result<Value, SyntaxError> {
    let room = Cell::new(max_object_bytes.saturating_mul(EXPANSION));
    let node = Node { room: &room };
    let value =
        serde_saphyr::with_deserializer_from_str_with_options(text, yaml_options(), |yaml| node.deserialize(yaml));
    value.map_err(|error| {
        let position = error.location().map(|at| (at.line(), at.column()));
        let message = match &error {
            serde_saphyr::Error::Budget { breach, .. } => over_budget(breach),
            error => {
                let message = error.to_string();
                without_options(message.split(" at line ").next().unwrap_or_default().trim())
            }
        };
        SyntaxError { message, position }
    })
}

fn too_deep(most: usize) -> String {
    format!("nested deeper than {most} levels, expected {most} at most")
}

/// Which limit a YAML document is beyond.
fn over_budget(breach: &BudgetBreach) -> String {
    match breach {
        BudgetBreach::Depth { .. } => too_deep(MAX_DEPTH),
        BudgetBreach::Events { .. } | BudgetBreach::Nodes { .. } => {
            format!("found more than {MAX_NODES} values, expected {MAX_NODES} at most in one document")
        }
        BudgetBreach::Aliases { .. } | BudgetBreach::Anchors { .. } | BudgetBreach::AliasAnchorRatio { .. } => {
            "found too many anchors and aliases for one document".to_owned()
        }
        BudgetBreach::MergeKeys { .. } => "found too many merge keys (<<) for one document".to_owned(),
        _ => "larger than a single document may be".to_owned(),
    }
}

/// A message of the YAML library without what its caller could have set.
fn without_options(message: &str) -> String {
    let float = message.strip_prefix("non-finite float ").and_then(|rest| rest.split_once(" rejected"));
    if message == "recursion limit exceeded" {
        return too_deep(MAX_DEPTH);
    }
    match float {
        Some((found, _)) => format!("found {found}, expected a finite number"),
        None => yaml_in_words(message.split(", set DuplicateKeyPolicy").next().unwrap_or_default()),
    }
}

/// `apiVersion` and `kind` of part of a YAML document, as far as they can be read.
pub(crate) fn type_of_yaml(text: &[u8]) -> (Option<String>, Option<String>) {
    let text = String::from_utf8_lossy(text);
    let value = from_yaml(&text, text.len()).unwrap_or_default();
    let field = |name| value.get(name).and_then(Value::as_str).map(str::to_owned);
    (field("apiVersion"), field("kind"))
}

pub(crate) fn yaml_options() -> serde_saphyr::Options {
    serde_saphyr::options! {
        budget: serde_saphyr::budget! {
            max_depth: MAX_DEPTH,
            flow_nesting_limit: MAX_DEPTH,
            max_events: 2 * MAX_NODES,
            max_nodes: MAX_NODES,
        },
        // kubectl's YAML 1.1 reads 0644 as octal.
        legacy_octal_numbers: true,
        with_snippet: false,
    }
}

/// Builds a [`Value`], taking what it costs from the room that is left.
#[derive(Clone, Copy)]
struct Node<'a> {
    room: &'a Cell<usize>,
}

impl Node<'_> {
    fn take<E: de::Error>(self, n_bytes: usize) -> Result<(), E> {
        let room = self
            .room
            .get()
            .checked_sub(n_bytes + NODE_BYTES)
            .ok_or_else(|| E::custom("its aliases expand to more than a single object may take"))?;
        self.room.set(room);
        Ok(())
    }
}

impl<'de> DeserializeSeed<'de> for Node<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Node<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value that JSON can hold")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E: de::Error>(self, value: f64) -> Result<Value, E> {
        self.take(0)?;
        serde_json::Number::from_f64(value)
            .map(Value::Number)
            .ok_or_else(|| E::custom("found a number that is not finite"))
    }

    fn visit_str<E: de::Error>(self, value: &str) -> Result<Value, E> {
        self.take(value.len())?;
        Ok(Value::String(value.to_owned()))
    }

    fn visit_string<E: de::Error>(self, value: String) -> Result<Value, E> {
        self.take(value.len())?;
        Ok(Value::String(value))
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_none<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut values = Vec::new();
        while let Some(value) = items.next_element_seed(self)? {
            self.take(0)?;
            values.push(value);
        }
        Ok(Value::Array(values))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let mut object = Map::new();
        while let Some(key) = entries.next_key::<String>()? {
            self.take(key.len())?;
            if object.contains_key(&key) {
                return Err(de::Error::custom(format_args!("found the key {key:?} twice")));
            }
            let value = entries.next_value_seed(self)?;
            object.insert(key, value);
        }
        Ok(Value::Object(object))
    }
}
