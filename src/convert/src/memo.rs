//! Drafts of pod specs that have been seen: of a million single Pods most have the spec of another.

use std::hash::{Hash, Hasher};

use k8s_openapi::api::core::v1::{PodAffinityTerm, PodSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
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
