//! What a change of a workload does to the pods that it has.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use berth_model::{Cluster, Images, PodSpec, Sym};
use rustc_hash::FxHashMap;

use crate::admission::Admission;
use crate::draft::{Draft, Drafts};
use crate::fate::Fate;
use crate::maps::FxIndexSet;
use crate::pod_record::PodRecord;
use crate::workloads::{Owner, Rollout, Workload, WorkloadKind, Workloads};

/// Whether pods of two templates may go to the same places. Their images decide nothing but preferences.
pub(crate) fn are_placed_alike(drafts: &Drafts, a: u32, b: u32) -> bool {
    let without_images = |at: u32| {
        let Draft { spec, priority, claims, shape: _ } = drafts.get_index(at as usize)?.clone();
        Some((PodSpec { images: Images::default(), ..spec }, priority, claims))
    };
    a == b || without_images(a) == without_images(b)
}

/// Ends the pods that changes remake, so that they are planned anew, and those that are too many; says how many of which
/// workload. Quotas get back what these pods used.
pub(crate) fn end(
    (pods, owners, workloads, drafts): (&[PodRecord], &FxIndexSet<Owner>, &Workloads, &Drafts),
    fates: &mut [Fate],
    admission: &mut Admission,
    (cluster, warnings): (&mut Cluster, &mut FxIndexSet<String>),
) {
    if workloads.iter().all(|workload| workload.rollout == Rollout::default()) {
        return;
    }
    let mut ended = Vec::new();
    let roots: Vec<Option<usize>> = owners.iter().map(|owner| workloads.root(owner)).collect();
    let mut members: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for (at, (pod, fate)) in pods.iter().zip(&*fates).enumerate() {
        let root = pod.owner.and_then(|owner| roots.get(owner as usize).copied().flatten());
        if let Some(root) = root.filter(|_| *fate != Fate::Gone && !pod.is_terminating) {
            members.entry(root).or_default().push(at);
        }
    }
    let revision_key = cluster.symbols.intern("controller-revision-hash");
    for (root, members) in members {
        let Some(workload) = workloads.get(root) else { continue };
        // By template of a ReplicaSet: whether its pods are placed as this workload's.
        let mut alike: FxHashMap<u32, bool> = FxHashMap::default();
        let is_from = |pod: &PodRecord, from: u32| from == 0 || ordinal(pod).is_some_and(|number| number >= from);
        let mut is_remade = |pod: &PodRecord| {
            let set = pod.owner.and_then(|owner| workloads.get(workloads.find(owners.get_index(owner as usize)?)?));
            if let Some(set) = set.filter(|set| workload.rollout.by_sets && set.kind == WorkloadKind::ReplicaSet) {
                let is_alike = || are_placed_alike(drafts, set.draft, workload.draft);
                return !*alike.entry(set.draft).or_insert_with(is_alike);
            }
            let labels = || cluster.labels(pod.labels)?.get(revision_key);
            let is_old = |(revision, from)| is_from(pod, from) && labels().is_some_and(|own| own != revision);
            workload.rollout.remakes_from.is_some_and(|from| is_from(pod, from))
                || workload.rollout.revision.is_some_and(is_old)
        };
        let (remade, kept): (Vec<usize>, Vec<usize>) =
            members.into_iter().partition(|at| pods.get(*at).is_some_and(&mut is_remade));
        let n_kept = kept.len();
        let surplus = if workload.rollout.sheds { surplus(workload, kept, pods) } else { Vec::new() };
        for at in remade.iter().chain(&surplus) {
            fates.get_mut(*at).into_iter().for_each(|fate| *fate = Fate::Gone);
        }
        ended.extend(remade.iter().chain(&surplus).copied());
        let wanted = match workload.kind {
            WorkloadKind::DaemonSet => remade.len(),
            _ => usize::try_from(workload.wants).unwrap_or(usize::MAX).saturating_sub(n_kept - surplus.len()),
        };
        let n_anew = remade.len().min(wanted);
        let n_gone = surplus.len() + remade.len() - n_anew;
        let text = |sym| cluster.symbols.text(sym);
        let whose = format!("{} {}/{}", workload.kind.name(), text(workload.namespace), text(workload.name));
        if n_anew > 0 {
            warnings.insert(format!(
                "{whose}: the change makes {n_anew} of its pods anew: its template asks nodes for something else"
            ));
        }
        if n_gone > 0 {
            warnings.insert(format!("{whose}: the change lets {n_gone} of its pods go"));
        }
    }
    admission.give_back(ended.into_iter().filter_map(|at| pods.get(at)), drafts, cluster);
}

/// Those that are more than a workload wants: of a StatefulSet by ordinal, else those that do not run yet first, then those
/// that share a node with most others, then the youngest.
fn surplus(workload: &Workload, mut kept: Vec<usize>, pods: &[PodRecord]) -> Vec<usize> {
    match workload.kind {
        WorkloadKind::DaemonSet => Vec::new(),
        WorkloadKind::StatefulSet => {
            let wanted = workload.first..workload.first.saturating_add(workload.wants);
            kept.retain(|at| pods.get(*at).and_then(ordinal).is_some_and(|number| !wanted.contains(&number)));
            kept
        }
        _ => {
            let node = |at: &usize| pods.get(*at).and_then(|pod| pod.node);
            let mut beside: BTreeMap<Option<Sym>, usize> = BTreeMap::new();
            for at in &kept {
                *beside.entry(node(at)).or_default() += 1;
            }
            kept.sort_by_key(|at| {
                let rank = Reverse(beside.get(&node(at)).copied());
                let pod = pods.get(*at);
                pod.map(|pod| (pod.node.is_some(), rank, Reverse(pod.started.max(pod.created)), &pod.name))
            });
            let count = kept.len().saturating_sub(usize::try_from(workload.wants).unwrap_or(usize::MAX));
            kept.truncate(count);
            kept
        }
    }
}

/// The number at the end of a pod's name.
pub(crate) fn ordinal(pod: &PodRecord) -> Option<u32> {
    pod.name.rsplit_once('-')?.1.parse().ok()
}
