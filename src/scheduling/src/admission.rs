//! Taints, node selectors, node affinity, volume topology and pods of DaemonSets: what does not depend on what else is
//! on the bin.

use std::borrow::Cow;

use berth_model::{
    Cluster, ColumnTable, Node, NodeFilter, NodePool, PodSpec, Requirement, Requirements, Sym, Symbols,
    first_untolerated,
};
use fixedbitset::FixedBitSet;

use crate::node_terms::{matches_any, node_label};
use crate::{Demand, filter, reasons};

/// The columns of a NodePool that a demand may use, and what it leaves of the labels that no column decides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Admission {
    /// The columns.
    pub columns: FixedBitSet,
    /// The pool's undecided labels, narrowed.
    pub open: Requirements,
}

/// Narrows a NodePool to what a demand may use: nothing, or one admission for each way in which the alternatives of
/// node affinity leave the labels that no column decides (nearly always one way).
pub fn admit(cluster: &Cluster, pool: &NodePool, table: &ColumnTable, demand: &Demand) -> Vec<Admission> {
    let Some(spec) = cluster.spec(demand.spec) else { return Vec::new() };
    let mut admissions = admit_without_daemons(cluster, pool, table, demand);
    for admission in &mut admissions {
        for (_, columns) in kept_by_daemons(cluster, table, demand, spec) {
            admission.columns.difference_with(&columns);
        }
    }
    admissions.retain(|admission| !admission.columns.is_clear());
    admissions
}

/// The same, whatever pods of DaemonSets will be there.
fn admit_without_daemons(cluster: &Cluster, pool: &NodePool, table: &ColumnTable, demand: &Demand) -> Vec<Admission> {
    let Some(spec) = cluster.spec(demand.spec) else { return Vec::new() };
    let symbols = &cluster.symbols;
    if pool.refusal.is_some()
        || first_untolerated(&pool.taints, &spec.tolerations, demand.avoids_preferred_taints, symbols).is_some()
    {
        return Vec::new();
    }
    let mut admissions = admit_terms(table, &demand.terms, symbols);
    for admission in &mut admissions {
        keep_places((&mut admission.columns, &admission.open), spec.volumes.places(), table, symbols);
    }
    admissions
}

// The alternatives that agree on the undecided labels are united.
fn admit_terms(table: &ColumnTable, terms: &[Requirements], symbols: &Symbols) -> Vec<Admission> {
    let mut found: Vec<Admission> = Vec::new();
    for term in terms {
        let Some(open) = table.open_with(term, symbols) else { continue };
        let columns = table.admitting(term, symbols);
        match found.iter_mut().find(|known| known.open == open) {
            Some(known) => known.columns.union_with(&columns),
            None => found.push(Admission { columns, open }),
        }
    }
    found
}

// Keeps the columns of nodes on which one alternative of each place holds.
fn keep_places<'p>(
    (columns, open): (&mut FixedBitSet, &Requirements),
    places: impl Iterator<Item = &'p Vec<Requirements>>,
    table: &ColumnTable,
    symbols: &Symbols,
) {
    for alternatives in places {
        let mut any = FixedBitSet::with_capacity(table.columns.len());
        for alternative in alternatives.iter().filter(|a| open_allows(open, a, symbols)) {
            any.union_with(&table.admitting(alternative, symbols));
        }
        columns.intersect_with(&any);
    }
}

/// What of a DaemonSet's pods keeps others off their nodes.
struct Kept<'a> {
    why: &'static str,
    daemon: &'a str,
}

