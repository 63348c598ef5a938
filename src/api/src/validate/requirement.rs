//! Requirements on node labels.

use super::syntax::{label_value_error, qualified_name_error};
use super::{Errors, shown};
use crate::labels::{self, Restriction};
use crate::{Operator, OverlayRequirement, Requirement};

/// The most requirements that an object may have.
const MOST: usize = 100;
/// The range of `minValues`.
const MIN_VALUES: std::ops::RangeInclusive<i64> = 1..=50;

/// How the kinds differ in what they require.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum RequirementOf {
    Pool,
    Claim,
    Overlay,
}

/// A requirement of any kind.
struct Parts<'a> {
    key: &'a str,
    operator: Operator,
    values: &'a [String],
    min_values: Option<i64>,
}

/// Checks the requirements of a NodePool's template or a NodeClaim.
pub(super) fn check(path: &str, requirements: &[Requirement], place: RequirementOf, errors: &mut Errors) {
    let parts = requirements.iter().map(|requirement| Parts {
        key: &requirement.key,
        operator: requirement.operator,
        values: &requirement.values,
        min_values: requirement.min_values,
    });
    check_all(path, parts, place, errors);
}

/// Checks the requirements of a NodeOverlay.
pub(super) fn check_overlay(path: &str, requirements: &[OverlayRequirement], errors: &mut Errors) {
    let parts = requirements.iter().map(|requirement| Parts {
        key: &requirement.key,
        operator: requirement.operator,
        values: &requirement.values,
        min_values: None,
    });
    check_all(path, parts, RequirementOf::Overlay, errors);
}

fn check_all<'a>(
    path: &str,
    requirements: impl ExactSizeIterator<Item = Parts<'a>>,
    place: RequirementOf,
    errors: &mut Errors,
) {
    if errors.too_many(path, requirements.len(), MOST) {
        return;
    }
    for (index, requirement) in requirements.enumerate() {
        let path = format!("{path}[{index}]");
        check_key(&path, requirement.key, place, errors);
        check_values(&path, &requirement, place, errors);
        check_min_values(&path, &requirement, errors);
    }
}

fn check_key(path: &str, key: &str, place: RequirementOf, errors: &mut Errors) {
    let path = format!("{path}.key");
    if let Some(error) = qualified_name_error(key) {
        errors.invalid(&path, format!("label key {} {error}", shown(key)));
    }
    let allowed = |restriction: &Restriction| place != RequirementOf::Pool && *restriction == Restriction::NodePool;
    if let Some(restriction) = labels::restriction(labels::normalized(key)).filter(|found| !allowed(found)) {
        errors.forbidden(path, format!("{restriction}, found {}", shown(key)));
    }
}

fn check_values(path: &str, requirement: &Parts<'_>, place: RequirementOf, errors: &mut Errors) {
    let (operator, values) = (requirement.operator, requirement.values);
    for (index, value) in values.iter().enumerate() {
        if let Some(error) = label_value_error(value) {
            errors.invalid(format!("{path}.values[{index}]"), format!("label value {} {error}", shown(value)));
        }
    }
    let needs_value = operator == Operator::In || operator == Operator::NotIn && place == RequirementOf::Overlay;
    if needs_value && values.is_empty() {
        let message =
            format!("requirements with operator '{}' must have a value defined, found none", operator.as_str());
        errors.invalid(format!("{path}.values"), message);
    }
    if operator.is_comparison() && !is_one_count(values) {
        let found = if let [value] = values { shown(value) } else { format!("{} values", values.len()) };
        let message = format!(
            "requirements operator 'Gt', 'Lt', 'Gte', or 'Lte' must have a single positive integer value, found {found}"
        );
        errors.invalid(format!("{path}.values"), message);
    }
    let known = labels::well_known_values(labels::normalized(requirement.key)).filter(|_| operator == Operator::In);
    if let Some(known) = known.filter(|_| !values.is_empty()) {
        let n_known = values.iter().filter(|value| known.contains(&value.as_str())).count();
        let n_wanted = usize::try_from(requirement.min_values.unwrap_or(1)).unwrap_or(1).max(1);
        if n_known < n_wanted {
            let known = known.join(", ");
            let message = format!("found {n_known} known values in {values:?}, expected {n_wanted} or more of {known}");
            errors.invalid(format!("{path}.values"), message);
        }
    }
}

fn check_min_values(path: &str, requirement: &Parts<'_>, errors: &mut Errors) {
    let Some(min_values) = requirement.min_values else { return };
    if !MIN_VALUES.contains(&min_values) {
        let (least, most) = MIN_VALUES.into_inner();
        errors.invalid(format!("{path}.minValues"), format!("is {min_values}, expected {least} to {most}"));
    }
    let n_values = requirement.values.len();
    if requirement.operator == Operator::In && i64::try_from(n_values).is_ok_and(|n_values| n_values < min_values) {
        let message = format!(
            "requirements with 'minValues' must have at least that many values specified in the 'values' field, \
             found {n_values} values and minValues {min_values}"
        );
        errors.invalid(format!("{path}.values"), message);
    }
}

/// Whether the values are a single integer of zero or more.
fn is_one_count(values: &[String]) -> bool {
    matches!(values, [value] if value.bytes().all(|byte| byte.is_ascii_digit()) && value.parse::<i64>().is_ok())
}
