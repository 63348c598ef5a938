//! First fit: existing nodes, then room on nodes being planned, then free slots, then paid capacity.

use std::rc::Rc;

use berth_model::{Constraint, CounterId, Money, Resources, host_allowance};
use fixedbitset::FixedBitSet;

use crate::frontier::Frontier;
use crate::planner::Planner;
use crate::prepared::{Pins, Prepared, Scope};
use crate::tables::Tables;

/// How many of the latest groups are asked whether growing them is cheaper than a new node.
const GROWTH_CANDIDATES: usize = 32;

/// A way to get room: a new node, or a larger type for nodes already planned.
struct Choice {
    pool: usize,
    column: usize,
    /// The group that grows; `None` opens new nodes.
    bin: Option<usize>,
    /// Pods a node takes.
    pods: u32,
    /// What a node costs more.
    cost: Money,
    /// Pods of this size that the cost is shared by.
    shared_by: u32,
}

impl Choice {
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
    // What a node must hold for one pod of a demand and those of other classes that must join such a pod.
    fn room_for_followers(&self, scope: &Scope<'_>) -> Option<Resources> {
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

impl Planner<'_> {
    /// Places up to `count` pods of a demand where `pins` allow; returns how many.
    pub(crate) fn fill(&mut self, prepared: &Prepared<'_>, count: u32, pins: &Pins) -> u32 {
        let scope = &prepared.scope(&self.tables, pins);
        let mut left = count;
        if scope.spec().volumes.exclusive_claims.iter().any(|&claim| self.ledger.state.is_claim_used(claim)) {
            // A Reservation may hold it for this pod, on its node.
            return self.fill_nodes(scope, left.min(1));
        }
        if !scope.spec().volumes.exclusive_claims.is_empty() {
            left = left.min(1);
        }
        let wanted = left;
        let levels = Rc::clone(&self.tables.pools_by_weight);
        if self.strategy.only_joins {
            for (pools, reserved) in levels.iter().flat_map(|pools| [(pools, true), (pools, false)]) {
                left -= self.fill_bins(scope, left, pools, reserved);
            }
            return wanted - left;
        }
        if self.chooses_host(scope) {
            left -= self.fill_home(scope, left);
        }
        left -= self.fill_nodes(scope, left);
        if self.tables.has_reserved {
            for pools in levels.iter() {
                left -= self.fill_bins(scope, left, pools, true);
            }
            // A large slot may take what many small nodes would.
            if !self.strategy.spares_limits && !self.strategy.slots_last {
                for pools in levels.iter() {
                    left -= self.buy(scope, left, pools, true);
                }
            }
        }
        for pools in levels.iter() {
            left -= self.fill_bins(scope, left, pools, false);
            left -= self.buy(scope, left, pools, false);
        }
        if self.tables.has_reserved && self.strategy.slots_last {
            for pools in levels.iter() {
                left -= self.buy(scope, left, pools, true);
            }
        }
        wanted - left
    }

    fn chooses_host(&self, scope: &Scope<'_>) -> bool {
        scope.host.iter().any(|constraint| match *constraint {
            Constraint::Affinity { counter, counts_self } => counts_self && self.ledger.state.total(counter) == 0,
            _ => false,
        })
    }

    // The first pods of a hostname self-affinity choose the one node for all: the first with room for all of them,
    // else the one with the most.
    fn fill_home(&mut self, scope: &Scope<'_>, count: u32) -> u32 {
        let nodes = scope.prepared.nodes_at(&self.tables, scope.pins);
        let on_nodes = nodes.iter().map(|&node| (self.room_on_node_for_all(scope, node, count), node));
        let best_node = on_nodes.max_by_key(|&(pods, node)| (pods, std::cmp::Reverse(node)));
        if let Some((pods, node)) = best_node
            && pods == count
            && count > 0
        {
            self.fill_node(scope, node, pods);
            return pods;
        }
        if let Some(pods) = self.fill_home_bin(scope, count) {
            return pods;
        }
        for is_reserved in [true, false] {
            for pools in Rc::clone(&self.tables.pools_by_weight).iter() {
                let choices = self.new_nodes(scope, count, pools, is_reserved);
                let all = choices.into_iter().filter(|choice| choice.pods >= count).collect();
                if let Some((pods, _)) = self.take_best(scope, count, all, 1) {
                    return pods;
                }
            }
        }
        let mut most: Vec<Choice> = Vec::new();
        for is_reserved in [true, false] {
            for pools in Rc::clone(&self.tables.pools_by_weight).iter() {
                most.extend(self.new_nodes(scope, count, pools, is_reserved));
            }
        }
        most.retain(|choice| best_node.is_none_or(|(pods, _)| choice.pods > pods));
        let most_pods = most.iter().map(|choice| choice.pods).max();
        most.retain(|choice| Some(choice.pods) == most_pods);
        if let Some((pods, _)) = self.take_best(scope, count, most, 1) {
            return pods;
        }
        match best_node {
            Some((pods, node)) if pods > 0 => {
                self.fill_node(scope, node, pods);
                pods
            }
            _ => 0,
        }
    }

    // A planned node with room for all of them.
    fn fill_home_bin(&mut self, scope: &Scope<'_>, count: u32) -> Option<u32> {
        let mut from = 0;
        while let Some(index) = self.ledger.state.next_with_room(from, scope.requests()) {
            from = index + 1;
            let bin = self.ledger.state.bins().get(index)?;
            let planned = bin.planned;
            let pods = scope.requests().times_in(&bin.slack, count).min(self.allowance_on_bin(bin, scope));
            let within = self.pods_within_shares(scope.class, (bin.pool, planned), Some(bin), pods);
            if pods == 0 || pods.min(within) < count || bin.nodes == 0 {
                continue;
            }
            if let Some(join) = self.join(bin, scope, pods, planned) {
                self.commit(index, 1, scope, pods, join, planned);
                return Some(pods);
            }
        }
        None
    }

    // Fills room that planned nodes have anyway.
    fn fill_bins(&mut self, scope: &Scope<'_>, count: u32, pools: &[usize], reserved: bool) -> u32 {
        let mut left = count;
        let mut index = 0;
        let followers = if self.strategy.leaves_room { self.tables.room_for_followers(scope) } else { None };
        let room = followers.as_ref().unwrap_or(scope.requests());
        while left > 0 {
            let Some(next) = self.ledger.state.next_with_room(index, room) else { break };
            index = next;
            let Some(bin) = self.ledger.state.bins().get(index) else { break };
            if !room.fits(&bin.slack) || bin.nodes == 0 || !pools.contains(&bin.pool) {
                index += 1;
                continue;
            }
            let planned = bin.planned;
            let admits = scope.admission(bin.pool);
            let on_slot = self.tables.columns.get(bin.pool).is_some_and(|table| table.reserved.contains(planned));
            if on_slot != reserved || !admits.is_some_and(|admission| admission.columns.contains(planned)) {
                index += 1;
                continue;
            }
            let pods = scope.requests().times_in(&bin.slack, left).min(self.allowance_on_bin(bin, scope));
            let on = (bin.pool, planned);
            let pods = self.pods_within_shares(scope.class, on, Some(bin), pods);
            let join = if pods == 0 { None } else { self.join(bin, scope, pods, planned) };
            let Some(join) = join else {
                index += 1;
                continue;
            };
            let nodes = self.nodes_at_once(scope, left / pods, bin.nodes);
            let nodes = self.nodes_joined_within_shares(scope.class, on, Some(bin), pods, nodes);
            self.commit(index, nodes, scope, pods, join, planned);
            left -= pods * nodes;
        }
        count - left
    }

    // A first pod that chooses its host must not choose several at once.
    fn nodes_at_once(&self, scope: &Scope<'_>, wanted: u32, there: u32) -> u32 {
        if self.chooses_host(scope) { 1 } else { wanted.clamp(1, there.max(1)) }
    }

    // Gets room for money, or for free from reservations: new nodes, or larger types for planned ones.
    fn buy(&mut self, scope: &Scope<'_>, count: u32, pools: &[usize], reserved: bool) -> u32 {
        let mut left = count;
        while left > 0 {
            let mut choices = self.new_nodes(scope, left, pools, reserved);
            if self.tables.has_reserved && self.strategy.spares_limits {
                choices.extend(self.new_nodes(scope, left, pools, true));
            }
            if !reserved && !self.strategy.never_grows {
                choices.extend(self.growths(scope, left, pools));
            }
            match self.take_best(scope, left, choices, u32::MAX) {
                Some((pods, nodes)) => left -= pods * nodes,
                None => break,
            }
        }
        count - left
    }

    // Takes the best of the choices that works; returns pods a node and nodes.
    fn take_best(
        &mut self,
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
            if !is_sorted && self.affordable(scope, &choice, choice.pods.min(count)) == 0 {
                choices.sort_by(|a, b| a.order(b).reverse());
                is_sorted = true;
                continue;
            }
            let mut pods = choice.pods.min(count);
            while pods > 0 {
                let nodes = (count / pods).max(1).min(at_most).min(self.affordable(scope, &choice, pods));
                let nodes = if nodes == 0 { 0 } else { self.nodes_at_once(scope, nodes, nodes) };
                if nodes > 0 && self.take(scope, &choice, pods, nodes).is_some() {
                    return Some((pods, nodes));
                }
                // Only minValues can refuse the full number and accept fewer.
                let has_min_values =
                    self.tables.columns.get(choice.pool).is_some_and(|table| !table.min_values.is_empty());
                if has_min_values && nodes > 1 && self.take(scope, &choice, pods, 1).is_some() {
                    return Some((pods, 1));
                }
                pods = if has_min_values { pods / 2 } else { 0 };
            }
        }
        None
    }

