//! Who went where, by name.

use std::collections::BTreeSet;
use std::sync::Arc;

use berth_model::{
    Assigned, ClassId, Cluster, MemberKind, MemberRun, NodeState, ReservationId, RowId, SpecId, Universe,
};
use rustc_hash::FxHashMap;

use super::ledger::{Ledger, Placed};
use super::tables::Tables;

/// Where a pod or a Reservation went.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placement {
    /// `namespace/name` of a pod, the name of a Reservation.
    pub name: Box<str>,
    /// Which of them it is.
    pub kind: MemberKind,
    /// What a pod asks for.
    pub spec: Option<SpecId>,
    /// The node, by index.
    pub node: usize,
    /// The Reservation that a pod draws from, by index into [`Cluster::reservations`].
    pub draws_from: Option<ReservationId>,
    /// The CPUs and devices that it has to itself.
    pub assigned: Assigned,
    /// Whether it counts on the room of pods that are being deleted there, or that give way to it: whoever binds must wait
    /// until they are gone.
    pub waits_for_room: bool,
    /// Which of all pods it was that were decided about: those before it have their places where it gets its own.
    pub nth: u32,
}

/// The names of the members of rows, one after another.
pub(super) struct Names<'a> {
    runs: Vec<(&'a str, &'a MemberRun)>,
    run: usize,
    taken: u32,
}

impl<'a> Names<'a> {
    pub(super) fn new(cluster: &'a Cluster, rows: &[RowId]) -> Self {
        let rows = rows.iter().filter_map(|&row| cluster.row(row));
        let runs = rows.flat_map(|row| row.members.iter().map(|run| (cluster.symbols.text(row.namespace), run)));
        Names { runs: runs.collect(), run: 0, taken: 0 }
    }

    /// Those of these names, of objects of their own, before the others.
    pub(super) fn with_first(mut self, first: Option<&BTreeSet<Arc<str>>>) -> Self {
        if let Some(first) = first {
            self.runs.sort_by_key(|(_, run)| run.numbers.is_some() || !first.contains(&run.name));
        }
        self
    }

    /// Those of these names, of objects of their own, after the others.
    pub(super) fn with_last(mut self, last: Option<&BTreeSet<Arc<str>>>) -> Self {
        if let Some(last) = last {
            self.runs.sort_by_key(|(_, run)| run.numbers.is_none() && last.contains(&run.name));
        }
        self
    }
}

impl Iterator for Names<'_> {
    type Item = Box<str>;

    fn next(&mut self) -> Option<Box<str>> {
        loop {
            let (namespace, run) = *self.runs.get(self.run)?;
            if self.taken == run.len() {
                (self.run, self.taken) = (self.run + 1, 0);
                continue;
            }
            let number = self.taken;
            self.taken += 1;
            return Some(match run.numbers {
                None => format!("{namespace}/{}", run.name).into(),
                Some((first, _)) => format!("{namespace}/{}-{}", run.name, first.saturating_add(number)).into(),
            });
        }
    }
}

/// All that was bound, in order of nodes: Reservations, then pods by class. Alike pods are named in the order of the
/// input; of those on a node the first draw.
pub(super) fn placements(tables: &Tables<'_>, ledger: &Ledger) -> Vec<Placement> {
    let mut placements = Vec::new();
    let mut names: FxHashMap<ClassId, Names<'_>> = FxHashMap::default();
    for (node, state) in ledger.state.nodes().iter().enumerate() {
        for &id in &state.placed {
            let Some(known) = tables.cluster.reservation(id) else { continue };
            placements.push(Placement {
                name: tables.cluster.symbols.text(known.name).into(),
                kind: MemberKind::Reservation,
                spec: None,
                node,
                draws_from: None,
                assigned: units_of(tables.universe, state, id),
                waits_for_room: waits_for_room(tables.universe, &ledger.log, node, MemberKind::Reservation),
                nth: 0,
            });
        }
        for &(class, count) in &state.added {
            if tables.universe.class(class).is_none_or(|class| class.kind != MemberKind::Pod) {
                continue;
            }
            let names = names.entry(class).or_insert_with(|| {
                let rows = tables.universe.class(class).map_or(&[][..], |class| &class.rows);
                Names::new(tables.cluster, rows)
            });
            let pods = names.take(count as usize).zip(came(state, class));
            let spec = tables.universe.class(class).map(|class| class.spec);
            placements.extend(pods.map(|(name, (draws_from, assigned))| Placement {
                name,
                kind: MemberKind::Pod,
                spec,
                node,
                draws_from,
                assigned,
                waits_for_room: waits_for_room(tables.universe, &ledger.log, node, MemberKind::Pod),
                nth: 0,
            }));
        }
    }
    placements
}

/// Whether any of a kind that came to a node waits for room, see [`Placement::waits_for_room`].
pub(super) fn waits_for_room(universe: &Universe, log: &[Placed], node: usize, kind: MemberKind) -> bool {
    let is_of_kind = |class: ClassId| universe.class(class).is_some_and(|class| class.kind == kind);
    log.iter().any(|placed| placed.waits_for_room && placed.node == node && is_of_kind(placed.class))
}

/// What a Reservation that was placed on a node has of its CPUs and devices.
pub(super) fn units_of(universe: &Universe, state: &NodeState, reservation: ReservationId) -> Assigned {
    let is_own = |class: ClassId| universe.class(class).is_some_and(|c| c.kind == MemberKind::Reservation);
    let held = state.assigned.iter().find(|(class, from, _)| *from == Some(reservation) && is_own(*class));
    held.map(|(.., assigned)| assigned.clone()).unwrap_or_default()
}

/// From which Reservations the pods of a class that came to a node draw, and what they got of CPUs and devices: those that
/// draw first, the rest without end.
pub fn came(state: &NodeState, class: ClassId) -> impl Iterator<Item = (Option<ReservationId>, Assigned)> {
    let assigned = state.assigned.iter().filter(|(known, ..)| *known == class);
    let mut came: Vec<(Option<ReservationId>, Assigned)> =
        assigned.map(|(_, from, assigned)| (*from, assigned.clone())).collect();
    if came.is_empty() {
        let drawn = state.draws.iter().filter(|(asking, _)| *asking == class);
        came.extend(drawn.map(|(_, reservation)| (Some(*reservation), Assigned::default())));
    }
    came.into_iter().chain(std::iter::repeat_with(|| (None, Assigned::default())))
}
