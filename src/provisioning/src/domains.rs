//! The domains that topology constraints look at.

use std::rc::Rc;

use berth_model::{ColumnId, ColumnTable, Constraint, CounterId, FilterId, PoolId, Sym};
use berth_scheduling::topology::Domains;
use berth_scheduling::{Passage, filter_admits_node, launch_passages};
use rustc_hash::FxHashSet;

use crate::launch_domains::values;
use crate::ledger::{Chosen, Ledger};
use crate::tables::Tables;
use crate::world::World;

/// The domains that were asked for. Those that pods chose are among them, so they are forgotten with [`Ledger::chosen`]; the
/// rest follows from the cluster and the options alone.
#[derive(Debug)]
pub(crate) struct KnownDomains {
    /// By counter: the domains that its nodes may have, in order of name.
    by_counter: Vec<Option<Rc<[Sym]>>>,
}

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

impl Ledger {
    /// Forgets the domains that only nodes of this plan have.
    pub(crate) fn forget_domains(&mut self, domains: &mut KnownDomains) {
        if !self.chosen.is_empty() || !self.beyond.is_empty() || self.counts_domains_left {
            self.chosen.clear();
            self.beyond.clear();
            self.counts_domains_left = false;
            domains.forget();
        }
    }

    /// Notes the domains that planned nodes have and no NodePool names. Whether some were not known yet.
    pub(crate) fn note_chosen(&mut self, tables: &Tables<'_>) -> bool {
        let mut keys: Vec<Sym> = tables.universe.counters.iter().map(|counter| counter.key).collect();
        keys.sort_unstable();
        keys.dedup();
        let before = self.chosen.len();
        for bin in self.state.bins().iter().filter(|bin| bin.nodes > 0) {
            for &key in &keys {
                let value = bin.domain(key).or_else(|| bin.open.get(key)?.single());
                let is_free = |table: &ColumnTable| {
                    table.open.get(key).is_some_and(|requirement| requirement.finite_values().is_none())
                };
                let Some(value) = value.filter(|_| is_free(tables.table(bin.pool))) else { continue };
                let chosen = Chosen { pool: bin.pool, key, value };
                if !self.chosen.contains(&chosen) {
                    self.chosen.push(chosen);
                }
            }
        }
        self.chosen.len() > before
    }
}

impl World<'_> {
    /// The counters of spreads for which nodes of this plan may make a domain count that was not counted: where volumes of the
    /// pods cannot be, and once domains count only where a node may still come.
    pub(crate) fn domain_counters(self) -> Vec<CounterId> {
        if !self.ledger.counts_domains_left {
            return self.tables.volume_counters.clone();
        }
        let constraints = self.tables.pending().flat_map(|(_, class)| &class.required);
        let spreads =
            constraints.filter(|one| matches!(one, Constraint::Spread { .. }) && !self.tables.is_over_hosts(one));
        let mut counters: Vec<CounterId> = spreads.map(Constraint::counter).collect();
        counters.sort_unstable();
        counters.dedup();
        counters
    }

    /// Domains that nodes of this plan make count and that are not counted yet: see [`Ledger::beyond`].
    pub(crate) fn uncounted(self, domains: &mut KnownDomains) -> Vec<(CounterId, Sym)> {
        let mut found = Vec::new();
        for counter in self.domain_counters() {
            let Some(key) = self.tables.universe.counter(counter).map(|counter| counter.key) else { continue };
            let known = domains.of(self, counter);
            for value in self.planned_domains(counter, key).filter(|value| !known.contains(value)) {
                if !found.contains(&(counter, value)) {
                    found.push((counter, value));
                }
            }
        }
        found
    }

    // The domains of the planned nodes that a counter looks at.
    fn planned_domains(self, counter: CounterId, key: Sym) -> impl Iterator<Item = Sym> {
        self.ledger.state.bins().iter().filter(|bin| bin.nodes > 0).filter_map(move |bin| {
            let table = self.tables.table(bin.pool);
            let value = bin.domain(key).or_else(|| self.tables.value_on(table, &bin.open, bin.planned, key));
            value.filter(|_| self.tables.counts_on(bin, counter))
        })
    }

    /// Whether one more node of a column may be launched beside those that are planned.
    pub(crate) fn is_left(self, pool: PoolId, at: ColumnId) -> bool {
        let slots = self.tables.table(pool).column(at).slots;
        slots.is_none_or(|slot| self.ledger.state.free_slots(slot) > 0)
            && (!self.tables.is_limited(pool) || self.allowance(pool, at, None) > 0)
    }
}

