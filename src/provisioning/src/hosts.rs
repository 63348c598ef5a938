//! Constraints on host names: how many pods a host takes, and what the least count over hosts is.

use berth_model::{ColumnId, Constraint, CounterId, HostCounts, PoolId, host_allowance_above};
use berth_scheduling::filter_admits_node;

use crate::prepared::Scope;
use crate::world::World;

impl World<'_> {
    /// How many more pods of a demand a host with these counts takes, as far as constraints on host names tell.
    pub(crate) fn allowance_on_host(self, counts: &HostCounts, scope: &Scope<'_>) -> u32 {
        let is_first = |counter: CounterId| self.ledger.state.total(counter) == 0;
        let least = |counter: CounterId| {
            let known = self.ledger.host_floors.iter().find(|(known, _)| *known == counter);
            known.map_or(0, |(_, least)| *least)
        };
        host_allowance_above(counts, &scope.host, is_first, least)
    }

    /// The least count over the hosts that a spread looks at; 0 where one more may come, which would be empty.
    pub(crate) fn host_floor(self, spread: &Constraint) -> (CounterId, u32) {
        let counter = spread.counter();
        if self.tables.pools().any(|pool| self.may_come(counter, pool)) {
            return (counter, 0);
        }
        let cluster = self.tables.cluster;
        let filter = self.tables.universe.counter(counter).and_then(|known| known.filter);
        let filter = filter.and_then(|filter| self.tables.universe.filters.get(filter.index()));
        let nodes = cluster.nodes.iter().zip(self.ledger.state.nodes());
        let existing = nodes
            .filter(|(node, _)| filter.is_none_or(|filter| filter_admits_node(cluster, node, filter)))
            .map(|(_, state)| (1, state.host_counts.get(counter)));
        let bins = self.ledger.state.bins().iter().filter(|bin| bin.nodes > 0 && self.tables.counts_on(bin, counter));
        let planned = bins.map(|bin| (u64::from(bin.nodes), bin.host_counts.get(counter)));
        let (mut hosts, mut least) = (0_u64, None);
        for (nodes, count) in existing.chain(planned) {
            hosts += nodes;
            least = Some(least.map_or(count, |least: u32| least.min(count)));
        }
        let wanted = match spread {
            Constraint::Spread { min_domains, .. } => min_domains.unwrap_or(0),
            _ => 0,
        };
        let least = least.filter(|_| hosts >= u64::from(wanted));
        (counter, least.unwrap_or(0))
    }

    // Whether a pool may launch one more node that a counter looks at.
    fn may_come(self, counter: CounterId, pool: PoolId) -> bool {
        if self.tables.definition(pool).is_none_or(|pool| pool.refusal.is_some()) || !self.tables.is_wanted(pool) {
            return false;
        }
        let (table, passages) = (self.tables.table(pool), self.tables.passages(counter, pool));
        let passes = |at: ColumnId| passages.is_none_or(|ways| ways.iter().any(|way| way.columns.contains(at.index())));
        table.with_ids().any(|(at, _)| passes(at) && self.is_left(pool, at))
    }
}
