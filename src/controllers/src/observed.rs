//! What watches tell: objects as they are now, deletions, and whole lists.

use std::any::Any;
use std::sync::Arc;

use berth_api::{Device, NodeClaim, NodeOverlay, NodePool, NodeResourceTopology, Reservation};
use jiff::Timestamp;
use k8s_openapi::api::apps::v1::{DaemonSet, ReplicaSet, StatefulSet};
use k8s_openapi::api::core::v1::{
    ContainerStatus, Namespace, Node, PersistentVolume, PersistentVolumeClaim, Pod, ReplicationController, Service,
};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::api::scheduling::v1::PriorityClass;
use k8s_openapi::api::storage::v1::{CSINode, StorageClass, VolumeAttachment};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use tokio::sync::mpsc::Sender;
use tokio::task::JoinSet;

use crate::clock::Clock;
use crate::guarded::Unreadable;
use crate::kind::Kind;
use crate::watch::watch;
use crate::write::Answered;

macro_rules! objects {
    (decided { $($kind:ident($type:ty),)* } other { $($other:ident($other_type:ty),)* }) => {
        /// An object of a kind that is watched.
        #[derive(Debug, Clone, PartialEq)]
        pub(crate) enum Object { $($kind(Arc<$type>),)* $($other(Arc<$other_type>),)* }

        /// The kinds that are watched.
        pub(crate) const WATCHED: &[Kind] = &[$(Kind::$kind,)* $(Kind::$other,)*];

        impl Object {
            /// The kind.
            pub(crate) const fn kind(&self) -> Kind {
                match self { $(Self::$kind(_) => Kind::$kind,)* $(Self::$other(_) => Kind::$other,)* }
            }

            /// Name, uid, version and the like.
            pub(crate) fn metadata(&self) -> &ObjectMeta {
                match self { $(Self::$kind(object) => &object.metadata,)* $(Self::$other(object) => &object.metadata,)* }
            }

            /// The object as the state takes it; `None` where no decision depends on it.
            pub(crate) fn for_state(&self) -> Option<berth_state::Object> {
                match self {
                    $(Self::$kind(object) => Some(Arc::clone(object).into()),)*
                    $(Self::$other(_) => None,)*
                }
            }

            /// An object as a write was answered with it; `None` for kinds that are not watched.
            pub(crate) fn from_answer(kind: Kind, answered: &Answered) -> Option<Result<Self, serde_json::Error>> {
                let text = answered.0.as_str();
                match kind {
                    $(Kind::$kind => Some(serde_json::from_str::<$type>(text).map(Self::from)),)*
                    $(Kind::$other => Some(serde_json::from_str::<$other_type>(text).map(Self::from)),)*
                    _ => None,
                }
            }
        }

        /// Starts a watch of each kind.
        pub(crate) fn watch_all(
            client: &kube::Client,
            (clock, longest_silence): (&Clock, std::time::Duration),
            to: &Sender<(Timestamp, Observed)>,
            watches: &mut JoinSet<()>,
        ) {
            $(watches.spawn(watch::<$type>(client.clone(), Kind::$kind, (clock.clone(), longest_silence), to.clone()));)*
            $(watches.spawn(watch::<$other_type>(client.clone(), Kind::$other, (clock.clone(), longest_silence), to.clone()));)*
        }

        objects!(@from $($kind($type),)* $($other($other_type),)*);
    };
    (@from $($kind:ident($type:ty),)*) => {
        $(impl From<$type> for Object {
            fn from(mut object: $type) -> Self {
                // Large, and nobody here reads it.
                object.metadata.managed_fields = None;
                if let Some(pod) = (&mut object as &mut dyn Any).downcast_mut::<Pod>() {
                    make_lean(pod);
                }
                Self::$kind(Arc::new(object))
            }
        })*
    };
}

objects! {
    decided {
        Namespace(Namespace),
        PriorityClass(PriorityClass),
        StorageClass(StorageClass),
        PersistentVolume(PersistentVolume),
        PersistentVolumeClaim(PersistentVolumeClaim),
        CSINode(CSINode),
        NodePool(NodePool),
        NodeOverlay(NodeOverlay),
        NodeClaim(NodeClaim),
        Node(Node),
        Device(Device),
        NodeResourceTopology(NodeResourceTopology),
        Service(Service),
        ReplicaSet(ReplicaSet),
        ReplicationController(ReplicationController),
        StatefulSet(StatefulSet),
        DaemonSet(DaemonSet),
        PodDisruptionBudget(PodDisruptionBudget),
        Reservation(Reservation),
        Pod(Pod),
    }
    other {
        VolumeAttachment(VolumeAttachment),
    }
}