// === impl KnownDomains ===

impl KnownDomains {
    /// None is known yet.
    pub(crate) fn new(n_counters: usize) -> Self {
        KnownDomains { by_counter: vec![None; n_counters] }
    }

    /// Pods have chosen others.
    pub(crate) fn forget(&mut self) {
        self.by_counter.fill(None);
    }

    /// The domains that nodes of a counter's filter may have: those of existing nodes and of what pools may launch.
    pub(crate) fn of(&mut self, world: World<'_>, counter: CounterId) -> Rc<[Sym]> {
        if let Some(Some(known)) = self.by_counter.get(counter.index()) {
            return Rc::clone(known);
        }
        let Some(definition) = world.tables.universe.counter(counter) else { return Rc::from([]) };
        let filter = definition.filter;
        let mut found: Vec<Sym> = Vec::new();
        for node in &world.tables.cluster.nodes {
            let admits = filter.and_then(|filter| world.tables.universe.filter(filter));
            if admits.is_none_or(|filter| filter_admits_node(world.tables.cluster, node, filter)) {
                found.extend(node.labels.get(definition.key));
            }
        }
        let filters = world.tables.launch_filters.get(counter.index()).map_or(&[][..], Vec::as_slice);
        for (id, table) in world.tables.by_pool() {
            let Some(pool) = world.tables.definition(id) else { continue };
            if pool.refusal.is_some() {
                continue;
            }
            let of_filter = |filter: FilterId| {
                world.tables.passages.get(filter.index()).and_then(|of_pools| of_pools.get(id.index()))
            };
            let passages = filter.and_then(of_filter);
            let is_left = |at: ColumnId| !world.ledger.counts_domains_left || world.is_left(id, at);
            if filters.is_empty() {
                found.extend(values(world.tables.cluster, (pool, table), definition.key, None, is_left));
            }
            for &of in filters {
                let filter = world.tables.universe.filter(of).filter(|filter| !filter.places.is_empty());
                let own = filter.map(|filter| launch_passages(world.tables.cluster, pool, table, filter));
                let ways = own.as_ref().or_else(|| of_filter(of));
                let ways = ways.map(Vec::as_slice);
                found.extend(values(world.tables.cluster, (pool, table), definition.key, ways, is_left));
            }
            let is_chosen = |&&Chosen { pool, key, value }: &&Chosen| {
                let passes =
                    |way: &Passage| way.open.get(key).is_none_or(|r| r.has(value, &world.tables.cluster.symbols));
                (pool, key) == (id, definition.key) && passages.is_none_or(|ways| ways.iter().any(passes))
            };
            found.extend(world.ledger.chosen.iter().filter(is_chosen).map(|chosen| chosen.value));
        }
        if world.ledger.counts_domains_left {
            found.extend(world.planned_domains(counter, definition.key));
        }
        let beyond = world.ledger.beyond.iter().filter(|(of, _)| *of == counter);
        found.extend(beyond.map(|(_, value)| *value));
        found.sort_by_key(|&sym| world.tables.cluster.symbols.text(sym));
        found.dedup();
        let domains: Rc<[Sym]> = Rc::from(found);
        if let Some(slot) = self.by_counter.get_mut(counter.index()) {
            *slot = Some(Rc::clone(&domains));
        }
        domains
    }

    /// The domains of these names, with the pods that constraints count there.
    pub(crate) fn loads(&mut self, world: World<'_>, names: Vec<Sym>, constraints: &[Constraint]) -> Domains {
        let eligible: Vec<(CounterId, FxHashSet<Sym>)> =
            constraints.iter().map(|c| (c.counter(), self.of(world, c.counter()).iter().copied().collect())).collect();
        Domains::new(&world.ledger.state, names, constraints, |counter, name| {
            eligible.iter().any(|(known, names)| *known == counter && names.contains(&name))
        })
    }

    /// Every domain of a key that the constraints look at, by name.
    pub(crate) fn names(&mut self, world: World<'_>, constraints: &[Constraint]) -> Vec<Sym> {
        let mut names: Vec<Sym> = Vec::new();
        for constraint in constraints {
            names.extend(self.of(world, constraint.counter()).iter());
            names.extend(world.ledger.state.domains(constraint.counter()).map(|(name, _)| name));
        }
        names.sort_by_key(|&name| world.tables.cluster.symbols.text(name));
        names.dedup();
        names
    }
}
