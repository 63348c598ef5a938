//! Karpenter's methods, one after another, each command considered in the cluster that those before it leave.

mod anew;
mod carry_out;
mod drifted;
mod karpenter;
mod limits;
mod proposed;
mod single;
mod whole;

pub(crate) use karpenter::may_launch;

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use berth_decisions::{DecideError, Decider, ExpectedNodes};
use berth_model::Money;
use berth_state::{ObjectRef, State, Time};

use crate::batches::Batches;
use crate::candidate::Candidate;
use crate::command::{Command, Disruption, Kept, Method, Why};
use crate::pending::Planned;
use crate::play::Played;
use crate::pods::disrupted;
use crate::prices::Prices;
use crate::program::lower_bound;
use crate::reason::{Reason, no_budget, reason, unreadable_budgets};
use crate::simulate::{Baseline, Replacement, Verdict, what_if};
use crate::survey::Survey;
use crate::{Methods, Options};

/// What would be disrupted, in which order, and why every other node stays. The state is left as it was.
///
/// # Errors
/// The state does not know every kind yet.
pub fn disrupt(state: &mut State, options: &Options, now: Time) -> Result<Disruption, DecideError> {
    disrupt_with(state, &mut Decider::new(), options, now)
}

/// The same with a decider that has followed the state.
///
/// # Errors
/// As [`disrupt`].
pub fn disrupt_with(
    state: &mut State,
    decider: &mut Decider,
    options: &Options,
    now: Time,
) -> Result<Disruption, DecideError> {
    let mut options = options.for_what_ifs();
    let mut surveyed = Surveyed::of(state, &options, now)?;
    // Where empty nodes alone are looked for, each is asked whether those who wait need it; Karpenter plans all together.
    let plans_first = !options.only_empty && options.methods == Methods::Berth;
    let planned = if plans_first {
        Planned::of((&mut *state, &mut *decider), &options.decisions, &surveyed.prices, now)?
    } else {
        Planned::default()
    };
    if let Some(known) = planned.baseline.as_ref().or(planned.before.as_ref()) {
        surveyed.survey.note_waiting(state, known.refused(), &options, now);
    }
    options.decisions = planned.decisions(&options.decisions);
    let mut search = Search::new(state, decider, &options, (surveyed, planned), now);
    let found = search.run().and_then(|()| search.pending_cost());
    let (played, leaving) = (std::mem::take(&mut search.played), std::mem::take(&mut search.leaving));
    let disruption = found.map(|pending| search.finish(pending));
    played.undo(state);
    for tainted in leaving.into_values() {
        tainted.undo(state);
    }
    disruption
}

/// The nodes before anything is done.
struct Surveyed {
    prices: Prices,
    survey: Survey,
    batches: Batches,
    hourly_cost: Money,
}

struct Search<'s> {
    state: &'s mut State,
    decider: &'s mut Decider,
    options: &'s Options,
    now: Time,
    prices: Prices,
    survey: Survey,
    /// Decided when a what-if asks for it first.
    baseline: Option<Baseline>,
    /// The same once no node is to go later, as far as it is known.
    standing: Option<Baseline>,
    /// Commands that were carried out.
    played: Played,
    /// Nodes that have changed since they were surveyed, by name.
    changed: BTreeSet<String>,
    /// Nodes that are to go, with the taint that keeps pods off them.
    leaving: BTreeMap<ObjectRef, Played>,
    /// Where pods go that move now, by node.
    moves: ExpectedNodes,
    commands: Vec<Command>,
    batches: Batches,
    /// Why what was tried last stays.
    tried: BTreeMap<ObjectRef, Vec<Reason>>,
    /// Nodes that commands launch: they are not disrupted again.
    launched: BTreeSet<String>,
    /// Where commands begin at once, the nodes that their pods come to: they stay until these are there.
    awaiting: BTreeSet<String>,
    /// Nodes that were asked about by themselves and stay.
    asked: BTreeSet<String>,
    n_launched: usize,
    /// Reservations with slots that nodes of commands leave, once for each, which do not count as free yet.
    left_slots: Vec<String>,
    hourly_cost: Money,
    /// What nodes cost that are launched for pods which wait while no command has begun; told where a plan is asked for.
    pending_cost: Money,
    /// Of these, what has been carried out before anything was asked.
    planned: Planned,
    lower_bound: Option<Money>,
    what_ifs: usize,
    /// Whether commands came of a program that knew all.
    has_proposed: bool,
}

// === impl Surveyed ===

