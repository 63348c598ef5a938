//! What a bin becomes when pods join it.

use berth_model::{Bin, ColumnId, ColumnTable, CounterId, PoolId, Requirements, Resources, Sym};
use berth_scheduling::{Passage, filter};
use fixedbitset::FixedBitSet;
use smallvec::SmallVec;

use crate::prepared::Scope;
use crate::tables::Tables;
use crate::world::World;

/// What a bin becomes when pods join it.
pub(crate) struct Join {
    columns: FixedBitSet,
    open: Requirements,
    domains: SmallVec<[(Sym, Sym); 2]>,
    used: Resources,
    /// The column that it is planned on.
    pub(crate) planned: ColumnId,
    /// How many pods join each node.
    pub(crate) pods: u32,
}

impl Tables<'_> {
    // A counter with a node filter must know whether the bin's nodes count: keeps the columns and the undecided labels
    // on one side of it.
    fn decide_filters(
        &self,
        pool: PoolId,
        scope: &Scope<'_>,
        columns: &mut FixedBitSet,
        open: &mut Requirements,
        planned: ColumnId,
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
            match possible.iter().position(|(passing, _)| passing.contains(planned.index())) {
                Some(at) => {
                    let (passing, narrowed) = possible.swap_remove(at);
                    columns.intersect_with(passing);
                    *open = narrowed;
                }
                None => possible.iter().for_each(|(passing, _)| columns.difference_with(passing)),
            }
        }
    }

    /// The ways in which a pool's nodes pass a counter's node filter; `None` where it has none.
    pub(crate) fn passages(&self, counter: CounterId, pool: PoolId) -> Option<&[Passage]> {
        let filter = self.universe.counter(counter)?.filter?;
        self.passages.get(filter.index())?.get(pool.index()).map(Vec::as_slice)
    }

    /// Whether nodes of a bin count where a counter does.
    pub(crate) fn counts_on(&self, bin: &Bin, counter: CounterId) -> bool {
        self.passages(counter, bin.pool).is_none_or(|passages| {
            passages.iter().any(|passage| {
                passage.columns.contains(bin.planned.index()) && passage.is_implied_by(&bin.open, &self.cluster.symbols)
            })
        })
    }

    /// A node of a bin after pods of a demand have joined it.
    pub(crate) fn joined(&self, bin: &Bin, scope: &Scope<'_>, join: Join) -> Bin {
        let pods = join.pods;
        let mut changed = bin_with(self.table(bin.pool), bin, join);
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

impl World<'_> {
    /// How many more pods of a demand one node of a bin may take beside what is on it, resources aside.
    pub(crate) fn allowance_on_bin(self, bin: &Bin, scope: &Scope<'_>) -> u32 {
        let spec = scope.spec();
        if !filter::ports_are_free(&spec.host_ports, &bin.ports)
            || !filter::disks_are_free(&spec.volumes.disks, &bin.disks)
        {
            return 0;
        }
        let hosts = self.allowance_on_host(&bin.host_counts, scope);
        if spec.excludes_its_like() { hosts.min(1) } else { hosts }
    }

    /// What a node of a bin becomes when `pods` of a demand join it on the column `planned`; `None` if they may not.
    pub(crate) fn join(self, bin: &Bin, scope: &Scope<'_>, pods: u32, planned: ColumnId) -> Option<Join> {
        let (table, admission) = (self.tables.table(bin.pool), scope.admission(bin.pool)?);
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
        if !columns.contains(planned.index()) || !self.keeps_min_values_within_limits(bin, &columns, &open, planned) {
            return None;
        }
        Some(Join { columns, open, domains, used, planned, pods })
    }
}

fn bin_with(table: &ColumnTable, bin: &Bin, join: Join) -> Bin {
    let planned = join.planned;
    let mut slack = table.column(planned).room.clone();
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
