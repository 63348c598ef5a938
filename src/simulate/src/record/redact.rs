//! What of an object is recorded: what decisions look at, and nothing that a secret could be in.

use serde_json::{Map, Value, json};

/// What of a pod's spec is recorded. Commands, arguments, environment and mounts are none of it.
const POD: [&str; 18] = [
    "activeDeadlineSeconds",
    "affinity",
    "hostNetwork",
    "nodeSelector",
    "os",
    "overhead",
    "preemptionPolicy",
    "priorityClassName",
    "resourceClaims",
    "resources",
    "restartPolicy",
    "runtimeClassName",
    "schedulerName",
    "schedulingGates",
    "terminationGracePeriodSeconds",
    "tolerations",
    "topologySpreadConstraints",
    "containers",
];
const CONTAINER: [&str; 5] = ["name", "image", "ports", "resources", "restartPolicy"];
const VOLUME: [&str; 3] = ["name", "persistentVolumeClaim", "ephemeral"];
/// Volumes that are disks of their own, of which some go to one node alone and others count on it, and what tells them apart.
const DISKS: [(&str, &[&str]); 6] = [
    ("awsElasticBlockStore", &["volumeID", "readOnly"]),
    ("gcePersistentDisk", &["pdName", "readOnly"]),
    ("azureDisk", &["diskName", "diskURI", "readOnly"]),
    ("cinder", &["volumeID", "readOnly"]),
    ("iscsi", &["iqn", "lun", "targetPortal", "readOnly"]),
    ("rbd", &["monitors", "pool", "image", "readOnly"]),
];
/// A volume of a driver, which may be attached to so many of a node.
const CSI: (&str, &[&str]) = ("csi", &["driver", "volumeHandle", "readOnly"]);
const VOLUME_SPEC: [&str; 6] =
    ["accessModes", "capacity", "nodeAffinity", "persistentVolumeReclaimPolicy", "storageClassName", "volumeMode"];
/// On a claim: a controller chose its volume.
const BOUND_BY_CONTROLLER: &str = "pv.kubernetes.io/bound-by-controller";
/// Annotations with one of these before the slash, or that are one of these.
const ANNOTATIONS: [&str; 8] = [
    "karpenter.sh/",
    "berth.sh/",
    "scheduling.koordinator.sh/",
    "node.koordinator.sh/",
    "scheduling.k8s.io/",
    "controller.kubernetes.io/pod-deletion-cost",
    "cluster-autoscaler.kubernetes.io/safe-to-evict",
    "storageclass.kubernetes.io/is-default-class",
];
/// Labels that a Job's controller gives to its pods: another one gives them anew.
const OF_JOBS: [&str; 4] =
    ["controller-uid", "job-name", "batch.kubernetes.io/controller-uid", "batch.kubernetes.io/job-name"];
/// Fields beside metadata and spec that some kinds have.
const BESIDE: [&str; 11] = [
    "value",
    "globalDefault",
    "preemptionPolicy",
    "provisioner",
    "reclaimPolicy",
    "volumeBindingMode",
    "allowedTopologies",
    "allowVolumeExpansion",
    "handler",
    "overhead",
    "scheduling",
];

/// An object as it is recorded.
pub(super) fn object(api_version: &str, kind: &str, object: &Value) -> Value {
    let mut out = json!({"apiVersion": api_version, "kind": kind, "metadata": metadata(object.get("metadata"))});
    let Some(fields) = out.as_object_mut() else { return out };
    for field in BESIDE {
        copy(object, field, fields);
    }
    if let Some(spec) = object.get("spec") {
        fields.insert("spec".to_owned(), spec_of(kind, spec));
    }
    if kind == "PersistentVolumeClaim" && is_bound_by_controller(object) {
        // A replay finds or makes it a volume anew.
        fields.entry("spec").and_modify(|spec| remove(spec, &["volumeName"]));
    }
    if kind == "Node" {
        let status = object.get("status").map(|status| only(status, &["capacity", "allocatable"]));
        fields.extend(status.map(|status| ("status".to_owned(), status)));
    }
    out
}

