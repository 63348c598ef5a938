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

use berth_packing::StopReason;

use crate::ledger::Ledger;
use crate::options::Effort;
use crate::tables::Tables;
use crate::world::World;

/// What a search came to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Found {
    /// Why it stopped.
    pub(crate) stop: StopReason,
    /// Whether its plan is one, and is in the ledger.
    pub(crate) is_put_in: bool,
}

/// Packs anew what is on new nodes, and `with_left` what has no place, too; `None` where there is nothing to search for. The
/// ledger is changed even if the plan is worse, or is none at all: the caller rolls back.
pub(crate) fn search(tables: &Tables<'_>, ledger: &mut Ledger, effort: Effort, with_left: bool) -> Option<Found> {
    let mut rows = rows::Rows::gather(tables, ledger);
    if with_left {
        rows.add_left(tables, ledger);
        if rows.waiting.is_empty() {
            return None;
        }
    }
    if rows.list.is_empty() {
        return None;
    }
    let total = World::new(tables, ledger).share_of_planned();
    ledger.shares.set_total(total);
    let withdrawn = ledger.withdraw(tables, &rows.bins);
    let world = World::new(tables, ledger);
    let offers = Offers::new(world, &rows.list);
    let (problem, _) = build(world, &rows.list, &offers, Purpose::Plans);
    let start = problem::start(&problem, &rows, &offers, &withdrawn);
    let answer = berth_packing::search(&problem, &start, budget(effort, Workload::of(&rows.list)));
    let is_put_in = ledger.put_plan_in(tables, &rows, &offers, &answer.plan);
    let stop = match answer.stop {
        // Other domains, and other nodes than those that were packed anew, were not tried.
        StopReason::Solved if !rows.are_all_that_may_change() => StopReason::NoColumn,
        stop => stop,
    };
    Some(Found { stop, is_put_in })
}
