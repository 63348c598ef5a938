//! First fit: existing nodes, then room on nodes being planned, then free slots, then paid capacity.

use std::rc::Rc;

use berth_model::{Constraint, CounterId, PoolId};

use crate::caches::Caches;
use crate::ledger::Ledger;
use crate::packing::Packing;
use crate::prepared::{Pins, Prepared, Scope};
use crate::tables::PoolColumn;

impl Packing<'_, '_> {
    /// Places up to `count` pods of a demand where `pins` allow; returns how many.
    pub(crate) fn fill(
        &self,
        ledger: &mut Ledger,
        caches: &mut Caches<'_>,
        prepared: &Prepared<'_>,
        count: u32,
        pins: &Pins,
    ) -> u32 {
        let placed = self.fill_once(ledger, caches, prepared, count, pins);
        // A claim that one pod uses alone was asked for already.
        if placed == count || !prepared.spec.volumes.exclusive_claims.is_empty() {
            return placed;
        }
        let spreads: Vec<Constraint> =
            prepared.demand.host.iter().filter(|one| matches!(one, Constraint::Spread { .. })).copied().collect();
        if spreads.is_empty() {
            return placed;
        }
        let more = self.fill_level_by_level(ledger, &spreads, count - placed, |ledger, left| {
            self.fill_once(ledger, caches, prepared, left, pins)
        });
        placed + more
    }

    // Spreads over host names for which no further host may come: the least count is that of the hosts that there are and
    // that are planned, and rises as these are filled.
    fn fill_level_by_level(
        &self,
        ledger: &mut Ledger,
        spreads: &[Constraint],
        count: u32,
        mut fill: impl FnMut(&mut Ledger, u32) -> u32,
    ) -> u32 {
        let mut placed = 0;
        while placed < count {
            let floors = spreads.iter().map(|spread| self.world(ledger).host_floor(spread));
            let floors: Vec<(CounterId, u32)> = floors.filter(|(_, least)| *least > 0).collect();
            if floors == ledger.host_floors {
                break;
            }
            ledger.host_floors = floors;
            let more = fill(ledger, count - placed);
            if more == 0 {
                break;
            }
            ledger.tally.counts_on_no_host = true;
            placed += more;
        }
        ledger.host_floors.clear();
        placed
    }

    fn fill_once(
        &self,
        ledger: &mut Ledger,
        caches: &mut Caches<'_>,
        prepared: &Prepared<'_>,
        count: u32,
        pins: &Pins,
    ) -> u32 {
        let scope = &prepared.scope(self.tables, pins);
        let mut left = count;
        if scope.spec().volumes.exclusive_claims.iter().any(|&claim| ledger.state.is_claim_used(claim)) {
            // A Reservation may hold it for this pod, on its node.
            return ledger.fill_nodes(self.tables, scope, left.min(1));
        }
        if !scope.spec().volumes.exclusive_claims.is_empty() {
            left = left.min(1);
        }
        let wanted = left;
        let levels = Rc::clone(&self.tables.pools_by_weight);
        if self.strategy.only_joins {
            left -= ledger.fill_nodes(self.tables, scope, left);
            for (pools, reserved) in levels.iter().flat_map(|pools| [(pools, true), (pools, false)]) {
                left -= self.fill_bins(ledger, scope, left, pools, reserved);
            }
            return wanted - left;
        }
        if self.world(ledger).chooses_host(scope) {
            left -= self.fill_home(ledger, caches, scope, left);
        }
        left -= ledger.fill_nodes(self.tables, scope, left);
        if self.tables.has_reserved {
            for pools in levels.iter() {
                left -= self.fill_bins(ledger, scope, left, pools, true);
            }
            // A large slot may take what many small nodes would.
            if !self.strategy.spares_limits && !self.strategy.slots_last {
                for pools in levels.iter() {
                    left -= self.buy(ledger, caches, scope, left, pools, true);
                }
            }
        }
        for pools in levels.iter() {
            left -= self.fill_bins(ledger, scope, left, pools, false);
            left -= self.buy(ledger, caches, scope, left, pools, false);
        }
        if self.tables.has_reserved && self.strategy.slots_last {
            for pools in levels.iter() {
                left -= self.buy(ledger, caches, scope, left, pools, true);
            }
        }
        wanted - left
    }

    // Fills room that planned nodes have anyway.
    fn fill_bins(&self, ledger: &mut Ledger, scope: &Scope<'_>, count: u32, pools: &[PoolId], reserved: bool) -> u32 {
        let mut left = count;
        let mut index = 0;
        let followers = if self.strategy.leaves_room { self.tables.room_for_followers(scope) } else { None };
        let room = followers.as_ref().unwrap_or(scope.requests());
        while left > 0 {
            let Some(next) = ledger.state.next_with_room(index, room) else { break };
            index = next;
            let Some(bin) = ledger.state.bins().get(index) else { break };
            if !room.fits(&bin.slack) || bin.nodes == 0 || !pools.contains(&bin.pool) {
                index += 1;
                continue;
            }
            let planned = bin.planned;
            let admits = scope.admission(bin.pool);
            let on_slot = self.tables.table(bin.pool).is_reserved(planned);
            if on_slot != reserved || !admits.is_some_and(|admission| admission.columns.contains(planned.index())) {
                index += 1;
                continue;
            }
            let pods = scope.requests().times_in(&bin.slack, left).min(self.world(ledger).allowance_on_bin(bin, scope));
            let on = PoolColumn { pool: bin.pool, column: planned };
            let pods = self.world(ledger).pods_within_shares(scope.class, on, Some(bin), pods);
            let join = if pods == 0 { None } else { self.world(ledger).join(bin, scope, pods, planned) };
            let Some(join) = join else {
                index += 1;
                continue;
            };
            let nodes = self.world(ledger).nodes_at_once(scope, left / pods, bin.nodes);
            let nodes = self.world(ledger).nodes_joined_within_shares(scope.class, on, Some(bin), pods, nodes);
            ledger.commit(self.tables, index, nodes, scope, join);
            left -= pods * nodes;
        }
        count - left
    }
}
