//! Nodes are taken out of the plan, and others put in their place.

use std::collections::BTreeMap;

use berth_model::{Bin, ClassId, ColumnId, PoolId};
use berth_packing::Pattern;

use super::offers::Offers;
use super::rows::{BinRows, Member, Rows, is_counted_nowhere};
use crate::ledger::{Ledger, PlacedAs};
use crate::share_tally::Move;
use crate::tables::{PoolColumn, Tables};
use crate::world::World;

/// A group of nodes as it was before it was taken out.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Withdrawn {
    pub(crate) pool: PoolId,
    pub(crate) planned: ColumnId,
    pub(crate) nodes: u32,
}

/// Pods of a member of a row on each node of a group.
#[derive(Clone, Copy, Debug)]
struct Part {
    row: usize,
    member: usize,
    each: u32,
}

type Contents = Vec<Part>;

/// What a node counts for in shares, and its smallest pod.
#[derive(Clone, Copy, Debug)]
struct Load {
    sum: i64,
    least_pod: i64,
}

impl Tables<'_> {
    fn slot_at(&self, pool: PoolId, column: ColumnId) -> Option<berth_model::SlotId> {
        self.table(pool).column(column).slots
    }
}

impl World<'_> {
    // How many nodes of a column, each with such a load and such a smallest pod, supplies, limits and shares allow.
    fn to_be_had(self, pool: PoolId, column: ColumnId, load: Load) -> u32 {
        let free = self.tables.slot_at(pool, column).map_or(u32::MAX, |slot| self.ledger.state.free_slots(slot));
        let most = free.min(self.allowance(pool, column, None));
        self.nodes_within_shares(Move { pool, column, before: None, after: load.sum, least_pod: load.least_pod }, most)
    }

    // What a node counts for in shares, and its smallest pod.
    fn load_of(self, rows: &Rows<'_>, contents: &Contents) -> Load {
        let (mut load, mut least) = (0_i64, i64::MAX);
        for &Part { row, member, each } in contents {
            let Some(member) = rows.list.get(row).and_then(|row| row.members.get(member)) else { continue };
            let weight = self.tables.shares.weight(member.class);
            load = load.saturating_add(weight.saturating_mul(i64::from(each)));
            least = least.min(weight);
        }
        Load { sum: load, least_pod: least }
    }

    // A node that takes pods of one class after the other, as when they are placed.
    fn assemble(
        self,
        rows: &Rows<'_>,
        pool: PoolId,
        planned: ColumnId,
        contents: &Contents,
        nodes: u32,
    ) -> Option<Bin> {
        let mut bin = self.tables.empty_bin(PoolColumn { pool, column: planned }, nodes);
        // Who asks for accelerators opens the nodes that are kept for them.
        let asks =
            |part: &&Part| rows.list.get(part.row).is_some_and(|row| self.tables.accelerators.are_in(&row.requests));
        let others = contents.iter().filter(|part| !asks(part));
        for &Part { row, member, each } in contents.iter().filter(asks).chain(others) {
            let Member { class, pins, .. } = rows.list.get(row)?.members.get(member)?;
            let scope = rows.prepared.get(class)?.scope(self.tables, pins);
            if self.allowance_on_bin(&bin, &scope) < each {
                return None;
            }
            let join = self.join(&bin, &scope, each, planned)?;
            bin = self.tables.joined(&bin, &scope, join);
        }
        Some(bin)
    }
}

impl Ledger {
    /// Takes nodes out, and gives back their slots and their share of limits. What domains count stays, as the pods
    /// will go to the same domains again.
    pub(crate) fn withdraw(&mut self, tables: &Tables<'_>, bins: &[BinRows]) -> Vec<Withdrawn> {
        let mut out = Vec::with_capacity(bins.len());
        for &BinRows { bin: index, .. } in bins {
            let Some(bin) = self.state.bins().get(index) else { continue };
            let was = Withdrawn { pool: bin.pool, planned: bin.planned, nodes: bin.nodes };
            self.state.set_bin_nodes(index, 0);
            if let Some(slot) = tables.slot_at(was.pool, was.planned) {
                self.state.return_slots(slot, was.nodes);
            }
            if let Some(capacity) = tables.capacity(was.pool, was.planned).cloned() {
                self.state.use_pool(was.pool, &capacity, -i64::from(was.nodes));
            }
            out.push(was);
        }
        out
    }

