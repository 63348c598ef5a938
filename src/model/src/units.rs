//! CPUs and devices of a node one by one, for pods that have some of them to themselves.

use crate::{AllocatePolicy, CpuSet, ReservationId, ResourceId, Resources, Sym};

/// A logical CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Cpu {
    /// Its number.
    pub id: u32,
    /// The physical core that it is a thread of; no two cores of a node have one number.
    pub core: u32,
    /// The NUMA node.
    pub numa: u32,
}

/// A NUMA node, with what pods may use of it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct NumaNode {
    /// Its number.
    pub id: u32,
    /// What it has.
    pub amounts: Resources,
    /// The resources that it reports, ascending; also those of which nothing is left for pods.
    pub reported: Vec<ResourceId>,
}

/// How what a pod requests lies on NUMA nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum NumaPolicy {
    /// On as few as possible where that is possible, else anyhow.
    BestEffort,
    /// On as few as possible, all of it on the same.
    Restricted,
    /// On one.
    SingleNode,
}

impl NumaPolicy {
    /// The policy of Koordinator's name: `BestEffort`, `Restricted` or `SingleNUMANode`.
    pub fn of_name(name: &str) -> Option<Self> {
        match name {
            "BestEffort" => Some(NumaPolicy::BestEffort),
            "Restricted" => Some(NumaPolicy::Restricted),
            "SingleNUMANode" => Some(NumaPolicy::SingleNode),
            _ => None,
        }
    }
}

/// A device that works, such as a GPU.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Device {
    /// `gpu`, `rdma`, `fpga`.
    pub kind: Sym,
    /// Its minor number, by which it is known among those of its kind.
    pub minor: u32,
    /// The NUMA node that it is near to, where it says so.
    pub numa: Option<u32>,
    /// What it has.
    pub total: Resources,
    /// Of a GPU: its memory in percent and in bytes, of which pods ask for either.
    pub memory: Option<(ResourceId, ResourceId)>,
}

impl Device {
    /// What a pod takes of it that asks for so much: memory in percent is memory in bytes, too.
    pub fn taken(&self, each: &Resources) -> Resources {
        let mut taken = each.clone();
        if let Some((percent, bytes)) = self.memory {
            let total = i128::from(self.total.get(bytes)).max(1);
            let share = |amount: i64, of: i128, whole: i128| {
                i64::try_from((i128::from(amount) * whole + of - 1) / of).unwrap_or(i64::MAX)
            };
            match (each.get(percent), each.get(bytes)) {
                (asked, 0) if asked > 0 => taken.set(bytes, share(asked, 100, total).min(self.total.get(bytes))),
                (0, asked) if asked > 0 => taken.set(percent, share(asked, total, 100)),
                _ => {}
            }
        }
        taken
    }
}

/// What a node has, where it says so.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Units {
    /// The CPUs that pods may be bound to, ascending.
    pub cpus: Vec<Cpu>,
    /// The devices, by kind and minor number.
    pub devices: Vec<Device>,
    /// The NUMA nodes, ascending.
    pub numa: Vec<NumaNode>,
    /// How all pods lie on them.
    pub policy: Option<NumaPolicy>,
    /// Whether an agent lists the CPUs that the node keeps, so that they are not among `cpus`.
    pub are_kept_listed: bool,
    /// Whether the node is not there yet to say: pods that ask for any of this may be planned onto it.
    pub is_unknown: bool,
}

/// How the CPUs of a pod lie on physical cores.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CpuBinding {
    /// All threads of as few cores as possible (`FullPCPUs`).
    #[default]
    FullCores,
    /// One thread of as many cores as possible (`SpreadByPCPUs`).
    SpreadCores,
}

/// Devices that a pod asks for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DeviceAsk {
    /// The kind.
    pub kind: Sym,
    /// How many.
    pub count: u32,
    /// What of each; more than one is asked for whole.
    pub each: Resources,
}

/// What a pod asks for that it has to itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct UnitsAsk {
    /// CPUs of its own; 0 for a pod that shares CPUs with others.
    pub cpus: u32,
    /// How they lie.
    pub binding: CpuBinding,
    /// Whether they must lie so (`requiredCPUBindPolicy`).
    pub must_bind_so: bool,
    /// Devices, by kind.
    pub devices: Vec<DeviceAsk>,
    /// How what it requests lies on NUMA nodes.
    pub policy: Option<NumaPolicy>,
    /// Whether pods on one NUMA node and pods on several keep off each other's.
    pub is_exclusive: bool,
}

