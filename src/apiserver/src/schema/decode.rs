//! Reads a value by its schema as the server's Go types would: wrong types are errors, unknown fields are told, and what
//! comes out is in the form that the server writes: defaults of the schema filled in, zeros and nulls left out.

use std::fmt::Write;
use std::str::FromStr;

use berth_quantity::Quantity;
use serde_json::{Map, Value};

use super::{Field, Scalar, SchemaType, Struct, Typed};
use crate::clock::{micro_time_text, time_text};

/// What decoding found besides the value.
#[derive(Debug, Default)]
pub(crate) struct Problems {
    /// Paths of fields that the type does not have.
    pub(crate) unknown: Vec<String>,
    /// The first value of a wrong type.
    pub(crate) error: Option<WrongType>,
}

/// A value of a wrong type, in the words of Go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct WrongType {
    /// As its JSON decoder says it.
    pub(crate) json: String,
    /// As the converter from maps says it, which strategic merge patches go through.
    pub(crate) converter: String,
}

struct Decoder<'p> {
    problems: &'p mut Problems,
    zeros: Zeros,
    /// The fields of the outermost value that are read, where others are in their form already.
    only: Option<&'p [&'p str]>,
}

/// Where a value is: a step from a value around it. Only problems look at it.
struct ValuePath<'a> {
    around: Option<&'a ValuePath<'a>>,
    step: Step<'a>,
    /// The named type around the step.
    owner: &'a str,
}

