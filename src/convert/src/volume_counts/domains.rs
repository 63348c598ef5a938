//! Domains that pods keep apart in, or spread over: two pods whose volumes are in one zone are of no use to a set that has one
//! pod a zone.

use berth_model::{Cluster, LabelsId, PodSpec, Requirements, Selector, SpecId, Sym};
use rustc_hash::FxHashMap;

use crate::claims::value_of;

/// Pods that a term selects, which count in the domains of its key.
#[derive(Debug)]
struct Group {
    namespace: Sym,
    key: Sym,
    selector: Selector,
    counts: FxHashMap<Sym, u32>,
}

/// Who is alike: namespace, labels and spec.
pub(super) type Alike = (Sym, LabelsId, SpecId);

/// What terms mean to those who are alike: the groups that they keep apart from, those that they spread over, and those that
/// they count in.
#[derive(Debug, Default, Clone)]
struct Meant {
    apart: Vec<usize>,
    spread: Vec<usize>,
    counts_in: Vec<usize>,
}

/// How many pods are in which domain, or are to be.
#[derive(Debug, Default)]
pub(super) struct Domains {
    groups: Vec<Group>,
    meant: FxHashMap<Alike, Meant>,
}

impl Domains {
    /// Of those who share volumes, with the pods that have a node. Terms that look at other namespaces, or at the values of
    /// labels, are left to whoever places the pods.
    pub(super) fn new(sharers: impl Iterator<Item = Alike>, cluster: &Cluster) -> Self {
        let mut domains = Domains::default();
        for alike in sharers {
            if domains.meant.contains_key(&alike) {
                continue;
            }
            let Some(spec) = cluster.spec(alike.2) else { continue };
            let apart = own_anti_affinity(spec).map(|(key, selector)| domains.group(alike.0, key, selector)).collect();
            let spread = own_spread(spec).map(|(key, selector)| domains.group(alike.0, key, selector)).collect();
            domains.meant.insert(alike, Meant { apart, spread, counts_in: Vec::new() });
        }
        if domains.groups.is_empty() {
            return domains;
        }
        let Domains { groups, meant } = &mut domains;
        for ((namespace, labels, _), meant) in meant {
            let groups = groups.iter().enumerate().filter(|(_, group)| group.has(*namespace, *labels, cluster));
            meant.counts_in = groups.map(|(at, _)| at).collect();
        }
        // Most pods are like others.
        let mut of_alike: FxHashMap<(Sym, LabelsId), Vec<usize>> = FxHashMap::default();
        for node in &cluster.nodes {
            for pod in &node.pods {
                let counts_in = of_alike.entry((pod.namespace, pod.labels)).or_insert_with(|| {
                    let groups = groups.iter().enumerate();
                    let own = groups.filter(|(_, group)| group.has(pod.namespace, pod.labels, cluster));
                    own.map(|(at, _)| at).collect()
                });
                for &at in &*counts_in {
                    let Some(group) = groups.get_mut(at) else { continue };
                    let Some(value) = node.labels.get(group.key) else { continue };
                    let count = group.counts.entry(value).or_default();
                    *count = count.saturating_add(1);
                }
            }
        }
        domains
    }

    fn group(&mut self, namespace: Sym, key: Sym, selector: &Selector) -> usize {
        let is_it = |group: &Group| (group.namespace, group.key, &group.selector) == (namespace, key, selector);
        self.groups.iter().position(is_it).unwrap_or_else(|| {
            self.groups.push(Group { namespace, key, selector: selector.clone(), counts: FxHashMap::default() });
            self.groups.len() - 1
        })
    }

    /// Whether these keep apart from a pod that is at a place.
    pub(super) fn keep_apart(&self, alike: &Alike, place: &[Requirements]) -> bool {
        let apart = self.meant.get(alike).map_or(&[][..], |meant| &meant.apart);
        apart.iter().any(|at| self.count(*at, place) > 0)
    }

    /// How many of those whom these are spread with are at a place.
    pub(super) fn crowd(&self, alike: &Alike, place: &[Requirements]) -> u32 {
        let spread = self.meant.get(alike).map_or(&[][..], |meant| &meant.spread);
        spread.iter().map(|at| self.count(*at, place)).max().unwrap_or(0)
    }

    /// One more of these is at a place.
    pub(super) fn come(&mut self, alike: &Alike, place: &[Requirements]) {
        self.change(alike, place, |count| count.saturating_add(1));
    }

    /// One of these is at a place no more.
    pub(super) fn leave(&mut self, alike: &Alike, place: &[Requirements]) {
        self.change(alike, place, |count| count.saturating_sub(1));
    }

    fn change(&mut self, alike: &Alike, place: &[Requirements], to: impl Fn(u32) -> u32) {
        for at in self.meant.get(alike).map_or(&[][..], |meant| &meant.counts_in) {
            let Some(group) = self.groups.get_mut(*at) else { continue };
            if let Some(value) = value_of(place, group.key) {
                let count = group.counts.entry(value).or_default();
                *count = to(*count);
            }
        }
    }

    fn count(&self, group: usize, place: &[Requirements]) -> u32 {
        let count = |group: &Group| group.counts.get(&value_of(place, group.key)?).copied();
        self.groups.get(group).and_then(count).unwrap_or(0)
    }
}

impl Group {
    fn has(&self, namespace: Sym, labels: LabelsId, cluster: &Cluster) -> bool {
        namespace == self.namespace
            && cluster.labels(labels).is_some_and(|labels| self.selector.matches(labels, &cluster.symbols))
    }
}

/// Required terms about pods of the same namespace.
fn own_anti_affinity(spec: &PodSpec) -> impl Iterator<Item = (Sym, &Selector)> {
    let own = spec.anti_affinity.iter().filter(|term| {
        term.namespaces.is_empty()
            && term.namespace_selector.is_none()
            && term.match_label_keys.is_empty()
            && term.mismatch_label_keys.is_empty()
    });
    own.map(|term| (term.key, &term.selector))
}

fn own_spread(spec: &PodSpec) -> impl Iterator<Item = (Sym, &Selector)> {
    let required = spec.spread.iter().filter(|constraint| constraint.is_required);
    required.filter(|constraint| constraint.match_label_keys.is_empty()).map(|one| (one.key, &one.selector))
}
