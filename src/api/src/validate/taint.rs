//! Taints of nodes and Reservations.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::Taint;

use super::syntax::qualified_name_error;
use super::{Cause, Errors, shown};

/// The effects that a taint can have.
const EFFECTS: [&str; 3] = ["NoSchedule", "PreferNoSchedule", "NoExecute"];

/// Checks lists of taints that end up on the same node, where no key may occur twice with the same effect.
pub(super) fn check(lists: &[(&str, &[Taint])], errors: &mut Errors) {
    let mut seen = BTreeSet::new();
    for (path, taints) in lists {
        for (index, taint) in taints.iter().enumerate() {
            let path = format!("{path}[{index}]");
            check_one(&path, taint, errors);
            if !seen.insert((&taint.key, &taint.effect)) {
                let message = format!("duplicate taint Key/Effect pair {}={}", taint.key, taint.effect);
                errors.add(Cause::Duplicate, path, message);
            }
        }
    }
}

fn check_one(path: &str, taint: &Taint, errors: &mut Errors) {
    if taint.key.is_empty() {
        errors.required(format!("{path}.key"), "taint key is required");
    } else if let Some(error) = qualified_name_error(&taint.key) {
        errors.invalid(format!("{path}.key"), format!("taint key {} {error}", shown(&taint.key)));
    }
    let value = taint.value.as_deref().unwrap_or("");
    if let Some(error) = qualified_name_error(value).filter(|_| !value.is_empty()) {
        errors.invalid(format!("{path}.value"), format!("taint value {} {error}", shown(value)));
    }
    if taint.effect.is_empty() {
        errors.required(format!("{path}.effect"), format!("taint effect is required, one of {}", EFFECTS.join(", ")));
    } else if !EFFECTS.contains(&taint.effect.as_str()) {
        let message = format!("taint effect is {}, expected one of {}", shown(&taint.effect), EFFECTS.join(", "));
        errors.invalid(format!("{path}.effect"), message);
    }
}
