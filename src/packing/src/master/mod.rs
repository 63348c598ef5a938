//! The restricted master program: how often to use each column that is known, fractions allowed, so that all items are
//! packed at the least cost. Its dual prices are what column generation goes by.

pub(crate) mod interior;
mod normal;
pub(crate) mod program;

use good_lp::{
    DualValues, Expression, ProblemVariables, Solution, SolutionWithDual, SolverModel, Variable, clarabel, constraint,
    variable,
};
use rustc_hash::FxHashMap;

use crate::duals::DualPrices;
use crate::groups::ItemGroups;
use crate::numbers::noise;
use crate::problem::{BinType, Pattern, Problem};
use interior::Near;
use program::Program;

/// A solution of a master program.
#[derive(Clone, Debug, Default)]
pub(crate) struct MasterSolution {
    /// By column: how often.
    pub(crate) uses: Vec<f64>,
    pub(crate) duals: DualPrices,
    /// What all of it costs.
    pub(crate) value: f64,
    /// Where the next program may begin.
    pub(crate) warm: Option<Warm>,
}

/// Where a program with the same items may begin.
#[derive(Clone, Debug)]
pub(crate) struct Warm {
    /// By column, as far as they were known.
    pub(crate) uses: Vec<f64>,
    /// By row of items.
    prices: Vec<f64>,
    /// By stock.
    stock_prices: Vec<f64>,
    product: f64,
}

impl MasterSolution {
    /// What a bin costs on average.
    pub(crate) fn typical(&self) -> f64 {
        let bins: f64 = self.uses.iter().sum();
        (self.value / bins.max(1e-9)).max(1e-9)
    }
}

/// A master program.
pub(crate) struct Master<'a> {
    pub(crate) problem: &'a Problem,
    /// By item.
    pub(crate) counts: &'a [u32],
    /// By stock.
    pub(crate) stocks: &'a [f64],
    pub(crate) columns: &'a [Pattern],
    /// Where items are many, groups of them that share dual prices.
    pub(crate) groups: Option<&'a ItemGroups>,
    /// By item: what leaving out one costs, more than any packing of it.
    pub(crate) penalties: &'a [f64],
    /// Makes equally good answers differ a little in cost, so that one with few columns is found.
    pub(crate) breaks_ties: bool,
    /// Where to begin, if that is known.
    pub(crate) warm: Option<Warm>,
    /// Rows up to which it is factored densely, which begins where the last program left off.
    pub(crate) dense: usize,
    /// How exactly it is solved, relative. An early stop leaves prices in the middle of those that are equally good.
    pub(crate) tolerance: f64,
}

/// The rows of a program: stocks first, which have little to do with each other, then items, or groups of them.
struct ProgramRows {
    /// By stock: its row.
    stocks: Vec<Option<u32>>,
    /// By item: its rows, and how much it is of each.
    items: Vec<Vec<(u32, f64)>>,
    /// Right-hand sides: how much there is of each stock, or how many items there are.
    rhs: Vec<f64>,
    n_stocks: usize,
    /// By row after those of stocks.
    wants: Vec<Want>,
}

/// What is wanted of items.
#[derive(Clone, Copy, Debug, Default)]
struct Want {
    /// How much one is of the row at most.
    largest: f64,
    /// What leaving out one costs at most.
    penalty: f64,
    /// No more of them than there are can be of use, as bins need one each: one more may save what it lets be used.
    is_exact: bool,
}

impl ProgramRows {
    fn is_exact(&self, row: u32) -> bool {
        (row as usize).checked_sub(self.n_stocks).and_then(|at| self.wants.get(at)).is_some_and(|want| want.is_exact)
    }
}

