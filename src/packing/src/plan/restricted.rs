//! The restricted master in whole numbers: where items are few, branch and bound over the columns found makes a better
//! plan than fixing one fraction after the other.

use microlp::{ComparisonOp, LinearExpr, OptimizationDirection, SolveOptions, Variable};

use crate::duals::DualPrices;
use crate::numbers::floor_u32;
use crate::problem::{Pattern, Problem};
use crate::tuning::restricted::{COLUMNS, GAP, ITEMS};

/// What is to be packed, by which columns.
pub(crate) struct Restricted<'a> {
    pub(crate) problem: &'a Problem,
    /// By item.
    pub(crate) counts: &'a [u32],
    /// By stock.
    pub(crate) stocks: &'a [f64],
    pub(crate) columns: &'a [Pattern],
    /// Of the master over these columns.
    pub(crate) duals: &'a DualPrices,
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
        options.mip_gap = GAP;
        options.warm_start = Some(variables.iter().zip(&columns).map(|(at, column)| (*at, uses(column))).collect());
        let outcome = program.solve_with(options).ok()?;
        let solution = outcome.solution()?;
        if solution.objective() >= below * (1.0 - 1e-7) {
            return None;
        }
        let uses = variables.iter().map(|variable| floor_u32(solution.var_value(*variable).round()));
        Some(columns.iter().zip(uses).filter(|(_, n)| *n > 0).map(|(column, n)| ((*column).clone(), n)).collect())
    }

    fn count(&self, item: u32) -> u32 {
        self.counts.get(item as usize).copied().unwrap_or(0)
    }

    // Reduced cost fixing: a plan for less than `below` has no column whose reduced cost is more than what the dual bound
    // leaves open.
    fn worth_a_look<'a>(&'a self, known: &'a [(Pattern, u32)], below: f64) -> Vec<&'a Pattern> {
        let DualPrices { items, stocks } = self.duals;
        let earned: f64 = self.counts.iter().zip(items).map(|(count, price)| f64::from(*count) * price).sum();
        let paid: f64 = self.stocks.iter().zip(stocks).map(|(stock, price)| stock * price).sum();
        let open = below - (earned - paid);
        let mut columns: Vec<(f64, &Pattern)> = self
            .columns
            .iter()
            .filter_map(|column| {
                let reduced = self.duals.reduced_cost_of(self.problem, column);
                (reduced <= open).then_some((reduced, column))
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
