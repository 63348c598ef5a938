//! What a class asks of topology, with its rules sorted by where they are counted: by the domains of a key, or by node.

use std::collections::BTreeMap;
use std::sync::Arc;

use berth_model::{ClassId, Constraint, CounterId, FilterId, PodSpec, Snapshot, Sym, first_untolerated};
use fixedbitset::FixedBitSet;
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use super::discount::Discount;
use super::domains::{DomainSizes, Domains};
use super::launchable::{EmptyHost, Launchable};
use super::tables::Tables;
use crate::filter::Obstacle;

/// A key with no more domains, as zones are, has its domains told apart.
const FEW_DOMAINS: usize = 16;
/// No such label.
pub(super) const ABSENT: u32 = u32::MAX;

/// Where a counter's pods are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CountedBy {
    /// By node.
    Host,
    /// By the domains of the key at this position of [`Shape::keys`].
    Key(usize),
}

#[derive(Clone, Debug)]
pub(super) struct Rule {
    pub(super) counter: CounterId,
    pub(super) place: CountedBy,
    counts_self: bool,
    /// Whether it is another pod's rule.
    is_others: bool,
}

#[derive(Clone, Debug)]
pub(super) struct SpreadRule {
    pub(super) rule: Rule,
    pub(super) max_skew: u32,
    min_domains: u32,
    /// The domains that the least count is taken over; of a key.
    eligible: FixedBitSet,
    /// By node: the domains, as [`Shape::domains_of`] has them, of nodes without any pod that could be launched for the class.
    empty_hosts: Vec<SmallVec<[u32; 2]>>,
}

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

/// What a class asks of topology.
#[derive(Clone, Debug)]
pub(super) struct Shape {
    pub(super) class: ClassId,
    pub(super) spec: Arc<PodSpec>,
    /// The keys that its rules and scores look at, the host name aside.
    pub(super) keys: Vec<Sym>,
    domains: Vec<Arc<Domains>>,
    /// Counters by node that decide or score, and whether their exact count matters.
    pub(super) hosts: Vec<(CounterId, bool)>,
    pub(super) spread: Vec<SpreadRule>,
    affinity: Vec<Rule>,
    anti_affinity: Vec<Rule>,
    pub(super) soft: Vec<SpreadRule>,
    /// Whether nodes without one of the keys of `soft` count for none of it.
    pub(super) soft_needs_all_keys: bool,
    pub(super) drawn: Vec<(CounterId, CountedBy, i64)>,
    /// Pods in `state` that do not count for the class.
    pub(super) discount: Discount,
}

