//! The program of a bound without whole numbers, its dual prices, and what any prices prove.

use std::collections::BTreeMap;

use fixedbitset::FixedBitSet;
use good_lp::{Expression, ProblemVariables, Solution, SolverModel, Variable, clarabel, constraint, variable};

use super::problem::{Consolidation, ExistingNode, Movable};
use crate::numbers::float;
use crate::tuning::consolidation::{BOUND_TOLERANCE, MOST_CELLS};

/// Bins that can be had beside those that stand.
#[derive(Clone, Debug, PartialEq)]
pub struct Offer {
    /// What one costs; not negative.
    pub cost: f64,
    /// What one has room for, by resource.
    pub room: Vec<i64>,
    /// The items that may be in one.
    pub admits: FixedBitSet,
    /// How many there are; `None` for any number.
    pub stock: Option<u32>,
    /// What it has its stock from: those of one supply share the stock, to which each emptied bin of the supply adds one.
    pub supply: Option<u32>,
}

/// What the items that come to a bin are worth at most, at some prices.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct RoomValue {
    pub(super) at_most: f64,
    /// What a pattern that was found is worth.
    pub(super) found: f64,
    /// Whether that was searched to the end.
    pub(super) is_final: bool,
}

/// A bin, new or existing, or several that are alike.
pub(super) struct Sort {
    pub(super) count: f64,
    pub(super) cost: f64,
    /// What emptying it disrupts, and how many it holds of each item; `None` where it stays.
    pub(super) holds: Option<(f64, Vec<(u32, u32)>)>,
    /// The stock that a new bin is of, or that emptying one adds to, by index.
    pub(super) stock: Option<usize>,
    pub(super) is_new: bool,
    room: Vec<f64>,
    pub(super) whole_room: Vec<i64>,
    /// Items that it has room for, and how many of each can come to it.
    pub(super) takes: Vec<(u32, f64)>,
}

pub(super) struct Relaxed {
    /// By resource: the largest room.
    pub(super) scales: Vec<f64>,
    /// Sizes by item, in shares of the largest room, and as they are.
    sizes: Vec<Vec<f64>>,
    pub(super) whole_sizes: Vec<Vec<i64>>,
    pub(super) sorts: Vec<Sort>,
    /// New bins that there are of each stock.
    pub(super) stocks: Vec<f64>,
    /// More than the dual price of any item.
    pub(super) dearest: f64,
}

/// Dual prices of items, and by bin those of its resources.
#[derive(Default)]
pub(super) struct Duals {
    pub(super) items: Vec<f64>,
    pub(super) resources: Vec<Vec<f64>>,
}

/// What makes bins alike.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Alike<'p> {
    cost: u64,
    disruption: u64,
    holds: &'p [(u32, u32)],
    may_go: bool,
    free: &'p [i64],
    supply: Option<u32>,
    takes: Vec<(u32, u64)>,
}

impl Sort {
    /// By how much prices of items are lower where the room of a new bin of which there are any number is worth so much.
    fn scale_at(&self, value: RoomValue) -> f64 {
        if self.is_new && self.stock.is_none() && value.at_most > self.cost { self.cost / value.at_most } else { 1.0 }
    }

    /// Whether it has room for more than so many items of a size, fractions allowed.
    fn has_room_for_more(&self, times: f64, size: &[f64]) -> bool {
        size.iter().zip(&self.room).all(|(need, room)| need * times < *room - 1e-9)
    }
}

// === impl Relaxed ===