impl Surveyed {
    fn of(state: &mut State, options: &Options, now: Time) -> Result<Self, DecideError> {
        let prices = Prices::of(state.cluster(now));
        if !state.is_synced() {
            return Err(DecideError::NotSynced { kinds: state.unlisted().collect(), cloud: !state.has_offerings() });
        }
        let survey = Survey::of(state, &prices, options, now);
        let batches = Batches::new(&survey, options.only_now, now);
        let hourly_cost = hourly_cost(state, &prices, &BTreeSet::new());
        Ok(Surveyed { prices, survey, batches, hourly_cost })
    }

    /// What no consolidation leaves at less, beside what is launched for pods that wait. Nothing is proven where that is not
    /// carried out beforehand: others may come to what is launched for them.
    fn lower_bound(&self, state: &mut State, planned: &Planned, options: &Options, now: Time) -> Option<Money> {
        let is_settled = !planned.nodes.is_empty()
            || match &planned.before {
                Some(before) => before.launches_nothing(),
                None => state.cluster(now).pending.is_empty(),
            };
        let bound = (options.bound && is_settled).then(|| lower_bound(state, &self.survey, options, now));
        Some(bound??.of(self.hourly_cost))
    }
}

// === impl Search ===

impl<'s> Search<'s> {
    fn new(
        state: &'s mut State,
        decider: &'s mut Decider,
        options: &'s Options,
        (surveyed, mut planned): (Surveyed, Planned),
        now: Time,
    ) -> Self {
        let lower_bound = surveyed.lower_bound(state, &planned, options, now);
        let Surveyed { prices, survey, batches, hourly_cost } = surveyed;
        let changed = planned.played.take_changed();
        Search {
            state,
            decider,
            options,
            now,
            prices,
            survey,
            baseline: planned.baseline.take(),
            standing: None,
            played: std::mem::take(&mut planned.played),
            changed,
            leaving: BTreeMap::new(),
            moves: ExpectedNodes::new(),
            commands: Vec::new(),
            batches,
            tried: BTreeMap::new(),
            launched: planned.nodes.clone(),
            awaiting: BTreeSet::new(),
            asked: options.asked.clone(),
            n_launched: 0,
            left_slots: Vec::new(),
            hourly_cost,
            pending_cost: Money::ZERO,
            planned,
            lower_bound,
            what_ifs: 0,
            has_proposed: false,
        }
    }

    fn run(&mut self) -> Result<(), DecideError> {
        self.pending_cost = match &self.planned.before {
            Some(_) if self.options.only_now => Money::ZERO,
            Some(before) => before.launched().marginal,
            None => self.pending_cost()?,
        };
        self.look_anew();
        if self.options.only_empty {
            let keeps_free = self.may_need_free_nodes();
            return self.empty(|candidate| !keeps_free || !is_free(candidate));
        }
        if self.options.methods == Methods::Karpenter {
            return self.as_karpenter();
        }
        // An empty node that costs nothing may take pods yet.
        self.empty(|candidate| !is_free(candidate))?;
        self.drifted()?;
        // Together they were asked about before, where nothing has changed since.
        let has_asked = !self.options.asked.is_empty();
        loop {
            while (!has_asked && self.several()?) || self.single()? {}
            if !self.may_need_free_nodes() {
                // Those whose slot a paid node could use, which found no room on the empty node itself.
                let empty = self.survey.candidates.iter().filter(|known| known.is_empty && is_free(known));
                let wanted = empty.filter(|known| self.survey.wants_slot_of_empty(known));
                let wanted: BTreeSet<ObjectRef> = wanted.map(|known| known.node.clone()).collect();
                self.empty(|candidate| wanted.contains(&candidate.node))?;
            }
            // A plan goes on with the round in which the slots are free that nodes have left.
            if self.options.only_now || self.left_slots.is_empty() || self.is_spent() {
                break;
            }
            self.begin_next_round();
        }
        let keeps_free = self.may_need_free_nodes();
        self.empty(|candidate| !keeps_free || !is_free(candidate))
    }

    /// Whether nodes that cost something wait until budgets let them go: their pods may need those that cost nothing.
    fn may_need_free_nodes(&self) -> bool {
        let mut paid = self.survey.candidates.iter().filter(|candidate| {
            !is_free(candidate)
                && !candidate.is_empty
                && candidate.blocked.is_empty()
                && candidate.unripe.is_empty()
                && candidate.unconsolidatable.is_empty()
        });
        paid.any(|candidate| self.batches.waits(&candidate.pool, Method::SingleNodeConsolidation))
    }