/// The nodes from which pods of DaemonSets keep a demand, who will be there before it, each with why.
fn kept_by_daemons<'a>(
    cluster: &'a Cluster,
    table: &'a ColumnTable,
    demand: &'a Demand,
    spec: &'a PodSpec,
) -> impl Iterator<Item = (Kept<'a>, Cow<'a, FixedBitSet>)> {
    let with_columns = table.daemon_columns.iter().filter_map(|(index, columns)| {
        let daemon = cluster.daemons.get(*index as usize)?;
        Some((*index, daemon, cluster.spec(daemon.spec)?, columns))
    });
    with_columns.flat_map(move |(index, daemon, of_daemon, columns)| {
        let kept = |why: &'static str| Kept { why, daemon: &daemon.name };
        let excluded = exclude_each_other(spec, of_daemon).map(|why| (kept(why), Cow::Borrowed(columns)));
        let apart = demand.apart.iter().filter(move |apart| apart.daemon == index);
        let apart = apart.filter_map(move |apart| {
            let why = if apart.is_own { reasons::POD_ANTI_AFFINITY } else { reasons::EXISTING_ANTI_AFFINITY };
            Some((kept(why), with_label(cluster, table, apart.key, columns)?))
        });
        excluded.into_iter().chain(apart)
    })
}

/// Those of the columns whose nodes have a label: without it a node is in no domain.
fn with_label<'a>(
    cluster: &Cluster,
    table: &ColumnTable,
    key: Sym,
    columns: &'a FixedBitSet,
) -> Option<Cow<'a, FixedBitSet>> {
    if key == cluster.well_known.hostname {
        return Some(Cow::Borrowed(columns));
    }
    let mut has_key = Requirements::new();
    has_key.add(key, Requirement::exists(), &cluster.symbols);
    table.open_with(&has_key, &cluster.symbols)?;
    let mut columns = columns.clone();
    columns.intersect_with(&table.admitting(&has_key, &cluster.symbols));
    Some(Cow::Owned(columns))
}

/// The columns of a NodePool from which its volumes alone keep a demand.
pub fn columns_kept_by_volumes(
    cluster: &Cluster,
    pool: &NodePool,
    table: &ColumnTable,
    demand: &Demand,
) -> FixedBitSet {
    let mut columns = FixedBitSet::with_capacity(table.columns.len());
    let has_places = cluster.spec(demand.spec).is_some_and(|spec| spec.volumes.places().next().is_some());
    if has_places {
        for admission in admit_terms(table, &demand.terms, &cluster.symbols) {
            columns.union_with(&admission.columns);
        }
        for admission in admit_without_daemons(cluster, pool, table, demand) {
            columns.difference_with(&admission.columns);
        }
    }
    columns
}

/// The columns that pods of DaemonSets keep a demand off where nothing else does, each set with why; of several the first is the
/// reason.
pub fn daemon_refusals(
    cluster: &Cluster,
    pool: &NodePool,
    table: &ColumnTable,
    demand: &Demand,
) -> Vec<(String, FixedBitSet)> {
    let Some(spec) = cluster.spec(demand.spec) else { return Vec::new() };
    let mut kept = kept_by_daemons(cluster, table, demand, spec).peekable();
    if kept.peek().is_none() {
        return Vec::new();
    }
    let mut admitted = FixedBitSet::with_capacity(table.columns.len());
    for admission in admit_without_daemons(cluster, pool, table, demand) {
        admitted.union_with(&admission.columns);
    }
    let refusals = kept.map(|(kept, columns)| {
        let why = kept.why.trim_start_matches("node(s) ");
        let mut columns = columns.into_owned();
        columns.intersect_with(&admitted);
        (format!("{why}, beside a pod of DaemonSet {}", kept.daemon), columns)
    });
    refusals.collect()
}

fn open_allows(open: &Requirements, requirements: &Requirements, symbols: &Symbols) -> bool {
    let mut both = open.clone();
    for (key, requirement) in requirements.iter().filter(|(key, _)| open.get(*key).is_some()) {
        both.add(key, requirement.clone(), symbols);
    }
    !both.is_contradiction()
}

/// Why two pods cannot be on one node, if that is for host ports or disks.
fn exclude_each_other(a: &PodSpec, b: &PodSpec) -> Option<&'static str> {
    if !filter::ports_are_free(&a.host_ports, &b.host_ports) {
        return Some(reasons::PORTS);
    }
    (!filter::disks_are_free(&a.volumes.disks, &b.volumes.disks)).then_some(reasons::DISK)
}

