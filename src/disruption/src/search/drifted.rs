//! Drifted nodes, each replaced by itself whatever that costs. On a full reservation they go slot by slot: the first few
//! make way for capacity that is paid for, and those that follow move to the slots that these leave.

use std::collections::BTreeMap;

use berth_decisions::DecideError;
use jiff::SignedDuration;

use super::Search;
use crate::candidate::Candidate;
use crate::command::Method;
use crate::reason::{Reason, reason};
use crate::replicas::static_replacement;
use crate::simulate::{Replacement, Verdict};

/// Of a NodePool's nodes on a full reservation, one in so many moves to paid capacity, rounded up, and back in the end:
/// the share that the default budget disrupts at a time.
const ASIDE: usize = 10;
/// A node that expires sooner does not wait for a slot: at its expiry it goes without a replacement.
const LAST_CALL: SignedDuration = SignedDuration::from_mins(15);

/// How a roll goes on, by NodePool and reservation.
type Rolls = BTreeMap<(String, String), Roll>;

/// Drifted nodes of one NodePool on one reservation that these commands replace.
#[derive(Debug, Default, Clone, Copy)]
struct Roll {
    /// By capacity that is paid for.
    n_aside: usize,
    /// By what costs no more: free slots, or room on other nodes.
    n_free: usize,
}

/// What became of a drifted node.
enum Came {
    /// It goes, or stays for a reason of its own.
    Done,
    /// It waits for a slot that another leaves.
    Waits,
    /// There may be no more what-ifs.
    Spent,
}

