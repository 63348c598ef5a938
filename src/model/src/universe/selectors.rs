//! Distinct selectors with their namespaces, and an index that finds those that match a pod.

use rustc_hash::FxHashMap;

use super::topology::SelectorId;
use crate::cluster::listed;
use crate::{Cluster, Labels, PodTerm, Requirement, Selector, Sym, Symbols};

/// The label that every namespace has, with its name.
const NAME_KEY: &str = "kubernetes.io/metadata.name";

/// The namespaces that a selector looks at; `None` is all of them.
type Scope = Option<Vec<Sym>>;

/// A selector within namespaces.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct ScopedSelector {
    scope: Scope,
    selector: Selector,
}

/// All distinct selectors of a universe.
#[derive(Clone, Debug, Default)]
pub(crate) struct Selectors {
    list: Vec<ScopedSelector>,
    ids: FxHashMap<ScopedSelector, SelectorId>,
    // Selectors that need one of some values of a key, by each such pair; the others must always be tried.
    by_pair: FxHashMap<(Sym, Sym), Vec<SelectorId>>,
    unindexed: Vec<SelectorId>,
    /// Whether some term asks for labels of namespaces.
    reads_namespaces: bool,
}

impl Selectors {
    fn intern(&mut self, scoped: ScopedSelector) -> SelectorId {
        if let Some(&id) = self.ids.get(&scoped) {
            return id;
        }
        let id = SelectorId(u32::try_from(self.list.len()).unwrap_or(u32::MAX));
        if let Some(requirements) = &scoped.selector.requirements {
            let narrowest = requirements
                .iter()
                .filter_map(|(key, r)| r.finite_values().filter(|values| !values.is_empty()).map(|v| (key, v)))
                .min_by_key(|(_, values)| values.len());
            match narrowest {
                Some((key, values)) => {
                    for &value in values {
                        self.by_pair.entry((key, value)).or_default().push(id);
                    }
                }
                None => self.unindexed.push(id),
            }
        }
        self.list.push(scoped.clone());
        self.ids.insert(scoped, id);
        id
    }

    /// The selector of a spread constraint: the pod's own namespace.
    pub(crate) fn intern_own(&mut self, namespace: Sym, selector: Selector) -> SelectorId {
        self.intern(ScopedSelector { scope: Some(vec![namespace]), selector })
    }

    /// The selector of an affinity term of a pod in `namespace`.
    pub(crate) fn intern_term(
        &mut self,
        term: &PodTerm,
        namespace: Sym,
        selector: Selector,
        namespaces: &NamespaceLabels,
        symbols: &Symbols,
    ) -> SelectorId {
        let scope = self.scope_of(term, namespace, namespaces, symbols);
        self.intern(ScopedSelector { scope, selector })
    }

    /// The selector of the pods that all of a pod's terms mean; the pod is its namespace and its labels.
    pub(crate) fn intern_all(
        &mut self,
        terms: &[PodTerm],
        (namespace, labels): (Sym, &Labels),
        namespaces: &NamespaceLabels,
        symbols: &Symbols,
    ) -> SelectorId {
        let (mut scope, mut requirements): (Scope, _) = (None, Some(crate::Requirements::new()));
        for term in terms {
            scope = match (scope, self.scope_of(term, namespace, namespaces, symbols)) {
                (Some(a), Some(b)) => Some(a.into_iter().filter(|name| b.contains(name)).collect()),
                (a, b) => a.or(b),
            };
            let keys = (&term.match_label_keys[..], &term.mismatch_label_keys[..]);
            let of_term = with_label_keys(&term.selector, keys.0, keys.1, labels, symbols).requirements;
            requirements = requirements.zip(of_term).map(|(mut all, more)| {
                all.add_all(&more, symbols);
                all
            });
        }
        self.intern(ScopedSelector { scope, selector: Selector { requirements } })
    }

    /// Whether selectors are others if namespaces are, or have other labels.
    pub(crate) fn reads_namespaces(&self) -> bool {
        self.reads_namespaces
    }

    /// The namespaces that a term of a pod in `namespace` looks at.
    fn scope_of(&mut self, term: &PodTerm, namespace: Sym, namespaces: &NamespaceLabels, symbols: &Symbols) -> Scope {
        match &term.namespace_selector {
            None if term.namespaces.is_empty() => Some(vec![namespace]),
            None => Some(sorted(term.namespaces.clone())),
            Some(Selector { requirements: Some(all) }) if all.is_empty() => None,
            Some(by_label) => {
                self.reads_namespaces = true;
                let mut scope = term.namespaces.clone();
                scope.extend(namespaces.matching(by_label, symbols));
                Some(sorted(scope))
            }
        }
    }

    /// Whether a selector matches a pod.
    pub(crate) fn matches(&self, id: SelectorId, namespace: Sym, labels: &Labels, symbols: &Symbols) -> bool {
        listed(&self.list, id.0 as usize, "selector").is_some_and(|scoped| {
            scoped.scope.as_ref().is_none_or(|scope| scope.binary_search(&namespace).is_ok())
                && scoped.selector.matches(labels, symbols)
        })
    }

