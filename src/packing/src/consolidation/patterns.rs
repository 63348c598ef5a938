//! Better prices by whole patterns: what comes to a bin are whole items, of which often fewer have room than fractions would.
//!
//! Cutting planes (Kelley, 1960): the value of a bin's room is the most that any pattern of items in it is worth. A linear
//! program knows some patterns of each bin, and its prices are good as far as these go. The knapsack of each bin says what is
//! certain at these prices, and which patterns the program lacks. Prices stay near the best known ones, within a box, as
//! far from these few patterns say anything (box step method: Marsten, Hogan and Blankenship, 1975).

use good_lp::{Expression, ProblemVariables, Solution, SolverModel, Variable, clarabel, constraint, variable};

use super::relaxed::{Duals, Relaxed, RoomValue, Sort};
use crate::pricing::{Pricer, PricingEffort, Query};
use crate::problem::{BinType, Item, Problem};
use crate::tuning::consolidation::ROUNDED;
use crate::tuning::consolidation::patterns::{
    BOX, CLOSE, EXACT_STEPS, FIRST_BOX, IDLE_ROUNDS, LEAST_BOX, LP_TOLERANCE, MOST_EXACT, MOST_OTHERS, MOST_PATTERNS,
    MOST_SORTS, NODES, ROUNDS, SLACK, STEPS,
};

/// The items of a pattern, and how many of each.
type Items = Vec<(u32, u32)>;

/// A pattern that the program knows.
struct Known {
    items: Items,
    /// In how many programs since it said anything: in these another pattern of the bin was worth more.
    idle: u32,
}

/// The knapsacks of all sorts of bins, and the patterns that they found.
struct Knapsacks<'r> {
    relaxed: &'r Relaxed,
    /// By sort: prices of resources, by which its room is bounded as well.
    resources: Vec<Vec<f64>>,
    pricer: Pricer<'r>,
    /// By sort: how many of each item may come to one, where there is room for any.
    counts: Vec<Vec<u32>>,
    /// By sort.
    patterns: Vec<Vec<Known>>,
}

/// What prices were found to give.
struct Evaluated {
    bound: f64,
    /// How many patterns were not known before.
    n_new: usize,
}

/// The best bound that prices near these are found to give; no less than `least`.
pub(super) fn improved(relaxed: &Relaxed, start: Duals, least: f64) -> f64 {
    let n_takers = relaxed.sorts.iter().filter(|sort| !sort.takes.is_empty()).count();
    if n_takers == 0 || n_takers > MOST_SORTS {
        return least;
    }
    let problem = problem_of(relaxed);
    let Duals { items: mut centre, resources } = start;
    let mut knapsacks = Knapsacks::new(relaxed, &problem, resources);
    let first = knapsacks.evaluate(&centre);
    let (mut at_centre, mut best, mut width) = (first.bound, least.max(first.bound), FIRST_BOX);
    for _ in 0..ROUNDS {
        let Some((prices, hoped)) = knapsacks.solve(&centre, width) else {
            // What the solver makes nothing of is easier nearby.
            if width <= LEAST_BOX {
                break;
            }
            width = (width * 0.5).max(LEAST_BOX);
            continue;
        };
        let found = knapsacks.evaluate(&prices);
        best = best.max(found.bound);
        let gained = found.bound - at_centre;
        let is_close = hoped - at_centre <= CLOSE * hoped.abs();
        if gained > 0.0 {
            (centre, at_centre) = (prices, found.bound);
            width = (width * 1.5).min(BOX);
        } else if is_close || found.n_new == 0 {
            if width >= BOX {
                break;
            }
            width = (width * 2.0).min(BOX);
        } else {
            width = (width * 0.7).max(LEAST_BOX);
        }
    }
    best
}

/// The sorts as types of bins that a pricer knows.
fn problem_of(relaxed: &Relaxed) -> Problem {
    let item = |size: &Vec<i64>| Item { count: u32::MAX, size: size.clone(), at_most: u32::MAX, load: 0.0 };
    let bin = |sort: &Sort| BinType {
        cost: sort.cost,
        bias: 0.0,
        room: sort.whole_room.clone(),
        admits: sort.takes.iter().map(|(item, _)| *item as usize).collect(),
        draws: Vec::new(),
        loads: Vec::new(),
    };
    Problem {
        items: relaxed.whole_sizes.iter().map(item).collect(),
        bins: relaxed.sorts.iter().map(bin).collect(),
        ..Problem::default()
    }
}

