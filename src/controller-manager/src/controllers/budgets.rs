//! PodDisruptionBudgets: how many pods may be disrupted now.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::policy::v1::{PodDisruptionBudget, PodDisruptionBudgetStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use super::template::{count, scaled};
use crate::core::Core;
use crate::events::{Involved, Telling};
use crate::key::NamespacedName;
use crate::objects::{Pod, View};
use crate::resource::BUDGETS;
use crate::work::Work;
use crate::write::{Effect, Write};

/// An eviction that did not delete its pod is forgotten after this.
const FORGOTTEN: SignedDuration = SignedDuration::from_mins(2);

/// Kinds of controllers that say nowhere how many pods they want.
const WITHOUT_SCALE: [(&str, &str); 2] = [("Job", "jobs.batch"), ("DaemonSet", "daemonsets.apps")];
/// What is told of pods without a controller where only those with one are expected.
const UNMANAGED: &str = "Pods selected by this PodDisruptionBudget were found to be unmanaged. As a result, the status of \
                         the PDB cannot be calculated correctly, which may result in undefined behavior. To account for \
                         these pods please set \".spec.minAvailable\" field of the PDB to an integer value.";

pub(crate) fn sync(core: &mut Core, key: &NamespacedName) -> Effect {
    let Some(budget) = core.caches.budgets.get(key).cloned() else { return Effect::Done };
    let Some(spec) = budget.spec.as_ref().filter(|_| budget.metadata.deletion_timestamp.is_none()) else {
        return Effect::Done;
    };
    let members = core.caches.indexes.selected.members(&Work::Budget(key.clone()));
    let pods: Vec<Arc<Pod>> = members.filter_map(|key| core.caches.pods.get(key)).cloned().collect();
    let now = core.now();
    let disrupted = still_disrupted(core, key, &budget, &pods, now);
    let is_healthy =
        |pod: &&Arc<Pod>| pod.is_ready() && pod.is_active() && !disrupted.contains_key(&*pod.metadata.name);
    let healthy = count(pods.iter().filter(is_healthy).count());
    let by_scale =
        matches!((&spec.max_unavailable, &spec.min_available), (Some(_), _) | (_, Some(IntOrString::String(_))));
    let expected = if by_scale { expected(core, &pods) } else { Ok(count(pods.len())) };
    let was = budget.status.clone().unwrap_or_default();
    let expected = match expected {
        Ok(expected) => expected,
        Err(problem) => return fail_safe(key, &budget, &was, problem, &Time(now)),
    };
    let desired = match (&spec.max_unavailable, &spec.min_available) {
        (Some(max), _) => (expected - scaled(Some(max), expected, true)).max(0),
        (None, min) => scaled(min.as_ref(), expected, true),
    };
    let allowed = if expected > 0 { (healthy - desired).max(0) } else { 0 };
    let mut status = PodDisruptionBudgetStatus {
        expected_pods: expected,
        current_healthy: healthy,
        desired_healthy: desired,
        disruptions_allowed: allowed,
        observed_generation: budget.metadata.generation,
        disrupted_pods: Some(disrupted).filter(|pods| !pods.is_empty()),
        conditions: was.conditions.clone(),
    };
    let is_left = allowed > 0;
    let (is, reason) = if is_left { ("True", "SufficientPods") } else { ("False", "InsufficientPods") };
    set_condition(&mut status, is, reason, String::new(), &Time(now));
    if status == was {
        return Effect::Done;
    }
    let write = write_status(key, &budget, status);
    let about = Involved::new(&BUDGETS, View::of(&budget.metadata));
    let is_unmanaged = |pod: &Arc<Pod>| pod.view().controller().is_none();
    Effect::InOrder(vec![if pods.is_empty() {
        write.telling(Telling::done(about, "NoPods", "No matching pods found"))
    } else if by_scale && pods.iter().any(is_unmanaged) {
        write.telling(Telling::warning(about, "UnmanagedPods", UNMANAGED))
    } else {
        write
    }])
}

/// Lets no pod go of a budget whose pods cannot be counted.
fn fail_safe(
    key: &NamespacedName,
    budget: &PodDisruptionBudget,
    was: &PodDisruptionBudgetStatus,
    problem: String,
    now: &Time,
) -> Effect {
    let mut status = PodDisruptionBudgetStatus { disruptions_allowed: 0, ..was.clone() };
    set_condition(&mut status, "False", "SyncFailed", problem, now);
    if status == *was { Effect::Done } else { Effect::InOrder(vec![write_status(key, budget, status)]) }
}

