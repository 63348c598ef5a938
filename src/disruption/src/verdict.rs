//! A verdict for each node by itself, told without a whole decision where that can be: the scheduler that is kept says
//! whose pods fit elsewhere, a bound refuses what no new node could make cheaper, and alike pods share a plan.

use std::collections::{BTreeMap, BTreeSet};

use berth_decisions::{DecideError, Decider, Outlook, Question, Tally};
use berth_model::Money;
use berth_state::{ObjectRef, State, Time};

use crate::Options;
use crate::candidate::Candidate;
use crate::pending::{note_waiting, what_if_beside};
use crate::pods::disrupted;
use crate::prices::{Price, Prices};
use crate::reason::{Reason, reason};
use crate::simulate::{self, Replacement, insisting, places_on_slot_of};
use crate::survey::Survey;
use crate::worth::{SAVES_NOTHING, below, below_on_slots, cost_of, takes_any_launch, worth};

/// What consolidation would make of a node by itself, every other node staying.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// It is not considered, whatever came of it: why.
    Blocked(Vec<Reason>),
    /// It would go, and that pays.
    Pays {
        /// Dollars an hour that are saved: none between slots, whose rent is paid.
        savings: Money,
        /// Whether that is what some new nodes save: those of a whole decision mostly save more.
        by_packing: bool,
        /// How many pods are evicted.
        evictions: usize,
    },
    /// It would not pay, or its pods would have no place.
    Stays(Vec<Reason>),
    /// Only a whole what-if can tell: pods of it are bound to others, others wait for a place, or the plans that may be made are
    /// used up.
    Unknown,
}

/// The verdicts on all nodes of NodePools.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Verdicts {
    /// By node.
    pub nodes: BTreeMap<ObjectRef, Verdict>,
    /// How they were told.
    pub tally: Tally,
}

/// A verdict for every node of a NodePool. The decider keeps what it needs from one call to the next.
///
/// # Errors
/// The state does not know every kind yet.
pub fn verdicts(
    state: &mut State,
    decider: &mut Decider,
    options: &Options,
    now: Time,
) -> Result<Verdicts, DecideError> {
    let options = options.for_what_ifs();
    let prices = Prices::of(state.cluster(now));
    let mut survey = Survey::of(state, &prices, &options, now);
    note_waiting(&mut survey, (&mut *state, &mut *decider), &options, &prices, now)?;
    let mut verdicts = Verdicts::default();
    let mut open = Vec::with_capacity(survey.candidates.len());
    for candidate in &survey.candidates {
        let kept = kept(candidate);
        if kept.is_empty() {
            open.push(candidate);
        } else {
            verdicts.nodes.insert(candidate.node.clone(), Verdict::Blocked(kept));
        }
    }
    let known = (&prices, &survey);
    let (forecasts, tally) = forecasts(state, decider, &open, options.most_what_ifs, &options, known, now)?;
    verdicts.nodes.extend(forecasts);
    verdicts.tally = tally;
    Ok(verdicts)
}

/// The verdict on one node by the full what-if: a whole decision without it. [`verdicts`] tells the same, sooner.
///
/// # Errors
/// The state does not know every kind yet.
pub fn what_if_of(state: &mut State, node: &ObjectRef, options: &Options, now: Time) -> Result<Verdict, DecideError> {
    let options = options.for_what_ifs();
    let prices = Prices::of(state.cluster(now));
    let mut survey = Survey::of(state, &prices, &options, now);
    let decider = &mut Decider::new();
    note_waiting(&mut survey, (&mut *state, &mut *decider), &options, &prices, now)?;
    let Some(candidate) = survey.of_node(node) else {
        return Ok(Verdict::Blocked(vec![reason("no node of a NodePool has this name")]));
    };
    let kept = kept(candidate);
    if !kept.is_empty() {
        return Ok(Verdict::Blocked(kept));
    }
    let found = what_if_beside((&mut *state, &mut *decider), &[candidate], &options.decisions, &prices, now)?;
    told((state, decider), candidate, found, &options, (&prices, &survey), now)
}

/// What is told of a node after a what-if.
pub(crate) fn told(
    (state, decider): (&mut State, &mut Decider),
    candidate: &Candidate,
    found: simulate::Verdict,
    options: &Options,
    (prices, survey): (&Prices, &Survey),
    now: Time,
) -> Result<Verdict, DecideError> {
    let replacement = match found {
        simulate::Verdict::Fails(reasons) => return Ok(Verdict::Stays(reasons)),
        simulate::Verdict::Fits(replacement) => replacement,
    };
    let verdict = judged(candidate, replacement, options, (prices, survey));
    if matches!(verdict, Verdict::Pays { .. }) && survey.is_slot_for_who_waits(candidate, options) {
        let left = survey.left_slots(&options.undecided);
        if !places_on_slot_of((state, decider), candidate, left, &options.decisions, prices, now)? {
            return Ok(stays(SAVES_NOTHING, candidate.n_evictions));
        }
    }
    Ok(verdict)
}

/// What keeps a node whatever a what-if says.
pub(crate) fn kept(candidate: &Candidate) -> Vec<Reason> {
    let kept = candidate.blocked.iter().chain(&candidate.unripe);
    if candidate.is_empty {
        kept.cloned().collect()
    } else {
        kept.chain(&candidate.unconsolidatable).cloned().collect()
    }
}

