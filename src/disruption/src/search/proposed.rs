//! Nodes that go by the program over the whole cluster: see [`crate::program`].
//!
//! The program says which nodes are to go and where each of their pods is to come, so that all fit. What it proposes is cut
//! into commands, the largest saving for what is disrupted first, and each is a whole decision: its pods are sent to
//! the nodes that the program chose, and where they may not go there, the scheduler chooses. Meanwhile no pod comes to a
//! node that is to go later, so that none is evicted twice. A node whose pods find no place is put back.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use berth_decisions::{DecideError, ExpectedNodes};
use berth_model::Money;
use berth_state::{Object, ObjectRef, Patch};
use k8s_openapi::api::core::v1::Taint;

use super::Search;
use crate::candidate::Candidate;
use crate::command::Method;
use crate::play::Played;
use crate::pods;
use crate::program::{Leaving, Move, Program, Proposals};
use crate::simulate::{Baseline, ByPod, Replacement, Verdict, by_name, insisting};
use crate::worth::worth;

/// Commands that a proposal is cut into, about: of more nodes, several go together.
pub(super) const COMMANDS: usize = 64;
/// Proposals with new nodes that pay no more than what is found without, after which no others are asked for.
const MOST_IDLE: usize = 3;
/// The taint of a node that is to go later. No cluster has it: in what-ifs it keeps pods off.
const LEAVING: &str = "berth.sh/leaving";

/// What a whole decision says of a proposal.
enum Asked {
    /// So much is saved, less the price of what it disrupts, with each pod at a place of its own.
    Saves(Money, Vec<Leaving>),
    /// Some pods would find no place.
    Fails,
    /// It saves too little, or no more may be asked.
    DoesNotPay,
}

/// A node that is to go, and where its pods are to come.
pub(super) type Step = (ObjectRef, ExpectedNodes);

