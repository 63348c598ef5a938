//! Planned nodes and capacity reservations: builds the matching, and carries it out.

use berth_model::{Bin, ClassId, ColumnId, Money, PoolId, SlotId};
use berth_scheduling::demands;
use rustc_hash::FxHashMap;

use crate::ledger::Ledger;
use crate::listing::Listings;
use crate::matching::Matching;
use crate::min_values::keeps_min_values;
use crate::prepared::Prepared;
use crate::tables::Tables;
use crate::world::World;

/// A slot, and the pool and column by which it is used.
#[derive(Clone, Copy)]
struct SlotUse {
    slot: SlotId,
    pool: PoolId,
    column: ColumnId,
}

/// A group of planned nodes and the slots that could serve it.
struct Group {
    bin: usize,
    nodes: u32,
    /// What a node costs without a slot; `None` if it cannot be had.
    paid: Option<(Money, ColumnId)>,
    open: Vec<SlotUse>,
    /// What the node would be in another pool than its own.
    elsewhere: FxHashMap<PoolId, Bin>,
}

impl Tables<'_> {
    fn slots_by_list_price(&self) -> Vec<usize> {
        let mut dearest = vec![Money::ZERO; self.cluster.slots.len()];
        for offering in self.cluster.instance_types.iter().flat_map(|known| &known.offerings) {
            if let Some(price) = offering.slots.and_then(|slot| dearest.get_mut(slot.index())) {
                *price = (*price).max(offering.list_price);
            }
        }
        let mut order: Vec<usize> = (0..dearest.len()).collect();
        order.sort_by_key(|&at| dearest.get(at).copied());
        order
    }

    fn is_larger(&self, bin: &Bin, column: ColumnId, careful: bool) -> bool {
        careful
            && match (self.capacity(bin.pool, column), self.capacity(bin.pool, bin.planned)) {
                (Some(new), Some(old)) => !new.fits(old),
                _ => true,
            }
    }
}

impl Group {
    /// How much worse a plan is with a node of it paid for: by pods in a lighter NodePool than may take them, then by price.
    fn worth(&self, tables: &Tables<'_>, ledger: &Ledger) -> (u64, Money) {
        let Some((price, _)) = self.paid else { return (u64::MAX, Money::from_pico(i128::MAX)) };
        let Some(bin) = ledger.state.bins().get(self.bin).filter(|_| tables.has_weights()) else { return (0, price) };
        let weight = tables.definition(bin.pool).map_or(0, |pool| pool.weight);
        let lighter = bin.contents.iter().map(|(class, pods)| {
            u64::from(tables.heaviest(*class).saturating_sub(weight)).saturating_mul(u64::from(*pods))
        });
        (lighter.fold(0, u64::saturating_add), price)
    }
}

impl<'w> World<'w> {
    fn plans(self, bin: usize, column: ColumnId) -> bool {
        self.ledger.state.bins().get(bin).is_some_and(|bin| bin.planned == column)
    }

    fn slot_of(self, bin: usize) -> Option<SlotId> {
        let bin = self.ledger.state.bins().get(bin)?;
        self.tables.table(bin.pool).column(bin.planned).slots
    }

