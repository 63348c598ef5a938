//! Nodes, claims, volumes, budgets, services and the small kinds.

use std::str::FromStr;

use berth_quantity::Quantity;
use serde_json::Value;

use super::{immutable, names, not_negative};
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
        "persistentvolumeclaims" => {
            let fixed = |object: &Value| {
                let mut spec = object.get("spec").cloned().unwrap_or_default();
                if let Some(map) = spec.as_object_mut() {
                    map.remove("resources");
                    map.remove("volumeAttributesClassName");
                    if text_at(old, &["spec", "volumeName"]).is_empty() {
                        map.remove("volumeName");
                    }
                }
                spec
            };
            if fixed(new) != fixed(old) {
                let why = "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims";
                causes.push(Cause::forbidden("spec", why));
            }
            let size = |object: &Value| {
                Quantity::from_str(text_at(object, &["spec", "resources", "requests", "storage"])).ok()
            };
            if let (Some(is), Some(was)) = (size(new), size(old))
                && is < was
            {
                let why = "field can not be less than status.capacity";
                causes.push(Cause::forbidden("spec.resources.requests.storage", why));
            }
        }
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
        "services" => {
            let was = text_at(old, &["spec", "clusterIP"]);
            let both = [old, new].iter().all(|object| text_at(object, &["spec", "type"]) != "ExternalName");
            if both && !was.is_empty() && was != text_at(new, &["spec", "clusterIP"]) {
                let addresses = at(new, &["spec", "clusterIPs"]).cloned().unwrap_or_default();
                causes.push(Cause::invalid("spec.clusterIPs[0]", &addresses, "may not change once set"));
            }
        }
        "rolebindings.rbac.authorization.k8s.io" | "clusterrolebindings.rbac.authorization.k8s.io"
            if new.get("roleRef") != old.get("roleRef") =>
        {
            let value = new.get("roleRef").cloned().unwrap_or_default();
            causes.push(Cause::invalid("roleRef", &value, "cannot change roleRef"));
        }
        "persistentvolumes" => {
            let source = |object: &Value| {
                let mut spec = object.get("spec").and_then(Value::as_object).cloned().unwrap_or_default();
                spec.retain(|field, _| !PLAIN_VOLUME_FIELDS.contains(&field.as_str()));
                spec
            };
            if source(new) != source(old) {
                let why = "spec.persistentvolumesource is immutable after creation";
                causes.push(Cause::forbidden("spec.persistentvolumesource", why));
            }
            immutable(new, old, &["spec", "volumeMode"], causes);
        }
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

/// What a volume's spec has besides its source.
const PLAIN_VOLUME_FIELDS: [&str; 9] = [
    "capacity",
    "accessModes",
    "claimRef",
    "persistentVolumeReclaimPolicy",
    "storageClassName",
    "mountOptions",
    "volumeMode",
    "nodeAffinity",
    "volumeAttributesClassName",
];

fn access_modes(object: &Value, causes: &mut Vec<Cause>) {
    let modes = list_at(object, &["spec", "accessModes"]);
    if modes.is_empty() {
        let why = if object.get("kind").is_some_and(|kind| kind == "PersistentVolume") {
            ""
        } else {
            "at least 1 access mode is required"
        };
        causes.push(Cause::required("spec.accessModes", why));
    }
    let supported = ["ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"];
    for mode in modes {
        if !supported.contains(&mode.as_str().unwrap_or_default()) {
            causes.push(Cause::not_supported("spec.accessModes", mode, &supported));
        }
    }
}

fn claim(claim: &Value, causes: &mut Vec<Cause>) {
    access_modes(claim, causes);
    let storage = text_at(claim, &["spec", "resources", "requests", "storage"]);
    match Quantity::from_str(storage) {
        Ok(amount) if amount > Quantity::default() => {}
        Ok(_) => causes.push(Cause::invalid("spec.resources[storage]", &storage.into(), "must be greater than zero")),
        Err(_) => causes.push(Cause::required("spec.resources[storage]", "")),
    }
    let mode = text_at(claim, &["spec", "volumeMode"]);
    if !["Block", "Filesystem"].contains(&mode) {
        causes.push(Cause::not_supported("spec.volumeMode", &mode.into(), &["Block", "Filesystem"]));
    }
}