/// Whether a node admits a demand, as far as taints, node selector, node affinity and volume topology tell.
pub fn admits_node(cluster: &Cluster, node: &Node, demand: &Demand) -> bool {
    let Some(spec) = cluster.spec(demand.spec) else { return false };
    first_untolerated(&node.taints, &spec.tolerations, demand.avoids_preferred_taints, &cluster.symbols).is_none()
        && matches_any(cluster, node, &demand.terms)
        && filter::volumes(cluster, node, spec).is_none()
}

/// Whether a counter's node filter admits a node.
pub fn filter_admits_node(cluster: &Cluster, node: &Node, filter: &NodeFilter) -> bool {
    node.satisfies(&filter.node_selector, &cluster.symbols, |key| node_label(cluster, node, key))
        && (filter.required_terms.is_empty() || matches_any(cluster, node, &filter.required_terms))
        && filter.tolerations.as_ref().is_none_or(|tolerations| {
            first_untolerated(node.own_taints(), tolerations, false, &cluster.symbols).is_none()
        })
        && filter.keys.iter().all(|&key| node_label(cluster, node, key).is_some())
}

/// A way in which nodes of a NodePool pass a counter's node filter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Passage {
    /// The columns.
    pub columns: FixedBitSet,
    /// What a node's labels that no column decides must satisfy besides.
    pub open: Requirements,
}

impl Passage {
    /// Whether nodes with these undecided labels pass whatever their values turn out to be.
    pub fn is_implied_by(&self, open: &Requirements, symbols: &Symbols) -> bool {
        self.open.iter().all(|(key, asked)| open.get(key).is_some_and(|own| own.intersect(asked, symbols) == *own))
    }
}

/// The ways in which nodes of a NodePool pass a counter's node filter, where they could have the volumes of its pods: nodes that would
/// be launched for these.
pub fn launch_passages(cluster: &Cluster, pool: &NodePool, table: &ColumnTable, filter: &NodeFilter) -> Vec<Passage> {
    let mut passages = filter_passages(cluster, pool, table, filter);
    for passage in &mut passages {
        let mut open = table.open.clone();
        open.add_all(&passage.open, &cluster.symbols);
        keep_places((&mut passage.columns, &open), filter.places.iter(), table, &cluster.symbols);
    }
    passages
}

/// The ways in which nodes of a NodePool pass a counter's node filter.
pub fn filter_passages(cluster: &Cluster, pool: &NodePool, table: &ColumnTable, filter: &NodeFilter) -> Vec<Passage> {
    let symbols = &cluster.symbols;
    if let Some(tolerations) = &filter.tolerations
        && first_untolerated(&pool.taints, tolerations, false, symbols).is_some()
    {
        return Vec::new();
    }
    let mut passages: Vec<Passage> = Vec::new();
    let any = [Requirements::new()];
    let terms = if filter.required_terms.is_empty() { &any[..] } else { &filter.required_terms };
    for term in terms {
        let mut both = filter.node_selector.clone();
        both.add_all(term, symbols);
        // Every node has a host name.
        for &key in filter.keys.iter().filter(|&&key| key != cluster.well_known.hostname) {
            both.add(key, Requirement::exists(), symbols);
        }
        if !open_allows(&table.open, &both, symbols) {
            continue;
        }
        let mut open = Requirements::new();
        for (key, asked) in both.iter() {
            // What every node of the pool has is no question.
            if table.open.get(key).is_some_and(|own| own.intersect(asked, symbols) != *own) {
                open.add(key, asked.clone(), symbols);
            }
        }
        let columns = table.admitting(&both, symbols);
        match passages.iter_mut().find(|known| known.open == open) {
            Some(known) => known.columns.union_with(&columns),
            None => passages.push(Passage { columns, open }),
        }
    }
    passages
}