    fn groups(self, careful: bool) -> Vec<Group> {
        let mut prepared: FxHashMap<ClassId, Option<Prepared<'w>>> = FxHashMap::default();
        let mut out = Vec::new();
        for (index, bin) in self.ledger.state.bins().iter().enumerate().filter(|(_, bin)| bin.nodes > 0) {
            let table = self.tables.table(bin.pool);
            let is_finite_paid = |at: ColumnId| table.column(at).slots.is_some();
            let paid = if table.is_reserved(bin.planned) {
                let found = ColumnId::of(&bin.columns).find(|&at| !table.is_reserved(at) && !is_finite_paid(at));
                found.filter(|&at| {
                    (!self.tables.is_limited(bin.pool) || !self.tables.is_larger(bin, at, careful))
                        && keeps_min_values(table, &bin.columns, &bin.open, at)
                })
            } else {
                Some(bin.planned)
            };
            let mut group = Group {
                bin: index,
                nodes: bin.nodes,
                paid: paid.map(|at| (table.column(at).price, at)),
                open: Vec::new(),
                elsewhere: FxHashMap::default(),
            };
            self.add_open(&mut group, bin, bin.pool, careful);
            for pool in self.tables.pools() {
                if pool != bin.pool
                    && !self.tables.table(pool).reserved.is_clear()
                    && let Some(there) = self.elsewhere(bin, pool, &mut prepared)
                {
                    self.add_open(&mut group, &there, pool, careful);
                    group.elsewhere.insert(pool, there);
                }
            }
            if !group.open.is_empty() {
                out.push(group);
            }
        }
        out
    }

    fn add_open(self, group: &mut Group, bin: &Bin, pool: PoolId, careful: bool) {
        let table = self.tables.table(pool);
        let is_own = self.ledger.state.bins().get(group.bin).is_some_and(|own| own.pool == pool);
        for at in bin.columns.intersection(&table.reserved).map(ColumnId::new) {
            let Some(slot) = table.column(at).slots else { continue };
            let is_current = is_own && at == bin.planned;
            if self.tables.is_limited(pool) && !is_current {
                let instead = is_own.then_some(bin.planned);
                if (careful && (!is_own || self.tables.is_larger(bin, at, true)))
                    || self.allowance(pool, at, instead) == 0
                {
                    continue;
                }
            }
            if !group.open.iter().any(|known| known.slot == slot) {
                group.open.push(SlotUse { slot, pool, column: at });
            }
        }
    }

    // The same node in another pool, if that pool admits all its pods with the same domains.
    fn elsewhere(
        self,
        bin: &Bin,
        pool: PoolId,
        prepared: &mut FxHashMap<ClassId, Option<Prepared<'w>>>,
    ) -> Option<Bin> {
        let table = self.tables.table(pool);
        let (mut columns, mut open) = (table.all(), table.open.clone());
        for (class, _) in &bin.contents {
            let prepared = prepared.entry(*class).or_insert_with(|| {
                let first = demands(self.tables.cluster, self.tables.universe, *class).into_iter().next();
                first.map(|demand| Prepared::new(self.tables, &demand))
            });
            let prepared = prepared.as_ref()?;
            let filtered = |counter: &berth_model::CounterId| {
                self.tables.universe.counter(*counter).is_some_and(|counter| counter.filter.is_some())
            };
            if prepared.demand.keyed_counts.iter().chain(&prepared.demand.host_counts).any(filtered) {
                return None;
            }
            let admission = prepared.admission(self.tables, pool, &bin.domains)?;
            columns.intersect_with(&admission.columns);
            open.add_all(&admission.open, &self.tables.cluster.symbols);
        }
        if let Some(kept) = self.tables.accelerators.kept_from_bin(&Bin { pool, ..bin.clone() }, None) {
            columns.difference_with(kept);
        }
        table.keep_fitting(&mut columns, &bin.used);
        let planned = columns.intersection(&table.reserved).next().map(ColumnId::new)?;
        if open.is_contradiction() || !keeps_min_values(table, &columns, &open, planned) {
            return None;
        }
        Some(Bin { pool, columns, open, planned, ..bin.clone() })
    }

    fn breaks_limits(self, listings: &mut Listings) -> bool {
        self.exceeds_limits()
            || !self.keeps_shares_of_total()
            || !self.tables.pools().all(|pool| self.keeps_lists(listings, pool))
    }

