//! Several ways of packing, of which the best plan is kept: first fit is quick, and which of its habits suits a cluster
//! is cheaper to try than to guess.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use berth_model::{ClassId, Mark, Money};

use crate::ledger::Tally;
use crate::options::Effort;
use crate::planner::Planner;
use crate::shares::ALL;

/// How classes are ordered and how room is bought.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "independent habits, each on or off")]
pub(crate) struct Strategy {
    /// Order classes by their largest share of all that is asked for, rather than by CPU and memory.
    pub(crate) by_share: bool,
    /// Never plan a larger type for a node that is planned already.
    pub(crate) never_grows: bool,
    /// Order classes by how few columns and nodes admit them, the fewest first.
    pub(crate) constrained_first: bool,
    /// Of slots, open the one that takes most pods, rather than the one with the least list price a pod.
    pub(crate) large_slots_first: bool,
    /// Open slots for those alone who find no room that is paid for. Tried only where nodes cost something beyond their price:
    /// then a slot is not free.
    pub(crate) slots_last: bool,
    /// Order classes without regard to priority. Kept only if no priority loses a pod by it.
    pub(crate) ignores_priority: bool,
    /// Give up all preferences from the start. Kept only if it places more pods.
    pub(crate) drops_preferences: bool,
    /// Order classes that have topology constraints on themselves before others, which may count for these.
    pub(crate) topology_first: bool,
    /// Open nodes that have room for pods which must join them, too.
    pub(crate) leaves_room: bool,
    /// Price a new node by all pods that may still come to share it, rather than by the class's own.
    pub(crate) shares_with_later: bool,
    /// Buy room by what it takes of NodePool limits, rather than by its price, and order classes by how much of them the
    /// smallest node takes that holds a pod. Tried only where limits leave pods out.
    pub(crate) spares_limits: bool,
    /// Where limits are spared, order classes by how much of them a pod takes, not a node.
    pub(crate) frugal_first: bool,
    /// Open no nodes, and ask none that exist: pods join planned ones.
    pub(crate) only_joins: bool,
    /// Share pods out evenly over the values that shares are of. Tried only where shares may leave pods out.
    pub(crate) splits_evenly: bool,
}

/// Classes packed at most by [`Effort::Default`] and [`Effort::High`], over all strategies.
const DEFAULT_BUDGET: usize = 600;
const HIGH_BUDGET: usize = 12_000;

/// Packings with a whole that is just what was packed before, until it is taken for much less.
const PATIENT_ROUNDS: u32 = 8;

/// Classes up to which smaller shares are tried where shares leave pods out, and up to which all whole percents are.
const MOST_CLASSES_TIGHTENED: usize = 64;
const MOST_CLASSES_BY_PERCENT: usize = 16;

/// What plans are compared by, the first difference deciding: pods left over by priority, pods in lighter pools,
/// preferences given up, cost, list price of the slots used, nodes.
type Score = (BTreeMap<Reverse<i32>, u64>, u64, u64, i128, i128, u64);

/// The packings of so many classes that [`Effort::Default`] tries, limits and shares aside.
pub(crate) fn strategies_for(n_classes: usize) -> impl Iterator<Item = Strategy> {
    strategies().into_iter().take((DEFAULT_BUDGET / n_classes.max(1)).max(1))
}

/// The packings that are tried, in this order, as many as the budget of work allows.
fn strategies() -> [Strategy; 19] {
    let base = Strategy::default();
    let (constrained, flat) =
        (Strategy { constrained_first: true, ..base }, Strategy { ignores_priority: true, ..base });
    [
        base,
        constrained,
        flat,
        Strategy { large_slots_first: true, ..base },
        Strategy { shares_with_later: true, ..base },
        Strategy { by_share: true, ..base },
        Strategy { drops_preferences: true, ..base },
        Strategy { never_grows: true, ..base },
        Strategy { ignores_priority: true, ..constrained },
        Strategy { large_slots_first: true, ..constrained },
        Strategy { shares_with_later: true, ..constrained },
        Strategy { by_share: true, shares_with_later: true, ..base },
        Strategy { shares_with_later: true, ..flat },
        Strategy { never_grows: true, ..constrained },
        Strategy { never_grows: true, by_share: true, ..base },
        Strategy { large_slots_first: true, shares_with_later: true, ..flat },
        Strategy { topology_first: true, ..base },
        Strategy { leaves_room: true, ..base },
        Strategy { topology_first: true, leaves_room: true, ..flat },
    ]
}

