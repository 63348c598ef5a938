//! What a claim may list beside the planned column.

use std::collections::hash_map::Entry;
use std::rc::Rc;

use berth_model::{Bin, Column, ColumnId, ColumnTable, PoolId, Requirements};
use fixedbitset::FixedBitSet;
use rustc_hash::{FxHashMap, FxHashSet};

use crate::min_values::keeps_min_values;
use crate::tables::Tables;
use crate::world::World;

/// All that decides whether a paid node can list what minValues asks for.
#[derive(PartialEq, Eq, Hash)]
struct Listing {
    pool: PoolId,
    planned: ColumnId,
    columns: FixedBitSet,
    open: Requirements,
    /// Those of the columns that limits and shares leave beside the planned one.
    listed: FixedBitSet,
    /// The columns of which a finite supply has instances left.
    supplied: Rc<FixedBitSet>,
}

/// Combinations of what a claim names that are not listed, and that the cloud may launch all the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Gaps {
    None,
    /// Of finite supplies, where they hold the pods and cost no less than planned.
    Finite,
}

/// What is known of nodes that could be listed, or not: packing asks about all nodes of a pool again whenever one changes.
#[derive(Default)]
pub(crate) struct Listings(FxHashMap<Listing, bool>);

impl Listings {
    // Each is about a kibibyte.
    const MOST: usize = 20_000;
}

impl Tables<'_> {
    /// Whether limits or a finite supply may keep a node of the pool from listing what minValues asks for, or shares from
    /// being planned as the cheapest of it.
    pub(crate) fn may_lack_lists(&self, pool: PoolId) -> bool {
        let has_min_values = !self.table(pool).min_values.is_empty();
        let has_finite = self.has_finite_paid.get(pool.index()) == Some(&true);
        has_min_values && (has_finite || self.is_limited(pool) || !self.shares.is_empty())
    }
}

