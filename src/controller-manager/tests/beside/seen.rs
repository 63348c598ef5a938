//! What holds in a namespace, in words that do not depend on who made up names, UIDs and times.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::ask;
use crate::definitions;
use crate::world::Client;

pub(crate) const KINDS: [(&str, &str); 9] = [
    ("apps/v1", "deployments"),
    ("apps/v1", "replicasets"),
    ("apps/v1", "statefulsets"),
    ("apps/v1", "daemonsets"),
    ("batch/v1", "jobs"),
    ("v1", "pods"),
    ("v1", "configmaps"),
    ("policy/v1", "poddisruptionbudgets"),
    ("v1", "resourcequotas"),
];
/// Fields of statuses that tell times, names that were made up, or what only one of two moments shows.
const FORGIVEN: [&str; 13] = [
    "observedGeneration",
    "startTime",
    "completionTime",
    "lastTransitionTime",
    "lastUpdateTime",
    "lastProbeTime",
    "message",
    "currentRevision",
    "updateRevision",
    "collisionCount",
    "terminating",
    "terminatingReplicas",
    "disruptedPods",
];

pub(crate) fn path(api: &str, namespace: &str, plural: &str) -> String {
    let root = if api.contains('/') { "apis" } else { "api" };
    format!("/{root}/{api}/namespaces/{namespace}/{plural}")
}

pub(crate) async fn list(client: &Client, namespace: &str, plural: &str) -> Vec<Value> {
    let (api, _) = KINDS.into_iter().find(|(_, known)| *known == plural).unwrap();
    items(client, &path(api, namespace, plural)).await.expect("built-in kinds are served")
}

/// The objects of a path; `None` where nothing is served there.
async fn items(client: &Client, path: &str) -> Option<Vec<Value>> {
    let (code, body) = ask(client, "GET", path, &Value::Null).await;
    (code == 200).then(|| body["items"].as_array().cloned().unwrap_or_default())
}

fn text<'v>(value: &'v Value, pointer: &str) -> &'v str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

/// A line for each object, sorted; widgets are of a definition.
pub(crate) async fn lines(client: &Client, namespace: &str, definition: Option<u64>) -> Vec<String> {
    let mut all = Vec::new();
    let mut notes = Vec::new();
    for (_, plural) in KINDS {
        all.extend(list(client, namespace, plural).await.into_iter().map(|object| (plural, object)));
    }
    if let Some(definition) = definition {
        match items(client, &definitions::path(definition).replace("{ns}", namespace)).await {
            Some(widgets) => all.extend(widgets.into_iter().map(|object| ("widgets", object))),
            None => notes.push("widgets are not served".to_owned()),
        }
    }
    let names: BTreeMap<String, String> =
        all.iter().map(|(plural, object)| (text(object, "/metadata/uid").to_owned(), name(plural, object))).collect();
    let mut lines: Vec<String> = all.iter().map(|(plural, object)| line(plural, object, &names)).collect();
    lines.extend(notes);
    lines.sort();
    // How many pods of a Job that fails got to fail before it was given up is a matter of who was quicker.
    lines.dedup_by(|line, before| line == before && line.contains(" of i:fail") && line.contains("[\"Job\""));
    lines
}

/// The name, without what was made up: generated ends, and hashes of templates.
fn name(plural: &str, object: &Value) -> String {
    let own = text(object, "/metadata/name");
    let generated = text(object, "/metadata/generateName");
    let hash = text(object, "/metadata/labels/pod-template-hash");
    let short = if generated.is_empty() { own } else { generated };
    let short = if hash.is_empty() { short.to_owned() } else { short.replace(hash, "HASH") };
    let image = match plural {
        "replicasets" => text(object, "/spec/template/spec/containers/0/image"),
        "pods" => text(object, "/spec/containers/0/image"),
        _ => "",
    };
    if image.is_empty() { short } else { format!("{short} of {image}") }
}

