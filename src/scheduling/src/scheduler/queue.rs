//! The queue: higher priorities first, and among equal ones those that may go to one node alone, pending Reservations, and the
//! other pods, in the order of the input.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use berth_model::{ClassId, Cluster, Constraint, MemberKind};
use rustc_hash::FxHashMap;

use super::groups::{named_nodes, stands};
use super::{Expected, Placed, Scheduler};

/// How the queue is worked off.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "independent habits, each on or off")]
pub struct Queue {
    /// Whether pods may make room by preemption. Those that come in place of who gave way are queued, too, if the universe
    /// knows their class (see [`super::expect_replacements`]).
    pub preempts: bool,
    /// Whether pods that a PodDisruptionBudget does not let go now never give way, as where evictions go through the API.
    /// kube-scheduler prefers others, and takes them if it must.
    pub keeps_budgets: bool,
    /// Whether the first pods of a self-affinity are placed only if all of them find room where the first goes, and
    /// else left to who can make more room.
    pub keeps_homes_whole: bool,
    /// Whether a pod may be placed on the node that it is nominated to, or on which it preempts others, before the pods
    /// that are being deleted there have gone, as in a plan: nothing is to be launched for it. Whoever binds must wait.
    pub counts_on_terminating: bool,
}

/// A place in the queue, in its order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct QueuePosition {
    pub(super) priority: Reverse<i32>,
    /// False of those that may go to one node alone, as a DaemonSet's pods: its room was kept for them before they were there, and
    /// others would take it that can go elsewhere.
    has_choice: bool,
    kind: MemberKind,
    /// The row of the input.
    pub(super) row: u32,
    pub(super) class: ClassId,
}

impl QueuePosition {
    /// That of a row.
    pub(super) fn new(cluster: &Cluster, spec: u32, kind: MemberKind, (row, class): (u32, ClassId)) -> Self {
        let spec = cluster.spec(spec);
        let mut nodes = spec.and_then(|spec| named_nodes(cluster, &spec.required_terms)).unwrap_or_default();
        nodes.dedup();
        let priority = Reverse(spec.map_or(0, |spec| spec.priority));
        QueuePosition { priority, has_choice: nodes.len() != 1, kind, row, class }
    }
}

