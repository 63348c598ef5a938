//! kube-scheduler's scores, each with its weight in the default profile, and how they are normalised over the nodes that
//! passed the filters. Raw scores are kept apart from normalised ones: the first belong to a node, the second to a set.

use berth_model::{Node, NodeState, PodSpec, Requirements, ResourceId, Symbols, Taint};

use crate::node_terms::matches_any;

/// The best score of a node from one plugin, before its weight.
pub const MAX: i64 = 100;
/// Weight of TaintToleration.
pub const TAINT_TOLERATION: i64 = 3;
/// Weight of NodeAffinity.
pub const NODE_AFFINITY: i64 = 2;
/// Weight of PodTopologySpread.
pub const POD_TOPOLOGY_SPREAD: i64 = 2;
/// Weight of InterPodAffinity.
pub const INTER_POD_AFFINITY: i64 = 2;
// NodeResourcesFit, NodeResourcesBalancedAllocation and ImageLocality weigh 1.

/// The scores of a node for a pod, normalised, before their weights.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "kube-scheduler's own names, and Koordinator's")]
pub struct Scores {
    pub taint_toleration: i64,
    pub node_affinity: i64,
    pub node_resources_fit: i64,
    pub pod_topology_spread: i64,
    pub inter_pod_affinity: i64,
    pub balanced_allocation: i64,
    pub image_locality: i64,
    pub reservation: i64,
}

impl Scores {
    /// The weighted sum, by which nodes are chosen.
    pub fn total(&self) -> i64 {
        TAINT_TOLERATION * self.taint_toleration
            + NODE_AFFINITY * self.node_affinity
            + self.node_resources_fit
            + POD_TOPOLOGY_SPREAD * self.pod_topology_spread
            + INTER_POD_AFFINITY * self.inter_pod_affinity
            + self.balanced_allocation
            + self.image_locality
            + crate::reservation::WEIGHT * self.reservation
    }
}

/// CPU and memory: what counts as requested on a node with the pod, and what the node has.
fn with_pod(node: &Node, on_node: &NodeState, spec: &PodSpec, assumes: bool) -> [(i64, i64); 2] {
    [(ResourceId::CPU, 0), (ResourceId::MEMORY, 1)].map(|(id, at)| {
        let has = node.allocatable.get(id);
        let more = if assumes { on_node.assumed[at].saturating_add(spec.assumed[at]) } else { 0 };
        let requested = has.saturating_sub(on_node.free.get(id)).saturating_add(spec.requests.get(id));
        (requested.saturating_add(more), has)
    })
}

/// NodeResourcesFit by LeastAllocated: the mean over CPU and memory of the share that stays free, in percent. What
/// containers do not state counts as assumed ([`PodSpec::assumed`]).
pub fn least_allocated(node: &Node, on_node: &NodeState, spec: &PodSpec) -> i64 {
    let (mut sum, mut resources) = (0, 0);
    for (requested, has) in with_pod(node, on_node, spec, true).into_iter().filter(|(_, has)| *has != 0) {
        sum += if requested > has { 0 } else { percent(has - requested, has) };
        resources += 1;
    }
    if resources == 0 { 0 } else { sum / resources }
}

/// `MAX * part / whole`, without overflow.
fn percent(part: i64, whole: i64) -> i64 {
    match part.checked_mul(MAX) {
        Some(times) => times / whole,
        None => i64::try_from(i128::from(part) * i128::from(MAX) / i128::from(whole)).unwrap_or(MAX),
    }
}

/// NodeResourcesBalancedAllocation: how near to each other the shares of CPU and memory are that are requested. 0 for a
/// pod that requests neither.
#[expect(clippy::cast_precision_loss, clippy::cast_possible_truncation, reason = "kube-scheduler's own arithmetic")]
pub fn balanced_allocation(node: &Node, on_node: &NodeState, spec: &PodSpec) -> i64 {
    if spec.requests.get(ResourceId::CPU) == 0 && spec.requests.get(ResourceId::MEMORY) == 0 {
        return 0;
    }
    let shares = with_pod(node, on_node, spec, false)
        .map(|(requested, has)| (has != 0).then(|| (requested as f64 / has as f64).min(1.0)));
    let deviation = match shares {
        [Some(cpu), Some(memory)] => ((cpu - memory) / 2.0).abs(),
        _ => 0.0,
    };
    ((1.0 - deviation) * MAX as f64) as i64
}

