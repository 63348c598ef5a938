//! Pod classes: pods that no rule can tell apart.

use std::collections::hash_map::Entry;

use rustc_hash::FxHashMap;

use super::selectors::{NamespaceLabels, Selectors, with_label_keys};
use super::topology::{Constraint, Counter, CounterId, NodeFilter};
use crate::{Cluster, Labels, MemberKind, PendingRow, PodSpec, PodTerm, SpreadConstraint, Sym};

/// An index into [`Universe::classes`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClassId(pub u32);

impl ClassId {
    /// As an index.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// What a class would like, weighted where Kubernetes weighs it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Preferences {
    /// Preferred pod affinity.
    pub together: Vec<(i32, Constraint)>,
    /// Preferred pod anti-affinity.
    pub apart: Vec<(i32, Constraint)>,
    /// `ScheduleAnyway` spread.
    pub spread: Vec<Constraint>,
}

/// Pods that are alike in everything that placement can see.
#[derive(Clone, Debug)]
pub struct PodClass {
    /// Pods or pending Reservations.
    pub kind: MemberKind,
    /// Index into [`Cluster::specs`].
    pub spec: u32,
    /// How many are pending; 0 for a class that only runs.
    pub count: u32,
    /// The rows of [`Cluster::pending`] that it is made of, in input order.
    pub rows: Vec<u32>,
    /// The counters in which each of its pods counts, ascending.
    pub counts_in: Vec<CounterId>,
    /// What must hold.
    pub required: Vec<Constraint>,
    /// What would be good.
    pub preferred: Preferences,
    /// The counters of [`Counter::pull`] in which each of its pods counts, ascending. Empty unless the universe was
    /// made with scores.
    pub weighs_in: Vec<CounterId>,
    /// What draws its pods to a domain: each pod of the counter there, with this weight; ascending by counter. Its own
    /// preferred affinity, and the affinity of others that matches it. Empty unless the universe was made with scores.
    pub drawn: Vec<(CounterId, i64)>,
}

/// What the pods of a cluster reduce to.
#[derive(Clone, Debug, Default)]
pub struct Universe {
    /// The classes; those of [`Cluster::pending`] in order of first appearance, then those that stand in for
    /// Reservations, then those that only run.
    pub classes: Vec<PodClass>,
    /// The counters that some constraint reads.
    pub counters: Vec<Counter>,
    /// The node filters of counters.
    pub filters: Vec<NodeFilter>,
    /// The class of every bound pod, by node and position in [`crate::Node::pods`].
    pub bound: Vec<Vec<ClassId>>,
    /// The class of the pod that stands in for a Reservation, by index into [`Cluster::reservations`]; `None` where its
    /// template is not known.
    pub reserved: Vec<Option<ClassId>>,
}

/// What makes a class: see [`PodClass`].
pub(super) type ClassKey =
    (MemberKind, u32, Vec<CounterId>, Vec<Constraint>, Preferences, Vec<CounterId>, Vec<(CounterId, i64)>);

/// Who a class is made from: kind, namespace, spec, labels.
pub(super) type Shape = (MemberKind, Sym, u32, u32);

/// How many of the shapes are pending, and how many of them, those first, ask for a place at all.
#[derive(Clone, Copy)]
struct Counts {
    pending: usize,
    asking: usize,
}

/// The counters that a shape's own spec asks for.
#[derive(Debug, Default)]
pub(super) struct OwnConstraints {
    required: Vec<Asked>,
    together: Vec<(i32, Asked)>,
    apart: Vec<(i32, Asked)>,
    spread: Vec<Asked>,
    pub(super) owner_counters: Vec<CounterId>,
    pulls: Vec<CounterId>,
}

/// A constraint before it is known whether the pod itself counts.
#[derive(Clone, Copy, Debug)]
enum Asked {
    Spread { counter: CounterId, max_skew: u32, min_domains: Option<u32> },
    Together(CounterId),
    Apart(CounterId),
}

#[derive(Debug, Default)]
pub(super) struct Builder {
    pub(super) selectors: Selectors,
    pub(super) counters: Vec<Counter>,
    counter_ids: FxHashMap<Counter, CounterId>,
    pub(super) filters: Vec<NodeFilter>,
    pub(super) has_scores: bool,
}

/// What makes classes of shapes, once all selectors are known.
#[derive(Debug)]
pub(super) struct Classifier {
    pub(super) builder: Builder,
    /// By selector, so that what a shape matches becomes counters.
    by_selector: FxHashMap<u32, Vec<CounterId>>,
    /// See [`Builder::needed_owner_counters`].
    needed: rustc_hash::FxHashSet<CounterId>,
    ids: FxHashMap<ClassKey, ClassId>,
}

