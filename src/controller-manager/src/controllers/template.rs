//! Pods from templates, and numbers of specs.

use std::hash::Hasher;

use k8s_openapi::api::core::v1::{Pod, PodTemplateSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use serde::Serialize;

/// A pod from a template, for an owner.
pub(crate) fn pod_of(template: &PodTemplateSpec, owner: OwnerReference) -> Pod {
    let given = template.metadata.clone().unwrap_or_default();
    Pod {
        metadata: ObjectMeta {
            labels: given.labels,
            annotations: given.annotations,
            finalizers: given.finalizers,
            owner_references: Some(vec![owner]),
            ..ObjectMeta::default()
        },
        spec: template.spec.clone(),
        status: None,
    }
}

/// Sets a label.
pub(crate) fn set_label(meta: &mut ObjectMeta, label: &str, value: &str) {
    meta.labels.get_or_insert_default().insert(label.to_owned(), value.to_owned());
}

/// Sets an annotation.
pub(crate) fn annotate(meta: &mut ObjectMeta, key: &str, value: &str) {
    meta.annotations.get_or_insert_default().insert(key.to_owned(), value.to_owned());
}

/// The value of an annotation.
pub(crate) fn annotation<'m>(meta: &'m ObjectMeta, key: &str) -> Option<&'m str> {
    meta.annotations.as_ref()?.get(key).map(String::as_str)
}

/// A number, or a percentage of a total.
pub(crate) fn scaled(value: Option<&IntOrString>, total: i32, round_up: bool) -> i32 {
    match value {
        Some(IntOrString::Int(number)) => *number,
        Some(IntOrString::String(text)) => {
            let percent: i64 = text.trim_end_matches('%').parse().unwrap_or(0);
            let product = i64::from(total).saturating_mul(percent);
            let share = if round_up { product.saturating_add(99) / 100 } else { product / 100 };
            i32::try_from(share).unwrap_or(i32::MAX)
        }
        None => 0,
    }
}

/// A count as statuses have it.
pub(crate) fn count(n: usize) -> i32 {
    i32::try_from(n).unwrap_or(i32::MAX)
}

/// A wanted number; negative ones are none.
pub(crate) fn size(n: i32) -> usize {
    usize::try_from(n).unwrap_or(0)
}

/// A short text that tells templates apart.
pub(crate) fn hash_of(template: &impl Serialize) -> String {
    let mut hash = rustc_hash::FxHasher::default();
    hash.write(&serde_json::to_vec(template).unwrap_or_default());
    let mut bits = hash.finish();
    (0..10)
        .map(|_| {
            let digit = u8::try_from(bits % 27).unwrap_or(0);
            bits /= 27;
            safe(digit)
        })
        .collect()
}

/// A character for a number, of those that make no words.
pub(crate) fn safe(number: u8) -> char {
    const ALPHABET: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";
    char::from(ALPHABET.get(usize::from(number % 27)).copied().unwrap_or(b'b'))
}
