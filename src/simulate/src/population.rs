//! How many pods a simulation asks for at a time, before it begins.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use berth_manifests::Object;

use crate::scenario::Scaled;
use crate::step::{Action, MOST_PODS, Origin, Step};

/// A workload: kind, namespace and name.
type Name = (&'static str, String, String);

/// Where more pods are asked for at a time than there may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TooMany {
    /// The step that asks for too many; none where it is the objects to begin with.
    pub(crate) origin: Option<Origin>,
    /// How many there would be.
    pub(crate) pods: u64,
}

/// Counts the pods that objects and steps, which are in the order of time, ask for at a time, if each starts as soon as it
/// comes.
pub(crate) fn check(objects: &[Object], steps: &[Step]) -> Result<(), TooMany> {
    let mut population = Population::default();
    for object in objects {
        population.apply(object);
    }
    population.check(None)?;
    for step in steps {
        while population.ends.peek().is_some_and(|Reverse(end)| *end <= step.at) {
            population.ends.pop();
            population.now = population.now.saturating_sub(1);
        }
        match &step.action {
            Action::Apply(objects) => objects.iter().for_each(|object| population.apply(object)),
            Action::Scale { kind, namespace, name, replicas } => {
                population.set((word(*kind), namespace.to_string(), name.to_string()), u64::from(*replicas));
            }
            Action::Delete { kind, namespace, name, .. } => {
                if let Some(kind) = KINDS.into_iter().find(|known| **known == **kind) {
                    population.set((kind, namespace.to_string(), name.to_string()), 0);
                }
            }
            Action::Pod(arrival) => {
                population.now += 1;
                if let Some(runs_for) = arrival.runs_for {
                    population.ends.push(Reverse(step.at.saturating_add(runs_for)));
                }
            }
            _ => {}
        }
        population.check(Some(step.origin))?;
    }
    Ok(())
}

/// The kinds whose pods are counted.
const KINDS: [&str; 7] = ["Deployment", "StatefulSet", "ReplicaSet", "ReplicationController", "Job", "Pod", "CronJob"];

const fn word(kind: Scaled) -> &'static str {
    match kind {
        Scaled::Deployment => "Deployment",
        Scaled::StatefulSet => "StatefulSet",
        Scaled::ReplicaSet => "ReplicaSet",
        Scaled::Job => "Job",
    }
}

#[derive(Default)]
struct Population {
    now: u64,
    by_workload: BTreeMap<Name, u64>,
    /// When pods of a trace end.
    ends: BinaryHeap<Reverse<u64>>,
}

// === impl Population ===

impl Population {
    fn apply(&mut self, object: &Object) {
        let count = |count: Option<i32>| u64::try_from(count.unwrap_or(1)).unwrap_or(0);
        let pods = match object {
            Object::Deployment(own) => count(own.spec.as_ref().and_then(|spec| spec.replicas)),
            Object::StatefulSet(own) => count(own.spec.as_ref().and_then(|spec| spec.replicas)),
            Object::ReplicaSet(own) => count(own.spec.as_ref().and_then(|spec| spec.replicas)),
            Object::ReplicationController(own) => count(own.spec.as_ref().and_then(|spec| spec.replicas)),
            Object::Job(own) => of_job(own.spec.as_ref()),
            // One of its Jobs at least.
            Object::CronJob(own) => of_job(own.spec.as_ref().and_then(|spec| spec.job_template.spec.as_ref())),
            Object::Pod(_) => 1,
            _ => return,
        };
        let metadata = object.metadata();
        let namespace = metadata.namespace.clone().unwrap_or_else(|| "default".to_owned());
        self.set((object.kind(), namespace, metadata.name.clone().unwrap_or_default()), pods);
    }

    fn set(&mut self, workload: Name, pods: u64) {
        let before = self.by_workload.insert(workload, pods).unwrap_or(0);
        self.now = self.now.saturating_sub(before).saturating_add(pods);
    }

    fn check(&self, origin: Option<Origin>) -> Result<(), TooMany> {
        if self.now > MOST_PODS { Err(TooMany { origin, pods: self.now }) } else { Ok(()) }
    }
}

fn of_job(spec: Option<&k8s_openapi::api::batch::v1::JobSpec>) -> u64 {
    let parallelism = spec.and_then(|spec| spec.parallelism).unwrap_or(1);
    let completions = spec.and_then(|spec| spec.completions).unwrap_or(parallelism);
    u64::try_from(parallelism.min(completions)).unwrap_or(0)
}
