//! Default preemption: the node where the least important pods have to go, as kube-scheduler's DefaultPreemption chooses
//! among all nodes on which their going helps.

use std::cmp::Reverse;

use berth_model::{BoundPod, ClassId, MemberKind};

use super::groups::stands;
use super::index::Index;
use super::shape::Beside;
use super::{Eviction, Scheduler};
use crate::filter::Obstacle;
use crate::reservation::is_open;

/// The pods that would have to go from a node, most important first.
#[derive(Clone, Debug)]
struct Candidate {
    node: usize,
    victims: Vec<usize>,
    violations: usize,
}

/// By what candidates are compared, the least wins: budgets violated, the highest priority among the victims, the sum of
/// their priorities, their number, how long the most important have run, the node's name.
type Order = (usize, i32, i64, usize, Reverse<i64>, u32);

impl<'a> Scheduler<'a> {
    /// Makes room for a pod of the class where the least important pods have to go, and evicts them; the node. `None`,
    /// and nothing changes, where it does not help, or the pod never preempts.
    pub fn preempt(&mut self, id: ClassId) -> Option<usize> {
        let (_, spec) = self.class_and_spec(id)?;
        let is_reservation = self.universe.class(id).is_some_and(|class| class.kind == MemberKind::Reservation);
        if spec.never_preempts || (is_reservation && !self.rules.preempts) || !is_open(spec) {
            return None;
        }
        if self.lowest_priorities().1 >= spec.priority {
            return None;
        }
        let index = self.take_index(id)?;
        let best = self.best_candidate(&index);
        self.keep_index(id, index);
        let Candidate { node, victims, .. } = best?;
        for pod in victims {
            self.charge_budgets(node, pod);
            self.evict(Eviction { node, pod });
            self.expect_again(Eviction { node, pod });
        }
        // Room held for pods of lower priority may be gone.
        let lower =
            |held: &&ClassId| self.class_and_spec(**held).is_some_and(|(_, held)| held.priority < spec.priority);
        let gone: Vec<ClassId> = self.nominated.get(&node).into_iter().flatten().filter(lower).copied().collect();
        for held in gone {
            self.withdraw(held, node);
        }
        Some(node)
    }

    fn best_candidate(&mut self, index: &Index<'a>) -> Option<Candidate> {
        let values = self.values(index);
        let mut best: Option<(Order, Candidate)> = None;
        for node in 0..self.cluster.nodes.len() {
            let lowest = self.lowest_priorities().0.get(node).copied().unwrap_or(i32::MAX);
            if lowest >= index.shape.spec.priority || !self.cluster.nodes.get(node).is_some_and(stands) {
                continue;
            }
            let potential = self.less_important(node, index.shape.spec.priority);
            let helps = || {
                let obstacle = self.world().obstacle(index, &values, node);
                obstacle.as_ref().is_some_and(Obstacle::may_be_preempted)
            };
            if potential.is_empty() || !helps() {
                continue;
            }
            let Some(candidate) = self.dry_run(index, node, &potential) else { continue };
            if self.keeps_budgets && candidate.violations > 0 {
                continue;
            }
            let order = self.order(&candidate);
            if best.as_ref().is_none_or(|(least, _)| order < *least) {
                best = Some((order, candidate));
            }
        }
        best.map(|(_, candidate)| candidate)
    }

    // By node the lowest priority of its running pods, and of all: most often nobody may give way.
    fn lowest_priorities(&mut self) -> &(Vec<i32>, i32) {
        let cluster = self.cluster;
        self.lowest.get_or_insert_with(|| {
            let priority = |pod: &BoundPod| cluster.specs.get(pod.spec as usize).map_or(0, |spec| spec.priority);
            let nodes = cluster.nodes.iter().map(|node| node.pods.iter().map(priority).min().unwrap_or(i32::MAX));
            let by_node: Vec<i32> = nodes.collect();
            let least = by_node.iter().copied().min().unwrap_or(i32::MAX);
            (by_node, least)
        })
    }

    // The running pods of a node with a lower priority, most important first: by priority, then by how long they run.
    fn less_important(&self, node: usize, priority: i32) -> Vec<usize> {
        let pods = self.cluster.nodes.get(node).map_or(&[][..], |node| &node.pods);
        let is_lower = |(_, pod): &(usize, &BoundPod)| self.priority(pod) < priority && !self.is_protected(pod);
        let stays = |at: usize| !self.off.contains(&Eviction { node, pod: at });
        let mut lower: Vec<usize> =
            pods.iter().enumerate().filter(is_lower).map(|(at, _)| at).filter(|at| stays(*at)).collect();
        lower.sort_by_key(|&at| pods.get(at).map(|pod| (Reverse(self.priority(pod)), pod.started)));
        lower
    }

