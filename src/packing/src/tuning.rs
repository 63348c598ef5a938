//! Every constant of the search: its unit, and what a larger one does. What a caller may choose is in
//! [`Budget`](crate::Budget); "relative" means a share of the amount that is compared with.

/// Column generation: how exactly the master is solved, and when a round tries something else.
pub(crate) mod generation {
    /// Tolerance of the first master, relative. Dual prices from the middle of those that are nearly as good make better
    /// columns than extreme ones: a larger one gives more central prices, and more rounds.
    pub(crate) const FIRST_TOLERANCE: f64 = 1e-2;
    /// Tolerance below which rounds do not go, relative.
    pub(crate) const LEAST_TOLERANCE: f64 = 1e-6;
    /// Tolerance of the last master, whose amounts become bins, relative.
    pub(crate) const LAST_TOLERANCE: f64 = 1e-8;
    /// Tolerance of the next master as a share of what the best new column gains. Larger: more central prices.
    pub(crate) const TOLERANCE_PER_GAIN: f64 = 0.02;
    /// The least tolerance after a proof, as a share of the gap that may stay open.
    pub(crate) const TOLERANCE_PER_GAP: f64 = 0.2;
    /// Tolerance after pricing was deepened or proved, relative.
    pub(crate) const TOLERANCE_AGAIN: f64 = 1e-3;
    /// A reduced cost nearer to 0 than this, relative to the bin, is no gain: the next round looks more exactly.
    pub(crate) const LEAST_GAIN: f64 = 1e-5;
    /// Where the best column gains less than this, relative, pricing may take [`DEEPER`] times as many steps. Larger:
    /// deeper searches sooner.
    pub(crate) const SMALL_GAIN: f64 = 0.1;
    /// Factor of pricing steps from round to round.
    pub(crate) const DEEPER: u32 = 2;
    /// Columns that a round adds beyond one for each item.
    pub(crate) const MORE_COLUMNS: usize = 50;
    /// Patterns of a bin beside its best that become columns.
    pub(crate) const OTHER_PATTERNS: usize = 2;
    /// Patterns that a round looks for at least. Where types of bins are few, what the best pattern leaves is filled again,
    /// and again, which finds columns that can be used beside each other.
    pub(crate) const LEAST_PATTERNS: usize = 64;
    /// Items that make up one unit of `Budget::deep_steps`, as a step takes longer the more items there are.
    pub(crate) const ITEMS_PER_STEP: usize = 100;
    /// Every so many rounds, from the first on, dual prices are kept for greedy packing: early ones, which follow from
    /// sizes, are often better at it than the last ones.
    pub(crate) const SAVED_EVERY: u32 = 4;
    /// Columns whose reduced cost is more than this, relative to their cost, are forgotten where there are many.
    pub(crate) const DEAR: f64 = 0.1;
    /// Columns that a master holds before dear ones are forgotten: so many, and so many for each row.
    pub(crate) const MANY_COLUMNS: usize = 1_000;
    pub(crate) const COLUMNS_PER_ROW: usize = 12;
    /// Rows of a master up to which the dense factorisation is faster than the sparse one.
    pub(crate) const DENSE_ROWS: usize = 900;
    /// Rounds with item groups that finer groups follow, at most.
    pub(crate) const COARSE_ROUNDS: u32 = 30;
    /// Types of bins that each item is tried alone in before the first round.
    pub(crate) const SEEDS_PER_ITEM: usize = 2;
}

/// Proofs: pricing that is exact, so that the dual bound comes close to the master's value.
pub(crate) mod proof {
    /// Relaxations times their columns that the exact searches of one round may solve together.
    pub(crate) const ROUND_WORK: u64 = 1_500_000;
    /// The same in a proof.
    pub(crate) const PROOF_WORK: u64 = 100_000_000;
    /// Relaxations that each exact search may solve, whatever the others leave.
    pub(crate) const LEAST_NODES: u32 = 300;
    /// Steps of the quick searches in a proof, of all types of bins together. Where few items fill a bin, they see all
    /// patterns sooner than relaxations prove anything.
    pub(crate) const STEPS: u32 = 400_000;
    /// It is time for a proof where this many rounds lower the master's value by less than [`SLOW`], relative.
    pub(crate) const PATIENCE: usize = 4;
    pub(crate) const SLOW: f64 = 3e-4;
}