    fn take(&mut self, scope: &Scope<'_>, choice: &Choice, pods: u32, nodes: u32) -> Option<()> {
        if !self.limits_lists(choice.pool) {
            return self.take_now(scope, choice, pods, nodes);
        }
        let mark = self.ledger.state.mark();
        let mut taken = self.take_now(scope, choice, pods, nodes);
        if taken.is_some() && !self.keeps_lists(choice.pool) {
            self.ledger.state.rollback(mark);
            taken = None;
        }
        self.ledger.state.forget(mark);
        taken
    }

    fn take_now(&mut self, scope: &Scope<'_>, choice: &Choice, pods: u32, nodes: u32) -> Option<()> {
        match choice.bin {
            None => self.open(choice.pool, choice.column, nodes, scope, pods).then_some(()),
            Some(index) => {
                let join = self.join(self.ledger.state.bins().get(index)?, scope, pods, choice.column)?;
                self.commit(index, nodes, scope, pods, join, choice.column);
                Some(())
            }
        }
    }

    // How many nodes of a choice, with so many pods each, limits, shares and the slot ledger allow.
    fn affordable(&self, scope: &Scope<'_>, choice: &Choice, pods: u32) -> u32 {
        let instead = choice.bin.and_then(|bin| self.ledger.state.bins().get(bin));
        let allowance = self.allowance(choice.pool, choice.column, instead.map(|bin| bin.planned));
        let column = self.tables.columns.get(choice.pool).and_then(|table| table.columns.get(choice.column));
        let slots = column.and_then(|column| column.slots).map_or(u32::MAX, |slot| self.ledger.state.free_slots(slot));
        let nodes = allowance.min(slots).min(instead.map_or(u32::MAX, |bin| bin.nodes));
        self.nodes_joined_within_shares(scope.class, (choice.pool, choice.column), instead, pods, nodes)
    }

