//! The search above first fit: what a packing put on new nodes is packed anew, by column generation over all types of
//! nodes at once. Who goes to which domain and to pools of which weight stays as it was, so that what held still holds;
//! the plan is kept if it is better, so first fit is the floor.

mod budgets;
mod carry_out;
mod offers;
mod problem;
mod rows;

pub(crate) use budgets::{Workload, bound_budget, budget};
pub(crate) use offers::Offers;
pub(crate) use problem::{Purpose, build};
pub(crate) use rows::{Member, Row};

use crate::options::Effort;
use crate::planner::Planner;

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
        self.stop = Some(answer.stop);
        self.put_plan_in(&rows, &offers, &answer.plan)
    }
}
