//! Good and bad objects of every kind: each bad one differs from a good one in one place.

#![allow(clippy::unwrap_used, reason = "a test that cannot read its input has failed")]

use berth_api::{
    Cause, FakeCapacityReservation, FakeNodeClass, FieldError, NodeClaim, NodeOverlay, NodePool, Reservation,
};
use rstest::rstest;
use serde_json::{Value, json};

/// Merges `change` into `base` as a JSON merge patch.
fn merged(mut base: Value, change: &Value) -> Value {
    if let (Value::Object(base), Value::Object(change)) = (&mut base, change) {
        for (key, value) in change {
            let old = base.remove(key).unwrap_or(Value::Null);
            if !value.is_null() {
                base.insert(key.clone(), merged(old, value));
            }
        }
        return Value::Object(std::mem::take(base));
    }
    change.clone()
}

fn paths(errors: &[FieldError]) -> Vec<&str> {
    errors.iter().map(|error| error.path.as_str()).collect()
}

fn node_pool(change: &Value) -> Vec<FieldError> {
    let base = json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": { "name": "default" },
        "spec": { "template": { "spec": {
            "nodeClassRef": { "group": "berth.sh", "kind": "FakeNodeClass", "name": "default" },
            "requirements": [{ "key": "karpenter.sh/capacity-type", "operator": "In", "values": ["reserved"] }],
        } } },
    });
    serde_json::from_value::<NodePool>(merged(base, change)).unwrap().validate()
}

fn template(change: &Value) -> Vec<FieldError> {
    node_pool(&json!({ "spec": { "template": { "spec": change } } }))
}

fn requirement(requirement: &Value) -> Vec<FieldError> {
    template(&json!({ "requirements": [requirement] }))
}

fn node_overlay(change: &Value) -> Vec<FieldError> {
    let base = json!({
        "apiVersion": "karpenter.sh/v1alpha1", "kind": "NodeOverlay", "metadata": { "name": "cheaper" },
        "spec": { "requirements": [{ "key": "karpenter.sh/nodepool", "operator": "In", "values": ["a"] }] },
    });
    serde_json::from_value::<NodeOverlay>(merged(base, &json!({ "spec": change }))).unwrap().validate()
}

fn reservation(change: &Value) -> Vec<FieldError> {
    let base = json!({
        "apiVersion": "scheduling.koordinator.sh/v1alpha1", "kind": "Reservation", "metadata": { "name": "demo" },
        "spec": {
            "template": { "spec": { "containers": [{ "name": "c", "resources": { "requests": { "cpu": "1" } } }] } },
            "owners": [{ "object": { "name": "pod-demo-0", "namespace": "default" } }],
        },
    });
    serde_json::from_value::<Reservation>(merged(base, &json!({ "spec": change }))).unwrap().validate()
}

#[rstest]
#[case::all_capacity_types(json!({ "requirements": [] }))]
#[case::absent_requirements(json!({ "requirements": null }))]
#[case::absent_node_class(json!({ "nodeClassRef": null }))]
#[case::never_expires(json!({ "expireAfter": "Never" }))]
#[case::compound_duration(json!({ "expireAfter": "1h30m", "terminationGracePeriod": "0s" }))]
#[case::same_taint_key_with_two_effects(json!({
    "taints": [{ "key": "a", "effect": "NoSchedule" }, { "key": "a", "effect": "NoExecute" }] }))]
fn templates_that_users_write_are_good(#[case] change: Value) {
    assert_eq!(template(&change), []);
}

#[rstest]
#[case(json!({ "key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand", "reserved"] }))]
#[case(json!({ "key": "berth.sh/capacity-reservation-id", "operator": "In", "values": ["cr-1"] }))]
#[case(json!({ "key": "karpenter.k8s.aws/instance-cpu", "operator": "Gte", "values": ["8"] }))]
#[case(json!({ "key": "team", "operator": "NotIn" }))]
#[case(json!({ "key": "team", "operator": "Exists", "minValues": 50 }))]
#[case(json!({ "key": "topology.kubernetes.io/zone", "operator": "In", "values": ["a", "b"], "minValues": 2 }))]
#[case(json!({ "key": "kubernetes.io/my-own", "operator": "In", "values": [""] }))]
#[case(json!({ "key": "beta.kubernetes.io/arch", "operator": "DoesNotExist" }))]
fn requirements_that_karpenter_takes_are_good(#[case] written: Value) {
    assert_eq!(requirement(&written), []);
}

