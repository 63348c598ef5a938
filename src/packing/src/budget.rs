//! How much work a search may do.

/// How much work a search may do: counted, never timed, so that the same input gives the same answer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Budget {
    /// Columns of all masters at most: before the first bin is fixed, and again after it.
    pub work: u64,
    /// Masters solved before the first bin is fixed.
    pub rounds: u32,
    /// Masters solved each time that bins were fixed.
    pub dive_rounds: u32,
    /// Types of bins that a round of column generation prices, beside proofs and where it finds nothing else; at least 2.
    /// With fewer a round is quicker, and there are more of them.
    pub types: usize,
    /// Sets of dual prices, of the last round and of rounds before, that bins are filled by greedily; the cheapest of these
    /// plans, and of the one that dives make, is kept. Quick, and good where there are few of each item.
    pub fills: u32,
    /// Whether what dives leave, and what repairs pack, has each bin filled by the best pattern of all types; else one that
    /// is nearly the best will do, which is quicker where types are many.
    pub exact_fills: bool,
    /// How often bins are fixed.
    pub dives: u32,
    /// Share of the fractional bins that are fixed at once, 0 to 1.
    pub share: f64,
    /// How often some bins of the plan are packed anew.
    pub repairs: u32,
    /// Work in which, after the repairs, a few bins at a time are emptied and filled anew quickly: amounts of resources that are
    /// looked at, some 4 nanoseconds each; 0 for none. Only where the compact program, whose dual prices it goes by, is small.
    pub ruins: u64,
    /// Items of the compact program at most: of more, some stand for all, where it has room for all types of bins.
    pub guide_items: usize,
    /// Nodes of branch and bound over the columns of a repair.
    pub branches: u32,
    /// Steps of the quick search for the best pattern of a bin.
    pub steps: u32,
    /// The same where columns come to gain little, of all types of bins together; the fewer the more items there are.
    pub deep_steps: u32,
    /// Linear relaxations that the exact search of a bin may solve where the quick one was cut short; 0 for none.
    pub nodes: u32,
    /// The same where all that finds nothing any more, which proves the bound.
    pub proof_nodes: u32,
    /// How often that is done.
    pub proofs: u32,
    /// Where rounds come to gain little, a proof is tried only if the bound is this share of the master's value already. Far from
    /// it, proofs take long and say little.
    pub provable: f64,
    /// Items whose dual prices are found one by one; where there are more, and few of each, groups share so many.
    pub prices: usize,
    /// What may stay open between the bound and the master's value, relative.
    pub gap: f64,
    /// Steps in which a small problem may be solved whole, by trying all packings; 0 for none.
    pub whole: u64,
}

impl Default for Budget {
    fn default() -> Self {
        Budget {
            work: 150_000,
            rounds: 100,
            dive_rounds: 2,
            types: usize::MAX,
            fills: 0,
            exact_fills: true,
            dives: 60,
            share: 0.1,
            repairs: 0,
            ruins: 0,
            guide_items: usize::MAX,
            branches: 0,
            steps: 200,
            deep_steps: 1_000_000,
            nodes: 300,
            proof_nodes: 20_000,
            proofs: 20,
            provable: 0.0,
            prices: 0,
            gap: 1e-3,
            whole: 0,
        }
    }
}

/// Amounts of resources that ruin and recreate looks at: half a second, and some four seconds.
const RUINS: u64 = 100_000_000;
const LONG_RUINS: u64 = 1_000_000_000;

/// Proofs that came to something began at seven tenths of the master's value, and others at six at most.
const PROVABLE: f64 = 0.65;

impl Budget {
    /// For items of which there are few of each, a second or two: bins are filled greedily by dual prices.
    #[must_use]
    pub fn quick_for_different_items() -> Self {
        Budget {
            work: 80_000,
            rounds: 6,
            types: 64,
            fills: 2,
            exact_fills: false,
            dives: 0,
            repairs: 4,
            ruins: RUINS,
            guide_items: 600,
            steps: 40,
            deep_steps: 0,
            nodes: 0,
            proofs: 0,
            ..Budget::default()
        }
    }

    /// The same within some ten seconds up to some hundreds of items: dives, too, and more and better dual prices.
    #[must_use]
    pub fn long_for_different_items() -> Self {
        Budget {
            work: 200_000,
            rounds: 100,
            types: 96,
            fills: 4,
            dives: 60,
            dive_rounds: 2,
            share: 0.08,
            repairs: 10,
            ruins: LONG_RUINS,
            steps: 60,
            deep_steps: 4_000_000,
            nodes: 0,
            proofs: 8,
            proof_nodes: 5_000,
            prices: 1_500,
            ..Budget::default()
        }
    }

    /// The same for a bound: no plan is made.
    #[must_use]
    pub fn bound_of_different_items() -> Self {
        Budget { rounds: 200, fills: 0, ruins: 0, provable: PROVABLE, ..Self::long_for_different_items() }
    }
}
