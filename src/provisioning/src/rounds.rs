//! Packings again with what the last one has shown: domains that pods chose, and the whole that shares are of.

use crate::caches::Caches;
use crate::domains_left::fill_domains_left;
use crate::ledger::{Ledger, Tally};
use crate::listing::Listings;
use crate::packing::Packing;
use crate::shrink::shrink;
use crate::slots::match_slots;
use crate::tables::Tables;

/// Packings with a whole that is just what was packed before, until it is taken for much less.
const PATIENT_ROUNDS: u32 = 8;

/// Packings at most until the domains that pods chose are those that spreads counted with.
const ROUNDS: usize = 4;

impl<'a> Packing<'_, 'a> {
    /// Packs; where pods chose a value that no NodePool names (`NotIn`, `Exists`, bounds), their nodes are a domain
    /// that earlier pods should have been spread over, and so are nodes where volumes of these cannot be: packs again,
    /// knowing it.
    fn pack_over_domains(&self, ledger: &mut Ledger, caches: &mut Caches<'a>) {
        ledger.forget_domains(&mut caches.domains);
        if !self.tables.has_open_domains() && self.tables.volume_counters.is_empty() {
            self.pack_once(ledger, caches);
            return;
        }
        for round in 1..=ROUNDS {
            let mark = ledger.state.mark();
            self.pack_once(ledger, caches);
            let uncounted = self.world(ledger).uncounted(&mut caches.domains);
            let is_settled = !ledger.note_chosen(self.tables) & uncounted.is_empty();
            ledger.beyond.extend(uncounted);
            if !is_settled {
                caches.domains.forget();
            }
            if !is_settled && round < ROUNDS {
                ledger.state.rollback(mark);
            }
            ledger.state.forget(mark);
            if is_settled {
                return;
            }
        }
    }

    /// Packs all that is pending, within shares where there are some, and then who is left over for a node that does not come.
    /// Plans are compared with these: one that is better but for them may have less room for them.
    pub(crate) fn pack(&self, ledger: &mut Ledger, caches: &mut Caches<'a>) {
        if self.tables.shares.is_empty() {
            self.pack_over_domains(ledger, caches);
        } else {
            self.pack_within_shares(ledger, caches);
        }
        fill_domains_left(self.tables, ledger, caches, true);
    }

    // Shares are of the whole, and the whole is known only once all is packed: what goes to existing nodes or nowhere is
    // no part of it. Packs with ever less of it until the shares are kept; of a whole that is taken for too little they
    // are always kept, and with next to nothing each value may still have a node.
    fn pack_within_shares(&self, ledger: &mut Ledger, caches: &mut Caches<'a>) {
        let mark = ledger.state.mark();
        let mut total = self.tables.share_of_pending().max(1);
        for round in 0.. {
            ledger.shares.set_total(total);
            self.pack_over_domains(ledger, caches);
            if self.world(ledger).keeps_shares() {
                break;
            }
            let planned = self.world(ledger).share_of_planned().min(total - 1);
            total = if round < PATIENT_ROUNDS { planned } else { planned * 3 / 4 }.max(1);
            ledger.state.rollback(mark);
        }
        ledger.state.forget(mark);
    }

    fn pack_once(&self, ledger: &mut Ledger, caches: &mut Caches<'a>) {
        ledger.tally = Tally::default();
        ledger.remaining = berth_model::Resources::new();
        self.pack_all(ledger, caches);
        finish_packing(self.tables, ledger, &mut caches.listings);
    }
}

/// The cheapest columns for what was packed, and slots where there are.
pub(crate) fn finish_packing(tables: &Tables<'_>, ledger: &mut Ledger, listings: &mut Listings) {
    shrink(tables, ledger, listings);
    match_slots(tables, ledger, listings);
    shrink(tables, ledger, listings);
}
