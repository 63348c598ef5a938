//! PodDisruptionBudgets: how many more pods each lets go.

use std::collections::BTreeSet;

use berth_model::{BoundPod, Cluster};

use super::eviction::Eviction;

/// What PodDisruptionBudgets let go yet. Each pod that gives way is charged.
#[derive(Clone, Debug)]
pub(super) struct Budgets {
    /// By budget: how many more pods it lets go.
    pub(super) allowed: Vec<i32>,
    /// Whether pods that they do not let go stay, as where they are evicted through the API.
    pub(super) are_kept: bool,
}

/// Pods that would give way, by their position on a node.
pub(super) struct Split {
    /// Those whose going would violate a budget.
    pub(super) violating: Vec<usize>,
    pub(super) others: Vec<usize>,
}

// === impl Budgets ===

impl Budgets {
    pub(super) fn new(cluster: &Cluster) -> Self {
        Budgets { allowed: allowed(cluster), are_kept: false }
    }

    /// They are what the cluster says now.
    pub(super) fn read_again(&mut self, cluster: &Cluster) {
        self.allowed = allowed(cluster);
    }

    /// Pods whose going would violate a budget, each counted against what budgets allow, and the others; both in order.
    pub(super) fn split(&self, cluster: &Cluster, node: usize, pods: &[usize]) -> Split {
        let mut allowed = self.allowed.clone();
        let (violating, others) = pods.iter().partition(|&&pod| {
            let budgets = self.of(cluster, Eviction { node, pod });
            // The API evicts nobody whom several budgets protect.
            let mut is_violated = self.are_kept && budgets.len() > 1;
            for budget in budgets {
                if let Some(allowed) = allowed.get_mut(budget) {
                    *allowed = allowed.saturating_sub(1);
                    is_violated |= *allowed < 0;
                }
            }
            is_violated
        });
        Split { violating, others }
    }

    /// The budgets that pods of a node would violate if all of them went, ascending; of a pod that several protect, all. Where
    /// they violate none together, all that protect any.
    pub(super) fn violated(&self, cluster: &Cluster, node: usize, pods: &[usize]) -> Vec<usize> {
        let mut allowed = self.allowed.clone();
        let (mut violated, mut all) = (BTreeSet::new(), BTreeSet::new());
        for &pod in pods {
            let budgets = self.of(cluster, Eviction { node, pod });
            let are_several = self.are_kept && budgets.len() > 1;
            for budget in budgets {
                let Some(allowed) = allowed.get_mut(budget) else { continue };
                *allowed = allowed.saturating_sub(1);
                all.insert(budget);
                violated.extend((are_several || *allowed < 0).then_some(budget));
            }
        }
        if violated.is_empty() { all } else { violated }.into_iter().collect()
    }

    /// A pod gives way.
    pub(super) fn charge(&mut self, cluster: &Cluster, eviction: Eviction) {
        for budget in self.of(cluster, eviction) {
            if let Some(allowed) = self.allowed.get_mut(budget) {
                *allowed = allowed.saturating_sub(1);
            }
        }
    }

    // The budgets that a running pod's going counts against. To kube-scheduler one without a selector, or that selects all,
    // protects none; to the API one that selects all protects all.
    fn of(&self, cluster: &Cluster, Eviction { node, pod }: Eviction) -> Vec<usize> {
        let found = cluster.node(node).and_then(|node| node.pods.get(pod));
        // One that is being deleted is counted already.
        let Some(pod) = found.filter(|pod: &&BoundPod| !pod.is_terminating()) else { return Vec::new() };
        let Some(labels) = cluster.labels(pod.labels) else { return Vec::new() };
        let budgets = cluster.budgets.iter().enumerate();
        let protects = budgets.filter(|(_, budget)| {
            let is_about_some = match &budget.selector.requirements {
                Some(all) => self.are_kept || (!all.is_empty() && !labels.is_empty()),
                None => false,
            };
            is_about_some
                && budget.namespace == pod.namespace
                && budget.selector.matches(labels, &cluster.symbols)
                && !budget.disrupted.iter().any(|name| **name == *pod.name)
        });
        protects.map(|(at, _)| at).collect()
    }
}

fn allowed(cluster: &Cluster) -> Vec<i32> {
    cluster.budgets.iter().map(|budget| budget.allowed).collect()
}
