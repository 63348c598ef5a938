//! Pods that prefer some places to others, and what of that holds where they run.

use std::collections::hash_map::Entry;

use berth_model::{
    BoundPod, ClassId, Cluster, Constraint, CounterId, FilterId, Insists, Node, PodClass, PodSpec, PreferencePolicy,
    Sym, Universe,
};
use berth_scheduling::{filter_admits_node, node_label};
use berth_state::{Key, Kind, State, Time};
use rustc_hash::FxHashMap;

use crate::decider::{Decider, Kept};
use crate::decision::DecideError;
use crate::options::expect_synced;

/// A pod that prefers some places to others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Preferring {
    /// The pod.
    pub pod: Key,
    /// The preferences that hold where it is.
    pub holds: Insists,
    /// These, and each spread that reaches two domains at least, however uneven it is.
    pub keeps: Insists,
    /// Those that are about other pods, whether they hold or not.
    pub of_others: Insists,
    /// Those among them that are about who else is on its node.
    pub on_host: Insists,
}

impl Decider {
    /// The pods of these nodes that come again where their node goes and have preferences of their own. A scheduler's default spread
    /// is none, nor is a `PreferNoSchedule` taint.
    ///
    /// # Errors
    /// The state does not know every kind yet.
    pub fn preferring(&mut self, state: &mut State, nodes: &[&str], now: Time) -> Result<Vec<Preferring>, DecideError> {
        expect_synced(state)?;
        self.leave_before_conversion(state, now);
        let tracked = state.tracked(now);
        let cluster = tracked.cluster;
        if cluster.preferences == PreferencePolicy::Ignore {
            return Ok(Vec::new());
        }
        let mut asked: Vec<(usize, &BoundPod)> = Vec::new();
        for at in nodes.iter().filter_map(|node| tracked.position_of(node)) {
            let pods = cluster.nodes.get(at).map_or(&[][..], |node| &node.pods);
            asked.extend(pods.iter().filter(|pod| has_preferences(cluster, pod)).map(|pod| (at, pod)));
        }
        if asked.is_empty() {
            return Ok(Vec::new());
        }
        let kept = self.kept_of(tracked);
        let found = Asked::new(cluster, &kept, &asked).found();
        self.kept = Some(kept);
        Ok(found)
    }
}

fn has_preferences(cluster: &Cluster, pod: &BoundPod) -> bool {
    pod.replaced_by.and_then(|spec| cluster.spec(spec)).is_some_and(PodSpec::has_preferences)
}

/// Pods that are asked about.
struct Asked<'c> {
    cluster: &'c Cluster,
    universe: &'c Universe,
    /// Node, pod, and the class that it has when it comes again.
    pods: Vec<(&'c Node, &'c BoundPod, &'c PodClass)>,
    counts: FxHashMap<CounterId, Counts>,
}

/// The pods of a counter.
#[derive(Default)]
struct Counts {
    /// By domain. Those without pods are named, too, unless domains are nodes.
    by_domain: FxHashMap<Sym, u32>,
    total: u32,
}

/// The nodes that counters look at, by their filter: whether each is one.
type LookedAt = FxHashMap<Option<FilterId>, Vec<bool>>;

// === impl Asked ===