    /// What nodes cost that are launched for pods which wait, as things are now. Who acts asks for no sums.
    fn pending_cost(&mut self) -> Result<Money, DecideError> {
        if self.options.only_now || self.options.only_empty {
            return Ok(Money::ZERO);
        }
        // Who came to what is launched waits no longer.
        let is_anyone_waiting = !self.state.cluster(self.now).pending.is_empty();
        let others = if is_anyone_waiting { self.baseline()?.launched().marginal } else { Money::ZERO };
        Ok(self.planned.launched + others)
    }

    fn finish(self, settled_pending_cost: Money) -> Disruption {
        let gone: BTreeSet<&ObjectRef> = self.commands.iter().flat_map(|command| &command.nodes).collect();
        let stays = self.survey.candidates.iter().filter(|candidate| !gone.contains(&candidate.node));
        let stays = stays.filter(|candidate| !self.launched.contains(&*candidate.node.key.name));
        let is_cut_off = self.is_spent();
        let kept = stays.map(|candidate| Kept {
            node: candidate.node.clone(),
            reasons: self.reasons(candidate),
            why: self.why(candidate),
        });
        // Some are there until pods that stay on them have to leave.
        let mut without = self.planned.nodes.clone();
        without.extend(gone.iter().map(|node| node.key.name.to_string()));
        let settled_hourly_cost = hourly_cost(self.state, &self.prices, &without);
        let saved: Money = self.commands.iter().map(|command| command.savings).sum();
        debug_assert!(
            self.hourly_cost - saved == settled_hourly_cost,
            "{} less savings of {saved} leaves {settled_hourly_cost}",
            self.hourly_cost
        );
        // Empty nodes go at any price.
        let priced = self.commands.iter().filter(|command| command.method != Method::Emptiness);
        let disrupted = priced.map(|command| disrupted(self.options.eviction_price, command.cost));
        Disruption {
            kept: kept.collect(),
            hourly_cost: self.hourly_cost,
            settled_hourly_cost,
            pending_hourly_cost: self.pending_cost,
            settled_pending_hourly_cost: settled_pending_cost,
            priced_hourly_cost: disrupted.fold(settled_hourly_cost, |sum, price| sum + price),
            lower_bound: self.lower_bound,
            what_ifs: self.what_ifs,
            asked: self.asked,
            faults: self.survey.faults(),
            is_cut_off,
            commands: self.commands,
        }
    }

    /// Why a node stays: what blocks it, else what came of trying.
    fn reasons(&self, candidate: &Candidate) -> Vec<Reason> {
        let mut reasons = candidate.blocked_from(candidate.method()).to_vec();
        if let Some(pool) = self.survey.pools.get(&candidate.pool)
            && let Err(error) = &pool.budgets
        {
            reasons.push(unreadable_budgets(&candidate.pool, error));
        }
        // Of a node that drifted, whatever consolidation says, what keeps it from drift is the reason.
        if candidate.drift.is_none() {
            reasons.extend(candidate.unripe.iter().cloned());
            if !candidate.is_empty {
                reasons.extend(candidate.unconsolidatable.iter().cloned());
            }
        }
        if reasons.is_empty() && self.is_kept_by_budget(candidate) {
            let strictest = self.batches.strictest(&candidate.pool, candidate.method());
            reasons.push(no_budget(&candidate.pool, strictest, candidate.drift.is_some()));
        }
        if reasons.is_empty() {
            reasons.extend(self.tried.get(&candidate.node).into_iter().flatten().cloned());
        }
        if reasons.is_empty() {
            // Without a number: what is told of a node is to be the same the next time.
            let text = "not considered: the what-ifs of this look were used up before".to_owned();
            reasons.push(reason(text));
        }
        reasons
    }

    fn why(&self, candidate: &Candidate) -> Why {
        let has_budgets = self.survey.pools.get(&candidate.pool).is_some_and(|pool| pool.budgets.is_ok());
        if !candidate.blocked_from(candidate.method()).is_empty() || !has_budgets {
            Why::Blocked
        } else if candidate.drift.is_some() {
            if self.is_kept_by_budget(candidate) { Why::Budget } else { Why::Unconsolidatable }
        } else if candidate.is_static {
            // What keeps it does not change with time.
            Why::Unconsolidatable
        } else if !candidate.unripe.is_empty() {
            Why::Unripe
        } else if (candidate.is_empty || candidate.unconsolidatable.is_empty()) && self.is_kept_by_budget(candidate) {
            Why::Budget
        } else {
            Why::Unconsolidatable
        }
    }

