//! The cluster as a page shows it: told of each change, it says what is different since it was asked last.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use rustc_hash::FxHashMap;
use serde::Serialize;

use crate::history::{History, Point};
use crate::model::{Frame, Node, Room, Said, Slots, Waiting};
use crate::pod::Amounts;

/// Sentences that a page begins with.
const SAID: usize = 300;
/// Reasons are long; more of one is for the details.
const LONGEST_REASON: usize = 400;

/// A pod as it is counted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct PodRecord {
    /// Namespace and name.
    pub(crate) name: String,
    pub(crate) of: String,
    /// Empty while it waits.
    pub(crate) node: String,
    #[serde(skip)]
    pub(crate) amounts: Amounts,
    pub(crate) phase: String,
    /// Why it waits.
    pub(crate) why: String,
}

/// The cluster as it is.
#[derive(Debug, Default)]
pub(crate) struct View {
    /// Nodes without what their pods use.
    nodes: BTreeMap<String, Node>,
    /// What pods use of a node, there or not.
    used: FxHashMap<String, (Amounts, u32)>,
    on_node: FxHashMap<String, BTreeSet<String>>,
    /// By uid.
    pods: FxHashMap<String, PodRecord>,
    waiting: BTreeMap<String, Waiting>,
    slots: BTreeMap<String, Slots>,
    rooms: BTreeMap<String, Room>,
    said: VecDeque<Said>,
    running: u32,
    history: History,
    changed: Changed,
}

/// Names of what has changed.
#[derive(Debug, Default)]
struct Changed {
    nodes: BTreeSet<String>,
    waiting: BTreeSet<String>,
    slots: BTreeSet<String>,
    rooms: BTreeSet<String>,
    said: Vec<Said>,
    is_any: bool,
}

// === impl View ===

impl View {
    /// A node is so now, or is gone. What its pods use is not looked at.
    pub(crate) fn node(&mut self, name: &str, node: Option<Node>) {
        let changed = match node {
            Some(node) => {
                self.nodes.get(name) != Some(&node) && {
                    self.nodes.insert(name.to_owned(), node);
                    true
                }
            }
            None => self.nodes.remove(name).is_some(),
        };
        if changed {
            self.changed.nodes.insert(name.to_owned());
        }
    }

    /// Changes what a node costs. Whether it is there.
    pub(crate) fn reprice(&mut self, name: &str, prices: impl FnOnce([f64; 2]) -> [f64; 2]) -> bool {
        let Some(node) = self.nodes.get_mut(name) else { return false };
        let [price, unreserved] = prices([node.price, node.unreserved]);
        let repriced = Node { price, unreserved, ..node.clone() };
        if *node != repriced {
            *node = repriced;
            self.changed.nodes.insert(name.to_owned());
        }
        true
    }

    /// The names of nodes that are there.
    pub(crate) fn node_names(&self) -> Vec<String> {
        self.nodes.keys().cloned().collect()
    }

    /// The uids of pods that are there.
    pub(crate) fn pod_uids(&self) -> Vec<String> {
        self.pods.keys().cloned().collect()
    }

    /// A pod is so now, or has ended or gone.
    pub(crate) fn pod(&mut self, uid: &str, mut pod: Option<PodRecord>) {
        if let Some(pod) = &mut pod {
            shorten(&mut pod.why);
        }
        if self.pods.get(uid) == pod.as_ref() {
            return;
        }
        if let Some(old) = self.pods.remove(uid) {
            self.count(uid, &old, false);
        }
        if let Some(pod) = pod {
            self.count(uid, &pod, true);
            self.pods.insert(uid.to_owned(), pod);
        }
        self.changed.is_any = true;
    }

