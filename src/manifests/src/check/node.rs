//! Nodes: capacity and taints.

use k8s_openapi::api::core::v1::{Node, Taint};

use super::{Problems, resources, syntax};
use crate::path::item;

pub(super) const EFFECTS: &[&str] = &["NoSchedule", "PreferNoSchedule", "NoExecute"];

pub(super) fn check(node: &Node, problems: &mut Problems) {
    if let Some(status) = &node.status {
        for (field, amounts) in [("capacity", &status.capacity), ("allocatable", &status.allocatable)] {
            if let Some(amounts) = amounts {
                resources::check_amounts(&format!("status.{field}"), amounts, problems);
            }
        }
    }
    let taints = node.spec.iter().flat_map(|spec| spec.taints.iter().flatten());
    for (idx, taint) in taints.enumerate() {
        check_taint(&item("spec.taints", idx), taint, problems);
    }
}

fn check_taint(path: &str, taint: &Taint, problems: &mut Problems) {
    syntax::check_key(&format!("{path}.key"), &taint.key, problems);
    if let Some(value) = &taint.value {
        syntax::check_value(&format!("{path}.value"), value, problems);
    }
    syntax::check_enum(&format!("{path}.effect"), &taint.effect, EFFECTS, problems);
}