impl<'c> Asked<'c> {
    fn new(cluster: &'c Cluster, kept: &'c Kept, asked: &[(usize, &'c BoundPod)]) -> Self {
        let (classes, universe) = (&kept.classes, kept.classes.universe());
        let of_pod = |&(at, pod): &(usize, &'c BoundPod)| {
            Some((cluster.nodes.get(at)?, pod, universe.class(classes.class_again(pod)?)?))
        };
        let pods: Vec<_> = asked.iter().filter_map(of_pod).collect();
        let (mut counts, mut looked_at): (FxHashMap<CounterId, Counts>, LookedAt) = Default::default();
        for id in pods.iter().flat_map(|(_, _, class)| preferred(class)).map(|constraint| constraint.counter()) {
            let (Some(counter), Entry::Vacant(new)) = (universe.counter(id), counts.entry(id)) else { continue };
            let looked_at = looked_at.entry(counter.filter).or_insert_with(|| {
                let filter = counter.filter.and_then(|filter| universe.filter(filter));
                let admits = |node| filter.is_none_or(|filter| filter_admits_node(cluster, node, filter));
                cluster.nodes.iter().map(|node| !node.is_coming_up && admits(node)).collect()
            });
            let counts = new.insert(Counts::default());
            if counter.key != cluster.well_known.hostname {
                let nodes = cluster.nodes.iter().zip(&*looked_at).filter(|(_, is_one)| **is_one);
                let domains = nodes.filter_map(|(node, _)| node_label(cluster, node, counter.key));
                let domains = domains.chain(kept.scheduler.launchable_domains(id));
                counts.by_domain.extend(domains.map(|domain| (domain, 0)));
            }
        }
        // By class, which of the counters its pods count in.
        let mut of_class: FxHashMap<ClassId, Vec<CounterId>> = FxHashMap::default();
        for (at, (node, ids)) in cluster.nodes.iter().zip(&universe.bound).enumerate() {
            for (pod, id) in node.pods.iter().zip(ids) {
                let counts_in = of_class.entry(*id).or_insert_with(|| {
                    let all = universe.class(*id).map_or(&[][..], |class| &class.counts_in);
                    all.iter().copied().filter(|counter| counts.contains_key(counter)).collect()
                });
                for counter in counts_in.iter() {
                    let Some(known) = universe.counter(*counter) else { continue };
                    if known.skips_terminating && pod.is_terminating() {
                        continue;
                    }
                    let is_looked_at = looked_at.get(&known.filter).and_then(|nodes| nodes.get(at)) == Some(&true);
                    let domain = node_label(cluster, node, known.key).filter(|_| is_looked_at);
                    if let Some((counts, domain)) = counts.get_mut(counter).zip(domain) {
                        let count = counts.by_domain.entry(domain).or_default();
                        *count = count.saturating_add(1);
                        counts.total = counts.total.saturating_add(1);
                    }
                }
            }
        }
        Asked { cluster, universe, pods, counts }
    }

    fn found(&self) -> Vec<Preferring> {
        let of_pod = |(node, pod, class): &(&Node, &BoundPod, &PodClass)| {
            let spec = self.cluster.spec(class.spec)?;
            let [mut holds, mut keeps, mut of_others, mut on_host] = [Insists::default(); 4];
            let [of_node, first, ..] = spec.places_of_preferences();
            let meets = |term| node.satisfies(term, &self.cluster.symbols, |key| node_label(self.cluster, node, key));
            if spec.heaviest_term().is_some_and(meets) {
                (holds, keeps) = (holds.with(of_node), keeps.with(of_node));
            }
            for (place, constraint) in (first..).zip(preferred(class)) {
                of_others = of_others.with(place);
                let does_hold = self.holds(constraint, node);
                if does_hold {
                    holds = holds.with(place);
                }
                if does_hold || self.is_spread_out(constraint) {
                    keeps = keeps.with(place);
                }
                if self.is_about_hosts(constraint.counter()) {
                    on_host = on_host.with(place);
                }
            }
            let pod = Key::new(Kind::Pod, self.cluster.symbols.text(pod.namespace), &pod.name);
            Some(Preferring { pod, holds, keeps, of_others, on_host })
        };
        self.pods.iter().filter_map(of_pod).collect()
    }

    fn is_about_hosts(&self, counter: CounterId) -> bool {
        self.universe.counter(counter).is_some_and(|known| known.key == self.cluster.well_known.hostname)
    }

    /// Whether there are pods of a spread in two domains at least.
    fn is_spread_out(&self, constraint: Constraint) -> bool {
        let counts = self.counts.get(&constraint.counter()).filter(|_| matches!(constraint, Constraint::Spread { .. }));
        counts.is_some_and(|counts| counts.by_domain.values().filter(|count| **count > 0).nth(1).is_some())
    }

    /// Whether a preference of a pod holds on the node where it is.
    fn holds(&self, constraint: Constraint, node: &Node) -> bool {
        let counter = constraint.counter();
        let (Some(known), Some(counts)) = (self.universe.counter(counter), self.counts.get(&counter)) else {
            return false;
        };
        let Some(domain) = node_label(self.cluster, node, known.key) else { return false };
        let is_of_hosts = self.is_about_hosts(counter);
        let count = counts.by_domain.get(&domain).copied();
        let Some(count) = count.or(is_of_hosts.then_some(0)) else { return false };
        let others = |counts_self: bool| count.saturating_sub(u32::from(counts_self));
        match constraint {
            Constraint::AntiAffinity { counts_self, .. } => others(counts_self) == 0,
            Constraint::Affinity { counts_self, .. } => others(counts_self) > 0 || (counts_self && counts.total <= 1),
            Constraint::Spread { max_skew, .. } => {
                // A node that is launched has none.
                let least = if is_of_hosts { None } else { counts.by_domain.values().copied().min() };
                let least = least.unwrap_or(0);
                count.saturating_sub(least) <= max_skew
            }
        }
    }
}

/// What a class prefers of others' places, as [`PodSpec::places_of_preferences`] has it from the second on.
fn preferred(class: &PodClass) -> impl Iterator<Item = Constraint> {
    let preferred = &class.preferred;
    let weighted = preferred.affinity.iter().chain(&preferred.anti_affinity).map(|(_, constraint)| *constraint);
    weighted.chain(preferred.spread.iter().copied())
}
