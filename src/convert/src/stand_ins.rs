//! Reservations that count, and the pods that stand in for those that are to be placed.

use std::ops::RangeInclusive;

use berth_model::{Cluster, MemberKind, MemberRun, Reservation, ReservationId, SpecId, Template};
use jiff::Timestamp;
use rustc_hash::FxHashMap;

use crate::maps::Texts;
use crate::place::add_member;
use crate::reservation::ReservationRecord;
use crate::resolve::Resolver;

/// The seconds of Unix time at which the same Reservations have expired as have by now.
pub(crate) fn valid_seconds<'a>(
    reservations: impl Iterator<Item = &'a ReservationRecord>,
    now: Option<Timestamp>,
) -> RangeInclusive<i64> {
    let (mut first, mut last) = (i64::MIN, i64::MAX);
    let Some(now) = now.map(Timestamp::as_second) else { return first..=last };
    for end in reservations.filter_map(|record| record.ends(now)) {
        if now > end {
            first = first.max(end.saturating_add(1));
        } else {
            last = last.min(end);
        }
    }
    first..=last
}

/// The Reservations that count, by name.
pub(crate) fn sorted(
    reservations: impl Iterator<Item = ReservationRecord>,
    now: Option<Timestamp>,
    cluster: &Cluster,
    warnings: &mut Texts,
) -> Vec<ReservationRecord> {
    let mut list: Vec<ReservationRecord> = Vec::new();
    for record in reservations {
        if let Some(end) = record.expired(now).and_then(|end| Timestamp::from_second(end).ok()) {
            let name = cluster.symbols.text(record.reservation.name);
            warnings.insert(format!("Reservation {name}: expired at {end}; it holds nothing"));
        }
        if record.counts(now) {
            list.push(record);
        }
    }
    let text = |record: &ReservationRecord| cluster.symbols.text(record.reservation.name);
    list.sort_by(|a, b| text(a).cmp(text(b)));
    list
}

/// Hands Reservations to the cluster, and the pods that stand in for those that are pending.
pub(crate) fn add_reservations(
    records: &[ReservationRecord],
    resolver: &mut Resolver,
    cluster: &mut Cluster,
    warnings: &mut Texts,
) {
    let mut alike = Alike::default();
    for (record, id) in records.iter().zip((0..).map(ReservationId)) {
        let reservation = with_stand_in(record, id, &mut alike, resolver, cluster, warnings);
        cluster.reservations.push(reservation);
    }
}

/// Those that are to be placed, without name and age and with the spec of their stand-ins: the first of each.
pub(crate) type Alike = FxHashMap<(Reservation, SpecId), ReservationId>;

/// A Reservation with what its stand-in adds; one that is to be placed is pending from now on.
pub(crate) fn with_stand_in(
    record: &ReservationRecord,
    id: ReservationId,
    alike: &mut Alike,
    resolver: &mut Resolver,
    cluster: &mut Cluster,
    warnings: &mut Texts,
) -> Reservation {
    let name = cluster.symbols.text(record.reservation.name).to_owned();
    let spec = resolver.pending(record.draft, record.namespace, &name, cluster, warnings);
    let mut reservation = record.reservation.clone();
    let Some(mut stand_in) = cluster.spec(spec).cloned() else { return reservation };
    reservation.host_ports.clone_from(&stand_in.host_ports);
    reservation.volumes.clone_from(&stand_in.volumes);
    reservation.priority = stand_in.priority;
    let mut template = Template { namespace: record.namespace, spec, labels: record.labels };
    if record.is_pending() {
        // Those that are alike in all but name and age are one class.
        let mut key = reservation.clone();
        (key.name, key.uid, key.created) = (cluster.well_known.hostname, None, None);
        stand_in.reservation.reserves = Some(*alike.entry((key, spec)).or_insert(id));
        let spec = cluster.intern_spec(stand_in);
        template.spec = spec;
        let run = MemberRun { name: name.into(), numbers: None };
        add_member(MemberKind::Reservation, record.namespace, spec, record.labels, run, cluster);
    }
    reservation.template = Some(template);
    reservation
}
