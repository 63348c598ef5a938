//! What is wrong with a FakeCapacityReservation.

use super::fake_node_class::{check_label_value, check_zones};
use super::{Cause, Errors, FieldError, metadata, shown};
use crate::FakeCapacityReservation;

/// The most instance types.
const MOST_TYPES: usize = 100;
/// The most instances.
const MOST_INSTANCES: i64 = 1_000_000;

impl FakeCapacityReservation {
    /// Everything that is wrong with the reservation by itself, in the order of its fields; empty if nothing is.
    pub fn validate(&self) -> Vec<FieldError> {
        let mut errors = Errors::default();
        metadata::check(&self.metadata, &mut errors);
        let spec = &self.spec;
        if let Some(id) = &spec.id {
            check_label_value("spec.id", id, &mut errors);
        }
        if spec.instance_types.is_empty() {
            errors.required("spec.instanceTypes", "must have at least one instance type");
        }
        if !errors.too_many("spec.instanceTypes", spec.instance_types.len(), MOST_TYPES) {
            for (index, name) in spec.instance_types.iter().enumerate() {
                let path = format!("spec.instanceTypes[{index}]");
                check_label_value(&path, name, &mut errors);
                if spec.instance_types[..index].contains(name) {
                    errors.add(Cause::Duplicate, path, format!("{} is listed twice", shown(name)));
                }
            }
        }
        check_zones("spec.zones", &spec.zones, &mut errors);
        for (field, count) in [("count", spec.count), ("usedByOthers", spec.used_by_others)] {
            if !(0..=MOST_INSTANCES).contains(&count) {
                errors.invalid(format!("spec.{field}"), format!("is {count}, expected 0 to {MOST_INSTANCES}"));
            }
        }
        if let (Some(start), Some(end)) = (&spec.start, &spec.end)
            && start.0 >= end.0
        {
            errors.invalid("spec.end", format!("is {}, expected a time after the start, {}", end.0, start.0));
        }
        errors.0
    }
}
