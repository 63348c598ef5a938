//! The queue: higher priorities first, and among equal ones those that may go to one node alone, pending Reservations, pods that
//! come in place of others which were told to leave, and the other pods, in the order of the input. Those that may go to one node
//! alone come before higher priorities where there is room.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use berth_model::{ClassId, Constraint, MemberKind, ReservationId, RowId};
use rustc_hash::FxHashMap;

use super::Scheduler;
use super::choose::may_be_placed;
use super::expected::{Expected, HeldFor, Nodes, Waiting};
use super::index::Index;
use super::intake::Queue;
use super::ledger::Placed;
use super::pre_allocate::{pre_allocate, pre_allocating};
use super::preempt::preempt;
use super::queue_position::QueuePosition;
use super::shape::Shape;
use super::shared::may_come_to;
use super::world::World;

impl Scheduler<'_> {
    /// Binds all pending pods that find a node; returns how many of each class do not, ascending by class. What fails for
    /// want of another pod is tried again once that has come. Room is held for pods that have a nominated node until it is
    /// their turn, and they go there if they can.
    pub fn run(&mut self, queue: Queue) -> Vec<(ClassId, u32)> {
        self.ledger.budgets.are_kept = queue.keeps_budgets;
        self.intake.counts_on_terminating = queue.counts_on_terminating;
        self.caches.kept = None;
        let mut waiting = self.queued();
        for (place, count) in &waiting {
            if let Some(node) = self.tables.nominated_node(place.class) {
                (0..*count).for_each(|_| self.ledger.nominate(place.class, node));
            }
        }
        if queue.expected_first {
            let levels: BTreeSet<Reverse<i32>> = waiting.keys().map(|place| place.priority).collect();
            for Reverse(level) in levels {
                self.come_as_expected(level, &mut waiting, queue);
            }
        }
        self.seat_those_of_one_node(&mut waiting, queue);
        // By priority and before pods of equal priority, as all Reservations are.
        let mut binding: Vec<ReservationId> = pre_allocating(&self.tables, &self.ledger);
        binding.sort_by_key(|&id| Reverse(self.reserves_at(id)));
        loop {
            let mut failed: BTreeMap<QueuePosition, u32> = BTreeMap::new();
            let mut has_progressed = false;
            self.expect_those_left();
            let mut level = None;
            // A class that failed fails again until something else changes; its later pods need not be asked.
            let mut stuck: FxHashMap<ClassId, usize> = FxHashMap::default();
            let mut unbound: Vec<ReservationId> = Vec::new();
            let mut last = None;
            let mut next = binding.into_iter().peekable();
            while let Some((place, count)) = waiting.pop_first() {
                let QueuePosition { priority: Reverse(priority), row, class: id, .. } = place;
                if place.kind == MemberKind::Pod && !place.has_node {
                    self.give_expected_room();
                }
                if last.replace(priority).is_some_and(|last| priority < last) {
                    self.hold_on();
                }
                if place.has_choice && level.replace(priority) != Some(priority) {
                    self.give_expected_room();
                    waiting.insert(place, count);
                    self.take_first_together(priority, &mut waiting);
                    has_progressed |= self.come_as_expected(priority, &mut waiting, queue) > 0;
                    self.bring_first_forward(priority, &mut waiting, queue);
                    continue;
                }
                while let Some(reservation) = next.next_if(|&r| self.reserves_at(r) >= priority) {
                    match pre_allocate(&self.tables, &mut self.ledger, reservation) {
                        Some(_) => has_progressed = true,
                        None => unbound.push(reservation),
                    }
                }
                if place.has_node || (place.kind == MemberKind::Reservation && !self.tables.rules.preempts) {
                    self.keep_expected_room(&waiting);
                }
                let is_stuck = stuck.get(&id) == Some(&self.ledger.groups.now()) && !self.world().has_room_held(id);
                let queue = Queue { preempts: queue.preempts && !place.has_node, ..queue };
                let placed = if is_stuck { 0 } else { self.place((id, row), count, queue) };
                has_progressed |= placed > 0;
                self.intake.first.came(row, placed);
                if placed < count {
                    stuck.insert(id, self.ledger.groups.now());
                    *failed.entry(place).or_default() += count - placed;
                }
                // They are less important, so that their turn is still to come.
                for place in std::mem::take(&mut self.intake.replacements.waiting) {
                    *waiting.entry(place).or_default() += 1;
                }
            }
            self.give_expected_room();
            for reservation in next {
                match pre_allocate(&self.tables, &mut self.ledger, reservation) {
                    Some(_) => has_progressed = true,
                    None => unbound.push(reservation),
                }
            }
            if (failed.is_empty() && unbound.is_empty()) || !has_progressed {
                self.intake.unseated.clear();
                self.give_up_rooms(&failed);
                self.expect_those_left();
                self.expect(Expected::new());
                self.intake.expectations.let_wait(Waiting::default());
                self.intake.first.end();
                return summed(failed.into_iter().map(|(place, count)| (place.class, count)).collect());
            }
            self.hold_on();
            (waiting, binding) = (failed, unbound);
        }
    }

    /// Places those that may go to one node alone before others of higher priority, as far as there is room: daemons come once their
    /// node has registered, and its room was kept for them until then. Those who wait would take it at that moment, though they can go
    /// elsewhere.
    fn seat_those_of_one_node(&mut self, waiting: &mut BTreeMap<QueuePosition, u32>, queue: Queue) {
        let Some(highest) = waiting.keys().next().map(|place| place.priority) else { return };
        let nominated = |place: &QueuePosition| self.tables.nominated_node(place.class).is_some();
        let is_passed_over = |place: &QueuePosition| !place.has_choice && place.priority > highest;
        let first = waiting.iter().filter(|(place, _)| is_passed_over(place) && !nominated(place));
        let first: Vec<(QueuePosition, u32)> = first.map(|(place, count)| (*place, *count)).collect();
        for (place, count) in first {
            let placed = self.place((place.class, place.row), count, Queue { preempts: false, ..queue });
            self.intake.first.came(place.row, placed);
            waiting.remove(&place);
            if placed < count {
                waiting.insert(place, count - placed);
            }
        }
    }

    /// Holds the room of pods that are expected on nodes while others are placed before them that make nobody give way, neither who is on
    /// a node nor who is about to come there: Reservations, and those whose own node is not up yet.
    fn keep_expected_room(&mut self, waiting: &BTreeMap<QueuePosition, u32>) {
        let Scheduler { ledger, intake, .. } = self;
        if intake.expectations.is_empty() || std::mem::replace(&mut intake.keeps_expected_room, true) {
            return;
        }
        let places: BTreeMap<RowId, (ClassId, u32)> = waiting
            .iter()
            .filter(|(place, _)| place.kind == MemberKind::Pod && !place.has_node)
            .map(|(place, count)| (place.row, (place.class, *count)))
            .collect();
        for (row, nodes) in intake.expectations.to_come() {
            let Some(&(class, mut left)) = places.get(&row) else { continue };
            for (node, count) in nodes {
                let held = (*count).min(left);
                left -= held;
                (0..held).for_each(|_| ledger.expected.entry(*node).or_default().push(class));
            }
        }
        self.regroup_all(self.ledger.expected.keys().copied().collect());
    }

    /// Ends what [`Scheduler::keep_expected_room`] began.
    fn give_expected_room(&mut self) {
        if !std::mem::take(&mut self.intake.keeps_expected_room) {
            return;
        }
        let nodes = std::mem::take(&mut self.ledger.expected).into_keys().collect();
        self.regroup_all(nodes);
    }

    fn regroup_all(&mut self, mut nodes: Vec<usize>) {
        nodes.sort_unstable();
        for node in nodes {
            self.ledger.regroup(node);
        }
    }

    /// Room that was made for pods is theirs on against those of lower priority, though they did not find it good at their turn: others of
    /// their priority may have changed that by the time when they are asked again.
    fn hold_on(&mut self) {
        for (id, node) in std::mem::take(&mut self.intake.unseated) {
            self.ledger.nominate(id, node);
        }
    }

    /// Nobody is asked again: no room is held for those who are left.
    fn give_up_rooms(&mut self, left: &BTreeMap<QueuePosition, u32>) {
        for (place, count) in left {
            if let Some(node) = self.tables.nominated_node(place.class) {
                (0..*count).for_each(|_| _ = self.ledger.withdraw(place.class, node));
            }
        }
    }

    fn reserves_at(&self, reservation: ReservationId) -> i32 {
        self.tables.cluster.reservation(reservation).map_or(0, |known| known.priority)
    }

    /// Lets those of a priority who come first wait with the others of their row, where some of them are expected.
    fn take_first_together(&self, level: i32, waiting: &mut BTreeMap<QueuePosition, u32>) {
        if self.intake.first.is_empty() {
            return;
        }
        let is_of_first = |place: &QueuePosition| place.priority.0 == level && !place.comes_later;
        let of_first: Vec<QueuePosition> = waiting.keys().copied().filter(is_of_first).collect();
        for place in of_first {
            let count = waiting.remove(&place).unwrap_or_default();
            *waiting.entry(QueuePosition { comes_later: true, ..place }).or_default() += count;
        }
    }

    /// Brings those of a priority who come first before its other pods. What is placed as a whole or not at all stays together.
    fn bring_first_forward(&mut self, level: i32, waiting: &mut BTreeMap<QueuePosition, u32>, queue: Queue) {
        if self.intake.first.is_empty() {
            return;
        }
        let is_of_level = |place: &QueuePosition| {
            place.priority.0 == level && place.has_choice && place.comes_later && !place.has_node
        };
        let places: Vec<QueuePosition> = waiting.keys().copied().filter(is_of_level).collect();
        for place in places {
            let n_first = self.intake.first.left_of(place.row);
            if n_first == 0 {
                continue;
            }
            let count = waiting.remove(&place).unwrap_or_default();
            let is_whole = queue.keeps_homes_whole && self.chooses_home(place.class);
            let n_first = if is_whole { count } else { n_first.min(count) };
            waiting.insert(QueuePosition { comes_later: false, ..place }, n_first);
            if count > n_first {
                waiting.insert(place, count - n_first);
            }
        }
    }

    // Runs of pods of one class, in the order in which they are placed.
    fn queued(&self) -> BTreeMap<QueuePosition, u32> {
        let cluster = self.tables.cluster;
        let mut rows: BTreeMap<QueuePosition, u32> = BTreeMap::new();
        // Most classes of a cluster that lives only run: their specs are not even looked at.
        let classes = self.tables.universe.classes.iter().zip((0..).map(ClassId));
        for (class, id) in classes.filter(|(class, _)| !class.rows.is_empty()) {
            for &row in &class.rows {
                let members = cluster.row(row).map_or(&[][..], |row| &row.members);
                let count = members.iter().fold(0_u32, |sum, run| sum.saturating_add(run.len()));
                let count = count.saturating_sub(self.intake.expectations.left_of(row));
                // For those who are nominated others have given way.
                let is_nominated = self.tables.nominated_node(id).is_some();
                let n_with_node = if is_nominated { 0 } else { self.intake.expectations.having_nodes_of(row) };
                let n_with_node = n_with_node.min(count);
                let place = QueuePosition::new(cluster, class.spec, class.kind, (row, id));
                for (count, has_node) in [(count - n_with_node, false), (n_with_node, true)] {
                    if count > 0 {
                        rows.insert(QueuePosition { has_node, ..place }, count);
                    }
                }
            }
        }
        rows
    }

    // Places up to `count` pods of a class; returns how many.
    fn place(&mut self, (id, row): (ClassId, RowId), count: u32, queue: Queue) -> u32 {
        if !queue.keeps_homes_whole || !self.chooses_home(id) {
            return self.place_each((id, row), count, queue.preempts).len().try_into().unwrap_or(u32::MAX);
        }
        // All of them as it is, or else where others give way.
        let is_whole =
            self.place_all((id, row), count, false) || (queue.preempts && self.place_all((id, row), count, true));
        if is_whole { count } else { 0 }
    }

    // Places all of so many pods of a class, or none.
    fn place_all(&mut self, (id, row): (ClassId, RowId), count: u32, preempts: bool) -> bool {
        let (before, n_replaced) = (self.ledger.before(), self.intake.replacements.waiting.len());
        let n_unseated = self.intake.unseated.len();
        let nodes = self.place_each((id, row), count, preempts);
        let is_whole = nodes.len() == count as usize;
        if is_whole {
            self.ledger.go_on(&before);
        } else {
            self.intake.replacements.waiting.truncate(n_replaced);
            self.intake.unseated.truncate(n_unseated);
            self.ledger.go_back(before, nodes);
        }
        is_whole
    }

    fn chooses_home(&self, id: ClassId) -> bool {
        let is_together = |constraint: &Constraint| matches!(constraint, Constraint::Affinity { .. });
        self.tables.universe.class(id).is_some_and(|class| class.required.iter().any(is_together))
            && Shape::of(&self.tables, id).is_some_and(|mut shape| {
                shape.discount = self.world().discount_of(&shape);
                shape.chooses_home(&self.ledger.state)
            })
    }

    // The nodes of the pods that found one.
    fn place_each(&mut self, (id, row): (ClassId, RowId), count: u32, preempts: bool) -> Vec<usize> {
        let mut nodes = Vec::new();
        let nominated = self.tables.nominated_node(id);
        let mut has_failed = false;
        for _ in 0..count {
            let was_held = nominated.is_some_and(|node| self.ledger.withdraw(id, node));
            // As kube-scheduler asks: room that is there now comes before room that is still to be left.
            let there = nominated.filter(|&node| self.may_come_to(id, node));
            if has_failed && there.is_none() {
                self.intake.unseated.extend(nominated.filter(|_| was_held).map(|node| (id, node)));
                continue;
            }
            let node = there.or_else(|| self.choose(id));
            let node = node.or_else(|| nominated.filter(|&node| self.may_come_once_gone(id, node)));
            let n_evicted = self.ledger.evicted.len();
            let node = node.or_else(|| {
                // Unlike kube-scheduler, whose evictions are done before it decides again.
                let there = nominated.filter(|_| preempts && self.intake.counts_on_terminating);
                let there = there.and_then(|node| self.preempt_on(id, Some(node)));
                there.or_else(|| if preempts { self.preempt_on(id, None) } else { None })
            });
            let Some(node) = node else {
                self.intake.unseated.extend(nominated.filter(|_| was_held).map(|node| (id, node)));
                if !self.world().has_room_held(id) {
                    break;
                }
                // Room is held for those that are alike. It was theirs, and is the next one's once this one waits for it no more.
                has_failed = true;
                continue;
            };
            let makes_way = self.ledger.evicted.len() > n_evicted;
            self.ledger.put_on(&self.tables, id, node);
            let counts_on_others =
                self.intake.counts_on_terminating && self.ledger.put_back_terminating(&self.tables, node);
            self.ledger.log.push(Placed { row, class: id, node, waits_for_room: makes_way || counts_on_others });
            nodes.push(node);
        }
        nodes
    }

    // Whether a pod of a class could be bound to a node now.
    fn may_come_to(&mut self, id: ClassId, node: usize) -> bool {
        let world = World::new(&self.tables, &self.ledger);
        if !self.tables.stands_at(node) || !may_be_placed(world, id) {
            return false;
        }
        let asked = |index: &Index| world.obstacle(index, &world.values(index), node).is_none();
        let by_rules = may_come_to(world, &mut self.caches, id, node);
        by_rules.unwrap_or_else(|| self.caches.with_index(world, id, asked) == Some(true))
    }

    // Whether a pod may come, in a plan, to the node that room was made on for it once those that are being deleted there have
    // gone. Then they are off the node until they are put back.
    fn may_come_once_gone(&mut self, id: ClassId, node: usize) -> bool {
        if !self.intake.counts_on_terminating || !self.ledger.take_off_terminating(&self.tables, node) {
            return false;
        }
        let may_come = self.may_come_to(id, node);
        if !may_come {
            self.ledger.put_back_terminating(&self.tables, node);
        }
        may_come
    }

    // Makes room for a pod of a class, on one node alone where that is given.
    pub(super) fn preempt_on(&mut self, id: ClassId, node: Option<usize>) -> Option<usize> {
        let Scheduler { tables, ledger, caches, intake } = self;
        preempt(tables, ledger, caches, &mut intake.replacements, id, node)
    }

    /// Lets go of the room that is held for those who did not come, for them to be asked again.
    fn expect_those_left(&mut self) {
        for HeldFor { class, node, .. } in self.intake.expectations.ask_again() {
            self.ledger.withdraw(class, node);
        }
    }

    /// Lets pods of a priority come to the nodes where they are expected, round by round, since one may have to wait for
    /// another. Returns how many came.
    fn come_as_expected(&mut self, level: i32, waiting: &mut BTreeMap<QueuePosition, u32>, queue: Queue) -> u32 {
        if self.intake.expectations.is_empty() {
            return 0;
        }
        let of_level = waiting.iter().filter(|(place, _)| place.priority.0 == level);
        let places: Vec<(QueuePosition, u32)> = of_level.map(|(place, count)| (*place, *count)).collect();
        let mut rows: Vec<(QueuePosition, u32, Nodes)> = Vec::new();
        for (place, count) in places {
            let expected = self.intake.expectations.take(place.row);
            rows.extend(expected.map(|expected| (place, count, expected)));
        }
        let mut n_came = 0;
        loop {
            let before = n_came;
            for (place, count, expected) in &mut rows {
                for (node, left) in expected.iter_mut() {
                    while *left > 0 && *count > 0 && self.comes(*place, *node, queue) {
                        (*left, *count) = (*left - 1, *count - 1);
                        n_came += 1;
                    }
                }
                expected.retain(|(_, left)| *left > 0);
            }
            if n_came == before {
                break;
            }
        }
        for (place, count, expected) in rows {
            let QueuePosition { row, class, .. } = place;
            let mut left = count;
            for (node, of_node) in expected {
                let held = of_node.min(left);
                left -= held;
                (0..held).for_each(|_| self.ledger.nominated.entry(node).or_default().push(class));
                (0..held).for_each(|_| self.intake.expectations.hold(HeldFor { class, row, node }));
                self.ledger.regroup(node);
            }
            if count == 0 {
                waiting.remove(&place);
            } else {
                waiting.insert(place, count);
            }
        }
        n_came
    }

    // Puts one pod onto a node, if it can come there now.
    fn comes(&mut self, place: QueuePosition, node: usize, queue: Queue) -> bool {
        let QueuePosition { row, class, .. } = place;
        if !self.may_come_to(class, node) {
            return false;
        }
        self.ledger.put_on(&self.tables, class, node);
        let waits_for_room = queue.counts_on_terminating && self.ledger.put_back_terminating(&self.tables, node);
        self.ledger.log.push(Placed { row, class, node, waits_for_room });
        self.intake.first.came(row, 1);
        true
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
