//! From planned nodes to NodeClaims: which types and which requirements a claim names.

use std::collections::hash_map::Entry;
use std::rc::Rc;
use std::sync::Arc;

use berth_model::{
    Bin, ClassId, Column, ColumnTable, Constraint, CounterId, NodeState, Requirement, Requirements, Sym,
};
use fixedbitset::FixedBitSet;
use rustc_hash::{FxHashMap, FxHashSet};

use crate::planner::Planner;
use crate::solution::{Came, Claims, NodePlan, Solution, Unschedulable};
use crate::tables::Tables;

/// A pool, a set of its columns, and the planned one.
type ListKey = (usize, FixedBitSet, usize);

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

/// What many groups share.
#[derive(Default)]
struct Shared {
    /// By pool, columns and planned column: the types that a claim lists, and their columns.
    lists: FxHashMap<ListKey, (Arc<[u32]>, FixedBitSet)>,
    /// By pool and planned column: the columns that limits and finite supplies leave in its place.
    instead: FxHashMap<(usize, usize), FixedBitSet>,
    /// Labels that NodePools leave free and pods are spread over, with their domains.
    spread_over: Vec<(Sym, Rc<[Sym]>)>,
}

impl Tables<'_> {
    // The pool's requirements, narrowed to what the listed columns have and to what was decided. A claim on a slot is
    // pinned to that one reservation.
    fn requirements(
        &self,
        table: &ColumnTable,
        bin: &Bin,
        listed: &FixedBitSet,
        spread_over: &[(Sym, Rc<[Sym]>)],
    ) -> Requirements {
        let (symbols, keys) = (&self.cluster.symbols, &self.cluster.well_known);
        let Some(pool) = self.cluster.node_pools.get(bin.pool) else { return Requirements::new() };
        let mut requirements = pool.requirements.clone();
        requirements.add_all(&bin.open, symbols);
        let planned = table.columns.get(bin.planned);
        let on_slot = planned.filter(|_| table.reserved.contains(bin.planned));
        for key in [keys.zone, keys.capacity_type, keys.os, keys.arch] {
            let mut values: Vec<Sym> = Vec::new();
            for (value, columns) in table.values(key) {
                let is_named = match on_slot {
                    Some(_) => columns.contains(bin.planned),
                    None => !columns.is_disjoint(listed),
                };
                if is_named {
                    values.push(*value);
                }
            }
            if !values.is_empty() {
                requirements.add(key, Requirement::one_of(values), symbols);
            }
        }
        if let Some(slot) = on_slot.and_then(|column| column.slots)
            && let Some(slots) = self.cluster.slots.get(slot.index())
        {
            requirements.add(keys.reservation_id, Requirement::value(slots.id), symbols);
        }
        for &(key, value) in &bin.domains {
            requirements.add(key, Requirement::value(value), symbols);
        }
        // Labels that nobody decided, of which some pod is spread over the values: whatever value came would be a domain
        // without pods, and break that spread. A domain that there is does not: pods that count there decided theirs.
        for (key, domains) in spread_over.iter().filter(|(key, _)| bin.domain(*key).is_none()) {
            let Some(asked) = bin.open.get(*key).filter(|asked| asked.finite_values().is_none()) else { continue };
            if let Some(&value) = domains.iter().find(|value| asked.has(**value, symbols)) {
                requirements.add(*key, Requirement::value(value), symbols);
            }
        }
        requirements
    }
}

