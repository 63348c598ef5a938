//! Nodes for consolidation, each by itself.

use std::collections::{BTreeMap, BTreeSet};

use berth_decisions::DecideError;
use berth_state::{Key, ObjectRef};

use super::{Search, is_free};
use crate::candidate::Candidate;
use crate::command::Method;
use crate::reason::Reason;
use crate::simulate::{Replacement, Verdict, places_on_slot_of};
use crate::verdict::{self, forecasts};
use crate::worth::{SAVES_NOTHING, worth};

impl Search<'_> {
    /// Every candidate by itself; whether any was worth it.
    pub(super) fn single(&mut self) -> Result<bool, DecideError> {
        let mut has_found = false;
        let mut candidates = self.consolidatable();
        let keeps_free = self.may_need_free_nodes();
        candidates.retain(|candidate| !(self.is_asked(candidate) || keeps_free && is_free(candidate)));
        let mut verdicts = self.verdicts(&candidates)?;
        for candidate in &candidates {
            let has_budget = self.batches.most(&candidate.pool, Method::SingleNodeConsolidation) > 0;
            if !has_budget {
                continue;
            }
            if let Some(verdict::Verdict::Stays(reasons)) = verdicts.remove(&candidate.node) {
                self.stays(candidate, reasons);
                continue;
            }
            let Some(candidate) =
                &self.as_it_is(candidate, Method::SingleNodeConsolidation).filter(|known| !self.is_awaiting(known))
            else {
                continue;
            };
            let Some(verdict) = self.try_out(&[candidate])? else { return Ok(has_found) };
            let reasons = match verdict {
                Verdict::Fails(reasons) => reasons,
                Verdict::Fits(mut replacement) => {
                    let gone = [candidate];
                    if let Err(reason) = worth(&gone, &mut replacement, self.options, (&self.prices, &self.survey)) {
                        vec![reason]
                    } else if is_free(candidate) && !self.frees_slot(candidate, &replacement)? {
                        vec![Reason::of_pods(SAVES_NOTHING, candidate.n_evictions)]
                    } else {
                        has_found |= self.carry_out(Method::SingleNodeConsolidation, &gone, &replacement)?;
                        continue;
                    }
                }
            };
            self.stays(candidate, reasons);
        }
        Ok(has_found)
    }

    /// Whether it is of use to free the slot of this node: a paid node that takes none of its pods could move there, or somebody who
    /// waits gets a place. Pods that came to it in this search do not move again.
    fn frees_slot(&mut self, candidate: &Candidate, replacement: &Replacement) -> Result<bool, DecideError> {
        let moved: BTreeSet<Box<str>> = self.moved_pods(&candidate.node).collect();
        let came = self.commands.iter().flat_map(|command| &command.places);
        let has_come = |(_, node): &(Key, String)| **node == *candidate.node.key.name;
        if came.into_iter().any(has_come) {
            return Ok(false);
        }
        let places = replacement.places();
        let takers: BTreeSet<&str> = moved.iter().filter_map(|pod| places.get(pod).copied()).collect();
        Ok(self.survey.wants_slot_beside(candidate, &takers, self.options) || self.places_on_slot_of(candidate)?)
    }

    /// Whether somebody who waits has a place once this node leaves its slot, and would have none on those that others leave.
    fn places_on_slot_of(&mut self, candidate: &Candidate) -> Result<bool, DecideError> {
        if !self.survey.waits_for_slot_of(candidate) || self.is_spent() {
            return Ok(false);
        }
        self.what_ifs += 2;
        let decisions = self.decisions();
        let left = self.survey.left_slots(&self.options.undecided);
        let left = left.chain(self.left_slots.iter().map(String::as_str));
        places_on_slot_of((self.state, self.decider), candidate, left, &decisions, &self.prices, self.now)
    }

    /// What is told of each candidate without a whole decision.
    pub(super) fn verdicts(
        &mut self,
        candidates: &[Candidate],
    ) -> Result<BTreeMap<ObjectRef, verdict::Verdict>, DecideError> {
        let candidates: Vec<&Candidate> = candidates.iter().collect();
        let most_plans = self.options.most_what_ifs.saturating_sub(self.what_ifs);
        let known = (&self.prices, &self.survey);
        let (verdicts, tally) =
            forecasts(self.state, self.decider, &candidates, most_plans, self.options, known, self.now)?;
        self.what_ifs += tally.plans;
        Ok(verdicts)
    }
}