fn write_status(key: &NamespacedName, budget: &PodDisruptionBudget, status: PodDisruptionBudgetStatus) -> Write {
    let object = PodDisruptionBudget { status: Some(status), ..budget.clone() };
    Write::replace_status(&BUDGETS, key, &object)
}

fn set_condition(status: &mut PodDisruptionBudgetStatus, is: &str, reason: &str, message: String, now: &Time) {
    let all = status.conditions.get_or_insert_default();
    let known = all.iter().position(|condition| condition.type_ == "DisruptionAllowed");
    let known = known.map(|position| all.remove(position));
    let since =
        known.filter(|known| known.status == is).map_or_else(|| now.clone(), |known| known.last_transition_time);
    all.push(Condition {
        type_: "DisruptionAllowed".to_owned(),
        status: is.to_owned(),
        reason: reason.to_owned(),
        message,
        observed_generation: status.observed_generation,
        last_transition_time: since,
    });
}

/// Pods that were evicted and are not deleted yet, as long as that is believed.
fn still_disrupted(
    core: &mut Core,
    key: &NamespacedName,
    budget: &PodDisruptionBudget,
    pods: &[Arc<Pod>],
    now: Timestamp,
) -> BTreeMap<String, Time> {
    let known = budget.status.as_ref().and_then(|status| status.disrupted_pods.clone()).unwrap_or_default();
    let mut left = BTreeMap::new();
    for (name, since) in known {
        let is_there = pods.iter().any(|pod| *pod.metadata.name == *name && !pod.is_terminating());
        let due = since.0.saturating_add(FORGOTTEN).unwrap_or(Timestamp::MAX);
        if is_there && due > now {
            core.add_when(Work::Budget(key.clone()), due);
            left.insert(name, since);
        }
    }
    left
}

/// How many pods the controllers of some pods want. Pods without a controller are not expected. Fails where a controller
/// has no scale.
fn expected(core: &Core, pods: &[Arc<Pod>]) -> Result<i32, String> {
    let mut scales: BTreeMap<String, i32> = BTreeMap::new();
    let mut others = 0;
    // Pods of one workload have one scale behind them, which is looked up once.
    let mut last = None;
    for pod in pods {
        let Some(owner) = pod.view().controller() else { continue };
        if last == Some(&owner.uid) {
            continue;
        }
        if let Some((uid, replicas)) = scale_behind(core, pod) {
            scales.insert(uid, replicas);
            last = Some(&owner.uid);
        } else if let Some((_, resource)) = WITHOUT_SCALE.iter().find(|(kind, _)| *kind == owner.kind) {
            return Err(format!("{resource} does not implement the scale subresource"));
        } else {
            // The controller is gone, or of a kind whose scale is not known here.
            others += 1;
        }
    }
    Ok(others + scales.values().sum::<i32>())
}

/// What says how many pods like this one there should be: a Deployment before its ReplicaSets.
fn scale_behind(core: &Core, pod: &Pod) -> Option<(String, i32)> {
    let view = pod.view();
    let owner = view.controller()?;
    let key = view.key().beside(&owner.name);
    let caches = &core.caches;
    let of = |uid: &Option<String>, replicas: Option<i32>| Some((uid.clone()?, replicas.unwrap_or(1)));
    match owner.kind.as_str() {
        "ReplicaSet" => {
            let set = caches.replica_sets.get(&key)?;
            let mut above = set.metadata.owner_references.iter().flatten();
            let above = above.find(|above| above.controller == Some(true) && above.kind == "Deployment");
            let deployment = above.and_then(|above| caches.deployments.get(&key.beside(&above.name)));
            match deployment {
                Some(deployment) => of(&deployment.metadata.uid, deployment.spec.as_ref()?.replicas),
                None => of(&set.metadata.uid, set.spec.as_ref()?.replicas),
            }
        }
        "StatefulSet" => {
            let set = caches.stateful_sets.get(&key)?;
            of(&set.metadata.uid, set.spec.as_ref()?.replicas)
        }
        "ReplicationController" => {
            let set = caches.replication_controllers.get(&key)?;
            of(&set.metadata.uid, set.spec.as_ref()?.replicas)
        }
        _ => None,
    }
}
