//! Structural schemas, read once when a definition is served: what is in them is ready to be checked.

mod defaults;
mod formats;
mod rules;
mod validate;

#[cfg(test)]
mod tests;

use indexmap::IndexMap;
use regex::Regex;
use rustc_hash::FxBuildHasher;
use serde_json::Value;

pub(super) use defaults::{default, drop_nulls, prune, prune_copy};
pub(super) use formats::Format;
pub(super) use rules::{check_rules, check_rules_at};
pub(super) use validate::validate;

use crate::cel::Rules;

/// The schema of a value.
#[derive(Debug, Default)]
#[allow(clippy::struct_excessive_bools)] // As schemas have them.
pub(crate) struct Structural {
    wanted: Wanted,
    nullable: bool,
    /// Unknown fields stay.
    preserves: bool,
    /// An object with a type and metadata of its own.
    pub(super) embedded: bool,
    allowed: Vec<Value>,
    default: Option<Value>,
    format: Option<Format>,
    /// As the schema writes it.
    format_name: Box<str>,
    pattern: Option<Regex>,
    min_length: Option<usize>,
    max_length: Option<usize>,
    min_items: Option<usize>,
    max_items: Option<usize>,
    min_properties: Option<usize>,
    max_properties: Option<usize>,
    minimum: Option<(f64, bool)>,
    maximum: Option<(f64, bool)>,
    multiple_of: Option<f64>,
    required: Vec<Box<str>>,
    properties: IndexMap<Box<str>, Structural, FxBuildHasher>,
    additional: Option<Box<Structural>>,
    items: Option<Box<Structural>>,
    list: ListType,
    all_of: Vec<Structural>,
    any_of: Vec<Structural>,
    one_of: Vec<Structural>,
    not: Option<Box<Structural>>,
    /// What `x-kubernetes-validations` say.
    rules: Option<Rules>,
    /// Whether there are rules here or below.
    has_rules: bool,
    /// Whether there are defaults here or below.
    has_defaults: bool,
}

/// The type that a value must have.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
enum Wanted {
    #[default]
    Anything,
    IntOrString,
    Type(Box<str>),
}

/// How items of a list are told apart.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
enum ListType {
    #[default]
    Atomic,
    Set,
    Map(Vec<Box<str>>),
}

// === impl Structural ===

impl Structural {
    /// Reads a schema; `is_resource` of a root, whose type and metadata rules can see.
    pub(super) fn read(schema: &Value, is_resource: bool) -> Self {
        let text = |key: &str| schema.get(key).and_then(Value::as_str).unwrap_or_default();
        let is = |key: &str| schema.get(key) == Some(&Value::Bool(true));
        let count = |key: &str| schema.get(key).and_then(Value::as_u64).and_then(|n| usize::try_from(n).ok());
        let bound = |key: &str, strict: &str| Some((schema.get(key)?.as_f64()?, is(strict)));
        let texts = |key: &str| -> Vec<Box<str>> {
            let list = schema.get(key).and_then(Value::as_array);
            list.into_iter().flatten().filter_map(Value::as_str).map(Into::into).collect()
        };
        let several = |key: &str| -> Vec<Self> {
            let list = schema.get(key).and_then(Value::as_array);
            list.into_iter().flatten().map(|schema| Self::read(schema, false)).collect()
        };
        let below = |key: &str| {
            schema.get(key).filter(|schema| schema.is_object()).map(|schema| Box::new(Self::read(schema, false)))
        };
        let int_or_string = is("x-kubernetes-int-or-string");
        let embedded = is("x-kubernetes-embedded-resource");
        let properties = schema.get("properties").and_then(Value::as_object);
        let mut out = Self {
            wanted: match text("type") {
                _ if int_or_string => Wanted::IntOrString,
                "" => Wanted::Anything,
                name => Wanted::Type(name.into()),
            },
            nullable: is("nullable"),
            preserves: is("x-kubernetes-preserve-unknown-fields") || is("additionalProperties"),
            embedded,
            allowed: schema.get("enum").and_then(Value::as_array).cloned().unwrap_or_default(),
            default: schema.get("default").cloned(),
            format: Format::of(text("type"), text("format")),
            format_name: text("format").into(),
            // What is no pattern was refused with the definition.
            pattern: schema.get("pattern").and_then(Value::as_str).and_then(|pattern| Regex::new(pattern).ok()),
            min_length: count("minLength"),
            max_length: count("maxLength"),
            min_items: count("minItems"),
            max_items: count("maxItems"),
            min_properties: count("minProperties"),
            max_properties: count("maxProperties"),
            minimum: bound("minimum", "exclusiveMinimum"),
            maximum: bound("maximum", "exclusiveMaximum"),
            multiple_of: schema.get("multipleOf").and_then(Value::as_f64).filter(|step| *step > 0.0),
            required: texts("required"),
            properties: properties
                .into_iter()
                .flatten()
                .map(|(name, schema)| (name.as_str().into(), Self::read(schema, false)))
                .collect(),
            additional: below("additionalProperties"),
            items: below("items"),
            list: match text("x-kubernetes-list-type") {
                "set" => ListType::Set,
                "map" => ListType::Map(texts("x-kubernetes-list-map-keys")),
                _ => ListType::Atomic,
            },
            all_of: several("allOf"),
            any_of: if int_or_string { Vec::new() } else { several("anyOf") },
            one_of: several("oneOf"),
            not: below("not"),
            rules: Rules::compile(schema, is_resource || embedded),
            has_rules: false,
            has_defaults: false,
        };
        let has_rules = out.rules.is_some() || out.children().any(|child| child.has_rules);
        let has_defaults = out.children().any(|child| child.default.is_some() || child.has_defaults);
        (out.has_rules, out.has_defaults) = (has_rules, has_defaults);
        out
    }

    /// Whether there are rules here or below.
    pub(super) fn has_rules(&self) -> bool {
        self.has_rules
    }

    /// Whether there are defaults below.
    pub(super) fn has_defaults(&self) -> bool {
        self.has_defaults
    }

    fn children(&self) -> impl Iterator<Item = &Self> {
        let named = self.properties.values();
        named.chain(self.additional.as_deref()).chain(self.items.as_deref()).chain(&self.all_of)
    }

    /// The schema below a key, if the schema says anything of it.
    fn below(&self, key: &str) -> Option<&Self> {
        self.properties.get(key).or(self.additional.as_deref())
    }

    /// The item of an older list that an item of a list replaces: only lists that are maps have such.
    fn old_item<'o>(&self, item: &Value, old: Option<&'o Value>) -> Option<&'o Value> {
        let ListType::Map(keys) = &self.list else { return None };
        let same = |other: &&Value| keys.iter().all(|key| item.get(&**key) == other.get(&**key));
        old?.as_array()?.iter().find(same)
    }
}