impl Planner<'_> {
    /// The plan in terms of classes.
    pub(crate) fn solution(&mut self) -> Solution {
        let mut solution = Solution::default();
        for (index, node) in self.ledger.state.nodes().iter().enumerate().filter(|(_, node)| !node.added.is_empty()) {
            let came = came_first(node);
            solution.nodes.push(NodePlan { node: index, contents: node.added.to_vec(), came });
        }
        let mut shared = Shared { spread_over: self.spread_over_free_labels(), ..Shared::default() };
        let mut used = vec![0_u32; self.tables.cluster.slots.len()];
        for bin in self.ledger.state.bins().iter().filter(|bin| bin.nodes > 0) {
            let Some(claims) = self.claims(bin, &mut shared) else { continue };
            if let Some(used) = claims.slots.and_then(|slot| used.get_mut(slot.index())) {
                *used += claims.count;
            }
            solution.claims.push(claims);
        }
        solution.slots_used = used;
        let mut left = self.ledger.tally.left.clone();
        left.sort_unstable();
        for (class, count) in left {
            let reasons = self.refusals(class);
            solution.unschedulable.push(Unschedulable { class, count, reasons });
        }
        solution
    }

    fn claims(&self, bin: &Bin, shared: &mut Shared) -> Option<Claims> {
        let table = self.tables.columns.get(bin.pool)?;
        let planned = table.columns.get(bin.planned)?;
        let is_planned_listed = bin.columns.contains(bin.planned) && !table.reserved.contains(bin.planned);
        let instead =
            shared.instead.entry((bin.pool, bin.planned)).or_insert_with(|| self.instead(bin.pool, table, bin.planned));
        let mut listed = bin.columns.clone();
        listed.intersect_with(instead);
        listed.set(bin.planned, is_planned_listed);
        if !self.can_list(table, bin, &listed) {
            self.widen(table, bin, &mut listed);
        }
        let (instance_types, listed) =
            shared.lists.entry((bin.pool, listed, bin.planned)).or_insert_with_key(|(_, listed, _)| {
                let listed = self.launchable(table, bin, listed);
                let mut seen = FxHashSet::default();
                let columns = listed.ones().filter_map(|at| table.columns.get(at));
                (columns.map(|column| column.instance_type).filter(|&known| seen.insert(known)).collect(), listed)
            });
        let mut requests = bin.used.clone();
        requests.add(&planned.daemons);
        Some(Claims {
            count: bin.nodes,
            node_pool: bin.pool,
            instance_type: planned.instance_type,
            zone: planned.zone,
            capacity_type: planned.capacity_type,
            slots: planned.slots,
            price: planned.price,
            list_price: planned.list_price,
            instance_types: Arc::clone(instance_types),
            requirements: Arc::new(self.tables.requirements(table, bin, listed, &shared.spread_over)),
            requests,
            contents: bin.contents.to_vec(),
        })
    }

    // What may be listed beside a planned column: nothing cheaper, as that would be launched; not from a finite supply;
    // within limits; and where no share is drawn on that the planned column does not draw on.
    fn instead(&self, pool: usize, table: &ColumnTable, planned: usize) -> FixedBitSet {
        let mut instead = table.all();
        instead.difference_with(&table.reserved);
        let price = table.columns.get(planned).map(|column| column.price);
        // Who loses a slot is planned anew.
        let is_on_slot = table.reserved.contains(planned);
        let is_tight = self.tables.is_limited(pool) && self.is_tight(pool);
        for (at, column) in table.columns.iter().enumerate() {
            if column.slots.is_some()
                || Some(column.price) < price
                || (!is_on_slot && !self.may_list(pool, planned, at))
                || (is_tight && self.allowance(pool, at, Some(planned)) == 0)
            {
                instead.set(at, false);
            }
        }
        instead
    }

    // Whether a claim keeps minValues with what is left of a list that names zones and capacity types apart.
    fn can_list(&self, table: &ColumnTable, bin: &Bin, listed: &FixedBitSet) -> bool {
        let keeps = |set: &FixedBitSet| self.tables.keeps_min_values(table, set, &bin.open, bin.planned);
        table.min_values.is_empty() || (keeps(listed) && keeps(&self.launchable(table, bin, listed)))
    }

    // What was within limits when the node was opened may not be so beside later ones; minValues still holds. What is
    // in the planned zone comes first: it can be listed with the planned column whatever else is offered elsewhere.
    fn widen(&self, table: &ColumnTable, bin: &Bin, listed: &mut FixedBitSet) {
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
        let keeps = |set: &FixedBitSet| self.tables.keeps_min_values(table, set, &bin.open, bin.planned);
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

    /// Whether limits may keep a node of the pool from listing what minValues asks for, or shares from being planned as the
    /// cheapest of it.
    pub(crate) fn limits_lists(&self, pool: usize) -> bool {
        (self.tables.is_limited(pool) || !self.ledger.shares.is_empty())
            && self.tables.columns.get(pool).is_some_and(|table| !table.min_values.is_empty())
    }

    /// Whether every paid node of a pool can list what minValues asks for, and nothing that is cheaper than planned.
    pub(crate) fn keeps_lists(&self, pool: usize) -> bool {
        let Some(table) = self.tables.columns.get(pool).filter(|_| self.limits_lists(pool)) else { return true };
        let has_left = |column: &Column| column.slots.is_some_and(|slot| self.ledger.state.free_slots(slot) > 0);
        let columns = table.columns.iter().enumerate();
        let supplied: FixedBitSet = columns.filter(|(_, column)| has_left(column)).map(|(at, _)| at).collect();
        let supplied = Rc::new(supplied);
        let mut instead: FxHashMap<usize, FixedBitSet> = FxHashMap::default();
        let mut known = self.caches.listings.borrow_mut();
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
    fn launchable(&self, table: &ColumnTable, bin: &Bin, listed: &FixedBitSet) -> FixedBitSet {
        let on_slot = table.reserved.contains(bin.planned);
        let broad = self.without_gaps(table, bin, listed);
        let keeps = |set: &FixedBitSet| {
            (on_slot || set.contains(bin.planned)) && self.tables.keeps_min_values(table, set, &bin.open, bin.planned)
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

    fn without_gaps(&self, table: &ColumnTable, bin: &Bin, listed: &FixedBitSet) -> FixedBitSet {
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

    // The labels that some NodePool leaves free and some pod is spread over, with their domains.
    fn spread_over_free_labels(&mut self) -> Vec<(Sym, Rc<[Sym]>)> {
        let mut counters: Vec<(Sym, CounterId)> = Vec::new();
        for constraint in
            self.tables.universe.classes.iter().filter(|class| class.count > 0).flat_map(|class| &class.required)
        {
            let key = self.tables.universe.counter(constraint.counter()).map(|counter| counter.key);
            let is_free = |key: Sym| {
                let mut open = self.tables.columns.iter().filter_map(|table| table.open.get(key));
                open.any(|asked| asked.finite_values().is_none())
            };
            if let Some(key) = key.filter(|key| matches!(constraint, Constraint::Spread { .. }) && is_free(*key)) {
                counters.push((key, constraint.counter()));
            }
        }
        counters.sort_unstable();
        counters.dedup();
        counters.into_iter().map(|(key, counter)| (key, self.domains(counter))).collect()
    }
}

// What the first pods of each class have that came to a node, of classes of which any has something.
fn came_first(state: &NodeState) -> Vec<(ClassId, Vec<Came>)> {
    if state.draws.is_empty() && state.assigned.is_empty() {
        return Vec::new();
    }
    let of_class = |&(class, count): &(ClassId, u32)| {
        let mut came: Vec<Came> = berth_scheduling::came(state, class).take(count as usize).collect();
        let n_first = came.iter().rposition(|came| *came != Came::default()).map_or(0, |last| last + 1);
        came.truncate(n_first);
        (!came.is_empty()).then_some((class, came))
    };
    state.added.iter().filter_map(of_class).collect()
}
