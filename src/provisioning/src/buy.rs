//! Room for money, or for free from reservations: new nodes, and larger types for nodes already planned.

use std::rc::Rc;

use berth_model::{ColumnId, Constraint, CounterId, Money, PoolId, Resources, host_allowance};

use crate::caches::Caches;
use crate::ledger::Ledger;
use crate::packing::Packing;
use crate::prepared::Scope;
use crate::tables::{PoolColumn, Tables};
use crate::world::World;

/// How many of the latest groups are asked whether growing them is cheaper than a new node.
const GROWTH_CANDIDATES: usize = 32;

/// A way to get room: a new node, or a larger type for nodes already planned.
pub(crate) struct Choice {
    pool: PoolId,
    column: ColumnId,
    /// The group that grows; `None` opens new nodes.
    bin: Option<usize>,
    /// Pods a node takes.
    pub(crate) pods: u32,
    /// What a node costs more.
    cost: Money,
    /// Pods of this size that the cost is shared by.
    shared_by: u32,
}

impl Choice {
    fn at(&self) -> PoolColumn {
        PoolColumn { pool: self.pool, column: self.column }
    }

    // What a pod costs this way, then the smaller total, then a fixed order.
    fn order(&self, other: &Choice) -> std::cmp::Ordering {
        let mine = self.cost.pico().saturating_mul(i128::from(other.shared_by));
        let theirs = other.cost.pico().saturating_mul(i128::from(self.shared_by));
        (mine, self.cost, self.pool, self.column, self.bin).cmp(&(
            theirs,
            other.cost,
            other.pool,
            other.column,
            other.bin,
        ))
    }
}

impl Tables<'_> {
    /// What a node must hold for one pod of a demand and those of other classes that must join such a pod.
    pub(crate) fn room_for_followers(&self, scope: &Scope<'_>) -> Option<Resources> {
        let follows = |constraint: &Constraint| match *constraint {
            Constraint::Affinity { counter, .. } => scope.host_counts.contains(&counter),
            _ => false,
        };
        let followers = self.universe.classes.iter().enumerate().filter(|(index, class)| {
            *index != scope.class.0 as usize && class.count > 0 && class.required.iter().any(follows)
        });
        let mut all = scope.requests().clone();
        for (_, class) in followers {
            all.add_times(&self.spec(class).requests, i64::from(class.count));
        }
        (all != *scope.requests()).then_some(all)
    }
}

impl World<'_> {
    // How many nodes of a choice, with so many pods each, limits, shares and the slot ledger allow.
    fn affordable(self, scope: &Scope<'_>, choice: &Choice, pods: u32) -> u32 {
        let instead = choice.bin.and_then(|bin| self.ledger.state.bins().get(bin));
        let allowance = self.allowance(choice.pool, choice.column, instead.map(|bin| bin.planned));
        let column = self.tables.column(choice.at());
        let slots = column.slots.map_or(u32::MAX, |slot| self.ledger.state.free_slots(slot));
        let nodes = allowance.min(slots).min(instead.map_or(u32::MAX, |bin| bin.nodes));
        self.nodes_joined_within_shares(scope.class, choice.at(), instead, pods, nodes)
    }
}

impl Packing<'_, '_> {
    /// Gets room for money, or for free from reservations: new nodes, or larger types for planned ones.
    pub(crate) fn buy(
        &self,
        ledger: &mut Ledger,
        caches: &mut Caches<'_>,
        scope: &Scope<'_>,
        count: u32,
        pools: &[PoolId],
        reserved: bool,
    ) -> u32 {
        let mut left = count;
        while left > 0 {
            let mut choices = self.new_nodes(ledger, caches, scope, left, pools, reserved);
            if self.tables.has_reserved && self.strategy.spares_limits {
                choices.extend(self.new_nodes(ledger, caches, scope, left, pools, true));
            }
            if !reserved && !self.strategy.never_grows {
                choices.extend(self.growths(ledger, scope, left, pools));
            }
            match self.take_best(ledger, caches, scope, left, choices, u32::MAX) {
                Some((pods, nodes)) => left -= pods * nodes,
                None => break,
            }
        }
        count - left
    }

