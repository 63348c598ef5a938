//! The generated schemas with their CEL rules, run as the API server runs them, against the validation in Rust: both
//! must accept and refuse the same objects.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot read its input has failed")]

use berth_api::{FakeCapacityReservation, FakeNodeClass, NodeClaim, NodeOverlay, NodePool, Reservation};
use rstest::rstest;
use serde_json::{Value, json};

/// What the API server finds wrong with an object, after it has filled in defaults.
fn schema_errors(kind: &str, object: &Value, old: Option<&Value>) -> Vec<String> {
    let crds = berth_api::crd::all().unwrap();
    let crd = crds.iter().find(|crd| crd.definition["spec"]["names"]["kind"] == kind).unwrap();
    let schema = &crd.definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
    let object = kube_cel::apply_defaults(schema, object);
    let mut errors = Vec::new();
    check(schema, &object, kind, &mut errors);
    if let Err(found) = kube_cel::validate(schema, &object, old) {
        errors.extend(found.into_vec().into_iter().map(|error| format!("{}: {}", error.field_path, error.message)));
    }
    errors
}

/// The keywords of OpenAPI that the schemas use.
fn check(schema: &Value, value: &Value, path: &str, errors: &mut Vec<String>) {
    let bound = |key: &str| schema[key].as_i64();
    let mut expect = |is_right: bool, key: &str| {
        if !is_right {
            errors.push(format!("{path}: {key} {}, found {value}", schema[key]));
        }
    };
    let count = |n: usize| i64::try_from(n).unwrap();
    if let Some(values) = schema["enum"].as_array() {
        expect(values.contains(value), "enum");
    }
    if let Some(number) = value.as_i64() {
        expect(bound("minimum").is_none_or(|least| number >= least), "minimum");
        expect(bound("maximum").is_none_or(|most| number <= most), "maximum");
    }
    if let Some(text) = value.as_str() {
        let pattern = schema["pattern"].as_str().map(|pattern| regex::Regex::new(pattern).unwrap());
        expect(pattern.is_none_or(|pattern| pattern.is_match(text)), "pattern");
        expect(bound("minLength").is_none_or(|least| count(text.len()) >= least), "minLength");
        expect(bound("maxLength").is_none_or(|most| count(text.len()) <= most), "maxLength");
    }
    if let Some(items) = value.as_array() {
        expect(bound("minItems").is_none_or(|least| count(items.len()) >= least), "minItems");
        expect(bound("maxItems").is_none_or(|most| count(items.len()) <= most), "maxItems");
        let key =
            |item: &Value| if schema["x-kubernetes-list-type"] == "map" { item["id"].clone() } else { item.clone() };
        let is_unique = schema["x-kubernetes-list-type"].as_str().is_none_or(|list_type| list_type == "atomic")
            || items.iter().enumerate().all(|(n, item)| items[..n].iter().all(|other| key(other) != key(item)));
        expect(is_unique, "x-kubernetes-list-type");
        items.iter().enumerate().for_each(|(n, item)| check(&schema["items"], item, &format!("{path}[{n}]"), errors));
    } else if let Some(fields) = value.as_object() {
        expect(bound("minProperties").is_none_or(|least| count(fields.len()) >= least), "minProperties");
        expect(bound("maxProperties").is_none_or(|most| count(fields.len()) <= most), "maxProperties");
        let required = schema["required"].as_array().into_iter().flatten();
        expect(required.filter_map(Value::as_str).all(|name| fields.contains_key(name)), "required");
        for (name, field) in fields {
            let inner = if schema["properties"][name].is_null() {
                &schema["additionalProperties"]
            } else {
                &schema["properties"][name]
            };
            check(inner, field, &format!("{path}.{name}"), errors);
        }
    }
}

/// Merges `change` into `base` as a JSON merge patch.
fn merge(base: &mut Value, change: &Value) {
    let (Some(_), Some(change)) = (base.as_object(), change.as_object()) else {
        base.clone_from(change);
        return;
    };
    for (key, value) in change {
        if value.is_null() {
            base.as_object_mut().unwrap().remove(key);
        } else {
            merge(&mut base[key], value);
        }
    }
}