    fn exceeds_limits(self) -> bool {
        self.tables.cluster.node_pools.iter().enumerate().any(|(index, pool)| {
            let Some((used, nodes)) = self.ledger.state.pool_use(PoolId::new(index)) else { return false };
            // What was over its limit before the solve is nobody's doing here.
            let exceeds = |&(resource, limit): &(berth_model::ResourceId, i64)| {
                used.get(resource) > limit && used.get(resource) > pool.used.get(resource)
            };
            pool.limits.iter().any(exceeds)
                || pool.node_limit.is_some_and(|limit| nodes > u64::from(limit) && nodes > u64::from(pool.nodes))
        })
    }
}

impl Ledger {
    fn carry_out(&mut self, tables: &Tables<'_>, groups: &[Group], matching: &Matching) {
        // All slots go back first, so that no order of moves overdraws one.
        for group in groups {
            if let Some(slot) = World::new(tables, self).slot_of(group.bin) {
                self.state.return_slots(slot, group.nodes);
            }
        }
        for (at, group) in groups.iter().enumerate() {
            let Some(bin) = self.state.bins().get(group.bin).cloned() else { continue };
            let mut parts: Vec<Bin> = Vec::new();
            let mut unmatched = group.nodes;
            for (supply, nodes) in matching.of(at) {
                let Some(&SlotUse { slot, pool, column }) = group.open.iter().find(|open| open.slot.index() == supply)
                else {
                    continue;
                };
                let taken = self.state.take_slots(slot, nodes);
                debug_assert!(taken, "the matching overdrew a slot");
                let base = group.elsewhere.get(&pool).unwrap_or(&bin);
                parts.push(Bin { planned: column, nodes, ..base.clone() });
                unmatched -= nodes.min(unmatched);
            }
            if unmatched > 0 {
                let planned = group.paid.map_or(bin.planned, |(_, column)| column);
                if let Some(slot) = tables.table(bin.pool).column(planned).slots {
                    let taken = self.state.take_slots(slot, unmatched);
                    debug_assert!(taken, "a finite supply was overdrawn");
                }
                parts.push(Bin { planned, nodes: unmatched, ..bin.clone() });
            }
            self.replace_group(tables, group.bin, &bin, parts);
        }
    }

    fn replace_group(&mut self, tables: &Tables<'_>, index: usize, old: &Bin, parts: Vec<Bin>) {
        if let Some(capacity) = tables.capacity(old.pool, old.planned).cloned() {
            self.state.use_pool(old.pool, &capacity, -i64::from(old.nodes));
        }
        let mut first = true;
        for mut part in parts {
            part.slack = tables.table(part.pool).column(part.planned).room.clone();
            part.slack.subtract(&part.used);
            if let Some(capacity) = tables.capacity(part.pool, part.planned).cloned() {
                self.state.use_pool(part.pool, &capacity, i64::from(part.nodes));
            }
            if std::mem::take(&mut first) {
                self.state.replace_bin(index, part);
            } else {
                self.state.push_bin(part);
            }
        }
    }
}

/// Matches planned nodes to reservations so that no augmenting path leads from a free slot to a paid node whose
/// pods fit it, those first that would be paid for in a lighter NodePool, then the dearest, and uses the cheapest slots that serve.
pub(crate) fn match_slots(tables: &Tables<'_>, ledger: &mut Ledger, listings: &mut Listings) {
    if !tables.cluster.slots.iter().any(|slots| slots.is_reservation) {
        return;
    }
    let mark = ledger.state.mark();
    match_slots_within(tables, ledger, false);
    if World::new(tables, ledger).breaks_limits(listings) {
        ledger.state.rollback(mark);
        match_slots_within(tables, ledger, true);
        if World::new(tables, ledger).breaks_limits(listings) {
            ledger.state.rollback(mark);
        }
    }
    ledger.state.forget(mark);
    if !tables.shares.is_empty() || tables.pools().any(|pool| tables.is_limited(pool)) {
        match_one_by_one(tables, ledger, listings);
    }
}

