//! What a controller manager is started with.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;

/// One of the controllers, by upstream's name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Controller {
    /// Deletes objects whose owners are all gone, and frees owners that wait for their dependents.
    GarbageCollector,
    /// Empties namespaces that are being deleted, and finalizes them.
    Namespace,
    /// Keeps a ServiceAccount `default` in every active namespace.
    ServiceAccount,
    /// Rolls the ReplicaSets of Deployments.
    Deployment,
    /// Creates and deletes the pods of ReplicaSets.
    ReplicaSet,
    /// Creates and deletes the pods of ReplicationControllers.
    ReplicationController,
    /// Creates, replaces and deletes the pods and claims of StatefulSets in order, and keeps their ControllerRevisions.
    StatefulSet,
    /// Keeps a pod on every node that a DaemonSet is for, replaces those of an old template, and keeps ControllerRevisions.
    DaemonSet,
    /// Runs the pods of Jobs until they are complete or have failed too often, and deletes finished Jobs after their time.
    Job,
    /// Creates the Jobs of CronJobs when they are due, and deletes finished ones beyond the history.
    CronJob,
    /// Writes Endpoints for Services with a selector.
    Endpoints,
    /// Writes EndpointSlices for Services with a selector.
    EndpointSlice,
    /// Says in the status of PodDisruptionBudgets how many pods may be disrupted.
    Disruption,
    /// Says in the status of ResourceQuotas what is used.
    ResourceQuota,
    /// Taints nodes by their conditions, and marks those without heartbeats.
    NodeLifecycle,
    /// Deletes pods from nodes with taints of effect NoExecute when their tolerations end.
    TaintEviction,
    /// Deletes pods of nodes that are gone, terminating pods without a node, and ended pods beyond a threshold.
    PodGarbageCollector,
    /// Binds claims to volumes, creates volumes for classes with a provisioner, and ends protection of unused ones.
    PersistentVolumeBinder,
    /// Creates the claims of pods with generic ephemeral volumes.
    EphemeralVolume,
    /// Keeps the replicas of what HorizontalPodAutoscalers scale within their bounds. There are no metrics, so it scales for no
    /// other reason.
    HorizontalPodAutoscaler,
}

/// A set of controllers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Controllers(u32);

/// Grace periods and the like. The defaults are upstream's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timings {
    /// A node that was not heard of for so long becomes Unknown.
    pub node_monitor_grace_period: Duration,
    /// The same for a node that never posted its status.
    pub node_startup_grace_period: Duration,
    /// A node must be gone for so long before its pods are deleted, and is then looked for again.
    pub pod_gc_quarantine: Duration,
    /// Ended pods that are kept.
    pub terminated_pod_threshold: usize,
    /// Changes of a Service's pods are gathered for so long before its Endpoints and EndpointSlices are written, as upstream
    /// with `--endpoint-updates-batch-period` and `--endpointslice-updates-batch-period`. A change of the Service is not.
    pub endpoint_updates_batch_period: Duration,
    /// A namespace with contents left is looked at again after this.
    pub namespace_recheck: Duration,
    /// The first and the longest wait before work that failed is tried again.
    pub retry: (Duration, Duration),
}

/// Tells the time that controllers write. Waiting goes by tokio's time.
#[derive(Clone)]
pub struct Clock(Arc<dyn Fn() -> Timestamp + Send + Sync>);

/// What a [`ControllerManager`](crate::ControllerManager) is started with.
#[derive(Debug, Clone)]
pub struct Options {
    /// Which controllers run.
    pub controllers: Controllers,
    /// Grace periods and the like.
    pub timings: Timings,
    /// Decides the jitter of retries and of watches' lifetimes.
    pub seed: u64,
    /// The time that is written into objects, and against which their times are held.
    pub clock: Clock,
    /// Pieces of work whose requests are under way at a time.
    pub concurrent_syncs: usize,
    /// Whether no Events are written.
    pub without_events: bool,
}

// === impl Controller ===

impl Controller {
    /// Every controller.
    pub const ALL: [Self; 20] = [
        Self::GarbageCollector,
        Self::Namespace,
        Self::ServiceAccount,
        Self::Deployment,
        Self::ReplicaSet,
        Self::ReplicationController,
        Self::StatefulSet,
        Self::DaemonSet,
        Self::Job,
        Self::CronJob,
        Self::Endpoints,
        Self::EndpointSlice,
        Self::Disruption,
        Self::ResourceQuota,
        Self::NodeLifecycle,
        Self::TaintEviction,
        Self::PodGarbageCollector,
        Self::PersistentVolumeBinder,
        Self::EphemeralVolume,
        Self::HorizontalPodAutoscaler,
    ];

    const fn bit(self) -> u32 {
        1 << (self as u32)
    }
}

// === impl Controllers ===

impl Controllers {
    /// No controller.
    pub const NONE: Self = Self(0);

    /// Every controller.
    pub fn all() -> Self {
        Self::of(&Controller::ALL)
    }

    /// These controllers.
    pub fn of(controllers: &[Controller]) -> Self {
        controllers.iter().fold(Self::NONE, |set, controller| set.with(*controller))
    }

    /// The set with one more.
    #[must_use]
    pub const fn with(self, controller: Controller) -> Self {
        Self(self.0 | controller.bit())
    }

    /// The set without one.
    #[must_use]
    pub const fn without(self, controller: Controller) -> Self {
        Self(self.0 & !controller.bit())
    }

    /// Whether a controller is in the set.
    pub const fn has(self, controller: Controller) -> bool {
        self.0 & controller.bit() != 0
    }
}

impl Default for Controllers {
    fn default() -> Self {
        Self::all()
    }
}

// === impl Timings ===

impl Default for Timings {
    fn default() -> Self {
        Self {
            node_monitor_grace_period: Duration::from_secs(50),
            node_startup_grace_period: Duration::from_secs(60),
            pod_gc_quarantine: Duration::from_secs(40),
            terminated_pod_threshold: 12_500,
            endpoint_updates_batch_period: Duration::ZERO,
            namespace_recheck: Duration::from_secs(5),
            retry: (Duration::from_millis(5), Duration::from_secs(60)),
        }
    }
}

// === impl Clock ===

impl Clock {
    /// A clock that shows what a function says, such as the clock of a server in the same process.
    pub fn new(now: impl Fn() -> Timestamp + Send + Sync + 'static) -> Self {
        Self(Arc::new(now))
    }

    /// The present instant.
    pub fn now(&self) -> Timestamp {
        (self.0)()
    }
}

impl fmt::Debug for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Clock({})", self.now())
    }
}

// === impl Options ===

impl Options {
    /// All controllers with upstream's timings, on a clock.
    pub fn new(clock: Clock) -> Self {
        let (controllers, timings) = (Controllers::all(), Timings::default());
        Self { controllers, timings, seed: 0, clock, concurrent_syncs: 32, without_events: false }
    }
}