enum Step<'a> {
    Field(&'a str),
    /// Of a map, which Go's decoder does not name.
    Key(&'a str),
    Index(usize),
}

type At<'a> = Option<&'a ValuePath<'a>>;

fn owner(at: At<'_>) -> &str {
    at.map_or("", |place| place.owner)
}

/// The steps to a value, from the outermost.
fn steps(at: At<'_>) -> Vec<&Step<'_>> {
    let mut out: Vec<_> = std::iter::successors(at, |place| place.around).map(|place| &place.step).collect();
    out.reverse();
    out
}

/// What becomes of fields at their zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Zeros {
    LeftOut,
    /// As in an object that nobody has written yet, where required fields are null.
    Shown,
}

/// Brings `value` into the form in which it is stored.
pub(crate) fn decode(value: &mut Value, typed: Typed<'_>) -> Problems {
    decode_fields(value, typed, None)
}

/// The same of an object of which all fields but these have been read before; `None`: none of them.
pub(crate) fn decode_fields(value: &mut Value, typed: Typed<'_>, only: Option<&[&str]>) -> Problems {
    let mut problems = Problems::default();
    Decoder { problems: &mut problems, zeros: Zeros::LeftOut, only }.value(value, typed, None);
    problems
}

/// The object before anyone wrote it: what its Go type holds when new.
pub(crate) fn empty(typed: Typed<'_>) -> Value {
    let mut value = Value::Object(Map::new());
    let mut problems = Problems::default();
    Decoder { problems: &mut problems, zeros: Zeros::Shown, only: None }.value(&mut value, typed, None);
    value
}

impl Decoder<'_> {
    fn value(&mut self, value: &mut Value, typed: Typed<'_>, at: At<'_>) {
        match typed.shape() {
            SchemaType::Any => {}
            SchemaType::Struct(object) => self.object(value, object, typed, at),
            SchemaType::Map { value: values, .. } => {
                let Value::Object(map) = value else { return self.mismatch(value, typed, at) };
                let values = typed.get(*values);
                for (key, value) in map.iter_mut() {
                    if value.is_null() {
                        *value = zero(values);
                    }
                    let here = ValuePath { around: at, step: Step::Key(key), owner: owner(at) };
                    self.value(value, values, Some(&here));
                }
            }
            SchemaType::List { item, .. } => {
                let Value::Array(items) = value else { return self.mismatch(value, typed, at) };
                let item = typed.get(*item);
                for (index, value) in items.iter_mut().enumerate() {
                    if value.is_null() {
                        *value = zero(item);
                    }
                    let here = ValuePath { around: at, step: Step::Index(index), owner: owner(at) };
                    self.value(value, item, Some(&here));
                }
            }
            SchemaType::Scalar(scalar) => self.scalar(value, *scalar, typed, at),
        }
    }

    fn object(&mut self, value: &mut Value, object: &Struct, typed: Typed<'_>, at: At<'_>) {
        let Value::Object(map) = value else { return self.mismatch(value, typed, at) };
        let owner = if typed.name().is_empty() { owner(at) } else { typed.name() };
        let mut gone = Vec::new();
        let only = self.only.filter(|_| at.is_none());
        for (key, value) in map.iter_mut() {
            if only.is_some_and(|only| !only.contains(&key.as_str())) {
                continue;
            }
            let Some(field) = object.fields.get(key) else {
                if !object.preserve_unknown {
                    self.problems.unknown.push(path_of(at, key));
                    gone.push(key.clone());
                }
                continue;
            };
            if value.is_null() {
                if !shows_null(typed.name(), key) {
                    gone.push(key.clone());
                }
                continue;
            }
            let here = ValuePath { around: at, step: Step::Field(key), owner };
            self.value(value, typed.get(field.schema), Some(&here));
            if vanishes(value, field, typed) {
                gone.push(key.clone());
            }
        }
        for key in gone {
            map.remove(&key);
        }
        let shows = self.zeros == Zeros::Shown || may_show_null(typed.name());
        let names: &mut dyn Iterator<Item = &String> =
            if shows { &mut object.fields.keys() } else { &mut object.defaulted.iter() };
        for name in names {
            let Some(field) = object.fields.get(name).filter(|_| !map.contains_key(name)) else { continue };
            if let Some(default) = &field.default {
                let mut value = default.clone();
                let here = ValuePath { around: at, step: Step::Field(name), owner };
                self.value(&mut value, typed.get(field.schema), Some(&here));
                map.insert(name.clone(), value);
            } else if (field.required && self.zeros == Zeros::Shown) || shows_null(typed.name(), name) {
                map.insert(name.clone(), Value::Null);
            }
        }
    }

    fn scalar(&mut self, value: &mut Value, scalar: Scalar, typed: Typed<'_>, at: At<'_>) {
        let fits = match scalar {
            Scalar::String => value.is_string(),
            Scalar::Bool => value.is_boolean(),
            Scalar::Number => value.is_number(),
            Scalar::Int32 => match integer(value) {
                Some(number) => i32::try_from(number).is_ok(),
                None => false,
            },
            Scalar::Int64 => integer(value).is_some(),
            Scalar::IntOrString => value.is_string() || value.is_i64(),
            Scalar::Bytes => match value.as_str() {
                Some(text) => {
                    if let Some(at) = bad_base64(text) {
                        self.error(format!("illegal base64 data at input byte {at}"));
                    }
                    true
                }
                None => false,
            },
            Scalar::Time | Scalar::MicroTime => return self.time(value, scalar, typed, at),
            Scalar::Quantity => return self.quantity(value),
        };
        if !fits {
            self.mismatch(value, typed, at);
        } else if matches!(scalar, Scalar::Int32 | Scalar::Int64)
            && let Some(number) = integer(value)
            && !value.is_i64()
        {
            *value = number.into();
        }
    }

    fn time(&mut self, value: &mut Value, scalar: Scalar, typed: Typed<'_>, at: At<'_>) {
        let Some(text) = value.as_str() else { return self.mismatch(value, typed, at) };
        match text.parse::<jiff::Timestamp>() {
            Ok(time) if scalar == Scalar::Time => *value = time_text(time).into(),
            Ok(time) => *value = micro_time_text(time).into(),
            Err(_) => {
                let layout = if scalar == Scalar::Time {
                    "2006-01-02T15:04:05Z07:00"
                } else {
                    "2006-01-02T15:04:05.000000Z07:00"
                };
                self.error(format!("parsing time {text:?} as {layout:?}: cannot parse {text:?} as \"2006\""));
            }
        }
    }

    fn quantity(&mut self, value: &mut Value) {
        let parsed = match &*value {
            Value::String(text) => Quantity::from_str(text.trim()),
            Value::Number(number) => Quantity::from_str(&number.to_string()),
            _ => Quantity::from_str(""),
        };
        match parsed {
            Ok(quantity) => {
                let canonical = quantity.to_string();
                if value.as_str() != Some(&canonical) {
                    *value = canonical.into();
                }
            }
            Err(_) => self.error(
                "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
                    .to_owned(),
            ),
        }
    }

    fn mismatch(&mut self, value: &Value, typed: Typed<'_>, at: At<'_>) {
        let found = match value {
            Value::Null => "null".to_owned(),
            Value::Bool(_) => "bool".to_owned(),
            Value::Number(_) if !matches!(typed.shape(), SchemaType::Scalar(Scalar::Int32 | Scalar::Int64)) => {
                "number".to_owned()
            }
            Value::Number(number) => format!("number {number}"),
            Value::String(_) => "string".to_owned(),
            Value::Array(_) => "array".to_owned(),
            Value::Object(_) => "object".to_owned(),
        };
        let names: Vec<&str> = steps(at)
            .into_iter()
            .filter_map(|step| match step {
                Step::Field(name) => Some(*name),
                Step::Key(_) | Step::Index(_) => None,
            })
            .collect();
        let owner = if owner(at).is_empty() { typed.name() } else { owner(at) };
        let place = if names.is_empty() {
            String::new()
        } else {
            format!("Go struct field {owner}.{} of type ", names.join("."))
        };
        let place = if place.is_empty() { "Go value of type ".to_owned() } else { place };
        let kind = match value {
            Value::Null => "interface",
            Value::Bool(_) => "bool",
            Value::Number(number) if number.is_f64() => "float64",
            Value::Number(_) => "int64",
            Value::String(_) => "string",
            Value::Array(_) => "slice",
            Value::Object(_) => "map",
        };
        let converter = match typed.shape() {
            SchemaType::Struct(_) => format!("cannot restore struct from: {kind}"),
            SchemaType::Map { .. } => format!("cannot restore map from {kind}"),
            SchemaType::List { .. } => format!("cannot restore slice from {kind}"),
            _ => format!("unrecognized type: {}", go_type(typed)),
        };
        let json = format!("json: cannot unmarshal {found} into {place}{}", go_type(typed));
        self.problems.error.get_or_insert(WrongType { json, converter });
    }

    fn error(&mut self, text: String) {
        self.problems.error.get_or_insert(WrongType { json: text.clone(), converter: text });
    }
}

