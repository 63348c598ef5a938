//! PodDisruptionBudgets.

use k8s_openapi::api::policy::v1::PodDisruptionBudgetSpec;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use super::{Problems, selector};
use crate::error::Problem;
use crate::path::shorten;

pub(super) fn check(spec: &PodDisruptionBudgetSpec, problems: &mut Problems) {
    if let Some(labels) = &spec.selector {
        selector::check_label_selector("spec.selector", labels, problems);
    }
    if spec.min_available.is_some() && spec.max_unavailable.is_some() {
        problems.push(Problem::new("spec.maxUnavailable", "found beside spec.minAvailable, expected one of the two"));
    }
    for (path, amount) in [("spec.minAvailable", &spec.min_available), ("spec.maxUnavailable", &spec.max_unavailable)] {
        let found = match amount {
            Some(IntOrString::Int(pods)) if *pods < 0 => pods.to_string(),
            Some(IntOrString::String(text)) if !is_share(text) => format!("{:?}", shorten(text)),
            _ => continue,
        };
        problems.push(Problem::new(path, format!("found {found}, expected 0 or more pods, or 0% to 100%")));
    }
}

/// Whether it is a whole percentage.
fn is_share(text: &str) -> bool {
    let digits = text.strip_suffix('%').filter(|digits| digits.bytes().all(|byte| byte.is_ascii_digit()));
    digits.is_some_and(|digits| digits.parse::<u32>().is_ok_and(|share| share <= 100))
}