    // Who may share a node's cost: the class's own pods, or all of this size that are still to come.
    fn sharers(&self, scope: &Scope<'_>, count: u32) -> u32 {
        if !self.strategy.shares_with_later {
            return count.max(1);
        }
        scope.requests().times_in(&self.ledger.remaining, u32::MAX).max(count).max(1)
    }

    // The new nodes that could take pods of a demand.
    fn new_nodes(&mut self, scope: &Scope<'_>, count: u32, pools: &[usize], reserved: bool) -> Vec<Choice> {
        let mut choices = Vec::new();
        if count == 0 {
            return choices;
        }
        let sharers = self.sharers(scope, count);
        for &pool in pools {
            let Some(admission) = scope.admission(pool) else { continue };
            let hosts = {
                let first = |counter: CounterId| self.ledger.state.total(counter) == 0;
                host_allowance(&berth_model::HostCounts::default(), &scope.host, first)
            };
            let hosts = if scope.spec().excludes_its_like() { hosts.min(1) } else { hosts };
            let mut candidates: Vec<usize> = Vec::new();
            match self.tables.columns.get(pool) {
                Some(table) if reserved => {
                    candidates.extend(admission.columns.intersection(&table.reserved).filter(|&at| {
                        let slots = table.columns.get(at).and_then(|column| column.slots);
                        slots.is_none_or(|slot| self.ledger.state.free_slots(slot) > 0)
                    }));
                }
                Some(_) => {
                    let known = scope.narrowed.frontiers.get(pool).and_then(|known| known.get()).cloned();
                    let frontier = known.unwrap_or_else(|| {
                        let mut columns = admission.columns.clone();
                        if let Some(table) = self.tables.columns.get(pool) {
                            columns.difference_with(&table.reserved);
                        }
                        if let Some(kept) = self.tables.accelerators.kept_from(scope.class, pool) {
                            columns.difference_with(kept);
                        }
                        let frontier = self.frontier(pool, columns);
                        if let Some(known) = scope.narrowed.frontiers.get(pool) {
                            let _ = known.set(Rc::clone(&frontier));
                        }
                        frontier
                    });
                    let node_cost = self.tables.options.node_cost.dollars();
                    let mut likely = Vec::new();
                    frontier.candidates(
                        scope.requests(),
                        hosts.min(sharers),
                        node_cost,
                        &mut self.caches.scratch,
                        &mut likely,
                    );
                    // Where the likely ones may be out of reach, all must be asked.
                    let may_fail = |at: &usize| {
                        let column = self.tables.columns.get(pool).and_then(|table| table.columns.get(*at));
                        column.is_none_or(|column| column.slots.is_some())
                            || self.tables.is_limited(pool) && self.allowance(pool, *at, None) == 0
                            || !self.ledger.shares.is_empty()
                    };
                    let has_min_values =
                        self.tables.columns.get(pool).is_some_and(|table| !table.min_values.is_empty());
                    let asks_all = has_min_values || (self.strategy.spares_limits && self.tables.is_limited(pool));
                    if asks_all || likely.is_empty() || likely.iter().any(may_fail) {
                        candidates.extend(&frontier.columns);
                    } else {
                        candidates = likely;
                    }
                }
                None => continue,
            }
            let Some(table) = self.tables.columns.get(pool) else { continue };
            if self.strategy.leaves_room
                && let Some(all) = self.tables.room_for_followers(scope)
            {
                let mut roomy: Vec<usize> =
                    if reserved { candidates.clone() } else { admission.columns.ones().collect() };
                roomy.retain(|&at| {
                    let holds = |column: &berth_model::Column| all.fits(&column.room);
                    table.columns.get(at).is_some_and(holds)
                        && table.reserved.contains(at) == reserved
                        && self.tables.accelerators.kept_from(scope.class, pool).is_none_or(|kept| !kept.contains(at))
                });
                // A slot that is too small is left to others.
                if reserved || !roomy.is_empty() {
                    candidates = roomy;
                }
            }
            for at in candidates {
                let Some(column) = table.columns.get(at) else { continue };
                let pods = scope.requests().times_in(&column.room, u32::MAX).min(hosts);
                let pods = match pods {
                    0 => 0,
                    // Beyond what is to be placed, more would change nothing but the price a pod.
                    pods if self.ledger.shares.is_empty() => pods,
                    pods => match self.pods_within_shares(scope.class, (pool, at), None, pods.min(count)) {
                        within if within == pods.min(count) => pods,
                        within => within,
                    },
                };
                if pods == 0 {
                    continue;
                }
                let cost = self.cost_to_open(pool, at, column, reserved);
                let shared_by = if reserved && self.strategy.large_slots_first { pods } else { pods.min(sharers) };
                choices.push(Choice { pool, column: at, bin: None, pods, cost, shared_by });
            }
        }
        choices
    }

