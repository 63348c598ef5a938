//! Lays an applied configuration over the live object.

use std::fmt::Write;

use serde_json::{Map, Value};

use super::walk::{Items, Relation, element_of, items, relation};
use crate::schema::{ListKind, SchemaType, Typed};

/// The live value with everything that the configuration sets.
pub(super) fn merge(live: Option<&Value>, config: Option<&Value>, typed: Typed<'_>) -> Value {
    let (Some(live), Some(config)) = (live, config) else {
        return config.or(live).cloned().unwrap_or_default();
    };
    match relation(typed, &[Some(live), Some(config)]) {
        Relation::Leaf => config.clone(),
        _ if config.is_null() => Value::Null,
        Relation::Map => {
            let mut out = live.as_object().cloned().unwrap_or_default();
            for (key, value) in config.as_object().into_iter().flatten() {
                let merged = merge(out.get(key), Some(value), typed.child(key));
                out.insert(key.clone(), merged);
            }
            Value::Object(out)
        }
        Relation::List(kind) => merge_list(live, config, kind, typed),
    }
}

/// Items stand in the order of the configuration; those of the live list alone stay before the shared item that they
/// stood before.
fn merge_list(live: &Value, config: &Value, kind: &ListKind, typed: Typed<'_>) -> Value {
    let before: Items<'_> = items(kind, typed, Some(live));
    let wanted: Items<'_> = items(kind, typed, Some(config));
    let item = |element: &str| merge(before.get(element).copied(), wanted.get(element).copied(), typed.item());
    let mut shared = wanted.keys().filter(|element| before.contains_key(*element)).peekable();
    let mut done = rustc_hash::FxHashSet::default();
    let mut out = Vec::with_capacity(before.len().max(wanted.len()));
    let (mut left, mut right) = (before.keys().peekable(), wanted.keys().peekable());
    loop {
        match (left.peek().copied(), right.peek().copied()) {
            (None, None) => return Value::Array(out),
            (Some(l), Some(r)) if l == r => {
                out.push(item(l));
                done.insert(l);
                left.next();
                right.next();
                shared.next();
            }
            // A shared item out of turn: it comes when the configuration has it.
            (Some(l), Some(_)) if wanted.contains_key(l) && shared.peek().is_some_and(|next| *next != l) => {
                left.next();
            }
            (Some(l), _) if !wanted.contains_key(l) => {
                out.push(item(l));
                left.next();
            }
            (Some(l), r) => {
                if done.contains(l) {
                    left.next();
                }
                match r {
                    Some(r) => {
                        out.push(item(r));
                        done.insert(r);
                        right.next();
                        if shared.peek().is_some_and(|next| *next == r) {
                            shared.next();
                        }
                    }
                    None => {
                        left.next();
                    }
                }
            }
            (None, Some(r)) => {
                out.push(item(r));
                done.insert(r);
                right.next();
                if shared.peek().is_some_and(|next| *next == r) {
                    shared.next();
                }
            }
        }
    }
}

