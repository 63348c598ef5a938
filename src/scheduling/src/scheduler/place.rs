//! Pods come to nodes and leave them.

use berth_model::{ClassId, MemberKind, RowId};

use super::eviction::Eviction;
use super::ledger::{Ledger, Placed};
use super::tables::Tables;

impl Ledger {
    /// Binds the next pod of a class to a node; see [`super::Scheduler::bind`].
    pub(super) fn bind(&mut self, tables: &Tables<'_>, id: ClassId, node: usize) {
        if let Some(row) = self.row_of_next(tables, id) {
            self.log.push(Placed { row, class: id, node, waits_for_room: false });
        }
        self.put_on(tables, id, node);
    }

    /// The row of the input that the next pod of a class is of: classes take their rows one after another.
    fn row_of_next(&self, tables: &Tables<'_>, id: ClassId) -> Option<RowId> {
        let mut n_placed = self.log.iter().filter(|placed| placed.class == id).count();
        let rows = &tables.universe.class(id)?.rows;
        let size = |row: RowId| {
            let members = tables.cluster.row(row).map(|row| row.members.iter());
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
    pub(super) fn put_on(&mut self, tables: &Tables<'_>, id: ClassId, node: usize) {
        let Some((class, _)) = tables.class_and_spec(id) else { return };
        if class.kind == MemberKind::Reservation {
            return self.place_reservation(tables, id, node);
        }
        tables.bind(&mut self.state, id, node);
        self.regroup(node);
    }

    /// Takes a running pod off its node.
    pub(super) fn evict(&mut self, tables: &Tables<'_>, eviction: Eviction) {
        let Eviction { node, pod } = eviction;
        self.take_off(tables, node, pod);
        self.evicted.push(eviction);
        self.regroup(node);
    }

    /// Takes a running pod off its node in the snapshot alone, for what-ifs.
    pub(super) fn take_off(&mut self, tables: &Tables<'_>, node: usize, pod: usize) {
        self.off.insert(Eviction { node, pod });
        let draws_from = self.drawn_by(tables.cluster, node, pod);
        tables.take_off(&mut self.state, node, pod, draws_from);
    }

    /// Puts a running pod back that was taken off, in the snapshot alone.
    pub(super) fn put_back(&mut self, tables: &Tables<'_>, node: usize, pod: usize) {
        self.off.remove(&Eviction { node, pod });
        let draws_from = self.drawn_by(tables.cluster, node, pod);
        tables.put_back(&mut self.state, node, pod, draws_from);
    }
}
