//! Columns that a master can do without.

use super::Generator;
use crate::master::{MasterSolution, Warm};
use crate::tuning::generation::{COLUMNS_PER_ROW, DEAR, MANY_COLUMNS};
use crate::tuning::groups::MANY_ITEMS;

impl Generator<'_> {
    // Keeps the master small: columns that are far from being used are forgotten.
    pub(super) fn forget_dear(&mut self, master: &MasterSolution, warm: Option<&mut Warm>) {
        let at_most =
            COLUMNS_PER_ROW * (self.problem.items.len().min(MANY_ITEMS) + self.problem.stocks.len()) + MANY_COLUMNS;
        if self.columns.len() <= at_most {
            return;
        }
        let typical = master.typical();
        let mut order: Vec<(f64, usize)> = (0..self.columns.len())
            .map(|at| {
                let Some(column) = self.columns.get(at).filter(|_| master.uses.get(at).is_none_or(|n| *n < 1e-7))
                else {
                    return (f64::NEG_INFINITY, at);
                };
                // What is newer than the prices is kept.
                if at >= master.uses.len() {
                    return (f64::NEG_INFINITY, at);
                }
                let cost = master.duals.cost_of(self.problem, column);
                ((cost - master.duals.value_of(column)) / cost.max(typical), at)
            })
            .collect();
        order.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        let mut keep = vec![false; self.columns.len()];
        for &(_, at) in order.iter().filter(|(over, _)| *over < DEAR) {
            if let Some(keep) = keep.get_mut(at) {
                *keep = true;
            }
        }
        if let Some(warm) = warm {
            let mut keeps = keep.iter();
            warm.uses.retain(|_| keeps.next().copied().unwrap_or(true));
        }
        let mut keeps = keep.into_iter();
        let known = &mut self.known;
        self.columns.retain(|column| {
            let stays = keeps.next().unwrap_or(true);
            if !stays {
                known.remove(column);
            }
            stays
        });
    }
}
