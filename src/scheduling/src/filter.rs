//! Which filter keeps a pod off a node: kube-scheduler's filters of the default profile, in its order and words. What
//! depends on how pods are spread over domains is decided by [`crate::Scheduler`] and [`crate::topology`].

use berth_model::{
    Cluster, Cordon, Disk, Effect, HostPort, Node, NodeState, PodSpec, Requirements, Sym, Taint, first_untolerated,
};

use crate::demand::Demand;
use crate::node_terms::matches_any;
use crate::reasons::{self, Insufficient};
use crate::reservation::Lack;
use crate::units::UnitsLack;

/// The filter plugins of kube-scheduler's default profile, in the order in which they run, and Koordinator's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(missing_docs, reason = "kube-scheduler's own names")]
pub enum Plugin {
    NodeUnschedulable,
    NodeName,
    TaintToleration,
    NodeAffinity,
    NodePorts,
    NodeResourcesFit,
    VolumeRestrictions,
    NodeVolumeLimits,
    VolumeBinding,
    VolumeZone,
    PodTopologySpread,
    InterPodAffinity,
    NodeNUMAResource,
    DeviceShare,
    Reservation,
}

impl Plugin {
    /// The plugin's name.
    pub fn name(self) -> &'static str {
        match self {
            Plugin::NodeUnschedulable => "NodeUnschedulable",
            Plugin::NodeName => "NodeName",
            Plugin::TaintToleration => "TaintToleration",
            Plugin::NodeAffinity => "NodeAffinity",
            Plugin::NodePorts => "NodePorts",
            Plugin::NodeResourcesFit => "NodeResourcesFit",
            Plugin::VolumeRestrictions => "VolumeRestrictions",
            Plugin::NodeVolumeLimits => "NodeVolumeLimits",
            Plugin::VolumeBinding => "VolumeBinding",
            Plugin::VolumeZone => "VolumeZone",
            Plugin::PodTopologySpread => "PodTopologySpread",
            Plugin::InterPodAffinity => "InterPodAffinity",
            Plugin::NodeNUMAResource => "NodeNUMAResource",
            Plugin::DeviceShare => "DeviceShare",
            Plugin::Reservation => "Reservation",
        }
    }
}

/// What keeps a pod off a node: the first filter that refuses it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Obstacle {
    /// The node is cordoned.
    Cordoned,
    /// A taint that the pod does not tolerate.
    Taint(Taint),
    /// Node selector or required node affinity.
    NodeAffinity,
    /// Host ports in use.
    Ports,
    /// Resources; and whether the node would lack them if it were empty.
    Resources(Insufficient, bool),
    /// A disk that another pod on the node mounts, not both read-only.
    Disk,
    /// A ReadWriteOncePod claim in use.
    ExclusiveClaim,
    /// The driver's limit of attached volumes.
    VolumeCount,
    /// Where the pod's volumes are, or where those that it waits for can be had.
    VolumeBinding {
        /// A bound volume's node affinity.
        bound: bool,
        /// A claim for which nothing is to be had here.
        unbound: bool,
    },
    /// A volume is being made for this node, which is another one.
    SelectedNode(Sym),
    /// The zone labels of a bound volume.
    VolumeZone,
    /// The node lacks the key of a spread constraint.
    SpreadKey,
    /// The skew would be too large.
    Spread,
    /// No pod that the affinity asks for in the node's domain.
    PodAffinity,
    /// A pod that the anti-affinity excludes in the node's domain.
    PodAntiAffinity,
    /// A pod in the node's domain whose anti-affinity excludes this one.
    ExistingAntiAffinity,
    /// The pod must draw from a Reservation, and none here is for it.
    NoReservation,
    /// What node and Reservations lack for a pod that may draw; and whether the node would if it were empty.
    Reservations(Vec<Lack>, bool),
    /// A Reservation that is pinned to another node.
    OtherNode,
    /// Reservations of another allocate policy are there.
    PolicyConflict,
    /// CPUs or devices that the pod must have to itself.
    Units(UnitsLack),
}

impl Obstacle {
    /// The plugin that refuses.
    pub fn plugin(&self) -> Plugin {
        match self {
            Obstacle::Cordoned => Plugin::NodeUnschedulable,
            Obstacle::Taint(_) => Plugin::TaintToleration,
            Obstacle::NodeAffinity => Plugin::NodeAffinity,
            Obstacle::Ports => Plugin::NodePorts,
            Obstacle::Resources(..) => Plugin::NodeResourcesFit,
            Obstacle::Disk | Obstacle::ExclusiveClaim => Plugin::VolumeRestrictions,
            Obstacle::VolumeCount => Plugin::NodeVolumeLimits,
            Obstacle::VolumeBinding { .. } | Obstacle::SelectedNode(_) => Plugin::VolumeBinding,
            Obstacle::VolumeZone => Plugin::VolumeZone,
            Obstacle::SpreadKey | Obstacle::Spread => Plugin::PodTopologySpread,
            Obstacle::PodAffinity | Obstacle::PodAntiAffinity | Obstacle::ExistingAntiAffinity => {
                Plugin::InterPodAffinity
            }
            Obstacle::NoReservation | Obstacle::Reservations(..) | Obstacle::OtherNode | Obstacle::PolicyConflict => {
                Plugin::Reservation
            }
            Obstacle::Units(UnitsLack::Devices(_)) => Plugin::DeviceShare,
            Obstacle::Units(_) => Plugin::NodeNUMAResource,
        }
    }

