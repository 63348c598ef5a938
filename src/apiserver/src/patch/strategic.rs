//! Strategic merge patch: lists merge by key where the schema says so, and directives delete, replace and order.

use rustc_hash::FxHashMap;
use serde_json::{Map, Value};

use crate::schema::{Patch, Typed};
use crate::status::go_text;

const DIRECTIVE: &str = "$patch";
const RETAIN_KEYS: &str = "$retainKeys";
const SET_ORDER: &str = "$setElementOrder/";
const DELETE_PRIMITIVES: &str = "$deleteFromPrimitiveList/";

/// Merges a patch into an object. Errors say which directive or key is wrong.
pub(super) fn merge(object: &mut Value, patch: &Value, typed: Typed<'_>) -> Result<(), String> {
    let (Value::Object(object), Value::Object(patch)) = (object, patch) else {
        return Err("expected an object".to_owned());
    };
    merge_map(object, patch, typed)
}

fn merge_map(object: &mut Map<String, Value>, patch: &Map<String, Value>, typed: Typed<'_>) -> Result<(), String> {
    match patch.get(DIRECTIVE).map(|directive| directive.as_str().unwrap_or_default()) {
        None | Some("merge") => {}
        Some("replace") => {
            *object = patch.iter().filter(|(key, _)| *key != DIRECTIVE).map(|(k, v)| (k.clone(), v.clone())).collect();
            return Ok(());
        }
        Some("delete") => {
            object.clear();
            return Ok(());
        }
        Some(other) => {
            let map = go_text(&Value::Object(patch.clone()));
            return Err(format!("unknown patch type: {other} in map: {map}"));
        }
    }
    if let Some(keys) = patch.get(RETAIN_KEYS) {
        let keys = keys.as_array().ok_or("$retainKeys must be a list")?;
        object.retain(|key, _| keys.iter().any(|kept| kept.as_str() == Some(key)));
    }
    for (key, change) in patch {
        if key == DIRECTIVE || key == RETAIN_KEYS {
            continue;
        }
        if let Some(field) = key.strip_prefix(DELETE_PRIMITIVES) {
            let gone = change.as_array().ok_or_else(|| format!("{key} must be a list"))?;
            if let Some(Value::Array(items)) = object.get_mut(field) {
                items.retain(|item| !gone.contains(item));
            }
            continue;
        }
        if let Some(field) = key.strip_prefix(SET_ORDER) {
            if !patch.contains_key(field)
                && let Some(Value::Array(items)) = object.get_mut(field)
            {
                let order = change.as_array().ok_or_else(|| format!("{key} must be a list"))?;
                let key = merge_key(typed, field);
                let was = ranks(items, key);
                reorder(items, order, &was, key);
            }
            continue;
        }
        if change.is_null() {
            object.remove(key);
            continue;
        }
        let strategy = typed.field(key).map(|field| &field.patch);
        match (object.get_mut(key), change) {
            (Some(Value::Object(present)), Value::Object(change)) => merge_map(present, change, typed.child(key))?,
            (Some(Value::Array(present)), Value::Array(change)) if strategy.is_some_and(|s| s.merge) => {
                let order = patch.get(&format!("{SET_ORDER}{key}")).and_then(Value::as_array);
                let strategy = strategy.cloned().unwrap_or_default();
                merge_list(present, change, order, &strategy, typed.child(key))?;
            }
            _ => {
                object.insert(key.clone(), without_directives(change));
            }
        }
    }
    Ok(())
}

fn merge_key<'a>(typed: Typed<'a>, field: &str) -> Option<&'a str> {
    typed.field(field)?.patch.merge_key.as_deref()
}

fn merge_list(
    present: &mut Vec<Value>,
    change: &[Value],
    order: Option<&Vec<Value>>,
    strategy: &Patch,
    typed: Typed<'_>,
) -> Result<(), String> {
    let key = strategy.merge_key.as_deref();
    let was = ranks(present, key);
    let Some(key) = key else {
        for item in change {
            if !present.contains(item) {
                present.push(item.clone());
            }
        }
        reorder(present, order.map_or(change, Vec::as_slice), &was, None);
        return Ok(());
    };
    let directive = |item: &Value| item.get(DIRECTIVE).and_then(Value::as_str).map(str::to_owned);
    if change.iter().any(|item| directive(item).as_deref() == Some("replace")) {
        *present = change.iter().filter(|item| directive(item).is_none()).cloned().collect();
        return Ok(());
    }
    for item in change {
        let missing = || format!("map: {} does not contain declared merge key: {key}", go_text(item));
        let wanted = item.get(key).ok_or_else(missing)?;
        let at = present.iter().position(|candidate| candidate.get(key) == Some(wanted));
        match directive(item).as_deref() {
            Some("delete") => present.retain(|candidate| candidate.get(key) != Some(wanted)),
            None | Some("merge") => match at.and_then(|at| present.get_mut(at)) {
                Some(candidate) => merge(candidate, item, typed.item())?,
                None => present.push(without_directives(item)),
            },
            Some(other) => return Err(format!("unknown patch type: {other} in map: {}", go_text(item))),
        }
    }
    reorder(present, order.map_or(change, Vec::as_slice), &was, Some(key));
    Ok(())
}

