//! Koordinator's Reservations: those that are pending are planned like pods, those that are there hold room.

use berth_api::labels::koordinator;
use berth_api::{Reservation, ReservationPhase};
use berth_model::{Cluster, Resources, Sym};

use crate::Problem;
use crate::pod::{Draft, Priority, draft};
use crate::quantities::Amounts;
use crate::requests::pod_requests;
use crate::terms::labels_of;

/// What a Reservation means for a plan.
pub(crate) enum ReservationRecord {
    /// It is to be placed.
    Pending { namespace: Sym, draft: u32, labels: u32 },
    /// It holds room on a node.
    Room { node: Sym, unallocated: Resources },
    /// Neither: it is spent, going, pinned, or binds running pods.
    Nothing,
}

/// A pending Reservation's draft and label set, or what else it is.
pub(crate) fn read_reservation(
    object: &Reservation,
    cluster: &mut Cluster,
    intern: &mut impl FnMut(Draft) -> u32,
) -> Result<ReservationRecord, Problem> {
    let status = object.status.as_ref();
    let phase = status.map(|status| status.phase).unwrap_or_default();
    let node = status.and_then(|status| status.node_name.as_deref()).filter(|name| !name.is_empty());
    if object.metadata.deletion_timestamp.is_some() {
        return Ok(ReservationRecord::Nothing);
    }
    match (phase, node) {
        (ReservationPhase::Pending, _) => read_pending(object, cluster, intern),
        (ReservationPhase::Available | ReservationPhase::Waiting, Some(node)) => {
            let node = cluster.symbols.intern(node);
            let unallocated = unallocated(object, cluster)?;
            Ok(ReservationRecord::Room { node, unallocated })
        }
        _ => Ok(ReservationRecord::Nothing),
    }
}

/// What a placed Reservation holds beyond what its owners use: their pods are counted as pods.
fn unallocated(object: &Reservation, cluster: &mut Cluster) -> Result<Resources, Problem> {
    let status = object.status.clone().unwrap_or_default();
    let mut held = if status.allocatable.is_empty() {
        let template = object.spec.template.spec.clone().unwrap_or_default();
        let mut requests = pod_requests(&template, cluster).map_err(|problem| problem.under("spec.template.spec"))?;
        requests.set(berth_model::ResourceId::PODS, 0);
        requests
    } else {
        Amounts::read_exact(&status.allocatable, cluster)
            .map_err(|problem| problem.under("status.allocatable"))?
            .rounded_up()
    };
    let allocated =
        Amounts::read_exact(&status.allocated, cluster).map_err(|problem| problem.under("status.allocated"))?;
    held.subtract(&allocated.rounded_up());
    held.floor_at_zero();
    Ok(held)
}

fn read_pending(
    object: &Reservation,
    cluster: &mut Cluster,
    intern: &mut impl FnMut(Draft) -> u32,
) -> Result<ReservationRecord, Problem> {
    let template = &object.spec.template;
    let spec = template.spec.clone().unwrap_or_default();
    let metadata = template.metadata.clone().unwrap_or_default();
    let mut labels = metadata.labels.unwrap_or_default();
    labels.extend(object.metadata.labels.clone().unwrap_or_default());
    let is_pinned = spec.node_name.as_deref().is_some_and(|name| !name.is_empty());
    let must_bind = labels.get(koordinator::PRE_ALLOCATION_REQUIRED).is_some_and(|v| v == "true");
    if object.spec.pre_allocation || must_bind || is_pinned {
        return Ok(ReservationRecord::Nothing);
    }
    let mut draft = draft(&spec, cluster).map_err(|problem| problem.under("spec.template.spec"))?;
    if draft.priority == Priority::Default {
        // Without a priority of its own nothing may preempt a Reservation.
        let label = labels.get(koordinator::PRIORITY).and_then(|text| text.parse().ok());
        draft.priority = Priority::Set(label.unwrap_or(i32::MAX));
    }
    let label_set = labels_of(Some(&labels), &mut cluster.symbols);
    let namespace = metadata.namespace.filter(|name| !name.is_empty());
    Ok(ReservationRecord::Pending {
        namespace: cluster.symbols.intern(namespace.as_deref().unwrap_or("default")),
        draft: intern(draft),
        labels: cluster.intern_labels(label_set),
    })
}
