//! Required pod affinity and anti-affinity.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::PodAffinityTerm;
use serde_json::to_string;

use super::scope::{Placed, Scope, matching, placed};
use crate::sites::{Domain, Site};
use crate::violation::Violation;
use crate::world::{Pod, World};

fn required_affinity(pod: &Pod) -> &[PodAffinityTerm] {
    let affinity = pod.spec.affinity.as_ref().and_then(|a| a.pod_affinity.as_ref());
    affinity.and_then(|a| a.required_during_scheduling_ignored_during_execution.as_deref()).unwrap_or_default()
}

fn required_anti_affinity(pod: &Pod) -> &[PodAffinityTerm] {
    let affinity = pod.spec.affinity.as_ref().and_then(|a| a.pod_anti_affinity.as_ref());
    affinity.and_then(|a| a.required_during_scheduling_ignored_during_execution.as_deref()).unwrap_or_default()
}

/// The values that a place may have for a key.
fn values<'a>(site: &'a Site<'_>, key: &str) -> Vec<&'a String> {
    match site.domain(key) {
        Domain::Absent => Vec::new(),
        Domain::One(value) => vec![value],
        Domain::Open(values) => values.iter().collect(),
    }
}

/// No pod shares a domain with one that its anti-affinity excludes; the same whoever of the two came first.
fn apart(world: &World, sites: &[Site<'_>], all: &[Placed<'_>]) -> Vec<Violation> {
    let mut groups: BTreeMap<String, (Scope, String, Vec<&Placed<'_>>)> = BTreeMap::new();
    for holder in all {
        for term in required_anti_affinity(holder.pod) {
            let scope = Scope::of_term(world, holder.pod, term);
            let name = to_string(&(&scope, &term.topology_key)).unwrap_or_default();
            let group = groups.entry(name).or_insert_with(|| (scope, term.topology_key.clone(), Vec::new()));
            group.2.push(holder);
        }
    }
    let mut found = Vec::new();
    for (scope, key, holders) in groups.into_values() {
        let mut by_value: BTreeMap<&String, Vec<&Placed<'_>>> = BTreeMap::new();
        for other in matching(&scope, all) {
            for value in sites.get(other.site).map(|s| values(s, &key)).unwrap_or_default() {
                by_value.entry(value).or_default().push(other);
            }
        }
        for holder in holders {
            for value in sites.get(holder.site).map(|s| values(s, &key)).unwrap_or_default() {
                let others = by_value.get(value).map_or(&[][..], Vec::as_slice);
                let clash = others.iter().find(|o| o.index != holder.index && (o.planned || holder.planned));
                if let Some(other) = clash {
                    let detail = format!("its anti-affinity excludes {} from {key}={value}", other.pod.name);
                    found.push(Violation::new("pod-anti-affinity", &holder.pod.name, detail));
                    break;
                }
            }
        }
    }
    found
}

/// The place's domain for each key of the terms; a place that leaves a key open is a domain of its own.
fn domains(site: &Site<'_>, terms: &[PodAffinityTerm]) -> Option<Vec<String>> {
    terms
        .iter()
        .map(|term| match site.domain(&term.topology_key) {
            Domain::Absent => None,
            Domain::One(value) => Some(value.clone()),
            Domain::Open(_) => Some(format!("left open by {}", site.name)),
        })
        .collect()
}

/// Domains (term, value) that hold a pod that all terms match.
type Reached = BTreeSet<(usize, String)>;

fn is_reached(reached: &Reached, domains: &[String]) -> bool {
    domains.iter().enumerate().all(|(term, value)| reached.contains(&(term, value.clone())))
}

fn reach(reached: &mut Reached, domains: &[String]) {
    reached.extend(domains.iter().cloned().enumerate());
}

/// Lets in every waiting pod whose domains are reached, until none is left that can come.
fn let_in<'a>(
    reached: &mut Reached,
    mut waiting: Vec<(&'a Placed<'a>, Vec<String>, bool)>,
) -> Vec<(&'a Placed<'a>, Vec<String>, bool)> {
    loop {
        let before = waiting.len();
        waiting.retain(|(_, domains, matches)| {
            let enters = is_reached(reached, domains);
            if enters && *matches {
                reach(reached, domains);
            }
            !enters
        });
        if waiting.len() == before {
            return waiting;
        }
    }
}

