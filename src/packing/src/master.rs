//! The linear program over patterns: how often to use each, fractions allowed, and what that makes items worth.

use good_lp::{
    DualValues, Expression, ProblemVariables, Solution, SolutionWithDual, SolverModel, Variable, clarabel, constraint,
    variable,
};

use crate::problem::{Pattern, Problem};

/// The answer of a linear program.
#[derive(Clone, Debug, Default)]
pub(crate) struct Prices {
    /// By column: how often.
    pub(crate) uses: Vec<f64>,
    /// By item: what one more would cost.
    pub(crate) worths: Vec<f64>,
    /// By stock: what one more would save.
    pub(crate) rents: Vec<f64>,
    /// What all of it costs.
    pub(crate) value: f64,
}

impl Prices {
    /// What a bin costs on average.
    pub(crate) fn typical(&self) -> f64 {
        let bins: f64 = self.uses.iter().sum();
        (self.value / bins.max(1e-9)).max(1e-9)
    }
}

/// What is to be packed by some columns.
pub(crate) struct Master<'a> {
    pub(crate) problem: &'a Problem,
    /// By item.
    pub(crate) counts: &'a [u32],
    /// By stock.
    pub(crate) stocks: &'a [f64],
    pub(crate) columns: &'a [Pattern],
    /// What leaving out one item costs: more than any packing of it.
    pub(crate) penalty: f64,
    /// Makes equally good answers differ a little in cost, so that one with few columns is found.
    pub(crate) breaks_ties: bool,
    /// How exactly it is solved, relative. An early stop leaves prices in the middle of those that are equally good.
    pub(crate) tolerance: f64,
}

impl Master<'_> {
    /// Solves it; `None` where there is nothing to solve or the solver fails. What is handed to the solver is the dual, which has a variable for
    /// each item and stock only: what items earn less what stocks cost, where no pattern earns more than its bin costs.
    pub(crate) fn solve(&self) -> Option<Prices> {
        if self.columns.is_empty() || self.counts.iter().all(|count| *count == 0) {
            return None;
        }
        let mut variables = ProblemVariables::new();
        let wanted: Vec<Option<Variable>> = self
            .counts
            .iter()
            .map(|&count| (count > 0).then(|| variables.add(variable().min(0.0).max(self.penalty))))
            .collect();
        let mut draws = vec![false; self.stocks.len()];
        let bins = || self.columns.iter().map(|column| self.problem.bins.get(column.bin as usize));
        for &(stock, _) in bins().flatten().flat_map(|bin| &bin.draws) {
            if let Some(draws) = draws.get_mut(stock) {
                *draws = true;
            }
        }
        let rents: Vec<Option<Variable>> =
            draws.iter().map(|&draws| draws.then(|| variables.add(variable().min(0.0)))).collect();

        let mut gain = Expression::with_capacity(self.counts.len() + self.stocks.len());
        for (worth, &count) in wanted.iter().zip(self.counts) {
            if let Some(worth) = *worth {
                gain.add_mul(f64::from(count), worth);
            }
        }
        for (rent, &there) in rents.iter().zip(self.stocks) {
            if let Some(rent) = *rent {
                gain.add_mul(-there.max(0.0), rent);
            }
        }
        let mut model = variables.maximise(gain).using(clarabel);
        let feasible = self.tolerance.clamp(1e-9, 1e-3);
        model.settings().tol_gap_rel(self.tolerance).tol_gap_abs(self.tolerance).tol_feas(feasible);
        let mut rows = Vec::with_capacity(self.columns.len());
        for (at, (column, bin)) in self.columns.iter().zip(bins()).enumerate() {
            let Some(bin) = bin else { continue };
            let mut earns = Expression::with_capacity(column.items.len() + bin.draws.len());
            for &(item, each) in &column.items {
                if let Some(Some(worth)) = wanted.get(item as usize) {
                    earns.add_mul(f64::from(each), *worth);
                }
            }
            for &(stock, amount) in &bin.draws {
                if let Some(Some(rent)) = rents.get(stock) {
                    earns.add_mul(-amount, *rent);
                }
            }
            let tie = if self.breaks_ties { 1.0 + 1e-5 * noise(at as u64) } else { 1.0 };
            rows.push((at, model.add_constraint(constraint!(earns <= (bin.cost + bin.bias) * tie))));
        }
        let mut solution = model.solve().ok()?;
        let value_of = |variable: &Option<Variable>| variable.map_or(0.0, |at| solution.value(at).max(0.0));
        let mut prices = Prices {
            worths: wanted.iter().map(value_of).collect(),
            rents: rents.iter().map(value_of).collect(),
            uses: vec![0.0; self.columns.len()],
            value: 0.0,
        };
        let duals = solution.compute_dual();
        for (at, row) in rows {
            if let Some(uses) = prices.uses.get_mut(at) {
                *uses = duals.dual(row).max(0.0);
            }
        }
        prices.value = prices.uses.iter().zip(bins()).map(|(uses, bin)| uses * bin.map_or(0.0, |bin| bin.cost)).sum();
        let is_finite = prices.worths.iter().chain(&prices.rents).chain(&prices.uses).all(|number| number.is_finite());
        is_finite.then_some(prices)
    }
}

// A number in 0..1 that depends on `at` alone (splitmix64).
fn noise(at: u64) -> f64 {
    let mut z = at.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    f64::from(u32::try_from((z ^ (z >> 31)) >> 32).unwrap_or(0)) / f64::from(u32::MAX)
}
