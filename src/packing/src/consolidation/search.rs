//! The set of bins to empty: greedily first, then by putting a few back and emptying others.

use super::placement::{Placement, State};
use super::problem::{Consolidated, Consolidation, Stop};
use crate::numbers::{float, noise, scrambled};
use crate::tuning::consolidation::{COPY, MOST_BACK, MOST_ROUNDS, MOST_TRIES, ROUNDS_PER_BIN, WARMTH};

/// Looks for the bins to empty. `work` is how many bins may be looked at, once for each item that is placed. It begins with
/// `start`, an answer to this problem or to the same with fewer bins that stay, and is no worse.
pub fn consolidate(problem: &Consolidation, start: Option<&Consolidated>, work: u64) -> Consolidated {
    let mut placement = Placement::new(problem);
    if let Some(start) = start {
        placement.begin_with(start);
    }
    let ranked = ranked(problem);
    empty_all(&mut placement, &ranked, usize::MAX);
    placement.settle();
    let mut best = placement.state.clone();
    let stop = improve(&mut placement, &ranked, &mut best, work);
    let emptied = ranked.into_iter().filter(|bin| best.sites.get(*bin).is_some_and(|site| site.is_empty)).collect();
    let moved = best.sites.into_iter().map(|mut site| {
        site.moved.sort_unstable();
        site.moved
    });
    Consolidated { emptied, moved: moved.collect(), anew: best.anew, saved: best.saved, stop }
}

/// Bins that may be emptied and save something, the largest cost for a unit of disruption first.
fn ranked(problem: &Consolidation) -> Vec<usize> {
    let bins = problem.bins.iter().enumerate();
    let may_go = bins.filter(|(_, bin)| bin.pool.is_some() && problem.saving(bin) > 0.0);
    let mut ranked: Vec<(f64, usize)> =
        may_go.map(|(at, bin)| (bin.cost / bin.disruption.max(f64::MIN_POSITIVE), at)).collect();
    ranked.sort_by(|(a, x), (b, y)| b.total_cmp(a).then(x.cmp(y)));
    ranked.into_iter().map(|(_, at)| at).collect()
}

/// Empties as many of these as find places for what they hold; so many are tried at most.
fn empty_all(placement: &mut Placement<'_>, order: &[usize], tries: usize) {
    let open = order.iter().filter(|bin| placement.may_empty(**bin)).copied().take(tries);
    for bin in open.collect::<Vec<_>>() {
        if placement.may_empty(bin) {
            placement.empty(bin);
        }
    }
}

fn improve(placement: &mut Placement<'_>, ranked: &[usize], best: &mut State, work: u64) -> Stop {
    let problem = placement.problem;
    if ranked.is_empty() {
        return Stop::Nothing;
    }
    let n_rounds = ranked.len().saturating_mul(ROUNDS_PER_BIN).min(MOST_ROUNDS);
    let savings = ranked.iter().filter_map(|bin| problem.bins.get(*bin)).map(|bin| problem.saving(bin));
    let warmth = WARMTH * savings.sum::<f64>() / float(i64::try_from(ranked.len().max(1)).unwrap_or(i64::MAX));
    let mut random = Random::default();
    for round in 0..n_rounds {
        if placement.work >= work {
            return Stop::Work;
        }
        placement.work += problem.bins.len() as u64 * COPY;
        let before = placement.mark();
        let is_empty = |state: &State, bin: usize| state.sites.get(bin).is_some_and(|site| site.is_empty);
        let mut emptied: Vec<usize> = ranked.iter().copied().filter(|bin| is_empty(&placement.state, *bin)).collect();
        let is_all = emptied.len() == ranked.len() && placement.state.anew.iter().all(|count| *count == 0);
        if emptied.is_empty() || is_all {
            return Stop::Nothing;
        }
        for _ in 0..=random.below(MOST_BACK) {
            if emptied.is_empty() {
                break;
            }
            placement.put_back(emptied.swap_remove(random.below(emptied.len())));
        }
        // Else what was put back would go again for want of what comes to it.
        placement.fill_rooms();
        // By what is saved, each more or less by a half at most.
        let mut order: Vec<(f64, usize)> = Vec::with_capacity(ranked.len());
        for &bin in ranked {
            if let Some(known) = problem.bins.get(bin).filter(|_| !is_empty(&placement.state, bin)) {
                order.push((problem.saving(known) * (0.5 + random.share()), bin));
            }
        }
        order.sort_by(|(a, x), (b, y)| b.total_cmp(a).then(x.cmp(y)));
        let order: Vec<usize> = order.into_iter().map(|(_, bin)| bin).collect();
        empty_all(placement, &order, MOST_TRIES);
        placement.fill_rooms();
        if placement.state.saved > best.saved + f64::EPSILON * best.saved.abs() {
            best.clone_from(&placement.state);
        }
        let done = share(round, n_rounds).max(share_of_work(placement.work, work));
        let worse = warmth * (1.0 - done) * random.share();
        if placement.state.saved < before.saved() - worse {
            placement.take_back(before);
        }
        placement.settle();
    }
    Stop::Rounds
}

fn share(part: usize, of: usize) -> f64 {
    float(i64::try_from(part).unwrap_or(i64::MAX)) / float(i64::try_from(of.max(1)).unwrap_or(i64::MAX))
}

fn share_of_work(part: u64, of: u64) -> f64 {
    float(i64::try_from(part).unwrap_or(i64::MAX)) / float(i64::try_from(of.max(1)).unwrap_or(i64::MAX))
}

/// Numbers that look random, one after another.
#[derive(Default)]
struct Random {
    n_given: u64,
}

impl Random {
    fn next(&mut self) -> u64 {
        self.n_given += 1;
        self.n_given
    }

    /// One of 0 to `n` - 1.
    fn below(&mut self, n: usize) -> usize {
        usize::try_from(scrambled(self.next()) % (n.max(1) as u64)).unwrap_or(0)
    }

    /// 0 to 1.
    fn share(&mut self) -> f64 {
        noise(self.next())
    }
}
