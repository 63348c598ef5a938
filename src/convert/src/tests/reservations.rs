//! Koordinator's Reservations.

use berth_model::ReservationId;
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
    let labels = &cluster.label_sets[row.labels.index()];
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
#[case::succeeded(json!({"status": {"phase": "Succeeded"}}))]
#[case::failed(json!({"status": {"phase": "Failed"}}))]
#[case::deleting(json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}))]
fn nothing_is_launched_for(#[case] patch: Value) {
    assert!(convert([reservation(patch)]).cluster.pending.is_empty());
}

#[rstest]
#[case::expires_alone_decides(json!({"spec": {"expires": "2026-01-02T00:00:00Z", "ttl": "1h"}}), true)]
#[case::it_has_expired(json!({"spec": {"expires": "2020-02-01T00:00:00Z", "ttl": "0s"}}), false)]
#[case::at_that_very_second_it_has_not(json!({"spec": {"expires": "2026-01-01T12:00:00Z"}}), true)]
#[case::within_its_ttl(json!({"spec": {"ttl": "12h"}}), true)]
#[case::past_its_ttl(json!({"spec": {"ttl": "11h"}}), false)]
#[case::zero_is_for_ever(json!({"spec": {"ttl": "0s"}}), true)]
fn a_reservation_is_over_when_its_time_is(#[case] patch: Value, #[case] counts: bool) {
    let created = json!({"metadata": {"creationTimestamp": "2026-01-01T00:00:00Z"}});
    let pending = with(reservation(patch), created);
    let status = json!({"status": {"phase": "Available", "nodeName": "n1", "allocatable": {"cpu": "2"}}});
    for object in [pending.clone(), with(pending, status)] {
        let converted = super::convert_at("2026-01-01T12:00:00Z", [object, mk_node("n1", json!({}))]);
        assert_eq!(converted.cluster.reservations.len(), usize::from(counts));
        assert_eq!(converted.cluster.nodes[0].holdings.is_empty(), !counts || !converted.cluster.pending.is_empty());
        assert_eq!(converted.warnings.iter().any(|w| w.contains("expired at")), !counts, "{:?}", converted.warnings);
    }
}

