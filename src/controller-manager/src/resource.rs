//! Resources: where the objects of a kind are served.

use std::borrow::Cow;

/// A resource of the API.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Resource {
    pub(crate) group: Cow<'static, str>,
    pub(crate) version: Cow<'static, str>,
    pub(crate) plural: Cow<'static, str>,
    pub(crate) kind: Cow<'static, str>,
    pub(crate) namespaced: bool,
}

impl Resource {
    pub(crate) const fn builtin(
        group: &'static str,
        version: &'static str,
        plural: &'static str,
        kind: &'static str,
        namespaced: bool,
    ) -> Self {
        Self {
            group: Cow::Borrowed(group),
            version: Cow::Borrowed(version),
            plural: Cow::Borrowed(plural),
            kind: Cow::Borrowed(kind),
            namespaced,
        }
    }

    /// `v1` or `apps/v1`.
    pub(crate) fn api_version(&self) -> String {
        if self.group.is_empty() { self.version.to_string() } else { format!("{}/{}", self.group, self.version) }
    }

    /// The path of the collection in a namespace, or of the whole one.
    pub(crate) fn path(&self, namespace: &str) -> String {
        let root = if self.group.is_empty() { "/api" } else { "/apis" };
        let api = self.api_version();
        if namespace.is_empty() || !self.namespaced {
            format!("{root}/{api}/{}", self.plural)
        } else {
            format!("{root}/{api}/namespaces/{namespace}/{}", self.plural)
        }
    }

    /// Group and plural, which name a resource whatever its version.
    pub(crate) fn is(&self, group: &str, plural: &str) -> bool {
        self.group == group && self.plural == plural
    }
}

macro_rules! resources {
    ($($name:ident = $group:literal $version:literal $plural:literal $kind:literal $namespaced:literal;)*) => {
        $(pub(crate) static $name: Resource = Resource::builtin($group, $version, $plural, $kind, $namespaced);)*
    };
}

resources! {
    PODS = "" "v1" "pods" "Pod" true;
    NODES = "" "v1" "nodes" "Node" false;
    NAMESPACES = "" "v1" "namespaces" "Namespace" false;
    SERVICES = "" "v1" "services" "Service" true;
    SERVICE_ACCOUNTS = "" "v1" "serviceaccounts" "ServiceAccount" true;
    EVENTS = "" "v1" "events" "Event" true;
    ENDPOINTS = "" "v1" "endpoints" "Endpoints" true;
    QUOTAS = "" "v1" "resourcequotas" "ResourceQuota" true;
    CLAIMS = "" "v1" "persistentvolumeclaims" "PersistentVolumeClaim" true;
    VOLUMES = "" "v1" "persistentvolumes" "PersistentVolume" false;
    REPLICATION_CONTROLLERS = "" "v1" "replicationcontrollers" "ReplicationController" true;
    DEPLOYMENTS = "apps" "v1" "deployments" "Deployment" true;
    REPLICA_SETS = "apps" "v1" "replicasets" "ReplicaSet" true;
    STATEFUL_SETS = "apps" "v1" "statefulsets" "StatefulSet" true;
    DAEMON_SETS = "apps" "v1" "daemonsets" "DaemonSet" true;
    REVISIONS = "apps" "v1" "controllerrevisions" "ControllerRevision" true;
    JOBS = "batch" "v1" "jobs" "Job" true;
    CRON_JOBS = "batch" "v1" "cronjobs" "CronJob" true;
    SLICES = "discovery.k8s.io" "v1" "endpointslices" "EndpointSlice" true;
    AUTOSCALERS = "autoscaling" "v2" "horizontalpodautoscalers" "HorizontalPodAutoscaler" true;
    BUDGETS = "policy" "v1" "poddisruptionbudgets" "PodDisruptionBudget" true;
    LEASES = "coordination.k8s.io" "v1" "leases" "Lease" true;
    CLASSES = "storage.k8s.io" "v1" "storageclasses" "StorageClass" false;
}
