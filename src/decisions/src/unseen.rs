//! To who may draw from a Reservation it is not there, as to the scheduler: it counts in none of their rules about other pods.

use std::collections::BTreeSet;

use berth_model::{Cluster, Labels, MemberKind, Phase, PodSpec, ReservationId};

/// Lets Reservations stand in for no pod where owners with rules about other pods are pending: what is planned for these would wait
/// for good where the scheduler sees it otherwise. Others count them again once the owners have come.
pub(crate) fn hide_from_owners(cluster: &mut Cluster) {
    if cluster.reservations.is_empty() {
        return;
    }
    let mut owned: BTreeSet<ReservationId> = BTreeSet::new();
    for (_, row) in cluster.rows().filter(|(_, row)| row.kind == MemberKind::Pod && !row.members.is_empty()) {
        let spec = cluster.spec(row.spec).filter(|spec| has_rules(spec));
        owned.extend(spec.into_iter().flat_map(|spec| &spec.reservation.owner_of));
    }
    if owned.is_empty() {
        return;
    }
    for id in &owned {
        let known =
            cluster.reservation_mut(*id).filter(|known| matches!(known.phase, Phase::Available | Phase::Waiting));
        if let Some(known) = known {
            known.template = None;
        }
    }
    let none = cluster.intern_labels(Labels::default());
    let rows: Vec<_> = cluster.rows().map(|(id, _)| id).collect();
    for id in rows {
        let Some(row) = cluster.row(id).filter(|row| row.kind == MemberKind::Reservation && row.labels != none) else {
            continue;
        };
        let is_owned =
            |spec: &PodSpec| !has_rules(spec) && spec.reservation.reserves.is_some_and(|id| owned.contains(&id));
        if !cluster.spec(row.spec).is_some_and(is_owned) {
            continue;
        }
        let (namespace, spec) = (row.namespace, row.spec);
        let members = cluster.row_mut(id).map(|row| std::mem::take(&mut row.members)).unwrap_or_default();
        if let Some(row) = cluster.pending_row(MemberKind::Reservation, namespace, spec, none) {
            row.members.extend(members);
        }
    }
}

fn has_rules(spec: &PodSpec) -> bool {
    let PodSpec { spread, affinity, anti_affinity, preferred_affinity, preferred_anti_affinity, .. } = spec;
    let is_affine = [affinity, anti_affinity].iter().any(|terms| !terms.is_empty());
    let would_be = [preferred_affinity, preferred_anti_affinity].iter().any(|terms| !terms.is_empty());
    !spread.is_empty() || is_affine || would_be
}