/// Conditions that tell how far the kubelet is with a pod: nothing is decided by them.
const OF_KUBELET: [&str; 3] = ["PodReadyToStartContainers", "Initialized", "ContainersReady"];

/// Takes off what a kubelet says of a pod and nobody here reads: most of what a large cluster would keep in memory.
fn make_lean(pod: &mut Pod) {
    let is_bound = pod.spec.as_ref().is_some_and(|spec| spec.node_name.as_ref().is_some_and(|node| !node.is_empty()));
    // The conditions of others are written as a whole.
    let Some(status) = pod.status.as_mut().filter(|_| is_bound) else { return };
    (status.host_ip, status.host_ips, status.pod_ip, status.pod_ips) = (None, None, None, None);
    if let Some(conditions) = &mut status.conditions {
        conditions.retain(|own| !OF_KUBELET.contains(&own.type_.as_str()));
        conditions.shrink_to_fit();
    }
    for statuses in [&mut status.container_statuses, &mut status.init_container_statuses] {
        // What a container has been given counts, as it is resized in place.
        let is_resized = |own: &ContainerStatus| own.resources.is_some() || own.allocated_resources.is_some();
        if !statuses.iter().flatten().any(is_resized) {
            *statuses = None;
        }
    }
    if let Some(spec) = &mut pod.spec {
        spec.containers.shrink_to_fit();
        spec.tolerations.iter_mut().for_each(Vec::shrink_to_fit);
    }
}

/// One thing that a watch told.
#[derive(Debug, Clone)]
pub(crate) enum Observed {
    /// It is so now.
    Applied(Object),
    /// It is gone.
    Deleted(Kind, Box<ObjectMeta>),
    /// All of a kind. What is known and not among them is gone, unless it is newer than the list.
    Listed {
        /// The kind.
        kind: Kind,
        /// The objects that can be read.
        objects: Vec<Object>,
        /// Those that cannot.
        unreadable: Vec<Unreadable>,
        /// The version of the list, where it can be compared with those of objects.
        resource_version: Option<String>,
    },
    /// An object that cannot be read.
    Unreadable(Kind, Unreadable),
    /// The server was set back to an earlier state: nothing that is known of it holds.
    SetBack,
}

impl Observed {
    /// A list of no object, of no version.
    pub(crate) fn nothing_of(kind: Kind) -> Self {
        Observed::Listed { kind, objects: Vec::new(), unreadable: Vec::new(), resource_version: None }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn kept(pod: Value) -> Value {
        let object = Object::from(serde_json::from_value::<Pod>(pod).unwrap());
        let Object::Pod(pod) = object else { panic!("{object:?}") };
        serde_json::to_value(&*pod).unwrap()["status"].clone()
    }

    #[test]
    fn of_a_bound_pod_what_its_kubelet_says_is_not_kept() {
        let conditions = ["PodScheduled", "Initialized", "ContainersReady", "Ready", "PodResizePending"];
        let conditions = conditions.map(|type_| json!({"type": type_, "status": "True"}));
        let container = json!({"name": "c", "image": "i", "imageID": "", "ready": true, "restartCount": 0});
        let status = json!({"phase": "Running", "podIP": "10.0.0.1", "conditions": conditions,
            "containerStatuses": [container]});
        let mut pod = json!({"metadata": {"name": "a"}, "spec": {"containers": []}, "status": status});
        assert_eq!(kept(pod.clone()), status, "a pending pod's conditions are written as a whole");
        pod["spec"]["nodeName"] = "n".into();
        let [scheduled, _, _, ready, resize] = conditions;
        assert_eq!(kept(pod.clone()), json!({"phase": "Running", "conditions": [scheduled, ready, resize]}));
        pod["status"]["containerStatuses"][0]["resources"] = json!({"requests": {"cpu": "1"}});
        assert_eq!(kept(pod)["containerStatuses"][0]["resources"]["requests"]["cpu"], "1");
    }
}
