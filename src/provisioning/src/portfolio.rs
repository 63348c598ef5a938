//! Several ways of packing, of which the best plan is kept: first fit is quick, and which of its habits suits a cluster
//! is cheaper to try than to guess.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use berth_model::{Mark, Money};

use crate::caches::Caches;
use crate::domains_left::fill_domains_left;
use crate::ledger::Ledger;
use crate::max_share::ALL;
use crate::options::Effort;
use crate::packing::Packing;
use crate::score::{self, Score};
use crate::search::search;
use crate::shrink::shrink;
use crate::slots::match_slots;
use crate::strategy::Strategy;
use crate::tables::Tables;
use crate::world::World;
use berth_packing::StopReason;

/// Classes packed at most by [`Effort::Default`] and [`Effort::High`], over all strategies.
const DEFAULT_BUDGET: usize = 600;
const HIGH_BUDGET: usize = 12_000;

/// Classes up to which smaller shares are tried where shares leave pods out, and up to which all whole percents are.
const MOST_CLASSES_TIGHTENED: usize = 64;
const MOST_CLASSES_BY_PERCENT: usize = 16;

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

/// Packs by the best of the strategies that the effort's budget of work allows, then packs new nodes anew by the
/// search above them. Why the last search stopped, if there was one.
pub(crate) fn pack_best<'a>(
    tables: &Tables<'a>,
    ledger: &mut Ledger,
    caches: &mut Caches<'a>,
    effort: Effort,
) -> Option<StopReason> {
    if effort != Effort::High {
        return pack_at(tables, ledger, caches, effort);
    }
    // What more search finds may break what the packing program does not see, as spreads, and a search that begins with
    // the plan of another ends near it. So neither begins with the other's, and the better one stands.
    let start = ledger.state.mark();
    let mut stop = pack_at(tables, ledger, caches, Effort::Default);
    let by_default = score::score(tables, ledger);
    ledger.state.rollback(start);
    stop = pack_at(tables, ledger, caches, Effort::High).or(stop);
    if score::score(tables, ledger) > by_default {
        ledger.state.rollback(start);
        stop = pack_at(tables, ledger, caches, Effort::Default).or(stop);
    }
    ledger.state.forget(start);
    stop
}

fn pack_at<'a>(
    tables: &Tables<'a>,
    ledger: &mut Ledger,
    caches: &mut Caches<'a>,
    effort: Effort,
) -> Option<StopReason> {
    if tables.shares.is_empty() {
        pack_by_best_strategy(tables, ledger, caches, effort);
    } else {
        pack_within_shares_or_tighter(tables, ledger, caches, effort);
    }
    if effort == Effort::Low {
        return None;
    }
    let wants_room = ledger.tally.left.iter().any(|&(class, _)| tables.may_want_what_others_took(class));
    let with_left = if wants_room { pack_anew(tables, ledger, caches, effort, true) } else { None };
    let stop = pack_anew(tables, ledger, caches, effort, false).or(with_left);
    // Who is left over may join the nodes that were packed anew.
    fill_domains_left(tables, ledger, caches, false);
    stop
}

/// Searches for a plan, which is kept if it is better: where it is to place what has no place, if it places more. Why the
/// search stopped, if there was one.
pub(crate) fn pack_anew<'a>(
    tables: &Tables<'a>,
    ledger: &mut Ledger,
    caches: &mut Caches<'a>,
    effort: Effort,
    with_left: bool,
) -> Option<StopReason> {
    let (before, mark) = (score::score(tables, ledger), ledger.state.mark());
    let tally = ledger.tally.clone();
    let found = search(tables, ledger, effort, with_left);
    let is_better = found.as_ref().is_some_and(|found| found.is_put_in) && {
        shrink(tables, ledger, &mut caches.listings);
        fill_with_left(tables, ledger, caches);
        shrink(tables, ledger, &mut caches.listings);
        match_slots(tables, ledger, &mut caches.listings);
        shrink(tables, ledger, &mut caches.listings);
        // What a claim may list depends on what all others of its pool leave of limits.
        let score = score::score(tables, ledger);
        (if with_left { score.left < before.left } else { score < before })
            && World::new(tables, ledger).keeps_shares()
            && World::new(tables, ledger).uncounted(&mut caches.domains).is_empty()
            && (!tally.counts_on_no_host || World::new(tables, ledger).keeps_host_spreads())
            && tables.pools().all(|pool| World::new(tables, ledger).keeps_lists(&mut caches.listings, pool))
    };
    if !is_better {
        ledger.state.rollback(mark);
        ledger.tally = tally;
    }
    ledger.state.forget(mark);
    found.map(|found| found.stop)
}

// What has no place may have one now.
fn fill_with_left<'a>(tables: &Tables<'a>, ledger: &mut Ledger, caches: &mut Caches<'a>) {
    if ledger.tally.left.iter().any(|&(class, _)| tables.may_want_what_others_took(class)) {
        let strategy = Strategy { spares_limits: true, ..Strategy::default() };
        Packing { tables, strategy }.pack_left(ledger, caches);
    }
}

