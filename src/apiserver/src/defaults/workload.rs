//! Defaults of what makes pods.

use serde_json::{Map, Value, json};

use super::{pod, with};
use crate::meta::{self, fill, object_mut};

fn template(object: &mut Value) {
    pod::fill_template(object.pointer_mut("/spec/template"));
}

pub(super) fn replication_controller(object: &mut Value) {
    let labels = meta::at(object, &["spec", "template", "metadata", "labels"]).cloned();
    if let Some(labels) = labels {
        with(object, &["spec"], &[("selector", labels.clone())]);
        with(object, &["metadata"], &[("labels", labels)]);
    }
    with(object, &["spec"], &[("replicas", json!(1))]);
    template(object);
}

pub(super) fn replica_set(object: &mut Value) {
    with(object, &["spec"], &[("replicas", json!(1))]);
    template(object);
}

pub(super) fn deployment(object: &mut Value) {
    let defaults =
        [("replicas", json!(1)), ("revisionHistoryLimit", json!(10)), ("progressDeadlineSeconds", json!(600))];
    with(object, &["spec"], &defaults);
    with(object, &["spec", "strategy"], &[("type", json!("RollingUpdate"))]);
    if meta::text_at(object, &["spec", "strategy", "type"]) == "RollingUpdate" {
        let path = ["spec", "strategy", "rollingUpdate"];
        with(object, &path, &[("maxUnavailable", json!("25%")), ("maxSurge", json!("25%"))]);
    }
    template(object);
}

pub(super) fn stateful_set(object: &mut Value) {
    let defaults =
        [("podManagementPolicy", json!("OrderedReady")), ("replicas", json!(1)), ("revisionHistoryLimit", json!(10))];
    with(object, &["spec"], &defaults);
    with(object, &["spec", "updateStrategy"], &[("type", json!("RollingUpdate"))]);
    if meta::text_at(object, &["spec", "updateStrategy", "type"]) == "RollingUpdate" {
        with(object, &["spec", "updateStrategy", "rollingUpdate"], &[("partition", json!(0))]);
    }
    let policy = [("whenDeleted", json!("Retain")), ("whenScaled", json!("Retain"))];
    with(object, &["spec", "persistentVolumeClaimRetentionPolicy"], &policy);
    let claims = object.pointer_mut("/spec/volumeClaimTemplates").and_then(Value::as_array_mut);
    for claim in claims.into_iter().flatten() {
        with(claim, &[], &[("apiVersion", json!("v1")), ("kind", json!("PersistentVolumeClaim"))]);
        with(claim, &["spec"], &[("volumeMode", json!("Filesystem"))]);
        with(claim, &["status"], &[("phase", json!("Pending"))]);
    }
    template(object);
}

pub(super) fn daemon_set(object: &mut Value) {
    with(object, &["spec"], &[("revisionHistoryLimit", json!(10))]);
    // A field of versions that are gone lives on in an annotation.
    with(object, &["metadata", "annotations"], &[("deprecated.daemonset.template.generation", json!("1"))]);
    with(object, &["spec", "updateStrategy"], &[("type", json!("RollingUpdate"))]);
    let path = ["spec", "updateStrategy", "rollingUpdate"];
    if meta::text_at(object, &["spec", "updateStrategy", "type"]) == "RollingUpdate" {
        with(object, &path, &[("maxUnavailable", json!(1)), ("maxSurge", json!(0))]);
    } else if meta::at(object, &path).is_some_and(Value::is_object) {
        with(object, &path, &[("maxUnavailable", json!(0)), ("maxSurge", json!(0))]);
    }
    template(object);
}

/// Completes the spec of a Job, also of one in a CronJob.
pub(super) fn job(spec: Option<&mut Map<String, Value>>) {
    let Some(spec) = spec else { return };
    if !spec.contains_key("completions") && !spec.contains_key("parallelism") {
        fill(spec, "completions", 1);
    }
    fill(spec, "parallelism", 1);
    fill(spec, "completionMode", "NonIndexed");
    fill(spec, "suspend", false);
    fill(spec, "manualSelector", false);
    let per_index = spec.contains_key("backoffLimitPerIndex");
    fill(spec, "backoffLimit", if per_index { 2_147_483_647 } else { 6 });
    fill(
        spec,
        "podReplacementPolicy",
        if spec.contains_key("podFailurePolicy") { "Failed" } else { "TerminatingOrFailed" },
    );
    pod::fill_template(spec.get_mut("template"));
}

pub(super) fn cron_job(object: &mut Value) {
    let defaults = [
        ("concurrencyPolicy", json!("Allow")),
        ("suspend", json!(false)),
        ("successfulJobsHistoryLimit", json!(3)),
        ("failedJobsHistoryLimit", json!(1)),
    ];
    with(object, &["spec"], &defaults);
    // The job of a template is completed when it is made; its pods are completed here.
    if let Some(spec) = object_mut(object, &["spec", "jobTemplate", "spec"]) {
        pod::fill_template(spec.get_mut("template"));
    }
}
