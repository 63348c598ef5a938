//! What is wrong with a NodeClaim.

use super::node_pool::{check_duration, check_nillable, check_node_class_ref};
use super::requirement::RequirementOf;
use super::{Errors, FieldError, metadata, requirement, resources, taint};
use crate::NodeClaim;

impl NodeClaim {
    /// Everything that is wrong with the claim by itself, in the order of its fields; empty if nothing is.
    ///
    /// An absent `nodeClassRef` is let pass: the API server refuses it, an offline plan has no use for it.
    pub fn validate(&self) -> Vec<FieldError> {
        let mut errors = Errors::default();
        metadata::check(&self.metadata, &mut errors);
        let spec = &self.spec;
        taint::check(&[("spec.taints", &spec.taints), ("spec.startupTaints", &spec.startup_taints)], &mut errors);
        requirement::check("spec.requirements", &spec.requirements, RequirementOf::Claim, &mut errors);
        resources::check("spec.resources.requests", &spec.resources.requests, &mut errors);
        check_node_class_ref("spec.nodeClassRef", spec.node_class_ref.as_ref(), &mut errors);
        check_duration("spec.terminationGracePeriod", spec.termination_grace_period.as_ref(), &mut errors);
        check_nillable("spec.expireAfter", &spec.expire_after, &mut errors);
        if let Some(status) = &self.status {
            resources::check("status.capacity", &status.capacity, &mut errors);
            resources::check("status.allocatable", &status.allocatable, &mut errors);
        }
        errors.0
    }

    /// What is wrong with changing `old` into this claim, besides [`Self::validate`].
    pub fn validate_update(&self, old: &Self) -> Vec<FieldError> {
        let mut errors = Errors::default();
        if self.spec != old.spec {
            errors.forbidden("spec", "spec is immutable");
        }
        errors.0
    }
}
