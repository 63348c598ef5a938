//! A pod's spec to what it asks for, as far as the spec alone tells.

use std::collections::BTreeMap;

use berth_model::{
    Cluster, Effect, HostPort, Images, PodSpec, PodTerm, Refusal, Requirement, Requirements, Resources,
    SpreadConstraint, Sym, Toleration, TolerationOperator, Volumes,
};
use k8s_openapi::api::core::v1 as core;

use crate::Problem;
use crate::claims::{Claim, ClaimTemplate};
use crate::draft::{Draft, Priority};
use crate::quantities::beyond_limit;
use crate::requests::{assumed, is_sidecar, pod_requests};
use crate::terms::{node_key, node_selector, node_term, node_terms, selector};
use crate::{drivers, units};

/// kube-scheduler's condition on pods with scheduling gates.
const GATED: &str = "Scheduling is blocked due to non-empty scheduling gates";
/// The API server's bound on weights.
const MAX_WEIGHT: i32 = 100;

/// Reads a pod spec. Problems are relative to the spec.
pub(crate) fn draft(spec: &core::PodSpec, cluster: &mut Cluster) -> Result<Draft, Problem> {
    let n_known = cluster.resource_names.len();
    let mut asked = asked(spec, cluster)?;
    if asked.is_beyond_limit {
        asked = without_new_names(n_known, spec, cluster)?;
    }
    let Asked { requests, assumed, is_beyond_limit } = asked;
    let mut drafted = PodSpec {
        assumed,
        images: images(spec, cluster),
        never_preempts: spec.preemption_policy.as_deref() == Some("Never"),
        requests,
        node_selector: node_selector(spec.node_selector.as_ref(), &mut cluster.symbols),
        tolerations: tolerations(spec.tolerations.as_deref().unwrap_or_default(), cluster)?,
        spread: spread(spec, cluster)?,
        host_ports: host_ports(spec, cluster)?,
        volumes: inline_volumes(spec, cluster),
        refusal: refusal(spec).or_else(|| is_beyond_limit.then(|| Refusal(beyond_limit(cluster)))),
        ..PodSpec::default()
    };
    drafted.units.devices = units::devices_asked(&drafted.requests, cluster);
    if let Some(affinity) = &spec.affinity {
        add_affinity(affinity, &mut drafted, cluster).map_err(|problem| problem.under("affinity"))?;
    }
    Ok(Draft { spec: drafted, priority: priority(spec, cluster), claims: claims(spec, cluster), shape: 0 })
}

/// What a pod asks for.
struct Asked {
    requests: Resources,
    /// What scores assume beyond that.
    assumed: [i64; 2],
    is_beyond_limit: bool,
}

fn asked(spec: &core::PodSpec, cluster: &mut Cluster) -> Result<Asked, Problem> {
    let (requests, is_beyond_limit) = pod_requests(spec, cluster)?;
    Ok(Asked { assumed: assumed(spec, &requests, cluster)?, requests, is_beyond_limit })
}

/// What a pod asks for of the resources that are known without it: one that names too many has no place, and takes none of
/// the names that are left from others.
fn without_new_names(n_known: usize, spec: &core::PodSpec, cluster: &mut Cluster) -> Result<Asked, Problem> {
    cluster.resource_names.forget_after(n_known);
    cluster.resource_names.set_closed(true);
    let asked = asked(spec, cluster);
    cluster.resource_names.set_closed(false);
    asked
}

fn images(spec: &core::PodSpec, cluster: &mut Cluster) -> Images {
    let containers = spec.init_containers.iter().flatten().chain(&spec.containers);
    let mut images = Images::default();
    for container in containers {
        images.containers += 1;
        if let Some(image) = container.image.as_deref().filter(|image| !image.is_empty()) {
            images.names.push(image_name(image, cluster));
        }
    }
    images.names.sort_unstable();
    images
}

/// The name of an image as nodes list it: with `:latest` where it has neither tag nor digest.
pub(crate) fn image_name(image: &str, cluster: &mut Cluster) -> Sym {
    if image.rfind(':') > image.rfind('/') {
        cluster.symbols.intern(image)
    } else {
        cluster.symbols.intern(&format!("{image}:latest"))
    }
}

