//! The objects that decisions are made from: every kind, as clients read it.

use std::borrow::Borrow;
use std::fmt;
use std::sync::Arc;

use berth_convert::{Builder, ConvertError};
use k8s_openapi::api::{apps, batch, core, policy, scheduling, storage};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

/// Marks a type of which objects are kept whole.
macro_rules! whole {
    (Node, $type:ty) => {};
    (Pod, $type:ty) => {};
    ($kind:ident, $type:ty) => {
        impl Whole for $type {}
    };
}

macro_rules! objects {
    ($($kind:ident($type:ty) in $api_version:literal, $scope:ident, $add:ident;)*) => {
        /// A kind that decisions depend on.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[allow(missing_docs, reason = "each variant is named for its kind")]
        pub enum Kind {
            $($kind,)*
        }

        impl Kind {
            /// Every kind. Each must have been listed once before anything is decided.
            pub const ALL: &'static [Kind] = &[$(Kind::$kind,)*];

            /// The name, as in manifests.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Kind::$kind => stringify!($kind),)*
                }
            }

            /// The API group and version that is read.
            pub const fn api_version(self) -> &'static str {
                match self {
                    $(Kind::$kind => $api_version,)*
                }
            }

            /// Whether its objects live in namespaces.
            pub const fn is_namespaced(self) -> bool {
                match self {
                    $(Kind::$kind => matches!(Scope::$scope, Scope::Namespaced),)*
                }
            }
        }

        /// An object of a kind that decisions depend on. Cloning shares it.
        #[derive(Clone, Debug, PartialEq)]
        #[allow(missing_docs, reason = "each variant is named for its kind")]
        pub enum Object {
            $($kind(Arc<$type>),)*
        }

        impl Object {
            /// The kind.
            pub fn kind(&self) -> Kind {
                match self {
                    $(Object::$kind(_) => Kind::$kind,)*
                }
            }

            /// Name, namespace, labels and annotations.
            pub fn metadata(&self) -> &ObjectMeta {
                match self {
                    $(Object::$kind(object) => &object.metadata,)*
                }
            }

            /// The metadata to change; the object is copied where it is shared.
            pub(crate) fn metadata_mut(&mut self) -> &mut ObjectMeta {
                match self {
                    $(Object::$kind(object) => &mut Arc::make_mut(object).metadata,)*
                }
            }

            /// Folds the object into a cluster.
            ///
            /// # Errors
            /// A field that cannot be understood.
            pub fn add_to(&self, builder: &mut Builder) -> Result<(), ConvertError> {
                match self {
                    $(Object::$kind(object) => builder.$add(object),)*
                }
            }
        }

        $(impl From<$type> for Object {
            fn from(object: $type) -> Self {
                Object::$kind(Arc::new(object))
            }
        })*

        $(impl From<Arc<$type>> for Object {
            fn from(object: Arc<$type>) -> Self {
                Object::$kind(object)
            }
        })*

        $(whole!($kind, $type);)*

        $(impl Typed for $type {
            const KIND: Kind = Kind::$kind;

            fn of(object: &Object) -> Option<&Arc<Self>> {
                match object {
                    Object::$kind(object) => Some(object),
                    _ => None,
                }
            }
        })*
    };
}

enum Scope {
    Namespaced,
    Cluster,
}

/// A type of [`Object`].
pub trait Typed: Sized + 'static {
    /// Its kind.
    const KIND: Kind;

    /// The object of this type, if it is one.
    fn of(object: &Object) -> Option<&Arc<Self>>;
}

/// A type of which the state keeps objects whole: all but pods and nodes, of which it keeps records ([`crate::PodRecord`],
/// [`crate::NodeRecord`]).
pub trait Whole: Typed {}

// In the order in which they are folded in: what is looked up comes first.
objects! {
    Namespace(core::v1::Namespace) in "v1", Cluster, add_namespace;
    PriorityClass(scheduling::v1::PriorityClass) in "scheduling.k8s.io/v1", Cluster, add_priority_class;
    StorageClass(storage::v1::StorageClass) in "storage.k8s.io/v1", Cluster, add_storage_class;
    PersistentVolume(core::v1::PersistentVolume) in "v1", Cluster, add_persistent_volume;
    PersistentVolumeClaim(core::v1::PersistentVolumeClaim) in "v1", Namespaced, add_persistent_volume_claim;
    CSINode(storage::v1::CSINode) in "storage.k8s.io/v1", Cluster, add_csi_node;
    NodePool(berth_api::NodePool) in "karpenter.sh/v1", Cluster, add_node_pool;
    NodeOverlay(berth_api::NodeOverlay) in "karpenter.sh/v1alpha1", Cluster, add_node_overlay;
    NodeClaim(berth_api::NodeClaim) in "karpenter.sh/v1", Cluster, add_node_claim;
    Node(core::v1::Node) in "v1", Cluster, add_node;
    Device(berth_api::Device) in "scheduling.koordinator.sh/v1alpha1", Cluster, add_device;
    NodeResourceTopology(berth_api::NodeResourceTopology) in "topology.node.k8s.io/v1alpha1", Cluster,
        add_node_resource_topology;
    Service(core::v1::Service) in "v1", Namespaced, add_service;
    Deployment(apps::v1::Deployment) in "apps/v1", Namespaced, add_deployment;
    ReplicaSet(apps::v1::ReplicaSet) in "apps/v1", Namespaced, add_replica_set;
    ReplicationController(core::v1::ReplicationController) in "v1", Namespaced, add_replication_controller;
    StatefulSet(apps::v1::StatefulSet) in "apps/v1", Namespaced, add_stateful_set;
    DaemonSet(apps::v1::DaemonSet) in "apps/v1", Namespaced, add_daemon_set;
    Job(batch::v1::Job) in "batch/v1", Namespaced, add_job;
    CronJob(batch::v1::CronJob) in "batch/v1", Namespaced, add_cron_job;
    PodDisruptionBudget(policy::v1::PodDisruptionBudget) in "policy/v1", Namespaced, add_pod_disruption_budget;
    Reservation(berth_api::Reservation) in "scheduling.koordinator.sh/v1alpha1", Cluster, add_reservation;
    Pod(core::v1::Pod) in "v1", Namespaced, add_pod;
}

