//! The domains of topology keys that nodes make.

use std::sync::Arc;

use berth_model::{Cluster, Counter, FilterId, Labels, Node, Sym};
use rustc_hash::FxHashMap;

/// How many nodes are in each domain of a key, by node filter.
#[derive(Clone, Debug, Default)]
pub(super) struct DomainSizes {
    sizes: FxHashMap<(Option<FilterId>, Sym), Sizes>,
    /// By key.
    ids: FxHashMap<Sym, Arc<Domains>>,
}

/// The domains of a key by number, which they keep for good.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Domains(FxHashMap<Sym, u32>);

#[derive(Clone, Debug, Default)]
struct Sizes {
    nodes: FxHashMap<Sym, u32>,
    /// Whether a counter has both filter and key; else only who lists the domains of a key asks.
    is_counted: bool,
}

// === impl Domains ===

impl Domains {
    /// The number of a domain.
    pub(super) fn id(&self, name: Sym) -> Option<u32> {
        self.0.get(&name).copied()
    }

    /// How many domains have a number.
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }
}

// === impl DomainSizes ===

impl DomainSizes {
    /// The domains that counters are about. `admits` tells whether a filter admits a node.
    pub(super) fn new(cluster: &Cluster, counters: &[Counter], admits: impl Fn(FilterId, usize) -> bool) -> Self {
        let mut domains = DomainSizes::default();
        domains.extend(cluster, counters, admits);
        domains
    }

    /// The same with more counters.
    pub(super) fn extend(&mut self, cluster: &Cluster, counters: &[Counter], admits: impl Fn(FilterId, usize) -> bool) {
        let hostname = cluster.well_known.hostname;
        for counter in counters.iter().filter(|counter| counter.key != hostname) {
            for filter in [None, counter.filter] {
                let sizes = self.sizes.entry((filter, counter.key)).or_insert_with(|| {
                    let is_in = |at: usize| filter.is_none_or(|filter| admits(filter, at));
                    let nodes = cluster.nodes.iter().enumerate().filter(|(at, _)| is_in(*at));
                    let mut sizes = Sizes::default();
                    for name in nodes.filter_map(|(_, node)| node.labels.get(counter.key)) {
                        *sizes.nodes.entry(name).or_default() += 1;
                        number(&mut self.ids, counter.key, name);
                    }
                    sizes
                });
                sizes.is_counted |= filter == counter.filter && !counter.scores_only;
            }
        }
    }

    /// Gives domains of a key their numbers in which there is no node yet.
    pub(super) fn number(&mut self, key: Sym, names: impl IntoIterator<Item = Sym>) {
        for name in names {
            number(&mut self.ids, key, name);
        }
    }

    /// The domains of a key by number.
    pub(super) fn numbered(&self, key: Sym) -> Arc<Domains> {
        self.ids.get(&key).cloned().unwrap_or_default()
    }

    /// The domains of a key that have a node which a filter admits.
    pub(super) fn names(&self, filter: Option<FilterId>, key: Sym) -> impl Iterator<Item = Sym> + '_ {
        let sizes = self.sizes.get(&(filter, key));
        sizes.into_iter().flat_map(|sizes| sizes.nodes.keys().copied())
    }

    /// A node with these labels came, or went.
    pub(super) fn count(&mut self, labels: &Labels, admits: impl Fn(FilterId) -> bool, comes: bool) {
        for ((filter, key), sizes) in &mut self.sizes {
            let Some(name) = labels.get(*key).filter(|_| filter.is_none_or(&admits)) else { continue };
            let nodes = sizes.nodes.entry(name).or_default();
            *nodes = if comes { nodes.saturating_add(1) } else { nodes.saturating_sub(1) };
            if *nodes == 0 {
                sizes.nodes.remove(&name);
            } else if comes {
                number(&mut self.ids, *key, name);
            }
        }
    }

    /// Whether a domain that counters are about has no other node.
    pub(super) fn is_alone(&self, node: &Node, admits: impl Fn(FilterId) -> bool) -> bool {
        let counted = self.sizes.iter().filter(|(_, sizes)| sizes.is_counted);
        counted.into_iter().any(|((filter, key), sizes)| {
            let size = node.labels.get(*key).and_then(|name| sizes.nodes.get(&name));
            filter.is_none_or(&admits) && size.is_some_and(|size| *size < 2)
        })
    }
}

fn number(ids: &mut FxHashMap<Sym, Arc<Domains>>, key: Sym, name: Sym) {
    let domains = ids.entry(key).or_default();
    if domains.id(name).is_none() {
        let next = u32::try_from(domains.len()).unwrap_or(u32::MAX);
        Arc::make_mut(domains).0.insert(name, next);
    }
}
