//! ReplicaSets and ReplicationControllers: as many pods as they want; those that are worth least go first.

use std::sync::Arc;

use berth_surplus::{DELETION_COST, Rank, Standing, deletion_cost};
use jiff::Timestamp;
use k8s_openapi::api::apps::v1::{ReplicaSetCondition, ReplicaSetStatus};
use k8s_openapi::api::core::v1::{PodTemplateSpec, ReplicationControllerStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::core::{Selector, SelectorExt};
use rustc_hash::FxHashMap;

use super::adoption::{Claimed, Owner};
use super::template::{count, pod_of, size};
use crate::core::{Core, controlled_by};
use crate::events::{Involved, Telling};
use crate::index::workload_selector;
use crate::key::NamespacedName;
use crate::objects::{Pod, View};
use crate::resource::{PODS, REPLICA_SETS, REPLICATION_CONTROLLERS};
use crate::work::Work;
use crate::write::{Effect, Write};

/// Pods that are created or deleted at a time for one set.
const BURST: usize = 500;

/// What ReplicaSets and ReplicationControllers have in common.
struct Set<'s> {
    owner: Owner<'s>,
    work: Work,
    replicas: i32,
    min_ready_seconds: i32,
    template: Option<&'s PodTemplateSpec>,
}

/// What is counted of the pods of a set.
#[derive(Debug, PartialEq)]
struct Counts {
    replicas: i32,
    fully_labeled: i32,
    ready: i32,
    available: i32,
    /// Reason and message, where the pods that are missing or too many cannot be created or deleted.
    refused: Option<(&'static str, String)>,
}

pub(crate) fn sync(core: &mut Core, key: &NamespacedName) -> Effect {
    let Some(object) = core.caches.replica_sets.get(key).cloned() else {
        core.refusals.remove(&Work::ReplicaSet(key.clone()));
        return Effect::Done;
    };
    let Some(spec) = object.spec.as_ref().filter(|_| object.metadata.deletion_timestamp.is_none()) else {
        return Effect::Done;
    };
    let set = Set {
        owner: Owner {
            resource: &REPLICA_SETS,
            view: View::of(&object.metadata),
            selector: workload_selector(Some(&spec.selector)),
        },
        work: Work::ReplicaSet(key.clone()),
        replicas: spec.replicas.unwrap_or(1),
        min_ready_seconds: spec.min_ready_seconds.unwrap_or(0),
        template: spec.template.as_ref(),
    };
    let (was, now) = (object.status.clone().unwrap_or_default(), core.now_time());
    set.sync(core, |counts| {
        let status = ReplicaSetStatus {
            replicas: counts.replicas,
            fully_labeled_replicas: Some(counts.fully_labeled).filter(|n| *n > 0),
            ready_replicas: Some(counts.ready).filter(|n| *n > 0),
            available_replicas: Some(counts.available).filter(|n| *n > 0),
            observed_generation: object.metadata.generation,
            conditions: conditions(was.conditions.clone(), counts.refused.as_ref(), || now.clone()),
            terminating_replicas: was.terminating_replicas,
        };
        let mut new = (*object).clone();
        let is_new = object.status.as_ref() != Some(&status);
        new.status = Some(status);
        is_new.then(|| Write::replace_status(&REPLICA_SETS, key, &new))
    })
}

pub(crate) fn sync_replication_controller(core: &mut Core, key: &NamespacedName) -> Effect {
    let Some(object) = core.caches.replication_controllers.get(key).cloned() else {
        core.refusals.remove(&Work::ReplicationController(key.clone()));
        return Effect::Done;
    };
    let Some(spec) = object.spec.as_ref().filter(|_| object.metadata.deletion_timestamp.is_none()) else {
        return Effect::Done;
    };
    let selector = spec.selector.clone().filter(|labels| !labels.is_empty());
    let set = Set {
        owner: Owner {
            resource: &REPLICATION_CONTROLLERS,
            view: View::of(&object.metadata),
            selector: selector.map(|labels| labels.into_iter().collect()),
        },
        work: Work::ReplicationController(key.clone()),
        replicas: spec.replicas.unwrap_or(1),
        min_ready_seconds: spec.min_ready_seconds.unwrap_or(0),
        template: spec.template.as_ref(),
    };
    set.sync(core, |counts| {
        let status = ReplicationControllerStatus {
            replicas: counts.replicas,
            fully_labeled_replicas: Some(counts.fully_labeled).filter(|n| *n > 0),
            ready_replicas: Some(counts.ready).filter(|n| *n > 0),
            available_replicas: Some(counts.available).filter(|n| *n > 0),
            observed_generation: object.metadata.generation,
            conditions: object.status.as_ref().and_then(|status| status.conditions.clone()),
        };
        let mut new = (*object).clone();
        let is_new = object.status.as_ref() != Some(&status);
        new.status = Some(status);
        is_new.then(|| Write::replace_status(&REPLICATION_CONTROLLERS, key, &new))
    })
}

impl Set<'_> {
    fn sync(&self, core: &mut Core, write_status: impl Fn(&Counts) -> Option<Write>) -> Effect {
        let mut pods = match self.owner.pods(core, &self.work, Pod::is_active) {
            Claimed::Owned(pods) => pods,
            Claimed::First(effect) => return effect,
        };
        pods.retain(|pod| pod.is_active());
        let wanted = size(self.replicas);
        let refused = core.refusals.get(&self.work).filter(|_| pods.len() != wanted).cloned();
        let verb = if pods.len() < wanted { "FailedCreate" } else { "FailedDelete" };
        let counts = Counts { refused: refused.map(|message| (verb, message)), ..self.count(core, &pods) };
        let status = write_status(&counts);
        let mut writes = Vec::new();
        if let (true, Some(template)) = (pods.len() < wanted, self.template) {
            writes = self.create((wanted - pods.len()).min(BURST), template);
        } else if pods.len() > wanted {
            let (beside, now) = (self.owner.beside(core), core.now());
            pods.sort_by_cached_key(|pod| rank(pod, &beside, now));
            let surplus = pods.iter().take((pods.len() - wanted).min(BURST));
            writes.extend(surplus.map(|pod| {
                let delete = Write::delete(&PODS, &pod.view().key(), &pod.metadata.uid);
                delete.telling(Telling::deleted_pod(Involved::new(self.owner.resource, self.owner.view)))
            }));
        }
        if writes.is_empty() {
            return Effect::of(status.into_iter().collect());
        }
        Effect::Burst(writes, status.into_iter().collect())
    }