/// Is there an order in which every pod finds a pod that its terms match in its domains (the first of its own kind excepted)?
fn together(world: &World, sites: &[Site<'_>], all: &[Placed<'_>]) -> Vec<Violation> {
    const SEEDS: usize = 200;
    let mut groups: BTreeMap<String, Vec<&Placed<'_>>> = BTreeMap::new();
    for member in all.iter().filter(|p| p.planned && !required_affinity(p.pod).is_empty()) {
        let scopes: Vec<(Scope, &String)> = required_affinity(member.pod)
            .iter()
            .map(|t| (Scope::of_term(world, member.pod, t), &t.topology_key))
            .collect();
        groups.entry(to_string(&scopes).unwrap_or_default()).or_default().push(member);
    }
    let mut found = Vec::new();
    for members in groups.into_values() {
        let Some(terms) = members.first().map(|m| required_affinity(m.pod)) else {
            continue;
        };
        let Some(first) = members.first() else {
            continue;
        };
        let scopes: Vec<Scope> = terms.iter().map(|t| Scope::of_term(world, first.pod, t)).collect();
        let is_member: BTreeSet<usize> = members.iter().map(|m| m.index).collect();
        let mut reached = Reached::new();
        let mut runs_already = false;
        for other in all.iter().filter(|p| !is_member.contains(&p.index)) {
            if scopes.iter().all(|s| s.matches(other.pod))
                && let Some(site) = sites.get(other.site)
            {
                for (term, t) in terms.iter().enumerate() {
                    if let Some(value) = domains(site, std::slice::from_ref(t)).and_then(|d| d.into_iter().next()) {
                        reached.insert((term, value));
                        runs_already |= !other.planned;
                    }
                }
            }
        }
        // Who gives way was there when others came; affinity asks no more of them afterwards.
        for site in sites {
            let gone = site.preempted.iter().filter_map(|name| world.pods.get(*world.pod_index.get(name)?));
            if gone.into_iter().any(|pod| scopes.iter().all(|scope| scope.matches(pod)))
                && let Some(domains) = domains(site, terms)
            {
                reach(&mut reached, &domains);
            }
        }
        let mut waiting = Vec::new();
        for member in &members {
            match sites.get(member.site).and_then(|s| domains(s, terms)) {
                Some(domains) => waiting.push((*member, domains, scopes.iter().all(|s| s.matches(member.pod)))),
                None => found.push(Violation::new("pod-affinity", &member.pod.name, "its node lacks the topology key")),
            }
        }
        let waiting = let_in(&mut reached, waiting);
        let seeds: BTreeSet<Vec<String>> =
            waiting.iter().filter(|(_, _, matches)| *matches && !runs_already).map(|(_, d, _)| d.clone()).collect();
        let left = seeds
            .iter()
            .take(SEEDS)
            .map(|seed| {
                let mut reached = reached.clone();
                reach(&mut reached, seed);
                let_in(&mut reached, waiting.clone())
            })
            .min_by_key(Vec::len)
            .unwrap_or_else(|| waiting.clone());
        if let Some((pod, domains, _)) = left.first() {
            let detail = format!("{} pods find none that their affinity matches; this one in {domains:?}", left.len());
            found.push(Violation::new("pod-affinity", &pod.pod.name, detail));
        }
    }
    found
}

pub(crate) fn check(world: &World, sites: &[Site<'_>]) -> Vec<Violation> {
    let all = placed(world, sites);
    let mut found = apart(world, sites, &all);
    found.extend(together(world, sites, &all));
    found
}
