//! Owners of pods, budgets and volumes.

use berth_schedule::{Schedule, zone_of};
use k8s_openapi::api::batch::v1::JobSpec;
use k8s_openapi::api::core::v1::PodTemplateSpec;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;

use super::{Problems, budget, metadata, pod, resources, selector, syntax};
use crate::error::Problem;
use crate::object::Object;

const ALWAYS: &str = "Always";
/// Pods of all but Jobs are started again whenever they end.
const LASTING: &[&str] = &[ALWAYS];

pub(super) fn check(object: &Object, problems: &mut Problems) {
    match object {
        Object::Deployment(object) => with_spec(object.spec.as_ref(), problems, |spec, problems| {
            check_replicated(spec.replicas, &spec.selector, &spec.template, problems);
        }),
        Object::StatefulSet(object) => with_spec(object.spec.as_ref(), problems, |spec, problems| {
            check_replicated(spec.replicas, &spec.selector, &spec.template, problems);
        }),
        Object::ReplicaSet(object) => with_spec(object.spec.as_ref(), problems, |spec, problems| {
            let template = spec.template.clone().unwrap_or_default();
            check_replicated(spec.replicas, &spec.selector, &template, problems);
        }),
        Object::DaemonSet(object) => with_spec(object.spec.as_ref(), problems, |spec, problems| {
            check_replicated(None, &spec.selector, &spec.template, problems);
        }),
        Object::ReplicationController(object) => {
            with_spec(object.spec.as_ref(), problems, |spec, problems| {
                syntax::check_not_negative("spec.replicas", spec.replicas, problems);
                if let Some(template) = &spec.template {
                    check_template("spec.template", template, LASTING, problems);
                }
            });
        }
        Object::Job(object) => with_spec(object.spec.as_ref(), problems, |spec, problems| {
            check_job("spec", spec, problems);
        }),
        Object::CronJob(object) => with_spec(object.spec.as_ref(), problems, |spec, problems| {
            check_times(&spec.schedule, spec.time_zone.as_deref(), problems);
            if let Some(job) = &spec.job_template.spec {
                check_job("spec.jobTemplate.spec", job, problems);
            }
        }),
        Object::PodDisruptionBudget(object) => {
            if let Some(spec) = &object.spec {
                budget::check(spec, problems);
            }
        }
        Object::PersistentVolumeClaim(object) => {
            let resources = object.spec.as_ref().and_then(|spec| spec.resources.as_ref());
            if let Some(requests) = resources.and_then(|resources| resources.requests.as_ref()) {
                resources::check_amounts("spec.resources.requests", requests, problems);
            }
        }
        Object::PersistentVolume(object) => {
            let spec = object.spec.as_ref();
            if let Some(capacity) = spec.and_then(|spec| spec.capacity.as_ref()) {
                resources::check_amounts("spec.capacity", capacity, problems);
            }
            let affinity = spec.and_then(|spec| spec.node_affinity.as_ref());
            if let Some(required) = affinity.and_then(|affinity| affinity.required.as_ref()) {
                selector::check_node_selector("spec.nodeAffinity.required", required, problems);
            }
        }
        Object::StorageClass(object) => {
            if let Some(mode) = &object.volume_binding_mode {
                const KNOWN: &[&str] = &["Immediate", "WaitForFirstConsumer"];
                syntax::check_enum("volumeBindingMode", mode, KNOWN, problems);
            }
        }
        Object::PriorityClass(object) => {
            if let Some(policy) = &object.preemption_policy {
                const KNOWN: &[&str] = &["PreemptLowerPriority", "Never"];
                syntax::check_enum("preemptionPolicy", policy, KNOWN, problems);
            }
        }
        _ => {}
    }
}

fn with_spec<S>(spec: Option<&S>, problems: &mut Problems, check: impl FnOnce(&S, &mut Problems)) {
    match spec {
        Some(spec) => check(spec, problems),
        None => problems.push(Problem::new("spec", "is missing")),
    }
}

fn check_replicated(
    replicas: Option<i32>,
    labels: &LabelSelector,
    template: &PodTemplateSpec,
    problems: &mut Problems,
) {
    syntax::check_not_negative("spec.replicas", replicas, problems);
    let n_problems = problems.len();
    selector::check_label_selector("spec.selector", labels, problems);
    if problems.len() == n_problems {
        let of_template = template.metadata.as_ref().and_then(|meta| meta.labels.as_ref());
        if !selector::matches(labels, of_template) {
            let message = "is empty or does not match spec.template.metadata.labels";
            problems.push(Problem::new("spec.selector", message));
        }
    }
    check_template("spec.template", template, LASTING, problems);
}

fn check_job(path: &str, spec: &JobSpec, problems: &mut Problems) {
    syntax::check_not_negative(&format!("{path}.parallelism"), spec.parallelism, problems);
    syntax::check_not_negative(&format!("{path}.completions"), spec.completions, problems);
    check_template(&format!("{path}.template"), &spec.template, &["OnFailure", "Never"], problems);
}

/// When a CronJob runs. One without a schedule, or with an empty one, is taken by no API server.
fn check_times(schedule: &str, time_zone: Option<&str>, problems: &mut Problems) {
    if schedule.is_empty() {
        let message = "is missing or empty, expected five fields of cron such as \"0 2 * * *\"";
        problems.push(Problem::new("spec.schedule", message));
    } else if schedule.contains("TZ") {
        let message = format!("found {schedule:?}, expected no time zone: spec.timeZone names it");
        problems.push(Problem::new("spec.schedule", message));
    } else if let Err(why) = Schedule::parse(schedule) {
        let message = format!("found {schedule:?}, expected five fields of cron such as \"0 2 * * *\": {why}");
        problems.push(Problem::new("spec.schedule", message));
    }
    if let Some(zone) = time_zone
        && (zone.is_empty() || zone_of(zone).is_none())
    {
        let message = format!("found {zone:?}, expected a time zone such as Europe/Berlin");
        problems.push(Problem::new("spec.timeZone", message));
    }
}

/// Of a kind whose pods may be restarted by these policies.
fn check_template(path: &str, template: &PodTemplateSpec, policies: &[&str], problems: &mut Problems) {
    if let Some(meta) = &template.metadata {
        metadata::check_maps(&format!("{path}.metadata"), meta, problems);
    }
    match &template.spec {
        Some(spec) => {
            pod::check_spec(&format!("{path}.spec"), spec, problems);
            let path = format!("{path}.spec.restartPolicy");
            match spec.restart_policy.as_deref().filter(|policy| !policy.is_empty()) {
                Some(policy) => syntax::check_enum(&path, policy, policies, problems),
                None if policies.contains(&ALWAYS) => {}
                None => {
                    let message = format!("is missing, which is {ALWAYS}, expected one of {}", policies.join(", "));
                    problems.push(Problem::new(path, message));
                }
            }
        }
        None => problems.push(Problem::new(format!("{path}.spec"), "is missing, expected a pod's spec")),
    }
}
