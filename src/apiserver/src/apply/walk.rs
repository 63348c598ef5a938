//! Walks over values by schema: which fields there are, what differs, and values without some fields.

use indexmap::IndexMap;
use rustc_hash::FxBuildHasher;
use serde_json::{Map, Value};

use super::fields::{Element, FieldSet, field};
use crate::schema::{ListKind, Scalar, Shape, Typed};

/// How a value of a type merges.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Relation<'a> {
    /// As a whole.
    Leaf,
    /// Key by key.
    Map,
    /// Item by item.
    List(&'a ListKind),
}

/// How values of a type merge, by the schema or, where that says nothing, by the values.
pub(super) fn relation<'a>(typed: Typed<'a>, values: &[Option<&Value>]) -> Relation<'a> {
    let mut present = values.iter().flatten().filter(|value| !value.is_null()).peekable();
    match typed.shape() {
        Shape::Any if typed.name() == "RawExtension" => Relation::Leaf,
        Shape::Any => {
            let all_maps = present.peek().is_some() && present.all(|value| value.is_object());
            if all_maps { Relation::Map } else { Relation::Leaf }
        }
        Shape::Struct(object) if object.atomic => Relation::Leaf,
        Shape::Map { atomic: true, .. } | Shape::Scalar(_) | Shape::List { kind: ListKind::Atomic, .. } => {
            Relation::Leaf
        }
        Shape::Struct(_) | Shape::Map { .. } => {
            if present.all(|value| value.is_object()) {
                Relation::Map
            } else {
                Relation::Leaf
            }
        }
        Shape::List { kind, .. } => {
            if present.all(|value| value.is_array()) {
                Relation::List(kind)
            } else {
                Relation::Leaf
            }
        }
    }
}

/// The element that tells an item of a list from the others; an error names the key that it lacks.
pub(super) fn element_of(kind: &ListKind, typed: Typed<'_>, item: &Value) -> Result<Element, String> {
    match kind {
        ListKind::Atomic => Err("atomic lists have no elements".to_owned()),
        ListKind::Set => Ok(format!("v:{item}").into()),
        ListKind::Map(keys) => {
            let mut map = Map::new();
            let object = item.as_object().ok_or("associative list with keys may not have non-map elements")?;
            let mut missing = None;
            for key in keys {
                let default = || typed.item().field(key).and_then(|field| field.default.as_ref());
                match object.get(key).filter(|value| !value.is_null()).or_else(default) {
                    Some(value) => {
                        map.insert(key.clone(), value.clone());
                    }
                    None => missing = missing.or(Some(key)),
                }
            }
            match missing {
                // As there: one key is enough, as long as not all are missing.
                Some(key) if map.is_empty() => Err(format!(
                    "associative list with keys has an element that omits key field {key:?} (and doesn't have default value)"
                )),
                _ => Ok(format!("k:{}", Value::Object(map)).into()),
            }
        }
    }
}

pub(super) type Items<'v> = IndexMap<Element, &'v Value, FxBuildHasher>;

/// The items of a list by element, the first of duplicates. Items without keys are passed over.
pub(super) fn items<'v>(kind: &ListKind, typed: Typed<'_>, list: Option<&'v Value>) -> Items<'v> {
    let mut out = Items::default();
    for item in list.and_then(Value::as_array).into_iter().flatten() {
        if let Ok(element) = element_of(kind, typed, item) {
            out.entry(element).or_insert(item);
        }
    }
    out
}

/// Every field that a value sets.
pub(super) fn field_set(value: &Value, typed: Typed<'_>) -> FieldSet {
    let mut set = FieldSet::default();
    collect(value, typed, &mut Vec::new(), &mut set);
    set
}

fn collect(value: &Value, typed: Typed<'_>, path: &mut Vec<Element>, set: &mut FieldSet) {
    match relation(typed, &[Some(value)]) {
        Relation::Leaf => set.insert(path),
        Relation::Map => {
            for (key, child) in value.as_object().into_iter().flatten() {
                path.push(field(key));
                collect(child, typed.child(key), path, set);
                let is_empty = child.is_null() || child.as_object().is_some_and(Map::is_empty);
                if is_empty || typed.field(key).is_none() {
                    set.insert(path);
                }
                path.pop();
            }
        }
        Relation::List(kind) => {
            for (element, item) in items(kind, typed, Some(value)) {
                path.push(element);
                collect(item, typed.item(), path, set);
                set.insert(path);
                path.pop();
            }
        }
    }
}