/// Checks that a configuration fits its type: known fields, kinds of values, keys of list items.
pub(super) fn check(value: &Value, typed: Typed<'_>, path: &mut String, errors: &mut Vec<String>) {
    let length = path.len();
    match (typed.shape(), value) {
        (SchemaType::Struct(object), Value::Object(map)) => {
            for (key, child) in map {
                path.push('.');
                path.push_str(key);
                if !object.fields.contains_key(key) && !object.preserve_unknown {
                    errors.push(format!("{path}: field not declared in schema"));
                } else {
                    check(child, typed.child(key), path, errors);
                }
                path.truncate(length);
            }
        }
        (SchemaType::Map { .. }, Value::Object(map)) => check_children(map, typed, path, errors),
        (SchemaType::List { kind, .. }, Value::Array(list)) => {
            let mut seen = rustc_hash::FxHashSet::default();
            for (index, item) in list.iter().enumerate() {
                if *kind != ListKind::Atomic {
                    match element_of(kind, typed, item) {
                        Err(why) => {
                            errors.push(format!("{path}: element {index}: {why}"));
                            continue;
                        }
                        Ok(element) if !seen.insert(element.clone()) => {
                            let mut set = super::FieldSet::default();
                            set.insert(&[element]);
                            set.each_path(&mut |shown| {
                                errors.push(format!("{path}: duplicate entries for key {shown}"));
                            });
                        }
                        Ok(_) => {}
                    }
                }
                let _ = write!(path, "[{index}]");
                check(item, typed.item(), path, errors);
                path.truncate(length);
            }
        }
        (SchemaType::Any, _) | (_, Value::Null) => {}
        (SchemaType::Scalar(scalar), value) => {
            use crate::schema::Scalar;
            let fits = match scalar {
                Scalar::Bool => value.is_boolean(),
                Scalar::Int32 | Scalar::Int64 | Scalar::Number => value.is_number(),
                Scalar::Quantity | Scalar::IntOrString => value.is_string() || value.is_number(),
                Scalar::String | Scalar::Bytes | Scalar::Time | Scalar::MicroTime => value.is_string(),
            };
            if !fits {
                let expected = match scalar {
                    Scalar::Bool => "boolean",
                    Scalar::Int32 | Scalar::Int64 | Scalar::Number => "numeric",
                    _ => "string",
                };
                let expected = match scalar {
                    Scalar::Int32 | Scalar::Int64 | Scalar::Number => "numeric (int or float)",
                    _ => expected,
                };
                let got = match (scalar, value) {
                    (Scalar::Int32 | Scalar::Int64 | Scalar::Number, Value::String(_)) => "string".to_owned(),
                    (Scalar::Int32 | Scalar::Int64 | Scalar::Number, Value::Bool(_)) => "bool".to_owned(),
                    (Scalar::Int32 | Scalar::Int64 | Scalar::Number, Value::Object(_)) => {
                        "map[string]interface {}".to_owned()
                    }
                    (Scalar::Int32 | Scalar::Int64 | Scalar::Number, Value::Array(_)) => "[]interface {}".to_owned(),
                    _ => shown(value),
                };
                errors.push(format!("{path}: expected {expected}, got {got}"));
            }
        }
        (SchemaType::List { .. }, value) => errors.push(format!("{path}: expected list, got {}", shown(value))),
        (_, value) => errors.push(format!("{path}: expected map, got {}", shown(value))),
    }
}

fn check_children(map: &Map<String, Value>, typed: Typed<'_>, path: &mut String, errors: &mut Vec<String>) {
    let length = path.len();
    for (key, child) in map {
        path.push('.');
        path.push_str(key);
        check(child, typed.child(key), path, errors);
        path.truncate(length);
    }
}

fn shown(value: &Value) -> String {
    match value {
        Value::Object(_) => "map".to_owned(),
        Value::Array(_) => "list".to_owned(),
        other => format!("&value.valueUnstructured{{Value:{other}}}"),
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;
    use crate::schema::builtin;

    #[rstest]
    #[case(&["a", "b", "c"], &["c", "a"], &["b", "c", "a"])]
    #[case(&["a", "b", "c"], &["a", "x", "c"], &["a", "b", "x", "c"])]
    #[case(&[], &["a", "b"], &["a", "b"])]
    #[case(&["a", "b"], &["x"], &["a", "b", "x"])]
    #[case(&["x", "a"], &["a"], &["x", "a"])]
    fn list_items_keep_the_order_of_the_configuration(
        #[case] live: &[&str],
        #[case] config: &[&str],
        #[case] expected: &[&str],
    ) {
        let typed = builtin().schemas.named("io.k8s.api.core.v1.PodSpec").unwrap().at(&["containers"]);
        let list = |names: &[&str]| Value::Array(names.iter().map(|name| json!({"name": name})).collect());
        assert_eq!(merge(Some(&list(live)), Some(&list(config)), typed), list(expected));
    }
}