/// A universe with what was made on the way to it.
#[derive(Debug)]
pub(super) struct Reduced {
    pub(super) universe: Universe,
    pub(super) classifier: Classifier,
    /// All shapes, those that ask for a place first, and how many these are.
    pub(super) shapes: Vec<Shape>,
    pub(super) asking: usize,
    pub(super) class_of: Vec<ClassId>,
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

    /// The class of an id.
    pub fn class(&self, id: ClassId) -> Option<&PodClass> {
        self.classes.get(id.index())
    }
}

/// Reduces a cluster. `also_asking` are shapes that may ask for a place beside those that are pending.
pub(super) fn reduce(
    cluster: &Cluster,
    namespaces: &NamespaceLabels,
    also_asking: &[Shape],
    has_scores: bool,
) -> Reduced {
    let mut builder = Builder { has_scores, ..Builder::default() };
    let pending: Vec<Shape> =
        cluster.pending.iter().map(|row| (row.kind, row.namespace, row.spec, row.labels)).collect();
    let mut bound: Vec<Shape> = Vec::new();
    let mut bound_ids: FxHashMap<Shape, usize> = FxHashMap::default();
    let mut bound_of: Vec<Vec<usize>> = Vec::new();
    let mut reserved_ids: FxHashMap<Shape, usize> =
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
    let matched: Vec<Vec<u32>> = shapes
        .iter()
        .map(|(_, namespace, _, labels)| {
            builder.selectors.matching(*namespace, labels_of(cluster, *labels), &cluster.symbols)
        })
        .collect();
    let counts = Counts { pending: pending.len(), asking };
    builder.finish(cluster, shapes, counts, (&own, &matched), (bound_of, reserved_of))
}

pub(super) fn labels_of(cluster: &Cluster, id: u32) -> &Labels {
    static NONE: std::sync::OnceLock<Labels> = std::sync::OnceLock::new();
    cluster.label_sets.get(id as usize).unwrap_or_else(|| NONE.get_or_init(Labels::default))
}

impl Builder {
    fn counter(&mut self, counter: Counter) -> CounterId {
        let next = CounterId(u32::try_from(self.counters.len()).unwrap_or(u32::MAX));
        let id = *self.counter_ids.entry(counter.clone()).or_insert(next);
        if id == next {
            self.counters.push(counter);
        }
        id
    }

    fn filter(&mut self, filter: NodeFilter) -> Option<u32> {
        if filter == NodeFilter::default() {
            return None;
        }
        let at = self.filters.iter().position(|known| *known == filter).unwrap_or_else(|| {
            self.filters.push(filter);
            self.filters.len() - 1
        });
        u32::try_from(at).ok()
    }

    // The counters of a shape's own terms. Of a pod that already runs only its required anti-affinity matters.
    pub(super) fn constraints(
        &mut self,
        cluster: &Cluster,
        namespaces: &NamespaceLabels,
        (_, namespace, spec, labels): Shape,
        is_pending: bool,
    ) -> OwnConstraints {
        let mut own = OwnConstraints::default();
        let Some(spec) = cluster.specs.get(spec as usize) else {
            return own;
        };
        let labels = labels_of(cluster, labels);
        let term_counter = |builder: &mut Self, term: &PodTerm, counts_owners: bool| {
            let selector = with_label_keys(
                &term.selector,
                &term.match_label_keys,
                &term.mismatch_label_keys,
                labels,
                &cluster.symbols,
            );
            let selector = builder.selectors.intern_term(term, namespace, selector, namespaces, &cluster.symbols);
            builder.counter(Counter {
                key: term.key,
                selector,
                counts_owners,
                pull: 0,
                skips_terminating: false,
                filter: None,
            })
        };
        if self.has_scores {
            own.pulls = self.pulls(cluster, namespaces, namespace, spec, labels);
        }
        for term in &spec.anti_affinity {
            own.owner_counters.push(term_counter(self, term, true));
            if is_pending {
                own.required.push(Asked::Apart(term_counter(self, term, false)));
            }
        }
        if !is_pending {
            return own;
        }
        if spec.affinity.len() > 1 {
            own.required.extend(self.joint_affinity(cluster, namespaces, namespace, spec, labels));
        } else {
            own.required.extend(spec.affinity.iter().map(|term| Asked::Together(term_counter(self, term, false))));
        }
        let together = spec.preferred_affinity.iter();
        own.together.extend(together.map(|(weight, term)| (*weight, Asked::Together(term_counter(self, term, false)))));
        let apart = spec.preferred_anti_affinity.iter();
        own.apart.extend(apart.map(|(weight, term)| (*weight, Asked::Apart(term_counter(self, term, false)))));
        for constraint in &spec.spread {
            let counter = self.spread_counter(cluster, namespace, spec, labels, constraint);
            let asked = Asked::Spread {
                counter,
                max_skew: constraint.max_skew,
                min_domains: constraint.min_domains.filter(|_| constraint.is_required),
            };
            if constraint.is_required { &mut own.required } else { &mut own.spread }.push(asked);
        }
        own
    }

