//! Random histories of plain pods: they come, go, are preempted, and have room held for them. After each step the scheduler
//! that was told of every change decides as one that is made of the cluster as it is then, and as one whose classes share
//! nothing; so it does of where pods would go without a node.

#![allow(clippy::unwrap_used, reason = "a test may fail as itself; clippy looks only into test functions")]

use std::collections::BTreeMap;

use berth_checker::random_standing_case;
use berth_model::{ClassId, Cluster, Universe};
use berth_properties::{cluster_of, n_cases};
use berth_scheduling::{Assessment, Eviction, Launchable, Scheduler};
use rayon::prelude::*;

const STEPS: usize = 24;

/// A source of numbers: SplitMix64.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        usize::try_from((z ^ (z >> 31)) % n.max(1) as u64).unwrap()
    }
}

/// What a scheduler says to a class of pods: of every node, which it chooses, and who would have to go.
#[derive(Debug, PartialEq, Eq)]
struct Said {
    nodes: Vec<Assessment>,
    chosen: Option<usize>,
    /// The node, and the pods by name; not asked where pods of the history would be among them.
    preempted: Option<(Option<usize>, Vec<String>)>,
}

fn said(scheduler: &mut Scheduler<'_>, cluster: &Cluster, class: ClassId, asks_to_preempt: bool) -> Said {
    let preempted = asks_to_preempt.then(|| {
        let mut what_if = scheduler.clone();
        let before = what_if.evicted().len();
        let node = what_if.preempt(class);
        let names = what_if.evicted_since(before).iter().map(|eviction| {
            let pod = &cluster.nodes[eviction.node].pods[eviction.pod];
            format!("{}/{}", cluster.symbols.text(pod.namespace), pod.name)
        });
        (node, names.collect())
    });
    Said { nodes: scheduler.assess(class), chosen: scheduler.choose(class), preempted }
}

/// A history of a cluster, and what differs in it, if anything does.
struct History<'a> {
    cluster: &'a Cluster,
    universe: &'a Universe,
    scheduler: Scheduler<'a>,
    /// By class: pods that are still to come.
    left: BTreeMap<ClassId, u32>,
    running: Vec<Eviction>,
    nominated: Vec<(ClassId, usize)>,
    /// The lowest priority of those that came.
    lowest: i32,
}

impl<'a> History<'a> {
    fn new(cluster: &'a Cluster, universe: &'a Universe) -> Self {
        let left = universe.classes.iter().zip(0..).filter(|(class, _)| class.count > 0);
        let pods = cluster.nodes.iter().enumerate();
        let running = pods.flat_map(|(node, known)| (0..known.pods.len()).map(move |pod| Eviction { node, pod }));
        History {
            cluster,
            universe,
            scheduler: Scheduler::new(cluster, universe, Launchable::default()),
            left: left.map(|(class, id)| (ClassId(id), class.count)).collect(),
            running: running.collect(),
            nominated: Vec::new(),
            lowest: i32::MAX,
        }
    }

    fn priority(&self, class: ClassId) -> i32 {
        self.cluster.specs[self.universe.classes[class.index()].spec.index()].priority
    }

    fn step(&mut self, numbers: &mut Numbers) -> String {
        let waiting: Vec<ClassId> = self.left.iter().filter(|(_, left)| **left > 0).map(|(class, _)| *class).collect();
        match numbers.below(10) {
            0..4 if !waiting.is_empty() => self.come(waiting[numbers.below(waiting.len())], false),
            4..6 if !waiting.is_empty() => {
                // The most important one of two, so that some find others to make go.
                let mut of_two = || waiting[numbers.below(waiting.len())];
                let (a, b) = (of_two(), of_two());
                self.come(if self.priority(a) > self.priority(b) { a } else { b }, true)
            }
            6..8 if !self.running.is_empty() => {
                let gone = self.running.swap_remove(numbers.below(self.running.len()));
                self.scheduler.evict(gone);
                format!("{gone:?} is deleted")
            }
            9 if !self.nominated.is_empty() && numbers.below(2) == 0 => {
                let (class, node) = self.nominated.swap_remove(numbers.below(self.nominated.len()));
                self.scheduler.withdraw(class, node);
                format!("room for {class:?} on {node} is given up")
            }
            8 | 9 if !waiting.is_empty() => {
                let class = waiting[numbers.below(waiting.len())];
                // Most often where room was held before, so that preemptors come upon it.
                let before = self.nominated.last().filter(|_| numbers.below(3) > 0).map(|(_, node)| *node);
                let node = before.unwrap_or_else(|| numbers.below(self.cluster.nodes.len()));
                self.scheduler.nominate(class, node);
                self.nominated.push((class, node));
                format!("room for {class:?} is held on {node}")
            }
            _ => "nothing happens".to_owned(),
        }
    }