/// The compact program, whose items and bins are both fractions.
pub(crate) mod compact {
    /// Rows at most, and multiplications of one factorisation. Larger: bounds of larger problems, each taking longer.
    pub(crate) const MOST_ROWS: usize = 3_000;
    pub(crate) const MOST_WORK: usize = 400_000_000;
    /// It is solved where column generation leaves more than this open between its bound and the master's value, relative.
    pub(crate) const LOOSE: f64 = 0.01;
    /// How exactly it is solved, relative.
    pub(crate) const TOLERANCE: f64 = 1e-7;
    /// Bins of each type beside those that are there, where their number is given. Larger: programs that are solved more easily.
    pub(crate) const TRACE: f64 = 1e-3;
    /// The same, and multiplications of one factorisation, where it is solved for its prices alone, of the classes of bins that
    /// promise most. Larger: prices that are nearer to those of all classes, and take longer.
    pub(crate) const PRICES_TOLERANCE: f64 = 1e-4;
    pub(crate) const PRICES_WORK: usize = 100_000_000;
    /// Rows at most for that, and items that stand for all where these are too many. Larger: prices nearer to those of all items.
    pub(crate) const PRICES_ROWS: usize = 1_000;
    pub(crate) const PRICES_ITEMS: usize = 500;
}

/// Bounds by whole bins.
pub(crate) mod whole_bins {
    /// Types of bins at most. Larger: bounds of more problems, each taking longer.
    pub(crate) const MOST_TYPES: usize = 256;
    /// How far a bound may be raised at once, as a multiple.
    pub(crate) const CEILING: f64 = 1.05;
    /// Programs of fractions that choose inequalities, at most, and inequalities above which those that say nothing go.
    pub(crate) const PASSES: usize = 40;
    pub(crate) const ACTIVE: usize = 12;
    /// By how much an inequality must be broken to become active, relative.
    pub(crate) const BROKEN: f64 = 1e-6;
    /// Programs of whole numbers, and relaxations that each may solve. Larger: closer bounds that take longer.
    pub(crate) const PROGRAMS: usize = 40;
    pub(crate) const NODES: u32 = 20_000;
    /// What all bins hold, scaled to whole numbers.
    pub(crate) const SCALE: f64 = 1e12;
}

/// Which bins to empty.
pub(crate) mod consolidation {
    /// Rounds for each bin that may be emptied, and of all. Larger: cheaper ends, and more work.
    pub(crate) const ROUNDS_PER_BIN: usize = 40;
    pub(crate) const MOST_ROUNDS: usize = 4_000;
    /// Bins that a round puts back at most.
    pub(crate) const MOST_BACK: usize = 3;
    /// Bins that a round tries to empty at most.
    pub(crate) const MOST_TRIES: usize = 128;
    /// How much worse than before a round may be at the beginning, as a share of what a bin saves on average.
    pub(crate) const WARMTH: f64 = 0.25;
    /// What a round costs for each bin beside placing items, in bins that are looked at.
    pub(crate) const COPY: u64 = 8;
    /// What it costs that an item comes to a bin or leaves it, in bins that are looked at.
    pub(crate) const CHANGE: u64 = 4;
    /// Shelves that bins are sorted on by their room, no more than a set of them has bits, and amounts of a resource at which
    /// another begins. Larger: fewer bins are looked at, and more shelves.
    pub(crate) const MOST_SHELVES: usize = 128;
    pub(crate) const MOST_LEVELS: usize = 7;
    /// Items above which it is not kept which shelves may have room for each in place of each other.
    pub(crate) const MOST_PAIRED: usize = 1_000;
    /// How exactly the linear program of the bound is solved, relative and in dollars.
    pub(crate) const BOUND_TOLERANCE: f64 = 1e-7;
    /// Bins times items above which it is not solved.
    pub(crate) const MOST_CELLS: usize = 1_000_000;
    /// By how much a bound is lowered for errors of rounding, relative.
    pub(crate) const ROUNDED: f64 = 1e-9;