fn spec_of(kind: &str, spec: &Value) -> Value {
    let mut spec = spec.clone();
    match kind {
        "Pod" => return pod_spec(&spec),
        "Deployment" | "ReplicaSet" | "StatefulSet" | "DaemonSet" | "ReplicationController" | "Reservation" => {
            template(&mut spec);
            if let Some(claims) = spec.get_mut("volumeClaimTemplates").and_then(Value::as_array_mut) {
                for claim in claims {
                    *claim = json!({"metadata": metadata(claim.get("metadata")), "spec": claim.get("spec")});
                }
            }
        }
        "Job" => job(&mut spec),
        "CronJob" => {
            if let Some(of_job) = spec.get_mut("jobTemplate") {
                let mut own = of_job.get("spec").cloned().unwrap_or_default();
                job(&mut own);
                *of_job = json!({"metadata": metadata(of_job.get("metadata")), "spec": own});
            }
        }
        "Node" => return only(&spec, &["providerID", "taints", "unschedulable"]),
        "Namespace" => return json!({}),
        "Service" => {
            let is_headless = spec.get("clusterIP").and_then(Value::as_str) == Some("None");
            let mut own = only(&spec, &["selector", "ports", "type"]);
            if let Some(fields) = own.as_object_mut().filter(|_| is_headless) {
                fields.insert("clusterIP".to_owned(), "None".into());
            }
            return own;
        }
        "PersistentVolume" => return volume_spec(&spec),
        "NodePool" => {
            if let Some(template) = spec.get_mut("template") {
                let of_nodes = template.get("spec").cloned().unwrap_or_default();
                *template = json!({"metadata": metadata(template.get("metadata")), "spec": of_nodes});
            }
        }
        _ => {}
    }
    spec
}

/// Whether a controller chose a claim's volume, not who wrote the claim.
fn is_bound_by_controller(claim: &Value) -> bool {
    let annotations = claim.pointer("/metadata/annotations").and_then(Value::as_object);
    annotations.is_some_and(|annotations| annotations.contains_key(BOUND_BY_CONTROLLER))
}

/// The spec of a volume: its claim without what identifies that, and its source without secrets and where data are.
fn volume_spec(spec: &Value) -> Value {
    let mut out = only(spec, &VOLUME_SPEC);
    let Some(fields) = out.as_object_mut() else { return out };
    if let Some(claim) = spec.get("claimRef") {
        fields.insert("claimRef".to_owned(), only(claim, &["apiVersion", "kind", "namespace", "name"]));
    }
    let mut sources = DISKS.iter().chain([&CSI]);
    let source = sources.find_map(|(kind, own)| Some(((*kind).to_owned(), only(spec.get(kind)?, own))));
    // One source there must be; of others no decision knows anything.
    let (kind, source) = source.unwrap_or_else(|| ("hostPath".to_owned(), json!({"path": "/recorded"})));
    fields.insert(kind, source);
    out
}

/// The spec of a Job, as it was before its API server completed it.
fn job(spec: &mut Value) {
    template(spec);
    if spec.get("manualSelector").and_then(Value::as_bool) != Some(true) {
        remove(spec, &["selector"]);
        if let Some(labels) = spec.pointer_mut("/template/metadata/labels").and_then(Value::as_object_mut) {
            labels.retain(|key, _| !OF_JOBS.contains(&key.as_str()));
        }
    }
}

/// The template of pods in a spec.
fn template(spec: &mut Value) {
    if let Some(template) = spec.get_mut("template") {
        let pod = template.get("spec").map(pod_spec).unwrap_or_default();
        *template = json!({"metadata": metadata(template.get("metadata")), "spec": pod});
    }
}

fn pod_spec(spec: &Value) -> Value {
    let mut out = only(spec, &POD);
    let Some(fields) = out.as_object_mut() else { return out };
    for key in ["containers", "initContainers"] {
        if let Some(containers) = spec.get(key).and_then(Value::as_array) {
            let containers: Vec<Value> = containers.iter().map(|own| only(own, &CONTAINER)).collect();
            fields.insert(key.to_owned(), containers.into());
        }
    }
    // Volumes of other kinds bind a pod to no place.
    let volumes = spec.get("volumes").and_then(Value::as_array).into_iter().flatten();
    let volumes = volumes.map(volume).filter(|own| own.as_object().is_some_and(|own| own.len() > 1));
    let volumes: Vec<Value> = volumes.collect();
    if !volumes.is_empty() {
        fields.insert("volumes".to_owned(), volumes.into());
    }
    out
}

