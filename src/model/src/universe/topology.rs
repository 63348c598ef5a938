//! Counters of pods per domain, and the constraints that read them.
//!
//! Every topology rule of Kubernetes becomes one of three constraints on a counter. A required anti-affinity has two
//! counters: one of the pods that its selector matches, which its owners must stay apart from, and one of its
//! owners, which the matched pods must stay apart from (kube-scheduler's "existing pods' anti-affinity").

use crate::{Requirements, Sym, Toleration};

/// An index into [`crate::Universe::counters`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CounterId(pub u32);

impl CounterId {
    /// As an index.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// An index into [`crate::Universe::filters`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FilterId(pub u32);

impl FilterId {
    /// By index.
    pub fn new(index: usize) -> Self {
        debug_assert!(u32::try_from(index).is_ok(), "more node filters than ids");
        FilterId(u32::try_from(index).unwrap_or(u32::MAX))
    }

    /// As an index.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// Which selector of pods, within namespaces, of those that a universe knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SelectorId(pub(super) u32);

/// Which nodes a spread constraint looks at (`nodeAffinityPolicy`, `nodeTaintsPolicy`).
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeFilter {
    /// What a node's labels must satisfy.
    pub node_selector: Requirements,
    /// One of these must hold, where there are any.
    pub required_terms: Vec<Requirements>,
    /// Set where taints count: the tolerations of the pod.
    pub tolerations: Option<Vec<Toleration>>,
    /// Labels that a node must have, ascending: the keys of all constraints of the pod, where there are several.
    pub keys: Vec<Sym>,
    /// Where the volumes of the pod can be: of each of these, one alternative must hold. It limits the domains that nodes are launched
    /// in for it, as Karpenter's volume topology does; nodes that exist count wherever they are, as for kube-scheduler.
    pub places: Vec<Vec<Requirements>>,
}

/// Pods per domain of a topology key.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Counter {
    /// The label that makes domains of nodes.
    pub key: Sym,
    /// Whose pods it counts.
    pub selector: SelectorId,
    /// Whether it counts the owners of a term rather than the pods that its selector matches.
    pub counts_owners: bool,
    /// Set on counters of owners that scores read: the weight with which an owner draws the matched pods to its domain,
    /// negative where it keeps them away. 0 on counters that constraints read.
    pub pull: i32,
    /// Whether pods that are being deleted do not count, as in topology spread.
    pub skips_terminating: bool,
    /// Set on counters that only scores of default spreading read: no node is kept from anybody by them, nor launched.
    pub scores_only: bool,
    /// Pods on other nodes do not count, and domains without such a node do not exist. `None` is every node.
    pub filter: Option<FilterId>,
}

/// A constraint of a class on where its pods may go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Constraint {
    /// Topology spread: the count of the domain, with the pod, may exceed the least count by at most `max_skew`.
    Spread {
        /// What is counted.
        counter: CounterId,
        /// At most so much above the least domain.
        max_skew: u32,
        /// With fewer domains than this, the least count is 0.
        min_domains: Option<u32>,
        /// Whether the pod itself counts.
        counts_self: bool,
    },
    /// Affinity: the domain's count must not be 0, unless no domain has any and the pod itself counts.
    Affinity {
        /// What is counted.
        counter: CounterId,
        /// Whether the pod itself counts.
        counts_self: bool,
    },
    /// Anti-affinity, either way: the domain's count must be 0.
    AntiAffinity {
        /// What is counted.
        counter: CounterId,
        /// Whether the pod itself counts.
        counts_self: bool,
    },
}

impl Constraint {
    /// The counter that it reads.
    pub fn counter(&self) -> CounterId {
        match *self {
            Constraint::Spread { counter, .. }
            | Constraint::Affinity { counter, .. }
            | Constraint::AntiAffinity { counter, .. } => counter,
        }
    }
}