    /// Whether no node of its NodePool may go as this one would.
    fn is_kept_by_budget(&self, candidate: &Candidate) -> bool {
        self.batches.most(&candidate.pool, candidate.method()) == 0
    }

    fn is_spent(&self) -> bool {
        self.what_ifs >= self.options.most_what_ifs
    }

    /// Those that a method may take, of NodePools whose budgets allow any.
    fn eligible(&self, method: Method, is_meant: impl Fn(&Candidate) -> bool) -> Vec<Candidate> {
        let candidates = self.survey.candidates.iter();
        let eligible = candidates.filter(|candidate| {
            candidate.blocked_from(method).is_empty()
                && !self.launched.contains(&*candidate.node.key.name)
                && self.batches.most(&candidate.pool, method) > 0
                && is_meant(candidate)
        });
        eligible.cloned().collect()
    }

    /// All nodes without pods that move, as many at once as budgets allow.
    fn empty(&mut self, is_meant: impl Fn(&Candidate) -> bool) -> Result<(), DecideError> {
        let mut left = self.eligible(Method::Emptiness, |candidate| {
            candidate.is_empty && candidate.unripe.is_empty() && is_meant(candidate)
        });
        while !left.is_empty() {
            let (mut now, mut later) = (Vec::new(), Vec::new());
            let mut taken: BTreeMap<String, usize> = BTreeMap::new();
            for candidate in left {
                let count = taken.entry(candidate.pool.clone()).or_default();
                if *count < self.batches.most(&candidate.pool, Method::Emptiness) {
                    *count += 1;
                    now.push(candidate);
                } else {
                    later.push(candidate);
                }
            }
            left = if self.options.only_now { Vec::new() } else { later };
            let now = self.needless(now)?;
            if now.is_empty() {
                continue;
            }
            self.carry_out(Method::Emptiness, &now.iter().collect::<Vec<_>>(), &Replacement::default())?;
        }
        Ok(())
    }

    /// The empty nodes that nobody needs. A pod that waits may be about to come to one. Nobody needs a node that fills the limit
    /// which pods wait for.
    fn needless(&mut self, empty: Vec<Candidate>) -> Result<Vec<Candidate>, DecideError> {
        let is_anyone_waiting = !self.state.cluster(self.now).pending.is_empty();
        let costs_no_more = |found: &Replacement, known: &Replacement| {
            found.price.marginal <= known.price.marginal && found.n_more <= known.n_more
        };
        // What the removal of the needless ones leads to.
        let mut known = Replacement::default();
        let all: Vec<&Candidate> = empty.iter().collect();
        if !is_anyone_waiting || self.fits(&all)?.is_some_and(|found| costs_no_more(&found, &known)) {
            return Ok(empty);
        }
        let mut needless: Vec<Candidate> = Vec::new();
        for candidate in empty {
            let mut together: Vec<&Candidate> = needless.iter().collect();
            together.push(&candidate);
            let found = self.fits(&together)?.filter(|found| {
                found.n_placed > known.n_placed || found.n_placed == known.n_placed && costs_no_more(found, &known)
            });
            if let Some(found) = found {
                known = found;
                needless.push(candidate);
            } else {
                let text = "pods that wait for a place are to come to it";
                self.stays(&candidate, vec![reason(text)]);
            }
        }
        Ok(needless)
    }

    /// What the removal of these nodes leads to, where nobody loses a place.
    fn fits(&mut self, gone: &[&Candidate]) -> Result<Option<Replacement>, DecideError> {
        Ok(match self.try_out(gone)? {
            Some(Verdict::Fits(replacement)) => Some(replacement),
            Some(Verdict::Fails(_)) | None => None,
        })
    }

    /// Those that consolidation may take, by how much their price is above what moving their pods costs.
    fn consolidatable(&self) -> Vec<Candidate> {
        let mut candidates = self.eligible(Method::SingleNodeConsolidation, |candidate| {
            !candidate.is_empty
                && !self.is_awaiting(candidate)
                && candidate.drift.is_none()
                && candidate.unripe.is_empty()
                && candidate.unconsolidatable.is_empty()
        });
        let methods = self.options.methods;
        candidates.sort_by(|a, b| {
            // Price by cost, without a division; reserved nodes are last, the dearest by list first.
            let by_cost = |a: Money, b: Money, x: &Candidate, y: &Candidate| {
                // Karpenter knows what is left of a lifetime, and ranks without it.
                let cost = |other: &Candidate| match methods {
                    Methods::Berth => other.cost,
                    Methods::Karpenter => other.full_cost,
                };
                let over = |money: Money, other: &Candidate| {
                    (money.pico() / 1_000_000).saturating_mul(i128::from(cost(other).parts()))
                };
                over(b, x).cmp(&over(a, y))
            };
            let (p, q) = (a.price.unwrap_or_default(), b.price.unwrap_or_default());
            let marginal = by_cost(p.marginal, q.marginal, a, b);
            marginal.then_with(|| by_cost(p.list, q.list, a, b)).then_with(|| a.node.cmp(&b.node))
        });
        candidates
    }

