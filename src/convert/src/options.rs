//! What the conversion takes into account.

use berth_api::{PodTopologySpreadArgs, ReservationArgs};
use berth_model::{PreferencePolicy, ResourceLimit};
use jiff::Timestamp;

/// Feature gates, with the defaults of Karpenter (facts: `ReservedCapacity` is on, the others are off).
#[derive(Clone, Debug, PartialEq)]
#[allow(clippy::struct_excessive_bools, reason = "feature gates are independent switches")]
pub struct Options {
    /// `ReservedCapacity`: off, reserved offerings do not exist. On by default.
    pub reserved_capacity: bool,
    /// `NodeOverlay`: off, NodeOverlay objects change nothing.
    pub node_overlay: bool,
    /// `StaticCapacity`: off, a NodePool with `replicas` is refused; on, it launches nothing for pods either.
    pub static_capacity: bool,
    /// `SpotToSpotConsolidation`: nothing here depends on it.
    pub spot_to_spot_consolidation: bool,
    /// `NodeRepair`: whether nodes that have not been ready for long are replaced.
    pub node_repair: bool,
    /// What the scheduler's configuration says of Reservations.
    pub reservations: ReservationArgs,
    /// What it says of pods without spread constraints of their own.
    pub pod_topology_spread: PodTopologySpreadArgs,
    /// Whether nodes are launched and kept for what pods prefer.
    pub preferences: PreferencePolicy,
    /// How many replicas a HorizontalPodAutoscaler's workload has.
    pub replicas: Replicas,
    /// The time at which objects count: Reservations that have expired by then are over. Without one nothing expires.
    pub now: Option<Timestamp>,
    /// How many resources are told apart.
    pub resource_limit: ResourceLimit,
    /// With which key names that others choose are hashed: draw it at random. No answer depends on it.
    pub hash_key: [u64; 4],
}

/// How many replicas of a workload are planned that a HorizontalPodAutoscaler scales. One that is scaled to none stays
/// at none: its autoscaler is off.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Replicas {
    /// As many as the workload says, and `minReplicas` at least.
    #[default]
    Current,
    /// `minReplicas`.
    Min,
    /// `maxReplicas`.
    Max,
}

/// A feature gate that does not exist, or a value that is neither `true` nor `false`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "feature gate {0:?}: expected ReservedCapacity, NodeOverlay, SpotToSpotConsolidation, NodeRepair or \
     StaticCapacity, and =true or =false"
)]
pub struct UnknownGate(pub String);

impl Default for Options {
    fn default() -> Self {
        Options {
            reserved_capacity: true,
            node_overlay: false,
            static_capacity: false,
            spot_to_spot_consolidation: false,
            node_repair: false,
            reservations: ReservationArgs::default(),
            pod_topology_spread: PodTopologySpreadArgs::default(),
            preferences: PreferencePolicy::default(),
            replicas: Replicas::Current,
            now: None,
            resource_limit: ResourceLimit::default(),
            hash_key: [0; 4],
        }
    }
}

impl Options {
    /// Sets gates from Karpenter's notation, `ReservedCapacity=false,NodeOverlay=true`.
    ///
    /// # Errors
    /// A gate that is not known, or a value that is no Boolean.
    pub fn set_gates(&mut self, gates: &str) -> Result<(), UnknownGate> {
        for gate in gates.split(',').map(str::trim).filter(|g| !g.is_empty()) {
            let unknown = || UnknownGate(gate.to_owned());
            let (name, value) = gate.split_once('=').ok_or_else(unknown)?;
            let value = value.trim().parse::<bool>().map_err(|_| unknown())?;
            let switch = match name.trim() {
                "ReservedCapacity" => &mut self.reserved_capacity,
                "NodeOverlay" => &mut self.node_overlay,
                "StaticCapacity" => &mut self.static_capacity,
                "SpotToSpotConsolidation" => &mut self.spot_to_spot_consolidation,
                "NodeRepair" => &mut self.node_repair,
                _ => return Err(unknown()),
            };
            *switch = value;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reserved_capacity_is_the_only_gate_on_by_default() {
        let gates = Options::default();
        assert!(gates.reserved_capacity);
        assert!(!gates.node_overlay && !gates.static_capacity);
    }

    #[test]
    fn an_unknown_gate_is_an_error() {
        let mut gates = Options::default();
        assert!(gates.set_gates("NodeOverlay=true, ReservedCapacity=false").is_ok());
        assert!(gates.node_overlay && !gates.reserved_capacity);
        assert!(gates.set_gates("Drift=true").is_err());
        assert!(gates.set_gates("NodeOverlay=maybe").is_err());
        assert!(gates.set_gates("NodeOverlay").is_err());
    }
}

/// Which pods are planned.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Expansion {
    /// Those of the input, and those that its Deployments, Jobs and other workloads still want. A pod of a DaemonSet of
    /// the input is not: each node keeps room for one. Without a NodePool there is an open one.
    #[default]
    Workloads,
    /// Those that exist, as in a running cluster, where controllers make the others: pods of DaemonSets, too. Without a
    /// NodePool nothing is launched.
    PodsThatExist,
}
