//! What a scheduler decided, to be written into the cluster that it looked at.

use berth_model::{Assigned, BoundPod, ClassId, Cluster, Holding, MemberKind, MemberRun, Phase, PodStage, Resources};
use rustc_hash::FxHashMap;

use super::{Eviction, Placement, Scheduler};
use crate::reservation::take;

/// A pod of a class on its way to a node.
#[derive(Clone, Debug)]
struct Binding {
    node: usize,
    spec: u32,
    draws_from: Option<u32>,
    assigned: Assigned,
}

/// A Reservation that got a node.
#[derive(Clone, Debug)]
struct Placed {
    id: u32,
    node: usize,
    /// Whether it waits there for pods to go.
    waits: bool,
    assigned: Assigned,
}

/// What a scheduler bound and evicted.
#[derive(Clone, Debug, Default)]
pub struct Bindings {
    /// By class: its rows, and where its members go, in their order.
    pods: Vec<(Vec<u32>, Vec<Binding>)>,
    /// Reservations that got a node.
    reservations: Vec<Placed>,
    /// Reservations that their one owner has come to.
    spent: Vec<u32>,
    /// Nodes that changed: what is left of them, and what Reservations hold.
    nodes: Vec<(usize, Resources, Vec<Holding>)>,
    evicted: Vec<Eviction>,
    /// By PodDisruptionBudget: how many more pods it lets go.
    allowed: Vec<i32>,
}

impl Scheduler<'_> {
    /// Ends the scheduler with what it decided.
    pub fn into_bindings(self) -> Bindings {
        let mut bindings = Bindings { evicted: self.evicted(), allowed: self.allowed.clone(), ..Bindings::default() };
        let mut by_class: FxHashMap<ClassId, Vec<Binding>> = FxHashMap::default();
        for (node, (state, before)) in self.state.nodes().iter().zip(&self.cluster.nodes).enumerate() {
            bindings.reservations.extend(state.placed.iter().map(|&id| Placed {
                id,
                node,
                waits: state.holding(id).is_some_and(|holding| holding.waits),
                assigned: self.units_of(state, id),
            }));
            for &(class, count) in &state.added {
                let Some((known, _)) = self.class_and_spec(class).filter(|(known, _)| known.kind == MemberKind::Pod)
                else {
                    continue;
                };
                let came = super::placements::came(state, class).take(count as usize);
                let spec = known.spec;
                let bound = came.map(|(draws_from, assigned)| Binding { node, spec, draws_from, assigned });
                by_class.entry(class).or_default().extend(bound);
            }
            let held = before.holdings.iter().map(|holding| holding.reservation).chain(state.placed.iter().copied());
            bindings.spent.extend(held.filter(|&id| state.holding(id).is_none()));
            if state.free != before.free || state.holdings != before.holdings {
                bindings.nodes.push((node, state.free.clone(), state.holdings.clone()));
            }
        }
        let mut pods: Vec<(ClassId, Vec<Binding>)> = by_class.into_iter().collect();
        pods.sort_unstable_by_key(|(class, _)| *class);
        let rows = |class: ClassId| self.universe.class(class).map(|class| class.rows.clone()).unwrap_or_default();
        bindings.pods = pods.into_iter().map(|(class, bound)| (rows(class), bound)).collect();
        bindings
    }
}

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
    /// name: Reservations, then pods by class and node.
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
        for Placed { id, node, waits, assigned } in self.reservations {
            let name = cluster.nodes.get(node).map(|node| node.name);
            let Some(reservation) = cluster.reservations.get_mut(id as usize) else { continue };
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
                node,
                draws_from: None,
                assigned,
            });
        }
        for reservation in self.spent {
            if let Some(reservation) = cluster.reservations.get_mut(reservation as usize) {
                reservation.phase = Phase::Succeeded;
            }
        }
        for (rows, bound) in self.pods {
            let members = take(cluster, &rows, bound.len());
            for (member, Binding { node, spec, draws_from, assigned }) in members.into_iter().zip(bound) {
                let name = member.full_name(cluster);
                let own = (!assigned.is_empty()).then(|| Box::new(assigned.clone()));
                placements.push(Placement { name, kind: MemberKind::Pod, node, draws_from, assigned });
                if let Some(node) = cluster.nodes.get_mut(node) {
                    node.pods.push(BoundPod {
                        namespace: member.namespace,
                        name: member.name,
                        spec,
                        labels: member.labels,
                        stage: PodStage::Planned,
                        started: i64::MAX,
                        draws_from,
                        candidate: None,
                        replaced_by: None,
                        assigned: own,
                    });
                }
            }
        }
        placements
    }
}
