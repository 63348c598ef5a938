//! Classes of a cluster to which pods come and from which they go. What a pod reduces to is decided by the same code as for a
//! whole cluster; what would change the counters of other pods is left to a reduction of the whole.

use rustc_hash::FxHashMap;

use super::classes::{ClassId, SpecAndLabels, Universe, labels_of, of_daemon};
use super::classifier::Classifier;
use super::reduce::{Reduced, reduce};
use super::selectors::NamespaceLabels;
use crate::{BoundPod, Cluster, MemberKind, ReservationId};

/// A universe [with scores](Universe::with_scores) that follows a cluster. Running pods that come again where they go are
/// known as they would ask for a place, so that they can become pending at any time.
#[derive(Debug)]
pub struct LiveUniverse {
    universe: Universe,
    classifier: Classifier,
    namespaces: NamespaceLabels,
    asking: FxHashMap<SpecAndLabels, ClassId>,
    running: FxHashMap<SpecAndLabels, ClassId>,
    /// Classes with rows of pending pods.
    with_rows: Vec<ClassId>,
}

// === impl LiveUniverse ===

impl LiveUniverse {
    /// What the pods of a cluster reduce to.
    pub fn new(cluster: &Cluster) -> Self {
        let namespaces = NamespaceLabels::of(cluster);
        let pods = cluster.nodes.iter().flat_map(|node| &node.pods);
        let mut again: Vec<SpecAndLabels> =
            pods.filter_map(|pod| Some((MemberKind::Pod, pod.namespace, pod.replaced_by?, pod.labels))).collect();
        again.sort_unstable();
        again.dedup();
        let Reduced { universe, classifier, shapes, asking, class_of } = reduce(cluster, &namespaces, &again, true);
        let with_ids = || shapes.iter().copied().zip(class_of.iter().copied());
        let mut live = LiveUniverse {
            asking: with_ids().take(asking).collect(),
            running: with_ids().skip(asking).collect(),
            universe,
            classifier,
            namespaces,
            with_rows: Vec::new(),
        };
        let classes = live.universe.classes.iter().zip((0..).map(ClassId));
        live.with_rows = classes.filter(|(class, _)| !class.rows.is_empty()).map(|(_, id)| id).collect();
        live
    }

    /// The classes as they are now.
    pub fn universe(&self) -> &Universe {
        &self.universe
    }

    /// Takes in who is pending now. Whether that could be done; else the whole is to be reduced anew.
    #[must_use]
    pub fn set_pending(&mut self, cluster: &Cluster) -> bool {
        for id in self.with_rows.drain(..) {
            if let Some(class) = self.universe.classes.get_mut(id.index()) {
                class.count = 0;
                class.rows.clear();
            }
        }
        for (id_of_row, row) in cluster.rows() {
            let shape = (row.kind, row.namespace, row.spec, row.labels);
            let Some(id) = self.class_of(cluster, shape, true) else { return false };
            if let Some(class) = self.universe.classes.get_mut(id.index()) {
                if class.rows.is_empty() {
                    self.with_rows.push(id);
                }
                class.add_row(id_of_row, row);
            }
        }
        true
    }

    /// Takes in which Reservations there are now, and whose pods stand in for them: those of which the pod is of another class
    /// than before, with that one. `None`: the whole is to be reduced anew.
    pub fn set_reservations(&mut self, cluster: &Cluster) -> Option<Vec<(ReservationId, Option<ClassId>)>> {
        let mut changed = Vec::new();
        for (id, reservation) in cluster.reservations_with_ids() {
            let shape = reservation.template.map(|pod| (MemberKind::Reservation, pod.namespace, pod.spec, pod.labels));
            let class = match shape {
                Some(shape) => Some(self.class_of(cluster, shape, true)?),
                None => None,
            };
            match self.universe.reserved.get_mut(id.index()) {
                Some(known) if *known == class => {}
                Some(known) => changed.push((id, std::mem::replace(known, class))),
                None => {
                    self.universe.reserved.push(class);
                    changed.push((id, None));
                }
            }
        }
        Some(changed)
    }

    /// Takes in which DaemonSets there are now. Whether that could be done; else the whole is to be reduced anew.
    #[must_use]
    pub fn set_daemons(&mut self, cluster: &Cluster) -> bool {
        let classes = cluster.daemons.iter().map(|daemon| self.class_of(cluster, of_daemon(daemon), false));
        let classes: Option<Vec<ClassId>> = classes.collect();
        let could = classes.is_some();
        self.universe.daemons = classes.unwrap_or_default();
        could
    }