impl Scheduler<'_> {
    /// Binds all pending pods that find a node; returns how many of each class do not, ascending by class. What fails for
    /// want of another pod is tried again once that has come. Room is held for pods that have a nominated node until it is
    /// their turn, and they go there if they can.
    pub fn run(&mut self, queue: Queue) -> Vec<(ClassId, u32)> {
        self.keeps_budgets = queue.keeps_budgets;
        self.counts_on_terminating = queue.counts_on_terminating;
        self.kept = None;
        let mut waiting = self.queued();
        for (place, count) in &waiting {
            if let Some(node) = self.nominated_node(place.class) {
                (0..*count).for_each(|_| self.nominate(place.class, node));
            }
        }
        // By priority and before pods of equal priority, as all Reservations are.
        let mut binding: Vec<u32> = self.pre_allocating();
        binding.sort_by_key(|&id| Reverse(self.reserves_at(id)));
        loop {
            let mut failed: BTreeMap<QueuePosition, u32> = BTreeMap::new();
            let mut has_progressed = false;
            self.expect_those_left();
            let mut level = None;
            // A class that failed fails again until something else changes; its later pods need not be asked.
            let mut stuck: FxHashMap<ClassId, usize> = FxHashMap::default();
            let mut unbound: Vec<u32> = Vec::new();
            let mut next = binding.into_iter().peekable();
            while let Some((place, count)) = waiting.pop_first() {
                let QueuePosition { priority: Reverse(priority), row, class: id, .. } = place;
                if place.has_choice && level.replace(priority) != Some(priority) {
                    waiting.insert(place, count);
                    has_progressed |= self.come_as_expected(priority, &mut waiting, queue) > 0;
                    continue;
                }
                while let Some(reservation) = next.next_if(|&r| self.reserves_at(r) >= priority) {
                    match self.pre_allocate(reservation) {
                        Some(_) => has_progressed = true,
                        None => unbound.push(reservation),
                    }
                }
                let is_stuck = stuck.get(&id) == Some(&self.groups.now()) && !self.has_room_held(id);
                let placed = if is_stuck { 0 } else { self.place((id, row), count, queue) };
                has_progressed |= placed > 0;
                if placed < count {
                    stuck.insert(id, self.groups.now());
                    *failed.entry(place).or_default() += count - placed;
                }
                // They are less important, so that their turn is still to come.
                for place in std::mem::take(&mut self.replacements.waiting) {
                    *waiting.entry(place).or_default() += 1;
                }
            }
            for reservation in next {
                match self.pre_allocate(reservation) {
                    Some(_) => has_progressed = true,
                    None => unbound.push(reservation),
                }
            }
            if (failed.is_empty() && unbound.is_empty()) || !has_progressed {
                self.expect_those_left();
                self.expect(Expected::new());
                self.leave(BTreeMap::new());
                return summed(failed.into_iter().map(|(place, count)| (place.class, count)).collect());
            }
            (waiting, binding) = (failed, unbound);
        }
    }

    fn reserves_at(&self, reservation: u32) -> i32 {
        self.cluster.reservation(reservation).map_or(0, |known| known.priority)
    }

    // Runs of pods of one class, in the order in which they are placed.
    fn queued(&self) -> BTreeMap<QueuePosition, u32> {
        let mut rows: BTreeMap<QueuePosition, u32> = BTreeMap::new();
        // Most classes of a cluster that lives only run: their specs are not even looked at.
        let classes = self.universe.classes.iter().zip((0..).map(ClassId));
        for (class, id) in classes.filter(|(class, _)| !class.rows.is_empty()) {
            for &row in &class.rows {
                let members = self.cluster.pending.get(row as usize).map_or(&[][..], |row| &row.members);
                let count = members.iter().fold(0_u32, |sum, run| sum.saturating_add(run.len()));
                let count = count.saturating_sub(self.left_of(row));
                if count > 0 {
                    rows.insert(QueuePosition::new(self.cluster, class.spec, class.kind, (row, id)), count);
                }
            }
        }
        rows
    }

    // Places up to `count` pods of a class; returns how many.
    fn place(&mut self, (id, row): (ClassId, u32), count: u32, queue: Queue) -> u32 {
        if !queue.keeps_homes_whole || !self.chooses_home(id) {
            return self.place_each((id, row), count, queue.preempts).len().try_into().unwrap_or(u32::MAX);
        }
        // All of them as it is, or else where others give way.
        let is_whole =
            self.place_all((id, row), count, false) || (queue.preempts && self.place_all((id, row), count, true));
        if is_whole { count } else { 0 }
    }

    // Places all of so many pods of a class, or none.
    fn place_all(&mut self, (id, row): (ClassId, u32), count: u32, preempts: bool) -> bool {
        let mark = self.state.mark();
        let (members, nominated) = (self.members.placed.clone(), self.nominated.clone());
        let (allowed, n_evicted) = (self.allowed.clone(), self.evicted.len());
        let (n_replaced, n_placed) = (self.replacements.waiting.len(), self.log.len());
        let mut nodes = self.place_each((id, row), count, preempts);
        let is_whole = nodes.len() == count as usize;
        if !is_whole {
            self.state.rollback(mark);
            for eviction in self.evicted.drain(n_evicted..) {
                self.off.remove(&eviction);
                nodes.push(eviction.node);
            }
            self.replacements.waiting.truncate(n_replaced);
            self.log.truncate(n_placed);
            let is_other = |(node, held): &(&usize, &Vec<ClassId>)| self.nominated.get(node) != Some(held);
            nodes.extend(nominated.iter().filter(is_other).map(|(node, _)| *node));
            nodes.sort_unstable();
            nodes.dedup();
            (self.members.placed, self.nominated, self.allowed) = (members, nominated, allowed);
        }
        self.state.forget(mark);
        if !is_whole {
            for node in nodes {
                self.regroup(node);
            }
        }
        is_whole
    }

    fn chooses_home(&self, id: ClassId) -> bool {
        let is_together = |constraint: &Constraint| matches!(constraint, Constraint::Affinity { .. });
        self.universe.class(id).is_some_and(|class| class.required.iter().any(is_together))
            && self.bare_index(id).is_some_and(|index| index.shape.chooses_home(&self.state))
    }

    // The nodes of the pods that found one.
    fn place_each(&mut self, (id, row): (ClassId, u32), count: u32, preempts: bool) -> Vec<usize> {
        let mut nodes = Vec::new();
        let nominated = self.nominated_node(id);
        let mut has_failed = false;
        for _ in 0..count {
            if let Some(node) = nominated {
                self.withdraw(id, node);
            }
            // As kube-scheduler asks: room that is there now comes before room that is still to be left.
            let there = nominated.filter(|&node| self.may_come_to(id, node));
            if has_failed && there.is_none() {
                continue;
            }
            let node = there.or_else(|| self.choose(id));
            let node = node.or_else(|| nominated.filter(|&node| self.may_come_once_gone(id, node)));
            let n_evicted = self.evicted.len();
            let node = node.or_else(|| {
                // Unlike kube-scheduler, whose evictions are done before it decides again.
                let there = nominated.filter(|_| preempts && self.counts_on_terminating);
                let there = there.and_then(|node| self.preempt_on(id, Some(node)));
                there.or_else(|| if preempts { self.preempt(id) } else { None })
            });
            let Some(node) = node else {
                if !self.has_room_held(id) {
                    break;
                }
                // Room is held for those that are alike. It was theirs, and is the next one's once this one waits for it no more.
                has_failed = true;
                continue;
            };
            let makes_way = self.evicted.len() > n_evicted;
            self.put_on(id, node);
            let counts_on_others = self.counts_on_terminating && self.put_back_terminating(node);
            self.log.push(Placed { row, class: id, node, waits_for_room: makes_way || counts_on_others });
            nodes.push(node);
        }
        nodes
    }

    // Whether room is held for pods of a class on the node that they are nominated to.
    fn has_room_held(&self, id: ClassId) -> bool {
        let node = if self.nominated.is_empty() { None } else { self.nominated_node(id) };
        node.and_then(|node| self.nominated.get(&node)).is_some_and(|held| held.contains(&id))
    }

    // The node on which room was made for pods of a class.
    pub(super) fn nominated_node(&self, id: ClassId) -> Option<usize> {
        let name = self.class_and_spec(id)?.1.nominated_node?;
        self.cluster.nodes.iter().position(|node| node.name == name)
    }

    // Whether a pod of a class could be bound to a node now.
    pub(super) fn may_come_to(&mut self, id: ClassId, node: usize) -> bool {
        let stands = self.cluster.nodes.get(node).is_some_and(stands);
        let asked = |scheduler: &Self, index: &super::index::Index| {
            let values = scheduler.values(index);
            scheduler.world().obstacle(index, &values, node).is_none()
        };
        stands && self.may_be_placed(id) && self.with_index(id, asked) == Some(true)
    }
}

fn summed(mut left: Vec<(ClassId, u32)>) -> Vec<(ClassId, u32)> {
    left.sort_unstable();
    left.dedup_by(|(id, count), (kept, sum)| {
        let is_same = id == kept;
        if is_same {
            *sum = sum.saturating_add(*count);
        }
        is_same
    });
    left
}
