//! The end of a solve: the cheapest column for what each node came to hold, and the claims that say so.

use std::rc::Rc;

use berth_model::{CapacityType, ClassId, Requirement, Requirements, Sym};
use fixedbitset::FixedBitSet;
use rustc_hash::FxHashMap;

use crate::planner::Planner;
use crate::solution::{Claims, NodePlan, Solution, Unschedulable};

impl Planner<'_> {
    /// Plans, for every paid node, the cheapest column that holds its pods.
    pub(crate) fn shrink(&mut self) {
        for index in 0..self.state.bins().len() {
            if let Some(column) = self.cheapest_column(index) {
                self.move_bin(index, column);
            }
        }
    }

    // The cheapest paid column for a paid group, within limits and finite supplies.
    fn cheapest_column(&self, index: usize) -> Option<usize> {
        let bin = self.state.bins().get(index)?;
        let table = self.tables.get(bin.pool)?;
        if bin.nodes == 0 || table.reserved.contains(bin.planned) {
            return None;
        }
        bin.columns.ones().filter(|&at| !table.reserved.contains(at)).find(|&at| {
            if at == bin.planned {
                return true;
            }
            let slots = table.columns.get(at).and_then(|column| column.slots);
            slots.is_none_or(|slot| self.state.free_slots(slot) >= bin.nodes)
                && self.allowance(bin.pool, at, Some(bin.planned)) >= bin.nodes
        })
    }

    /// The plan in terms of classes.
    pub(crate) fn solution(&mut self) -> Solution {
        let mut solution = Solution::default();
        for (index, node) in self.state.nodes().iter().enumerate().filter(|(_, node)| !node.added.is_empty()) {
            solution.nodes.push(NodePlan { node: index, contents: node.added.to_vec() });
        }
        let mut lists: FxHashMap<(usize, FixedBitSet), Rc<[u32]>> = FxHashMap::default();
        let mut used = vec![0_u32; self.cluster.slots.len()];
        for index in 0..self.state.bins().len() {
            let Some(claims) = self.claims(index, &mut lists) else { continue };
            if let Some(used) = claims.slots.and_then(|slot| used.get_mut(slot.index())) {
                *used += claims.count;
            }
            solution.claims.push(claims);
        }
        solution.slots_used = used;
        let mut left: Vec<(ClassId, u32)> = std::mem::take(&mut self.left);
        left.sort_unstable();
        for (class, count) in left {
            let reasons = self.refusals(class);
            solution.unschedulable.push(Unschedulable { class, count, reasons });
        }
        solution
    }

    fn claims(&self, index: usize, lists: &mut FxHashMap<(usize, FixedBitSet), Rc<[u32]>>) -> Option<Claims> {
        let bin = self.state.bins().get(index).filter(|bin| bin.nodes > 0)?;
        let table = self.tables.get(bin.pool)?;
        let planned = table.columns.get(bin.planned)?;
        let mut paid = bin.columns.clone();
        paid.difference_with(&table.reserved);
        for at in bin.columns.ones() {
            let is_spare = table.columns.get(at).is_some_and(|column| column.slots.is_some()) && at != bin.planned;
            let fits_limits = || self.allowance(bin.pool, at, Some(bin.planned)) > 0;
            if is_spare || (self.is_limited(bin.pool) && at != bin.planned && !fits_limits()) {
                paid.set(at, false);
            }
        }
        self.keep_products(bin.pool, &mut paid, bin.planned);
        let instance_types = lists.entry((bin.pool, paid)).or_insert_with_key(|(_, paid)| {
            let mut seen = rustc_hash::FxHashSet::default();
            let columns = paid.ones().filter_map(|at| table.columns.get(at));
            columns.map(|column| column.instance_type).filter(|&known| seen.insert(known)).collect()
        });
        let instance_types = Rc::clone(instance_types);
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
            instance_types,
            requirements: Rc::new(Requirements::new()),
            requests,
            contents: bin.contents.to_vec(),
        })
    }

    fn keep_products(&self, _pool: usize, _paid: &mut FixedBitSet, _planned: usize) {}
}

#[allow(dead_code)]
fn _unused(_: CapacityType, _: Requirement, _: Sym) {}
