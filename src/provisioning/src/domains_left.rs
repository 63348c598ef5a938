//! Pods that a spread kept back for a node that does not come any more: for a domain in which no node is, where what this plan
//! launches has taken what limits and free slots left, or for a further host, where the pod's other constraints keep it off all
//! that could be launched. They are placed without it, as they will be once these nodes are launched.

use berth_model::{Constraint, PodClass};

use crate::caches::Caches;
use crate::ledger::Ledger;
use crate::packing::Packing;
use crate::strategy::Strategy;
use crate::tables::Tables;
use crate::world::World;

/// Places who is left over, where spreads count on no node that may not come any more. `may_launch`: nodes are launched for
/// them, too, as long as nobody has packed the others anew since.
pub(crate) fn fill_domains_left<'a>(
    tables: &Tables<'a>,
    ledger: &mut Ledger,
    caches: &mut Caches<'a>,
    may_launch: bool,
) {
    if !leaves_spread(tables, ledger, |_| true) {
        return;
    }
    let is_over_hosts = |one: &Constraint| tables.is_over_hosts(one);
    let (mark, tally) = (ledger.state.mark(), ledger.tally.clone());
    let counted_left = ledger.counts_domains_left;
    // A launch leaves less for others, so that domains only become fewer. No node grows: it might grow into another domain.
    let strategy = Strategy { only_joins: !may_launch, never_grows: true, ..Strategy::default() };
    while leaves_spread(tables, ledger, |one| !is_over_hosts(one)) {
        let before = ledger.tally.n_left();
        ledger.counts_domains_left = true;
        caches.domains.forget();
        Packing { tables, strategy }.pack_left(ledger, caches);
        if ledger.tally.n_left() == before {
            break;
        }
        ledger.tally.counts_on_no_domain = true;
    }
    // A strategy may leave some for whom a node can be launched: that host is empty, so they do not come to others.
    if may_launch && leaves_spread(tables, ledger, is_over_hosts) {
        Packing { tables, strategy: Strategy::default() }.pack_left(ledger, caches);
    }
    // Nothing could be launched for those who are left now. Nor is it afterwards: its node would be an empty host.
    if leaves_spread(tables, ledger, is_over_hosts) {
        ledger.counts_hosts_left = true;
        let strategy = Strategy { only_joins: true, ..Strategy::default() };
        Packing { tables, strategy }.pack_left(ledger, caches);
        ledger.counts_hosts_left = false;
    }
    if !tables.shares.is_empty() && !World::new(tables, ledger).keeps_shares() {
        ledger.state.rollback(mark);
        ledger.tally = tally;
    }
    ledger.state.forget(mark);
    ledger.counts_domains_left = counted_left || ledger.tally.counts_on_no_domain;
    caches.domains.forget();
    if ledger.counts_domains_left {
        // Whoever packs anew must not put nodes in other domains than are counted now.
        for counter in World::new(tables, ledger).domain_counters() {
            caches.domains.of(World::new(tables, ledger), counter);
        }
    }
}

// Whether somebody is left over who has such a spread.
fn leaves_spread(tables: &Tables<'_>, ledger: &Ledger, is_such: impl Fn(&Constraint) -> bool) -> bool {
    let has_spread = |class: &PodClass| {
        let mut spreads = class.required.iter().filter(|one| matches!(one, Constraint::Spread { .. }));
        spreads.any(&is_such)
    };
    ledger.tally.left.iter().any(|&(id, _)| tables.universe.class(id).is_some_and(has_spread))
}
