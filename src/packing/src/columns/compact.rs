//! The compact program: fractions of items in fractions of bins, without patterns. It is weaker than the program over patterns,
//! but it is solved at once, whatever the items are, and its dual prices are proved by its own multipliers of resources.

use super::{BinClass, Generator};
use crate::duals::DualPrices;
use crate::master::interior::Answer;
use crate::master::program::Program;
use crate::numbers::{dot, float, scrambled};
use crate::tuning::compact::{
    MOST_ROWS, MOST_WORK, PRICES_ITEMS, PRICES_ROWS, PRICES_TOLERANCE, PRICES_WORK, TOLERANCE, TRACE,
};

/// What filling bins by the compact program goes by.
pub(crate) struct Guide {
    pub(crate) duals: DualPrices,
    /// Types of bins, those that it uses most first.
    pub(crate) types: Vec<u32>,
}

/// A solution of the compact program.
struct Compact {
    duals: DualPrices,
    /// By type of bin that it knows, how many it uses.
    uses: Vec<(u32, f64)>,
    /// By class of bins and resource: what room is worth, an amount of the resource for one unit.
    multipliers: Vec<Vec<f64>>,
}

/// The items of a program: all of them, or some that stand for all.
struct Sample {
    items: Vec<usize>,
    /// How many each of them stands for.
    each: f64,
}