    /// Puts nodes in by a plan over rows and offers; false if some pods found no node, those aside that had none.
    pub(crate) fn put_plan_in(
        &mut self,
        tables: &Tables<'_>,
        rows: &Rows<'_>,
        offers: &Offers,
        plan: &[(Pattern, u32)],
    ) -> bool {
        let mut left: Vec<Vec<u32>> =
            rows.list.iter().map(|row| row.members.iter().map(|member| member.count).collect()).collect();
        for (pattern, nodes) in plan {
            let Some(offer) = offers.offers.get(pattern.bin as usize) else { continue };
            let mut nodes = *nodes;
            while nodes > 0 {
                let Some((contents, alike)) = assign(&left, pattern, nodes) else { break };
                let alike = alike.min(World::new(tables, self).to_be_had(
                    offer.pool,
                    offer.column,
                    World::new(tables, self).load_of(rows, &contents),
                ));
                if alike == 0 || !self.put_in(tables, rows, offer.pool, offer.column, &contents, alike) {
                    break;
                }
                for Part { row, member, each } in contents {
                    if let Some(left) = left.get_mut(row).and_then(|left| left.get_mut(member)) {
                        *left -= (each * alike).min(*left);
                    }
                }
                nodes -= alike;
            }
        }
        // What a pattern could not take goes where it is cheapest by itself.
        let mut placeless: BTreeMap<ClassId, u32> = BTreeMap::new();
        for (row, member) in rows.by_priority(tables) {
            let count = left.get(row).and_then(|members| members.get(member)).copied().unwrap_or(0);
            let rest = if count == 0 { 0 } else { self.put_alone(tables, rows, offers, (row, member), count) };
            if rest == 0 {
                continue;
            }
            let Some(member) = rows.list.get(row).and_then(|row| row.members.get(member)) else { return false };
            if rows.waiting.is_empty() {
                return false;
            }
            *placeless.entry(member.class).or_default() += rest;
        }
        self.exchange(tables, rows, &placeless)
    }

    // Pods that had no place may have one now, and others none.
    fn exchange(&mut self, tables: &Tables<'_>, rows: &Rows<'_>, placeless: &BTreeMap<ClassId, u32>) -> bool {
        let mut changes: BTreeMap<ClassId, i64> = BTreeMap::new();
        for &(class, count) in &rows.waiting {
            *changes.entry(class).or_default() -= i64::from(count);
        }
        for (&class, &count) in placeless {
            *changes.entry(class).or_default() += i64::from(count);
        }
        for (class, more_left) in changes.into_iter().filter(|(_, change)| *change != 0) {
            let Some(prepared) = rows.prepared.get(&class) else { return false };
            // A spread may not do without one of its own.
            if !is_counted_nowhere(tables, prepared) {
                return false;
            }
            let pods = u32::try_from(more_left.unsigned_abs()).unwrap_or(u32::MAX);
            for &counter in &prepared.demand.host_counts {
                if more_left < 0 {
                    self.state.add_count(counter, None, pods);
                } else {
                    self.state.remove_count(counter, None, pods);
                }
            }
            let given_up = u64::from(pods) * prepared.demand.relaxed as u64;
            if more_left < 0 {
                self.tally.relaxations += given_up;
                self.tally
                    .placed_as
                    .entry(class)
                    .or_insert(Some(PlacedAs { relaxed: prepared.demand.relaxed, way: 0 }));
            } else {
                self.tally.relaxations = self.tally.relaxations.saturating_sub(given_up);
            }
            let at = self.tally.left.iter().position(|(known, _)| *known == class).unwrap_or(self.tally.left.len());
            if at == self.tally.left.len() {
                self.tally.left.push((class, 0));
            }
            if let Some((_, left)) = self.tally.left.get_mut(at) {
                *left = if more_left < 0 { left.saturating_sub(pods) } else { left.saturating_add(pods) };
            }
        }
        self.tally.left.retain(|(_, left)| *left > 0);
        self.tally.left.sort_unstable();
        true
    }

