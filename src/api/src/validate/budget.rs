//! Disruption budgets of a NodePool.

use super::syntax::is_budget_duration;
use super::{Cause, Errors, schedule, shown};
use crate::Budget;

/// The most budgets of a NodePool, and the most reasons of a budget.
const MOST: usize = 50;

pub(super) fn check(path: &str, budgets: &[Budget], errors: &mut Errors) {
    if errors.too_many(path, budgets.len(), MOST) {
        return;
    }
    for (index, budget) in budgets.iter().enumerate() {
        check_one(&format!("{path}[{index}]"), budget, errors);
    }
}

fn check_one(path: &str, budget: &Budget, errors: &mut Errors) {
    if !is_number_or_share(&budget.nodes) {
        let message = format!("is {}, expected a number of nodes or 0% to 100%", shown(&budget.nodes));
        errors.invalid(format!("{path}.nodes"), message);
    }
    if !errors.too_many(&format!("{path}.reasons"), budget.reasons.len(), MOST) {
        for (index, reason) in budget.reasons.iter().enumerate() {
            if budget.reasons[..index].contains(reason) {
                errors.add(Cause::Duplicate, format!("{path}.reasons[{index}]"), format!("{reason:?} is listed twice"));
            }
        }
    }
    match (&budget.schedule, &budget.duration) {
        (Some(_), None) => {
            errors.invalid(format!("{path}.duration"), "'schedule' must be set with 'duration', found only 'schedule'");
        }
        (None, Some(_)) => {
            errors.invalid(format!("{path}.schedule"), "'schedule' must be set with 'duration', found only 'duration'");
        }
        _ => {}
    }
    if let Some((schedule, error)) = budget.schedule.as_deref().and_then(|text| Some((text, schedule::error(text)?))) {
        errors.invalid(format!("{path}.schedule"), format!("schedule {}: {error}", shown(schedule)));
    }
    if let Some(duration) = budget.duration.as_ref().filter(|duration| !is_budget_duration(duration.as_str())) {
        let message =
            format!("is {}, expected whole hours and minutes such as 8h, 30m or 1h30m", shown(duration.as_str()));
        errors.invalid(format!("{path}.duration"), message);
    }
}

/// Whether a text matches `^((100|[0-9]{1,2})%|[0-9]+)$`.
fn is_number_or_share(text: &str) -> bool {
    let (digits, is_share) = text.strip_suffix('%').map_or((text, false), |digits| (digits, true));
    let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    is_number && (!is_share || digits.len() <= 2 || digits == "100")
}