#[rstest]
#[case::in_without_value(json!({ "key": "team", "operator": "In" }), "values", "found none")]
#[case::gt_without_value(json!({ "key": "team", "operator": "Gt" }), "values", "found 0 values")]
#[case::gt_with_two(json!({ "key": "team", "operator": "Gt", "values": ["1", "2"] }), "values", "found 2 values")]
#[case::lt_negative(json!({ "key": "team", "operator": "Lt", "values": ["1.5"] }), "values", "\"1.5\"")]
#[case::lte_beyond_i64(
    json!({ "key": "team", "operator": "Lte", "values": ["99999999999999999999"] }), "values", "single positive integer")]
#[case::min_values_zero(json!({ "key": "team", "operator": "Exists", "minValues": 0 }), "minValues", "is 0, expected 1 to 50")]
#[case::min_values_51(json!({ "key": "team", "operator": "Exists", "minValues": 51 }), "minValues", "is 51")]
#[case::too_few_for_min_values(
    json!({ "key": "team", "operator": "In", "values": ["a"], "minValues": 2 }), "values", "found 1 values and minValues 2")]
#[case::capacity_type_unknown(
    json!({ "key": "karpenter.sh/capacity-type", "operator": "In", "values": ["ondemand"] }), "values", "on-demand, reserved, spot")]
#[case::own_domain(
    json!({ "key": "karpenter.sh/initialized", "operator": "Exists" }), "key", "label domain \"karpenter.sh\" is restricted")]
#[case::subdomain(json!({ "key": "x.karpenter.sh/y", "operator": "Exists" }), "key", "is restricted")]
#[case::node_pool(
    json!({ "key": "karpenter.sh/nodepool", "operator": "Exists" }), "key", "label \"karpenter.sh/nodepool\" is restricted")]
#[case::hostname(
    json!({ "key": "kubernetes.io/hostname", "operator": "Exists" }), "key", "label \"kubernetes.io/hostname\" is restricted")]
#[case::empty_key(json!({ "key": "", "operator": "Exists" }), "key", "expected a name")]
#[case::upper_case_domain(json!({ "key": "Example.com/a", "operator": "Exists" }), "key", "before the slash")]
#[case::two_slashes(json!({ "key": "a/b/c", "operator": "Exists" }), "key", "more than one slash")]
#[case::long_key(json!({ "key": "k".repeat(64), "operator": "Exists" }), "key", "has 64 characters, expected at most 63")]
#[case::long_value(
    json!({ "key": "team", "operator": "In", "values": ["v".repeat(64)] }), "values[0]", "has 64 characters")]
#[case::value_syntax(json!({ "key": "team", "operator": "In", "values": ["a", "b!"] }), "values[1]", "\"b!\"")]
fn bad_requirements_are_found_at_their_field(#[case] written: Value, #[case] field: &str, #[case] message: &str) {
    let errors = requirement(&written);
    assert_eq!(paths(&errors), [format!("spec.template.spec.requirements[0].{field}")], "{errors:?}");
    assert!(errors[0].message.contains(message), "{}", errors[0].message);
}

#[rstest]
#[case(json!({ "taints": [{ "key": "", "effect": "NoSchedule" }] }), "taints[0].key")]
#[case(json!({ "taints": [{ "key": "a b", "effect": "NoSchedule" }] }), "taints[0].key")]
#[case(json!({ "taints": [{ "key": "a", "value": "b c", "effect": "NoSchedule" }] }), "taints[0].value")]
#[case(json!({ "taints": [{ "key": "a", "effect": "NoWay" }] }), "taints[0].effect")]
#[case(json!({ "startupTaints": [{ "key": "a" }] }), "startupTaints[0].effect")]
#[case(json!({ "taints": [{ "key": "a", "effect": "NoSchedule" }],
               "startupTaints": [{ "key": "a", "effect": "NoSchedule" }] }), "startupTaints[0]")]
