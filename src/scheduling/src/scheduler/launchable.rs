//! What could be launched beside the nodes that exist.

use std::sync::Arc;

use berth_model::{CounterId, Resources, Sym};
use rustc_hash::FxHashMap;

use super::domains::DomainSizes;

/// What could be launched beside the nodes that exist: domains without a node count for spreads, too.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Launchable {
    /// By spread counter: domains in which nodes could be launched.
    pub domains: FxHashMap<CounterId, Vec<Sym>>,
    /// The keys of those counters.
    pub keys: FxHashMap<CounterId, Sym>,
    /// By spread counter over nodes: the nodes that could be launched and that it looks at.
    pub hosts: FxHashMap<CounterId, Arc<[EmptyHost]>>,
}

/// A node that could be launched: one without any pod, for pods that may come to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EmptyHost {
    /// Its NodePool, by index.
    pub node_pool: usize,
    /// What it has for pods.
    pub room: Resources,
    /// Its domains, by topology key, where the offering decides them.
    pub domains: Vec<(Sym, Sym)>,
}

impl Launchable {
    /// Whether it says the same of the first counters.
    pub(super) fn is_same_of_first(&self, n_counters: usize, before: &Launchable) -> bool {
        (0..n_counters).filter_map(|at| Some(CounterId(u32::try_from(at).ok()?))).all(|counter| {
            self.domains.get(&counter) == before.domains.get(&counter)
                && self.hosts.get(&counter) == before.hosts.get(&counter)
        })
    }

    /// Gives the domains their numbers in which there is no node yet.
    pub(super) fn number(&self, sizes: &mut DomainSizes) {
        for (counter, key) in &self.keys {
            sizes.number(*key, self.domains.get(counter).into_iter().flatten().copied());
        }
    }
}