fn path_of(at: At<'_>, last: &str) -> String {
    let mut out = String::new();
    for step in steps(at) {
        match step {
            Step::Field(name) | Step::Key(name) => {
                if !out.is_empty() {
                    out.push('.');
                }
                out.push_str(name);
            }
            Step::Index(index) => {
                let _ = write!(out, "[{index}]");
            }
        }
    }
    if !out.is_empty() {
        out.push('.');
    }
    out.push_str(last);
    out
}

/// Whether a type has fields that are shown as null: all others need not be looked through.
fn may_show_null(owner: &str) -> bool {
    owner.ends_with("Condition")
        || owner.starts_with("ContainerState")
        || owner == "Event"
        || owner == "HorizontalPodAutoscalerStatus"
}

/// Times, and one list, that Go does not leave out where they are zero, because they are no pointers: the schema does not say so.
fn shows_null(owner: &str, field: &str) -> bool {
    match field {
        "lastTransitionTime" => {
            owner.ends_with("Condition")
                && !["APIServiceCondition", "HorizontalPodAutoscalerCondition", "Condition"].contains(&owner)
        }
        "lastProbeTime" => ["PodCondition", "JobCondition", "PersistentVolumeClaimCondition"].contains(&owner),
        "lastHeartbeatTime" => owner == "NodeCondition",
        "lastUpdateTime" => owner == "DeploymentCondition",
        "currentMetrics" => owner == "HorizontalPodAutoscalerStatus",
        "eventTime" | "firstTimestamp" | "lastTimestamp" | "deprecatedFirstTimestamp" | "deprecatedLastTimestamp" => {
            owner == "Event"
        }
        "startedAt" => ["ContainerStateRunning", "ContainerStateTerminated"].contains(&owner),
        "finishedAt" => owner == "ContainerStateTerminated",
        _ => false,
    }
}

fn integer(value: &Value) -> Option<i64> {
    match value {
        Value::Number(number) => number.as_i64().or_else(|| {
            let float = number.as_f64()?;
            // 1.0 is an integer to the server's decoder, and 2^53 is where that stops being exact.
            #[allow(clippy::cast_possible_truncation)]
            (float.fract() == 0.0 && float.abs() < 9_007_199_254_740_992.0).then_some(float as i64)
        }),
        _ => None,
    }
}

/// The offset of the first character that is not standard base64.
fn bad_base64(text: &str) -> Option<usize> {
    let data = text.trim_end_matches('=');
    let legal = |c: char| c.is_ascii_alphanumeric() || c == '+' || c == '/' || c == '\n' || c == '\r';
    if let Some(at) = data.find(|c| !legal(c)) {
        return Some(at);
    }
    let significant = text.chars().filter(|c| *c != '\n' && *c != '\r').count();
    (significant % 4 != 0 || text.len() - data.len() > 2).then_some(text.len() / 4 * 4)
}

