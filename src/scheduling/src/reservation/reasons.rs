//! Koordinator's reasons around Reservations.

/// The pod must draw from a Reservation, and none is for it here.
pub const AFFINITY: &str = "node(s) no reservations match reservation affinity";
/// The Reservation is pinned to another node.
pub const OTHER_NODE: &str = "node(s) didn't match the nodeName specified by reservation";
/// Reservations of other policies are on the node.
pub const POLICY_CONFLICT: &str = "node(s) reservation allocate policy conflict";
/// The pod must draw from a Reservation, and none of those for it will do.
pub const NONE_MEETS: &str = "node(s) no reservation(s) to meet the requirements";
/// The Reservation must be bound to running pods, and there is none for it.
pub const NO_POD_TO_BIND: &str = "node(s) no pod match reservation with pre allocation required";
/// The Reservation must be bound to running pods, and none of those for it will do.
pub const NO_POD_MEETS: &str = "node(s) no pod(s) to meet the pre-allocation requirements";
/// Pre-allocation in mode Cluster is not configured.
pub const CLUSTER_MODE_DISABLED: &str = "reservation requires cluster mode pre-allocation which is disabled";