fn base(kind: &str) -> Value {
    let class = json!({ "group": "berth.sh", "kind": "FakeNodeClass", "name": "default" });
    let spec = match kind {
        "NodePool" => json!({ "template": { "spec": { "nodeClassRef": class, "requirements": [] } } }),
        "NodeClaim" => json!({ "nodeClassRef": class, "requirements": [] }),
        "NodeOverlay" => json!({ "requirements": [] }),
        "Reservation" => {
            json!({ "template": { "spec": { "containers": [] } }, "owners": [{ "object": { "name": "a" } }] })
        }
        "FakeCapacityReservation" => json!({ "instanceTypes": ["m5.large"], "count": 1 }),
        _ => json!({}),
    };
    json!({ "metadata": { "name": "a" }, "spec": spec })
}

/// Whether schema and Rust accept the object; they must agree.
fn both_accept(kind: &str, spec: &Value) -> bool {
    let mut object = base(kind);
    merge(&mut object["spec"], spec);
    let by_schema = schema_errors(kind, &object, None);
    macro_rules! validated {
        ($($type:ident),*) => {
            match kind {
                $(stringify!($type) => serde_json::from_value::<$type>(object)
                    .map(|object| object.validate().iter().map(ToString::to_string).collect())
                    .unwrap_or_else(|error| vec![error.to_string()]),)*
                _ => vec!["unknown kind".to_owned()],
            }
        };
    }
    let by_rust: Vec<String> =
        validated!(NodePool, NodeClaim, NodeOverlay, Reservation, FakeNodeClass, FakeCapacityReservation);
    assert_eq!(by_schema.is_empty(), by_rust.is_empty(), "{spec}\nschema: {by_schema:#?}\nRust: {by_rust:#?}");
    by_rust.is_empty()
}

