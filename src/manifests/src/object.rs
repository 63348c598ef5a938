//! The kinds that are read.

use k8s_openapi::api::{apps, autoscaling, batch, core, node, policy, scheduling, storage};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::Value;

use crate::typed::{self, Misfit, Typed};

/// A kind that is read, in the one version that is read.
pub(crate) struct KnownKind {
    pub(crate) api_version: &'static str,
    pub(crate) kind: &'static str,
    pub(crate) parse: fn(&Value) -> Result<Typed<Object>, Misfit>,
}

macro_rules! objects {
    ($($kind:ident($type:ty) in $api_version:literal,)* ; beside $beside:ident($of_beside:ty) in $version_beside:literal) => {
        /// An object of a kind that planning reads, boxed so that moving it is cheap.
        #[derive(Clone, Debug, PartialEq)]
        #[non_exhaustive]
        #[allow(missing_docs, reason = "each variant is named for its kind")]
        pub enum Object {
            $($kind(Box<$type>),)*
            $beside(Box<$of_beside>),
        }

        impl Object {
            /// The kind as manifests write it.
            pub fn kind(&self) -> &'static str {
                match self {
                    $(Self::$kind(_) => stringify!($kind),)*
                    Self::$beside(_) => stringify!($beside),
                }
            }

            /// The object as JSON, its `apiVersion` and `kind` included.
            ///
            /// # Errors
            /// None that is known; serde_json's signature asks for it.
            pub fn to_value(&self) -> serde_json::Result<Value> {
                match self {
                    $(Self::$kind(object) => serde_json::to_value(object),)*
                    Self::$beside(object) => serde_json::to_value(object),
                }
            }

            /// Name, namespace, labels and annotations.
            pub fn metadata(&self) -> &ObjectMeta {
                match self {
                    $(Self::$kind(object) => &object.metadata,)*
                    Self::$beside(object) => &object.metadata,
                }
            }

            /// The same, to be changed.
            pub fn metadata_mut(&mut self) -> &mut ObjectMeta {
                match self {
                    $(Self::$kind(object) => &mut object.metadata,)*
                    Self::$beside(object) => &mut object.metadata,
                }
            }
        }

        /// Every kind that is read.
        pub(crate) const KNOWN_KINDS: &[KnownKind] = &[
            $(KnownKind {
                api_version: $api_version,
                kind: stringify!($kind),
                parse: |value| Ok(typed::deserialize::<$type>(value)?.map(Object::from)),
            },)*
        ];

        /// The kind that is read where it is asked for.
        pub(crate) const BESIDE: KnownKind = KnownKind {
            api_version: $version_beside,
            kind: stringify!($beside),
            parse: |value| Ok(typed::deserialize::<$of_beside>(value)?.map(Object::from)),
        };

        impl From<$of_beside> for Object {
            fn from(object: $of_beside) -> Self {
                Self::$beside(Box::new(object))
            }
        }

        $(impl From<$type> for Object {
            fn from(object: $type) -> Self {
                Self::$kind(Box::new(object))
            }
        })*
    };
}

/// A kind that is read in an older version, too, which the API server serves beside today's.
pub(crate) const OLDER: KnownKind = KnownKind {
    api_version: "autoscaling/v1",
    kind: "HorizontalPodAutoscaler",
    parse: |value| {
        Ok(typed::deserialize::<autoscaling::v1::HorizontalPodAutoscaler>(value)?.map(|object| today(object).into()))
    },
};

