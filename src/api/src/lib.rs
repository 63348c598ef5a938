//! Berth's API: Karpenter's NodePool, NodeClaim and NodeOverlay, Koordinator's Reservation, the node classes of Karpenter's
//! AWS provider and of EKS Auto Mode, Berth's FakeNodeClass and FakeCapacityReservation.
//!
//! The crate says what users may write: every field with its default, the names of labels, annotations and taints,
//! and what is wrong with an object, in the words of its schema ([`FieldError`]). It never decides what an object
//! means for a cluster, and by default knows no Kubernetes client: the types are plain serde structs with the traits
//! of k8s-openapi. Unknown fields are skipped by `ignored_any`, so `serde_ignored` sees them.
//!
//! ```
//! use berth_api::NodePool;
//!
//! let pool: NodePool = serde_json::from_str(r#"{
//!     "apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "reserved-only"},
//!     "spec": {"template": {"spec": {
//!         "nodeClassRef": {"group": "berth.sh", "kind": "FakeNodeClass", "name": "default"},
//!         "requirements": [{"key": "karpenter.sh/capacity-type", "operator": "In", "values": []}]}}}}"#).unwrap();
//! assert_eq!(pool.spec.template.spec.expire_after.to_string(), "720h");
//! let errors = pool.validate();
//! assert_eq!(errors[0].path, "spec.template.spec.requirements[0].values");
//! assert_eq!(errors[0].message, "requirements with operator 'In' must have a value defined, found none");
//! ```

#[cfg(feature = "crd")]
pub mod crd;
mod crds;
mod device;
mod duration;
mod ec2_node_class;
mod eks_node_class;
mod fake_capacity_reservation;
mod fake_node_class;
pub mod labels;
mod misplaced;
mod node_claim;
mod node_overlay;
mod node_pool;
mod node_reservation;
mod object;
mod planned_offering;
mod pod_topology_spread_args;
mod requirement;
mod reservation;
mod reservation_args;
mod validate;

use std::collections::BTreeMap;

use berth_quantity::Quantity;

pub use berth_quantity::Operator;
pub use crds::CRDS;
pub use device::{
    Device, DeviceInfo, DeviceSpec, DeviceStatus, DeviceTopology, NodeResourceTopology, TopologyZone, ZoneResource,
};
pub use duration::{DurationError, GoDuration, NillableDuration};
pub use ec2_node_class::{
    AmiSelectorTerm, BlockDevice, BlockDeviceMapping, CapacityReservationSelectorTerm, CapacityReservationStatus,
    EC2Kubelet, EC2NodeClass, EC2NodeClassSpec, EC2NodeClassStatus, SubnetStatus,
};
pub use eks_node_class::{EksEphemeralStorage, EksNodeClassSpec, NodeClass as EksNodeClass};
pub use fake_capacity_reservation::{
    FakeCapacityReservation, FakeCapacityReservationSpec, FakeCapacityReservationStatus, FakeReservationMatching,
    FakeReservationType,
};
pub use fake_node_class::{CatalogueReference, FakeNodeClass, FakeNodeClassSpec, FakeNodeClassStatus};
pub use misplaced::{keeps_unknown_fields, misplaced_field};
pub use node_claim::{NodeClaim, NodeClaimSpec, NodeClaimStatus, ResourceRequirements};
pub use node_overlay::{
    NodeOverlay, NodeOverlaySpec, NodeOverlayStatus, OverlayRequirement, PriceAdjustment, PriceAdjustmentError,
};
pub use node_pool::{
    Budget, ConsolidationPolicy, Disruption, DisruptionReason, NodeClaimTemplate, NodeClaimTemplateSpec, NodePool,
    NodePoolSpec, NodePoolStatus, TemplateMetadata,
};
pub use node_reservation::{NodeReservation, NodeReservationApplyPolicy};
pub use planned_offering::{PlannedFor, PlannedOffering};
pub use pod_topology_spread_args::{DefaultingType, PodTopologySpreadArgs};
pub use requirement::{NodeClassRef, Requirement};
pub use reservation::{
    AllocatePolicy, PreAllocationMode, PreAllocationPolicy, Reservation, ReservationCondition,
    ReservationControllerReference, ReservationOwner, ReservationPhase, ReservationReference, ReservationSpec,
    ReservationStatus,
};
pub use reservation_args::{PreAllocationConfig, ReservationArgs, ReservationSelectorIndex};
pub use validate::{Cause, FieldError};

/// Amounts by resource name, as in `limits` and `capacity`.
pub type ResourceList = BTreeMap<String, Quantity>;

/// The same as Kubernetes' own types have them.
pub fn as_written(amounts: &ResourceList) -> BTreeMap<String, k8s_openapi::apimachinery::pkg::api::resource::Quantity> {
    let written = |amount: &Quantity| k8s_openapi::apimachinery::pkg::api::resource::Quantity(amount.to_string());
    amounts.iter().map(|(name, amount)| (name.clone(), written(amount))).collect()
}
