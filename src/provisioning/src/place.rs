//! Topology: domains first, then nodes. Pods of a class are shared out over the domains of each topology key (other
//! than the hostname, which is a limit per node) before they are packed, so that a planned node's domain is decided
//! when the first pod that depends on it joins.

use std::collections::BTreeSet;

use berth_model::{ColumnId, Constraint, CounterId, Money, Sym};
use berth_scheduling::topology::Domains;

use crate::caches::Caches;
use crate::combinations::Combinations;
use crate::ledger::Ledger;
use crate::packing::Packing;
use crate::prepared::{Pins, Prepared};
use crate::tables::PoolColumn;
use crate::world::World;

/// Up to so many pods are assigned to domains one by one, more in bulk.
const ONE_BY_ONE: u32 = 8;

/// A topology key with its domains, and the constraints that look at them.
#[derive(Clone, Copy)]
struct Axis<'x> {
    key: Sym,
    names: &'x [Sym],
    constraints: &'x [Constraint],
}

/// Where a pod's room would come from, the best first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Means {
    Node,
    Planned,
    Slot,
    Paid,
    Nothing,
}

impl World<'_> {
    // What one more pod would take in a domain: room on an existing node, room on a planned one, a free slot (by list
    // price), or the cheapest paid column that holds it.
    fn rank(self, prepared: &Prepared<'_>, pins: &Pins) -> (Means, Money) {
        let scope = prepared.scope(self.tables, pins);
        if prepared.nodes_at(self.tables, pins).iter().any(|&node| self.room_on_node(&scope, node, 1) > 0) {
            return (Means::Node, Money::ZERO);
        }
        let mut from = 0;
        while let Some(index) = self.ledger.state.next_with_room(from, prepared.requests) {
            from = index + 1;
            let Some(bin) = self.ledger.state.bins().get(index).filter(|bin| bin.nodes > 0) else { continue };
            let admits =
                scope.admission(bin.pool).is_some_and(|admission| admission.columns.contains(bin.planned.index()));
            let agrees = pins.iter().all(|&(key, value)| bin.domain(key).is_none_or(|known| known == value));
            if admits && agrees && prepared.requests.fits(&bin.slack) && self.allowance_on_bin(bin, &scope) > 0 {
                return (Means::Planned, Money::ZERO);
            }
        }
        let mut best = (Means::Nothing, Money::ZERO);
        for (pool, table) in self.tables.by_pool() {
            let Some(admission) = scope.admission(pool) else { continue };
            let mut columns = admission.columns.clone();
            if let Some(kept) = self.tables.accelerators.kept_from(scope.class, pool) {
                columns.difference_with(kept);
            }
            table.keep_fitting(&mut columns, prepared.requests);
            let means = ColumnId::of(&columns).map(|at| (at, table.column(at))).find_map(|(at, column)| {
                if column.slots.is_some_and(|slot| self.ledger.state.free_slots(slot) == 0)
                    || (self.tables.is_limited(pool) && self.allowance(pool, at, None) == 0)
                    || self.pods_within_shares(scope.class, PoolColumn { pool, column: at }, None, 1) == 0
                {
                    return None;
                }
                let is_slot = table.is_reserved(at);
                Some(if is_slot { (Means::Slot, column.list_price) } else { (Means::Paid, column.price) })
            });
            best = best.min(means.unwrap_or(best));
        }
        best
    }
}

impl Packing<'_, '_> {
    /// Places up to `count` pods of a demand; returns how many.
    pub(crate) fn place(
        &self,
        ledger: &mut Ledger,
        caches: &mut Caches<'_>,
        prepared: &Prepared<'_>,
        count: u32,
    ) -> u32 {
        match prepared.demand.keyed.len() {
            0 if self.strategy.joins_volumes => self.place_beside_volumes(ledger, caches, prepared, count),
            0 if self.strategy.splits_evenly => self.place_evenly(ledger, caches, prepared, count),
            0 => self.fill(ledger, caches, prepared, count, &[]),
            1 => self.place_on_key(ledger, caches, prepared, count),
            _ => self.place_on_keys(ledger, caches, prepared, count),
        }
    }