/// What differs between two values.
#[derive(Debug, Default)]
pub(super) struct Comparison {
    pub(super) added: FieldSet,
    pub(super) modified: FieldSet,
    pub(super) removed: FieldSet,
}

/// What became of `old` in `new`.
pub(super) fn compare(old: &Value, new: &Value, typed: Typed<'_>) -> Comparison {
    let mut out = Comparison::default();
    diff(Some(old), Some(new), typed, &mut Vec::new(), &mut out);
    out
}

fn diff(old: Option<&Value>, new: Option<&Value>, typed: Typed<'_>, path: &mut Vec<Element>, out: &mut Comparison) {
    if let (Some(old), Some(new)) = (old, new)
        && old == new
    {
        return;
    }
    let is_empty = |value: Option<&Value>| match value {
        None | Some(Value::Null) => true,
        Some(Value::Object(map)) => map.is_empty(),
        Some(Value::Array(items)) => items.is_empty(),
        Some(_) => false,
    };
    match relation(typed, &[old, new]) {
        Relation::Leaf => return leaf(old, new, typed, path, out),
        _ if is_empty(old) && is_empty(new) => return leaf(old, new, typed, path, out),
        Relation::Map => {
            let empty = Map::new();
            let before = old.and_then(Value::as_object).unwrap_or(&empty);
            let after = new.and_then(Value::as_object).unwrap_or(&empty);
            for (key, value) in before {
                path.push(field(key));
                diff(Some(value), after.get(key), typed.child(key), path, out);
                path.pop();
            }
            for (key, value) in after.iter().filter(|(key, _)| !before.contains_key(*key)) {
                path.push(field(key));
                diff(None, Some(value), typed.child(key), path, out);
                path.pop();
            }
        }
        Relation::List(kind) => {
            let before = items(kind, typed, old);
            let after = items(kind, typed, new);
            for (element, item) in &before {
                path.push(element.clone());
                diff(Some(item), after.get(element).copied(), typed.item(), path, out);
                path.pop();
            }
            for (element, item) in after.iter().filter(|(element, _)| !before.contains_key(*element)) {
                path.push(element.clone());
                diff(None, Some(item), typed.item(), path, out);
                path.pop();
            }
        }
    }
    if old.is_none() {
        out.added.insert(path);
    } else if new.is_none() {
        out.removed.insert(path);
    }
}

fn leaf(old: Option<&Value>, new: Option<&Value>, typed: Typed<'_>, path: &[Element], out: &mut Comparison) {
    match (old, new) {
        (None, _) => out.added.insert(path),
        (_, None) => out.removed.insert(path),
        (Some(old), Some(new)) => {
            // Two ways to write one quantity are one value once stored.
            let same =
                old == new || matches!(typed.shape(), Shape::Scalar(Scalar::Quantity)) && same_quantity(old, new);
            if !same {
                out.modified.insert(path);
            }
        }
    }
}

fn same_quantity(a: &Value, b: &Value) -> bool {
    let read = |value: &Value| match value {
        Value::String(text) => text.parse::<berth_quantity::Quantity>().ok(),
        Value::Number(number) => number.to_string().parse().ok(),
        _ => None,
    };
    matches!((read(a), read(b)), (Some(a), Some(b)) if a == b)
}

/// A value without the fields of a set; lists and maps that lose everything stay, empty.
pub(super) fn remove(value: &Value, typed: Typed<'_>, gone: &FieldSet) -> Value {
    match (relation(typed, &[Some(value)]), value) {
        (Relation::Map, Value::Object(map)) => {
            let kept = map.iter().filter_map(|(key, child)| {
                let element = field(key);
                if gone.has(&element) {
                    return None;
                }
                let child = match gone.below(&element) {
                    Some(below) => remove(child, typed.child(key), below),
                    None => child.clone(),
                };
                Some((key.clone(), child))
            });
            Value::Object(kept.collect())
        }
        (Relation::List(kind), Value::Array(list)) => {
            let kept = list.iter().filter_map(|item| {
                let Ok(element) = element_of(kind, typed, item) else { return Some(item.clone()) };
                if gone.has(&element) {
                    return None;
                }
                Some(match gone.below(&element) {
                    Some(below) => remove(item, typed.item(), below),
                    None => item.clone(),
                })
            });
            Value::Array(kept.collect())
        }
        _ => value.clone(),
    }
}
