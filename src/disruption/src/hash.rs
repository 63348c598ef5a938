//! The hash of a NodePool's template, by which nodes drift.

use std::hash::{Hash, Hasher};

use berth_api::{GoDuration, NodePool, labels};
use rustc_hash::FxHasher;
use serde_json::Value;

/// Which fields the hash covers, and how. Not Karpenter's: a hash of another version is replaced, it does not drift.
pub const HASH_VERSION: &str = "berth-v2";

/// The hash of what nodes of a pool are made from, its requirements aside: those may narrow without nodes drifting. How a
/// duration is spelled, the order of taints, and whether what is empty is written at all make no difference, as in Karpenter.
#[must_use]
pub fn template_hash(pool: &NodePool) -> String {
    let mut template = pool.spec.template.clone();
    template.spec.requirements.clear();
    let length = |duration: &GoDuration| Value::from(duration.nanos());
    let expires = template.spec.expire_after.duration().map(length);
    let drains = template.spec.termination_grace_period.as_ref().map(length);
    let mut value = serde_json::to_value(&template).unwrap_or_default();
    for (field, length) in [("expireAfter", expires), ("terminationGracePeriod", drains)] {
        if let Some(length) = length {
            value["spec"][field] = length;
        }
    }
    drop_empty(&mut value);
    for field in ["taints", "startupTaints"] {
        if let Some(taints) = value["spec"].get_mut(field).and_then(Value::as_array_mut) {
            taints.sort_by_cached_key(Value::to_string);
            taints.dedup();
        }
    }
    let mut hasher = FxHasher::default();
    // Maps are ordered, so the text is the same for the same template.
    value.to_string().hash(&mut hasher);
    hasher.finish().to_string()
}

/// Leaves out what is empty, from the inside out; values of labels and annotations stay, whose key alone says something.
fn drop_empty(value: &mut Value) {
    let fields = match value {
        Value::Object(fields) => fields,
        Value::Array(items) => return items.iter_mut().for_each(drop_empty),
        _ => return,
    };
    for (key, field) in &mut *fields {
        if !matches!(key.as_str(), "labels" | "annotations") {
            drop_empty(field);
        }
    }
    fields.retain(|_, field| match field {
        Value::Null => false,
        Value::String(text) => !text.is_empty(),
        Value::Array(items) => !items.is_empty(),
        Value::Object(fields) => !fields.is_empty(),
        Value::Bool(_) | Value::Number(_) => true,
    });
}

/// Sets the hash of a changed NodePool, as a controller would: files have none. It differs from the hash before where the
/// template differs, whoever computed that one; so nodes tell by it whether they have drifted.
pub fn rehash(after: &mut NodePool, before: &NodePool) {
    let of = |key: &str| before.metadata.annotations.as_ref().and_then(|all| all.get(key)).cloned();
    let (Some(hash), version) = (of(labels::NODEPOOL_HASH), of(labels::NODEPOOL_HASH_VERSION)) else { return };
    let (was, is) = (template_hash(before), template_hash(after));
    let annotations = after.metadata.annotations.get_or_insert_default();
    annotations.insert(labels::NODEPOOL_HASH.to_owned(), if was == is { hash } else { is });
    match version {
        Some(version) => drop(annotations.insert(labels::NODEPOOL_HASH_VERSION.to_owned(), version)),
        None => drop(annotations.remove(labels::NODEPOOL_HASH_VERSION)),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests stop at what they did not expect")]
mod tests {
    use serde_json::json;

    use super::*;

    fn hash_of(spec: &Value) -> String {
        let pool = json!({"metadata": {"name": "p"}, "spec": {"template": {"metadata": {"labels": {"team": ""}}, "spec": spec}}});
        template_hash(&serde_json::from_value(pool).unwrap())
    }

    #[test]
    fn another_spelling_of_a_template_is_the_same_template() {
        let taint = |key: &str| json!({"key": key, "effect": "NoSchedule"});
        let spec = |expires: &str, drains: &str, taints: [&str; 2]| {
            let taints = taints.map(taint);
            json!({"expireAfter": expires, "terminationGracePeriod": drains, "taints": taints, "startupTaints": []})
        };
        let hash = hash_of(&spec("720h", "1h", ["a", "b"]));
        assert_eq!(hash, hash_of(&spec("720h0m0s", "60m", ["b", "a"])));
        let default = json!({"terminationGracePeriod": "1h", "taints": [taint("a"), {"key": "b", "value": "", "effect": "NoSchedule"}]});
        assert_eq!(hash, hash_of(&default), "what the schema defaults to, and an empty value");
        for other in [spec("721h", "1h", ["a", "b"]), spec("Never", "1h", ["a", "b"]), spec("720h", "2h", ["a", "b"])] {
            assert_ne!(hash, hash_of(&other), "{other}");
        }
        assert_ne!(hash, hash_of(&spec("720h", "1h", ["a", "c"])));
    }
}