    // Pods that may be in any domain: first to those where volumes of all spread pods can be, the cheapest first.
    fn place_beside_volumes(
        &self,
        ledger: &mut Ledger,
        caches: &mut Caches<'_>,
        prepared: &Prepared<'_>,
        count: u32,
    ) -> u32 {
        let key_of = |&counter: &CounterId| self.tables.universe.counter(counter).map(|known| known.key);
        let Some(key) = self.tables.volume_counters.first().and_then(key_of) else {
            return self.fill(ledger, caches, prepared, count, &[]);
        };
        let mut names: Option<Vec<Sym>> = None;
        for &counter in self.tables.volume_counters.iter().filter(|counter| key_of(counter) == Some(key)) {
            let known = caches.domains.of(self.world(ledger), counter);
            let is_beyond = |name: &Sym| ledger.beyond.contains(&(counter, *name));
            let is_for_volumes = |name: &Sym| known.contains(name) && !is_beyond(name);
            match &mut names {
                Some(names) => names.retain(is_for_volumes),
                None => names = Some(known.iter().copied().filter(is_for_volumes).collect()),
            }
        }
        let mut names = names.unwrap_or_default();
        names.sort_by_cached_key(|&name| self.world(ledger).rank(prepared, &[(key, name)]));
        let mut placed = 0;
        for name in names {
            placed += self.fill(ledger, caches, prepared, count - placed, &[(key, name)]);
            if placed == count {
                return placed;
            }
        }
        placed + self.fill(ledger, caches, prepared, count - placed, &[])
    }

    // One topology key: shares pods out in bulk. Where a domain cannot take its share, everything is undone and
    // shared out anew with that domain's true capacity, since a spread must not run ahead of it.
    fn place_on_key(&self, ledger: &mut Ledger, caches: &mut Caches<'_>, prepared: &Prepared<'_>, count: u32) -> u32 {
        let Some((key, constraints)) = prepared.demand.keyed.first() else { return 0 };
        let mut placed = 0;
        let mut names = caches.domains.names(self.world(ledger), constraints);
        let chooses_home = caches.domains.loads(self.world(ledger), names.clone(), constraints).chooses_home();
        if !chooses_home && count <= ONE_BY_ONE {
            return self.place_one_by_one(
                ledger,
                caches,
                prepared,
                count,
                Axis { key: *key, names: &names, constraints },
            );
        }
        names.sort_by_cached_key(|&name| {
            (self.fullness_of(ledger, *key, name), self.world(ledger).rank(prepared, &[(*key, name)]))
        });
        if chooses_home {
            placed += self.choose_home(ledger, caches, prepared, count, Axis { key: *key, names: &names, constraints });
            if placed == 0 {
                return 0;
            }
        }
        let mut capacity: Vec<u32> = vec![u32::MAX; names.len()];
        loop {
            let shares =
                shares(caches.domains.loads(self.world(ledger), names.clone(), constraints), count - placed, &capacity);
            let mark = ledger.state.mark();
            let (mut sum, mut fell_short) = (0, false);
            for (at, (&name, &share)) in names.iter().zip(&shares).enumerate() {
                if share == 0 {
                    continue;
                }
                let filled = self.fill(ledger, caches, prepared, share, &[(*key, name)]);
                sum += filled;
                if filled < share {
                    fell_short = true;
                    if let Some(capacity) = capacity.get_mut(at) {
                        *capacity = filled;
                    }
                }
            }
            if !fell_short {
                ledger.state.forget(mark);
                return placed + sum;
            }
            ledger.state.rollback(mark);
            ledger.state.forget(mark);
        }
    }

    // A few pods: each to the domain that is cheapest now among those that are open to it, then the least loaded.
    fn place_one_by_one(
        &self,
        ledger: &mut Ledger,
        caches: &mut Caches<'_>,
        prepared: &Prepared<'_>,
        count: u32,
        axis: Axis<'_>,
    ) -> u32 {
        let Axis { key, names, constraints } = axis;
        let mut domains = caches.domains.loads(self.world(ledger), names.to_vec(), constraints);
        let mut is_full = vec![false; names.len()];
        // A pod changes little but the rank of its own domain.
        let mut ranks: Vec<Option<(Means, Money)>> = vec![None; names.len()];
        let mut placed = 0;
        while placed < count {
            let mut best: Option<(i128, (Means, Money), u64, usize)> = None;
            for (at, (&name, rank)) in names.iter().zip(&mut ranks).enumerate() {
                if is_full.get(at) == Some(&false) && domains.allows(at) {
                    let rank = *rank.get_or_insert_with(|| self.world(ledger).rank(prepared, &[(key, name)]));
                    let option = (self.fullness_of(ledger, key, name), rank, domains.load(at), at);
                    best = Some(best.map_or(option, |best| best.min(option)));
                }
            }
            let Some((_, _, _, at)) = best else { break };
            if let Some(rank) = ranks.get_mut(at) {
                *rank = None;
            }
            let Some(&name) = names.get(at) else { break };
            if self.fill(ledger, caches, prepared, 1, &[(key, name)]) == 1 {
                domains.add(at);
                placed += 1;
            } else if let Some(is_full) = is_full.get_mut(at) {
                *is_full = true;
            }
        }
        placed
    }

