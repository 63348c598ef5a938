//! LimitRanges and ResourceQuotas, with the numbers of Kubernetes's documentation and admission plugins.

use rstest::rstest;
use serde_json::{Value, json};

use super::{amount, convert, first_spec, mk, mk_node, mk_pod, mk_workload, owned_by, pending, with};

fn limit_range(items: Value) -> Value {
    mk("LimitRange", "limits", json!({"spec": {"limits": items}}))
}

fn quota(hard: Value, rest: Value) -> Value {
    mk("ResourceQuota", "quota", with(json!({"spec": {"hard": hard}}), rest))
}

fn pod_of(resources: Value) -> Value {
    mk_pod("p", json!({"containers": [{"name": "c", "resources": resources}]}))
}

// docs: "Configure Default CPU Requests and Limits for a Namespace", and the API server's defaults of the LimitRange.
#[rstest]
#[case::nothing_is_said(json!({}), json!({"default": {"cpu": "1"}, "defaultRequest": {"cpu": "500m"}}), 500)]
#[case::only_a_limit_is(json!({"limits": {"cpu": "2"}}), json!({"default": {"cpu": "1"}, "defaultRequest": {"cpu": "500m"}}), 2000)]
#[case::a_request_is(json!({"requests": {"cpu": "750m"}}), json!({"default": {"cpu": "1"}, "defaultRequest": {"cpu": "500m"}}), 750)]
#[case::the_limit_is_the_request(json!({}), json!({"default": {"cpu": "1"}}), 1000)]
#[case::the_maximum_is_the_limit(json!({}), json!({"max": {"cpu": "800m"}, "min": {"cpu": "200m"}}), 800)]
#[case::the_minimum_is_the_request(json!({"limits": {"memory": "1Gi"}}), json!({"min": {"cpu": "200m"}}), 200)]
fn a_limit_range_sets_what_a_new_pod_leaves_out(#[case] resources: Value, #[case] item: Value, #[case] milli_cpu: i64) {
    let range = limit_range(json!([with(item, json!({"type": "Container"}))]));
    let converted = convert([pod_of(resources.clone()), range.clone()]);
    assert_eq!(amount(&first_spec(&converted.cluster).requests, "cpu", &converted.cluster), milli_cpu);
    // Whatever comes first, and for a workload alike.
    let workload = mk_workload("Deployment", "p", json!({"template": {"spec": pod_of(resources)["spec"]}}));
    let converted = convert([range, workload]);
    assert_eq!(amount(&first_spec(&converted.cluster).requests, "cpu", &converted.cluster), milli_cpu);
}

fn kata() -> Value {
    with(
        mk("RuntimeClass", "kata", json!({"handler": "kata"})),
        json!({"apiVersion": "node.k8s.io/v1", "overhead": {"podFixed": {"cpu": "250m"}}, "scheduling": {
            "nodeSelector": {"kata": "yes"}, "tolerations": [{"key": "kata", "operator": "Exists"}]}}),
    )
}