    // Several required affinity terms are about the same pods: those that match all of them, as kube-scheduler reads it.
    fn joint_affinity(
        &mut self,
        cluster: &Cluster,
        namespaces: &NamespaceLabels,
        namespace: Sym,
        spec: &PodSpec,
        labels: &Labels,
    ) -> Vec<Asked> {
        let of_pod = (namespace, labels);
        let selector = self.selectors.intern_all(&spec.affinity, of_pod, namespaces, &cluster.symbols);
        let counter =
            |key| Counter { key, selector, counts_owners: false, pull: 0, skips_terminating: false, filter: None };
        spec.affinity.iter().map(|term| Asked::Together(self.counter(counter(term.key)))).collect()
    }

    // With which weight a shape draws others by its affinity, required (1, as kube-scheduler's hardPodAffinityWeight) and
    // preferred.
    fn pulls(
        &mut self,
        cluster: &Cluster,
        namespaces: &NamespaceLabels,
        namespace: Sym,
        spec: &PodSpec,
        labels: &Labels,
    ) -> Vec<CounterId> {
        let required = spec.affinity.iter().map(|term| (1, term));
        let preferred = spec.preferred_affinity.iter().map(|(weight, term)| (*weight, term));
        let avoided = spec.preferred_anti_affinity.iter().map(|(weight, term)| (-*weight, term));
        let mut summed: std::collections::BTreeMap<(Sym, u32), i32> = std::collections::BTreeMap::new();
        for (weight, term) in required.chain(preferred).chain(avoided) {
            let selector = self.selectors.intern_all(
                std::slice::from_ref(term),
                (namespace, labels),
                namespaces,
                &cluster.symbols,
            );
            let sum = summed.entry((term.key, selector)).or_default();
            *sum = sum.saturating_add(weight);
        }
        let pulls = summed.into_iter().filter(|(_, pull)| *pull != 0);
        let mut counters: Vec<CounterId> = pulls
            .map(|((key, selector), pull)| {
                self.counter(Counter {
                    key,
                    selector,
                    counts_owners: true,
                    pull,
                    skips_terminating: false,
                    filter: None,
                })
            })
            .collect();
        counters.sort_unstable();
        counters
    }

    fn spread_counter(
        &mut self,
        cluster: &Cluster,
        namespace: Sym,
        spec: &PodSpec,
        labels: &Labels,
        constraint: &SpreadConstraint,
    ) -> CounterId {
        let selector =
            with_label_keys(&constraint.selector, &constraint.match_label_keys, &[], labels, &cluster.symbols);
        let selector = self.selectors.intern_own(namespace, selector);
        let mut filter = NodeFilter::default();
        if constraint.honors_node_affinity {
            filter.node_selector = spec.node_selector.clone();
            filter.required_terms.clone_from(&spec.required_terms);
        }
        if constraint.honors_taints {
            filter.tolerations = Some(spec.tolerations.clone());
        }
        // A node without one of the pod's keys counts for none of its constraints.
        let alike = spec.spread.iter().filter(|other| other.is_required == constraint.is_required);
        filter.keys = alike.map(|other| other.key).collect();
        filter.keys.sort_unstable();
        filter.keys.dedup();
        if filter.keys.len() < 2 {
            filter.keys.clear();
        }
        let filter = self.filter(filter);
        self.counter(Counter {
            key: constraint.key,
            selector,
            counts_owners: false,
            pull: 0,
            skips_terminating: true,
            filter,
        })
    }

