//! Pods that nodes were launched for: they come to these nodes before others choose, so that what was planned comes true.

use std::collections::{BTreeMap, VecDeque};

use berth_model::ClassId;

use super::groups::stands;
use super::queue::QueuePosition;
use super::{Placed, Queue, Scheduler};

/// By row of the input: nodes by index, and how many of the row's pods are expected there.
pub type Expected = BTreeMap<u32, Nodes>;
/// Nodes by index, and how many pods each.
type Nodes = VecDeque<(usize, u32)>;

/// Where pods are expected while a queue is worked off.
#[derive(Clone, Debug, Default)]
pub(super) struct Expectations {
    rows: Expected,
    /// The room that is held meanwhile, for those who could not come yet.
    held: Vec<(ClassId, u32, usize)>,
    /// By row: how many are not placed at all.
    left: BTreeMap<u32, u32>,
}

impl Scheduler<'_> {
    /// From now on, pods of these rows come to these nodes first, in the order of their priority, and the room of those who
    /// cannot yet is held while the queue is worked off.
    pub fn expect(&mut self, mut rows: Expected) {
        let nodes = &self.cluster.nodes;
        for expected in rows.values_mut() {
            expected.retain(|(node, count)| *count > 0 && nodes.get(*node).is_some_and(stands));
        }
        rows.retain(|_, expected| !expected.is_empty());
        self.expectations.rows = rows;
    }

    /// While a queue is worked off, so many pods of each of these rows are not placed: what they wait for is not there yet.
    pub fn leave(&mut self, rows: BTreeMap<u32, u32>) {
        self.expectations.left = rows;
    }

    /// How many of a row are not placed.
    pub(super) fn left_of(&self, row: u32) -> u32 {
        self.expectations.left.get(&row).copied().unwrap_or_default()
    }

    /// Lets go of the room that is held for those who did not come, for them to be asked again.
    pub(super) fn expect_those_left(&mut self) {
        for (id, row, node) in std::mem::take(&mut self.expectations.held) {
            self.withdraw(id, node);
            let expected = self.expectations.rows.entry(row).or_default();
            match expected.back_mut().filter(|(known, _)| *known == node) {
                Some((_, count)) => *count += 1,
                None => expected.push_back((node, 1)),
            }
        }
    }

    /// Lets pods of a priority come to the nodes where they are expected, round by round, since one may have to wait for
    /// another. Returns how many came.
    pub(super) fn come_as_expected(
        &mut self,
        level: i32,
        waiting: &mut BTreeMap<QueuePosition, u32>,
        queue: Queue,
    ) -> u32 {
        if self.expectations.rows.is_empty() {
            return 0;
        }
        let of_level = waiting.iter().filter(|(place, _)| place.priority.0 == level);
        let places: Vec<(QueuePosition, u32)> = of_level.map(|(place, count)| (*place, *count)).collect();
        let mut rows: Vec<(QueuePosition, u32, Nodes)> = Vec::new();
        for (place, count) in places {
            let expected = self.expectations.rows.remove(&place.row);
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
            let QueuePosition { row, class: id, .. } = place;
            let mut left = count;
            for (node, of_node) in expected {
                let held = of_node.min(left);
                left -= held;
                (0..held).for_each(|_| self.nominated.entry(node).or_default().push(id));
                self.expectations.held.extend((0..held).map(|_| (id, row, node)));
                self.regroup(node);
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
    fn comes(&mut self, QueuePosition { row, class: id, .. }: QueuePosition, node: usize, queue: Queue) -> bool {
        if !self.may_come_to(id, node) {
            return false;
        }
        self.put_on(id, node);
        let waits_for_room = queue.counts_on_terminating && self.put_back_terminating(node);
        self.log.push(Placed { row, class: id, node, waits_for_room });
        true
    }
}
