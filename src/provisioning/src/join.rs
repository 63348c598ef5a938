//! Pods join a bin: narrowing it, splitting its group, counting.

use berth_model::{Bin, ColumnTable, CounterId, Requirement, Requirements, Resources, Sym, host_allowance};
use berth_scheduling::{Passage, filter};
use fixedbitset::FixedBitSet;
use smallvec::SmallVec;

use crate::planner::Planner;
use crate::prepared::Scope;
use crate::tables::Tables;

/// What a bin becomes when pods join it.
pub(crate) struct Join {
    columns: FixedBitSet,
    open: Requirements,
    domains: SmallVec<[(Sym, Sym); 2]>,
    used: Resources,
}

impl Tables<'_> {
    /// Narrows a set of columns to those with a label value; `None` if nothing remains.
    pub(crate) fn pin(
        &self,
        table: &ColumnTable,
        columns: &mut FixedBitSet,
        open: &mut Requirements,
        key: Sym,
        value: Sym,
    ) -> Option<()> {
        if table.decides(key) {
            let (_, with_value) = table.values(key).iter().find(|(known, _)| *known == value)?;
            columns.intersect_with(with_value);
            return (!columns.is_clear()).then_some(());
        }
        open.get(key)?;
        open.add(key, Requirement::value(value), &self.cluster.symbols);
        (!open.is_contradiction()).then_some(())
    }

    // The value a node of the planned column would have for a label.
    pub(crate) fn value_on(&self, table: &ColumnTable, open: &Requirements, planned: usize, key: Sym) -> Option<Sym> {
        if table.decides(key) {
            return table.values(key).iter().find(|(_, columns)| columns.contains(planned)).map(|(value, _)| *value);
        }
        let values = open.get(key)?.finite_values()?;
        values.iter().copied().min_by_key(|&value| self.cluster.symbols.text(value))
    }

    // A counter with a node filter must know whether the bin's nodes count: keeps the columns and the undecided labels
    // on one side of it.
    fn decide_filters(
        &self,
        pool: usize,
        scope: &Scope<'_>,
        columns: &mut FixedBitSet,
        open: &mut Requirements,
        planned: usize,
    ) {
        let symbols = &self.cluster.symbols;
        for &counter in scope.keyed_counts.iter().chain(&scope.host_counts) {
            let Some(passages) = self.passages(counter, pool) else { continue };
            let with = |passage: &Passage| {
                let mut narrowed = open.clone();
                narrowed.add_all(&passage.open, symbols);
                (!narrowed.is_contradiction()).then_some(narrowed)
            };
            let possible = passages.iter().filter_map(|passage| Some((&passage.columns, with(passage)?)));
            let mut possible: SmallVec<[_; 2]> = possible.collect();
            match possible.iter().position(|(passing, _)| passing.contains(planned)) {
                Some(at) => {
                    let (passing, narrowed) = possible.swap_remove(at);
                    columns.intersect_with(passing);
                    *open = narrowed;
                }
                None => possible.iter().for_each(|(passing, _)| columns.difference_with(passing)),
            }
        }
    }

    // The ways in which a pool's nodes pass a counter's node filter; `None` where it has none.
    fn passages(&self, counter: CounterId, pool: usize) -> Option<&[Passage]> {
        let filter = self.universe.counter(counter)?.filter?;
        self.passages.get(filter as usize)?.get(pool).map(Vec::as_slice)
    }

    fn counts_on(&self, bin: &Bin, counter: CounterId) -> bool {
        self.passages(counter, bin.pool).is_none_or(|passages| {
            passages.iter().any(|passage| {
                passage.columns.contains(bin.planned) && passage.is_implied_by(&bin.open, &self.cluster.symbols)
            })
        })
    }

    /// Whether a set of columns keeps the pool's minValues (Strict). A paid node counts paid types; a node on a slot
    /// counts types before the pin.
    #[expect(clippy::unused_self, reason = "one of the planner's questions about a join")]
    pub(crate) fn keeps_min_values(
        &self,
        table: &ColumnTable,
        columns: &FixedBitSet,
        open: &Requirements,
        planned: usize,
    ) -> bool {
        table.min_values.iter().all(|&(key, least)| {
            if !table.decides(key) {
                return open.get(key).and_then(Requirement::finite_values).is_none_or(|v| v.len() >= least as usize);
            }
            let counted = |columns_with: &FixedBitSet| {
                if table.reserved.contains(planned) {
                    !columns.is_disjoint(columns_with)
                } else {
                    columns.intersection(columns_with).any(|at| !table.reserved.contains(at))
                }
            };
            let least = least as usize;
            table.values(key).iter().filter(|(_, with)| counted(with)).take(least).count() >= least
        })
    }

    /// A node of a bin after `pods` of a demand have joined it.
    pub(crate) fn joined(&self, bin: &Bin, scope: &Scope<'_>, pods: u32, join: Join, planned: usize) -> Bin {
        let mut changed = bin_with(self.columns.get(bin.pool), bin, join, planned);
        for &counter in &scope.host_counts {
            if self.counts_on(&changed, counter) {
                changed.host_counts.add(counter, pods);
            }
        }
        match changed.contents.iter_mut().find(|(class, _)| *class == scope.class) {
            Some((_, count)) => *count = count.saturating_add(pods),
            None => changed.contents.push((scope.class, pods)),
        }
        changed.ports.extend(scope.spec().host_ports.iter().copied());
        let disks = scope.spec().volumes.disks.iter();
        changed.disks.extend(disks.filter(|disk| !bin.disks.contains(disk)).cloned());
        changed
    }
}

