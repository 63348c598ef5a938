//! Nodes, Services, Events and the small kinds.

use serde_json::Value;

use super::limits::{budget, limit_range, priority_class};
use super::quotas::{quota, quota_change};
use super::services::{service, service_change};
use super::volumes::{claim, claim_change, volume, volume_change};
use super::webhooks;
use super::{immutable, names};
use crate::meta::{self, at, list_at, text_at};
use crate::resource::Resource;
use crate::status::Cause;

const CONFIG_KEY: &str = "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  \
    or 'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')";

pub(super) fn check(resource: &Resource, object: &Value, causes: &mut Vec<Cause>) {
    match resource.storage.as_str() {
        "nodes" => taints(object, causes),
        "persistentvolumeclaims" => claim(object, causes),
        "persistentvolumes" => volume(object, causes),
        "poddisruptionbudgets.policy" => budget(object, causes),
        "services" => service(object, causes),
        "mutatingwebhookconfigurations.admissionregistration.k8s.io"
        | "validatingwebhookconfigurations.admissionregistration.k8s.io" => webhooks::webhooks(object, causes),
        "validatingadmissionpolicies.admissionregistration.k8s.io" => webhooks::policy(object, causes),
        "validatingadmissionpolicybindings.admissionregistration.k8s.io" => webhooks::binding(object, causes),
        "priorityclasses.scheduling.k8s.io" => priority_class(object, causes),
        "configmaps" => data_keys(object, causes),
        "secrets" => {
            data_keys(object, causes);
            required_keys(object, causes);
        }
        "resourcequotas" => quota(object, causes),
        "storageclasses.storage.k8s.io" => {
            if text_at(object, &["provisioner"]).is_empty() {
                causes.push(Cause::required("provisioner", ""));
            }
            for (field, supported) in
                [("reclaimPolicy", ["Delete", "Retain"]), ("volumeBindingMode", ["Immediate", "WaitForFirstConsumer"])]
            {
                let value = text_at(object, &[field]);
                if !supported.contains(&value) {
                    causes.push(Cause::not_supported(field, &value.into(), &supported));
                }
            }
        }
        "limitranges" => limit_range(object, causes),
        "events" => event(resource, object, causes),
        "roles.rbac.authorization.k8s.io" | "clusterroles.rbac.authorization.k8s.io" => role(resource, object, causes),
        "leases.coordination.k8s.io" => {
            for field in ["leaseDurationSeconds", "leaseTransitions"] {
                if let Some(number) =
                    meta::int_at(object, &["spec", field]).filter(|n| *n < i64::from(field == "leaseDurationSeconds"))
                {
                    let why = if field == "leaseDurationSeconds" {
                        "must be greater than 0"
                    } else {
                        "must be greater than or equal to 0"
                    };
                    causes.push(Cause::invalid(format!("spec.{field}"), &number.into(), why));
                }
            }
        }
        "rolebindings.rbac.authorization.k8s.io" | "clusterrolebindings.rbac.authorization.k8s.io"
            if text_at(object, &["roleRef", "name"]).is_empty() =>
        {
            causes.push(Cause::required("roleRef.name", ""));
        }
        _ => {}
    }
}

