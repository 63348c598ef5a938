//! Bodies: JSON or YAML to a value, with the duplicate fields told.

use std::fmt;

use indexmap::IndexSet;
use rustc_hash::FxBuildHasher;
use serde::Deserializer;
use serde::de::{DeserializeSeed, MapAccess, SeqAccess, Visitor};
use serde_json::map::Entry;
use serde_json::{Map, Number, Value};

use crate::status::{ApiError, Result};

/// The format of a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Format {
    Json,
    Yaml,
}

/// A body that was read.
#[derive(Debug)]
pub(crate) struct Parsed {
    pub(crate) value: Value,
    /// Paths of fields that occur twice; the last one counts.
    pub(crate) duplicates: Vec<String>,
}

/// Reads a body. JSON nests at most 128 deep, as serde_json holds it.
pub(crate) fn parse(bytes: &[u8], format: Format) -> Result<Parsed> {
    match format {
        Format::Json => {
            let mut found = Vec::new();
            let mut deserializer = serde_json::Deserializer::from_slice(bytes);
            let seed = Tracking { duplicates: &mut found };
            let value = seed.deserialize(&mut deserializer).and_then(|value| deserializer.end().map(|()| value));
            let value =
                value.map_err(|error| if error.is_eof() { cut() } else { ApiError::bad_request(error.to_string()) })?;
            let found: IndexSet<String, FxBuildHasher> = found.into_iter().collect();
            let paths = found.iter().map(|path| path.strip_prefix('.').unwrap_or(path).to_owned());
            Ok(Parsed { value, duplicates: paths.collect() })
        }
        Format::Yaml => {
            let text = std::str::from_utf8(bytes)
                .map_err(|error| ApiError::bad_request(format!("couldn't parse the body as YAML: {error}")))?;
            // As YAML 1.1 has it, which Kubernetes reads: `yes` and `on` are bools, 010 is eight.
            let options = serde_saphyr::options! { legacy_octal_numbers: true };
            let value: Value = serde_saphyr::from_str_with_options(text, options)
                .map_err(|error| ApiError::bad_request(format!("error converting YAML to JSON: {error}")))?;
            Ok(Parsed { value, duplicates: Vec::new() })
        }
    }
}

fn cut() -> ApiError {
    ApiError::bad_request("unexpected end of JSON input")
}

/// Reads a value, and where fields occur twice. Paths are made on the way out of what has duplicates: few bodies do.
struct Tracking<'a> {
    duplicates: &'a mut Vec<String>,
}

impl Tracking<'_> {
    /// Puts a step before the paths that were found since.
    fn below(&mut self, since: usize, step: impl Fn() -> String) {
        for path in self.duplicates.iter_mut().skip(since) {
            path.insert_str(0, &step());
        }
    }
}

impl<'de> DeserializeSeed<'de> for Tracking<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Tracking<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(Number::from_f64(value).map_or(Value::Null, Value::Number))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut seq: A) -> Result<Value, A::Error> {
        let mut items = Vec::new();
        loop {
            let since = self.duplicates.len();
            let item = seq.next_element_seed(Tracking { duplicates: self.duplicates })?;
            self.below(since, || format!("[{}]", items.len()));
            match item {
                Some(item) => items.push(item),
                None => return Ok(Value::Array(items)),
            }
        }
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut access: A) -> Result<Value, A::Error> {
        let mut map = Map::new();
        while let Some(key) = access.next_key::<String>()? {
            let since = self.duplicates.len();
            let value = access.next_value_seed(Tracking { duplicates: self.duplicates })?;
            self.below(since, || format!(".{key}"));
            match map.entry(key) {
                Entry::Vacant(entry) => {
                    entry.insert(value);
                }
                Entry::Occupied(mut entry) => {
                    self.duplicates.push(format!(".{}", entry.key()));
                    entry.insert(value);
                }
            }
        }
        Ok(Value::Object(map))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn duplicate_fields_are_told_and_the_last_counts() {
        let parsed = parse(br#"{"a":1,"a":2,"l":[{"b":1,"b":2}],"m":{"c":1,"c":2}}"#, Format::Json).unwrap();
        assert_eq!(parsed.value, json!({"a": 2, "l": [{"b": 2}], "m": {"c": 2}}));
        assert_eq!(parsed.duplicates, ["a", "l[0].b", "m.c"]);
    }

    #[test]
    fn what_does_not_parse_is_a_bad_request() {
        for text in ["", "{", "{} {}", "nul"] {
            assert_eq!(parse(text.as_bytes(), Format::Json).unwrap_err().code(), 400, "{text}");
        }
        let deep = "[".repeat(100_000);
        assert_eq!(parse(deep.as_bytes(), Format::Json).unwrap_err().code(), 400);
        assert_eq!(parse(b"\xff", Format::Yaml).unwrap_err().code(), 400);
    }
}