impl World<'_> {
    /// What may be listed beside a planned column: nothing cheaper, as that would be launched; not from a finite supply;
    /// within limits; and where no share is drawn on that the planned column does not draw on.
    pub(crate) fn instead(self, pool: PoolId, table: &ColumnTable, planned: ColumnId) -> FixedBitSet {
        let mut instead = table.all();
        instead.difference_with(&table.reserved);
        let price = table.column(planned).price;
        // Who loses a slot is planned anew.
        let is_on_slot = table.is_reserved(planned);
        let is_tight = self.tables.is_limited(pool) && self.is_tight(pool);
        for (at, column) in table.with_ids() {
            if column.slots.is_some()
                || column.price < price
                || (!is_on_slot && !self.tables.may_list(pool, planned, at))
                || (is_tight && self.allowance(pool, at, Some(planned)) == 0)
            {
                instead.set(at.index(), false);
            }
        }
        instead
    }

    /// Whether a claim keeps minValues with what is left of a list that names zones and capacity types apart.
    pub(crate) fn can_list(self, table: &ColumnTable, bin: &Bin, listed: &FixedBitSet) -> bool {
        let keeps = |set: &FixedBitSet| keeps_min_values(table, set, &bin.open, bin.planned);
        table.min_values.is_empty() || (keeps(listed) && keeps(&self.launchable(table, bin, listed)))
    }

    /// What was within limits when the node was opened may not be so beside later ones; minValues still holds. What is
    /// in the planned zone comes first: it can be listed with the planned column whatever else is offered elsewhere.
    pub(crate) fn widen(self, table: &ColumnTable, bin: &Bin, listed: &mut FixedBitSet) {
        let planned = table.column(bin.planned);
        let distance = |column: &Column| {
            let is_near = (column.zone, column.os) == (planned.zone, planned.os);
            if is_near { u8::from(column.capacity_type != planned.capacity_type) } else { 2 }
        };
        let may_do = |column: &Column| column.slots.is_none() && column.price >= planned.price;
        let mut candidates: Vec<(u8, ColumnId)> = Vec::new();
        for at in ColumnId::of(&bin.columns).filter(|&at| !table.is_reserved(at) && !listed.contains(at.index())) {
            let column = table.column(at);
            if may_do(column) && self.tables.fits_alone(bin.pool, at) {
                candidates.push((distance(column), at));
            }
        }
        candidates.sort_unstable();
        // So many of them as are enough, whatever a claim can tell apart: more never have fewer values.
        let first = |count: usize| {
            let mut wide = listed.clone();
            wide.extend(candidates.iter().take(count).map(|(_, at)| at.index()));
            wide
        };
        let keeps = |set: &FixedBitSet| keeps_min_values(table, set, &bin.open, bin.planned);
        let (mut enough, mut most) = (candidates.len().min(1), candidates.len());
        while enough < most {
            let middle = enough + (most - enough) / 2;
            if keeps(&first(middle)) { most = middle } else { enough = middle + 1 }
        }
        let least = first(enough);
        let mut wide = least.clone();
        let mut more = candidates.iter().skip(enough);
        while !self.can_list(table, bin, &wide) {
            let Some((_, at)) = more.next() else {
                *listed = least;
                return;
            };
            wide.insert(at.index());
        }
        *listed = wide;
    }

    /// Whether every paid node of a pool can list what minValues asks for, and nothing that is cheaper than planned.
    pub(crate) fn keeps_lists(self, listings: &mut Listings, pool: PoolId) -> bool {
        if !self.tables.may_lack_lists(pool) {
            return true;
        }
        let table = self.tables.table(pool);
        let has_left = |column: &Column| column.slots.is_some_and(|slot| self.ledger.state.free_slots(slot) > 0);
        let columns = table.with_ids();
        let supplied: FixedBitSet = columns.filter(|(_, column)| has_left(column)).map(|(at, _)| at.index()).collect();
        let supplied = Rc::new(supplied);
        let mut instead: FxHashMap<ColumnId, FixedBitSet> = FxHashMap::default();
        if listings.0.len() > Listings::MOST {
            listings.0.clear();
        }
        let bins = self.ledger.state.bins().iter().filter(|bin| bin.pool == pool && bin.nodes > 0);
        let mut paid = bins.filter(|bin| !table.is_reserved(bin.planned));
        paid.all(|bin| {
            let instead = instead.entry(bin.planned).or_insert_with(|| self.instead(pool, table, bin.planned));
            let mut listed = bin.columns.clone();
            listed.intersect_with(instead);
            listed.insert(bin.planned.index());
            let listing = Listing {
                pool,
                planned: bin.planned,
                columns: bin.columns.clone(),
                open: bin.open.clone(),
                listed,
                supplied: Rc::clone(&supplied),
            };
            match listings.0.entry(listing) {
                Entry::Occupied(known) => *known.get(),
                Entry::Vacant(new) => {
                    let mut listed = new.key().listed.clone();
                    if !self.can_list(table, bin, &listed) {
                        self.widen(table, bin, &mut listed);
                    }
                    *new.insert(self.can_list(table, bin, &listed))
                }
            }
        })
    }

    /// A claim names types, zones, capacity types and systems apart, so whatever they combine to must hold the pods:
    /// drops the types for which some combination would not. The planned column always stays.
    pub(crate) fn launchable(self, table: &ColumnTable, bin: &Bin, listed: &FixedBitSet) -> FixedBitSet {
        let keeps = |set: &FixedBitSet| {
            (table.is_reserved(bin.planned) || set.contains(bin.planned.index()))
                && keeps_min_values(table, set, &bin.open, bin.planned)
        };
        let strict = self.narrowed(table, bin, listed, Gaps::None, keeps);
        if table.min_values.is_empty() || keeps(&strict) {
            return strict;
        }
        // For minValues, a type may come of a finite supply that nobody lists, where that is no cheaper than planned.
        Some(self.narrowed(table, bin, listed, Gaps::Finite, keeps)).filter(keeps).unwrap_or(strict)
    }

    // Drops types, and narrows zones and capacity types as little as minValues asks for.
    fn narrowed(
        self,
        table: &ColumnTable,
        bin: &Bin,
        listed: &FixedBitSet,
        allowed: Gaps,
        keeps: impl Fn(&FixedBitSet) -> bool,
    ) -> FixedBitSet {
        let on_slot = table.is_reserved(bin.planned);
        let broad = self.without_gaps(table, bin, listed, allowed);
        if keeps(&broad) {
            return broad;
        }
        let planned = table.column(bin.planned);
        let narrowed = |to_zone: bool, to_capacity_type: bool| {
            let mut narrow = listed.clone();
            for at in ColumnId::of(listed) {
                let column = table.column(at);
                let is_alike = {
                    column.os == planned.os
                        && (!to_zone || column.zone == planned.zone)
                        && (!to_capacity_type || on_slot || column.capacity_type == planned.capacity_type)
                };
                narrow.set(at.index(), is_alike);
            }
            self.without_gaps(table, bin, &narrow, allowed)
        };
        let narrow = narrowed(true, true);
        if keeps(&narrow) {
            return narrow;
        }
        // For minValues, more than one capacity type, or zone.
        let less_narrow =
            [(true, false), (false, true)].into_iter().map(|(zone, kind)| narrowed(zone, kind)).find(&keeps);
        less_narrow.unwrap_or(narrow)
    }

    fn without_gaps(self, table: &ColumnTable, bin: &Bin, listed: &FixedBitSet, allowed: Gaps) -> FixedBitSet {
        let keys = &self.tables.cluster.well_known;
        let mut gaps = table.all();
        for key in [keys.zone, keys.capacity_type, keys.os] {
            let (mut named, mut unlabelled) = (FixedBitSet::with_capacity(listed.len()), table.all());
            for (_, columns) in table.values(key) {
                unlabelled.difference_with(columns);
                if !columns.is_disjoint(listed) {
                    named.union_with(columns);
                }
            }
            if !unlabelled.is_disjoint(listed) {
                named.union_with(&unlabelled);
            }
            gaps.intersect_with(&named);
        }
        gaps.difference_with(listed);
        gaps.set(bin.planned.index(), false);
        let is_to_be_had = |column: &Column| column.slots.is_none_or(|slot| self.ledger.state.free_slots(slot) > 0);
        let is_allowed = |at: ColumnId, column: &Column| {
            allowed == Gaps::Finite
                && column.slots.is_some()
                && bin.columns.contains(at.index())
                && column.price >= table.column(bin.planned).price
                && !table.is_reserved(at)
                && (table.is_reserved(bin.planned) || self.tables.may_list(bin.pool, bin.planned, at))
        };
        let bad: FxHashSet<u32> = ColumnId::of(&gaps)
            .map(|at| (at, table.column(at)))
            .filter(|(at, column)| is_to_be_had(column) && !is_allowed(*at, column))
            .map(|(_, column)| column.instance_type)
            .collect();
        if bad.is_empty() {
            return listed.clone();
        }
        let mut out = listed.clone();
        for at in ColumnId::of(listed) {
            if bad.contains(&table.column(at).instance_type) {
                out.set(at.index(), false);
            }
        }
        out
    }
}
