//! What PodDisruptionBudgets allow that no controller has counted yet, as in manifests.

use berth_model::{Cluster, Sym};
use k8s_openapi::api::policy::v1::PodDisruptionBudgetSpec;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use rustc_hash::FxHashMap;

/// Budgets without a status, by namespace and name.
pub(crate) type Uncounted = FxHashMap<(Sym, Sym), PodDisruptionBudgetSpec>;

/// How many of so many pods a budget lets go, as if all of them were healthy. What cannot be read lets nobody go.
pub fn allowed_disruptions(spec: &PodDisruptionBudgetSpec, expected: i32) -> i32 {
    let least = match (&spec.min_available, &spec.max_unavailable) {
        (Some(least), _) => amount(least, expected),
        (None, Some(most)) => amount(most, expected).map(|most| expected.saturating_sub(most)),
        (None, None) => Some(0),
    };
    least.map_or(0, |least| expected.saturating_sub(least.max(0)).max(0))
}

/// A number, or a percentage of all, rounded up.
fn amount(text: &IntOrString, of: i32) -> Option<i32> {
    match text {
        IntOrString::Int(number) => Some(*number),
        IntOrString::String(text) => {
            let percent: i64 = text.strip_suffix('%')?.parse().ok()?;
            i32::try_from((i64::from(of).checked_mul(percent)?.checked_add(99)?).div_euclid(100)).ok()
        }
    }
}

/// Counts for budgets, by index into [`Cluster::budgets`], the pods that run.
pub(crate) fn count(uncounted: &[(usize, PodDisruptionBudgetSpec)], cluster: &mut Cluster) {
    for (at, spec) in uncounted {
        let Some(budget) = cluster.budgets.get(*at) else { continue };
        let is_selected = |pod: &&berth_model::BoundPod| {
            let labels = cluster.labels(pod.labels);
            pod.namespace == budget.namespace
                && !pod.is_terminating()
                && labels.is_some_and(|labels| budget.selector.matches(labels, &cluster.symbols))
        };
        let expected = cluster.nodes.iter().flat_map(|node| &node.pods).filter(is_selected).count();
        let allowed = allowed_disruptions(spec, i32::try_from(expected).unwrap_or(i32::MAX));
        if let Some(budget) = cluster.budgets.get_mut(*at) {
            budget.allowed = allowed;
        }
    }
}