#[test]
fn a_reservation_that_is_still_to_be_made_is_made_at_the_time_of_the_plan() {
    let converted = super::convert_at("2036-01-01T00:00:00Z", [reservation(json!({"spec": {"ttl": "1s"}}))]);
    assert_eq!(converted.cluster.pending.len(), 1);
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

#[test]
fn a_pinned_reservation_is_for_its_node_alone() {
    let cluster = convert([reservation(json!({"spec": {"template": {"spec": {"nodeName": "n1"}}}}))]).cluster;
    let field = cluster.well_known.field_name;
    let pinned = first_spec(&cluster).node_selector.get(field).and_then(berth_model::Requirement::single);
    assert_eq!(pinned, cluster.symbols.get("n1"));
}

#[test]
fn reservations_alike_are_one_class_and_others_are_not() {
    let mk_named = |name: &str, patch: Value| with(reservation(patch), json!({"metadata": {"name": name}}));
    let cluster = convert([
        mk_named("b", json!({})),
        mk_named("a", json!({"metadata": {"uid": "u", "creationTimestamp": "2026-01-01T00:00:00Z"}})),
        mk_named("c", json!({"spec": {"allocateOnce": false}})),
        mk_named("d", json!({"spec": {"owners": [{"object": {"name": "x"}}]}})),
    ])
    .cluster;
    let names: Vec<&str> = cluster.reservations.iter().map(|r| cluster.symbols.text(r.name)).collect();
    assert_eq!(names, ["a", "b", "c", "d"]);
    let members: Vec<usize> = cluster.pending.iter().map(|row| row.members.len()).collect();
    assert_eq!(members, [2, 1, 1]);
}

#[test]
fn everything_that_a_reservation_says_is_read() {
    let patch = json!({
        "metadata": {"uid": "u-1", "creationTimestamp": "1970-01-01T00:01:40Z",
            "labels": {"scheduling.koordinator.sh/reservation-order": "7"},
            "annotations": {
                "node.koordinator.sh/reservation": r#"{"resources":{"cpu":"1"}}"#,
                "scheduling.koordinator.sh/reservation-restricted-options": r#"{"resources":["cpu"]}"#,
                "scheduling.koordinator.sh/reservation-resize-allocatable": r#"{"resources":{"cpu":"3"}}"#}},
        "spec": {"allocateOnce": false, "allocatePolicy": "Restricted", "unschedulable": true,
            "taints": [{"key": "team", "value": "a", "effect": "NoSchedule"}],
            "template": {"spec": {"containers": [{"name": "c",
                "ports": [{"containerPort": 80, "hostPort": 8080}],
                "resources": {"requests": {"cpu": "2", "memory": "4Gi", "pods": "5"}}}]}}}});
    let cluster = convert([reservation(patch)]).cluster;
    let read = &cluster.reservations[0];
    let get = |resources: &berth_model::Resources, name: &str| amount(resources, name, &cluster);
    assert_eq!((get(&read.allocatable, "cpu"), get(&read.allocatable, "memory")), (3000, 4 << 30));
    assert_eq!((get(&read.allocatable, "pods"), get(&read.kept, "cpu")), (5, 1000));
    assert_eq!(read.restricted, [berth_model::ResourceId::CPU]);
    assert_eq!((read.order, read.created, read.is_unschedulable), (Some(7), Some(100), true));
    assert_eq!((read.policy, read.allocate_once), (berth_model::AllocatePolicy::Restricted, false));
    assert_eq!((read.taints.len(), read.host_ports.len()), (1, 1));
    assert_eq!(get(&first_spec(&cluster).requests, "pods"), 5);
}

/// The Reservations by name that each pending row of pods is an owner of, with its members.
fn owners(objects: impl IntoIterator<Item = Value>) -> Vec<(String, Vec<String>)> {
    let cluster = convert(objects).cluster;
    let name = |&index: &ReservationId| cluster.symbols.text(cluster.reservations[index.index()].name).to_owned();
    let mut rows = Vec::new();
    for row in cluster.pending.iter().filter(|row| row.kind == berth_model::MemberKind::Pod) {
        let owner_of: Vec<String> = cluster.specs[row.spec.index()].reservation.owner_of.iter().map(name).collect();
        for run in &row.members {
            let (first, count) = run.numbers.unwrap_or_default();
            rows.push((format!("{} {first}+{count}", run.name), owner_of.clone()));
        }
    }
    rows.sort();
    rows
}

fn room(name: &str, owners: Value) -> Value {
    with(reservation(json!({"spec": {"owners": owners}})), json!({"metadata": {"name": name}}))
}

#[test]
fn pods_are_owners_by_label_name_and_controller() {
    let web = super::mk_workload("Deployment", "web", json!({"replicas": 3}));
    let rows = owners([
        web,
        super::mk_pod("lone", json!({})),
        room("by-label", json!([{"labelSelector": {"matchLabels": {"app": "web"}}}])),
        room("by-name", json!([{"object": {"name": "lone", "namespace": "default"}}])),
        room("of-another-namespace", json!([{"object": {"name": "lone", "namespace": "team"}}])),
        room("of-one-member", json!([{"object": {"name": "web-1"}}])),
        room(
            "of-controller",
            json!([{"controller": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "uid": "u"}}]),
        ),
    ]);
    let named = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    let expected = [
        ("lone 0+0".to_owned(), named(&["by-name"])),
        ("web 0+1".to_owned(), named(&["by-label", "of-controller"])),
        ("web 1+1".to_owned(), named(&["by-label", "of-controller", "of-one-member"])),
        ("web 2+1".to_owned(), named(&["by-label", "of-controller"])),
    ];
    assert_eq!(rows, expected);
}

#[rstest]
#[case::any("", None, 0, 0)]
#[case::by_name(r#"{"name":"r"}"#, Some("r"), 0, 0)]
#[case::by_label(r#"{"reservationSelector":{"app":"x"}}"#, None, 0, 1)]
#[case::by_terms(
    r#"{"requiredDuringSchedulingIgnoredDuringExecution":{"reservationSelectorTerms":[
    {"matchExpressions":[{"key":"a","operator":"Exists"}]},{"matchExpressions":[{"key":"b","operator":"Exists"}]}]}}"#,
    None,
    2,
    0
)]
fn reservation_affinity_is_read(
    #[case] text: &str,
    #[case] name: Option<&str>,
    #[case] terms: usize,
    #[case] selected: usize,
) {
    let note = json!({"metadata": {"annotations": {"scheduling.koordinator.sh/reservation-affinity": text}}});
    let cluster = convert([with(super::mk_pod("a", json!({})), note)]).cluster;
    let affinity = first_spec(&cluster).reservation.affinity.as_ref().unwrap();
    assert_eq!(affinity.name.map(|name| cluster.symbols.text(name)), name);
    assert_eq!((affinity.terms.len(), affinity.selector.iter().count()), (terms, selected));
}