// === impl Knapsacks ===

impl<'r> Knapsacks<'r> {
    fn new(relaxed: &'r Relaxed, problem: &'r Problem, resources: Vec<Vec<f64>>) -> Self {
        let n_items = relaxed.whole_sizes.len();
        let counts = relaxed.sorts.iter().map(|sort| {
            let mut counts = vec![0; if sort.takes.is_empty() { 0 } else { n_items }];
            for &(item, times) in &sort.takes {
                if let Some(count) = counts.get_mut(item as usize) {
                    *count = crate::numbers::floor_u32(times);
                }
            }
            counts
        });
        let counts = counts.collect();
        let patterns = relaxed.sorts.iter().map(|_| Vec::new()).collect();
        let mut pricer = Pricer::new(problem);
        for (bin, prices) in resources.iter().enumerate() {
            pricer
                .set_multipliers(bin, prices.iter().zip(&relaxed.scales).map(|(price, scale)| price / scale).collect());
        }
        Knapsacks { relaxed, resources, pricer, counts, patterns }
    }

    /// The bound that these prices give for certain, and the patterns that the program lacked there.
    fn evaluate(&mut self, prices: &[f64]) -> Evaluated {
        let mut n_new = 0;
        let quick = PricingEffort { steps: STEPS, nodes: 0, slack: 1.0 };
        let mut values: Vec<RoomValue> = Vec::with_capacity(self.patterns.len());
        for bin in 0..self.patterns.len() {
            values.push(self.search(bin, prices, quick, &mut n_new));
        }
        // All prices are scaled by the bin that is worth most for what it costs: that one is searched to the end.
        let exact = PricingEffort { steps: EXACT_STEPS, nodes: NODES, slack: 1.0 };
        let relaxed = self.relaxed;
        let mut again = |bin: usize, values: &mut Vec<RoomValue>, n_new: &mut usize| {
            let found = self.search(bin, prices, exact, n_new);
            if let Some(value) = values.get_mut(bin) {
                *value = RoomValue {
                    at_most: found.at_most.min(value.at_most),
                    found: found.found.max(value.found),
                    is_final: true,
                };
            }
        };
        for _ in 0..MOST_EXACT {
            let Some(bin) = relaxed.decisive(&values) else { break };
            again(bin, &mut values, &mut n_new);
        }
        for bin in relaxed.doubts(prices, &values).into_iter().take(MOST_EXACT) {
            again(bin, &mut values, &mut n_new);
        }
        Evaluated { bound: self.relaxed.sum(prices, &values), n_new }
    }

    /// What the room of a sort of bins is worth at these prices; keeps patterns that are new.
    fn search(&mut self, bin: usize, prices: &[f64], effort: PricingEffort, n_new: &mut usize) -> RoomValue {
        let Some(counts) = self.counts.get(bin).filter(|counts| !counts.is_empty()) else {
            return RoomValue::default();
        };
        let found = self.pricer.best_pattern(Query { bin, prices, counts, threshold: 0.0, effort });
        let by_resources = self
            .relaxed
            .sorts
            .get(bin)
            .map_or(f64::INFINITY, |sort| self.relaxed.room_value(sort, prices, self.resources.get(bin)));
        let at_most = found.at_most.min(by_resources);
        let value =
            RoomValue { at_most, found: found.value, is_final: at_most <= found.value * (1.0 + 10.0 * ROUNDED) };
        let Some(known) = self.patterns.get_mut(bin) else { return value };
        // The others become better towards the last.
        let others = found.others.into_iter().rev().take(MOST_OTHERS).map(|(_, items)| items);
        for items in std::iter::once(found.items).chain(others) {
            if !items.is_empty() && known.iter().all(|known| known.items != items) {
                *n_new += 1;
                known.push(Known { items, idle: 0 });
            }
        }
        value
    }

