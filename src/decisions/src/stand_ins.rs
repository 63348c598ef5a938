//! Where pods have to move, alike ones that wait may come first. Who of them runs does not matter to their workload, so each
//! gives its place to one that moved and has none: as many run.

use std::collections::{BTreeMap, BTreeSet};

use berth_state::{Key, Kind, ObjectRef, PodRecord, State};
use k8s_openapi::api::core::v1::{PodSpec, Volume};

use crate::{Decision, Nomination};

/// What tells the pods of a StatefulSet apart, beside their volumes and their name.
const OF_ONE_POD: [&str; 2] = ["statefulset.kubernetes.io/pod-name", "apps.kubernetes.io/pod-index"];

/// Whether one pod may stand in for the other: the pods of a StatefulSet may where they have no volumes of their own.
pub(crate) fn are_alike(one: &PodRecord, other: &PodRecord) -> bool {
    if controller(one) != controller(other) || one.namespace() != other.namespace() {
        return false;
    }
    if one.controller().is_some_and(|owner| owner.kind == "StatefulSet") {
        return are_alike_in_set(one, other);
    }
    one.labels() == other.labels() && one.spec() == other.spec()
}

fn are_alike_in_set(one: &PodRecord, other: &PodRecord) -> bool {
    let pods = [one, other];
    let is_shared = |(key, _): &(&String, &String)| !OF_ONE_POD.contains(&key.as_str());
    let [labels, of_other] = pods.map(|pod| pod.labels().into_iter().flatten().filter(is_shared));
    // Most often they differ by their volumes: no more is looked at then.
    let [volumes, volumes_of_other] = pods.map(|pod| pod.spec().and_then(|spec| spec.volumes.as_ref()));
    // The claim of an ephemeral volume is named after its pod.
    let is_own = |volume: &Volume| volume.ephemeral.is_some();
    labels.eq(of_other) && volumes == volumes_of_other && !volumes.into_iter().flatten().any(is_own) && {
        let [spec, of_other] = pods.map(|pod| pod.spec().cloned().map(|spec| PodSpec { hostname: None, ..spec }));
        spec == of_other
    }
}

/// By uid.
fn controller(pod: &PodRecord) -> Option<&str> {
    pod.controller().map(|owner| &*owner.uid)
}

/// Gives those who moved and have no place the places of alike ones that did not.
pub fn give_places(decision: &mut Decision, moved: &BTreeSet<Key>, state: &State) {
    give(decision, |pod| moved.contains(pod), Which::All, state);
}

/// Does so for those who run yet on nodes that go away: else a node would be launched for an alike one that waits for good, and
/// who runs would have no place. Who can be bound now is, whoever it is.
pub(crate) fn give_later_places(decision: &mut Decision, state: &State) {
    give(decision, |pod| runs(pod, state), Which::Later, state);
}

/// Which places are given away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Which {
    All,
    /// Those that nobody is bound to now, and that nobody gives way for.
    Later,
}

fn record<'s>(pod: &Key, state: &'s State) -> Option<&'s PodRecord> {
    state.pod(&pod.namespace, &pod.name).filter(|_| pod.kind == Kind::Pod).map(|pod| &**pod)
}

fn runs(pod: &Key, state: &State) -> bool {
    record(pod, state).is_some_and(|pod| pod.node().is_some())
}

fn give(decision: &mut Decision, is_moved: impl Fn(&Key) -> bool, which: Which, state: &State) {
    // By controller: pods without one have nobody who is alike.
    let mut lost: BTreeMap<&str, Vec<(&PodRecord, ObjectRef)>> = BTreeMap::new();
    let refused = decision.refusals.iter().flat_map(|refusal| &refusal.objects);
    for object in refused.filter(|object| is_moved(&object.key)) {
        if let Some(pod) = record(&object.key, state)
            && let Some(controller) = controller(pod)
        {
            lost.entry(controller).or_default().push((pod, object.clone()));
        }
    }
    if lost.is_empty() {
        return;
    }
    let mut left: BTreeMap<Key, ObjectRef> = BTreeMap::new();
    let mut give_from = |from: &mut ObjectRef| {
        let Some(pod) = record(&from.key, state).filter(|_| !is_moved(&from.key)) else { return };
        let Some(lost) = controller(pod).and_then(|controller| lost.get_mut(controller)) else { return };
        let Some(at) = lost.iter().rposition(|(other, _)| are_alike(pod, other)) else { return };
        let (_, to) = lost.swap_remove(at);
        left.insert(to.key.clone(), std::mem::replace(from, to));
    };
    // Who draws from a Reservation has its place by that.
    for launch in &mut decision.launches {
        let draws = |pod: &ObjectRef| launch.draws.iter().any(|draw| draw.pod == *pod);
        launch.pods.iter_mut().filter(|pod| !draws(pod)).for_each(&mut give_from);
    }
    let bindings = decision.bindings.iter_mut().filter(|binding| binding.draws_from.is_none());
    bindings.filter(|_| which == Which::All).for_each(|binding| give_from(&mut binding.object));
    let nominations = decision.nominations.iter_mut();
    let given = nominations.filter(|nomination| which == Which::All || !nomination.after_evictions);
    given.for_each(|nomination| give_from(&mut nomination.object));
    for object in decision.refusals.iter_mut().flat_map(|refusal| &mut refusal.objects) {
        if let Some(from) = left.get(&object.key) {
            *object = from.clone();
        }
    }
    // Those who run yet are bound later.
    let runs_yet = |object: &ObjectRef| left.contains_key(&object.key) && runs(&object.key, state);
    let Decision { bindings, nominations, moves, .. } = decision;
    moves.extend(bindings.extract_if(.., |binding| runs_yet(&binding.object)).map(|binding| Nomination {
        object: binding.object,
        node: binding.node,
        draws_from: None,
        after_evictions: false,
        waits_for: None,
        is_kept_out: false,
    }));
    let of_those = nominations.extract_if(.., |nomination| runs_yet(&nomination.object));
    moves.extend(of_those.map(|nomination| Nomination { waits_for: None, ..nomination }));
}