fn priority(spec: &core::PodSpec, cluster: &mut Cluster) -> Priority {
    match (spec.priority, spec.priority_class_name.as_deref()) {
        (Some(priority), _) => Priority::Set(priority),
        (None, Some(class)) if !class.is_empty() => Priority::Class(cluster.symbols.intern(class)),
        _ => Priority::Default,
    }
}

fn refusal(spec: &core::PodSpec) -> Option<Refusal> {
    if let Some(gates) = spec.scheduling_gates.as_ref().filter(|gates| !gates.is_empty()) {
        let mut names: Vec<&str> = gates.iter().map(|gate| gate.name.as_str()).collect();
        names.sort_unstable();
        return Some(Refusal(format!("{GATED}: {}", names.join(", "))));
    }
    if spec.resource_claims.as_ref().is_some_and(|claims| !claims.is_empty()) {
        return Some(Refusal("pod has Dynamic Resource Allocation requirements that are not yet supported".to_owned()));
    }
    None
}

/// The effect of that name; an empty one is none.
pub(crate) fn effect(name: &str) -> Result<Option<Effect>, Problem> {
    [Effect::NoSchedule, Effect::PreferNoSchedule, Effect::NoExecute]
        .into_iter()
        .find(|effect| effect.name() == name)
        .map_or_else(
            || {
                let message = "expected NoSchedule, PreferNoSchedule or NoExecute";
                if name.is_empty() {
                    Ok(None)
                } else {
                    Err(Problem::new("effect", format!("found {name:?}, {message}")))
                }
            },
            |effect| Ok(Some(effect)),
        )
}

pub(crate) fn tolerations(tolerations: &[core::Toleration], cluster: &mut Cluster) -> Result<Vec<Toleration>, Problem> {
    let mut read = Vec::with_capacity(tolerations.len());
    for (i, toleration) in tolerations.iter().enumerate() {
        let toleration =
            read_toleration(toleration, cluster).map_err(|problem| problem.under(format!("tolerations[{i}]")))?;
        read.push(toleration);
    }
    // Their order means nothing; sorted, pods that differ in it alone are alike.
    read.sort_unstable();
    read.dedup();
    Ok(read)
}

/// The tolerations that the DaemonSet controller gives its pods.
pub(crate) fn tolerate_as_daemon(spec: &core::PodSpec, draft: &mut Draft, cluster: &mut Cluster) {
    const TAINTS: [(&str, Effect); 7] = [
        ("node.kubernetes.io/not-ready", Effect::NoExecute),
        ("node.kubernetes.io/unreachable", Effect::NoExecute),
        ("node.kubernetes.io/disk-pressure", Effect::NoSchedule),
        ("node.kubernetes.io/memory-pressure", Effect::NoSchedule),
        ("node.kubernetes.io/pid-pressure", Effect::NoSchedule),
        ("node.kubernetes.io/unschedulable", Effect::NoSchedule),
        ("node.kubernetes.io/network-unavailable", Effect::NoSchedule),
    ];
    // Only pods on the host's network may start before there is another.
    let n_taints = if spec.host_network == Some(true) { 7 } else { 6 };
    let value = cluster.symbols.intern("");
    for (key, effect) in TAINTS.into_iter().take(n_taints) {
        draft.spec.tolerations.push(Toleration {
            key: Some(cluster.symbols.intern(key)),
            operator: TolerationOperator::Exists,
            value,
            effect: Some(effect),
        });
    }
    draft.spec.tolerations.sort_unstable();
    draft.spec.tolerations.dedup();
}

/// Ties pods to the node that their spec names, if any: no scheduler looks at them, and kubelet asks for no more than that the
/// node admits them and has room.
pub(crate) fn pin(spec: &core::PodSpec, draft: &mut Draft, cluster: &mut Cluster) -> Option<Sym> {
    let name = spec.node_name.as_deref().filter(|name| !name.is_empty())?;
    let name = cluster.symbols.intern(name);
    let (key, value) = (cluster.well_known.field_name, cluster.symbols.intern(""));
    let PodSpec { required_terms, tolerations, spread, affinity, .. } = &mut draft.spec;
    if required_terms.is_empty() {
        required_terms.push(Requirements::new());
    }
    for term in required_terms {
        term.add(key, Requirement::value(name), &cluster.symbols);
    }
    let effect = Some(Effect::NoSchedule);
    tolerations.push(Toleration { key: None, operator: TolerationOperator::Exists, value, effect });
    tolerations.sort_unstable();
    tolerations.dedup();
    spread.clear();
    affinity.clear();
    Some(name)
}

