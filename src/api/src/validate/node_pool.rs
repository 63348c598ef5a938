//! What is wrong with a NodePool.

use super::requirement::RequirementOf;
use super::syntax::{NAME_LENGTH, is_whole_duration};
use super::{Errors, FieldError, budget, metadata, requirement, resources, shown, taint};
use crate::labels;
use crate::{GoDuration, NillableDuration, NodeClassRef, NodePool, NodePoolSpec, TemplateMetadata};

/// The most labels of a template.
const MOST_LABELS: usize = 100;
/// The range of the weight.
const WEIGHT: std::ops::RangeInclusive<i32> = 1..=100;
/// The one limit of a static pool.
const NODES: &str = "nodes";

impl NodePool {
    /// Everything that is wrong with the pool by itself, in the order of its fields; empty if nothing is.
    ///
    /// An absent `nodeClassRef` is let pass: the API server refuses it, an offline plan has no use for it.
    pub fn validate(&self) -> Vec<FieldError> {
        let mut errors = Errors::default();
        metadata::check(&self.metadata, &mut errors);
        let name_length = self.metadata.name.as_deref().map_or(0, str::len);
        if name_length > NAME_LENGTH {
            let message = format!("has {name_length} characters, expected at most {NAME_LENGTH} as it becomes a label");
            errors.invalid("metadata.name", message);
        }
        self.spec.check(&mut errors);
        errors.0
    }

    /// What is wrong with changing `old` into this pool, besides [`Self::validate`].
    pub fn validate_update(&self, old: &Self) -> Vec<FieldError> {
        let mut errors = Errors::default();
        if self.spec.is_static() != old.spec.is_static() {
            let message = "Cannot transition NodePool between static (replicas set) and dynamic (replicas unset) \
                           provisioning modes";
            errors.forbidden("spec.replicas", message);
        }
        let refs = self.spec.template.spec.node_class_ref.as_ref().zip(old.spec.template.spec.node_class_ref.as_ref());
        if let Some((new, old)) = refs {
            for (field, new, old) in [("group", &new.group, &old.group), ("kind", &new.kind, &old.kind)] {
                if new != old {
                    let message =
                        format!("nodeClassRef.{field} is immutable, found {} instead of {}", shown(new), shown(old));
                    errors.forbidden(format!("spec.template.spec.nodeClassRef.{field}"), message);
                }
            }
        }
        errors.0
    }
}

impl NodePoolSpec {
    fn check(&self, errors: &mut Errors) {
        check_template_metadata(&self.template.metadata, errors);
        let template = &self.template.spec;
        let path = "spec.template.spec";
        taint::check(
            &[
                (&format!("{path}.taints"), &template.taints),
                (&format!("{path}.startupTaints"), &template.startup_taints),
            ],
            errors,
        );
        requirement::check(&format!("{path}.requirements"), &template.requirements, RequirementOf::Pool, errors);
        check_node_class_ref(&format!("{path}.nodeClassRef"), template.node_class_ref.as_ref(), errors);
        let grace_period = template.termination_grace_period.as_ref();
        check_duration(&format!("{path}.terminationGracePeriod"), grace_period, errors);
        check_nillable(&format!("{path}.expireAfter"), &template.expire_after, errors);
        check_nillable("spec.disruption.consolidateAfter", &self.disruption.consolidate_after, errors);
        budget::check("spec.disruption.budgets", &self.disruption.budgets, errors);
        resources::check("spec.limits", &self.limits, errors);
        self.check_replicas(errors);
        if let Some(weight) = self.weight.filter(|weight| !WEIGHT.contains(weight)) {
            let (least, most) = WEIGHT.into_inner();
            errors.invalid("spec.weight", format!("is {weight}, expected {least} to {most}"));
        }
    }

    fn check_replicas(&self, errors: &mut Errors) {
        let Some(replicas) = self.replicas else { return };
        if replicas < 0 {
            errors.invalid("spec.replicas", format!("is {replicas}, expected 0 or more"));
        }
        if let Some(other) = self.limits.keys().find(|name| *name != NODES) {
            let message = format!("only 'limits.nodes' is supported on static NodePools, found {}", shown(other));
            errors.forbidden("spec.limits", message);
        }
        if let Some(weight) = self.weight {
            let message = format!("'weight' is not supported on static NodePools, found {weight}");
            errors.forbidden("spec.weight", message);
        }
    }
}

fn check_template_metadata(metadata: &TemplateMetadata, errors: &mut Errors) {
    let path = "spec.template.metadata.labels";
    if errors.too_many(path, metadata.labels.len(), MOST_LABELS) {
        return;
    }
    for (key, value) in &metadata.labels {
        metadata::check_label(path, key, value, errors);
        if let Some(restriction) = labels::restriction(key) {
            errors.forbidden(metadata::entry(path, key), restriction.to_string());
        }
    }
}

/// Checks that a node class reference is whole where there is one.
pub(super) fn check_node_class_ref(path: &str, reference: Option<&NodeClassRef>, errors: &mut Errors) {
    let Some(NodeClassRef { group, kind, name }) = reference else { return };
    for (field, value) in [("group", group), ("kind", kind), ("name", name)] {
        if value.is_empty() {
            errors.required(format!("{path}.{field}"), format!("{field} may not be empty"));
        }
    }
    if group.contains('/') {
        let message = format!("is {}, expected an API group without a version", shown(group));
        errors.invalid(format!("{path}.group"), message);
    }
}

/// Checks a duration against the pattern of the schema, which is narrower than Go's durations.
pub(super) fn check_duration(path: &str, duration: Option<&GoDuration>, errors: &mut Errors) {
    if let Some(duration) = duration.filter(|duration| !is_whole_duration(duration.as_str())) {
        let message =
            format!("is {}, expected whole hours, minutes and seconds such as 30s or 1h30m", shown(duration.as_str()));
        errors.invalid(path, message);
    }
}

/// Checks a duration that may be `Never` against the pattern of the schema.
pub(super) fn check_nillable(path: &str, duration: &NillableDuration, errors: &mut Errors) {
    if let Some(duration) = duration.duration().filter(|duration| !is_whole_duration(duration.as_str())) {
        let message = format!(
            "is {}, expected Never or whole hours, minutes and seconds such as 30s or 720h",
            shown(duration.as_str())
        );
        errors.invalid(path, message);
    }
}
