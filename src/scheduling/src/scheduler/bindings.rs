//! What a scheduler decided, to be written into the cluster that it looked at.

use std::collections::BTreeMap;

use berth_model::{
    Assigned, BoundPod, Cluster, Holding, MemberKind, MemberRun, Phase, ReservationId, Resources, RowId, SpecId,
};
use rustc_hash::FxHashMap;

use super::eviction::Eviction;
use super::first::First;
use super::ledger::{Ledger, Placed};
use super::placements::{Names, Placement, came, units_of, waits_for_room};
use super::tables::Tables;
use crate::reservation::take;

/// A pod of a class on its way to a node.
#[derive(Clone, Debug)]
struct Binding {
    node: usize,
    spec: SpecId,
    draws_from: Option<ReservationId>,
    assigned: Assigned,
    waits_for_room: bool,
    /// See [`Placement::nth`].
    nth: u32,
}

/// A Reservation that got a node.
#[derive(Clone, Debug)]
struct PlacedReservation {
    id: ReservationId,
    node: usize,
    /// Whether it waits there for pods to go.
    waits: bool,
    assigned: Assigned,
    waits_for_room: bool,
}

/// What a scheduler bound and evicted.
#[derive(Clone, Debug, Default)]
pub struct Bindings {
    /// By row of the input: where its members go, in their order.
    pods: Vec<(RowId, Vec<Binding>)>,
    /// Reservations that got a node.
    reservations: Vec<PlacedReservation>,
    /// Reservations that their one owner has come to.
    spent: Vec<ReservationId>,
    /// Nodes that changed: what is left of them, and what Reservations hold.
    nodes: Vec<(usize, Resources, Vec<Holding>)>,
    evicted: Vec<Eviction>,
    /// By PodDisruptionBudget: how many more pods it lets go.
    allowed: Vec<i32>,
}

/// What was decided.
pub(super) fn bindings(tables: &Tables<'_>, ledger: &Ledger) -> Bindings {
    let (evicted, allowed) = (ledger.evicted_in_order(), ledger.budgets.allowed.clone());
    let mut bindings = Bindings { evicted, allowed, ..Bindings::default() };
    let universe = tables.universe;
    for (node, (state, before)) in ledger.state.nodes().iter().zip(&tables.cluster.nodes).enumerate() {
        bindings.reservations.extend(state.placed.iter().map(|&id| PlacedReservation {
            id,
            node,
            waits: state.holding(id).is_some_and(|holding| holding.waits),
            assigned: units_of(universe, state, id),
            waits_for_room: waits_for_room(universe, &ledger.log, node, MemberKind::Reservation),
        }));
        let held = before.holdings.iter().map(|holding| holding.reservation).chain(state.placed.iter().copied());
        bindings.spent.extend(held.filter(|&id| state.holding(id).is_none()));
        if state.free != before.free || state.holdings != before.holdings {
            bindings.nodes.push((node, state.free.clone(), state.holdings.clone()));
        }
    }
    bindings.pods = bound_by_row(tables, ledger);
    bindings
}

/// Where the pods of each row of the input go, ascending by row: in the order of the nodes' names, and on a node in that in which
/// they came.
fn bound_by_row(tables: &Tables<'_>, ledger: &Ledger) -> Vec<(RowId, Vec<Binding>)> {
    let mut by_row: BTreeMap<RowId, Vec<Binding>> = BTreeMap::new();
    let mut came_to = FxHashMap::default();
    for (&Placed { row, class, node, waits_for_room }, nth) in ledger.log.iter().zip(0..) {
        let known = tables.class_and_spec(class).filter(|(known, _)| known.kind == MemberKind::Pod);
        let (Some((known, _)), Some(state)) = (known, ledger.state.node(node)) else { continue };
        let came = came_to.entry((node, class)).or_insert_with(|| came(state, class));
        let Some((draws_from, assigned)) = came.next() else { continue };
        let bound = Binding { node, spec: known.spec, draws_from, assigned, waits_for_room, nth };
        by_row.entry(row).or_default().push(bound);
    }
    for bound in by_row.values_mut() {
        bound.sort_by_key(|bound| ledger.groups.rank(bound.node));
    }
    by_row.into_iter().collect()
}

