//! In which round budgets let a command begin.

use std::collections::BTreeMap;

use jiff::Timestamp;

use crate::candidate::{Candidate, Survey};
use crate::command::Method;

/// What budgets allow in each round, and what commands took of the last one.
#[derive(Debug)]
pub(crate) struct Batches {
    /// By NodePool and method: how many nodes at a time.
    most: BTreeMap<(String, Method), usize>,
    current: usize,
    /// By NodePool: nodes that go in the current round.
    taken: BTreeMap<String, usize>,
}

const METHODS: [Method; 4] =
    [Method::Emptiness, Method::Drift, Method::MultiNodeConsolidation, Method::SingleNodeConsolidation];

// === impl Batches ===

impl Batches {
    pub(crate) fn new(survey: &Survey, now: Timestamp) -> Self {
        let of_pool = |(name, pool): (&String, &crate::candidate::Pool)| {
            METHODS.map(|method| {
                let budgets = pool.budgets.as_ref();
                let most = budgets.map_or(0, |budgets| budgets.allowed(method.reason(), pool.nodes, now));
                ((name.clone(), method), most)
            })
        };
        Batches { most: survey.pools.iter().flat_map(of_pool).collect(), current: 0, taken: BTreeMap::new() }
    }

    /// How many nodes of a NodePool may go at a time.
    pub(crate) fn most(&self, pool: &str, method: Method) -> usize {
        self.most.get(&(pool.to_owned(), method)).copied().unwrap_or(0)
    }

    /// The round in which these nodes go: that of the command before, or the next. No command overtakes another, since
    /// each is considered in the cluster that those before it leave.
    pub(crate) fn take(&mut self, gone: &[&Candidate], method: Method) -> usize {
        let mut asked: BTreeMap<&str, usize> = BTreeMap::new();
        for candidate in gone {
            *asked.entry(&candidate.pool).or_default() += 1;
        }
        let fits = asked.iter().all(|(pool, count)| {
            let taken = self.taken.get(*pool).copied().unwrap_or(0);
            taken.saturating_add(*count) <= self.most(pool, method)
        });
        if !fits {
            self.current += 1;
            self.taken.clear();
        }
        for (pool, count) in asked {
            *self.taken.entry(pool.to_owned()).or_default() += count;
        }
        self.current
    }
}
