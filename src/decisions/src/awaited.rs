//! Pods that are decided to come to a node and are not there: who is bound counts on none of them. One may wait for room until a
//! budget lets somebody go, and what needs it beside itself, or a spread that it would even out, would not hold until then.
//! And pods that are there yet: they run on nodes that go away, and a spread counts them for as long as they do.

use std::collections::{BTreeMap, BTreeSet};

use berth_quantity::Operator;
use berth_state::{NodeRecord, PodRecord, State};
use k8s_openapi::api::core::v1::{
    NodeSelectorRequirement, NodeSelectorTerm, PodAffinityTerm, PodSpec, TopologySpreadConstraint,
};

use crate::leaving::{is_in_scope, until_it_leaves};

const NOBODY: &BTreeMap<&str, u32> = &BTreeMap::new();

/// Who is yet to come, each with its node, who runs yet on a node that goes away, and how many others are there.
#[derive(Debug)]
pub(crate) struct Awaited<'s> {
    state: &'s State,
    coming: Vec<(&'s PodRecord, &'s NodeRecord)>,
    leaving: &'s [(&'s PodRecord, &'s NodeRecord)],
    counted: Vec<Counted<'s>>,
    /// Who is bound with the same decision.
    bound: Vec<(&'s PodRecord, &'s NodeRecord)>,
}

/// A required rule of a pod about others.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Rule<'s> {
    Affinity(&'s PodAffinityTerm),
    Spread(&'s TopologySpreadConstraint),
}

/// By domain that a rule looks at: the pods that it is about, of those that are there.
#[derive(Debug)]
struct Counted<'s> {
    of: &'s PodRecord,
    rule: Rule<'s>,
    by_domain: BTreeMap<&'s str, u32>,
}

/// Pods that run yet on nodes of a domain which go away.
#[derive(Clone, Copy, Debug)]
struct Leavers<'s> {
    count: u32,
    first: (&'s PodRecord, &'s NodeRecord),
}

// === impl Rule ===

impl<'s> Rule<'s> {
    /// Those of a pod.
    pub(crate) fn of(pod: &'s PodRecord) -> impl Iterator<Item = Rule<'s>> {
        let spec = pod.spec();
        let affinity = spec.and_then(|spec| spec.affinity.as_ref()?.pod_affinity.as_ref());
        let affinity = affinity.and_then(|own| own.required_during_scheduling_ignored_during_execution.as_ref());
        let spreads = spec.and_then(|spec| spec.topology_spread_constraints.as_ref()).into_iter().flatten();
        let spreads = spreads.filter(|spread| spread.when_unsatisfiable == "DoNotSchedule");
        affinity.into_iter().flatten().map(Rule::Affinity).chain(spreads.map(Rule::Spread))
    }

    /// The label that makes its domains.
    pub(crate) fn topology_key(self) -> &'s str {
        match self {
            Rule::Affinity(term) => &term.topology_key,
            Rule::Spread(spread) => &spread.topology_key,
        }
    }

