//! HorizontalPodAutoscalers of `autoscaling/v1`, which are stored as those of `autoscaling/v2`.
//!
//! What v1 has no field for is kept in the annotations that the real server uses for it, here as v2 writes it, so that an
//! object that is read and written in v1 loses nothing.

use serde_json::{Map, Value, json};

use crate::meta;

/// The collection of both versions.
pub(super) const COLLECTION: &str = "horizontalpodautoscalers.autoscaling";

/// Where in v2 is what v1 keeps in an annotation.
const KEPT: [(&str, &str, &str); 4] = [
    ("spec", "metrics", "autoscaling.alpha.kubernetes.io/metrics"),
    ("spec", "behavior", "autoscaling.alpha.kubernetes.io/behavior"),
    ("status", "currentMetrics", "autoscaling.alpha.kubernetes.io/current-metrics"),
    ("status", "conditions", "autoscaling.alpha.kubernetes.io/conditions"),
];

/// From v1 to v2.
pub(super) fn to_v2(value: &mut Value) {
    for (part, field, annotation) in KEPT {
        let text = meta::object_mut(value, &["metadata", "annotations"]).and_then(|map| map.remove(annotation));
        // Who writes something else there loses it, as with the real server.
        let kept = text.as_ref().and_then(Value::as_str).and_then(|text| serde_json::from_str::<Value>(text).ok());
        if let Some(kept) = kept.filter(|kept| kept.is_array() || kept.is_object()) {
            insert(value, part, field, kept);
        }
    }
    let no_annotations = meta::object_mut(value, &["metadata", "annotations"]).is_some_and(|map| map.is_empty());
    if no_annotations {
        meta::remove(value, "annotations");
    }
    for (part, v1, v2, place, amount) in [
        ("spec", "targetCPUUtilizationPercentage", "metrics", "target", "Utilization"),
        ("status", "currentCPUUtilizationPercentage", "currentMetrics", "current", ""),
    ] {
        let Some(Value::Object(map)) = value.get_mut(part) else { continue };
        let Some(percent) = map.remove(v1).filter(Value::is_number) else { continue };
        let mut target = json!({"averageUtilization": percent});
        if let Some(target) = target.as_object_mut().filter(|_| !amount.is_empty()) {
            target.insert("type".to_owned(), amount.into());
        }
        let metric = json!({"type": "Resource", "resource": {"name": "cpu", place: target}});
        match map.get_mut(v2) {
            Some(Value::Array(metrics)) => metrics.insert(0, metric),
            _ => {
                map.insert(v2.to_owned(), json!([metric]));
            }
        }
    }
}

/// From v2 to v1.
pub(super) fn to_v1(value: &mut Value) {
    for (part, v1, v2, place) in [
        ("spec", "targetCPUUtilizationPercentage", "metrics", "target"),
        ("status", "currentCPUUtilizationPercentage", "currentMetrics", "current"),
    ] {
        let Some(Value::Object(map)) = value.get_mut(part) else { continue };
        let Some(Value::Array(metrics)) = map.get_mut(v2) else { continue };
        let percent_of = |metric: &Value| -> Option<Value> {
            let is_cpu = metric.pointer("/resource/name").and_then(Value::as_str) == Some("cpu");
            metric.get("resource").filter(|_| is_cpu)?.get(place)?.get("averageUtilization").cloned()
        };
        let found = metrics.iter().enumerate().find_map(|(at, metric)| Some((at, percent_of(metric)?)));
        if let Some((at, percent)) = found {
            metrics.remove(at);
            map.insert(v1.to_owned(), percent);
        }
    }
    for (part, field, annotation) in KEPT {
        let kept = value.get_mut(part).and_then(Value::as_object_mut).and_then(|map| map.remove(field));
        let is_empty = |kept: &Value| kept.as_array().is_some_and(Vec::is_empty) || kept.is_null();
        if let Some(kept) = kept.filter(|kept| !is_empty(kept)) {
            annotate(value, annotation, kept.to_string());
        }
    }
}

fn insert(value: &mut Value, part: &str, field: &str, kept: Value) {
    if let Some(map) = value.as_object_mut() {
        let part = map.entry(part).or_insert_with(|| Value::Object(Map::new()));
        if let Some(part) = part.as_object_mut() {
            part.insert(field.to_owned(), kept);
        }
    }
}

fn annotate(value: &mut Value, annotation: &str, text: String) {
    if let Some(metadata) = value.get_mut("metadata").and_then(Value::as_object_mut) {
        let annotations = metadata.entry("annotations").or_insert_with(|| Value::Object(Map::new()));
        if let Some(annotations) = annotations.as_object_mut() {
            annotations.insert(annotation.to_owned(), text.into());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_v1_cannot_say_survives_a_write_in_v1() {
        let metrics = json!([
            {"type": "Resource", "resource": {"name": "memory", "target": {"type": "Utilization", "averageUtilization": 70}}},
            {"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}}},
        ]);
        let stored = json!({"metadata": {"name": "a"}, "spec": {"maxReplicas": 3, "metrics": metrics,
            "behavior": {"scaleDown": {"stabilizationWindowSeconds": 5}}}});
        let mut object = stored.clone();
        to_v1(&mut object);
        assert_eq!(object["spec"], json!({"maxReplicas": 3, "targetCPUUtilizationPercentage": 50}));
        to_v2(&mut object);
        assert_eq!(object["metadata"], json!({"name": "a"}));
        assert_eq!(object["spec"]["behavior"], stored["spec"]["behavior"]);
        let kept = object["spec"]["metrics"].as_array().unwrap();
        assert_eq!(kept.len(), 2);
        assert!(metrics.as_array().unwrap().iter().all(|metric| kept.contains(metric)), "{kept:?}");
    }
}
