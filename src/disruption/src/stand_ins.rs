//! Where pods have to move, alike ones that wait may come first. Who of them runs does not matter to their workload, so each
//! gives its place to one that moved and has none: as many run.

use std::collections::{BTreeMap, BTreeSet};

use berth_decisions::{Decision, Nomination};
use berth_state::{Key, Kind, ObjectRef, State};

/// Pods of one controller with the same labels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Alike<'s> {
    controller: &'s str,
    labels: Option<&'s BTreeMap<String, String>>,
}

impl<'s> Alike<'s> {
    fn of(key: &Key, state: &'s State) -> Option<Self> {
        let pod = state.pod(&key.namespace, &key.name).filter(|_| key.kind == Kind::Pod)?;
        Some(Alike { controller: &pod.controller()?.uid, labels: pod.labels() })
    }
}

/// Gives those who moved and have no place the places of alike ones that did not.
pub(crate) fn give_places(decision: &mut Decision, moved: &BTreeSet<Key>, state: &State) {
    let mut lost: BTreeMap<Alike<'_>, Vec<ObjectRef>> = BTreeMap::new();
    let refused = decision.refusals.iter().flat_map(|refusal| &refusal.objects);
    for object in refused.filter(|object| moved.contains(&object.key)) {
        if let Some(alike) = Alike::of(&object.key, state) {
            lost.entry(alike).or_default().push(object.clone());
        }
    }
    if lost.is_empty() {
        return;
    }
    let mut left: BTreeMap<Key, ObjectRef> = BTreeMap::new();
    let mut give = |from: &mut ObjectRef| {
        let alike = Alike::of(&from.key, state).filter(|_| !moved.contains(&from.key));
        let Some(to) = alike.and_then(|alike| lost.get_mut(&alike)?.pop()) else { return };
        left.insert(to.key.clone(), std::mem::replace(from, to));
    };
    // Who draws from a Reservation has its place by that.
    for launch in &mut decision.launches {
        let draws = |pod: &ObjectRef| launch.draws.iter().any(|draw| draw.pod == *pod);
        launch.pods.iter_mut().filter(|pod| !draws(pod)).for_each(&mut give);
    }
    for binding in decision.bindings.iter_mut().filter(|binding| binding.draws_from.is_none()) {
        give(&mut binding.object);
    }
    decision.nominations.iter_mut().for_each(|nomination| give(&mut nomination.object));
    for object in decision.refusals.iter_mut().flat_map(|refusal| &mut refusal.objects) {
        if let Some(from) = left.get(&object.key) {
            *object = from.clone();
        }
    }
    // Those who run yet are bound later.
    let runs = |object: &ObjectRef| {
        left.contains_key(&object.key)
            && state.pod(&object.key.namespace, &object.key.name).is_some_and(|pod| pod.node().is_some())
    };
    let Decision { bindings, nominations, moves, .. } = decision;
    moves.extend(bindings.extract_if(.., |binding| runs(&binding.object)).map(|binding| Nomination {
        object: binding.object,
        node: binding.node,
        after_evictions: false,
        waits_for: None,
    }));
    moves.extend(nominations.extract_if(.., |nomination| runs(&nomination.object)));
}