impl Relaxed {
    pub(super) fn new(problem: &Consolidation, offers: &[Offer]) -> Self {
        let rooms = || problem.bins.iter().map(|bin| &bin.free).chain(offers.iter().map(|offer| &offer.room));
        let n_resources = problem.items.iter().map(|item| item.size.len()).max().unwrap_or(0);
        let largest =
            |at: usize| rooms().filter_map(|room| room.get(at)).max().map_or(1.0, |most| float(*most).max(1.0));
        let scales: Vec<f64> = (0..n_resources).map(largest).collect();
        let in_shares = |amounts: &[i64]| -> Vec<f64> {
            let amount = |at: usize| amounts.get(at).map_or(0.0, |amount| float((*amount).max(0)));
            scales.iter().enumerate().map(|(at, scale)| amount(at) / scale).collect()
        };
        let whole =
            |amounts: &[i64]| (0..n_resources).map(|at| amounts.get(at).map_or(0, |most| (*most).max(0))).collect();
        // How many there are of each item in bins that may be emptied.
        let mut totals = vec![0_u64; problem.items.len()];
        for &(item, count) in problem.bins.iter().filter(|bin| bin.pool.is_some()).flat_map(|bin| &bin.holds) {
            totals.get_mut(item as usize).into_iter().for_each(|total| *total += u64::from(count));
        }
        // Of what may come to a bin, what it holds itself is no part.
        let takes = |room: &[i64], own: &[(u32, u32)], admits: &dyn Fn(usize) -> bool| -> Vec<(u32, u64)> {
            let times = |(at, item): (usize, &Movable)| {
                let id = u32::try_from(at).ok()?;
                let held = own.iter().find(|(held, _)| *held == id).map_or(0, |(_, count)| u64::from(*count));
                let others = totals.get(at).copied().unwrap_or(0).saturating_sub(held);
                let needs = item.size.iter().enumerate().filter(|(_, need)| **need > 0);
                let fit = needs.map(|(at, need)| room.get(at).map_or(0, |room| (*room).max(0) / need)).min();
                let times = fit.map_or(others, |fit| u64::try_from(fit).unwrap_or(0).min(others));
                (times > 0 && admits(at)).then_some((id, times))
            };
            problem.items.iter().enumerate().filter_map(times).collect()
        };
        let mut alike: BTreeMap<Alike<'_>, (f64, &ExistingNode)> = BTreeMap::new();
        for (at, bin) in problem.bins.iter().enumerate() {
            let admits = |item: usize| problem.items.get(item).is_some_and(|item| item.admitted_by.contains(at));
            let key = Alike {
                cost: bin.cost.to_bits(),
                disruption: bin.disruption.to_bits(),
                holds: &bin.holds,
                may_go: bin.pool.is_some(),
                free: &bin.free,
                supply: bin.supply,
                takes: takes(&bin.free, if bin.pool.is_some() { &bin.holds } else { &[] }, &admits),
            };
            alike.entry(key).or_insert((0.0, bin)).0 += 1.0;
        }
        let counted = |takes: Vec<(u32, u64)>| -> Vec<(u32, f64)> {
            let float = |times: u64| float(i64::try_from(times).unwrap_or(i64::MAX));
            takes.into_iter().map(|(item, times)| (item, float(times))).collect()
        };
        let mut stocks: Vec<f64> = Vec::new();
        let mut by_supply: BTreeMap<u32, usize> = BTreeMap::new();
        let of_offers: Vec<Option<usize>> = offers
            .iter()
            .map(|offer| {
                let stock = offer.stock.map(f64::from)?;
                let next = stocks.len();
                let at = offer.supply.map_or(next, |supply| *by_supply.entry(supply).or_insert(next));
                if at == next {
                    stocks.push(stock);
                }
                Some(at)
            })
            .collect();
        let mut sorts: Vec<Sort> = Vec::with_capacity(alike.len() + offers.len());
        for (key, (count, bin)) in alike {
            let disruption = problem.price * bin.disruption;
            sorts.push(Sort {
                count,
                cost: bin.cost,
                holds: key.may_go.then(|| (disruption, bin.holds.clone())),
                stock: key.supply.filter(|_| key.may_go).and_then(|supply| by_supply.get(&supply).copied()),
                is_new: false,
                room: in_shares(&bin.free),
                whole_room: whole(&bin.free),
                takes: counted(key.takes),
            });
        }
        sorts.extend(offers.iter().zip(of_offers).map(|(offer, stock)| Sort {
            count: 1.0,
            cost: offer.cost,
            holds: None,
            stock,
            is_new: true,
            room: in_shares(&offer.room),
            whole_room: whole(&offer.room),
            takes: counted(takes(&offer.room, &[], &|item| offer.admits.contains(item))),
        }));
        let dearest = problem.bins.iter().map(|bin| bin.cost + problem.price * bin.disruption).sum::<f64>() + 1.0;
        let sizes = problem.items.iter().map(|item| in_shares(&item.size)).collect();
        let whole_sizes = problem.items.iter().map(|item| item.size.clone()).collect();
        Relaxed { scales, sizes, whole_sizes, sorts, stocks, dearest }
    }

