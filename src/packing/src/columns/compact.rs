//! The compact program: fractions of items in fractions of bins, without patterns. It is weaker than the program over patterns,
//! but it is solved at once, whatever the items are, and its dual prices are proved by its own multipliers of resources.

use super::Generator;
use crate::duals::DualPrices;
use crate::master::interior::Program;
use crate::numbers::float;
use crate::tuning::compact::{MOST_ROWS, MOST_WORK, TOLERANCE};

/// A solution of the compact program.
struct Compact {
    duals: DualPrices,
    /// By class of bins and resource: what room is worth, an amount of the resource for one unit.
    multipliers: Vec<Vec<f64>>,
}

impl Generator<'_> {
    /// Raises the bound to that of the compact program, where that is solved. What its multipliers say of bins is kept for the
    /// searches that follow.
    pub(crate) fn bound_compactly(&mut self) {
        let Some(Compact { duals, multipliers }) = self.compact() else { return };
        for (bins, multipliers) in self.classes.iter().zip(multipliers) {
            for bin in bins {
                self.pricer.set_multipliers(*bin, multipliers.clone());
            }
        }
        let problem = self.problem;
        let counts: Vec<u32> = problem.items.iter().map(|item| item.count).collect();
        let at_most = |bin: usize| {
            let prices = problem.prices_in(bin, &duals.items, &duals.stocks);
            self.pricer.at_most(bin, &prices, &problem.available_for(bin, &counts, &problem.stocks))
        };
        let at_most: Vec<f64> = (0..problem.bins.len()).map(at_most).collect();
        self.bound = self.bound.max(self.certify(&duals, &at_most));
    }

    // Solves it; `None` where it is too large, or no answer is found.
    fn compact(&self) -> Option<Compact> {
        let problem = self.problem;
        let n_resources = self.pricer.n_resources();
        let (n_items, n_classes) = (problem.items.len(), self.classes.len());
        // Rows of items have nothing to do with each other; all others have with all.
        let n_dense = n_classes.saturating_mul(n_resources).saturating_add(problem.stocks.len());
        let n_rows = n_items.saturating_add(n_dense);
        if n_rows > MOST_ROWS || n_rows * n_dense * n_dense > MOST_WORK {
            return None;
        }
        let row = |at: usize| u32::try_from(at).unwrap_or(u32::MAX);
        let row_of_room = |class: usize, resource: usize| row(n_items + class * n_resources + resource);
        let row_of_stock = |stock: usize| row(n_items + n_classes * n_resources + stock);
        let mut rhs: Vec<f64> = problem.items.iter().map(|item| f64::from(item.count)).collect();
        rhs.resize(n_items + n_classes * n_resources, 0.0);
        rhs.extend(problem.stocks.iter().map(|stock| stock.max(0.0)));
        let mut program = Program::new(rhs);
        for (class, bins) in self.classes.iter().enumerate() {
            let Some(first) = bins.first().and_then(|bin| problem.bins.get(*bin)) else { continue };
            let room: Vec<f64> = self.pricer.room_of(first).map(float).collect();
            for bin in bins.iter().filter_map(|bin| problem.bins.get(*bin)) {
                let rooms = (0..).zip(&room).filter(|(_, room)| **room > 0.0);
                let mut entries: Vec<(u32, f64)> = rooms.map(|(at, _)| (row_of_room(class, at), -1.0)).collect();
                let mut draws = bin.draws.clone();
                draws.sort_by_key(|(stock, _)| *stock);
                entries.extend(draws.iter().map(|&(stock, amount)| (row_of_stock(stock), amount)));
                program.push(bin.cost + bin.bias, entries);
            }
            let mut loads = first.loads.clone();
            loads.sort_unstable();
            for item in first.admits.ones() {
                let size = self.pricer.size_at(item);
                if size.iter().zip(&room).any(|(size, room)| float(*size) > *room) {
                    continue;
                }
                let Some(load) = problem.items.get(item).map(|item| item.load) else { continue };
                let shares = (0..).zip(size).zip(&room).filter(|((_, size), _)| **size > 0);
                let mut entries = vec![(row(item), 1.0)];
                entries.extend(shares.map(|((at, size), room)| (row_of_room(class, at), float(*size) / room)));
                entries.extend(loads.iter().filter(|_| load > 0.0).map(|&stock| (row_of_stock(stock), load)));
                program.push(0.0, entries);
            }
            for (at, _) in (0..).zip(&room).filter(|(_, room)| **room > 0.0) {
                program.push(0.0, [(row_of_room(class, at), 1.0)]);
            }
        }
        for (item, penalty) in self.penalties.iter().enumerate() {
            program.push(*penalty, [(row(item), 1.0)]);
            program.push(0.0, [(row(item), -1.0)]);
        }
        for stock in 0..problem.stocks.len() {
            program.push(0.0, [(row_of_stock(stock), 1.0)]);
        }
        let prices = program.solve(TOLERANCE, None)?.prices;
        let (items, rest) = prices.split_at_checked(n_items)?;
        let (rooms, stocks) = rest.split_at_checked(n_classes * n_resources)?;
        let of_class = |(bins, values): (&Vec<usize>, &[f64])| {
            let first = bins.first().and_then(|bin| problem.bins.get(*bin));
            let room = first.map(|first| self.pricer.room_of(first).collect::<Vec<i64>>()).unwrap_or_default();
            let value = |(value, room): (&f64, i64)| if room > 0 { (-value).max(0.0) / float(room) } else { 0.0 };
            values.iter().zip(room).map(value).collect()
        };
        Some(Compact {
            duals: DualPrices {
                items: items.iter().map(|price| price.max(0.0)).collect(),
                stocks: stocks.iter().map(|price| (-price).max(0.0)).collect(),
            },
            multipliers: self.classes.iter().zip(rooms.chunks(n_resources.max(1))).map(of_class).collect(),
        })
    }
}
