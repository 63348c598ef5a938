//! How many pods a workload stands for.

use rstest::rstest;
use serde_json::{Value, json};

use super::{add, convert, mk, mk_workload, pending, with};
use crate::{Builder, Options};

#[rstest]
#[case("Deployment", json!({}), json!({}), &["default/w-0..0"])]
#[case("Deployment", json!({"replicas": 3}), json!({}), &["default/w-0..2"])]
#[case("Deployment", json!({"replicas": 0}), json!({}), &[])]
#[case("ReplicaSet", json!({"replicas": 2}), json!({}), &["default/w-0..1"])]
#[case("ReplicationController", json!({"replicas": 2, "selector": null}), json!({}), &["default/w-0..1"])]
#[case("StatefulSet", json!({"replicas": 2, "ordinals": {"start": 5}}), json!({}), &["default/w-5..6"])]
#[case("Job", json!({}), json!({}), &["default/w-0..0"])]
#[case("Job", json!({"parallelism": 4}), json!({}), &["default/w-0..3"])]
#[case("Job", json!({"parallelism": 4, "completions": 10}), json!({}), &["default/w-0..3"])]
#[case("Job", json!({"parallelism": 4, "completions": 10}), json!({"succeeded": 8}), &["default/w-0..1"])]
#[case("Job", json!({"parallelism": 4}), json!({"succeeded": 1}), &[])]
#[case("Job", json!({"suspend": true}), json!({}), &[])]
#[case("Job", json!({}), json!({"conditions": [{"type": "Failed", "status": "True"}]}), &[])]
fn a_workload_wants_so_many_pods(
    #[case] kind: &str,
    #[case] spec: Value,
    #[case] status: Value,
    #[case] expected: &[&str],
) {
    let object = with(mk_workload(kind, "w", spec), json!({"status": status}));
    assert_eq!(pending(&convert([object]).cluster), expected);
}

fn cron_job(spec: Value) -> Value {
    let job = mk_workload("Job", "x", json!({"parallelism": 2}))["spec"].clone();
    mk(
        "CronJob",
        "c",
        json!({"metadata": {"uid": "u1"}, "spec": with(json!({"schedule": "* * * * *", "jobTemplate": {"spec": job}}), spec)}),
    )
}

#[test]
fn a_cron_job_is_one_run_unless_it_is_suspended_or_running() {
    assert_eq!(pending(&convert([cron_job(json!({}))]).cluster), ["default/c-0..1"]);
    assert!(convert([cron_job(json!({"suspend": true}))]).cluster.pending.is_empty());
    let run = |status: Value| {
        with(
            mk_workload("Job", "c-1", json!({"completions": 1})),
            with(super::owned_by("CronJob", "c", "u1"), json!({"status": status})),
        )
    };
    assert_eq!(pending(&convert([run(json!({})), cron_job(json!({}))]).cluster), ["default/c-1-0..0"]);
    let finished = json!({"completionTime": "2026-01-01T00:00:00Z"});
    assert_eq!(pending(&convert([run(finished), cron_job(json!({}))]).cluster), ["default/c-0..1"]);
}

#[test]
fn daemons_are_overhead_and_tolerate_what_their_controller_lets_them() {
    let cluster = convert([mk_workload("DaemonSet", "d", json!({}))]).cluster;
    assert!(cluster.pending.is_empty());
    assert_eq!(cluster.daemons[0].name, "default/d");
    assert_eq!(cluster.specs[cluster.daemons[0].spec.index()].tolerations.len(), 6);
}

#[rstest]
#[case("Deployment", 242)]
#[case("StatefulSet", 52)]
#[case("Job", 63)]
fn a_name_that_leaves_no_room_for_what_the_controller_makes_is_told(#[case] kind: &str, #[case] most: usize) {
    let warned = |kind: &str, length: usize| -> Vec<String> {
        let warnings = convert([mk_workload(kind, &"w".repeat(length), json!({}))]).warnings;
        warnings.into_iter().filter(|warning| warning.contains("run none of its pods")).collect()
    };
    assert!(warned(kind, most).is_empty(), "{:?}", warned(kind, most));
    let long = warned(kind, most + 1);
    let told = format!("the name has {} characters", most + 1);
    assert!(long.len() == 1 && long[0].contains(&told), "{long:?}");
    // Pods' names are cut, so ReplicaSets may have any name.
    assert!(warned("ReplicaSet", 253).is_empty());
}

