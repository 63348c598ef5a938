//! Why not: refusals in the field's words, as kube-scheduler's plugins print them.

use berth_model::{Cluster, ColumnTable, Constraint, NodePool, ResourceId, Resources, first_untolerated};

use crate::demand::Demand;

/// NodePorts.
pub const PORTS: &str = "node(s) didn't have free ports for the requested pod ports";
/// VolumeRestrictions, of disks that pods mount without a claim.
pub const DISK: &str = "node(s) had no available disk";
/// VolumeRestrictions.
pub const EXCLUSIVE_CLAIM: &str =
    "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by another pod";
/// NodeVolumeLimits.
pub const VOLUME_COUNT: &str = "node(s) exceed max volume count";
/// NodeAffinity, of a node.
pub const AFFINITY: &str = "node(s) didn't match Pod's node affinity/selector";
/// NodeAffinity, of instance types.
pub const AFFINITY_OF_TYPES: &str = "didn't match Pod's node affinity/selector";
/// Volume topology, of instance types.
pub const VOLUMES_OF_TYPES: &str = "didn't match where Pod's volumes can be";
/// A NodePool's minValues, of instance types.
pub const MIN_VALUES: &str = "minValues requirement is not met";
/// Of a NodePool that nothing can be launched from, whoever asks.
pub const NO_TYPE: &str = "no instance type meets its requirements";
/// The same where some would, and none can be had now.
pub const SOLD_OUT: &str = "no instance is left of the types that meet its requirements";
const SOLD_OUT_WITH: &str = "no instance is left of the types that have ";
/// There is neither a node nor a NodePool.
pub const NO_NODES: &str = "no nodes available to schedule pods";
/// VolumeBinding.
pub const VOLUME_TOPOLOGY: &str = "node(s) didn't match PersistentVolume's node affinity";

/// VolumeBinding, of claims that wait for their consumer.
pub const NO_VOLUME: &str = "node(s) didn't find available persistent volumes to bind";
/// VolumeZone.
pub const VOLUME_ZONE: &str = "node(s) had no available volume zone";
/// NodeUnschedulable.
pub const UNSCHEDULABLE: &str = "node(s) were unschedulable";
/// PodTopologySpread.
pub const SPREAD: &str = "node(s) didn't match pod topology spread constraints";
/// PodTopologySpread, of a node without one of the topology keys.
pub const SPREAD_KEY: &str = "node(s) didn't match pod topology spread constraints (missing required label)";
/// InterPodAffinity.
pub const POD_AFFINITY: &str = "node(s) didn't match pod affinity rules";
/// InterPodAffinity.
pub const POD_ANTI_AFFINITY: &str = "node(s) didn't match pod anti-affinity rules";
/// InterPodAffinity, of the rules of pods that run.
pub const EXISTING_ANTI_AFFINITY: &str = "node(s) didn't satisfy existing pods anti-affinity rules";

/// The resources that a request lacks.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Insufficient(Vec<ResourceId>);

impl Insufficient {
    /// What of `requests` does not fit in `room`.
    pub fn of(requests: &Resources, room: &Resources) -> Self {
        Insufficient(requests.iter().filter(|&(id, need)| need > 0 && need > room.get(id)).map(|(id, _)| id).collect())
    }

    /// The first of `requests`, which are a pod's resources without the zeros between them, that does not fit in `room`.
    /// Where each pod asks for a resource of its own, vectors are as long as there are pods, and nearly all zeros.
    pub fn first_of(requests: &[(ResourceId, i64)], room: &Resources) -> Self {
        Insufficient(
            requests
                .iter()
                .find(|&&(id, need)| need > 0 && need > room.get(id))
                .map(|(id, _)| *id)
                .into_iter()
                .collect(),
        )
    }

    /// Whether nothing is lacking.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether some of it is more than a node has in all, so that no other pod's leaving helps.
    pub fn exceeds(&self, requests: &Resources, allocatable: &Resources) -> bool {
        self.0.iter().any(|&id| id != ResourceId::PODS && requests.get(id) > allocatable.get(id))
    }

    /// `Insufficient cpu`, or `Too many pods`.
    pub fn in_words(&self, cluster: &Cluster) -> Vec<String> {
        let name = |id: ResourceId| cluster.resource_names.name(id).map_or("", |name| cluster.symbols.text(name));
        let word = |&id: &ResourceId| {
            if id == ResourceId::PODS { "Too many pods".to_owned() } else { format!("Insufficient {}", name(id)) }
        };
        self.0.iter().map(word).collect()
    }
}

/// The taint of a NodePool's template that keeps a demand off.
pub fn pool_taint(cluster: &Cluster, pool: &NodePool, demand: &Demand) -> Option<String> {
    let spec = cluster.spec(demand.spec)?;
    let taint = first_untolerated(&pool.taints, &spec.tolerations, demand.avoids_preferred_taints, &cluster.symbols)?;
    Some(format!("had untolerated taint {}", taint.in_words(&cluster.symbols)))
}

/// The plugin's words for the first of some constraints.
pub fn topology(constraints: &[Constraint]) -> &'static str {
    match constraints.first() {
        Some(Constraint::Spread { .. }) | None => SPREAD,
        Some(Constraint::Affinity { .. }) => POD_AFFINITY,
        Some(Constraint::AntiAffinity { .. }) => POD_ANTI_AFFINITY,
    }
}

/// VolumeBinding, of nodes and instance types while a volume is being made for another node.
pub fn selected_node(node: &str) -> String {
    format!("weren't node {node:?}, which a claim's volume.kubernetes.io/selected-node names")
}

/// A limit of a NodePool that one more node would exceed.
pub fn limit(resource: &str) -> String {
    format!("limits.{resource} would be exceeded")
}

/// A reason as a NodePool's, beside those of nodes.
pub fn of_pool(pool: &str, reason: &str) -> String {
    format!("NodePool {pool}: {reason}")
}

/// Why nothing can be launched from a NodePool without columns, whoever asks.
pub fn no_columns(table: &ColumnTable) -> &'static str {
    if table.is_sold_out { SOLD_OUT } else { NO_TYPE }
}

/// The NodePool that a reason is of, and what it says: [`of_pool`] the other way round.
pub fn said_by_pool(reason: &str) -> Option<(&str, &str)> {
    reason.strip_prefix("NodePool ")?.split_once(": ")
}

/// What nothing can be launched with, as all instance types that have this label are sold out.
pub fn sold_out_with(key: &str, value: &str) -> String {
    format!("{SOLD_OUT_WITH}{key}={value}")
}

/// Whether a reason says what cannot be launched, whatever the NodePool.
pub fn is_about_launches(reason: &str) -> bool {
    reason.starts_with(SOLD_OUT_WITH)
}

/// A finite supply of which nothing is left.
pub fn exhausted(id: &str, is_reservation: bool) -> String {
    if is_reservation {
        format!("no free instance in capacity reservation {id}")
    } else {
        format!("no instance available of {id}")
    }
}
