//! What becomes of each pod that is there, and how many pods each workload has.

use std::collections::BTreeSet;
use std::sync::Arc;

use berth_model::Sym;

use crate::draft::Drafts;
use crate::existing::ExistingNodes;
use crate::fate::Fate;
use crate::maps::FxIndexSet;
use crate::operating;
use crate::options::Expansion;
use crate::pod_record::PodRecord;
use crate::reservation::ReservationRecord;
use crate::rollout::ordinal;
use crate::workloads::{Children, Owner, OwnerKind, WorkloadKind, Workloads};

pub(crate) fn fates(
    pods: &[PodRecord],
    owners: &FxIndexSet<Owner>,
    workloads: &Workloads,
    existing: &ExistingNodes,
    expansion: Expansion,
) -> Vec<Fate> {
    let fate = |pod: &PodRecord| {
        let kind = owner_kind(pod, owners);
        let is_daemon = kind == Some(OwnerKind::Workload(WorkloadKind::DaemonSet));
        if pod.is_gone {
            return Fate::Gone;
        }
        let Some(node) = pod.node else {
            if pod.is_terminating() {
                return Fate::Gone;
            }
            // A DaemonSet of the input has its room on the nodes counted already.
            let owner = pod.owner.and_then(|owner| owners.get_index(owner as usize));
            let is_counted = is_daemon && owner.is_some_and(|owner| workloads.root(owner).is_some());
            return if is_counted && expansion == Expansion::Workloads { Fate::Gone } else { Fate::Pending };
        };
        if let Some(position) = existing.position_under(pod, node) {
            return Fate::Bound(position);
        }
        // The others were made anew already where they are being deleted.
        let comes_after = kind == Some(OwnerKind::Workload(WorkloadKind::StatefulSet));
        let stays =
            is_daemon || pod.is_static || kind == Some(OwnerKind::Node) || (pod.is_terminating() && !comes_after);
        if existing.is_deleting(node) && !stays { Fate::Pending } else { Fate::Elsewhere }
    };
    pods.iter().map(fate).collect()
}

fn owner_kind(pod: &PodRecord, owners: &FxIndexSet<Owner>) -> Option<OwnerKind> {
    Some(owners.get_index(pod.owner? as usize)?.kind)
}

/// The pods on nodes that are Reservations, and the pods that some of them name as those who have come.
pub(crate) fn operating(
    pods: &mut [PodRecord],
    fates: &mut [Fate],
    drafts: &Drafts,
) -> (Vec<ReservationRecord>, BTreeSet<(Sym, Arc<str>)>) {
    let (mut records, mut came) = (Vec::new(), BTreeSet::new());
    let named = operating::named_owners(pods);
    let alive = operating::alive_owners(&named, pods);
    for (pod, fate) in pods.iter_mut().zip(fates).filter(|(_, fate)| matches!(fate, Fate::Bound(_))) {
        let Some(known) = pod.operating.take() else { continue };
        *fate = Fate::Holds;
        let Some(draft) = drafts.get_index(pod.draft as usize) else { continue };
        came.extend(known.who_has_come(&alive).cloned());
        records.push(operating::held(pod, *known, &alive, draft));
    }
    for pod in pods.iter_mut().filter(|_| !came.is_empty()) {
        pod.has_held_room = came.contains(&(pod.namespace, Arc::clone(&pod.name)));
    }
    (records, named)
}

/// How many pods each workload has in the input, by the workload's index.
pub(crate) fn children(
    pods: &[PodRecord],
    fates: &[Fate],
    owners: &FxIndexSet<Owner>,
    workloads: &Workloads,
    existing: &ExistingNodes,
) -> Vec<Children> {
    let mut children = vec![Children::default(); workloads.len()];
    let roots: Vec<Option<usize>> = owners.iter().map(|owner| workloads.root(owner)).collect();
    for (pod, fate) in pods.iter().zip(fates) {
        let root = pod.owner.and_then(|owner| roots.get(owner as usize).copied().flatten());
        let Some(root) = root.filter(|_| *fate != Fate::Gone) else { continue };
        if pod.is_terminating() && !waits_for(workloads, root, *fate, existing) {
            continue;
        }
        if let Some(children) = children.get_mut(root) {
            children.count += 1;
            if workloads.kind(root) == Some(WorkloadKind::StatefulSet) {
                children.ordinals.extend(ordinal(pod));
            }
        }
    }
    children
}

/// Whether a workload makes no other pod before one that is being deleted is gone: a StatefulSet's has the same name, and
/// some Jobs ask for it. What comes then finds the room that this one leaves, if its node takes pods.
fn waits_for(workloads: &Workloads, root: usize, fate: Fate, existing: &ExistingNodes) -> bool {
    match fate {
        Fate::Pending => true,
        Fate::Bound(position) => workloads.waits_for_terminating(root) && !existing.is_cordoned(position),
        _ => false,
    }
}
