//! Pods join planned nodes, new ones are opened, and nodes are planned on other columns.

use berth_model::{Bin, ColumnId, PoolId};

use crate::join::Join;
use crate::ledger::Ledger;
use crate::prepared::Scope;
use crate::tables::{PoolColumn, Tables};
use crate::world::World;

impl Ledger {
    /// Applies a join to `nodes` nodes of the group at `index`.
    pub(crate) fn commit(&mut self, tables: &Tables<'_>, index: usize, nodes: u32, scope: &Scope<'_>, join: Join) {
        let (pods, planned) = (join.pods, join.planned);
        let Some(bin) = self.state.bins().get(index) else { return };
        let (rest, before, pool) = (bin.nodes.saturating_sub(nodes), bin.planned, bin.pool);
        if before != planned {
            self.replan(tables, pool, before, planned, nodes);
        }
        let Some(bin) = self.state.bins().get(index) else { return };
        let mut changed = tables.joined(bin, scope, join);
        changed.nodes = nodes;
        self.count_in_domains(tables, &changed, scope, pods);
        if rest == 0 {
            self.state.replace_bin(index, changed);
        } else {
            self.state.set_bin_nodes(index, rest);
            self.state.push_bin(changed);
        }
    }

    // Moves the ledger and the limits from one planned column to another.
    fn replan(&mut self, tables: &Tables<'_>, pool: PoolId, before: ColumnId, planned: ColumnId, nodes: u32) {
        let table = tables.table(pool);
        let (old, new) = (table.column(before).slots, table.column(planned).slots);
        if let Some(slot) = old {
            self.state.return_slots(slot, nodes);
        }
        if let Some(slot) = new {
            // The caller has checked that so many are free.
            let taken = self.state.take_slots(slot, nodes);
            debug_assert!(taken, "a slot was overdrawn");
        }
        let capacities = (tables.capacity(pool, before).cloned(), tables.capacity(pool, planned).cloned());
        if let (Some(before), Some(planned)) = capacities {
            self.state.use_pool(pool, &before, -i64::from(nodes));
            self.state.use_pool(pool, &planned, i64::from(nodes));
        }
    }

    /// Plans another column for a whole group; its contents stay.
    pub(crate) fn move_bin(&mut self, tables: &Tables<'_>, index: usize, planned: ColumnId) {
        let Some(bin) = self.state.bins().get(index) else { return };
        let (pool, before, nodes) = (bin.pool, bin.planned, bin.nodes);
        if before == planned {
            return;
        }
        self.replan(tables, pool, before, planned, nodes);
        let Some(used) = self.state.bins().get(index).map(|bin| bin.used.clone()) else { return };
        let mut slack = tables.table(pool).column(planned).room.clone();
        slack.subtract(&used);
        self.state.set_bin_room(index, planned, used, slack);
    }

    fn count_in_domains(&mut self, tables: &Tables<'_>, bin: &Bin, scope: &Scope<'_>, pods: u32) {
        let all = pods.saturating_mul(bin.nodes);
        let universe = tables.universe;
        for &counter in &scope.keyed_counts {
            let admitted = tables.counts_on(bin, counter);
            let key = universe.counter(counter).map(|counter| counter.key);
            if let (true, Some(domain)) = (admitted, key.and_then(|key| bin.domain(key))) {
                self.state.add_count(counter, Some(domain), all);
            }
        }
        for &counter in &scope.host_counts {
            if tables.counts_on(bin, counter) {
                self.state.add_count(counter, None, all);
            }
        }
        for &claim in &scope.spec().volumes.exclusive_claims {
            self.state.use_claim(claim);
        }
    }

    /// Opens `nodes` new nodes on a column, with `pods` of a demand each; false if they may not.
    pub(crate) fn open(
        &mut self,
        tables: &Tables<'_>,
        pool: PoolId,
        planned: ColumnId,
        nodes: u32,
        scope: &Scope<'_>,
        pods: u32,
    ) -> bool {
        let at = PoolColumn { pool, column: planned };
        let slots = tables.column(at).slots;
        let empty = tables.empty_bin(at, nodes);
        let Some(join) = World::new(tables, self).join(&empty, scope, pods, planned) else { return false };
        if let Some(slot) = slots
            && !self.state.take_slots(slot, nodes)
        {
            return false;
        }
        if let Some(capacity) = tables.capacity(pool, planned).cloned() {
            self.state.use_pool(pool, &capacity, i64::from(nodes));
        }
        let index = self.state.push_bin(empty);
        self.commit(tables, index, nodes, scope, join);
        true
    }
}
