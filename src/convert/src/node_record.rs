//! What is known of a node or a NodeClaim, before pods are counted.

use berth_api::labels;
use berth_model::{Cluster, Cordon, Effect, Labels, Requirements, Resources, SlotId, Sym, Symbols, Taint};

use crate::node_reservation::Kept;

/// Taints that a node carries only until it is initialized, as Karpenter's KnownEphemeralTaints.
const EPHEMERAL_TAINTS: [(&str, Effect); 5] = [
    ("node.kubernetes.io/not-ready", Effect::NoSchedule),
    ("node.kubernetes.io/not-ready", Effect::NoExecute),
    ("node.kubernetes.io/unreachable", Effect::NoSchedule),
    ("node.cloudprovider.kubernetes.io/uninitialized", Effect::NoSchedule),
    (labels::UNREGISTERED_TAINT, Effect::NoExecute),
];

/// A node, or a NodeClaim in flight, before pods are counted.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct NodeRecord {
    pub(crate) name: Sym,
    pub(crate) labels: Vec<(Sym, Sym)>,
    /// What is still open of other labels.
    pub(crate) open: Requirements,
    pub(crate) taints: Vec<Taint>,
    pub(crate) allocatable: Resources,
    pub(crate) capacity: Resources,
    /// What it keeps from pods.
    pub(crate) kept: Kept,
    pub(crate) provider_id: Option<Sym>,
    pub(crate) is_deleting: bool,
    pub(crate) cordon: Cordon,
    /// With their size in bytes, ascending by name.
    pub(crate) images: Vec<(Sym, i64)>,
}

/// A NodeClaim.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct NodeClaimRecord {
    /// The node that it would be, if there is none yet.
    pub(crate) node: NodeRecord,
    pub(crate) startup_taints: Vec<Taint>,
    pub(crate) node_name: Option<Sym>,
    pub(crate) is_launched: bool,
    /// What it asks for.
    pub(crate) asked: Asked,
}

/// What a NodeClaim asks for.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Asked {
    /// Its labels, its requirements, and the planned offering.
    pub(crate) requirements: Requirements,
    /// The least that the node must have.
    pub(crate) requests: Resources,
    /// Supplies of which the count leaves out its instance already.
    pub(crate) counted: Vec<SlotId>,
}

// === impl NodeRecord ===

impl NodeRecord {
    /// The value of a label.
    pub(crate) fn label(&self, key: Sym) -> Option<Sym> {
        self.labels.iter().rev().find(|(known, _)| *known == key).map(|(_, value)| *value)
    }

    /// Whether Karpenter or Berth made the node and it is still coming up.
    pub(crate) fn is_coming_up(&self, symbols: &mut Symbols) -> bool {
        let (pool, initialized) = (symbols.intern(labels::NODEPOOL), symbols.intern(labels::INITIALIZED));
        let is_initialized = self.label(initialized).is_some_and(|value| symbols.text(value) == "true");
        self.label(pool).is_some() && !is_initialized
    }

    /// The taints that will be left once the node is up.
    pub(crate) fn lasting_taints(&self, startup: &[Taint], symbols: &Symbols) -> Vec<Taint> {
        let is_ephemeral = |taint: &Taint| {
            EPHEMERAL_TAINTS.iter().any(|(key, effect)| *effect == taint.effect && symbols.text(taint.key) == *key)
        };
        let is_startup =
            |taint: &Taint| startup.iter().any(|known| known.key == taint.key && known.effect == taint.effect);
        // A cordon is nobody's startup taint.
        let cordon = self.taints.last().filter(|_| self.cordon == Cordon::Untainted);
        let own = self.taints.iter().take(self.taints.len() - usize::from(cordon.is_some()));
        own.filter(|taint| !is_ephemeral(taint) && !is_startup(taint)).chain(cordon).cloned().collect()
    }

    /// The labels with the host name and the field that node affinity can match.
    pub(crate) fn all_labels(&self, cluster: &Cluster) -> Labels {
        let known = &cluster.well_known;
        let hostname = self.label(known.hostname).unwrap_or(self.name);
        let own = [(known.hostname, hostname), (known.field_name, self.name)];
        Labels::new(self.labels.iter().copied().chain(own))
    }
}
