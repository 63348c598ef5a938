//! What would become of the pods of a node that went.

use std::cmp::Reverse;

use berth_model::{BoundPod, ClassId, Cluster, LiveUniverse, Sym};
use berth_scheduling::{Paused, Scheduler};
use berth_state::{Key, Kind, ObjectRef, State, is_remade};
use k8s_openapi::api::core::v1::Pod;

/// The pods of a node that went, made anew by their controllers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Displaced {
    /// Pods that find another node that is up, and which.
    pub moves: Vec<(ObjectRef, ObjectRef)>,
    /// Pods that find none.
    pub left: Vec<ObjectRef>,
}

/// The same by position: pods of the node, and the nodes that they find.
pub(crate) struct Places {
    node: usize,
    places: Vec<(usize, Option<usize>)>,
}

/// Asks a scheduler, which is given back.
pub(crate) fn places(
    cluster: &Cluster,
    classes: &LiveUniverse,
    scheduler: Paused,
    node: usize,
) -> (Option<Places>, Paused) {
    let Some(known) = cluster.nodes.get(node) else { return (None, scheduler) };
    let Some(queue) = queue(cluster, classes, &known.pods) else { return (None, scheduler) };
    let again: Vec<ClassId> = queue.iter().map(|(_, id)| *id).collect();
    let mut scheduler = Scheduler::resume(cluster, classes.universe(), scheduler);
    let found = scheduler.try_without(node, &again);
    let places = found.map(|found| queue.iter().map(|(pod, _)| *pod).zip(found).collect());
    (places.map(|places| Places { node, places }), scheduler.pause())
}

/// Pods that come again, by position, with their class: by priority, then rows of alike pods by their oldest. The pods are in
/// the order of age.
pub(crate) fn queue(cluster: &Cluster, classes: &LiveUniverse, pods: &[BoundPod]) -> Option<Vec<(usize, ClassId)>> {
    let mut rows: Vec<Row> = Vec::new();
    for (at, pod) in pods.iter().enumerate() {
        let Some(spec) = pod.replaced_by else { continue };
        let (alike, id) = ((pod.namespace, spec, pod.labels), classes.class_again(pod)?);
        match rows.iter_mut().find(|row| row.alike == alike) {
            Some(row) => row.members.push((at, id)),
            None => rows.push(Row { alike, members: vec![(at, id)] }),
        }
    }
    let priority = |spec: u32| cluster.specs.get(spec as usize).map_or(0, |spec| spec.priority);
    rows.sort_by_key(|row| Reverse(priority(row.alike.1)));
    Some(rows.into_iter().flat_map(|row| row.members).collect())
}

/// Alike pods that come again.
struct Row {
    /// Namespace, spec and labels.
    alike: (Sym, u32, u32),
    members: Vec<(usize, ClassId)>,
}

/// The same in names; `None` where a pod that no controller makes anew would be lost.
pub(crate) fn named(state: &State, Places { node, places }: &Places) -> Option<Displaced> {
    let cluster = state.last_cluster()?;
    let known = cluster.nodes.get(*node)?;
    let pod_ref = |pod: &BoundPod| reference(state, Kind::Pod, cluster.symbols.text(pod.namespace), &pod.name);
    let is_lost = |pod: &BoundPod| {
        let object = state.get_as::<Pod>(cluster.symbols.text(pod.namespace), &pod.name);
        pod.replaced_by.is_none() && object.is_some_and(|object| is_remade(object))
    };
    if known.pods.iter().any(is_lost) {
        return None;
    }
    let mut displaced = Displaced::default();
    for (pod, place) in places {
        let pod = pod_ref(known.pods.get(*pod)?);
        match place.and_then(|place| cluster.nodes.get(place)) {
            Some(place) => {
                displaced.moves.push((pod, reference(state, Kind::Node, "", cluster.symbols.text(place.name))));
            }
            None => displaced.left.push(pod),
        }
    }
    Some(displaced)
}

/// An object that is known, by name.
pub(crate) fn reference(state: &State, kind: Kind, namespace: &str, name: &str) -> ObjectRef {
    let key = Key::new(kind, namespace, name);
    let uid = state.observed(&key).and_then(|object| object.metadata().uid.clone());
    key.with_uid(uid.as_deref())
}
