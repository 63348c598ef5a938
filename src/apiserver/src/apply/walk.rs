//! Walks over values by schema: which fields there are, what differs, and values without some fields.

use indexmap::IndexMap;
use rustc_hash::FxBuildHasher;
use serde_json::{Map, Value};

use super::fields::{Element, FieldSet, field};
use crate::schema::{ListKind, SchemaType, Typed};

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
        SchemaType::Any if typed.name() == "RawExtension" => Relation::Leaf,
        SchemaType::Any => {
            let all_maps = present.peek().is_some() && present.all(|value| value.is_object());
            if all_maps { Relation::Map } else { Relation::Leaf }
        }
        SchemaType::Struct(object) if object.atomic => Relation::Leaf,
        SchemaType::Map { atomic: true, .. }
        | SchemaType::Scalar(_)
        | SchemaType::List { kind: ListKind::Atomic, .. } => Relation::Leaf,
        SchemaType::Struct(_) | SchemaType::Map { .. } => {
            if present.all(|value| value.is_object()) {
                Relation::Map
            } else {
                Relation::Leaf
            }
        }
        SchemaType::List { kind, .. } => {
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
            let object = item.as_object().ok_or("associative list with keys may not have non-map elements")?;
            let mut found: Vec<(&str, &Value)> = Vec::with_capacity(keys.len());
            let mut missing = None;
            for key in keys {
                let default = || typed.item().field(key).and_then(|field| field.default.as_ref());
                match object.get(key).filter(|value| !value.is_null()).or_else(default) {
                    Some(value) => found.push((key, value)),
                    None => missing = missing.or(Some(key)),
                }
            }
            match missing {
                // As there: one key is enough, as long as not all are missing.
                Some(key) if found.is_empty() => Err(format!(
                    "associative list with keys has an element that omits key field {key:?} (and doesn't have default value)"
                )),
                _ => Ok(keyed(found)),
            }
        }
    }
}

/// The element of an item with these keys.
fn keyed(mut found: Vec<(&str, &Value)>) -> Element {
    found.sort_unstable_by_key(|(key, _)| *key);
    let mut text = b"k:{".to_vec();
    for (n, (key, value)) in found.into_iter().enumerate() {
        if n > 0 {
            text.push(b',');
        }
        // Writing JSON to a vector cannot fail, and what it writes is UTF-8.
        let _ = serde_json::to_writer(&mut text, key);
        text.push(b':');
        let _ = serde_json::to_writer(&mut text, value);
    }
    text.push(b'}');
    String::from_utf8(text).unwrap_or_default().into_boxed_str()
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
    set_below(value, typed).1
}

/// Whether a value is a field of its own, and the fields below it.
fn set_below(value: &Value, typed: Typed<'_>) -> (bool, FieldSet) {
    let mut set = FieldSet::default();
    match relation(typed, &[Some(value)]) {
        Relation::Leaf => return (true, set),
        Relation::Map => {
            for (key, child) in value.as_object().into_iter().flatten() {
                let (member, below) = set_below(child, typed.child(key));
                let is_empty = child.is_null() || child.as_object().is_some_and(Map::is_empty);
                set.put(|| field(key), member || is_empty || typed.field(key).is_none(), below);
            }
        }
        Relation::List(kind) => {
            for (element, item) in items(kind, typed, Some(value)) {
                let (_, below) = set_below(item, typed.item());
                set.put(|| element, true, below);
            }
        }
    }
    (false, set)
}

/// What differs between two values.
#[derive(Debug, Default)]
pub(super) struct Comparison {
    pub(super) added: FieldSet,
    pub(super) modified: FieldSet,
    pub(super) removed: FieldSet,
}

/// What became of a value itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    Same,
    Added,
    Modified,
    Removed,
}

/// What became of `old` in `new`.
pub(super) fn compare(old: &Value, new: &Value, typed: Typed<'_>) -> Comparison {
    let mut out = Comparison::default();
    diff(Some(old), Some(new), typed, &mut out);
    out
}

impl Comparison {
    /// Records what became of a child and of what is below it.
    fn child(
        &mut self,
        element: impl Fn() -> Element,
        old: Option<&Value>,
        new: Option<&Value>,
        typed: Typed<'_>,
        below: &mut Self,
    ) {
        let fate = diff(old, new, typed, below);
        self.added.put(&element, fate == Fate::Added, std::mem::take(&mut below.added));
        self.modified.put(&element, fate == Fate::Modified, std::mem::take(&mut below.modified));
        self.removed.put(&element, fate == Fate::Removed, std::mem::take(&mut below.removed));
    }
}

/// What became of a value; what is below it goes into `out`.
fn diff(old: Option<&Value>, new: Option<&Value>, typed: Typed<'_>, out: &mut Comparison) -> Fate {
    if let (Some(old), Some(new)) = (old, new)
        && old == new
    {
        return Fate::Same;
    }
    let is_empty = |value: Option<&Value>| match value {
        None | Some(Value::Null) => true,
        Some(Value::Object(map)) => map.is_empty(),
        Some(Value::Array(items)) => items.is_empty(),
        Some(_) => false,
    };
    let mut below = Comparison::default();
    match relation(typed, &[old, new]) {
        Relation::Leaf => return leaf(old, new),
        _ if is_empty(old) && is_empty(new) => return leaf(old, new),
        Relation::Map => {
            let empty = Map::new();
            let before = old.and_then(Value::as_object).unwrap_or(&empty);
            let after = new.and_then(Value::as_object).unwrap_or(&empty);
            for (key, value) in before {
                out.child(|| field(key), Some(value), after.get(key), typed.child(key), &mut below);
            }
            for (key, value) in after.iter().filter(|(key, _)| !before.contains_key(*key)) {
                out.child(|| field(key), None, Some(value), typed.child(key), &mut below);
            }
        }
        Relation::List(kind) => {
            let before = items(kind, typed, old);
            let after = items(kind, typed, new);
            for (element, item) in &before {
                let now = after.get(element).copied();
                out.child(|| element.clone(), Some(item), now, typed.item(), &mut below);
            }
            for (element, item) in after.iter().filter(|(element, _)| !before.contains_key(*element)) {
                out.child(|| element.clone(), None, Some(item), typed.item(), &mut below);
            }
        }
    }
    match (old, new) {
        (None, _) => Fate::Added,
        (_, None) => Fate::Removed,
        _ => Fate::Same,
    }
}

fn leaf(old: Option<&Value>, new: Option<&Value>) -> Fate {
    match (old, new) {
        (None, _) => Fate::Added,
        (_, None) => Fate::Removed,
        (Some(old), Some(new)) if old == new => Fate::Same,
        _ => Fate::Modified,
    }
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