impl UnitsAsk {
    /// Whether it asks for nothing.
    pub fn is_empty(&self) -> bool {
        self.cpus == 0 && self.devices.is_empty() && self.policy.is_none()
    }
}

/// What a pod or a Reservation has to itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Assigned {
    /// CPUs.
    pub cpus: CpuSet,
    /// Parts of devices: kind, minor number, and how much; by kind and number.
    pub devices: Vec<(Sym, u32, Resources)>,
    /// Where its requests lie: NUMA node and how much of it; ascending.
    pub numa: Vec<(u32, Resources)>,
}

impl Assigned {
    /// Whether it is nothing.
    pub fn is_empty(&self) -> bool {
        self.cpus.is_empty() && self.devices.is_empty() && self.numa.is_empty()
    }

    /// What of a NUMA node.
    pub fn of_numa(&self, id: u32) -> Resources {
        let found = self.numa.iter().find(|(known, _)| *known == id);
        found.map_or_else(Resources::new, |(_, amounts)| amounts.clone())
    }

    /// What of a device.
    pub fn of_device(&self, kind: Sym, minor: u32) -> Resources {
        let found = self.devices.iter().find(|(k, m, _)| (*k, *m) == (kind, minor));
        found.map_or_else(Resources::new, |(.., amounts)| amounts.clone())
    }

    /// Adds what another has.
    pub fn add(&mut self, other: &Assigned) {
        self.change(other, 1);
    }

    fn change(&mut self, other: &Assigned, times: i64) -> AssignedUndo {
        let devices = other.devices.iter().map(|(kind, minor, _)| (*kind, *minor, self.of_device(*kind, *minor)));
        let had = Assigned {
            cpus: other.cpus.intersection(&self.cpus),
            devices: devices.collect(),
            numa: other.numa.iter().map(|(id, _)| (*id, self.of_numa(*id))).collect(),
        };
        self.cpus = if times > 0 { self.cpus.union(&other.cpus) } else { self.cpus.difference(&other.cpus) };
        for (kind, minor, amounts) in &other.devices {
            let at = self.devices.iter().position(|(k, m, _)| (k, m) == (kind, minor));
            let at = at.unwrap_or_else(|| {
                self.devices.push((*kind, *minor, Resources::new()));
                self.devices.len() - 1
            });
            if let Some((.., sum)) = self.devices.get_mut(at) {
                sum.add_times(amounts, times);
            }
        }
        self.devices.retain(|(.., amounts)| amounts.iter().any(|(_, amount)| amount != 0));
        self.devices.sort_unstable_by_key(|(kind, minor, _)| (*kind, *minor));
        for (id, amounts) in &other.numa {
            let at = self.numa.iter().position(|(known, _)| known == id).unwrap_or_else(|| {
                self.numa.push((*id, Resources::new()));
                self.numa.len() - 1
            });
            if let Some((_, sum)) = self.numa.get_mut(at) {
                sum.add_times(amounts, times);
            }
        }
        self.numa.retain(|(_, amounts)| amounts.iter().any(|(_, amount)| amount != 0));
        self.numa.sort_unstable_by_key(|(id, _)| *id);
        AssignedUndo { cpus: other.cpus.clone(), had }
    }

    fn restore(&mut self, AssignedUndo { cpus, had }: AssignedUndo) {
        self.cpus = self.cpus.difference(&cpus).union(&had.cpus);
        for (kind, minor, amounts) in had.devices {
            self.devices.retain(|(k, m, _)| (*k, *m) != (kind, minor));
            if amounts != Resources::new() {
                self.devices.push((kind, minor, amounts));
            }
        }
        self.devices.sort_unstable_by_key(|(kind, minor, _)| (*kind, *minor));
        for (id, amounts) in had.numa {
            self.numa.retain(|(known, _)| *known != id);
            if amounts != Resources::new() {
                self.numa.push((id, amounts));
            }
        }
        self.numa.sort_unstable_by_key(|(id, _)| *id);
    }
}

/// What one Reservation holds of a node's units.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct HeldUnits {
    /// Which Reservation.
    pub reservation: ReservationId,
    /// How owners that need more are treated.
    pub policy: AllocatePolicy,
    /// What it reserves.
    pub reserved: Assigned,
    /// What its owners have, of these and others.
    pub drawn: Assigned,
}

impl HeldUnits {
    /// The CPUs that no owner has yet.
    pub fn cpus_left(&self) -> CpuSet {
        self.reserved.cpus.difference(&self.drawn.cpus)
    }

    /// What of a device no owner has yet.
    pub fn device_left(&self, kind: Sym, minor: u32) -> Resources {
        left(&self.reserved.of_device(kind, minor), &self.drawn.of_device(kind, minor))
    }