fn read_toleration(toleration: &core::Toleration, cluster: &mut Cluster) -> Result<Toleration, Problem> {
    let operator = match toleration.operator.as_deref().unwrap_or_default() {
        "" | "Equal" => TolerationOperator::Equal,
        "Exists" => TolerationOperator::Exists,
        "Lt" => TolerationOperator::Lt,
        "Gt" => TolerationOperator::Gt,
        other => {
            return Err(Problem::new("operator", format!("found {other:?}, expected Equal, Exists, Lt or Gt")));
        }
    };
    let key = toleration.key.as_deref().filter(|key| !key.is_empty());
    Ok(Toleration {
        key: key.map(|key| cluster.symbols.intern(key)),
        operator,
        value: cluster.symbols.intern(toleration.value.as_deref().unwrap_or_default()),
        effect: effect(toleration.effect.as_deref().unwrap_or_default())?,
    })
}

fn syms(texts: Option<&Vec<String>>, cluster: &mut Cluster) -> Vec<Sym> {
    let mut syms: Vec<Sym> = texts.into_iter().flatten().map(|text| cluster.symbols.intern(text)).collect();
    syms.sort_unstable();
    syms.dedup();
    syms
}

fn spread(spec: &core::PodSpec, cluster: &mut Cluster) -> Result<Vec<SpreadConstraint>, Problem> {
    let constraints = spec.topology_spread_constraints.as_deref().unwrap_or_default();
    let mut read = Vec::with_capacity(constraints.len());
    for (i, constraint) in constraints.iter().enumerate() {
        let constraint = spread_constraint(constraint, cluster)
            .map_err(|problem| problem.under(format!("topologySpreadConstraints[{i}]")))?;
        read.push(constraint);
    }
    Ok(read)
}

fn spread_constraint(
    constraint: &core::TopologySpreadConstraint,
    cluster: &mut Cluster,
) -> Result<SpreadConstraint, Problem> {
    let at_least_one = |field: &str, found: i32| {
        u32::try_from(found)
            .ok()
            .filter(|n| *n > 0)
            .ok_or_else(|| Problem::new(field, format!("found {found}, expected at least 1")))
    };
    let is_required = match constraint.when_unsatisfiable.as_str() {
        "DoNotSchedule" => true,
        "ScheduleAnyway" => false,
        other => {
            return Err(Problem::new(
                "whenUnsatisfiable",
                format!("found {other:?}, expected DoNotSchedule or ScheduleAnyway"),
            ));
        }
    };
    let honors = |field: &str, policy: Option<&str>, default: bool| match policy {
        None | Some("") => Ok(default),
        Some("Honor") => Ok(true),
        Some("Ignore") => Ok(false),
        Some(other) => Err(Problem::new(field, format!("found {other:?}, expected Honor or Ignore"))),
    };
    Ok(SpreadConstraint {
        key: node_key(&constraint.topology_key, &mut cluster.symbols),
        max_skew: at_least_one("maxSkew", constraint.max_skew)?,
        min_domains: constraint.min_domains.map(|n| at_least_one("minDomains", n)).transpose()?,
        is_required,
        selector: selector(constraint.label_selector.as_ref(), &mut cluster.symbols)
            .map_err(|problem| problem.under("labelSelector"))?,
        match_label_keys: syms(constraint.match_label_keys.as_ref(), cluster),
        honors_node_affinity: honors("nodeAffinityPolicy", constraint.node_affinity_policy.as_deref(), true)?,
        honors_taints: honors("nodeTaintsPolicy", constraint.node_taints_policy.as_deref(), false)?,
    })
}

