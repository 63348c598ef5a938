//! Drafts of pod specs that have been seen: of a million single Pods most have the spec of another.

use std::hash::{Hash, Hasher};

use k8s_openapi::api::core::v1::{PodAffinityTerm, PodSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use rustc_hash::{FxHashMap, FxHasher};

/// Specs kept at most, some kilobytes each.
const MOST: usize = 8_192;

/// Specs with the index of their draft, by a hash of the parts in which specs usually differ.
#[derive(Debug, Default)]
pub(crate) struct Memo {
    by_fingerprint: FxHashMap<u64, Vec<(Box<PodSpec>, u32)>>,
    n_specs: usize,
}

impl Memo {
    /// The draft of an equal spec.
    pub(crate) fn get(&self, fingerprint: u64, spec: &PodSpec) -> Option<u32> {
        let alike = self.by_fingerprint.get(&fingerprint)?;
        alike.iter().find(|(known, _)| **known == *spec).map(|(_, draft)| *draft)
    }

    /// Remembers a spec, while there is room.
    pub(crate) fn insert(&mut self, fingerprint: u64, spec: &PodSpec, draft: u32) {
        if self.n_specs < MOST {
            self.n_specs += 1;
            self.by_fingerprint.entry(fingerprint).or_default().push((Box::new(spec.clone()), draft));
        }
    }
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
        let together = affinity.pod_affinity.as_ref();
        let apart = affinity.pod_anti_affinity.as_ref();
        terms(together.and_then(|a| a.required_during_scheduling_ignored_during_execution.as_ref()), &mut hasher);
        terms(apart.and_then(|a| a.required_during_scheduling_ignored_during_execution.as_ref()), &mut hasher);
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
