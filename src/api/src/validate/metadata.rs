//! Names, labels and annotations of the object itself.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::syntax::{label_value_error, qualified_name_error, subdomain_error};
use super::{Errors, shown};

/// The API server's limit for the annotations of an object, in bytes of keys and values.
const ANNOTATIONS_SIZE: usize = 256 * 1024;

/// Checks what the API server checks of the metadata of a cluster-scoped object.
pub(super) fn check(metadata: &ObjectMeta, errors: &mut Errors) {
    match metadata.name.as_deref() {
        None | Some("") if metadata.generate_name.as_deref().unwrap_or("").is_empty() => {
            errors.required("metadata.name", "name or generateName is required");
        }
        Some(name) if !name.is_empty() => {
            if let Some(error) = subdomain_error(name) {
                errors.invalid("metadata.name", format!("{} {error}", shown(name)));
            }
        }
        _ => {}
    }
    for (key, value) in metadata.labels.iter().flatten() {
        check_label("metadata.labels", key, value, errors);
    }
    let mut size = 0_usize;
    for (key, value) in metadata.annotations.iter().flatten() {
        if let Some(error) = qualified_name_error(&key.to_lowercase()) {
            errors.invalid(entry("metadata.annotations", key), format!("annotation key {} {error}", shown(key)));
        }
        size = size.saturating_add(key.len()).saturating_add(value.len());
    }
    if size > ANNOTATIONS_SIZE {
        errors.invalid("metadata.annotations", format!("has {size} bytes, expected at most {ANNOTATIONS_SIZE}"));
    }
}

/// Checks the syntax of a label's key and value; whether both are right.
pub(super) fn check_label(map: &str, key: &str, value: &str, errors: &mut Errors) -> bool {
    let (key_error, value_error) = (qualified_name_error(key), label_value_error(value));
    let is_right = key_error.is_none() && value_error.is_none();
    if let Some(error) = key_error {
        errors.invalid(entry(map, key), format!("label key {} {error}", shown(key)));
    }
    if let Some(error) = value_error {
        errors.invalid(entry(map, key), format!("label value {} {error}", shown(value)));
    }
    is_right
}

/// The path of an entry of a map, as in `metadata.labels[team]`.
pub(super) fn entry(map: &str, key: &str) -> String {
    let short: String = key.chars().take(super::syntax::NAME_LENGTH * 2).collect();
    format!("{map}[{short}]")
}
