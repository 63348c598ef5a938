//! In which round budgets let a command begin.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;

use crate::budget::{Budgets, PoolNodes};
use crate::candidate::Candidate;
use crate::command::{Method, Places};
use crate::survey::Survey;

/// What budgets allow in each round, and what commands took of the last one.
#[derive(Debug)]
pub(crate) struct Batches {
    /// By NodePool; those whose budgets cannot be read are not among them.
    pools: BTreeMap<String, Pool>,
    now: Timestamp,
    /// Whether what does not fit into the first round is left for another time.
    only_first: bool,
    current: usize,
    /// The nodes that pods of the current round come to, by name.
    taking: BTreeSet<String>,
}

#[derive(Debug)]
struct Pool {
    budgets: Budgets,
    /// Its nodes as the current round begins: shares are of these.
    nodes: PoolNodes,
    /// Nodes that go in the current round, and that are launched in their place.
    gone: usize,
    launched: usize,
}

impl Pool {
    /// Its nodes once all of the current round is done.
    fn after(&self) -> PoolNodes {
        let total = self.nodes.total.saturating_add(self.launched).saturating_sub(self.gone);
        PoolNodes { total, ..self.nodes }
    }
}

// === impl Batches ===

impl Batches {
    pub(crate) fn new(survey: &Survey, only_first: bool, now: Timestamp) -> Self {
        let pools = survey.pools.iter().filter_map(|(name, pool)| {
            let budgets = pool.budgets.as_ref().ok()?.clone();
            Some((name.clone(), Pool { budgets, nodes: pool.nodes, gone: 0, launched: 0 }))
        });
        Batches { pools: pools.collect(), now, only_first, current: 0, taking: BTreeSet::new() }
    }

    /// How many nodes of a NodePool may go at a time: in the current round, or in the next.
    pub(crate) fn most(&self, pool: &str, method: Method) -> usize {
        let Some(known) = self.pools.get(pool) else { return 0 };
        let left = known.budgets.allowed(method.reason(), known.nodes, self.now).saturating_sub(known.gone);
        // What does not fit into this round begins the next.
        let next = || known.budgets.allowed(method.reason(), known.after(), self.now);
        if self.only_first { left } else { left.max(next()) }
    }

    /// The budget of a NodePool that counts in the current round, by its place in the list.
    pub(crate) fn strictest(&self, pool: &str, method: Method) -> Option<usize> {
        let known = self.pools.get(pool)?;
        known.budgets.strictest(method.reason(), known.nodes, self.now)
    }

    /// Whether nodes of a NodePool may go once those that go now are done, and none may now.
    pub(crate) fn waits(&self, pool: &str, method: Method) -> bool {
        let Some(known) = self.pools.get(pool) else { return false };
        let at_rest = PoolNodes { off: 0, ..known.nodes };
        self.most(pool, method) == 0 && known.budgets.allowed(method.reason(), at_rest, self.now) > 0
    }

    /// The round in which these nodes go: that of the command before, or the next. No command overtakes another, since
    /// each is considered in the cluster that those before it leave; and consolidation leaves a node alone that pods are
    /// about to come to. `launched` are the NodePools of what is launched in their place, and `places` where pods come.
    pub(crate) fn take<'a>(
        &mut self,
        gone: &[&Candidate],
        (launched, places): (impl Iterator<Item = &'a str>, &Places),
        method: Method,
    ) -> usize {
        let mut asked: BTreeMap<&str, usize> = BTreeMap::new();
        for candidate in gone {
            *asked.entry(&candidate.pool).or_default() += 1;
        }
        let fits = asked.iter().all(|(name, count)| {
            self.pools.get(*name).is_some_and(|pool| {
                let most = pool.budgets.allowed(method.reason(), pool.nodes, self.now);
                pool.gone.saturating_add(*count) <= most
            })
        });
        let is_awaiting = |candidate: &&Candidate| self.taking.contains(&*candidate.node.key.name);
        let waits = !self.only_first && !method.is_drift() && gone.iter().any(is_awaiting);
        if !fits || waits {
            self.begin_next();
        }
        for (name, count) in asked {
            if let Some(pool) = self.pools.get_mut(name) {
                pool.gone += count;
            }
        }
        for name in launched {
            if let Some(pool) = self.pools.get_mut(name) {
                pool.launched += 1;
            }
        }
        self.taking.extend(places.iter().map(|(_, node)| node.clone()));
        self.current
    }

    /// What comes from now on goes in the next round, once everything of this one is done.
    pub(crate) fn begin_next(&mut self) {
        self.current += 1;
        self.taking.clear();
        for pool in self.pools.values_mut() {
            pool.nodes = pool.after();
            (pool.gone, pool.launched) = (0, 0);
        }
    }
}
