//! How much work a search may do, by effort and by what is to be packed.

use berth_packing::Budget;

use super::Row;
use crate::options::Effort;

/// Up to so many rows a search fixes columns of the linear program, whatever the rows hold.
const FEW_ROWS: usize = 64;

/// Pods that a row must stand for on average, where there are more rows, for [`Effort::Default`] to fix columns: with
/// fewer, little is left of a plan when its fractions are rounded off, and bins filled by dual prices are better.
const PODS_PER_ROW: u64 = 8;

/// With so many rows each linear program takes long, and the more pods, the more is to be gained.
const MANY_ROWS: usize = 512;
const PODS_PER_MANY_ROWS: u64 = 200;

/// With so many pods of each of many rows, dives and exact searches of bins still gain something at [`Effort::High`].
const PODS_PER_MIXED_ROW: u64 = 6;

/// With so many rows, and few pods of each, prices that follow from sizes have to do for [`Effort::Default`].
const VERY_MANY_ROWS: usize = 3_000;

/// What decides how a workload is searched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Workload {
    /// Few rows, or many pods of each.
    Alike,
    /// Many rows, with many pods of each.
    Large,
    /// Rows with few pods of each.
    Diverse,
    /// Many rows, with some pods of each.
    ManyMixed,
    /// Many rows, with few pods of each.
    ManyDiverse,
    /// So many of them that each linear program takes long.
    VeryManyDiverse,
}

impl Workload {
    /// Whether most pods differ from most others.
    pub(crate) fn is_diverse(self) -> bool {
        matches!(self, Workload::Diverse | Workload::ManyDiverse | Workload::VeryManyDiverse)
    }

    pub(crate) fn of(rows: &[Row]) -> Self {
        let pods: u64 = rows.iter().map(|row| u64::from(row.count())).sum();
        let has_each = |per_row: u64| rows.len() as u64 * per_row <= pods;
        if rows.len() > VERY_MANY_ROWS && !has_each(PODS_PER_MANY_ROWS) {
            Workload::VeryManyDiverse
        } else if rows.len() > MANY_ROWS {
            if has_each(PODS_PER_MANY_ROWS) {
                Workload::Large
            } else if has_each(PODS_PER_MIXED_ROW) {
                Workload::ManyMixed
            } else {
                Workload::ManyDiverse
            }
        } else if rows.len() <= FEW_ROWS || has_each(PODS_PER_ROW) {
            Workload::Alike
        } else {
            Workload::Diverse
        }
    }
}

/// Steps in which a small problem may be solved whole: some hundredths of a second, and up to a second.
const WHOLE: u64 = 300_000;
const WHOLE_AT_HIGH: u64 = 6_000_000;

/// How much work the search for a plan may do.
pub(crate) fn budget(effort: Effort, workload: Workload) -> Budget {
    let whole = if effort == Effort::High { WHOLE_AT_HIGH } else { WHOLE };
    Budget { whole, ..beyond_small(effort, workload) }
}

// The same where a problem is not solved whole.
fn beyond_small(effort: Effort, workload: Workload) -> Budget {
    match (effort, workload) {
        (Effort::Low | Effort::Default, Workload::Diverse | Workload::ManyMixed | Workload::ManyDiverse) => {
            Budget::quick_for_different_items()
        }
        (Effort::Low | Effort::Default, Workload::VeryManyDiverse) => {
            Budget { rounds: 1, fills: 1, repairs: 0, ..Budget::quick_for_different_items() }
        }
        (Effort::Low | Effort::Default, Workload::Large) => Budget {
            work: 80_000,
            rounds: 25,
            dive_rounds: 0,
            dives: 6,
            share: 0.5,
            steps: 20,
            deep_steps: 0,
            nodes: 100,
            proofs: 0,
            ..Budget::default()
        },
        (Effort::Low | Effort::Default, Workload::Alike) => Budget {
            work: 150_000,
            rounds: 60,
            dive_rounds: 1,
            dives: 10,
            share: 0.3,
            repairs: 2,
            steps: 40,
            deep_steps: 300_000,
            nodes: 30,
            proofs: 0,
            ..Budget::default()
        },
        (Effort::High, Workload::ManyDiverse | Workload::VeryManyDiverse) => {
            Budget { fills: 8, dives: 0, repairs: 30, ..Budget::long_for_different_items() }
        }
        (Effort::High, Workload::Diverse) => Budget::long_for_different_items(),
        (Effort::High, _) => Budget {
            work: 400_000,
            rounds: 200,
            dive_rounds: 2,
            nodes: 200,
            steps: 60,
            deep_steps: 4_000_000,
            proofs: 8,
            proof_nodes: 5_000,
            dives: 20,
            share: 0.2,
            repairs: 30,
            branches: 50,
            prices: 1_500,
            ..Budget::default()
        },
    }
}

/// How much work the search for a bound may do.
pub(crate) fn bound_budget(workload: Workload) -> Budget {
    let budget = if workload.is_diverse() {
        Budget::bound_of_different_items()
    } else {
        Budget {
            work: 800_000,
            rounds: 200,
            steps: 60,
            deep_steps: 10_000_000,
            nodes: 300,
            proofs: 20,
            proof_nodes: 300_000,
            prices: 1_500,
            ..Budget::default()
        }
    };
    Budget { whole: WHOLE_AT_HIGH, ..budget }
}