    /// A pod came to a node, as the one at this position of [`crate::Node::pods`]; its class. `None`: the whole is to be
    /// reduced anew.
    pub fn pod_came(&mut self, cluster: &Cluster, node: usize, at: usize, pod: &BoundPod) -> Option<ClassId> {
        // First as it would ask for a place: nobody who runs is to be reached by what only this one asks for.
        if let Some(spec) = pod.replaced_by {
            self.class_of(cluster, (MemberKind::Pod, pod.namespace, spec, pod.labels), true)?;
        }
        let id = self.class_of(cluster, (MemberKind::Pod, pod.namespace, pod.spec, pod.labels), false)?;
        let pods = self.universe.bound.get_mut(node).filter(|pods| at <= pods.len())?;
        pods.insert(at, id);
        Some(id)
    }

    /// Namespaces came, changed or went. Whether that could be taken in.
    #[must_use]
    pub fn set_namespaces(&mut self, cluster: &Cluster) -> bool {
        self.namespaces.follow(cluster);
        !self.classifier.builder.selectors.reads_namespaces()
    }

    /// A node came, as the last one, without pods.
    pub fn node_came(&mut self) {
        self.universe.bound.push(Vec::new());
    }

    /// The node of this index went, which had no pods any more; the last one took its place. Whether there was one.
    #[must_use]
    pub fn node_went(&mut self, node: usize) -> bool {
        let is_known = self.universe.bound.get(node).is_some_and(Vec::is_empty);
        if is_known {
            self.universe.bound.swap_remove(node);
        }
        is_known
    }

    /// The pod at this position left a node; its class. `None`: another one is there by now, and the whole is to be reduced
    /// anew.
    pub fn pod_left(&mut self, node: usize, at: usize, pod: &BoundPod) -> Option<ClassId> {
        let class = self.running.get(&(MemberKind::Pod, pod.namespace, pod.spec, pod.labels));
        let pods = self.universe.bound.get_mut(node);
        let found = pods.filter(|pods| pods.get(at).is_some_and(|known| Some(known) == class));
        debug_assert!(found.is_some(), "pod {at} of node {node} is another one by now than {}", pod.name);
        Some(found?.remove(at))
    }

    /// Whether there is a class for each pod of each node: else something was told of a node that is elsewhere by now.
    pub fn has_all_pods_of(&self, cluster: &Cluster) -> bool {
        let bound = &self.universe.bound;
        bound.len() == cluster.nodes.len()
            && bound.iter().zip(&cluster.nodes).all(|(classes, node)| classes.len() == node.pods.len())
    }

    /// The class that a pod has when its controller makes it anew; `None` where none does, or it is not known.
    pub fn class_again(&self, pod: &BoundPod) -> Option<ClassId> {
        self.asking.get(&(MemberKind::Pod, pod.namespace, pod.replaced_by?, pod.labels)).copied()
    }

    // The class of a shape, known or new; `None` where others would not be what they are.
    fn class_of(&mut self, cluster: &Cluster, shape: SpecAndLabels, is_asking: bool) -> Option<ClassId> {
        let known = if is_asking { &self.asking } else { &self.running };
        if let Some(&id) = known.get(&shape) {
            return Some(id);
        }
        let (_, namespace, _, labels) = shape;
        let builder = &mut self.classifier.builder;
        if !self.namespaces.is_current(cluster) {
            return None;
        }
        if !self.namespaces.has(namespace) {
            if builder.selectors.reads_namespaces() {
                return None;
            }
            self.namespaces.mention(namespace);
        }
        let own = builder.constraints(cluster, &self.namespaces, shape, is_asking);
        let n_counters = self.universe.counters.len();
        if builder.counters.len() > n_counters {
            let known = self.asking.keys().chain(self.running.keys());
            if !self.classifier.extend(cluster, &own, shape, n_counters, known) {
                return None;
            }
        }
        let builder = &self.classifier.builder;
        self.universe.counters.extend(builder.counters.iter().skip(n_counters).cloned());
        self.universe.filters.extend(builder.filters.iter().skip(self.universe.filters.len()).cloned());
        let matched = builder.selectors.matching(namespace, labels_of(cluster, labels), &cluster.symbols);
        if !self.classifier.leaves_others(&own, &matched) {
            return None;
        }
        let id = self.classifier.class_of(shape, &own, &matched, is_asking, &mut self.universe.classes);
        let known = if is_asking { &mut self.asking } else { &mut self.running };
        known.insert(shape, id);
        Some(id)
    }
}