/// The same autoscaler in today's version.
fn today(object: autoscaling::v1::HorizontalPodAutoscaler) -> autoscaling::v2::HorizontalPodAutoscaler {
    use autoscaling::v2::{
        CrossVersionObjectReference, HorizontalPodAutoscaler, HorizontalPodAutoscalerSpec, MetricSpec, MetricTarget,
        ResourceMetricSource,
    };
    let metric = |utilization| MetricSpec {
        type_: "Resource".to_owned(),
        resource: Some(ResourceMetricSource {
            name: "cpu".to_owned(),
            target: MetricTarget {
                type_: "Utilization".to_owned(),
                average_utilization: Some(utilization),
                ..MetricTarget::default()
            },
        }),
        ..MetricSpec::default()
    };
    let spec = object.spec.map(|spec| HorizontalPodAutoscalerSpec {
        max_replicas: spec.max_replicas,
        min_replicas: spec.min_replicas,
        metrics: spec.target_cpu_utilization_percentage.map(|utilization| vec![metric(utilization)]),
        scale_target_ref: CrossVersionObjectReference {
            api_version: spec.scale_target_ref.api_version,
            kind: spec.scale_target_ref.kind,
            name: spec.scale_target_ref.name,
        },
        ..HorizontalPodAutoscalerSpec::default()
    });
    HorizontalPodAutoscaler { metadata: object.metadata, spec, status: None }
}

/// Every kind that is read, as (`apiVersion`, `kind`), those of one `apiVersion` together.
pub fn known_kinds() -> impl Iterator<Item = (&'static str, &'static str)> {
    let mut kinds: Vec<_> = KNOWN_KINDS.iter().map(|known| (known.api_version, known.kind)).collect();
    kinds.sort_unstable();
    kinds.into_iter()
}

objects! {
    Pod(core::v1::Pod) in "v1",
    Node(core::v1::Node) in "v1",
    Namespace(core::v1::Namespace) in "v1",
    ReplicationController(core::v1::ReplicationController) in "v1",
    Service(core::v1::Service) in "v1",
    LimitRange(core::v1::LimitRange) in "v1",
    ResourceQuota(core::v1::ResourceQuota) in "v1",
    PersistentVolume(core::v1::PersistentVolume) in "v1",
    PersistentVolumeClaim(core::v1::PersistentVolumeClaim) in "v1",
    Deployment(apps::v1::Deployment) in "apps/v1",
    StatefulSet(apps::v1::StatefulSet) in "apps/v1",
    ReplicaSet(apps::v1::ReplicaSet) in "apps/v1",
    DaemonSet(apps::v1::DaemonSet) in "apps/v1",
    Job(batch::v1::Job) in "batch/v1",
    CronJob(batch::v1::CronJob) in "batch/v1",
    PodDisruptionBudget(policy::v1::PodDisruptionBudget) in "policy/v1",
    HorizontalPodAutoscaler(autoscaling::v2::HorizontalPodAutoscaler) in "autoscaling/v2",
    RuntimeClass(node::v1::RuntimeClass) in "node.k8s.io/v1",
    PriorityClass(scheduling::v1::PriorityClass) in "scheduling.k8s.io/v1",
    StorageClass(storage::v1::StorageClass) in "storage.k8s.io/v1",
    CSINode(storage::v1::CSINode) in "storage.k8s.io/v1",
    NodePool(berth_api::NodePool) in "karpenter.sh/v1",
    NodeClaim(berth_api::NodeClaim) in "karpenter.sh/v1",
    NodeOverlay(berth_api::NodeOverlay) in "karpenter.sh/v1alpha1",
    Reservation(berth_api::Reservation) in "scheduling.koordinator.sh/v1alpha1",
    Device(berth_api::Device) in "scheduling.koordinator.sh/v1alpha1",
    NodeResourceTopology(berth_api::NodeResourceTopology) in "topology.node.k8s.io/v1alpha1",
    FakeCapacityReservation(berth_api::FakeCapacityReservation) in "berth.sh/v1alpha1",
    EC2NodeClass(berth_api::EC2NodeClass) in "karpenter.k8s.aws/v1",
    NodeClass(berth_api::EksNodeClass) in "eks.amazonaws.com/v1",
    FakeNodeClass(berth_api::FakeNodeClass) in "berth.sh/v1alpha1",
    ; beside ConfigMap(core::v1::ConfigMap) in "v1"
}
