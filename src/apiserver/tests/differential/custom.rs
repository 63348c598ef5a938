//! Custom resources by dice: definitions with defaults, pruning, lists of every kind, formats, patterns and rules, and
//! objects that keep to them more or less.

use serde_json::{Map, Value, json};

use crate::random::Dice;
use crate::scene::Step;

/// The group of a definition.
pub(crate) fn group(definition: u64) -> String {
    format!("k{definition}.berth.test")
}

/// The path of the definitions.
pub(crate) const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

/// The path of a definition's objects.
pub(crate) fn path(definition: u64) -> String {
    format!("/apis/{}/v1/namespaces/{{ns}}/widgets", group(definition))
}

/// What an object's spec may have: a name, its schemas, and values that fit one of them or none.
fn fields() -> Vec<(&'static str, Vec<Value>, Vec<Value>)> {
    let part = |n: Value| {
        json!({"type": "object", "required": ["id"], "properties": {"id": {"type": "string", "maxLength": 8},
        "n": n, "note": {"type": "string", "maxLength": 8}}})
    };
    let list_of_parts = |n: Value| {
        json!({"type": "array", "maxItems": 4, "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["id"], "items": part(n)})
    };
    vec![
        (
            "size",
            vec![
                json!({"type": "integer", "minimum": 1, "maximum": 9}),
                json!({"type": "integer", "default": 3}),
                json!({"type": "integer", "format": "int32", "exclusiveMinimum": true, "minimum": 0, "default": 1}),
            ],
            vec![json!(1), json!(2), json!(5), json!(9), json!(0), json!(10), json!("5"), json!(null)],
        ),
        (
            "color",
            vec![
                json!({"type": "string", "enum": ["red", "green"], "default": "red"}),
                json!({"type": "string", "pattern": "^[a-z]+$", "maxLength": 6}),
                json!({"type": "string", "nullable": true, "default": "red"}),
            ],
            vec![json!("red"), json!("green"), json!("blue"), json!("Red"), json!(""), json!(1), json!(null)],
        ),
        (
            "when",
            vec![
                json!({"type": "string", "format": "date-time"}),
                json!({"type": "string", "format": "duration"}),
                json!({"type": "string", "format": "uuid"}),
                json!({"type": "string", "format": "whatever"}),
            ],
            vec![json!("2026-01-02T03:04:05Z"), json!("1h30m"), json!("soon"), json!("2 days")],
        ),
        (
            "tags",
            vec![
                json!({"type": "array", "maxItems": 3, "x-kubernetes-list-type": "set", "items": {"type": "string", "maxLength": 5}}),
                json!({"type": "array", "maxItems": 3, "minItems": 1, "items": {"type": "string", "maxLength": 5}, "default": ["a"]}),
                json!({"type": "array", "x-kubernetes-list-type": "atomic", "maxItems": 9, "items": {"type": "string", "maxLength": 9}}),
            ],
            vec![
                json!(["a"]),
                json!(["a", "b"]),
                json!(["a", "a"]),
                json!([]),
                json!(["toolong"]),
                json!(["a", 1]),
                json!(["a", "b", "c", "d"]),
                json!("a"),
            ],
        ),
        (
            "parts",
            vec![
                list_of_parts(json!({"type": "integer", "default": 1})),
                list_of_parts(json!({"type": "integer", "maximum": 5})),
            ],
            vec![
                json!([{"id": "a"}]),
                json!([{"id": "a", "n": 2}, {"id": "b", "more": true}]),
                json!([{"id": "a"}, {"id": "a"}]),
                json!([{"n": 1}]),
                json!([{"id": "b", "n": 7}]),
                json!([]),
            ],
        ),
        (
            "open",
            vec![
                json!({"type": "object", "maxProperties": 3, "additionalProperties": {"type": "string", "maxLength": 5}}),
                json!({"type": "object", "additionalProperties": {"type": "integer"}}),
                json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true}),
                json!({"type": "object", "properties": {"a": {"type": "string", "default": "x"}, "b": {"type": "object",
                    "default": {}, "properties": {"c": {"type": "boolean", "default": true}}}}}),
            ],
            vec![
                json!({"a": "1"}),
                json!({"a": "1", "b": {"d": 1}}),
                json!({}),
                json!({"a": 1}),
                json!({"b": null, "z": null}),
            ],
        ),
        (
            "either",
            vec![
                json!({"x-kubernetes-int-or-string": true}),
                json!({"x-kubernetes-int-or-string": true, "anyOf": [{"type": "integer"}, {"type": "string"}], "pattern": "^[0-9]+%$"}),
            ],
            vec![json!(1), json!("5%"), json!("x")],
        ),
    ]
}

