//! What a class asks of topology, with its rules sorted by where they are counted: by the domains of a key, or by node.

use std::collections::BTreeMap;
use std::sync::Arc;

use berth_model::{ClassId, Constraint, CounterId, FilterId, PodSpec, Snapshot, Sym, first_untolerated};
use fixedbitset::FixedBitSet;
use smallvec::SmallVec;

use super::discount::Discount;
use super::domains::{DomainSizes, Domains};
use super::launchable::{EmptyHost, Launchable};
use super::tables::Tables;

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
    pub(super) counts_self: bool,
    /// Whether it is another pod's rule.
    pub(super) is_others: bool,
}

#[derive(Clone, Debug)]
pub(super) struct SpreadRule {
    pub(super) rule: Rule,
    pub(super) max_skew: u32,
    pub(super) min_domains: u32,
    /// The domains that the least count is taken over; of a key.
    pub(super) eligible: FixedBitSet,
    /// By node: the domains, as [`Shape::domains_of`] has them, of nodes without any pod that could be launched for the class.
    pub(super) empty_hosts: Vec<SmallVec<[u32; 2]>>,
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
    pub(super) affinity: Vec<Rule>,
    pub(super) anti_affinity: Vec<Rule>,
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
    pub(super) tallies: Vec<Option<(usize, BTreeMap<u32, u32>)>>,
    pub(super) eligible: Vec<FixedBitSet>,
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

    /// Whether the class is the first of its own affinity, and chooses the domain for all that follow.
    pub(super) fn chooses_home(&self, state: &Snapshot) -> bool {
        !self.affinity.is_empty()
            && self.affinity.iter().all(|rule| rule.counts_self && self.total(state, rule.counter) == 0)
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
