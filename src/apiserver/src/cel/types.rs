//! The types that rules see: what a schema declares, and how large a value of it can be in one request.
//!
//! As `SchemaDeclType` of k8s.io/apiserver's `pkg/cel/common`, whose bounds decide what a rule may cost.

use rustc_hash::FxHashMap;
use serde_json::Value;

/// The largest request, in bytes.
pub(crate) const MAX_REQUEST: u64 = 3 * 1024 * 1024;

/// What a rule sees of the values of a schema.
#[derive(Debug, Clone)]
pub(crate) struct Type {
    pub(super) kind: Kind,
    /// How many elements or characters a value can have; 0 where it has none.
    pub(super) max_elements: u64,
    /// How many bytes the smallest value takes.
    pub(super) min_size: u64,
    /// Of objects: the fields that rules can name, by their escaped names.
    pub(super) fields: FxHashMap<Box<str>, Field>,
    /// Of lists and maps: the type of what is in them.
    pub(super) element: Option<Box<Type>>,
    pub(super) list: ListType,
}

/// A field of an object.
#[derive(Debug, Clone)]
pub(super) struct Field {
    /// The name in JSON.
    pub(super) name: Box<str>,
    pub(super) ty: Type,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// `x-kubernetes-int-or-string`.
    Dyn,
    Bool,
    Int,
    Double,
    String,
    Bytes,
    Duration,
    Timestamp,
    List,
    Map,
    Object,
}

/// How two lists are compared and added.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ListType {
    Atomic,
    Set,
    /// By the values of these keys.
    Map(Vec<Box<str>>),
}

/// Lengths of texts with their quotes, as `pkg/cel/limits.go` has them.
const MAX_DURATION: u64 = 32;
const MIN_DURATION: u64 = 3;
const DATE: u64 = 12;
const MAX_DATE_TIME: u64 = 32;
const MIN_DATE_TIME: u64 = 21;

// === impl Type ===

impl Type {
    fn simple(kind: Kind, min_size: u64, max_elements: u64) -> Self {
        let (fields, element) = (FxHashMap::default(), None);
        Self { kind, max_elements, min_size, fields, element, list: ListType::Atomic }
    }

    /// The type of what nothing is declared of.
    pub(super) fn any() -> Self {
        Self::simple(Kind::Dyn, 1, MAX_REQUEST - 2)
    }

    /// The type of a schema; `None` where rules cannot see its values. Roots and embedded resources have a name.
    pub(crate) fn of(schema: &Value, is_resource: bool) -> Option<Self> {
        let text = |key: &str| schema.get(key).and_then(Value::as_str).unwrap_or_default();
        let number = |key: &str| schema.get(key).and_then(Value::as_u64);
        let is = |key: &str| schema.get(key) == Some(&Value::Bool(true));
        if is("x-kubernetes-int-or-string") {
            let max = number("maxLength").map_or(MAX_REQUEST - 2, |max| max.saturating_mul(4));
            return Some(Self::simple(Kind::Dyn, 1, max));
        }
        match text("type") {
            "array" => {
                let items = schema.get("items")?;
                let items = Self::of(items, is_embedded(items))?;
                let max = number("maxItems").unwrap_or((MAX_REQUEST - 2) / (items.min_size + 1));
                let list = match text("x-kubernetes-list-type") {
                    "set" => ListType::Set,
                    "map" => {
                        let keys = schema.get("x-kubernetes-list-map-keys").and_then(Value::as_array);
                        ListType::Map(keys.into_iter().flatten().filter_map(Value::as_str).map(Into::into).collect())
                    }
                    _ => ListType::Atomic,
                };
                Some(Self { element: Some(Box::new(items)), list, ..Self::simple(Kind::List, 2, max) })
            }
            "object" => {
                if let Some(values) = schema.get("additionalProperties").filter(|values| values.is_object()) {
                    let values = Self::of(values, is_embedded(values))?;
                    let max = number("maxProperties").unwrap_or((MAX_REQUEST - 2) / (values.min_size + 6));
                    return Some(Self { element: Some(Box::new(values)), ..Self::simple(Kind::Map, 2, max) });
                }
                Some(Self::object(schema, is_resource))
            }
            "string" => Some(match text("format") {
                "byte" => Self::simple(Kind::Bytes, 2, number("maxLength").unwrap_or(MAX_REQUEST - 2)),
                "duration" => Self::simple(Kind::Duration, MIN_DURATION, MAX_DURATION),
                "date" => Self::simple(Kind::Timestamp, DATE, DATE),
                "date-time" => Self::simple(Kind::Timestamp, MIN_DATE_TIME, MAX_DATE_TIME),
                _ => Self::simple(Kind::String, 2, max_characters(schema)),
            }),
            "boolean" => Some(Self::simple(Kind::Bool, 4, 0)),
            "integer" => Some(Self::simple(Kind::Int, 1, 0)),
            "number" => Some(Self::simple(Kind::Double, 1, 0)),
            _ => None,
        }
    }

