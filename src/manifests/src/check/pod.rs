//! Pods and pod templates.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{
    Affinity, Container, Pod, PodAffinityTerm, PodSpec, Toleration, TopologySpreadConstraint,
};

use super::{Problems, metadata, node, resources, selector, syntax};
use crate::error::Problem;
use crate::path::{item, shorten};

const TOLERATION_OPERATORS: &[&str] = &["Exists", "Equal", "Lt", "Gt"];
const RESTART_POLICIES: &[&str] = &["Always", "OnFailure", "Never"];
const PULL_POLICIES: &[&str] = &["Always", "IfNotPresent", "Never"];
const WHEN_UNSATISFIABLE: &[&str] = &["DoNotSchedule", "ScheduleAnyway"];

pub(super) fn check(pod: &Pod, problems: &mut Problems) {
    match &pod.spec {
        Some(spec) => {
            check_spec("spec", spec, problems);
            if let Some(policy) = &spec.restart_policy {
                syntax::check_enum("spec.restartPolicy", policy, RESTART_POLICIES, problems);
            }
        }
        None => problems.push(Problem::new("spec", "is missing, expected a pod's spec")),
    }
}

pub(super) fn check_spec(path: &str, spec: &PodSpec, problems: &mut Problems) {
    check_names(path, spec, problems);
    if spec.containers.is_empty() {
        let message = "found none, expected at least one container";
        problems.push(Problem::new(format!("{path}.containers"), message));
    }
    for (idx, container) in spec.init_containers.iter().flatten().enumerate() {
        let path = item(&format!("{path}.initContainers"), idx);
        if let Some(policy) = &container.restart_policy {
            syntax::check_enum(&format!("{path}.restartPolicy"), policy, RESTART_POLICIES, problems);
        }
        check_container(&path, container, problems);
    }
    for (idx, container) in spec.containers.iter().enumerate() {
        check_container(&item(&format!("{path}.containers"), idx), container, problems);
    }
    if let Some(overhead) = &spec.overhead {
        resources::check_amounts(&format!("{path}.overhead"), overhead, problems);
    }
    if let Some(resources) = &spec.resources {
        resources::check_requirements(&format!("{path}.resources"), resources, problems);
    }
    if let Some(labels) = &spec.node_selector {
        metadata::check_labels(&format!("{path}.nodeSelector"), labels, problems);
    }
    for (idx, toleration) in spec.tolerations.iter().flatten().enumerate() {
        check_toleration(&item(&format!("{path}.tolerations"), idx), toleration, problems);
    }
    for (idx, spread) in spec.topology_spread_constraints.iter().flatten().enumerate() {
        check_spread(&item(&format!("{path}.topologySpreadConstraints"), idx), spread, problems);
    }
    if let Some(affinity) = &spec.affinity {
        check_affinity(&format!("{path}.affinity"), affinity, problems);
    }
}

/// Init containers and containers share their names.
fn check_names(path: &str, spec: &PodSpec, problems: &mut Problems) {
    if spec.init_containers.is_none() && spec.containers.len() < 2 {
        return;
    }
    let mut seen: BTreeSet<&str> = BTreeSet::new();
    let init = spec.init_containers.iter().flatten().enumerate().map(|(idx, known)| ("initContainers", idx, known));
    let others = spec.containers.iter().enumerate().map(|(idx, known)| ("containers", idx, known));
    for (field, idx, container) in init.chain(others) {
        if !container.name.is_empty() && !seen.insert(&container.name) {
            let message =
                format!("found {:?} twice, expected a name that no other container has", shorten(&container.name));
            problems.push(Problem::new(format!("{}.name", item(&format!("{path}.{field}"), idx)), message));
        }
    }
}

fn check_container(path: &str, container: &Container, problems: &mut Problems) {
    if container.name.is_empty() {
        problems.push(Problem::new(format!("{path}.name"), "is missing, expected a name"));
    }
    if let Some(policy) = container.image_pull_policy.as_deref().filter(|policy| !policy.is_empty()) {
        syntax::check_enum(&format!("{path}.imagePullPolicy"), policy, PULL_POLICIES, problems);
    }
    if let Some(resources) = &container.resources {
        resources::check_requirements(&format!("{path}.resources"), resources, problems);
    }
    for (idx, port) in container.ports.iter().flatten().enumerate() {
        let path = item(&format!("{path}.ports"), idx);
        if !(1..=65_535).contains(&port.container_port) {
            let message = format!("found {}, expected 1 to 65535", port.container_port);
            problems.push(Problem::new(format!("{path}.containerPort"), message));
        }
        if let Some(host_port) = port.host_port.filter(|port| !(0..=65_535).contains(port)) {
            let message = format!("found {host_port}, expected 1 to 65535");
            problems.push(Problem::new(format!("{path}.hostPort"), message));
        }
        if let Some(protocol) = &port.protocol {
            const KNOWN: &[&str] = &["TCP", "UDP", "SCTP"];
            syntax::check_enum(&format!("{path}.protocol"), protocol, KNOWN, problems);
        }
    }
}

