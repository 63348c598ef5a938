//! Pods and pod templates.

mod change;
mod containers;
mod placement;

use serde_json::Value;

use self::containers::{check_container, host_ports};
use self::placement::{affinity, spread, tolerations};
use super::{meta_fields, names};
use crate::meta::{self, list_at, text_at};
use crate::status::Cause;

pub(super) use change::{check_change, check_part};

/// Judges a pod.
pub(super) fn check(pod: &Value, causes: &mut Vec<Cause>) {
    let empty = Value::Null;
    spec(pod.get("spec").unwrap_or(&empty), "spec", causes);
    if !list_at(pod, &["spec", "schedulingGates"]).is_empty() && !text_at(pod, &["spec", "nodeName"]).is_empty() {
        causes.push(Cause::forbidden("spec.nodeName", "cannot be set until all schedulingGates have been cleared"));
    }
}

/// Judges the template of a workload; `policies` are the restart policies that it may have.
pub(super) fn template(template: &Value, path: &str, policies: &[&str], causes: &mut Vec<Cause>) {
    meta_fields::check_labels(meta::at(template, &["metadata", "labels"]), &format!("{path}.labels"), causes);
    let empty = Value::Null;
    let spec_value = template.get("spec").unwrap_or(&empty);
    spec(spec_value, &format!("{path}.spec"), causes);
    let policy = text_at(spec_value, &["restartPolicy"]);
    if policy == "Always" && policies.len() > 1 {
        // What was left open became Always, and that is not told apart.
        let listed: Vec<String> = policies.iter().map(|policy| format!("{policy:?}")).collect();
        let why = format!("valid values: {}", listed.join(", "));
        causes.push(Cause::required(format!("{path}.spec.restartPolicy"), &why));
    } else if !policies.contains(&policy) {
        causes.push(Cause::not_supported(format!("{path}.spec.restartPolicy"), &policy.into(), policies));
    }
}

fn spec(spec: &Value, path: &str, causes: &mut Vec<Cause>) {
    let containers = list_at(spec, &["containers"]);
    if containers.is_empty() {
        causes.push(Cause::required(format!("{path}.containers"), ""));
    }
    let volumes = volumes(spec, path, causes);
    let mut seen: Vec<&str> = Vec::new();
    for field in ["initContainers", "containers"] {
        for (index, container) in list_at(spec, &[field]).iter().enumerate() {
            let here = format!("{path}.{field}[{index}]");
            let name = text_at(container, &["name"]);
            if seen.contains(&name) {
                causes.push(Cause::duplicate(format!("{here}.name"), &name.into()));
            }
            seen.push(name);
            check_container(container, &here, &volumes, causes);
        }
    }
    let one_of = |field: &str, allowed: &[&str], causes: &mut Vec<Cause>| {
        let value = text_at(spec, &[field]);
        if value.is_empty() && spec.get(field).is_none() {
            causes.push(Cause::required(format!("{path}.{field}"), ""));
        } else if !allowed.contains(&value) {
            causes.push(Cause::not_supported(format!("{path}.{field}"), &value.into(), allowed));
        }
    };
    host_ports(spec, path, causes);
    one_of("restartPolicy", &["Always", "OnFailure", "Never"], causes);
    one_of("dnsPolicy", &["ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"], causes);
    if let Some(seconds) = meta::int_at(spec, &["activeDeadlineSeconds"]).filter(|s| !(1..=2_147_483_647).contains(s)) {
        let why = "must be between 1 and 2147483647, inclusive";
        causes.push(Cause::invalid(format!("{path}.activeDeadlineSeconds"), &seconds.into(), why));
    }
    meta_fields::check_labels(spec.get("nodeSelector"), &format!("{path}.nodeSelector"), causes);
    if let Some(why) = Some(text_at(spec, &["nodeName"])).filter(|name| !name.is_empty()).and_then(names::subdomain) {
        causes.push(Cause::invalid(format!("{path}.nodeName"), &text_at(spec, &["nodeName"]).into(), &why));
    }
    tolerations(spec, path, causes);
    spread(spec, path, causes);
    affinity(spec, path, causes);
}

/// Kinds of volumes, in the order in which the real server looks at them.
const SOURCES: &[&str] = &[
    "emptyDir",
    "hostPath",
    "gitRepo",
    "gcePersistentDisk",
    "awsElasticBlockStore",
    "secret",
    "nfs",
    "iscsi",
    "glusterfs",
    "flocker",
    "persistentVolumeClaim",
    "rbd",
    "cinder",
    "cephfs",
    "quobyte",
    "downwardAPI",
    "fc",
    "configMap",
    "azureFile",
    "vsphereVolume",
    "photonPersistentDisk",
    "portworxVolume",
    "azureDisk",
    "storageos",
    "projected",
    "scaleIO",
    "csi",
    "ephemeral",
    "image",
];

fn volumes<'v>(spec: &'v Value, path: &str, causes: &mut Vec<Cause>) -> Vec<&'v str> {
    let mut seen: Vec<&str> = Vec::new();
    for (index, volume) in list_at(spec, &["volumes"]).iter().enumerate() {
        let here = format!("{path}.volumes[{index}]");
        let name = text_at(volume, &["name"]);
        if name.is_empty() {
            causes.push(Cause::required(format!("{here}.name"), ""));
        } else if let Some(why) = names::label(name) {
            causes.push(Cause::invalid(format!("{here}.name"), &name.into(), &why));
        } else if seen.contains(&name) {
            causes.push(Cause::duplicate(format!("{here}.name"), &name.into()));
        }
        let sources: Vec<&str> = SOURCES.iter().copied().filter(|source| volume.get(*source).is_some()).collect();
        for source in sources.iter().skip(1) {
            causes.push(Cause::forbidden(format!("{here}.{source}"), "may not specify more than 1 volume type"));
        }
        let has_account = !text_at(spec, &["serviceAccountName"]).is_empty();
        for (n, source) in list_at(volume, &["projected", "sources"]).iter().enumerate() {
            // Templates name no account: their pods get one.
            if source.get("serviceAccountToken").is_some() && !has_account && path == "spec" {
                let why = "must not be specified when serviceAccountName is not set";
                causes.push(Cause::forbidden(format!("{here}.projected.sources[{n}].serviceAccountToken"), why));
            }
        }
        seen.push(name);
    }
    seen
}
