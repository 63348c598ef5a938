//! What could be launched beside the nodes that exist.

use berth_model::{CounterId, Sym};
use rustc_hash::{FxHashMap, FxHashSet};

use super::domains::DomainSizes;

/// What could be launched beside the nodes that exist: domains without a node count for spreads, too.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Launchable {
    /// By spread counter: domains in which nodes could be launched.
    pub domains: FxHashMap<CounterId, Vec<Sym>>,
    /// The keys of those counters.
    pub keys: FxHashMap<CounterId, Sym>,
    /// Spread counters by node of which a node without any pod can always be had.
    pub hosts: FxHashSet<CounterId>,
}

impl Launchable {
    /// Whether it says the same of the first counters.
    pub(super) fn is_same_of_first(&self, n_counters: usize, before: &Launchable) -> bool {
        (0..n_counters).filter_map(|at| Some(CounterId(u32::try_from(at).ok()?))).all(|counter| {
            self.domains.get(&counter) == before.domains.get(&counter)
                && self.hosts.contains(&counter) == before.hosts.contains(&counter)
        })
    }

    /// Gives the domains their numbers in which there is no node yet.
    pub(super) fn number(&self, sizes: &mut DomainSizes) {
        for (counter, key) in &self.keys {
            sizes.number(*key, self.domains.get(counter).into_iter().flatten().copied());
        }
    }
}
