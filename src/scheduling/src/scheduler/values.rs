//! What the rules of a class read at one moment, and whom they keep off.

use berth_model::{CounterId, Snapshot};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use super::shape::{ABSENT, CountedBy, Counts, Rule, Shape, SpreadRule};
use crate::filter::Obstacle;

/// The rules of a shape that a rule is among.
#[derive(Clone, Copy, Debug)]
enum RuleList {
    Spread,
    Affinity,
    AntiAffinity,
}

/// Pods that are taken to be on one node beside those that are counted.
#[derive(Clone, Debug, Default)]
pub(super) struct Beside {
    /// The node's domains, as [`Shape::domains_of`] has them.
    pub(super) domains: SmallVec<[u32; 2]>,
    pub(super) pods: FxHashMap<CounterId, u32>,
}

/// What the rules read, at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Values {
    /// By rule on a key: pods by domain; empty for rules by node.
    spread: Vec<Vec<u32>>,
    affinity: Vec<Vec<u32>>,
    anti_affinity: Vec<Vec<u32>>,
    /// By spread rule: the least count.
    least: Vec<u32>,
    /// Whether no pod is there yet that the affinity asks for, and this one will do.
    is_first: bool,
    /// Whether pods have nothing to do with each other: neither has this one a rule, nor a running one a rule about it.
    /// kube-scheduler then does not run InterPodAffinity, not even for pods that room is held for.
    pub(super) is_indifferent: bool,
}

// === impl Shape ===

impl Shape {
    /// What the rules read now. `least_on_hosts` tells, for a spread rule by node, the least count and the number of
    /// nodes that it is over.
    pub(super) fn values(
        &self,
        state: &Snapshot,
        beside: &Beside,
        least_on_hosts: impl Fn(usize) -> (u32, u32),
    ) -> Values {
        let read = |rule: &Rule| {
            let mut counts = self.by_domain(state, rule.counter, rule.place);
            if let (CountedBy::Key(at), Some(more)) = (rule.place, beside.pods.get(&rule.counter))
                && let Some(count) = beside.domains.get(at).and_then(|domain| counts.get_mut(*domain as usize))
            {
                *count += more;
            }
            counts
        };
        let mut values = Values {
            spread: self.spread.iter().map(|spread| read(&spread.rule)).collect(),
            affinity: self.affinity.iter().map(read).collect(),
            anti_affinity: self.anti_affinity.iter().map(read).collect(),
            ..self.values_without(state, beside)
        };
        for (at, spread) in self.spread.iter().enumerate() {
            let least = match spread.rule.place {
                CountedBy::Host => 0,
                CountedBy::Key(_) => {
                    let counts = values.spread.get(at).map_or(&[][..], Vec::as_slice);
                    let eligible = || spread.eligible.ones().map(|id| counts.get(id).copied().unwrap_or(0));
                    let n_domains = u32::try_from(spread.eligible.count_ones(..)).unwrap_or(u32::MAX);
                    spread.least(eligible().min().unwrap_or(0), n_domains)
                }
            };
            values.least.push(least);
        }
        let is_kept_off = |values: &Values, host: &[u32]| self.obstacle(values, host, |_| 0).is_some();
        self.set_least_on_hosts(&mut values, least_on_hosts, is_kept_off);
        values
    }

    // What rules read that is not by domain.
    fn values_without(&self, state: &Snapshot, beside: &Beside) -> Values {
        let is_anywhere = |rule: &Rule| {
            self.total(state, rule.counter) > 0 || beside.pods.get(&rule.counter).is_some_and(|pods| *pods > 0)
        };
        Values {
            least: Vec::with_capacity(self.spread.len()),
            is_first: self.affinity.iter().all(|rule| rule.counts_self && !is_anywhere(rule)),
            is_indifferent: self.affinity.is_empty()
                && self.anti_affinity.iter().all(|rule| rule.is_others && self.total(state, rule.counter) == 0),
            ..Values::default()
        }
    }

    /// What decides beside counts by domain: [`Shape::obstacle_with`] asks for it.
    pub(super) fn values_with(
        &self,
        state: &Snapshot,
        counts: &Counts,
        least_on_hosts: impl Fn(usize) -> (u32, u32),
    ) -> Values {
        let mut values = self.values_without(state, &Beside::default());
        for (spread, tally) in self.spread.iter().zip(&counts.tallies) {
            let least = match tally {
                None => 0,
                Some((_, tally)) => {
                    let n_domains = u32::try_from(spread.eligible.count_ones(..)).unwrap_or(u32::MAX);
                    spread.least(tally.keys().next().copied().unwrap_or(0), n_domains)
                }
            };
            values.least.push(least);
        }
        let is_kept_off = |values: &Values, host: &[u32]| self.obstacle_with(values, counts, host, |_| 0).is_some();
        self.set_least_on_hosts(&mut values, least_on_hosts, is_kept_off);
        values
    }