impl Generator<'_> {
    /// Raises the bound to that of the compact program, where that is solved. What its multipliers say of bins is kept for the
    /// searches that follow.
    pub(crate) fn bound_compactly(&mut self) {
        let all: Vec<usize> = (0..self.classes.len()).collect();
        let n_rows = self.problem.items.len().saturating_add(self.n_dense(all.len()));
        if work_of(self.problem.items.len(), self.n_dense(all.len())) > MOST_WORK || n_rows > MOST_ROWS {
            return;
        }
        let Some(Compact { duals, multipliers, .. }) = self.compact(&all, &self.sample(usize::MAX), None, TOLERANCE)
        else {
            return;
        };
        self.keep_multipliers(&all, multipliers);
        let at_most = self.at_most_by_multipliers(&duals);
        self.raise_bound(&duals, &at_most);
    }

    /// Prices at which fractions of all items are worth more than so many bins can hold, if they can not, and by type of bin the
    /// dual value that no pattern exceeds; `None` where the program is too large, or not solved.
    pub(super) fn prices_beside(&mut self, bins: &[f64]) -> Option<(DualPrices, Vec<f64>)> {
        let all: Vec<usize> = (0..self.classes.len()).collect();
        let n_rows = self.problem.items.len().saturating_add(self.n_dense(all.len()));
        if work_of(self.problem.items.len(), self.n_dense(all.len())) > PRICES_WORK || n_rows > PRICES_ROWS {
            return None;
        }
        let Compact { duals, multipliers, .. } =
            self.compact(&all, &self.sample(usize::MAX), Some(bins), PRICES_TOLERANCE)?;
        self.keep_multipliers(&all, multipliers);
        let at_most = self.at_most_by_multipliers(&duals);
        Some((duals, at_most))
    }

    fn at_most_by_multipliers(&self, duals: &DualPrices) -> Vec<f64> {
        let problem = self.problem;
        let counts: Vec<u32> = problem.items.iter().map(|item| item.count).collect();
        let at_most = |bin: usize| {
            let prices = problem.prices_in(bin, &duals.items, &duals.stocks);
            self.pricer.at_most(bin, &prices, &problem.available_for(bin, &counts, &problem.stocks))
        };
        (0..problem.bins.len()).map(at_most).collect()
    }

    /// Dual prices by the compact program of the classes of bins that promise most at other prices: as many as may be solved in
    /// a moment. What its multipliers say of bins is kept. Where items are many, some of them stand for all in the program, and the
    /// prices of all follow from its multipliers. `None` where no class is small enough, or not all are and items are many.
    pub(crate) fn compact_prices(&mut self, duals: &DualPrices, most_items: usize) -> Option<Guide> {
        let problem = self.problem;
        let counts: Vec<u32> = problem.items.iter().map(|item| item.count).collect();
        let promise = |bins: &BinClass| {
            let first = bins.first().copied().unwrap_or(0);
            let prices = problem.prices_in(first, &duals.items, &duals.stocks);
            let most = self.pricer.at_most(first, &prices, &counts);
            let costs = bins.iter().filter_map(|bin| problem.bins.get(*bin)).map(|bin| duals.cost_of_bin(bin));
            most / costs.fold(f64::INFINITY, f64::min).max(1e-9)
        };
        let mut order: Vec<(f64, usize)> = self.classes.iter().map(promise).zip(0..).collect();
        order.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
        let are_few = problem.items.len().saturating_add(self.n_dense(1)) <= PRICES_ROWS;
        let stand_for_all = !are_few || problem.items.len() > most_items;
        let sample = self.sample(if stand_for_all { PRICES_ITEMS } else { usize::MAX });
        let least = if stand_for_all { order.len() } else { 1 };
        let n = (least..=order.len()).rev().find(|n| {
            let n_rows = sample.items.len().saturating_add(self.n_dense(*n));
            work_of(sample.items.len(), self.n_dense(*n)) <= PRICES_WORK && n_rows <= PRICES_ROWS
        })?;
        let classes: Vec<usize> = order.into_iter().take(n).map(|(_, class)| class).collect();
        let Compact { duals: found, multipliers, mut uses } =
            self.compact(&classes, &sample, None, PRICES_TOLERANCE)?;
        let items = if sample.items.len() == problem.items.len() {
            found.items
        } else {
            (0..problem.items.len())
                .map(|item| self.price_by(&classes, &multipliers, &found.stocks, item))
                .zip(&duals.items)
                .map(|(price, other)| price.unwrap_or(*other))
                .collect()
        };
        self.keep_multipliers(&classes, multipliers);
        uses.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
        let duals = DualPrices { items, stocks: found.stocks };
        Some(Guide { duals, types: uses.into_iter().map(|(bin, _)| bin).collect() })
    }

    // What one more of an item costs at least by the multipliers of classes that may hold it; `None` where none of them does.
    fn price_by(&self, classes: &[usize], multipliers: &[Vec<f64>], stocks: &[f64], item: usize) -> Option<f64> {
        let size = self.pricer.size_at(item);
        let load = self.problem.items.get(item)?.load;
        let in_class = |(class, by): (&usize, &Vec<f64>)| {
            let bin = self.problem.bins.get(*self.classes.get(*class)?.first()?)?;
            let fits = size.iter().zip(self.pricer.room_of(bin)).all(|(size, room)| *size <= room);
            let loads: f64 = bin.loads.iter().filter_map(|&stock| stocks.get(stock)).sum();
            (fits && bin.admits.contains(item)).then(|| dot(by, size) + load * loads)
        };
        classes.iter().zip(multipliers).filter_map(in_class).reduce(f64::min)
    }

    // So many items at most, by chance.
    fn sample(&self, at_most: usize) -> Sample {
        let n = self.problem.items.len();
        let mut items: Vec<usize> = (0..n).collect();
        if n > at_most {
            items.sort_by_key(|item| scrambled(*item as u64));
            items.truncate(at_most);
            items.sort_unstable();
        }
        let count = |item: usize| self.problem.items.get(item).map_or(0.0, |item| f64::from(item.count));
        let of_sample: f64 = items.iter().map(|item| count(*item)).sum();
        let each = if items.len() == n { 1.0 } else { (0..n).map(count).sum::<f64>() / of_sample.max(1.0) };
        Sample { items, each }
    }

    fn keep_multipliers(&mut self, classes: &[usize], multipliers: Vec<Vec<f64>>) {
        for (class, multipliers) in classes.iter().zip(multipliers) {
            for bin in self.classes.get(*class).into_iter().flatten() {
                self.pricer.set_multipliers(*bin, multipliers.clone());
            }
        }
    }

    // Rows that have to do with all others, with so many classes of bins. Rows of items have nothing to do with each other.
    fn n_dense(&self, n_classes: usize) -> usize {
        n_classes.saturating_mul(self.pricer.n_resources()).saturating_add(self.problem.stocks.len())
    }

    // Solves it, of any number of bins or of these, by type; `None` where no answer is found.
    fn compact(&self, of: &[usize], sample: &Sample, fixed: Option<&[f64]>, tolerance: f64) -> Option<Compact> {
        let problem = self.problem;
        let n_resources = self.pricer.n_resources();
        let classes: Vec<&BinClass> = of.iter().filter_map(|class| self.classes.get(*class)).collect();
        let (n_items, n_classes) = (sample.items.len(), classes.len());
        let items =
            || sample.items.iter().enumerate().filter_map(|(at, item)| Some((at, *item, problem.items.get(*item)?)));
        let row = |at: usize| u32::try_from(at).unwrap_or(u32::MAX);
        let row_of_room = |class: usize, resource: usize| row(n_items + class * n_resources + resource);
        let row_of_stock = |stock: usize| row(n_items + n_classes * n_resources + stock);
        let mut rhs: Vec<f64> = items().map(|(.., item)| f64::from(item.count) * sample.each).collect();
        let there = |bins: &BinClass| {
            let n = |bin: &usize| fixed.and_then(|fixed| fixed.get(*bin)).copied().unwrap_or(0.0);
            // Where there is none, a trace keeps the program inside.
            if fixed.is_some() { bins.iter().map(n).sum::<f64>() + TRACE } else { 0.0 }
        };
        for bins in &classes {
            let first = bins.first().and_then(|bin| problem.bins.get(*bin));
            let room = first.into_iter().flat_map(|first| self.pricer.room_of(first));
            rhs.extend(room.map(|room| if room > 0 { there(bins) } else { 0.0 }));
        }
        rhs.extend(problem.stocks.iter().map(|stock| stock.max(0.0)));
        let mut program = Program::new(rhs);
        let mut of_bins: Vec<(u32, usize)> = Vec::new();
        for (class, bins) in classes.iter().enumerate() {
            let Some(first) = bins.first().and_then(|bin| problem.bins.get(*bin)) else { continue };
            let room: Vec<f64> = self.pricer.room_of(first).map(float).collect();
            let free = bins.iter().filter(|_| fixed.is_none());
            for (index, bin) in free.filter_map(|bin| Some((*bin, problem.bins.get(*bin)?))) {
                of_bins.push((u32::try_from(index).unwrap_or(u32::MAX), program.costs.len()));
                let rooms = (0..).zip(&room).filter(|(_, room)| **room > 0.0);
                let mut entries: Vec<(u32, f64)> = rooms.map(|(at, _)| (row_of_room(class, at), -1.0)).collect();
                let mut draws = bin.draws.clone();
                draws.sort_by_key(|(stock, _)| *stock);
                entries.extend(draws.iter().map(|&(stock, amount)| (row_of_stock(stock), amount)));
                program.push(bin.cost + bin.bias, entries);
            }
            let mut loads = first.loads.clone();
            loads.sort_unstable();
            for (at, index, item) in items().filter(|(_, index, _)| first.admits.contains(*index)) {
                let size = self.pricer.size_at(index);
                if size.iter().zip(&room).any(|(size, room)| float(*size) > *room) {
                    continue;
                }
                let shares = (0..).zip(size).zip(&room).filter(|((_, size), _)| **size > 0);
                let mut entries = vec![(row(at), 1.0)];
                entries.extend(shares.map(|((at, size), room)| (row_of_room(class, at), float(*size) / room)));
                entries.extend(loads.iter().filter(|_| item.load > 0.0).map(|&stock| (row_of_stock(stock), item.load)));
                program.push(0.0, entries);
            }
            for (at, _) in (0..).zip(&room).filter(|(_, room)| **room > 0.0) {
                program.push(0.0, [(row_of_room(class, at), 1.0)]);
            }
        }
        for (at, index, _) in items() {
            program.push(self.penalties.get(index).copied().unwrap_or(0.0), [(row(at), 1.0)]);
            program.push(0.0, [(row(at), -1.0)]);
        }
        for stock in 0..problem.stocks.len() {
            program.push(0.0, [(row_of_stock(stock), 1.0)]);
        }
        let Answer { prices, amounts, .. } = program.solve(tolerance, None)?;
        let (items, rest) = prices.split_at_checked(n_items)?;
        let (rooms, stocks) = rest.split_at_checked(n_classes * n_resources)?;
        let of_class = |(bins, values): (&&BinClass, &[f64])| {
            let first = bins.first().and_then(|bin| problem.bins.get(*bin));
            let room = first.map(|first| self.pricer.room_of(first).collect::<Vec<i64>>()).unwrap_or_default();
            let value = |(value, room): (&f64, i64)| if room > 0 { (-value).max(0.0) / float(room) } else { 0.0 };
            values.iter().zip(room).map(value).collect()
        };
        let uses = |(bin, column): (u32, usize)| (bin, amounts.get(column).copied().unwrap_or(0.0));
        Some(Compact {
            uses: of_bins.into_iter().map(uses).collect(),
            duals: DualPrices {
                items: items.iter().map(|price| price.max(0.0)).collect(),
                stocks: stocks.iter().map(|price| (-price).max(0.0)).collect(),
            },
            multipliers: classes.iter().zip(rooms.chunks(n_resources.max(1))).map(of_class).collect(),
        })
    }
}

// Multiplications of one factorisation.
fn work_of(n_items: usize, n_dense: usize) -> usize {
    n_items.saturating_add(n_dense).saturating_mul(n_dense).saturating_mul(n_dense)
}
