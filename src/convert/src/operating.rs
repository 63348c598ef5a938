//! Pods in operating mode Reservation: once they have a node they run nothing there, but hold its room for one owner.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use berth_api::labels::koordinator;
use berth_model::{AllocatePolicy, Cluster, Phase, Reservation, ResourceId, Resources, Sym};
use k8s_openapi::api::core::v1::PodStatus;
use serde::Deserialize;

use crate::draft::Draft;
use crate::node_reservation::Kept;
use crate::pod_record::{PodParts, PodRecord};
use crate::reservation::{ReservationRecord, add_identity, owners};
use crate::{Problem, annotations};

/// Who has come, as its annotation says.
#[derive(Default, Deserialize)]
#[serde(default)]
struct CurrentOwner {
    namespace: String,
    name: String,
    uid: String,
}

/// The Reservation that a pod is, but for what it reserves.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Operating {
    reservation: Reservation,
    /// The pod that it says has come.
    owner: Option<Owner>,
}

/// A pod by namespace and name, and its uid where that is said.
#[derive(Clone, Debug, PartialEq)]
struct Owner {
    key: (Sym, Arc<str>),
    uid: String,
}

// === impl Operating ===

impl Operating {
    /// The pod that has come, if it is there: one of the same name that was made since is another.
    pub(crate) fn who_has_come(&self, alive: &BTreeMap<(Sym, Arc<str>), String>) -> Option<&(Sym, Arc<str>)> {
        let owner = self.owner.as_ref()?;
        let uid = alive.get(&owner.key)?;
        (uid.is_empty() || owner.uid.is_empty() || *uid == owner.uid).then_some(&owner.key)
    }
}

/// The Reservation that a bound pod in this mode is: Aligned, for one owner, available while the pod is ready.
pub(crate) fn read_operating(
    pod: &PodParts<'_>,
    record: &PodRecord,
    cluster: &mut Cluster,
) -> Result<Operating, Problem> {
    let metadata = &pod.identity();
    let notes = metadata.annotations.as_ref();
    let mut reservation = Reservation::new(cluster.symbols.intern(&record.name));
    add_identity(metadata, &mut reservation, cluster);
    reservation.pod_namespace = Some(record.namespace);
    let key = koordinator::RESERVATION_OWNERS;
    let example = r#"[{"labelSelector":{"matchLabels":{"app":"web"}}}]"#;
    let who: Vec<berth_api::ReservationOwner> = annotations::read(notes, key, example)?.unwrap_or_default();
    reservation.owners = Some(owners(&who, "", cluster).map_err(|problem| annotations::at(key, problem.to_string()))?);
    reservation.kept = Kept::read(notes, cluster)?.amounts;
    reservation.policy = AllocatePolicy::Aligned;
    reservation.node = record.node;
    reservation.phase = if is_ready(pod.status) { Phase::Available } else { Phase::Waiting };
    let key = koordinator::RESERVATION_CURRENT_OWNER;
    let current: CurrentOwner =
        annotations::read(notes, key, r#"{"namespace":"default","name":"web-0","uid":"…"}"#)?.unwrap_or_default();
    let namespace =
        if current.namespace.is_empty() { record.namespace } else { cluster.symbols.intern(&current.namespace) };
    let owner = Owner { key: (namespace, Arc::from(current.name)), uid: current.uid };
    reservation.assigned = record.assigned.as_deref().cloned().unwrap_or_default();
    Ok(Operating { reservation, owner: Some(owner).filter(|owner| !owner.key.1.is_empty()) })
}

/// The pods that some of these name as those who have come.
pub(crate) fn named_owners(pods: &[PodRecord]) -> BTreeSet<(Sym, Arc<str>)> {
    let operating = pods.iter().filter_map(|pod| pod.operating.as_deref());
    operating.filter_map(|known| Some(known.owner.as_ref()?.key.clone())).collect()
}

/// Those of them that are there, with their uids. Who has gone has left the room to others, whatever is still written.
pub(crate) fn alive_owners(named: &BTreeSet<(Sym, Arc<str>)>, pods: &[PodRecord]) -> BTreeMap<(Sym, Arc<str>), String> {
    let pods = pods.iter().filter(|pod| !named.is_empty() && !pod.is_gone);
    let alive = pods.map(|pod| ((pod.namespace, Arc::clone(&pod.name)), pod));
    let alive = alive.filter(|(key, _)| named.contains(key));
    alive.map(|(key, pod)| (key, pod.uid.as_deref().unwrap_or_default().to_owned())).collect()
}

fn is_ready(status: Option<&PodStatus>) -> bool {
    let conditions = status.and_then(|status| status.conditions.as_deref()).unwrap_or_default();
    status.and_then(|status| status.phase.as_deref()) == Some("Running")
        && conditions.iter().any(|condition| condition.type_ == "Ready" && condition.status == "True")
}

/// What the pod holds, as that of any Reservation.
pub(crate) fn held(
    pod: &PodRecord,
    operating: Operating,
    alive: &BTreeMap<(Sym, Arc<str>), String>,
    draft: &Draft,
) -> ReservationRecord {
    let has_come = operating.who_has_come(alive).is_some();
    let Operating { mut reservation, .. } = operating;
    if has_come {
        reservation.phase = Phase::Succeeded;
    }
    reservation.allocatable = draft.spec.requests.clone();
    reservation.is_terminating = pod.is_terminating();
    reservation.allocatable.set(ResourceId::PODS, 0);
    ReservationRecord {
        reservation,
        namespace: pod.namespace,
        draft: pod.draft,
        labels: pod.labels,
        allocated: Resources::new(),
        lifetime: None,
    }
}
