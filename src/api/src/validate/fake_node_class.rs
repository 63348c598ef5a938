//! What is wrong with a FakeNodeClass.

use super::syntax::{is_whole_duration, label_value_error};
use super::{Cause, Errors, FieldError, metadata, shown};
use crate::FakeNodeClass;

/// The most zones.
const MOST_ZONES: usize = 100;

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
        check_zones("spec.zones", &spec.zones, &mut errors);
        check_zones("spec.unreachableZones", &spec.unreachable_zones, &mut errors);
        if let Some(delay) = spec.registration_delay.as_ref().filter(|delay| !is_whole_duration(delay.as_str())) {
            let message =
                format!("is {}, expected whole hours, minutes and seconds such as 30s", shown(delay.as_str()));
            errors.invalid("spec.registrationDelay", message);
        }
        if let Some(image) = &spec.image {
            check_label_value("spec.image", image, &mut errors);
        }
        errors.0
    }
}

/// Checks a list of zones, each once.
pub(super) fn check_zones(field: &str, zones: &[String], errors: &mut Errors) {
    if errors.too_many(field, zones.len(), MOST_ZONES) {
        return;
    }
    for (index, zone) in zones.iter().enumerate() {
        let path = format!("{field}[{index}]");
        check_label_value(&path, zone, errors);
        if zones[..index].contains(zone) {
            errors.add(Cause::Duplicate, path, format!("zone {} is listed twice", shown(zone)));
        }
    }
}

/// Checks a text that nodes will carry as the value of a label.
pub(super) fn check_label_value(path: &str, value: &str, errors: &mut Errors) {
    if value.is_empty() {
        errors.required(path, "may not be empty");
    } else if let Some(error) = label_value_error(value) {
        errors.invalid(path, format!("{} {error}", shown(value)));
    }
}
