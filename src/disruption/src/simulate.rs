//! What if these nodes were gone? The provisioner's and the scheduler's own answer, over a fork of the state.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use berth_decisions::{DecideError, Decider, Decision, Launch, Nomination, Preferring, give_places};
use berth_model::{Insists, Money};
use berth_state::{Key, Kind, ObjectRef, State, Time};

use crate::candidate::Candidate;
use crate::prices::{Price, Prices};
use crate::reason::{Reason, reason};

/// What would be launched for the pods of nodes that are gone.
#[derive(Debug, Clone, Default)]
pub(crate) struct Replacement {
    /// The nodes that take such pods.
    pub(crate) launches: Vec<Launch>,
    /// What all launches cost more than without the removal.
    pub(crate) price: Price,
    /// How many more nodes are launched in all than without the removal.
    pub(crate) n_more: usize,
    /// How many more have a place than without the removal, as where a limit has room for another node then.
    pub(crate) n_placed: usize,
    /// The nodes among them that are launched for these pods alone.
    pub(crate) for_placed: ForPlaced,
    /// Pods that come to nodes that are there.
    pub(crate) moves: Vec<Nomination>,
    /// Such pods, by `namespace/name`, for which room is kept where they are sent, and which may not go there now.
    pub(crate) kept_out: Vec<Box<str>>,
    /// Such pods that keep what they prefer.
    pub(crate) insists: Vec<Insisting>,
}

/// A pod, and the preferences that hold where it runs.
pub(crate) type Insisting = (ObjectRef, Insists);

/// Nodes that are launched for nobody but those who would wait without the removal.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct ForPlaced {
    pub(crate) price: Price,
    pub(crate) count: usize,
}

/// Where pods come to nodes that are there: by `namespace/name`, the node.
pub(crate) type ByPod<'m> = BTreeMap<Box<str>, &'m str>;

// === impl Replacement ===

impl Replacement {
    /// What the nodes cost that take such pods, others on them or not.
    pub(crate) fn launched(&self, prices: &Prices) -> Price {
        self.launches.iter().map(|launch| prices.of_offering(&launch.offering)).sum()
    }

    pub(crate) fn places(&self) -> ByPod<'_> {
        self.moves.iter().map(|known| (by_name(&known.object.key), &*known.node.key.name)).collect()
    }
}

/// What would become of the pods.
#[derive(Debug, Clone)]
pub(crate) enum Verdict {
    /// All of them find a place.
    Fits(Replacement),
    /// Some do not, or others would have to give way.
    Fails(Vec<Reason>),
}

/// What is decided while every node stays.
#[derive(Debug, Clone)]
pub(crate) struct Baseline {
    price: Price,
    n_evictions: usize,
    /// Those who have no place.
    refused: Arc<BTreeSet<Key>>,
    n_launches: usize,
    /// Existing nodes to which waiting pods are bound or nominated.
    come_to: Arc<BTreeSet<Box<str>>>,
}

/// What the launches of a decision cost.
fn price_of(decision: &Decision, prices: &Prices) -> Price {
    decision.launches.iter().map(|launch| prices.of_offering(&launch.offering)).sum()
}

/// The nodes to which waiting pods are bound or nominated.
fn nodes_come_to(decision: &Decision) -> BTreeSet<Box<str>> {
    let bound = decision.bindings.iter().map(|known| &known.node);
    let nominated = decision.nominations.iter().map(|known| &known.node);
    bound.chain(nominated).map(|node| (&*node.key.name).into()).collect()
}

/// Those whom a decision leaves without a place.
fn refused(decision: &Decision) -> impl Iterator<Item = &Key> {
    decision.refusals.iter().flat_map(|refusal| &refusal.objects).map(|object| &object.key)
}

impl Baseline {
    /// Whether nothing is launched while every node stays.
    pub(crate) fn launches_nothing(&self) -> bool {
        self.n_launches == 0
    }

    /// What nodes cost that are launched while every node stays.
    pub(crate) fn launched(&self) -> Price {
        self.price
    }

    pub(crate) fn of(
        (state, decider): (&mut State, &mut Decider),
        options: &berth_decisions::Options,
        prices: &Prices,
        now: Time,
    ) -> Result<Self, DecideError> {
        Ok(Baseline::told(&decider.decide(state, options, now)?, prices))
    }

    /// What a decision says while every node stays.
    pub(crate) fn told(decision: &Decision, prices: &Prices) -> Self {
        Baseline {
            price: price_of(decision, prices),
            n_evictions: decision.evictions.len(),
            refused: Arc::new(refused(decision).cloned().collect()),
            n_launches: decision.launches.len(),
            come_to: Arc::new(nodes_come_to(decision)),
        }
    }