pub(super) fn check_change(resource: &Resource, new: &Value, old: &Value, causes: &mut Vec<Cause>) {
    match resource.storage.as_str() {
        "configmaps" | "secrets" => {
            if old.get("immutable") == Some(&Value::Bool(true)) {
                for field in ["data", "binaryData", "immutable"] {
                    if new.get(field) != old.get(field) {
                        causes.push(Cause::forbidden(field, "field is immutable when `immutable` is set"));
                    }
                }
            }
            if resource.is("secrets") {
                immutable(new, old, &["type"], causes);
            }
        }
        "persistentvolumeclaims" => claim_change(new, old, causes),
        "resourcequotas" => quota_change(new, old, causes),
        "priorityclasses.scheduling.k8s.io" => {
            if new.get("value") != old.get("value") {
                causes.push(Cause::forbidden("value", "may not be changed in an update."));
            }
            immutable(new, old, &["preemptionPolicy"], causes);
        }
        "storageclasses.storage.k8s.io" => {
            for field in ["parameters", "provisioner", "reclaimPolicy"] {
                if new.get(field) != old.get(field) {
                    causes.push(Cause::forbidden(field, &format!("updates to {field} are forbidden.")));
                }
            }
            immutable(new, old, &["volumeBindingMode"], causes);
        }
        "services" => service_change(new, old, causes),
        "rolebindings.rbac.authorization.k8s.io" | "clusterrolebindings.rbac.authorization.k8s.io"
            if new.get("roleRef") != old.get("roleRef") =>
        {
            let value = new.get("roleRef").cloned().unwrap_or_default();
            causes.push(Cause::invalid("roleRef", &value, "cannot change roleRef"));
        }
        "persistentvolumes" => volume_change(new, old, causes),
        "nodes" => {
            let ranges = |object: &Value| at(object, &["spec", "podCIDRs"]).cloned();
            if ranges(old).is_some() && ranges(old) != ranges(new) {
                let why = "node updates may not change podCIDR except from \"\" to valid";
                causes.push(Cause::forbidden("spec.podCIDRs", why));
            }
            let was = text_at(old, &["spec", "providerID"]);
            if !was.is_empty() && was != text_at(new, &["spec", "providerID"]) {
                causes.push(Cause::forbidden(
                    "spec.providerID",
                    "node updates may not change providerID except from \"\" to valid",
                ));
            }
        }
        _ => {}
    }
}

fn taints(node: &Value, causes: &mut Vec<Cause>) {
    let mut seen: Vec<(&str, &str)> = Vec::new();
    for (index, taint) in list_at(node, &["spec", "taints"]).iter().enumerate() {
        // The real server names this path, too.
        let path = format!("metadata.taints[{index}]");
        let text = |field: &str| text_at(taint, &[field]);
        for why in names::label_key_causes(text("key")) {
            causes.push(Cause::invalid(format!("{path}.key"), &text("key").into(), &why));
        }
        if let Some(why) = names::label_value(text("value")) {
            causes.push(Cause::invalid(format!("{path}.value"), &text("value").into(), &why));
        }
        let effects = ["NoSchedule", "PreferNoSchedule", "NoExecute"];
        if text("effect").is_empty() {
            causes.push(Cause::required(format!("{path}.effect"), ""));
        } else if !effects.contains(&text("effect")) {
            causes.push(Cause::not_supported(format!("{path}.effect"), &text("effect").into(), &effects));
        }
        let identity = (text("key"), text("effect"));
        if seen.contains(&identity) {
            let mut cause = Cause::duplicate(path, taint);
            cause.message += ": taints must be unique by key and effect pair";
            causes.push(cause);
        }
        seen.push(identity);
    }
}

/// Events of the old group may lack much, those of the new one must have a time and a type.
fn event(resource: &Resource, event: &Value, causes: &mut Vec<Cause>) {
    let regards = if resource.group.is_empty() { "involvedObject" } else { "regarding" };
    let of = text_at(event, &[regards, "namespace"]);
    let own = meta::namespace(event);
    let has_time = at(event, &["eventTime"]).is_some_and(|time| !time.is_null());
    if of != own && !(of.is_empty() && own == "default") {
        causes.push(Cause::invalid("involvedObject.namespace", &of.into(), "does not match event.namespace"));
    }
    if resource.group.is_empty() && !has_time {
        return;
    }
    let reporting = if resource.group.is_empty() { "reportingComponent" } else { "reportingController" };
    if has_time {
        for field in [reporting, "reportingInstance", "action", "reason"] {
            if text_at(event, &[field]).is_empty() {
                causes.push(Cause::required(field, ""));
            }
        }
    }
    if resource.group.is_empty() {
        return;
    }
    if !has_time {
        causes.push(Cause::required("eventTime", ""));
    }
    let kind = text_at(event, &["type"]);
    if !["Normal", "Warning"].contains(&kind) {
        causes.push(Cause::invalid("type", &"".into(), &format!("has invalid value: {kind}")));
    }
    if let Some(series) = event.get("series") {
        if meta::int_at(series, &["count"]).unwrap_or(0) < 2 {
            causes.push(Cause::invalid("series.count", &"".into(), "should be at least 2"));
        }
        if text_at(series, &["lastObservedTime"]).is_empty() {
            causes.push(Cause::required("series.lastObservedTime", ""));
        }
    }
}

