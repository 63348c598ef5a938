//! The cluster as a decision sees and changes it: a journal with mark and rollback. Nothing copies the cluster.

mod bins;
mod domains;
mod follow;
mod host_counts;
mod node;
mod node_state;
mod undo;

use crate::cluster::{listed, listed_mut};
use crate::{ColumnId, CounterId, PoolId, Resources, SlotId, Sym};

pub use bins::Bin;
use domains::DomainCounts;
pub use follow::Site;
pub use host_counts::{HostCounts, host_allowance, host_allowance_above};
pub use node::NodeEdit;
pub use node_state::NodeState;
use undo::Undo;

/// A point to roll back to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark {
    /// Where the journal was.
    at: usize,
    /// How many marks were held, this one included.
    held: usize,
}

/// The state of a decision.
#[derive(Clone, Debug)]
pub struct Snapshot {
    nodes: Vec<NodeState>,
    bins: Vec<Bin>,
    // Free CPU and memory by bin, close together: most bins are passed over by them alone.
    slack: Vec<[i64; 2]>,
    counts: Vec<DomainCounts>,
    totals: Vec<u32>,
    slots: Vec<u32>,
    pools: Vec<(Resources, u64)>,
    claims: std::collections::BTreeMap<Sym, u32>,
    journal: Vec<Undo>,
    // How many marks may still be rolled back to; without any nothing is recorded.
    marks: usize,
    // Counts changes of the bins, undoing included.
    bins_version: u64,
}

impl Snapshot {
    /// Here is where [`Snapshot::rollback`] returns to, as often as it likes, until the mark is forgotten.
    pub fn mark(&mut self) -> Mark {
        self.marks += 1;
        Mark { at: self.journal.len(), held: self.marks }
    }

    /// Neither the mark nor a later one will be rolled back to any more. While no mark is held, nothing is recorded.
    pub fn forget(&mut self, mark: Mark) {
        self.marks = mark.held.saturating_sub(1);
        if self.marks == 0 {
            self.journal.clear();
        }
    }

    fn record(&mut self, undo: Undo) {
        if self.marks > 0 {
            self.journal.push(undo);
        }
    }

    /// Undoes everything since the mark, and forgets later marks.
    pub fn rollback(&mut self, mark: Mark) {
        self.marks = mark.held;
        while self.journal.len() > mark.at {
            match self.journal.pop() {
                Some(Undo::Node(index, change)) => {
                    if let Some(node) = self.nodes.get_mut(index) {
                        change.restore(node);
                    }
                }
                Some(Undo::Bin(index, old)) => drop(self.change_bin(index, |bin| *bin = *old)),
                Some(Undo::BinNodes(index, nodes)) => drop(self.change_bin(index, |bin| bin.nodes = nodes)),
                Some(Undo::BinRoom(index, planned, room)) => {
                    let [used, slack] = *room;
                    self.change_bin(index, |bin| (bin.planned, bin.used, bin.slack) = (planned, used, slack));
                }
                Some(Undo::NewBin) => {
                    self.bins.pop();
                    self.slack.pop();
                    self.bins_version += 1;
                }
                Some(Undo::Count(counter, total, domain)) => self.restore_count(counter, total, domain),
                Some(Undo::Slots(slot, old)) => {
                    if let Some(free) = self.slots.get_mut(slot.index()) {
                        *free = old;
                    }
                }
                Some(Undo::Pool(pool, amounts, nodes)) => {
                    if let Some((used, n_nodes)) = self.pools.get_mut(pool.index()) {
                        used.restore(&amounts);
                        *n_nodes = nodes;
                    }
                }
                Some(Undo::Claim(claim, old)) => self.set_claim(claim, old),
                None => {}
            }
        }
    }

    /// What a decision has changed of the node at an index. Whoever has an index has it of this cluster, as it is.
    pub fn node(&self, at: usize) -> Option<&NodeState> {
        listed(&self.nodes, at, "node")
    }

    /// The existing nodes, in the cluster's order.
    pub fn nodes(&self) -> &[NodeState] {
        &self.nodes
    }

    /// The nodes being planned, in order of opening.
    pub fn bins(&self) -> &[Bin] {
        &self.bins
    }

    /// Another number whenever a group of planned nodes has changed, so that what was summed over them can be kept.
    pub fn bins_version(&self) -> u64 {
        self.bins_version
    }

    /// The next bin from `from` on whose free CPU and memory hold the requests; other resources are for the caller.
    pub fn next_with_room(&self, from: usize, requests: &Resources) -> Option<usize> {
        let (cpu, memory) = (requests.get(crate::ResourceId::CPU), requests.get(crate::ResourceId::MEMORY));
        let rest = self.slack.get(from..)?;
        // What is not requested may be overdrawn.
        rest.iter()
            .position(|[free_cpu, free_memory]| {
                (cpu <= *free_cpu || cpu <= 0) && (memory <= *free_memory || memory <= 0)
            })
            .map(|at| from + at)
    }

