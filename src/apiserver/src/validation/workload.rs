//! Deployments, ReplicaSets, StatefulSets, DaemonSets, Jobs, CronJobs.

use serde_json::Value;

use super::{immutable, not_negative, pod};
use crate::meta::{at, text_at};
use crate::resource::Resource;
use crate::selector::LabelSelector;
use crate::status::Cause;

const ALWAYS: &[&str] = &["Always"];
const TO_COMPLETION: &[&str] = &["OnFailure", "Never"];

pub(super) fn check(resource: &Resource, object: &Value, causes: &mut Vec<Cause>) {
    match resource.storage.as_str() {
        "deployments.apps" | "replicasets.apps" | "statefulsets.apps" | "daemonsets.apps" => {
            not_negative(object, &["spec", "replicas"], causes);
            not_negative(object, &["spec", "minReadySeconds"], causes);
            selector(object, causes);
            template(object, "spec.template", ALWAYS, causes);
            if resource.is("deployments.apps") {
                strategy(object, causes);
            }
        }
        "replicationcontrollers" => {
            not_negative(object, &["spec", "replicas"], causes);
            if at(object, &["spec", "selector"]).and_then(Value::as_object).is_none_or(serde_json::Map::is_empty) {
                causes.push(Cause::required("spec.selector", ""));
            }
            template(object, "spec.template", ALWAYS, causes);
        }
        "jobs.batch" => {
            for field in ["parallelism", "completions", "backoffLimit", "ttlSecondsAfterFinished"] {
                not_negative(object, &["spec", field], causes);
            }
            template(object, "spec.template", TO_COMPLETION, causes);
        }
        "cronjobs.batch" => {
            let schedule = text_at(object, &["spec", "schedule"]);
            if schedule.is_empty() {
                causes.push(Cause::required("spec.schedule", ""));
            } else if let Some(why) = wrong_schedule(schedule) {
                causes.push(Cause::invalid("spec.schedule", &schedule.into(), &why));
            }
            let policies = ["Allow", "Forbid", "Replace"];
            let policy = text_at(object, &["spec", "concurrencyPolicy"]);
            if !policies.contains(&policy) {
                causes.push(Cause::not_supported("spec.concurrencyPolicy", &policy.into(), &policies));
            }
            let job = at(object, &["spec", "jobTemplate"]).cloned().unwrap_or_default();
            template_at(at(&job, &["spec", "template"]), "spec.jobTemplate.spec.template", TO_COMPLETION, causes);
        }
        _ => {}
    }
}

fn selector(object: &Value, causes: &mut Vec<Cause>) {
    let found = at(object, &["spec", "selector"]).filter(|selector| !selector.is_null());
    let Some(found) = found else {
        causes.push(Cause::required("spec.selector", ""));
        return;
    };
    let empty = found.as_object().is_none_or(|map| {
        map.values().all(|part| match part {
            Value::Object(map) => map.is_empty(),
            Value::Array(items) => items.is_empty(),
            _ => true,
        })
    });
    if empty {
        causes.push(Cause::invalid("spec.selector", found, "empty selector is invalid for deployment"));
        return;
    }
    let labels = at(object, &["spec", "template", "metadata", "labels"]).cloned().unwrap_or_default();
    let selects = LabelSelector::from_object(Some(found)).matches(|key| labels.get(key)?.as_str());
    if !selects {
        let why = "`selector` does not match template `labels`";
        causes.push(Cause::invalid("spec.template.metadata.labels", &labels, why));
    }
}

fn template(object: &Value, path: &str, policies: &[&str], causes: &mut Vec<Cause>) {
    template_at(at(object, &["spec", "template"]), path, policies, causes);
}

fn template_at(template: Option<&Value>, path: &str, policies: &[&str], causes: &mut Vec<Cause>) {
    match template {
        Some(template) => pod::template(template, path, policies, causes),
        None => causes.push(Cause::required(path, "")),
    }
}

