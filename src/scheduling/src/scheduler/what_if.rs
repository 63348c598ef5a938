//! Where the pods of a node would go if it went. Nothing is decided: the ledger is as it was afterwards.

use berth_model::{ClassId, CounterId, Mark, Sym};

use super::caches::Caches;
use super::choose::{choose, may_be_placed};
use super::ledger::Ledger;
use super::shared::{choose_as, look_for};
use super::tables::Tables;
use super::world::World;

/// Pods of one counter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Counted {
    /// Which.
    pub counter: CounterId,
    /// Domains with pods, and how many; none of host names.
    pub domains: Vec<(Sym, u32)>,
    /// Pods anywhere.
    pub total: u32,
}

/// By pod: the node where it finds a place.
type Places = Vec<Option<usize>>;

/// See [`super::Scheduler::try_without`].
pub(super) fn try_without(
    tables: &Tables<'_>,
    ledger: &mut Ledger,
    caches: &mut Caches,
    node: usize,
    again: &[ClassId],
) -> Option<Places> {
    let known = tables.cluster.node(node)?;
    let draws = known.pods.iter().any(|pod| pod.draws_from.is_some());
    if draws || !ledger.state.node(node)?.holdings.is_empty() || is_a_domain(tables, node) {
        return None;
    }
    places_aside(tables, ledger, caches, node, again).or_else(|| places_by_trial(tables, ledger, caches, node, again))
}

/// See [`super::Scheduler::counted_without`].
pub(super) fn counted_without(
    tables: &Tables<'_>,
    ledger: &mut Ledger,
    node: usize,
    again: &[(ClassId, usize)],
    counters: &[CounterId],
) -> Vec<Counted> {
    if counters.is_empty() {
        return Vec::new();
    }
    let state = &mut ledger.state;
    let mark = state.mark();
    for pod in 0..tables.cluster.node(node).map_or(0, |node| node.pods.len()) {
        tables.count_off(state, node, pod);
    }
    for &(id, place) in again {
        tables.bind(state, id, place);
    }
    let counted = |&counter: &CounterId| Counted {
        counter,
        domains: state.domains(counter).collect(),
        total: state.total(counter),
    };
    let counted = counters.iter().map(counted).collect();
    state.rollback(mark);
    state.forget(mark);
    counted
}

// By indexes as they are, beside which the few nodes that change are looked at one by one; `None` where some class does not
// share one.
fn places_aside(
    tables: &Tables<'_>,
    ledger: &mut Ledger,
    caches: &mut Caches,
    node: usize,
    again: &[ClassId],
) -> Option<Places> {
    // Before anything changes.
    let world = World::new(tables, ledger);
    let sharers: Vec<_> = again.iter().map(|id| look_for(world, caches, *id)).collect::<Option<_>>()?;
    let mark = ledger.state.mark();
    for pod in 0..tables.cluster.node(node)?.pods.len() {
        tables.count_off(&mut ledger.state, node, pod);
    }
    ledger.what_if.gone = Some(node);
    ledger.what_if.aside.push(node);
    let mut can_tell = true;
    let places = places_for(again, |at, id| {
        let world = World::new(tables, ledger);
        if !may_be_placed(world, id) {
            return None;
        }
        let Some(Ok(chosen)) = sharers.get(at).map(|sharer| choose_as(world, caches, sharer)) else {
            can_tell = false;
            return None;
        };
        let place = chosen?;
        tables.bind(&mut ledger.state, id, place);
        if !ledger.what_if.aside.contains(&place) {
            ledger.what_if.aside.push(place);
        }
        Some(place)
    });
    ledger.what_if.gone = None;
    ledger.what_if.aside.clear();
    ledger.state.rollback(mark);
    ledger.state.forget(mark);
    can_tell.then_some(places)
}

fn places_by_trial(
    tables: &Tables<'_>,
    ledger: &mut Ledger,
    caches: &mut Caches,
    node: usize,
    again: &[ClassId],
) -> Option<Places> {
    let mark = begin_trial(ledger);
    for pod in 0..tables.cluster.node(node)?.pods.len() {
        tables.take_off(&mut ledger.state, node, pod, None);
    }
    ledger.what_if.gone = Some(node);
    ledger.regroup(node);
    let places = places_for(again, |_, id| {
        let place = choose(World::new(tables, ledger), caches, id)?;
        ledger.put_on(tables, id, place);
        Some(place)
    });
    ledger.what_if.gone = None;
    take_back(tables, ledger, caches, mark);
    Some(places)
}

// Whether a domain of some topology key goes with a node: what spreads are counted over would change.
fn is_a_domain(tables: &Tables<'_>, node: usize) -> bool {
    let known = tables.cluster.node(node);
    known.is_none_or(|known| tables.domains.is_alone(known, |filter| tables.admits(filter, node)))
}

/// Begins a trial: what nodes, counts and groups are afterwards is undone by [`take_back`].
pub(super) fn begin_trial(ledger: &mut Ledger) -> Mark {
    ledger.groups.begin_trial();
    ledger.state.mark()
}

/// Ends a trial: nodes, counts, groups and caches are as if there had been none.
pub(super) fn take_back(tables: &Tables<'_>, ledger: &mut Ledger, caches: &mut Caches, mark: Mark) {
    ledger.state.rollback(mark);
    ledger.state.forget(mark);
    let undone = ledger.groups.take_back();
    caches.take_back(&undone, World::new(tables, ledger));
}

// Where pods of these classes find a place, one after another; those that found none are asked again while others do. `place`
// is given which of them, and its class.
fn places_for(again: &[ClassId], mut place: impl FnMut(usize, ClassId) -> Option<usize>) -> Places {
    let mut places: Places = vec![None; again.len()];
    loop {
        let mut has_progressed = false;
        // A class that found no place finds none among more pods, but for those that want to be with them.
        let mut stuck: Vec<ClassId> = Vec::new();
        let waiting = places.iter_mut().zip(again).enumerate().filter(|(_, (found, _))| found.is_none());
        for (at, (found, &id)) in waiting {
            *found = if stuck.contains(&id) { None } else { place(at, id) };
            if found.is_none() {
                stuck.push(id);
            }
            has_progressed |= found.is_some();
        }
        if !has_progressed || places.iter().all(Option::is_some) {
            return places;
        }
    }
}