/// A rule with the fields that it looks at.
const RULES: [(&str, &[&str], &str); 12] = [
    ("!has(self.size) || self.size != 5", &["size"], "size must not be 5"),
    ("self.size <= 8", &["size"], ""),
    ("!has(oldSelf.size) || !has(self.size) || self.size >= oldSelf.size", &["size"], "size may only grow"),
    ("!has(self.color) || self.color in ['red', 'green', 'blue']", &["color"], ""),
    ("!has(self.color) || self.color.startsWith('r') || self.color.endsWith('e')", &["color"], "a strange color"),
    ("!has(self.tags) || self.tags.all(t, t != 'b')", &["tags"], ""),
    ("!has(self.tags) || self.tags.size() < 3", &["tags"], "too many tags"),
    ("!has(self.parts) || self.parts.exists(p, p.id == 'a')", &["parts"], "a part must be a"),
    ("!has(self.parts) || self.parts.filter(p, has(p.n)).map(p, p.n).all(n, n < 6)", &["parts"], ""),
    ("!has(self.color) || !has(self.size) || self.color != 'red' || self.size < 9", &["color", "size"], ""),
    ("!has(self.color) || self.color.matches('^[a-z]*$')", &["color"], "small letters"),
    ("self == oldSelf || !has(oldSelf.color) || oldSelf.color != 'blue'", &["color"], "blue ones stay"),
];

/// A definition.
pub(crate) fn definition(number: u64) -> Value {
    let mut dice = Dice::new(number.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let mut properties = Map::new();
    for (name, schemas, _) in fields() {
        if dice.chance(75) {
            let which = usize::try_from(dice.below(schemas.len() as u64)).unwrap();
            properties.insert(name.to_owned(), schemas[which].clone());
        }
    }
    let rules: Vec<Value> = RULES
        .iter()
        .filter(|(_, needed, _)| needed.iter().all(|name| properties.contains_key(*name)) && dice.chance(35))
        .map(|(rule, _, message)| match *message {
            "" => json!({"rule": rule}),
            message => json!({"rule": rule, "message": message}),
        })
        .collect();
    let mut spec = json!({"type": "object", "properties": properties});
    if !rules.is_empty() {
        spec["x-kubernetes-validations"] = rules.into();
    }
    for name in ["size", "color", "parts"] {
        if properties_has(&spec, name) && dice.chance(15) {
            spec["required"] = json!([name]);
        }
    }
    if dice.chance(20) {
        spec["x-kubernetes-preserve-unknown-fields"] = true.into();
    }
    if dice.chance(30) && spec.get("required").is_none() {
        spec["default"] = json!({});
    }
    let status = json!({"type": "object", "properties": {"phase": {"type": "string", "enum": ["On", "Off"]},
        "count": {"type": "integer", "default": 0}}});
    let mut schema = json!({"type": "object", "properties": {"spec": spec, "status": status}});
    if dice.chance(40) {
        schema["required"] = json!(["spec"]);
    }
    let mut version = json!({"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}});
    if dice.chance(60) {
        version["subresources"] = json!({"status": {}});
    }
    let group = group(number);
    json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("widgets.{group}")},
        "spec": {"group": group, "scope": "Namespaced", "names": {"plural": "widgets", "kind": "Widget"}, "versions": [version]}})
}