fn strategy(object: &Value, causes: &mut Vec<Cause>) {
    let kind = text_at(object, &["spec", "strategy", "type"]);
    let rolling = at(object, &["spec", "strategy", "rollingUpdate"]);
    match kind {
        "Recreate" if rolling.is_some() => {
            let why = "may not be specified when strategy `type` is 'Recreate'";
            causes.push(Cause::forbidden("spec.strategy.rollingUpdate", why));
        }
        "RollingUpdate" => {
            let is_zero = |field: &str| {
                rolling.and_then(|rolling| rolling.get(field)).is_some_and(|value| value == 0 || value == "0%")
            };
            if is_zero("maxUnavailable") && is_zero("maxSurge") {
                let zero = Value::from(0);
                let why = "may not be 0 when `maxSurge` is 0";
                causes.push(Cause::invalid("spec.strategy.rollingUpdate.maxUnavailable", &zero, why));
            }
        }
        "Recreate" => {}
        other => causes.push(Cause::not_supported("spec.strategy.type", &other.into(), &["Recreate", "RollingUpdate"])),
    }
}

fn wrong_schedule(text: &str) -> Option<String> {
    if text.starts_with('@') {
        let known = ["@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly"];
        let ok = known.contains(&text) || text.starts_with("@every ");
        return (!ok).then(|| format!("unrecognized descriptor: {text}"));
    }
    let n_fields = text.split_whitespace().count();
    if n_fields != 5 {
        return Some(format!(
            "expected exactly 5 fields, found {n_fields}: [{}]",
            text.split_whitespace().collect::<Vec<_>>().join(" ")
        ));
    }
    let bounds = [(0, 59), (0, 23), (1, 31), (1, 12), (0, 7)];
    for (field, (low, high)) in text.split_whitespace().zip(bounds) {
        let numbers = field.split(|c: char| !c.is_ascii_digit()).filter_map(|part| part.parse::<u32>().ok());
        let steps = field.split_once('/').and_then(|(_, step)| step.parse::<u32>().ok());
        let bad = numbers.filter(|number| Some(*number) != steps).find(|number| !(low..=high).contains(number));
        if let Some(bad) = bad {
            let relation = if bad < low { "below minimum" } else { "above maximum" };
            let bound = if bad < low { low } else { high };
            return Some(format!("end of range ({bad}) {relation} ({bound}): {field}"));
        }
    }
    None
}

pub(super) fn check_change(resource: &Resource, new: &Value, old: &Value, causes: &mut Vec<Cause>) {
    match resource.storage.as_str() {
        "deployments.apps" | "replicasets.apps" | "daemonsets.apps" => {
            immutable(new, old, &["spec", "selector"], causes);
        }
        "statefulsets.apps" => {
            let allowed = [
                "replicas",
                "ordinals",
                "template",
                "updateStrategy",
                "revisionHistoryLimit",
                "persistentVolumeClaimRetentionPolicy",
                "minReadySeconds",
            ];
            let fixed = |object: &Value| {
                let mut spec = object.get("spec").and_then(Value::as_object).cloned().unwrap_or_default();
                spec.retain(|field, _| !allowed.contains(&field.as_str()));
                spec
            };
            if fixed(new) != fixed(old) {
                let why = "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', 'updateStrategy', 'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden";
                causes.push(Cause::forbidden("spec", why));
            }
        }
        "jobs.batch" => {
            immutable(new, old, &["spec", "selector"], causes);
            immutable(new, old, &["spec", "completionMode"], causes);
            let suspended = at(old, &["spec", "suspend"]) == Some(&Value::Bool(true));
            if !suspended {
                immutable(new, old, &["spec", "template"], causes);
            }
            if text_at(old, &["spec", "completionMode"]) != "Indexed" {
                immutable(new, old, &["spec", "completions"], causes);
            }
        }
        _ => {}
    }
}
