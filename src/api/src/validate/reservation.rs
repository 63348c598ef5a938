//! What is wrong with a Reservation.

use super::{Errors, FieldError, metadata, resources, taint};
use crate::{Reservation, ReservationControllerReference, ReservationOwner};

impl Reservation {
    /// Everything that is wrong with the Reservation by itself, in the order of its fields; empty if nothing is.
    ///
    /// The pod in its template is not looked into: it is checked as every pod is.
    pub fn validate(&self) -> Vec<FieldError> {
        let mut errors = Errors::default();
        metadata::check(&self.metadata, &mut errors);
        let spec = &self.spec;
        if spec.template.spec.is_none() {
            errors.required("spec.template.spec", "a pod spec is required, it says what is reserved");
        }
        if spec.owners.is_empty() {
            errors.required("spec.owners", "at least one owner is required, found none");
        }
        for (index, owner) in spec.owners.iter().enumerate() {
            check_owner(&format!("spec.owners[{index}]"), owner, &mut errors);
        }
        if spec.ttl.nanos() < 0 {
            errors.invalid("spec.ttl", format!("is {}, expected 0 (never) or more", spec.ttl));
        }
        taint::check(&[("spec.taints", &spec.taints)], &mut errors);
        if let Some(status) = &self.status {
            resources::check("status.allocatable", &status.allocatable, &mut errors);
            resources::check("status.allocated", &status.allocated, &mut errors);
        }
        errors.0
    }
}

fn check_owner(path: &str, owner: &ReservationOwner, errors: &mut Errors) {
    if owner.object.is_none() && owner.controller.is_none() && owner.label_selector.is_none() {
        errors.required(path, "expected at least one of object, controller and labelSelector, found none");
    }
    if let Some(ReservationControllerReference { api_version, kind, name, uid, .. }) = &owner.controller {
        for (field, value) in [("apiVersion", api_version), ("kind", kind), ("name", name), ("uid", uid)] {
            if value.is_empty() {
                errors.required(format!("{path}.controller.{field}"), format!("{field} of a controller is required"));
            }
        }
    }
}