impl Master<'_> {
    /// Solves it; `None` where there is nothing to solve or no solver finds an answer.
    pub(crate) fn solve(&self) -> Option<MasterSolution> {
        if self.columns.is_empty() || self.counts.iter().all(|count| *count == 0) {
            return None;
        }
        let rows = self.rows();
        let inside = if rows.rhs.len() <= self.dense { self.solve_inside(&rows) } else { None };
        let (uses, by_row, warm) =
            inside.or_else(|| self.solve_by_library(&rows).map(|(uses, by_row)| (uses, by_row, None)))?;
        let price = |row: u32| by_row.get(row as usize).copied().unwrap_or(0.0);
        let least = |row: u32| if rows.is_exact(row) { f64::NEG_INFINITY } else { 0.0 };
        let item_price =
            |parts: &Vec<(u32, f64)>| parts.iter().map(|&(row, share)| price(row).max(least(row)) * share).sum();
        let duals = DualPrices {
            items: rows.items.iter().map(item_price).collect(),
            stocks: rows.stocks.iter().map(|row| row.map_or(0.0, |row| (-price(row)).max(0.0))).collect(),
        };
        let value = uses.iter().zip(self.bins()).map(|(uses, bin)| uses * bin.map_or(0.0, |bin| bin.cost)).sum();
        let is_finite = duals.items.iter().chain(&duals.stocks).chain(&uses).all(|number| number.is_finite());
        is_finite.then_some(MasterSolution { uses, duals, value, warm })
    }

    fn bins(&self) -> impl Iterator<Item = Option<&BinType>> {
        self.columns.iter().map(|column| self.problem.bins.get(column.bin as usize))
    }

    fn rows(&self) -> ProgramRows {
        let mut draws = vec![false; self.stocks.len()];
        for (stock, _) in self.columns.iter().flat_map(|column| self.problem.drawn_by(column)) {
            if let Some(draws) = draws.get_mut(stock) {
                *draws = true;
            }
        }
        let mut rhs = Vec::with_capacity(self.stocks.len() + self.counts.len());
        let mut next = |amount: f64| {
            rhs.push(amount);
            u32::try_from(rhs.len() - 1).unwrap_or(u32::MAX)
        };
        let stocks: Vec<Option<u32>> =
            draws.iter().zip(self.stocks).map(|(draws, there)| draws.then(|| next(there.max(0.0)))).collect();
        let n_stocks = stocks.iter().flatten().count();
        let mut rows =
            ProgramRows { stocks, items: vec![Vec::new(); self.counts.len()], rhs, n_stocks, wants: Vec::new() };
        let mut of_price: FxHashMap<u32, u32> = FxHashMap::default();
        for (item, &count) in self.counts.iter().enumerate().filter(|(_, count)| **count > 0) {
            let own = [(u32::try_from(item).unwrap_or(u32::MAX), 1.0)];
            let penalty = self.penalties.get(item).copied().unwrap_or(0.0);
            let parts = self.groups.and_then(|groups| groups.parts(item));
            let is_exact = self.groups.is_none() && self.problem.is_needed(item);
            for &(price, share) in parts.unwrap_or(&own) {
                let row = *of_price.entry(price).or_insert_with(|| {
                    rows.rhs.push(0.0);
                    rows.wants.push(Want { largest: 0.0, penalty: 0.0, is_exact });
                    u32::try_from(rows.rhs.len() - 1).unwrap_or(u32::MAX)
                });
                if let Some(rhs) = rows.rhs.get_mut(row as usize) {
                    *rhs += share * f64::from(count);
                }
                if let Some(want) = rows.wants.get_mut(row as usize - n_stocks) {
                    want.largest = want.largest.max(share);
                    want.penalty = want.penalty.max(penalty);
                }
                if let Some(parts) = rows.items.get_mut(item) {
                    parts.push((row, share));
                }
            }
        }
        rows
    }

    // What a column takes of each row, ascending.
    fn entries(&self, rows: &ProgramRows, column: &Pattern) -> Vec<(u32, f64)> {
        let drawn = self.problem.drawn_by(column);
        let stocks = drawn.filter_map(|(stock, amount)| Some((*rows.stocks.get(stock)?.as_ref()?, amount)));
        let items = column.items.iter().flat_map(|&(item, each)| {
            let parts = rows.items.get(item as usize).into_iter().flatten();
            parts.map(move |&(row, share)| (row, share * f64::from(each)))
        });
        let mut entries: Vec<(u32, f64)> = stocks.chain(items).collect();
        entries.sort_by_key(|(row, _)| *row);
        entries.dedup_by(|next, kept| {
            let is_same = next.0 == kept.0;
            if is_same {
                kept.1 += next.1;
            }
            is_same
        });
        entries
    }

    // What leaving out one unit of each row costs, those of stocks aside.
    fn penalties(rows: &ProgramRows) -> impl Iterator<Item = (u32, f64)> {
        let first = u32::try_from(rows.n_stocks).unwrap_or(u32::MAX);
        (first..).zip(&rows.wants).map(|(row, want)| (row, want.penalty / want.largest))
    }

    fn cost(&self, at: usize, bin: &BinType) -> f64 {
        let tie = if self.breaks_ties { 1.0 + 1e-5 * noise(at as u64) } else { 1.0 };
        (bin.cost + bin.bias) * tie
    }

    // How often to use each column, the price of each row, and where to begin next time.
    fn solve_inside(&self, rows: &ProgramRows) -> Option<(Vec<f64>, Vec<f64>, Option<Warm>)> {
        let mut program = Program::new(rows.rhs.clone());
        for (at, (column, bin)) in self.columns.iter().zip(self.bins()).enumerate() {
            program.push(bin.map_or(0.0, |bin| self.cost(at, bin)), self.entries(rows, column));
        }
        // More than wanted, at no gain; less, for the penalty; stocks that stay. In the order of `near`.
        for (row, penalty) in Self::penalties(rows) {
            if !rows.is_exact(row) {
                program.push(0.0, [(row, -1.0)]);
            }
            program.push(penalty, [(row, 1.0)]);
        }
        for row in rows.stocks.iter().flatten() {
            program.push(0.0, [(*row, 1.0)]);
        }
        let near = self.warm.as_ref().and_then(|warm| self.near(rows, warm));
        let mut answer = program.solve(self.tolerance, near.as_ref())?;
        answer.amounts.truncate(self.columns.len());
        answer.near.amounts.truncate(self.columns.len());
        let Near { amounts, prices, product } = answer.near;
        let stock_price = |row: &Option<u32>| row.map_or(0.0, |row| -prices.get(row as usize).copied().unwrap_or(0.0));
        let warm = Warm {
            stock_prices: rows.stocks.iter().map(stock_price).collect(),
            prices: prices.get(rows.n_stocks..).unwrap_or_default().to_vec(),
            uses: amounts,
            product,
        };
        Some((answer.amounts, answer.prices, (!warm.prices.is_empty()).then_some(warm)))
    }

    // Where this program begins: what follows the columns has what they leave.
    fn near(&self, rows: &ProgramRows, warm: &Warm) -> Option<Near> {
        if warm.prices.len() != rows.wants.len() {
            return None;
        }
        let mut prices = vec![0.0; rows.n_stocks];
        for (row, stock_price) in rows.stocks.iter().zip(&warm.stock_prices) {
            if let Some(price) = row.and_then(|row| prices.get_mut(row as usize)) {
                *price = -stock_price;
            }
        }
        prices.extend(&warm.prices);
        let mut amounts = warm.uses.clone();
        amounts.resize(self.columns.len(), 0.0);
        let mut over: Vec<f64> = rows.rhs.iter().map(|rhs| -rhs).collect();
        for (column, uses) in self.columns.iter().zip(&amounts) {
            for (row, amount) in self.entries(rows, column) {
                if let Some(over) = over.get_mut(row as usize) {
                    *over += amount * uses;
                }
            }
        }
        let (stocks, items) = over.split_at(rows.n_stocks.min(over.len()));
        for (over, row) in items.iter().zip((0..).map(|at| at + rows.n_stocks)) {
            if !rows.is_exact(u32::try_from(row).unwrap_or(u32::MAX)) {
                amounts.push(over.max(0.0));
            }
            amounts.push((-over).max(0.0));
        }
        amounts.extend(
            rows.stocks.iter().flatten().map(|row| stocks.get(*row as usize).map_or(0.0, |over| (-over).max(0.0))),
        );
        Some(Near { amounts, prices, product: warm.product })
    }

    // The same by a general solver, which is handed the dual: it has a variable for each row only.
    fn solve_by_library(&self, rows: &ProgramRows) -> Option<(Vec<f64>, Vec<f64>)> {
        let mut variables = ProblemVariables::new();
        let mut by_row: Vec<Variable> = (0..rows.n_stocks).map(|_| variables.add(variable().max(0.0))).collect();
        by_row.extend(Self::penalties(rows).map(|(row, most)| {
            let price = variable().max(most);
            variables.add(if rows.is_exact(row) { price } else { price.min(0.0) })
        }));
        let mut gain = Expression::with_capacity(by_row.len());
        for (variable, rhs) in by_row.iter().zip(&rows.rhs) {
            gain.add_mul(*rhs, *variable);
        }
        let mut model = variables.maximise(gain).using(clarabel);
        let feasible = self.tolerance.clamp(1e-9, 1e-3);
        model.settings().tol_gap_rel(self.tolerance).tol_gap_abs(self.tolerance).tol_feas(feasible);
        let mut constraints = Vec::with_capacity(self.columns.len());
        for (at, (column, bin)) in self.columns.iter().zip(self.bins()).enumerate() {
            let Some(bin) = bin else { continue };
            let mut earns = Expression::with_capacity(column.items.len() + bin.draws.len() + bin.loads.len());
            for (row, amount) in self.entries(rows, column) {
                if let Some(variable) = by_row.get(row as usize) {
                    earns.add_mul(amount, *variable);
                }
            }
            constraints.push((at, model.add_constraint(constraint!(earns <= self.cost(at, bin)))));
        }
        let mut solution = model.solve().ok()?;
        let prices = by_row.iter().map(|variable| solution.value(*variable)).collect();
        let mut uses = vec![0.0; self.columns.len()];
        let duals = solution.compute_dual();
        for (at, constraint) in constraints {
            if let Some(uses) = uses.get_mut(at) {
                *uses = duals.dual(constraint).max(0.0);
            }
        }
        Some((uses, prices))
    }
}

