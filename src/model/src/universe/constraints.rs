//! The counters that a shape's own terms ask for.

use rustc_hash::FxHashMap;

use super::classes::{Preferences, SpecAndLabels, labels_of};
use super::selectors::{NamespaceLabels, Selectors, with_label_keys};
use super::topology::{Constraint, Counter, CounterId, FilterId, NodeFilter, SelectorId};
use crate::{Cluster, Labels, PodSpec, PodTerm, Requirements, Selector, SpreadConstraint, Sym};

/// The counters that a shape's own spec asks for.
#[derive(Debug, Default)]
pub(super) struct OwnConstraints {
    required: Vec<Asked>,
    affinity: Vec<(i32, Asked)>,
    anti_affinity: Vec<(i32, Asked)>,
    spread: Vec<Asked>,
    default_spread: Vec<Asked>,
    pub(super) owner_counters: Vec<CounterId>,
    pub(super) pulls: Vec<CounterId>,
}

/// A constraint before it is known whether the pod itself counts.
#[derive(Clone, Copy, Debug)]
pub(super) enum Asked {
    Spread { counter: CounterId, max_skew: u32, min_domains: Option<u32> },
    Affinity(CounterId),
    AntiAffinity(CounterId),
}

#[derive(Debug, Default)]
pub(super) struct Builder {
    pub(super) selectors: Selectors,
    pub(super) counters: Vec<Counter>,
    counter_ids: FxHashMap<Counter, CounterId>,
    pub(super) filters: Vec<NodeFilter>,
    pub(super) has_scores: bool,
}

impl Builder {
    pub(super) fn new(has_scores: bool) -> Self {
        Builder { has_scores, ..Builder::default() }
    }

    fn counter(&mut self, counter: Counter) -> CounterId {
        let next = CounterId(u32::try_from(self.counters.len()).unwrap_or(u32::MAX));
        let id = *self.counter_ids.entry(counter.clone()).or_insert(next);
        if id == next {
            self.counters.push(counter);
        }
        id
    }

    fn filter(&mut self, filter: NodeFilter) -> Option<FilterId> {
        if filter == NodeFilter::default() {
            return None;
        }
        let at = self.filters.iter().position(|known| *known == filter).unwrap_or_else(|| {
            self.filters.push(filter);
            self.filters.len() - 1
        });
        Some(FilterId::new(at))
    }

    // The counters of a shape's own terms. Of a pod that already runs only its required anti-affinity matters.
    pub(super) fn constraints(
        &mut self,
        cluster: &Cluster,
        namespaces: &NamespaceLabels,
        (_, namespace, spec, labels_id): SpecAndLabels,
        is_pending: bool,
    ) -> OwnConstraints {
        let mut own = OwnConstraints::default();
        let Some(spec) = cluster.spec(spec) else {
            return own;
        };
        let labels = labels_of(cluster, labels_id);
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
                scores_only: false,
                filter: None,
            })
        };
        if self.has_scores {
            own.pulls = self.pulls(cluster, namespaces, namespace, spec, labels);
        }
        for term in &spec.anti_affinity {
            own.owner_counters.push(term_counter(self, term, true));
            if is_pending {
                own.required.push(Asked::AntiAffinity(term_counter(self, term, false)));
            }
        }
        if !is_pending {
            return own;
        }
        if spec.affinity.len() > 1 {
            own.required.extend(self.joint_affinity(cluster, namespaces, namespace, spec, labels));
        } else {
            own.required.extend(spec.affinity.iter().map(|term| Asked::Affinity(term_counter(self, term, false))));
        }
        // What is asked for as if it were required is asked for by counters that are there: nobody else is kept off by it.
        let [_, first_affinity, first_anti_affinity, first_spread] = spec.places_of_preferences();
        for (place, (weight, term)) in (first_affinity..).zip(&spec.preferred_affinity) {
            let asked = Asked::Affinity(term_counter(self, term, false));
            own.prefer(spec.insists_on(place), asked, |own| own.affinity.push((*weight, asked)));
        }
        for (place, (weight, term)) in (first_anti_affinity..).zip(&spec.preferred_anti_affinity) {
            let asked = Asked::AntiAffinity(term_counter(self, term, false));
            own.prefer(spec.insists_on(place), asked, |own| own.anti_affinity.push((*weight, asked)));
        }
        let mut place = first_spread;
        for constraint in &spec.spread {
            let counter = self.spread_counter(cluster, namespace, spec, labels, constraint);
            let asked = Asked::Spread {
                counter,
                max_skew: constraint.max_skew,
                min_domains: constraint.min_domains.filter(|_| constraint.is_required),
            };
            if constraint.is_required {
                own.required.push(asked);
            } else {
                own.prefer(spec.insists_on(place), asked, |own| own.spread.push(asked));
                place += 1;
            }
        }
        if spec.spread.is_empty()
            && let Some(selector) = cluster.spread_from(labels_id)
        {
            self.add_default_spread(cluster, namespace, spec, selector, &mut own);
        }
        own
    }

    // The constraints of pods that have none of their own. What is only a preference matters to scores alone.
    fn add_default_spread(
        &mut self,
        cluster: &Cluster,
        namespace: Sym,
        spec: &PodSpec,
        selector: &Requirements,
        own: &mut OwnConstraints,
    ) {
        let defaults = &cluster.default_spread;
        let has_scores = self.has_scores;
        for default in defaults.constraints.iter().filter(|default| default.is_required || has_scores) {
            let alike = defaults.constraints.iter().filter(|other| other.is_required == default.is_required);
            let keys: Vec<Sym> = alike.map(|other| other.key).filter(|_| defaults.needs_all_keys).collect();
            let filter = self.filter(spread_filter(spec, (true, false), keys));
            let selector = Selector { requirements: Some(selector.clone()) };
            let counter = Counter {
                key: default.key,
                selector: self.selectors.intern_own(namespace, selector),
                counts_owners: false,
                pull: 0,
                skips_terminating: true,
                scores_only: !default.is_required,
                filter,
            };
            let asked = Asked::Spread {
                counter: self.counter(counter),
                max_skew: default.max_skew,
                min_domains: default.min_domains.filter(|_| default.is_required),
            };
            if default.is_required { &mut own.required } else { &mut own.default_spread }.push(asked);
        }
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
        let counter = |key| Counter {
            key,
            selector,
            counts_owners: false,
            pull: 0,
            skips_terminating: false,
            scores_only: false,
            filter: None,
        };
        spec.affinity.iter().map(|term| Asked::Affinity(self.counter(counter(term.key)))).collect()
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
        let mut summed: std::collections::BTreeMap<(Sym, SelectorId), i32> = std::collections::BTreeMap::new();
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
                    scores_only: false,
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
        // A node without one of the pod's keys counts for none of its constraints.
        let alike = spec.spread.iter().filter(|other| other.is_required == constraint.is_required);
        let keys = alike.map(|other| other.key).collect();
        let honors = (constraint.honors_node_affinity, constraint.honors_taints);
        let mut filter = spread_filter(spec, honors, keys);
        let own = [cluster.well_known.hostname, cluster.well_known.field_name];
        if constraint.honors_node_affinity && constraint.key != cluster.well_known.hostname {
            // A volume of one node says nothing of others.
            let names_node =
                |place: &&Vec<Requirements>| place.iter().any(|known| own.iter().any(|key| known.get(*key).is_some()));
            filter.places = spec.volumes.places().filter(|place| !names_node(place)).cloned().collect();
        }
        let filter = self.filter(filter);
        self.counter(Counter {
            key: constraint.key,
            selector,
            counts_owners: false,
            pull: 0,
            skips_terminating: true,
            scores_only: false,
            filter,
        })
    }
}