/// Pods by domain, of each counter on a key that rules and scores read.
#[derive(Clone, Debug)]
pub(super) struct Counts {
    /// The counters, each with the position of its key.
    pub(super) counters: Vec<(CounterId, usize)>,
    /// By counter and domain.
    pods: Vec<Vec<u32>>,
    /// By spread rule on a key: how many of the domains that it looks at have how many pods; with its counter's position.
    tallies: Vec<Option<(usize, BTreeMap<u32, u32>)>>,
    eligible: Vec<FixedBitSet>,
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

impl Shape {
    /// What a class asks, which has this spec as far as nodes matter. `keys` come first, asked for or not.
    pub(super) fn new(tables: &Tables<'_>, id: ClassId, as_spec: Arc<PodSpec>, keys: Vec<Sym>) -> Option<Self> {
        let Tables { nodes, domains: sizes, launchable, .. } = tables;
        let (cluster, universe) = (nodes.cluster, nodes.universe);
        let class = universe.class(id)?;
        let spec = cluster.spec(class.spec)?;
        let mut shape = Shape {
            class: id,
            spec: as_spec,
            keys,
            domains: Vec::new(),
            hosts: Vec::new(),
            spread: Vec::new(),
            affinity: Vec::new(),
            anti_affinity: Vec::new(),
            soft: Vec::new(),
            soft_needs_all_keys: class.preferred.default_spread.is_empty() || cluster.default_spread.needs_all_keys,
            drawn: Vec::new(),
            discount: Discount::default(),
        };
        let place = |shape: &mut Self, counter: CounterId| -> Option<(CountedBy, bool)> {
            let counter = universe.counter(counter)?;
            if counter.key == cluster.well_known.hostname {
                return Some((CountedBy::Host, counter.counts_owners));
            }
            let at = shape.keys.iter().position(|key| *key == counter.key).unwrap_or_else(|| {
                shape.keys.push(counter.key);
                shape.keys.len() - 1
            });
            Some((CountedBy::Key(at), counter.counts_owners))
        };
        // A pod has constraints of its own, or those of all.
        let soft = || class.preferred.spread.iter().chain(&class.preferred.default_spread);
        for constraint in class.required.iter().chain(soft()) {
            place(&mut shape, constraint.counter())?;
        }
        for &(counter, weight) in &class.drawn {
            let (place, _) = place(&mut shape, counter)?;
            shape.drawn.push((counter, place, weight));
        }
        shape.domains = shape.keys.iter().map(|key| sizes.numbered(*key)).collect();
        for (constraint, is_required) in class.required.iter().map(|c| (c, true)).chain(soft().map(|c| (c, false))) {
            let (place, is_others) = place(&mut shape, constraint.counter())?;
            let rule = |counts_self| Rule { counter: constraint.counter(), place, counts_self, is_others };
            match *constraint {
                Constraint::Affinity { counts_self, .. } => shape.affinity.push(rule(counts_self)),
                Constraint::AntiAffinity { counts_self, .. } => shape.anti_affinity.push(rule(counts_self)),
                Constraint::Spread { counter, max_skew, min_domains, counts_self } => {
                    let filter = universe.counter(counter).and_then(|counter| counter.filter);
                    let eligible = shape.eligible(sizes, launchable, counter, place, filter);
                    let spread = SpreadRule {
                        rule: rule(counts_self),
                        max_skew,
                        min_domains: min_domains.unwrap_or(1),
                        eligible,
                        empty_hosts: shape.empty_hosts(tables, counter, place, spec),
                    };
                    if is_required { &mut shape.spread } else { &mut shape.soft }.push(spread);
                }
            }
        }
        shape.anti_affinity.sort_by_key(|rule| rule.is_others);
        let order = |rule: &SpreadRule| {
            let key = universe.counter(rule.rule.counter).map(|counter| counter.key);
            let mut constraints = spec.spread.iter().filter(|constraint| constraint.is_required);
            constraints.position(|constraint| Some(constraint.key) == key && constraint.max_skew == rule.max_skew)
        };
        shape.spread.sort_by_key(order);
        shape.list_hosts();
        Some(shape)
    }

    /// What a class asks, by its own spec.
    pub(super) fn of(tables: &Tables<'_>, id: ClassId) -> Option<Self> {
        let (_, spec) = tables.class_and_spec(id)?;
        Shape::new(tables, id, Arc::new(spec.clone()), Vec::new())
    }

    /// What remains of it without rules: how it sees nodes, whoever is on them.
    pub(super) fn without_rules(&self) -> Self {
        Shape {
            class: self.class,
            spec: Arc::clone(&self.spec),
            keys: self.keys.clone(),
            domains: self.domains.clone(),
            hosts: Vec::new(),
            spread: Vec::new(),
            affinity: Vec::new(),
            anti_affinity: Vec::new(),
            soft: Vec::new(),
            soft_needs_all_keys: self.soft_needs_all_keys,
            drawn: Vec::new(),
            discount: Discount::default(),
        }
    }

    /// Whether what was read with another shape still holds with this one.
    pub(super) fn extends(&self, before: &Shape) -> bool {
        self.keys == before.keys
    }