    /// Better bounds by whole patterns.
    pub(crate) mod patterns {
        /// Sorts of bins above which it is not tried: of many bins, parts make little difference, and it would take long.
        pub(crate) const MOST_SORTS: usize = 500;
        /// Programs that are solved at most. Larger: closer bounds, and more work.
        pub(crate) const ROUNDS: usize = 32;
        /// Steps of a knapsack's quick search.
        pub(crate) const STEPS: u32 = 2_000;
        /// Steps and relaxations of one that is searched to the end, and how many of these there are for each set of prices.
        pub(crate) const EXACT_STEPS: u32 = 20_000;
        pub(crate) const NODES: u32 = 2_000;
        pub(crate) const MOST_EXACT: usize = 12;
        /// Patterns that are kept of a sort of bins, and those of one knapsack beside the best.
        pub(crate) const MOST_PATTERNS: usize = 300;
        pub(crate) const MOST_OTHERS: usize = 4;
        /// A pattern that is worth less than the best by this share says nothing; after so many rounds it is forgotten.
        pub(crate) const SLACK: f64 = 0.005;
        pub(crate) const IDLE_ROUNDS: u32 = 8;
        /// How far prices may go in a round, as a share of what they are: at first, at most and at least.
        pub(crate) const FIRST_BOX: f64 = 0.05;
        pub(crate) const BOX: f64 = 0.5;
        pub(crate) const LEAST_BOX: f64 = 0.01;
        /// Prices are good where the program hopes for no more than this beside what is certain, relative.
        pub(crate) const CLOSE: f64 = 2e-4;
        /// How exactly its programs are solved.
        pub(crate) const LP_TOLERANCE: f64 = 1e-6;
    }
}

/// Groups of items that share dual prices.
pub(crate) mod groups {
    /// Items above which groups stand for them. Larger: exacter prices, and masters that take longer.
    pub(crate) const MANY_ITEMS: usize = 600;
    /// With more than this of each item on average, a master makes whole bins of most of them only if it knows each.
    pub(crate) const MANY_OF_EACH: u64 = 64;
    /// Dual prices that all groups of the first stage have together, about.
    pub(crate) const FIRST_PRICES: usize = 240;
    /// Factor of the number of prices from stage to stage.
    pub(crate) const FINER: usize = 3;
    /// Below [`MANY_ITEMS`], groups still stand for items that have so many times as many dual prices.
    pub(crate) const FEWER: usize = 2;
}

/// Pricing: the best pattern of one bin.
pub(crate) mod pricing {
    /// Rules that are taken for resources.
    pub(crate) const RULES_AS_RESOURCES: usize = 8;
    /// Rules that an exact search branches on.
    pub(crate) const RULES_TO_BRANCH_ON: usize = 16;
}

/// The exact search of a bin: branch and bound with rounding cuts.
pub(crate) mod exact {
    /// Rounds of cuts before the first branch, cuts that a round adds, and cuts that are kept.
    pub(crate) const ROUNDS: usize = 12;
    pub(crate) const CUTS_A_ROUND: usize = 3;
    pub(crate) const CUTS: usize = 12;
    /// Right-hand side of a row that limits nothing, in rooms of the bin.
    pub(crate) const UNLIMITED: f64 = 1e6;
    /// Steps of rounding that are tried: an item's size divided by up to this, and the room divided by up to this.
    pub(crate) const PARTS: i64 = 3;
    pub(crate) const SHARES: i64 = 12;
    /// How much a cut must be broken by, relative.
    pub(crate) const BROKEN: f64 = 1e-3;
    /// Room of the resource that stands for several.
    pub(crate) const AGGREGATE_ROOM: f64 = 1e9;
    /// How far a basic variable may be outside its bounds, in rooms of the bin.
    pub(crate) const FEASIBLE: f64 = 1e-9;
    /// Pivots before a relaxation is given up.
    pub(crate) const PIVOTS: u32 = 200;
}

/// Greedy packing by dual prices.
pub(crate) mod greedy {
    /// A pattern is used where no other can have more dual value for its cost by this, relative. Larger: fewer patterns
    /// are looked at, and poorer ones are used.
    pub(crate) const NEARLY_BEST: f64 = 2e-3;
    /// Each item counts at this share of the least dual price above 0 at least: at 0 it would never be packed.
    pub(crate) const LEAST_PRICE: f64 = 0.01;
    /// Items that are looked at together. Of more, a random part is as good to fill bins from, and quicker. More come in
    /// when half of them are packed.
    pub(crate) const WINDOW: usize = 500;
}

/// Dives, which fix columns of the master.
pub(crate) mod dive {
    /// Where groups stand for items, a pattern whose missing items others of their groups replace is used if its dual
    /// value is this share of its cost.
    pub(crate) const LEAST_VALUE: f64 = 0.985;
}

