//! What is to be packed, and into what.

use std::borrow::Cow;

use fixedbitset::FixedBitSet;

use crate::numbers::floor_u32;

/// Alike items.
#[derive(Clone, Debug, PartialEq)]
pub struct Item {
    /// How many there are.
    pub count: u32,
    /// What one takes, by resource; not negative.
    pub size: Vec<i64>,
    /// How many a bin may hold; `u32::MAX` for no limit.
    pub at_most: u32,
    /// What one draws from each of the stocks that its bin names in [`BinType::loads`]; not negative.
    pub load: f64,
}

/// A type of bin, of which any number can be had as far as stocks allow.
#[derive(Clone, Debug, PartialEq)]
pub struct BinType {
    /// What one costs; not negative.
    pub cost: f64,
    /// What using one is disliked beyond its cost, to choose between equals; small against any cost.
    pub bias: f64,
    /// What it holds, by resource.
    pub room: Vec<i64>,
    /// The items that may be in it.
    pub admits: FixedBitSet,
    /// Stocks that one draws from, by index, and how much; not negative. Where the first is a count of instances, a
    /// bin that costs nothing is finite.
    pub draws: Vec<(usize, f64)>,
    /// Stocks that the items in one draw from, each by its load; none of `draws`.
    pub loads: Vec<usize>,
}

/// If any of `subjects` is in a bin, the bin holds at most so many of `counted`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// Items for whose sake it holds, ascending.
    pub subjects: Vec<u32>,
    /// Items that count, ascending.
    pub counted: Vec<u32>,
    /// How many of them.
    pub at_most: u32,
}

/// What is to be packed, and into what.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Problem {
    /// The items.
    pub items: Vec<Item>,
    /// The types of bins.
    pub bins: Vec<BinType>,
    /// What there is of each stock: instances of a finite supply, or room within a limit.
    pub stocks: Vec<f64>,
    /// What must hold within a bin.
    pub rules: Vec<Rule>,
    /// What bins must hold.
    pub needs: Vec<Need>,
}

/// Bins of some types hold at least one of some items.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Need {
    /// The types of bins, by index.
    pub bins: FixedBitSet,
    /// The items, by index.
    pub items: FixedBitSet,
}

impl Problem {
    /// How many resources sizes and rooms have.
    pub fn n_resources(&self) -> usize {
        let sizes = self.items.iter().map(|item| item.size.len());
        sizes.chain(self.bins.iter().map(|bin| bin.room.len())).max().unwrap_or(0)
    }

    /// What `plan` costs, biases aside.
    pub fn cost_of(&self, plan: &[(Pattern, u32)]) -> f64 {
        let cost = |pattern: &Pattern| self.bins.get(pattern.bin as usize).map_or(0.0, |bin| bin.cost);
        plan.iter().map(|(pattern, bins)| cost(pattern) * f64::from(*bins)).sum()
    }

    /// What a pattern draws from which stocks; nothing of 0.
    pub fn drawn_by(&self, pattern: &Pattern) -> impl Iterator<Item = (usize, f64)> {
        let bin = self.bins.get(pattern.bin as usize);
        let (draws, loads) = bin.map_or((&[][..], &[][..]), |bin| (&bin.draws, &bin.loads));
        let load = if loads.is_empty() { 0.0 } else { self.load_of(&pattern.items) };
        draws.iter().copied().chain(loads.iter().map(move |&stock| (stock, load))).filter(|(_, amount)| *amount > 0.0)
    }

    /// What a pattern pays for what it draws from stocks, at these dual prices.
    pub(crate) fn stock_cost_of(&self, pattern: &Pattern, stock_prices: &[f64]) -> f64 {
        self.drawn_by(pattern).map(|(stock, amount)| stock_prices.get(stock).copied().unwrap_or(0.0) * amount).sum()
    }

    /// Whether some bins must hold an item such as this.
    pub(crate) fn is_needed(&self, item: usize) -> bool {
        self.needs.iter().any(|need| need.items.contains(item))
    }

    fn load_of(&self, items: &[(u32, u32)]) -> f64 {
        let load =
            |&(item, each): &(u32, u32)| self.items.get(item as usize).map_or(0.0, |item| item.load * f64::from(each));
        items.iter().map(load).sum()
    }

