//! Default preemption: the node where the least important pods have to go, as kube-scheduler's DefaultPreemption chooses
//! among all nodes on which their going helps.

use std::cmp::Reverse;
use std::sync::Arc;

use berth_model::{BoundPod, ClassId, MemberKind};

use super::groups::stands;
use super::index::Index;
use super::shape::{Beside, Values};
use super::victims::{Kept, Residents, VictimSearch};
use super::{Eviction, Scheduler};
use crate::filter::Obstacle;
use crate::reservation::is_open;

/// The pods that would have to go from a node, most important first.
#[derive(Clone, Debug)]
pub(super) struct Candidate {
    pub(super) node: usize,
    pub(super) victims: Vec<usize>,
    pub(super) violations: usize,
}

/// By what candidates are compared, the least wins: budgets violated, the highest priority among the victims, the sum of
/// their priorities, their number, how long the most important have run, the node's name.
pub(super) type Order = (usize, i32, i64, usize, Reverse<i64>, u64);

impl Scheduler<'_> {
    /// Makes room for a pod of the class where the least important pods have to go, and evicts them; the node. `None`,
    /// and nothing changes, where it does not help, or the pod never preempts.
    pub fn preempt(&mut self, id: ClassId) -> Option<usize> {
        self.preempt_on(id, None)
    }

    /// The same, on one node alone where that is given: who was to give way to a pod that is nominated there, and has not
    /// gone yet, is to be the same as before.
    pub(super) fn preempt_on(&mut self, id: ClassId, node: Option<usize>) -> Option<usize> {
        let (_, spec) = self.class_and_spec(id)?;
        let is_reservation = self.universe.class(id).is_some_and(|class| class.kind == MemberKind::Reservation);
        if spec.never_preempts || (is_reservation && !self.tables.rules.preempts) || !is_open(spec) {
            return None;
        }
        let cluster = self.cluster;
        // Before all pods are looked at: of no spec is one less important.
        if self.residents.is_none() && cluster.specs.iter().all(|known| known.priority >= spec.priority) {
            return None;
        }
        let residents = self.residents.get_or_insert_with(|| Arc::new(Residents::new(cluster)));
        if residents.lowest >= spec.priority {
            return None;
        }
        let index = self.take_index(id)?;
        let best = match node {
            Some(node) => self.candidate_on(&index, node),
            None => self.best_candidate(&index),
        };
        self.keep_index(self.index_of(id), index);
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

    fn candidate_on(&mut self, index: &Index, node: usize) -> Option<Candidate> {
        let (values, by_amounts) = (self.values(index), self.is_about_amounts(index));
        self.candidate(index, &values, node, by_amounts, None).map(|(_, candidate)| candidate)
    }

    fn best_candidate(&mut self, index: &Index) -> Option<Candidate> {
        let values = self.values(index);
        let (id, by_amounts) = (index.shape.class, self.is_about_amounts(index));
        // Worth it for a class of many.
        let is_kept = !index.shape.spreads_over_hosts()
            && index.shape.spec.volumes.exclusive_claims.is_empty()
            && self.universe.class(id).is_some_and(|class| class.count > 1);
        if is_kept {
            return self.best_kept(index, &values, by_amounts);
        }
        let mut best: Option<(Order, Candidate)> = None;
        for node in 0..self.cluster.nodes.len() {
            let most = best.as_ref().map(|(order, _)| order);
            let found = self.candidate(index, &values, node, by_amounts, most);
            if let Some(found) = found
                && best.as_ref().is_none_or(|(least, _)| found.0 < *least)
            {
                best = Some(found);
            }
        }
        best.map(|(_, candidate)| candidate)
    }

    // The same, with what was found when the class was asked about before, where nothing has changed since.
    fn best_kept(&mut self, index: &Index, values: &Values, by_amounts: bool) -> Option<Candidate> {
        let (id, now) = (index.shape.class, self.groups.now());
        let totals = index.shape.totals(&self.state);
        let kept = self.kept.take().filter(|(of, kept)| {
            *of == id && kept.values == *values && kept.totals == totals && kept.allowed == self.allowed
        });
        let log = kept.as_ref().and_then(|(_, kept)| self.groups.since(kept.cursor));
        let (mut kept, nodes) = if let Some(((_, kept), log)) = kept.zip(log) {
            let mut nodes: Vec<usize> = log.iter().map(|change| change.node as usize).collect();
            nodes.sort_unstable();
            nodes.dedup();
            (kept, nodes)
        } else {
            let all = (0..self.cluster.nodes.len()).collect();
            (Kept::new(now, values.clone(), totals, self.allowed.clone()), all)
        };
        kept.cursor = now;
        for node in nodes {
            let candidate = self.candidate(index, values, node, by_amounts, None);
            kept.set(node, candidate);
        }
        let best = kept.best().cloned();
        self.kept = Some((id, kept));
        best
    }

    // Who would have to go from a node, if that helps; with by what it is compared. Nothing that comes after `most`.
    fn candidate(
        &mut self,
        index: &Index,
        values: &Values,
        node: usize,
        by_amounts: bool,
        most: Option<&Order>,
    ) -> Option<(Order, Candidate)> {
        if !self.cluster.nodes.get(node).is_some_and(stands) {
            return None;
        }
        let below = self.residents.as_ref()?.below(node, index.shape.spec.priority);
        if below.is_empty() {
            return None;
        }
        let found = if by_amounts { self.victims_for(index, values, node, most) } else { VictimSearch::Unclear };
        let candidate = match found {
            VictimSearch::None => None,
            VictimSearch::Some(candidate) => Some(candidate),
            VictimSearch::Unclear => {
                let potential: Vec<usize> =
                    below.iter().map(|resident| resident.pod).filter(|pod| !self.is_off(node, *pod)).collect();
                let obstacle = self.world().obstacle(index, values, node);
                let helps = !potential.is_empty() && obstacle.as_ref().is_some_and(Obstacle::may_be_preempted);
                if helps { self.dry_run(index, node, &potential) } else { None }
            }
        };
        let candidate = candidate.filter(|candidate| !self.keeps_budgets || candidate.violations == 0)?;
        Some((self.order(&candidate), candidate))
    }

    fn priority(&self, pod: &BoundPod) -> i32 {
        self.cluster.spec(pod.spec).map_or(0, |spec| spec.priority)
    }

    // Takes all off, then puts back as many as can stay: those first whose going would violate a budget.
    fn dry_run(&mut self, index: &Index, node: usize, potential: &[usize]) -> Option<Candidate> {
        let spec = &*index.shape.spec;
        let before = self.world().seen(node, spec)?.state.host_counts.clone();
        let is_indifferent = self.values(index).is_indifferent;
        let mark = self.state.mark();
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
        for &pod in potential {
            self.off.remove(&Eviction { node, pod });
        }
        candidate.filter(|candidate| !candidate.victims.is_empty())
    }

    // Pods whose going would violate a budget, each counted against what budgets allow, and the others; both in order.
    pub(super) fn split_by_budgets(&self, node: usize, pods: &[usize]) -> (Vec<usize>, Vec<usize>) {
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
        let found = self.cluster.nodes.get(node).and_then(|node| node.pods.get(pod));
        // One that is being deleted is counted already.
        let Some(pod) = found.filter(|pod| !pod.is_terminating()) else { return Vec::new() };
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
                && !budget.disrupted.iter().any(|name| **name == *pod.name)
        });
        protects.map(|(at, _)| at).collect()
    }

    fn order(&self, candidate: &Candidate) -> Order {
        let pods = self.cluster.nodes.get(candidate.node).map_or(&[][..], |node| &node.pods);
        let victims = || candidate.victims.iter().filter_map(|&at| pods.get(at));
        let highest = victims().map(|pod| self.priority(pod)).max().unwrap_or(i32::MIN);
        let sum = victims().map(|pod| above_least(self.priority(pod))).sum();
        let longest = victims().filter(|pod| self.priority(pod) == highest).map(|pod| pod.started).min();
        let rank = self.groups.rank(candidate.node);
        let longest = Reverse(longest.unwrap_or(i64::MAX));
        (candidate.violations, highest, sum, candidate.victims.len(), longest, rank)
    }
}

/// As if the lowest priority were 0, so that few pods of a low priority go before many.
pub(super) fn above_least(priority: i32) -> i64 {
    i64::from(priority) - i64::from(i32::MIN)
}
