//! A pod that looks for CPUs and devices on a node.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use berth_model::{
    AllocatePolicy, Assigned, Cpu, CpuBinding, CpuSet, Device, DeviceAsk, HeldUnits, ResourceId, Resources, Units,
    UnitsAsk, UnitsState,
};

use super::lack::UnitsLack;

/// What a pod gets on a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Given {
    /// CPUs, devices, and where on NUMA nodes its requests lie.
    pub assigned: Assigned,
    /// Whether the Reservation gives some of all kinds that it has and the pod asks for.
    pub draws: bool,
}

/// A pod that looks for CPUs and devices on a node.
pub(super) struct Seeker<'a> {
    pub(super) units: &'a Units,
    pub(super) state: &'a UnitsState,
    pub(super) ask: &'a UnitsAsk,
    /// The Reservation that it draws from.
    pub(super) own: Option<&'a HeldUnits>,
}

impl Seeker<'_> {
    /// What it gets, of these NUMA nodes alone if they are given, with so much of each.
    pub(super) fn on(&self, numa: Option<&[(u32, Resources)]>) -> Result<Given, UnitsLack> {
        let Seeker { units, ask, own, .. } = *self;
        let mut given = Given { assigned: Assigned::default(), draws: true };
        if ask.cpus > 0 && !units.cpus.is_empty() {
            let left = own.map(HeldUnits::cpus_left).unwrap_or_default();
            given.assigned.cpus = self.cpus(&left, numa)?;
            let reserves = own.is_some_and(|own| !own.reserved.cpus.is_empty());
            given.draws &= !reserves || given.assigned.cpus.iter().any(|cpu| left.contains(cpu));
        }
        for ask in &ask.devices {
            if !units.devices.iter().any(|device| device.kind == ask.kind) {
                continue;
            }
            let found = self.devices(ask, numa).ok_or(UnitsLack::Devices(ask.kind))?;
            let has_left =
                |own: &HeldUnits, minor: u32| own.device_left(ask.kind, minor).iter().any(|(_, left)| left > 0);
            let reserves = own.is_some_and(|own| own.reserved.devices.iter().any(|(kind, ..)| *kind == ask.kind));
            given.draws &= !reserves || own.is_some_and(|own| found.iter().any(|&minor| has_left(own, minor)));
            let of_kind =
                units.devices.iter().filter(|device| device.kind == ask.kind && found.contains(&device.minor));
            given.assigned.devices.extend(of_kind.map(|device| (ask.kind, device.minor, device.taken(&ask.each))));
        }
        given.assigned.devices.sort_unstable_by_key(|(kind, minor, _)| (*kind, *minor));
        Ok(given)
    }

    fn cpus(&self, left: &CpuSet, numa: Option<&[(u32, Resources)]>) -> Result<CpuSet, UnitsLack> {
        let Seeker { units, ask, .. } = *self;
        if ask.must_bind_so && ask.binding == CpuBinding::FullCores {
            let cores: std::collections::BTreeSet<u32> = units.cpus.iter().map(|cpu| cpu.core).collect();
            if !(ask.cpus as usize).is_multiple_of((units.cpus.len() / cores.len().max(1)).max(1)) {
                return Err(UnitsLack::Alignment);
            }
        }
        let Some(numa) = numa else { return self.cpus_of(left, ask.cpus as usize, |_| true) };
        // So many of each node as its part of the request says; where nodes do not count CPUs, any of theirs.
        let part = |amounts: &Resources| usize::try_from(amounts.get(ResourceId::CPU) / 1000).unwrap_or(0);
        if numa.iter().map(|(_, amounts)| part(amounts)).sum::<usize>() != ask.cpus as usize {
            return self.cpus_of(left, ask.cpus as usize, |cpu| numa.iter().any(|(id, _)| *id == cpu.numa));
        }
        let mut cpus = CpuSet::default();
        for (id, amounts) in numa {
            cpus = cpus.union(&self.cpus_of(left, part(amounts), |cpu| cpu.numa == *id)?);
        }
        Ok(cpus)
    }

    fn cpus_of(&self, left: &CpuSet, wanted: usize, may_be: impl Fn(&Cpu) -> bool) -> Result<CpuSet, UnitsLack> {
        let Seeker { units, state, ask, own } = *self;
        let is_held = |cpu: u32| {
            let others = state.held.iter().filter(|held| own.is_none_or(|own| own.reservation != held.reservation));
            let mut others = others.filter(|held| held.reserved.cpus.contains(cpu) && !held.drawn.cpus.contains(cpu));
            others.next().is_some()
        };
        let is_free = |cpu: &&Cpu| may_be(cpu) && !state.used.cpus.contains(cpu.id) && !is_held(cpu.id);
        let free: Vec<Cpu> = units.cpus.iter().filter(is_free).copied().collect();
        let (first, rest): (Vec<Cpu>, Vec<Cpu>) = free.into_iter().partition(|cpu| left.contains(cpu.id));
        let restricts = is_restricted(own) && own.is_some_and(|own| !own.reserved.cpus.is_empty());
        let rest = if restricts { Vec::new() } else { rest };
        if first.len() + rest.len() < wanted {
            return Err(UnitsLack::Cpus);
        }
        if first.len() >= wanted {
            return Ok(pick(&first, &[], wanted, ask.binding).into_iter().collect());
        }
        let more = pick(&rest, &first, wanted - first.len(), ask.binding);
        Ok(first.iter().map(|cpu| cpu.id).chain(more).collect())
    }

    // The minor numbers of devices that have what is asked for: those that the Reservation has it of alone, then those of
    // which it has some, then others; of equals the fullest.
    fn devices(&self, ask: &DeviceAsk, numa: Option<&[(u32, Resources)]>) -> Option<Vec<u32>> {
        let Seeker { units, state, own, .. } = *self;
        let is_near =
            |device: &Device| numa.zip(device.numa).is_none_or(|(numa, near)| numa.iter().any(|(id, _)| *id == near));
        let of_kind = units.devices.iter().filter(|device| device.kind == ask.kind && is_near(device));
        let reserves = own.is_some_and(|own| own.reserved.devices.iter().any(|(kind, ..)| *kind == ask.kind));
        let mut found: Vec<(u8, i64, u32)> = of_kind
            .filter_map(|device| {
                let left = own.map(|own| own.device_left(ask.kind, device.minor)).unwrap_or_default();
                let is_own = left.iter().any(|(_, amount)| amount > 0);
                let each = device.taken(&ask.each);
                // What was recorded of it may be percents alone.
                let recorded = own.map(|own| own.reserved.of_device(ask.kind, device.minor)).unwrap_or_default();
                let is_short = |(id, amount): (ResourceId, i64)| recorded.get(id) > 0 && amount > left.get(id);
                let is_enough = is_own && !each.iter().any(is_short);
                if is_restricted(own) && reserves && !is_enough {
                    return None;
                }
                let free = free_of(device, state, own);
                if !each.fits(&free) {
                    return None;
                }
                let rank = if is_enough { 0 } else { u8::from(!is_own) + 1 };
                let sum = free.iter().map(|(_, amount)| amount).fold(0, i64::saturating_add);
                Some((rank, sum, device.minor))
            })
            .collect();
        found.sort_unstable();
        found.truncate(ask.count as usize);
        let mut minors: Vec<u32> = found.iter().map(|(.., minor)| *minor).collect();
        minors.sort_unstable();
        (minors.len() == ask.count as usize).then_some(minors)
    }
}

