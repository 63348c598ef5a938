//! Names, labels and annotations.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::{Problems, syntax};
use crate::error::Problem;
use crate::object::Object;
use crate::path::shorten;

/// All annotations of an object together, keys and values, in bytes.
const MAX_ANNOTATIONS_BYTES: usize = 256 * 1024;

pub(super) fn check(object: &Object, problems: &mut Problems) {
    let metadata = object.metadata();
    let name = metadata.name.as_deref().unwrap_or_default();
    let is_label = matches!(object, Object::Namespace(_));
    if name.is_empty() {
        let message = match object {
            Object::Pod(_) => "is missing, expected a name or generateName",
            _ => "is missing, expected a name",
        };
        problems.push(Problem::new("metadata.name", message));
    } else if is_label && !syntax::is_dns_label(name) {
        let message = format!("found {:?}, expected a-z 0-9 -, at most 63 characters", shorten(name));
        problems.push(Problem::new("metadata.name", message));
    } else if !syntax::is_dns_subdomain(name) {
        let message = format!(
            "found {:?}, expected a-z 0-9 - . beginning and ending with a letter or digit, at most \
             253 characters",
            shorten(name)
        );
        problems.push(Problem::new("metadata.name", message));
    }
    if let Some(namespace) = metadata.namespace.as_deref().filter(|name| !name.is_empty())
        && !syntax::is_dns_label(namespace)
    {
        let message = format!("found {:?}, expected a-z 0-9 -, at most 63 characters", shorten(namespace));
        problems.push(Problem::new("metadata.namespace", message));
    }
    check_maps("metadata", metadata, problems);
}

/// Labels and annotations of an object or of a pod template.
pub(super) fn check_maps(path: &str, metadata: &ObjectMeta, problems: &mut Problems) {
    if let Some(labels) = &metadata.labels {
        check_labels(&format!("{path}.labels"), labels, problems);
    }
    let annotations = metadata.annotations.iter().flatten();
    let mut n_bytes = 0_usize;
    for (key, value) in annotations {
        n_bytes += key.len() + value.len();
        // Annotation keys may have capitals in their prefix.
        if !syntax::is_qualified_name(key) && !syntax::is_qualified_name(&key.to_lowercase()) {
            syntax::check_key(&format!("{path}.annotations"), key, problems);
        }
    }
    if n_bytes > MAX_ANNOTATIONS_BYTES {
        let message = format!("found {n_bytes} bytes of annotations, expected at most {MAX_ANNOTATIONS_BYTES}");
        problems.push(Problem::new(format!("{path}.annotations"), message));
    }
}

/// Label keys and values.
pub(super) fn check_labels(path: &str, labels: &BTreeMap<String, String>, problems: &mut Problems) {
    for (key, value) in labels {
        if !syntax::is_qualified_name(key) {
            syntax::check_key(path, key, problems);
        } else if !value.is_empty() {
            let before = problems.len();
            syntax::check_value("", value, problems);
            for problem in problems.iter_mut().skip(before) {
                problem.path = format!("{path}[{key}]");
            }
        }
    }
}
