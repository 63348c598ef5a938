//! A bound that knows that bins are whole.
//!
//! Whatever prices items have, the bins of a plan can hold what all items are worth. So each set of prices makes an inequality over
//! how many bins there are of each type, and so does each resource, as sizes are prices, too. What whole numbers of bins that keep
//! these inequalities cost at least, no plan costs less than. Where bins are few, that is more than any program of fractions says.

use super::Generator;
use crate::duals::{DualPrices, cost_of_draws};
use crate::numbers::{float, floor_u32};
use crate::pricing::{Relaxation, Resource, WholeSearch};
use crate::problem::{BinType, Item, Problem};
use crate::tuning::whole_bins::{ACTIVE, BROKEN, CEILING, MOST_TYPES, NODES, PASSES, PROGRAMS, SCALE};

/// What the bins of any plan can hold together is at least what is wanted.
#[derive(Clone, Debug)]
pub(super) struct Inequality {
    /// By type of bin: what one holds at most.
    holds: Vec<f64>,
    wanted: f64,
}

impl Inequality {
    // By how much so many bins hold too little, relative.
    fn broken_by(&self, bins: &[f64]) -> f64 {
        1.0 - self.holds.iter().zip(bins).map(|(holds, n)| holds * n).sum::<f64>() / self.wanted
    }
}

impl Generator<'_> {
    /// Notes the inequality of prices under which no pattern of a bin has more dual value than its `at_most`.
    pub(super) fn note_inequality(&mut self, duals: &DualPrices, at_most: &[f64]) {
        let problem = self.problem;
        if problem.bins.len() > MOST_TYPES {
            return;
        }
        let items = problem.items.iter().zip(&duals.items);
        let earned: f64 = items.map(|(item, price)| f64::from(item.count) * price).sum();
        let paid: f64 = problem.stocks.iter().zip(&duals.stocks).map(|(stock, price)| stock * price).sum();
        // What bins draw from stocks, loads of items cannot.
        let holds = |(bin, most): (&BinType, &f64)| (most - cost_of_draws(&bin.draws, &duals.stocks)).max(0.0);
        let holds: Vec<f64> = problem.bins.iter().zip(at_most).map(holds).collect();
        self.inequalities.push(Inequality { holds, wanted: earned - paid });
    }

    // What all items take of each resource, bins have.
    fn inequalities_of_resources(&self) -> Vec<Inequality> {
        let problem = self.problem;
        let of = |resource: usize| {
            let size = |item: &Item| item.size.get(resource).map_or(0.0, |size| float(*size));
            Inequality {
                holds: problem.bins.iter().map(|bin| bin.room.get(resource).map_or(0.0, |room| float(*room))).collect(),
                wanted: problem.items.iter().map(|item| f64::from(item.count) * size(item)).sum(),
            }
        };
        (0..problem.n_resources()).map(of).collect()
    }

    /// Raises the bound to what whole bins cost at least.
    pub(crate) fn bound_by_whole_bins(&mut self) {
        if self.problem.bins.len() > MOST_TYPES {
            return;
        }
        let mut known = self.inequalities_of_resources();
        known.append(&mut self.inequalities);
        known.retain(|inequality| inequality.wanted > 0.0);
        let mut ceiling = self.bound * CEILING;
        let Some(mut program) = Program::new(self.problem, ceiling) else { return };
        let mut active = program.choose(&known);
        for _ in 0..PROGRAMS {
            let Some((least, bins)) = program.least(&known, &active) else { return };
            self.bound = self.bound.max(least);
            if let Some(bins) = bins {
                // Where these bins cannot hold fractions of all items, prices say why.
                let next = most_broken(&known, &bins).or_else(|| {
                    let (duals, at_most) = self.prices_beside(&bins)?;
                    self.note_inequality(&duals, &at_most);
                    known
                        .push(self.inequalities.pop().filter(|new| new.wanted > 0.0 && new.broken_by(&bins) > BROKEN)?);
                    Some(known.len() - 1)
                });
                let Some(next) = next else { return };
                active.push(next);
            } else if self.bound >= ceiling * (1.0 - BROKEN) {
                ceiling *= CEILING;
                let Some(higher) = Program::new(self.problem, ceiling) else { return };
                program = higher;
                active = program.choose(&known);
            } else {
                return;
            }
        }
    }
}

fn most_broken(known: &[Inequality], bins: &[f64]) -> Option<usize> {
    let broken = known.iter().map(|inequality| inequality.broken_by(bins)).enumerate();
    broken.filter(|(_, by)| *by > BROKEN).max_by(|a, b| a.1.total_cmp(&b.1).then(b.0.cmp(&a.0))).map(|(at, _)| at)
}