#[case(json!({ "expireAfter": "1.5h" }), "expireAfter")]
#[case(json!({ "expireAfter": "-1h" }), "expireAfter")]
#[case(json!({ "terminationGracePeriod": "100ms" }), "terminationGracePeriod")]
#[case(json!({ "nodeClassRef": { "group": "" } }), "nodeClassRef.group")]
#[case(json!({ "nodeClassRef": { "kind": "" } }), "nodeClassRef.kind")]
#[case(json!({ "nodeClassRef": { "name": "" } }), "nodeClassRef.name")]
#[case(json!({ "nodeClassRef": { "group": "berth.sh/v1alpha1" } }), "nodeClassRef.group")]
fn bad_templates_are_found_at_their_field(#[case] change: Value, #[case] field: &str) {
    assert_eq!(paths(&template(&change)), [format!("spec.template.spec.{field}")]);
}

#[rstest]
#[case(json!({ "weight": 0 }), "spec.weight")]
#[case(json!({ "weight": 101 }), "spec.weight")]
#[case(json!({ "replicas": -1 }), "spec.replicas")]
#[case(json!({ "replicas": 1, "weight": 5 }), "spec.weight")]
#[case(json!({ "replicas": 1, "limits": { "nodes": 2, "cpu": 5 } }), "spec.limits")]
#[case(json!({ "limits": { "cpu": "-1" } }), "spec.limits[cpu]")]
#[case(json!({ "limits": { "c p u": 1 } }), "spec.limits[c p u]")]
#[case(json!({ "disruption": { "consolidateAfter": "1d" } }), "")]
#[case(json!({ "disruption": { "consolidateAfter": "1.5m" } }), "spec.disruption.consolidateAfter")]
#[case(json!({ "disruption": { "budgets": [{ "nodes": "101%" }] } }), "spec.disruption.budgets[0].nodes")]
#[case(json!({ "disruption": { "budgets": [{ "nodes": "-1" }] } }), "spec.disruption.budgets[0].nodes")]
#[case(json!({ "disruption": { "budgets": [{ "nodes": "%" }] } }), "spec.disruption.budgets[0].nodes")]
#[case(json!({ "disruption": { "budgets": [{ "schedule": "@daily" }] } }), "spec.disruption.budgets[0].duration")]
#[case(json!({ "disruption": { "budgets": [{ "duration": "1h" }] } }), "spec.disruption.budgets[0].schedule")]
#[case(json!({ "disruption": { "budgets": [{ "schedule": "@daily", "duration": "30s" }] } }),
    "spec.disruption.budgets[0].duration")]
#[case(json!({ "disruption": { "budgets": [{ "reasons": ["Empty", "Drifted", "Empty"] }] } }),
    "spec.disruption.budgets[0].reasons[2]")]
#[case(json!({ "template": { "metadata": { "labels": { "karpenter.sh/registered": "true" } } } }),
    "spec.template.metadata.labels[karpenter.sh/registered]")]
#[case(json!({ "template": { "metadata": { "labels": { "karpenter.sh/nodepool": "a" } } } }),
    "spec.template.metadata.labels[karpenter.sh/nodepool]")]
#[case(json!({ "template": { "metadata": { "labels": { "team": "a b" } } } }),
    "spec.template.metadata.labels[team]")]
fn bad_node_pools_are_found_at_their_field(#[case] change: Value, #[case] path: &str) {
    if path.is_empty() {
        let read = serde_json::from_value::<berth_api::NodePoolSpec>(change).unwrap_err().to_string();
        assert!(read.contains("\"1d\" is not a duration"), "{read}");
        return;
    }
    assert_eq!(paths(&node_pool(&json!({ "spec": change }))), [path]);
}

#[rstest]
#[case("0 9 * * mon-fri", true)]
#[case("*/5 0-8,17-23 1 JAN ?", true)]
#[case("@midnight", true)]
#[case("0 9 * *", false)]
#[case("0 9 * * * *", false)]
#[case("60 9 * * *", false)]
#[case("0 24 * * *", false)]
#[case("0 9 0 * *", false)]
#[case("0 9 * 13 *", false)]
#[case("0 9 * * 7", false)]
#[case("0 9 * * fri-mon", false)]
#[case("*/0 * * * *", false)]
#[case("TZ=UTC 0 9 * * *", false)]
#[case("@every 1h", false)]
#[case("", false)]
fn schedules_are_five_cron_fields_in_utc(#[case] schedule: &str, #[case] is_good: bool) {
    let change = json!({ "spec": { "disruption": { "budgets": [{ "schedule": schedule, "duration": "8h" }] } } });
    let errors = node_pool(&change);
    let expected: &[&str] = if is_good { &[] } else { &["spec.disruption.budgets[0].schedule"] };
    assert_eq!(paths(&errors), expected, "{errors:?}");
}

