//! Objects within traces.

use std::collections::BTreeSet;

use berth_api::GoDuration;
use berth_kubelet::annotation::RUNS_FOR;
use berth_manifests::{ManifestError, Object};
use serde_json::{Map, Value};

/// What the API server sets, and a dump carries.
const OF_THE_SERVER: [&str; 7] =
    ["resourceVersion", "uid", "creationTimestamp", "managedFields", "generation", "selfLink", "deletionTimestamp"];

/// The objects of a JSON value: one, or those of a List. Kinds that nothing here needs are added to `skipped`.
pub(super) fn read(place: &str, value: &Value, skipped: &mut BTreeSet<String>) -> Result<Vec<Object>, String> {
    let mut objects = Vec::new();
    let text = value.to_string();
    let options = berth_manifests::Options::default();
    let summary = berth_manifests::read_from(place, text.as_bytes(), &options, |_, object| {
        objects.push(object);
        Ok::<(), ManifestError>(())
    })
    .map_err(|error| error.to_string())?;
    skipped.extend(summary.skipped.keys().map(|(_, kind)| kind.clone()));
    Ok(objects)
}

/// Takes away what another API server set, and what there is at the moment.
pub(super) fn as_wanted(object: &mut Value) {
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        for field in OF_THE_SERVER {
            metadata.remove(field);
        }
        // Whoever it belonged to has another uid here.
        metadata.remove("ownerReferences");
    }
    if let Some(fields) = object.as_object_mut() {
        fields.remove("status");
    }
}

/// Lets the pods of a workload run for so many milliseconds, where it is a kind whose pods are known and nothing else is
/// said.
pub(super) fn set_runs_for(object: &mut Value, millis: u64) {
    let path = match object.get("kind").and_then(Value::as_str) {
        Some("Pod") => "",
        Some("CronJob") => "/spec/jobTemplate/spec/template",
        Some("Job" | "Deployment" | "ReplicaSet" | "StatefulSet" | "DaemonSet" | "ReplicationController") => {
            "/spec/template"
        }
        _ => return,
    };
    let Some(pod) = object.pointer_mut(path).and_then(Value::as_object_mut) else { return };
    let metadata = pod.entry("metadata").or_insert_with(empty);
    let Some(metadata) = metadata.as_object_mut() else { return };
    let annotations = metadata.entry("annotations").or_insert_with(empty);
    if annotations.is_null() {
        *annotations = empty();
    }
    if let Some(annotations) = annotations.as_object_mut() {
        annotations.entry(RUNS_FOR).or_insert_with(|| duration(millis).into());
    }
    if path.is_empty() {
        end_for_good(object);
    }
}

/// Lets a pod that ends not begin again, as it would unless its `restartPolicy` says something else.
pub(crate) fn end_for_good(pod: &mut Value) {
    let Some(spec) = pod.get_mut("spec").and_then(Value::as_object_mut) else { return };
    if spec.get("restartPolicy").and_then(Value::as_str) != Some("OnFailure") {
        spec.insert("restartPolicy".to_owned(), "Never".into());
    }
}

/// Milliseconds as a Go duration.
pub(super) fn duration(millis: u64) -> String {
    let text = format!("{millis}ms");
    // It is one by its form; what is not is told by the kubelet as an event.
    debug_assert!(text.parse::<GoDuration>().is_ok());
    text
}

/// The middle one of some times; the lower one of two.
pub(super) fn median(mut times: Vec<u64>) -> Option<u64> {
    times.sort_unstable();
    times.get(times.len().checked_sub(1)? / 2).copied()
}

fn empty() -> Value {
    Value::Object(Map::new())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_a_template_says_of_its_end_stays() {
        let mut job = json!({"kind": "Job", "spec": {"template": {"metadata": {"annotations": {RUNS_FOR: "1s"}}}}});
        let before = job.clone();
        set_runs_for(&mut job, 5000);
        assert_eq!(job, before);
        let mut bare = json!({"kind": "CronJob", "spec": {"jobTemplate": {"spec": {"template": {"spec": {}}}}}});
        set_runs_for(&mut bare, 5000);
        let path = "/spec/jobTemplate/spec/template/metadata/annotations";
        assert_eq!(bare.pointer(path), Some(&json!({RUNS_FOR: "5000ms"})));
    }

    #[test]
    fn the_median_is_one_of_the_times() {
        assert_eq!(median(vec![]), None);
        assert_eq!(median(vec![9]), Some(9));
        assert_eq!(median(vec![9, 1, 5, 7]), Some(5));
    }
}
