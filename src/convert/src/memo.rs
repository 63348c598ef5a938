//! Drafts of pod specs that have been seen: of a million single Pods most have the spec of another.

use std::hash::{Hash, Hasher};
use std::sync::{Arc, Weak};

use berth_model::LabelsId;
use k8s_openapi::api::core::v1::{PodAffinityTerm, PodSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta};
use rustc_hash::{FxHashMap, FxHasher};

/// Specs kept at most, some kilobytes each.
const MOST: usize = 8_192;
/// Specs of one fingerprint kept at most: where each pod's is its own, as with the token volumes of pods that run, looking
/// through all of them would cost more than reading the spec.
const MOST_ALIKE: usize = 8;

/// Specs with the index of their draft, by a hash of the parts in which specs usually differ.
#[derive(Clone, Debug, Default)]
pub(crate) struct Memo {
    by_fingerprint: FxHashMap<u64, Vec<(Box<PodSpec>, u32)>>,
    n_specs: usize,
}

impl Memo {
    /// The draft of a spec that is equal, the node aside.
    pub(crate) fn get(&mut self, fingerprint: u64, spec: &PodSpec) -> Option<u32> {
        let alike = self.by_fingerprint.get_mut(&fingerprint)?;
        alike.iter_mut().find_map(|(known, draft)| {
            // Its node is lent to what is known, since a spec is large and would have to be copied without it.
            known.node_name.clone_from(&spec.node_name);
            let is_equal = **known == *spec;
            known.node_name = None;
            is_equal.then_some(*draft)
        })
    }

    /// Remembers a spec, while there is room.
    pub(crate) fn insert(&mut self, fingerprint: u64, spec: &PodSpec, draft: u32) {
        let alike = self.by_fingerprint.entry(fingerprint).or_default();
        if self.n_specs < MOST && alike.len() < MOST_ALIKE {
            self.n_specs += 1;
            alike.push((Box::new(without_node(spec)), draft));
        }
    }
}

/// What is read of the metadata and the spec of a pod, by index.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Alike {
    pub(crate) draft: u32,
    pub(crate) labels: LabelsId,
    pub(crate) references: u32,
    pub(crate) owner: Option<u32>,
}

/// The metadata and the spec that pods share.
pub(crate) type Shared<'p> = (&'p Arc<ObjectMeta>, &'p Arc<PodSpec>);

/// The same of pods that share them, by where these are: nothing is compared.
#[derive(Clone, Debug, Default)]
pub(crate) struct AllAlike(FxHashMap<[usize; 2], (WeakShared, Alike)>);

/// As long as this is there, nothing else comes to be where they are.
type WeakShared = (Weak<ObjectMeta>, Weak<PodSpec>);

// === impl AllAlike ===

impl AllAlike {
    /// What was read before of metadata and spec.
    pub(crate) fn get(&self, shared: Shared<'_>) -> Option<Alike> {
        self.0.get(&places(shared)).map(|(_, alike)| *alike)
    }

    /// Remembers what was read of metadata and spec.
    pub(crate) fn insert(&mut self, shared: Shared<'_>, alike: Alike) {
        if self.0.len() >= MOST {
            self.0.clear();
        }
        let weak = (Arc::downgrade(shared.0), Arc::downgrade(shared.1));
        self.0.insert(places(shared), (weak, alike));
    }
}

fn places((metadata, spec): Shared<'_>) -> [usize; 2] {
    [Arc::as_ptr(metadata).addr(), Arc::as_ptr(spec).addr()]
}

fn without_node(spec: &PodSpec) -> PodSpec {
    PodSpec { node_name: None, ..spec.clone() }
}

/// A hash of requests, node selector and selectors. Equal specs have equal fingerprints; what it leaves out only makes
/// more comparisons.
pub(crate) fn fingerprint(spec: &PodSpec) -> u64 {
    let mut hasher = FxHasher::default();
    for container in &spec.containers {
        let requests = container.resources.as_ref().and_then(|resources| resources.requests.as_ref());
        for (name, quantity) in requests.into_iter().flatten() {
            (name, &quantity.0).hash(&mut hasher);
        }
    }
    spec.node_selector.hash(&mut hasher);
    for constraint in spec.topology_spread_constraints.iter().flatten() {
        constraint.topology_key.hash(&mut hasher);
        selector(constraint.label_selector.as_ref(), &mut hasher);
    }
    if let Some(affinity) = &spec.affinity {
        let pod_affinity = affinity.pod_affinity.as_ref();
        let anti_affinity = affinity.pod_anti_affinity.as_ref();
        terms(pod_affinity.and_then(|a| a.required_during_scheduling_ignored_during_execution.as_ref()), &mut hasher);
        terms(anti_affinity.and_then(|a| a.required_during_scheduling_ignored_during_execution.as_ref()), &mut hasher);
    }
    hasher.finish()
}

fn terms(terms: Option<&Vec<PodAffinityTerm>>, hasher: &mut FxHasher) {
    for term in terms.into_iter().flatten() {
        term.topology_key.hash(hasher);
        selector(term.label_selector.as_ref(), hasher);
    }
}

fn selector(selector: Option<&LabelSelector>, hasher: &mut FxHasher) {
    selector.and_then(|selector| selector.match_labels.as_ref()).hash(hasher);
}
