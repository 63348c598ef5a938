//! What is wrong with an object, beyond what its schema says; field by field, as the real server tells it.

mod limits;
mod meta_fields;
pub(crate) mod names;
mod pod;
mod quotas;
mod resources;
mod services;
mod volumes;
mod warnings;
mod webhooks;
mod workload;

use serde_json::Value;

use crate::meta;
use crate::resource::Resource;
use crate::service::Call;
use crate::status::Cause;

pub(crate) use services::first_address as service_addresses;

/// Judges a new object.
pub(crate) fn create(resource: &Resource, object: &Value) -> Vec<Cause> {
    let mut causes = Vec::new();
    meta_fields::check(resource, object, &mut causes);
    if let Some(custom) = resource.custom() {
        causes.extend(custom.validate(object, None));
        return causes;
    }
    own(resource, object, &mut causes);
    causes
}

/// Judges a changed object.
pub(crate) fn update(resource: &Resource, subresource: &str, new: &Value, old: &Value) -> Vec<Cause> {
    let mut causes = Vec::new();
    meta_fields::check_change(new, old, &mut causes);
    if resource.custom().is_none() {
        // The real server looks at the metadata of its own kinds twice, and clients see both.
        causes.extend_from_within(..);
    }
    if let Some(custom) = resource.custom() {
        meta_fields::check(resource, new, &mut causes);
        causes.extend(custom.validate(new, Some(old)));
        return causes;
    }
    if !subresource.is_empty() && subresource != "scale" {
        if subresource == "status" {
            workload::check_status(resource, new, &mut causes);
            services::check_status(resource, new, &mut causes);
        }
        if resource.is("pods") {
            pod::check_part(subresource, new, old, &mut causes);
        }
        return causes;
    }
    meta_fields::check(resource, new, &mut causes);
    if resource.is("pods") {
        pod::check(new, &mut causes);
        pod::check_change(new, old, &mut causes);
    } else if resource.is("customresourcedefinitions.apiextensions.k8s.io") {
        causes.extend(crate::crd::validate_change(new, old));
    } else {
        own(resource, new, &mut causes);
        workload::check_change(resource, new, old, &mut causes);
        resources::check_change(resource, new, old, &mut causes);
    }
    causes
}

fn own(resource: &Resource, object: &Value, causes: &mut Vec<Cause>) {
    match resource.storage.as_str() {
        "pods" => pod::check(object, causes),
        "customresourcedefinitions.apiextensions.k8s.io" => causes.extend(crate::crd::validate(object)),
        _ => {
            workload::check(resource, object, causes);
            resources::check(resource, object, causes);
        }
    }
}

/// What is wrong with the metadata of an object within an object, at a path.
pub(crate) fn embedded_metadata(metadata: &Value, path: &str) -> Vec<Cause> {
    let mut causes = Vec::new();
    for field in ["name", "generateName", "namespace"] {
        let Some(value) = metadata.get(field) else { continue };
        let text = value.as_str().unwrap_or_default();
        let checked = if field == "generateName" { text.trim_end_matches('-') } else { text };
        if let Some(why) = names::subdomain(checked).filter(|_| !text.is_empty()) {
            causes.push(Cause::invalid(format!("{path}.{field}"), value, &why));
        }
    }
    meta_fields::check_labels(metadata.get("labels"), &format!("{path}.labels"), &mut causes);
    causes
}

/// Tells the client what is legal and probably not meant; `old` is the object before a change.
pub(crate) fn warn(resource: &Resource, object: &Value, old: Option<&Value>, call: &Call) {
    if resource.custom().is_none() {
        for text in warnings::of(resource, object, old) {
            call.warn(text);
        }
    }
}

/// A value that must not be negative.
fn not_negative(object: &Value, path: &[&str], causes: &mut Vec<Cause>) {
    if let Some(number) = meta::int_at(object, path).filter(|number| *number < 0) {
        causes.push(Cause::invalid(path.join("."), &number.into(), "must be greater than or equal to 0"));
    }
}

/// A value that must stay as it is.
fn immutable(new: &Value, old: &Value, path: &[&str], causes: &mut Vec<Cause>) {
    let (is, was) = (meta::at(new, path), meta::at(old, path));
    if is != was {
        causes.push(Cause::invalid(path.join("."), is.unwrap_or(&Value::Null), "field is immutable"));
    }
}
