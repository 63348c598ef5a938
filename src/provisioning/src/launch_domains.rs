//! The domains that nodes could be launched in.

use std::collections::BTreeMap;

use berth_model::{
    Cluster, ColumnId, ColumnTable, Constraint, Counter, CounterId, FilterId, NodeFilter, NodePool, Sym, Universe,
};
use berth_scheduling::Passage;
use fixedbitset::FixedBitSet;

use crate::pool_limits::is_within_limits;

/// By counter: the filters of nodes in whose domains pods are spread, by index; none for all nodes. Beside its own these are those of
/// pods that it counts and that differ in where their volumes can be: a domain that one of them may be launched in is one for all.
pub(crate) fn launch_filters(universe: &Universe) -> Vec<Vec<FilterId>> {
    let with_volumes = |counter: &Counter| {
        let id = counter.filter?;
        let filter = universe.filter(id).filter(|filter| !filter.places.is_empty())?;
        let NodeFilter { node_selector, required_terms, tolerations, keys, places: _ } = filter;
        Some((id, (counter.key, counter.selector, node_selector, required_terms, tolerations, keys)))
    };
    let mut alike: BTreeMap<_, Vec<FilterId>> = BTreeMap::new();
    for (id, group) in universe.counters.iter().filter_map(with_volumes) {
        alike.entry(group).or_default().push(id);
    }
    for filters in alike.values_mut() {
        filters.sort_unstable();
        filters.dedup();
    }
    let of_counter = |counter: &Counter| match with_volumes(counter) {
        Some((_, group)) => alike.get(&group).cloned().unwrap_or_default(),
        None => counter.filter.into_iter().collect(),
    };
    universe.counters.iter().map(of_counter).collect()
}

/// The counters of spreads that keep pending pods out of domains, but for host names, where volumes limit the domains that nodes are
/// launched in.
pub(crate) fn counters_with_volumes(cluster: &Cluster, universe: &Universe) -> Vec<CounterId> {
    let has_volumes = |id: &CounterId| {
        let counter = universe.counter(*id).filter(|counter| counter.key != cluster.well_known.hostname);
        let filter = counter.and_then(|counter| universe.filters.get(counter.filter?.index()));
        filter.is_some_and(|filter| !filter.places.is_empty())
    };
    let pending = universe.classes.iter().filter(|class| class.count > 0);
    let spreads = pending.flat_map(|class| &class.required).filter(|one| matches!(one, Constraint::Spread { .. }));
    let mut counters: Vec<CounterId> = spreads.map(Constraint::counter).filter(has_volumes).collect();
    counters.sort_unstable();
    counters.dedup();
    counters
}

/// The values of a label that nodes of a table have which pass a filter and could be launched, of columns that are left.
pub(crate) fn values<'a>(
    cluster: &'a Cluster,
    (pool, table): (&'a NodePool, &'a ColumnTable),
    key: Sym,
    passages: Option<&'a [Passage]>,
    is_left: impl Fn(ColumnId) -> bool + Copy + 'a,
) -> impl Iterator<Item = Sym> {
    let is_live = move |at: ColumnId| is_left(at) && is_live(cluster, (pool, table), at, passages);
    let has_live = move |columns: &FixedBitSet| ColumnId::of(columns).any(is_live);
    let decided = table.values(key).iter().filter(move |(_, columns)| has_live(columns)).map(|(value, _)| *value);
    // A pool that nothing may be launched from is in no domain at all.
    let is_open = move || table.with_ids().any(|(at, _)| is_live(at));
    let open = table.open.get(key).and_then(|requirement| requirement.finite_values()).filter(|_| is_open());
    decided.chain(open.into_iter().flatten().copied())
}

/// Whether there is an instance of a column, the limits of its pool hold one more, and it passes a filter.
pub(crate) fn is_live(
    cluster: &Cluster,
    (pool, table): (&NodePool, &ColumnTable),
    at: ColumnId,
    passages: Option<&[Passage]>,
) -> bool {
    let slots = table.column(at).slots;
    passages.is_none_or(|ways| ways.iter().any(|way| way.columns.contains(at.index())))
        && slots.is_none_or(|slot| cluster.slots.get(slot.index()).is_some_and(|slots| slots.free > 0))
        && is_within_limits(cluster, (pool, table), at)
}