    fn object(schema: &Value, is_resource: bool) -> Self {
        let required = schema.get("required").and_then(Value::as_array);
        let required: Vec<&str> = required.into_iter().flatten().filter_map(Value::as_str).collect();
        let mut object = Self::simple(Kind::Object, 2, 0);
        let mut add = |name: &str, ty: Type, is_given: bool| {
            if is_given {
                object.min_size += u64::try_from(name.len()).unwrap_or_default() + ty.min_size + 4;
            }
            if let Some(escaped) = escape(name) {
                object.fields.insert(escaped.into(), Field { name: name.into(), ty });
            }
        };
        for (name, schema) in schema.get("properties").and_then(Value::as_object).into_iter().flatten() {
            if is_resource && ["apiVersion", "kind", "metadata"].contains(&name.as_str()) {
                continue;
            }
            if let Some(ty) = Self::of(schema, is_embedded(schema)) {
                add(name, ty, required.contains(&name.as_str()) && schema.get("default").is_none());
            }
        }
        if is_resource {
            let string = || Self::simple(Kind::String, 2, MAX_REQUEST - 2);
            let mut metadata = Self::simple(Kind::Object, 2, 0);
            for name in ["name", "generateName"] {
                metadata.fields.insert(name.into(), Field { name: name.into(), ty: string() });
            }
            add("apiVersion", string(), required.contains(&"apiVersion"));
            add("kind", string(), required.contains(&"kind"));
            add("metadata", metadata, required.contains(&"metadata"));
        }
        object
    }

    /// How often a value of this type can be in one request, where nothing else bounds it.
    pub(super) fn max_cardinality(&self) -> u64 {
        MAX_REQUEST / (self.min_size + 1)
    }
}

fn is_embedded(schema: &Value) -> bool {
    schema.get("x-kubernetes-embedded-resource") == Some(&Value::Bool(true))
}

fn max_characters(schema: &Value) -> u64 {
    if let Some(max) = schema.get("maxLength").and_then(Value::as_u64) {
        // In bytes, of which a character has up to four.
        return max.saturating_mul(4);
    }
    match schema.get("enum").and_then(Value::as_array).filter(|values| !values.is_empty()) {
        Some(values) => {
            let longest = values.iter().filter_map(Value::as_str).map(str::len).max().unwrap_or_default();
            u64::try_from(longest).unwrap_or(u64::MAX)
        }
        None => MAX_REQUEST - 2,
    }
}

/// The names that CEL keeps for itself.
const RESERVED: [&str; 21] = [
    "true",
    "false",
    "null",
    "in",
    "as",
    "break",
    "const",
    "continue",
    "else",
    "for",
    "function",
    "if",
    "import",
    "let",
    "loop",
    "package",
    "namespace",
    "return",
    "var",
    "void",
    "while",
];

/// How rules name a field; `None` where they cannot.
pub(super) fn escape(name: &str) -> Option<String> {
    if RESERVED.contains(&name) {
        return Some(format!("__{name}__"));
    }
    let starts = name.chars().next().is_some_and(|c| !c.is_ascii_digit());
    if !starts || !name.chars().all(|c| c.is_ascii_alphanumeric() || "_./-".contains(c)) {
        return None;
    }
    let marked = name.replace("__", "__underscores__").replace('.', "__dot__");
    Some(marked.replace('-', "__dash__").replace('/', "__slash__"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn names_are_escaped_as_the_real_server_does() {
        for (name, escaped) in [
            ("a_b", Some("a_b")),
            ("a__b", Some("a__underscores__b")),
            ("a-b.c/d", Some("a__dash__b__dot__c__slash__d")),
            ("namespace", Some("__namespace__")),
            ("default", Some("default")),
            ("1a", None),
            ("a b", None),
        ] {
            assert_eq!(escape(name).as_deref(), escaped, "{name}");
        }
    }

    #[test]
    fn bounds_follow_from_the_schema_or_from_the_largest_request() {
        let schema = json!({"type": "object", "required": ["name"], "properties": {
            "name": {"type": "string", "maxLength": 10}, "tags": {"type": "array", "items": {"type": "string"}}}});
        let ty = Type::of(&schema, false).unwrap();
        assert_eq!(ty.fields["name"].ty.max_elements, 40);
        assert_eq!(ty.fields["tags"].ty.max_elements, (MAX_REQUEST - 2) / 3);
        assert_eq!(ty.min_size, 2 + 4 + 2 + 4);
        assert_eq!(ty.max_cardinality(), MAX_REQUEST / 13);
    }
}
