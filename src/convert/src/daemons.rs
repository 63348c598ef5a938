//! DaemonSets, for which nodes keep room: those of the input, and those that only the pods tell of that run.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::Arc;

use berth_model::{Cluster, Daemon, MemberKind, MemberRun, PodSpec, Requirement, Requirements, Resources, Sym};
use rustc_hash::FxHashMap;

use crate::fate::Fate;
use crate::maps::{FxIndexSet, Texts};
use crate::options::Expansion;
use crate::ownership::{Ownership, Who};
use crate::place::add_member;
use crate::pod_record::PodRecord;
use crate::resolve::Resolver;
use crate::workloads::{Owner, OwnerKind, Workload, WorkloadKind, Workloads};

/// Names that the warning lists.
const MOST_NAMES: usize = 5;

/// The newest pod of a DaemonSet, by age and name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct NewestPod {
    pub(crate) age: i64,
    pub(crate) name: Arc<str>,
    /// Index of its draft.
    pub(crate) draft: u32,
}

/// By index of a DaemonSet's workload.
pub(crate) type Newest = FxHashMap<usize, NewestPod>;

/// How old a pod counts as: one that does not say when it was created is the oldest.
pub(crate) fn age(created: i64) -> i64 {
    if created == i64::MAX { i64::MIN } else { created }
}

/// The newest pod of each DaemonSet that is there.
fn newest(pods: &[PodRecord], owners: &FxIndexSet<Owner>, workloads: &Workloads) -> Newest {
    let mut newest = Newest::default();
    for pod in pods.iter().filter(|pod| !pod.is_gone) {
        let owner = pod.owner.and_then(|owner| owners.get_index(owner as usize));
        let owner = owner.filter(|owner| owner.kind == OwnerKind::Workload(WorkloadKind::DaemonSet));
        if let Some(workload) = owner.and_then(|owner| workloads.root(owner)) {
            let pod = NewestPod { age: age(pod.created), name: pod.name.clone(), draft: pod.draft };
            note_newest(&mut newest, workload, pod);
        }
    }
    newest
}

