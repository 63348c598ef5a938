//! Claims and volumes.

use std::str::FromStr;

use berth_quantity::Quantity;
use serde_json::Value;

use super::immutable;
use crate::meta::{at, list_at, text_at};
use crate::status::Cause;

/// What a volume's spec has besides its source.
const PLAIN_VOLUME_FIELDS: [&str; 9] = [
    "capacity",
    "accessModes",
    "claimRef",
    "persistentVolumeReclaimPolicy",
    "storageClassName",
    "mountOptions",
    "volumeMode",
    "nodeAffinity",
    "volumeAttributesClassName",
];

fn access_modes(object: &Value, causes: &mut Vec<Cause>) {
    let modes = list_at(object, &["spec", "accessModes"]);
    if modes.is_empty() {
        let why = if object.get("kind").is_some_and(|kind| kind == "PersistentVolume") {
            ""
        } else {
            "at least 1 access mode is required"
        };
        causes.push(Cause::required("spec.accessModes", why));
    }
    let supported = ["ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"];
    for mode in modes {
        if !supported.contains(&mode.as_str().unwrap_or_default()) {
            causes.push(Cause::not_supported("spec.accessModes", mode, &supported));
        }
    }
}

pub(super) fn claim(claim: &Value, causes: &mut Vec<Cause>) {
    access_modes(claim, causes);
    let storage = text_at(claim, &["spec", "resources", "requests", "storage"]);
    match Quantity::from_str(storage) {
        Ok(amount) if amount > Quantity::default() => {}
        Ok(_) => causes.push(Cause::invalid("spec.resources[storage]", &storage.into(), "must be greater than zero")),
        Err(_) => causes.push(Cause::required("spec.resources[storage]", "")),
    }
    let mode = text_at(claim, &["spec", "volumeMode"]);
    if !["Block", "Filesystem"].contains(&mode) {
        causes.push(Cause::not_supported("spec.volumeMode", &mode.into(), &["Block", "Filesystem"]));
    }
}

pub(super) fn volume(volume: &Value, causes: &mut Vec<Cause>) {
    access_modes(volume, causes);
    if at(volume, &["spec", "capacity", "storage"]).is_none() {
        causes.push(Cause::required("spec.capacity", ""));
        let capacity = at(volume, &["spec", "capacity"]).cloned().unwrap_or_default();
        causes.push(Cause::not_supported("spec.capacity", &capacity, &["storage"]));
    }
    let spec = volume.get("spec").and_then(Value::as_object);
    let is_source = |field: &&String| !PLAIN_VOLUME_FIELDS.contains(&field.as_str());
    let mut sources = spec.into_iter().flatten().map(|(field, _)| field).filter(is_source);
    if sources.next().is_none() {
        causes.push(Cause::required("spec", "must specify a volume type"));
    }
    for source in sources {
        causes.push(Cause::forbidden(format!("spec.{source}"), "may not specify more than 1 volume type"));
    }
}

/// What may change about a claim.
pub(super) fn claim_change(new: &Value, old: &Value, causes: &mut Vec<Cause>) {
    let fixed = |object: &Value| {
        let mut spec = object.get("spec").cloned().unwrap_or_default();
        if let Some(map) = spec.as_object_mut() {
            map.remove("resources");
            map.remove("volumeAttributesClassName");
            if text_at(old, &["spec", "volumeName"]).is_empty() {
                map.remove("volumeName");
            }
        }
        spec
    };
    if fixed(new) != fixed(old) {
        let why =
            "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims";
        causes.push(Cause::forbidden("spec", why));
    }
    let size = |object: &Value| Quantity::from_str(text_at(object, &["spec", "resources", "requests", "storage"])).ok();
    if let (Some(is), Some(was)) = (size(new), size(old))
        && is < was
    {
        let why = "field can not be less than status.capacity";
        causes.push(Cause::forbidden("spec.resources.requests.storage", why));
    }
}

/// What may change about a volume.
pub(super) fn volume_change(new: &Value, old: &Value, causes: &mut Vec<Cause>) {
    let source = |object: &Value| {
        let mut spec = object.get("spec").and_then(Value::as_object).cloned().unwrap_or_default();
        spec.retain(|field, _| !PLAIN_VOLUME_FIELDS.contains(&field.as_str()));
        spec
    };
    if source(new) != source(old) {
        let why = "spec.persistentvolumesource is immutable after creation";
        causes.push(Cause::forbidden("spec.persistentvolumesource", why));
    }
    immutable(new, old, &["spec", "volumeMode"], causes);
}