// What the matching left out for the sake of limits, but for which they still have room: paid nodes straight to
// free slots, the dearest first.
fn match_one_by_one(tables: &Tables<'_>, ledger: &mut Ledger, listings: &mut Listings) {
    let mut moved = true;
    while std::mem::take(&mut moved) {
        let mut groups = World::new(tables, ledger).groups(false);
        groups.retain(|group| {
            group.paid.is_some_and(|(price, at)| price > Money::ZERO && World::new(tables, ledger).plans(group.bin, at))
        });
        groups.sort_by_cached_key(|group| std::cmp::Reverse(group.worth(tables, ledger)));
        for group in groups {
            for &to in &group.open {
                let SlotUse { slot, pool, column } = to;
                let Some(bin) = ledger.state.bins().get(group.bin).cloned() else { continue };
                let paid = group.paid.map(|(_, at)| at);
                let instead = paid.filter(|_| pool == bin.pool);
                let nodes = bin
                    .nodes
                    .min(ledger.state.free_slots(slot))
                    .min(World::new(tables, ledger).allowance(pool, column, instead));
                if nodes > 0 && paid == Some(bin.planned) {
                    let mut nodes = nodes;
                    // Shares may hold some of them where they do not hold all.
                    while !move_to_slot(tables, ledger, listings, &group, &bin, to, nodes) {
                        nodes = if tables.shares.is_empty() { 0 } else { nodes / 2 };
                        if nodes == 0 {
                            break;
                        }
                    }
                    moved |= nodes > 0;
                }
            }
        }
    }
}

fn move_to_slot(
    tables: &Tables<'_>,
    ledger: &mut Ledger,
    listings: &mut Listings,
    group: &Group,
    bin: &Bin,
    to: SlotUse,
    nodes: u32,
) -> bool {
    let SlotUse { slot, pool, column } = to;
    let mark = ledger.state.mark();
    let base = group.elsewhere.get(&pool).unwrap_or(bin);
    let mut parts = vec![Bin { planned: column, nodes, ..base.clone() }];
    if bin.nodes > nodes {
        parts.insert(0, Bin { nodes: bin.nodes - nodes, ..bin.clone() });
    }
    if let Some(before) = World::new(tables, ledger).slot_of(group.bin) {
        ledger.state.return_slots(before, nodes);
    }
    let taken = ledger.state.take_slots(slot, nodes);
    ledger.replace_group(tables, group.bin, bin, parts);
    let works = taken && !World::new(tables, ledger).breaks_limits(listings);
    if !works {
        ledger.state.rollback(mark);
    }
    ledger.state.forget(mark);
    works
}

// `careful`: in pools with limits, only moves to columns that are no larger than what is planned.
fn match_slots_within(tables: &Tables<'_>, ledger: &mut Ledger, careful: bool) {
    let groups = World::new(tables, ledger).groups(careful);
    if groups.is_empty() {
        return;
    }
    let own = |slot: SlotId| -> u32 {
        let planned = groups.iter().filter(|group| World::new(tables, ledger).slot_of(group.bin) == Some(slot));
        planned.map(|group| group.nodes).sum()
    };
    let free: Vec<u32> = (0..tables.cluster.slots.len())
        .map(|index| {
            let slot = SlotId(u32::try_from(index).unwrap_or(u32::MAX));
            ledger.state.free_slots(slot).saturating_add(own(slot))
        })
        .collect();
    let open = groups.iter().map(|group| group.open.iter().map(|open| open.slot.index()).collect()).collect();
    let mut matching = Matching::new(open, free);
    let mut order: Vec<usize> = (0..groups.len()).collect();
    order.sort_by_cached_key(|&at| std::cmp::Reverse(groups.get(at).map(|group| group.worth(tables, ledger))));
    let nodes: Vec<u32> = groups.iter().map(|group| group.nodes).collect();
    let got = matching.match_groups(&order, &nodes);
    matching.prefer_supplies(&tables.slots_by_list_price(), &got);
    ledger.carry_out(tables, &groups, &matching);
}
