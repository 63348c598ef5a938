//! Karpenter's own choice of nodes, asked of the same what-ifs: to be compared with.
//!
//! A pass ends with the first method that finds a command: empty nodes, drifted ones, several, one. Several are a first part
//! of the candidates, ordered by price for a unit of disruption, of which bisection finds the largest that may go; what takes
//! their place is one node at most. Karpenter's limits of wall-clock time are left to [`Options::most_what_ifs`].

use std::collections::{BTreeMap, BTreeSet};

use berth_api::labels;
use berth_decisions::{DecideError, Launch};
use berth_model::Money;

use super::Search;
use crate::Options;
use crate::candidate::Candidate;
use crate::command::Method;
use crate::reason::{Reason, reason};
use crate::simulate::{Replacement, Verdict};
use crate::worth::worth;

/// The most nodes that one command takes away.
const MOST_NODES: usize = 100;
/// The most nodes that one command launches.
pub(crate) const MOST_LAUNCHES: usize = 1;

impl Search<'_> {
    /// Passes, until nothing is found; one where only what begins now is looked for.
    pub(super) fn as_karpenter(&mut self) -> Result<(), DecideError> {
        while self.pass()? && !self.options.only_now {}
        Ok(())
    }

    /// Whether a method has found something.
    fn pass(&mut self) -> Result<bool, DecideError> {
        let n_before = self.commands.len();
        self.empty(|_| true)?;
        if self.commands.len() == n_before {
            self.drifted()?;
        }
        let has_found = self.commands.len() > n_before;
        // Together they were asked about before, where nothing has changed since.
        let has_asked = !self.options.asked.is_empty();
        Ok(has_found || (!has_asked && self.first_part()?) || self.first_one()?)
    }

    /// As many of the first candidates as may go together, found by bisection.
    fn first_part(&mut self) -> Result<bool, DecideError> {
        let mut taken: BTreeMap<String, usize> = BTreeMap::new();
        let mut ranked = self.consolidatable();
        ranked.retain(|candidate| {
            let count = taken.entry(candidate.pool.clone()).or_default();
            *count += 1;
            *count <= self.batches.most(&candidate.pool, Method::MultiNodeConsolidation)
        });
        ranked.truncate(MOST_NODES);
        let mut best: Option<(usize, Replacement)> = None;
        // At least two may go, and fewer than these.
        let (mut least, mut most) = (2, ranked.len());
        while least <= most {
            let size = least.midpoint(most);
            let gone: Vec<&Candidate> = ranked.iter().take(size).collect();
            let Some(verdict) = self.try_out(&gone)? else { break };
            if let Ok(replacement) = self.replaced_by_one(&gone, verdict) {
                best = Some((size, replacement));
                least = size + 1;
            } else {
                most = size - 1;
            }
        }
        let Some((size, replacement)) = best else { return Ok(false) };
        let gone: Vec<&Candidate> = ranked.iter().take(size).collect();
        self.carry_out(Method::MultiNodeConsolidation, &gone, &replacement)
    }

    /// The first candidate that may go by itself: one of each NodePool in turn.
    fn first_one(&mut self) -> Result<bool, DecideError> {
        let mut candidates = self.consolidatable();
        candidates.retain(|candidate| !self.is_asked(candidate));
        let mut turns: BTreeMap<String, usize> = BTreeMap::new();
        let mut in_turn: Vec<(usize, Candidate)> = Vec::with_capacity(candidates.len());
        for candidate in candidates {
            let turn = turns.entry(candidate.pool.clone()).or_default();
            *turn += 1;
            in_turn.push((*turn, candidate));
        }
        in_turn.sort_by_key(|(turn, _)| *turn);
        let candidates: Vec<Candidate> = in_turn.into_iter().map(|(_, candidate)| candidate).collect();
        let mut verdicts = self.verdicts(&candidates)?;
        for candidate in &candidates {
            if self.batches.most(&candidate.pool, Method::SingleNodeConsolidation) == 0 {
                continue;
            }
            if let Some(crate::verdict::Verdict::Stays(reasons)) = verdicts.remove(&candidate.node) {
                self.stays(candidate, reasons);
                continue;
            }
            let Some(verdict) = self.try_out(&[candidate])? else { return Ok(false) };
            match self.replaced_by_one(&[candidate], verdict) {
                Ok(replacement) => {
                    if self.carry_out(Method::SingleNodeConsolidation, &[candidate], &replacement)? {
                        return Ok(true);
                    }
                }
                Err(reasons) => self.stays(candidate, reasons),
            }
        }
        Ok(false)
    }

    /// What is launched where that pays and one node at most takes the place of all; else why it is not to be.
    fn replaced_by_one(&self, gone: &[&Candidate], verdict: Verdict) -> Result<Replacement, Vec<Reason>> {
        let mut replacement = match verdict {
            Verdict::Fits(replacement) => replacement,
            Verdict::Fails(reasons) => return Err(reasons),
        };
        let refusal = |text: String| vec![reason(text)];
        if replacement.launches.len() > MOST_LAUNCHES {
            return Err(refusal(format!("can't remove without creating {} nodes", replacement.launches.len())));
        }
        let worth = worth(gone, &mut replacement, self.options, (&self.prices, &self.survey));
        worth.map_err(|reason| vec![reason])?;
        if gone.len() > 1 && replacement.launches.iter().any(|launch| self.is_one_of(gone, launch)) {
            return Err(refusal("one of the nodes could stay in place of what replaces them".to_owned()));
        }
        Ok(replacement)
    }

    /// Whether a launch may become of the type of a node that goes, and costs no less: then that one had better stay.
    fn is_one_of(&self, gone: &[&Candidate], launch: &Launch) -> bool {
        let types: BTreeSet<&str> = launch.instance_types.iter().map(String::as_str).collect();
        let of_such = gone.iter().filter(|candidate| {
            let node = self.state.node(&candidate.node.key.name);
            let of_type = node.and_then(|node| node.label(labels::INSTANCE_TYPE));
            of_type.is_some_and(|of_type| types.contains(of_type))
        });
        let least = of_such.filter_map(|candidate| candidate.price).map(|price| price.marginal).min();
        least.is_some_and(|least| launch.offering.price >= least && least > Money::ZERO)
    }
}

/// Whether a command that launches so much may be one of Karpenter's.
pub(crate) fn may_launch(n_launches: usize, options: &Options) -> bool {
    options.methods == crate::Methods::Berth || n_launches <= MOST_LAUNCHES
}