    // The domain for a self-affinity that has no pod yet: the one that takes most, then costs least.
    fn choose_home(
        &self,
        ledger: &mut Ledger,
        caches: &mut Caches<'_>,
        prepared: &Prepared<'_>,
        count: u32,
        axis: Axis<'_>,
    ) -> u32 {
        let Axis { key, names, constraints } = axis;
        let mut best: Option<(u32, (i128, i128), Sym)> = None;
        let mut domains = caches.domains.loads(self.world(ledger), names.to_vec(), constraints);
        for (at, &name) in names.iter().enumerate() {
            let allowed = domains.allowance(at, count);
            if allowed == 0 {
                continue;
            }
            let (mark, before) = (ledger.state.mark(), self.world(ledger).marginal_cost());
            let placed = self.fill(ledger, caches, prepared, allowed, &[(key, name)]);
            let cost = self.world(ledger).marginal_cost() - before;
            ledger.state.rollback(mark);
            let cost = (self.fullness_of(ledger, key, name), cost);
            ledger.state.forget(mark);
            let is_better = match best {
                None => placed > 0,
                Some((most, least, _)) => placed > most || (placed == most && cost < least),
            };
            if is_better {
                best = Some((placed, cost, name));
            }
        }
        best.map_or(0, |(placed, _, name)| self.fill(ledger, caches, prepared, placed, &[(key, name)]))
    }

    // Several keys: the domains are chosen together, a pod at a time: where it costs least now, then the least loaded.
    fn place_on_keys(&self, ledger: &mut Ledger, caches: &mut Caches<'_>, prepared: &Prepared<'_>, count: u32) -> u32 {
        let mut axes = Vec::new();
        for (key, constraints) in &prepared.demand.keyed {
            let names = caches.domains.names(self.world(ledger), constraints);
            axes.push((*key, caches.domains.loads(self.world(ledger), names, constraints)));
        }
        let mut combinations = Combinations::new(axes, (Means::Node, Money::ZERO));
        let mut placed = 0;
        while placed < count {
            let Some(best) = combinations.best() else { break };
            let pins = combinations.pins(&best);
            // What was the cheapest once may not be so any more; nothing becomes cheaper but where a pod has come.
            let rank = self.world(ledger).rank(prepared, &pins);
            if rank != best.rank {
                combinations.set_rank(&best, Some(rank));
            } else if self.fill(ledger, caches, prepared, 1, &pins) == 1 {
                placed += 1;
                let rank = self.world(ledger).rank(prepared, &pins);
                combinations.set_rank(&best, Some(rank));
                combinations.add(&best);
            } else {
                combinations.set_rank(&best, None);
            }
        }
        placed
    }
}

// How many pods each domain gets: one after the other to the least loaded that may take it.
fn shares(mut domains: Domains, count: u32, capacity: &[u32]) -> Vec<u32> {
    let mut shares = vec![0_u32; domains.names.len()];
    let mut by_load: BTreeSet<(u64, usize)> = (0..shares.len()).map(|at| (domains.load(at), at)).collect();
    for _ in 0..count {
        let (mut chosen, mut closed) = (None, Vec::new());
        for &(load, at) in &by_load {
            let is_full = shares.get(at).zip(capacity.get(at)).is_none_or(|(share, most)| share >= most);
            if is_full || domains.is_closed(at) {
                closed.push((load, at));
            } else if domains.allows(at) {
                chosen = Some((load, at));
                break;
            }
        }
        for entry in &closed {
            by_load.remove(entry);
        }
        let Some((load, least)) = chosen else { break };
        domains.add(least);
        by_load.remove(&(load, least));
        by_load.insert((domains.load(least), least));
        if let Some(share) = shares.get_mut(least) {
            *share += 1;
        }
    }
    shares
}
