//! Pods that are being deleted: all that they have is theirs until they are gone. In a plan, a pod that is nominated to
//! their node may count on it, and so may one that would preempt them.

use berth_model::{ClassId, MemberKind};

use super::{Scheduler, Verdict};

impl Scheduler<'_> {
    /// Whether a pod may come, in a plan, to the node that room was made on for it once those that are being deleted
    /// there have gone. Then they are off the node until [`Scheduler::put_back_terminating`].
    pub(super) fn may_come_once_gone(&mut self, id: ClassId, node: usize) -> bool {
        if !self.counts_on_terminating || !self.take_off_terminating(node) {
            return false;
        }
        let may_come = self.may_come_to(id, node);
        if !may_come {
            self.put_back_terminating(node);
        }
        may_come
    }

    /// What a node says to a pod that is nominated to it, once those that are being deleted there have gone.
    pub(super) fn assess_once_gone(&mut self, id: ClassId, node: usize) -> Option<Verdict> {
        if !self.take_off_terminating(node) {
            return None;
        }
        let verdict = self.assess_all(id).into_iter().find(|said| said.node == node).map(|said| said.verdict);
        self.put_back_terminating(node);
        verdict
    }

    // Whether there are any.
    fn take_off_terminating(&mut self, node: usize) -> bool {
        let going: Vec<usize> = self.terminating(node).filter(|&pod| !self.is_off(node, pod)).collect();
        for &pod in &going {
            self.take_off(node, pod);
        }
        if !going.is_empty() {
            self.recount_units(node);
            self.regroup(node);
        }
        !going.is_empty()
    }

    /// Those that are being deleted on a node are there again, though a pod was placed that counts on their room. Returns
    /// whether any had been off.
    pub(super) fn put_back_terminating(&mut self, node: usize) -> bool {
        let off: Vec<usize> = self.terminating(node).filter(|&pod| self.is_off(node, pod)).collect();
        if off.is_empty() {
            return false;
        }
        for &pod in &off {
            self.put_back(node, pod);
        }
        self.evicted.retain(|eviction| eviction.node != node || !off.contains(&eviction.pod));
        self.recount_units(node);
        self.regroup(node);
        true
    }

    // By position among the node's pods.
    fn terminating(&self, node: usize) -> impl Iterator<Item = usize> {
        let pods = self.cluster.nodes.get(node).map_or(&[][..], |node| &node.pods);
        pods.iter().enumerate().filter(|(_, pod)| pod.is_terminating()).map(|(at, _)| at)
    }

    // CPUs that a pod leaves and another is to have after it are given out twice: sums would not tell.
    fn recount_units(&mut self, node: usize) {
        let Some((fixed, state)) = self.cluster.nodes.get(node).zip(self.state.nodes().get(node)) else { return };
        if state.units.used.is_empty() && fixed.pods.iter().all(|pod| pod.assigned.is_none()) {
            return;
        }
        let here = (0..fixed.pods.len()).filter(|&pod| !self.is_off(node, pod));
        let mut pods: Vec<_> =
            here.filter_map(|pod| Some((self.assigned_to(node, pod)?.clone(), self.drawn_by(node, pod)))).collect();
        let is_pod = |id: ClassId| self.universe.class(id).is_some_and(|class| class.kind == MemberKind::Pod);
        let added = state.assigned.iter().filter(|(class, ..)| is_pod(*class));
        pods.extend(added.map(|(_, from, assigned)| (assigned.clone(), *from)));
        self.state.change_node(node, |state| {
            state.recount_units(pods.iter().map(|(assigned, from)| (assigned, *from)));
        });
    }
}