    /// Takes the best of the choices that works; returns pods a node and nodes.
    pub(crate) fn take_best(
        &self,
        ledger: &mut Ledger,
        caches: &mut Caches<'_>,
        scope: &Scope<'_>,
        count: u32,
        mut choices: Vec<Choice>,
        at_most: u32,
    ) -> Option<(u32, u32)> {
        let mut is_sorted = false;
        while !choices.is_empty() {
            // Mostly the best one works; only if it does not are the others put in order.
            let choice =
                if is_sorted { choices.pop() } else { best_of(&choices).map(|best| choices.swap_remove(best)) };
            let Some(choice) = choice else { break };
            if !is_sorted && self.world(ledger).affordable(scope, &choice, choice.pods.min(count)) == 0 {
                choices.sort_by(|a, b| a.order(b).reverse());
                is_sorted = true;
                continue;
            }
            let mut pods = choice.pods.min(count);
            while pods > 0 {
                let nodes = (count / pods).max(1).min(at_most).min(self.world(ledger).affordable(scope, &choice, pods));
                let nodes = if nodes == 0 { 0 } else { self.world(ledger).nodes_at_once(scope, nodes, nodes) };
                if nodes > 0 && self.take(ledger, caches, scope, &choice, pods, nodes).is_some() {
                    return Some((pods, nodes));
                }
                // Only minValues can refuse the full number and accept fewer.
                let has_min_values = !self.tables.table(choice.pool).min_values.is_empty();
                if has_min_values && nodes > 1 && self.take(ledger, caches, scope, &choice, pods, 1).is_some() {
                    return Some((pods, 1));
                }
                pods = if has_min_values { pods / 2 } else { 0 };
            }
        }
        None
    }

    fn take(
        &self,
        ledger: &mut Ledger,
        caches: &mut Caches<'_>,
        scope: &Scope<'_>,
        choice: &Choice,
        pods: u32,
        nodes: u32,
    ) -> Option<()> {
        if !self.tables.may_lack_lists(choice.pool) {
            return self.take_now(ledger, scope, choice, pods, nodes);
        }
        let mark = ledger.state.mark();
        let mut taken = self.take_now(ledger, scope, choice, pods, nodes);
        if taken.is_some() && !self.world(ledger).keeps_lists(&mut caches.listings, choice.pool) {
            ledger.state.rollback(mark);
            taken = None;
        }
        ledger.state.forget(mark);
        taken
    }

    fn take_now(&self, ledger: &mut Ledger, scope: &Scope<'_>, choice: &Choice, pods: u32, nodes: u32) -> Option<()> {
        match choice.bin {
            None => ledger.open(self.tables, choice.pool, choice.column, nodes, scope, pods).then_some(()),
            Some(index) => {
                let join = self.world(ledger).join(ledger.state.bins().get(index)?, scope, pods, choice.column)?;
                ledger.commit(self.tables, index, nodes, scope, join);
                Some(())
            }
        }
    }

    // Who may share a node's cost: the class's own pods, or all of this size that are still to come.
    fn sharers(&self, ledger: &Ledger, scope: &Scope<'_>, count: u32) -> u32 {
        if !self.strategy.shares_with_later {
            return count.max(1);
        }
        scope.requests().times_in(&ledger.remaining, u32::MAX).max(count).max(1)
    }

    /// The new nodes that could take pods of a demand.
    pub(crate) fn new_nodes(
        &self,
        ledger: &mut Ledger,
        caches: &mut Caches<'_>,
        scope: &Scope<'_>,
        count: u32,
        pools: &[PoolId],
        reserved: bool,
    ) -> Vec<Choice> {
        let mut choices = Vec::new();
        if count == 0 {
            return choices;
        }
        let sharers = self.sharers(ledger, scope, count);
        for &pool in pools {
            let Some(admission) = scope.admission(pool) else { continue };
            let hosts = {
                let first = |counter: CounterId| ledger.state.total(counter) == 0;
                host_allowance(&berth_model::HostCounts::default(), &scope.host, first)
            };
            let hosts = if scope.spec().excludes_its_like() { hosts.min(1) } else { hosts };
            let table = self.tables.table(pool);
            let mut candidates: Vec<ColumnId> = Vec::new();
            if reserved {
                candidates.extend(admission.columns.intersection(&table.reserved).map(ColumnId::new).filter(|&at| {
                    let slots = table.column(at).slots;
                    slots.is_none_or(|slot| ledger.state.free_slots(slot) > 0)
                }));
            } else {
                let known = scope.narrowed.frontiers.get(pool.index()).and_then(|known| known.get()).cloned();
                let frontier = known.unwrap_or_else(|| {
                    let mut columns = admission.columns.clone();
                    columns.difference_with(&table.reserved);
                    if let Some(kept) = self.tables.accelerators.kept_from(scope.class, pool) {
                        columns.difference_with(kept);
                    }
                    let frontier = caches.frontier(self.tables, pool, columns);
                    if let Some(known) = scope.narrowed.frontiers.get(pool.index()) {
                        let _ = known.set(Rc::clone(&frontier));
                    }
                    frontier
                });
                let node_cost = self.tables.options.node_cost.dollars();
                let mut likely = Vec::new();
                frontier.candidates(scope.requests(), hosts.min(sharers), node_cost, &mut caches.scratch, &mut likely);
                // Where the likely ones may be out of reach, all must be asked.
                let may_fail = |at: &ColumnId| {
                    table.column(*at).slots.is_some()
                        || self.tables.is_limited(pool) && self.world(ledger).allowance(pool, *at, None) == 0
                        || !self.tables.shares.is_empty()
                };
                let has_min_values = !table.min_values.is_empty();
                let asks_all = has_min_values || (self.strategy.spares_limits && self.tables.is_limited(pool));
                if asks_all || likely.is_empty() || likely.iter().any(may_fail) {
                    candidates.extend(&frontier.columns);
                } else {
                    candidates = likely;
                }
            }
            if self.strategy.leaves_room
                && let Some(all) = self.tables.room_for_followers(scope)
            {
                let mut roomy: Vec<ColumnId> =
                    if reserved { candidates.clone() } else { ColumnId::of(&admission.columns).collect() };
                roomy.retain(|&at| {
                    all.fits(&table.column(at).room)
                        && table.is_reserved(at) == reserved
                        && self
                            .tables
                            .accelerators
                            .kept_from(scope.class, pool)
                            .is_none_or(|kept| !kept.contains(at.index()))
                });
                // A slot that is too small is left to others.
                if reserved || !roomy.is_empty() {
                    candidates = roomy;
                }
            }
            for at in candidates {
                let column = table.column(at);
                let pods = scope.requests().times_in(&column.room, u32::MAX).min(hosts);
                let pods = match pods {
                    0 => 0,
                    // Beyond what is to be placed, more would change nothing but the price a pod.
                    pods if self.tables.shares.is_empty() => pods,
                    pods => match self.world(ledger).pods_within_shares(
                        scope.class,
                        PoolColumn { pool, column: at },
                        None,
                        pods.min(count),
                    ) {
                        within if within == pods.min(count) => pods,
                        within => within,
                    },
                };
                if pods == 0 {
                    continue;
                }
                let cost = self.cost_to_open(ledger, pool, at, column, reserved);
                let shared_by = if reserved && self.strategy.large_slots_first { pods } else { pods.min(sharers) };
                choices.push(Choice { pool, column: at, bin: None, pods, cost, shared_by });
            }
        }
        choices
    }

