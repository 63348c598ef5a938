//! Pods that wait come first: nodes are launched for them whatever is disrupted.
//!
//! So these nodes are in the state before anything is asked, with their pods on them, and a removal is measured beside them.
//! Planned anew in each what-if, a luckier packing of those who wait counted as saved by the removal, and was gone once
//! they were planned again.

use std::collections::BTreeSet;
use std::sync::Arc;

use berth_decisions::{DecideError, Decider, Decision, ExpectedNodes, Launch};
use berth_model::Money;
use berth_state::{Key, Kind, State, Time};

use crate::candidate::Candidate;
use crate::play::{Played, stand_up};
use crate::prices::Prices;
use crate::simulate::{Baseline, Verdict, by_name, what_if};
use crate::survey::Survey;
use crate::{Methods, Options};

/// What is launched for pods that wait, as it is carried out.
#[derive(Debug, Default)]
pub(crate) struct Planned {
    /// What was decided before any of it was carried out; `None` where nobody waits.
    pub(crate) before: Option<Baseline>,
    /// What is decided now, with [`Planned::decisions`].
    pub(crate) baseline: Option<Baseline>,
    /// The nodes that were launched, by name.
    pub(crate) nodes: BTreeSet<String>,
    /// What they cost an hour.
    pub(crate) launched: Money,
    pub(crate) played: Played,
    /// Who is to come to them: those who run yet, on nodes that go away, stay until then.
    expected: ExpectedNodes,
}

// === impl Planned ===

impl Planned {
    /// Launches nodes for pods that wait, as far as that can be carried out: a Reservation takes more than one write.
    pub(crate) fn of(
        (state, decider): (&mut State, &mut Decider),
        options: &berth_decisions::Options,
        prices: &Prices,
        now: Time,
    ) -> Result<Self, DecideError> {
        if state.cluster(now).pending.is_empty() {
            return Ok(Planned::default());
        }
        let decision = decider.decide(state, options, now)?;
        let before = Baseline::told(&decision, prices);
        let unplanned = Planned { before: Some(before.clone()), baseline: Some(before.clone()), ..Planned::default() };
        let launches = named(state, &decision);
        if launches.is_empty() {
            return Ok(unplanned);
        }
        let Some(played) = stand_up(state, &launches, now) else { return Ok(unplanned) };
        let expected = launches.iter().map(|(name, launch)| {
            let pods: BTreeSet<Box<str>> = launch.pods.iter().map(|pod| by_name(&pod.key)).collect();
            (Arc::from(name.as_str()), Arc::new(pods))
        });
        let mut planned = Planned {
            before: Some(before.clone()),
            baseline: None,
            nodes: launches.iter().map(|(name, _)| name.clone()).collect(),
            launched: launches.iter().map(|(_, launch)| prices.of_offering(&launch.offering).marginal).sum(),
            played,
            expected: expected.collect(),
        };
        let decisions = planned.decisions(options);
        let arrived = decider.decide(state, &decisions, now)?;
        let is_new = |node: &Key| planned.nodes.contains(&*node.name);
        for binding in arrived.bindings.iter().filter(|known| is_new(&known.node.key) && known.draws_from.is_none()) {
            planned.played.bind(state, binding);
        }
        let after = Baseline::of((state, decider), &decisions, prices, now)?;
        if after.clone().with(planned.launched, planned.nodes.len()).is_no_worse_than(&before) {
            planned.baseline = Some(after);
            return Ok(planned);
        }
        planned.played.undo(state);
        Ok(unplanned)
    }

    /// How pods are placed beside these.
    pub(crate) fn decisions(&self, options: &berth_decisions::Options) -> berth_decisions::Options {
        let mut decisions = options.clone();
        decisions.expected.extend(self.expected.iter().map(|(node, pods)| (Arc::clone(node), Arc::clone(pods))));
        decisions
    }
}

/// What would become of the pods of nodes that are gone, beside what is launched for those who wait. The state is left as it was.
pub(crate) fn what_if_beside(
    (state, decider): (&mut State, &mut Decider),
    gone: &[&Candidate],
    options: &berth_decisions::Options,
    prices: &Prices,
    now: Time,
) -> Result<Verdict, DecideError> {
    let planned = Planned::of((&mut *state, &mut *decider), options, prices, now)?;
    let decisions = planned.decisions(options);
    let baseline = match planned.baseline {
        Some(known) => Ok(known),
        None => Baseline::of((&mut *state, &mut *decider), &decisions, prices, now),
    };
    let verdict =
        baseline.and_then(|baseline| what_if((&mut *state, decider), gone, &decisions, (prices, &baseline), now));
    planned.played.undo(state);
    verdict
}

/// Counts those who have no place now among those who could use slots, where nodes are on any.
pub(crate) fn note_waiting(
    survey: &mut Survey,
    (state, decider): (&mut State, &mut Decider),
    options: &Options,
    prices: &Prices,
    now: Time,
) -> Result<(), DecideError> {
    let has_slots = survey.candidates.iter().any(Candidate::is_reserved);
    if has_slots && options.methods == Methods::Berth && !state.cluster(now).pending.is_empty() {
        let refused = Baseline::of((&mut *state, decider), &options.decisions, prices, now)?.refused();
        survey.note_waiting(state, refused, options, now);
    }
    Ok(())
}

/// The launches that can be carried out, with names that no node has.
fn named<'d>(state: &State, decision: &'d Decision) -> Vec<(String, &'d Launch)> {
    let plain = decision.launches.iter().filter(|launch| launch.reservations.is_empty() && launch.draws.is_empty());
    let mut number = 0;
    let mut name = |pool: &str| loop {
        number += 1;
        let name = format!("{pool}-pending-{number:05}");
        if !state.has(&Key::new(Kind::Node, "", &name)) {
            return name;
        }
    };
    plain.map(|launch| (name(&launch.node_pool.key.name), launch)).collect()
}
