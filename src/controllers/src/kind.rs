//! The kinds of objects that controllers watch and write, and where the API server serves them.

use berth_api::{Device, NodeClaim, NodeOverlay, NodePool, NodeResourceTopology, Reservation};
use k8s_openapi::api::apps::v1::{DaemonSet, ReplicaSet, StatefulSet};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{
    Event, Namespace, Node, PersistentVolume, PersistentVolumeClaim, Pod, ReplicationController, Service,
};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::api::scheduling::v1::PriorityClass;
use k8s_openapi::api::storage::v1::{CSINode, StorageClass, VolumeAttachment};

macro_rules! kinds {
    ($($(#[$doc:meta])* $kind:ident $scope:ident,)*) => {
        /// A kind of object.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Kind { $($(#[$doc])* $kind,)* }

        impl Kind {
            /// The name of the kind, as in its manifests.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$kind => <$kind as k8s_openapi::Resource>::KIND,)* }
            }

            /// The group and version of the kind, as in its manifests.
            pub const fn api_version(self) -> &'static str {
                match self { $(Self::$kind => <$kind as k8s_openapi::Resource>::API_VERSION,)* }
            }

            const fn parts(self) -> (&'static str, &'static str, &'static str, bool) {
                match self { $(Self::$kind => (
                    <$kind as k8s_openapi::Resource>::GROUP,
                    <$kind as k8s_openapi::Resource>::VERSION,
                    <$kind as k8s_openapi::Resource>::URL_PATH_SEGMENT,
                    kinds!(@namespaced $scope),
                ),)* }
            }
        }
    };
    (@namespaced Namespaced) => { true };
    (@namespaced Cluster) => { false };
}

kinds! {
    /// A pod.
    Pod Namespaced,
    /// A node.
    Node Cluster,
    /// A namespace.
    Namespace Cluster,
    /// A Service.
    Service Namespaced,
    /// A ReplicationController.
    ReplicationController Namespaced,
    /// A PersistentVolume.
    PersistentVolume Cluster,
    /// A PersistentVolumeClaim.
    PersistentVolumeClaim Namespaced,
    /// An Event.
    Event Namespaced,
    /// A DaemonSet.
    DaemonSet Namespaced,
    /// A ReplicaSet.
    ReplicaSet Namespaced,
    /// A StatefulSet.
    StatefulSet Namespaced,
    /// A Lease.
    Lease Namespaced,
    /// A PodDisruptionBudget.
    PodDisruptionBudget Namespaced,
    /// A PriorityClass.
    PriorityClass Cluster,
    /// A CSINode.
    CSINode Cluster,
    /// A StorageClass.
    StorageClass Cluster,
    /// A VolumeAttachment.
    VolumeAttachment Cluster,
    /// A NodePool.
    NodePool Cluster,
    /// A NodeClaim.
    NodeClaim Cluster,
    /// A NodeOverlay.
    NodeOverlay Cluster,
    /// A Reservation.
    Reservation Cluster,
    /// The devices of a node.
    Device Cluster,
    /// The NUMA nodes and CPUs of a node.
    NodeResourceTopology Cluster,
}

// === impl Kind ===

impl Kind {
    /// Whether a cluster may do without it. What a cluster must have is never taken for absent: a server that does not know
    /// NodeClaims for a moment would have all nodes removed.
    pub(crate) const fn is_optional(self) -> bool {
        matches!(self, Self::NodeOverlay | Self::Reservation | Self::Device | Self::NodeResourceTopology)
    }

    /// The path of the objects of this kind, in a namespace where the kind has one.
    pub(crate) fn url_path(self, namespace: &str) -> String {
        let (group, version, plural, namespaced) = self.parts();
        let root = if group.is_empty() { format!("/api/{version}") } else { format!("/apis/{group}/{version}") };
        if namespaced { format!("{root}/namespaces/{namespace}/{plural}") } else { format!("{root}/{plural}") }
    }
}

/// Which object: kind, namespace and name. What a name means changes when an object is deleted and created again.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NamedObject {
    /// The kind.
    pub kind: Kind,
    /// The namespace; empty where the kind has none.
    pub namespace: String,
    /// The name.
    pub name: String,
}

// === impl NamedObject ===

impl NamedObject {
    /// An object of a kind without namespaces.
    pub fn cluster(kind: Kind, name: impl Into<String>) -> Self {
        Self { kind, namespace: String::new(), name: name.into() }
    }

    /// An object in a namespace.
    pub fn namespaced(kind: Kind, namespace: impl Into<String>, name: impl Into<String>) -> Self {
        Self { kind, namespace: namespace.into(), name: name.into() }
    }
}

impl std::fmt::Display for NamedObject {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.namespace.as_str() {
            "" => write!(f, "{}/{}", self.kind.as_str(), self.name),
            namespace => write!(f, "{}/{namespace}/{}", self.kind.as_str(), self.name),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_those_of_the_api_server() {
        assert_eq!(Kind::Pod.url_path("team"), "/api/v1/namespaces/team/pods");
        assert_eq!(Kind::Node.url_path(""), "/api/v1/nodes");
        assert_eq!(Kind::NodeClaim.url_path(""), "/apis/karpenter.sh/v1/nodeclaims");
        assert_eq!(Kind::Lease.url_path("kube-system"), "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases");
    }
}
