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

/// With few rows a search is worth its while whatever they hold.
const FEW_ROWS: usize = 64;

/// Pods that a row must stand for on average, where there are many rows, for [`Effort::Default`] to search: with fewer,
/// a plan made of fractions of patterns has little left when the fractions are rounded off.
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
        let pods: u64 = rows.list.iter().map(|row| u64::from(row.count())).sum();
        let is_small = rows.list.len() <= FEW_ROWS;
        let per_row = if rows.list.len() > MANY_ROWS { PODS_PER_MANY_ROWS } else { PODS_PER_ROW };
        if rows.list.is_empty() || (effort == Effort::Default && !is_small && (rows.list.len() as u64) * per_row > pods)
        {
            return false;
        }
        let total = self.share_of_planned();
        self.set_share_total(total);
        let withdrawn = self.withdraw(&rows.bins);
        let offers = Offers::new(self, &rows.list);
        let (problem, _) = build(self, &rows.list, &offers, Purpose::Plans);
        let start = problem::start(&problem, &rows, &offers, &withdrawn);
        let answer = berth_packing::search(&problem, &start, budget(effort, rows.list.len() > MANY_ROWS));
        self.put_plan_in(&rows, &offers, &answer.plan)
    }
}

fn budget(effort: Effort, is_large: bool) -> Budget {
    match effort {
        Effort::Default if is_large => Budget {
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
        Effort::Low | Effort::Default => Budget {
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
        Effort::High => Budget {
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
