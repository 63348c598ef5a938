//! The rounds of column generation: how exact a master is, how deep pricing goes, and when to stop.

use super::Generator;
use super::price::Wanted;
use crate::Budget;
use crate::answer::StopReason;
use crate::master::{Master, MasterSolution, Warm};
use crate::pricing::PricingEffort;
use crate::tuning::generation::{
    DEEPER, FIRST_TOLERANCE, ITEMS_PER_STEP, LAST_TOLERANCE, LEAST_GAIN, LEAST_TOLERANCE, SAVED_EVERY, SMALL_GAIN,
    TOLERANCE_AGAIN, TOLERANCE_PER_GAIN, TOLERANCE_PER_GAP,
};
use crate::tuning::proof::{PATIENCE, PROOF_WORK, ROUND_WORK, SLOW, STEPS};

/// How long to generate.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rounds {
    pub(crate) at_most: u32,
    /// Steps of the quick search of a bin.
    pub(crate) steps: u32,
    pub(crate) deep_steps: u32,
    /// Relaxations that the exact search of a bin may solve; the same in a proof; and how many proofs there may be.
    pub(crate) nodes: u32,
    pub(crate) proof_nodes: u32,
    pub(crate) proofs: u32,
    /// What the bound must be before slow rounds lead to a proof, as a share of the value.
    pub(crate) provable: f64,
    /// What may stay open between bound and value, relative.
    pub(crate) gap: f64,
    /// Columns of all masters at most.
    pub(crate) work: u64,
    /// Types of bins that a round prices.
    pub(crate) types: usize,
    /// Sets of dual prices that are saved.
    pub(crate) fills: u32,
}

impl From<Budget> for Rounds {
    fn from(budget: Budget) -> Self {
        let Budget { rounds, steps, deep_steps, nodes, proof_nodes, proofs, provable, gap, work, types, fills, .. } =
            budget;
        Rounds { at_most: rounds, steps, deep_steps, nodes, proof_nodes, proofs, provable, gap, work, types, fills }
    }
}

impl Generator<'_> {
    /// Solves the master for what is to be packed, and generates until nothing improves it or `rounds` are over.
    /// `is_all` says that all items are to be packed, so that what is learned bounds the whole.
    pub(crate) fn solve(
        &mut self,
        counts: &[u32],
        stocks: &[f64],
        rounds: Rounds,
        is_all: bool,
    ) -> Option<MasterSolution> {
        let mut tolerance = FIRST_TOLERANCE;
        let mut warm: Option<Warm> = None;
        let mut proofs = 0;
        let mut values: Vec<f64> = Vec::new();
        let mut steps = rounds.steps;
        let most_steps = self.most_steps(rounds);
        let mut types = rounds.types.max(2);
        let mut stop = None;
        for round in 1.. {
            if stop.is_none() && round > rounds.at_most {
                stop = Some(StopReason::Rounds);
            } else if stop.is_none() && self.work > rounds.work {
                stop = Some(StopReason::Work);
            }
            self.work += self.columns.len() as u64;
            let master = Master {
                problem: self.problem,
                counts,
                stocks,
                columns: &self.columns,
                groups: self.groups_for(counts),
                penalties: &self.penalties,
                breaks_ties: stop.is_some(),
                warm: warm.take(),
                dense: self.dense,
                tolerance: if stop.is_some() { LAST_TOLERANCE } else { tolerance },
            };
            let mut solution = master.solve()?;
            warm = solution.warm.take();
            if let Some(reason) = stop {
                if is_all {
                    self.stop = reason;
                }
                return Some(solution);
            }
            let wanted = Wanted { duals: &solution.duals, typical: solution.typical(), counts, stocks };
            let effort = PricingEffort { steps, nodes: rounds.nodes, slack: 1.0 };
            let (gained, at_most) = self.price(wanted, effort, ROUND_WORK, types);
            if is_all {
                self.raise_bound(&solution.duals, &at_most);
            }
            if gained < SMALL_GAIN {
                steps = steps.saturating_mul(DEEPER).min(most_steps);
            }
            values.push(solution.value);
            if is_all && round % SAVED_EVERY == 1 && (self.saved.len() as u64) + 1 < u64::from(rounds.fills) {
                self.saved.push(solution.duals.clone());
            }
            let before = values.len().checked_sub(PATIENCE + 1).and_then(|at| values.get(at));
            let is_slow = rounds.proofs > 0 && before.is_some_and(|before| solution.value > before * (1.0 - SLOW));
            let optimal = |bound: f64| is_all && bound >= solution.value * (1.0 - rounds.gap);
            if optimal(self.bound) {
                stop = Some(StopReason::Optimal);
            } else if is_slow && proofs < rounds.proofs && self.bound >= solution.value * rounds.provable {
                values.clear();
                proofs += 1;
                let gained = self.prove(wanted, rounds, is_all);
                stop = optimal(self.bound).then_some(StopReason::Optimal);
                // A column that is known and yet has a negative reduced cost, a more exact master prices right.
                tolerance = if gained > 0.0 { TOLERANCE_AGAIN } else { (tolerance * 0.1).max(LEAST_TOLERANCE) };
            } else if gained > LEAST_GAIN {
                types = rounds.types.max(2);
                // Proofs want prices from the middle.
                let least = if proofs > 0 { rounds.gap * TOLERANCE_PER_GAP } else { LEAST_TOLERANCE };
                tolerance = (gained * TOLERANCE_PER_GAIN).max(least).min(tolerance.max(least));
            } else if types < usize::MAX && self.classes.len() > types {
                // Only when all types were looked at is nothing to be found.
                types = usize::MAX;
            } else if tolerance > LEAST_TOLERANCE {
                tolerance *= 0.1;
            } else if steps < most_steps {
                steps = steps.saturating_mul(DEEPER).min(most_steps);
                tolerance = TOLERANCE_AGAIN;
            } else if proofs < rounds.proofs {
                proofs += 1;
                let gained = self.prove(wanted, rounds, is_all);
                if optimal(self.bound) {
                    stop = Some(StopReason::Optimal);
                } else if gained <= 0.0 {
                    stop = Some(StopReason::NoColumn);
                }
                tolerance = TOLERANCE_AGAIN;
            } else {
                stop = Some(StopReason::NoColumn);
            }
            if proofs == 0 {
                self.forget_dear(&solution, warm.as_mut());
            }
        }
        None
    }

    // Steps that the quick search of a bin may take in the end.
    fn most_steps(&self, rounds: Rounds) -> u32 {
        let items = self.problem.items.len().max(ITEMS_PER_STEP);
        let shares = self.classes.len().saturating_mul(items) / ITEMS_PER_STEP;
        (rounds.deep_steps / u32::try_from(shares).unwrap_or(u32::MAX).max(1)).max(rounds.steps)
    }

    // Searches bins as exactly as may be. Says by how much the best column gains.
    fn prove(&mut self, wanted: Wanted<'_>, rounds: Rounds, is_all: bool) -> f64 {
        let steps = STEPS / u32::try_from(self.classes.len()).unwrap_or(u32::MAX);
        let slack = 1.0 + rounds.gap * 0.1;
        let effort = PricingEffort { steps: steps.max(rounds.steps), nodes: rounds.proof_nodes, slack };
        let (gained, at_most) = self.price(wanted, effort, PROOF_WORK, usize::MAX);
        if is_all {
            self.raise_bound(wanted.duals, &at_most);
        }
        gained
    }
}