#[test]
fn a_workload_being_deleted_wants_nothing() {
    let going = json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}});
    assert!(convert([with(mk_workload("Deployment", "w", json!({})), going)]).cluster.pending.is_empty());
}

#[test]
fn an_error_in_a_template_names_its_place() {
    let bad = json!({"template": {"spec": {"tolerations": [{"effect": "Never"}]}}});
    let error = add(&mut Builder::new(Options::default()), mk_workload("Deployment", "w", bad)).unwrap_err();
    assert_eq!(error.name(), "default/w");
    assert_eq!(error.problems()[0].path, "spec.template.spec.tolerations[0].effect");
}

#[test]
fn namespaces_keep_their_labels_and_name() {
    let cluster = convert([mk("Namespace", "team", json!({"metadata": {"labels": {"tier": "gold"}}}))]).cluster;
    let labels = &cluster.namespaces[0].labels;
    let get = |key: &str| labels.get(cluster.symbols.get(key).unwrap()).map(|value| cluster.symbols.text(value));
    assert_eq!((get("tier"), get("kubernetes.io/metadata.name")), (Some("gold"), Some("team")));
}

fn owned_set(name: &str, owner: &str) -> Value {
    let set = with(mk_workload("ReplicaSet", name, json!({"replicas": 2})), json!({"metadata": {"uid": name}}));
    with(set, super::owned_by("ReplicaSet", owner, owner))
}

#[test]
fn replica_sets_that_own_each_other_yield_their_pods_with_a_warning() {
    let converted = convert([owned_set("a", "b"), owned_set("b", "a"), owned_set("self", "self"), owned_set("c", "a")]);
    assert_eq!(pending(&converted.cluster), ["default/a-0..1", "default/b-0..1", "default/self-0..1"]);
    for name in ["a", "b", "self"] {
        let warning = format!("ReplicaSet default/{name}: its owner references lead back to itself");
        assert!(converted.warnings.iter().any(|known| known.starts_with(&warning)), "{:?}", converted.warnings);
    }
}

#[test]
fn pods_of_replica_sets_that_own_each_other_are_subtracted() {
    let pod = |name: &str, owner: &str| {
        with(
            mk("Pod", name, json!({"spec": {"containers": [{"name": "c"}]}})),
            super::owned_by("ReplicaSet", owner, owner),
        )
    };
    let cluster = convert([owned_set("a", "b"), owned_set("b", "a"), pod("a-x", "a")]).cluster;
    assert_eq!(pending(&cluster), ["default/a-x", "default/a-0..0", "default/b-0..1"]);
}

#[test]
fn more_pods_than_are_counted_are_refused_at_the_object_that_has_them() {
    let most = i32::MAX;
    let deployment = |name: &str| mk_workload("Deployment", name, json!({"replicas": most}));
    let mut builder = Builder::new(Options::default());
    add(&mut builder, deployment("a")).unwrap();
    add(&mut builder, deployment("b")).unwrap();
    let error = add(&mut builder, deployment("c")).unwrap_err();
    assert_eq!((error.name(), error.problems()[0].path.as_str()), ("default/c", "spec.replicas"));
    let cluster = builder.finish().unwrap().cluster;
    let counted: u64 = cluster.pending.iter().flat_map(|row| &row.members).map(|run| u64::from(run.len())).sum();
    assert_eq!(counted, 2 * 2_147_483_647);
}

#[test]
fn pods_with_claims_of_their_own_are_refused_beyond_what_is_looked_at_one_by_one() {
    let claims = json!([{"metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteOnce"]}}]);
    let set = mk_workload("StatefulSet", "db", json!({"replicas": i32::MAX, "volumeClaimTemplates": claims}));
    let error = add(&mut Builder::new(Options::default()), set).unwrap_err();
    assert_eq!(error.problems()[0].path, "spec.replicas");
}