fn role(resource: &Resource, role: &Value, causes: &mut Vec<Cause>) {
    for (index, rule) in list_at(role, &["rules"]).iter().enumerate() {
        let path = format!("rules[{index}]");
        let has = |field: &str| !list_at(rule, &[field]).is_empty();
        if !has("verbs") {
            causes.push(Cause::required(format!("{path}.verbs"), "verbs must contain at least one value"));
        }
        if has("nonResourceURLs") {
            let urls = rule.get("nonResourceURLs").cloned().unwrap_or_default();
            if resource.namespaced {
                let why = "namespaced rules cannot apply to non-resource URLs";
                causes.push(Cause::invalid(format!("{path}.nonResourceURLs"), &urls, why));
            }
            if ["apiGroups", "resources", "resourceNames"].into_iter().any(has) {
                let why = "rules cannot apply to both regular resources and non-resource URLs";
                causes.push(Cause::invalid(format!("{path}.nonResourceURLs"), &urls, why));
            }
            continue;
        }
        for (field, why) in [
            ("apiGroups", "resource rules must supply at least one api group"),
            ("resources", "resource rules must supply at least one resource"),
        ] {
            if !has(field) {
                causes.push(Cause::required(format!("{path}.{field}"), why));
            }
        }
    }
}

/// Keys that a Secret of a type must have.
fn required_keys(secret: &Value, causes: &mut Vec<Cause>) {
    let data = secret.get("data").and_then(Value::as_object);
    let has = |key: &str| data.is_some_and(|data| data.contains_key(key));
    let needs: &[&str] = match text_at(secret, &["type"]) {
        "kubernetes.io/service-account-token" => {
            if meta::annotation(secret, "kubernetes.io/service-account.name").is_none_or(str::is_empty) {
                causes.push(Cause::required("metadata.annotations[kubernetes.io/service-account.name]", ""));
            }
            &[]
        }
        "kubernetes.io/dockercfg" => &[".dockercfg"],
        "kubernetes.io/dockerconfigjson" => &[".dockerconfigjson"],
        "kubernetes.io/basic-auth" if !has("username") && !has("password") => &["username", "password"],
        "kubernetes.io/ssh-auth" => &["ssh-privatekey"],
        "kubernetes.io/tls" => &["tls.crt", "tls.key"],
        _ => &[],
    };
    for key in needs.iter().filter(|key| !has(key)) {
        causes.push(Cause::required(format!("data[{key}]"), ""));
    }
}

fn data_keys(object: &Value, causes: &mut Vec<Cause>) {
    let mut size = 0;
    for field in ["data", "binaryData"] {
        for (key, value) in object.get(field).and_then(Value::as_object).into_iter().flatten() {
            let mut wrong = Vec::new();
            if key.len() > 253 {
                wrong.push("must be no more than 253 bytes");
            }
            if key.is_empty() || !key.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c)) {
                wrong.push(CONFIG_KEY);
            }
            match key.as_str() {
                "." => wrong.push("must not be '.'"),
                ".." => wrong.push("must not be '..'"),
                other if other.starts_with("..") => wrong.push("must not start with '..'"),
                _ => {}
            }
            if field == "data" && object.get("binaryData").is_some_and(|other| other.get(key).is_some()) {
                wrong.push("duplicate of key present in binaryData");
            }
            for why in wrong {
                causes.push(Cause::invalid(format!("{field}[{key}]"), &key.as_str().into(), why));
            }
            size += value.as_str().map_or(0, str::len);
        }
    }
    if size > 1024 * 1024 {
        causes.push(Cause::too_long("", 1024 * 1024));
    }
}
