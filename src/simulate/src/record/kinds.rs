//! Which kinds are recorded.

use kube::core::{ApiResource, GroupVersionKind};

/// A kind of objects that people and their tools make.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Kind {
    pub(super) api_version: &'static str,
    pub(super) kind: &'static str,
}

const fn kind(api_version: &'static str, kind: &'static str) -> Kind {
    Kind { api_version, kind }
}

/// Where node classes have their catalogues. Those alone are recorded.
pub(super) const CONFIG_MAP: Kind = kind("v1", "ConfigMap");
const VOLUME: Kind = kind("v1", "PersistentVolume");

/// What others need comes first.
pub(super) const KINDS: [Kind; 24] = [
    kind("v1", "Namespace"),
    kind("v1", "LimitRange"),
    kind("v1", "ResourceQuota"),
    kind("scheduling.k8s.io/v1", "PriorityClass"),
    kind("node.k8s.io/v1", "RuntimeClass"),
    kind("storage.k8s.io/v1", "StorageClass"),
    kind("berth.sh/v1alpha1", "FakeNodeClass"),
    kind("berth.sh/v1alpha1", "FakeCapacityReservation"),
    kind("karpenter.sh/v1", "NodePool"),
    kind("karpenter.sh/v1alpha1", "NodeOverlay"),
    kind("v1", "Node"),
    VOLUME,
    kind("v1", "PersistentVolumeClaim"),
    kind("v1", "Service"),
    kind("policy/v1", "PodDisruptionBudget"),
    kind("scheduling.koordinator.sh/v1alpha1", "Reservation"),
    kind("apps/v1", "DaemonSet"),
    kind("apps/v1", "Deployment"),
    kind("apps/v1", "StatefulSet"),
    kind("apps/v1", "ReplicaSet"),
    kind("v1", "ReplicationController"),
    kind("batch/v1", "CronJob"),
    kind("batch/v1", "Job"),
    kind("v1", "Pod"),
];

// === impl Kind ===

impl Kind {
    pub(super) fn resource(self) -> ApiResource {
        let (group, version) = self.api_version.rsplit_once('/').unwrap_or(("", self.api_version));
        ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, self.kind))
    }

    /// The field that says how many pods there are to be.
    pub(super) fn scaled_by(self) -> Option<&'static str> {
        match self.kind {
            "Deployment" | "StatefulSet" | "ReplicaSet" => Some("replicas"),
            "Job" => Some("parallelism"),
            _ => None,
        }
    }

    /// Whether another template of pods replaces the pods that there are.
    pub(super) fn rolls_out(self) -> bool {
        matches!(self.kind, "Deployment" | "StatefulSet" | "DaemonSet")
    }

    /// Whether the owner of a pod is one that is recorded or makes pods of one that is, so that its pods come by themselves.
    pub(super) fn makes_pods(api_version: &str, kind: &str) -> bool {
        let makes = ["Deployment", "StatefulSet", "ReplicaSet", "DaemonSet", "ReplicationController", "CronJob", "Job"];
        KINDS.iter().any(|own| own.api_version == api_version && own.kind == kind && makes.contains(&kind))
    }
}