fn check_toleration(path: &str, toleration: &Toleration, problems: &mut Problems) {
    let key = toleration.key.as_deref().unwrap_or_default();
    let operator = toleration.operator.as_deref().filter(|text| !text.is_empty()).unwrap_or("Equal");
    syntax::check_enum(&format!("{path}.operator"), operator, TOLERATION_OPERATORS, problems);
    if !key.is_empty() {
        syntax::check_key(&format!("{path}.key"), key, problems);
    } else if operator != "Exists" {
        let message = format!("found {operator} without a key, expected Exists");
        problems.push(Problem::new(format!("{path}.operator"), message));
    }
    if operator == "Exists" && toleration.value.as_ref().is_some_and(|value| !value.is_empty()) {
        let message = "found a value with Exists, expected none";
        problems.push(Problem::new(format!("{path}.value"), message));
    }
    let effect = toleration.effect.as_deref().unwrap_or_default();
    if !effect.is_empty() {
        syntax::check_enum(&format!("{path}.effect"), effect, node::EFFECTS, problems);
    }
    if toleration.toleration_seconds.is_some() && effect != "NoExecute" {
        let message = "found with another effect, expected NoExecute";
        problems.push(Problem::new(format!("{path}.tolerationSeconds"), message));
    }
}

fn check_spread(path: &str, spread: &TopologySpreadConstraint, problems: &mut Problems) {
    if spread.max_skew < 1 {
        let message = format!("found {}, expected 1 or more", spread.max_skew);
        problems.push(Problem::new(format!("{path}.maxSkew"), message));
    }
    check_topology_key(path, &spread.topology_key, problems);
    let when = &spread.when_unsatisfiable;
    syntax::check_enum(&format!("{path}.whenUnsatisfiable"), when, WHEN_UNSATISFIABLE, problems);
    if let Some(domains) = spread.min_domains {
        let path = format!("{path}.minDomains");
        if domains < 1 {
            problems.push(Problem::new(path, format!("found {domains}, expected 1 or more")));
        } else if when == "ScheduleAnyway" {
            problems.push(Problem::new(path, "found with ScheduleAnyway, expected DoNotSchedule"));
        }
    }
    for (field, policy) in
        [("nodeAffinityPolicy", &spread.node_affinity_policy), ("nodeTaintsPolicy", &spread.node_taints_policy)]
    {
        if let Some(policy) = policy {
            let path = format!("{path}.{field}");
            syntax::check_enum(&path, policy, &["Honor", "Ignore"], problems);
        }
    }
    if let Some(labels) = &spread.label_selector {
        selector::check_label_selector(&format!("{path}.labelSelector"), labels, problems);
    }
}

fn check_topology_key(path: &str, key: &str, problems: &mut Problems) {
    let path = format!("{path}.topologyKey");
    if key.is_empty() {
        problems.push(Problem::new(path, "is empty, expected a label of nodes"));
    } else {
        syntax::check_key(&path, key, problems);
    }
}

fn check_affinity(path: &str, affinity: &Affinity, problems: &mut Problems) {
    const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
    const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";
    if let Some(of_node) = &affinity.node_affinity {
        let path = format!("{path}.nodeAffinity");
        if let Some(required) = &of_node.required_during_scheduling_ignored_during_execution {
            selector::check_node_selector(&format!("{path}.{REQUIRED}"), required, problems);
        }
        let preferred = of_node.preferred_during_scheduling_ignored_during_execution.iter().flatten();
        for (idx, term) in preferred.enumerate() {
            let path = item(&format!("{path}.{PREFERRED}"), idx);
            check_weight(&path, term.weight, problems);
            selector::check_node_term(&format!("{path}.preference"), &term.preference, problems);
        }
    }
    let affinities = affinity.pod_affinity.as_ref().map(|pod| {
        let required = &pod.required_during_scheduling_ignored_during_execution;
        ("podAffinity", required, &pod.preferred_during_scheduling_ignored_during_execution)
    });
    let anti_affinities = affinity.pod_anti_affinity.as_ref().map(|pod| {
        let required = &pod.required_during_scheduling_ignored_during_execution;
        ("podAntiAffinity", required, &pod.preferred_during_scheduling_ignored_during_execution)
    });
    for (field, required, preferred) in affinities.into_iter().chain(anti_affinities) {
        let path = format!("{path}.{field}");
        for (idx, term) in required.iter().flatten().enumerate() {
            check_pod_term(&item(&format!("{path}.{REQUIRED}"), idx), term, problems);
        }
        for (idx, weighted) in preferred.iter().flatten().enumerate() {
            let path = item(&format!("{path}.{PREFERRED}"), idx);
            check_weight(&path, weighted.weight, problems);
            check_pod_term(&format!("{path}.podAffinityTerm"), &weighted.pod_affinity_term, problems);
        }
    }
}

fn check_weight(path: &str, weight: i32, problems: &mut Problems) {
    if !(1..=100).contains(&weight) {
        let message = format!("found {weight}, expected 1 to 100");
        problems.push(Problem::new(format!("{path}.weight"), message));
    }
}

fn check_pod_term(path: &str, term: &PodAffinityTerm, problems: &mut Problems) {
    check_topology_key(path, &term.topology_key, problems);
    for (field, labels) in [("labelSelector", &term.label_selector), ("namespaceSelector", &term.namespace_selector)] {
        if let Some(labels) = labels {
            selector::check_label_selector(&format!("{path}.{field}"), labels, problems);
        }
    }
}