    fn eligible(
        &self,
        sizes: &DomainSizes,
        launchable: &Launchable,
        counter: CounterId,
        place: CountedBy,
        filter: Option<FilterId>,
    ) -> FixedBitSet {
        let CountedBy::Key(at) = place else { return FixedBitSet::new() };
        let (Some(&key), Some(domains)) = (self.keys.get(at), self.domains.get(at)) else { return FixedBitSet::new() };
        let mut eligible = FixedBitSet::with_capacity(domains.len());
        let launchable = launchable.domains.get(&counter).into_iter().flatten().copied();
        for name in sizes.names(filter, key).chain(launchable) {
            if let Some(id) = domains.id(name) {
                eligible.insert(id as usize);
            }
        }
        eligible
    }

    // Where the class itself could be launched, as far as its own requests and tolerations let it.
    fn empty_hosts(
        &self,
        tables: &Tables<'_>,
        counter: CounterId,
        place: CountedBy,
        spec: &PodSpec,
    ) -> Vec<SmallVec<[u32; 2]>> {
        let known = tables.launchable.hosts.get(&counter).filter(|_| place == CountedBy::Host);
        let cluster = tables.cluster;
        let takes = |host: &&EmptyHost| {
            let pool = cluster.node_pools.get(host.node_pool);
            let is_tolerated = pool.is_some_and(|pool| {
                first_untolerated(&pool.taints, &spec.tolerations, false, &cluster.symbols).is_none()
            });
            is_tolerated && spec.requests.fits(&host.room)
        };
        let domains = |host: &EmptyHost| -> SmallVec<[u32; 2]> {
            let value = |key: &Sym| host.domains.iter().find(|(known, _)| known == key).map(|(_, value)| *value);
            let keys = self.keys.iter().zip(&self.domains);
            keys.map(|(key, domains)| value(key).and_then(|value| domains.id(value)).unwrap_or(ABSENT)).collect()
        };
        let mut found: Vec<_> = known.into_iter().flat_map(|hosts| &**hosts).filter(takes).map(domains).collect();
        found.sort_unstable();
        found.dedup();
        found
    }

    fn list_hosts(&mut self) {
        let mut add = |counter: CounterId, is_exact: bool| match self.hosts.iter_mut().find(|(c, _)| *c == counter) {
            Some((_, exact)) => *exact |= is_exact,
            None => self.hosts.push((counter, is_exact)),
        };
        for spread in self.spread.iter().chain(&self.soft).filter(|spread| spread.rule.place == CountedBy::Host) {
            add(spread.rule.counter, true);
        }
        for rule in self.affinity.iter().filter(|rule| rule.place == CountedBy::Host) {
            add(rule.counter, false);
        }
        for (counter, _, _) in self.drawn.iter().filter(|(_, place, _)| *place == CountedBy::Host) {
            add(*counter, true);
        }
    }

    /// The domain of a node for each key.
    pub(super) fn domains_of(&self, node: &berth_model::Node) -> SmallVec<[u32; 2]> {
        let keys = self.keys.iter().zip(&self.domains);
        keys.map(|(key, domains)| node.labels.get(*key).and_then(|name| domains.id(name)).unwrap_or(ABSENT)).collect()
    }

    /// Whether constraints on the node itself keep the class off, whatever is elsewhere.
    pub(super) fn is_kept_apart(&self, count: impl Fn(CounterId) -> u32) -> bool {
        self.anti_affinity.iter().any(|rule| rule.place == CountedBy::Host && count(rule.counter) > 0)
    }

    /// How many pods of a counter there are in each domain of a key.
    pub(super) fn by_domain(&self, state: &Snapshot, counter: CounterId, place: CountedBy) -> Vec<u32> {
        let Some(domains) = (match place {
            CountedBy::Host => None,
            CountedBy::Key(at) => self.domains.get(at),
        }) else {
            return Vec::new();
        };
        let mut counts = vec![0; domains.len()];
        for (name, count) in state.domains(counter) {
            if let Some(id) = domains.id(name) {
                let off = self.discount.by_domain.get(&(counter, name)).copied().unwrap_or(0);
                counts[id as usize] = count.saturating_sub(off);
            }
        }
        counts
    }