    // Says how many found no node.
    fn put_alone(
        &mut self,
        tables: &Tables<'_>,
        rows: &Rows<'_>,
        offers: &Offers,
        (row, member): (usize, usize),
        mut left: u32,
    ) -> u32 {
        let Some(definition) = rows.list.get(row) else { return left };
        let caps_itself = !definition.host.is_empty() || !definition.ports.is_empty();
        let mut ways: Vec<(i128, usize, u32)> = offers
            .offers
            .iter()
            .enumerate()
            .filter(|(_, offer)| offer.admits.contains(row))
            .filter(|(_, offer)| {
                !tables.accelerators.is_kept(offer.pool, offer.column)
                    || tables.accelerators.are_in(&definition.requests)
            })
            .map(|(at, offer)| {
                let most = if caps_itself { 1 } else { definition.requests.times_in(&offer.room, left) };
                (offer.cost.pico() / i128::from(most.max(1)), at, most)
            })
            .collect();
        ways.sort_unstable();
        for (_, at, most) in ways {
            let Some(offer) = offers.offers.get(at) else { continue };
            let mut each = most.min(left);
            while each > 0 && left > 0 {
                let contents: Contents = vec![Part { row, member, each }];
                let there = World::new(tables, self).to_be_had(
                    offer.pool,
                    offer.column,
                    World::new(tables, self).load_of(rows, &contents),
                );
                let alike = (left / each).min(there);
                if alike > 0 && self.put_in(tables, rows, offer.pool, offer.column, &contents, alike) {
                    left -= each * alike;
                    each = each.min(left);
                } else {
                    // Only minValues and shares can refuse the full number and accept fewer.
                    each /= 2;
                }
            }
            if left == 0 {
                break;
            }
        }
        left
    }

    fn put_in(
        &mut self,
        tables: &Tables<'_>,
        rows: &Rows<'_>,
        pool: PoolId,
        column: ColumnId,
        contents: &Contents,
        nodes: u32,
    ) -> bool {
        if World::new(tables, self).to_be_had(pool, column, World::new(tables, self).load_of(rows, contents)) < nodes {
            return false;
        }
        let mark = self.state.mark();
        if let Some(slot) = tables.slot_at(pool, column) {
            let taken = self.state.take_slots(slot, nodes);
            debug_assert!(taken, "a slot was overdrawn");
        }
        if let Some(capacity) = tables.capacity(pool, column).cloned() {
            self.state.use_pool(pool, &capacity, i64::from(nodes));
        }
        let bin = World::new(tables, self).assemble(rows, pool, column, contents, nodes);
        let is_in = bin.is_some();
        match bin {
            Some(bin) => {
                self.state.push_bin(bin);
            }
            None => self.state.rollback(mark),
        }
        self.state.forget(mark);
        is_in
    }
}

// The members that the next nodes of a pattern hold, and how many nodes alike there are.
fn assign(left: &[Vec<u32>], pattern: &Pattern, nodes: u32) -> Option<(Contents, u32)> {
    let mut contents = Contents::new();
    let mut alike = nodes;
    for &(row, each) in &pattern.items {
        let row = row as usize;
        let mut wanted = each;
        for (member, &left) in left.get(row)?.iter().enumerate().filter(|(_, left)| **left > 0) {
            // The last nodes of a plan may find fewer pods than their pattern has room for.
            let here = wanted.min(left);
            if here == 0 {
                break;
            }
            contents.push(Part { row, member, each: here });
            alike = alike.min(left / here);
            wanted -= here;
        }
    }
    (!contents.is_empty()).then_some((contents, alike.max(1)))
}
