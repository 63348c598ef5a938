//! Pods that a spread kept back for a domain in which no node is, and where none may come any more: what this plan launches
//! has taken what limits and free slots left. They join nodes that there are, as they will once these nodes are launched.

use berth_model::Constraint;

use crate::caches::Caches;
use crate::ledger::Ledger;
use crate::packing::Packing;
use crate::strategy::Strategy;
use crate::tables::Tables;

/// Lets who is left over join nodes, where spreads count on no node that may not come any more. Nothing is launched, so that
/// none may come afterwards.
pub(crate) fn fill_domains_left<'a>(tables: &Tables<'a>, ledger: &mut Ledger, caches: &mut Caches<'a>) {
    let is_domain_spread = |constraint: &Constraint| {
        let key = tables.universe.counter(constraint.counter()).map(|counter| counter.key);
        matches!(constraint, Constraint::Spread { .. }) && key != Some(tables.cluster.well_known.hostname)
    };
    let is_spread = |id| tables.universe.class(id).is_some_and(|class| class.required.iter().any(is_domain_spread));
    if !ledger.tally.left.iter().any(|&(id, _)| is_spread(id)) {
        return;
    }
    let before = ledger.tally.n_left();
    ledger.counts_domains_left = true;
    caches.domains.forget();
    Packing { tables, strategy: Strategy { only_joins: true, ..Strategy::default() } }.pack_left(ledger, caches);
    if ledger.tally.n_left() < before {
        ledger.tally.counts_on_no_domain = true;
    } else {
        ledger.counts_domains_left = false;
        caches.domains.forget();
    }
}
