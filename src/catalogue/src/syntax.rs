//! Text to a tree of values, from JSON or YAML alike, before anything is known about fields.

use std::borrow::Cow;
use std::fmt;
use std::path::Path;

use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_saphyr::budget::BudgetBreach;
use serde_saphyr::options::NonFiniteFloatPolicy;

use crate::CatalogueError;

/// How deep values may be nested.
const MAX_DEPTH: usize = 32;

/// A value of JSON or YAML.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Value<'t> {
    Null,
    Bool(bool),
    /// Holds every `i64` and `u64`.
    Integer(i128),
    Float(f64),
    String(Cow<'t, str>),
    List(Vec<Value<'t>>),
    /// In the order of the text; keys may repeat.
    Map(Vec<(Cow<'t, str>, Value<'t>)>),
}

/// Reads `text`: as JSON where it begins like JSON, else or failing that as YAML, unless `file` is called `.json`.
pub(crate) fn parse<'t>(text: &'t [u8], file: &str) -> Result<Value<'t>, CatalogueError> {
    let syntax = |message: String| CatalogueError::Syntax { file: file.to_owned(), message };
    let text = std::str::from_utf8(text)
        .map_err(|error| syntax(format!("expected UTF-8, found another byte at offset {}", error.valid_up_to())))?;
    let text = text.trim_start_matches('\u{feff}');
    if text.trim().is_empty() {
        return Err(syntax("expected a list of instance types, found an empty file".to_owned()));
    }
    if !text.trim_start().starts_with(['[', '{']) {
        return parse_yaml(text).map_err(syntax);
    }
    serde_json::from_str(text).or_else(|error| {
        // What begins like JSON may be YAML in flow style; if it is neither, the JSON error is the one that helps.
        let is_json = Path::new(file).extension().is_some_and(|e| e.eq_ignore_ascii_case("json"));
        let as_yaml = if is_json { None } else { parse_yaml(text).ok() };
        as_yaml.ok_or_else(|| syntax(error.to_string()))
    })
}

fn parse_yaml(text: &str) -> Result<Value<'_>, String> {
    let options = serde_saphyr::options! {
        // The size of the file bounds these; what aliases multiply stays bounded by the defaults.
        budget: serde_saphyr::budget! {
            max_events: text.len().saturating_add(1_000),
            max_nodes: text.len().saturating_add(1_000),
            max_total_scalar_bytes: text.len().saturating_add(64 << 20),
            max_depth: MAX_DEPTH,
            max_documents: 2,
        },
        strict_booleans: true,
        non_finite_float_policy: NonFiniteFloatPolicy::PassThrough,
        with_snippet: false,
    };
    serde_saphyr::from_str_with_options(text, options).map_err(|error| match error {
        serde_saphyr::Error::MultipleDocuments { location, .. } => {
            format!("expected one list of instance types, found another document at line {}", location.line())
        }
        serde_saphyr::Error::Budget { breach: BudgetBreach::Depth { .. }, location } => {
            format!("nested deeper than {MAX_DEPTH} levels, expected {MAX_DEPTH} at most, at line {}", location.line())
        }
        serde_saphyr::Error::Budget { location, .. } => {
            format!("its anchors and aliases stand for more than a catalogue may hold, at line {}", location.line())
        }
        error => error.to_string(),
    })
}

impl fmt::Display for Value<'_> {
    /// As an error message names it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Null => f.write_str("null"),
            Self::Bool(value) => write!(f, "{value}"),
            Self::Integer(value) => write!(f, "{value}"),
            Self::Float(value) => write!(f, "{value}"),
            Self::String(value) => write!(f, "{value:?}"),
            Self::List(_) => f.write_str("a list"),
            Self::Map(_) => f.write_str("a map"),
        }
    }
}

impl<'de: 't, 't> Deserialize<'de> for Value<'t> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ValueVisitor)
    }
}

struct ValueVisitor;

impl<'de> Visitor<'de> for ValueVisitor {
    type Value = Value<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_unit<E: Error>(self) -> Result<Self::Value, E> {
        Ok(Value::Null)
    }

    fn visit_none<E: Error>(self) -> Result<Self::Value, E> {
        Ok(Value::Null)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_any(self)
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Self::Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Self::Value, E> {
        Ok(Value::Integer(value.into()))
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Self::Value, E> {
        Ok(Value::Integer(value.into()))
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Self::Value, E> {
        Ok(Value::Float(value))
    }

    fn visit_borrowed_str<E: Error>(self, value: &'de str) -> Result<Self::Value, E> {
        Ok(Value::String(Cow::Borrowed(value)))
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<Self::Value, E> {
        Ok(Value::String(Cow::Owned(value.to_owned())))
    }

    fn visit_string<E: Error>(self, value: String) -> Result<Self::Value, E> {
        Ok(Value::String(Cow::Owned(value)))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
        let mut values = Vec::new();
        while let Some(value) = seq.next_element()? {
            values.push(value);
        }
        Ok(Value::List(values))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut entries = Vec::new();
        while let Some((FieldName(key), value)) = map.next_entry()? {
            entries.push((key, value));
        }
        Ok(Value::Map(entries))
    }
}

/// A key, borrowed where the text allows it.
struct FieldName<'t>(Cow<'t, str>);

impl<'de: 't, 't> Deserialize<'de> for FieldName<'t> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_str(KeyVisitor)
    }
}

struct KeyVisitor;

impl<'de> Visitor<'de> for KeyVisitor {
    type Value = FieldName<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a key")
    }

    fn visit_borrowed_str<E: Error>(self, key: &'de str) -> Result<Self::Value, E> {
        Ok(FieldName(Cow::Borrowed(key)))
    }

    fn visit_str<E: Error>(self, key: &str) -> Result<Self::Value, E> {
        Ok(FieldName(Cow::Owned(key.to_owned())))
    }
}
