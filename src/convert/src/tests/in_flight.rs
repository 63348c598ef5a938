//! NodeClaims that are not launched yet.

use berth_model::{Operator, Requirement, Requirements};
use serde_json::{Value, json};

use super::nodes::pool;
use super::{add, amount, mk, node, with};
use crate::{Builder, Converted, Options};

/// Two types in two zones, one of them reserved.
fn two_types() -> Value {
    let offering = |zone: &str, capacity_type: &str| {
        json!({"Price": 0.1, "Requirements": [
            {"key": "topology.kubernetes.io/zone", "operator": "In", "values": [zone]},
            {"key": "karpenter.sh/capacity-type", "operator": "In", "values": [capacity_type]},
        ]})
    };
    let mut reserved = offering("a", "reserved");
    reserved["ReservationCapacity"] = 1.into();
    reserved["Requirements"]
        .as_array_mut()
        .unwrap()
        .push(json!({"key": "berth.sh/capacity-reservation-id", "operator": "In", "values": ["cr-1"]}));
    json!([
        {"name": "small", "architecture": "amd64", "operatingSystems": ["linux"],
         "resources": {"cpu": "4", "memory": "8Gi", "pods": "10"}, "offerings": [offering("a", "on-demand")]},
        {"name": "large", "architecture": "amd64", "operatingSystems": ["linux"],
         "resources": {"cpu": "8", "memory": "4Gi", "pods": "10"},
         "offerings": [offering("a", "on-demand"), offering("b", "on-demand"), reserved]},
    ])
}

fn in_flight(claim: Value) -> Converted {
    let mut builder = Builder::new(Options::default());
    let catalogue = serde_json::to_vec(&two_types()).unwrap();
    builder.set_catalogue(&berth_catalogue::read(&catalogue, "catalogue").unwrap()).unwrap();
    for object in [pool("general"), claim] {
        add(&mut builder, object).unwrap();
    }
    builder.finish().unwrap()
}

fn unlaunched(requirements: Value, annotations: Value) -> Value {
    let metadata = json!({"labels": {"karpenter.sh/nodepool": "general"}, "annotations": annotations});
    mk("NodeClaim", "asked", json!({"metadata": metadata, "spec": {"requirements": requirements}}))
}

#[test]
fn a_claim_that_is_not_launched_is_what_all_of_its_types_have() {
    let types = json!([{"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["small", "large"]},
        {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]}]);
    let converted = in_flight(unlaunched(types, json!({})));
    let cluster = &converted.cluster;
    let asked = node(cluster, "asked");
    assert!(asked.is_coming_up);
    assert_eq!((amount(&asked.free, "cpu", cluster), amount(&asked.free, "memory", cluster)), (4000, 4 << 30));
    // Limits count the most that it may be.
    assert_eq!((amount(&asked.capacity, "cpu", cluster), cluster.node_pools[0].nodes), (8000, 1));
    assert_eq!(cluster.slots[0].free, 1, "it takes no slot");
    // Where it will be is open: a pod that must be in one zone does not fit it, one that may be in either does.
    let (zone, value) = (cluster.well_known.zone, |text: &str| cluster.symbols.get(text).unwrap());
    let satisfies = |asked_of: Requirement| {
        let mut requirements = Requirements::new();
        requirements.add(zone, asked_of, &cluster.symbols);
        asked.satisfies(&requirements, &cluster.symbols, |key| asked.labels.get(key))
    };
    assert_eq!(asked.labels.get(zone), None);
    assert!(!satisfies(Requirement::value(value("a"))));
    assert!(satisfies(Requirement::one_of([value("a"), value("b")])));
    assert!(!satisfies(Requirement::new(Operator::NotIn, [value("b")], &cluster.symbols)), "it may be in b");
}

#[test]
fn a_claim_that_is_not_launched_takes_the_slot_that_it_is_pinned_to() {
    let pinned = json!([{"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["reserved"]},
        {"key": "berth.sh/capacity-reservation-id", "operator": "In", "values": ["cr-1"]}]);
    let planned = json!({"berth.sh/planned-offering":
        r#"{"instanceType":"large","zone":"a","capacityType":"reserved","reservationID":"cr-1"}"#});
    for claim in [unlaunched(pinned, json!({})), unlaunched(json!([]), planned)] {
        let cluster = in_flight(claim.clone()).cluster;
        assert_eq!(cluster.slots[0].free, 0, "{claim}");
        assert_eq!(amount(&node(&cluster, "asked").free, "cpu", &cluster), 8000);
        // One that is going away before it was launched takes none, and is no capacity.
        let going = with(claim, json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}));
        let cluster = in_flight(going).cluster;
        assert_eq!((cluster.slots[0].free, cluster.nodes.len()), (1, 0));
    }
}

#[test]
fn a_claim_whose_types_are_not_known_counts_with_what_it_requests() {
    let mut claim = unlaunched(
        json!([{"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["no-such"]}]),
        json!({}),
    );
    claim["spec"]["resources"] = json!({"requests": {"cpu": "3", "pods": "4"}});
    let converted = in_flight(claim);
    assert_eq!(amount(&node(&converted.cluster, "asked").free, "cpu", &converted.cluster), 3000);
    assert!(
        converted.warnings.iter().any(|w| w.contains("it counts with what it requests")),
        "{:?}",
        converted.warnings
    );
}

#[test]
fn an_error_in_a_planned_offering_names_the_annotation() {
    let claim = unlaunched(json!([]), json!({"berth.sh/planned-offering": "m5.large"}));
    let error = add(&mut Builder::new(Options::default()), claim).unwrap_err();
    assert!(error.to_string().contains("berth.sh/planned-offering"), "{error}");
}
