//! The search over the whole cluster: any number of nodes make way for any number of others. The program proposes; where it
//! does not know all, or nothing comes of that, sets are looked for by rank.
//!
//! Nodes are ranked by how much more they cost than their pods are worth, for each unit of disruption: the pods' worth is
//! what they would cost at least on new nodes, at dual prices that are the same for all. The set that goes is a first part
//! of that rank; how long a part is found by what-ifs, and parts of it that gain nothing are left out again. Each what-if
//! is a whole decision, so every answer on the way is a valid one, and the best by then stands when the work is used up.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use berth_decisions::DecideError;
use berth_model::Money;

use super::Search;
use crate::candidate::Candidate;
use crate::command::Method;
use crate::pods::{DisruptionCost, disrupted};
use crate::program::{Program, Proposals};
use crate::simulate::{Replacement, Verdict};
use crate::worth::{Worth, below, cost_of, worth};

/// The most nodes that one command takes away.
const MOST_NODES: usize = 1_000;
/// Sizes of the first part that are tried: each is so many fourths of the one before.
const SHRINK: (usize, usize) = (3, 4);
/// Parts of equal size that are left out one at a time, to see whether the rest is worth more; then in halves of these.
const PARTS: usize = 4;
/// The smallest parts that are left out, as a share of all: with more nodes single ones are not asked about.
const FINEST: usize = 16;

/// In a cluster of so many nodes every look asks by rank, and takes what saves such a part of what all nodes cost.
const FEW: usize = 50;
const MUCH: u32 = 20;

/// A saving that is not worth many what-ifs, as a share of what all nodes cost.
const LITTLE: f64 = 1e-3;

/// Nodes that go together, and what that is worth.
struct Set {
    gone: Vec<Candidate>,
    replacement: Replacement,
    worth: Worth,
}