    fn count(&mut self, uid: &str, pod: &PodRecord, comes: bool) {
        if pod.node.is_empty() {
            let key = format!("{}\u{1f}{}", pod.of, pod.why);
            let group = self.waiting.entry(key.clone()).or_insert_with(|| Waiting {
                of: pod.of.clone(),
                why: pod.why.clone(),
                pods: 0,
            });
            group.pods = if comes { group.pods.saturating_add(1) } else { group.pods.saturating_sub(1) };
            if group.pods == 0 {
                self.waiting.remove(&key);
            }
            self.changed.waiting.insert(key);
            return;
        }
        let (amounts, pods) = self.used.entry(pod.node.clone()).or_default();
        let on_node = self.on_node.entry(pod.node.clone()).or_default();
        if comes {
            (*amounts, *pods, self.running) = (amounts.plus(pod.amounts), *pods + 1, self.running + 1);
            on_node.insert(uid.to_owned());
        } else {
            (*amounts, *pods) = (amounts.minus(pod.amounts), pods.saturating_sub(1));
            self.running = self.running.saturating_sub(1);
            on_node.remove(uid);
        }
        if *pods == 0 {
            self.used.remove(&pod.node);
            self.on_node.remove(&pod.node);
        }
        self.changed.nodes.insert(pod.node.clone());
    }

    /// A capacity reservation is so now, or is gone.
    pub(crate) fn slots(&mut self, id: &str, slots: Option<Slots>) {
        if set(&mut self.slots, id, slots) {
            self.changed.slots.insert(id.to_owned());
        }
    }

    /// A Reservation is so now, or is gone.
    pub(crate) fn room(&mut self, name: &str, room: Option<Room>) {
        if set(&mut self.rooms, name, room) {
            self.changed.rooms.insert(name.to_owned());
        }
    }

    /// Something is told.
    pub(crate) fn say(&mut self, said: Said) {
        if self.said.len() == SAID {
            self.said.pop_front();
        }
        self.said.push_back(said.clone());
        self.changed.said.push(said);
        // A page shows no more than this anyway.
        let over = self.changed.said.len().saturating_sub(SAID);
        self.changed.said.drain(..over);
    }

    /// All that there is.
    pub(crate) fn whole(&self, at: u64) -> Frame {
        Frame {
            at,
            whole: true,
            nodes: self.nodes.keys().map(|name| (name.clone(), self.shown(name))).collect(),
            waiting: self.waiting.iter().map(|(key, own)| (key.clone(), Some(own.clone()))).collect(),
            slots: self.slots.iter().map(|(key, own)| (key.clone(), Some(own.clone()))).collect(),
            rooms: self.rooms.iter().map(|(key, own)| (key.clone(), Some(own.clone()))).collect(),
            said: self.said.iter().cloned().collect(),
            running: self.running,
            history: self.history.points().to_vec(),
        }
    }

    /// What is different since this was asked last; nothing where nothing is.
    pub(crate) fn difference(&mut self, at: u64) -> Option<Frame> {
        let changed = std::mem::take(&mut self.changed);
        let is_none = !changed.is_any
            && changed.nodes.is_empty()
            && changed.slots.is_empty()
            && changed.rooms.is_empty()
            && changed.said.is_empty();
        if is_none {
            return None;
        }
        self.history.push(self.point(at));
        Some(Frame {
            at,
            whole: false,
            nodes: changed.nodes.into_iter().map(|name| (name.clone(), self.shown(&name))).collect(),
            waiting: picked(changed.waiting, &self.waiting),
            slots: picked(changed.slots, &self.slots),
            rooms: picked(changed.rooms, &self.rooms),
            said: changed.said,
            running: self.running,
            history: Vec::new(),
        })
    }

    /// How things stand.
    fn point(&self, at: u64) -> Point {
        let mut point = Point { at, ..Point::default() };
        for node in self.nodes.values() {
            let index = match node.capacity_type.as_str() {
                "reserved" => 0,
                "on-demand" => 1,
                "spot" => 2,
                _ => 3,
            };
            if let Some(count) = point.nodes.get_mut(index) {
                *count += 1;
            }
            point.price += node.price;
            point.without += node.unreserved;
        }
        point.waiting = self.waiting.values().map(|group| group.pods).sum();
        point
    }

    /// A node with what its pods use.
    fn shown(&self, name: &str) -> Option<Node> {
        let mut node = self.nodes.get(name)?.clone();
        if let Some((amounts, pods)) = self.used.get(name) {
            (node.cpu_used, node.memory_used, node.pods) = (amounts.cpu, amounts.memory, *pods);
        }
        Some(node)
    }