fn add_affinity(affinity: &core::Affinity, spec: &mut PodSpec, cluster: &mut Cluster) -> Result<(), Problem> {
    const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
    const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";
    if let Some(node) = &affinity.node_affinity {
        if let Some(required) = &node.required_during_scheduling_ignored_during_execution {
            spec.required_terms = node_terms(&required.node_selector_terms, "nodeSelectorTerms", &mut cluster.symbols)
                .map_err(|problem| problem.under(format!("nodeAffinity.{REQUIRED}")))?;
        }
        let preferred = &node.preferred_during_scheduling_ignored_during_execution;
        for (i, preferred) in preferred.iter().flatten().enumerate() {
            let path = format!("nodeAffinity.{PREFERRED}[{i}]");
            let term = node_term(&preferred.preference, &mut cluster.symbols)
                .map_err(|problem| problem.under(format!("{path}.preference")))?;
            let weight = weight(preferred.weight).map_err(|problem| problem.under(&path))?;
            // An empty preference prefers nothing.
            spec.preferred_terms.extend(term.map(|term| (weight, term)));
        }
    }
    if let Some(pod) = &affinity.pod_affinity {
        spec.affinity = pod_terms(pod.required_during_scheduling_ignored_during_execution.as_deref(), cluster)
            .map_err(|problem| problem.under(format!("podAffinity.{REQUIRED}")))?;
        spec.preferred_affinity =
            weighted_terms(pod.preferred_during_scheduling_ignored_during_execution.as_deref(), cluster)
                .map_err(|problem| problem.under(format!("podAffinity.{PREFERRED}")))?;
    }
    if let Some(pod) = &affinity.pod_anti_affinity {
        spec.anti_affinity = pod_terms(pod.required_during_scheduling_ignored_during_execution.as_deref(), cluster)
            .map_err(|problem| problem.under(format!("podAntiAffinity.{REQUIRED}")))?;
        spec.preferred_anti_affinity =
            weighted_terms(pod.preferred_during_scheduling_ignored_during_execution.as_deref(), cluster)
                .map_err(|problem| problem.under(format!("podAntiAffinity.{PREFERRED}")))?;
    }
    Ok(())
}

fn weight(weight: i32) -> Result<i32, Problem> {
    if (1..=MAX_WEIGHT).contains(&weight) {
        Ok(weight)
    } else {
        Err(Problem::new("weight", format!("found {weight}, expected 1 to {MAX_WEIGHT}")))
    }
}

fn pod_terms(terms: Option<&[core::PodAffinityTerm]>, cluster: &mut Cluster) -> Result<Vec<PodTerm>, Problem> {
    terms
        .unwrap_or_default()
        .iter()
        .enumerate()
        .map(|(i, term)| pod_term(term, cluster).map_err(|problem| problem.under(format!("[{i}]"))))
        .collect()
}

fn weighted_terms(
    terms: Option<&[core::WeightedPodAffinityTerm]>,
    cluster: &mut Cluster,
) -> Result<Vec<(i32, PodTerm)>, Problem> {
    terms
        .unwrap_or_default()
        .iter()
        .enumerate()
        .map(|(i, weighted)| {
            let term = pod_term(&weighted.pod_affinity_term, cluster)
                .map_err(|problem| problem.under(format!("[{i}].podAffinityTerm")))?;
            let weight = weight(weighted.weight).map_err(|problem| problem.under(format!("[{i}]")))?;
            Ok((weight, term))
        })
        .collect()
}

fn pod_term(term: &core::PodAffinityTerm, cluster: &mut Cluster) -> Result<PodTerm, Problem> {
    if term.topology_key.is_empty() {
        return Err(Problem::new("topologyKey", "expected a node label"));
    }
    Ok(PodTerm {
        key: node_key(&term.topology_key, &mut cluster.symbols),
        selector: selector(term.label_selector.as_ref(), &mut cluster.symbols)
            .map_err(|problem| problem.under("labelSelector"))?,
        namespaces: syms(term.namespaces.as_ref(), cluster),
        namespace_selector: term
            .namespace_selector
            .as_ref()
            .map(|namespaces| {
                selector(Some(namespaces), &mut cluster.symbols).map_err(|problem| problem.under("namespaceSelector"))
            })
            .transpose()?,
        match_label_keys: syms(term.match_label_keys.as_ref(), cluster),
        mismatch_label_keys: syms(term.mismatch_label_keys.as_ref(), cluster),
    })
}