/// What tells an item of a list from others: the value of its merge key, or all of it.
fn identity<'v>(item: &'v Value, key: Option<&str>) -> &'v Value {
    static NONE: Value = Value::Null;
    key.map_or(item, |key| item.get(key).unwrap_or(&NONE))
}

/// Where the items of a list are, by their identity.
fn ranks(list: &[Value], key: Option<&str>) -> FxHashMap<Value, usize> {
    let mut ranks = FxHashMap::default();
    for (rank, item) in list.iter().enumerate() {
        ranks.entry(identity(item, key).clone()).or_insert(rank);
    }
    ranks
}

/// Puts items in order: those that `order` lists as it lists them, the others as they were. The two are merged so that one
/// of the others comes first only where `was`, the ranks of the list as it was, has it before the next listed one.
fn reorder(items: &mut Vec<Value>, order: &[Value], was: &FxHashMap<Value, usize>, key: Option<&str>) {
    let wanted = ranks(order, key);
    let rank = |ranks: &FxHashMap<Value, usize>, item: &Value| ranks.get(identity(item, key)).copied();
    let (mut listed, mut others): (Vec<Value>, Vec<Value>) =
        std::mem::take(items).into_iter().partition(|item| rank(&wanted, item).is_some());
    listed.sort_by_key(|item| rank(&wanted, item));
    others.sort_by_key(|item| rank(was, item));
    let mut others = others.into_iter().peekable();
    for item in listed {
        let place = rank(was, &item);
        while let Some(other) =
            others.next_if(|other| matches!((rank(was, other), place), (Some(other), Some(place)) if other < place))
        {
            items.push(other);
        }
        items.push(item);
    }
    items.extend(others);
}

/// What a patch adds where nothing was: without directives and nulls, whatever the directives say.
fn without_directives(change: &Value) -> Value {
    match change {
        Value::Object(map) => {
            let is_directive = |key: &str| {
                key == DIRECTIVE
                    || key == RETAIN_KEYS
                    || key.starts_with(SET_ORDER)
                    || key.starts_with(DELETE_PRIMITIVES)
            };
            let kept = map.iter().filter(|(key, value)| !is_directive(key) && !value.is_null());
            Value::Object(kept.map(|(key, value)| (key.clone(), without_directives(value))).collect())
        }
        Value::Array(items) => {
            let kept = items.iter().filter(|item| item.get(DIRECTIVE).is_none());
            Value::Array(kept.map(without_directives).collect())
        }
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;
    use crate::schema::builtin;

    #[rstest]
    #[case::lists_merge_by_key(json!({"containers": [{"name": "b", "image": "2"}]}),
        json!({"containers": [{"name": "a", "image": "1"}, {"name": "b", "image": "2"}]}))]
    #[case::an_item_is_deleted(json!({"containers": [{"name": "a", "$patch": "delete"}, {"name": "c"}]}),
        json!({"containers": [{"name": "c"}, {"name": "b", "image": "1"}]}))]
    #[case::order_is_set(json!({"$setElementOrder/containers": [{"name": "b"}, {"name": "a"}], "containers": [{"name": "a", "image": "3"}]}),
        json!({"containers": [{"name": "b", "image": "1"}, {"name": "a", "image": "3"}]}))]
    #[case::a_list_is_replaced(json!({"containers": [{"name": "z"}, {"$patch": "replace"}]}), json!({"containers": [{"name": "z"}]}))]
    #[case::an_atomic_list_is_replaced(json!({"tolerations": [{"key": "x"}]}),
        json!({"containers": [{"name": "a", "image": "1"}, {"name": "b", "image": "1"}], "tolerations": [{"key": "x"}]}))]
    #[case::null_removes(json!({"containers": null}), json!({}))]
    fn strategic_merge(#[case] patch: Value, #[case] expected: Value) {
        let mut spec = json!({"containers": [{"name": "a", "image": "1"}, {"name": "b", "image": "1"}]});
        merge(&mut spec, &patch, builtin().schemas.named("io.k8s.api.core.v1.PodSpec").unwrap()).unwrap();
        assert_eq!(spec, expected);
    }

    #[test]
    fn finalizers_merge_as_a_set_and_primitives_are_deleted() {
        let meta = builtin().schemas.named("io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta").unwrap();
        let mut value = json!({"finalizers": ["a", "b"]});
        merge(&mut value, &json!({"finalizers": ["c", "a"]}), meta).unwrap();
        assert_eq!(value, json!({"finalizers": ["c", "a", "b"]}));
        merge(&mut value, &json!({"$deleteFromPrimitiveList/finalizers": ["b"]}), meta).unwrap();
        assert_eq!(value, json!({"finalizers": ["c", "a"]}));
    }

    #[test]
    fn retain_keys_drops_the_other_members_of_a_union() {
        let spec = builtin().schemas.named("io.k8s.api.apps.v1.DeploymentSpec").unwrap();
        let mut value = json!({"strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1}}});
        merge(&mut value, &json!({"strategy": {"$retainKeys": ["type"], "type": "Recreate"}}), spec).unwrap();
        assert_eq!(value, json!({"strategy": {"type": "Recreate"}}));
    }
}