    /// Whether it is about another pod.
    pub(crate) fn is_about(self, pod: &PodRecord, other: &PodRecord, state: &State) -> bool {
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

    /// Whether it looks at a node: a spread leaves those out that the pod may not go to by its node selector and affinity, unless
    /// it says otherwise.
    fn counts_on(self, pod: &PodRecord, node: &NodeRecord) -> bool {
        let Rule::Spread(spread) = self else { return true };
        spread.node_affinity_policy.as_deref() == Some("Ignore") || pod.spec().is_none_or(|spec| admits(spec, node))
    }

    fn words(self) -> String {
        match self {
            Rule::Affinity(_) => "required affinity".to_owned(),
            Rule::Spread(spread) => format!("topology spread over {}", spread.topology_key),
        }
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
    /// Those who come to these nodes, by namespace and name, and name of the node; and those who run yet on nodes that go away.
    pub(crate) fn of<'n>(
        state: &'s State,
        coming: impl Iterator<Item = (&'n str, &'n str, &'n str)>,
        leaving: &'s [(&'s PodRecord, &'s NodeRecord)],
    ) -> Self {
        let coming = coming.filter_map(|(namespace, name, node)| find(state, (namespace, name), node)).collect();
        Awaited { state, coming, leaving, counted: Vec::new(), bound: Vec::new() }
    }

    /// Whether there are none of either.
    pub(crate) fn is_empty(&self) -> bool {
        self.coming.is_empty() && self.leaving.is_empty()
    }

    /// Takes in that a pod comes to a node now, if its rules hold there without those who are awaited and beside those who run
    /// yet; else what it waits for.
    pub(crate) fn let_come(&mut self, (namespace, name): (&str, &str), node: &str) -> Result<(), String> {
        let Some((pod, node)) = find(self.state, (namespace, name), node) else { return Ok(()) };
        for rule in Rule::of(pod) {
            self.expect_others(pod, node, rule)?;
            self.expect_room_beside_leaving(pod, node, rule)?;
        }
        for counted in &mut self.counted {
            counted.add(pod, node, self.state);
        }
        self.bound.push((pod, node));
        Ok(())
    }

    /// Whether a rule holds without those who are yet to come. A spread may hold for as long as those run who leave, too, as for
    /// kube-scheduler: a budget may keep them there until this pod has come.
    fn expect_others(&mut self, pod: &'s PodRecord, node: &'s NodeRecord, rule: Rule<'s>) -> Result<(), String> {
        let (state, key) = (self.state, rule.topology_key());
        let Some(own) = node.label(key) else { return Ok(()) };
        let is_meant = |(other, of): &&(&'s PodRecord, &'s NodeRecord)| {
            rule.is_about(pod, other, state) && (node.name() == of.name() || rule.counts_on(pod, of))
        };
        let coming = self.coming.iter().filter(is_meant).copied();
        let coming: Vec<_> = coming.filter_map(|(other, of)| Some((of.label(key)?, other, of))).collect();
        if coming.is_empty() {
            return Ok(());
        }
        let on_leaving = self.leaving;
        let there = self.counted(pod, rule);
        let count = |domain: &str| there.get(domain).copied().unwrap_or_default();
        let counts_itself = rule.is_about(pod, pod, state);
        let awaited = match rule {
            // The first of those that want to be together need nobody.
            Rule::Affinity(_) => {
                // Who runs yet on a node that goes away is there for kube-scheduler.
                let run_yet = || on_leaving.iter().filter(|(other, _)| rule.is_about(pod, other, state));
                let is_alone = run_yet().next().is_none();
                let is_beside = run_yet().any(|(_, of)| of.label(key) == Some(own));
                let is_first = counts_itself && is_alone && there.values().all(|count| *count == 0);
                coming.iter().find(|(domain, ..)| *domain == own && count(own) == 0 && !is_beside && !is_first)
            }
            Rule::Spread(spread) => {
                let would_be = count(own).saturating_add(u32::from(counts_itself));
                let most = u32::try_from(spread.max_skew).unwrap_or_default();
                let is_least = |domain: &str| would_be > count(domain).saturating_add(most);
                coming.iter().find(|(domain, ..)| *domain != own && is_least(domain))
            }
        };
        let Some((_, other, of)) = awaited else { return Ok(()) };
        let leaving = self.leaving_of(pod, rule);
        if !leaving.is_empty() && self.holds_beside(&leaving, pod, node, rule) {
            return Ok(());
        }
        let (namespace, name) = (other.namespace(), other.name());
        Err(format!("waiting for pod {namespace}/{name} to come to node {}: {}", of.name(), rule.words()))
    }

    /// Whether a spread holds for as long as those run who leave. Where some of them are beside the pod, all who run count, as
    /// they do for kube-scheduler.
    fn expect_room_beside_leaving(
        &mut self,
        pod: &'s PodRecord,
        node: &'s NodeRecord,
        rule: Rule<'s>,
    ) -> Result<(), String> {
        let Some(own) = node.label(rule.topology_key()) else { return Ok(()) };
        let leaving = self.leaving_of(pod, rule);
        let Some(&Leavers { first: (beside, of), .. }) = leaving.get(own) else { return Ok(()) };
        let holds = self.holds_beside(&leaving, pod, node, rule);
        if holds { Ok(()) } else { Err(until_it_leaves(beside, of, &rule.words())) }
    }

    /// Whether a spread holds with all who run: those who leave, too, and the domains of their nodes.
    fn holds_beside(
        &mut self,
        leaving: &BTreeMap<&'s str, Leavers<'s>>,
        pod: &'s PodRecord,
        node: &'s NodeRecord,
        rule: Rule<'s>,
    ) -> bool {
        let (Rule::Spread(spread), Some(own)) = (rule, node.label(rule.topology_key())) else { return true };
        let counts_itself = rule.is_about(pod, pod, self.state);
        let mut counts = self.counted(pod, rule).clone();
        for (domain, leaving) in leaving {
            *counts.entry(domain).or_default() += leaving.count;
        }
        let wants_more = |least: i32| usize::try_from(least).is_ok_and(|least| least > counts.len());
        let least = counts.values().min().filter(|_| !spread.min_domains.is_some_and(wants_more));
        let most =
            least.copied().unwrap_or_default().saturating_add(u32::try_from(spread.max_skew).unwrap_or_default());
        counts.get(own).copied().unwrap_or_default().saturating_add(u32::from(counts_itself)) <= most
    }

    /// By domain: those who run yet on nodes that go away and whom a spread counts there.
    fn leaving_of(&self, pod: &PodRecord, rule: Rule<'_>) -> BTreeMap<&'s str, Leavers<'s>> {
        let mut by_domain: BTreeMap<&str, Leavers<'_>> = BTreeMap::new();
        let Rule::Spread(spread) = rule else { return by_domain };
        // Nodes that go away have a taint.
        if spread.node_taints_policy.as_deref() == Some("Honor") {
            return by_domain;
        }
        let is_meant = |(other, of): &&(&'s PodRecord, &'s NodeRecord)| {
            other.deletion().is_none() && rule.is_about(pod, other, self.state) && rule.counts_on(pod, of)
        };
        for known in self.leaving.iter().filter(is_meant) {
            let Some(domain) = known.1.label(&spread.topology_key) else { continue };
            by_domain.entry(domain).or_insert(Leavers { count: 0, first: *known }).count += 1;
        }
        by_domain
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
            for node in state.nodes().filter(|node| rule.counts_on(pod, node)) {
                let Some(domain) = node.label(rule.topology_key()) else { continue };
                counted.by_domain.entry(domain).or_default();
                if leaving.contains(&**node.name()) {
                    continue;
                }
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
            && self.rule.counts_on(self.of, node)
        {
            *self.by_domain.entry(domain).or_default() += 1;
        }
    }
}

/// Whether a node is one that a pod may go to by its node selector and its required node affinity.
fn admits(spec: &PodSpec, node: &NodeRecord) -> bool {
    let mut selector = spec.node_selector.iter().flatten();
    let affinity = spec.affinity.as_ref().and_then(|affinity| affinity.node_affinity.as_ref());
    let required = affinity.and_then(|own| own.required_during_scheduling_ignored_during_execution.as_ref());
    selector.all(|(key, value)| node.label(key) == Some(value))
        && required.is_none_or(|required| required.node_selector_terms.iter().any(|term| meets(term, node)))
}

fn meets(term: &NodeSelectorTerm, node: &NodeRecord) -> bool {
    let of_label = |asked: &NodeSelectorRequirement| is_met(asked, node.label(&asked.key));
    let of_field = |asked: &NodeSelectorRequirement| is_met(asked, Some(node.name()));
    let (expressions, fields) = (term.match_expressions.as_deref(), term.match_fields.as_deref());
    let (expressions, fields) = (expressions.unwrap_or_default(), fields.unwrap_or_default());
    // A term that asks for nothing is met by none.
    expressions.len() + fields.len() > 0 && expressions.iter().all(of_label) && fields.iter().all(of_field)
}

fn is_met(asked: &NodeSelectorRequirement, value: Option<&str>) -> bool {
    let operator = asked.operator.parse::<Operator>();
    operator.is_ok_and(|operator| operator.admits(asked.values.as_deref().unwrap_or_default(), value))
}

fn find<'s>(state: &'s State, (namespace, name): (&str, &str), node: &str) -> Option<(&'s PodRecord, &'s NodeRecord)> {
    Some((&**state.pod(namespace, name)?, &**state.node(node)?))
}