    fn finish(
        self,
        cluster: &Cluster,
        shapes: Vec<Shape>,
        counts: Counts,
        (own, matched): (&[OwnConstraints], &[Vec<u32>]),
        (bound_of, reserved_of): (Vec<Vec<usize>>, Vec<Option<usize>>),
    ) -> Reduced {
        let needed = self.needed_owner_counters(own, matched);
        let mut by_selector: FxHashMap<u32, Vec<CounterId>> = FxHashMap::default();
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
                class.add_row(index, row);
            }
        }
        let bound_class = |shape: usize| class_of.get(counts.asking + shape).copied().unwrap_or(ClassId(u32::MAX));
        universe.bound = bound_of.into_iter().map(|shapes| shapes.into_iter().map(bound_class).collect()).collect();
        universe.reserved =
            reserved_of.into_iter().map(|shape| shape.and_then(|shape| class_of.get(shape).copied())).collect();
        universe.counters.clone_from(&classifier.builder.counters);
        universe.filters.clone_from(&classifier.builder.filters);
        Reduced { universe, classifier, shapes, asking: counts.asking, class_of }
    }

    // An owner counter says nothing new where every pod that its selector matches is itself an owner, and every owner
    // is matched: the counter of matched pods then keeps them apart. This is the common self anti-affinity.
    fn needed_owner_counters(&self, own: &[OwnConstraints], matched: &[Vec<u32>]) -> rustc_hash::FxHashSet<CounterId> {
        let mut needed = rustc_hash::FxHashSet::default();
        let mut owners_by_selector: FxHashMap<u32, Vec<CounterId>> = FxHashMap::default();
        for (index, counter) in self.counters.iter().enumerate().filter(|(_, c)| c.counts_owners && c.pull == 0) {
            let id = CounterId(u32::try_from(index).unwrap_or(u32::MAX));
            owners_by_selector.entry(counter.selector).or_default().push(id);
        }
        for (own, matched) in own.iter().zip(matched) {
            for &id in &own.owner_counters {
                let selector = self.counters.get(id.index()).map(|c| c.selector);
                if selector.is_none_or(|selector| matched.binary_search(&selector).is_err()) {
                    needed.insert(id);
                }
            }
            for id in matched.iter().filter_map(|selector| owners_by_selector.get(selector)).flatten() {
                if !own.owner_counters.contains(id) {
                    needed.insert(*id);
                }
            }
        }
        needed
    }
}

impl PodClass {
    /// Its pods are pending in this row, too.
    pub(super) fn add_row(&mut self, index: usize, row: &PendingRow) {
        let count = row.members.iter().fold(0_u32, |sum, run| sum.saturating_add(run.len()));
        self.count = self.count.saturating_add(count);
        self.rows.push(u32::try_from(index).unwrap_or(u32::MAX));
    }
}

impl Classifier {
    /// The class of a shape with what it asks for and matches; a new one comes last.
    pub(super) fn class_of(
        &mut self,
        (kind, _, spec, _): Shape,
        own: &OwnConstraints,
        matched: &[u32],
        is_asking: bool,
        classes: &mut Vec<PodClass>,
    ) -> ClassId {
        let Classifier { builder, by_selector, needed, ids } = self;
        let known = |id: CounterId| builder.counters.get(id.index());
        let reached = || matched.iter().filter_map(|selector| by_selector.get(selector)).flatten().copied();
        let is_owner = |id: CounterId| known(id).is_some_and(|c| c.counts_owners);
        let mut counts_in: Vec<CounterId> = reached().filter(|&id| !is_owner(id)).collect();
        counts_in.extend(own.owner_counters.iter().copied().filter(|id| needed.contains(id)));
        counts_in.sort_unstable();
        counts_in.dedup();
        let pull = |id: CounterId| known(id).map_or(0, |c| i64::from(c.pull));
        let drawing = reached().filter(|&id| is_asking && pull(id) != 0).map(|id| (id, pull(id)));
        let drawn = if builder.has_scores { own.drawn(drawing) } else { Vec::new() };
        let inverse = reached().filter(|&id| is_asking && is_owner(id) && needed.contains(&id));
        let inverse = inverse.map(|id| Asked::Apart(id).resolve(&counts_in)).collect();
        let (required, preferred) = own.resolve(&counts_in, inverse);
        let next = ClassId(u32::try_from(classes.len()).unwrap_or(u32::MAX));
        match ids.entry((kind, spec, counts_in, required, preferred, own.pulls.clone(), drawn)) {
            Entry::Occupied(known) => *known.get(),
            Entry::Vacant(new) => {
                let (kind, spec, counts_in, required, preferred, weighs_in, drawn) = new.key().clone();
                let (count, rows) = (0, Vec::new());
                classes.push(PodClass { kind, spec, count, rows, counts_in, required, preferred, weighs_in, drawn });
                *new.insert(next)
            }
        }
    }