    /// The same with so many launches more, at this price.
    pub(crate) fn with(self, launched: Money, count: usize) -> Self {
        let price = Price { marginal: self.price.marginal + launched, ..self.price };
        Baseline { price, n_launches: self.n_launches + count, ..self }
    }

    /// Those who have no place.
    pub(crate) fn refused(&self) -> Arc<BTreeSet<Key>> {
        Arc::clone(&self.refused)
    }

    /// Whether it costs no more, and nobody else is without a place or gives way.
    pub(crate) fn is_no_worse_than(&self, other: &Baseline) -> bool {
        self.price.marginal <= other.price.marginal
            && self.n_launches <= other.n_launches
            && self.places_as_many_as(other)
    }

    /// Whether as many have a place as by another, and no more give way.
    pub(crate) fn places_as_many_as(&self, other: &Baseline) -> bool {
        self.refused.len() <= other.refused.len() && self.n_evictions <= other.n_evictions
    }

    /// Whether more have a place than by another, and no more give way.
    pub(crate) fn places_more_than(&self, other: &Baseline) -> bool {
        self.refused.len() < other.refused.len() && self.places_as_many_as(other)
    }

    /// What a decision launches for nobody but those who have no place by this one.
    fn for_placed(&self, decision: &Decision, prices: &Prices) -> ForPlaced {
        let mut found = ForPlaced::default();
        for launch in &decision.launches {
            if launch.pods.iter().chain(&launch.reservations).all(|object| self.refused.contains(&object.key)) {
                found.price += prices.of_offering(&launch.offering);
                found.count += 1;
            }
        }
        found
    }

    /// How many nodes are launched while every node stays.
    pub(crate) fn n_launches(&self) -> usize {
        self.n_launches
    }
}

/// A pod as nodes expect it.
pub(crate) fn by_name(pod: &Key) -> Box<str> {
    format!("{}/{}", pod.namespace, pod.name).into()
}

/// The pods of nodes that prefer some places to others. Nodes that drifted go whatever becomes of that.
fn preferring(
    (state, decider): (&mut State, &mut Decider),
    gone: &[&Candidate],
    now: Time,
) -> Result<Vec<Preferring>, DecideError> {
    let may_lose = |candidate: &Candidate| candidate.drift.is_some() || candidate.is_empty;
    let nodes = gone.iter().filter(|candidate| !may_lose(candidate)).map(|candidate| &*candidate.node.key.name);
    decider.preferring(state, &nodes.collect::<Vec<&str>>(), now)
}

fn that_insist(state: &State, preferring: &[Preferring]) -> Vec<Insisting> {
    let of_pod = |known: &Preferring| {
        let pod = state.pod(&known.pod.namespace, &known.pod.name)?;
        (!known.holds.is_empty()).then(|| (pod.reference(), known.holds))
    };
    preferring.iter().filter_map(of_pod).collect()
}

/// The pods of these nodes that have what they prefer where they run, and insist on it.
pub(crate) fn insisting(
    (state, decider): (&mut State, &mut Decider),
    gone: &[&Candidate],
    now: Time,
) -> Result<Vec<Insisting>, DecideError> {
    let preferring = preferring((&mut *state, decider), gone, now)?;
    Ok(that_insist(state, &preferring))
}

/// Removes the nodes in a fork, and asks where their pods go. These keep the preferences that hold now, and so do those whom they join.
pub(crate) fn what_if(
    (state, decider): (&mut State, &mut Decider),
    gone: &[&Candidate],
    options: &berth_decisions::Options,
    (prices, baseline): (&Prices, &Baseline),
    now: Time,
) -> Result<Verdict, DecideError> {
    let preferring = preferring((&mut *state, &mut *decider), gone, now)?;
    // A pod without what it prefers may move beside pods that have it.
    let may_crowd = preferring.iter().any(|pod| !pod.of_others.without(pod.holds).is_empty());
    let insists = that_insist(state, &preferring);
    let found = ask((&mut *state, &mut *decider), (gone, insists), options, (prices, baseline), now)?;
    if let Verdict::Fits(replacement) = &found
        && may_crowd
    {
        let n_losing = n_losing((state, decider), (gone, preferring), replacement, now)?;
        if n_losing > 0 {
            let text = "pods would lose what they prefer of their neighbours";
            return Ok(Verdict::Fails(vec![Reason::of_pods(text, n_losing)]));
        }
    }
    Ok(found)
}

