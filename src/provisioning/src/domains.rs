//! The domains that topology constraints look at.

use std::collections::BTreeMap;
use std::rc::Rc;

use berth_model::{Cluster, ColumnTable, Counter, CounterId, NodeFilter, NodePool, Sym, Universe};
use berth_scheduling::{Passage, filter_admits_node, launch_passages};
use fixedbitset::FixedBitSet;

use crate::limits::is_within_limits;
use crate::planner::Planner;
use crate::tables::Tables;

/// Packings at most until the domains that pods chose are those that spreads counted with.
const ROUNDS: usize = 4;

impl Tables<'_> {
    /// Whether there are counters on a label whose values no NodePool names.
    pub(crate) fn has_open_domains(&self) -> bool {
        let is_open = |key: Sym| {
            let mut asked = self.columns.iter().filter_map(|table| table.open.get(key));
            asked.any(|requirement| requirement.finite_values().is_none())
        };
        self.universe.counters.iter().any(|counter| is_open(counter.key))
    }
}

impl Planner<'_> {
    /// Packs; where pods chose a value that no NodePool names (`NotIn`, `Exists`, bounds), their nodes are a domain
    /// that earlier pods should have been spread over: packs again, knowing it.
    pub(crate) fn pack_over_domains(&mut self) {
        self.forget_chosen();
        if !self.tables.has_open_domains() {
            self.pack_once();
            return;
        }
        for round in 1..=ROUNDS {
            let mark = self.ledger.state.mark();
            self.pack_once();
            let is_settled = !self.note_chosen();
            if !is_settled && round < ROUNDS {
                self.ledger.state.rollback(mark);
            }
            self.ledger.state.forget(mark);
            if is_settled {
                return;
            }
        }
    }

    fn forget_chosen(&mut self) {
        if !self.ledger.chosen.is_empty() {
            self.ledger.chosen.clear();
            self.caches.domains.fill(None);
        }
    }

    // Whether some planned node has a domain that was not known yet.
    fn note_chosen(&mut self) -> bool {
        let mut keys: Vec<Sym> = self.tables.universe.counters.iter().map(|counter| counter.key).collect();
        keys.sort_unstable();
        keys.dedup();
        let before = self.ledger.chosen.len();
        for bin in self.ledger.state.bins().iter().filter(|bin| bin.nodes > 0) {
            for &key in &keys {
                let value = bin.domain(key).or_else(|| bin.open.get(key)?.single());
                let is_free = |table: &ColumnTable| {
                    table.open.get(key).is_some_and(|requirement| requirement.finite_values().is_none())
                };
                if let Some(value) = value.filter(|_| self.tables.columns.get(bin.pool).is_some_and(is_free))
                    && !self.ledger.chosen.contains(&(bin.pool, key, value))
                {
                    self.ledger.chosen.push((bin.pool, key, value));
                }
            }
        }
        self.caches.domains.fill(None);
        self.ledger.chosen.len() > before
    }

    /// The domains that nodes of a counter's filter may have: those of existing nodes and of what pools may launch.
    pub(crate) fn domains(&mut self, counter: CounterId) -> Rc<[Sym]> {
        if let Some(Some(known)) = self.caches.domains.get(counter.index()) {
            return Rc::clone(known);
        }
        let Some(definition) = self.tables.universe.counter(counter) else { return Rc::from([]) };
        let filter = definition.filter;
        let mut found: Vec<Sym> = Vec::new();
        for node in &self.tables.cluster.nodes {
            let admits = filter.and_then(|filter| self.tables.universe.filters.get(filter as usize));
            if admits.is_none_or(|filter| filter_admits_node(self.tables.cluster, node, filter)) {
                found.extend(node.labels.get(definition.key));
            }
        }
        let filters = self.tables.launch_filters.get(counter.index()).map_or(&[][..], Vec::as_slice);
        for (index, (pool, table)) in self.tables.cluster.node_pools.iter().zip(&*self.tables.columns).enumerate() {
            if pool.refusal.is_some() {
                continue;
            }
            let of_filter = |id: u32| self.tables.passages.get(id as usize).and_then(|of_pools| of_pools.get(index));
            let passages = filter.and_then(of_filter);
            if filters.is_empty() {
                found.extend(values(self.tables.cluster, (pool, table), definition.key, None));
            }
            for &id in filters {
                let filter = self.tables.universe.filters.get(id as usize).filter(|filter| !filter.places.is_empty());
                let own = filter.map(|filter| launch_passages(self.tables.cluster, pool, table, filter));
                let ways = own.as_ref().or_else(|| of_filter(id));
                found.extend(values(self.tables.cluster, (pool, table), definition.key, ways.map(Vec::as_slice)));
            }
            let is_chosen = |&(pool, key, value): &(usize, Sym, Sym)| {
                let passes =
                    |way: &Passage| way.open.get(key).is_none_or(|r| r.has(value, &self.tables.cluster.symbols));
                (pool, key) == (index, definition.key) && passages.is_none_or(|ways| ways.iter().any(passes))
            };
            found.extend(self.ledger.chosen.iter().filter(|chosen| is_chosen(chosen)).map(|(_, _, value)| *value));
        }
        found.sort_by_key(|&sym| self.tables.cluster.symbols.text(sym));
        found.dedup();
        let domains: Rc<[Sym]> = Rc::from(found);
        if let Some(slot) = self.caches.domains.get_mut(counter.index()) {
            *slot = Some(Rc::clone(&domains));
        }
        domains
    }
}

