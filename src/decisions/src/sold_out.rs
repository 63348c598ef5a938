//! What who has no place asks for and the cloud has none left of: a zone, say, that volumes are in.

use std::collections::{BTreeMap, BTreeSet};

use berth_model::{ClassId, Cluster, PodSpec, Requirement, Requirements, Sym, Universe};
use berth_scheduling::reasons;

/// The labels that instance types have, by key: those that can be launched, and those of what is sold out. A key is looked
/// for once it is asked for.
pub(crate) struct SoldOut<'c> {
    cluster: &'c Cluster,
    is_any: bool,
    labels: BTreeMap<Sym, [BTreeSet<Sym>; 2]>,
}

// === impl SoldOut ===

impl<'c> SoldOut<'c> {
    pub(crate) fn of(cluster: &'c Cluster) -> Self {
        let is_any = cluster.instance_types.iter().any(|of_type| !of_type.sold_out.is_empty());
        Self { cluster, is_any, labels: BTreeMap::new() }
    }

    /// What members of a class are told beside other reasons; `None` where something is left of all that they ask for.
    pub(crate) fn reason(&mut self, class: ClassId, universe: &Universe) -> Option<String> {
        if !self.is_any {
            return None;
        }
        let cluster = self.cluster;
        let spec: &PodSpec = cluster.spec(universe.class(class)?.spec)?;
        let mut of_selector = spec.node_selector.iter();
        of_selector
            .find_map(|(key, asked)| self.label(key, asked))
            .or_else(|| self.of_any(&spec.required_terms))
            .or_else(|| spec.volumes.places().find_map(|places| self.of_any(places)))
    }

    /// One of the terms must hold: the first that does not, where none can.
    fn of_any(&mut self, terms: &[Requirements]) -> Option<String> {
        let mut of_term = |term: &Requirements| term.iter().find_map(|(key, asked)| self.label(key, asked));
        terms.iter().map(&mut of_term).collect::<Option<Vec<String>>>()?.into_iter().next()
    }

    /// A label that some types would have, where nothing is left of these.
    fn label(&mut self, key: Sym, asked: &Requirement) -> Option<String> {
        if asked.allows_absent() {
            return None;
        }
        let cluster = self.cluster;
        let [there, gone] = self.labels.entry(key).or_insert_with(|| labels(cluster, key));
        let symbols = &cluster.symbols;
        if there.iter().any(|value| asked.has(*value, symbols)) {
            return None;
        }
        let value = gone.iter().filter(|value| asked.has(**value, symbols)).map(|value| symbols.text(*value)).min()?;
        Some(reasons::sold_out_with(symbols.text(key), value))
    }
}

/// The values of a key on what can be launched, and on what is sold out.
fn labels(cluster: &Cluster, key: Sym) -> [BTreeSet<Sym>; 2] {
    let [mut there, mut gone] = [BTreeSet::new(), BTreeSet::new()];
    for of_type in &cluster.instance_types {
        let is_name = key == cluster.well_known.instance_type;
        let own = of_type.labels.get(key).or_else(|| is_name.then_some(of_type.name));
        if let Some(own) = own {
            let values = if of_type.offerings.is_empty() { &mut gone } else { &mut there };
            values.insert(own);
        }
        there.extend(of_type.offerings.iter().filter_map(|offering| offering.labels.get(key)));
        gone.extend(of_type.sold_out.iter().filter_map(|offering| offering.labels.get(key)));
    }
    [there, gone]
}