    /// The best prices as far as these patterns go, within a box about `centre`, and the bound that they would give.
    fn solve(&mut self, centre: &[f64], width: f64) -> Option<(Vec<f64>, f64)> {
        let relaxed = self.relaxed;
        let mut variables = ProblemVariables::new();
        // An item whose price is nothing may get one, as small as prices are.
        let mean = centre.iter().sum::<f64>() / f64::from(u32::try_from(centre.len().max(1)).unwrap_or(u32::MAX));
        let price = |at: &f64| {
            let reach = width * at.max(0.1 * mean);
            variable().min((at - reach).max(0.0)).max((at + reach).min(relaxed.dearest))
        };
        let prices: Vec<Variable> = centre.iter().map(|at| variables.add(price(at))).collect();
        let scarce: Vec<Variable> = relaxed.stocks.iter().map(|_| variables.add(variable().min(0.0))).collect();
        let mut gain = Expression::default();
        for (stock, scarce) in relaxed.stocks.iter().zip(&scarce) {
            gain.add_mul(-*stock, *scarce);
        }
        let worth = |items: &[(u32, u32)]| {
            let mut worth = Expression::default();
            for (item, count) in items {
                prices.get(*item as usize).into_iter().for_each(|price| worth.add_mul(f64::from(*count), *price));
            }
            worth
        };
        let mut constraints = Vec::new();
        for (sort, patterns) in relaxed.sorts.iter().zip(&self.patterns) {
            let room = (!patterns.is_empty()).then(|| variables.add(variable().min(0.0)));
            for pattern in patterns {
                let mut over = worth(&pattern.items);
                if let Some(room) = room {
                    over.add_mul(-1.0, room);
                }
                constraints.push(constraint!(over <= 0.0));
            }
            let of_room = room.map(Expression::from).unwrap_or_default();
            let scarce = sort.stock.and_then(|at| scarce.get(at)).copied();
            match (&sort.holds, sort.is_new) {
                (Some((disruption, holds)), _) => {
                    let least = variables.add(variable());
                    gain.add_mul(sort.count, least);
                    constraints.push(constraint!(of_room + least <= sort.cost));
                    let mut emptied = Expression::from(least) - worth(holds);
                    if let Some(scarce) = scarce {
                        emptied.add_mul(1.0, scarce);
                    }
                    constraints.push(constraint!(emptied <= *disruption));
                }
                (None, true) if room.is_some() => {
                    let mut over = of_room;
                    if let Some(scarce) = scarce {
                        over.add_mul(-1.0, scarce);
                    }
                    constraints.push(constraint!(over <= sort.cost));
                }
                (None, true) => {}
                (None, false) => gain -= of_room * sort.count,
            }
        }
        let mut model = variables.maximise(gain.clone()).using(clarabel);
        model.settings().verbose(false).tol_gap_rel(LP_TOLERANCE).tol_gap_abs(LP_TOLERANCE).tol_feas(LP_TOLERANCE);
        for constraint in constraints {
            model.add_constraint(constraint);
        }
        let solution = model.solve().ok()?;
        let value = |variable: &Variable| Some(solution.value(*variable)).filter(|value| value.is_finite());
        let hoped = solution.eval(gain) + self.standing_cost();
        let prices: Vec<f64> =
            prices.iter().map(|price| value(price).map(|value| value.max(0.0))).collect::<Option<_>>()?;
        self.forget_idle(&prices);
        hoped.is_finite().then_some((prices, hoped))
    }

    /// Leaves out patterns that have not said anything for long, so that the program stays small and knows all that does.
    fn forget_idle(&mut self, prices: &[f64]) {
        let worth = |known: &Known| -> f64 {
            let worth =
                |(item, count): &(u32, u32)| prices.get(*item as usize).copied().unwrap_or(0.0) * f64::from(*count);
            known.items.iter().map(worth).sum()
        };
        for patterns in &mut self.patterns {
            let most = patterns.iter().map(worth).fold(0.0, f64::max);
            for known in patterns.iter_mut() {
                known.idle = if worth(known) < most * (1.0 - SLACK) { known.idle + 1 } else { 0 };
            }
            patterns.retain(|known| known.idle < IDLE_ROUNDS);
            if patterns.len() > MOST_PATTERNS {
                patterns.sort_by_key(|known| known.idle);
                patterns.truncate(MOST_PATTERNS);
            }
        }
    }

    /// What bins cost that stay in any case.
    fn standing_cost(&self) -> f64 {
        let stay = self.relaxed.sorts.iter().filter(|sort| sort.holds.is_none() && !sort.is_new);
        stay.map(|sort| sort.count * sort.cost).sum()
    }
}