impl Search<'_> {
    /// Every drifted node by itself, the oldest first.
    pub(super) fn drifted(&mut self) -> Result<(), DecideError> {
        let mut left = self.eligible(Method::Drift, |candidate| candidate.drift.is_some());
        left.sort_by(|a, b| (!a.is_empty, a.created, &a.node).cmp(&(!b.is_empty, b.created, &b.node)));
        let mut rolls = Rolls::new();
        loop {
            let n_before = left.len();
            let mut waiting = Vec::new();
            for candidate in left {
                match self.replace_drifted(&candidate, &mut rolls)? {
                    Came::Done => {}
                    Came::Waits => waiting.push(candidate),
                    Came::Spent => return Ok(()),
                }
            }
            left = waiting;
            if left.is_empty() {
                return Ok(());
            }
            // A process that acts asks again once slots are free. A plan goes on with the round in which they are.
            if self.options.only_now || self.left_slots.is_empty() || left.len() == n_before {
                for candidate in &left {
                    self.stays(candidate, vec![waits_for_slot(candidate)]);
                }
                return Ok(());
            }
            self.begin_next_round();
        }
    }

    fn replace_drifted(&mut self, candidate: &Candidate, rolls: &mut Rolls) -> Result<Came, DecideError> {
        if self.is_asked(candidate) || self.batches.most(&candidate.pool, Method::Drift) == 0 {
            return Ok(Came::Done);
        }
        let Some(candidate) = &self.as_it_is(candidate, Method::Drift) else { return Ok(Came::Done) };
        let Some(verdict) = self.try_without(candidate)? else { return Ok(Came::Spent) };
        let replacement = match verdict {
            Verdict::Fails(reasons) => {
                if !self.replace_in_slot(candidate)? {
                    self.stays(candidate, reasons);
                }
                return Ok(Came::Done);
            }
            Verdict::Fits(replacement) => replacement,
        };
        let price = candidate.price.unwrap_or_default();
        let is_paid = replacement.price.marginal > price.marginal;
        let slots = candidate.reservation.as_ref().map(|id| (candidate.pool.clone(), id.clone()));
        if let Some(slots) = slots.as_ref().filter(|_| is_paid) {
            let roll = rolls.get(slots).copied().unwrap_or_default();
            if self.is_slot_expected(slots, roll) && self.uses_slot(candidate, &replacement)? {
                return Ok(Came::Waits);
            }
        }
        let is_done = self.carry_out(Method::Drift, &[candidate], &replacement)?;
        if let Some(slots) = slots.filter(|_| is_done) {
            let roll = rolls.entry(slots).or_default();
            *(if is_paid { &mut roll.n_aside } else { &mut roll.n_free }) += 1;
        }
        Ok(Came::Done)
    }

    /// What would take a drifted node's place; `None` where there may be no more what-ifs.
    fn try_without(&mut self, candidate: &Candidate) -> Result<Option<Verdict>, DecideError> {
        if !candidate.is_static {
            return self.try_out(&[candidate]);
        }
        let known = (&self.prices, &self.survey);
        let n_leaving = self.n_leaving(&candidate.pool);
        static_replacement(self.state, candidate, self.options, known, n_leaving, self.now).map(Some)
    }

    /// How many nodes of a static NodePool these commands replace where they begin at once: both are there for a while. A plan
    /// has rounds for that.
    fn n_leaving(&self, pool: &str) -> u32 {
        let replaced = self.commands.iter().filter(|command| command.method == Method::Drift && self.options.only_now);
        let launched = replaced.flat_map(|command| &command.replacements);
        let of_pool = launched.filter(|(_, launch)| &*launch.node_pool.key.name == pool);
        u32::try_from(of_pool.count()).unwrap_or(u32::MAX)
    }

    /// Whether a NodePool is about to have a free slot of a reservation: a node of it goes, or enough do by these commands.
    fn is_slot_expected(&self, (pool, id): &(String, String), roll: Roll) -> bool {
        let of_pool = || self.on_reservation(id).filter(|candidate| candidate.pool == *pool);
        let n_all = of_pool().count() + roll.n_aside;
        of_pool().any(|candidate| candidate.is_going) || roll.n_free > 0 || roll.n_aside >= n_all.div_ceil(ASIDE)
    }

    fn on_reservation(&self, id: &str) -> impl Iterator<Item = &Candidate> {
        self.survey.candidates.iter().filter(move |candidate| candidate.reservation.as_deref() == Some(id))
    }

    /// Whether what replaces a node would cost less with one more slot of its reservation, and there is time to wait for it.
    fn uses_slot(&mut self, candidate: &Candidate, without: &Replacement) -> Result<bool, DecideError> {
        let is_late = candidate.expires.is_some_and(|(expires, _)| expires.duration_since(self.now) < LAST_CALL);
        let Some(id) = candidate.reservation.as_ref().filter(|_| !is_late) else { return Ok(false) };
        let with = self.try_with_slot(candidate, id)?;
        Ok(with.is_some_and(|with| with.price.marginal < without.price.marginal))
    }

    /// What would replace a node with one more slot of a reservation; `None` where its pods would not all find a place.
    fn try_with_slot(&mut self, candidate: &Candidate, id: &str) -> Result<Option<Replacement>, DecideError> {
        let left = self.survey.left_slots(&self.options.undecided);
        let n_slots = 1 + left.filter(|other| *other == id).count();
        for _ in 0..n_slots {
            self.state.free_slot(id);
        }
        let before = (self.baseline.take(), self.standing.take());
        let with = self.try_without(candidate);
        for _ in 0..n_slots {
            self.state.unfree_slot(id);
        }
        (self.baseline, self.standing) = before;
        Ok(match with? {
            Some(Verdict::Fits(with)) => Some(with),
            Some(Verdict::Fails(_)) | None => None,
        })
    }

    /// Lets a node go whose pods find no place but on its own slot, where its NodePool says that it may go first.
    fn replace_in_slot(&mut self, candidate: &Candidate) -> Result<bool, DecideError> {
        // A Reservation's room has a place before its node goes.
        let may_leave_first = candidate.may_leave_first && candidate.held.is_empty();
        let Some(id) = candidate.reservation.as_ref().filter(|_| may_leave_first) else { return Ok(false) };
        let Some(replacement) = self.try_with_slot(candidate, id)? else { return Ok(false) };
        self.state.free_slot(id);
        let is_done = self.carry_out(Method::DriftInSlot, &[candidate], &replacement);
        self.state.unfree_slot(id);
        let is_done = is_done?;
        if is_done {
            self.played.free_slot(self.state, id.clone());
            (self.baseline, self.standing) = (None, None);
        }
        Ok(is_done)
    }

    /// What comes from now on goes once the commands so far are done: slots that their nodes leave are free then.
    pub(super) fn begin_next_round(&mut self) {
        self.batches.begin_next();
        for id in std::mem::take(&mut self.left_slots) {
            self.played.free_slot(self.state, id);
        }
        (self.baseline, self.standing) = (None, None);
        // Who could use slots depends on how many are free.
        self.state.cluster(self.now);
        let changed = std::mem::take(&mut self.changed);
        self.survey.refresh(self.state, (&changed, &self.launched), &self.prices, self.options, self.now);
    }
}

fn waits_for_slot(candidate: &Candidate) -> Reason {
    let id = candidate.reservation.as_deref().unwrap_or_default();
    reason(format!("waits for a slot of {id} that a node before it leaves"))
}