    // What new nodes are compared by.
    fn cost_to_open(
        &self,
        ledger: &Ledger,
        pool: PoolId,
        at: ColumnId,
        column: &berth_model::Column,
        reserved: bool,
    ) -> Money {
        match (reserved, self.strategy.large_slots_first) {
            _ if self.strategy.spares_limits => {
                column.price + self.tables.options.node_cost + self.world(ledger).taken_of_limits(pool, at, None)
            }
            (true, true) => Money::from_pico(1),
            (true, false) => column.list_price + self.tables.options.node_cost,
            (false, _) => column.price + self.tables.options.node_cost,
        }
    }

    // The larger types that planned nodes could grow to.
    fn growths(&self, ledger: &Ledger, scope: &Scope<'_>, count: u32, pools: &[PoolId]) -> Vec<Choice> {
        let mut choices = Vec::new();
        let sharers = self.sharers(ledger, scope, count);
        let candidates = ledger.state.bins().iter().enumerate().rev().filter(|(_, bin)| {
            pools.contains(&bin.pool)
                && bin.nodes > 0
                && !self.tables.table(bin.pool).is_reserved(bin.planned)
                && scope.pins.iter().all(|&(key, value)| bin.domain(key).is_none_or(|known| known == value))
        });
        for (index, bin) in candidates.take(GROWTH_CANDIDATES) {
            let table = self.tables.table(bin.pool);
            let Some(admission) = scope.admission(bin.pool) else { continue };
            let allowance = self.world(ledger).allowance_on_bin(bin, scope);
            if allowance == 0 {
                continue;
            }
            let at = table.cheapest_paid(&admission.columns, &bin.columns, scope.requests(), &bin.used);
            let Some(at) = at else { continue };
            let (column, planned) = (table.column(at), table.column(bin.planned));
            let pods = scope.requests().times_beside(&bin.used, &column.room, u32::MAX).min(allowance);
            let pods = match pods {
                0 => 0,
                pods if self.tables.shares.is_empty() => pods,
                pods => self.world(ledger).pods_within_shares(
                    scope.class,
                    PoolColumn { pool: bin.pool, column: at },
                    Some(bin),
                    pods.min(count),
                ),
            };
            if pods == 0 {
                continue;
            }
            let mut cost = Money::from_pico((column.price - planned.price).pico().max(0));
            if self.strategy.spares_limits {
                cost += self.world(ledger).taken_of_limits(bin.pool, at, Some(bin.planned));
            }
            choices.push(Choice {
                pool: bin.pool,
                column: at,
                bin: Some(index),
                pods,
                cost,
                shared_by: pods.min(sharers),
            });
        }
        choices
    }
}

fn best_of(choices: &[Choice]) -> Option<usize> {
    let mut best: Option<usize> = None;
    for (index, choice) in choices.iter().enumerate() {
        if best.and_then(|best| choices.get(best)).is_none_or(|best| choice.order(best).is_lt()) {
            best = Some(index);
        }
    }
    best
}