fn volume(volume: &Value) -> Value {
    let mut out = only(volume, &VOLUME);
    if let Some(fields) = out.as_object_mut() {
        if let Some(claim) = volume.pointer("/ephemeral/volumeClaimTemplate") {
            let template = json!({"metadata": metadata(claim.get("metadata")), "spec": claim.get("spec")});
            fields.insert("ephemeral".to_owned(), json!({"volumeClaimTemplate": template}));
        }
        let disks = DISKS.iter().filter_map(|(kind, own)| Some(((*kind).to_owned(), only(volume.get(kind)?, own))));
        fields.extend(disks);
    }
    out
}

fn metadata(metadata: Option<&Value>) -> Value {
    let mut out = metadata.map_or_else(|| json!({}), |own| only(own, &["name", "namespace", "labels"]));
    let annotations = metadata.and_then(|own| own.get("annotations")).and_then(Value::as_object);
    let kept: Map<String, Value> = annotations
        .into_iter()
        .flatten()
        // Hashes are of controllers, which give them anew.
        .filter(|(key, _)| ANNOTATIONS.iter().any(|own| key.starts_with(own)) && !key.contains("-hash"))
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect();
    if let Some(fields) = out.as_object_mut().filter(|_| !kept.is_empty()) {
        fields.insert("annotations".to_owned(), kept.into());
    }
    out
}

/// Some fields of a map.
fn only(value: &Value, fields: &[&str]) -> Value {
    let mut out = Map::new();
    for field in fields {
        copy(value, field, &mut out);
    }
    Value::Object(out)
}

fn copy(from: &Value, field: &str, to: &mut Map<String, Value>) {
    if let Some(value) = from.get(field).filter(|value| !value.is_null()) {
        to.insert(field.to_owned(), value.clone());
    }
}

