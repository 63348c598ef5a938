//! Whether a command that has begun still holds: its nodes have the taint of a disruption, and time went by.

use std::collections::{BTreeMap, BTreeSet};

use berth_api::{ConsolidationPolicy, NodePool, labels};
use berth_decisions::{DecideError, Decider, Launch};
use berth_model::Money;
use berth_state::{Key, Object, ObjectRef, Patch, State, Time};
use k8s_openapi::api::core::v1::Node;

use crate::Options;
use crate::candidate::{Candidate, UNDECIDED};
use crate::command::{Method, Places};
use crate::pending::{note_waiting, what_if_beside};
use crate::play::{Played, play};
use crate::prices::Prices;
use crate::reason::{Reason, no_budget, reason};
use crate::replicas::static_replacement;
use crate::search::may_launch;
use crate::simulate::{Verdict, insisting, places_on_slot_of};
use crate::survey::Survey;
use crate::worth::{SAVES_NOTHING, worth};

/// A command as it would be decided now.
#[derive(Debug, Clone, PartialEq)]
pub struct Renewed {
    /// What is launched in place of its nodes.
    pub launches: Vec<Launch>,
    /// What it saves an hour.
    pub savings: Money,
    /// How many pods are evicted.
    pub evictions: usize,
}

/// Decides a command anew, as if its nodes were not tainted yet: whether they may still go, whether budgets allow that,
/// where their pods would find a place, and whether it still pays. `Err` inside says why it is not to be.
///
/// # Errors
/// The state does not know every kind yet.
pub fn renew(
    (state, decider): (&mut State, &mut Decider),
    nodes: &[ObjectRef],
    method: Method,
    options: &Options,
    now: Time,
) -> Result<Result<Renewed, Vec<Reason>>, DecideError> {
    // What has begun goes on for half of what would begin it: else a command would come and go with small changes.
    let price = berth_model::Money::from_pico(options.eviction_price.pico() / 2);
    let options = &Options { eviction_price: price, ..options.for_what_ifs() };
    let scope = if needs_all(state, nodes, method) { Scope::All } else { Scope::Own };
    again((state, decider), (nodes, scope), method, options, now, |(state, decider), (prices, survey), gone| {
        let mut unripe: Vec<Reason> = Vec::new();
        for candidate in gone {
            match method {
                Method::Drift | Method::DriftInSlot => {}
                Method::Emptiness => unripe.extend(candidate.unripe.iter().cloned()),
                Method::MultiNodeConsolidation | Method::SingleNodeConsolidation => {
                    unripe.extend(candidate.unripe.iter().chain(&candidate.unconsolidatable).cloned());
                }
            }
        }
        if !unripe.is_empty() {
            return Ok(Err(unripe));
        }
        let evictions = gone.iter().map(|candidate| candidate.n_evictions).sum();
        let mut price = crate::prices::Price::default();
        for candidate in gone {
            price += candidate.price.unwrap_or_default();
        }
        if method == Method::Emptiness {
            return Ok(Ok(Renewed { launches: Vec::new(), savings: price.marginal, evictions }));
        }
        let slots =
            if method == Method::DriftInSlot { own_slots(gone, survey, &options.undecided) } else { Vec::new() };
        for id in &slots {
            state.free_slot(id);
        }
        let verdict = match gone {
            [candidate] if candidate.is_static => {
                static_replacement(state, candidate, options, (prices, survey), 0, now)
            }
            _ => what_if_beside((&mut *state, &mut *decider), gone, &options.decisions, prices, now),
        };
        for id in &slots {
            state.unfree_slot(id);
        }
        let mut replacement = match verdict? {
            Verdict::Fails(reasons) => return Ok(Err(reasons)),
            Verdict::Fits(replacement) => replacement,
        };
        if !method.is_drift() && !may_launch(replacement.launches.len(), options) {
            let text = format!("can't remove without creating {} nodes", replacement.launches.len());
            return Ok(Err(vec![reason(text)]));
        }
        if !method.is_drift()
            && let Err(reason) = worth(gone, &mut replacement, options, (prices, survey))
        {
            return Ok(Err(vec![reason]));
        }
        if let [candidate] = gone
            && !method.is_drift()
            && survey.is_slot_for_who_waits(candidate, options)
        {
            let left = survey.left_slots(&options.undecided);
            if !places_on_slot_of((state, decider), candidate, left, &options.decisions, prices, now)? {
                return Ok(Err(vec![Reason::of_pods(SAVES_NOTHING, candidate.n_evictions)]));
            }
        }
        let savings = price.marginal - replacement.launched(prices).marginal;
        Ok(Ok(Renewed { launches: replacement.launches, savings, evictions }))
    })
}