    /// Whether other pods' leaving the node may remove it: kube-scheduler's `Unschedulable`, as opposed to
    /// `UnschedulableAndUnresolvable`.
    pub fn may_be_preempted(&self) -> bool {
        match self {
            Obstacle::Resources(_, exceeds_node) | Obstacle::Reservations(_, exceeds_node) => !exceeds_node,
            Obstacle::Ports
            | Obstacle::Disk
            | Obstacle::ExclusiveClaim
            | Obstacle::VolumeCount
            | Obstacle::Spread
            | Obstacle::PodAntiAffinity
            | Obstacle::ExistingAntiAffinity => true,
            Obstacle::Units(lack) => lack.may_be_preempted(),
            _ => false,
        }
    }

    /// kube-scheduler's reasons, several where several resources are short; a taint is named.
    pub fn in_words(&self, cluster: &Cluster) -> Vec<String> {
        let reason = match self {
            Obstacle::Taint(taint) => {
                return vec![format!("node(s) had untolerated taint {}", taint.in_words(&cluster.symbols))];
            }
            Obstacle::Resources(insufficient, _) => return insufficient.in_words(cluster),
            Obstacle::Reservations(lacks, _) => {
                return crate::reservation::in_words(lacks, &cluster.resource_names, &cluster.symbols);
            }
            Obstacle::SelectedNode(node) => {
                return vec![format!("node(s) {}", reasons::selected_node(cluster.symbols.text(*node)))];
            }
            Obstacle::Units(lack) => return lack.in_words(&cluster.resource_names, &cluster.symbols),
            Obstacle::NoReservation => crate::reservation::reasons::AFFINITY,
            Obstacle::OtherNode => crate::reservation::reasons::OTHER_NODE,
            Obstacle::PolicyConflict => crate::reservation::reasons::POLICY_CONFLICT,
            Obstacle::Cordoned => reasons::UNSCHEDULABLE,
            Obstacle::NodeAffinity => reasons::AFFINITY,
            Obstacle::Ports => reasons::PORTS,
            Obstacle::Disk => reasons::DISK,
            Obstacle::ExclusiveClaim => reasons::EXCLUSIVE_CLAIM,
            Obstacle::VolumeCount => reasons::VOLUME_COUNT,
            Obstacle::VolumeBinding { bound: true, unbound: true } => {
                return [reasons::VOLUME_TOPOLOGY, reasons::NO_VOLUME].map(str::to_owned).to_vec();
            }
            Obstacle::VolumeBinding { bound: true, .. } => reasons::VOLUME_TOPOLOGY,
            Obstacle::VolumeBinding { .. } => reasons::NO_VOLUME,
            Obstacle::VolumeZone => reasons::VOLUME_ZONE,
            Obstacle::SpreadKey => reasons::SPREAD_KEY,
            Obstacle::Spread => reasons::SPREAD,
            Obstacle::PodAffinity => reasons::POD_AFFINITY,
            Obstacle::PodAntiAffinity => reasons::POD_ANTI_AFFINITY,
            Obstacle::ExistingAntiAffinity => reasons::EXISTING_ANTI_AFFINITY,
        };
        vec![reason.to_owned()]
    }
}

/// NodeUnschedulable, TaintToleration, NodeAffinity: what does not depend on what is on the node.
pub fn before_load(cluster: &Cluster, node: &Node, spec: &PodSpec) -> Option<Obstacle> {
    if let Some(taint) = first_untolerated(&node.taints, &spec.tolerations, false, &cluster.symbols) {
        let is_cordon = |taint: &Taint| {
            taint.effect == Effect::NoSchedule
                && cluster.symbols.text(taint.key) == "node.kubernetes.io/unschedulable"
                && cluster.symbols.text(taint.value).is_empty()
        };
        // A cordon refuses before any taint does.
        let cordon = node.taints.iter().filter(|_| node.cordon != Cordon::None).find(|taint| is_cordon(taint));
        let is_tolerated = |cordon: &Taint| spec.tolerations.iter().any(|t| t.tolerates(cordon, &cluster.symbols));
        if cordon.is_some_and(|cordon| !is_tolerated(cordon)) {
            return Some(Obstacle::Cordoned);
        }
        return Some(Obstacle::Taint(taint.clone()));
    }
    let selector = std::slice::from_ref(&spec.node_selector);
    let admits = |terms: &[Requirements]| terms.is_empty() || matches_any(cluster, node, terms);
    (!admits(selector) || !admits(&spec.required_terms)).then_some(Obstacle::NodeAffinity)
}