    /// A candidate as the commands since leave it: pods may have come to it.
    fn as_it_is(&self, candidate: &Candidate, method: Method) -> Option<Candidate> {
        let known = self.survey.of_node(&candidate.node);
        known.filter(|known| known.blocked_from(method).is_empty()).cloned()
    }

    /// Whether pods of commands that begin at once are about to come to it.
    fn is_awaiting(&self, candidate: &Candidate) -> bool {
        self.awaiting.contains(&*candidate.node.key.name)
    }

    /// Whether a caller who looks at a part at a time has the answer already.
    fn is_asked(&self, candidate: &Candidate) -> bool {
        self.options.only_now && self.asked.contains(&*candidate.node.key.name)
    }

    fn stays(&mut self, candidate: &Candidate, reasons: Vec<Reason>) {
        self.asked.insert(candidate.node.key.name.to_string());
        self.tried.insert(candidate.node.clone(), reasons);
    }

    /// A what-if; `None` where there may be no more.
    fn try_out(&mut self, gone: &[&Candidate]) -> Result<Option<Verdict>, DecideError> {
        if self.is_spent() {
            return Ok(None);
        }
        self.what_ifs += 1;
        let baseline = self.baseline()?;
        let decisions = self.decisions();
        let found = what_if((self.state, self.decider), gone, &decisions, (&self.prices, &baseline), self.now)?;
        if let Verdict::Fits(replacement) = &found
            && !replacement.kept_out.is_empty()
        {
            let sent: BTreeSet<&str> = self.moves.values().flat_map(|pods| pods.iter()).map(|pod| &**pod).collect();
            let n_kept_out = replacement.kept_out.iter().filter(|pod| sent.contains(&***pod)).count();
            if n_kept_out > 0 {
                let text = "not all pods would find the places that were planned for them";
                return Ok(Some(Verdict::Fails(vec![Reason::of_pods(text, n_kept_out)])));
            }
        }
        Ok(Some(found))
    }

    /// What is decided while every node stays that is there now.
    fn baseline(&mut self) -> Result<Baseline, DecideError> {
        if let Some(known) = self.baseline.clone() {
            return Ok(known);
        }
        let found = match self.standing.clone().filter(|_| self.leaving.is_empty()) {
            Some(known) => known,
            None => Baseline::of((self.state, self.decider), &self.options.decisions, &self.prices, self.now)?,
        };
        self.baseline = Some(found.clone());
        Ok(found)
    }

    /// How pods are placed, which may have their nodes named.
    fn decisions(&self) -> Cow<'s, berth_decisions::Options> {
        if self.moves.is_empty() {
            return Cow::Borrowed(&self.options.decisions);
        }
        let mut decisions = self.options.decisions.clone();
        for (node, pods) in &self.moves {
            let expected = decisions.expected.entry(Arc::clone(node)).or_default();
            Arc::make_mut(expected).extend(pods.iter().cloned());
        }
        Cow::Owned(decisions)
    }

    /// Surveys the nodes that have changed.
    fn look_anew(&mut self) {
        if self.changed.is_empty() {
            return;
        }
        let changed = std::mem::take(&mut self.changed);
        self.state.cluster(self.now);
        self.survey.refresh(self.state, (&changed, &self.launched), &self.prices, self.options, self.now);
    }
}

/// Whether a node's rent is paid whether it is there or not.
fn is_free(candidate: &Candidate) -> bool {
    candidate.price.is_some_and(|price| price.marginal <= Money::ZERO)
}

/// What all nodes of known types cost an hour, but for these, reserved as 0.
fn hourly_cost(state: &State, prices: &Prices, without: &BTreeSet<String>) -> Money {
    let labels = state.nodes().filter(|node| !without.contains(&**node.name())).filter_map(|node| node.labels());
    labels.filter_map(|labels| prices.of_labels(labels)).map(|price| price.marginal).sum()
}
