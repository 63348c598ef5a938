//! The pending Reservations of each class.

use berth_model::{ClassId, Cluster, MemberKind, Phase, Reservation, ReservationId, Universe};
use rustc_hash::FxHashMap;

/// By class of pending Reservations: which they are, in order, and how many have a node.
#[derive(Clone, Debug, Default)]
pub(super) struct Members {
    of_class: FxHashMap<ClassId, Vec<ReservationId>>,
    pub(super) placed: FxHashMap<ClassId, usize>,
}

// === impl Members ===

impl Members {
    pub(super) fn new(cluster: &Cluster, universe: &Universe) -> Self {
        let mut members = Members::default();
        if cluster.reservations.is_empty() {
            return members;
        }
        let pending = |(_, known): &(ReservationId, &Reservation)| known.phase == Phase::Pending;
        let names = cluster.reservations_with_ids().filter(pending);
        let mut ids = cluster.keyed_map();
        ids.extend(names.map(|(id, known)| (cluster.symbols.text(known.name), id)));
        for (class, id) in universe.classes.iter().zip(0..) {
            if class.kind != MemberKind::Reservation {
                continue;
            }
            let rows = class.rows.iter().filter_map(|&row| cluster.row(row));
            let found = rows.flat_map(|row| &row.members).filter_map(|run| ids.get(&*run.name).copied());
            members.of_class.insert(ClassId(id), found.collect());
        }
        members
    }

    /// The next Reservation of a class that has no node; it has one from now on.
    pub(super) fn next(&mut self, class: ClassId) -> Option<ReservationId> {
        let placed = self.placed.entry(class).or_default();
        let id = self.of_class.get(&class)?.get(*placed).copied()?;
        *placed += 1;
        Some(id)
    }
}
