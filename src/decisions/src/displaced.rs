//! What would become of the pods of a node that went.

use std::cmp::Reverse;

use berth_model::{BoundPod, ClassId, Cluster, LabelsId, LiveUniverse, Node, SpecId, Sym};
use berth_scheduling::{Paused, Scheduler};
use berth_state::{Key, Kind, ObjectRef, State, is_remade};

/// The pods of a node that went, made anew by their controllers. It borrows the state that it was found in: names are those of
/// the cluster, and cost nothing.
#[derive(Clone, Debug)]
pub struct Displaced<'s> {
    state: &'s State,
    cluster: &'s Cluster,
    node: &'s Node,
    /// Pods of the node by position, and the nodes that they find.
    places: Vec<(usize, Option<usize>)>,
}

/// A pod by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PodName<'s> {
    /// Its namespace.
    pub namespace: &'s str,
    /// Its name.
    pub name: &'s str,
}

/// The same by position: pods of the node, and the nodes that they find.
pub(crate) struct Places {
    node: usize,
    places: Vec<(usize, Option<usize>)>,
}

// === impl Displaced ===

impl<'s> Displaced<'s> {
    /// What was found; `None` where a pod that no controller makes anew would be lost.
    pub(crate) fn new(state: &'s State, Places { node, places }: Places) -> Option<Self> {
        let cluster = state.last_cluster()?;
        let node = cluster.nodes.get(node)?;
        let is_lost = |pod: &BoundPod| {
            let record = state.pod(cluster.symbols.text(pod.namespace), &pod.name);
            record.is_some_and(|record| is_remade(record))
        };
        let is_any_lost = node.pods.iter().filter(|pod| pod.replaced_by.is_none()).any(is_lost);
        (!is_any_lost).then_some(Displaced { state, cluster, node, places })
    }

    /// Pods that find another node that is up, and the name of that.
    pub fn moves(&self) -> impl Iterator<Item = (PodName<'s>, &'s str)> + '_ {
        let cluster = self.cluster;
        let place = |place: &Option<usize>| cluster.nodes.get((*place)?).map(|node| cluster.symbols.text(node.name));
        self.places.iter().filter_map(move |(pod, found)| Some((self.name(*pod)?, place(found)?)))
    }

    /// Pods that find none.
    pub fn left(&self) -> impl Iterator<Item = PodName<'s>> + '_ {
        self.places.iter().filter(|(_, place)| place.is_none()).filter_map(|(pod, _)| self.name(*pod))
    }

    /// A pod with its uid.
    pub fn pod_ref(&self, pod: PodName<'_>) -> ObjectRef {
        reference(self.state, Kind::Pod, pod.namespace, pod.name)
    }

    /// A node with its uid.
    pub fn node_ref(&self, name: &str) -> ObjectRef {
        reference(self.state, Kind::Node, "", name)
    }

    fn name(&self, pod: usize) -> Option<PodName<'s>> {
        let pod = self.node.pods.get(pod)?;
        Some(PodName { namespace: self.cluster.symbols.text(pod.namespace), name: &pod.name })
    }
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
    let priority = |spec: SpecId| cluster.spec(spec).map_or(0, |spec| spec.priority);
    rows.sort_by_key(|row| Reverse(priority(row.alike.1)));
    Some(rows.into_iter().flat_map(|row| row.members).collect())
}

/// Alike pods that come again.
struct Row {
    /// Namespace, spec and labels.
    alike: (Sym, SpecId, LabelsId),
    members: Vec<(usize, ClassId)>,
}

/// An object that is known, by name.
pub(crate) fn reference(state: &State, kind: Kind, namespace: &str, name: &str) -> ObjectRef {
    let key = Key::new(kind, namespace, name);
    let uid = state.observed_uid(&key);
    key.with_uid(uid.as_deref())
}