/// Verdicts on candidates for consolidation.
pub(crate) fn forecasts(
    state: &mut State,
    decider: &mut Decider,
    candidates: &[&Candidate],
    most_plans: usize,
    options: &Options,
    (prices, survey): (&Prices, &Survey),
    now: Time,
) -> Result<(BTreeMap<ObjectRef, Verdict>, Tally), DecideError> {
    // Where Reservations' room has to move, too, only a whole decision can tell.
    let (with_rooms, candidates): (Vec<&Candidate>, Vec<&Candidate>) =
        candidates.iter().partition(|candidate| !candidate.held.is_empty());
    let questions: Vec<Question<'_>> = candidates
        .iter()
        .map(|candidate| Question {
            node: &candidate.node.key.name,
            below: below(candidate, options),
            takes_any: takes_any_launch(candidate),
            below_on_slots: below_on_slots(candidate, options, survey),
        })
        .collect();
    let (outlooks, mut tally) = decider.outlooks(state, &questions, most_plans, &options.decisions, now)?;
    // An outlook ignores the preferences of pods that move. With them, other pods may be the ones without a place. That is not asked
    // where the bound refuses the node or nothing could be launched: it would take a whole decision for nearly every node.
    let may_go = candidates.iter().zip(&outlooks).filter(|(_, outlook)| {
        matches!(outlook, Outlook::Fits { .. } | Outlook::Cheaper { .. } | Outlook::Launches { .. })
    });
    let may_go: Vec<&Candidate> = may_go.map(|(candidate, _)| *candidate).collect();
    let insisting = insisting((&mut *state, decider), &may_go, now)?;
    let insisting: BTreeSet<&str> =
        insisting.iter().filter_map(|(pod, _)| state.pod(&pod.key.namespace, &pod.key.name)?.node()).collect();
    let verdict = |(candidate, outlook): (&&Candidate, Outlook)| {
        let verdict = match outlook {
            Outlook::Unknown => Verdict::Unknown,
            Outlook::Dearer { .. } if candidate.is_reserved() && !survey.wants_slot_of(candidate, options) => {
                stays(SAVES_NOTHING, candidate.n_evictions)
            }
            Outlook::Dearer { floor, .. } => {
                let saved = cost_of(candidate, options) - floor;
                if saved > Money::ZERO && options.eviction_price > Money::ZERO {
                    let price = disrupted(options.eviction_price, candidate.cost);
                    let text = format!("saves at most ${saved:.4}/h, and disrupting it is priced at ${price:.4}/h");
                    stays(&text, candidate.n_evictions)
                } else {
                    stays("can't replace with a cheaper node", candidate.n_evictions)
                }
            }
            Outlook::NoPlace { pods } => {
                stays("not all pods would schedule: no other node has room, and none could be launched", pods)
            }
            Outlook::Fits { others_wait, .. } => {
                match judged(candidate, Replacement::default(), options, (prices, survey)) {
                    // They may come first to where its pods would go.
                    Verdict::Pays { .. } if others_wait => Verdict::Unknown,
                    verdict => verdict,
                }
            }
            Outlook::Cheaper { nodes, .. } => {
                let price = Price { marginal: nodes.price, list: nodes.price };
                let replacement = Replacement { n_more: nodes.count as usize, price, ..Replacement::default() };
                match judged(candidate, replacement, options, (prices, survey)) {
                    Verdict::Pays { savings, evictions, .. } => Verdict::Pays { savings, by_packing: true, evictions },
                    // What a whole decision saves more may be enough.
                    _ => Verdict::Unknown,
                }
            }
            Outlook::Launches { launches, .. } => {
                let mut price = Price::default();
                for launch in &launches {
                    price += prices.of_offering(&launch.offering);
                }
                let replacement = Replacement { n_more: launches.len(), launches, price, ..Replacement::default() };
                judged(candidate, replacement, options, (prices, survey))
            }
        };
        let is_to_be_asked = |verdict: &Verdict| {
            insisting.contains(&*candidate.node.key.name)
                || (matches!(verdict, Verdict::Pays { .. }) && survey.is_slot_for_who_waits(candidate, options))
        };
        let verdict = if is_to_be_asked(&verdict) { Verdict::Unknown } else { verdict };
        (candidate.node.clone(), verdict)
    };
    tally.unknown += with_rooms.len();
    let with_rooms = with_rooms.into_iter().map(|candidate| (candidate.node.clone(), Verdict::Unknown));
    Ok((candidates.iter().zip(outlooks).map(verdict).chain(with_rooms).collect(), tally))
}

fn stays(reason: &str, count: usize) -> Verdict {
    Verdict::Stays(vec![Reason::of_pods(reason, count)])
}

/// Whether it pays to replace a node so.
pub(crate) fn judged(
    candidate: &Candidate,
    mut replacement: Replacement,
    options: &Options,
    known: (&Prices, &Survey),
) -> Verdict {
    let pays = |savings| Verdict::Pays { savings, by_packing: false, evictions: candidate.n_evictions };
    // An empty node goes at any price.
    let is_needless = replacement.n_more == 0 || replacement.n_placed > 0;
    if candidate.is_empty && is_needless && replacement.launches.is_empty() {
        return pays(candidate.price.unwrap_or_default().marginal);
    }
    match worth(&[candidate], &mut replacement, options, known) {
        Ok(worth) => pays(worth.savings),
        Err(reason) => Verdict::Stays(vec![reason]),
    }
}