#[test]
fn two_billion_pods_of_which_a_reservation_names_one_take_three_runs() {
    let reservation = mk(
        "Reservation",
        "r",
        json!({"spec": {"owners": [{"object": {"name": "w-1000000000"}}], "template": {"spec": {"containers": []}}}}),
    );
    let cluster = convert([reservation, mk_workload("Deployment", "w", json!({"replicas": i32::MAX}))]).cluster;
    let mut runs = pending(&cluster);
    runs.retain(|run| run.contains("/w-"));
    runs.sort();
    let expected = ["default/w-0..999999999", "default/w-1000000000..1000000000", "default/w-1000000001..2147483646"];
    assert_eq!(runs, expected);
}

fn daemon_pod(name: &str, node: &str, cpu: &str, created: &str) -> Value {
    let affinity = json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
        {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}]}}});
    let containers = json!([{"name": "c", "resources": {"requests": {"cpu": cpu}}}]);
    let pod = super::mk_pod(name, json!({"nodeName": node, "affinity": affinity, "containers": containers}));
    with(with(pod, super::owned_by("DaemonSet", "agent", "u1")), json!({"metadata": {"creationTimestamp": created}}))
}

#[test]
fn a_daemon_set_that_is_not_given_is_overhead_of_new_nodes_as_its_newest_pod() {
    let objects = || {
        [
            super::mk_node("a", json!({})),
            super::mk_node("b", json!({})),
            daemon_pod("agent-1", "a", "1", "2026-01-02T00:00:00Z"),
            daemon_pod("agent-2", "elsewhere", "2", "2026-01-01T00:00:00Z"),
        ]
    };
    let converted = convert(objects());
    let cluster = &converted.cluster;
    let names: Vec<&str> = cluster.daemons.iter().map(|daemon| daemon.name.as_str()).collect();
    assert_eq!(names, ["default/agent"]);
    let spec = &cluster.specs[cluster.daemons[0].spec.index()];
    assert_eq!(super::amount(&spec.requests, "cpu", cluster), 1000);
    assert!(spec.required_terms.is_empty(), "the node's name is no wish of the template");
    // Where no pod of it runs, none is to come.
    let free = |name: &str| super::amount(&super::node(cluster, name).free, "cpu", cluster);
    assert_eq!((free("a"), free("b")), (3000, 4000));
    let told = converted.warnings.iter().filter(|warning| warning.contains("DaemonSet default/agent"));
    assert_eq!(told.count(), 1, "{:?}", converted.warnings);
    // The DaemonSet itself counts where it is given.
    let given = mk_workload("DaemonSet", "agent", json!({}));
    let converted = convert(objects().into_iter().chain([given]));
    assert_eq!(converted.cluster.daemons.len(), 1);
    assert!(!converted.warnings.iter().any(|warning| warning.contains("DaemonSet")), "{:?}", converted.warnings);
}

fn going_namespace() -> Value {
    mk("Namespace", "default", json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}))
}

#[test]
fn nothing_is_created_in_a_namespace_that_is_being_deleted() {
    let existing = with(super::mk_pod("there", json!({})), json!({"metadata": {"uid": "u"}}));
    let objects =
        [going_namespace(), mk_workload("Deployment", "w", json!({})), super::mk_pod("new", json!({})), existing];
    let converted = convert(objects);
    assert_eq!(pending(&converted.cluster), ["default/there"]);
    for whose in ["Deployment default/w: its namespace is being deleted", "Pod default/new: would not be created"] {
        assert!(converted.warnings.iter().any(|known| known.starts_with(whose)), "{:?}", converted.warnings);
    }
}

#[rstest]
#[case("Deployment")]
#[case("Job")]
#[case("StatefulSet")]
fn nothing_is_launched_for_pods_that_are_bound_to_a_node_that_is_not_there(#[case] kind: &str) {
    let workload = || mk_workload(kind, "w", json!({"template": {"spec": {"nodeName": "n"}}}));
    let converted = convert([workload()]);
    assert!(converted.cluster.pending.is_empty());
    let told = format!("{kind} default/w: its template names the node n, which is not in the input");
    assert!(converted.warnings.iter().any(|known| known.starts_with(&told)), "{:?}", converted.warnings);
    // On a node that is there they are planned, and nowhere else.
    let cluster = convert([workload(), super::mk_node("n", json!({}))]).cluster;
    assert_eq!(pending(&cluster), ["default/w-0..0"]);
    let term = super::first_spec(&cluster).required_terms[0].get(cluster.well_known.field_name).unwrap();
    assert_eq!(term.single(), cluster.symbols.get("n"));
}
