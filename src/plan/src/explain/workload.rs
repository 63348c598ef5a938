//! A workload: one of its pods tells its story.

use berth_decisions::Assignment;
use berth_model::MemberKind;
use berth_state::{PodRecord, State};
use k8s_openapi::api::apps::v1::ReplicaSet;
use k8s_openapi::api::batch::v1::Job;

use super::{ExplainError, Kind, ObjectRef, subject};
use crate::Plan;

/// The first pod of a workload that has no place, or else the first that the plan places.
///
/// # Errors
/// The plan places no pod of it: all run already, or there is no such workload.
pub(super) fn first_pod(plan: &Plan, state: Option<&State>, workload: &ObjectRef) -> Result<ObjectRef, ExplainError> {
    let cluster = &plan.cluster;
    let prefix = format!("{}/{}-", workload.namespace, workload.name);
    let is_its = |name: &str| {
        name.strip_prefix(&prefix)
            .is_some_and(|rest| !rest.is_empty() && rest.bytes().all(|byte| byte.is_ascii_digit()))
    };
    let assignment = Assignment::new(cluster, &plan.universe, &plan.solution);
    let left = plan.solution.unschedulable.iter().zip(&assignment.unschedulable).filter(|(left, _)| left.count > 0);
    let mut left = left.flat_map(|(_, share)| assignment.members(*share)).map(|member| member.to_string());
    let pending = || {
        let rows = cluster
            .pending
            .iter()
            .filter(|row| row.kind == MemberKind::Pod && cluster.symbols.text(row.namespace) == workload.namespace);
        let mut runs = rows.flat_map(|row| &row.members).filter(|run| *run.name == *workload.name && !run.is_empty());
        runs.find_map(|run| run.numbers.map(|(first, _)| format!("{prefix}{first}")))
    };
    let bound = || {
        let nodes = plan.solution.nodes.iter();
        let mut there = nodes.flat_map(|entry| plan.allocation.on_node(entry.node, MemberKind::Pod, cluster));
        there.find(|also| is_its(also.name)).map(|also| also.name.to_owned())
    };
    // All of its pods may come with their Reservations.
    let with_reservations = || {
        let drawing = cluster.reservations_with_ids().flat_map(|(id, _)| plan.allocation.bundled_with(id));
        drawing.map(|pod| pod.name.to_string()).find(|name| is_its(name))
    };
    let found = left.find(|name| is_its(name)).or_else(pending).or_else(with_reservations).or_else(bound);
    let found = found.or_else(|| that_is_there(state?, workload));
    let name = found.and_then(|full| full.split_once('/').map(|(_, name)| name.to_owned()));
    let name = name.ok_or_else(|| subject::missing(plan, workload))?;
    Ok(ObjectRef { kind: Kind::Pod, namespace: workload.namespace.clone(), name })
}

/// The first of a workload's pods that is there and on no node, or else the first of all.
fn that_is_there(state: &State, workload: &ObjectRef) -> Option<String> {
    let is_its = |pod: &&PodRecord| {
        let owner = pod.controller().filter(|_| pod.namespace() == workload.namespace && !pod.has_ended());
        owner.is_some_and(|owner| {
            // A Deployment has its pods by way of a ReplicaSet, and a CronJob by way of a Job.
            let metadata = match owner.kind.as_str() {
                "ReplicaSet" => state.get_as::<ReplicaSet>(pod.namespace(), &owner.name).map(|set| &set.metadata),
                "Job" => state.get_as::<Job>(pod.namespace(), &owner.name).map(|job| &job.metadata),
                _ => None,
            };
            let above = metadata.and_then(|metadata| metadata.owner_references.as_ref()).into_iter().flatten();
            owner.name == workload.name
                || above.filter(|above| above.controller == Some(true)).any(|above| above.name == workload.name)
        })
    };
    let first =
        state.pods().map(|pod| &**pod).filter(is_its).min_by_key(|pod| (pod.node().is_some(), pod.name().clone()));
    first.map(|pod| format!("{}/{}", pod.namespace(), pod.name()))
}
