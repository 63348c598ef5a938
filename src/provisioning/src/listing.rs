//! What a claim may list beside the planned column.

use std::collections::hash_map::Entry;
use std::rc::Rc;

use berth_model::{Bin, Column, ColumnTable, Requirements};
use fixedbitset::FixedBitSet;
use rustc_hash::{FxHashMap, FxHashSet};

use crate::min_values::keeps_min_values;
use crate::tables::Tables;
use crate::world::World;

/// All that decides whether a paid node can list what minValues asks for.
#[derive(PartialEq, Eq, Hash)]
struct Listing {
    pool: usize,
    planned: usize,
    columns: FixedBitSet,
    open: Requirements,
    /// Those of the columns that limits and shares leave beside the planned one.
    listed: FixedBitSet,
    /// The columns of which a finite supply has instances left.
    supplied: Rc<FixedBitSet>,
}

/// What is known of nodes that could be listed, or not: packing asks about all nodes of a pool again whenever one changes.
#[derive(Default)]
pub(crate) struct Listings(FxHashMap<Listing, bool>);

impl Listings {
    // Each is about a kibibyte.
    const MOST: usize = 20_000;
}

impl Tables<'_> {
    /// Whether limits may keep a node of the pool from listing what minValues asks for, or shares from being planned as the
    /// cheapest of it.
    pub(crate) fn limits_lists(&self, pool: usize) -> bool {
        (self.is_limited(pool) || !self.shares.is_empty())
            && self.columns.get(pool).is_some_and(|table| !table.min_values.is_empty())
    }
}