const REQUIREMENTS: &[(&str, bool)] = &[
    (r#"{"key":"team","operator":"In","values":["a"]}"#, true),
    (r#"{"key":"team","operator":"In","values":[]}"#, false),
    (r#"{"key":"team","operator":"In"}"#, false),
    (r#"{"key":"team","operator":"Is","values":["a"]}"#, false),
    (r#"{"key":"team","operator":"Exists"}"#, true),
    (r#"{"key":"team","operator":"DoesNotExist","values":["a"]}"#, true),
    (r#"{"key":"team","operator":"Gt","values":["5"]}"#, true),
    (r#"{"key":"team","operator":"Gte","values":["0"]}"#, true),
    (r#"{"key":"team","operator":"Lt","values":["-5"]}"#, false),
    (r#"{"key":"team","operator":"Lte","values":["a"]}"#, false),
    (r#"{"key":"team","operator":"Lte","values":["1","2"]}"#, false),
    (r#"{"key":"team","operator":"Gt"}"#, false),
    (r#"{"key":"team","operator":"In","values":["a b"]}"#, false),
    (r#"{"key":"team","operator":"In","values":[""]}"#, true),
    (r#"{"key":"a b","operator":"Exists"}"#, false),
    (r#"{"key":"A.com/b","operator":"Exists"}"#, false),
    (r#"{"key":"a.com/B_c.d","operator":"Exists"}"#, true),
    (r#"{"key":"","operator":"Exists"}"#, false),
    (r#"{"key":"kubernetes.io/hostname","operator":"Exists"}"#, false),
    (r#"{"key":"kubernetes.io/os","operator":"Exists"}"#, true),
    (r#"{"key":"karpenter.sh/capacity-type","operator":"In","values":["reserved"]}"#, true),
    (r#"{"key":"karpenter.sh/registered","operator":"Exists"}"#, false),
    (r#"{"key":"sub.karpenter.sh/a","operator":"Exists"}"#, false),
    (r#"{"key":"mykarpenter.sh/a","operator":"Exists"}"#, false),
    (r#"{"key":"karpenter.sh","operator":"Exists"}"#, false),
    (r#"{"key":"karpenter.sh.example.com/a","operator":"Exists"}"#, true),
    (r#"{"key":"berth.sh/capacity-reservation-id","operator":"In","values":["cr-1"]}"#, true),
];

#[test]
fn requirements_of_every_kind() {
    for &(requirement, is_good) in REQUIREMENTS {
        let list = json!({ "requirements": [serde_json::from_str::<Value>(requirement).unwrap()] });
        assert_eq!(both_accept("NodePool", &json!({ "template": { "spec": list } })), is_good, "{requirement}");
        assert_eq!(both_accept("NodeClaim", &list), is_good, "{requirement}");
        assert_eq!(both_accept("NodeOverlay", &list), is_good, "{requirement}");
    }
    let pool = json!({ "requirements": [{ "key": "karpenter.sh/nodepool", "operator": "Exists" }] });
    assert!(!both_accept("NodePool", &json!({ "template": { "spec": pool } })));
    assert!(both_accept("NodeClaim", &pool) && both_accept("NodeOverlay", &pool));
    let not_in = json!({ "requirements": [{ "key": "team", "operator": "NotIn" }] });
    assert!(both_accept("NodeClaim", &not_in) && !both_accept("NodeOverlay", &not_in));
    for (min_values, is_good) in [(0, false), (1, true), (2, true), (3, false), (51, false)] {
        let requirement = json!({ "key": "team", "operator": "In", "values": ["a", "b"], "minValues": min_values });
        assert_eq!(both_accept("NodeClaim", &json!({ "requirements": [requirement] })), is_good, "{min_values}");
    }
    let many = |n: usize| json!({ "requirements": vec![json!({ "key": "team", "operator": "Exists" }); n] });
    assert!(both_accept("NodeClaim", &many(100)) && !both_accept("NodeClaim", &many(101)));
}

#[rstest]
#[case(json!({ "weight": 1, "limits": { "cpu": "10", "nodes": 5 } }), true)]
#[case(json!({ "weight": 0 }), false)]
#[case(json!({ "weight": 101 }), false)]
#[case(json!({ "replicas": 0, "limits": { "nodes": 5 } }), true)]
#[case(json!({ "replicas": 1, "limits": {} }), true)]
#[case(json!({ "replicas": -1 }), false)]
#[case(json!({ "replicas": 1, "weight": 1 }), false)]
#[case(json!({ "replicas": 1, "limits": { "cpu": 1 } }), false)]
#[case(json!({ "limits": { "cpu": "1Gb" } }), false)]
#[case(json!({ "limits": { "cpu": "Gi" } }), false)]
#[case(json!({ "disruption": { "consolidateAfter": "Never", "consolidationPolicy": "Balanced" } }), true)]
#[case(json!({ "disruption": { "consolidateAfter": "1h30m5s", "consolidationPolicy": "WhenEmpty" } }), true)]
#[case(json!({ "disruption": { "consolidateAfter": "1.5h" } }), false)]
#[case(json!({ "disruption": { "consolidateAfter": "" } }), false)]
#[case(json!({ "disruption": { "consolidateAfter": "0" } }), false)]
#[case(json!({ "disruption": { "consolidateAfter": "0s", "consolidationPolicy": "Sometimes" } }), false)]
#[case(json!({ "disruption": { "consolidateAfter": "0s", "budgets": [] } }), true)]
#[case(json!({ "disruption": { "consolidateAfter": "0s", "budgets": [{ "nodes": "100%" }, { "nodes": "0" }] } }), true)]
#[case(json!({ "disruption": { "consolidateAfter": "0s", "budgets": [{ "nodes": "101%" }] } }), false)]
#[case(json!({ "disruption": { "consolidateAfter": "0s", "budgets": [{ "nodes": "1", "schedule": "@daily" }] } }), false)]
#[case(json!({ "disruption": { "consolidateAfter": "0s", "budgets": [{ "nodes": "1", "duration": "1h" }] } }), false)]
#[case(json!({ "disruption": { "consolidateAfter": "0s", "budgets": [
    { "nodes": "1", "duration": "1h30m0s", "schedule": "0 9 * * mon-fri", "reasons": ["Empty", "Drifted"] }] } }), true)]
#[case(json!({ "disruption": { "consolidateAfter": "0s", "budgets": [
    { "nodes": "1", "duration": "30s", "schedule": "@daily" }] } }), false)]
#[case(json!({ "disruption": { "consolidateAfter": "0s", "budgets": [{ "reasons": ["Empty", "Empty"] }] } }), false)]
#[case(json!({ "disruption": { "consolidateAfter": "0s", "budgets": [{ "reasons": ["Bored"] }] } }), false)]
#[case(json!({ "template": { "metadata": { "labels": { "team": "a" } } } }), true)]
#[case(json!({ "template": { "metadata": { "labels": { "team": "a b" } } } }), false)]
#[case(json!({ "template": { "metadata": { "labels": { "karpenter.sh/nodepool": "a" } } } }), false)]
#[case(json!({ "template": { "metadata": { "labels": { "karpenter.sh/capacity-type": "spot" } } } }), true)]
#[case(json!({ "template": { "metadata": { "labels": { "kubernetes.io/hostname": "a" } } } }), false)]
#[case(json!({ "template": { "spec": { "nodeClassRef": { "group": "" } } } }), false)]
#[case(json!({ "template": { "spec": { "nodeClassRef": { "kind": "" } } } }), false)]
#[case(json!({ "template": { "spec": { "nodeClassRef": { "name": "" } } } }), false)]
#[case(json!({ "template": { "spec": { "nodeClassRef": { "group": "a/b" } } } }), false)]
#[case(json!({ "template": { "spec": { "expireAfter": "Never", "terminationGracePeriod": "0s" } } }), true)]
#[case(json!({ "template": { "spec": { "terminationGracePeriod": "Never" } } }), false)]
#[case(json!({ "template": { "spec": { "taints": [{ "key": "a", "value": "b", "effect": "NoExecute" }] } } }), true)]
#[case(json!({ "template": { "spec": { "taints": [{ "key": "a", "effect": "Never" }] } } }), false)]
#[case(json!({ "template": { "spec": { "taints": [{ "key": "", "effect": "NoExecute" }] } } }), false)]
#[case(json!({ "template": { "spec": { "startupTaints": [{ "key": "a", "value": "b c", "effect": "NoExecute" }] } } }), false)]
fn node_pools(#[case] spec: Value, #[case] is_good: bool) {
    assert_eq!(both_accept("NodePool", &spec), is_good);
}

#[rstest]
#[case("price", "0.25", true)]
#[case("price", "12", true)]
#[case("price", ".5", false)]
#[case("price", "+1", false)]
#[case("price", "1.", false)]
#[case("priceAdjustment", "+.5", true)]
#[case("priceAdjustment", "-0.5", true)]
#[case("priceAdjustment", "+1.", false)]
#[case("priceAdjustment", "1", false)]
#[case("priceAdjustment", "+150.5%", true)]
#[case("priceAdjustment", "+.5%", true)]
#[case("priceAdjustment", "-99.9%", true)]
#[case("priceAdjustment", "-100%", true)]
#[case("priceAdjustment", "-100.0%", false)]
#[case("priceAdjustment", "-101%", false)]
#[case("priceAdjustment", "-.5%", false)]
#[case("priceAdjustment", "-5.%", false)]
#[case("priceAdjustment", "++5", false)]
#[case("priceAdjustment", "%", false)]
#[case("priceAdjustment", "+", false)]
fn prices_of_node_overlays(#[case] field: &str, #[case] text: &str, #[case] is_good: bool) {
    assert_eq!(both_accept("NodeOverlay", &json!({ field: text })), is_good);
}

#[rstest]
#[case("NodeOverlay", json!({ "price": "1", "priceAdjustment": "+1" }), false)]
#[case("NodeOverlay", json!({ "capacity": { "a.com/b": 1 }, "weight": 10000 }), true)]
#[case("NodeOverlay", json!({ "capacity": { "memory": 1 } }), false)]
#[case("NodeOverlay", json!({ "weight": 10001 }), false)]
#[case("Reservation", json!({ "ttl": "0", "allocatePolicy": "Restricted" }), true)]
#[case("Reservation", json!({ "allocatePolicy": "Default" }), false)]
#[case("Reservation", json!({ "owners": [] }), false)]
#[case("Reservation", json!({ "owners": [{}] }), false)]
#[case("Reservation", json!({ "owners": [{ "controller": { "name": "a" } }] }), false)]
#[case("Reservation", json!({ "owners": null }), false)]
#[case("Reservation", json!({ "template": null }), false)]
#[case("Reservation", json!({ "preAllocationPolicy": { "mode": "Cluster", "enableMultiple": true } }), true)]
#[case("Reservation", json!({ "preAllocationPolicy": { "mode": "Other" } }), false)]
#[case("FakeNodeClass", json!({ "zones": ["a", "b"], "registrationDelay": "30s" }), true)]
#[case("FakeNodeClass", json!({ "zones": ["a", "a"] }), false)]
#[case("FakeNodeClass", json!({ "unreachableZones": ["a", "b"] }), true)]
#[case("FakeNodeClass", json!({ "unreachableZones": ["a", "a"] }), false)]
#[case("FakeNodeClass", json!({ "zones": [""] }), false)]
#[case("FakeNodeClass", json!({ "registrationDelay": "-30s" }), false)]
#[case("FakeNodeClass", json!({ "instanceTypes": { "namespace": "a", "name": "b" } }), true)]
#[case("FakeNodeClass", json!({ "instanceTypes": { "namespace": "a", "name": "" } }), false)]
#[case("FakeNodeClass", json!({ "image": "v2" }), true)]
#[case("FakeNodeClass", json!({ "image": "" }), false)]
#[case("FakeCapacityReservation", json!({}), true)]
#[case("FakeCapacityReservation", json!({ "id": "CR_1", "zones": ["a", "b"], "usedByOthers": 2 }), true)]
#[case("FakeCapacityReservation", json!({ "id": "" }), false)]
#[case("FakeCapacityReservation", json!({ "instanceTypes": [] }), false)]
#[case("FakeCapacityReservation", json!({ "instanceTypes": ["m5.large", "m5.large"] }), false)]
#[case("FakeCapacityReservation", json!({ "zones": ["-"] }), false)]
#[case("FakeCapacityReservation", json!({ "count": -1 }), false)]
#[case("FakeCapacityReservation", json!({ "count": 1_000_001 }), false)]
#[case("FakeCapacityReservation", json!({ "usedByOthers": -1 }), false)]
#[case("FakeCapacityReservation", json!({ "type": "CapacityBlock", "matching": "Open" }), true)]
#[case("FakeCapacityReservation", json!({ "type": "Interruptible" }), true)]
#[case("FakeCapacityReservation", json!({ "type": "Other" }), false)]
fn other_kinds(#[case] kind: &str, #[case] spec: Value, #[case] is_good: bool) {
    assert_eq!(both_accept(kind, &spec), is_good);
}

#[rstest]
#[case("NodePool", json!({ "replicas": 1 }), false)]
#[case("NodePool", json!({ "template": { "spec": { "nodeClassRef": { "kind": "Other" } } } }), false)]
#[case("NodePool", json!({ "template": { "spec": { "nodeClassRef": { "group": "other" } } } }), false)]
#[case("NodePool", json!({ "template": { "spec": { "nodeClassRef": { "name": "other" } } } }), true)]
#[case("NodeClaim", json!({ "terminationGracePeriod": "1h" }), false)]
#[case("NodeClaim", json!({}), true)]
fn updates(#[case] kind: &str, #[case] change: Value, #[case] is_good: bool) {
    let old = base(kind);
    let mut new = old.clone();
    merge(&mut new["spec"], &change);
    let crds = berth_api::crd::all().unwrap();
    let crd = crds.iter().find(|crd| crd.definition["spec"]["names"]["kind"] == kind).unwrap();
    let schema = &crd.definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
    let by_schema = schema_errors(kind, &new, Some(&kube_cel::apply_defaults(schema, &old)));
    let by_rust = if kind == "NodePool" {
        let read = |object| serde_json::from_value::<NodePool>(object).unwrap();
        read(new).validate_update(&read(old))
    } else {
        let read = |object| serde_json::from_value::<NodeClaim>(object).unwrap();
        read(new).validate_update(&read(old))
    };
    assert_eq!((by_schema.is_empty(), by_rust.is_empty()), (is_good, is_good), "{by_schema:?} {by_rust:?}");
}