/// The least cost of bins, as the most that can be saved of so many of each that nothing is broken: a knapsack whose items are the
/// bins that are not needed.
struct Program {
    /// By type of bin: its cost, and how many there may be.
    columns: Vec<(f64, u32)>,
    /// What all of them cost.
    all: f64,
    /// Plans that cost more are of no interest.
    ceiling: f64,
}

impl Program {
    // `None` where no ceiling says how many bins there may be.
    fn new(problem: &Problem, ceiling: f64) -> Option<Self> {
        // A plan with more of a type than this costs more than the ceiling, or draws more than there is.
        let at_most = |bin: &BinType| {
            let drawn = bin
                .draws
                .iter()
                .filter(|(_, amount)| *amount > 0.0)
                .map(|&(stock, amount)| floor_u32(problem.stocks.get(stock).copied().unwrap_or(0.0) / amount));
            let paid = if bin.cost > 0.0 { floor_u32(ceiling / bin.cost) } else { u32::MAX };
            drawn.fold(paid, u32::min)
        };
        let columns: Vec<(f64, u32)> = problem.bins.iter().map(|bin| (bin.cost, at_most(bin))).collect();
        if ceiling <= 0.0 || columns.iter().any(|(_, at_most)| *at_most == u32::MAX) {
            return None;
        }
        let all = columns.iter().map(|(cost, n)| cost * f64::from(*n)).sum();
        Some(Program { columns, all, ceiling })
    }

    // What may be left out: in whole numbers, rounded so that nothing is left out that could be needed.
    #[expect(clippy::cast_possible_truncation, reason = "scaled to be far below 2^53")]
    fn resource(&self, inequality: &Inequality) -> Option<Resource> {
        let all: f64 = inequality.holds.iter().zip(&self.columns).map(|(holds, (_, n))| holds * f64::from(*n)).sum();
        let by = SCALE / all.max(inequality.wanted);
        let sizes: Vec<i64> = inequality.holds.iter().map(|holds| (holds * by * (1.0 + 1e-9)).ceil() as i64).collect();
        let wanted = (inequality.wanted * by * (1.0 - 1e-9)).floor() as i64;
        let all: i64 = sizes.iter().zip(&self.columns).map(|(size, (_, n))| size * i64::from(*n)).sum();
        (all > wanted).then_some(Resource { sizes, room: all - wanted })
    }

    // The inequalities that fractions of bins have to do with.
    fn choose(&self, known: &[Inequality]) -> Vec<usize> {
        let mut active: Vec<usize> = Vec::new();
        let mut bins = vec![0.0; self.columns.len()];
        for _ in 0..PASSES {
            let Some(next) = most_broken(known, &bins).filter(|next| !active.contains(next)) else { break };
            active.push(next);
            let rows: Vec<Resource> =
                active.iter().filter_map(|at| known.get(*at)).filter_map(|known| self.resource(known)).collect();
            if rows.len() < active.len() {
                break;
            }
            let mut relaxation = Relaxation::default();
            relaxation.reset(rows.len());
            for (column, &(cost, n)) in self.columns.iter().enumerate() {
                let share = |row: &Resource| row.sizes.get(column).map_or(0.0, |size| float(*size)) / float(row.room);
                relaxation.push(cost, f64::from(n), rows.iter().map(share));
            }
            relaxation.begin();
            let Some(prices) = relaxation.solve() else { break };
            bins =
                self.columns.iter().zip(relaxation.uses()).map(|((_, n), left_out)| f64::from(*n) - left_out).collect();
            if active.len() > ACTIVE {
                let mut prices = prices.iter();
                active.retain(|_| prices.next().is_some_and(|price| *price > 1e-9));
            }
        }
        active
    }

    // What whole bins cost at least that keep the active ones, the ceiling if that is less, and such bins.
    fn least(&self, known: &[Inequality], active: &[usize]) -> Option<(f64, Option<Vec<f64>>)> {
        let rows: Option<Vec<Resource>> = active.iter().map(|at| self.resource(known.get(*at)?)).collect();
        let found = WholeSearch::new(self.columns.clone(), rows?, Vec::new(), &|_| true).run(
            (self.all - self.ceiling).max(0.0),
            1.0,
            NODES,
        );
        let bins = found.patterns.last().map(|(_, left_out)| {
            self.columns.iter().zip(left_out).map(|((_, n), left_out)| f64::from(n - left_out)).collect()
        });
        let error = self.all * 1e-9;
        Some(((self.all - found.at_most - error).min(self.ceiling), bins))
    }
}
