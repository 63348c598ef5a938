//! What a decision does to a node that exists.

use std::ops::Deref;

use super::node_state::NodeState;
use super::undo::{NodeUndo, Undo};
use crate::room::change;
use crate::{Assigned, ClassId, CounterId, HeldUnits, Holding, HostPort, ReservationId, Resources, Sym, Volumes};

/// A node that is changed. The journal notes what each change was about as it was before, not the node.
#[derive(Debug)]
pub struct NodeEdit<'s> {
    node: &'s mut NodeState,
    /// Where to note changes, and the node's index there.
    journal: Option<(&'s mut Vec<Undo>, usize)>,
}

impl Deref for NodeEdit<'_> {
    type Target = NodeState;

    fn deref(&self) -> &NodeState {
        self.node
    }
}

impl<'s> NodeEdit<'s> {
    /// Of a node that is in no journal, such as a view of one.
    pub fn unrecorded(node: &'s mut NodeState) -> Self {
        NodeEdit { node, journal: None }
    }

    pub(super) fn recorded(node: &'s mut NodeState, journal: &'s mut Vec<Undo>, index: usize) -> Self {
        NodeEdit { node, journal: Some((journal, index)) }
    }

    fn note(&mut self, undo: NodeUndo) {
        if let Some((journal, index)) = &mut self.journal {
            journal.push(Undo::Node(*index, undo));
        }
    }

    /// Takes room for a pod, which draws from a Reservation on the node or from none.
    pub fn take(&mut self, requests: &Resources, draws_from: Option<ReservationId>) {
        self.change_room(requests, draws_from, 1);
    }

    /// Takes room for so many pods that draw from nothing.
    pub fn take_times(&mut self, requests: &Resources, pods: u32) {
        self.change_room(requests, None, i64::from(pods));
    }

    /// Gives back what a pod took. What it drew is held again.
    pub fn give_back(&mut self, requests: &Resources, draws_from: Option<ReservationId>) {
        self.change_room(requests, draws_from, -1);
    }

    fn change_room(&mut self, requests: &Resources, draws_from: Option<ReservationId>, times: i64) {
        let at = self.node.holdings.iter().position(|holding| Some(holding.reservation) == draws_from);
        let drawn = at.filter(|_| self.journal.is_some()).and_then(|at| self.node.holdings.get(at));
        let drawn = drawn.map(|holding| holding.allocated().clone());
        self.change_free(|node| change(&mut node.free, &mut node.holdings, requests, draws_from, times));
        if let Some((at, before)) = at.zip(drawn)
            && let Some(holding) = self.node.holdings.get(at)
        {
            let before = before.unlike(holding.allocated());
            self.note(NodeUndo::Drawn(at, before));
        }
    }

    fn change_free(&mut self, change: impl FnOnce(&mut NodeState)) {
        let before = self.journal.is_some().then(|| self.node.free.clone());
        change(self.node);
        if let Some(before) = before {
            let before = before.unlike(&self.node.free);
            if !before.is_empty() {
                self.note(NodeUndo::Free(before));
            }
        }
    }

    /// What is free is another amount.
    pub fn set_free(&mut self, free: &Resources) {
        self.change_free(|node| node.free.clone_from(free));
    }

    /// Pods come of which scores assume so much, or go where there are fewer than none.
    pub fn assume(&mut self, of_pod: [i64; 2], pods: i64) {
        let before = self.node.assumed;
        self.node.assumed = add_assumed(before, of_pod, pods);
        if self.node.assumed != before {
            self.note(NodeUndo::Assumed(before));
        }
    }

    /// Holds room for a Reservation.
    pub fn hold(&mut self, holding: Holding) {
        self.change_free(|node| {
            node.free.subtract(&holding.held());
            node.holdings.push(holding);
        });
        self.note(NodeUndo::HoldingCame);
    }

    /// Gives up what a Reservation holds.
    pub fn release(&mut self, reservation: ReservationId) {
        let holds = |holding: &Holding| holding.reservation == reservation;
        let Some(at) = self.node.holdings.iter().position(holds) else { return };
        let holding = self.node.holdings.remove(at);
        self.change_free(|node| node.free.add(&holding.held()));
        self.note(NodeUndo::HoldingWent(at, Box::new(holding)));
        while let Some(at) = self.node.units.held.iter().position(|held| held.reservation == reservation) {
            let held = self.node.units.held.remove(at);
            self.note(NodeUndo::HeldUnitsWent(at, Box::new(held)));
        }
    }

    /// Holds CPUs and devices for a Reservation.
    pub fn hold_units(&mut self, held: HeldUnits) {
        self.node.units.held.push(held);
        self.note(NodeUndo::HeldUnitsCame);
    }

    /// A pod takes CPUs and devices to itself.
    pub fn take_units(&mut self, assigned: &Assigned, draws_from: Option<ReservationId>) {
        let before = self.node.units.take(assigned, draws_from);
        self.note(NodeUndo::Units(Box::new(before)));
    }