/// What an object is called, whichever incarnation of it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    /// The kind.
    pub kind: Kind,
    /// The namespace; empty where the kind has none.
    pub namespace: Arc<str>,
    /// The name.
    pub name: Arc<str>,
}

/// An object as others refer to it: one incarnation of a name, where the uid is known.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectRef {
    /// What it is called.
    pub key: Key,
    /// The uid that the API server gave it; `None` for one that is not created yet, and in manifests.
    pub uid: Option<Arc<str>>,
}

/// A key by its parts, so that an object can be looked up by texts that are somebody else's.
pub(crate) trait Named {
    fn parts(&self) -> (Kind, &str, &str);
}

/// A key whose texts are somebody else's.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Name<'a>(Kind, &'a str, &'a str);

// === impl Name ===

impl<'a> Name<'a> {
    /// As [`Key::new`].
    pub(crate) fn new(kind: Kind, namespace: &'a str, name: &'a str) -> Self {
        Name(kind, namespace_of(kind, namespace), name)
    }
}

impl Named for Name<'_> {
    fn parts(&self) -> (Kind, &str, &str) {
        (self.0, self.1, self.2)
    }
}

impl Named for Key {
    fn parts(&self) -> (Kind, &str, &str) {
        (self.kind, &self.namespace, &self.name)
    }
}

impl<'a> Borrow<dyn Named + 'a> for Key {
    fn borrow(&self) -> &(dyn Named + 'a) {
        self
    }
}

impl PartialEq for dyn Named + '_ {
    fn eq(&self, other: &Self) -> bool {
        self.parts() == other.parts()
    }
}

impl Eq for dyn Named + '_ {}

impl PartialOrd for dyn Named + '_ {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

// As that of `Key`.
impl Ord for dyn Named + '_ {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.parts().cmp(&other.parts())
    }
}

/// The namespace of kinds that have none is dropped; that of others is `default` where it is empty.
fn namespace_of(kind: Kind, namespace: &str) -> &str {
    match (kind.is_namespaced(), namespace) {
        (false, _) => "",
        (true, "") => "default",
        (true, namespace) => namespace,
    }
}

// === impl Key ===

impl Key {
    /// The key of an object. The namespace of kinds that have none is dropped; that of others is `default` where it
    /// is empty.
    pub fn new(kind: Kind, namespace: &str, name: &str) -> Self {
        Key { kind, namespace: namespace_of(kind, namespace).into(), name: name.into() }
    }

    /// The key of an object; `None` where it has no name.
    pub fn of(object: &Object) -> Option<Self> {
        let metadata = object.metadata();
        let name = metadata.name.as_deref().filter(|name| !name.is_empty())?;
        Some(Key::new(object.kind(), metadata.namespace.as_deref().unwrap_or_default(), name))
    }

    /// A reference to whatever has this key, or to the incarnation with a uid.
    pub fn with_uid(self, uid: Option<&str>) -> ObjectRef {
        ObjectRef { key: self, uid: uid.filter(|uid| !uid.is_empty()).map(Into::into) }
    }

    /// `namespace/name`, or `name`.
    pub fn full_name(&self) -> String {
        if self.namespace.is_empty() { self.name.to_string() } else { format!("{}/{}", self.namespace, self.name) }
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ", self.kind.name())?;
        if !self.namespace.is_empty() {
            write!(f, "{}/", self.namespace)?;
        }
        f.write_str(&self.name)
    }
}

impl fmt::Display for ObjectRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.key.fmt(f)?;
        self.uid.as_ref().map_or(Ok(()), |uid| write!(f, " (uid {uid})"))
    }
}

// === impl Object ===

impl Object {
    /// The object as others refer to it; `None` where it has no name.
    pub fn reference(&self) -> Option<ObjectRef> {
        Some(Key::of(self)?.with_uid(self.uid()))
    }

    pub(crate) fn uid(&self) -> Option<&str> {
        self.metadata().uid.as_deref().filter(|uid| !uid.is_empty())
    }

    pub(crate) fn version(&self) -> Option<u64> {
        version(self.metadata().resource_version.as_deref())
    }
}

/// A resourceVersion as a number. Servers from 1.35 on promise that it is one, and that a larger one is newer.
pub(crate) fn version(text: Option<&str>) -> Option<u64> {
    text?.parse().ok()
}