fn remove(value: &mut Value, fields: &[&str]) {
    if let Some(map) = value.as_object_mut() {
        map.retain(|key, _| !fields.contains(&key.as_str()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whatever can hold a secret holds this.
    const SECRET: &str = "hunter2";

    #[test]
    fn no_secret_is_recorded_of_any_kind() {
        let pod = json!({
            "metadata": {"labels": {"app": "a"}, "annotations": {"vault.example/token": SECRET}},
            "spec": {
                "nodeName": "n",
                "serviceAccountName": SECRET,
                "imagePullSecrets": [{"name": SECRET}],
                "containers": [{
                    "name": "c", "image": "i", "command": [SECRET], "args": [SECRET],
                    "env": [{"name": "PASSWORD", "value": SECRET}],
                    "envFrom": [{"secretRef": {"name": SECRET}}],
                    "lifecycle": {"postStart": {"exec": {"command": [SECRET]}}},
                    "livenessProbe": {"exec": {"command": [SECRET]}},
                    "volumeMounts": [{"name": SECRET, "mountPath": "/"}],
                    "resources": {"requests": {"cpu": "1"}}}],
                "initContainers": [{"name": "d", "image": "i", "env": [{"name": "A", "value": SECRET}]}],
                "volumes": [{"name": "s", "secret": {"secretName": SECRET}},
                    {"name": "r", "rbd": {"monitors": ["m"], "image": "the-disk", "user": SECRET, "keyring": SECRET}},
                    {"name": "c", "csi": {"driver": "d", "volumeAttributes": {"a": SECRET}}},
                    {"name": "e", "ephemeral": {"volumeClaimTemplate": {"metadata": {"annotations": {"vault.example/token": SECRET}},
                        "spec": {"storageClassName": "fast"}}}},
                    {"name": "v", "persistentVolumeClaim": {"claimName": "v"}}],
            },
        });
        let spec = json!({"replicas": 2, "template": pod, "jobTemplate": {"spec": {"template": pod}},
            "nodeName": "n"});
        let last =
            json!({"kubectl.kubernetes.io/last-applied-configuration": SECRET, "karpenter.sh/do-not-disrupt": "true"});
        let metadata = json!({"name": "x", "namespace": "y", "annotations": last,
            "managedFields": [SECRET], "uid": "u"});
        for kind in [
            "Deployment",
            "ReplicaSet",
            "StatefulSet",
            "DaemonSet",
            "Job",
            "CronJob",
            "Reservation",
            "ReplicationController",
        ] {
            let mut spec = spec.clone();
            // Each kind has one of the two.
            remove(&mut spec, if kind == "CronJob" { &["template"] } else { &["jobTemplate"] });
            let out = object("v1", kind, &json!({"metadata": metadata, "spec": spec}));
            let text = out.to_string();
            assert!(!text.contains(SECRET), "{kind}: {text}");
            assert!(text.contains("\"cpu\":\"1\"") && text.contains("claimName"), "{kind}: {text}");
            assert!(text.contains("the-disk") && !text.contains("csi") && text.contains("fast"), "{kind}: {text}");
            assert!(text.contains("do-not-disrupt") && !text.contains("\"uid\""), "{kind}: {text}");
        }
        let template = json!({"metadata": metadata, "spec": {"expireAfter": "1h"}});
        let pool =
            object("karpenter.sh/v1", "NodePool", &json!({"metadata": metadata, "spec": {"template": template}}));
        assert!(
            !pool.to_string().contains(SECRET) && pool["spec"]["template"]["spec"]["expireAfter"] == "1h",
            "{pool}"
        );
        let mut bare = pod;
        bare["metadata"] = metadata;
        let text = object("v1", "Pod", &bare).to_string();
        assert!(!text.contains(SECRET) && !text.contains("nodeName"), "{text}");
    }

    #[test]
    fn a_volume_keeps_its_claim_and_its_place_and_no_secret() {
        let spec = json!({"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "storageClassName": "",
            "claimRef": {"namespace": "default", "name": "data", "uid": "u", "resourceVersion": "7"},
            "nodeAffinity": {"required": {"nodeSelectorTerms": []}}, "mountOptions": [SECRET],
            "csi": {"driver": "d", "volumeHandle": "h", "volumeAttributes": {"a": SECRET},
                "nodePublishSecretRef": {"name": SECRET}}});
        let out = object("v1", "PersistentVolume", &json!({"metadata": {"name": "v"}, "spec": spec}));
        assert!(!out.to_string().contains(SECRET), "{out}");
        assert_eq!(out.pointer("/spec/claimRef"), Some(&json!({"namespace": "default", "name": "data"})));
        assert_eq!(out.pointer("/spec/csi"), Some(&json!({"driver": "d", "volumeHandle": "h"})));
        assert_eq!(out.pointer("/spec/nodeAffinity"), spec.get("nodeAffinity"));
        let nfs = json!({"capacity": {"storage": "1Gi"}, "nfs": {"server": SECRET, "path": "/"}});
        let out = object("v1", "PersistentVolume", &json!({"metadata": {"name": "v"}, "spec": nfs}));
        assert_eq!(out.pointer("/spec/hostPath/path"), Some(&json!("/recorded")), "{out}");
    }

    #[test]
    fn a_claim_keeps_the_volume_that_its_author_chose() {
        let claim = |annotations: Value| {
            let claim = json!({"metadata": {"name": "c", "annotations": annotations},
                "spec": {"storageClassName": "", "volumeName": "v"}});
            object("v1", "PersistentVolumeClaim", &claim).pointer("/spec/volumeName").cloned()
        };
        assert_eq!(claim(json!({})), Some(json!("v")));
        assert_eq!(claim(json!({BOUND_BY_CONTROLLER: "yes"})), None);
    }

    #[test]
    fn a_runtime_class_keeps_what_its_pods_take_beside_their_containers() {
        let class = json!({"metadata": {"name": "sandboxed"}, "handler": "h", "overhead": {"podFixed": {"cpu": "1"}},
            "scheduling": {"nodeSelector": {"a": "b"}}});
        let out = object("node.k8s.io/v1", "RuntimeClass", &class);
        for field in ["handler", "overhead", "scheduling"] {
            assert_eq!(out.get(field), class.get(field), "{out}");
        }
        let pod = object("v1", "Pod", &json!({"metadata": {}, "spec": {"runtimeClassName": "sandboxed"}}));
        assert_eq!(pod.pointer("/spec/runtimeClassName"), Some(&json!("sandboxed")));
    }

    #[test]
    fn a_job_is_as_it_was_before_its_server_completed_it() {
        let labels = json!({"app": "a", "batch.kubernetes.io/controller-uid": "u", "job-name": "j"});
        let spec = json!({"selector": {"matchLabels": {"batch.kubernetes.io/controller-uid": "u"}},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": []}}});
        let out = object("batch/v1", "Job", &json!({"metadata": {"name": "j"}, "spec": spec}));
        assert_eq!(out.pointer("/spec/selector"), None);
        assert_eq!(out.pointer("/spec/template/metadata/labels"), Some(&json!({"app": "a"})));
    }
}
