//! Room that Reservations on planned nodes give back once their owners have come: who found no place may join there.

use berth_model::Resources;

use crate::planner::Planner;
use crate::portfolio::Strategy;

impl Planner<'_> {
    /// Lets who is left over join nodes that have this much more room than their pods leave, by entry of the solution's
    /// claims. Whether anybody does.
    pub(crate) fn fill_given_back(&mut self, given: &[Resources]) -> bool {
        let n_left = |planner: &Self| planner.ledger.tally.left.iter().map(|(_, count)| u64::from(*count)).sum::<u64>();
        let before = n_left(self);
        let planned = self.ledger.state.bins().iter().enumerate().filter(|(_, bin)| bin.nodes > 0);
        let planned: Vec<usize> = planned.map(|(index, _)| index).collect();
        for (index, given) in planned.into_iter().zip(given) {
            let Some(bin) = self.ledger.state.bins().get(index) else { continue };
            let (planned, mut used, mut slack) = (bin.planned, bin.used.clone(), bin.slack.clone());
            used.subtract(given);
            slack.add(given);
            self.ledger.state.set_bin_room(index, planned, used, slack);
        }
        self.strategy = Strategy { only_joins: true, ..Strategy::default() };
        self.pack_left();
        // A node is launched for all that its pods request: Reservations come before their owners.
        for index in 0..self.ledger.state.bins().len() {
            let Some(bin) = self.ledger.state.bins().get(index) else { continue };
            let (planned, slack) = (bin.planned, bin.slack.clone());
            let mut used = Resources::new();
            for (class, count) in &bin.contents {
                if let Some(class) = self.tables.universe.class(*class) {
                    used.add_times(&self.tables.spec(class).requests, i64::from(*count));
                }
            }
            self.ledger.state.set_bin_room(index, planned, used, slack);
        }
        n_left(self) < before
    }
}