    /// The pods on a node, by name.
    pub(crate) fn pods_on(&self, node: &str) -> Vec<&PodRecord> {
        let uids = self.on_node.get(node).into_iter().flatten();
        let mut pods: Vec<&PodRecord> = uids.filter_map(|uid| self.pods.get(uid)).collect();
        pods.sort_unstable_by(|a, b| a.name.cmp(&b.name));
        pods
    }

    /// The first pods of a workload that wait, by name.
    pub(crate) fn pods_waiting(&self, of: &str, most: usize) -> Vec<&PodRecord> {
        let mut pods: Vec<&PodRecord> = self.pods.values().filter(|pod| pod.node.is_empty() && pod.of == of).collect();
        pods.sort_unstable_by(|a, b| a.name.cmp(&b.name));
        pods.truncate(most);
        pods
    }
}

/// Whether something is different now.
fn set<T: PartialEq>(map: &mut BTreeMap<String, T>, key: &str, value: Option<T>) -> bool {
    match value {
        None => map.remove(key).is_some(),
        Some(value) => {
            let is_new = map.get(key) != Some(&value);
            if is_new {
                map.insert(key.to_owned(), value);
            }
            is_new
        }
    }
}

fn picked<T: Clone>(keys: BTreeSet<String>, from: &BTreeMap<String, T>) -> BTreeMap<String, Option<T>> {
    keys.into_iter().map(|key| (key.clone(), from.get(&key).cloned())).collect()
}

fn shorten(text: &mut String) {
    if let Some((end, _)) = text.char_indices().nth(LONGEST_REASON) {
        text.truncate(end);
        text.push('…');
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[allow(clippy::unnecessary_wraps, reason = "as the view takes it")]
    fn pod(name: &str, node: &str) -> Option<PodRecord> {
        Some(PodRecord {
            name: name.to_owned(),
            of: "default/web".to_owned(),
            node: node.to_owned(),
            amounts: Amounts { cpu: 500, memory: 100 },
            phase: String::new(),
            why: if node.is_empty() { "Insufficient cpu".to_owned() } else { String::new() },
        })
    }

    /// A page that is told the differences has what a page has that comes later.
    fn follow(frames: &[Frame]) -> (BTreeMap<String, Node>, BTreeMap<String, Waiting>) {
        let (mut nodes, mut waiting) = (BTreeMap::new(), BTreeMap::new());
        for frame in frames {
            for (name, node) in &frame.nodes {
                match node {
                    Some(node) => drop(nodes.insert(name.clone(), node.clone())),
                    None => drop(nodes.remove(name)),
                }
            }
            for (name, own) in &frame.waiting {
                match own {
                    Some(own) => drop(waiting.insert(name.clone(), own.clone())),
                    None => drop(waiting.remove(name)),
                }
            }
        }
        (nodes, waiting)
    }

    #[test]
    fn differences_add_up_to_the_whole() {
        let mut view = View::default();
        let mut frames = Vec::new();
        // A pod may be seen before its node, and leave after it.
        let told: [(&str, Option<PodRecord>); 6] = [
            ("a", pod("a", "")),
            ("b", pod("b", "")),
            ("a", pod("a", "n")),
            ("b", pod("b", "n")),
            ("a", None),
            ("c", pod("c", "")),
        ];
        for (index, (uid, own)) in told.into_iter().enumerate() {
            view.pod(uid, own);
            if index == 3 {
                view.node("n", Some(Node { cpu: 2000, ..Node::default() }));
            }
            frames.extend(view.difference(index as u64));
            let whole = view.whole(9);
            assert_eq!(follow(&frames), follow(&[whole]), "after {index}");
        }
        // Who comes late is told how it stood before.
        let history = view.whole(9).history;
        assert_eq!(history.last().map(|point| (point.nodes, point.waiting)), Some(([0, 0, 0, 1], 1)));
        let (nodes, waiting) = follow(&frames);
        assert_eq!((nodes["n"].cpu_used, nodes["n"].pods), (500, 1));
        assert_eq!(waiting.values().map(|own| own.pods).sum::<u32>(), 1);
        view.node("n", None);
        frames.extend(view.difference(10));
        assert!(follow(&frames).0.is_empty());
        assert_eq!(view.difference(11), None);
    }
}