/// NodePorts, NodeResourcesFit, VolumeRestrictions, NodeVolumeLimits: what depends on what is on the node.
///
/// `room` says what resources are short, `is_claim_taken` whether a ReadWriteOncePod claim is in use.
pub fn load(
    node: &Node,
    spec: &PodSpec,
    on_node: &NodeState,
    room: impl FnOnce() -> Option<Obstacle>,
    is_claim_taken: impl FnOnce() -> bool,
) -> Option<Obstacle> {
    if !ports_are_free(&spec.host_ports, &on_node.ports) {
        return Some(Obstacle::Ports);
    }
    if let Some(obstacle) = room() {
        return Some(obstacle);
    }
    if !disks_are_free(&spec.volumes.disks, &on_node.disks) {
        return Some(Obstacle::Disk);
    }
    if !spec.volumes.exclusive_claims.is_empty() && is_claim_taken() {
        return Some(Obstacle::ExclusiveClaim);
    }
    let attachments = &spec.volumes.attachments;
    if !attachments_fit(attachments, &on_node.attached, &node.attach_limits) {
        return Some(Obstacle::VolumeCount);
    }
    (!pools_have(&spec.volumes.kept, &on_node.attached, &node.volume_pools))
        .then_some(Obstacle::VolumeBinding { bound: false, unbound: true })
}

/// VolumeBinding and VolumeZone: where the volumes of a pod can be.
pub fn volumes(cluster: &Cluster, node: &Node, spec: &PodSpec) -> Option<Obstacle> {
    let volumes = &spec.volumes;
    let reaches = |places: &[Vec<Requirements>]| places.iter().all(|any| matches_any(cluster, node, any));
    let (bound, unbound) = (reaches(&volumes.topologies), reaches(&volumes.unbound));
    if bound
        && !unbound
        && let Some(selected) = selected_node(cluster, spec).filter(|selected| *selected != node.name)
    {
        return Some(Obstacle::SelectedNode(selected));
    }
    if !bound || !unbound {
        return Some(Obstacle::VolumeBinding { bound: !bound, unbound: !unbound });
    }
    let has_zone = || {
        let region = cluster.symbols.get("topology.kubernetes.io/region");
        [Some(cluster.well_known.zone), region].into_iter().flatten().any(|key| node.labels.get(key).is_some())
    };
    (!reaches(&volumes.zones) && has_zone()).then_some(Obstacle::VolumeZone)
}

/// The node for which a volume of a pod is being made, as the annotation of its claim says.
pub fn selected_node(cluster: &Cluster, spec: &PodSpec) -> Option<Sym> {
    spec.volumes.unbound.iter().find_map(|places| match &places[..] {
        [only] => only.get(cluster.well_known.field_name)?.single(),
        _ => None,
    })
}

/// Whether none of `ports` conflicts with one in use (NodePorts).
pub fn ports_are_free(ports: &[HostPort], used: &[HostPort]) -> bool {
    !ports.iter().any(|port| used.iter().any(|used| used.conflicts(port)))
}

/// Whether a pod with `disks` may share them with the pods that use them on a node (VolumeRestrictions).
pub fn disks_are_free(disks: &[Disk], used: &[Disk]) -> bool {
    !disks.iter().any(|disk| used.iter().any(|used| used.conflicts(disk)))
}

/// Whether a driver's limit holds with a pod's volumes beside those that are attached (NodeVolumeLimits). A volume
/// counts once, `attached` is sorted, and a driver of which the pod brings nothing new does not matter.
pub fn attachments_fit(attachments: &[(Sym, Sym)], attached: &[(Sym, Sym)], limits: &[(Sym, u32)]) -> bool {
    attachments.is_empty()
        || limits.iter().all(|&(driver, limit)| {
            let mut used: Vec<Sym> = attached.iter().filter(|(known, _)| *known == driver).map(|(_, v)| *v).collect();
            used.dedup();
            let used = used.len();
            let new = attachments.iter().filter(|a| a.0 == driver && !attached.contains(a)).count();
            new == 0 || used + new <= limit as usize
        })
}

/// Whether the pools of a node have as many volumes left as a pod takes; `attached` is sorted and has each that is taken.
pub fn pools_have(kept: &[(Sym, u32)], attached: &[(Sym, Sym)], pools: &[(Sym, u32)]) -> bool {
    kept.iter().all(|&(pool, count)| {
        let has = pools.iter().find(|(known, _)| *known == pool).map_or(0, |(_, has)| *has);
        let before = |pool: Sym| attached.partition_point(|taken| *taken < (pool, pool));
        let taken = attached.get(before(pool)..).unwrap_or_default();
        let taken = taken.iter().take_while(|taken| **taken == (pool, pool)).count();
        taken + count as usize <= has as usize
    })
}

/// The first of taints, node affinity and volume topology that keeps a demand off a node.
pub fn node_refusal(cluster: &Cluster, node: &Node, demand: &Demand) -> String {
    let Some(spec) = cluster.spec(demand.spec) else { return reasons::AFFINITY.to_owned() };
    let before = before_load(cluster, node, spec).or_else(|| volumes(cluster, node, spec));
    // What is left is a preference that the demand takes as required.
    before.map_or(reasons::AFFINITY.to_owned(), |obstacle| obstacle.in_words(cluster).join(", "))
}