fn vanishes(value: &Value, field: &Field, typed: Typed<'_>) -> bool {
    match value {
        Value::Array(items) => items.is_empty() && !field.required && field.default.is_none(),
        Value::Object(map) => {
            let shape = typed.get(field.schema).shape();
            map.is_empty() && !field.required && matches!(shape, SchemaType::Map { .. })
        }
        Value::String(text) => field.omit_zero && text.is_empty(),
        Value::Bool(flag) => field.omit_zero && !flag,
        Value::Number(number) => field.omit_zero && number.as_f64() == Some(0.0),
        Value::Null => true,
    }
}

fn zero(typed: Typed<'_>) -> Value {
    match typed.shape() {
        SchemaType::Struct(_) | SchemaType::Map { .. } => Value::Object(Map::new()),
        SchemaType::List { .. } => Value::Array(Vec::new()),
        SchemaType::Scalar(Scalar::String | Scalar::Bytes) => "".into(),
        SchemaType::Scalar(Scalar::Bool) => false.into(),
        SchemaType::Scalar(Scalar::Quantity) => "0".into(),
        SchemaType::Scalar(_) => 0.into(),
        SchemaType::Any => Value::Null,
    }
}

fn go_type(typed: Typed<'_>) -> String {
    match typed.shape() {
        SchemaType::Struct(_) => format!("v1.{}", typed.name()),
        SchemaType::Map { value, .. } => format!("map[string]{}", go_type(typed.get(*value))),
        SchemaType::List { item, .. } => format!("[]{}", go_type(typed.get(*item))),
        SchemaType::Any => "interface {}".to_owned(),
        SchemaType::Scalar(scalar) => match scalar {
            Scalar::String | Scalar::Time | Scalar::MicroTime => "string",
            Scalar::Bytes => "[]uint8",
            Scalar::Quantity => "resource.Quantity",
            Scalar::IntOrString => "intstr.IntOrString",
            Scalar::Int32 => "int32",
            Scalar::Int64 => "int64",
            Scalar::Number => "float64",
            Scalar::Bool => "bool",
        }
        .to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::builtin;
    use super::*;

    fn decoded(schema: &str, mut value: Value) -> (Value, Problems) {
        let typed = builtin().schemas.named(&format!("io.k8s.api.{schema}")).unwrap();
        let problems = decode(&mut value, typed);
        (value, problems)
    }

    #[test]
    fn what_go_leaves_out_or_fills_in_is_left_out_or_filled_in() {
        let spec = json!({"hostNetwork": false, "automountServiceAccountToken": false, "nodeSelector": {}, "volumes": [],
            "terminationGracePeriodSeconds": null,
            "containers": [{"name": "a", "ports": [{"containerPort": 80}],
                            "resources": {"requests": {"cpu": "0.5", "memory": "1024Mi", "x/y": 2}}}]});
        let (value, problems) = decoded("core.v1.PodSpec", spec);
        let expected = json!({"automountServiceAccountToken": false,
            "containers": [{"name": "a", "ports": [{"containerPort": 80, "protocol": "TCP"}],
                            "resources": {"requests": {"cpu": "500m", "memory": "1Gi", "x/y": "2"}}}]});
        assert_eq!(value, expected);
        assert!(problems.unknown.is_empty() && problems.error.is_none());
    }

    #[test]
    fn unknown_fields_are_told_by_their_path() {
        let (value, problems) =
            decoded("core.v1.PodSpec", json!({"containers": [{"name": "a", "imagee": "x"}], "foo": 1}));
        assert_eq!(problems.unknown, ["containers[0].imagee", "foo"]);
        assert_eq!(value, json!({"containers": [{"name": "a", "resources": {}}]}));
    }

    #[rstest::rstest]
    #[case(json!({"spec": {"replicas": "three"}}),
           "json: cannot unmarshal string into Go struct field DeploymentSpec.spec.replicas of type int32")]
    #[case(json!({"spec": {"template": {"spec": {"containers": {}}}}}),
           "json: cannot unmarshal object into Go struct field PodSpec.spec.template.spec.containers of type []v1.Container")]
    #[case(json!({"metadata": {"labels": {"a": 1}}}),
           "json: cannot unmarshal number into Go struct field ObjectMeta.metadata.labels of type string")]
    fn wrong_types_are_told_in_gos_words(#[case] value: Value, #[case] expected: &str) {
        let (_, problems) = decoded("apps.v1.Deployment", value);
        assert_eq!(problems.error.unwrap().json, expected);
    }
}
