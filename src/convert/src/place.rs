//! Pods where they are: on a node, or among those that are pending.

use berth_model::{
    BoundPod, Cluster, Insists, LabelsId, MemberKind, MemberRun, PodSpec, PodStage, PreAllocatable, RowId, SpecId, Sym,
};

use crate::existing::ExistingNodes;
use crate::fate::Fate;
use crate::maps::Texts;
use crate::ownership::{Ownership, Who};
use crate::pod_record::PodRecord;
use crate::resolve::Resolver;
use crate::workloads::OwnerKind;

/// Where a pod went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PodLocation {
    /// It is pending, in this row.
    Row(RowId),
    /// It is on the node of this name.
    Node(Sym),
    /// It counts for nothing.
    Nowhere,
}

/// Says where each pod went.
pub(crate) fn place_pods(
    pods: impl Iterator<Item = (PodRecord, Fate)>,
    (daemon_of, kind_of): (impl Fn(u32) -> Option<usize>, impl Fn(u32) -> Option<OwnerKind>),
    existing: &mut ExistingNodes,
    resolver: &mut Resolver,
    ownership: &mut Ownership,
    cluster: &mut Cluster,
    warnings: &mut Texts,
) -> Vec<PodLocation> {
    let mut places = Vec::with_capacity(pods.size_hint().0);
    let mut n_elsewhere = 0_usize;
    for (pod, fate) in pods {
        let who = Who {
            namespace: pod.namespace,
            name: &pod.name,
            uid: pod.uid.as_deref(),
            labels: pod.labels,
            references: pod.references,
        };
        match fate {
            Fate::Pending => {
                let spec = resolver.pending(pod.draft, pod.namespace, &pod.name, cluster, warnings);
                let labels = ownership.labels_for(who, cluster);
                let spec = ownership.spec_for(spec, who, cluster);
                if let Some(daemon) = pod.owner.and_then(&daemon_of) {
                    existing.expect_daemon(spec, daemon, cluster);
                }
                // One whose node is going away comes again without what was decided for it.
                let nominated = pod.nominated_node.filter(|_| pod.node.is_none());
                let nominated = nominated.filter(|node| existing.standing(*node).is_some());
                let spec = nominated_to(nominated, spec, cluster);
                let spec = insisting(pod.insists, spec, cluster);
                let run = MemberRun { name: pod.name, numbers: None };
                add_member(MemberKind::Pod, pod.namespace, spec, labels, run, cluster);
                let row = cluster.row_of(MemberKind::Pod, pod.namespace, spec, labels);
                places.push(row.map_or(PodLocation::Nowhere, PodLocation::Row));
            }
            Fate::Bound(position) => {
                let spec = resolver.bound(pod.draft, pod.namespace, &pod.name, cluster, warnings);
                let daemon = pod.owner.and_then(&daemon_of);
                // One that says from which Reservation it draws is bound to no other, even if that one is spent.
                let candidate = if pod.draws_from.is_some() {
                    PreAllocatable::default()
                } else {
                    let owned_by = ownership.pre_allocating(who, cluster);
                    PreAllocatable { owned_by, priority: pod.pre_allocatable }
                };
                let stage = if pod.is_terminating() { PodStage::Terminating } else { PodStage::Bound };
                let is_replaced = !pod.is_static
                    && !pod.is_terminating()
                    && pod.owner.and_then(&kind_of).is_some_and(OwnerKind::replaces);
                let replaced_by = is_replaced.then(|| {
                    let spec = resolver.pending(pod.draft, pod.namespace, &pod.name, cluster, warnings);
                    ownership.spec_for(spec, Who { uid: None, ..who }, cluster)
                });
                let labels = ownership.labels_for(who, cluster);
                let bound = BoundPod {
                    replaced_by,
                    namespace: pod.namespace,
                    name: pod.name,
                    spec,
                    labels,
                    stage,
                    started: pod.started,
                    draws_from: existing.drawn_from(position, pod.draws_from, cluster),
                    candidate: (candidate != PreAllocatable::default()).then(|| Box::new(candidate)),
                    assigned: pod.assigned,
                    has_held_room: pod.has_held_room,
                };
                existing.bind(position, bound, daemon, cluster);
                places.push(pod.node.map_or(PodLocation::Nowhere, PodLocation::Node));
            }
            Fate::Elsewhere => {
                let is_unknown = pod.node.is_some_and(|node| !existing.is_deleting(node));
                n_elsewhere += usize::from(is_unknown);
                places.push(PodLocation::Nowhere);
            }
            Fate::Holds | Fate::Gone => places.push(PodLocation::Nowhere),
        }
    }
    if n_elsewhere > 0 {
        warnings.insert(match n_elsewhere {
            1 => "1 pod is bound to a node that is not in the input; it counts for nothing".to_owned(),
            n => format!("{n} pods are bound to nodes that are not in the input; they count for nothing"),
        });
    }
    places
}

/// The spec of a pod that has room made for it on a node.
fn nominated_to(node: Option<Sym>, spec: SpecId, cluster: &mut Cluster) -> SpecId {
    match (node, cluster.spec(spec)) {
        (Some(_), Some(known)) => {
            let nominated = PodSpec { nominated_node: node, ..known.clone() };
            cluster.intern_spec(nominated)
        }
        _ => spec,
    }
}

/// The spec of a pod that asks for some of its preferences as if they were required.
fn insisting(on: Insists, spec: SpecId, cluster: &mut Cluster) -> SpecId {
    let known = cluster.spec(spec).filter(|_| !on.is_empty()).cloned();
    let Some(known) = known.map(|known| known.insisting(on, &cluster.symbols)) else { return spec };
    cluster.intern_spec(known)
}

pub(crate) fn add_member(
    kind: MemberKind,
    namespace: Sym,
    spec: SpecId,
    labels: LabelsId,
    run: MemberRun,
    cluster: &mut Cluster,
) {
    if let Some(row) = cluster.pending_row(kind, namespace, spec, labels) {
        row.members.push(run);
    }
}
