//! Pods that are being deleted: all that they have is theirs until they are gone. In a plan, a pod that is nominated to
//! their node may count on it, and so may one that would preempt them.

use berth_model::{ClassId, MemberKind};

use super::ledger::Ledger;
use super::tables::Tables;

impl Ledger {
    /// Takes those that are being deleted off a node, until [`Ledger::put_back_terminating`]. Whether there are any.
    pub(super) fn take_off_terminating(&mut self, tables: &Tables<'_>, node: usize) -> bool {
        let going: Vec<usize> = terminating(tables, node).filter(|&pod| !self.is_off(node, pod)).collect();
        for &pod in &going {
            self.take_off(tables, node, pod);
        }
        if !going.is_empty() {
            self.recount_units(tables, node);
            self.regroup(node);
        }
        !going.is_empty()
    }

    /// Those that are being deleted on a node are there again, though a pod was placed that counts on their room. Returns
    /// whether any had been off.
    pub(super) fn put_back_terminating(&mut self, tables: &Tables<'_>, node: usize) -> bool {
        let off: Vec<usize> = terminating(tables, node).filter(|&pod| self.is_off(node, pod)).collect();
        if off.is_empty() {
            return false;
        }
        for &pod in &off {
            self.put_back(tables, node, pod);
        }
        self.evicted.retain(|eviction| eviction.node != node || !off.contains(&eviction.pod));
        self.recount_units(tables, node);
        self.regroup(node);
        true
    }

    // CPUs that a pod leaves and another is to have after it are given out twice: sums would not tell.
    fn recount_units(&mut self, tables: &Tables<'_>, node: usize) {
        let Some((fixed, state)) = tables.cluster.node(node).zip(self.state.node(node)) else { return };
        if state.units.used.is_empty() && fixed.pods.iter().all(|pod| pod.assigned.is_none()) {
            return;
        }
        let here = (0..fixed.pods.len()).filter(|&pod| !self.is_off(node, pod));
        let assigned = |pod| Some((tables.assigned_to(node, pod)?.clone(), self.drawn_by(tables.cluster, node, pod)));
        let mut pods: Vec<_> = here.filter_map(assigned).collect();
        let is_pod = |id: ClassId| tables.universe.class(id).is_some_and(|class| class.kind == MemberKind::Pod);
        let added = state.assigned.iter().filter(|(class, ..)| is_pod(*class));
        pods.extend(added.map(|(_, from, assigned)| (assigned.clone(), *from)));
        self.state.change_node(node, |state| {
            state.recount_units(pods.iter().map(|(assigned, from)| (assigned, *from)));
        });
    }
}

// By position among the node's pods.
fn terminating<'t>(tables: &Tables<'t>, node: usize) -> impl Iterator<Item = usize> + use<'t> {
    let pods = tables.cluster.node(node).map_or(&[][..], |node| &node.pods);
    pods.iter().enumerate().filter(|(_, pod)| pod.is_terminating()).map(|(at, _)| at)
}
