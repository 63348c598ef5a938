//! What is wrong with a FakeNodeClass.

use std::collections::BTreeSet;

use super::syntax::{is_whole_duration, label_value_error};
use super::{Cause, Errors, FieldError, metadata, shown};
use crate::{FakeNodeClass, FakeReservation};

/// The most zones and the most reservations.
const MOST_ZONES: usize = 100;
const MOST_RESERVATIONS: usize = 1000;

impl FakeNodeClass {
    /// Everything that is wrong with the node class by itself, in the order of its fields; empty if nothing is.
    pub fn validate(&self) -> Vec<FieldError> {
        let mut errors = Errors::default();
        metadata::check(&self.metadata, &mut errors);
        let spec = &self.spec;
        if let Some(reference) = &spec.instance_types {
            let fields = [("namespace", &reference.namespace), ("name", &reference.name), ("key", &reference.key)];
            for (field, _) in fields.iter().filter(|(_, value)| value.is_empty()) {
                errors.required(format!("spec.instanceTypes.{field}"), format!("{field} may not be empty"));
            }
        }
        if !errors.too_many("spec.zones", spec.zones.len(), MOST_ZONES) {
            for (index, zone) in spec.zones.iter().enumerate() {
                check_label_value(&format!("spec.zones[{index}]"), zone, &mut errors);
                if spec.zones[..index].contains(zone) {
                    errors.add(
                        Cause::Duplicate,
                        format!("spec.zones[{index}]"),
                        format!("zone {} is listed twice", shown(zone)),
                    );
                }
            }
        }
        if let Some(delay) = spec.registration_delay.as_ref().filter(|delay| !is_whole_duration(delay.as_str())) {
            let message =
                format!("is {}, expected whole hours, minutes and seconds such as 30s", shown(delay.as_str()));
            errors.invalid("spec.registrationDelay", message);
        }
        if !errors.too_many("spec.reservations", spec.reservations.len(), MOST_RESERVATIONS) {
            check_reservations(&spec.reservations, &mut errors);
        }
        errors.0
    }
}

fn check_reservations(reservations: &[FakeReservation], errors: &mut Errors) {
    let mut ids = BTreeSet::new();
    for (index, reservation) in reservations.iter().enumerate() {
        let path = format!("spec.reservations[{index}]");
        let FakeReservation { id, instance_type, zone, count } = reservation;
        for (field, value) in [("id", id), ("instanceType", instance_type), ("zone", zone)] {
            check_label_value(&format!("{path}.{field}"), value, errors);
        }
        if !ids.insert(id) {
            errors.add(Cause::Duplicate, format!("{path}.id"), format!("id {} is used twice", shown(id)));
        }
        if *count < 0 {
            errors.invalid(format!("{path}.count"), format!("is {count}, expected 0 or more"));
        }
    }
}

/// Checks a text that nodes will carry as the value of a label.
fn check_label_value(path: &str, value: &str, errors: &mut Errors) {
    if value.is_empty() {
        errors.required(path, "may not be empty");
    } else if let Some(error) = label_value_error(value) {
        errors.invalid(path, format!("{} {error}", shown(value)));
    }
}
