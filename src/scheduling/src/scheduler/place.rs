//! Pods come to nodes and leave them: what is left, what is counted, which group a node is in.

use berth_model::{Assigned, ClassId, CounterId, MemberKind, NodeState, PodClass, PodSpec, add_assumed};

use super::{Eviction, Scheduler};

impl<'a> Scheduler<'a> {
    /// Binds a pod of a class to a node.
    ///
    /// A pod draws from the Reservation there that suits it best, if any, and spends one that is for one pod alone. The
    /// next Reservation of a class that stands in for some holds its room.
    pub fn bind(&mut self, id: ClassId, node: usize) {
        let Some((class, spec)) = self.class_and_spec(id) else { return };
        if class.kind == MemberKind::Reservation {
            return self.place_reservation(id, node);
        }
        let draws_from = self.draws_on(id, node);
        self.count(class, node, true);
        for &claim in &spec.volumes.exclusive_claims {
            self.state.use_claim(claim);
        }
        let on_host = self.host_counters(class, node);
        let assigned = self.assigned_on(spec, node, draws_from);
        self.change_owners(node, draws_from, |scheduler| {
            scheduler.state.change_node(node, |state| add_to(state, spec, draws_from, &on_host));
        });
        self.state.change_node(node, |state| {
            if !assigned.is_empty() {
                state.units.take(&assigned, draws_from);
                state.assigned.push((id, draws_from, assigned));
            }
            state.draws.extend(draws_from.map(|reservation| (id, reservation)));
            match state.added.iter_mut().find(|(known, _)| *known == id) {
                Some((_, count)) => *count = count.saturating_add(1),
                None => state.added.push((id, 1)),
            }
        });
        if let Some(reservation) = draws_from.filter(|&reservation| self.is_for_one(reservation)) {
            self.release(reservation);
        }
        self.regroup(node);
    }

    /// Takes a running pod off its node.
    pub fn evict(&mut self, eviction: Eviction) {
        let Eviction { node, pod } = eviction;
        self.take_off(node, pod);
        self.evicted.push(eviction);
        self.regroup(node);
    }

    /// Takes a running pod off its node in the snapshot alone, for what-ifs.
    pub(super) fn take_off(&mut self, node: usize, pod: usize) {
        let Some((class, spec)) = self.resident(node, pod) else { return };
        self.off.insert(Eviction { node, pod });
        self.count(class, node, false);
        for &claim in &spec.volumes.exclusive_claims {
            self.state.free_claim(claim);
        }
        let on_host = self.host_counters(class, node);
        let draws_from = self.drawn_by(node, pod);
        let assigned = self.assigned_to(node, pod);
        self.change_owners(node, draws_from, |scheduler| {
            scheduler.state.change_node(node, |state| {
                state.give_back(&spec.requests, draws_from);
                state.assumed = add_assumed(state.assumed, spec.assumed, -1);
                state.detach(&spec.host_ports, &spec.volumes);
                if let Some(assigned) = assigned {
                    state.units.give_back(assigned, draws_from);
                }
                for counter in on_host {
                    state.host_counts.subtract(counter, 1);
                }
            });
        });
    }

    /// Puts a running pod back that was taken off, in the snapshot alone.
    pub(super) fn put_back(&mut self, node: usize, pod: usize) {
        let Some((class, spec)) = self.resident(node, pod) else { return };
        self.off.remove(&Eviction { node, pod });
        self.count(class, node, true);
        for &claim in &spec.volumes.exclusive_claims {
            self.state.use_claim(claim);
        }
        let on_host = self.host_counters(class, node);
        let draws_from = self.drawn_by(node, pod);
        let assigned = self.assigned_to(node, pod);
        self.change_owners(node, draws_from, |scheduler| {
            scheduler.state.change_node(node, |state| {
                add_to(state, spec, draws_from, &on_host);
                if let Some(assigned) = assigned {
                    state.units.take(assigned, draws_from);
                }
            });
        });
    }

