//! What is known of a pod that is there.

use std::sync::Arc;

use berth_model::{Cluster, Sym};
use rustc_hash::FxHashMap;

use crate::claims::Storage;
use crate::fate::Fate;
use crate::maps::FxIndexSet;
use crate::place::PodLocation;
use crate::pod_record::PodRecord;
use crate::resolve::Resolver;
use crate::workloads::{Owner, OwnerKind, WorkloadKind, Workloads};

/// What is known of a pod that is there.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) created: i64,
    pub(crate) place: PodLocation,
    /// What few pods have.
    pub(crate) more: Option<Box<More>>,
}

/// What others have to do with a pod.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct More {
    /// Whether others depend on it in ways that are not followed.
    pub(crate) concerns_others: bool,
    /// The node that it names without being on it, and the one on which room was made for it.
    pub(crate) named: [Option<Sym>; 2],
    /// The controller that it names, by index, where that is a DaemonSet.
    pub(crate) daemon_set: Option<u32>,
    /// The index of its draft, where that is so.
    pub(crate) draft: u32,
    /// The position of its DaemonSet among the cluster's daemons.
    pub(crate) daemon: Option<usize>,
    /// The Reservation on its node that it says it draws from, and the uid of that.
    pub(crate) draws_from: Option<(Sym, Option<Sym>)>,
    /// The claims that its volumes stand for.
    pub(crate) claims: Vec<Sym>,
}

/// What is known of a pod beside its place.
#[derive(Clone, Debug)]
pub(crate) struct Known {
    pub(crate) namespace: Sym,
    pub(crate) name: Arc<str>,
    pub(crate) created: i64,
    pub(crate) more: Option<Box<More>>,
}

// === impl Known ===

impl Known {
    pub(crate) fn of(
        pod: &PodRecord,
        fate: Fate,
        resolver: &Resolver,
        (owners, workloads, daemons): (&FxIndexSet<Owner>, &Workloads, &FxHashMap<usize, usize>),
        cluster: &mut Cluster,
    ) -> Self {
        let draft = resolver.draft(pod.draft).filter(|_| !pod.is_gone);
        let claims = draft.map_or(&[][..], |draft| &draft.claims);
        // One that runs where nothing is planned may have a claim to itself.
        let concerns_others = !pod.is_gone
            && (pod.operating.is_some() || fate == Fate::Holds || (fate == Fate::Elsewhere && !claims.is_empty()));
        let owner = pod.owner.and_then(|owner| owners.get_index(owner as usize));
        let is_of_daemon_set = owner.is_some_and(|owner| owner.kind == OwnerKind::Workload(WorkloadKind::DaemonSet));
        let daemon = owner.and_then(|owner| daemons.get(&workloads.root(owner)?).copied());
        let more = More {
            concerns_others,
            named: [
                pod.node.filter(|_| !matches!(fate, Fate::Bound(_))),
                pod.nominated_node.filter(|_| pod.node.is_none()),
            ],
            daemon_set: pod.owner.filter(|_| is_of_daemon_set && !pod.is_gone),
            draft: if is_of_daemon_set && !pod.is_gone { pod.draft } else { 0 },
            daemon: daemon.filter(|_| !pod.is_gone),
            draws_from: pod.draws_from.filter(|_| matches!(fate, Fate::Bound(_))),
            claims: Storage::names(claims, &pod.name, &mut cluster.symbols),
        };
        let more = (more != More::default()).then(|| Box::new(more));
        Known { namespace: pod.namespace, name: pod.name.clone(), created: pod.created, more }
    }
}