#[cfg(test)]
mod tests {
    use fixedbitset::FixedBitSet;
    use proptest::prelude::*;

    use super::*;

    fn bin(cost: f64, items: usize, draws: Vec<(usize, f64)>) -> BinType {
        let mut admits = FixedBitSet::with_capacity(items);
        admits.insert_range(..);
        BinType { cost, bias: 0.0, room: Vec::new(), admits, draws, loads: Vec::new() }
    }

    prop_compose! {
        fn masters()(items in 1..12_usize)(
            counts in prop::collection::vec(0..200_u32, items),
            stocks in prop::collection::vec(0..30_u32, 3),
            bins in prop::collection::vec((0..40_u32, 0..4_usize), 1..8),
            columns in prop::collection::vec((0..8_u32, prop::collection::btree_map(0..12_u32, 1..9_u32, 1..5)), 1..60),
            items in Just(items),
        ) -> (Problem, Vec<u32>, Vec<Pattern>) {
            let stocks: Vec<f64> = stocks.into_iter().map(f64::from).collect();
            let bins: Vec<BinType> = bins
                .into_iter()
                .map(|(cost, stock)| {
                    let draws = (stock < 3).then_some((stock, 1.0)).into_iter().collect::<Vec<_>>();
                    bin(if draws.is_empty() { f64::from(cost) * 0.25 + 0.1 } else { 0.0 }, items, draws)
                })
                .collect();
            let n_bins = u32::try_from(bins.len()).unwrap();
            let columns = columns
                .into_iter()
                .map(|(bin, contents)| Pattern {
                    bin: bin % n_bins,
                    items: contents.into_iter().filter(|(item, _)| (*item as usize) < items).collect(),
                })
                .filter(|pattern| !pattern.items.is_empty())
                .collect();
            (Problem { bins, stocks, ..Problem::default() }, counts, columns)
        }
    }

    proptest! {
        #[test]
        fn both_solvers_earn_the_same((problem, counts, columns) in masters()) {
            let master = Master {
                problem: &problem,
                counts: &counts,
                stocks: &problem.stocks,
                columns: &columns,
                groups: None,
                penalties: &vec![50.0; counts.len()],
                breaks_ties: false,
                warm: None,
                dense: usize::MAX,
                tolerance: 1e-8,
            };
            let rows = master.rows();
            prop_assume!(!columns.is_empty() && counts.iter().any(|count| *count > 0));
            let earned = |prices: &[f64]| rows.rhs.iter().zip(prices).map(|(rhs, price)| rhs * price).sum::<f64>();
            let (uses, prices, _) = master.solve_inside(&rows).expect("an answer");
            let (_, by_library) = master.solve_by_library(&rows).expect("an answer");
            let (ours, theirs) = (earned(&prices), earned(&by_library));
            prop_assert!((ours - theirs).abs() <= 1e-5 * theirs.abs().max(1.0), "{ours} against {theirs}");
            prop_assert!(uses.iter().all(|uses| *uses >= 0.0));
        }
    }
}