    /// The CPUs and devices that a running pod has to itself.
    pub(super) fn assigned_to(&self, node: usize, pod: usize) -> Option<&'a Assigned> {
        self.cluster.nodes.get(node)?.pods.get(pod)?.assigned.as_deref()
    }

    /// Those that a pod gets now.
    pub(super) fn assigned_on(&self, spec: &PodSpec, node: usize, draws_from: Option<u32>) -> Assigned {
        let Some(state) = self.state.nodes().get(node) else { return Assigned::default() };
        self.world().given(node, state, spec, draws_from).map(|given| given.assigned).unwrap_or_default()
    }

    /// Holds room on a node for a pod of a class that is to come, against pods of equal and lower priority.
    pub fn nominate(&mut self, id: ClassId, node: usize) {
        self.nominated.entry(node).or_default().push(id);
        self.regroup(node);
    }

    /// Ends what [`Scheduler::nominate`] began.
    pub fn withdraw(&mut self, id: ClassId, node: usize) {
        if let Some(held) = self.nominated.get_mut(&node) {
            if let Some(at) = held.iter().position(|known| *known == id) {
                held.remove(at);
            }
            if held.is_empty() {
                self.nominated.remove(&node);
            }
        }
        self.regroup(node);
    }

    pub(super) fn regroup(&mut self, node: usize) {
        let is_apart = self.nominated.contains_key(&node);
        if let Some(state) = self.state.nodes().get(node) {
            self.groups.regroup(node, state, is_apart);
        }
    }

    pub(super) fn class_and_spec(&self, id: ClassId) -> Option<(&'a PodClass, &'a PodSpec)> {
        let class = self.universe.class(id)?;
        Some((class, self.cluster.specs.get(class.spec as usize)?))
    }

    /// The class and spec of a running pod.
    pub(super) fn resident(&self, node: usize, pod: usize) -> Option<(&'a PodClass, &'a PodSpec)> {
        let class = *self.universe.bound.get(node)?.get(pod)?;
        let spec = self.cluster.nodes.get(node)?.pods.get(pod)?.spec;
        Some((self.universe.class(class)?, self.cluster.specs.get(spec as usize)?))
    }

    pub(super) fn count(&mut self, class: &PodClass, node: usize, comes: bool) {
        let Some(fixed) = self.cluster.nodes.get(node) else { return };
        for &counter in class.counts_in.iter().chain(&class.weighs_in) {
            if !self.counts_on(counter, node) {
                continue;
            }
            let Some(key) = self.universe.counters.get(counter.index()).map(|counter| counter.key) else { continue };
            let is_host = key == self.cluster.well_known.hostname;
            let domain = if is_host { None } else { fixed.labels.get(key) };
            if !is_host && domain.is_none() {
                continue;
            }
            if comes {
                self.state.add_count(counter, domain, 1);
            } else {
                self.state.remove_count(counter, domain, 1);
            }
        }
    }

    // The counters on the host name in which a pod of the class counts on a node.
    fn host_counters(&self, class: &PodClass, node: usize) -> Vec<CounterId> {
        let hostname = self.cluster.well_known.hostname;
        let counters = class.counts_in.iter().chain(&class.weighs_in).copied();
        counters
            .filter(|&counter| {
                self.universe.counters.get(counter.index()).is_some_and(|known| known.key == hostname)
                    && self.counts_on(counter, node)
            })
            .collect()
    }
}

/// A pod comes to a node.
pub(super) fn add_to(state: &mut NodeState, spec: &PodSpec, draws_from: Option<u32>, on_host: &[CounterId]) {
    state.take(&spec.requests, draws_from);
    state.assumed = add_assumed(state.assumed, spec.assumed, 1);
    state.attach(&spec.host_ports, &spec.volumes);
    for &counter in on_host {
        state.host_counts.add(counter, 1);
    }
}
