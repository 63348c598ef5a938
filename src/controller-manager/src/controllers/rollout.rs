//! How many pods each ReplicaSet of a Deployment has next: the steps of a roll, and scaling in the middle of one.
//!
//! As upstream's `rolling.go` and `sync.go`.

use std::cmp::Reverse;
use std::sync::Arc;

use k8s_openapi::api::apps::v1::ReplicaSet;

use super::template::annotation;

/// For how many replicas of the Deployment a set was sized.
pub(crate) const DESIRED: &str = "deployment.kubernetes.io/desired-replicas";
/// How many pods all sets together might have then.
pub(crate) const MAX: &str = "deployment.kubernetes.io/max-replicas";

/// A set, and how many pods it is to have.
pub(crate) struct Step<'d> {
    pub(crate) set: &'d Arc<ReplicaSet>,
    /// Whether it is of the present template.
    pub(crate) is_new: bool,
    pub(crate) size: i32,
}

/// What bounds a roll.
pub(crate) struct Bounds {
    pub(crate) wanted: i32,
    pub(crate) max_surge: i32,
    pub(crate) max_unavailable: i32,
    /// How many pods the Deployment had when its status was written.
    pub(crate) was: i32,
    pub(crate) is_rolling: bool,
}

/// One step of a rolling update; sets are oldest first, and one is new. The new set goes first, and once it is as large as
/// it may be, old ones shrink: what is not available as far as enough pods are left, and then what is.
pub(crate) fn roll(steps: &mut [Step<'_>], bounds: &Bounds) {
    let all: i32 = steps.iter().map(|step| step.size).sum();
    let Some(new) = steps.iter_mut().find(|step| step.is_new) else { return };
    let room = bounds.wanted.saturating_add(bounds.max_surge).saturating_sub(all);
    let (was, most) = (new.size, new.size.saturating_add(room.max(0)));
    new.size = if was > bounds.wanted { bounds.wanted } else { most.min(bounds.wanted) };
    if new.size != was {
        return;
    }
    let min_available = bounds.wanted - bounds.max_unavailable;
    let new_unavailable = new.size - available(new.set);
    let mut most = all - min_available - new_unavailable;
    if most <= 0 {
        return;
    }
    let serving: i32 = steps.iter().map(|step| available(step.set).min(step.size)).sum();
    for step in steps.iter_mut().filter(|step| !step.is_new) {
        let gone = (step.size - available(step.set)).clamp(0, most);
        step.size -= gone;
        most -= gone;
    }
    let mut spare = (serving - min_available).max(0);
    for step in steps.iter_mut().filter(|step| !step.is_new) {
        let gone = step.size.min(spare);
        step.size -= gone;
        spare -= gone;
    }
}

/// Brings the sets to another number of replicas, in proportion to their sizes in the middle of a roll.
pub(crate) fn rescale(steps: &mut [Step<'_>], bounds: &Bounds) {
    let has_several = steps.iter().filter(|step| step.size > 0).count() > 1;
    if !has_several {
        // The one that has pods; if none has, the new one, or the youngest.
        let at = steps.iter().position(|step| step.size > 0);
        let at = at.or_else(|| steps.iter().position(|step| step.is_new));
        let at = at.or_else(|| steps.len().checked_sub(1));
        if let Some(step) = at.and_then(|at| steps.get_mut(at)) {
            step.size = bounds.wanted;
        }
        return;
    }
    if steps.iter().any(|step| step.is_new && is_saturated(step.set, bounds.wanted)) {
        for step in steps.iter_mut().filter(|step| !step.is_new) {
            step.size = 0;
        }
        return;
    }
    if bounds.is_rolling {
        let mut active: Vec<&mut Step<'_>> = steps.iter_mut().filter(|step| step.size > 0).collect();
        share_out(&mut active, bounds);
    }
}

/// Shares what is to be added or taken out among the sets with pods; what rounding leaves is the largest set's.
fn share_out(active: &mut [&mut Step<'_>], bounds: &Bounds) {
    let allowed = if bounds.wanted > 0 { bounds.wanted.saturating_add(bounds.max_surge) } else { 0 };
    let missing = allowed - active.iter().map(|step| step.size).sum::<i32>();
    if missing == 0 {
        return;
    }
    let created = |step: &Step<'_>| step.set.metadata.creation_timestamp.as_ref().map(|time| time.0);
    if missing > 0 {
        active.sort_by_key(|step| (Reverse(step.size), Reverse(created(step))));
    } else {
        active.sort_by_key(|step| (Reverse(step.size), created(step)));
    }
    let mut left = missing;
    for step in active.iter_mut() {
        let share = fraction(step, bounds);
        let share = if missing > 0 { share.clamp(0, left.max(0)) } else { share.clamp(left.min(0), 0) };
        step.size += share;
        left -= share;
    }
    if let Some(largest) = active.first_mut() {
        largest.size = (largest.size + left).max(0);
    }
}

/// How many pods more a set would have if it grew as its Deployment did.
fn fraction(step: &Step<'_>, bounds: &Bounds) -> i32 {
    if bounds.wanted == 0 {
        return -step.size;
    }
    let number = |name| annotation(&step.set.metadata, name).and_then(|text| text.parse::<i32>().ok());
    let before = i64::from(number(MAX).filter(|most| *most > 0).unwrap_or(bounds.was));
    if before <= 0 {
        return 0;
    }
    let after = i64::from(bounds.wanted.saturating_add(bounds.max_surge));
    let scaled = (2 * i64::from(step.size)).saturating_mul(after).saturating_add(before) / (2 * before);
    i32::try_from(scaled).unwrap_or(i32::MAX) - step.size
}

/// Whether a set has all pods that its Deployment wants, and all are available.
fn is_saturated(set: &ReplicaSet, wanted: i32) -> bool {
    sized_for(set) == Some(wanted) && replicas(set) == wanted && available(set) == wanted
}

/// For how many replicas of its Deployment a set was sized.
pub(crate) fn sized_for(set: &ReplicaSet) -> Option<i32> {
    annotation(&set.metadata, DESIRED)?.parse().ok()
}

pub(crate) fn replicas(set: &ReplicaSet) -> i32 {
    set.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or(0)
}

pub(crate) fn available(set: &ReplicaSet) -> i32 {
    set.status.as_ref().and_then(|status| status.available_replicas).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A set of so many pods, of which so many are available, sized for a Deployment of `desired` and `max`.
    fn set(name: &str, (size, available): (i32, i32), (desired, max): (i32, i32)) -> Arc<ReplicaSet> {
        let set = serde_json::json!({
            "metadata": {"name": name, "annotations": {DESIRED: desired.to_string(), MAX: max.to_string()}},
            "spec": {"replicas": size, "selector": {}},
            "status": {"replicas": size, "availableReplicas": available},
        });
        Arc::new(serde_json::from_value(set).unwrap_or_default())
    }

    fn sizes(sets: &[Arc<ReplicaSet>], bounds: &Bounds, how: fn(&mut [Step<'_>], &Bounds)) -> Vec<i32> {
        let last = sets.len() - 1;
        let steps = sets.iter().enumerate();
        let mut steps: Vec<Step<'_>> =
            steps.map(|(at, set)| Step { set, is_new: at == last, size: replicas(set) }).collect();
        how(&mut steps, bounds);
        steps.iter().map(|step| step.size).collect()
    }

    fn bounds(wanted: i32, max_surge: i32, max_unavailable: i32) -> Bounds {
        Bounds { wanted, max_surge, max_unavailable, was: 0, is_rolling: true }
    }

    #[test]
    fn a_deployment_that_is_scaled_in_the_middle_of_a_roll_scales_its_sets_in_proportion() {
        // The example of Kubernetes' documentation: 10 replicas, surge 3; 8 of the old and 5 of the new; then 15.
        let sets = [set("old", (8, 8), (10, 13)), set("new", (5, 0), (10, 13))];
        assert_eq!(sizes(&sets, &bounds(15, 3, 2), rescale), [11, 7]);
        assert_eq!(sizes(&sets, &bounds(5, 3, 2), rescale), [5, 3]);
        assert_eq!(sizes(&sets, &bounds(0, 3, 2), rescale), [0, 0]);
    }

    #[test]
    fn unavailable_old_pods_go_only_as_far_as_a_new_template_proves_itself() {
        // None of the old is available, and the new ones are not either: what cannot be helped is not hurried.
        let sets = [set("old", (4, 0), (4, 5)), set("new", (1, 0), (4, 5))];
        assert_eq!(sizes(&sets, &bounds(4, 1, 1), roll), [3, 1]);
        let sets = [set("old", (3, 0), (4, 5)), set("new", (2, 0), (4, 5))];
        assert_eq!(sizes(&sets, &bounds(4, 1, 1), roll), [3, 2]);
    }
}