impl World<'_> {
    // What may be listed beside a planned column: nothing cheaper, as that would be launched; not from a finite supply;
    // within limits; and where no share is drawn on that the planned column does not draw on.
    pub(crate) fn instead(self, pool: usize, table: &ColumnTable, planned: usize) -> FixedBitSet {
        let mut instead = table.all();
        instead.difference_with(&table.reserved);
        let price = table.columns.get(planned).map(|column| column.price);
        // Who loses a slot is planned anew.
        let is_on_slot = table.reserved.contains(planned);
        let is_tight = self.tables.is_limited(pool) && self.is_tight(pool);
        for (at, column) in table.columns.iter().enumerate() {
            if column.slots.is_some()
                || Some(column.price) < price
                || (!is_on_slot && !self.tables.may_list(pool, planned, at))
                || (is_tight && self.allowance(pool, at, Some(planned)) == 0)
            {
                instead.set(at, false);
            }
        }
        instead
    }

    // Whether a claim keeps minValues with what is left of a list that names zones and capacity types apart.
    pub(crate) fn can_list(self, table: &ColumnTable, bin: &Bin, listed: &FixedBitSet) -> bool {
        let keeps = |set: &FixedBitSet| keeps_min_values(table, set, &bin.open, bin.planned);
        table.min_values.is_empty() || (keeps(listed) && keeps(&self.launchable(table, bin, listed)))
    }

    // What was within limits when the node was opened may not be so beside later ones; minValues still holds. What is
    // in the planned zone comes first: it can be listed with the planned column whatever else is offered elsewhere.
    pub(crate) fn widen(self, table: &ColumnTable, bin: &Bin, listed: &mut FixedBitSet) {
        let Some(planned) = table.columns.get(bin.planned) else { return };
        let distance = |column: &Column| {
            let is_near = (column.zone, column.os) == (planned.zone, planned.os);
            if is_near { u8::from(column.capacity_type != planned.capacity_type) } else { 2 }
        };
        let may_do = |column: &Column| column.slots.is_none() && column.price >= planned.price;
        let mut candidates: Vec<(u8, usize)> = Vec::new();
        for at in bin.columns.ones().filter(|&at| !table.reserved.contains(at) && !listed.contains(at)) {
            let column = table.columns.get(at).filter(|column| may_do(column) && self.tables.fits_alone(bin.pool, at));
            candidates.extend(column.map(|column| (distance(column), at)));
        }
        candidates.sort_unstable();
        // So many of them as are enough, whatever a claim can tell apart: more never have fewer values.
        let first = |count: usize| {
            let mut wide = listed.clone();
            wide.extend(candidates.iter().take(count).map(|(_, at)| *at));
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
            wide.insert(*at);
        }
        *listed = wide;
    }

    /// Whether every paid node of a pool can list what minValues asks for, and nothing that is cheaper than planned.
    pub(crate) fn keeps_lists(self, listings: &mut Listings, pool: usize) -> bool {
        let Some(table) = self.tables.columns.get(pool).filter(|_| self.tables.limits_lists(pool)) else { return true };
        let has_left = |column: &Column| column.slots.is_some_and(|slot| self.ledger.state.free_slots(slot) > 0);
        let columns = table.columns.iter().enumerate();
        let supplied: FixedBitSet = columns.filter(|(_, column)| has_left(column)).map(|(at, _)| at).collect();
        let supplied = Rc::new(supplied);
        let mut instead: FxHashMap<usize, FixedBitSet> = FxHashMap::default();
        let known = listings;
        if known.0.len() > Listings::MOST {
            known.0.clear();
        }
        let bins = self.ledger.state.bins().iter().filter(|bin| bin.pool == pool && bin.nodes > 0);
        let mut paid = bins.filter(|bin| !table.reserved.contains(bin.planned));
        paid.all(|bin| {
            let instead = instead.entry(bin.planned).or_insert_with(|| self.instead(pool, table, bin.planned));
            let mut listed = bin.columns.clone();
            listed.intersect_with(instead);
            listed.insert(bin.planned);
            let listing = Listing {
                pool,
                planned: bin.planned,
                columns: bin.columns.clone(),
                open: bin.open.clone(),
                listed,
                supplied: Rc::clone(&supplied),
            };
            match known.0.entry(listing) {
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

    // A claim names types, zones, capacity types and systems apart, so whatever they combine to must hold the pods:
    // drops the types for which some combination would not. The planned column always stays.
    pub(crate) fn launchable(self, table: &ColumnTable, bin: &Bin, listed: &FixedBitSet) -> FixedBitSet {
        let on_slot = table.reserved.contains(bin.planned);
        let broad = self.without_gaps(table, bin, listed);
        let keeps = |set: &FixedBitSet| {
            (on_slot || set.contains(bin.planned)) && keeps_min_values(table, set, &bin.open, bin.planned)
        };
        if keeps(&broad) {
            return broad;
        }
        let Some(planned) = table.columns.get(bin.planned) else { return broad };
        let narrowed = |to_zone: bool, to_capacity_type: bool| {
            let mut narrow = listed.clone();
            for at in listed.ones() {
                let is_alike = table.columns.get(at).is_some_and(|column| {
                    column.os == planned.os
                        && (!to_zone || column.zone == planned.zone)
                        && (!to_capacity_type || on_slot || column.capacity_type == planned.capacity_type)
                });
                narrow.set(at, is_alike);
            }
            self.without_gaps(table, bin, &narrow)
        };
        let narrow = narrowed(true, true);
        if keeps(&narrow) {
            return narrow;
        }
        // For minValues, more than one capacity type, or zone.
        let less_narrow =
            [(true, false), (false, true)].into_iter().map(|(zone, kind)| narrowed(zone, kind)).find(keeps);
        less_narrow.unwrap_or(narrow)
    }

    fn without_gaps(self, table: &ColumnTable, bin: &Bin, listed: &FixedBitSet) -> FixedBitSet {
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
        gaps.set(bin.planned, false);
        let is_to_be_had = |column: &Column| column.slots.is_none_or(|slot| self.ledger.state.free_slots(slot) > 0);
        let bad: FxHashSet<u32> = gaps
            .ones()
            .filter_map(|at| table.columns.get(at))
            .filter(|column| is_to_be_had(column))
            .map(|column| column.instance_type)
            .collect();
        if bad.is_empty() {
            return listed.clone();
        }
        let mut out = listed.clone();
        for at in listed.ones() {
            if table.columns.get(at).is_some_and(|column| bad.contains(&column.instance_type)) {
                out.set(at, false);
            }
        }
        out
    }
}
