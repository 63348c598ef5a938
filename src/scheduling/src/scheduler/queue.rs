//! The queue: higher priorities first, pending Reservations before pods of equal priority, then the order of the input.

use std::cmp::Reverse;

use berth_model::{ClassId, Constraint};
use rustc_hash::FxHashMap;

use super::Scheduler;

/// How the queue is worked off.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Queue {
    /// Whether pods may make room by preemption.
    pub preempts: bool,
    /// Whether the first pods of a self-affinity are placed only if all of them find room where the first goes, and
    /// else left to who can make more room.
    pub keeps_homes_whole: bool,
}

impl Scheduler<'_> {
    /// Binds all pending pods that find a node; returns how many of each class do not, ascending by class. What fails for
    /// want of another pod is tried again once that has come.
    pub fn run(&mut self, queue: Queue) -> Vec<(ClassId, u32)> {
        let mut waiting = self.queued();
        // By priority and before pods of equal priority, as all Reservations are.
        let mut binding: Vec<u32> = self.pre_allocating();
        binding.sort_by_key(|&id| Reverse(self.reserves_at(id)));
        loop {
            let mut failed: Vec<(ClassId, u32)> = Vec::new();
            let mut has_progressed = false;
            // A class that failed fails again until something else changes; its later pods need not be asked.
            let mut stuck: FxHashMap<ClassId, usize> = FxHashMap::default();
            let mut unbound: Vec<u32> = Vec::new();
            let mut next = binding.into_iter().peekable();
            for (id, count) in waiting {
                let priority = self.class_and_spec(id).map_or(0, |(_, spec)| spec.priority);
                while let Some(reservation) = next.next_if(|&r| self.reserves_at(r) >= priority) {
                    match self.pre_allocate(reservation) {
                        Some(_) => has_progressed = true,
                        None => unbound.push(reservation),
                    }
                }
                let placed = if stuck.get(&id) == Some(&self.groups.now()) { 0 } else { self.place(id, count, queue) };
                has_progressed |= placed > 0;
                if placed < count {
                    stuck.insert(id, self.groups.now());
                    failed.push((id, count - placed));
                }
            }
            for reservation in next {
                match self.pre_allocate(reservation) {
                    Some(_) => has_progressed = true,
                    None => unbound.push(reservation),
                }
            }
            if (failed.is_empty() && unbound.is_empty()) || !has_progressed {
                return summed(failed);
            }
            (waiting, binding) = (failed, unbound);
        }
    }

    fn reserves_at(&self, reservation: u32) -> i32 {
        self.cluster.reservations.get(reservation as usize).map_or(0, |known| known.priority)
    }

    // Runs of pods of one class, in the order in which they are placed.
    fn queued(&self) -> Vec<(ClassId, u32)> {
        let mut rows: Vec<(Reverse<i32>, berth_model::MemberKind, u32, ClassId, u32)> = Vec::new();
        for (at, class) in self.universe.classes.iter().enumerate() {
            let id = ClassId(u32::try_from(at).unwrap_or(u32::MAX));
            let priority = self.cluster.specs.get(class.spec as usize).map_or(0, |spec| spec.priority);
            for &row in &class.rows {
                let members = self.cluster.pending.get(row as usize).map_or(&[][..], |row| &row.members);
                let count = members.iter().fold(0_u32, |sum, run| sum.saturating_add(run.len()));
                rows.push((Reverse(priority), class.kind, row, id, count));
            }
        }
        rows.sort_unstable();
        rows.into_iter().filter(|(.., count)| *count > 0).map(|(.., id, count)| (id, count)).collect()
    }

    // Places up to `count` pods of a class; returns how many.
    fn place(&mut self, id: ClassId, count: u32, queue: Queue) -> u32 {
        if !queue.keeps_homes_whole || !self.chooses_home(id) {
            return self.place_each(id, count, queue.preempts).len().try_into().unwrap_or(u32::MAX);
        }
        let mark = self.state.mark();
        let members_before = self.members.placed.clone();
        let nodes = self.place_each(id, count, false);
        let is_whole = nodes.len() == count as usize;
        if !is_whole {
            self.state.rollback(mark);
            self.members.placed = members_before;
        }
        self.state.forget(mark);
        if is_whole {
            return count;
        }
        for node in nodes {
            self.regroup(node);
        }
        0
    }

    fn chooses_home(&self, id: ClassId) -> bool {
        let is_together = |constraint: &Constraint| matches!(constraint, Constraint::Together { .. });
        self.universe.class(id).is_some_and(|class| class.required.iter().any(is_together))
            && self.bare_index(id).is_some_and(|index| index.shape.chooses_home(&self.state))
    }

    // The nodes of the pods that found one.
    fn place_each(&mut self, id: ClassId, count: u32, preempts: bool) -> Vec<usize> {
        let mut nodes = Vec::new();
        for _ in 0..count {
            let node = self.choose(id).or_else(|| if preempts { self.preempt(id) } else { None });
            let Some(node) = node else { break };
            self.bind(id, node);
            nodes.push(node);
        }
        nodes
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
