//! Which labels pods of workloads have beside those of their template.

use berth_model::Cluster;
use rstest::rstest;
use serde_json::{Value, json};

use super::{convert, mk, mk_pod, mk_workload, owned_by, with};

fn asks(selector: Value) -> Value {
    let term = json!({"topologyKey": "kubernetes.io/hostname", "labelSelector": selector});
    let terms = json!({"requiredDuringSchedulingIgnoredDuringExecution": [term]});
    mk_pod("asks", json!({"affinity": {"podAntiAffinity": terms}}))
}

fn with_key(key: &str) -> Value {
    json!({"matchExpressions": [{"key": key, "operator": "Exists"}]})
}

/// By row of pods that are pending, the value of a label and how many they are.
fn values(cluster: &Cluster, key: &str) -> Vec<(Option<String>, u32)> {
    let value = |labels| {
        let value = cluster.labels(labels)?.get(cluster.symbols.get(key)?)?;
        Some(cluster.symbols.text(value).to_owned())
    };
    let rows = cluster.pending.iter().filter(|row| row.members.iter().all(|run| &*run.name != "asks"));
    rows.map(|row| (value(row.labels), row.members.iter().map(berth_model::MemberRun::len).sum())).collect()
}

#[rstest]
#[case("Job", "job-name", "w")]
#[case("Job", "batch.kubernetes.io/job-name", "w")]
#[case("Job", "controller-uid", "default/w")]
#[case("Job", "batch.kubernetes.io/controller-uid", "default/w")]
#[case("Deployment", "pod-template-hash", "default/w")]
#[case("StatefulSet", "controller-revision-hash", "default/w")]
fn pods_have_the_labels_of_their_controller_that_somebody_asks_for(
    #[case] kind: &str,
    #[case] key: &str,
    #[case] value: &str,
) {
    let size = if kind == "Job" { json!({"parallelism": 3}) } else { json!({"replicas": 3}) };
    let cluster = convert([mk_workload(kind, "w", size.clone()), asks(with_key(key))]).cluster;
    assert_eq!(values(&cluster, key), [(Some(value.to_owned()), 3)]);
    // Pods that nobody tells apart are alike. Default spreading tells them apart where their selectors differ.
    let labels = json!({"app": "x"});
    let shared = json!({"spec": {"selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels}}}});
    let two = ["v", "w"].map(|name| with(mk_workload(kind, name, size.clone()), shared.clone()));
    let cluster = convert(two).cluster;
    assert_eq!(values(&cluster, key), [(None, 6)]);
}

#[rstest]
#[case("statefulset.kubernetes.io/pod-name", "w-1")]
#[case("apps.kubernetes.io/pod-index", "1")]
fn pods_of_a_stateful_set_have_the_name_and_ordinal_that_somebody_asks_for(#[case] key: &str, #[case] value: &str) {
    let set = || mk_workload("StatefulSet", "w", json!({"replicas": 1_000_000}));
    let cluster = convert([set(), asks(json!({"matchLabels": {key: value}}))]).cluster;
    let mut found = values(&cluster, key);
    found.sort();
    let mut expected = [(Some(value.to_owned()), 1), (Some("other".to_owned()), 999_999)];
    expected.sort();
    assert_eq!(found, expected);
}

#[rstest]
#[case(asks(json!({"matchLabels": {"app": "w"}})))]
#[case(asks(json!({"matchLabels": {"controller-revision-hash": "another"}})))]
#[case(asks(json!({"matchLabels": {"statefulset.kubernetes.io/pod-name": "other-0"}})))]
#[case(mk("Service", "s", json!({"spec": {"selector": {"app": "w"}}})))]
fn pods_of_a_stateful_set_stay_one_class_where_nobody_selects_one_of_them(#[case] object: Value) {
    let set = mk_workload("StatefulSet", "w", json!({"replicas": 10_000}));
    let cluster = convert([set, object]).cluster;
    let rows = values(&cluster, "app");
    assert_eq!(rows, [(Some("w".to_owned()), 10_000)]);
}

#[test]
fn each_pod_is_told_apart_where_it_asks_for_its_own_index() {
    let key = "batch.kubernetes.io/job-completion-index";
    let spread = json!([{"topologyKey": "kubernetes.io/hostname", "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {}, "matchLabelKeys": [key]}]);
    let spec = json!({"parallelism": 2, "completions": 3, "completionMode": "Indexed",
        "template": {"spec": {"topologySpreadConstraints": spread}}});
    let job = with(mk_workload("Job", "w", spec), json!({"status": {"succeeded": 1}}));
    let cluster = convert([job]).cluster;
    assert_eq!(values(&cluster, key), [(Some("1".to_owned()), 1), (Some("2".to_owned()), 1)]);
}

#[test]
fn a_job_whose_selector_is_chosen_by_hand_labels_no_pods() {
    let job = mk_workload("Job", "w", json!({"manualSelector": true}));
    let cluster = convert([job, asks(with_key("job-name"))]).cluster;
    assert_eq!(values(&cluster, "job-name"), [(None, 1)]);
}

#[test]
fn a_budget_and_a_reservation_select_by_labels_of_controllers() {
    let job = || mk_workload("Job", "w", json!({}));
    let owners = json!([{"labelSelector": {"matchLabels": {"job-name": "w"}}}]);
    let reservation =
        mk("Reservation", "r", json!({"spec": {"owners": owners, "template": {"spec": {"containers": []}}}}));
    let cluster = convert([job(), reservation]).cluster;
    let owns = |row: &berth_model::PendingRow| !cluster.specs[row.spec.index()].reservation.owner_of.is_empty();
    assert!(cluster.pending.iter().any(owns));
}

#[test]
fn a_new_pod_has_the_template_hash_of_those_that_run() {
    let labels = |hash: &str| json!({"metadata": {"labels": {"app": "w", "pod-template-hash": hash}}});
    let pod = |hash: &str, created: &str| {
        let pod = with(mk_pod(&format!("w-{hash}-x"), json!({"nodeName": "n"})), labels(hash));
        let pod = with(pod, json!({"metadata": {"creationTimestamp": created}}));
        with(pod, owned_by("ReplicaSet", &format!("w-{hash}"), ""))
    };
    let objects = [
        mk_workload("Deployment", "w", json!({"replicas": 3})),
        super::mk_node("n", json!({})),
        pod("new", "2026-01-02T00:00:00Z"),
        pod("old", "2026-01-01T00:00:00Z"),
        asks(with_key("pod-template-hash")),
    ];
    assert_eq!(values(&convert(objects).cluster, "pod-template-hash"), [(Some("new".to_owned()), 1)]);
}
