//! Pods and Reservations come to nodes that exist and leave them: the same lines for scheduler and planner, over one
//! snapshot. Tables are read, the snapshot changes.

use berth_model::{
    Assigned, ClassId, Counter, CounterId, Holding, NodeEdit, PodClass, PodSpec, PodStage, ReservationId, Snapshot,
    StandIn,
};

use crate::node_tables::NodeTables;

/// A pod that runs, with what it has.
#[derive(Clone, Copy)]
pub(crate) struct Running<'r> {
    pub(crate) class: &'r PodClass,
    pub(crate) spec: &'r PodSpec,
    pub(crate) stage: PodStage,
    /// The CPUs and devices that it has to itself.
    pub(crate) assigned: Option<&'r Assigned>,
    pub(crate) draws_from: Option<ReservationId>,
}

impl<'a> NodeTables<'a> {
    /// Binds a pod of a class to a node. It draws from the Reservation there that suits it best, if any, and spends one
    /// that is for one pod alone: that one is returned, with its room given up.
    pub fn bind(&self, state: &mut Snapshot, id: ClassId, node: usize) -> Option<ReservationId> {
        let (class, spec) = self.class_and_spec(id)?;
        let draws_from = self.fit(state).draws_on(spec, node);
        self.count(state, (class, PodStage::Planned), node, 1);
        for &claim in &spec.volumes.exclusive_claims {
            state.use_claim(claim);
        }
        let on_host = self.host_counters((class, PodStage::Planned), node);
        let assigned = self.fit(state).assigned_on(spec, node, draws_from);
        self.change_owners(state, node, draws_from, |state| {
            state.change_node(node, |state| {
                add_to(state, spec, draws_from, &on_host);
                if !assigned.is_empty() {
                    state.take_units(&assigned, draws_from);
                    state.note_assigned(id, draws_from, assigned);
                }
                if let Some(reservation) = draws_from {
                    state.note_draw(id, reservation);
                }
                state.note_added(id, 1);
            });
        });
        let spent = draws_from.filter(|&reservation| self.is_for_one(reservation))?;
        self.release(state, spent, node);
        Some(spent)
    }

    /// Binds several pods of a class to a node at once, which draw from nothing and have nothing to themselves there.
    pub fn bind_plain(&self, state: &mut Snapshot, id: ClassId, node: usize, pods: u32) {
        let Some((class, spec)) = self.class_and_spec(id) else { return };
        self.count(state, (class, PodStage::Planned), node, i64::from(pods));
        for &claim in &spec.volumes.exclusive_claims {
            state.use_claim(claim);
        }
        let on_host = self.host_counters((class, PodStage::Planned), node);
        state.change_node(node, |state| {
            state.take_times(&spec.requests, pods);
            state.assume(spec.assumed, i64::from(pods));
            // Of their volumes and ports there is one each: only pods that may share them come together.
            state.attach(&spec.host_ports, &spec.volumes);
            for counter in on_host {
                state.add_on_host(counter, pods);
            }
            state.note_added(id, pods);
        });
    }

    /// Takes a running pod off its node.
    pub(crate) fn take_off(&self, state: &mut Snapshot, node: usize, pod: usize, draws_from: Option<ReservationId>) {
        if let Some(running) = self.running(node, pod, draws_from) {
            self.leaves(state, running, node);
        }
    }

    /// Counts a running pod no more: all that matters of who goes with its node, which is not looked at.
    pub(crate) fn count_off(&self, state: &mut Snapshot, node: usize, pod: usize) {
        let Some((class, spec)) = self.resident(node, pod) else { return };
        self.count(state, (class, self.stage_of(node, pod)), node, -1);
        for &claim in &spec.volumes.exclusive_claims {
            state.free_claim(claim);
        }
    }

    /// Puts a running pod back that was taken off.
    pub(crate) fn put_back(&self, state: &mut Snapshot, node: usize, pod: usize, draws_from: Option<ReservationId>) {
        if let Some(running) = self.running(node, pod, draws_from) {
            self.comes(state, running, node);
        }
    }

