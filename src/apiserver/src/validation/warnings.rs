//! What is legal in a pod and probably not meant, in the words of the real server's `Warning` headers.

use std::collections::BTreeMap;
use std::str::FromStr;

use berth_quantity::Quantity;
use serde_json::Value;

use crate::meta::{self, list_at, text_at};
use crate::resource::Resource;

/// The warnings about an object. Changes of pods are not warned of, and those of workloads where the spec changed.
pub(super) fn of(resource: &Resource, object: &Value, old: Option<&Value>) -> Vec<String> {
    let same_spec = old.is_some_and(|old| old.get("spec") == object.get("spec"));
    let mut out = Vec::new();
    match resource.storage.as_str() {
        "pods" if old.is_none() => pod(object, "", &mut out),
        "deployments.apps"
        | "replicasets.apps"
        | "statefulsets.apps"
        | "daemonsets.apps"
        | "jobs.batch"
        | "replicationcontrollers"
            if !same_spec =>
        {
            template(object, &["spec", "template"], &mut out);
        }
        _ if resource.group == "admissionregistration.k8s.io" => out.push(format!(
            "{} {}: this API server keeps it, and neither calls webhooks nor asks policies",
            resource.kind,
            meta::name(object)
        )),
        "cronjobs.batch" if !same_spec => {
            template(object, &["spec", "jobTemplate", "spec", "template"], &mut out);
        }
        _ => {}
    }
    out
}

fn template(object: &Value, path: &[&str], out: &mut Vec<String>) {
    if let Some(found) = meta::at(object, path) {
        pod(found, &format!("{}.", path.join(".")), out);
    }
}

fn pod(pod: &Value, path: &str, out: &mut Vec<String>) {
    let empty = Value::Null;
    let spec = pod.get("spec").unwrap_or(&empty);
    for (index, constraint) in list_at(spec, &["topologySpreadConstraints"]).iter().enumerate() {
        null_selector(constraint, &format!("{path}spec.topologySpreadConstraints[{index}]"), out);
    }
    for (key, why) in [
        ("scheduler.alpha.kubernetes.io/critical-pod", "v1.16+; use the \"priorityClassName\" field instead"),
        ("security.alpha.kubernetes.io/sysctls", "v1.11+; use the \"sysctls\" field instead"),
        ("security.alpha.kubernetes.io/unsafe-sysctls", "v1.11+; use the \"sysctls\" field instead"),
    ] {
        if meta::annotation(pod, key).is_some() {
            out.push(format!("{path}metadata.annotations[{key}]: non-functional in {why}"));
        }
    }
    let containers: Vec<(String, &Value)> = ["initContainers", "containers", "ephemeralContainers"]
        .into_iter()
        .flat_map(|field| {
            let list = list_at(spec, &[field]).iter().enumerate();
            list.map(move |(index, container)| (format!("{path}spec.{field}[{index}]"), container))
        })
        .collect();
    for (here, container) in &containers {
        fractions(container, here, out);
        hidden_variables(container, here, out);
    }
    ports(&containers, out);
    if meta::int_at(spec, &["terminationGracePeriodSeconds"]).is_some_and(|seconds| seconds < 0) {
        out.push(format!(
            "{path}spec.terminationGracePeriodSeconds: must be >= 0; negative values are invalid and will be treated as 1"
        ));
    }
    for kind in ["podAffinity", "podAntiAffinity"] {
        let of = |when: &str| format!("{when}DuringSchedulingIgnoredDuringExecution");
        for (index, term) in list_at(spec, &["affinity", kind, &of("required")]).iter().enumerate() {
            null_selector(term, &format!("{path}spec.affinity.{kind}.{}[{index}]", of("required")), out);
        }
        for (index, term) in list_at(spec, &["affinity", kind, &of("preferred")]).iter().enumerate() {
            let here = format!("{path}spec.affinity.{kind}.{}[{index}].podAffinityTerm", of("preferred"));
            null_selector(term.get("podAffinityTerm").unwrap_or(&empty), &here, out);
        }
    }
}

fn null_selector(term: &Value, path: &str, out: &mut Vec<String>) {
    if term.get("labelSelector").is_none() {
        out.push(format!("{path}.labelSelector: a null labelSelector results in matching no pod"));
    }
}

fn fractions(container: &Value, path: &str, out: &mut Vec<String>) {
    for name in ["memory", "ephemeral-storage"] {
        for of in ["limits", "requests"] {
            let text = text_at(container, &["resources", of, name]);
            let Ok(amount) = Quantity::from_str(text) else { continue };
            if amount.value_ceil() != amount.value_floor() {
                out.push(format!(
                    "{path}.resources.{of}[{name}]: fractional byte value {text:?} is invalid, must be an integer"
                ));
            }
        }
    }
}

fn hidden_variables(container: &Value, path: &str, out: &mut Vec<String>) {
    let mut seen: Vec<&str> = Vec::new();
    for (index, variable) in list_at(container, &["env"]).iter().enumerate() {
        let name = text_at(variable, &["name"]);
        if !seen.contains(&name) {
            seen.push(name);
            continue;
        }
        let (value, own) = (text_at(variable, &["value"]), format!("$({name})"));
        if variable.get("valueFrom").is_some() || value == own || !value.contains(&own) {
            out.push(format!(
                "{path}.env[{index}]: hides previous definition of {name:?}, which may be dropped when using apply"
            ));
        }
    }
}

fn ports(containers: &[(String, &Value)], out: &mut Vec<String>) {
    let mut known: BTreeMap<String, Vec<(String, &Value)>> = BTreeMap::new();
    let mut names: BTreeMap<&str, String> = BTreeMap::new();
    let mut of_names = Vec::new();
    for (path, container) in containers {
        for (index, port) in list_at(container, &["ports"]).iter().enumerate() {
            let here = format!("{path}.ports[{index}]");
            let number = meta::int_at(port, &["containerPort"]).unwrap_or(0);
            let others = known.entry(format!("{number}/{}", text_at(port, &["protocol"]))).or_default();
            for (other_path, other) in others.iter() {
                let ip = |port: &Value| text_at(port, &["hostIP"]).to_owned();
                let host = |port: &Value| meta::int_at(port, &["hostPort"]).unwrap_or(0);
                if ip(port) == ip(other) && host(port) == host(other) {
                    out.push(format!("{here}: duplicate port definition with {other_path}"));
                } else if host(port) == 0 || host(other) == 0 {
                    out.push(format!("{here}: overlapping port definition with {other_path}"));
                } else if host(port) == host(other) && ip(port).is_empty() != ip(other).is_empty() {
                    out.push(format!("{here}: dangerously ambiguous port definition with {other_path}"));
                }
            }
            others.push((here.clone(), port));
            let name = text_at(port, &["name"]);
            if name.is_empty() {
                continue;
            }
            match names.get(name) {
                Some(other) => of_names.push(format!(
                    "{here}: duplicate port name {name:?} with {other}, services and probes that select ports by name will use {other}"
                )),
                None => {
                    names.insert(name, here);
                }
            }
        }
    }
    out.extend(of_names);
}