pub(crate) fn note_newest(newest: &mut Newest, workload: usize, pod: NewestPod) {
    let known = newest.entry(workload).or_insert_with(|| pod.clone());
    if *known < pod {
        *known = pod;
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

/// Adds all DaemonSets; the position of each of the input among the cluster's daemons, by the workload's index, and how many
/// of them there are.
pub(crate) fn add_all(
    (pods, owners): (&[PodRecord], &FxIndexSet<Owner>),
    workloads: &Workloads,
    expansion: Expansion,
    resolver: &mut Resolver,
    cluster: &mut Cluster,
    warnings: &mut Texts,
) -> (FxHashMap<usize, usize>, usize) {
    let newest = match expansion {
        // Templates were admitted as their pods will be, and a change may have other ones.
        Expansion::Workloads => Newest::default(),
        Expansion::PodsThatExist => newest(pods, owners, workloads),
    };
    let positions = add(workloads, &newest, resolver, cluster, warnings);
    let n_given = cluster.daemons.len();
    if expansion == Expansion::Workloads {
        add_running(pods, owners, workloads, resolver, cluster, warnings);
    }
    (positions, n_given)
}

/// Adds the DaemonSets; the position of each among the cluster's daemons, by the workload's index.
pub(crate) fn add(
    workloads: &Workloads,
    newest: &Newest,
    resolver: &mut Resolver,
    cluster: &mut Cluster,
    warnings: &mut Texts,
) -> FxHashMap<usize, usize> {
    let mut positions = FxHashMap::default();
    for (index, workload) in workloads.iter().enumerate() {
        if workload.kind == WorkloadKind::DaemonSet && workload.wants > 0 {
            let (namespace, name) = (cluster.symbols.text(workload.namespace), cluster.symbols.text(workload.name));
            let name = format!("{namespace}/{name}");
            let draft = draft_of(workload.draft, newest.get(&index).map(|pod| pod.draft), resolver);
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
fn add_running(
    pods: &[PodRecord],
    owners: &FxIndexSet<Owner>,
    workloads: &Workloads,
    resolver: &mut Resolver,
    cluster: &mut Cluster,
    warnings: &mut Texts,
) {
    let mut newest: BTreeMap<String, &PodRecord> = BTreeMap::new();
    for pod in pods.iter().filter(|pod| pod.node.is_some() && !pod.is_gone && !pod.is_terminating()) {
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

/// The names of the pods of DaemonSets of the input that have no node yet, by the DaemonSet's position among the cluster's
/// daemons and the node that they are to run on.
pub(crate) fn waiting(
    pods: &[PodRecord],
    fates: &[Fate],
    (owners, workloads, positions): (&FxIndexSet<Owner>, &Workloads, &FxHashMap<usize, usize>),
    resolver: &Resolver,
    cluster: &Cluster,
) -> FxHashMap<(usize, Sym), Arc<str>> {
    let mut waiting = FxHashMap::default();
    let known = pods.iter().zip(fates);
    for (pod, _) in known.filter(|(pod, fate)| **fate == Fate::Gone && pod.node.is_none() && !pod.is_terminating()) {
        let owner = pod.owner.and_then(|owner| owners.get_index(owner as usize));
        let daemon = owner.and_then(|owner| positions.get(&workloads.root(owner)?));
        let Some((daemon, draft)) = daemon.zip(resolver.draft(pod.draft)) else { continue };
        let named = draft.spec.required_terms.iter();
        for node in named.filter_map(|term| term.get(cluster.well_known.field_name)?.single()) {
            waiting.entry((*daemon, node)).or_insert_with(|| Arc::clone(&pod.name));
        }
    }
    waiting
}

/// Adds to what is pending the pods of DaemonSets for which nodes have no room: each may go to its node alone, where pods of
/// lower priority may give way. One that is not there yet is named after DaemonSet and node.
pub(crate) fn add_pending(
    without_room: &[(Sym, usize)],
    waiting: &FxHashMap<(usize, Sym), Arc<str>>,
    (workloads, positions): (&Workloads, &FxHashMap<usize, usize>),
    ownership: &mut Ownership,
    cluster: &mut Cluster,
) {
    if without_room.is_empty() {
        return;
    }
    let by_position: FxHashMap<usize, usize> = positions.iter().map(|(index, position)| (*position, *index)).collect();
    for &(node, position) in without_room {
        let workload = by_position.get(&position).and_then(|index| workloads.get(*index));
        let spec = cluster.daemons.get(position).and_then(|daemon| cluster.spec(daemon.spec));
        let Some((workload, spec)) = workload.zip(spec.cloned()) else { continue };
        let named = || format!("{}-{}", cluster.symbols.text(workload.name), cluster.symbols.text(node)).into();
        let name: Arc<str> = waiting.get(&(position, node)).map_or_else(named, Arc::clone);
        let mut term = Requirements::new();
        term.add(cluster.well_known.field_name, Requirement::value(node), &cluster.symbols);
        // As the controller writes it, in place of what the template requires.
        let spec = cluster.intern_spec(PodSpec { required_terms: vec![term], ..spec });
        let &Workload { namespace, labels, references, .. } = workload;
        let who = Who { namespace, name: &name, uid: None, labels, references };
        let labels = ownership.labels_for(who, cluster);
        let spec = ownership.spec_for(spec, who, cluster);
        let run = MemberRun { name: Arc::clone(&name), numbers: None };
        add_member(MemberKind::Pod, namespace, spec, labels, run, cluster);
    }
}

/// By creation, then by name; one that does not say when it was created is the oldest.
fn by_age(a: &PodRecord, b: &PodRecord) -> Ordering {
    age(a.created).cmp(&age(b.created)).then_with(|| a.name.cmp(&b.name))
}
