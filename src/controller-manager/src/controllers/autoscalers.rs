//! HorizontalPodAutoscalers, as far as they scale without metrics, of which there are none: what they scale is kept within
//! their bounds. A workload with no replicas is left alone: its autoscaler is off. So is one that several of them scale, as in
//! upstream: each would undo what the other did.

use k8s_openapi::api::autoscaling::v2::{
    HorizontalPodAutoscaler, HorizontalPodAutoscalerCondition, HorizontalPodAutoscalerStatus,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde_json::json;

use crate::core::Core;
use crate::events::{Involved, Telling};
use crate::key::NamespacedName;
use crate::objects::View;
use crate::resource::{AUTOSCALERS, DEPLOYMENTS, REPLICA_SETS, REPLICATION_CONTROLLERS, Resource, STATEFUL_SETS};
use crate::write::{Effect, Write};

/// What an autoscaler scales, as the index of autoscalers has it.
pub(crate) fn scaled_by(
    key: &NamespacedName,
    autoscaler: &HorizontalPodAutoscaler,
) -> Option<(Box<str>, NamespacedName)> {
    let reference = &autoscaler.spec.as_ref()?.scale_target_ref;
    let resource = resource_of(&reference.kind, reference.api_version.as_deref().unwrap_or_default())?;
    Some((resource.kind.as_ref().into(), key.beside(&reference.name)))
}

/// The resource of a kind that can be scaled here.
fn resource_of(kind: &str, api_version: &str) -> Option<&'static Resource> {
    let resource: &'static Resource = match kind {
        "Deployment" => &DEPLOYMENTS,
        "ReplicaSet" => &REPLICA_SETS,
        "StatefulSet" => &STATEFUL_SETS,
        "ReplicationController" => &REPLICATION_CONTROLLERS,
        _ => return None,
    };
    let group = api_version.split_once('/').map_or("", |(group, _)| group);
    (group == resource.group).then_some(resource)
}

/// How many replicas there are to be, and why; `None` where there may be as many as there are.
fn bounded(replicas: i32, least: i32, most: i32) -> Option<(i32, &'static str)> {
    if replicas > most {
        return Some((most, "Current number of replicas above Spec.MaxReplicas"));
    }
    (replicas < least).then_some((least, "Current number of replicas below Spec.MinReplicas"))
}

pub(crate) fn sync(core: &mut Core, key: &NamespacedName) -> Effect {
    let Some(object) = core.caches.autoscalers.get(key).cloned() else { return Effect::Done };
    let Some(spec) = object.spec.as_ref().filter(|_| object.metadata.deletion_timestamp.is_none()) else {
        return Effect::Done;
    };
    let Some(scaled) = scaled_by(key, &object) else { return Effect::Done };
    let target = scaled.1.clone();
    let reference = &spec.scale_target_ref;
    let api_version = reference.api_version.as_deref().unwrap_or_default();
    let Some(resource) = resource_of(&reference.kind, api_version) else { return Effect::Done };
    let caches = &core.caches;
    let wanted = match reference.kind.as_str() {
        "Deployment" => caches.deployments.get(&target).and_then(|own| own.spec.as_ref().map(|spec| spec.replicas)),
        "ReplicaSet" => caches.replica_sets.get(&target).and_then(|own| own.spec.as_ref().map(|spec| spec.replicas)),
        "StatefulSet" => caches.stateful_sets.get(&target).and_then(|own| own.spec.as_ref().map(|spec| spec.replicas)),
        _ => caches.replication_controllers.get(&target).and_then(|own| own.spec.as_ref().map(|spec| spec.replicas)),
    };
    // It may come later.
    let Some(wanted) = wanted else { return Effect::Done };
    let replicas = wanted.unwrap_or(1);
    let n_autoscalers = caches.indexes.autoscalers_of.get(&scaled).count();
    let scaling = match (replicas, n_autoscalers) {
        (0, _) => Scaling::Off,
        (_, 0 | 1) => Scaling::WithinBounds,
        _ => Scaling::Ambiguous,
    };
    let to_be = match scaling {
        Scaling::WithinBounds => bounded(replicas, spec.min_replicas.unwrap_or(1), spec.max_replicas),
        Scaling::Off | Scaling::Ambiguous => None,
    };
    let now = core.now_time();
    let mut writes = Vec::new();
    if let Some((to_be, why)) = to_be {
        let about = Involved::new(&AUTOSCALERS, View::of(&object.metadata));
        let told = Telling::done(about, "SuccessfulRescale", format!("New size: {to_be}; reason: {why}"));
        writes.push(Write::merge(resource, &target, &json!({"spec": {"replicas": to_be}})).telling(told));
    }
    writes.extend(status(key, &object, (replicas, to_be.map(|(to_be, _)| to_be)), scaling, &now));
    Effect::of(writes)
}

/// What is made of what an autoscaler says.
#[derive(Debug, Clone, Copy)]
enum Scaling {
    WithinBounds,
    /// There are to be none.
    Off,
    /// Others say something, too.
    Ambiguous,
}

impl Scaling {
    /// Reason and message of the condition `ScalingActive`, which is false.
    const fn why(self) -> (&'static str, &'static str) {
        match self {
            Self::WithinBounds => (
                "FailedGetResourceMetric",
                "there are no metrics here: replicas are kept within minReplicas and maxReplicas",
            ),
            Self::Off => ("ScalingDisabled", "scaling is disabled since the replica count of the target is zero"),
            Self::Ambiguous => {
                ("AmbiguousSelector", "pods by selector are controlled by multiple HPAs: nothing is scaled")
            }
        }
    }
}

/// Writes how many replicas there are and are to be, where that is new.
fn status(
    key: &NamespacedName,
    object: &HorizontalPodAutoscaler,
    (current, to_be): (i32, Option<i32>),
    scaling: Scaling,
    now: &Time,
) -> Option<Write> {
    let was = object.status.clone().unwrap_or_default();
    let known = was.conditions.clone().unwrap_or_default();
    let condition = |type_: &str, is: &str, reason: &str, message: &str| {
        let before = known.iter().find(|known| known.type_ == type_ && known.status == is);
        HorizontalPodAutoscalerCondition {
            type_: type_.to_owned(),
            status: is.to_owned(),
            reason: Some(reason.to_owned()),
            message: Some(message.to_owned()),
            last_transition_time: before.map_or_else(|| Some(now.clone()), |known| known.last_transition_time.clone()),
        }
    };
    let able = "the HPA controller was able to get the target's current scale";
    let (reason, message) = scaling.why();
    let conditions = vec![
        condition("AbleToScale", "True", "SucceededGetScale", able),
        condition("ScalingActive", "False", reason, message),
    ];
    let status = HorizontalPodAutoscalerStatus {
        observed_generation: object.metadata.generation,
        current_replicas: Some(current),
        desired_replicas: to_be.unwrap_or(current),
        last_scale_time: if to_be.is_some() { Some(now.clone()) } else { was.last_scale_time.clone() },
        conditions: Some(conditions),
        current_metrics: was.current_metrics.clone(),
    };
    (status != was).then(|| {
        let mut new = object.clone();
        new.status = Some(status);
        Write::replace_status(&AUTOSCALERS, key, &new)
    })
}

#[cfg(test)]
mod tests {
    use super::bounded;

    #[test]
    fn replicas_are_kept_within_bounds() {
        let bounded = |replicas| bounded(replicas, 2, 5).map(|(to_be, _)| to_be);
        assert_eq!([1, 2, 5, 6].map(bounded), [Some(2), None, None, Some(5)]);
    }
}