fn line(plural: &str, object: &Value, names: &BTreeMap<String, String>) -> String {
    let meta = &object["metadata"];
    let mut out = json!({});
    let owners = meta["ownerReferences"].as_array().into_iter().flatten();
    let owners: Vec<Value> = owners
        .map(|owner| {
            let known = names.get(text(owner, "/uid")).cloned().unwrap_or_else(|| "nobody".to_owned());
            json!([owner["kind"], known, owner["controller"], owner["blockOwnerDeletion"]])
        })
        .collect();
    out["owners"] = owners.into();
    out["finalizers"] = meta["finalizers"].clone();
    out["deleted"] = (!meta["deletionTimestamp"].is_null()).into();
    let mut annotations = meta["annotations"].clone();
    if let Some(map) = annotations.as_object_mut() {
        map.retain(|key, _| !key.starts_with("batch.kubernetes.io/"));
    }
    out["annotations"] = annotations;
    let mut labels = meta["labels"].clone();
    if let Some(map) = labels.as_object_mut() {
        // A Job without labels has those of its template, and the real server then puts its own into both.
        if plural == "jobs" {
            map.retain(|key, _| !key.ends_with("job-name"));
        }
        let made_up = ["pod-template-hash", "controller-revision-hash", "controller-uid", "pod-template-generation"];
        map.retain(|key, _| !made_up.iter().any(|known| key.ends_with(known)));
    }
    out["labels"] = labels;
    for field in ["replicas", "parallelism", "paused", "minReadySeconds"] {
        out[field] = object["spec"][field].clone();
    }
    if plural == "pods" && owner_is_job(meta) {
        out["hostname"] = object["spec"]["hostname"].clone();
        out["env"] = object["spec"]["containers"][0]["env"].clone();
    }
    if plural == "jobs" {
        out["started"] = (!object["status"]["startTime"].is_null()).into();
    }
    out["status"] = object["status"].clone();
    if plural == "widgets" {
        // All that defaults, pruning and rules decide.
        out["spec"] = object["spec"].clone();
        out["generation"] = meta["generation"].clone();
    } else {
        forgive(&mut out["status"]);
    }
    format!("{plural} {}: {out}", name(plural, object))
}

fn owner_is_job(meta: &Value) -> bool {
    meta["ownerReferences"].as_array().into_iter().flatten().any(|owner| owner["kind"] == "Job")
}

fn forgive(value: &mut Value) {
    match value {
        Value::Object(map) => {
            map.retain(|key, value| {
                forgive(value);
                !FORGIVEN.contains(&key.as_str())
                    && !value.is_null()
                    && *value != json!(0)
                    && *value != json!({})
                    && *value != json!([])
            });
        }
        Value::Array(list) => {
            list.iter_mut().for_each(forgive);
            list.sort_by_key(|one| text(one, "/type").to_owned());
        }
        _ => {}
    }
}

/// As kubelets: a pod becomes what its image says. Gives whether any did.
pub(crate) async fn run_pods(client: &Client, namespace: &str) -> bool {
    let mut any = false;
    for pod in list(client, namespace, "pods").await {
        let phase = text(&pod, "/status/phase");
        if !pod["metadata"]["deletionTimestamp"].is_null() || phase != "Pending" {
            continue;
        }
        let ready = |is: &str| json!([{"type": "Ready", "status": is, "lastTransitionTime": "2026-01-01T00:00:00Z"}]);
        let status = match text(&pod, "/spec/containers/0/image") {
            "i:done" => json!({"phase": "Succeeded", "conditions": ready("False")}),
            "i:fail" => json!({"phase": "Failed", "conditions": ready("False")}),
            // It never becomes ready.
            "i:bad" => json!({"phase": "Running", "conditions": ready("False")}),
            _ => json!({"phase": "Running", "conditions": ready("True")}),
        };
        let path = format!("{}/{}/status", path("v1", namespace, "pods"), text(&pod, "/metadata/name"));
        any |= ask(client, "PATCH", &path, &json!({"status": status})).await.0 == 200;
    }
    any
}