    /// Good prices, by the dual of the linear program. `None` where it is too large, or the solver finds none; and where there
    /// is no item, as nothing has a price then, and the solver takes no program without variables.
    pub(super) fn solve(&self) -> Option<Duals> {
        let cells: usize = self.sorts.iter().map(|sort| sort.takes.len()).sum();
        if cells > MOST_CELLS || self.sizes.is_empty() {
            return None;
        }
        let mut variables = ProblemVariables::new();
        let prices: Vec<Variable> =
            self.sizes.iter().map(|_| variables.add(variable().min(0.0).max(self.dearest))).collect();
        let mut gain = Expression::default();
        // What one more of each stock saves.
        let scarce: Vec<Variable> = self.stocks.iter().map(|_| variables.add(variable().min(0.0))).collect();
        for (stock, scarce) in self.stocks.iter().zip(&scarce) {
            gain.add_mul(-*stock, *scarce);
        }
        let scarce_of = |sort: &Sort| sort.stock.and_then(|at| scarce.get(at)).copied();
        let mut constraints = Vec::with_capacity(cells + 2 * self.sorts.len());
        let mut room_prices: Vec<Vec<Variable>> = Vec::with_capacity(self.sorts.len());
        for sort in &self.sorts {
            let resource_prices: Vec<Variable> = sort.room.iter().map(|_| variables.add(variable().min(0.0))).collect();
            let mut of_room = Expression::default();
            for &(item, times) in &sort.takes {
                let (Some(price), Some(size)) = (prices.get(item as usize), self.sizes.get(item as usize)) else {
                    continue;
                };
                let mut over = Expression::from(*price);
                if sort.has_room_for_more(times, size) {
                    // There are fewer of them than it has room for.
                    let rare = variables.add(variable().min(0.0));
                    over.add_mul(-1.0, rare);
                    of_room.add_mul(times, rare);
                }
                for (share, price) in size.iter().zip(&resource_prices).filter(|(share, _)| **share > 0.0) {
                    over.add_mul(-*share, *price);
                }
                constraints.push(constraint!(over <= 0.0));
            }
            for (room, price) in sort.room.iter().zip(&resource_prices) {
                of_room.add_mul(*room, *price);
            }
            match (&sort.holds, sort.is_new) {
                (Some((disruption, holds)), _) => {
                    let least = variables.add(variable());
                    gain.add_mul(sort.count, least);
                    constraints.push(constraint!(of_room + least <= sort.cost));
                    let mut emptied = Expression::from(least);
                    for (item, count) in holds {
                        prices
                            .get(*item as usize)
                            .into_iter()
                            .for_each(|price| emptied.add_mul(-f64::from(*count), *price));
                    }
                    if let Some(scarce) = scarce_of(sort) {
                        emptied.add_mul(1.0, scarce);
                    }
                    constraints.push(constraint!(emptied <= *disruption));
                }
                (None, true) => {
                    if let Some(scarce) = scarce_of(sort) {
                        of_room.add_mul(-1.0, scarce);
                    }
                    constraints.push(constraint!(of_room <= sort.cost));
                }
                (None, false) => gain -= of_room * sort.count,
            }
            room_prices.push(resource_prices);
        }
        let mut model = variables.maximise(gain).using(clarabel);
        model
            .settings()
            .verbose(false)
            .tol_gap_rel(BOUND_TOLERANCE)
            .tol_gap_abs(BOUND_TOLERANCE)
            .tol_feas(BOUND_TOLERANCE);
        for constraint in constraints {
            model.add_constraint(constraint);
        }
        let solution = model.solve().ok()?;
        let value = |variable: &Variable| {
            Some(solution.value(*variable)).filter(|value| value.is_finite()).map(|value| value.max(0.0))
        };
        Some(Duals {
            items: prices.iter().map(value).collect::<Option<_>>()?,
            resources: room_prices.iter().map(|prices| prices.iter().map(value).collect()).collect::<Option<_>>()?,
        })
    }

    /// The bound that prices of items give.
    pub(super) fn value(&self, duals: &Duals) -> f64 {
        let value = |(at, sort): (usize, &Sort)| RoomValue {
            at_most: self.room_value(sort, &duals.items, duals.resources.get(at)),
            ..RoomValue::default()
        };
        let room_values: Vec<RoomValue> = self.sorts.iter().enumerate().map(value).collect();
        self.sum(&duals.items, &room_values)
    }