    /// How many of each item one bin may hold as far as the stocks go that items in it draw from.
    pub(crate) fn available_for<'c>(&self, bin: usize, counts: &'c [u32], stocks: &[f64]) -> Cow<'c, [u32]> {
        let Some(left) = self.left_of_loads(bin, stocks) else { return Cow::Borrowed(counts) };
        let most = |item: &Item| if item.load > 0.0 { floor_u32(left / item.load) } else { u32::MAX };
        Cow::Owned(self.items.iter().zip(counts).map(|(item, count)| most(item).min(*count)).collect())
    }

    /// Dual prices of items in a bin: less what their load costs, at these dual prices of stocks.
    pub(crate) fn prices_in<'a>(&self, bin: usize, prices: &'a [f64], stock_prices: &[f64]) -> Cow<'a, [f64]> {
        let loads = self.bins.get(bin).map_or(&[][..], |bin| &bin.loads);
        let dearer: f64 = loads.iter().filter_map(|&stock| stock_prices.get(stock)).sum();
        if dearer <= 0.0 {
            return Cow::Borrowed(prices);
        }
        Cow::Owned(self.items.iter().zip(prices).map(|(item, price)| price - item.load * dearer).collect())
    }

    /// Cuts a pattern to what the stocks have left that its items draw from.
    pub(crate) fn cut_to_stocks(&self, bin: usize, items: &mut Vec<(u32, u32)>, stocks: &[f64]) {
        let Some(mut left) = self.left_of_loads(bin, stocks) else { return };
        items.retain_mut(|(item, each)| {
            let load = self.items.get(*item as usize).map_or(0.0, |item| item.load);
            if load > 0.0 {
                *each = floor_u32(left / load).min(*each);
                left -= load * f64::from(*each);
            }
            *each > 0
        });
    }

    // Of the stock among those of a bin's loads that has least; none where it has no loads.
    fn left_of_loads(&self, bin: usize, stocks: &[f64]) -> Option<f64> {
        let loads = &self.bins.get(bin)?.loads;
        loads.iter().filter_map(|&stock| stocks.get(stock).copied()).min_by(f64::total_cmp)
    }

    /// Whether a pattern holds what its bin must.
    pub(crate) fn has_needed(&self, pattern: &Pattern) -> bool {
        self.needs.iter().all(|need| {
            !need.bins.contains(pattern.bin as usize)
                || pattern.items.iter().any(|(item, _)| need.items.contains(*item as usize))
        })
    }

    /// Whether a bin may hold a pattern: room, admission, limits on each item, rules, and what it needs.
    pub fn allows(&self, pattern: &Pattern) -> bool {
        self.has_needed(pattern) && self.fits(pattern)
    }

    /// The same, what the bin needs aside.
    pub(crate) fn fits(&self, pattern: &Pattern) -> bool {
        let Some(bin) = self.bins.get(pattern.bin as usize) else { return false };
        let mut room = bin.room.clone();
        for &(index, each) in &pattern.items {
            let Some(item) = self.items.get(index as usize) else { return false };
            if !bin.admits.contains(index as usize) || each > item.at_most {
                return false;
            }
            for (at, need) in item.size.iter().enumerate().filter(|(_, need)| **need > 0) {
                let Some(room) = room.get_mut(at) else { return false };
                *room = room.saturating_sub(need.saturating_mul(i64::from(each)));
            }
        }
        let each = |item: u32| pattern.items.iter().find(|(known, _)| *known == item).map_or(0, |(_, each)| *each);
        room.iter().all(|room| *room >= 0) && self.rules.iter().all(|rule| rule.holds(each))
    }
}

impl Rule {
    /// Whether it holds in a bin with so many of each item.
    pub(crate) fn holds(&self, each: impl Fn(u32) -> u32) -> bool {
        !self.subjects.iter().any(|&subject| each(subject) > 0)
            || self.counted.iter().map(|&counted| u64::from(each(counted))).sum::<u64>() <= u64::from(self.at_most)
    }

    /// Whether it limits the number of its items whoever is in the bin.
    pub(crate) fn is_plain(&self) -> bool {
        self.subjects == self.counted
    }
}

/// A way to fill a bin.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Pattern {
    /// The type of bin.
    pub bin: u32,
    /// Items in it and how many of each, ascending, none with 0.
    pub items: Vec<(u32, u32)>,
}