#[rstest]
#[case("8h", true)]
#[case("30m", true)]
#[case("1h30m0s", true)]
#[case("1m30m", false)]
#[case("1h0s0s", false)]
fn budget_durations_are_hours_and_minutes(#[case] duration: &str, #[case] is_good: bool) {
    let change = json!({ "spec": { "disruption": { "budgets": [{ "schedule": "@daily", "duration": duration }] } } });
    assert_eq!(node_pool(&change).is_empty(), is_good);
}

#[test]
fn a_hundred_thousand_labels_are_one_error() {
    let labels: serde_json::Map<String, Value> = (0..100_000).map(|n| (format!("l{n}"), json!("!"))).collect();
    let errors = node_pool(&json!({ "spec": { "template": { "metadata": { "labels": labels } } } }));
    assert_eq!(errors.len(), 1);
    assert_eq!(errors[0].cause, Cause::TooMany);
    assert_eq!(errors[0].to_string(), "spec.template.metadata.labels: has 100000 items, expected at most 100");
}

#[test]
fn a_pools_name_must_fit_a_label() {
    let name = "a".repeat(64);
    assert_eq!(paths(&node_pool(&json!({ "metadata": { "name": name } }))), ["metadata.name"]);
    assert_eq!(paths(&node_pool(&json!({ "metadata": { "name": "Default" } }))), ["metadata.name"]);
    assert_eq!(paths(&node_pool(&json!({ "metadata": { "name": null } }))), ["metadata.name"]);
}

#[test]
fn static_and_dynamic_pools_do_not_change_into_each_other() {
    let mut old = NodePool::default();
    old.spec.template.spec.node_class_ref =
        Some(berth_api::NodeClassRef { group: "berth.sh".into(), kind: "FakeNodeClass".into(), name: "a".into() });
    let mut new = old.clone();
    new.spec.replicas = Some(1);
    new.spec.template.spec.node_class_ref.as_mut().unwrap().kind = "Other".into();
    assert_eq!(paths(&new.validate_update(&old)), ["spec.replicas", "spec.template.spec.nodeClassRef.kind"]);
    assert_eq!(old.validate_update(&old.clone()), []);
}

#[rstest]
#[case(json!({ "price": "0.25" }), None)]
#[case(json!({ "price": ".25" }), Some("spec.price"))]
#[case(json!({ "price": "-1" }), Some("spec.price"))]
#[case(json!({ "price": "1e3" }), Some("spec.price"))]
#[case(json!({ "priceAdjustment": "+0.5" }), None)]
#[case(json!({ "priceAdjustment": "-.5" }), None)]
#[case(json!({ "priceAdjustment": "+150%" }), None)]
#[case(json!({ "priceAdjustment": "-100%" }), None)]
#[case(json!({ "priceAdjustment": "-99.9%" }), None)]
#[case(json!({ "priceAdjustment": "-101%" }), Some("spec.priceAdjustment"))]
#[case(json!({ "priceAdjustment": "-100.0%" }), Some("spec.priceAdjustment"))]
#[case(json!({ "priceAdjustment": "-.5%" }), Some("spec.priceAdjustment"))]
#[case(json!({ "priceAdjustment": "0.5" }), Some("spec.priceAdjustment"))]
#[case(json!({ "priceAdjustment": "+1." }), Some("spec.priceAdjustment"))]
#[case(json!({ "price": "1", "priceAdjustment": "+1" }), Some("spec.priceAdjustment"))]
#[case(json!({ "capacity": { "smarter-devices/fuse": 1 } }), None)]
#[case(json!({ "capacity": { "cpu": 1 } }), Some("spec.capacity[cpu]"))]
#[case(json!({ "capacity": { "a": -1 } }), Some("spec.capacity[a]"))]
#[case(json!({ "weight": 10000 }), None)]
#[case(json!({ "weight": 10001 }), Some("spec.weight"))]
#[case(json!({ "requirements": [{ "key": "team", "operator": "NotIn" }] }), Some("spec.requirements[0].values"))]
#[case(json!({ "requirements": [{ "key": "kubernetes.io/hostname", "operator": "Exists" }] }),
    Some("spec.requirements[0].key"))]
