//! How many pods a simulation asks for at a time, before it begins.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use berth_manifests::Object;
use serde_json::Value;

use crate::scenario::Scaled;
use crate::step::{Action, MOST_PODS, Origin, Step};

/// A workload: kind, namespace and name.
type Name = (&'static str, String, String);

/// Where more pods are asked for at a time than there may be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TooMany {
    /// The step that asks for too many; none where it is the objects to begin with.
    pub(crate) origin: Option<Origin>,
    /// The object with which they are too many, and what it asks for itself; none where it is a pod of a trace.
    pub(crate) object: Option<Asked>,
    /// How many there would be.
    pub(crate) pods: u64,
}

/// What an object asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Asked {
    pub(crate) kind: &'static str,
    pub(crate) namespace: String,
    pub(crate) name: String,
    /// The field that says how many.
    pub(crate) field: &'static str,
    pub(crate) pods: u64,
}

impl Asked {
    /// Whether an object as it is written is the one that asks.
    pub(crate) fn is(&self, object: &Value) -> bool {
        let text = |path: &str| object.pointer(path).and_then(Value::as_str);
        text("/kind") == Some(self.kind)
            && text("/metadata/name") == Some(&self.name)
            && text("/metadata/namespace").unwrap_or("default") == self.namespace
    }
}

/// Counts the pods that objects and steps, which are in the order of time, ask for at a time, if each starts as soon as it
/// comes.
pub(crate) fn check(objects: &[Object], steps: &[Step]) -> Result<(), TooMany> {
    let mut population = Population::default();
    for object in objects {
        population.apply(object);
        population.check(None)?;
    }
    for step in steps {
        while population.ends.peek().is_some_and(|Reverse(end)| *end <= step.at) {
            population.ends.pop();
            population.now = population.now.saturating_sub(1);
        }
        match &step.action {
            Action::Apply(objects) => {
                for object in objects.iter() {
                    population.apply(object);
                    population.check(Some(step.origin))?;
                }
            }
            Action::Scale { kind, namespace, name, replicas } => {
                let field = if *kind == Scaled::Job { "spec.parallelism" } else { "spec.replicas" };
                let name = (word(*kind), namespace.to_string(), name.to_string());
                population.set(name, field, u64::from(*replicas));
            }
            Action::Delete { kind, namespace, name, .. } => {
                if let Some(kind) = KINDS.into_iter().find(|known| **known == **kind) {
                    population.set((kind, namespace.to_string(), name.to_string()), "", 0);
                }
            }
            Action::Pod(arrival) => {
                population.now += 1;
                population.last = None;
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
    /// The workload that asked last.
    last: Option<Asked>,
}

// === impl Population ===

impl Population {
    fn apply(&mut self, object: &Object) {
        let count = |count: Option<i32>| u64::try_from(count.unwrap_or(1)).unwrap_or(0);
        let replicas = |asked: Option<Option<i32>>| ("spec.replicas", count(asked.flatten()));
        let (field, pods) = match object {
            Object::Deployment(own) => replicas(own.spec.as_ref().map(|spec| spec.replicas)),
            Object::StatefulSet(own) => replicas(own.spec.as_ref().map(|spec| spec.replicas)),
            Object::ReplicaSet(own) => replicas(own.spec.as_ref().map(|spec| spec.replicas)),
            Object::ReplicationController(own) => replicas(own.spec.as_ref().map(|spec| spec.replicas)),
            Object::Job(own) => ("spec.parallelism", of_job(own.spec.as_ref())),
            // One of its Jobs at least.
            Object::CronJob(own) => {
                let job = own.spec.as_ref().and_then(|spec| spec.job_template.spec.as_ref());
                ("spec.jobTemplate.spec.parallelism", of_job(job))
            }
            Object::Pod(_) => ("spec", 1),
            _ => return,
        };
        let metadata = object.metadata();
        let namespace = metadata.namespace.clone().unwrap_or_else(|| "default".to_owned());
        self.set((object.kind(), namespace, metadata.name.clone().unwrap_or_default()), field, pods);
    }

    fn set(&mut self, workload: Name, field: &'static str, pods: u64) {
        let (kind, namespace, name) = workload.clone();
        self.last = Some(Asked { kind, namespace, name, field, pods });
        let before = self.by_workload.insert(workload, pods).unwrap_or(0);
        self.now = self.now.saturating_sub(before).saturating_add(pods);
    }

    fn check(&self, origin: Option<Origin>) -> Result<(), TooMany> {
        if self.now <= MOST_PODS {
            return Ok(());
        }
        Err(TooMany { origin, object: self.last.clone(), pods: self.now })
    }
}

fn of_job(spec: Option<&k8s_openapi::api::batch::v1::JobSpec>) -> u64 {
    let parallelism = spec.and_then(|spec| spec.parallelism).unwrap_or(1);
    let completions = spec.and_then(|spec| spec.completions).unwrap_or(parallelism);
    u64::try_from(parallelism.min(completions)).unwrap_or(0)
}