    // The least counts over nodes, once those over domains are known: a node without any pod counts where it could be launched
    // for the class, as its other rules stand.
    fn set_least_on_hosts(
        &self,
        values: &mut Values,
        least_on_hosts: impl Fn(usize) -> (u32, u32),
        is_kept_off: impl Fn(&Values, &[u32]) -> bool,
    ) {
        for (at, spread) in self.spread.iter().enumerate().filter(|(_, spread)| spread.rule.place == CountedBy::Host) {
            let may_come = |host: &SmallVec<[u32; 2]>| self.leaves_open(host) || !is_kept_off(values, host);
            if spread.empty_hosts.iter().any(may_come) {
                continue;
            }
            let (least, nodes) = least_on_hosts(at);
            let least = spread.least(least, nodes);
            if let Some(known) = values.least.get_mut(at) {
                *known = least;
            }
        }
    }

    // Whether some rule looks at a key of which a node that could be launched has no value yet.
    fn leaves_open(&self, host: &[u32]) -> bool {
        let spreads = self.spread.iter().map(|spread| &spread.rule);
        let mut rules = spreads.chain(&self.affinity).chain(&self.anti_affinity);
        rules.any(|rule| match rule.place {
            CountedBy::Host => false,
            CountedBy::Key(key) => host.get(key).is_none_or(|domain| *domain == ABSENT),
        })
    }

    /// PodTopologySpread and InterPodAffinity: what keeps the class off a node of these domains, with so many pods of
    /// each counter on the node itself.
    pub(super) fn obstacle(
        &self,
        values: &Values,
        domains: &[u32],
        on_host: impl Fn(CounterId) -> u32,
    ) -> Option<Obstacle> {
        // `None`: the node lacks the key.
        let count = |list: RuleList, at: usize, rule: &Rule| match rule.place {
            CountedBy::Host => Some(on_host(rule.counter)),
            CountedBy::Key(key) => {
                let domain = domains.get(key).copied().filter(|domain| *domain != ABSENT)?;
                let counts = match list {
                    RuleList::Spread => &values.spread,
                    RuleList::Affinity => &values.affinity,
                    RuleList::AntiAffinity => &values.anti_affinity,
                };
                Some(counts.get(at).and_then(|counts| counts.get(domain as usize)).copied().unwrap_or(0))
            }
        };
        self.obstacle_by(values, count)
    }

    /// The same where pods by domain are those of `counts`.
    pub(super) fn obstacle_with(
        &self,
        values: &Values,
        counts: &Counts,
        domains: &[u32],
        on_host: impl Fn(CounterId) -> u32,
    ) -> Option<Obstacle> {
        self.obstacle_by(values, |_, _, rule| match rule.place {
            CountedBy::Host => Some(on_host(rule.counter)),
            CountedBy::Key(key) => {
                let domain = domains.get(key).copied().filter(|domain| *domain != ABSENT)?;
                Some(counts.of(rule.counter, key, domain))
            }
        })
    }

    // `count` tells how many pods a rule of a list counts, `None` where the node lacks the key.
    fn obstacle_by(&self, values: &Values, count: impl Fn(RuleList, usize, &Rule) -> Option<u32>) -> Option<Obstacle> {
        for (at, (spread, least)) in self.spread.iter().zip(&values.least).enumerate() {
            let Some(count) = count(RuleList::Spread, at, &spread.rule) else { return Some(Obstacle::SpreadKey) };
            let with = count.saturating_add(u32::from(spread.rule.counts_self));
            if with.saturating_sub(*least) > spread.max_skew {
                return Some(Obstacle::Spread);
            }
        }
        if values.is_indifferent {
            return None;
        }
        let mut exists = true;
        for (at, rule) in self.affinity.iter().enumerate() {
            match count(RuleList::Affinity, at, rule) {
                None => return Some(Obstacle::PodAffinity),
                Some(count) => exists &= count > 0,
            }
        }
        if !exists && !values.is_first {
            return Some(Obstacle::PodAffinity);
        }
        for (at, rule) in self.anti_affinity.iter().enumerate() {
            if count(RuleList::AntiAffinity, at, rule).is_some_and(|count| count > 0) {
                let other = Obstacle::ExistingAntiAffinity;
                return Some(if rule.is_others { other } else { Obstacle::PodAntiAffinity });
            }
        }
        None
    }
}

// === impl SpreadRule ===

impl SpreadRule {
    // What the rule takes for the least count, where it is over so many domains.
    fn least(&self, least: u32, domains: u32) -> u32 {
        if domains < self.min_domains { 0 } else { least }
    }
}