    /// How many pods of a counter there are anywhere.
    pub(super) fn total(&self, state: &Snapshot, counter: CounterId) -> u32 {
        let off = self.discount.total.get(&counter).copied().unwrap_or(0);
        state.total(counter).saturating_sub(off)
    }

    /// Whether other pods matter to the class at all.
    pub(super) fn is_free(&self) -> bool {
        self.spread.is_empty()
            && self.affinity.is_empty()
            && self.anti_affinity.is_empty()
            && self.soft.is_empty()
            && self.drawn.is_empty()
    }

    /// Whether a rule reads a counter.
    pub(super) fn minds(&self, counter: CounterId) -> bool {
        let spreads = self.spread.iter().map(|spread| &spread.rule);
        spreads.chain(&self.affinity).chain(&self.anti_affinity).any(|rule| rule.counter == counter)
    }

    /// How many pods of each rule's counter there are anywhere.
    pub(super) fn totals(&self, state: &Snapshot) -> Vec<u32> {
        let spreads = self.spread.iter().map(|spread| &spread.rule);
        let rules = spreads.chain(&self.affinity).chain(&self.anti_affinity);
        rules.map(|rule| self.total(state, rule.counter)).collect()
    }

    /// Counters by node that decide or score.
    pub(super) fn host_counters(&self) -> SmallVec<[CounterId; 2]> {
        let mut counters: SmallVec<[CounterId; 2]> = self.hosts.iter().map(|(id, _)| *id).collect();
        for rule in self.anti_affinity.iter().filter(|rule| rule.place == CountedBy::Host) {
            if !counters.contains(&rule.counter) {
                counters.push(rule.counter);
            }
        }
        counters
    }

    /// The pods on a node of each counter of [`Shape::hosts`], as far as they matter.
    pub(super) fn counts_on_hosts(&self, count: impl Fn(CounterId) -> u32) -> SmallVec<[u32; 2]> {
        let counts = self.hosts.iter().map(|&(counter, is_exact)| (count(counter), is_exact));
        counts.map(|(count, is_exact)| if is_exact { count } else { count.min(1) }).collect()
    }

    /// Whether a spread is counted by node.
    pub(super) fn spreads_over_hosts(&self) -> bool {
        self.spread.iter().any(|spread| spread.rule.place == CountedBy::Host)
    }

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

    /// Whether some rule or score counts pods by the domains of a key.
    pub(super) fn counts_by_key(&self) -> bool {
        self.counters_by_key().next().is_some()
    }

    fn counters_by_key(&self) -> impl Iterator<Item = (CounterId, usize)> + '_ {
        let rules = self.spread.iter().chain(&self.soft).map(|spread| &spread.rule);
        let rules = rules.chain(&self.affinity).chain(&self.anti_affinity).map(|rule| (rule.counter, rule.place));
        let all = rules.chain(self.drawn.iter().map(|&(counter, place, _)| (counter, place)));
        all.filter_map(|(counter, place)| match place {
            CountedBy::Key(at) => Some((counter, at)),
            CountedBy::Host => None,
        })
    }

    /// By key: whether domains with as many pods are alike. Preferred spreads ask how many different ones there are, and where
    /// there are few domains, each has so many cells that it is not worth moving them all with each pod that comes.
    pub(super) fn merges_domains(&self) -> SmallVec<[bool; 2]> {
        let is_soft = |at: usize| self.soft.iter().any(|soft| soft.rule.place == CountedBy::Key(at));
        self.n_domains().enumerate().map(|(at, domains)| domains > FEW_DOMAINS && !is_soft(at)).collect()
    }

