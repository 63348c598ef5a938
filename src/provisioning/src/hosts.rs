//! Constraints on host names: how many pods a host takes, and what the least count over hosts is.

use berth_model::{ClassId, ColumnId, Constraint, CounterId, HostCounts, PoolId, host_allowance_above};
use berth_scheduling::filter_admits_node;

use crate::prepared::Scope;
use crate::tables::Tables;
use crate::world::World;

impl Tables<'_> {
    /// Whether a constraint looks at single nodes.
    pub(crate) fn is_over_hosts(&self, constraint: &Constraint) -> bool {
        let key = self.universe.counter(constraint.counter()).map(|counter| counter.key);
        key == Some(self.cluster.well_known.hostname)
    }
}

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
        if !self.ledger.counts_hosts_left && self.tables.pools().any(|pool| self.may_come(counter, pool)) {
            return (counter, 0);
        }
        self.least_on_hosts(spread)
    }

    // The least count over the hosts that there are and that are planned.
    fn least_on_hosts(self, spread: &Constraint) -> (CounterId, u32) {
        let counter = spread.counter();
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

    /// Whether every spread over host names of the pods that are placed holds over the hosts that there are and that are
    /// planned.
    pub(crate) fn keeps_host_spreads(self) -> bool {
        let classes = self.tables.pending();
        let spreads = classes.flat_map(|(id, class)| class.required.iter().map(move |constraint| (id, constraint)));
        spreads.filter(|(_, constraint)| self.tables.is_over_hosts(constraint)).all(|(id, constraint)| {
            let Constraint::Spread { counter, max_skew, .. } = *constraint else { return true };
            let (_, least) = self.least_on_hosts(constraint);
            let has_it = |contents: &[(ClassId, u32)]| contents.iter().any(|(class, _)| *class == id);
            let bins = self.ledger.state.bins().iter().filter(|bin| bin.nodes > 0 && has_it(&bin.contents));
            let nodes = self.ledger.state.nodes().iter().filter(|node| has_it(&node.added));
            let counts = bins.map(|bin| &bin.host_counts).chain(nodes.map(|node| &node.host_counts));
            counts.map(|counts| counts.get(counter)).all(|count| count <= least.saturating_add(max_skew))
        })
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
