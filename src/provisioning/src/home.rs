//! Pods that choose the one node that all of them go to.

use std::rc::Rc;

use berth_model::Constraint;

use crate::buy::Choice;
use crate::caches::Caches;
use crate::ledger::Ledger;
use crate::packing::Packing;
use crate::prepared::Scope;
use crate::tables::{PoolColumn, Tables};
use crate::world::World;

impl World<'_> {
    /// Whether the first of these pods chooses the node for all.
    pub(crate) fn chooses_host(self, scope: &Scope<'_>) -> bool {
        scope.host.iter().any(|constraint| match *constraint {
            Constraint::Affinity { counter, counts_self } => counts_self && self.ledger.state.total(counter) == 0,
            _ => false,
        })
    }

    /// How many nodes may be joined at once: a first pod that chooses its host must not choose several.
    pub(crate) fn nodes_at_once(self, scope: &Scope<'_>, wanted: u32, there: u32) -> u32 {
        if self.chooses_host(scope) { 1 } else { wanted.clamp(1, there.max(1)) }
    }
}

impl Ledger {
    // A planned node with room for all of them.
    fn fill_home_bin(&mut self, tables: &Tables<'_>, scope: &Scope<'_>, count: u32) -> Option<u32> {
        let mut from = 0;
        while let Some(index) = self.state.next_with_room(from, scope.requests()) {
            from = index + 1;
            let bin = self.state.bins().get(index)?;
            let planned = bin.planned;
            let pods =
                scope.requests().times_in(&bin.slack, count).min(World::new(tables, self).allowance_on_bin(bin, scope));
            let within = World::new(tables, self).pods_within_shares(
                scope.class,
                PoolColumn { pool: bin.pool, column: planned },
                Some(bin),
                pods,
            );
            if pods == 0 || pods.min(within) < count || bin.nodes == 0 {
                continue;
            }
            if let Some(join) = World::new(tables, self).join(bin, scope, pods, planned) {
                self.commit(tables, index, 1, scope, join);
                return Some(pods);
            }
        }
        None
    }
}

impl Packing<'_, '_> {
    /// The first pods of a hostname self-affinity choose the one node for all: the first with room for all of them,
    /// else the one with the most.
    pub(crate) fn fill_home(&self, ledger: &mut Ledger, caches: &mut Caches<'_>, scope: &Scope<'_>, count: u32) -> u32 {
        let nodes = scope.prepared.nodes_at(self.tables, scope.pins);
        let on_nodes = nodes.iter().map(|&node| (ledger.room_on_node_for_all(self.tables, scope, node, count), node));
        let best_node = on_nodes.max_by_key(|&(pods, node)| (pods, std::cmp::Reverse(node)));
        if let Some((pods, node)) = best_node
            && pods == count
            && count > 0
        {
            ledger.fill_node(self.tables, scope, node, pods);
            return pods;
        }
        if let Some(pods) = ledger.fill_home_bin(self.tables, scope, count) {
            return pods;
        }
        for is_reserved in [true, false] {
            for pools in Rc::clone(&self.tables.pools_by_weight).iter() {
                let choices = self.new_nodes(ledger, caches, scope, count, pools, is_reserved);
                let all = choices.into_iter().filter(|choice| choice.pods >= count).collect();
                if let Some((pods, _)) = self.take_best(ledger, caches, scope, count, all, 1) {
                    return pods;
                }
            }
        }
        let mut most: Vec<Choice> = Vec::new();
        for is_reserved in [true, false] {
            for pools in Rc::clone(&self.tables.pools_by_weight).iter() {
                most.extend(self.new_nodes(ledger, caches, scope, count, pools, is_reserved));
            }
        }
        most.retain(|choice| best_node.is_none_or(|(pods, _)| choice.pods > pods));
        let most_pods = most.iter().map(|choice| choice.pods).max();
        most.retain(|choice| Some(choice.pods) == most_pods);
        if let Some((pods, _)) = self.take_best(ledger, caches, scope, count, most, 1) {
            return pods;
        }
        match best_node {
            Some((pods, node)) if pods > 0 => {
                ledger.fill_node(self.tables, scope, node, pods);
                pods
            }
            _ => 0,
        }
    }
}