    fn running(&self, node: usize, pod: usize, draws_from: Option<ReservationId>) -> Option<Running<'a>> {
        let (class, spec) = self.resident(node, pod)?;
        let (stage, assigned) = (self.stage_of(node, pod), self.assigned_to(node, pod));
        Some(Running { class, spec, stage, assigned, draws_from })
    }

    /// A pod that runs is off its node.
    pub(crate) fn leaves(&self, state: &mut Snapshot, pod: Running<'_>, node: usize) {
        let Running { class, spec, stage, assigned, draws_from } = pod;
        self.count(state, (class, stage), node, -1);
        for &claim in &spec.volumes.exclusive_claims {
            state.free_claim(claim);
        }
        let on_host = self.host_counters((class, stage), node);
        self.change_owners(state, node, draws_from, |state| {
            state.change_node(node, |state| {
                state.give_back(&spec.requests, draws_from);
                state.assume(spec.assumed, -1);
                state.detach(&spec.host_ports, &spec.volumes);
                if let Some(assigned) = assigned {
                    state.give_units_back(assigned, draws_from);
                }
                for counter in on_host {
                    state.subtract_on_host(counter, 1);
                }
            });
        });
    }

    /// A pod that runs is on a node.
    pub(crate) fn comes(&self, state: &mut Snapshot, pod: Running<'_>, node: usize) {
        let Running { class, spec, stage, assigned, draws_from } = pod;
        self.count(state, (class, stage), node, 1);
        for &claim in &spec.volumes.exclusive_claims {
            state.use_claim(claim);
        }
        let on_host = self.host_counters((class, stage), node);
        self.change_owners(state, node, draws_from, |state| {
            state.change_node(node, |state| {
                add_to(state, spec, draws_from, &on_host);
                if let Some(assigned) = assigned {
                    state.take_units(assigned, draws_from);
                }
            });
        });
    }

    /// Holds room, ports and volumes of a Reservation on a node.
    pub(crate) fn hold(&self, state: &mut Snapshot, holding: Holding, node: usize) {
        let (id, how) = (holding.reservation, holding.stand_in());
        let Some(reservation) = self.cluster.reservation(id) else { return };
        for &claim in &reservation.volumes.exclusive_claims {
            state.use_claim(claim);
        }
        state.change_node(node, |state| {
            state.hold(holding);
            state.attach(&reservation.host_ports, &reservation.volumes);
        });
        self.stand_in(state, (id, how), node, 1);
    }

    /// Gives up what a Reservation holds on a node; whether it held anything.
    pub(crate) fn release(&self, state: &mut Snapshot, reservation: ReservationId, node: usize) -> bool {
        let holding = state.node(node).and_then(|state| state.holding(reservation));
        let Some(how) = holding.map(Holding::stand_in) else { return false };
        let Some(known) = self.cluster.reservation(reservation) else { return false };
        for &claim in &known.volumes.exclusive_claims {
            state.free_claim(claim);
        }
        self.stand_in(state, (reservation, how), node, -1);
        state.change_node(node, |state| {
            state.release(reservation);
            state.detach(&known.host_ports, &known.volumes);
        });
        true
    }

    // The pod that stands in for a Reservation counts as it does now, or does not any more.
    fn stand_in(&self, state: &mut Snapshot, (reservation, how): (ReservationId, StandIn), node: usize, pods: i64) {
        let class = self.universe.reserved(reservation).filter(|_| how != StandIn::Nothing);
        let Some(class) = class.and_then(|id| self.universe.class(id)) else { return };
        self.count_where(state, (class, PodStage::Bound), node, pods, |counter| how.counts_in(counter));
        let on_host = self.stand_in_counters((reservation, how), node);
        state.change_node(node, |state| {
            for &counter in &on_host {
                if pods > 0 {
                    state.add_on_host(counter, 1);
                } else {
                    state.subtract_on_host(counter, 1);
                }
            }
        });
    }

    /// Changes who draws on a node, and with that how the pod of the Reservation counts.
    fn change_owners(
        &self,
        state: &mut Snapshot,
        node: usize,
        draws_from: Option<ReservationId>,
        change: impl FnOnce(&mut Snapshot),
    ) {
        let how = |state: &Snapshot| Some(state.node(node)?.holding(draws_from?)?.stand_in());
        let before = how(state);
        change(state);
        if let (Some(reservation), Some(before), Some(after)) = (draws_from, before, how(state))
            && before != after
        {
            self.stand_in(state, (reservation, before), node, -1);
            self.stand_in(state, (reservation, after), node, 1);
        }
    }

    // Pods of a class come to a node, or go where there are fewer than none: counted by domain.
    fn count(&self, state: &mut Snapshot, of: (&PodClass, PodStage), node: usize, pods: i64) {
        self.count_where(state, of, node, pods, |_| true);
    }

    // The same in some counters alone.
    fn count_where(
        &self,
        state: &mut Snapshot,
        (class, come): (&PodClass, PodStage),
        node: usize,
        pods: i64,
        is_meant: impl Fn(&Counter) -> bool,
    ) {
        let Some(fixed) = self.cluster.node(node) else { return };
        let n_pods = u32::try_from(pods.unsigned_abs()).unwrap_or(u32::MAX);
        for &counter in class.counts_in.iter().chain(&class.weighs_in) {
            if !self.counts_in(counter, come) || !self.counts_on(counter, node) {
                continue;
            }
            let Some(key) = self.universe.counter(counter).filter(|known| is_meant(known)).map(|known| known.key)
            else {
                continue;
            };
            let is_host = key == self.cluster.well_known.hostname;
            let domain = if is_host { None } else { fixed.labels.get(key) };
            if !is_host && domain.is_none() {
                continue;
            }
            if pods > 0 {
                state.add_count(counter, domain, n_pods);
            } else {
                state.remove_count(counter, domain, n_pods);
            }
        }
    }
}

/// A pod comes to a node.
pub(crate) fn add_to(
    state: &mut NodeEdit<'_>,
    spec: &PodSpec,
    draws_from: Option<ReservationId>,
    on_host: &[CounterId],
) {
    state.take(&spec.requests, draws_from);
    state.assume(spec.assumed, 1);
    state.attach(&spec.host_ports, &spec.volumes);
    for &counter in on_host {
        state.add_on_host(counter, 1);
    }
}
