//! Resource vectors over interned names, in exact integers.

use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use crate::{Sym, Symbols};

/// The position of a resource in every [`Resources`] vector of one universe.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ResourceId(pub u16);

impl ResourceId {
    /// CPU, in milli-CPU.
    pub const CPU: ResourceId = ResourceId(0);
    /// Memory, in bytes.
    pub const MEMORY: ResourceId = ResourceId(1);
    /// Pods, a count; every pod requests one.
    pub const PODS: ResourceId = ResourceId(2);

    /// As an index.
    pub fn index(self) -> usize {
        usize::from(self.0)
    }
}

/// How many resources are told apart at most. Every [`Resources`] vector may be as long as there are resources, and
/// anybody may choose names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResourceLimit {
    /// Up to how many new ones may come from what pods ask for.
    pub asked: usize,
    /// Up to how many they may come from what nodes and instance types have, so that no pod can take the place of a real
    /// resource.
    pub all: usize,
}

impl Default for ResourceLimit {
    /// More than any cluster has.
    fn default() -> Self {
        ResourceLimit { asked: 3072, all: 4096 }
    }
}

/// The names of the resources of a universe. `cpu`, `memory` and `pods` are always the first three.
#[derive(Clone, Debug)]
pub struct ResourceNames {
    names: Vec<Sym>,
    ids: FxHashMap<Sym, ResourceId>,
    limit: ResourceLimit,
    has_refused: bool,
    is_closed: bool,
}

impl ResourceNames {
    /// The three resources that every universe has.
    pub fn new(symbols: &mut Symbols) -> Self {
        let mut names = ResourceNames {
            names: Vec::new(),
            ids: FxHashMap::default(),
            limit: ResourceLimit::default(),
            has_refused: false,
            is_closed: false,
        };
        for name in ["cpu", "memory", "pods"] {
            names.intern(symbols.intern(name));
        }
        names
    }

    /// The id of a resource, new or known. There is room for 65,536; further names share the last id.
    pub fn intern(&mut self, name: Sym) -> ResourceId {
        let next = ResourceId(u16::try_from(self.names.len()).unwrap_or(u16::MAX));
        *self.ids.entry(name).or_insert_with(|| {
            self.names.push(name);
            next
        })
    }

    /// Sets how many there may be.
    pub fn set_limit(&mut self, limit: ResourceLimit) {
        self.limit = limit;
    }

    /// How many there may be.
    pub fn limit(&self) -> ResourceLimit {
        self.limit
    }

    /// The id of a resource that somebody asks for, new or known; `None` for a new one where there are as many as may be.
    pub fn intern_asked(&mut self, name: Sym) -> Option<ResourceId> {
        self.intern_within(name, self.limit.asked)
    }

    /// The id of a resource that a node, an instance type or a NodePool has, new or known; `None` for a new one where there
    /// are as many as may be.
    pub fn intern_offered(&mut self, name: Sym) -> Option<ResourceId> {
        self.intern_within(name, self.limit.all)
    }

    fn intern_within(&mut self, name: Sym, limit: usize) -> Option<ResourceId> {
        if let Some(&known) = self.ids.get(&name) {
            return Some(known);
        }
        let has_room = self.names.len() < limit && !self.is_closed;
        self.has_refused |= !has_room;
        has_room.then(|| self.intern(name))
    }

    /// Whether there ever was one too many: with other objects, or in another order, others would be known.
    pub fn has_refused(&self) -> bool {
        self.has_refused
    }

    /// Forgets the names after the first `n_known`, which nothing has an amount of.
    pub fn forget_after(&mut self, n_known: usize) {
        for name in self.names.drain(n_known.min(self.names.len())..) {
            self.ids.remove(&name);
        }
    }

    /// While it is closed, no name becomes known.
    pub fn set_closed(&mut self, is_closed: bool) {
        self.is_closed = is_closed;
    }

    /// The id of a resource that is known.
    pub fn get(&self, name: Sym) -> Option<ResourceId> {
        self.ids.get(&name).copied()
    }

    /// The name of a resource.
    pub fn name(&self, id: ResourceId) -> Option<Sym> {
        self.names.get(id.index()).copied()
    }

    /// All resources, in order of their ids.
    pub fn iter(&self) -> impl Iterator<Item = (ResourceId, Sym)> + '_ {
        self.names.iter().enumerate().map(|(i, &name)| (ResourceId(u16::try_from(i).unwrap_or(u16::MAX)), name))
    }

    /// How many resources there are.
    pub fn len(&self) -> usize {
        self.names.len()
    }

    /// Never true: cpu, memory and pods are always there.
    pub fn is_empty(&self) -> bool {
        self.names.is_empty()
    }
}

/// Amounts of resources: CPU in milli-CPU, everything else in its whole unit (bytes, pods, devices). A resource
/// beyond the vector's end is zero. Trailing zeros are kept off, so equal amounts are equal vectors.
#[derive(Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Resources(SmallVec<[i64; 5]>);