// docs: "Pod Overhead" and "Runtime Class".
#[rstest]
#[case::overhead_is_added(json!({}), 1250, None)]
#[case::the_same_overhead_is_given(json!({"overhead": {"cpu": "0.25"}}), 1250, None)]
#[case::another_overhead_is_given(json!({"overhead": {"cpu": "1"}}), 0, Some("the pod's overhead is not the one of its class"))]
#[case::another_selector_is_given(json!({"nodeSelector": {"kata": "no"}}), 0, Some("scheduling.nodeSelector[kata] is yes"))]
fn a_runtime_class_adds_to_pods_that_are_created(
    #[case] rest: Value,
    #[case] milli_cpu: i64,
    #[case] says: Option<&str>,
) {
    let spec = json!({"runtimeClassName": "kata",
        "containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]});
    let pod = mk_pod("p", with(spec, rest));
    let workload = mk_workload("Deployment", "p", json!({"template": {"spec": pod["spec"]}}));
    for objects in [[pod.clone(), kata()], [kata(), pod], [workload, kata()]] {
        let converted = convert(objects);
        assert_eq!(converted.cluster.pending.is_empty(), says.is_some(), "{:?}", converted.warnings);
        let told = converted.warnings.iter().find(|warning| warning.contains("would not be created"));
        assert_eq!(told.is_some(), says.is_some(), "{:?}", converted.warnings);
        if let Some(says) = says {
            assert!(told.unwrap().contains(&format!("RuntimeClass kata: {says}")), "{told:?}");
            continue;
        }
        let spec = first_spec(&converted.cluster);
        assert_eq!(amount(&spec.requests, "cpu", &converted.cluster), milli_cpu);
        assert!(!spec.node_selector.is_empty());
        assert_eq!(spec.tolerations.len(), 1);
    }
}

#[test]
fn a_runtime_class_that_is_not_there_is_told() {
    let spec = json!({"runtimeClassName": "gone", "containers": [{"name": "c"}]});
    let converted = convert([mk_pod("p", spec)]);
    assert_eq!(converted.cluster.pending.len(), 1);
    let expected = "no RuntimeClass with name gone was found; its pods are planned without what it adds";
    assert!(converted.warnings.iter().any(|warning| warning == expected), "{:?}", converted.warnings);
}

#[test]
fn a_pod_that_exists_and_one_of_another_namespace_are_left_alone() {
    let range = limit_range(json!([{"type": "Container", "default": {"cpu": "1"}}]));
    let known = with(pod_of(json!({})), json!({"metadata": {"uid": "u", "creationTimestamp": "2026-01-01T00:00:00Z"}}));
    let elsewhere = with(pod_of(json!({})), json!({"metadata": {"namespace": "other"}}));
    for pod in [known, elsewhere] {
        let converted = convert([pod, range.clone()]);
        assert_eq!(amount(&first_spec(&converted.cluster).requests, "cpu", &converted.cluster), 0);
    }
}

#[rstest]
#[case::too_much(json!({"limits": {"cpu": "4"}}), json!({"type": "Container", "max": {"cpu": "2"}}), Some("maximum cpu usage per Container is 2, but the limit is more"))]
#[case::too_little(json!({"requests": {"cpu": "1m"}, "limits": {"cpu": "1"}}), json!({"type": "Container", "min": {"cpu": "2m"}}), Some("minimum cpu usage per Container is 2m, but the request is less"))]
#[case::exactly_as_much(json!({"limits": {"cpu": "2"}}), json!({"type": "Container", "max": {"cpu": "2"}, "min": {"cpu": "2"}}), None)]
#[case::the_pod_has_no_limit(json!({"requests": {"cpu": "1"}}), json!({"type": "Pod", "max": {"cpu": "2"}}), Some("maximum cpu usage per Pod is 2, but no limit is specified"))]
#[case::the_ratio_is_more(json!({"requests": {"cpu": "1"}, "limits": {"cpu": "3"}}), json!({"type": "Container", "maxLimitRequestRatio": {"cpu": "2"}}), Some("cpu max limit to request ratio per Container is 2"))]
#[case::the_ratio_is_as_much(json!({"requests": {"cpu": "1"}, "limits": {"cpu": "2"}}), json!({"type": "Container", "maxLimitRequestRatio": {"cpu": "2"}}), None)]
#[case::the_default_limit_is_less(json!({"requests": {"cpu": "1"}}), json!({"type": "Container", "default": {"cpu": "500m"}}), Some("default cpu limit 500m is less than the request 1"))]
fn a_limit_range_keeps_new_pods_out(#[case] resources: Value, #[case] item: Value, #[case] says: Option<&str>) {
    let converted = convert([pod_of(resources), limit_range(json!([item]))]);
    assert_eq!(converted.cluster.pending.is_empty(), says.is_some(), "{:?}", converted.warnings);
    let told = converted.warnings.iter().find(|warning| warning.contains("would not be created"));
    assert_eq!(told.is_some(), says.is_some());
    assert!(told.is_none_or(|told| told.contains("LimitRange limits") && told.contains(says.unwrap())), "{told:?}");
}

#[rstest]
#[case::requests(json!({"requests.cpu": "2500m"}), 2)]
#[case::the_short_name(json!({"cpu": "3"}), 3)]
#[case::pods(json!({"pods": "1"}), 1)]
#[case::objects(json!({"count/pods": "4"}), 4)]
#[case::the_least_counts(json!({"pods": "3", "requests.cpu": "2"}), 2)]
#[case::what_pods_do_not_use(json!({"services": "0", "requests.storage": "0"}), 5)]
#[case::what_containers_must_state(json!({"limits.cpu": "100"}), 0)]
fn a_quota_lets_so_many_pods_in(#[case] hard: Value, #[case] expected: u32) {
    let converted = convert([mk_workload("Deployment", "w", json!({"replicas": 5})), quota(hard, json!({}))]);
    let n: u32 = converted.cluster.pending.iter().flat_map(|row| &row.members).map(berth_model::MemberRun::len).sum();
    assert_eq!(n, expected, "{:?}", converted.warnings);
    let told = converted.warnings.iter().any(|warning| {
        warning.contains(&format!("Deployment default/w: {} of 5 pods would not be created", 5 - expected))
    });
    assert_eq!(told, expected < 5, "{:?}", converted.warnings);
}

#[test]
fn a_quota_counts_by_its_status_or_else_the_pods_that_exist() {
    let running = |name: &str| {
        let pod = with(mk_pod(name, json!({"nodeName": "n"})), json!({"metadata": {"uid": name}}));
        with(pod, json!({"spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]}}))
    };
    let cluster =
        || [mk_node("n", json!({})), running("a"), running("b"), mk_workload("Job", "w", json!({"parallelism": 5}))];
    let wanted = |quota: Value| pending(&convert(cluster().into_iter().chain([quota])).cluster);
    assert_eq!(wanted(quota(json!({"requests.cpu": "4"}), json!({}))), ["default/w-0..1"]);
    let status = json!({"status": {"hard": {"requests.cpu": "4"}, "used": {"requests.cpu": "3"}}});
    assert_eq!(wanted(quota(json!({"requests.cpu": "4"}), status)), ["default/w-0..0"]);
}

/// The regression: of a resource that was added to a quota, which its status does not tell yet, nothing counted as used.
#[test]
fn a_quota_counts_the_pods_that_exist_for_what_its_status_does_not_tell() {
    let requests = |cpu: &str| json!({"containers": [{"name": "c", "resources": {"requests": {"cpu": cpu}}}]});
    let workload = mk_workload("Deployment", "w", json!({"replicas": 5, "template": {"spec": requests("1")}}));
    let running = mk_pod("run", with(requests("2500m"), json!({"nodeName": "n"})));
    let status = json!({"status": {"used": {"pods": "3"}}});
    for (hard, expected) in [
        (json!({"requests.cpu": "4", "pods": "9"}), "default/w-0..0"),
        (json!({"requests.cpu": "9", "pods": "5"}), "default/w-0..1"),
    ] {
        let quota = quota(hard, status.clone());
        let converted = convert([mk_node("n", json!({})), running.clone(), workload.clone(), quota]);
        assert_eq!(pending(&converted.cluster), [expected]);
    }
}

#[test]
fn workloads_share_a_quota_and_pods_that_run_are_not_asked_for_again() {
    let child = with(mk_pod("w-abc", json!({"nodeName": "n"})), owned_by("ReplicaSet", "w", ""));
    let objects = [
        mk_node("n", json!({})),
        with(child, json!({"metadata": {"uid": "u"}})),
        mk_workload("ReplicaSet", "w", json!({"replicas": 3})),
        mk_workload("StatefulSet", "s", json!({"replicas": 3})),
        quota(json!({"pods": "4"}), json!({"status": {"used": {"pods": "1"}}})),
    ];
    let converted = convert(objects);
    // By name, whichever was given first.
    assert_eq!(pending(&converted.cluster), ["default/s-0..2"]);
    assert!(converted.warnings.iter().any(|w| w.contains("ReplicaSet default/w: 2 of 2 pods would not be created")));
}

#[rstest]
#[case(json!({"scopes": ["BestEffort"]}), 5)]
#[case(json!({"scopes": ["NotBestEffort"]}), 1)]
#[case(json!({"scopes": ["NotTerminating"]}), 1)]
#[case(json!({"scopes": ["Terminating"]}), 5)]
#[case(json!({"scopeSelector": {"matchExpressions": [{"scopeName": "PriorityClass", "operator": "In", "values": ["high"]}]}}), 1)]
#[case(json!({"scopeSelector": {"matchExpressions": [{"scopeName": "PriorityClass", "operator": "NotIn", "values": ["high"]}]}}), 5)]
fn a_quota_of_a_scope_is_about_some_pods(#[case] scope: Value, #[case] expected: u32) {
    let workload =
        mk_workload("Deployment", "w", json!({"replicas": 5, "template": {"spec": {"priorityClassName": "high"}}}));
    let quota = quota(json!({"pods": "1"}), json!({"spec": scope}));
    let n: u32 = convert([workload, quota])
        .cluster
        .pending
        .iter()
        .flat_map(|row| &row.members)
        .map(berth_model::MemberRun::len)
        .sum();
    assert_eq!(n, expected);
}

#[test]
fn amounts_that_cannot_be_read_are_named() {
    let mut builder = crate::Builder::new(crate::Options::default());
    let wrong = limit_range(json!([{"type": "Container", "max": {"cpu": "lots"}}]));
    let error = super::add(&mut builder, wrong).unwrap_err().to_string();
    assert!(error.contains("LimitRange default/limits") && error.contains("spec.limits[0].max[cpu]"), "{error}");
    let error = super::add(&mut builder, quota(json!({"pods": "-1"}), json!({}))).unwrap_err().to_string();
    assert!(error.contains("ResourceQuota default/quota") && error.contains("spec.hard[pods]"), "{error}");
}

#[rstest]
#[case::ended(json!({"status": {"phase": "Succeeded"}}), json!({"pods": "5"}), 5)]
#[case::ended_objects(json!({"status": {"phase": "Failed"}}), json!({"count/pods": "5"}), 3)]
#[case::being_deleted(deleted("2026-03-02T00:00:20Z"), json!({"pods": "5"}), 3)]
#[case::overdue(deleted("2026-03-01T20:00:00Z"), json!({"pods": "5"}), 5)]
#[case::overdue_objects(deleted("2026-03-01T20:00:00Z"), json!({"count/pods": "5"}), 3)]
fn pods_that_are_over_count_as_objects_alone(#[case] over: Value, #[case] hard: Value, #[case] expected: u32) {
    let pod = |name: &str| {
        with(mk_pod(name, json!({"nodeName": "n"})), with(json!({"metadata": {"uid": name}}), over.clone()))
    };
    let objects = [
        mk_node("n", json!({})),
        pod("a"),
        pod("b"),
        mk_workload("Deployment", "w", json!({"replicas": 10})),
        quota(hard, json!({})),
    ];
    let cluster = super::convert_at("2026-03-02T00:00:00Z", objects).cluster;
    let n: u32 = cluster.pending.iter().flat_map(|row| &row.members).map(berth_model::MemberRun::len).sum();
    assert_eq!(n, expected);
}

fn deleted(at: &str) -> Value {
    json!({"metadata": {"deletionTimestamp": at, "deletionGracePeriodSeconds": 30}})
}