/// Who of the input went where, by name.
pub(super) fn placed_by_row(tables: &Tables<'_>, ledger: &Ledger, first: &First) -> Vec<Placement> {
    let mut placements = Vec::with_capacity(ledger.log.len());
    for (row, bound) in bound_by_row(tables, ledger) {
        let names = Names::new(tables.cluster, &[row]).with_first(first.names_of(row)).with_last(first.last_of(row));
        for (name, bound) in names.zip(bound) {
            let Binding { node, spec, draws_from, assigned, waits_for_room, nth } = bound;
            let (kind, spec) = (MemberKind::Pod, Some(spec));
            placements.push(Placement { name, kind, spec, node, draws_from, assigned, waits_for_room, nth });
        }
    }
    placements
}

// === impl Bindings ===

impl Bindings {
    /// Whether nothing was decided.
    pub fn is_empty(&self) -> bool {
        self.pods.is_empty() && self.reservations.is_empty() && self.evicted.is_empty()
    }

    /// The pods that gave way, in order of their nodes.
    pub fn evicted(&self) -> &[Eviction] {
        &self.evicted
    }

    /// Makes it so: who was bound runs on its node and is pending no more, who was evicted is gone, or pending under its
    /// old name where its controller makes another, and Reservations are where they were placed. Says who went where, by
    /// name: Reservations, then pods by row of the input and node.
    ///
    /// The cluster is the one that the scheduler looked at, unchanged since.
    pub fn apply(self, cluster: &mut Cluster) -> Vec<Placement> {
        let mut placements = Vec::new();
        for (budget, allowed) in cluster.budgets.iter_mut().zip(&self.allowed) {
            budget.allowed = *allowed;
        }
        let mut gone: Vec<BoundPod> = Vec::new();
        for eviction in self.evicted.iter().rev() {
            if let Some(node) = cluster.nodes.get_mut(eviction.node)
                && eviction.pod < node.pods.len()
            {
                gone.push(node.pods.remove(eviction.pod));
            }
        }
        for BoundPod { namespace, name, labels, replaced_by, .. } in gone.into_iter().rev() {
            let row = replaced_by.and_then(|spec| cluster.pending_row(MemberKind::Pod, namespace, spec, labels));
            if let Some(row) = row {
                row.members.push(MemberRun { name, numbers: None });
            }
        }
        for (node, free, holdings) in self.nodes {
            if let Some(node) = cluster.nodes.get_mut(node) {
                (node.free, node.holdings) = (free, holdings);
            }
        }
        for PlacedReservation { id, node, waits, assigned, waits_for_room } in self.reservations {
            let name = cluster.nodes.get(node).map(|node| node.name);
            let Some(reservation) = cluster.reservations.get_mut(id.index()) else { continue };
            reservation.node = name;
            reservation.assigned = assigned.clone();
            reservation.phase = if waits { Phase::Waiting } else { Phase::Available };
            let name = cluster.symbols.text(reservation.name);
            for row in cluster.pending.iter_mut().filter(|row| row.kind == MemberKind::Reservation) {
                row.members.retain(|member| &*member.name != name);
            }
            placements.push(Placement {
                name: name.into(),
                kind: MemberKind::Reservation,
                spec: None,
                node,
                draws_from: None,
                assigned,
                waits_for_room,
                nth: 0,
            });
        }
        for reservation in self.spent {
            if let Some(reservation) = cluster.reservation_mut(reservation) {
                reservation.phase = Phase::Succeeded;
            }
        }
        for (row, bound) in self.pods {
            let members = take(cluster, &[row], bound.len());
            for (member, bound) in members.into_iter().zip(bound) {
                let Binding { node, spec, draws_from, assigned, waits_for_room, nth } = bound;
                let name = member.full_name(cluster);
                let own = (!assigned.is_empty()).then(|| Box::new(assigned.clone()));
                let (kind, of_pod) = (MemberKind::Pod, Some(spec));
                placements.push(Placement {
                    name,
                    kind,
                    spec: of_pod,
                    node,
                    draws_from,
                    assigned,
                    waits_for_room,
                    nth,
                });
                if let Some(node) = cluster.nodes.get_mut(node) {
                    let of = (spec, member.labels);
                    let pod = BoundPod::planned(member.namespace, member.name, of, draws_from);
                    node.pods.push(BoundPod { assigned: own, ..pod });
                }
            }
        }
        placements
    }
}