impl Search<'_> {
    /// The best set of several nodes that is found; whether there is one, and it was carried out. What the program proposes
    /// with new nodes is taken where it saves more than without, and without where it saves no less than the best set by rank.
    pub(super) fn several(&mut self) -> Result<bool, DecideError> {
        let options = self.options;
        let (candidates, program) = self.program()?;
        let is_whole = program.as_ref().is_some_and(Program::is_whole);
        let (leaving, mut proposals) = program.as_ref().map(Program::solve).unzip();
        let leaving = leaving.unwrap_or_default();
        let proposed = leaving.iter().filter_map(|known| candidates.get(known.candidate));
        let saved: Money = proposed.map(|known| below(known, options)).sum();
        let with_new = match proposals.as_mut() {
            Some(proposals) => self.best_of(&candidates, proposals, saved)?,
            None => None,
        };
        // A program that knows all says so where nothing is to be found.
        let has_new = proposals.as_ref().is_some_and(Proposals::has_given);
        if is_whole && leaving.is_empty() && !has_new {
            return Ok(false);
        }
        let hoped = proposals.as_ref().map_or(0.0, Proposals::hoped);
        let may_pay = with_new.is_some() || hoped > LITTLE * self.hourly_cost.dollars();
        if let Some(with_new) = with_new
            && self.leave_all(&candidates, &with_new)?
        {
            self.has_proposed = is_whole;
            return Ok(true);
        }
        // One that knows all has weighed what a rank could find.
        if is_whole && self.leave_all(&candidates, &leaving)? {
            self.has_proposed = true;
            return Ok(true);
        }
        // What is left of its proposals are those that a decision refuses. Without new nodes, or where little is hoped for with
        // them, a rank finds no more among them. Nor is there much to find with new nodes where spot may not make way for spot: who
        // looks again and again does without. In a small cluster one pair of nodes may save much, and the program misses it: it prices
        // each pod at a part of a new node, and a node is launched whole.
        let looks_again = is_whole && self.options.only_now && !self.options.spot_to_spot;
        let may_skip = looks_again && self.survey.candidates.len() > FEW;
        if may_skip || is_whole && self.has_proposed && !may_pay {
            return Ok(false);
        }
        let ranked = self.ranked()?;
        let best = self.best_part(&ranked)?;
        if leaving.len() >= 2
            && best.as_ref().is_none_or(|best| best.worth.net <= saved)
            && self.leave_all(&candidates, &leaving)?
        {
            return Ok(true);
        }
        let Some(best) = best else { return Ok(false) };
        let best = self.thinned(best)?;
        // For less, pods would be moved again and again.
        if looks_again && best.worth.net.times(MUCH.into()) < self.hourly_cost {
            return Ok(false);
        }
        let gone: Vec<&Candidate> = best.gone.iter().collect();
        let method = if gone.len() == 1 { Method::SingleNodeConsolidation } else { Method::MultiNodeConsolidation };
        self.carry_out(method, &gone, &best.replacement)
    }

    /// Those that cost something, as many as budgets allow, what is gained most first.
    fn ranked(&mut self) -> Result<Vec<Candidate>, DecideError> {
        let mut candidates = self.consolidatable();
        candidates.retain(|candidate| candidate.price.is_some_and(|price| price.marginal > Money::ZERO));
        if candidates.len() < 2 {
            return Ok(Vec::new());
        }
        let names: Vec<&str> = candidates.iter().map(|candidate| &*candidate.node.key.name).collect();
        let least_costs = self.decider.least_costs(self.state, &names, &self.options.decisions, self.now)?;
        let excess = |candidate: &Candidate, least: Money| {
            let over =
                cost_of(candidate, self.options) - least - disrupted(self.options.eviction_price, candidate.cost);
            over.pico().saturating_mul(DisruptionCost::parts_in_one().into())
                / i128::from(candidate.cost.parts().max(1))
        };
        let mut ranked: Vec<(i128, Candidate)> = candidates
            .into_iter()
            .zip(least_costs)
            .map(|(candidate, least)| (excess(&candidate, least), candidate))
            .collect();
        ranked.sort_by(|(a, x), (b, y)| (Reverse(a), &x.node).cmp(&(Reverse(b), &y.node)));
        let mut taken: BTreeMap<String, usize> = BTreeMap::new();
        let mut ranked: Vec<Candidate> = ranked.into_iter().map(|(_, candidate)| candidate).collect();
        ranked.retain(|candidate| {
            let count = taken.entry(candidate.pool.clone()).or_default();
            *count += 1;
            *count <= self.batches.most(&candidate.pool, Method::MultiNodeConsolidation)
        });
        ranked.truncate(MOST_NODES);
        Ok(ranked)
    }

    /// The first part that is worth most.
    fn best_part(&mut self, ranked: &[Candidate]) -> Result<Option<Set>, DecideError> {
        let mut best: Option<Set> = None;
        let mut sizes: Vec<usize> = Vec::new();
        let mut size = ranked.len();
        while size >= 2 {
            sizes.push(size);
            size = (size * SHRINK.0 / SHRINK.1).min(size - 1);
        }
        for &size in &sizes {
            if !self.improve(ranked, size, &mut best)? {
                return Ok(best);
            }
        }
        // Between the best size and those beside it.
        let Some(found) = best.as_ref().map(|best| best.gone.len()) else { return Ok(None) };
        let at = sizes.iter().position(|size| *size == found).unwrap_or(0);
        let larger = at.checked_sub(1).and_then(|at| sizes.get(at));
        let smaller = sizes.get(at + 1).copied();
        let between = [larger.map(|larger| larger.midpoint(found)), smaller.map(|smaller| smaller.midpoint(found))];
        for size in between.into_iter().flatten().filter(|size| *size != found && *size >= 2) {
            if !self.improve(ranked, size, &mut best)? {
                break;
            }
        }
        Ok(best)
    }

    /// Asks about the first so many; whether there may be more questions.
    fn improve(&mut self, ranked: &[Candidate], size: usize, best: &mut Option<Set>) -> Result<bool, DecideError> {
        let gone: Vec<&Candidate> = ranked.iter().take(size).collect();
        let Some(verdict) = self.try_out(&gone)? else { return Ok(false) };
        if let Some((replacement, worth)) = self.judged(&gone, verdict)
            && best.as_ref().is_none_or(|known| known.worth < worth)
        {
            *best = Some(Set { gone: gone.into_iter().cloned().collect(), replacement, worth });
        }
        Ok(true)
    }

    fn judged(&self, gone: &[&Candidate], verdict: Verdict) -> Option<(Replacement, Worth)> {
        let Verdict::Fits(mut replacement) = verdict else { return None };
        let worth = worth(gone, &mut replacement, self.options, (&self.prices, &self.survey)).ok()?;
        Some((replacement, worth))
    }

    /// Leaves out parts without which the rest is worth at least as much: their pods would move for nothing. Parts become
    /// smaller, down to single nodes of a small set.
    fn thinned(&mut self, mut best: Set) -> Result<Set, DecideError> {
        let finest = (best.gone.len() / FINEST).max(1);
        let mut part = best.gone.len().div_ceil(PARTS);
        while part >= finest && best.gone.len() > 1 {
            let mut end = best.gone.len();
            while end > 0 && best.gone.len() > 1 {
                let begin = end.saturating_sub(part);
                let rest: Vec<&Candidate> =
                    best.gone.iter().enumerate().filter(|(at, _)| !(begin..end).contains(at)).map(|(_, c)| c).collect();
                end = begin;
                if rest.is_empty() {
                    continue;
                }
                let Some(verdict) = self.try_out(&rest)? else { return Ok(best) };
                if let Some((replacement, worth)) = self.judged(&rest, verdict)
                    && worth.net >= best.worth.net
                {
                    best = Set { gone: rest.into_iter().cloned().collect(), replacement, worth };
                }
            }
            if part == 1 {
                break;
            }
            part = part.div_ceil(2);
        }
        Ok(best)
    }
}
