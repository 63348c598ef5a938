//! Koordinator's Reservations.

use rstest::rstest;
use serde_json::{Value, json};

use super::{amount, convert, first_spec, mk, mk_node, pending, with};

fn reservation(rest: Value) -> Value {
    let template = json!({"metadata": {"namespace": "team", "labels": {"app": "x"}},
        "spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "2", "memory": "4Gi"}}}]}});
    let owners = json!([{"labelSelector": {"matchLabels": {"app": "x"}}}]);
    mk("Reservation", "r", with(json!({"spec": {"template": template, "owners": owners}}), rest))
}

#[test]
fn a_pending_reservation_is_planned_under_its_name_in_its_templates_namespace() {
    let cluster = convert([reservation(json!({"metadata": {"labels": {"tier": "gold"}}}))]).cluster;
    assert_eq!(pending(&cluster), ["reservation r"]);
    let row = &cluster.pending[0];
    assert_eq!(cluster.symbols.text(row.namespace), "team");
    let labels = &cluster.label_sets[row.labels as usize];
    assert_eq!(labels.iter().count(), 2, "its own labels are over the template's");
    assert_eq!(amount(&first_spec(&cluster).requests, "cpu", &cluster), 2000);
}

#[rstest]
#[case(json!({}), i32::MAX)]
#[case(json!({"metadata": {"labels": {"koordinator.sh/priority": "42"}}}), 42)]
#[case(json!({"spec": {"template": {"spec": {"priority": 7}}}}), 7)]
fn its_priority_is_the_templates_or_the_labels_or_the_highest(#[case] patch: Value, #[case] priority: i32) {
    assert_eq!(first_spec(&convert([reservation(patch)]).cluster).priority, priority);
}

#[rstest]
#[case::pre_allocating(json!({"spec": {"preAllocation": true}}))]
#[case::pinned(json!({"spec": {"template": {"spec": {"nodeName": "n1"}}}}))]
#[case::succeeded(json!({"status": {"phase": "Succeeded"}}))]
#[case::failed(json!({"status": {"phase": "Failed"}}))]
#[case::deleting(json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}))]
fn nothing_is_launched_for(#[case] patch: Value) {
    assert!(convert([reservation(patch)]).cluster.pending.is_empty());
}

#[test]
fn unschedulable_keeps_owners_out_not_the_reservation() {
    assert_eq!(convert([reservation(json!({"spec": {"unschedulable": true}}))]).cluster.pending.len(), 1);
}

#[rstest]
#[case("Available")]
#[case("Waiting")]
fn a_placed_reservation_holds_what_its_owners_do_not_use(#[case] phase: &str) {
    let status = json!({"status": {"phase": phase, "nodeName": "n1",
        "allocatable": {"cpu": "2", "memory": "4Gi"}, "allocated": {"cpu": "500m", "memory": "5Gi"}}});
    let cluster = convert([reservation(status), mk_node("n1", json!({}))]).cluster;
    assert!(cluster.pending.is_empty());
    let free = &cluster.nodes[0].free;
    assert_eq!((amount(free, "cpu", &cluster), amount(free, "memory", &cluster)), (2500, 8 << 30));
}
