//! What HorizontalPodAutoscalers keep of a workload's replicas.

use rstest::rstest;
use serde_json::{Value, json};

use super::{add, convert_with, mk_workload, pending, with};
use crate::{Builder, Options, Replicas};

fn autoscaler(of: &str, least: Value, most: i64) -> Value {
    json!({"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "metadata": {"name": "h"}, "spec": {
        "minReplicas": least, "maxReplicas": most,
        "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": of}}})
}

fn web(replicas: i64) -> Value {
    mk_workload("Deployment", "web", json!({"replicas": replicas}))
}

#[rstest]
#[case::more_are_kept(Replicas::Current, 2, json!(4), "default/web-0..3",
    Some("Deployment default/web: has 2 replicas, but HorizontalPodAutoscaler h keeps at least 4: planned with 4"))]
#[case::one(Replicas::Current, 1, json!(4), "default/web-0..3",
    Some("Deployment default/web: has 1 replica, but HorizontalPodAutoscaler h keeps at least 4: planned with 4"))]
#[case::more_are_there(Replicas::Current, 6, json!(4), "default/web-0..5", None)]
#[case::more_than_may_be(Replicas::Current, 12, json!(4), "default/web-0..8",
    Some("Deployment default/web: has 12 replicas, but HorizontalPodAutoscaler h keeps at most 9: planned with 9"))]
#[case::one_unless_said(Replicas::Min, 6, json!(null), "default/web-0..0",
    Some("Deployment default/web: has 6 replicas, but HorizontalPodAutoscaler h has minReplicas 1: planned with 1"))]
#[case::as_many_as_may_be(Replicas::Max, 2, json!(4), "default/web-0..8",
    Some("Deployment default/web: has 2 replicas, but HorizontalPodAutoscaler h has maxReplicas 9: planned with 9"))]
fn a_workload_is_planned_as_its_autoscaler_keeps_it(
    #[case] replicas: Replicas,
    #[case] there: i64,
    #[case] least: Value,
    #[case] expected: &str,
    #[case] warning: Option<&str>,
) {
    let options = Options { replicas, ..Options::default() };
    let converted = convert_with(options, [web(there), autoscaler("web", least, 9)]);
    assert_eq!(pending(&converted.cluster), [expected]);
    assert_eq!(converted.warnings.iter().find(|told| told.contains("Autoscaler")).map(String::as_str), warning);
}

#[rstest]
fn of_two_autoscalers_neither_scales(#[values(Replicas::Current, Replicas::Min, Replicas::Max)] replicas: Replicas) {
    let other = with(autoscaler("web", json!(1), 3), json!({"metadata": {"name": "other"}}));
    let options = Options { replicas, ..Options::default() };
    let converted = convert_with(options, [web(6), autoscaler("web", json!(8), 9), other]);
    assert_eq!(pending(&converted.cluster), ["default/web-0..5"]);
    let told: Vec<&String> = converted.warnings.iter().filter(|told| told.contains("Autoscaler")).collect();
    let expected = "Deployment default/web: has HorizontalPodAutoscalers h, other: none of them scales it, as each would undo \
                    what another does";
    assert_eq!(told, [expected]);
}

#[test]
fn an_autoscaler_that_wants_more_pods_than_a_plan_may_have_is_refused() {
    let most = i64::from(i32::MAX);
    let mut builder = Builder::new(Options { replicas: Replicas::Max, ..Options::default() });
    add(&mut builder, web(most)).unwrap();
    add(&mut builder, with(autoscaler("web", json!(1), most), json!({"metadata": {"name": "first"}}))).unwrap();
    let error = add(&mut builder, autoscaler("web", json!(1), 2)).unwrap_err().to_string();
    let expected =
        "HorizontalPodAutoscaler default/h: spec.maxReplicas: found 2, expected at most 1 beside 4294967294 pods";
    assert!(error.contains(expected), "{error}");
}
