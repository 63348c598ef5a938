//! The names of labels, annotations, taints and finalizers that users of Kubernetes, Karpenter and Koordinator
//! know, and which of them a NodePool may set.
//!
//! Koordinator's names are in [`koordinator`].

pub mod koordinator;
mod restricted;

pub use restricted::{Restriction, domain, is_well_known, restriction, well_known_values};

/// The zone of a node.
pub const ZONE: &str = "topology.kubernetes.io/zone";
/// The region of a node.
pub const REGION: &str = "topology.kubernetes.io/region";
/// The labels that the API server gives a pod from its node. Whoever comes in the pod's place has none of them.
pub const OF_NODE: [&str; 2] = [ZONE, REGION];
/// The processor architecture of a node, `amd64` or `arm64`.
pub const ARCH: &str = "kubernetes.io/arch";
/// The operating system of a node.
pub const OS: &str = "kubernetes.io/os";
/// The host name of a node, set by the kubelet; no NodePool may set or require it.
pub const HOSTNAME: &str = "kubernetes.io/hostname";
/// The instance type of a node.
pub const INSTANCE_TYPE: &str = "node.kubernetes.io/instance-type";
/// The build number of a Windows node.
pub const WINDOWS_BUILD: &str = "node.kubernetes.io/windows-build";

/// The NodePool that a node or NodeClaim belongs to.
pub const NODEPOOL: &str = "karpenter.sh/nodepool";
/// How the capacity of a node is bought: [`SPOT`], [`ON_DEMAND`] or [`RESERVED`].
pub const CAPACITY_TYPE: &str = "karpenter.sh/capacity-type";
/// Set to `true` on a node whose startup taints are gone and whose resources have appeared.
pub const INITIALIZED: &str = "karpenter.sh/initialized";
/// Set to `true` on a node that has been matched with its NodeClaim.
pub const REGISTERED: &str = "karpenter.sh/registered";
/// On a node: leave its taints as they are at registration.
pub const DO_NOT_SYNC_TAINTS: &str = "karpenter.sh/do-not-sync-taints";

/// Capacity that the cloud may take back.
pub const SPOT: &str = "spot";
/// Capacity paid by the hour.
pub const ON_DEMAND: &str = "on-demand";
/// Capacity that was reserved beforehand.
pub const RESERVED: &str = "reserved";

/// The capacity reservation of a node, as Berth's own clouds write it.
pub const RESERVATION_ID: &str = "berth.sh/capacity-reservation-id";
/// The capacity reservation of an offering in Karpenter's core tests.
pub const KARPENTER_RESERVATION_ID: &str = "karpenter.sh/reservation-id";
/// The capacity reservation of a node of Karpenter's AWS provider.
pub const AWS_RESERVATION_ID: &str = "karpenter.k8s.aws/capacity-reservation-id";
/// On a NodeClaim, the offering that it is planned to be launched as: JSON, see [`crate::PlannedOffering`]. Until the claim
/// is launched it counts as capacity of that offering, and takes a slot of its reservation.
pub const PLANNED_OFFERING: &str = "berth.sh/planned-offering";
/// Annotation of a NodeClaim: how many pods and Reservations it was launched for, as [`PlannedFor`](crate::PlannedFor).
pub const PLANNED_FOR: &str = "berth.sh/planned-for";
/// Annotation of a NodeClaim, `true`: pods that it is for require capacity that is not reserved, so its instance must not come under
/// a reservation later.
pub const KEEPS_OFF_SLOTS: &str = "berth.sh/keeps-off-slots";
/// The labels that may name a capacity reservation, the preferred one first.
pub const RESERVATION_IDS: [&str; 3] = [RESERVATION_ID, KARPENTER_RESERVATION_ID, AWS_RESERVATION_ID];

/// On a pod, `true` or a Go duration; on a node, `true`: do not disrupt it voluntarily.
pub const DO_NOT_DISRUPT: &str = "karpenter.sh/do-not-disrupt";
/// The hash of a NodePool's template, for drift.
pub const NODEPOOL_HASH: &str = "karpenter.sh/nodepool-hash";
/// The version of the fields that [`NODEPOOL_HASH`] covers.
pub const NODEPOOL_HASH_VERSION: &str = "karpenter.sh/nodepool-hash-version";
/// When a NodeClaim's termination grace period ends, RFC 3339.
pub const TERMINATION_TIMESTAMP: &str = "karpenter.sh/nodeclaim-termination-timestamp";

/// The key of the NoSchedule taint on nodes that are being disrupted.
pub const DISRUPTED_TAINT: &str = "karpenter.sh/disrupted";
/// The key of the NoExecute taint on nodes that have not yet been registered.
pub const UNREGISTERED_TAINT: &str = "karpenter.sh/unregistered";
/// The key of the NoSchedule taint on cordoned nodes.
pub const UNSCHEDULABLE_TAINT: &str = "node.kubernetes.io/unschedulable";

/// The finalizer by which a node is drained before it goes.
pub const TERMINATION_FINALIZER: &str = "karpenter.sh/termination";

/// Former names of labels and what they are called today.
pub const ALIASES: [(&str, &str); 8] = [
    ("beta.kubernetes.io/arch", ARCH),
    ("beta.kubernetes.io/instance-type", INSTANCE_TYPE),
    ("beta.kubernetes.io/os", OS),
    ("failure-domain.beta.kubernetes.io/region", REGION),
    ("failure-domain.beta.kubernetes.io/zone", ZONE),
    // As CSI drivers call it in the topology of volumes; Karpenter's providers take these for the zone, too.
    ("topology.disk.csi.azure.com/zone", ZONE),
    ("topology.ebs.csi.aws.com/zone", ZONE),
    ("topology.gke.io/zone", ZONE),
];

/// Today's name of a label: the key itself unless it is one of [`ALIASES`].
///
/// ```
/// use berth_api::labels;
/// assert_eq!(labels::normalized("failure-domain.beta.kubernetes.io/zone"), labels::ZONE);
/// assert_eq!(labels::normalized("team"), "team");
/// ```
pub fn normalized(key: &str) -> &str {
    ALIASES.iter().find(|(alias, _)| *alias == key).map_or(key, |&(_, name)| name)
}

/// The label by which a node names its node class, `<group>/<kind in lower case>`.
pub fn node_class(group: &str, kind: &str) -> String {
    format!("{group}/{}", kind.to_lowercase())
}