// The nodes that a spread constraint of a pod looks at, which have all `keys`.
fn spread_filter(
    spec: &PodSpec,
    (honors_node_affinity, honors_taints): (bool, bool),
    mut keys: Vec<Sym>,
) -> NodeFilter {
    let mut filter = NodeFilter::default();
    if honors_node_affinity {
        filter.node_selector = spec.own_selector().clone();
        filter.required_terms.clone_from(&spec.required_terms);
    }
    if honors_taints {
        filter.tolerations = Some(spec.tolerations.clone());
    }
    keys.sort_unstable();
    keys.dedup();
    if keys.len() > 1 {
        filter.keys = keys;
    }
    filter
}

impl OwnConstraints {
    // Counts a preference among what is required if the pod insists on it.
    fn prefer(&mut self, is_required: bool, asked: Asked, prefer: impl FnOnce(&mut Self)) {
        if is_required { self.required.push(asked) } else { prefer(self) }
    }

    // What draws a shape: its own preferences and `others` that prefer it.
    pub(super) fn drawn(&self, others: impl Iterator<Item = (CounterId, i64)>) -> Vec<(CounterId, i64)> {
        let own = |asked: &[(i32, Asked)], sign: i64| -> Vec<(CounterId, i64)> {
            asked.iter().map(|(weight, asked)| (asked.counter(), sign * i64::from(*weight))).collect()
        };
        let mut drawn = own(&self.affinity, 1);
        drawn.extend(own(&self.anti_affinity, -1));
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

    pub(super) fn resolve(&self, counts_in: &[CounterId], inverse: Vec<Constraint>) -> (Vec<Constraint>, Preferences) {
        let resolve = |asked: &Asked| asked.resolve(counts_in);
        let mut required = inverse;
        required.extend(self.required.iter().map(resolve));
        required.sort_unstable();
        required.dedup();
        let preferred = Preferences {
            affinity: self.affinity.iter().map(|(weight, asked)| (*weight, resolve(asked))).collect(),
            anti_affinity: self.anti_affinity.iter().map(|(weight, asked)| (*weight, resolve(asked))).collect(),
            spread: self.spread.iter().map(resolve).collect(),
            default_spread: self.default_spread.iter().map(resolve).collect(),
        };
        (required, preferred)
    }
}

impl Asked {
    fn counter(self) -> CounterId {
        match self {
            Asked::Spread { counter, .. } | Asked::Affinity(counter) | Asked::AntiAffinity(counter) => counter,
        }
    }

    pub(super) fn resolve(&self, counts_in: &[CounterId]) -> Constraint {
        let counts_self = |counter: CounterId| counts_in.binary_search(&counter).is_ok();
        match *self {
            Asked::Spread { counter, max_skew, min_domains } => {
                Constraint::Spread { counter, max_skew, min_domains, counts_self: counts_self(counter) }
            }
            Asked::Affinity(counter) => Constraint::Affinity { counter, counts_self: counts_self(counter) },
            Asked::AntiAffinity(counter) => Constraint::AntiAffinity { counter, counts_self: counts_self(counter) },
        }
    }
}
