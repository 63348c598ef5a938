//! Objects of which another version, or a pod that is alike, was found usable before.

use super::*;

const OWNERS: &str = "scheduling.koordinator.sh/reservation-owners";
const MODE: &str = "scheduling.koordinator.sh/operating-mode";
const KEPT: &str = "node.koordinator.sh/reservation";

fn with(mut object: Value, patch: &Value) -> Object {
    merge(&mut object, patch);
    mk(object)
}

fn merge(into: &mut Value, patch: &Value) {
    match (into, patch) {
        (Value::Object(into), Value::Object(patch)) => {
            for (key, value) in patch {
                merge(into.entry(key).or_insert(Value::Null), value);
            }
        }
        (into, patch) => *into = patch.clone(),
    }
}

fn node() -> Value {
    json!({"kind": "Node", "metadata": {"name": "n", "uid": "n"}, "spec": {},
        "status": {"allocatable": mk_room(), "capacity": mk_room()}})
}

fn claim() -> Value {
    json!({"kind": "NodeClaim", "metadata": {"name": "c", "uid": "c"}, "spec": {"requirements": []}, "status": {}})
}

fn holder(name: &str) -> Value {
    json!({"kind": "Pod", "metadata": {"name": name, "namespace": "default", "uid": name,
        "labels": {(MODE): "Reservation"}, "annotations": {(OWNERS): "{"}},
        "spec": {"containers": [{"name": "app", "image": "app"}]}})
}

#[test]
fn what_is_wrong_is_found_whatever_was_usable_before() {
    let taint = json!([{"key": "k", "effect": "Sometimes"}]);
    let kept = json!({"metadata": {"annotations": {(KEPT): "{"}}});
    let bound = json!({"spec": {"nodeName": "n"}});
    let cases = [
        (node(), node(), json!({"spec": {"taints": taint}})),
        (node(), node(), json!({"status": {"allocatable": {"cpu": "lots"}}})),
        (node(), node(), json!({"status": {"capacity": {"cpu": "lots"}}})),
        (node(), node(), kept.clone()),
        (claim(), claim(), kept),
        (claim(), claim(), json!({"spec": {"startupTaints": taint}})),
        (holder("a"), holder("a"), bound.clone()),
        // Another pod of the same metadata and spec.
        (holder("a"), holder("b"), bound),
    ];
    for (before, after, wrong) in cases {
        let refusal = |state: &mut State| {
            let refused = state.apply(Event::Applied(with(after.clone(), &wrong))).unwrap_err();
            format!("{:?}", refused.objects)
        };
        let alone = refusal(&mut State::new(Options::default()));
        assert_eq!(refusal(&mut state_of([mk(before)])), alone, "{wrong}");
    }
}

#[test]
fn pods_that_are_alike_are_looked_at_once() {
    let state = state_of(["a", "b", "c"].map(|name| mk_pod(name, name, 1, None)));
    assert_eq!((state.pods().count(), state.n_looked_at()), (3, 1));
}
