//! Bins that stand, what is in them, and what emptying one costs; and what comes of it.

use fixedbitset::FixedBitSet;

/// Bins, some of which may be emptied.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Consolidation {
    /// Sorts of items.
    pub items: Vec<Movable>,
    /// The bins.
    pub bins: Vec<ExistingNode>,
    /// What a unit of disruption costs; not negative.
    pub price: f64,
    /// How many bins of each pool may be emptied.
    pub most: Vec<u32>,
    /// How many bins may be used of those that are taken from each stock.
    pub stocks: Vec<u32>,
}

/// Alike items.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Movable {
    /// What one takes, by resource; not negative.
    pub size: Vec<i64>,
    /// The bins that may take one.
    pub admitted_by: FixedBitSet,
    /// How many a bin may hold; `u32::MAX` for no limit.
    pub at_most: u32,
    /// What one costs in new bins, of which there are any number, shared with others there; `None` where none takes one.
    pub anew: Option<f64>,
}

/// A bin that is there.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ExistingNode {
    /// What it costs while it is there; not negative.
    pub cost: f64,
    /// What emptying it disrupts; not negative.
    pub disruption: f64,
    /// The items in it and how many of each, none with 0.
    pub holds: Vec<(u32, u32)>,
    /// What it has room for, by resource, beside what it holds.
    pub free: Vec<i64>,
    /// The pool that it counts in, by index into [`Consolidation::most`]; `None` where it stays.
    pub pool: Option<u32>,
    /// The supply of new bins to which emptying it adds one; `None` where it adds to none.
    pub supply: Option<u32>,
    /// Where it is not there yet: the stock that it is taken from once something comes to it, by index into
    /// [`Consolidation::stocks`].
    pub taken_from: Option<u32>,
}

impl Consolidation {
    /// What emptying a bin saves.
    pub fn saving(&self, bin: &ExistingNode) -> f64 {
        bin.cost - self.price * bin.disruption
    }

    pub(super) fn size(&self, item: u32) -> &[i64] {
        self.items.get(item as usize).map_or(&[], |item| &item.size)
    }

    /// What one of an item costs in new bins.
    pub(super) fn anew(&self, item: u32) -> Option<f64> {
        self.items.get(item as usize).and_then(|item| item.anew)
    }

    pub(super) fn holds(&self, bin: usize) -> &[(u32, u32)] {
        self.bins.get(bin).map_or(&[], |bin| &bin.holds)
    }
}

impl ExistingNode {
    /// How many of an item it holds.
    pub(super) fn count_of(&self, item: u32) -> u32 {
        self.holds.iter().find(|(held, _)| *held == item).map_or(0, |(_, count)| *count)
    }
}

/// Which bins are emptied, and where what they held goes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Consolidated {
    /// The bins, those first that cost most for a unit of disruption.
    pub emptied: Vec<usize>,
    /// By bin that stays: the items that come to it, and how many.
    pub moved: Vec<Vec<(u32, u32)>>,
    /// By item: how many come to new bins.
    pub anew: Vec<u32>,
    /// What that saves, less the price of what it disrupts and of what comes to new bins.
    pub saved: f64,
    /// Why the search stopped.
    pub stop: Stop,
}

/// Why a search stopped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Stop {
    /// No bin may be emptied, or every bin that may be is.
    #[default]
    Nothing,
    /// All rounds are over.
    Rounds,
    /// The work is spent.
    Work,
}