fn properties_has(spec: &Value, name: &str) -> bool {
    spec["properties"].get(name).is_some()
}

pub(crate) fn spec(dice: &mut Dice, percent: u64) -> Value {
    let mut spec = Map::new();
    for (name, _, values) in fields() {
        if dice.chance(percent) {
            // Most of the time what most schemas take.
            let among = if dice.chance(80) { 2 } else { values.len() as u64 };
            let which = usize::try_from(dice.below(among)).unwrap();
            spec.insert(name.to_owned(), values[which].clone());
        }
    }
    if dice.chance(15) {
        spec.insert("unknown".to_owned(), json!({"a": 1}));
    }
    Value::Object(spec)
}

pub(crate) fn object(dice: &mut Dice, definition: u64, name: &str) -> Value {
    let mut metadata = json!({"name": name});
    if dice.chance(30) {
        metadata["labels"] = json!({"a": dice.one_of(&["1", "2"])});
    }
    if dice.chance(10) {
        metadata["finalizers"] = json!(["berth.test/hold"]);
    }
    let mut out = json!({"apiVersion": format!("{}/v1", group(definition)), "kind": "Widget", "metadata": metadata});
    if dice.chance(90) {
        out["spec"] = spec(dice, 50);
    }
    if dice.chance(15) {
        out["status"] = json!({"phase": dice.one_of(&["On", "Off", "Broken"])});
    }
    out
}

fn json_patch(dice: &mut Dice) -> Value {
    let (path, value) = dice.one_of(&[
        ("/spec/size", "4"),
        ("/spec/color", "\"green\""),
        ("/spec/parts/0/n", "3"),
        ("/spec/tags/-", "\"c\""),
        ("/spec/open", "{\"a\":\"2\"}"),
        ("/metadata/labels/a", "\"3\""),
        ("/status/phase", "\"On\""),
        ("/nothing/here", "1"),
    ]);
    let value: Value = serde_json::from_str(value).unwrap();
    match dice.below(3) {
        0 => json!([{"op": "remove", "path": path}]),
        1 => json!([{"op": "replace", "path": path, "value": value}]),
        _ => json!([{"op": "add", "path": path, "value": value}]),
    }
}

/// The next request for objects of a definition.
pub(crate) fn step(dice: &mut Dice, definition: u64) -> Step {
    let name = dice.one_of(&["one", "two"]);
    let base = path(definition);
    let manager = dice.one_of(&["alice", "bob"]);
    let strict = dice.one_of(&["", "", "&fieldValidation=Strict", "&fieldValidation=Warn"]);
    let dry = if dice.chance(10) { "&dryRun=All" } else { "" };
    let options = format!("fieldManager={manager}{strict}{dry}");
    let at = format!("{base}/{name}?{options}");
    let (method, path, body) = match dice.below(13) {
        0..=2 => ("POST", format!("{base}?{options}"), object(dice, definition, name)),
        3 => ("PUT", at, object(dice, definition, name)),
        4 | 5 => ("MERGE", at, json!({"spec": spec(dice, 25)})),
        6 => ("JSONPATCH", at, json_patch(dice)),
        7 | 8 => {
            let force = if dice.chance(40) { "&force=true" } else { "" };
            ("APPLY", format!("{at}{force}"), object(dice, definition, name))
        }
        9 => ("DELETE", format!("{base}/{name}{}", dry.replace('&', "?")), Value::Null),
        10 => ("GET", base, Value::Null),
        11 => {
            let status = json!({"status": {"phase": dice.one_of(&["On", "Off", "Broken"]), "unknown": 1}});
            ("MERGE", format!("{base}/{name}/status?{options}"), status)
        }
        _ => ("MERGE", at, json!({"metadata": {"finalizers": null}})),
    };
    let body = if body.is_null() { String::new() } else { body.to_string() };
    Step { title: "random".to_owned(), method: method.to_owned(), path, body, ..Step::default() }
}