fn node_overlays(#[case] change: Value, #[case] wrong: Option<&str>) {
    assert_eq!(paths(&node_overlay(&change)), wrong.into_iter().collect::<Vec<_>>());
}

#[rstest]
#[case(json!({ "ttl": "0" }), None)]
#[case(json!({ "ttl": "1h", "expires": "2030-01-01T00:00:00Z" }), None)]
#[case(json!({ "owners": [{ "labelSelector": { "matchLabels": { "app": "demo" } } }] }), None)]
#[case(json!({ "owners": [] }), Some("spec.owners"))]
#[case(json!({ "owners": [{}] }), Some("spec.owners[0]"))]
#[case(json!({ "owners": [{ "controller": { "apiVersion": "v1", "kind": "A", "name": "a" } }] }),
    Some("spec.owners[0].controller.uid"))]
#[case(json!({ "ttl": "-1h" }), Some("spec.ttl"))]
#[case(json!({ "taints": [{ "key": "a", "effect": "No" }] }), Some("spec.taints[0].effect"))]
#[case(json!({ "template": { "spec": null } }), Some("spec.template.spec"))]
fn reservations(#[case] change: Value, #[case] wrong: Option<&str>) {
    assert_eq!(paths(&reservation(&change)), wrong.into_iter().collect::<Vec<_>>());
}

#[test]
fn node_claims_are_immutable_and_may_not_ask_for_less_than_nothing() {
    let claim: NodeClaim = serde_json::from_value(json!({
        "metadata": { "generateName": "default-" },
        "spec": { "requirements": [{ "key": "karpenter.sh/nodepool", "operator": "In", "values": ["default"] }],
                  "resources": { "requests": { "cpu": "-1" } } },
    }))
    .unwrap();
    assert_eq!(paths(&claim.validate()), ["spec.resources.requests[cpu]"]);
    let mut changed = claim.clone();
    changed.spec.resources.requests.clear();
    assert_eq!(paths(&changed.validate_update(&claim)), ["spec"]);
}

#[test]
fn fake_node_classes_name_each_zone_once() {
    let class: FakeNodeClass = serde_json::from_value(json!({
        "metadata": { "name": "default" },
        "spec": {
            "zones": ["zone-a", "zone-a"], "unreachableZones": ["zone-a", "b c"], "registrationDelay": "1.5s", "instanceTypes": { "namespace": "", "name": "c" },
            "image": "a b",
        },
    }))
    .unwrap();
    assert_eq!(
        paths(&class.validate()),
        [
            "spec.instanceTypes.namespace",
            "spec.zones[1]",
            "spec.unreachableZones[1]",
            "spec.registrationDelay",
            "spec.image"
        ]
    );
}

#[test]
fn fake_capacity_reservations_hold_known_numbers_of_named_types() {
    let spec = |spec: Value| {
        let object = json!({ "metadata": { "name": "cr-1" }, "spec": spec });
        serde_json::from_value::<FakeCapacityReservation>(object).unwrap()
    };
    let good = spec(json!({ "instanceTypes": ["m5.large"], "zones": ["zone-a"], "count": 3 }));
    assert_eq!((good.validate(), good.id()), (vec![], "cr-1"));
    let bad = spec(json!({
        "id": "", "instanceTypes": ["m5.large", "m5.large"], "zones": ["-"], "count": -1, "usedByOthers": 1_000_001,
        "start": "2026-01-02T00:00:00Z", "end": "2026-01-01T00:00:00Z",
    }));
    assert_eq!(
        paths(&bad.validate()),
        ["spec.id", "spec.instanceTypes[1]", "spec.zones[0]", "spec.count", "spec.usedByOthers", "spec.end"]
    );
    assert_eq!(paths(&spec(json!({ "count": 0 })).validate()), ["spec.instanceTypes"]);
}
