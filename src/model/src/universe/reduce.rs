//! A whole cluster reduced to its classes.

use rustc_hash::FxHashMap;

use super::classes::{ClassId, SpecAndLabels, Universe, labels_of, of_daemon};
use super::classifier::Classifier;
use super::constraints::{Builder, OwnConstraints};
use super::selectors::NamespaceLabels;
use super::topology::{CounterId, SelectorId};
use crate::{Cluster, MemberKind, RowId};

/// A universe with what was made on the way to it.
#[derive(Debug)]
pub(super) struct Reduced {
    pub(super) universe: Universe,
    pub(super) classifier: Classifier,
    /// All shapes, those that ask for a place first, and how many these are.
    pub(super) shapes: Vec<SpecAndLabels>,
    pub(super) asking: usize,
    pub(super) class_of: Vec<ClassId>,
}

/// How many of the shapes are pending, and how many of them, those first, ask for a place at all.
#[derive(Clone, Copy)]
struct Counts {
    pending: usize,
    asking: usize,
}

impl Universe {
    /// Reduces a cluster, as far as it matters which nodes are launched. The cost grows with distinct shapes (namespace,
    /// spec, labels), not with pods.
    pub fn new(cluster: &mut Cluster) -> Self {
        let namespaces = NamespaceLabels::new(cluster);
        reduce(cluster, &namespaces, &[], false).universe
    }

    /// Reduces a cluster with what scoring nodes needs beside: who draws whom where by affinity.
    pub fn with_scores(cluster: &mut Cluster) -> Self {
        let namespaces = NamespaceLabels::new(cluster);
        reduce(cluster, &namespaces, &[], true).universe
    }
}

/// Reduces a cluster. `also_asking` are shapes that may ask for a place beside those that are pending.
pub(super) fn reduce(
    cluster: &Cluster,
    namespaces: &NamespaceLabels,
    also_asking: &[SpecAndLabels],
    has_scores: bool,
) -> Reduced {
    let mut builder = Builder::new(has_scores);
    let pending: Vec<SpecAndLabels> =
        cluster.pending.iter().map(|row| (row.kind, row.namespace, row.spec, row.labels)).collect();
    let mut bound: Vec<SpecAndLabels> = Vec::new();
    let mut bound_ids: FxHashMap<SpecAndLabels, usize> = FxHashMap::default();
    let mut bound_of: Vec<Vec<usize>> = Vec::new();
    let mut reserved_ids: FxHashMap<SpecAndLabels, usize> =
        pending.iter().enumerate().map(|(index, shape)| (*shape, index)).collect();
    for node in &cluster.nodes {
        let shapes = node.pods.iter().map(|pod| {
            let shape = (MemberKind::Pod, pod.namespace, pod.spec, pod.labels);
            *bound_ids.entry(shape).or_insert_with(|| {
                bound.push(shape);
                bound.len() - 1
            })
        });
        bound_of.push(shapes.collect());
    }
    // On the nodes that are launched they are there before others.
    for daemon in &*cluster.daemons {
        let shape = of_daemon(daemon);
        bound_ids.entry(shape).or_insert_with(|| {
            bound.push(shape);
            bound.len() - 1
        });
    }
    let daemons_of = cluster.daemons.iter().filter_map(|daemon| bound_ids.get(&of_daemon(daemon)).copied()).collect();
    // Those that are to be placed ask for more than those that are there.
    let (mut asking, mut reserved_of) = (pending.len(), Vec::with_capacity(cluster.reservations.len()));
    let mut shapes = pending.clone();
    for reservation in &cluster.reservations {
        let Some(template) = reservation.template else {
            reserved_of.push(None);
            continue;
        };
        let shape = (MemberKind::Reservation, template.namespace, template.spec, template.labels);
        let known = *reserved_ids.entry(shape).or_insert_with(|| {
            shapes.push(shape);
            asking += 1;
            shapes.len() - 1
        });
        reserved_of.push(Some(known));
    }
    for shape in also_asking {
        reserved_ids.entry(*shape).or_insert_with(|| {
            shapes.push(*shape);
            asking += 1;
            shapes.len() - 1
        });
    }
    shapes.extend(bound);
    let own: Vec<OwnConstraints> = shapes
        .iter()
        .enumerate()
        .map(|(index, shape)| builder.constraints(cluster, namespaces, *shape, index < asking))
        .collect();
    let matched: Vec<Vec<SelectorId>> = shapes
        .iter()
        .map(|(_, namespace, _, labels)| {
            builder.selectors.matching(*namespace, labels_of(cluster, *labels), &cluster.symbols)
        })
        .collect();
    let counts = Counts { pending: pending.len(), asking };
    builder.finish(cluster, shapes, counts, (&own, &matched), (bound_of, daemons_of, reserved_of))
}

impl Builder {
    fn finish(
        self,
        cluster: &Cluster,
        shapes: Vec<SpecAndLabels>,
        counts: Counts,
        (own, matched): (&[OwnConstraints], &[Vec<SelectorId>]),
        (bound_of, daemons_of, reserved_of): (Vec<Vec<usize>>, Vec<usize>, Vec<Option<usize>>),
    ) -> Reduced {
        let needed = self.needed_owner_counters(own, matched);
        let mut by_selector: FxHashMap<SelectorId, Vec<CounterId>> = FxHashMap::default();
        for (index, counter) in self.counters.iter().enumerate() {
            let id = CounterId(u32::try_from(index).unwrap_or(u32::MAX));
            by_selector.entry(counter.selector).or_default().push(id);
        }
        let mut classifier = Classifier { builder: self, by_selector, needed, ids: FxHashMap::default() };
        let mut universe = Universe::default();
        let mut class_of: Vec<ClassId> = Vec::with_capacity(shapes.len());
        for (index, (shape, (own, matched))) in shapes.iter().zip(own.iter().zip(matched)).enumerate() {
            let id = classifier.class_of(*shape, own, matched, index < counts.asking, &mut universe.classes);
            class_of.push(id);
            if let (true, Some(row), Some(class)) =
                (index < counts.pending, cluster.pending.get(index), universe.classes.get_mut(id.index()))
            {
                class.add_row(RowId::new(index), row);
            }
        }
        let bound_class = |shape: usize| class_of.get(counts.asking + shape).copied().unwrap_or(ClassId(u32::MAX));
        universe.bound = bound_of.into_iter().map(|shapes| shapes.into_iter().map(bound_class).collect()).collect();
        universe.daemons = daemons_of.into_iter().map(bound_class).collect();
        universe.reserved =
            reserved_of.into_iter().map(|shape| shape.and_then(|shape| class_of.get(shape).copied())).collect();
        universe.counters.clone_from(&classifier.builder.counters);
        universe.filters.clone_from(&classifier.builder.filters);
        Reduced { universe, classifier, shapes, asking: counts.asking, class_of }
    }
}