    fn create(&self, n: usize, template: &PodTemplateSpec) -> Vec<Write> {
        let view = self.owner.view;
        let mut pod = pod_of(template, controlled_by(self.owner.resource, view));
        pod.metadata.generate_name = Some(format!("{}-", view.name));
        let write = Write::create(&PODS, &NamespacedName::new(view.namespace, &format!("{}-", view.name)), &pod);
        vec![write.telling(Telling::created_pod(Involved::new(self.owner.resource, view))); n]
    }

    fn count(&self, core: &mut Core, pods: &[Arc<Pod>]) -> Counts {
        let labels = self.template.and_then(|template| template.metadata.as_ref()?.labels.clone());
        let labelled: Selector = labels.unwrap_or_default().into_iter().collect();
        Counts {
            replicas: count(pods.len()),
            fully_labeled: count(pods.iter().filter(|pod| labelled.matches(&pod.metadata.labels)).count()),
            ready: count(pods.iter().filter(|pod| pod.is_ready()).count()),
            available: count(available(core, &self.work, pods, self.min_ready_seconds)),
            refused: None,
        }
    }
}

/// The conditions of a set with the one that says whether its pods are refused. It stays as it was set first.
fn conditions(
    was: Option<Vec<ReplicaSetCondition>>,
    refused: Option<&(&'static str, String)>,
    now: impl FnOnce() -> Time,
) -> Option<Vec<ReplicaSetCondition>> {
    const FAILURE: &str = "ReplicaFailure";
    let mut all = was.unwrap_or_default();
    match refused {
        None => all.retain(|condition| condition.type_ != FAILURE),
        Some((reason, message)) if all.iter().all(|condition| condition.type_ != FAILURE) => {
            all.push(ReplicaSetCondition {
                type_: FAILURE.to_owned(),
                status: "True".to_owned(),
                reason: Some((*reason).to_owned()),
                message: Some(message.clone()),
                last_transition_time: Some(now()),
            });
        }
        Some(_) => {}
    }
    Some(all).filter(|all| !all.is_empty())
}

/// The order in which pods go, upstream's: that of their standing, then any.
fn rank(pod: &Pod, beside: &FxHashMap<Box<str>, usize>, now: Timestamp) -> (Rank, String) {
    let cost = deletion_cost(pod.metadata.annotations.get(DELETION_COST).map(String::as_str));
    let on_its_node = pod.node().and_then(|node| beside.get(node)).copied().unwrap_or(0);
    let standing = Standing { cost, ..pod.standing() };
    (standing.rank(on_its_node, Some(now)), pod.metadata.uid.to_string())
}

/// How many pods have been ready for long enough. The work is added again when the next will have been.
pub(crate) fn available(core: &mut Core, work: &Work, pods: &[Arc<Pod>], min_ready_seconds: i32) -> usize {
    let now = core.now();
    let mut next: Option<Timestamp> = None;
    let mut available = 0;
    for at in pods.iter().filter_map(|pod| pod.available_at(min_ready_seconds)) {
        if at <= now {
            available += 1;
        } else {
            next = Some(next.map_or(at, |next| next.min(at)));
        }
    }
    if let Some(next) = next {
        core.add_when(work.clone(), next);
    }
    available
}