#[rstest]
#[case::toleration(r#"{"tolerations":[{"operator":"Like"}]}"#, "tolerations[0].operator")]
#[case::term(
    r#"{"requiredDuringSchedulingIgnoredDuringExecution":{"reservationSelectorTerms":[
    {"matchExpressions":[{"key":"a","operator":"Like"}]}]}}"#,
    "requiredDuringSchedulingIgnoredDuringExecution.reservationSelectorTerms[0].matchExpressions[0].operator"
)]
fn a_mistake_in_reservation_affinity_is_named(#[case] text: &str, #[case] field: &str) {
    let key = "scheduling.koordinator.sh/reservation-affinity";
    let note = json!({"metadata": {"annotations": {key: text}}});
    let mut builder = crate::Builder::new(crate::Options::default());
    let error = super::add(&mut builder, with(super::mk_pod("a", json!({})), note)).unwrap_err().to_string();
    assert!(error.starts_with(&format!("Pod default/a: metadata.annotations[{key}]: {field}: ")), "{error}");
}

#[test]
fn owners_in_the_input_are_counted_exactly_and_once() {
    let status = json!({"status": {"phase": "Available", "nodeName": "n1", "allocatable": {"cpu": "2", "memory": "4Gi"},
        "allocated": {"cpu": "1"}, "currentOwners": [{"name": "a"}]}, "spec": {"allocateOnce": false}});
    let owner = |uid: &str| {
        let drawn = format!(r#"{{"name":"r","uid":"{uid}"}}"#);
        let requests = json!({"cpu": "1500m", "memory": "5Gi"});
        let note = json!({"metadata": {"annotations": {"scheduling.koordinator.sh/reservation-allocated": drawn}}});
        with(
            super::mk_pod(
                "a",
                json!({"nodeName": "n1", "containers": [{"name": "c", "resources": {"requests": requests}}]}),
            ),
            note,
        )
    };
    let free = |uid: &str| {
        let named = with(reservation(status.clone()), json!({"metadata": {"uid": "u-1"}}));
        let cluster = convert([named, mk_node("n1", json!({})), owner(uid)]).cluster;
        let free = &cluster.nodes[0].free;
        (amount(free, "cpu", &cluster), amount(free, "memory", &cluster) >> 30, cluster.nodes[0].pods[0].draws_from)
    };
    // 4 cores and 8 GiB: the owner has 1.5 cores and 5 GiB, of which 1 is the node's; half a core stays held.
    assert_eq!(free("u-1"), (2000, 3, Some(ReservationId(0))));
    // One that drew from a Reservation of the same name before is no owner; the status counts.
    assert_eq!(free("u-0"), (4000 - 1500 - 1000, 8 - 5 - 4, None));
}

#[test]
fn what_its_one_owner_left_is_free() {
    let status = json!({"status": {"phase": "Available", "nodeName": "n1", "allocatable": {"cpu": "2"},
        "allocated": {"cpu": "1"}, "currentOwners": [{"name": "a"}]}});
    let cluster = convert([reservation(status), mk_node("n1", json!({}))]).cluster;
    assert_eq!(amount(&cluster.nodes[0].free, "cpu", &cluster), 4000);
    assert!(cluster.nodes[0].holdings.is_empty());
}
