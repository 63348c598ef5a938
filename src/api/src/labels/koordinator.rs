//! Koordinator's names around Reservations.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

/// Annotation on a pod: the Reservation that it draws from, `{"name","uid"}`.
pub const RESERVATION_ALLOCATED: &str = "scheduling.koordinator.sh/reservation-allocated";
/// Annotation on a pod: it must draw from a Reservation, and from which; even empty it asks for one.
pub const RESERVATION_AFFINITY: &str = "scheduling.koordinator.sh/reservation-affinity";
/// Annotation on a pod: resources whose amounts must equal those of the Reservation, `{"resourceNames"}`.
pub const EXACT_MATCH_RESERVATION: &str = "scheduling.koordinator.sh/exact-match-reservation";
/// Annotation on a Reservation: the resources that a Restricted policy restricts, `{"resources"}`.
pub const RESERVATION_RESTRICTED_OPTIONS: &str = "scheduling.koordinator.sh/reservation-restricted-options";
/// Annotation on a Reservation: allocatable resources to resize it to, `{"resources"}`.
pub const RESERVATION_RESIZE_ALLOCATABLE: &str = "scheduling.koordinator.sh/reservation-resize-allocatable";
/// Annotation on a pod in operating mode Reservation: who may draw from it.
pub const RESERVATION_OWNERS: &str = "scheduling.koordinator.sh/reservation-owners";
/// Annotation on a pod in operating mode Reservation: who draws from it now.
pub const RESERVATION_CURRENT_OWNER: &str = "scheduling.koordinator.sh/reservation-current-owner";
/// Annotation on a node, resources kept from pods; on a Reservation, the part of it kept from its owners.
pub const NODE_RESERVATION: &str = "node.koordinator.sh/reservation";
/// Annotation on a pod: its rank among candidates for pre-allocation, highest first.
pub const PRE_ALLOCATABLE_PRIORITY: &str = "pod.koordinator.sh/pre-allocatable-priority";

/// Label on a pod: never draw from a Reservation.
pub const RESERVATION_IGNORED: &str = "scheduling.koordinator.sh/reservation-ignored";
/// Label on a Reservation: it must be bound to running pods.
pub const PRE_ALLOCATION_REQUIRED: &str = "scheduling.koordinator.sh/pre-allocation-required";
/// Label on a Reservation: its order, the lowest that is not zero wins.
pub const RESERVATION_ORDER: &str = "scheduling.koordinator.sh/reservation-order";
/// Label on a pod: [`OPERATING_MODE_RESERVATION`] makes it a Reservation itself.
pub const OPERATING_MODE: &str = "scheduling.koordinator.sh/operating-mode";
/// The value of [`OPERATING_MODE`] for pods that hold room for others.
pub const OPERATING_MODE_RESERVATION: &str = "Reservation";

/// Whether a pod with this metadata is a Reservation itself.
pub fn is_operating(metadata: &ObjectMeta) -> bool {
    let mode = metadata.labels.as_ref().and_then(|labels| labels.get(OPERATING_MODE));
    mode.is_some_and(|mode| mode == OPERATING_MODE_RESERVATION)
}

/// Label on a pod or Reservation: its priority where the pod spec has none.
pub const PRIORITY: &str = "koordinator.sh/priority";
/// Label on a pod: Reservations in mode Cluster may be bound to it.
pub const IS_PRE_ALLOCATABLE: &str = "pod.koordinator.sh/is-pre-allocatable";
/// Label on a pod: its quality of service; `LSE` and `LSR` have their CPUs to themselves.
pub const QOS_CLASS: &str = "koordinator.sh/qosClass";
/// Annotation on a pod: how its CPUs are bound, `{"preferredCPUBindPolicy"}`.
pub const RESOURCE_SPEC: &str = "scheduling.koordinator.sh/resource-spec";
/// Annotation on a pod: how it lies on NUMA nodes, `{"numaTopologyPolicy","singleNUMANodeExclusive"}`.
pub const NUMA_TOPOLOGY_SPEC: &str = "scheduling.koordinator.sh/numa-topology-spec";
/// Label on a node: how pods lie on its NUMA nodes: `BestEffort`, `Restricted` or `SingleNUMANode`.
pub const NUMA_TOPOLOGY_POLICY: &str = "node.koordinator.sh/numa-topology-policy";
/// Annotation on a pod or Reservation: the CPUs that it has, and what of NUMA nodes, `{"cpuset","numaNodeResources"}`.
pub const RESOURCE_STATUS: &str = "scheduling.koordinator.sh/resource-status";
/// Annotation on a pod or Reservation: the devices that it has, `{"gpu":[{"minor","resources"}]}`.
pub const DEVICE_ALLOCATED: &str = "scheduling.koordinator.sh/device-allocated";
/// Annotation on a NodeResourceTopology: the node's CPUs, `{"detail":[{"id","core","socket","node"}]}`.
pub const NODE_CPU_TOPOLOGY: &str = "node.koordinator.sh/cpu-topology";
/// Annotation on a NodeResourceTopology: CPUs that kubelet gave to pods, `[{"cpuset"}]`.
pub const NODE_CPU_ALLOCS: &str = "node.koordinator.sh/pod-cpu-allocs";
/// Annotation on a NodeResourceTopology: kubelet's CPU manager, `{"policy","reservedCPUs"}`.
pub const KUBELET_CPU_MANAGER_POLICY: &str = "kubelet.koordinator.sh/cpu-manager-policy";
/// Annotation on a NodeResourceTopology: CPUs of the system, `{"cpuset","cpusetExclusive"}`.
pub const NODE_SYSTEM_QOS: &str = "node.koordinator.sh/system-qos-resource";
