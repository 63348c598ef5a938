//! What a change of a workload does to the pods that it has.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use berth_model::Cluster;

use crate::fate::Fate;
use crate::maps::FxIndexSet;
use crate::pod_record::PodRecord;
use crate::workloads::{Owner, Rollout, Workload, WorkloadKind, Workloads};

/// Ends the pods that changes remake, so that they are planned anew, and those that are too many; says how many of which
/// workload.
pub(crate) fn end(
    pods: &[PodRecord],
    fates: &mut [Fate],
    owners: &FxIndexSet<Owner>,
    workloads: &Workloads,
    (cluster, warnings): (&Cluster, &mut FxIndexSet<String>),
) {
    if workloads.iter().all(|workload| workload.rollout == Rollout::default()) {
        return;
    }
    let roots: Vec<Option<usize>> = owners.iter().map(|owner| workloads.root(owner)).collect();
    let mut members: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for (at, (pod, fate)) in pods.iter().zip(&*fates).enumerate() {
        let root = pod.owner.and_then(|owner| roots.get(owner as usize).copied().flatten());
        if let Some(root) = root.filter(|_| *fate != Fate::Gone && !pod.is_terminating) {
            members.entry(root).or_default().push(at);
        }
    }
    for (root, members) in members {
        let Some(workload) = workloads.get(root) else { continue };
        let (remade, kept): (Vec<usize>, Vec<usize>) = members.into_iter().partition(|at| {
            let from = workload.rollout.remakes_from;
            pods.get(*at).zip(from).is_some_and(|(pod, from)| from == 0 || ordinal(pod).is_some_and(|n| n >= from))
        });
        let surplus = if workload.rollout.sheds { surplus(workload, kept, pods) } else { Vec::new() };
        let text = |sym| cluster.symbols.text(sym);
        let whose = format!("{} {}/{}", workload.kind.name(), text(workload.namespace), text(workload.name));
        for at in remade.iter().chain(&surplus) {
            fates.get_mut(*at).into_iter().for_each(|fate| *fate = Fate::Gone);
        }
        if !remade.is_empty() {
            let n = remade.len();
            warnings.insert(format!(
                "{whose}: the change makes {n} of its pods anew: its template asks nodes for something else"
            ));
        }
        if !surplus.is_empty() {
            warnings.insert(format!("{whose}: the change lets {} of its pods go", surplus.len()));
        }
    }
}

/// Those that are more than a workload wants: of a StatefulSet by ordinal, else those that do not run yet first, then the
/// youngest.
fn surplus(workload: &Workload, mut kept: Vec<usize>, pods: &[PodRecord]) -> Vec<usize> {
    match workload.kind {
        WorkloadKind::DaemonSet => Vec::new(),
        WorkloadKind::StatefulSet => {
            let wanted = workload.first..workload.first.saturating_add(workload.wants);
            kept.retain(|at| pods.get(*at).and_then(ordinal).is_some_and(|number| !wanted.contains(&number)));
            kept
        }
        _ => {
            kept.sort_by_key(|at| {
                pods.get(*at).map(|pod| (pod.node.is_some(), Reverse(pod.started.max(pod.created)), &pod.name))
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
