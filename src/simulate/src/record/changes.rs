//! What changes of a pod that is there: labels, annotations, gates, and where it may go while it has some.

use berth_api::labels::koordinator::{DEVICE_ALLOCATED, RESERVATION_ALLOCATED, RESOURCE_STATUS};
use serde_json::{Map, Value, json};

/// Fields of a pod's spec that may be changed before it has a node, and that decisions look at.
const SPEC: [&str; 4] = ["affinity", "nodeSelector", "schedulingGates", "tolerations"];
/// Annotations that schedulers write as they bind.
const OF_BINDINGS: [&str; 3] = [RESERVATION_ALLOCATED, RESOURCE_STATUS, DEVICE_ALLOCATED];
/// Labels of the pod's node begin so.
const OF_NODES: &str = "topology.kubernetes.io/";

/// What may change of a recorded pod.
pub(super) fn changeable(pod: &Value) -> Value {
    let map = |path: &str, is_own: &dyn Fn(&str) -> bool| -> Map<String, Value> {
        let map = pod.pointer(path).and_then(Value::as_object).into_iter().flatten();
        map.filter(|(key, _)| is_own(key)).map(|(key, value)| (key.clone(), value.clone())).collect()
    };
    json!({
        "metadata": {
            "labels": map("/metadata/labels", &|key| !key.starts_with(OF_NODES)),
            "annotations": map("/metadata/annotations", &|key| !OF_BINDINGS.contains(&key)),
        },
        "spec": map("/spec", &|key| SPEC.contains(&key)),
    })
}

/// The merge patch that makes one of the other; `None` where they are alike.
pub(super) fn patch(old: &Value, new: &Value) -> Option<Value> {
    let (Value::Object(old), Value::Object(new)) = (old, new) else {
        return (old != new).then(|| new.clone());
    };
    let gone = old.keys().filter(|key| !new.contains_key(*key)).map(|key| (key.clone(), Value::Null));
    let changed = new.iter().filter_map(|(key, new)| {
        let change = old.get(key).map_or_else(|| Some(new.clone()), |old| patch(old, new));
        Some((key.clone(), change?))
    });
    let fields: Map<String, Value> = gone.chain(changed).collect();
    (!fields.is_empty()).then_some(Value::Object(fields))
}

/// Changes an object as a merge patch says.
pub(crate) fn merge(object: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else {
        object.clone_from(patch);
        return;
    };
    if !object.is_object() {
        *object = json!({});
    }
    let Some(fields) = object.as_object_mut() else { return };
    for (key, value) in patch {
        if value.is_null() {
            fields.remove(key);
        } else {
            merge(fields.entry(key.clone()).or_insert(Value::Null), value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_patch_makes_the_new_one_of_the_old_one() {
        let old = json!({"metadata": {"labels": {"a": "1", "b": "2"}},
            "spec": {"schedulingGates": [{"name": "g"}], "nodeSelector": {"x": "y"}}});
        let new = json!({"metadata": {"labels": {"a": "3", "c": "4"}}, "spec": {"nodeSelector": {"x": "y"}}});
        let change = patch(&old, &new).unwrap();
        assert_eq!(
            change,
            json!({"metadata": {"labels": {"a": "3", "b": null, "c": "4"}}, "spec": {"schedulingGates": null}})
        );
        let mut patched = old;
        merge(&mut patched, &change);
        assert_eq!(patched, new);
        assert_eq!(patch(&new, &new), None);
    }
}