    // Koordinator's label.
    fn is_protected(&self, pod: &BoundPod) -> bool {
        let symbols = &self.cluster.symbols;
        let Some(key) = symbols.get("scheduling.koordinator.sh/disable-preemptible") else { return false };
        let labels = self.cluster.label_sets.get(pod.labels as usize);
        labels.and_then(|labels| labels.get(key)).is_some_and(|value| symbols.text(value) == "true")
    }

    fn priority(&self, pod: &BoundPod) -> i32 {
        self.cluster.specs.get(pod.spec as usize).map_or(0, |spec| spec.priority)
    }

    // Takes all off, then puts back as many as can stay: those first whose going would violate a budget.
    fn dry_run(&mut self, index: &Index<'a>, node: usize, potential: &[usize]) -> Option<Candidate> {
        let spec = index.shape.spec;
        let before = self.world().seen(node, spec)?.state.host_counts.clone();
        let is_indifferent = self.values(index).is_indifferent;
        let mark = self.state.mark();
        let off_before = self.off.len();
        for &pod in potential {
            self.take_off(node, pod);
        }
        let fits = |scheduler: &Self| {
            let mut values = index.shape.values(&scheduler.state, &Beside::default(), |rule| {
                index.least_on_hosts(rule, |counter| {
                    let now = scheduler.world().seen(node, spec)?.state.host_counts.get(counter);
                    scheduler.counts_on(counter, node).then(|| (before.get(counter), now))
                })
            });
            values.is_indifferent = is_indifferent;
            scheduler.world().obstacle(index, &values, node).is_none()
        };
        let candidate = fits(self).then(|| {
            let (violating, others) = self.split_by_budgets(node, potential);
            let (mut victims, mut violations) = (Vec::new(), 0);
            for (at, &pod) in violating.iter().chain(&others).enumerate() {
                self.put_back(node, pod);
                if !fits(self) {
                    self.take_off(node, pod);
                    victims.push(pod);
                    violations += usize::from(at < violating.len());
                }
            }
            victims.sort_by_key(|pod| potential.iter().position(|known| known == pod));
            Candidate { node, victims, violations }
        });
        self.state.rollback(mark);
        self.state.forget(mark);
        self.off.truncate(off_before);
        candidate.filter(|candidate| !candidate.victims.is_empty())
    }

    // Pods whose going would violate a budget, each counted against what budgets allow, and the others; both in order.
    fn split_by_budgets(&self, node: usize, pods: &[usize]) -> (Vec<usize>, Vec<usize>) {
        let mut allowed = self.allowed.clone();
        pods.iter().partition(|&&pod| {
            let budgets = self.budgets_of(node, pod);
            // The API evicts nobody whom several budgets protect.
            let mut is_violated = self.keeps_budgets && budgets.len() > 1;
            for budget in budgets {
                if let Some(allowed) = allowed.get_mut(budget) {
                    *allowed = allowed.saturating_sub(1);
                    is_violated |= *allowed < 0;
                }
            }
            is_violated
        })
    }

    fn charge_budgets(&mut self, node: usize, pod: usize) {
        for budget in self.budgets_of(node, pod) {
            if let Some(allowed) = self.allowed.get_mut(budget) {
                *allowed = allowed.saturating_sub(1);
            }
        }
    }

    // The PodDisruptionBudgets that a running pod's going counts against. To kube-scheduler one without a selector, or that
    // selects all, protects none; to the API one that selects all protects all.
    fn budgets_of(&self, node: usize, pod: usize) -> Vec<usize> {
        let Some(pod) = self.cluster.nodes.get(node).and_then(|node| node.pods.get(pod)) else { return Vec::new() };
        let Some(labels) = self.cluster.label_sets.get(pod.labels as usize) else { return Vec::new() };
        let budgets = self.cluster.budgets.iter().enumerate();
        let protects = budgets.filter(|(_, budget)| {
            let is_about_some = match &budget.selector.requirements {
                Some(all) => self.keeps_budgets || (!all.is_empty() && !labels.is_empty()),
                None => false,
            };
            is_about_some
                && budget.namespace == pod.namespace
                && budget.selector.matches(labels, &self.cluster.symbols)
                && !budget.disrupted.contains(&pod.name)
        });
        protects.map(|(at, _)| at).collect()
    }

    fn order(&self, candidate: &Candidate) -> Order {
        let pods = self.cluster.nodes.get(candidate.node).map_or(&[][..], |node| &node.pods);
        let victims = || candidate.victims.iter().filter_map(|&at| pods.get(at));
        let highest = victims().map(|pod| self.priority(pod)).max().unwrap_or(i32::MIN);
        // As if the lowest priority were 0, so that few pods of a low priority go before many.
        let sum = victims().map(|pod| i64::from(self.priority(pod)) - i64::from(i32::MIN)).sum();
        let longest = victims().filter(|pod| self.priority(pod) == highest).map(|pod| pod.started).min();
        let rank = self.groups.rank(candidate.node);
        let longest = Reverse(longest.unwrap_or(i64::MAX));
        (candidate.violations, highest, sum, candidate.victims.len(), longest, rank)
    }
}