    /// By key: how many domains have a number.
    pub(super) fn n_domains(&self) -> impl Iterator<Item = usize> {
        self.domains.iter().map(|domains| domains.len())
    }

    /// The number of a domain of the key at a position.
    pub(super) fn domain(&self, key: usize, name: Sym) -> Option<u32> {
        self.domains.get(key)?.id(name)
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

    /// Whether the class is the first of its own affinity, and chooses the domain for all that follow.
    pub(super) fn chooses_home(&self, state: &Snapshot) -> bool {
        !self.affinity.is_empty()
            && self.affinity.iter().all(|rule| rule.counts_self && self.total(state, rule.counter) == 0)
    }
}

// === impl SpreadRule ===

impl SpreadRule {
    // What the rule takes for the least count, where it is over so many domains.
    fn least(&self, least: u32, domains: u32) -> u32 {
        if domains < self.min_domains { 0 } else { least }
    }
}

// === impl Counts ===

impl Counts {
    /// The pods that a shape's rules and scores count now.
    pub(super) fn new(shape: &Shape, state: &Snapshot) -> Self {
        let mut counters: Vec<(CounterId, usize)> = shape.counters_by_key().collect();
        counters.sort_unstable();
        counters.dedup();
        let pods: Vec<Vec<u32>> =
            counters.iter().map(|&(counter, key)| shape.by_domain(state, counter, CountedBy::Key(key))).collect();
        let tally = |spread: &SpreadRule| {
            let CountedBy::Key(key) = spread.rule.place else { return None };
            let at = counters.binary_search(&(spread.rule.counter, key)).ok()?;
            let mut tally: BTreeMap<u32, u32> = BTreeMap::new();
            for domain in spread.eligible.ones() {
                let count = pods.get(at).and_then(|pods| pods.get(domain)).copied().unwrap_or(0);
                *tally.entry(count).or_default() += 1;
            }
            Some((at, tally))
        };
        Counts {
            tallies: shape.spread.iter().map(tally).collect(),
            eligible: shape.spread.iter().map(|spread| spread.eligible.clone()).collect(),
            counters,
            pods,
        }
    }

    /// The pods of the counter at a position in a domain are so many now. Whether they were not before.
    pub(super) fn set(&mut self, at: usize, domain: u32, count: u32) -> bool {
        let known = self.pods.get_mut(at).and_then(|pods| pods.get_mut(domain as usize));
        let Some(before) = known.map(|known| std::mem::replace(known, count)).filter(|before| *before != count) else {
            return false;
        };
        for (tally, eligible) in self.tallies.iter_mut().zip(&self.eligible) {
            let Some((_, tally)) = tally.as_mut().filter(|(of, _)| *of == at) else { continue };
            if !eligible.contains(domain as usize) {
                continue;
            }
            *tally.entry(count).or_default() += 1;
            if let Some(domains) = tally.get_mut(&before) {
                *domains = domains.saturating_sub(1);
                if *domains == 0 {
                    tally.remove(&before);
                }
            }
        }
        true
    }

    /// The pods of a counter in a domain of the key at a position.
    pub(super) fn of(&self, counter: CounterId, key: usize, domain: u32) -> u32 {
        let at = self.counters.binary_search(&(counter, key)).ok();
        at.and_then(|at| self.pods.get(at)?.get(domain as usize)).copied().unwrap_or(0)
    }

    /// By counter on one of the keys that are asked for: the pods in the one of these domains, by key, that is of its key.
    pub(super) fn in_domains<'c>(&'c self, domains: &'c [u32], of_keys: &'c [bool]) -> impl Iterator<Item = u32> + 'c {
        let counters = self.counters.iter().zip(&self.pods);
        counters.filter(|((_, key), _)| of_keys.get(*key) == Some(&true)).map(|((_, key), pods)| {
            let domain = domains.get(*key).copied().unwrap_or(ABSENT);
            pods.get(domain as usize).copied().unwrap_or(0)
        })
    }
}