    /// Changes an existing node.
    pub fn change_node(&mut self, index: usize, change: impl FnOnce(&mut NodeEdit<'_>)) {
        if let Some(node) = listed_mut(&mut self.nodes, index, "node") {
            change(&mut if self.marks > 0 {
                NodeEdit::recorded(node, &mut self.journal, index)
            } else {
                NodeEdit::unrecorded(node)
            });
        }
    }

    /// Puts a group of planned nodes in another's place.
    pub fn replace_bin(&mut self, index: usize, bin: Bin) {
        let Some(old) = self.change_bin(index, |known| std::mem::replace(known, bin)) else { return };
        self.record(Undo::Bin(index, Box::new(old)));
    }

    /// A group of planned nodes has so many.
    pub fn set_bin_nodes(&mut self, index: usize, nodes: u32) {
        let Some(old) = self.change_bin(index, |bin| std::mem::replace(&mut bin.nodes, nodes)) else { return };
        self.record(Undo::BinNodes(index, old));
    }

    /// A group of planned nodes is planned on a column, of which so much is used and left.
    pub fn set_bin_room(&mut self, index: usize, planned: ColumnId, used: Resources, slack: Resources) {
        let set = |bin: &mut Bin| {
            let used = std::mem::replace(&mut bin.used, used);
            (std::mem::replace(&mut bin.planned, planned), [used, std::mem::replace(&mut bin.slack, slack)])
        };
        let Some((planned, room)) = self.change_bin(index, set) else { return };
        self.record(Undo::BinRoom(index, planned, Box::new(room)));
    }

    fn change_bin<T>(&mut self, index: usize, change: impl FnOnce(&mut Bin) -> T) -> Option<T> {
        let bin = listed_mut(&mut self.bins, index, "group of planned nodes")?;
        let slack = listed_mut(&mut self.slack, index, "group of planned nodes")?;
        let changed = change(bin);
        *slack = bin.quick_slack();
        self.bins_version += 1;
        Some(changed)
    }

    /// Adds a group of planned nodes; returns its index.
    pub fn push_bin(&mut self, bin: Bin) -> usize {
        self.bins_version += 1;
        self.slack.push(bin.quick_slack());
        self.bins.push(bin);
        self.record(Undo::NewBin);
        self.bins.len() - 1
    }

    /// Pods of a counter in a domain.
    pub fn count(&self, counter: CounterId, domain: Sym) -> u32 {
        self.counted(counter).map_or(0, |counts| counts.get(domain))
    }

    /// The domains with pods of a counter (none for `kubernetes.io/hostname`, which is counted per node).
    pub fn domains(&self, counter: CounterId) -> impl Iterator<Item = (Sym, u32)> + '_ {
        self.counted(counter).into_iter().flat_map(DomainCounts::iter).filter(|(_, count)| *count > 0)
    }

    /// How often the pods of a counter in some domain have changed, undoing included.
    pub fn n_changes(&self, counter: CounterId) -> usize {
        self.counted(counter).map_or(0, DomainCounts::n_changes)
    }

    /// The domains in which the pods of a counter have changed after so many changes, some of them more than once; `None`
    /// where that is not known any more.
    pub fn changed_since(&self, counter: CounterId, n_changes: usize) -> Option<&[Sym]> {
        self.counted(counter)?.changed_since(n_changes)
    }

    /// What is counted by domain. Whoever has a counter's id has it of this snapshot's universe.
    fn counted(&self, counter: CounterId) -> Option<&DomainCounts> {
        listed(&self.counts, counter.index(), "counter")
    }

    /// Pods of a counter anywhere.
    pub fn total(&self, counter: CounterId) -> u32 {
        listed(&self.totals, counter.index(), "counter").copied().unwrap_or(0)
    }

    /// Adds pods to a counter, in a domain or (for `kubernetes.io/hostname`) only to its total.
    pub fn add_count(&mut self, counter: CounterId, domain: Option<Sym>, pods: u32) {
        let Some(total) = listed_mut(&mut self.totals, counter.index(), "counter") else { return };
        let old_total = *total;
        *total = total.saturating_add(pods);
        let changed = domain.zip(listed_mut(&mut self.counts, counter.index(), "counter")).map(|(domain, counts)| {
            let old = counts.position(domain).map(|_| counts.get(domain));
            counts.set(domain, old.unwrap_or(0).saturating_add(pods));
            (domain, old)
        });
        self.record(Undo::Count(counter, old_total, changed));
    }