    /// The bound that prices of items give, where the room of each sort is worth no more than so much at them.
    pub(super) fn sum(&self, prices: &[f64], room_values: &[RoomValue]) -> f64 {
        // The room of a new bin of unlimited stock has no higher value than the bin costs: else prices of what it takes are
        // lower by that share.
        let mut scales = vec![1.0_f64; prices.len()];
        for (sort, value) in self.sorts.iter().zip(room_values) {
            let scale = sort.scale_at(*value);
            if scale < 1.0 {
                for (item, _) in &sort.takes {
                    scales.get_mut(*item as usize).into_iter().for_each(|known| *known = known.min(scale));
                }
            }
        }
        let scale_of = |item: u32| scales.get(item as usize).copied().unwrap_or(1.0);
        let price = |item: u32| scale_of(item) * prices.get(item as usize).copied().unwrap_or(0.0);
        // No item in a room has a higher scale than the highest there.
        let room_values: Vec<f64> = self
            .sorts
            .iter()
            .zip(room_values)
            .map(|(sort, value)| value.at_most * sort.takes.iter().map(|(item, _)| scale_of(*item)).fold(0.0, f64::max))
            .collect();
        // One more of a stock saves the most by which the value of such a bin exceeds its cost.
        let mut scarce = vec![0.0_f64; self.stocks.len()];
        for (sort, value) in self.sorts.iter().zip(&room_values).filter(|(sort, _)| sort.is_new) {
            let over = value - sort.cost;
            sort.stock.and_then(|at| scarce.get_mut(at)).into_iter().for_each(|most| *most = most.max(over));
        }
        let least = self.sorts.iter().zip(&room_values).map(|(sort, value)| {
            let stays = sort.cost - value;
            match (&sort.holds, sort.is_new) {
                (Some((disruption, holds)), _) => {
                    let items: f64 = holds.iter().map(|(item, count)| price(*item) * f64::from(*count)).sum();
                    let freed = sort.stock.and_then(|at| scarce.get(at)).copied().unwrap_or(0.0);
                    sort.count * stays.min(disruption + items - freed)
                }
                (None, true) => 0.0,
                (None, false) => sort.count * stays,
            }
        });
        least.sum::<f64>() - self.stocks.iter().zip(&scarce).map(|(stock, scarce)| stock * scarce).sum::<f64>()
    }

    /// Of new bins of unlimited stock, the one whose value lowers prices most, if it may be worth less than is known.
    pub(super) fn decisive(&self, room_values: &[RoomValue]) -> Option<usize> {
        let scales = self.sorts.iter().zip(room_values).map(|(sort, value)| sort.scale_at(*value));
        let (at, _) = scales.enumerate().filter(|(_, scale)| *scale < 1.0).min_by(|(_, a), (_, b)| a.total_cmp(b))?;
        room_values.get(at).is_some_and(|value| !value.is_final).then_some(at)
    }

    /// By how much the bound may be better were it known what the room of each sort is worth, those first that matter most.
    pub(super) fn doubts(&self, prices: &[f64], room_values: &[RoomValue]) -> Vec<usize> {
        let price = |item: u32| prices.get(item as usize).copied().unwrap_or(0.0);
        let doubt = |(sort, value): (&Sort, &RoomValue)| {
            let least = |value: f64| match &sort.holds {
                Some((disruption, holds)) => {
                    let items: f64 = holds.iter().map(|(item, count)| price(*item) * f64::from(*count)).sum();
                    (sort.cost - value).min(disruption + items)
                }
                None if sort.is_new => (sort.cost - value).min(0.0),
                None => -value,
            };
            if value.is_final { 0.0 } else { sort.count * (least(value.found) - least(value.at_most)) }
        };
        let doubts = self.sorts.iter().zip(room_values).map(doubt);
        let mut doubts: Vec<(usize, f64)> = doubts.enumerate().filter(|(_, doubt)| *doubt > 0.0).collect();
        doubts.sort_by(|(a, x), (b, y)| y.total_cmp(x).then(a.cmp(b)));
        doubts.into_iter().map(|(at, _)| at).collect()
    }

    /// What the items in a bin come to at most, at these dual prices.
    pub(super) fn room_value(&self, sort: &Sort, prices: &[f64], resources: Option<&Vec<f64>>) -> f64 {
        let price = |item: u32| prices.get(item as usize).copied().unwrap_or(0.0);
        let size = |item: u32| self.sizes.get(item as usize).map_or(&[][..], Vec::as_slice);
        let dear = || sort.takes.iter().copied().filter(|(item, _)| price(*item) > 0.0);
        let mut least: f64 = dear().map(|(item, times)| price(item) * times).sum();
        let mut by = |weights: &[f64]| {
            let weigh =
                |amounts: &[f64]| amounts.iter().zip(weights).map(|(amount, weight)| amount * weight).sum::<f64>();
            // The value of the room, and by how much prices of items exceed that of the room that they take.
            let above: f64 = dear().map(|(item, times)| (price(item) - weigh(size(item))).max(0.0) * times).sum();
            least = least.min(weigh(&sort.room) + above);
            // Or as if each unit of weight were paid for as the dearest item does.
            let dearest = dear().map(|(item, _)| price(item) / weigh(size(item))).fold(0.0, f64::max);
            let value = dearest * weigh(&sort.room);
            if value.is_finite() {
                least = least.min(value);
            }
        };
        if let Some(weights) = resources {
            by(weights);
        }
        for at in 0..sort.room.len() {
            let alone: Vec<f64> = (0..sort.room.len()).map(|other| f64::from(u8::from(at == other))).collect();
            by(&alone);
        }
        least
    }
}
