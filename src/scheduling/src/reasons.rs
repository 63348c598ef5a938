//! Why not: refusals in the field's words, as kube-scheduler's plugins print them.

use berth_model::{Cluster, Constraint, Node, NodePool, ResourceId, Resources, first_untolerated};

use crate::Demand;
use crate::admission::matches_any;

/// NodePorts.
pub const PORTS: &str = "node(s) didn't have free ports for the requested pod ports";
/// VolumeRestrictions.
pub const EXCLUSIVE_CLAIM: &str =
    "node has pod using PersistentVolumeClaim with the same name and ReadWriteOncePod access mode";
/// NodeVolumeLimits.
pub const VOLUME_COUNT: &str = "node(s) exceed max volume count";
/// NodeAffinity, of a node.
pub const AFFINITY: &str = "node(s) didn't match Pod's node affinity/selector";
/// NodeAffinity and volume topology, of instance types.
pub const AFFINITY_OF_TYPES: &str = "didn't match Pod's node affinity/selector";
/// VolumeBinding.
pub const VOLUME_TOPOLOGY: &str = "node(s) had volume node affinity conflict";

/// The resources that a request lacks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Insufficient(Vec<ResourceId>);

impl Insufficient {
    /// What of `requests` does not fit in `room`.
    pub fn of(requests: &Resources, room: &Resources) -> Self {
        Insufficient(requests.iter().filter(|&(id, need)| need > 0 && need > room.get(id)).map(|(id, _)| id).collect())
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

/// The first of taints, node affinity and volume topology that keeps a demand off a node.
pub fn node_refusal(cluster: &Cluster, node: &Node, demand: &Demand) -> String {
    let Some(spec) = cluster.specs.get(demand.spec as usize) else { return AFFINITY.to_owned() };
    let taint = first_untolerated(&node.taints, &spec.tolerations, demand.avoids_preferred_taints, &cluster.symbols);
    if let Some(taint) = taint {
        if cluster.symbols.text(taint.key) == "node.kubernetes.io/unschedulable" {
            return "node(s) were unschedulable".to_owned();
        }
        return format!("node(s) had untolerated taint {}", taint.in_words(&cluster.symbols));
    }
    if matches_any(cluster, node, &demand.terms) { VOLUME_TOPOLOGY.to_owned() } else { AFFINITY.to_owned() }
}

/// The taint of a NodePool's template that keeps a demand off.
pub fn pool_taint(cluster: &Cluster, pool: &NodePool, demand: &Demand) -> Option<String> {
    let spec = cluster.specs.get(demand.spec as usize)?;
    let taint = first_untolerated(&pool.taints, &spec.tolerations, demand.avoids_preferred_taints, &cluster.symbols)?;
    Some(format!("had untolerated taint {}", taint.in_words(&cluster.symbols)))
}

/// The plugin's words for the first of some constraints.
pub fn topology(constraints: &[Constraint]) -> &'static str {
    match constraints.first() {
        Some(Constraint::Spread { .. }) | None => "node(s) didn't match pod topology spread constraints",
        Some(Constraint::Together { .. }) => "node(s) didn't match pod affinity rules",
        Some(Constraint::Apart { .. }) => "node(s) didn't match pod anti-affinity rules",
    }
}

/// A finite supply of which nothing is left.
pub fn exhausted(id: &str, is_reservation: bool) -> String {
    if is_reservation {
        format!("no free instance in capacity reservation {id}")
    } else {
        format!("no instance available of {id}")
    }
}
