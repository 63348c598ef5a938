//! Pods in operating mode Reservation: once they have a node they run nothing there, but hold its room for one owner.

use berth_api::labels::koordinator;
use berth_model::{AllocatePolicy, Cluster, Phase, Reservation, ResourceId, Resources};
use k8s_openapi::api::core::v1::PodStatus;
use serde::Deserialize;

use crate::draft::Draft;
use crate::node_reservation::Kept;
use crate::pod_record::{PodParts, PodRecord};
use crate::reservation::{ReservationRecord, add_identity, owners};
use crate::{Problem, annotations};

/// Who has come, as far as it matters that somebody has.
#[derive(Default, Deserialize)]
#[serde(default)]
struct CurrentOwner {
    name: String,
    uid: String,
}

/// The Reservation that a bound pod in this mode is: Aligned, for one owner, available while the pod is ready.
pub(crate) fn read_operating(
    pod: &PodParts<'_>,
    record: &PodRecord,
    cluster: &mut Cluster,
) -> Result<Reservation, Problem> {
    let metadata = &pod.identity();
    let notes = metadata.annotations.as_ref();
    let mut reservation = Reservation::new(cluster.symbols.intern(&record.name));
    add_identity(metadata, &mut reservation, cluster);
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
    if !current.name.is_empty() || !current.uid.is_empty() {
        reservation.phase = Phase::Succeeded;
    }
    reservation.assigned = record.assigned.as_deref().cloned().unwrap_or_default();
    Ok(reservation)
}

fn is_ready(status: Option<&PodStatus>) -> bool {
    let conditions = status.and_then(|status| status.conditions.as_deref()).unwrap_or_default();
    status.and_then(|status| status.phase.as_deref()) == Some("Running")
        && conditions.iter().any(|condition| condition.type_ == "Ready" && condition.status == "True")
}

/// What the pod holds, as that of any Reservation.
pub(crate) fn held(pod: &PodRecord, mut reservation: Reservation, draft: &Draft) -> ReservationRecord {
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
