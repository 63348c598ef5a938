//! `docs/plan.schema.json` describes what `berth plan -o json` prints: every field, and no other.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "tests stop at what they did not expect; clippy looks only into test functions"
)]

mod common;

use std::collections::BTreeSet;

use common::root;
use serde_json::Value;

/// Checks a value against the part of JSON Schema that the file uses, and collects the properties that it has seen.
struct Checker<'a> {
    schema: &'a Value,
    seen: BTreeSet<String>,
}

impl Checker<'_> {
    fn check(&mut self, value: &Value, schema: &Value, at: &str) {
        let schema = match schema.get("$ref") {
            Some(name) => self.schema.pointer(name.as_str().unwrap().trim_start_matches('#')).unwrap().clone(),
            None => schema.clone(),
        };
        for keyword in schema.as_object().unwrap().keys() {
            let known = [
                "$schema",
                "title",
                "description",
                "type",
                "properties",
                "required",
                "additionalProperties",
                "items",
                "enum",
                "minimum",
                "$defs",
            ];
            assert!(known.contains(&keyword.as_str()), "{at}: the check does not know {keyword}");
        }
        if let Some(options) = schema.get("enum") {
            assert!(options.as_array().unwrap().contains(value), "{at}: {value} is none of {options}");
        }
        if let Some(kinds) = schema.get("type") {
            let kinds: Vec<&str> = match kinds {
                Value::Array(kinds) => kinds.iter().map(|kind| kind.as_str().unwrap()).collect(),
                kind => vec![kind.as_str().unwrap()],
            };
            let is_it = |kind: &&str| match *kind {
                "object" => value.is_object(),
                "array" => value.is_array(),
                "string" => value.is_string(),
                "integer" => value.is_u64() || value.is_i64(),
                "number" => value.is_number(),
                "boolean" => value.is_boolean(),
                "null" => value.is_null(),
                other => panic!("{at}: the check does not know type {other}"),
            };
            assert!(kinds.iter().any(is_it), "{at}: {value} is not {kinds:?}");
        }
        if let (Some(least), Some(number)) = (schema.get("minimum"), value.as_f64()) {
            assert!(number >= least.as_f64().unwrap(), "{at}: {value} is less than {least}");
        }
        for item in value.as_array().into_iter().flatten() {
            self.check(item, &schema["items"], &format!("{at}[]"));
        }
        let Some(fields) = value.as_object() else { return };
        for name in schema["required"].as_array().into_iter().flatten() {
            assert!(fields.contains_key(name.as_str().unwrap()), "{at}: no {name}");
        }
        for (name, field) in fields {
            let place = format!("{at}.{name}");
            match (schema["properties"].get(name), &schema["additionalProperties"]) {
                (Some(schema), _) => {
                    self.check(field, schema, &place);
                    self.seen.insert(place);
                }
                (None, Value::Bool(false)) => panic!("{place}: not in the schema"),
                (None, schema) => self.check(field, schema, &place),
            }
        }
    }

    /// Every property that the schema has, as paths.
    fn all(&self, schema: &Value, at: &str, out: &mut BTreeSet<String>) {
        let schema = match schema.get("$ref") {
            Some(name) => self.schema.pointer(name.as_str().unwrap().trim_start_matches('#')).unwrap(),
            None => schema,
        };
        for (name, field) in schema["properties"].as_object().into_iter().flatten() {
            let place = format!("{at}.{name}");
            self.all(field, &place, out);
            out.insert(place);
        }
        if let Some(items) = schema.get("items") {
            self.all(items, &format!("{at}[]"), out);
        }
    }
}

#[test]
fn every_field_that_is_printed_is_in_the_schema_and_every_one_in_it_is_printed() {
    let text = std::fs::read_to_string(root().join("docs/plan.schema.json")).unwrap();
    let schema: Value = serde_json::from_str(&text).unwrap();
    let mut checker = Checker { schema: &schema, seen: BTreeSet::new() };
    let four_slots = ["--instance-types", "examples/catalogues/four-slots.yaml"];
    let one_slot = ["--instance-types", "examples/catalogues/one-slot.yaml"];
    let mut runs: Vec<Vec<&str>> = Vec::new();
    for example in ["reserved-first", "reserved-only", "three-pools", "room"] {
        runs.push([&[example][..], &four_slots, &["--bound", "--timings"]].concat());
    }
    runs.push([&["one-slot"][..], &one_slot].concat());
    let shares = ["max-share", "--max-share", "zone=50%", "--what-restrictions-cost"];
    runs.push(shares.to_vec());
    runs.push(vec!["guide-several-owners", "--repack"]);
    runs.push([&["reserved-first"][..], &four_slots, &["--diff", "examples/room"]].concat());
    let account = ["--instance-types", "examples/catalogues/reserved-account.yaml"];
    runs.push([&["disruption"][..], &account, &["--disrupt", "--now=2026-01-01T12:00:00Z"]].concat());
    for args in runs {
        let folder = format!("examples/{}", args[0]);
        let run = common::berth(&[&["plan", "-o", "json", "-f", &folder], &args[1..]].concat());
        assert!(run.code < 2, "{args:?}: {}", run.stderr);
        checker.check(&serde_json::from_str(&run.stdout).unwrap(), &schema, "");
    }
    let mut all = BTreeSet::new();
    checker.all(&schema, "", &mut all);
    // What these examples do not make: devices and CPUs that pods get to themselves, catalogues with notes, NodePools with
    // taints or minValues, and pods that move into a Reservation on a replacement.
    let rare = [".assigned", ".notes", "taints[]", ".minValues", ".replacements[].allocations[]"];
    let rare = |place: &&String| rare.iter().any(|part| place.contains(part));
    let unseen: Vec<&String> = all.difference(&checker.seen).filter(|place| !rare(place)).collect();
    assert!(unseen.is_empty(), "in the schema, and never printed: {unseen:?}");
}
