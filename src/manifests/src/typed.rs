//! From a value to a type, with the path of what does not fit and of what is left over.

use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::check::syntax;
use crate::error::Problem;
use crate::known_fields::{Open, Watched};
use crate::nearest::nearest;
use crate::path;

/// An object and the fields that its type does not have.
pub(crate) struct Typed<T> {
    pub(crate) object: T,
    pub(crate) unknown_fields: Vec<UnknownField>,
}

/// A field that a type does not have.
pub(crate) struct UnknownField {
    pub(crate) path: String,
    /// The nearest that it has, if one is near.
    pub(crate) nearest: Option<&'static str>,
}

impl<T> Typed<T> {
    pub(crate) fn map<U>(self, into: impl FnOnce(T) -> U) -> Typed<U> {
        Typed { object: into(self.object), unknown_fields: self.unknown_fields }
    }
}

/// A value that does not fit its type.
pub(crate) struct Misfit {
    pub(crate) problem: Problem,
    /// The fields that were met before, and that no type has: one of them may be the one that is missing.
    pub(crate) unknown_fields: Vec<UnknownField>,
    /// The steps to the value from the whole.
    steps: Vec<Step>,
}

enum Step {
    Field(String),
    Index(usize),
}

impl Misfit {
    /// Takes the field out of `value` that does not fit, or that holds what does not. `false` where that would be all of it.
    pub(crate) fn take_out(&self, value: &mut Value) -> bool {
        let last = self.steps.iter().rposition(|step| matches!(step, Step::Field(_)));
        let Some((Step::Field(field), around)) = last.and_then(|last| self.steps.get(..=last)?.split_last()) else {
            return false;
        };
        let holder = around.iter().try_fold(value, |value, step| match step {
            Step::Field(field) => value.get_mut(field),
            Step::Index(index) => value.get_mut(index),
        });
        holder.and_then(Value::as_object_mut).is_some_and(|fields| fields.remove(field).is_some())
    }
}

/// Reads `value` as a `T`.
pub(crate) fn deserialize<T: DeserializeOwned>(value: &Value) -> Result<Typed<T>, Misfit> {
    let mut unknown_fields = Vec::new();
    let open = Open::default();
    // Without its own type: the code that reads a PodSpec would be compiled once for each kind that has one.
    let note: &mut dyn FnMut(serde_ignored::Path<'_>) = &mut |path| {
        let mut field = String::new();
        write_ignored(&path, &mut field);
        let known = open.borrow().last().copied().unwrap_or_default();
        let nearest = last_name(&path).and_then(|name| nearest(name, known.iter().copied()));
        unknown_fields.push(UnknownField { path: field, nearest });
    };
    let mut note = note;
    let mut track = serde_path_to_error::Track::new();
    let tracked = serde_path_to_error::Deserializer::new(Watched::new(value, &open), &mut track);
    match T::deserialize(serde_ignored::Deserializer::new(tracked, &mut note)) {
        Ok(object) => Ok(Typed { object, unknown_fields }),
        Err(error) => Err(misfit(value, &track.path(), &error.to_string(), unknown_fields)),
    }
}

fn last_name<'p>(path: &'p serde_ignored::Path<'_>) -> Option<&'p str> {
    match path {
        serde_ignored::Path::Map { key, .. } => Some(key.as_str()),
        _ => None,
    }
}

fn write_ignored(path: &serde_ignored::Path<'_>, field: &mut String) {
    use serde_ignored::Path;
    match path {
        Path::Root => {}
        Path::Seq { parent, index } => {
            write_ignored(parent, field);
            path::push_index(field, *index);
        }
        Path::Map { parent, key } => {
            write_ignored(parent, field);
            path::push_key(field, key);
        }
        Path::Some { parent } | Path::NewtypeStruct { parent } | Path::NewtypeVariant { parent } => {
            write_ignored(parent, field);
        }
    }
}

fn misfit(value: &Value, at: &serde_path_to_error::Path, message: &str, unknown_fields: Vec<UnknownField>) -> Misfit {
    use serde_path_to_error::Segment;
    let (mut field, mut found, mut name, mut steps) = (String::new(), Some(value), "", Vec::new());
    for segment in at {
        match segment {
            Segment::Seq { index } => {
                path::push_index(&mut field, *index);
                steps.push(Step::Index(*index));
                found = found.and_then(|found| found.get(index));
            }
            Segment::Map { key } => {
                path::push_key(&mut field, key);
                steps.push(Step::Field(key.clone()));
                (found, name) = (found.and_then(|found| found.get(key)), key.as_str());
            }
            Segment::Enum { .. } | Segment::Unknown => {}
        }
    }
    let is_time = name == "expires" || name.ends_with("Time") || name.ends_with("Timestamp");
    let message = match found.and_then(Value::as_str).filter(|_| is_time) {
        Some(found) => format!("found {:?}, expected a time such as 2026-01-31T12:00:00Z", path::shorten(found)),
        None => in_plain_words(message),
    };
    Misfit { problem: Problem::new(field, message), unknown_fields, steps }
}

/// serde's "unknown variant `a`, expected one of `A`, `B`" as our own checks say it.
fn unknown_variant(message: &str) -> Option<String> {
    let (found, known) = message.strip_prefix("unknown variant `")?.rsplit_once("`, expected ")?;
    let known: Vec<&str> = known.split('`').skip(1).step_by(2).collect();
    Some(syntax::not_one_of(found, &known))
}

/// serde's "invalid type: string "x", expected i32" as "found string "x", expected an integer".
fn in_plain_words(message: &str) -> String {
    if let Some(message) = unknown_variant(message) {
        return message;
    }
    let found = ["invalid type: ", "invalid value: ", "invalid length: "]
        .iter()
        .find_map(|prefix| message.strip_prefix(prefix));
    let Some((found, expected)) = found.and_then(|found| found.rsplit_once(", expected ")) else {
        return path::shorten_long(message);
    };
    let is_too_large = message.starts_with("invalid value: integer");
    let expected = match expected {
        "i32" if is_too_large => "an integer from -2147483648 to 2147483647",
        "u32" if is_too_large && !found.contains('-') => "a whole number from 0 to 4294967295",
        "i32" | "i64" => "an integer",
        "u8" | "u16" | "u32" | "u64" | "usize" => "a whole number, 0 or more",
        "f64" => "a number",
        "a sequence" => "a list",
        "a map" => "an object",
        "Quantity" => "a quantity, such as 500m or \"2\"",
        other if other.starts_with("struct ") => "an object",
        other => other,
    };
    let found = match found {
        "sequence" => "a list",
        "map" => "an object",
        other => other,
    };
    // YAML reads n, yes and 1.20 as no text.
    let is_scalar = ["boolean", "integer", "floating point"].iter().any(|kind| found.starts_with(kind));
    let hint = if is_scalar && expected == "a string" { "; text in quotes is a string" } else { "" };
    format!("found {}, expected {expected}{hint}", path::shorten_long(found))
}
