//! The kinds that are read.

use k8s_openapi::api::{apps, batch, core, policy, scheduling, storage};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

macro_rules! objects {
    ($($kind:ident($type:ty) in $api_version:literal,)*) => {
        /// An object of a kind that planning reads, boxed so that moving it is cheap.
        #[derive(Clone, Debug, PartialEq)]
        #[non_exhaustive]
        #[allow(missing_docs, reason = "each variant is named for its kind")]
        pub enum Object {
            $($kind(Box<$type>),)*
        }

        impl Object {
            /// The kind as manifests write it.
            pub fn kind(&self) -> &'static str {
                match self {
                    $(Self::$kind(_) => stringify!($kind),)*
                }
            }

            /// Name, namespace, labels and annotations.
            pub fn metadata(&self) -> &ObjectMeta {
                match self {
                    $(Self::$kind(object) => &object.metadata,)*
                }
            }
        }

        $(impl From<$type> for Object {
            fn from(object: $type) -> Self {
                Self::$kind(Box::new(object))
            }
        })*
    };
}

objects! {
    Pod(core::v1::Pod) in "v1",
    Node(core::v1::Node) in "v1",
    Namespace(core::v1::Namespace) in "v1",
    ReplicationController(core::v1::ReplicationController) in "v1",
    PersistentVolume(core::v1::PersistentVolume) in "v1",
    PersistentVolumeClaim(core::v1::PersistentVolumeClaim) in "v1",
    Deployment(apps::v1::Deployment) in "apps/v1",
    StatefulSet(apps::v1::StatefulSet) in "apps/v1",
    ReplicaSet(apps::v1::ReplicaSet) in "apps/v1",
    DaemonSet(apps::v1::DaemonSet) in "apps/v1",
    Job(batch::v1::Job) in "batch/v1",
    CronJob(batch::v1::CronJob) in "batch/v1",
    PodDisruptionBudget(policy::v1::PodDisruptionBudget) in "policy/v1",
    PriorityClass(scheduling::v1::PriorityClass) in "scheduling.k8s.io/v1",
    StorageClass(storage::v1::StorageClass) in "storage.k8s.io/v1",
    CSINode(storage::v1::CSINode) in "storage.k8s.io/v1",
}
