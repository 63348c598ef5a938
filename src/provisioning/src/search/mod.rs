//! The search above first fit: what a packing put on new nodes is packed anew, by column generation over all types of
//! nodes at once. Who goes to which domain and to pools of which weight stays as it was, so that what held still holds;
//! the plan is kept if it is better, so first fit is the floor.

mod carry_out;
mod offers;
mod problem;
mod rows;

use berth_packing::Budget;

pub(crate) use offers::Offers;
pub(crate) use problem::{Purpose, build};
pub(crate) use rows::{Member, Row};

use crate::options::Effort;
use crate::planner::Planner;

/// Up to so many rows a search fixes columns of the linear program, whatever the rows hold.
const FEW_ROWS: usize = 64;

/// Pods that a row must stand for on average, where there are more rows, for [`Effort::Default`] to fix columns: with
/// fewer, little is left of a plan when its fractions are rounded off, and bins filled by dual prices are better.
const PODS_PER_ROW: u64 = 8;

/// With so many rows each linear program takes long, and the more pods, the more is to be gained.
const MANY_ROWS: usize = 512;
const PODS_PER_MANY_ROWS: u64 = 200;

impl Planner<'_> {
    /// Packs anew what is on new nodes, and `with_left` what has no place, too. The state is changed even if the plan is
    /// worse, or is none at all: then false is returned, and the caller rolls back.
    pub(crate) fn search(&mut self, effort: Effort, with_left: bool) -> bool {
        let mut rows = rows::Rows::gather(self);
        if with_left {
            rows.add_left(self);
            if rows.waiting.is_empty() {
                return false;
            }
        }
        if rows.list.is_empty() {
            return false;
        }
        let total = self.share_of_planned();
        self.set_share_total(total);
        let withdrawn = self.withdraw(&rows.bins);
        let offers = Offers::new(self, &rows.list);
        let (problem, _) = build(self, &rows.list, &offers, Purpose::Plans);
        let start = problem::start(&problem, &rows, &offers, &withdrawn);
        let answer = berth_packing::search(&problem, &start, budget(effort, Workload::of(&rows.list)));
        self.put_plan_in(&rows, &offers, &answer.plan)
    }
}

/// With so many rows, and few pods of each, prices that follow from sizes have to do for [`Effort::Default`].
const VERY_MANY_ROWS: usize = 3_000;

/// What decides how a workload is searched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Workload {
    /// Few rows, or many pods of each.
    Alike,
    /// Many rows, with many pods of each.
    Large,
    /// Many rows, with few pods of each.
    Diverse,
    /// So many of them that each linear program takes long.
    VeryDiverse,
}

impl Workload {
    fn of(rows: &[Row]) -> Self {
        let diverse = if rows.len() > VERY_MANY_ROWS { Workload::VeryDiverse } else { Workload::Diverse };
        let pods: u64 = rows.iter().map(|row| u64::from(row.count())).sum();
        let has_each = |per_row: u64| rows.len() as u64 * per_row <= pods;
        if rows.len() > MANY_ROWS {
            if has_each(PODS_PER_MANY_ROWS) { Workload::Large } else { diverse }
        } else if rows.len() <= FEW_ROWS || has_each(PODS_PER_ROW) {
            Workload::Alike
        } else {
            Workload::Diverse
        }
    }
}

fn budget(effort: Effort, workload: Workload) -> Budget {
    match (effort, workload) {
        (Effort::Low | Effort::Default, Workload::Diverse) => Budget {
            work: 80_000,
            rounds: 6,
            types: 64,
            fills: 2,
            dives: 0,
            repairs: 4,
            steps: 40,
            deep_steps: 0,
            nodes: 0,
            proofs: 0,
            ..Budget::default()
        },
        (Effort::Low | Effort::Default, Workload::VeryDiverse) => {
            Budget { rounds: 1, fills: 1, repairs: 0, ..budget(effort, Workload::Diverse) }
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
