//! The linear program over patterns, with whole bins: where items are few, branch and bound over the patterns found
//! makes a better plan than fixing one fraction after the other.

use microlp::{ComparisonOp, LinearExpr, OptimizationDirection, SolveOptions, Variable};

use crate::master::Prices;
use crate::problem::{Pattern, Problem};

/// Items, and columns, at most.
const ITEMS: usize = 400;
const COLUMNS: usize = 2_000;

/// What is to be packed, by which columns.
pub(crate) struct Restricted<'a> {
    pub(crate) problem: &'a Problem,
    /// By item.
    pub(crate) counts: &'a [u32],
    /// By stock.
    pub(crate) stocks: &'a [f64],
    pub(crate) columns: &'a [Pattern],
    /// Of the linear program over these columns.
    pub(crate) prices: &'a Prices,
}

impl Restricted<'_> {
    /// Columns and how often to use each, so that all is packed for less than `known` costs, biases included. `nodes` is
    /// how many linear programs may be solved.
    pub(crate) fn solve(&self, known: &[(Pattern, u32)], nodes: u32) -> Option<Vec<(Pattern, u32)>> {
        let wanted = self.counts.iter().filter(|count| **count > 0).count();
        if nodes == 0 || wanted > ITEMS {
            return None;
        }
        let cost = |pattern: &Pattern| self.problem.bins.get(pattern.bin as usize).map(|bin| bin.cost + bin.bias);
        let below: f64 = known.iter().filter_map(|(pattern, n)| Some(cost(pattern)? * f64::from(*n))).sum();
        let columns = self.worth_a_look(known, below);
        let mut program = microlp::Problem::new(OptimizationDirection::Minimize);
        let mut rows: Vec<LinearExpr> = vec![LinearExpr::empty(); self.counts.len()];
        let mut supplies: Vec<LinearExpr> = vec![LinearExpr::empty(); self.stocks.len()];
        let mut variables: Vec<Variable> = Vec::with_capacity(columns.len());
        for column in &columns {
            let most = column.items.iter().map(|&(item, each)| self.count(item).div_ceil(each.max(1))).max();
            let most = i32::try_from(most.unwrap_or(0)).unwrap_or(i32::MAX);
            let variable = program.add_integer_var(cost(column).unwrap_or(0.0), (0, most));
            variables.push(variable);
            for &(item, each) in &column.items {
                if let Some(row) = rows.get_mut(item as usize) {
                    row.add(variable, f64::from(each));
                }
            }
            for (stock, amount) in self.problem.drawn_by(column) {
                if let Some(supply) = supplies.get_mut(stock) {
                    supply.add(variable, amount);
                }
            }
        }
        for (item, (row, &count)) in rows.into_iter().zip(self.counts).enumerate().filter(|(_, (_, count))| **count > 0)
        {
            let wants = if self.problem.is_needed(item) { ComparisonOp::Eq } else { ComparisonOp::Ge };
            program.add_constraint(row, wants, f64::from(count));
        }
        for (supply, &there) in supplies.into_iter().zip(self.stocks) {
            program.add_constraint(supply, ComparisonOp::Le, there.max(0.0));
        }
        let uses = |column: &Pattern| {
            let at = known.binary_search_by(|(pattern, _)| pattern.cmp(column));
            at.ok().and_then(|at| known.get(at)).map_or(0.0, |(_, n)| f64::from(*n))
        };
        let mut options = SolveOptions::default();
        options.node_limit = Some(u64::from(nodes));
        options.mip_gap = 1e-4;
        options.warm_start = Some(variables.iter().zip(&columns).map(|(at, column)| (*at, uses(column))).collect());
        let outcome = program.solve_with(options).ok()?;
        let solution = outcome.solution()?;
        if solution.objective() >= below * (1.0 - 1e-7) {
            return None;
        }
        let uses = variables.iter().map(|variable| crate::round::whole(solution.var_value(*variable).round()));
        Some(columns.iter().zip(uses).filter(|(_, n)| *n > 0).map(|(column, n)| ((*column).clone(), n)).collect())
    }

    fn count(&self, item: u32) -> u32 {
        self.counts.get(item as usize).copied().unwrap_or(0)
    }

    // A plan for less than `below` has no column that is dearer than it is worth by as much as the linear program is below
    // it.
    fn worth_a_look<'a>(&'a self, known: &'a [(Pattern, u32)], below: f64) -> Vec<&'a Pattern> {
        let Prices { worths, rents, .. } = self.prices;
        let earned: f64 = self.counts.iter().zip(worths).map(|(count, worth)| f64::from(*count) * worth).sum();
        let paid: f64 = self.stocks.iter().zip(rents).map(|(stock, rent)| stock * rent).sum();
        let open = below - (earned - paid);
        let mut columns: Vec<(f64, &Pattern)> = self
            .columns
            .iter()
            .filter_map(|column| {
                let bin = self.problem.bins.get(column.bin as usize)?;
                let worth: f64 = column
                    .items
                    .iter()
                    .map(|&(item, n)| worths.get(item as usize).copied().unwrap_or(0.0) * f64::from(n))
                    .sum();
                let over = bin.cost + bin.bias + self.problem.rent_of(column, rents) - worth;
                (over <= open).then_some((over, column))
            })
            .collect();
        columns.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(b.1)));
        columns.truncate(COLUMNS);
        let mut columns: Vec<&Pattern> = columns.into_iter().map(|(_, column)| column).collect();
        columns.extend(known.iter().map(|(pattern, _)| pattern));
        columns.sort_unstable();
        columns.dedup();
        columns
    }
}
