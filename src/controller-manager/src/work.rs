//! Pieces of work.

use std::sync::Arc;

use crate::key::NamespacedName;
use crate::options::Controller;

/// What a controller has to look at. A change of an object is turned into these.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Work {
    Deployment(NamespacedName),
    ReplicaSet(NamespacedName),
    ReplicationController(NamespacedName),
    StatefulSet(NamespacedName),
    /// The revisions, the rolling update and the status of a DaemonSet.
    DaemonSet(NamespacedName),
    /// The pods of a DaemonSet on one node.
    DaemonNode(NamespacedName, Arc<str>),
    Job(NamespacedName),
    /// A pod that waits to be counted, and whose Job may be gone.
    OrphanJobPod(NamespacedName),
    CronJob(NamespacedName),
    Endpoints(NamespacedName),
    EndpointSlices(NamespacedName),
    Budget(NamespacedName),
    Quota(NamespacedName),
    Namespace(Arc<str>),
    ServiceAccount(Arc<str>),
    /// The taints of a node.
    NodeTaints(Arc<str>),
    /// The heartbeats of a node.
    NodeHealth(Arc<str>),
    /// A pod on a tainted node.
    TaintEviction(NamespacedName),
    /// The pods of a node that is missing.
    OrphanedPods(Arc<str>),
    /// A terminating pod that has no node.
    UnscheduledPod(NamespacedName),
    /// Ended pods beyond the threshold.
    TerminatedPods,
    Claim(NamespacedName),
    Volume(Arc<str>),
    /// The claims of a pod's ephemeral volumes.
    EphemeralVolumes(NamespacedName),
    Autoscaler(NamespacedName),
    /// A dependent or a waiting owner, by its UID.
    AttemptToDelete(Arc<str>),
    /// An owner whose dependents are to be orphaned, by its UID.
    AttemptToOrphan(Arc<str>),
    /// An owner that dependents name and nobody has seen, by its UID.
    MissingOwner(Arc<str>),
    /// Which resources there are.
    Discovery,
}

impl Work {
    /// Whether it sums up what others have done, in large objects at times: the pods themselves do not wait for it.
    pub(crate) fn is_summary(&self) -> bool {
        matches!(self, Self::Endpoints(_) | Self::EndpointSlices(_) | Self::Budget(_) | Self::Quota(_))
    }

    /// Whose work it is.
    pub(crate) fn controller(&self) -> Controller {
        match self {
            Self::Deployment(_) => Controller::Deployment,
            Self::ReplicaSet(_) => Controller::ReplicaSet,
            Self::ReplicationController(_) => Controller::ReplicationController,
            Self::StatefulSet(_) => Controller::StatefulSet,
            Self::DaemonSet(_) | Self::DaemonNode(..) => Controller::DaemonSet,
            Self::Job(_) | Self::OrphanJobPod(_) => Controller::Job,
            Self::CronJob(_) => Controller::CronJob,
            Self::Endpoints(_) => Controller::Endpoints,
            Self::EndpointSlices(_) => Controller::EndpointSlice,
            Self::Budget(_) => Controller::Disruption,
            Self::Quota(_) => Controller::ResourceQuota,
            Self::Namespace(_) => Controller::Namespace,
            Self::ServiceAccount(_) => Controller::ServiceAccount,
            Self::NodeTaints(_) | Self::NodeHealth(_) => Controller::NodeLifecycle,
            Self::TaintEviction(_) => Controller::TaintEviction,
            Self::OrphanedPods(_) | Self::UnscheduledPod(_) | Self::TerminatedPods => Controller::PodGarbageCollector,
            Self::EphemeralVolumes(_) => Controller::EphemeralVolume,
            Self::Autoscaler(_) => Controller::HorizontalPodAutoscaler,
            Self::Claim(_) | Self::Volume(_) => Controller::PersistentVolumeBinder,
            Self::AttemptToDelete(_) | Self::AttemptToOrphan(_) | Self::MissingOwner(_) | Self::Discovery => {
                Controller::GarbageCollector
            }
        }
    }
}