impl Search<'_> {
    /// The nodes that cost something, and the program in which they may go. `None` where there is nothing to choose, or the
    /// cluster is too large.
    pub(super) fn program(&mut self) -> Result<(Vec<Candidate>, Option<Program>), DecideError> {
        let mut candidates = self.consolidatable();
        candidates.retain(|candidate| candidate.price.is_some_and(|price| price.marginal > Money::ZERO));
        if candidates.len() < 2 || self.is_spent() {
            return Ok((candidates, None));
        }
        let all: Vec<&Candidate> = candidates.iter().collect();
        let insists = insisting((self.state, self.decider), &all, self.now)?;
        self.state.cluster(self.now);
        let program = Program::of(self.state, (&candidates, &insists), (&self.survey, self.options));
        Ok((candidates, program))
    }

    /// The proposal that a whole decision says saves most, if that is more than so much, with each pod where that decision has
    /// it. Where a decision fails, parts of its proposal may do: so it is taken where no other saves more. Where none of
    /// the first few saves enough, no more are asked for.
    pub(super) fn best_of(
        &mut self,
        candidates: &[Candidate],
        proposals: &mut Proposals<'_>,
        least: Money,
    ) -> Result<Option<Vec<Leaving>>, DecideError> {
        let (mut best, mut failed) = (None, None);
        let mut n_idle = 0;
        while (best.is_some() || n_idle < MOST_IDLE)
            && let Some(leaving) = proposals.next()
        {
            n_idle += 1;
            let most = best.as_ref().map_or(least, |(most, _)| *most);
            match self.ask_about(candidates, &leaving, most)? {
                Asked::Saves(net, decided) => {
                    if most < net {
                        best = Some((net, decided));
                    }
                }
                Asked::Fails => failed = failed.or(Some(leaving)),
                Asked::DoesNotPay => {}
            }
        }
        Ok(best.map(|(_, decided)| decided).or(failed))
    }

    /// What whole decisions say of a proposal, where pods go as the program would have it. Nodes that would not go, since
    /// what is launched for them does not pay, are left out of it: the others may use their rooms. They are asked about again
    /// where that may save more than so much.
    fn ask_about(&mut self, candidates: &[Candidate], proposed: &[Leaving], most: Money) -> Result<Asked, DecideError> {
        let mut leaving = proposed.to_vec();
        // Each time at least one of them is left out.
        while !leaving.is_empty() {
            let known = leaving.iter().filter_map(|known| Some((known, candidates.get(known.candidate)?)));
            let (steps, gone): (Vec<Step>, Vec<&Candidate>) =
                known.map(|(leaving, known)| ((known.node.clone(), expected(&leaving.moves)), known)).unzip();
            self.send(&steps);
            let verdict = self.try_out(&gone);
            self.moves.clear();
            let replacement = match verdict? {
                Some(Verdict::Fits(replacement)) => replacement,
                Some(Verdict::Fails(_)) => return Ok(Asked::Fails),
                None => return Ok(Asked::DoesNotPay),
            };
            let (stays, lost) = self.staying(&gone, &replacement);
            let asked = self.asked(candidates, &leaving, (&gone, replacement));
            let Asked::Saves(net, decided) = asked else { return Ok(asked) };
            if stays.is_empty() {
                return Ok(Asked::Saves(net, decided));
            }
            if net - lost <= most {
                return Ok(Asked::DoesNotPay);
            }
            let mut at = 0..leaving.len();
            leaving.retain(|_| at.next().is_none_or(|at| !stays.contains(&at)));
        }
        Ok(Asked::DoesNotPay)
    }

    /// Nodes of a decision, by index, that would not go, since that would not pay by itself; and what they would save. Where
    /// nodes are launched for others, too, it is not known.
    fn staying(&self, gone: &[&Candidate], replacement: &Replacement) -> (BTreeSet<usize>, Money) {
        let is_bare = self.baseline.as_ref().is_some_and(Baseline::launches_nothing);
        let stays = if is_bare { self.cut(gone, replacement.launches.clone()).1 } else { Vec::new() };
        let lost = stays.iter().map(|group| group.net).sum();
        (stays.into_iter().flat_map(|group| group.gone).collect(), lost)
    }

    /// What a decision about a proposal is worth.
    fn asked(
        &self,
        candidates: &[Candidate],
        leaving: &[Leaving],
        (gone, mut replacement): (&[&Candidate], Replacement),
    ) -> Asked {
        let Ok(worth) = worth(gone, &mut replacement, self.options, (&self.prices, &self.survey)) else {
            return Asked::DoesNotPay;
        };
        let places = replacement.places();
        let decided = leaving.iter().filter_map(|proposed| {
            let node = &candidates.get(proposed.candidate)?.node;
            let moves = self.places_of(node, &places);
            let launches = moves.len() < self.moved_pods(node).count();
            Some(Leaving { candidate: proposed.candidate, launches, moves })
        });
        Asked::Saves(worth.net, decided.collect())
    }

    /// The pods of a node that move, by `namespace/name`.
    pub(super) fn moved_pods(&self, node: &ObjectRef) -> impl Iterator<Item = Box<str>> {
        let moved = self.state.pods_on(&node.key.name).filter(|pod| pods::is_moved(pod));
        moved.map(|pod| by_name(&pod.reference().key))
    }

    /// Where a decision has the pods of a node that come to nodes that are there.
    fn places_of(&self, node: &ObjectRef, places: &ByPod<'_>) -> Vec<Move> {
        let moved = self.moved_pods(node);
        moved.filter_map(|pod| places.get(&pod).map(|to| (pod, (*to).to_owned()))).collect()
    }

    /// The same, by node.
    pub(super) fn expected_by(&self, node: &ObjectRef, places: &ByPod<'_>) -> ExpectedNodes {
        expected(&self.places_of(node, places))
    }

    /// Removes these nodes, as far as what-ifs say the same as the program; whether any went.
    pub(super) fn leave_all(&mut self, candidates: &[Candidate], leaving: &[Leaving]) -> Result<bool, DecideError> {
        let step = |leaving: &Leaving| {
            let candidate = candidates.get(leaving.candidate)?;
            Some((candidate.node.clone(), expected(&leaving.moves)))
        };
        let (launching, others): (Vec<&Leaving>, Vec<&Leaving>) = leaving.iter().partition(|known| known.launches);
        let launching: Vec<Step> = launching.into_iter().filter_map(step).collect();
        let steps: Vec<Step> = others.into_iter().filter_map(step).collect();
        for (node, _) in steps.iter().chain(&launching) {
            self.keep_pods_off(node);
        }
        let n_before = self.commands.len();
        let mut left = &steps[..];
        while !left.is_empty() && !self.is_spent() {
            let (now, later) = left.split_at(self.together(left, steps.len().div_ceil(COMMANDS)));
            left = later;
            if self.leave(now)? {
                continue;
            }
            for (node, moves) in now {
                let step = (node.clone(), moves.clone());
                let goes =
                    (now.len() > 1 && self.leave(&[step])?) || self.leave(&[(node.clone(), ExpectedNodes::new())])?;
                if !goes {
                    self.let_pods_come(node);
                }
            }
        }
        // They come last: the rooms that are left by then are nobody's.
        self.leave_for_new(&launching)?;
        for (node, _) in left.iter().chain(&launching) {
            self.let_pods_come(node);
        }
        Ok(self.commands.len() > n_before)
    }

    /// How many of the first nodes go together: at most so many, and no more than budgets let go at a time.
    pub(super) fn together(&self, steps: &[Step], most: usize) -> usize {
        let mut of_pool: BTreeMap<String, usize> = BTreeMap::new();
        let fit = steps.iter().take(most).take_while(|(node, _)| {
            let candidate = self.survey.of_node(node);
            candidate.is_some_and(|candidate| {
                let count = of_pool.entry(candidate.pool.clone()).or_default();
                *count += 1;
                *count <= self.batches.most(&candidate.pool, Method::MultiNodeConsolidation)
            })
        });
        fit.count().max(1)
    }

    /// Removes nodes together, if their pods all find places and that pays; whether it did.
    fn leave(&mut self, steps: &[Step]) -> Result<bool, DecideError> {
        let known = |node: &ObjectRef| self.survey.of_node(node).cloned();
        let gone: Option<Vec<Candidate>> = steps.iter().map(|(node, _)| known(node)).collect();
        let Some(gone) = gone else { return Ok(false) };
        let gone: Vec<&Candidate> = gone.iter().collect();
        let method = if gone.len() == 1 { Method::SingleNodeConsolidation } else { Method::MultiNodeConsolidation };
        if !self.has_budget_for(&gone, method) || gone.iter().any(|candidate| !candidate.blocked.is_empty()) {
            return Ok(false);
        }
        self.send(steps);
        let found = self.leave_by_moves(method, &gone);
        self.moves.clear();
        found
    }

    /// Whether budgets let these nodes go together.
    pub(super) fn has_budget_for(&self, gone: &[&Candidate], method: Method) -> bool {
        let mut of_pool: BTreeMap<&str, usize> = BTreeMap::new();
        for candidate in gone {
            *of_pool.entry(&candidate.pool).or_default() += 1;
        }
        of_pool.into_iter().all(|(pool, count)| count <= self.batches.most(pool, method))
    }

    /// From now on, pods of these nodes go where they are sent.
    pub(super) fn send(&mut self, steps: &[Step]) {
        for (node, pods) in steps.iter().flat_map(|(_, moves)| moves) {
            Arc::make_mut(self.moves.entry(Arc::clone(node)).or_default()).extend(pods.iter().cloned());
        }
    }

    fn leave_by_moves(&mut self, method: Method, gone: &[&Candidate]) -> Result<bool, DecideError> {
        let verdict = self.try_out(gone)?;
        let reasons = match verdict {
            Some(Verdict::Fits(mut replacement)) if replacement.n_more == 0 => {
                match worth(gone, &mut replacement, self.options, (&self.prices, &self.survey)) {
                    Ok(_) => return self.carry_out(method, gone, &replacement),
                    Err(reason) => vec![reason],
                }
            }
            Some(Verdict::Fails(reasons)) => reasons,
            // By itself it is asked about later.
            Some(Verdict::Fits(_)) | None => return Ok(false),
        };
        if let [only] = gone {
            // It is asked about again once pods may come to the others.
            self.tried.insert(only.node.clone(), reasons);
        }
        Ok(false)
    }

    /// Gives a node that is to go later a taint, until it goes or is put back.
    pub(super) fn keep_pods_off(&mut self, node: &ObjectRef) {
        let Some(mut known) = self.state.node(&node.key.name).map(|known| known.to_node()) else { return };
        let taint = Taint { key: LEAVING.to_owned(), effect: "NoSchedule".to_owned(), ..Taint::default() };
        known.spec.get_or_insert_default().taints.get_or_insert_default().push(taint);
        let mut played = Played::default();
        played.assume(self.state, node, Patch::Update(Object::from(known)));
        self.changed.extend(played.take_changed());
        self.leaving.insert(node.clone(), played);
        self.baseline = None;
    }

    /// Puts a node back that was to go.
    pub(super) fn let_pods_come(&mut self, node: &ObjectRef) {
        if let Some(tainted) = self.leaving.remove(node) {
            tainted.undo(self.state);
            self.changed.insert(node.key.name.to_string());
            self.baseline = None;
        }
    }
}

/// The pods that come to each node.
fn expected(moves: &[Move]) -> ExpectedNodes {
    let mut by_node: BTreeMap<Arc<str>, BTreeSet<Box<str>>> = BTreeMap::new();
    for (pod, node) in moves {
        by_node.entry(node.as_str().into()).or_default().insert(pod.clone());
    }
    by_node.into_iter().map(|(node, pods)| (node, Arc::new(pods))).collect()
}
