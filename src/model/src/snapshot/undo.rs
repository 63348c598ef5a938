//! What the journal keeps of a change: as much as it takes to undo it.

use super::bins::Bin;
use super::node_state::NodeState;
use crate::resources::Amounts;
use crate::units::UnitsUndo;
use crate::{ColumnId, CounterId, Disk, HeldUnits, Holding, HostPort, PoolId, Resources, SlotId, Sym, UnitsState};

#[derive(Clone, Debug)]
pub(super) enum Undo {
    Node(usize, NodeUndo),
    // Another one took its place.
    Bin(usize, Box<Bin>),
    BinNodes(usize, u32),
    // The planned column, what is used, and what is left.
    BinRoom(usize, ColumnId, Box<[Resources; 2]>),
    NewBin,
    // What the counter's total and, where one changed, its domain's count were; `None` for a domain not yet listed.
    Count(CounterId, u32, Option<(Sym, Option<u32>)>),
    Slots(SlotId, u32),
    Pool(PoolId, Amounts, u64),
    Claim(Sym, u32),
}

/// A change of one node, with what it changed as it was. What came is the last, as all later changes are undone by then.
#[derive(Clone, Debug)]
pub(super) enum NodeUndo {
    Free(Amounts),
    // What pods drew from the holding at a position.
    Drawn(usize, Amounts),
    Assumed([i64; 2]),
    HoldingCame,
    HoldingWent(usize, Box<Holding>),
    HeldUnitsCame,
    HeldUnitsWent(usize, Box<HeldUnits>),
    Units(Box<UnitsUndo>),
    AllUnits(Box<UnitsState>),
    HostCount(CounterId, u32),
    // How many pods of the class at a position had been added.
    Added(usize, u32),
    ClassAdded,
    Draw,
    Placed,
    Assigned,
    // How many there had been.
    PortsCame(usize),
    PortWent(usize, HostPort),
    DisksCame(usize),
    DiskWent(usize, Box<Disk>),
    AttachedCame(usize),
    AttachedWent(usize, (Sym, Sym)),
}

impl NodeUndo {
    pub(super) fn restore(self, node: &mut NodeState) {
        match self {
            NodeUndo::Free(amounts) => node.free.restore(&amounts),
            NodeUndo::Drawn(at, amounts) => {
                if let Some(holding) = node.holdings.get_mut(at) {
                    holding.restore_allocated(&amounts);
                }
            }
            NodeUndo::Assumed(assumed) => node.assumed = assumed,
            NodeUndo::HoldingCame => drop(node.holdings.pop()),
            NodeUndo::HoldingWent(at, holding) => insert(&mut node.holdings, at, *holding),
            NodeUndo::HeldUnitsCame => drop(node.units.held.pop()),
            NodeUndo::HeldUnitsWent(at, held) => insert(&mut node.units.held, at, *held),
            NodeUndo::Units(before) => node.units.restore(*before),
            NodeUndo::AllUnits(before) => node.units = *before,
            NodeUndo::HostCount(counter, pods) => {
                node.host_counts.subtract(counter, u32::MAX);
                if pods > 0 {
                    node.host_counts.add(counter, pods);
                }
            }
            NodeUndo::Added(at, count) => {
                if let Some((_, sum)) = node.added.get_mut(at) {
                    *sum = count;
                }
            }
            NodeUndo::ClassAdded => drop(node.added.pop()),
            NodeUndo::Draw => drop(node.draws.pop()),
            NodeUndo::Placed => drop(node.placed.pop()),
            NodeUndo::Assigned => drop(node.assigned.pop()),
            NodeUndo::PortsCame(n_ports) => node.ports.truncate(n_ports),
            NodeUndo::PortWent(at, port) => insert(&mut node.ports, at, port),
            NodeUndo::DisksCame(n_disks) => node.disks.truncate(n_disks),
            NodeUndo::DiskWent(at, disk) => insert(&mut node.disks, at, *disk),
            NodeUndo::AttachedCame(at) => {
                if at < node.attached.len() {
                    node.attached.remove(at);
                }
            }
            NodeUndo::AttachedWent(at, volume) => insert(&mut node.attached, at, volume),
        }
    }
}

fn insert<T>(list: &mut Vec<T>, at: usize, item: T) {
    list.insert(at.min(list.len()), item);
}