impl Clone for Resources {
    // A copy of the slice, where the vector's own clone goes amount by amount.
    fn clone(&self) -> Self {
        Resources(SmallVec::from_slice(&self.0))
    }
}

/// Amounts of some resources, as they were.
pub(crate) type Amounts = SmallVec<[(ResourceId, i64); 3]>;

impl Resources {
    /// All zero.
    pub fn new() -> Self {
        Self::default()
    }

    /// From amounts in order of [`ResourceId`].
    pub fn from_amounts(amounts: &[i64]) -> Self {
        let mut resources = Resources(SmallVec::from_slice(amounts));
        resources.trim();
        resources
    }

    fn trim(&mut self) {
        while self.0.last() == Some(&0) {
            self.0.pop();
        }
    }

    /// The amount of one resource.
    pub fn get(&self, id: ResourceId) -> i64 {
        self.0.get(id.index()).copied().unwrap_or(0)
    }

    /// Sets the amount of one resource.
    pub fn set(&mut self, id: ResourceId, amount: i64) {
        if self.0.len() <= id.index() {
            self.0.resize(id.index() + 1, 0);
        }
        if let Some(slot) = self.0.get_mut(id.index()) {
            *slot = amount;
        }
        self.trim();
    }

    /// The amounts, in order of [`ResourceId`], without trailing zeros.
    pub fn amounts(&self) -> &[i64] {
        &self.0
    }

    /// The resources with a non-zero amount.
    pub fn iter(&self) -> impl Iterator<Item = (ResourceId, i64)> + '_ {
        let ids = 0..u16::try_from(self.0.len()).unwrap_or(u16::MAX);
        ids.zip(&self.0).filter(|(_, amount)| **amount != 0).map(|(i, &amount)| (ResourceId(i), amount))
    }

    /// Adds `other` times `count`, stopping at the ends of `i64`.
    pub fn add_times(&mut self, other: &Resources, count: i64) {
        if self.0.len() < other.0.len() {
            self.0.resize(other.0.len(), 0);
        }
        for (mine, theirs) in self.0.iter_mut().zip(&other.0) {
            *mine = mine.saturating_add(theirs.saturating_mul(count));
        }
        self.trim();
    }

    /// Adds `other`.
    pub fn add(&mut self, other: &Resources) {
        self.add_times(other, 1);
    }

    /// Subtracts `other`; amounts may become negative.
    pub fn subtract(&mut self, other: &Resources) {
        self.add_times(other, -1);
    }

    /// The amounts that others do not have alike.
    pub(crate) fn unlike(&self, others: &Resources) -> Amounts {
        let n_ids = u16::try_from(self.0.len().max(others.0.len())).unwrap_or(u16::MAX);
        let ids = (0..n_ids).map(ResourceId);
        ids.map(|id| (id, self.get(id))).filter(|(id, amount)| others.get(*id) != *amount).collect()
    }

    /// These amounts are as they were.
    pub(crate) fn restore(&mut self, amounts: &Amounts) {
        for (id, amount) in amounts {
            self.set(*id, *amount);
        }
    }

    /// The larger of each amount.
    pub fn raise_to(&mut self, other: &Resources) {
        if self.0.len() < other.0.len() {
            self.0.resize(other.0.len(), 0);
        }
        for (mine, theirs) in self.0.iter_mut().zip(&other.0) {
            *mine = (*mine).max(*theirs);
        }
        self.trim();
    }

    /// Negative amounts become zero.
    pub fn floor_at_zero(&mut self) {
        for amount in &mut self.0 {
            *amount = (*amount).max(0);
        }
        self.trim();
    }

    /// Whether a request of `self` fits in `room`: only what is requested counts, so an overdrawn resource that is
    /// not requested does not matter (as kube-scheduler's NodeResourcesFit).
    pub fn fits(&self, room: &Resources) -> bool {
        self.0.iter().enumerate().all(|(i, &need)| need <= 0 || need <= room.0.get(i).copied().unwrap_or(0))
    }

    /// How many requests of `self` fit in `room` beside `used`, at most `limit`.
    pub fn times_beside(&self, used: &Resources, room: &Resources, limit: u32) -> u32 {
        let mut times = i64::from(limit);
        for (i, &need) in self.0.iter().enumerate() {
            if need > 0 {
                let of = |amounts: &Resources| amounts.0.get(i).copied().unwrap_or(0);
                times = times.min(of(room).saturating_sub(of(used)).max(0) / need);
            }
        }
        u32::try_from(times).unwrap_or(0)
    }

    /// How many requests of `self` fit in `room`, at most `limit`.
    pub fn times_in(&self, room: &Resources, limit: u32) -> u32 {
        let mut times = i64::from(limit);
        for (i, &need) in self.0.iter().enumerate() {
            if need > 0 {
                times = times.min(room.0.get(i).copied().unwrap_or(0).max(0) / need);
            }
        }
        u32::try_from(times).unwrap_or(0)
    }
}