pub(super) fn is_restricted(own: Option<&HeldUnits>) -> bool {
    own.is_some_and(|own| own.policy == AllocatePolicy::Restricted)
}

// Of free CPUs: on as few NUMA nodes as possible, those of `near` first, else on the one that they fill best; there by
// cores as the binding says.
fn pick(free: &[Cpu], near: &[Cpu], wanted: usize, binding: CpuBinding) -> Vec<u32> {
    let mut by_numa: BTreeMap<u32, Vec<Cpu>> = BTreeMap::new();
    for cpu in free {
        by_numa.entry(cpu.numa).or_default().push(*cpu);
    }
    let mut numas: Vec<(u32, Vec<Cpu>)> = by_numa.into_iter().collect();
    numas.sort_by_key(|(numa, cpus)| {
        let is_near = near.iter().any(|cpu| cpu.numa == *numa);
        let is_enough = cpus.len() >= wanted;
        let size = i64::try_from(cpus.len()).unwrap_or(i64::MAX);
        // The smallest that is enough, else the largest.
        (!is_near, !is_enough, if is_enough { size } else { -size }, *numa)
    });
    let ordered = numas.into_iter().flat_map(|(_, cpus)| by_cores(cpus, binding));
    ordered.take(wanted).collect()
}

fn by_cores(cpus: Vec<Cpu>, binding: CpuBinding) -> Vec<u32> {
    let mut by_core: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    for cpu in cpus {
        by_core.entry(cpu.core).or_default().push(cpu.id);
    }
    let mut cores: Vec<(u32, Vec<u32>)> = by_core.into_iter().collect();
    match binding {
        CpuBinding::FullCores => {
            cores.sort_by_key(|(core, threads)| (Reverse(threads.len()), *core));
            cores.into_iter().flat_map(|(_, threads)| threads).collect()
        }
        CpuBinding::SpreadCores => {
            let mut turns: Vec<(usize, u32, u32)> = Vec::new();
            for (core, threads) in cores {
                turns.extend(threads.into_iter().enumerate().map(|(turn, cpu)| (turn, core, cpu)));
            }
            turns.sort_unstable();
            turns.into_iter().map(|(.., cpu)| cpu).collect()
        }
    }
}

// What of a device neither pods nor other Reservations have.
fn free_of(device: &Device, state: &UnitsState, own: Option<&HeldUnits>) -> Resources {
    let mut free = device.total.clone();
    free.subtract(&state.used.of_device(device.kind, device.minor));
    for held in state.held.iter().filter(|held| own.is_none_or(|own| own.reservation != held.reservation)) {
        free.subtract(&held.device_left(device.kind, device.minor));
    }
    free
}