fn volume(volume: &Value, causes: &mut Vec<Cause>) {
    access_modes(volume, causes);
    if at(volume, &["spec", "capacity", "storage"]).is_none() {
        causes.push(Cause::required("spec.capacity", ""));
        let capacity = at(volume, &["spec", "capacity"]).cloned().unwrap_or_default();
        causes.push(Cause::not_supported("spec.capacity", &capacity, &["storage"]));
    }
    let spec = volume.get("spec").and_then(Value::as_object);
    let is_source = |field: &&String| !PLAIN_VOLUME_FIELDS.contains(&field.as_str());
    let mut sources = spec.into_iter().flatten().map(|(field, _)| field).filter(is_source);
    if sources.next().is_none() {
        causes.push(Cause::required("spec", "must specify a volume type"));
    }
    for source in sources {
        causes.push(Cause::forbidden(format!("spec.{source}"), "may not specify more than 1 volume type"));
    }
}

fn budget(budget: &Value, causes: &mut Vec<Cause>) {
    let (min, max) = (at(budget, &["spec", "minAvailable"]), at(budget, &["spec", "maxUnavailable"]));
    if min.is_some() && max.is_some() {
        let spec = budget.get("spec").cloned().unwrap_or_default();
        causes.push(Cause::invalid("spec", &spec, "minAvailable and maxUnavailable cannot be both set"));
    }
    if let Some(policy) = at(budget, &["spec", "unhealthyPodEvictionPolicy"]).and_then(Value::as_str) {
        let supported = ["AlwaysAllow", "IfHealthyBudget"];
        if !supported.contains(&policy) {
            causes.push(Cause::not_supported("spec.unhealthyPodEvictionPolicy", &policy.into(), &supported));
        }
    }
    for (field, value) in [("minAvailable", min), ("maxUnavailable", max)] {
        let path = format!("spec.{field}");
        match value {
            Some(Value::String(text)) => {
                let percent = text.strip_suffix('%').and_then(|digits| digits.parse::<u32>().ok());
                match percent {
                    None => {
                        let why = "a valid percent string must be a numeric value followed by an ending '%' (e.g. '1%',  or '93%', regex used for validation is '[0-9]+%')";
                        causes.push(Cause::invalid(path, &text.as_str().into(), why));
                    }
                    Some(percent) if percent > 100 => {
                        causes.push(Cause::invalid(path, &text.as_str().into(), "must not be greater than 100%"));
                    }
                    Some(_) => {}
                }
            }
            Some(_) => not_negative(budget, &["spec", field], causes),
            None => {}
        }
    }
}

