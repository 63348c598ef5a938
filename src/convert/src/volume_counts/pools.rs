//! Volumes that name their nodes: pools that these have.

use std::collections::{BTreeMap, BTreeSet};

use berth_model::{Cluster, Requirements, Sym};
use rustc_hash::FxHashMap;

use super::{Asked, Change, Pod};

/// Questions above which a claim is counted in no other pool than its own.
const MOST_NESTED: usize = 64;

/// Nodes have pools of the scarce volumes that name them, one for each question. A claim counts in that of its own question and in
/// those of all who could take its volumes, too: where questions are for sizes, each finds a volume exactly if no pool is
/// overdrawn.
pub(super) fn keep_in_pools(asked: &[Asked], pods: &[Pod], changes: &mut [Change], cluster: &mut Cluster) {
    let all: Vec<BTreeSet<Sym>> = asked
        .iter()
        .map(|asked| {
            let volumes = asked.free.by_place.values().flatten().filter(|_| asked.is_pooled());
            volumes.copied().collect()
        })
        .collect();
    let n_nested = asked.iter().filter(|asked| asked.is_pooled()).count();
    let mut names: Vec<Option<Sym>> = Vec::with_capacity(asked.len());
    for (at, asked) in asked.iter().enumerate() {
        let class = cluster.symbols.text(asked.class).to_owned();
        names
            .push(asked.is_pooled().then(|| cluster.symbols.intern(&format!("volumes of class {class:?}, pool {at}"))));
    }
    let pools_of = |at: usize| -> Vec<Sym> {
        let (Some(own), Some(volumes)) = (names.get(at).copied().flatten(), all.get(at)) else { return Vec::new() };
        if n_nested > MOST_NESTED {
            return vec![own];
        }
        let takes = |(name, others): (&Option<Sym>, &BTreeSet<Sym>)| name.filter(|_| volumes.is_subset(others));
        names.iter().zip(&all).filter_map(takes).collect()
    };
    let pools: Vec<Vec<Sym>> = (0..asked.len()).map(pools_of).collect();
    for (pod, change) in pods.iter().zip(changes) {
        let mut kept: BTreeMap<Sym, u32> = BTreeMap::new();
        let pools = pod.wants.iter().filter_map(|at| pools.get(*at)).flatten();
        pools.for_each(|pool| *kept.entry(*pool).or_default() += 1);
        change.kept = kept.into_iter().collect();
    }
    let by_own_name = NodesByName::of(cluster);
    for (asked, name) in asked.iter().zip(names).filter_map(|(asked, name)| Some((asked, name?))) {
        let mut counts: BTreeMap<usize, u32> = BTreeMap::new();
        for (place, volumes) in &asked.free.by_place {
            let count = u32::try_from(volumes.len()).unwrap_or(u32::MAX);
            for node in by_own_name.reached(place, cluster) {
                let sum = counts.entry(node).or_default();
                *sum = sum.saturating_add(count);
            }
        }
        for (node, count) in counts {
            cluster.nodes.get_mut(node).into_iter().for_each(|node| node.volume_pools.push((name, count)));
        }
    }
}

/// Nodes by the labels that are their own.
struct NodesByName(FxHashMap<(Sym, Sym), Vec<usize>>);

impl NodesByName {
    fn of(cluster: &Cluster) -> Self {
        let own = [cluster.well_known.hostname, cluster.well_known.field_name];
        let mut by_name: FxHashMap<(Sym, Sym), Vec<usize>> = FxHashMap::default();
        for (at, node) in cluster.nodes.iter().enumerate() {
            for (key, value) in own.iter().filter_map(|key| Some((*key, node.labels.get(*key)?))) {
                by_name.entry((key, value)).or_default().push(at);
            }
        }
        NodesByName(by_name)
    }

    /// The nodes of a place whose alternatives each name nodes.
    fn reached(&self, place: &[Requirements], cluster: &Cluster) -> BTreeSet<usize> {
        let mut reached = BTreeSet::new();
        for term in place {
            let named = term.iter().flat_map(|(key, asked)| {
                let values = asked.finite_values().unwrap_or_default();
                values.iter().filter_map(move |value| self.0.get(&(key, *value))).flatten()
            });
            reached.extend(named.copied().filter(|at| {
                let node = cluster.nodes.get(*at);
                node.is_some_and(|node| node.satisfies(term, &cluster.symbols, |key| node.labels.get(key)))
            }));
        }
        reached
    }
}