/// Repairs, which empty some bins and pack them anew.
pub(crate) mod repair {
    /// Bins that are emptied at once: so many, or this share of all where that is more.
    pub(crate) const BINS: u32 = 24;
    pub(crate) const SHARE: f64 = 0.1;
    /// Items in these bins at most, where there are so many in all that groups would stand for them.
    pub(crate) const ITEMS: usize = 200;
    /// Columns of the root's master are used again where their dual value, cut to what is to be packed, is this share of
    /// their cost.
    pub(crate) const USEFUL: f64 = 0.8;
    /// Masters before the first bin is fixed.
    pub(crate) const ROUNDS: u32 = 12;
    /// A plan is cheaper if it is by more than this, relative.
    pub(crate) const CHEAPER: f64 = 1e-7;
    /// Repairs that fail one after the other before they end.
    pub(crate) const FAILURES: u32 = 8;
}

/// Ruin and recreate.
pub(crate) mod ruin {
    /// Bins that a plan may have.
    pub(crate) const MOST_BINS: u64 = 20_000;
    /// Bins that are emptied at once, at most.
    pub(crate) const BINS: usize = 6;
    /// Types of bins that are filled anew.
    pub(crate) const TYPES: usize = 16;
    /// By how much dual prices are changed by chance, at most, relative.
    pub(crate) const NOISE: f64 = 0.4;
    /// What each resource of a bin is worth beyond its multipliers, as a share of the bin's cost.
    pub(crate) const EVEN: f64 = 0.02;
    /// By how much dearer a plan may become in a turn at first and in the end, in bins of average cost.
    pub(crate) const WARM: f64 = 0.01;
    pub(crate) const COLD: f64 = 0.0005;
    /// Items from which bins of a new plan are filled.
    pub(crate) const ITEMS: usize = 500;
}

/// Branch and bound over the columns of a repair.
pub(crate) mod restricted {
    /// Items and columns of a program at most.
    pub(crate) const ITEMS: usize = 400;
    pub(crate) const COLUMNS: usize = 2_000;
    /// What may stay open between its answer and its bound, relative.
    pub(crate) const GAP: f64 = 1e-4;
}

/// The interior point method.
pub(crate) mod interior {
    /// Amount of a new column to begin with.
    pub(crate) const NEW_AMOUNT: f64 = 0.1;
    /// Gap between cost and earnings, relative, of the point that the next master begins at: well inside, and yet near.
    pub(crate) const WARM_GAP: f64 = 0.3;
    /// Iterations at most, from scratch and from where the last master was.
    pub(crate) const ITERATIONS: usize = 100;
    pub(crate) const WARM_ITERATIONS: usize = 40;
    /// Share of a step to where an amount becomes negative.
    pub(crate) const STEP: f64 = 0.995;
    /// Corrections of a step at most (Gondzio, 1996).
    pub(crate) const CORRECTIONS: usize = 4;
    /// How much farther a correction is to let a step go, as a share of the whole step, and the part of that which makes
    /// the next correction worth its while.
    pub(crate) const FARTHER: f64 = 0.3;
    pub(crate) const WORTHWHILE: f64 = 0.1;
    /// Complementary products stay between the centre's times this and divided by this.
    pub(crate) const CENTRALITY: f64 = 0.1;
    /// Rows that are factored together, and rows whose products are summed at once.
    pub(crate) const PANEL: usize = 64;
    pub(crate) const BLOCK: usize = 4;
}

/// Small problems solved whole: how much is tried at most. Larger: more problems are solved, each taking longer. The steps of
/// the search itself are in `Budget::whole`.
pub(crate) mod whole {
    /// Items in all.
    pub(crate) const MOST_ITEMS: u64 = 200;
    /// Ways in which items can be left.
    pub(crate) const MOST_LEFTS: usize = 8192;
    /// Patterns that are tried in bins, and how many steps each counts.
    pub(crate) const MOST_PATTERNS: usize = 300_000;
    pub(crate) const STEPS_PER_PATTERN: u64 = 2;
    /// Stocks that count one step more, each time that what is left of them is looked up.
    pub(crate) const STOCKS_PER_STEP: u64 = 8;
    /// By how much more than there is may be drawn from a stock, relative: errors of sums make no packing impossible.
    pub(crate) const STOCK_TOLERANCE: f64 = 1e-9;
    /// Costs that differ by no more than this, relative, are equal.
    pub(crate) const TIED: f64 = 1e-12;
    /// By how much, relative, the search's plan may cost more and still be as cheap: its sum has errors of its own.
    pub(crate) const SAME: f64 = 1e-9;
}