/// The reservations with slots that these nodes will have left, once for each, and those that others are about to leave.
fn own_slots<'c>(gone: &[&'c Candidate], survey: &'c Survey, undecided: &'c BTreeSet<String>) -> Vec<&'c str> {
    let own = gone.iter().filter_map(|candidate| candidate.reservation.as_deref());
    let reservations: BTreeSet<&str> = own.clone().collect();
    let others = survey.left_slots(undecided).filter(|id| reservations.contains(id));
    own.chain(others).collect()
}

/// Whether the pods of a command's nodes would all find places now, on nodes that are up: then the nodes may go, and each pod
/// that moves has its place by name of the node. `Err` inside says what it waits for.
///
/// # Errors
/// The state does not know every kind yet.
pub fn confirm(
    (state, decider): (&mut State, &mut Decider),
    nodes: &[ObjectRef],
    method: Method,
    options: &Options,
    now: Time,
) -> Result<Result<Places, Vec<Reason>>, DecideError> {
    let scope = if method.is_drift() { Scope::All } else { Scope::Own };
    again((state, decider), (nodes, scope), method, options, now, |(state, decider), (_, survey), gone| {
        if method == Method::Emptiness {
            return Ok(Ok(Vec::new()));
        }
        let others = options.together.iter().filter_map(|name| survey.of_name(name));
        let all: Vec<&Candidate> = gone.iter().copied().chain(others).collect();
        let insists = insisting((&mut *state, &mut *decider), &all, now)?;
        let mut played = None;
        let together = (all.len() > gone.len()).then_some(&*all);
        // What they prefer is given up where it cannot be kept: the command goes on.
        let given_up = (!insists.is_empty()).then_some(&[][..]);
        // Those of high priority may take the places that others have been promised, though they find room elsewhere, too.
        let is_any_promised = !options.decisions.expected.is_empty();
        let as_promised =
            is_any_promised.then(|| berth_decisions::Options { expected_first: true, ..options.decisions.clone() });
        for insists in std::iter::once(&*insists).chain(given_up) {
            for gone in std::iter::once(gone).chain(together) {
                for decisions in std::iter::once(&options.decisions).chain(&as_promised) {
                    if played.is_none() {
                        played = play((&mut *state, &mut *decider), (gone, insists), &[], decisions, now)?;
                    }
                }
            }
        }
        let Some(mut played) = played else {
            let count = gone.iter().map(|candidate| candidate.n_evictions).sum();
            let text = "not all pods would find a place on nodes that are up";
            return Ok(Err(vec![Reason::of_pods(text, count)]));
        };
        let mut places = played.take_places();
        played.undo(state);
        if all.len() > gone.len() {
            let own = gone.iter().flat_map(|candidate| {
                let pods = state.pods_on(&candidate.node.key.name).map(|pod| pod.reference().key);
                pods.chain(candidate.held.iter().map(|room| room.key.clone()))
            });
            let own: BTreeSet<Key> = own.collect();
            places.retain(|(moved, _)| own.contains(moved));
        }
        Ok(Ok(places))
    })
}

/// Which nodes are surveyed anew.
#[derive(Debug, Clone, Copy)]
enum Scope {
    All,
    /// Those of the command.
    Own,
}

/// Whether [`renew`] depends on nodes that are not the command's own, budgets aside: how soon a node is to go that expires depends on
/// those before it, what its slot is worth on who could take it, and what a Balanced NodePool saves on all that it costs.
pub fn needs_all(state: &State, nodes: &[ObjectRef], method: Method) -> bool {
    let depends = |node: &ObjectRef| {
        let node = state.node(&node.key.name);
        let label = |key: &str| node.and_then(|node| node.label(key));
        let pool = label(labels::NODEPOOL).and_then(|pool| state.get_as::<NodePool>("", pool));
        label(labels::CAPACITY_TYPE) == Some(labels::RESERVED)
            || pool.is_some_and(|pool| pool.spec.disruption.consolidation_policy == ConsolidationPolicy::Balanced)
    };
    method.is_drift() || (method != Method::Emptiness && nodes.iter().any(depends))
}