impl Planner<'_> {
    /// Packs by the best of the strategies that the effort's budget of work allows, then packs new nodes anew by the
    /// search above them.
    pub(crate) fn pack_best(&mut self, effort: Effort) {
        if effort != Effort::High {
            return self.pack_at(effort);
        }
        // What more search finds may break what the packing program does not see, as spreads, and a search that begins with
        // the plan of another ends near it. So neither begins with the other's, and the better one stands.
        let start = self.ledger.state.mark();
        self.pack_at(Effort::Default);
        let by_default = self.score();
        self.ledger.state.rollback(start);
        self.pack_at(Effort::High);
        if self.score() > by_default {
            self.ledger.state.rollback(start);
            self.pack_at(Effort::Default);
        }
        self.ledger.state.forget(start);
    }

    fn pack_at(&mut self, effort: Effort) {
        if self.ledger.shares.is_empty() {
            self.pack_by_best_strategy(effort);
        } else {
            self.pack_within_shares_or_tighter(effort);
        }
        if effort == Effort::Low {
            return;
        }
        if self.ledger.tally.left.iter().any(|&(class, _)| self.may_want_what_others_took(class)) {
            self.pack_anew(effort, true);
        }
        self.pack_anew(effort, false);
    }

    // The search's plan is kept if it is better: where it was to place what has no place, if it places more.
    pub(crate) fn pack_anew(&mut self, effort: Effort, with_left: bool) {
        let (before, mark) = (self.score(), self.ledger.state.mark());
        let tally = self.ledger.tally.clone();
        let is_better = self.search(effort, with_left) && {
            self.shrink();
            self.fill_with_left();
            self.shrink();
            self.match_slots();
            self.shrink();
            // What a claim may list depends on what all others of its pool leave of limits.
            let score = self.score();
            (if with_left { score.0 < before.0 } else { score < before })
                && self.keeps_shares()
                && (0..self.tables.columns.len()).all(|pool| self.keeps_lists(pool))
        };
        if !is_better {
            self.ledger.state.rollback(mark);
            self.ledger.tally = tally;
        }
        self.ledger.state.forget(mark);
    }

    // What has no place may have one now.
    fn fill_with_left(&mut self) {
        if self.ledger.tally.left.iter().any(|&(class, _)| self.may_want_what_others_took(class)) {
            self.strategy = Strategy { spares_limits: true, ..Strategy::default() };
            self.pack_left();
        }
    }

    // Where shares leave pods out, a smaller share may leave out fewer, as packings differ: its plan keeps the larger one,
    // too. All smaller shares of a fixed list are tried with the least effort, so that of two shares on the list the larger
    // never places fewer.
    fn pack_within_shares_or_tighter(&mut self, effort: Effort) {
        let start = self.ledger.state.mark();
        self.pack_by_best_strategy(effort);
        let n_classes = self.tables.universe.classes.iter().filter(|class| class.count > 0).count();
        let mut best = (self.score().0, None);
        let leaves_any = |left: &BTreeMap<Reverse<i32>, u64>| left.values().any(|left| *left > 0);
        // What no node holds at any share is left out at every share.
        if leaves_any(&best.0) && n_classes <= MOST_CLASSES_TIGHTENED && self.leaves_what_may_fit() {
            let largest = self.ledger.shares.largest();
            let by_percent = n_classes <= MOST_CLASSES_BY_PERCENT;
            for cap in smaller_shares(self.ledger.shares.n_values(), by_percent).filter(|cap| *cap < largest) {
                self.pack_capped(start, cap, Effort::Low);
                let left = self.score().0;
                if left < best.0 {
                    best = (left, Some(cap));
                    if !leaves_any(&best.0) || !self.leaves_what_may_fit() {
                        break;
                    }
                }
            }
            match best.1 {
                Some(cap) => self.pack_capped(start, cap, Effort::Low),
                None => self.pack_capped(start, ALL, effort),
            }
            self.ledger.shares.set_cap(ALL);
        }
        self.ledger.state.forget(start);
    }

    fn pack_capped(&mut self, start: Mark, cap: i128, effort: Effort) {
        self.ledger.state.rollback(start);
        self.ledger.shares.set_cap(cap);
        self.pack_by_best_strategy(effort);
    }

    fn pack_by_best_strategy(&mut self, effort: Effort) {
        let n_classes = self.tables.universe.classes.iter().filter(|class| class.count > 0).count().max(1);
        let budget = match effort {
            Effort::Low => 0,
            Effort::Default => DEFAULT_BUDGET,
            Effort::High => HIGH_BUDGET,
        };
        let base = Strategy::default();
        let mut strategies: Vec<Strategy> = strategies().to_vec();
        // Who may go anywhere must not take the share of those who may not.
        let least = if self.ledger.shares.is_empty() { 1 } else { 3 };
        if !self.ledger.shares.is_empty() {
            strategies.insert(1, Strategy { topology_first: true, ..base });
        }
        if self.tables.has_reserved && self.tables.options.node_cost > Money::ZERO {
            strategies.insert(least, Strategy { slots_last: true, ..base });
        }
        strategies.truncate((budget / n_classes).max(least));
        let even = if self.ledger.shares.is_empty() {
            Vec::new()
        } else {
            let even = Strategy { splits_evenly: true, ..base };
            vec![
                even,
                Strategy { constrained_first: true, ..even },
                Strategy { topology_first: true, ..even },
                Strategy { ignores_priority: true, ..even },
            ]
        };
        let sparing = self.tables.sparing_strategies(budget, n_classes);
        if strategies.len() == 1 && even.is_empty() && sparing.is_empty() {
            self.pack_by(base);
            return;
        }
        let start = self.ledger.state.mark();
        let mut best: Option<(Score, Strategy)> = None;
        let (mut current, mut leaves_out) = (Strategy::default(), true);
        for strategy in strategies.into_iter().chain(even).chain(sparing) {
            if strategy.spares_limits && !leaves_out {
                break;
            }
            if strategy.splits_evenly && best.as_ref().is_some_and(|(score, _)| score.0.values().all(|left| *left == 0))
            {
                continue;
            }
            self.ledger.state.rollback(start);
            self.pack_by(strategy);
            current = strategy;
            // No more is to be won once one packing leaves out none for limits.
            leaves_out = leaves_out && self.limits_leave_out();
            let score = self.score();
            // A heavier pool is no reason to give preferences up: they say which pools admit a pod at all. Nor do limits
            // need to be spared but for the pods that they leave out.
            let is_for_more = strategy.drops_preferences || strategy.spares_limits;
            let is_better =
                |(least, _): &(Score, Strategy)| if is_for_more { score.0 < least.0 } else { score < *least };
            if best.as_ref().is_none_or(is_better) {
                best = Some((score, strategy));
            }
            // One is enough for the least effort, if nothing is left over.
            if budget == 0 && self.ledger.tally.left.is_empty() {
                break;
            }
        }
        if let Some((_, strategy)) = best.filter(|(_, strategy)| *strategy != current) {
            self.ledger.state.rollback(start);
            self.pack_by(strategy);
        }
        self.ledger.state.forget(start);
    }

    fn pack_by(&mut self, strategy: Strategy) {
        self.strategy = strategy;
        if self.ledger.shares.is_empty() {
            self.pack_over_domains();
        } else {
            self.pack_within_shares();
        }
    }

    // Shares are of the whole, and the whole is known only once all is packed: what goes to existing nodes or nowhere is
    // no part of it. Packs with ever less of it until the shares are kept; of a whole that is taken for too little they
    // are always kept, and with next to nothing each value may still have a node.
    fn pack_within_shares(&mut self) {
        let mark = self.ledger.state.mark();
        let mut total = self.share_of_pending().max(1);
        for round in 0.. {
            self.set_share_total(total);
            self.pack_over_domains();
            if self.keeps_shares() {
                break;
            }
            let planned = self.share_of_planned().min(total - 1);
            total = if round < PATIENT_ROUNDS { planned } else { planned * 3 / 4 }.max(1);
            self.ledger.state.rollback(mark);
        }
        self.ledger.state.forget(mark);
    }

    pub(crate) fn pack_once(&mut self) {
        self.ledger.tally = Tally::default();
        self.ledger.remaining = berth_model::Resources::new();
        self.pack();
        self.finish_packing();
    }

    /// The cheapest columns for what was packed, and slots where there are.
    pub(crate) fn finish_packing(&mut self) {
        self.shrink();
        self.match_slots();
        self.shrink();
    }

    fn score(&mut self) -> Score {
        // Every priority is there, so that plans compare count by count.
        let pending = self.tables.universe.classes.iter().filter(|class| class.count > 0);
        let mut left: BTreeMap<Reverse<i32>, u64> =
            pending.map(|class| (Reverse(self.tables.spec(class).priority), 0)).collect();
        for (id, count) in &self.ledger.tally.left {
            if let Some(class) = self.tables.universe.class(*id) {
                *left.entry(Reverse(self.tables.spec(class).priority)).or_default() += u64::from(*count);
            }
        }
        let weights = || self.tables.cluster.node_pools.iter().map(|pool| pool.weight);
        let has_weights = weights().min() != weights().max();
        let mut on_paid: BTreeMap<(ClassId, u32), u64> = BTreeMap::new();
        let (mut lighter, mut list_price, mut nodes) = (0_u64, 0_i128, 0_u64);
        for bin in self.ledger.state.bins().iter().filter(|bin| bin.nodes > 0) {
            nodes += u64::from(bin.nodes);
            let Some(table) = self.tables.columns.get(bin.pool) else { continue };
            if table.reserved.contains(bin.planned) {
                let list = table.columns.get(bin.planned).map_or(0, |column| column.list_price.pico());
                list_price += list.saturating_mul(i128::from(bin.nodes));
            } else if has_weights {
                let weight = self.tables.cluster.node_pools.get(bin.pool).map_or(0, |pool| pool.weight);
                for &(class, pods) in &bin.contents {
                    *on_paid.entry((class, weight)).or_default() += u64::from(pods) * u64::from(bin.nodes);
                }
            }
        }
        // A weight chooses among the pools that may take a pod: who has no choice weighs nothing, on paid nodes or off.
        for ((class, weight), pods) in on_paid {
            lighter += u64::from(self.heaviest(class).saturating_sub(weight)) * pods;
        }
        (left, lighter, self.ledger.tally.relaxations, self.marginal_cost(), list_price, nodes)
    }
}

// The shares that are tried below the one asked for, the largest first: each whole percent down to just below an even
// split, where that is not too much work, and every fifth, beneath it too, where only rounding to whole pods lets a plan be.
fn smaller_shares(n_values: usize, by_percent: bool) -> impl Iterator<Item = i128> {
    let even = i128::try_from(100 / n_values.max(1)).unwrap_or(0);
    let is_tried = move |percent: &i128| (by_percent && *percent >= even - 2) || percent % 5 == 0;
    (1..100).rev().filter(is_tried).map(|percent| percent * ALL / 100)
}