/// By counter: the filters of nodes in whose domains pods are spread, by index; none for all nodes. Beside its own these are those of
/// pods that it counts and that differ in where their volumes can be: a domain that one of them may be launched in is one for all.
pub(crate) fn launch_filters(universe: &Universe) -> Vec<Vec<u32>> {
    let with_volumes = |counter: &Counter| {
        let id = counter.filter?;
        let filter = universe.filters.get(id as usize).filter(|filter| !filter.places.is_empty())?;
        let NodeFilter { node_selector, required_terms, tolerations, keys, places: _ } = filter;
        Some((id, (counter.key, counter.selector, node_selector, required_terms, tolerations, keys)))
    };
    let mut alike: BTreeMap<_, Vec<u32>> = BTreeMap::new();
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

/// The values of a label that nodes of a table have which pass a filter and could be launched.
pub(crate) fn values<'a>(
    cluster: &'a Cluster,
    (pool, table): (&'a NodePool, &'a ColumnTable),
    key: Sym,
    passages: Option<&'a [Passage]>,
) -> impl Iterator<Item = Sym> {
    let is_live = move |at: usize| is_live(cluster, (pool, table), at, passages);
    let has_live = move |columns: &FixedBitSet| columns.ones().any(is_live);
    let decided = table.values(key).iter().filter(move |(_, columns)| has_live(columns)).map(|(value, _)| *value);
    // A pool that nothing may be launched from is in no domain at all.
    let is_open = move || (0..table.columns.len()).any(is_live);
    let open = table.open.get(key).and_then(|requirement| requirement.finite_values()).filter(|_| is_open());
    decided.chain(open.into_iter().flatten().copied())
}

/// Whether there is an instance of a column, the limits of its pool hold one more, and it passes a filter.
pub(crate) fn is_live(
    cluster: &Cluster,
    (pool, table): (&NodePool, &ColumnTable),
    at: usize,
    passages: Option<&[Passage]>,
) -> bool {
    let slots = table.columns.get(at).and_then(|column| column.slots);
    passages.is_none_or(|ways| ways.iter().any(|way| way.columns.contains(at)))
        && slots.is_none_or(|slot| cluster.slots.get(slot.index()).is_some_and(|slots| slots.free > 0))
        && is_within_limits(cluster, (pool, table), at)
}
