//! The controllers: each reads the caches for one piece of work, and says what to write.

mod adoption;
pub(crate) mod autoscalers;
mod budgets;
mod cron_jobs;
pub(crate) mod daemon_sets;
mod deployments;
mod endpoints;
mod ephemeral_volumes;
pub(crate) mod job_pods;
mod jobs;
mod matching;
mod namespaces;
pub(crate) mod nodes;
pub(crate) mod pod_gc;
pub(crate) mod quotas;
mod replica_sets;
mod revisions;
mod rollout;
mod slices;
mod stateful_sets;
pub(crate) mod taints;
mod template;
mod volumes;

use crate::core::Core;
use crate::garbage;
use crate::work::Work;
use crate::write::Effect;

/// Says what is to be done for a piece of work.
pub(crate) fn sync(core: &mut Core, work: &Work) -> Effect {
    match work {
        Work::Deployment(key) => deployments::sync(core, key),
        Work::ReplicaSet(key) => replica_sets::sync(core, key),
        Work::ReplicationController(key) => replica_sets::sync_replication_controller(core, key),
        Work::StatefulSet(key) => stateful_sets::sync(core, key),
        Work::DaemonSet(key) => daemon_sets::sync(core, key),
        Work::DaemonNode(key, node) => daemon_sets::sync_node(core, key, node),
        Work::Job(key) => jobs::sync(core, key),
        Work::OrphanJobPod(key) => jobs::sync_orphan(core, key),
        Work::CronJob(key) => cron_jobs::sync(core, key),
        Work::Endpoints(key) => endpoints::sync(core, key),
        Work::EndpointSlices(key) => slices::sync(core, key),
        Work::Budget(key) => budgets::sync(core, key),
        Work::Quota(key) => quotas::sync(core, key),
        Work::Namespace(name) => garbage::empty_namespace(core, name),
        Work::ServiceAccount(name) => namespaces::sync_service_account(core, name),
        Work::NodeTaints(name) => nodes::sync_taints(core, name),
        Work::NodeHealth(name) => nodes::sync_health(core, name),
        Work::TaintEviction(key) => taints::sync(core, key),
        Work::OrphanedPods(node) => pod_gc::sync_orphaned(core, node),
        Work::UnscheduledPod(key) => pod_gc::sync_unscheduled(core, key),
        Work::TerminatedPods => pod_gc::sync_terminated(core),
        Work::Claim(key) => volumes::sync_claim(core, key),
        Work::EphemeralVolumes(key) => ephemeral_volumes::sync(core, key),
        Work::Volume(name) => volumes::sync_volume(core, name),
        Work::Autoscaler(key) => autoscalers::sync(core, key),
        Work::AttemptToDelete(uid) => garbage::attempt_to_delete(core, uid),
        Work::AttemptToOrphan(uid) => garbage::attempt_to_orphan(core, uid),
        Work::MissingOwner(uid) => garbage::missing_owner(core, uid),
        Work::Discovery => garbage::discover(core),
    }
}
