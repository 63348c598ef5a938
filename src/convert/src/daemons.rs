//! DaemonSets, for which nodes keep room: those of the input, and those that only the pods tell of that run.

use std::cmp::Ordering;
use std::collections::hash_map;
use std::sync::Arc;

use berth_model::{Cluster, Daemon, Resources};
use indexmap::map::Entry;
use rustc_hash::FxHashMap;

use crate::maps::{FxIndexMap, FxIndexSet};
use crate::pod_record::PodRecord;
use crate::resolve::Resolver;
use crate::workloads::{Owner, OwnerKind, WorkloadKind, Workloads};

/// Names that the warning lists.
const MOST_NAMES: usize = 5;

/// By index of a DaemonSet's workload: how old its newest pod is, that pod's name, and the index of its draft.
pub(crate) type Newest = FxHashMap<usize, (i64, Arc<str>, u32)>;

/// How old a pod counts as: one that does not say when it was created is the oldest.
pub(crate) fn age(created: i64) -> i64 {
    if created == i64::MAX { i64::MIN } else { created }
}

/// The newest pod of each DaemonSet that is there.
pub(crate) fn newest(pods: &[PodRecord], owners: &FxIndexSet<Owner>, workloads: &Workloads) -> Newest {
    let mut newest = Newest::default();
    for pod in pods.iter().filter(|pod| !pod.is_gone) {
        let owner = pod.owner.and_then(|owner| owners.get_index(owner as usize));
        let owner = owner.filter(|owner| owner.kind == OwnerKind::Workload(WorkloadKind::DaemonSet));
        if let Some(workload) = owner.and_then(|owner| workloads.root(owner)) {
            note_newest(&mut newest, workload, (age(pod.created), pod.name.clone(), pod.draft));
        }
    }
    newest
}

pub(crate) fn note_newest(newest: &mut Newest, workload: usize, pod: (i64, Arc<str>, u32)) {
    match newest.entry(workload) {
        hash_map::Entry::Vacant(new) => {
            new.insert(pod);
        }
        hash_map::Entry::Occupied(mut known) => {
            if (known.get().0, &known.get().1) < (pod.0, &pod.1) {
                known.insert(pod);
            }
        }
    }
}

/// What a DaemonSet's pods request: as its template, and by resource as the newest of them where that is more. The API server
/// adds to what a template says (defaults, overhead), and so may others; and a template that asks for more has its pods soon.
pub(crate) fn requests_of(template: u32, newest: Option<u32>, resolver: &Resolver) -> Option<Resources> {
    let mut requests = resolver.draft(template)?.spec.requests.clone();
    if let Some(newest) = newest.and_then(|newest| resolver.draft(newest)) {
        requests.raise_to(&newest.spec.requests);
    }
    Some(requests)
}

/// The draft of a DaemonSet's pods.
fn draft_of(template: u32, newest: Option<u32>, resolver: &mut Resolver) -> u32 {
    let Some((own, requests)) = resolver.draft(template).zip(requests_of(template, newest, resolver)) else {
        return template;
    };
    if own.spec.requests == requests {
        return template;
    }
    let mut draft = own.clone();
    draft.spec.requests = requests;
    resolver.intern(draft)
}

/// Adds the DaemonSets; the position of each among the cluster's daemons, by the workload's index.
pub(crate) fn add(
    workloads: &Workloads,
    newest: &Newest,
    resolver: &mut Resolver,
    cluster: &mut Cluster,
    warnings: &mut FxIndexSet<String>,
) -> FxHashMap<usize, usize> {
    let mut positions = FxHashMap::default();
    for (index, workload) in workloads.iter().enumerate() {
        if workload.kind == WorkloadKind::DaemonSet && workload.wants > 0 {
            let (namespace, name) = (cluster.symbols.text(workload.namespace), cluster.symbols.text(workload.name));
            let name = format!("{namespace}/{name}");
            let draft = draft_of(workload.draft, newest.get(&index).map(|(.., draft)| *draft), resolver);
            let spec = resolver.bound(draft, workload.namespace, &name, cluster, warnings);
            positions.insert(index, cluster.daemons.len());
            let (namespace, labels) = (workload.namespace, workload.labels);
            cluster.daemons.push(Daemon { name, namespace, spec, labels });
        }
    }
    positions
}

/// Adds to the daemons of the cluster those that only their pods tell of, after those of the input, and says so. A
/// DaemonSet is taken to be as its newest pod. Where its template requires node affinity, its pods do not show it, since
/// the controller writes the node's name in its place.
pub(crate) fn add_running(
    pods: &[PodRecord],
    owners: &FxIndexSet<Owner>,
    workloads: &Workloads,
    resolver: &mut Resolver,
    cluster: &mut Cluster,
    warnings: &mut FxIndexSet<String>,
) {
    let mut newest: FxIndexMap<String, &PodRecord> = FxIndexMap::default();
    for pod in pods.iter().filter(|pod| pod.node.is_some() && !pod.is_gone && !pod.is_terminating) {
        let Some(owner) = pod.owner.and_then(|owner| owners.get_index(owner as usize)) else { continue };
        if owner.kind != OwnerKind::Workload(WorkloadKind::DaemonSet) || workloads.root(owner).is_some() {
            continue;
        }
        let name = format!("{}/{}", cluster.symbols.text(pod.namespace), cluster.symbols.text(owner.name()));
        match newest.entry(name) {
            Entry::Vacant(new) => {
                new.insert(pod);
            }
            Entry::Occupied(mut known) => {
                if by_age(known.get(), pod) == Ordering::Less {
                    known.insert(pod);
                }
            }
        }
    }
    newest.sort_unstable_keys();
    for (name, pod) in &newest {
        let Some(mut draft) = resolver.draft(pod.draft).cloned() else { continue };
        draft.spec.required_terms.retain(|term| term.get(cluster.well_known.field_name).is_none());
        let draft = resolver.intern(draft);
        let spec = resolver.bound(draft, pod.namespace, name, cluster, warnings);
        let (namespace, labels) = (pod.namespace, pod.labels);
        cluster.daemons.push(Daemon { name: name.clone(), namespace, spec, labels });
    }
    if newest.is_empty() {
        return;
    }
    let listed: Vec<&str> = newest.keys().take(MOST_NAMES).map(String::as_str).collect();
    let rest = match newest.len() - listed.len() {
        0 => String::new(),
        rest => format!(" and {rest} more"),
    };
    let (which, verb) = if newest.len() == 1 { ("DaemonSet", "is") } else { ("DaemonSets", "are") };
    warnings.insert(format!(
        "{which} {}{rest} {verb} not in the input: each new node keeps room for a pod like the newest that runs",
        listed.join(", ")
    ));
}

/// By creation, then by name; one that does not say when it was created is the oldest.
fn by_age(a: &PodRecord, b: &PodRecord) -> Ordering {
    age(a.created).cmp(&age(b.created)).then_with(|| a.name.cmp(&b.name))
}
