//! Deployments, ReplicaSets, StatefulSets, DaemonSets, Jobs, CronJobs.

use serde_json::{Value, json};

use super::limits::{at_most_100_percent, int_or_percent, is_not_zero};
use super::{immutable, not_negative, pod, volumes};
use crate::meta::{at, list_at, text_at};
use crate::resource::Resource;
use crate::selector::LabelSelector;
use crate::status::Cause;
use berth_schedule::{Schedule, zone_of};

const ALWAYS: &[&str] = &["Always"];
const TO_COMPLETION: &[&str] = &["OnFailure", "Never"];

pub(super) fn check(resource: &Resource, object: &Value, causes: &mut Vec<Cause>) {
    match resource.storage.as_str() {
        "deployments.apps" | "replicasets.apps" | "statefulsets.apps" | "daemonsets.apps" => {
            not_negative(object, &["spec", "replicas"], causes);
            not_negative(object, &["spec", "minReadySeconds"], causes);
            not_negative(object, &["spec", "revisionHistoryLimit"], causes);
            selector(object, causes);
            if resource.storage == "statefulsets.apps" {
                claim_templates(object, causes);
                template_at(template_with_claims(object).as_ref(), "spec.template", ALWAYS, causes);
            } else {
                template(object, "spec.template", ALWAYS, causes);
            }
            match resource.storage.as_str() {
                "deployments.apps" => {
                    strategy(object, causes);
                    progress(object, causes);
                }
                "statefulsets.apps" => stateful(object, causes),
                "daemonsets.apps" => daemon_strategy(object, causes),
                _ => {}
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
            job(object, causes);
            template(object, "spec.template", TO_COMPLETION, causes);
        }
        "cronjobs.batch" => {
            let schedule = text_at(object, &["spec", "schedule"]);
            if schedule.is_empty() {
                causes.push(Cause::required("spec.schedule", ""));
            } else {
                if let Err(why) = Schedule::parse(schedule) {
                    causes.push(Cause::invalid("spec.schedule", &schedule.into(), &why));
                }
                if schedule.contains("TZ") {
                    let why = "cannot use TZ or CRON_TZ in schedule, use timeZone field instead";
                    causes.push(Cause::invalid("spec.schedule", &schedule.into(), why));
                }
            }
            for field in ["startingDeadlineSeconds", "successfulJobsHistoryLimit", "failedJobsHistoryLimit"] {
                not_negative(object, &["spec", field], causes);
            }
            let policies = ["Allow", "Forbid", "Replace"];
            let policy = text_at(object, &["spec", "concurrencyPolicy"]);
            if !policies.contains(&policy) {
                causes.push(Cause::not_supported("spec.concurrencyPolicy", &policy.into(), &policies));
            }
            if let Some(zone) = at(object, &["spec", "timeZone"]).and_then(Value::as_str)
                && (zone.is_empty() || zone_of(zone).is_none())
            {
                let why = match zone {
                    "" => "timeZone must be nil or non-empty string".to_owned(),
                    _ => format!("unknown time zone {zone}"),
                };
                causes.push(Cause::invalid("spec.timeZone", &zone.into(), &why));
            }
            let job = at(object, &["spec", "jobTemplate"]).cloned().unwrap_or_default();
            template_at(at(&job, &["spec", "template"]), "spec.jobTemplate.spec.template", TO_COMPLETION, causes);
        }
        _ => {}
    }
}

fn selector(object: &Value, causes: &mut Vec<Cause>) {
    let found = at(object, &["spec", "selector"]).filter(|selector| !selector.is_null());
    let labels = at(object, &["spec", "template", "metadata", "labels"]).cloned().unwrap_or_default();
    let why = "`selector` does not match template `labels`";
    let Some(found) = found else {
        causes.push(Cause::required("spec.selector", ""));
        causes.push(Cause::invalid("spec.template.metadata.labels", &labels, why));
        return;
    };
    let before = causes.len();
    expressions(found, "spec.selector", causes);
    if causes.len() > before {
        causes.push(Cause::invalid("spec.selector", found, "invalid label selector"));
        return;
    }
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
    let selects = LabelSelector::from_object(Some(found)).matches(|key| labels.get(key)?.as_str());
    if !selects {
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

/// What the claims that a StatefulSet makes must say.
fn claim_templates(set: &Value, causes: &mut Vec<Cause>) {
    for (index, claim) in list_at(set, &["spec", "volumeClaimTemplates"]).iter().enumerate() {
        let mut own = Vec::new();
        volumes::claim(claim, &mut own);
        for mut cause in own {
            cause.field = format!("spec.volumeClaimTemplates[{index}].{}", cause.field);
            causes.push(cause);
        }
    }
}

/// The template of a StatefulSet's pods with the volumes that its claims become, which containers mount by name. A claim
/// takes the place of a volume of the same name.
fn template_with_claims(set: &Value) -> Option<Value> {
    let mut template = at(set, &["spec", "template"])?.clone();
    let claims = list_at(set, &["spec", "volumeClaimTemplates"]);
    if let Some(spec) = template.get_mut("spec").and_then(Value::as_object_mut).filter(|_| !claims.is_empty()) {
        let names: Vec<&str> = claims.iter().map(|claim| text_at(claim, &["metadata", "name"])).collect();
        let given = spec.get("volumes").and_then(Value::as_array).cloned().unwrap_or_default();
        let made = names.iter().map(|name| json!({"name": name, "persistentVolumeClaim": {"claimName": name}}));
        let kept = given.into_iter().filter(|volume| !names.contains(&text_at(volume, &["name"])));
        spec.insert("volumes".to_owned(), made.chain(kept).collect());
    }
    Some(template)
}

fn strategy(object: &Value, causes: &mut Vec<Cause>) {
    const UNAVAILABLE: &[&str] = &["spec", "strategy", "rollingUpdate", "maxUnavailable"];
    const SURGE: &[&str] = &["spec", "strategy", "rollingUpdate", "maxSurge"];
    let kind = text_at(object, &["spec", "strategy", "type"]);
    let rolling = at(object, &["spec", "strategy", "rollingUpdate"]);
    match kind {
        "Recreate" if rolling.is_some() => {
            let why = "may not be specified when strategy `type` is 'Recreate'";
            causes.push(Cause::forbidden("spec.strategy.rollingUpdate", why));
        }
        "RollingUpdate" => {
            for path in [UNAVAILABLE, SURGE] {
                int_or_percent(object, path, causes);
            }
            if !is_not_zero(object, UNAVAILABLE) && !is_not_zero(object, SURGE) {
                let value = at(object, UNAVAILABLE).cloned().unwrap_or_default();
                let why = "may not be 0 when `maxSurge` is 0";
                causes.push(Cause::invalid(UNAVAILABLE.join("."), &value, why));
            }
            at_most_100_percent(object, UNAVAILABLE, causes);
        }
        "Recreate" => {}
        _ => {
            let value = at(object, &["spec", "strategy"]).cloned().unwrap_or_default();
            causes.push(Cause::not_supported("spec.strategy", &value, &["Recreate", "RollingUpdate"]));
        }
    }
}

fn daemon_strategy(object: &Value, causes: &mut Vec<Cause>) {
    const UNAVAILABLE: &[&str] = &["spec", "updateStrategy", "rollingUpdate", "maxUnavailable"];
    const SURGE: &[&str] = &["spec", "updateStrategy", "rollingUpdate", "maxSurge"];
    match text_at(object, &["spec", "updateStrategy", "type"]) {
        "OnDelete" => {}
        "RollingUpdate" => {
            for path in [UNAVAILABLE, SURGE] {
                int_or_percent(object, path, causes);
            }
            match (is_not_zero(object, UNAVAILABLE), is_not_zero(object, SURGE)) {
                (true, true) => {
                    let value = at(object, SURGE).cloned().unwrap_or_default();
                    let why = "may not be set when maxUnavailable is non-zero";
                    causes.push(Cause::invalid(SURGE.join("."), &value, why));
                }
                (false, false) => {
                    causes.push(Cause::required(UNAVAILABLE.join("."), "cannot be 0 when maxSurge is 0"));
                }
                _ => {}
            }
            for path in [UNAVAILABLE, SURGE] {
                at_most_100_percent(object, path, causes);
            }
        }
        _ => {
            let value = at(object, &["spec", "updateStrategy"]).cloned().unwrap_or_default();
            causes.push(Cause::not_supported("spec.updateStrategy", &value, &["RollingUpdate", "OnDelete"]));
        }
    }
}

fn progress(object: &Value, causes: &mut Vec<Cause>) {
    let number = |field: &str| crate::meta::int_at(object, &["spec", field]).unwrap_or(0);
    not_negative(object, &["spec", "progressDeadlineSeconds"], causes);
    if number("progressDeadlineSeconds") <= number("minReadySeconds") {
        let value = number("progressDeadlineSeconds").into();
        causes.push(Cause::invalid("spec.progressDeadlineSeconds", &value, "must be greater than minReadySeconds"));
    }
}

fn stateful(object: &Value, causes: &mut Vec<Cause>) {
    let policy = text_at(object, &["spec", "podManagementPolicy"]);
    if !["OrderedReady", "Parallel"].contains(&policy) {
        let why = "must be 'OrderedReady' or 'Parallel'";
        causes.push(Cause::invalid("spec.podManagementPolicy", &policy.into(), why));
    }
    match text_at(object, &["spec", "updateStrategy", "type"]) {
        "RollingUpdate" => {
            not_negative(object, &["spec", "updateStrategy", "rollingUpdate", "partition"], causes);
        }
        "OnDelete" => {
            if let Some(value) = at(object, &["spec", "updateStrategy", "rollingUpdate"]) {
                let why = "only allowed for updateStrategy 'RollingUpdate'";
                causes.push(Cause::invalid("spec.updateStrategy.rollingUpdate", value, why));
            }
        }
        _ => {
            let value = at(object, &["spec", "updateStrategy"]).cloned().unwrap_or_default();
            causes.push(Cause::invalid("spec.updateStrategy", &value, "must be 'RollingUpdate' or 'OnDelete'"));
        }
    }
}

fn job(object: &Value, causes: &mut Vec<Cause>) {
    for field in [
        "parallelism",
        "completions",
        "activeDeadlineSeconds",
        "backoffLimit",
        "ttlSecondsAfterFinished",
        "backoffLimitPerIndex",
        "maxFailedIndexes",
    ] {
        not_negative(object, &["spec", field], causes);
    }
    let mode = text_at(object, &["spec", "completionMode"]);
    if !["NonIndexed", "Indexed"].contains(&mode) {
        causes.push(Cause::not_supported("spec.completionMode", &mode.into(), &["NonIndexed", "Indexed"]));
    }
    if mode == "Indexed" && at(object, &["spec", "completions"]).is_none() {
        causes.push(Cause::required("spec.completions", "when completion mode is Indexed"));
    }
    if mode == "NonIndexed" {
        for field in ["backoffLimitPerIndex", "maxFailedIndexes"] {
            if let Some(value) = at(object, &["spec", field]) {
                causes.push(Cause::invalid(format!("spec.{field}"), value, "requires indexed completion mode"));
            }
        }
    }
    let labels = at(object, &["spec", "template", "metadata", "labels"]).cloned().unwrap_or_default();
    let selector = at(object, &["spec", "selector"]);
    if at(object, &["spec", "manualSelector"]) != Some(&Value::Bool(true)) {
        let (uid, name) = (crate::meta::text(object, "uid"), crate::meta::name(object));
        let expected = [
            ("controller-uid", uid),
            ("job-name", name),
            ("batch.kubernetes.io/controller-uid", uid),
            ("batch.kubernetes.io/job-name", name),
        ];
        let get = |key: &str| expected.iter().find(|(own, _)| *own == key).map(|(_, value)| *value);
        if let Some(found) = selector.filter(|found| !LabelSelector::from_object(Some(found)).matches(get)) {
            causes.push(Cause::invalid("spec.selector", found, "`selector` not auto-generated"));
        }
    }
    if !LabelSelector::from_object(selector).matches(|key| labels.get(key)?.as_str()) {
        let why = "`selector` does not match template `labels`";
        causes.push(Cause::invalid("spec.template.metadata.labels", &labels, why));
    }
}

/// Judges the expressions of a label selector.
fn expressions(selector: &Value, path: &str, causes: &mut Vec<Cause>) {
    for (index, term) in crate::meta::list_at(selector, &["matchExpressions"]).iter().enumerate() {
        let here = format!("{path}.matchExpressions[{index}]");
        let n_values = crate::meta::list_at(term, &["values"]).len();
        match text_at(term, &["operator"]) {
            "In" | "NotIn" if n_values == 0 => {
                let why = "must be specified when `operator` is 'In' or 'NotIn'";
                causes.push(Cause::required(format!("{here}.values"), why));
            }
            "Exists" | "DoesNotExist" if n_values > 0 => {
                let why = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'";
                causes.push(Cause::forbidden(format!("{here}.values"), why));
            }
            "In" | "NotIn" | "Exists" | "DoesNotExist" => {}
            other => {
                causes.push(Cause::invalid(format!("{here}.operator"), &other.into(), "not a valid selector operator"));
            }
        }
    }
}

/// Judges the counts in the status of a Deployment.
pub(super) fn check_status(resource: &Resource, object: &Value, causes: &mut Vec<Cause>) {
    if !resource.is("deployments.apps") {
        return;
    }
    let counts = ["observedGeneration", "replicas", "updatedReplicas", "readyReplicas", "availableReplicas"];
    for field in counts.into_iter().chain(["unavailableReplicas", "terminatingReplicas", "collisionCount"]) {
        not_negative(object, &["status", field], causes);
    }
    let count = |field: &str| crate::meta::int_at(object, &["status", field]).unwrap_or(0);
    for field in ["updatedReplicas", "readyReplicas", "availableReplicas"] {
        if count(field) > count("replicas") {
            let why = "cannot be greater than status.replicas";
            causes.push(Cause::invalid(format!("status.{field}"), &count(field).into(), why));
        }
    }
    if count("availableReplicas") > count("readyReplicas") {
        let why = "cannot be greater than readyReplicas";
        causes.push(Cause::invalid("status.availableReplicas", &count("availableReplicas").into(), why));
    }
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
        "controllerrevisions.apps" => immutable(new, old, &["data"], causes),
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
