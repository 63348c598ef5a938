//! From planned nodes to NodeClaims: which types and which requirements a claim names.

use std::rc::Rc;
use std::sync::Arc;

use berth_model::{
    Bin, ClassId, ColumnId, ColumnTable, Constraint, CounterId, NodeState, PoolId, Requirement, Requirements, Sym,
};
use fixedbitset::FixedBitSet;
use rustc_hash::{FxHashMap, FxHashSet};

use crate::domains::KnownDomains;
use crate::solution::{Came, Claims, NodePlan, Solution, Unschedulable};
use crate::tables::{PoolColumn, Tables};
use crate::world::World;

/// A pool, a set of its columns, and the planned one.
type ListKey = (PoolId, FixedBitSet, ColumnId);

/// What many groups share.
#[derive(Default)]
struct Shared {
    /// By pool, columns and planned column: the types that a claim lists, and their columns.
    lists: FxHashMap<ListKey, (Arc<[u32]>, FixedBitSet)>,
    /// By pool and planned column: the columns that limits and finite supplies leave in its place.
    instead: FxHashMap<PoolColumn, FixedBitSet>,
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
        let Some(pool) = self.definition(bin.pool) else { return Requirements::new() };
        let mut requirements = pool.requirements.clone();
        requirements.add_all(&bin.open, symbols);
        let planned = table.column(bin.planned);
        let on_slot = Some(planned).filter(|_| table.is_reserved(bin.planned));
        for key in [keys.zone, keys.capacity_type, keys.os, keys.arch] {
            let mut values: Vec<Sym> = Vec::new();
            for (value, columns) in table.values(key) {
                let is_named = match on_slot {
                    Some(_) => columns.contains(bin.planned.index()),
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

impl World<'_> {
    /// The plan in terms of classes.
    pub(crate) fn solution(self, domains: &mut KnownDomains) -> Solution {
        let mut solution = Solution::default();
        for (index, node) in self.ledger.state.nodes().iter().enumerate().filter(|(_, node)| !node.added.is_empty()) {
            let came = came_first(node);
            solution.nodes.push(NodePlan { node: index, contents: node.added.to_vec(), came });
        }
        let mut shared = Shared { spread_over: spread_over_free_labels(self, domains), ..Shared::default() };
        let mut used = vec![0_u32; self.tables.cluster.slots.len()];
        for bin in self.ledger.state.bins().iter().filter(|bin| bin.nodes > 0) {
            let claims = self.claims(bin, &mut shared);
            if let Some(used) = claims.slots.and_then(|slot| used.get_mut(slot.index())) {
                *used += claims.count;
            }
            solution.claims.push(claims);
        }
        solution.slots_used = used;
        let mut left = self.ledger.tally.left.clone();
        left.sort_unstable();
        for (class, count) in left {
            let reasons = self.refusals(class, domains);
            solution.unschedulable.push(Unschedulable { class, count, reasons });
        }
        solution
    }

    fn claims(self, bin: &Bin, shared: &mut Shared) -> Claims {
        let table = self.tables.table(bin.pool);
        let planned = table.column(bin.planned);
        let is_planned_listed = bin.columns.contains(bin.planned.index()) && !table.is_reserved(bin.planned);
        let instead = shared
            .instead
            .entry(PoolColumn { pool: bin.pool, column: bin.planned })
            .or_insert_with(|| self.instead(bin.pool, table, bin.planned));
        let mut listed = bin.columns.clone();
        listed.intersect_with(instead);
        listed.set(bin.planned.index(), is_planned_listed);
        if !self.can_list(table, bin, &listed) {
            self.widen(table, bin, &mut listed);
        }
        let (instance_types, listed) =
            shared.lists.entry((bin.pool, listed, bin.planned)).or_insert_with_key(|(_, listed, _)| {
                let listed = self.launchable(table, bin, listed);
                let mut seen = FxHashSet::default();
                let columns = ColumnId::of(&listed).map(|at| table.column(at));
                (columns.map(|column| column.instance_type).filter(|&known| seen.insert(known)).collect(), listed)
            });
        let mut requests = bin.used.clone();
        requests.add(&planned.daemons);
        Claims {
            count: bin.nodes,
            node_pool: bin.pool.index(),
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
        }
    }
}

// The labels that some NodePool leaves free and some pod is spread over, with their domains.
fn spread_over_free_labels(world: World<'_>, domains: &mut KnownDomains) -> Vec<(Sym, Rc<[Sym]>)> {
    let mut counters: Vec<(Sym, CounterId)> = Vec::new();
    for constraint in
        world.tables.universe.classes.iter().filter(|class| class.count > 0).flat_map(|class| &class.required)
    {
        let key = world.tables.universe.counter(constraint.counter()).map(|counter| counter.key);
        let is_free = |key: Sym| {
            let mut open = world.tables.columns.iter().filter_map(|table| table.open.get(key));
            open.any(|asked| asked.finite_values().is_none())
        };
        if let Some(key) = key.filter(|key| matches!(constraint, Constraint::Spread { .. }) && is_free(*key)) {
            counters.push((key, constraint.counter()));
        }
    }
    counters.sort_unstable();
    counters.dedup();
    counters.into_iter().map(|(key, counter)| (key, domains.of(world, counter))).collect()
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
