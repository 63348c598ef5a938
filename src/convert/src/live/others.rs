//! Objects that rarely change in what decisions depend on: most of their changes are of a status.

use std::sync::Arc;

use berth_api::NodeOverlay;
use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet, StatefulSet};
use k8s_openapi::api::batch::v1::{CronJob, Job};
use k8s_openapi::api::core::v1::{Namespace, ReplicationController, Service};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;

use berth_model::Sym;

use super::{Change, Live, Objects, Patched};
use crate::ConvertError;
use crate::builder::Builder;
use crate::selecting::Selecting;

/// An object that makes pods: these are planned as they are, and nothing else of it decides.
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs, reason = "each variant is named for its kind")]
pub enum Other<'o> {
    CronJob(&'o CronJob),
    Deployment(&'o Deployment),
    Job(&'o Job),
    ReplicaSet(&'o ReplicaSet),
    ReplicationController(&'o ReplicationController),
    StatefulSet(&'o StatefulSet),
}

impl Live {
    /// An object was created, changed or deleted. A DaemonSet that one owns is of another kind than others. The pods of one that
    /// selects others are spread from others by default.
    pub fn other_changed(
        &mut self,
        before: Option<Other<'_>>,
        after: Option<Other<'_>>,
        objects: &impl Objects,
    ) -> Patched {
        let read = |reader: &mut Builder, object: Option<Other<'_>>| {
            match object {
                Some(Other::ReplicaSet(object)) => reader.select_replica_set(object),
                Some(Other::ReplicationController(object)) => reader.select_replication_controller(object),
                Some(Other::StatefulSet(object)) => reader.select_stateful_set(object),
                Some(Other::CronJob(_) | Other::Deployment(_) | Other::Job(_)) | None => {}
            }
            std::mem::take(&mut reader.selecting)
        };
        let Some(selected) = self.read(|reader| Ok((read(reader, before), read(reader, after)))) else {
            return Patched::NeedsRebuild;
        };
        if self.selectors_changed(selected, objects) == Patched::NeedsRebuild {
            return Patched::NeedsRebuild;
        }
        let known = self.read_asking(|reader| {
            let done = after.map_or(Ok(()), |after| add_workload(reader, after));
            reader.workloads.pop();
            reader.selecting = Selecting::default();
            done
        });
        if known.is_some() && !self.rooms.owns_daemons { Patched::Done } else { Patched::NeedsRebuild }
    }

    /// A Service was created, changed or deleted.
    pub fn service_changed(
        &mut self,
        before: Option<&Service>,
        after: Option<&Service>,
        objects: &impl Objects,
    ) -> Patched {
        let read = |reader: &mut Builder, object: Option<&Service>| {
            object.map_or(Ok(()), |object| reader.add_service(object))?;
            Ok(std::mem::take(&mut reader.selecting))
        };
        let selected = self.read(|reader| Ok((read(reader, before)?, read(reader, after)?)));
        selected.map_or(Patched::NeedsRebuild, |selected| self.selectors_changed(selected, objects))
    }

    /// A Service or a controller selects others: pods that are spread from others by default are taken in again.
    fn selectors_changed(&mut self, (before, after): (Selecting, Selecting), objects: &impl Objects) -> Patched {
        if before == after {
            return Patched::Done;
        }
        let gone = self.rooms.ownership.selectors_changed(&before, after, &mut self.cluster);
        if gone.is_empty() {
            return Patched::Done;
        }
        let mut pods: Vec<(Sym, Arc<str>)> = Vec::new();
        for row in self.cluster.pending.iter().filter(|row| gone.contains(&row.labels)) {
            pods.extend(row.members.iter().map(|member| (row.namespace, member.name.clone())));
        }
        let bound = self.cluster.nodes.iter().flat_map(|node| &node.pods).filter(|pod| gone.contains(&pod.labels));
        pods.extend(bound.map(|pod| (pod.namespace, pod.name.clone())));
        self.again(&pods, objects)
    }

    /// Whether a NodeOverlay that was created, changed or deleted changes what prices or capacities are.
    pub fn is_other_overlay(&mut self, before: Option<&NodeOverlay>, after: Option<&NodeOverlay>) -> bool {
        let read = |reader: &mut Builder, object: Option<&NodeOverlay>| {
            object.map_or(Ok(()), |object| reader.add_node_overlay(object))?;
            Ok(reader.overlays.pop())
        };
        let known = self.read(|reader| Ok((read(reader, before)?, read(reader, after)?)));
        known.is_none_or(|(before, after)| before != after)
    }

    /// A PodDisruptionBudget was created, changed or deleted; `at` is its place among all of them by namespace and name.
    pub fn budget_changed(
        &mut self,
        at: usize,
        before: Option<&PodDisruptionBudget>,
        after: Option<&PodDisruptionBudget>,
    ) -> Patched {
        let read = |reader: &mut Builder, object: Option<&PodDisruptionBudget>| {
            object.map_or(Ok(()), |object| reader.add_pod_disruption_budget(object))?;
            Ok(reader.budgets.pop().map(|(_, budget)| budget))
        };
        let known = self.read(|reader| Ok((read(reader, before)?, read(reader, after)?)));
        let Some((before, after)) = known else { return Patched::NeedsRebuild };
        if before == after {
            return Patched::Done;
        }
        let budgets = &mut self.cluster.budgets;
        if before.is_some() && at < budgets.len() {
            budgets.remove(at);
        }
        if let Some(after) = after {
            budgets.insert(at.min(budgets.len()), after);
        }
        self.log.push(Change::Budgets);
        Patched::Done
    }

    /// A namespace was created, changed or deleted; `at` is its place among all of them by name.
    pub fn namespace_changed(&mut self, at: usize, before: Option<&Namespace>, after: Option<&Namespace>) -> Patched {
        let read = |reader: &mut Builder, object: Option<&Namespace>| {
            object.map_or(Ok(()), |object| reader.add_namespace(object))?;
            Ok(reader.take_namespaces().pop())
        };
        let known = self.read(|reader| Ok((read(reader, before)?, read(reader, after)?)));
        let Some((before, after)) = known else { return Patched::NeedsRebuild };
        if before == after {
            return Patched::Done;
        }
        let namespaces = &mut self.cluster.namespaces;
        if before.is_some() && at < namespaces.len() {
            namespaces.remove(at);
        }
        if let Some(after) = after {
            let at = at.min(namespaces.len());
            namespaces.insert(at, after);
        }
        self.log.push(Change::Namespaces);
        Patched::Done
    }
}

fn add_workload(reader: &mut Builder, object: Other<'_>) -> Result<(), ConvertError> {
    match object {
        Other::CronJob(object) => reader.add_cron_job(object),
        Other::Deployment(object) => reader.add_deployment(object),
        Other::Job(object) => reader.add_job(object),
        Other::ReplicaSet(object) => reader.add_replica_set(object),
        Other::ReplicationController(object) => reader.add_replication_controller(object),
        Other::StatefulSet(object) => reader.add_stateful_set(object),
    }
}
