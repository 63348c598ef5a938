//! Pods come to nodes and leave them: which group a node is in then, and for whom room is held.

use berth_model::{Assigned, ClassId, MemberKind, PodClass, PodSpec};

use super::{Eviction, Placed, Scheduler};

impl<'a> Scheduler<'a> {
    /// Binds a pod of a class to a node.
    ///
    /// A pod draws from the Reservation there that suits it best, if any, and spends one that is for one pod alone. The
    /// next Reservation of a class that stands in for some holds its room.
    pub fn bind(&mut self, id: ClassId, node: usize) {
        if let Some(row) = self.row_of_next(id) {
            self.log.push(Placed { row, class: id, node, waits_for_room: false });
        }
        self.put_on(id, node);
    }

    /// The row of the input that the next pod of a class is of: classes take their rows one after another.
    fn row_of_next(&self, id: ClassId) -> Option<u32> {
        let mut n_placed = self.log.iter().filter(|placed| placed.class == id).count();
        let rows = &self.universe.class(id)?.rows;
        let size = |row: u32| {
            let members = self.cluster.pending.get(row as usize).map(|row| row.members.iter());
            members.into_iter().flatten().map(|run| run.len() as usize).sum::<usize>()
        };
        for &row in rows {
            match n_placed.checked_sub(size(row)) {
                Some(rest) => n_placed = rest,
                None => return Some(row),
            }
        }
        rows.last().copied()
    }

    /// Binds a pod of a class to a node, for whoever notes its row, or only tries.
    pub(super) fn put_on(&mut self, id: ClassId, node: usize) {
        let Some((class, _)) = self.class_and_spec(id) else { return };
        if class.kind == MemberKind::Reservation {
            return self.place_reservation(id, node);
        }
        self.tables.bind(&mut self.state, id, node);
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
        self.off.insert(Eviction { node, pod });
        let draws_from = self.drawn_by(node, pod);
        self.tables.take_off(&mut self.state, node, pod, draws_from);
    }

    /// Puts a running pod back that was taken off, in the snapshot alone.
    pub(super) fn put_back(&mut self, node: usize, pod: usize) {
        self.off.remove(&Eviction { node, pod });
        let draws_from = self.drawn_by(node, pod);
        self.tables.put_back(&mut self.state, node, pod, draws_from);
    }

    /// The CPUs and devices that a running pod has to itself.
    pub(super) fn assigned_to(&self, node: usize, pod: usize) -> Option<&'a Assigned> {
        self.tables.assigned_to(node, pod)
    }

    /// Those that a pod gets now.
    pub(super) fn assigned_on(&self, spec: &PodSpec, node: usize, draws_from: Option<u32>) -> Assigned {
        self.world().assigned_on(spec, node, draws_from)
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
        let is_apart = self.nominated.contains_key(&node) || self.gone == Some(node);
        if let Some(state) = self.state.nodes().get(node) {
            self.groups.regroup(node, state, is_apart);
        }
    }

    pub(super) fn class_and_spec(&self, id: ClassId) -> Option<(&'a PodClass, &'a PodSpec)> {
        self.tables.class_and_spec(id)
    }

    /// The class and spec of a running pod.
    pub(super) fn resident(&self, node: usize, pod: usize) -> Option<(&'a PodClass, &'a PodSpec)> {
        self.tables.resident(node, pod)
    }
}