// Where shares leave pods out, a smaller share may leave out fewer, as packings differ: its plan keeps the larger one,
// too. All smaller shares of a fixed list are tried with the least effort, so that of two shares on the list the larger
// never places fewer.
fn pack_within_shares_or_tighter<'a>(
    tables: &Tables<'a>,
    ledger: &mut Ledger,
    caches: &mut Caches<'a>,
    effort: Effort,
) {
    let start = ledger.state.mark();
    pack_by_best_strategy(tables, ledger, caches, effort);
    let n_classes = tables.universe.classes.iter().filter(|class| class.count > 0).count();
    let mut best = (score::score(tables, ledger).left, None);
    let leaves_any = |left: &BTreeMap<Reverse<i32>, u64>| left.values().any(|left| *left > 0);
    // What no node holds at any share is left out at every share.
    if leaves_any(&best.0) && n_classes <= MOST_CLASSES_TIGHTENED && World::new(tables, ledger).leaves_what_may_fit() {
        let largest = tables.shares.largest();
        let by_percent = n_classes <= MOST_CLASSES_BY_PERCENT;
        for cap in smaller_shares(tables.shares.n_values(), by_percent).filter(|cap| *cap < largest) {
            pack_capped(tables, ledger, caches, start, cap, Effort::Low);
            let left = score::score(tables, ledger).left;
            if left < best.0 {
                best = (left, Some(cap));
                if !leaves_any(&best.0) || !World::new(tables, ledger).leaves_what_may_fit() {
                    break;
                }
            }
        }
        match best.1 {
            Some(cap) => pack_capped(tables, ledger, caches, start, cap, Effort::Low),
            None => pack_capped(tables, ledger, caches, start, ALL, effort),
        }
        ledger.shares.set_cap(ALL);
    }
    ledger.state.forget(start);
}

fn pack_capped<'a>(
    tables: &Tables<'a>,
    ledger: &mut Ledger,
    caches: &mut Caches<'a>,
    start: Mark,
    cap: i128,
    effort: Effort,
) {
    ledger.state.rollback(start);
    ledger.shares.set_cap(cap);
    pack_by_best_strategy(tables, ledger, caches, effort);
}

fn pack_by_best_strategy<'a>(tables: &Tables<'a>, ledger: &mut Ledger, caches: &mut Caches<'a>, effort: Effort) {
    let n_classes = tables.universe.classes.iter().filter(|class| class.count > 0).count().max(1);
    let budget = match effort {
        Effort::Low => 0,
        Effort::Default => DEFAULT_BUDGET,
        Effort::High => HIGH_BUDGET,
    };
    let base = Strategy::default();
    let mut strategies: Vec<Strategy> = strategies().to_vec();
    // Who may go anywhere must not take the share of those who may not.
    let least = if tables.shares.is_empty() { 1 } else { 3 };
    if !tables.shares.is_empty() {
        strategies.insert(1, Strategy { topology_first: true, ..base });
    }
    if tables.has_reserved && tables.options.node_cost > Money::ZERO {
        strategies.insert(least, Strategy { slots_last: true, ..base });
    }
    strategies.truncate((budget / n_classes).max(least));
    let even = if tables.shares.is_empty() {
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
    let sparing = tables.sparing_strategies(budget, n_classes);
    let beside_volumes = if tables.volume_counters.is_empty() {
        Vec::new()
    } else {
        let beside = Strategy { joins_volumes: true, ..base };
        vec![beside, Strategy { topology_first: true, ..beside }]
    };
    if strategies.len() == 1 && even.is_empty() && sparing.is_empty() && beside_volumes.is_empty() {
        Packing { tables, strategy: base }.pack(ledger, caches);
        return;
    }
    let start = ledger.state.mark();
    let mut best: Option<(Score, Strategy)> = None;
    let (mut current, mut leaves_out, mut goes_beyond) = (Strategy::default(), true, false);
    for strategy in strategies.into_iter().chain(beside_volumes).chain(even).chain(sparing) {
        if strategy.spares_limits && !leaves_out {
            break;
        }
        let is_for_left = strategy.splits_evenly || strategy.joins_volumes;
        let places_all = best.as_ref().is_some_and(|(score, _)| score.left.values().all(|left| *left == 0));
        if (is_for_left && places_all) || (strategy.joins_volumes && !goes_beyond) {
            continue;
        }
        ledger.state.rollback(start);
        Packing { tables, strategy }.pack(ledger, caches);
        current = strategy;
        goes_beyond |= !ledger.beyond.is_empty();
        // No more is to be won once one packing leaves out none for limits.
        leaves_out = leaves_out && World::new(tables, ledger).limits_leave_out();
        let score = score::score(tables, ledger);
        // A heavier pool is no reason to give preferences up: they say which pools admit a pod at all. Nor do limits
        // need to be spared but for the pods that they leave out.
        let is_for_more = strategy.drops_preferences || strategy.spares_limits || strategy.joins_volumes;
        let is_better =
            |(least, _): &(Score, Strategy)| if is_for_more { score.left < least.left } else { score < *least };
        if best.as_ref().is_none_or(is_better) {
            best = Some((score, strategy));
        }
        // One is enough for the least effort, if nothing is left over.
        if budget == 0 && ledger.tally.left.is_empty() {
            break;
        }
    }
    if let Some((_, strategy)) = best.filter(|(_, strategy)| *strategy != current) {
        ledger.state.rollback(start);
        Packing { tables, strategy }.pack(ledger, caches);
    }
    ledger.state.forget(start);
}

// The shares that are tried below the one asked for, the largest first: each whole percent down to just below an even
// split, where that is not too much work, and every fifth, beneath it too, where only rounding to whole pods lets a plan be.
fn smaller_shares(n_values: usize, by_percent: bool) -> impl Iterator<Item = i128> {
    let even = i128::try_from(100 / n_values.max(1)).unwrap_or(0);
    let is_tried = move |percent: &i128| (by_percent && *percent >= even - 2) || percent % 5 == 0;
    (1..100).rev().filter(is_tried).map(|percent| percent * ALL / 100)
}