impl Planner<'_> {
    /// How many more pods of a demand one node of a bin may take beside what is on it, resources aside.
    pub(crate) fn allowance_on_bin(&self, bin: &Bin, scope: &Scope<'_>) -> u32 {
        let spec = scope.spec();
        if !filter::ports_are_free(&spec.host_ports, &bin.ports)
            || !filter::disks_are_free(&spec.volumes.disks, &bin.disks)
        {
            return 0;
        }
        let first = |counter: CounterId| self.ledger.state.total(counter) == 0;
        let hosts = host_allowance(&bin.host_counts, &scope.host, first);
        if spec.excludes_its_like() { hosts.min(1) } else { hosts }
    }

    /// What a node of a bin becomes when `pods` of a demand join it on the column `planned`; `None` if they may not.
    pub(crate) fn join(&self, bin: &Bin, scope: &Scope<'_>, pods: u32, planned: usize) -> Option<Join> {
        let (table, admission) = (self.tables.columns.get(bin.pool)?, scope.admission(bin.pool)?);
        let mut columns = bin.columns.clone();
        columns.intersect_with(&admission.columns);
        if let Some(kept) = self.tables.accelerators.kept_from_bin(bin, Some(scope.class)) {
            columns.difference_with(kept);
        }
        let mut open = bin.open.clone();
        if admission.open != table.open {
            open.add_all(&admission.open, &self.tables.cluster.symbols);
            if open.is_contradiction() {
                return None;
            }
        }
        let mut domains = bin.domains.clone();
        for &(key, value) in scope.pins {
            match bin.domain(key) {
                Some(known) if known == value => {}
                Some(_) => return None,
                None => domains.push((key, value)),
            }
        }
        for &key in &scope.decided_keys {
            if domains.iter().any(|(known, _)| *known == key) {
                continue;
            }
            if let Some(value) = self.tables.value_on(table, &open, planned, key) {
                self.tables.pin(table, &mut columns, &mut open, key, value)?;
                domains.push((key, value));
            }
        }
        self.tables.decide_filters(bin.pool, scope, &mut columns, &mut open, planned);
        let mut used = bin.used.clone();
        used.add_times(scope.requests(), i64::from(pods));
        table.keep_fitting(&mut columns, &used);
        if !columns.contains(planned) || !self.keeps_min_values_within_limits(bin, &columns, &open, planned) {
            return None;
        }
        Some(Join { columns, open, domains, used })
    }

    // Whether what a claim may list of a set of columns (limits and finite supplies permitting) keeps the pool's minValues.
    fn keeps_min_values_within_limits(
        &self,
        bin: &Bin,
        columns: &FixedBitSet,
        open: &Requirements,
        planned: usize,
    ) -> bool {
        let Some(table) = self.tables.columns.get(bin.pool) else { return false };
        if table.min_values.is_empty() {
            return true;
        }
        // A node that is being opened is not debited yet.
        let instead = (!bin.contents.is_empty()).then_some(bin.planned);
        let mut within = columns.clone();
        let is_tight = self.tables.is_limited(bin.pool) && self.is_tight(bin.pool);
        let price = table.columns.get(planned).map(|column| column.price);
        for at in columns.ones().filter(|&at| at != planned) {
            let is_finite_paid =
                !table.reserved.contains(at) && table.columns.get(at).is_some_and(|c| c.slots.is_some());
            // Shares may rule out what is cheaper, and a claim lists nothing cheaper than is planned.
            let is_cheaper = !self.ledger.shares.is_empty()
                && !table.reserved.contains(at)
                && table.columns.get(at).map(|column| column.price) < price;
            if is_finite_paid || is_cheaper || (is_tight && self.allowance(bin.pool, at, instead) == 0) {
                within.set(at, false);
            }
        }
        self.tables.keeps_min_values(table, &within, open, planned)
    }

    /// Applies a join of `pods` each to `nodes` nodes of the group at `index`.
    pub(crate) fn commit(
        &mut self,
        index: usize,
        nodes: u32,
        scope: &Scope<'_>,
        pods: u32,
        join: Join,
        planned: usize,
    ) {
        let Some(bin) = self.ledger.state.bins().get(index) else { return };
        let (rest, before, pool) = (bin.nodes.saturating_sub(nodes), bin.planned, bin.pool);
        if before != planned {
            self.replan(pool, before, planned, nodes);
        }
        let Some(bin) = self.ledger.state.bins().get(index) else { return };
        let mut changed = self.tables.joined(bin, scope, pods, join, planned);
        changed.nodes = nodes;
        self.count_in_domains(&changed, scope, pods);
        if rest == 0 {
            self.ledger.state.replace_bin(index, changed);
        } else {
            self.ledger.state.set_bin_nodes(index, rest);
            self.ledger.state.push_bin(changed);
        }
    }

    // Moves the ledger and the limits from one planned column to another.
    fn replan(&mut self, pool: usize, before: usize, planned: usize, nodes: u32) {
        let columns = self.tables.columns.get(pool).map_or(&[][..], |table| &table.columns);
        let slots = |at: usize| columns.get(at).and_then(|column| column.slots);
        let (old, new) = (slots(before), slots(planned));
        if let Some(slot) = old {
            self.ledger.state.return_slots(slot, nodes);
        }
        if let Some(slot) = new {
            // The caller has checked that so many are free.
            let taken = self.ledger.state.take_slots(slot, nodes);
            debug_assert!(taken, "a slot was overdrawn");
        }
        let capacities = (self.tables.capacity(pool, before).cloned(), self.tables.capacity(pool, planned).cloned());
        if let (Some(before), Some(planned)) = capacities {
            self.ledger.state.use_pool(pool, &before, -i64::from(nodes));
            self.ledger.state.use_pool(pool, &planned, i64::from(nodes));
        }
    }

    /// Plans another column for a whole group; its contents stay.
    pub(crate) fn move_bin(&mut self, index: usize, planned: usize) {
        let Some(bin) = self.ledger.state.bins().get(index) else { return };
        let (pool, before, nodes) = (bin.pool, bin.planned, bin.nodes);
        if before == planned {
            return;
        }
        self.replan(pool, before, planned, nodes);
        let room = self
            .tables
            .columns
            .get(pool)
            .and_then(|table| table.columns.get(planned))
            .map(|column| column.room.clone());
        let Some(used) = self.ledger.state.bins().get(index).map(|bin| bin.used.clone()) else { return };
        let mut slack = room.unwrap_or_default();
        slack.subtract(&used);
        self.ledger.state.set_bin_room(index, planned, used, slack);
    }

    fn count_in_domains(&mut self, bin: &Bin, scope: &Scope<'_>, pods: u32) {
        let all = pods.saturating_mul(bin.nodes);
        let universe = self.tables.universe;
        for &counter in &scope.keyed_counts {
            let admitted = self.tables.counts_on(bin, counter);
            let key = universe.counter(counter).map(|counter| counter.key);
            if let (true, Some(domain)) = (admitted, key.and_then(|key| bin.domain(key))) {
                self.ledger.state.add_count(counter, Some(domain), all);
            }
        }
        for &counter in &scope.host_counts {
            if self.tables.counts_on(bin, counter) {
                self.ledger.state.add_count(counter, None, all);
            }
        }
        for &claim in &scope.spec().volumes.exclusive_claims {
            self.ledger.state.use_claim(claim);
        }
    }

    /// Opens `nodes` new nodes on a column, with `pods` of a demand each; false if they may not.
    pub(crate) fn open(&mut self, pool: usize, planned: usize, nodes: u32, scope: &Scope<'_>, pods: u32) -> bool {
        let Some(table) = self.tables.columns.get(pool) else { return false };
        let Some(column) = table.columns.get(planned) else { return false };
        let slots = column.slots;
        let empty = Bin {
            pool,
            nodes,
            columns: table.all(),
            planned,
            slack: column.room.clone(),
            open: table.open.clone(),
            domains: SmallVec::new(),
            used: Resources::new(),
            contents: SmallVec::new(),
            host_counts: berth_model::HostCounts::default(),
            ports: SmallVec::new(),
            disks: Vec::new(),
        };
        let Some(join) = self.join(&empty, scope, pods, planned) else { return false };
        if let Some(slot) = slots
            && !self.ledger.state.take_slots(slot, nodes)
        {
            return false;
        }
        if let Some(capacity) = self.tables.capacity(pool, planned).cloned() {
            self.ledger.state.use_pool(pool, &capacity, i64::from(nodes));
        }
        let index = self.ledger.state.push_bin(empty);
        self.commit(index, nodes, scope, pods, join, planned);
        true
    }
}

fn bin_with(table: Option<&ColumnTable>, bin: &Bin, join: Join, planned: usize) -> Bin {
    let room = table.and_then(|table| table.columns.get(planned)).map(|column| column.room.clone());
    let mut slack = room.unwrap_or_default();
    slack.subtract(&join.used);
    Bin {
        pool: bin.pool,
        nodes: bin.nodes,
        columns: join.columns,
        planned,
        slack,
        open: join.open,
        domains: join.domains,
        used: join.used,
        contents: bin.contents.clone(),
        host_counts: bin.host_counts.clone(),
        ports: bin.ports.clone(),
        disks: bin.disks.clone(),
    }
}
