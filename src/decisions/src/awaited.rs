//! Pods that are decided to come to a node and are not there: who is bound counts on none of them. One may wait for room until a
//! budget lets somebody go, and what needs it beside itself, or a spread that it would even out, would not hold until then.

use std::collections::{BTreeMap, BTreeSet};

use berth_state::{NodeRecord, PodRecord, State};
use k8s_openapi::api::core::v1::{PodAffinityTerm, TopologySpreadConstraint};

use crate::leaving::is_in_scope;

const NOBODY: &BTreeMap<&str, u32> = &BTreeMap::new();

/// Who is yet to come, each with its node, and how many are there.
#[derive(Debug)]
pub(crate) struct Awaited<'s> {
    state: &'s State,
    coming: Vec<(&'s PodRecord, &'s NodeRecord)>,
    counted: Vec<Counted<'s>>,
    /// Who is bound with the same decision.
    bound: Vec<(&'s PodRecord, &'s NodeRecord)>,
}

/// A required rule of a pod about others.
#[derive(Clone, Copy, Debug)]
enum Rule<'s> {
    Affinity(&'s PodAffinityTerm),
    Spread(&'s TopologySpreadConstraint),
}

/// By domain: the pods that a rule is about, of those that are there.
#[derive(Debug)]
struct Counted<'s> {
    of: &'s PodRecord,
    rule: Rule<'s>,
    by_domain: BTreeMap<&'s str, u32>,
}

// === impl Rule ===

impl<'s> Rule<'s> {
    /// Those of a pod.
    fn of(pod: &'s PodRecord) -> impl Iterator<Item = Rule<'s>> {
        let spec = pod.spec();
        let affinity = spec.and_then(|spec| spec.affinity.as_ref()?.pod_affinity.as_ref());
        let affinity = affinity.and_then(|own| own.required_during_scheduling_ignored_during_execution.as_ref());
        let spreads = spec.and_then(|spec| spec.topology_spread_constraints.as_ref()).into_iter().flatten();
        let spreads = spreads.filter(|spread| spread.when_unsatisfiable == "DoNotSchedule");
        affinity.into_iter().flatten().map(Rule::Affinity).chain(spreads.map(Rule::Spread))
    }

    fn topology_key(self) -> &'s str {
        match self {
            Rule::Affinity(term) => &term.topology_key,
            Rule::Spread(spread) => &spread.topology_key,
        }
    }

    /// Whether it is about another pod.
    fn is_about(self, pod: &PodRecord, other: &PodRecord, state: &State) -> bool {
        let (selector, keys) = match self {
            Rule::Affinity(term) => (&term.label_selector, &term.match_label_keys),
            Rule::Spread(spread) => (&spread.label_selector, &spread.match_label_keys),
        };
        // Asked of every pod that there is: most are of another namespace.
        if matches!(self, Rule::Spread(_)) && pod.namespace() != other.namespace() {
            return false;
        }
        let value = |of: &PodRecord, key: &String| of.labels().and_then(|labels| labels.get(key).cloned());
        let mut keys = keys.iter().flatten().filter(|key| value(pod, key).is_some());
        selector.as_ref().is_some_and(|selector| other.is_selected_by(selector))
            && keys.all(|key| value(pod, key) == value(other, key))
            && match self {
                Rule::Affinity(term) => is_in_scope(state, term, pod, other),
                Rule::Spread(_) => true,
            }
    }

    /// Whether it looks at a node: a spread leaves those out that the pod's node selector leaves out, unless it says otherwise.
    fn counts_on(self, pod: &PodRecord, node: &NodeRecord) -> bool {
        let Rule::Spread(spread) = self else { return true };
        let selector = pod.spec().and_then(|spec| spec.node_selector.as_ref());
        spread.node_affinity_policy.as_deref() == Some("Ignore")
            || selector.into_iter().flatten().all(|(key, value)| node.label(key) == Some(value))
    }

    fn is_same(self, other: Rule<'_>) -> bool {
        match (self, other) {
            (Rule::Affinity(one), Rule::Affinity(another)) => std::ptr::eq(one, another),
            (Rule::Spread(one), Rule::Spread(another)) => std::ptr::eq(one, another),
            _ => false,
        }
    }
}