    /// Takes in the counters that a shape which came later asks for first, from these positions on: of selectors, counters and
    /// filters. Whether they are about no other shape that is known; else classes are not what they were.
    pub(super) fn extend<'s>(
        &mut self,
        cluster: &Cluster,
        own: &OwnConstraints,
        of_own: Shape,
        first: usize,
        mut known: impl Iterator<Item = &'s Shape>,
    ) -> bool {
        let Classifier { builder, by_selector, needed, .. } = self;
        let new: Vec<(CounterId, &Counter)> = (0..).map(CounterId).zip(&builder.counters).skip(first).collect();
        let mut selectors: Vec<u32> = new.iter().map(|(_, counter)| counter.selector).collect();
        selectors.sort_unstable();
        selectors.dedup();
        let is_matched = |selector: u32, (_, namespace, _, labels): Shape| {
            builder.selectors.matches(selector, namespace, labels_of(cluster, labels), &cluster.symbols)
        };
        if known.any(|shape| selectors.iter().any(|selector| is_matched(*selector, *shape))) {
            return false;
        }
        for (id, counter) in new {
            by_selector.entry(counter.selector).or_default().push(id);
            // See `Builder::needed_owner_counters`: who owns it is alone so far.
            let is_owned = counter.counts_owners && counter.pull == 0 && own.owner_counters.contains(&id);
            if is_owned && !is_matched(counter.selector, of_own) {
                needed.insert(id);
            }
        }
        true
    }

    /// Whether a shape that came later leaves the counters of others as they are: it asks for none that is not counted yet,
    /// and each owner counter that it makes tell something is needed already.
    pub(super) fn leaves_others(&self, own: &OwnConstraints, matched: &[u32]) -> bool {
        let Classifier { builder, by_selector, needed, .. } = self;
        let is_told = |id: &CounterId| {
            let counter = builder.counters.get(id.index());
            counter.is_some_and(|c| c.pull != 0 || needed.contains(id))
        };
        let unmatched = own.owner_counters.iter().filter(|id| {
            let selector = builder.counters.get(id.index()).map(|counter| counter.selector);
            selector.is_none_or(|selector| matched.binary_search(&selector).is_err())
        });
        let reached = matched.iter().filter_map(|selector| by_selector.get(selector)).flatten();
        let is_owner = |id: &&CounterId| builder.counters.get(id.index()).is_some_and(|c| c.counts_owners);
        let unowned = reached.filter(is_owner).filter(|id| !own.owner_counters.contains(id));
        unmatched.chain(unowned).all(is_told)
    }
}

impl OwnConstraints {
    // What draws a shape: its own preferences and `others` that prefer it.
    fn drawn(&self, others: impl Iterator<Item = (CounterId, i64)>) -> Vec<(CounterId, i64)> {
        let own = |asked: &[(i32, Asked)], sign: i64| -> Vec<(CounterId, i64)> {
            asked.iter().map(|(weight, asked)| (asked.counter(), sign * i64::from(*weight))).collect()
        };
        let mut drawn = own(&self.together, 1);
        drawn.extend(own(&self.apart, -1));
        drawn.extend(others);
        drawn.sort_unstable_by_key(|(counter, _)| *counter);
        drawn.dedup_by(|(counter, weight), (kept, sum)| {
            let is_same = counter == kept;
            if is_same {
                *sum += *weight;
            }
            is_same
        });
        drawn
    }

    fn resolve(&self, counts_in: &[CounterId], inverse: Vec<Constraint>) -> (Vec<Constraint>, Preferences) {
        let resolve = |asked: &Asked| asked.resolve(counts_in);
        let mut required = inverse;
        required.extend(self.required.iter().map(resolve));
        required.sort_unstable();
        required.dedup();
        let preferred = Preferences {
            together: self.together.iter().map(|(weight, asked)| (*weight, resolve(asked))).collect(),
            apart: self.apart.iter().map(|(weight, asked)| (*weight, resolve(asked))).collect(),
            spread: self.spread.iter().map(resolve).collect(),
        };
        (required, preferred)
    }
}

impl Asked {
    fn counter(self) -> CounterId {
        match self {
            Asked::Spread { counter, .. } | Asked::Together(counter) | Asked::Apart(counter) => counter,
        }
    }

    fn resolve(&self, counts_in: &[CounterId]) -> Constraint {
        let counts_self = |counter: CounterId| counts_in.binary_search(&counter).is_ok();
        match *self {
            Asked::Spread { counter, max_skew, min_domains } => {
                Constraint::Spread { counter, max_skew, min_domains, counts_self: counts_self(counter) }
            }
            Asked::Together(counter) => Constraint::Together { counter, counts_self: counts_self(counter) },
            Asked::Apart(counter) => Constraint::Apart { counter, counts_self: counts_self(counter) },
        }
    }
}