/// How many of the pods that move, and of those whom they join, would lose a preference about other pods. Where nodes are launched,
/// of which nothing is in the state, only what pods ask of their own node is looked at.
fn n_losing(
    (state, decider): (&mut State, &mut Decider),
    (gone, mut before): (&[&Candidate], Vec<Preferring>),
    Replacement { moves, launches, .. }: &Replacement,
    now: Time,
) -> Result<usize, DecideError> {
    let nodes: BTreeSet<&str> = moves.iter().map(|known| &*known.node.key.name).collect();
    let nodes: Vec<&str> = nodes.into_iter().collect();
    before.extend(decider.preferring(state, &nodes, now)?);
    let mut fork = state.fork();
    fork.add_staying(gone.iter().flat_map(|candidate| &candidate.left_behind));
    for candidate in gone {
        drop(fork.remove_node(&candidate.node, now));
    }
    for known in moves {
        // A Reservation takes no place beside others.
        if let Ok(again) = fork.remake(&known.object) {
            drop(fork.bind(&again, &known.node.key.name, BTreeMap::new()));
        }
    }
    let after = decider.preferring(fork.state(), &nodes, now)?;
    let after: BTreeMap<&Key, &Preferring> = after.iter().map(|known| (&known.pod, known)).collect();
    let loses = |known: &&Preferring| {
        after.get(&known.pod).is_some_and(|after| {
            let asked = if launches.is_empty() { known.of_others } else { known.on_host };
            let is_lost = |before: Insists, after: Insists| !before.and(asked).without(after).is_empty();
            is_lost(known.holds, after.holds) || (launches.is_empty() && is_lost(known.keeps, after.keeps))
        })
    };
    Ok(before.iter().filter(loses).count())
}

/// Asks once more without the Reservations that wait, where these would have what pods are to move to: they make nobody give way, nor
/// do they come where others are expected, though they are planned before them.
fn ask(
    (state, decider): (&mut State, &mut Decider),
    (gone, insists): (&[&Candidate], Vec<Insisting>),
    options: &berth_decisions::Options,
    (prices, baseline): (&Prices, &Baseline),
    now: Time,
) -> Result<Verdict, DecideError> {
    let asked = (gone, &*insists);
    let found = ask_beside((&mut *state, &mut *decider), asked, &BTreeSet::new(), options, (prices, baseline), now)?;
    let Asked { verdict: Verdict::Fails(_), rooms_placed } = &found else { return Ok(found.verdict) };
    let waiting = rooms_placed.iter().filter(|room| baseline.refused.contains(&room.key));
    let aside: BTreeSet<ObjectRef> = waiting.cloned().collect();
    if aside.is_empty() || state.cluster(now).rules.preempts {
        return Ok(found.verdict);
    }
    let again = ask_beside((state, decider), asked, &aside, options, (prices, baseline), now)?;
    Ok(if matches!(again.verdict, Verdict::Fits(_)) { again.verdict } else { found.verdict })
}

/// What becomes of the pods, and which of the Reservations that wait have a place then.
struct Asked {
    verdict: Verdict,
    rooms_placed: Vec<ObjectRef>,
}