/// Asks about a command's nodes as if they were not tainted, where they may still go together; else says why they may not.
fn again<T>(
    (state, decider): (&mut State, &mut Decider),
    (nodes, scope): (&[ObjectRef], Scope),
    method: Method,
    options: &Options,
    now: Time,
    ask: impl FnOnce(
        (&mut State, &mut Decider),
        (&Prices, &Survey),
        &[&Candidate],
    ) -> Result<Result<T, Vec<Reason>>, DecideError>,
) -> Result<Result<T, Vec<Reason>>, DecideError> {
    with_untainted(state, nodes, &options.undecided, |state| {
        let prices = Prices::of(state.cluster(now));
        let survey = match scope {
            Scope::All => {
                let mut survey = Survey::of(state, &prices, options, now);
                if !method.is_drift() {
                    note_waiting(&mut survey, (&mut *state, &mut *decider), options, &prices, now)?;
                }
                survey
            }
            Scope::Own => {
                let names = nodes.iter().map(|node| &*node.key.name);
                let names = names.chain(options.together.iter().map(String::as_str)).collect();
                Survey::of_nodes(state, &names, &prices, options, now)
            }
        };
        match chosen(&survey, nodes, method, (options.has_passed_budgets, now)) {
            Ok(gone) => ask((state, decider), (&prices, &survey), &gone),
            Err(reasons) => Ok(Err(reasons)),
        }
    })
}

/// The nodes of a command, where nothing keeps any of them and budgets allow that they go together, or have done so.
fn chosen<'s>(
    survey: &'s Survey,
    nodes: &[ObjectRef],
    method: Method,
    (has_passed_budgets, now): (bool, Time),
) -> Result<Vec<&'s Candidate>, Vec<Reason>> {
    let mut gone = Vec::with_capacity(nodes.len());
    let mut reasons = Vec::new();
    let mut of_pool: BTreeMap<&str, usize> = BTreeMap::new();
    for node in nodes {
        let Some(candidate) = survey.of_node(node) else {
            reasons.push(reason(format!("node {} is gone", node.key.name)));
            continue;
        };
        reasons.extend(candidate.blocked_from(method).iter().cloned());
        let is_as_it_was = match method {
            Method::Emptiness => candidate.is_empty,
            Method::Drift | Method::DriftInSlot => candidate.drift.is_some(),
            Method::MultiNodeConsolidation | Method::SingleNodeConsolidation => true,
        };
        if !is_as_it_was {
            let text = if method == Method::Emptiness { "pods came to it" } else { "it is not drifted any more" };
            reasons.push(Reason::of_pods(text, candidate.n_evictions));
        }
        *of_pool.entry(&candidate.pool).or_default() += 1;
        gone.push(candidate);
    }
    for (name, count) in of_pool.into_iter().filter(|_| !has_passed_budgets) {
        let Some(pool) = survey.pools.get(name) else { continue };
        match &pool.budgets {
            Ok(budgets) => match budgets.allowed(method.reason(), pool.nodes, now) {
                0 => {
                    let strictest = budgets.strictest(method.reason(), pool.nodes, now);
                    reasons.push(no_budget(name, strictest, method.is_drift()));
                }
                most if most < count => {
                    let text =
                        format!("budgets of NodePool {name:?} let {most} of these {count} nodes go for this now");
                    reasons.push(reason(text));
                }
                _ => {}
            },
            Err(error) => reasons.push(reason(format!("NodePool {name:?}: {error}"))),
        }
    }
    if reasons.is_empty() { Ok(gone) } else { Err(reasons) }
}

/// Asks the state while these nodes do not have the taint of a disruption, and leaves it as it was. Pods of undecided nodes
/// stay where they are meanwhile.
fn with_untainted<T>(
    state: &mut State,
    nodes: &[ObjectRef],
    undecided: &BTreeSet<String>,
    ask: impl FnOnce(&mut State) -> Result<T, DecideError>,
) -> Result<T, DecideError> {
    let mut played = Played::default();
    let names: BTreeSet<&str> = nodes.iter().map(|node| &*node.key.name).collect();
    let meant: BTreeSet<&str> = names.iter().copied().chain(undecided.iter().map(String::as_str)).collect();
    let tainted: Vec<Node> = meant.into_iter().filter_map(|name| state.node(name)).map(|node| node.to_node()).collect();
    for mut node in tainted {
        let is_own = node.metadata.name.as_deref().is_some_and(|name| names.contains(name));
        let Some(taints) = node.spec.as_mut().and_then(|spec| spec.taints.as_mut()) else { continue };
        if taints.iter().all(|taint| taint.key != labels::DISRUPTED_TAINT) {
            continue;
        }
        if is_own {
            taints.retain(|taint| taint.key != labels::DISRUPTED_TAINT);
        } else {
            let tainted = taints.iter_mut().filter(|taint| taint.key == labels::DISRUPTED_TAINT);
            tainted.for_each(|taint| UNDECIDED.clone_into(&mut taint.key));
        }
        let object = Object::from(node);
        if let Some(reference) = object.reference() {
            played.assume(state, &reference, Patch::Update(object));
        }
    }
    let answer = ask(state);
    played.undo(state);
    answer
}
