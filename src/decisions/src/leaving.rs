//! Pods that a decision counts as gone and that run still: those on nodes that are going away, and those that are to give way.
//! A node that goes is no capacity any more and its pods are planned as they are made anew, so the cluster has neither; who gives
//! way is off its node once it is chosen. But until they have stopped, rules among pods hold with them as with any others.

use std::sync::Arc;

use berth_state::{NodeRecord, PodRecord, State};
use k8s_openapi::api::core::v1::{Namespace, PersistentVolumeClaim, PodAffinityTerm};

const HOSTNAME: &str = "kubernetes.io/hostname";

/// Pods that still run, and are counted as gone, each with its node.
#[derive(Debug)]
pub(crate) struct Leaving<'s> {
    state: &'s State,
    /// Those with a rule of their own that may keep others off: a pod without rules is compared with these alone.
    with_rules: Vec<(&'s PodRecord, &'s NodeRecord)>,
    others: Vec<(&'s PodRecord, &'s NodeRecord)>,
    /// Those on nodes that go away.
    on_nodes: Vec<(&'s PodRecord, &'s NodeRecord)>,
    /// Those who are to give way: a budget may keep them where they are after all.
    giving_way: Vec<(&'s PodRecord, &'s NodeRecord)>,
    /// Those who come with the same decision and have to be beside nobody, each with its node: others may count on them.
    coming: Vec<(&'s PodRecord, &'s NodeRecord)>,
}

// === impl Leaving ===

impl<'s> Leaving<'s> {
    /// Those of a state, and those of these names (`namespace/name`) who are to give way. It takes as long as there are nodes
    /// that go away.
    pub(crate) fn of<'n>(state: &'s State, giving_way: impl Iterator<Item = &'n str>) -> Self {
        let nodes = state.leaving_nodes().filter_map(|name| state.node(name));
        let on_nodes = nodes.flat_map(|node| state.pods_on(node.name()).map(move |pod| (&**pod, &**node)));
        let giving_way = giving_way.filter_map(|name| {
            let (namespace, name) = name.split_once('/')?;
            let pod = state.pod(namespace, name)?;
            Some((&**pod, &**state.node(pod.node()?)?))
        });
        let giving_way: Vec<(&PodRecord, &NodeRecord)> = giving_way.collect();
        let on_nodes: Vec<(&PodRecord, &NodeRecord)> = on_nodes.filter(|(pod, _)| !pod.has_ended()).collect();
        let pods = on_nodes.iter().chain(&giving_way).copied();
        let (with_rules, others) = pods.filter(|(pod, _)| !pod.has_ended()).partition(|(pod, _)| has_rules(pod));
        Leaving { state, with_rules, others, on_nodes, giving_way, coming: Vec::new() }
    }

    /// Takes in who comes with the same decision, by namespace, name and name of the node. It is asked for where somebody has to be
    /// beside others.
    pub(crate) fn beside<'n>(mut self, coming: impl Iterator<Item = (&'n str, &'n str, &'n str)>) -> Self {
        if self.on_nodes.is_empty() {
            return self;
        }
        let coming = coming.filter_map(|(namespace, name, node)| {
            let pod = self.state.pod(namespace, name).filter(|pod| affinity(pod).next().is_none())?;
            Some((&**pod, &**self.state.node(node)?))
        });
        self.coming = coming.collect();
        self
    }

    /// Those on nodes that go away, each with its node.
    pub(crate) fn on_nodes(&self) -> &[(&'s PodRecord, &'s NodeRecord)] {
        &self.on_nodes
    }

    /// What a pod waits for where one of them keeps it off a node until it has stopped: by required anti-affinity of either, by
    /// required affinity to those who run where the pod cannot join them, by a claim that one pod alone may use, or as one who is
    /// to give way in the pod's domain of a topology spread constraint.
    pub(crate) fn keeps_off(&self, namespace: &str, name: &str, node: &str) -> Option<String> {
        if self.with_rules.is_empty() && self.others.is_empty() {
            return None;
        }
        let (pod, node) = (self.state.pod(namespace, name)?, self.state.node(node)?);
        if let Some((other, of)) = self.giving_way.iter().find(|(other, of)| counts_in_domain(pod, other, (node, of))) {
            return Some(until_it_leaves(other, of, "topology spread constraint"));
        }
        if let Some((other, of)) = self.is_to_be_joined(pod, node) {
            return Some(until_it_leaves(other, of, "required affinity"));
        }
        let others = if has_rules(pod) { &self.others[..] } else { &[] };
        self.with_rules.iter().chain(others).find_map(|(other, of)| {
            let why = if self.repels(pod, other, (node, of)) {
                "required anti-affinity"
            } else if self.repels(other, pod, (node, of)) {
                "its required anti-affinity"
            } else if self.share_exclusive_claim(pod, other) {
                "a volume that one pod alone may use"
            } else {
                return None;
            };
            Some(until_it_leaves(other, of, why))
        })
    }

    /// One that a pod has required affinity to, where nobody of its kind is in the node's domain. A pod that is the first of its
    /// kind may go anywhere, and it is not the first while that one runs.
    fn is_to_be_joined(&self, pod: &PodRecord, node: &NodeRecord) -> Option<(&'s PodRecord, &'s NodeRecord)> {
        let terms: Vec<&PodAffinityTerm> = affinity(pod).collect();
        if terms.is_empty() {
            return None;
        }
        let is_wanted = |other: &PodRecord| terms.iter().all(|term| self.is_meant(term, pod, other));
        let wanted: Vec<_> = self.on_nodes.iter().filter(|(other, _)| is_wanted(other)).copied().collect();
        let &first = wanted.first()?;
        let is_met = |term: &PodAffinityTerm| {
            let key = &term.topology_key;
            let has_wanted = |of: &NodeRecord| {
                share_domain(node, of, key)
                    && self.state.pods_on(of.name()).any(|other| !other.has_ended() && is_wanted(other))
            };
            let comes_there = |(other, of): &(&PodRecord, &NodeRecord)| is_wanted(other) && share_domain(node, of, key);
            // Whether those come who come there is another question.
            self.coming.iter().any(comes_there)
                || wanted.iter().any(|(_, of)| share_domain(node, of, key))
                || has_wanted(node)
                || (key != HOSTNAME && self.state.nodes().any(|of| has_wanted(of)))
        };
        (!terms.iter().all(|term| is_met(term))).then_some(first)
    }

    /// Whether an affinity term of a pod describes another.
    fn is_meant(&self, term: &PodAffinityTerm, pod: &PodRecord, other: &PodRecord) -> bool {
        term.label_selector.as_ref().is_some_and(|selector| other.is_selected_by(selector))
            && is_in_scope(self.state, term, pod, other)
    }

    /// Whether required anti-affinity of the first pod keeps the other one out of a domain that both nodes are in.
    fn repels(&self, pod: &PodRecord, other: &PodRecord, (node, of): (&NodeRecord, &NodeRecord)) -> bool {
        anti_affinity(pod).any(|term| share_domain(node, of, &term.topology_key) && self.is_meant(term, pod, other))
    }

    fn share_exclusive_claim(&self, pod: &PodRecord, other: &PodRecord) -> bool {
        pod.namespace() == other.namespace()
            && claims(pod).any(|name| {
                let claim = self.state.get_as::<PersistentVolumeClaim>(pod.namespace(), name);
                claims(other).any(|of_other| of_other == name) && claim.is_some_and(is_of_one_pod)
            })
    }
}