    // A pod comes to the node that is chosen, or where others are made to go.
    fn come(&mut self, class: ClassId, preempts: bool) -> String {
        let before = self.scheduler.evicted().len();
        let mut node = self.scheduler.choose(class);
        if node.is_none() && preempts {
            node = self.scheduler.preempt(class);
            let gone = self.scheduler.evicted_since(before).to_vec();
            self.running.retain(|pod| !gone.contains(pod));
            // It gives up room that was held for less important pods.
            let priority = self.priority(class);
            let held = std::mem::take(&mut self.nominated);
            let stays = |(held, at): &(ClassId, usize)| node != Some(*at) || self.priority(*held) >= priority;
            self.nominated = held.into_iter().filter(stays).collect();
        }
        let Some(node) = node else { return format!("{class:?} finds no node") };
        self.scheduler.bind(class, node);
        self.lowest = self.lowest.min(self.priority(class));
        self.left.entry(class).and_modify(|left| *left -= 1);
        format!("{class:?} comes to {node}")
    }

    // What this scheduler and one that is made anew say differently.
    fn difference(&mut self) -> Option<String> {
        let mut cluster = self.cluster.clone();
        self.scheduler.clone().into_bindings().apply(&mut cluster);
        let universe = Universe::with_scores(&mut cluster);
        let mut anew = Scheduler::new(&cluster, &universe, Launchable::default());
        let now = |class: ClassId| {
            let row = self.universe.classes[class.index()].rows[0];
            let found = universe.classes.iter().position(|known| known.rows.contains(&row)).unwrap();
            ClassId(u32::try_from(found).unwrap())
        };
        for &(class, node) in &self.nominated {
            anew.nominate(now(class), node);
        }
        for &class in self.left.keys() {
            let asks = self.priority(class) <= self.lowest;
            let was = said(&mut self.scheduler, self.cluster, class, asks);
            let is = said(&mut anew, &cluster, now(class), asks);
            if was != is {
                return Some(format!("{class:?}: told of each change\n{was:?}\nmade anew\n{is:?}"));
            }
        }
        self.difference_of_sharing()
    }

    // What classes that share indexes are told otherwise than those that do not.
    fn difference_of_sharing(&mut self) -> Option<String> {
        let mut own = self.scheduler.clone().with_own_indexes();
        for &class in self.left.keys() {
            let (shared, alone) = (self.scheduler.choose(class), own.choose(class));
            if shared != alone {
                return Some(format!("{class:?}: {shared:?} by a shared index, {alone:?} by its own"));
            }
        }
        // Each class twice, and twice in a row.
        let again: Vec<ClassId> = self.left.keys().chain(self.left.keys()).flat_map(|id| [*id, *id]).collect();
        for node in 0..self.cluster.nodes.len() {
            let (shared, alone) = (self.scheduler.try_without(node, &again), own.try_without(node, &again));
            if shared != alone {
                return Some(format!("without {node}: {shared:?} by shared indexes, {alone:?} by their own"));
            }
        }
        None
    }
}

fn try_history(seed: u64) -> Option<String> {
    let mut cluster = cluster_of(&random_standing_case(seed), None).unwrap();
    let universe = Universe::with_scores(&mut cluster);
    let mut history = History::new(&cluster, &universe);
    let mut numbers = Numbers(seed);
    let mut told = Vec::new();
    for _ in 0..STEPS {
        told.push(history.step(&mut numbers));
        if let Some(difference) = history.difference() {
            return Some(format!("seed {seed}: {}: {difference}", told.join("; ")));
        }
    }
    None
}

#[test]
fn a_scheduler_that_is_told_of_each_change_decides_as_one_that_is_made_anew() {
    let failed: Vec<String> = (0..n_cases(150)).into_par_iter().filter_map(try_history).collect();
    assert!(failed.is_empty(), "{} histories differ, the first:\n{}", failed.len(), failed[0]);
}
