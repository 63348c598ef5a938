//! Pods that gave way come again where their controllers make others in their place.

use berth_model::{ClassId, Cluster, LabelsId, MemberKind, SpecId, Sym};
use rustc_hash::{FxHashMap, FxHashSet};

use super::eviction::Eviction;
use super::queue_position::QueuePosition;
use super::tables::Tables;

/// Where the pods that come in place of others are in the queue.
#[derive(Clone, Debug, Default)]
pub(super) struct Replacements {
    /// By namespace, spec and labels; made when it is needed first.
    places: Option<FxHashMap<(Sym, SpecId, LabelsId), QueuePosition>>,
    /// Those that are not queued yet.
    pub(super) waiting: Vec<QueuePosition>,
}

/// Makes rows without members for the pods that controllers would make in place of those that may give way, so that a
/// universe knows their classes: pods of lower priority than one that is pending and may preempt.
pub fn expect_replacements(cluster: &mut Cluster) {
    let pending = cluster.pending.iter().filter(|row| row.members.iter().any(|run| !run.is_empty()));
    let preempting = pending.filter_map(|row| cluster.spec(row.spec)).filter(|spec| !spec.never_preempts);
    let Some(highest) = preempting.map(|spec| spec.priority).max() else { return };
    // In the order of nodes and of the pods there, never in that of ids, which depend on what there was before.
    let mut shapes: Vec<(Sym, SpecId, LabelsId)> = Vec::new();
    let mut known: FxHashSet<(Sym, SpecId, LabelsId)> = FxHashSet::default();
    for pod in cluster.nodes.iter().flat_map(|node| &node.pods) {
        let is_lower = cluster.spec(pod.spec).is_some_and(|spec| spec.priority < highest);
        let shape = pod.replaced_by.filter(|_| is_lower).map(|spec| (pod.namespace, spec, pod.labels));
        shapes.extend(shape.filter(|shape| known.insert(*shape)));
    }
    for (namespace, spec, labels) in shapes {
        cluster.pending_row(MemberKind::Pod, namespace, spec, labels);
    }
}

// === impl Replacements ===

impl Replacements {
    /// Notes that a pod comes in place of one that gave way, if one does and its class is known.
    pub(super) fn expect_again(&mut self, tables: &Tables<'_>, eviction: Eviction) {
        let (cluster, universe) = (tables.cluster, tables.universe);
        let pod = cluster.node(eviction.node).and_then(|node| node.pods.get(eviction.pod));
        let Some((pod, spec)) = pod.and_then(|pod| Some((pod, pod.replaced_by?))) else { return };
        let places = self.places.get_or_insert_with(|| {
            let classes = universe.classes.iter().zip((0..).map(ClassId));
            let rows = classes.filter(|(class, _)| class.kind == MemberKind::Pod).flat_map(|(class, id)| {
                class.rows.iter().filter_map(move |&at| {
                    let row = cluster.row(at)?;
                    let place = QueuePosition::new(cluster, row.spec, row.kind, (at, id));
                    Some(((row.namespace, row.spec, row.labels), place))
                })
            });
            rows.collect()
        });
        self.waiting.extend(places.get(&(pod.namespace, spec, pod.labels)).copied());
    }
}