/// TaintToleration, raw: the `PreferNoSchedule` taints that the pod does not tolerate.
pub fn untolerated_preferences(taints: &[Taint], spec: &PodSpec, symbols: &Symbols) -> i64 {
    let is_tolerated = |taint: &Taint| spec.tolerations.iter().any(|toleration| toleration.tolerates(taint, symbols));
    let preferences = taints.iter().filter(|taint| taint.effect == berth_model::Effect::PreferNoSchedule);
    i64::try_from(preferences.filter(|taint| !is_tolerated(taint)).count()).unwrap_or(i64::MAX)
}

/// NodeAffinity, raw: the weights of the preferred terms that the node meets.
pub fn preferred_terms(cluster: &berth_model::Cluster, node: &Node, spec: &PodSpec) -> i64 {
    let meets = |term: &Requirements| matches_any(cluster, node, std::slice::from_ref(term));
    spec.preferred_terms.iter().filter(|(_, term)| meets(term)).map(|(weight, _)| i64::from(*weight)).sum()
}

const MIB: i64 = 1024 * 1024;
/// Images that weigh no more than this together make no difference, in bytes.
pub const LEAST_IMAGES: i64 = 23 * MIB;
/// What the image of a container counts for at most, in bytes.
const MOST_EACH_IMAGE: i64 = 1000 * MIB;

/// ImageLocality: how much of the pod's images is on the node; an image counts by the share of `n_nodes` that have it.
/// `known` tells its size in bytes and how many do.
pub fn image_locality(
    node: &Node,
    spec: &PodSpec,
    n_nodes: usize,
    known: impl Fn(berth_model::Sym) -> (i64, usize),
) -> i64 {
    if spec.images.containers == 0 || n_nodes == 0 {
        return 0;
    }
    let size = |&name: &berth_model::Sym| {
        node.images.binary_search_by_key(&name, |(known, _)| *known).ok()?;
        Some(image_weight(known(name), n_nodes))
    };
    let sum: i64 = spec.images.names.iter().filter_map(size).sum();
    let most = MOST_EACH_IMAGE * i64::from(spec.images.containers);
    MAX * (sum.clamp(LEAST_IMAGES, most.max(LEAST_IMAGES)) - LEAST_IMAGES) / (most - LEAST_IMAGES).max(1)
}

/// What an image weighs on a node that has it: its size, by the share of `n_nodes` that have it, too.
#[expect(clippy::cast_precision_loss, clippy::cast_possible_truncation, reason = "kube-scheduler's own arithmetic")]
pub fn image_weight((size, nodes): (i64, usize), n_nodes: usize) -> i64 {
    (size as f64 * (nodes as f64 / n_nodes as f64)) as i64
}

/// kube-scheduler's DefaultNormalizeScore: raw scores from 0 on to 0 … 100 of the largest; `reverse` where less is better.
pub fn normalize(raw: i64, largest: i64, reverse: bool) -> i64 {
    if largest == 0 {
        return if reverse { MAX } else { 0 };
    }
    let share = MAX * raw / largest;
    if reverse { MAX - share } else { share }
}

/// InterPodAffinity: raw scores between `least` and `most` to 0 … 100.
#[expect(clippy::cast_precision_loss, clippy::cast_possible_truncation, reason = "kube-scheduler's own arithmetic")]
pub fn normalize_affinity(raw: i64, least: i64, most: i64) -> i64 {
    if most <= least {
        return 0;
    }
    (MAX as f64 * ((raw - least) as f64 / (most - least) as f64)) as i64
}

/// PodTopologySpread: the weight of a constraint whose key has so many domains among the feasible nodes.
#[expect(clippy::cast_precision_loss, reason = "kube-scheduler's own arithmetic")]
pub fn spread_weight(domains: u64) -> f64 {
    libm::log((domains + 2) as f64)
}

/// PodTopologySpread: what a constraint adds to a node's raw score for so many pods in its domain.
pub fn spread_cost(pods: u32, max_skew: u32, weight: f64) -> f64 {
    f64::from(pods) * weight + f64::from(max_skew.saturating_sub(1))
}

/// PodTopologySpread, normalised: fewer is better. `None` is a node without one of the keys.
pub fn normalize_spread(raw: Option<i64>, least: i64, most: i64) -> i64 {
    match raw {
        None => 0,
        Some(_) if most == 0 => MAX,
        Some(raw) => MAX * (most + least - raw) / most,
    }
}