    /// What of a NUMA node no owner has yet.
    pub fn numa_left(&self, id: u32) -> Resources {
        left(&self.reserved.of_numa(id), &self.drawn.of_numa(id))
    }
}

fn left(reserved: &Resources, drawn: &Resources) -> Resources {
    let mut left = reserved.clone();
    for (id, amount) in reserved.iter() {
        left.set(id, (amount - drawn.get(id)).max(0));
    }
    left
}

/// What a change makes another of what is assigned: the CPUs that it is about, which of them were there, and the amounts
/// as they were.
#[derive(Clone, Debug)]
struct AssignedUndo {
    cpus: CpuSet,
    had: Assigned,
}

/// What a pod that comes or goes makes another of a node's units, as it was.
#[derive(Clone, Debug)]
pub(crate) struct UnitsUndo {
    used: AssignedUndo,
    /// Of the Reservation that it draws from, by position.
    drawn: Option<(usize, AssignedUndo)>,
    lying: Vec<(u32, [u32; 2])>,
}

/// Who has which units of a node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct UnitsState {
    /// What pods have.
    pub used: Assigned,
    /// What Reservations hold.
    pub held: Vec<HeldUnits>,
    /// By NUMA node: pods that lie on it alone, and pods that lie on others, too; ascending.
    pub lying: Vec<(u32, [u32; 2])>,
}

impl UnitsState {
    /// A pod comes, of a Reservation that it draws from or of none.
    pub(crate) fn take(&mut self, assigned: &Assigned, draws_from: Option<ReservationId>) -> UnitsUndo {
        self.change(assigned, draws_from, 1)
    }

    /// A pod goes.
    pub(crate) fn give_back(&mut self, assigned: &Assigned, draws_from: Option<ReservationId>) -> UnitsUndo {
        self.change(assigned, draws_from, -1)
    }

    /// Counts anew what pods have, each with the Reservation that it draws from: CPUs that one pod has and another is
    /// to have after it are in use as long as either is among them.
    pub fn recount<'p>(&mut self, pods: impl Iterator<Item = (&'p Assigned, Option<ReservationId>)>) {
        self.used = Assigned::default();
        self.lying.clear();
        self.held.iter_mut().for_each(|held| held.drawn = Assigned::default());
        for (assigned, draws_from) in pods {
            self.take(assigned, draws_from);
        }
    }

    fn change(&mut self, assigned: &Assigned, draws_from: Option<ReservationId>, times: i64) -> UnitsUndo {
        let used = self.used.change(assigned, times);
        let lying = assigned.numa.iter().map(|(id, _)| (*id, self.lying_on(*id))).collect();
        for (id, _) in &assigned.numa {
            self.count_lying(*id, assigned.numa.len() > 1, times);
        }
        let drawn = self.held.iter_mut().enumerate().find(|(_, held)| Some(held.reservation) == draws_from);
        let drawn = drawn.map(|(at, held)| (at, held.drawn.change(assigned, times)));
        UnitsUndo { used, drawn, lying }
    }

    /// A pod that came or went did not.
    pub(crate) fn restore(&mut self, UnitsUndo { used, drawn, lying }: UnitsUndo) {
        self.used.restore(used);
        if let Some((at, before)) = drawn
            && let Some(held) = self.held.get_mut(at)
        {
            held.drawn.restore(before);
        }
        for (id, before) in lying {
            self.lying.retain(|(known, _)| *known != id);
            if before != [0, 0] {
                self.lying.push((id, before));
            }
        }
        self.lying.sort_unstable_by_key(|(id, _)| *id);
    }

    fn lying_on(&self, id: u32) -> [u32; 2] {
        let at = self.lying.binary_search_by_key(&id, |(known, _)| *known).ok();
        at.and_then(|at| self.lying.get(at)).map_or([0, 0], |(_, counts)| *counts)
    }

    fn count_lying(&mut self, id: u32, is_spread: bool, times: i64) {
        let at = self.lying.binary_search_by_key(&id, |(known, _)| *known).unwrap_or_else(|at| {
            self.lying.insert(at, (id, [0, 0]));
            at
        });
        if let Some((_, counts)) = self.lying.get_mut(at) {
            let [alone, spread] = counts;
            let count = if is_spread { spread } else { alone };
            *count = count.saturating_add_signed(i32::try_from(times).unwrap_or(0));
        }
        // Without zeros, so that equal counts are equal values.
        self.lying.retain(|(_, counts)| *counts != [0, 0]);
    }
}
