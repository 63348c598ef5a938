//! Room that Reservations on planned nodes give back once their owners have come: who found no place may join there.

use berth_model::Resources;

use crate::caches::Caches;
use crate::ledger::Ledger;
use crate::packing::Packing;
use crate::strategy::Strategy;
use crate::tables::Tables;

/// Lets who is left over join nodes that have this much more room than their pods leave, by entry of the solution's
/// claims. Whether anybody does.
pub(crate) fn fill_given_back<'a>(
    tables: &Tables<'a>,
    ledger: &mut Ledger,
    caches: &mut Caches<'a>,
    given: &[Resources],
) -> bool {
    let before = ledger.tally.n_left();
    let planned = ledger.state.bins().iter().enumerate().filter(|(_, bin)| bin.nodes > 0);
    let planned: Vec<usize> = planned.map(|(index, _)| index).collect();
    for (index, given) in planned.into_iter().zip(given) {
        let Some(bin) = ledger.state.bins().get(index) else { continue };
        let (planned, mut used, mut slack) = (bin.planned, bin.used.clone(), bin.slack.clone());
        used.subtract(given);
        slack.add(given);
        ledger.state.set_bin_room(index, planned, used, slack);
    }
    let strategy = Strategy { only_joins: true, ..Strategy::default() };
    Packing { tables, strategy }.pack_left(ledger, caches);
    // A node is launched for all that its pods request: Reservations come before their owners.
    for index in 0..ledger.state.bins().len() {
        let Some(bin) = ledger.state.bins().get(index) else { continue };
        let (planned, slack) = (bin.planned, bin.slack.clone());
        let mut used = Resources::new();
        for (class, count) in &bin.contents {
            if let Some(class) = tables.universe.class(*class) {
                used.add_times(&tables.spec(class).requests, i64::from(*count));
            }
        }
        ledger.state.set_bin_room(index, planned, used, slack);
    }
    ledger.tally.n_left() < before
}