// === impl Awaited ===

impl<'s> Awaited<'s> {
    /// Those who come to these nodes, by namespace and name, and name of the node.
    pub(crate) fn of<'n>(state: &'s State, coming: impl Iterator<Item = (&'n str, &'n str, &'n str)>) -> Self {
        let coming = coming.filter_map(|(namespace, name, node)| find(state, (namespace, name), node)).collect();
        Awaited { state, coming, counted: Vec::new(), bound: Vec::new() }
    }

    /// Whether there are none.
    pub(crate) fn is_empty(&self) -> bool {
        self.coming.is_empty()
    }

    /// Takes in that a pod comes to a node now, if its rules hold there without those who are awaited; whether they do.
    pub(crate) fn let_come(&mut self, (namespace, name): (&str, &str), node: &str) -> bool {
        let Some((pod, node)) = find(self.state, (namespace, name), node) else { return true };
        let holds = Rule::of(pod).all(|rule| self.holds(pod, node, rule));
        if holds {
            for counted in &mut self.counted {
                counted.add(pod, node, self.state);
            }
            self.bound.push((pod, node));
        }
        holds
    }

    fn holds(&mut self, pod: &'s PodRecord, node: &'s NodeRecord, rule: Rule<'s>) -> bool {
        let key = rule.topology_key();
        let Some(own) = node.label(key) else { return true };
        let coming = self.coming.iter().filter(|(other, of)| {
            rule.is_about(pod, other, self.state) && (node.name() == of.name() || rule.counts_on(pod, of))
        });
        let mut coming = coming.filter_map(|(_, of)| of.label(key)).peekable();
        if coming.peek().is_none() {
            return true;
        }
        let domains: Vec<&str> = coming.collect();
        let state = self.state;
        let there = self.counted(pod, rule);
        let count = |domain: &str| there.get(domain).copied().unwrap_or_default();
        let counts_itself = rule.is_about(pod, pod, state);
        match rule {
            // The first of those that want to be together need nobody.
            Rule::Affinity(_) => {
                !domains.contains(&own) || count(own) > 0 || (counts_itself && there.values().all(|count| *count == 0))
            }
            Rule::Spread(spread) => {
                let would_be = count(own).saturating_add(u32::from(counts_itself));
                let most = u32::try_from(spread.max_skew).unwrap_or_default();
                domains.iter().all(|domain| *domain == own || would_be <= count(domain).saturating_add(most))
            }
        }
    }

    // It is asked for where somebody is awaited whom the rule is about, and once for all alike.
    fn counted(&mut self, pod: &'s PodRecord, rule: Rule<'s>) -> &BTreeMap<&'s str, u32> {
        let is_alike = |known: &Counted<'_>| {
            known.rule.is_same(rule) && known.of.namespace() == pod.namespace() && known.of.labels() == pod.labels()
        };
        let at = self.counted.iter().position(is_alike).unwrap_or_else(|| {
            let state = self.state;
            let mut counted = Counted { of: pod, rule, by_domain: BTreeMap::new() };
            let leaving: BTreeSet<&str> = state.leaving_nodes().collect();
            for node in state.nodes().filter(|node| !leaving.contains(&**node.name())) {
                for other in state.pods_on(node.name()).filter(|other| other.deletion().is_none()) {
                    counted.add(other, node, state);
                }
            }
            for (other, node) in &self.bound {
                counted.add(other, node, state);
            }
            self.counted.push(counted);
            self.counted.len() - 1
        });
        self.counted.get(at).map_or(NOBODY, |counted| &counted.by_domain)
    }
}

// === impl Counted ===

impl<'s> Counted<'s> {
    fn add(&mut self, other: &PodRecord, node: &'s NodeRecord, state: &State) {
        if let Some(domain) = node.label(self.rule.topology_key())
            && !other.has_ended()
            && self.rule.is_about(self.of, other, state)
        {
            *self.by_domain.entry(domain).or_default() += 1;
        }
    }
}

fn find<'s>(state: &'s State, (namespace, name): (&str, &str), node: &str) -> Option<(&'s PodRecord, &'s NodeRecord)> {
    Some((&**state.pod(namespace, name)?, &**state.node(node)?))
}