fn service(service: &Value, causes: &mut Vec<Cause>) {
    let kind = text_at(service, &["spec", "type"]);
    let kinds = ["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"];
    if !kinds.contains(&kind) {
        causes.push(Cause::not_supported("spec.type", &kind.into(), &kinds));
    }
    let ports = list_at(service, &["spec", "ports"]);
    if ports.is_empty() && kind != "ExternalName" && text_at(service, &["spec", "clusterIP"]) != "None" {
        causes.push(Cause::required("spec.ports", ""));
    }
    for (index, port) in ports.iter().enumerate() {
        let path = format!("spec.ports[{index}]");
        let name = text_at(port, &["name"]);
        if name.is_empty() {
            if ports.len() > 1 {
                causes.push(Cause::required(format!("{path}.name"), ""));
            }
        } else {
            if let Some(why) = names::label(name) {
                causes.push(Cause::invalid(format!("{path}.name"), &name.into(), &why));
            }
            if ports.iter().take(index).any(|other| text_at(other, &["name"]) == name) {
                causes.push(Cause::duplicate(format!("{path}.name"), &name.into()));
            }
        }
        let number = meta::int_at(port, &["port"]).unwrap_or(0);
        if !(1..=65_535).contains(&number) {
            let why = "must be between 1 and 65535, inclusive";
            causes.push(Cause::invalid(format!("{path}.port"), &number.into(), why));
        }
        if let Some(target) = meta::int_at(port, &["targetPort"]).filter(|target| !(1..=65_535).contains(target)) {
            let why = "must be between 1 and 65535, inclusive";
            causes.push(Cause::invalid(format!("{path}.targetPort"), &target.into(), why));
        }
        let protocol = text_at(port, &["protocol"]);
        let protocols = ["SCTP", "TCP", "UDP"];
        if !protocols.contains(&protocol) {
            causes.push(Cause::not_supported(format!("{path}.protocol"), &protocol.into(), &protocols));
        }
    }
    let address = text_at(service, &["spec", "clusterIP"]);
    if !["", "None"].contains(&address) && address.parse::<std::net::IpAddr>().is_err() {
        let why = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)";
        causes.push(Cause::invalid("spec.clusterIPs[0]", &address.into(), why));
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

fn priority_class(class: &Value, causes: &mut Vec<Cause>) {
    let name = meta::name(class);
    let value = class.get("value").and_then(Value::as_i64).unwrap_or(0);
    let is_system = name.starts_with("system-");
    let known = [("system-cluster-critical", 2_000_000_000), ("system-node-critical", 2_000_001_000)];
    if is_system && !known.contains(&(name, value)) {
        let why = "priority class names with 'system-' prefix are reserved for system use only. error: ".to_owned()
            + &format!("{name} is not a known system priority class");
        causes.push(Cause::forbidden("metadata.name", &why));
    } else if !is_system && value > 1_000_000_000 {
        let why = "maximum allowed value of a user defined priority is 1000000000";
        causes.push(Cause::forbidden("value", why));
    }
    let policies = ["Never", "PreemptLowerPriority"];
    let policy = text_at(class, &["preemptionPolicy"]);
    if !policies.contains(&policy) {
        causes.push(Cause::not_supported("preemptionPolicy", &policy.into(), &policies));
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

fn limit_range(range: &Value, causes: &mut Vec<Cause>) {
    for (index, limit) in list_at(range, &["spec", "limits"]).iter().enumerate() {
        let path = format!("spec.limits[{index}]");
        let amount = |field: &str, name: &str| Quantity::from_str(text_at(limit, &[field, name])).ok();
        let fields = ["max", "min", "default", "defaultRequest"];
        let mut seen = std::collections::BTreeSet::new();
        for field in fields {
            seen.extend(at(limit, &[field]).and_then(Value::as_object).into_iter().flatten().map(|(name, _)| name));
        }
        for name in seen {
            let mut above = |low: &str, high: &str, field: &str, shown: &str, why: [&str; 2]| {
                if let (Some(least), Some(most)) = (amount(low, name), amount(high, name))
                    && least > most
                {
                    let value = amount(shown, name).map(|q| q.to_string()).unwrap_or_default();
                    let text = format!("{} value {least} is greater than {} value {most}", why[0], why[1]);
                    causes.push(Cause::invalid(format!("{path}.{field}[{name}]"), &value.into(), &text));
                }
            };
            above("min", "max", "min", "min", ["min", "max"]);
            above("min", "defaultRequest", "defaultRequest", "defaultRequest", ["min", "default request"]);
            above("defaultRequest", "max", "defaultRequest", "defaultRequest", ["default request", "max"]);
            above(
                "defaultRequest",
                "default",
                "defaultRequest",
                "defaultRequest",
                ["default request", "default limit"],
            );
            above("min", "default", "default", "min", ["min", "default"]);
            above("default", "max", "default", "max", ["default", "max"]);
        }
    }
}

const QUOTA_SCOPES: [&str; 7] = [
    "Terminating",
    "NotTerminating",
    "BestEffort",
    "NotBestEffort",
    "PriorityClass",
    "CrossNamespacePodAffinity",
    "VolumeAttributesClass",
];

fn quota(quota: &Value, causes: &mut Vec<Cause>) {
    let scopes = list_at(quota, &["spec", "scopes"]);
    let shown = Value::Array(scopes.to_vec());
    for scope in scopes {
        if !QUOTA_SCOPES.contains(&scope.as_str().unwrap_or_default()) {
            causes.push(Cause::invalid("spec.scopes", &shown, "unsupported scope"));
        }
    }
    for pair in [["BestEffort", "NotBestEffort"], ["Terminating", "NotTerminating"]] {
        if pair.iter().all(|scope| scopes.iter().any(|present| present == scope)) {
            causes.push(Cause::invalid("spec.scopes", &shown, "conflicting scopes"));
        }
    }
    for (name, value) in at(quota, &["spec", "hard"]).and_then(Value::as_object).into_iter().flatten() {
        let amount = value.as_str().and_then(|text| Quantity::from_str(text).ok());
        if amount.is_some_and(|amount| amount < Quantity::default()) {
            causes.push(Cause::invalid(format!("spec.hard[{name}]"), value, "must be greater than or equal to 0"));
        }
    }
}