    /// Takes pods off a counter, as [`Snapshot::add_count`] added them.
    pub fn remove_count(&mut self, counter: CounterId, domain: Option<Sym>, pods: u32) {
        let Some(total) = listed_mut(&mut self.totals, counter.index(), "counter") else { return };
        let old_total = *total;
        *total = less(old_total, pods, "pods of a counter");
        let counts = listed_mut(&mut self.counts, counter.index(), "counter");
        let changed = domain.zip(counts).and_then(|(domain, counts)| {
            let known = counts.position(domain);
            debug_assert!(known.is_some(), "counter {counter:?} never counted in {domain:?}");
            known?;
            let old = counts.get(domain);
            counts.set(domain, less(old, pods, "pods in a domain"));
            Some((domain, Some(old)))
        });
        self.record(Undo::Count(counter, old_total, changed));
    }

    fn restore_count(&mut self, counter: CounterId, old_total: u32, domain: Option<(Sym, Option<u32>)>) {
        if let Some(total) = self.totals.get_mut(counter.index()) {
            *total = old_total;
        }
        let (Some((domain, old)), Some(counts)) = (domain, self.counts.get_mut(counter.index())) else { return };
        match old {
            Some(old) => counts.set(domain, old),
            // It was listed last, as all later ones are undone by now.
            None => counts.pop(),
        }
    }

    /// Free instances of a finite supply.
    pub fn free_slots(&self, slot: SlotId) -> u32 {
        listed(&self.slots, slot.index(), "supply").copied().unwrap_or(0)
    }

    /// Takes instances of a finite supply; false, and nothing is taken, if there are not so many.
    #[must_use]
    pub fn take_slots(&mut self, slot: SlotId, instances: u32) -> bool {
        let Some(free) = listed_mut(&mut self.slots, slot.index(), "supply") else { return false };
        let Some(rest) = free.checked_sub(instances) else { return false };
        let old = *free;
        *free = rest;
        self.record(Undo::Slots(slot, old));
        true
    }

    /// Gives instances of a finite supply back.
    pub fn return_slots(&mut self, slot: SlotId, instances: u32) {
        if let Some(free) = listed_mut(&mut self.slots, slot.index(), "supply") {
            let old = *free;
            *free = free.saturating_add(instances);
            self.record(Undo::Slots(slot, old));
        }
    }

    /// What counts against a NodePool's limits: capacity and number of nodes, planned ones included.
    pub fn pool_use(&self, pool: PoolId) -> Option<(&Resources, u64)> {
        listed(&self.pools, pool.index(), "NodePool").map(|(resources, nodes)| (resources, *nodes))
    }

    /// Adds nodes (or, with a negative count, takes them off) to what counts against a NodePool's limits.
    pub fn use_pool(&mut self, pool: PoolId, capacity: &Resources, nodes: i64) {
        if let Some(entry) = listed_mut(&mut self.pools, pool.index(), "NodePool") {
            let (used, n_nodes) = entry;
            let before = (used.clone(), *n_nodes);
            used.add_times(capacity, nodes);
            debug_assert!(
                n_nodes.checked_add_signed(nodes).is_some(),
                "a NodePool of {n_nodes} nodes changes by {nodes}"
            );
            *n_nodes = n_nodes.saturating_add_signed(nodes);
            let amounts = before.0.unlike(used);
            self.record(Undo::Pool(pool, amounts, before.1));
        }
    }

    /// Whether a ReadWriteOncePod claim is in use, or held.
    pub fn is_claim_used(&self, claim: Sym) -> bool {
        self.claim_users(claim) > 0
    }

    /// How many pods use a ReadWriteOncePod claim, and Reservations hold it.
    pub fn claim_users(&self, claim: Sym) -> u32 {
        self.claims.get(&claim).copied().unwrap_or(0)
    }

    /// One more uses a ReadWriteOncePod claim.
    pub fn use_claim(&mut self, claim: Sym) {
        let old = self.claim_users(claim);
        self.set_claim(claim, old.saturating_add(1));
        self.record(Undo::Claim(claim, old));
    }

    /// One less uses a ReadWriteOncePod claim.
    pub fn free_claim(&mut self, claim: Sym) {
        let old = self.claim_users(claim);
        self.set_claim(claim, less(old, 1, "users of a claim"));
        self.record(Undo::Claim(claim, old));
    }

    fn set_claim(&mut self, claim: Sym, users: u32) {
        if users == 0 {
            self.claims.remove(&claim);
        } else {
            self.claims.insert(claim, users);
        }
    }
}

/// What is left of a count, of which so much was counted before: a debug build says where it was not.
fn less(count: u32, by: u32, what: &str) -> u32 {
    debug_assert!(by <= count, "of {count} {what} {by} go");
    count.saturating_sub(by)
}