    /// The selectors that match a pod, in ascending order.
    pub(crate) fn matching(&self, namespace: Sym, labels: &Labels, symbols: &Symbols) -> Vec<SelectorId> {
        let candidates = labels.iter().filter_map(|pair| self.by_pair.get(&pair)).flatten();
        let mut out: Vec<SelectorId> = candidates
            .chain(&self.unindexed)
            .copied()
            .filter(|&id| self.matches(id, namespace, labels, symbols))
            .collect();
        out.sort_unstable();
        out.dedup();
        out
    }
}

fn sorted(mut namespaces: Vec<Sym>) -> Vec<Sym> {
    namespaces.sort_unstable();
    namespaces.dedup();
    namespaces
}

/// Adds the pod's own values of `keys` to a selector: as `In` for matchLabelKeys, as `NotIn` for mismatchLabelKeys.
pub(crate) fn with_label_keys(
    selector: &Selector,
    keys: &[Sym],
    mismatch_keys: &[Sym],
    labels: &Labels,
    symbols: &Symbols,
) -> Selector {
    let Some(mut requirements) = selector.requirements.clone() else {
        return selector.clone();
    };
    for &key in keys {
        if let Some(value) = labels.get(key) {
            requirements.add(key, Requirement::value(value), symbols);
        }
    }
    for &key in mismatch_keys {
        if let Some(value) = labels.get(key) {
            requirements.add(key, Requirement::new(crate::Operator::NotIn, [value], symbols), symbols);
        }
    }
    Selector { requirements: Some(requirements) }
}

/// The labels of every namespace that occurs.
#[derive(Debug)]
pub(crate) struct NamespaceLabels {
    /// Ascending by name.
    known: Vec<(Sym, Labels)>,
    /// The label that all have, where some string names it.
    name_key: Option<Sym>,
}

impl NamespaceLabels {
    /// Namespaces of the input, and those that only pods mention, which have their name as their one label.
    pub(crate) fn new(cluster: &mut Cluster) -> Self {
        // Who interns has a table of its own, and a copy of a large cluster's costs more than a plan of a few pods.
        if cluster.symbols.get(NAME_KEY).is_none() {
            cluster.symbols.intern(NAME_KEY);
        }
        Self::of(cluster)
    }

    /// The same of a cluster that does not change; a key that no string of it names is asked by no selector.
    pub(crate) fn of(cluster: &Cluster) -> Self {
        let name_key = cluster.symbols.get(NAME_KEY);
        let mut mentioned: Vec<Sym> = cluster.pending.iter().map(|row| row.namespace).collect();
        mentioned.extend(cluster.nodes.iter().flat_map(|node| node.pods.iter().map(|pod| pod.namespace)));
        let mut known: Vec<(Sym, Labels)> = cluster.namespaces.iter().map(|ns| (ns.name, ns.labels.clone())).collect();
        known.sort_by_key(|(name, _)| *name);
        known.dedup_by_key(|(name, _)| *name);
        for name in sorted(mentioned) {
            if let Err(at) = known.binary_search_by_key(&name, |(known, _)| *known) {
                known.insert(at, (name, Labels::new(name_key.map(|key| (key, name)))));
            }
        }
        NamespaceLabels { known, name_key }
    }

    /// Takes in the namespaces that the cluster lists now; those that are not listed have their name as their one label.
    pub(crate) fn follow(&mut self, cluster: &Cluster) {
        let before = std::mem::take(&mut self.known);
        self.known = cluster.namespaces.iter().map(|ns| (ns.name, ns.labels.clone())).collect();
        self.known.sort_by_key(|(name, _)| *name);
        self.known.dedup_by_key(|(name, _)| *name);
        for (name, _) in before {
            self.mention(name);
        }
    }

    /// A pod is in this namespace.
    pub(crate) fn mention(&mut self, name: Sym) {
        if let Err(at) = self.known.binary_search_by_key(&name, |(known, _)| *known) {
            self.known.insert(at, (name, Labels::new(self.name_key.map(|key| (key, name)))));
        }
    }

    /// Whether the label that all namespaces have is known as the cluster knows it.
    pub(crate) fn is_current(&self, cluster: &Cluster) -> bool {
        self.name_key == cluster.symbols.get(NAME_KEY)
    }

    /// Whether a namespace occurs.
    pub(crate) fn has(&self, namespace: Sym) -> bool {
        self.known.binary_search_by_key(&namespace, |(known, _)| *known).is_ok()
    }

    fn matching(&self, selector: &Selector, symbols: &Symbols) -> Vec<Sym> {
        self.known.iter().filter(|(_, labels)| selector.matches(labels, symbols)).map(|(name, _)| *name).collect()
    }
}