/// These Reservations wait on, whatever there is for them.
fn ask_beside(
    (state, decider): (&mut State, &mut Decider),
    (gone, insists): (&[&Candidate], &[Insisting]),
    aside: &BTreeSet<ObjectRef>,
    options: &berth_decisions::Options,
    (prices, baseline): (&Prices, &Baseline),
    now: Time,
) -> Result<Asked, DecideError> {
    let failed = |reasons| Ok(Asked { verdict: Verdict::Fails(reasons), rooms_placed: Vec::new() });
    let mut fork = state.fork();
    // By name: one that moved before, in a command that this one follows, is not the one that is observed any more.
    let mut moved: BTreeSet<Key> = BTreeSet::new();
    for room in gone.iter().flat_map(|candidate| &candidate.held) {
        if let Err(error) = fork.unhold(room) {
            return failed(vec![reason(error.to_string())]);
        }
        moved.insert(room.key.clone());
    }
    fork.add_staying(gone.iter().flat_map(|candidate| &candidate.left_behind));
    for candidate in gone {
        match fork.remove_node(&candidate.node, now) {
            Ok(pods) => moved.extend(pods.into_iter().map(|pod| pod.key)),
            Err(error) => return failed(vec![reason(error.to_string())]),
        }
    }
    for (pod, on) in insists {
        if let Err(error) = fork.insist(pod, *on) {
            return failed(vec![reason(error.to_string())]);
        }
    }
    for room in aside {
        if let Err(error) = fork.release(room) {
            return failed(vec![reason(error.to_string())]);
        }
    }
    let mut decision = decider.decide(fork.state(), options, now)?;
    give_places(&mut decision, &moved, fork.state());
    let insisting: BTreeSet<&Key> = insists.iter().map(|(pod, _)| &pod.key).collect();
    let mut without_place: BTreeMap<String, usize> = BTreeMap::new();
    for refusal in &decision.refusals {
        let why = refusal.reasons.first().map_or("no node admits them", |(text, _)| text.as_str());
        for object in refusal.objects.iter().filter(|object| moved.contains(&object.key)) {
            if object.key.kind == Kind::Reservation {
                let text = format!("the room of Reservation {} would find no other place: {why}", object.key.name);
                without_place.insert(text, 0);
            } else {
                let where_they = if insisting.contains(&object.key) { " where they have what they prefer" } else { "" };
                *without_place.entry(format!("not all pods would schedule{where_they}: {why}")).or_default() += 1;
            }
        }
    }
    if !without_place.is_empty() {
        let reasons = without_place.into_iter();
        let reasons = reasons.map(|(reason, count)| Reason::of_pods(reason, count)).collect();
        return Ok(Asked { verdict: Verdict::Fails(reasons), rooms_placed: rooms_placed(&decision) });
    }
    let n_refused = refused(&decision).count() + aside.len();
    if n_refused > baseline.refused.len() {
        let count = n_refused - baseline.refused.len();
        return failed(vec![Reason::of_pods("other pods would find no place", count)]);
    }
    if decision.evictions.len() > baseline.n_evictions {
        let count = decision.evictions.len() - baseline.n_evictions;
        return failed(vec![Reason::of_pods("other pods would have to give way", count)]);
    }
    let all = price_of(&decision, prices);
    let price = Price { marginal: all.marginal - baseline.price.marginal, list: all.list - baseline.price.list };
    let takes_moved =
        |launch: &Launch| launch.pods.iter().chain(&launch.reservations).any(|object| moved.contains(&object.key));
    let n_more = decision.launches.len().saturating_sub(baseline.n_launches);
    // Who comes to one of these nodes has no need that others find a place for it.
    let is_come_to = gone.iter().any(|candidate| baseline.come_to.contains(&*candidate.node.key.name));
    let n_placed = if is_come_to { 0 } else { baseline.refused.len() - n_refused };
    // Where another has lost its place for it, nothing is gained.
    let for_placed = if n_placed > 0 && refused(&decision).all(|key| baseline.refused.contains(key)) {
        baseline.for_placed(&decision, prices)
    } else {
        ForPlaced::default()
    };
    let launches = decision.launches.into_iter().filter(takes_moved).collect();
    let placed = decision.nominations.iter().chain(&decision.moves).filter(|known| known.is_kept_out);
    let kept_out = placed.map(|known| &known.object.key).filter(|key| moved.contains(*key)).map(by_name).collect();
    let replacement = Replacement {
        launches,
        price,
        n_more,
        n_placed,
        for_placed,
        moves: decision.moves,
        kept_out,
        insists: insists.to_vec(),
    };
    Ok(Asked { verdict: Verdict::Fits(replacement), rooms_placed: Vec::new() })
}

/// The Reservations that a decision has a place for.
fn rooms_placed(decision: &Decision) -> Vec<ObjectRef> {
    let launched = decision.launches.iter().flat_map(|launch| &launch.reservations);
    let nominated = decision.nominations.iter().map(|known| &known.object);
    let objects = launched.chain(nominated).chain(decision.bindings.iter().map(|known| &known.object));
    objects.filter(|object| object.key.kind == Kind::Reservation).cloned().collect()
}

/// Whether somebody who has no place, nor will have one on the slots that others leave, has one once this node has left its own.
pub(crate) fn places_on_slot_of<'l>(
    (state, decider): (&mut State, &mut Decider),
    candidate: &Candidate,
    left_slots: impl Iterator<Item = &'l str> + Clone,
    options: &berth_decisions::Options,
    prices: &Prices,
    now: Time,
) -> Result<bool, DecideError> {
    let Some(own) = candidate.reservation.as_deref() else { return Ok(false) };
    left_slots.clone().for_each(|id| state.free_slot(id));
    let before = Baseline::of((&mut *state, &mut *decider), options, prices, now);
    state.free_slot(own);
    let found =
        before.and_then(|before| what_if((&mut *state, decider), &[candidate], options, (prices, &before), now));
    left_slots.for_each(|id| state.unfree_slot(id));
    state.unfree_slot(own);
    Ok(matches!(found?, Verdict::Fits(found) if found.n_placed > 0))
}