/// What a pod is told that waits until another one has stopped.
pub(crate) fn until_it_leaves(other: &PodRecord, node: &NodeRecord, why: &str) -> String {
    format!("waiting for pod {}/{} to leave node {}: {why}", other.namespace(), other.name(), node.name())
}

/// Whether a term of a pod is about the namespace of another pod.
pub(crate) fn is_in_scope(state: &State, term: &PodAffinityTerm, pod: &PodRecord, other: &PodRecord) -> bool {
    let named = term.namespaces.as_deref().unwrap_or_default();
    if named.iter().any(|name| name == other.namespace()) {
        return true;
    }
    match &term.namespace_selector {
        Some(selector) => {
            let namespace = state.get_as::<Namespace>("", other.namespace());
            let labels = namespace.and_then(|namespace| namespace.metadata.labels.as_ref());
            berth_state::selects(selector, labels)
        }
        None => named.is_empty() && pod.namespace() == other.namespace(),
    }
}

/// Whether a required spread of the first pod counts the other one in a domain that both nodes are in.
fn counts_in_domain(pod: &PodRecord, other: &PodRecord, (node, of): (&NodeRecord, &NodeRecord)) -> bool {
    let spreads = pod.spec().and_then(|spec| spec.topology_spread_constraints.as_ref()).into_iter().flatten();
    let mut required = spreads.filter(|spread| spread.when_unsatisfiable == "DoNotSchedule");
    pod.namespace() == other.namespace()
        && required.any(|spread| {
            share_domain(node, of, &spread.topology_key)
                && spread.label_selector.as_ref().is_some_and(|selector| other.is_selected_by(selector))
        })
}

/// Whether two nodes are in one domain of a topology key.
pub(crate) fn share_domain(node: &NodeRecord, other: &NodeRecord, topology_key: &str) -> bool {
    let domain = node.label(topology_key);
    domain.is_some() && domain == other.label(topology_key)
}

/// Whether a pod may keep another off by what it says itself. A claim that both use is of each.
fn has_rules(pod: &PodRecord) -> bool {
    anti_affinity(pod).next().is_some() || claims(pod).next().is_some()
}

/// The terms of a pod's required anti-affinity.
pub(crate) fn anti_affinity(pod: &PodRecord) -> impl Iterator<Item = &PodAffinityTerm> {
    let affinity = pod.spec().and_then(|spec| spec.affinity.as_ref());
    let anti = affinity.and_then(|affinity| affinity.pod_anti_affinity.as_ref());
    anti.and_then(|anti| anti.required_during_scheduling_ignored_during_execution.as_ref()).into_iter().flatten()
}

fn affinity(pod: &PodRecord) -> impl Iterator<Item = &PodAffinityTerm> {
    let affinity = pod.spec().and_then(|spec| spec.affinity.as_ref());
    let own = affinity.and_then(|affinity| affinity.pod_affinity.as_ref());
    own.and_then(|own| own.required_during_scheduling_ignored_during_execution.as_ref()).into_iter().flatten()
}

fn claims(pod: &PodRecord) -> impl Iterator<Item = &str> {
    let volumes = pod.spec().and_then(|spec| spec.volumes.as_ref());
    let claims = volumes.into_iter().flatten().filter_map(|volume| volume.persistent_volume_claim.as_ref());
    claims.map(|claim| claim.claim_name.as_str())
}

fn is_of_one_pod(claim: &Arc<PersistentVolumeClaim>) -> bool {
    let modes = claim.spec.as_ref().and_then(|spec| spec.access_modes.as_ref());
    modes.into_iter().flatten().any(|mode| mode == "ReadWriteOncePod")
}
