//! Which pods a topology constraint speaks about.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{PodAffinityTerm, TopologySpreadConstraint};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, LabelSelectorRequirement};

use crate::selectors::selects;
use crate::world::{Pod, World};

/// A selector with the namespaces that it looks at.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub(crate) struct Scope {
    /// None is every namespace.
    pub(crate) namespaces: Option<BTreeSet<String>>,
    pub(crate) selector: Option<LabelSelector>,
}

/// The selector with a requirement per listed key that the pod itself has: the pod's own value, or not it.
fn with_keys(
    selector: Option<&LabelSelector>,
    pod: &Pod,
    keys: Option<&Vec<String>>,
    operator: &str,
) -> Option<LabelSelector> {
    let mut selector = selector.cloned()?;
    for key in keys.into_iter().flatten() {
        if let Some(value) = pod.labels.get(key) {
            selector.match_expressions.get_or_insert_with(Vec::new).push(LabelSelectorRequirement {
                key: key.clone(),
                operator: operator.to_owned(),
                values: Some(vec![value.clone()]),
            });
        }
    }
    Some(selector)
}

impl Scope {
    pub(crate) fn of_spread(pod: &Pod, constraint: &TopologySpreadConstraint) -> Self {
        Self {
            namespaces: Some(BTreeSet::from([pod.namespace.clone()])),
            selector: with_keys(constraint.label_selector.as_ref(), pod, constraint.match_label_keys.as_ref(), "In"),
        }
    }

    pub(crate) fn of_term(world: &World, pod: &Pod, term: &PodAffinityTerm) -> Self {
        let selector = with_keys(term.label_selector.as_ref(), pod, term.match_label_keys.as_ref(), "In");
        let selector = with_keys(selector.as_ref(), pod, term.mismatch_label_keys.as_ref(), "NotIn");
        let mut namespaces: BTreeSet<String> = term.namespaces.iter().flatten().cloned().collect();
        match &term.namespace_selector {
            Some(chosen) if *chosen == LabelSelector::default() => return Self { namespaces: None, selector },
            Some(chosen) => {
                let known = world.namespaces.keys().chain(world.pods.iter().map(|p| &p.namespace));
                let known: BTreeSet<&String> = known.collect();
                let matching = known.into_iter().filter(|n| selects(Some(chosen), &world.namespace_labels(n)));
                namespaces.extend(matching.cloned());
            }
            None if namespaces.is_empty() => {
                namespaces.insert(pod.namespace.clone());
            }
            None => {}
        }
        Self { namespaces: Some(namespaces), selector }
    }

    pub(crate) fn matches(&self, pod: &Pod) -> bool {
        self.namespaces.as_ref().is_none_or(|n| n.contains(&pod.namespace))
            && selects(self.selector.as_ref(), &pod.labels)
    }
}

/// A pod at a place, planned or running there.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Placed<'w> {
    pub(crate) pod: &'w Pod,
    pub(crate) index: usize,
    pub(crate) site: usize,
    pub(crate) planned: bool,
}

/// Every pod at its place.
pub(crate) fn placed<'w>(world: &'w World, sites: &[crate::sites::Site<'_>]) -> Vec<Placed<'w>> {
    let mut all = Vec::new();
    for (site, place) in sites.iter().enumerate() {
        let planned = place.planned.iter().map(|i| (*i, true));
        for (index, planned) in planned.chain(place.bound.iter().map(|i| (*i, false))) {
            if let Some(pod) = world.pods.get(index) {
                all.push(Placed { pod, index, site, planned });
            }
        }
    }
    all
}

/// The pods among `all` that a scope matches; each shape is asked once.
pub(crate) fn matching<'a, 'w>(scope: &Scope, all: &'a [Placed<'w>]) -> Vec<&'a Placed<'w>> {
    let mut known: rustc_hash::FxHashMap<usize, bool> = rustc_hash::FxHashMap::default();
    all.iter().filter(|p| *known.entry(p.pod.shape).or_insert_with(|| scope.matches(p.pod))).collect()
}