/// Ports of containers and of sidecars. With `hostNetwork` every container port is one of the host.
fn host_ports(spec: &core::PodSpec, cluster: &mut Cluster) -> Result<Vec<HostPort>, Problem> {
    let on_host = spec.host_network == Some(true);
    let sidecars = spec.init_containers.iter().flatten();
    let mut ports = Vec::new();
    for (field, i, container) in (spec.containers.iter().enumerate())
        .map(|(i, container)| ("containers", i, container))
        .chain(sidecars.enumerate().map(|(i, container)| ("initContainers", i, container)))
    {
        if field == "initContainers" && !is_sidecar(container) {
            continue;
        }
        for (j, port) in container.ports.iter().flatten().enumerate() {
            let number = match port.host_port {
                Some(number) if number != 0 => number,
                _ if on_host => port.container_port,
                _ => continue,
            };
            let number = u16::try_from(number).map_err(|_| {
                Problem::new(
                    format!("{field}[{i}].ports[{j}].hostPort"),
                    format!("found {number}, expected 1 to 65535"),
                )
            })?;
            let ip = port.host_ip.as_deref().unwrap_or_default();
            let every = ip.is_empty() || ip == "0.0.0.0";
            let protocol = port.protocol.as_deref().filter(|protocol| !protocol.is_empty());
            ports.push(HostPort {
                ip: (!every).then(|| cluster.symbols.intern(ip)),
                protocol: cluster.symbols.intern(protocol.unwrap_or("TCP")),
                port: number,
            });
        }
    }
    ports.sort_unstable();
    ports.dedup();
    Ok(ports)
}

/// Volumes of in-tree kinds; they need no claim, and most are served by CSI drivers today.
fn inline_volumes(spec: &core::PodSpec, cluster: &mut Cluster) -> Volumes {
    let disks = spec.volumes.iter().flatten().filter_map(|volume| drivers::disk(volume, &mut cluster.symbols));
    let mut disks: Vec<_> = disks.collect();
    disks.sort_unstable();
    disks.dedup();
    let attachments = spec
        .volumes
        .iter()
        .flatten()
        .filter_map(drivers::of_volume)
        .map(|(driver, handle)| (cluster.symbols.intern(driver), cluster.symbols.intern(handle)))
        .collect();
    Volumes { attachments, disks, ..Volumes::default() }
}

fn claims(spec: &core::PodSpec, cluster: &mut Cluster) -> Vec<Claim> {
    let mut claims = Vec::new();
    for volume in spec.volumes.iter().flatten() {
        if let Some(source) = &volume.persistent_volume_claim {
            claims.push(Claim::Named(cluster.symbols.intern(&source.claim_name)));
        } else if let Some(template) =
            volume.ephemeral.as_ref().and_then(|ephemeral| ephemeral.volume_claim_template.as_ref())
        {
            claims.push(Claim::Ephemeral {
                volume: cluster.symbols.intern(&volume.name),
                template: ClaimTemplate::new(&template.spec, cluster),
            });
        }
    }
    claims
}

/// Replaces volumes by the claim templates of a StatefulSet: a volume of a template's name stands for its claim.
pub(crate) fn with_claim_templates(
    spec: &core::PodSpec,
    templates: &[core::PersistentVolumeClaim],
    cluster: &mut Cluster,
) -> Result<Draft, Problem> {
    if templates.is_empty() {
        return draft(spec, cluster);
    }
    let by_name: BTreeMap<&str, Option<&core::PersistentVolumeClaimSpec>> =
        templates.iter().filter_map(|claim| Some((claim.metadata.name.as_deref()?, claim.spec.as_ref()))).collect();
    let mut spec = spec.clone();
    if let Some(volumes) = &mut spec.volumes {
        volumes.retain(|volume| !by_name.contains_key(volume.name.as_str()));
    }
    let mut draft = draft(&spec, cluster)?;
    for (name, claim) in by_name {
        let template = match claim {
            Some(claim) => ClaimTemplate::new(claim, cluster),
            None => ClaimTemplate::default(),
        };
        draft.claims.push(Claim::Templated { template_name: cluster.symbols.intern(name), template });
    }
    Ok(draft)
}
