//! From whom pods are spread that have no spread constraints of their own: kube-scheduler selects the pods of the Services that
//! select the pod, and of its controller.

use std::collections::BTreeSet;

use berth_model::{Cluster, Labels, LabelsId, OwnerReference, Requirement, Requirements, Sym, Symbols};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::maps::FxIndexMap;
use crate::selecting::{ControllerId, Selected, Selecting};
use crate::workloads::WorkloadKind;

/// Whose pods are looked at alike: the indexes of the label set and of the owner references, within a namespace.
type Alike = (LabelsId, u32);

/// What selects the pods of a cluster, and which label set each kind of pod has by that.
#[derive(Clone, Debug, Default)]
pub(crate) struct Spreading {
    /// By namespace: the Services' names and what they select.
    services: FxHashMap<Sym, FxIndexMap<Sym, Labels>>,
    controllers: FxHashMap<ControllerId, Selected>,
    known: FxHashMap<(Sym, Alike), LabelsId>,
    of_namespace: FxHashMap<Sym, Vec<Alike>>,
    of_controller: FxHashMap<ControllerId, Vec<Alike>>,
}

// === impl Spreading ===

impl Spreading {
    pub(crate) fn new(selecting: Selecting) -> Self {
        let mut spreading = Spreading::default();
        spreading.add(selecting);
        spreading
    }

    fn add(&mut self, Selecting { services, controllers }: Selecting) {
        for ((namespace, name), selector) in services {
            self.services.entry(namespace).or_default().insert(name, selector);
        }
        self.controllers.extend(controllers);
    }

    fn remove(&mut self, Selecting { services, controllers }: &Selecting) {
        for (namespace, name) in services.keys() {
            if let Some(services) = self.services.get_mut(namespace) {
                services.swap_remove(name);
            }
        }
        for id in controllers.keys() {
            self.controllers.remove(id);
        }
    }

    /// The label set of a pod that has the labels and owner references of these indexes: another one where it is spread from
    /// others by default.
    pub(crate) fn labels_for(
        &mut self,
        namespace: Sym,
        alike: Alike,
        references: &[OwnerReference],
        cluster: &mut Cluster,
    ) -> LabelsId {
        if let Some(&known) = self.known.get(&(namespace, alike)) {
            return known;
        }
        let controller = controller_of(namespace, references, &cluster.symbols);
        let id = self.find(namespace, alike.0, controller, cluster);
        self.known.insert((namespace, alike), id);
        self.of_namespace.entry(namespace).or_default().push(alike);
        if let Some(controller) = controller {
            self.of_controller.entry(controller).or_default().push(alike);
        }
        id
    }

    /// Takes selectors in place of others. The label sets that pods have no more, whom these are about.
    pub(crate) fn replace<'r>(
        &mut self,
        before: &Selecting,
        after: Selecting,
        references: impl Fn(u32) -> &'r [OwnerReference],
        cluster: &mut Cluster,
    ) -> FxHashSet<LabelsId> {
        let mut about: BTreeSet<(Sym, Alike)> = BTreeSet::new();
        for controller in before.controllers.keys().chain(after.controllers.keys()) {
            let alike = self.of_controller.get(controller).into_iter().flatten();
            about.extend(alike.map(|alike| (controller.1, *alike)));
        }
        for (service, selector) in before.services.iter().chain(&after.services) {
            let alike = self.of_namespace.get(&service.0).into_iter().flatten();
            let selected = alike.filter(|(labels, _)| selects(selector, *labels, cluster));
            about.extend(selected.map(|alike| (service.0, *alike)));
        }
        self.remove(before);
        self.add(after);
        let mut gone = FxHashSet::default();
        for (namespace, alike) in about {
            let controller = controller_of(namespace, references(alike.1), &cluster.symbols);
            let id = self.find(namespace, alike.0, controller, cluster);
            gone.extend(self.known.insert((namespace, alike), id).filter(|before| *before != id));
        }
        gone
    }

    fn find(
        &self,
        namespace: Sym,
        labels: LabelsId,
        controller: Option<ControllerId>,
        cluster: &mut Cluster,
    ) -> LabelsId {
        let services = self.services.get(&namespace).into_iter().flat_map(FxIndexMap::values);
        let mut pairs: Vec<(Sym, Sym)> = Vec::new();
        for service in services.filter(|selector| selects(selector, labels, cluster)) {
            pairs.extend(service.iter());
        }
        let selected = controller.and_then(|id| self.controllers.get(&id));
        if let Some(Selected::Labels(own)) = selected {
            pairs.retain(|(key, _)| own.get(*key).is_none());
            pairs.extend(own.iter());
        }
        let mut requirements = Requirements::new();
        for (key, value) in pairs {
            requirements.add(key, Requirement::value(value), &cluster.symbols);
        }
        if let Some(Selected::Requirements(own)) = selected {
            requirements.add_all(own, &cluster.symbols);
        }
        if requirements.is_empty() { labels } else { cluster.intern_spreading(labels, requirements) }
    }
}

fn selects(selector: &Labels, labels: LabelsId, cluster: &Cluster) -> bool {
    let labels = cluster.labels(labels);
    labels.is_some_and(|labels| selector.iter().all(|(key, value)| labels.get(key) == Some(value)))
}

/// The controller of a pod, if it is one whose selector kube-scheduler looks at.
fn controller_of(namespace: Sym, references: &[OwnerReference], symbols: &Symbols) -> Option<ControllerId> {
    use WorkloadKind::{Deployment, ReplicaSet, ReplicationController, StatefulSet};
    let owner = references.iter().find(|owner| owner.is_controller)?;
    let (api_version, kind) = (symbols.text(owner.api_version), symbols.text(owner.kind));
    let known = [ReplicaSet, StatefulSet, ReplicationController, Deployment];
    let kind = known.into_iter().find(|known| known.name() == kind && known.api_version() == api_version)?;
    Some((kind, namespace, owner.name))
}