    // What new nodes are compared by.
    fn cost_to_open(&self, pool: usize, at: usize, column: &berth_model::Column, reserved: bool) -> Money {
        match (reserved, self.strategy.large_slots_first) {
            _ if self.strategy.spares_limits => {
                column.price + self.tables.options.node_cost + self.taken_of_limits(pool, at, None)
            }
            (true, true) => Money::from_pico(1),
            (true, false) => column.list_price + self.tables.options.node_cost,
            (false, _) => column.price + self.tables.options.node_cost,
        }
    }

    // The larger types that planned nodes could grow to.
    fn growths(&self, scope: &Scope<'_>, count: u32, pools: &[usize]) -> Vec<Choice> {
        let mut choices = Vec::new();
        let sharers = self.sharers(scope, count);
        let candidates = self.ledger.state.bins().iter().enumerate().rev().filter(|(_, bin)| {
            pools.contains(&bin.pool)
                && bin.nodes > 0
                && self.tables.columns.get(bin.pool).is_some_and(|table| !table.reserved.contains(bin.planned))
                && scope.pins.iter().all(|&(key, value)| bin.domain(key).is_none_or(|known| known == value))
        });
        for (index, bin) in candidates.take(GROWTH_CANDIDATES) {
            let Some(table) = self.tables.columns.get(bin.pool) else { continue };
            let Some(admission) = scope.admission(bin.pool) else { continue };
            let allowance = self.allowance_on_bin(bin, scope);
            if allowance == 0 {
                continue;
            }
            let at = table.cheapest_paid(&admission.columns, &bin.columns, scope.requests(), &bin.used);
            let Some(at) = at else { continue };
            let (Some(column), Some(planned)) = (table.columns.get(at), table.columns.get(bin.planned)) else {
                continue;
            };
            let pods = scope.requests().times_beside(&bin.used, &column.room, u32::MAX).min(allowance);
            let pods = match pods {
                0 => 0,
                pods if self.ledger.shares.is_empty() => pods,
                pods => self.pods_within_shares(scope.class, (bin.pool, at), Some(bin), pods.min(count)),
            };
            if pods == 0 {
                continue;
            }
            let mut cost = Money::from_pico((column.price - planned.price).pico().max(0));
            if self.strategy.spares_limits {
                cost += self.taken_of_limits(bin.pool, at, Some(bin.planned));
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

    // The frontier of a pool's columns, worked out once for each set.
    fn frontier(&mut self, pool: usize, columns: FixedBitSet) -> Rc<Frontier> {
        if let Some(known) = self.caches.frontiers.get(&(pool, columns.clone())) {
            return Rc::clone(known);
        }
        let keeps_all = self.keeps_all(pool);
        let frontier = self
            .tables
            .columns
            .get(pool)
            .map(|table| Frontier::new(table, &columns, keeps_all, !self.ledger.shares.is_empty()));
        let frontier = Rc::new(frontier.unwrap_or_default());
        self.caches.frontiers.insert((pool, columns), Rc::clone(&frontier));
        frontier
    }

    // Whether limits, minValues or shares may rule out a column that is otherwise best.
    fn keeps_all(&self, pool: usize) -> bool {
        !self.ledger.shares.is_empty()
            || self.tables.is_limited(pool)
            || self.tables.columns.get(pool).is_some_and(|table| !table.min_values.is_empty())
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