    /// A pod gives its CPUs and devices back.
    pub fn give_units_back(&mut self, assigned: &Assigned, draws_from: Option<ReservationId>) {
        let before = self.node.units.give_back(assigned, draws_from);
        self.note(NodeUndo::Units(Box::new(before)));
    }

    /// Counts anew which CPUs and devices pods have, as [`crate::UnitsState::recount`].
    pub fn recount_units<'p>(&mut self, pods: impl Iterator<Item = (&'p Assigned, Option<ReservationId>)>) {
        let mut counted = self.node.units.clone();
        counted.recount(pods);
        if counted != self.node.units {
            let before = std::mem::replace(&mut self.node.units, counted);
            self.note(NodeUndo::AllUnits(Box::new(before)));
        }
    }

    /// Pods come that a counter on the host name counts.
    pub fn add_on_host(&mut self, counter: CounterId, pods: u32) {
        self.note(NodeUndo::HostCount(counter, self.node.host_counts.get(counter)));
        self.node.host_counts.add(counter, pods);
    }

    /// Pods go that a counter on the host name counts.
    pub fn subtract_on_host(&mut self, counter: CounterId, pods: u32) {
        self.note(NodeUndo::HostCount(counter, self.node.host_counts.get(counter)));
        self.node.host_counts.subtract(counter, pods);
    }

    /// Notes that the decision adds pods of a class, or Reservations.
    pub fn note_added(&mut self, class: ClassId, count: u32) {
        let known = self.node.added.iter().position(|(known, _)| *known == class);
        if let Some((at, (_, sum))) = known.and_then(|at| Some((at, self.node.added.get_mut(at)?))) {
            let before = *sum;
            *sum = sum.saturating_add(count);
            self.note(NodeUndo::Added(at, before));
        } else {
            self.node.added.push((class, count));
            self.note(NodeUndo::ClassAdded);
        }
    }

    /// Notes from which Reservation an added pod draws.
    pub fn note_draw(&mut self, class: ClassId, reservation: ReservationId) {
        self.node.draws.push((class, reservation));
        self.note(NodeUndo::Draw);
    }

    /// Notes a Reservation that the decision places here.
    pub fn note_placed(&mut self, reservation: ReservationId) {
        self.node.placed.push(reservation);
        self.note(NodeUndo::Placed);
    }

    /// Notes what an added pod or Reservation got to itself.
    pub fn note_assigned(&mut self, class: ClassId, draws_from: Option<ReservationId>, assigned: Assigned) {
        self.node.assigned.push((class, draws_from, assigned));
        self.note(NodeUndo::Assigned);
    }

    /// Adds the uses of ports and volumes.
    pub fn attach(&mut self, ports: &[HostPort], volumes: &Volumes) {
        let (n_ports, n_disks) = (self.node.ports.len(), self.node.disks.len());
        if !ports.is_empty() {
            self.node.ports.extend(ports);
            self.note(NodeUndo::PortsCame(n_ports));
        }
        if !volumes.disks.is_empty() {
            self.node.disks.extend(volumes.disks.iter().cloned());
            self.note(NodeUndo::DisksCame(n_disks));
        }
        for volume in uses(volumes) {
            let at = self.node.attached.partition_point(|known| *known <= volume);
            self.node.attached.insert(at, volume);
            self.note(NodeUndo::AttachedCame(at));
        }
    }

    /// Takes one use of each port and volume off.
    pub fn detach(&mut self, ports: &[HostPort], volumes: &Volumes) {
        for port in ports {
            if let Some(at) = self.node.ports.iter().position(|used| used == port) {
                self.node.ports.remove(at);
                self.note(NodeUndo::PortWent(at, *port));
            }
        }
        for disk in &volumes.disks {
            if let Some(at) = self.node.disks.iter().position(|used| used == disk) {
                let disk = self.node.disks.remove(at);
                self.note(NodeUndo::DiskWent(at, Box::new(disk)));
            }
        }
        for volume in uses(volumes) {
            if let Ok(at) = self.node.attached.binary_search(&volume) {
                self.node.attached.remove(at);
                self.note(NodeUndo::AttachedWent(at, volume));
            }
        }
    }
}

/// What a pod's volumes are on its node: those that are attached, and each of a pool under the pool's own name.
fn uses(volumes: &Volumes) -> impl Iterator<Item = (Sym, Sym)> {
    let of_pools = volumes.kept.iter().flat_map(|(pool, count)| std::iter::repeat_n((*pool, *pool), *count as usize));
    volumes.attachments.iter().copied().chain(of_pools)
}

/// `assumed` with that of `pods` more pods (or, with a negative count, of fewer).
fn add_assumed(assumed: [i64; 2], of_pod: [i64; 2], pods: i64) -> [i64; 2] {
    let [cpu, memory] = assumed;
    let [pod_cpu, pod_memory] = of_pod;
    let times = |sum: i64, each: i64| sum.saturating_add(each.saturating_mul(pods));
    [times(cpu, pod_cpu), times(memory, pod_memory)]
}
