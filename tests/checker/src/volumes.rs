//! What a pod's volumes ask of a node.

use k8s_openapi::api::core::v1::{NodeSelector, PersistentVolume, PersistentVolumeClaimSpec, TopologySelectorTerm};

use crate::selectors::{NodeView, term_holds};
use crate::world::{Pod, World};

/// One condition that a volume puts on the node.
#[derive(Clone, Debug)]
pub(crate) enum Condition {
    /// A PersistentVolume's node affinity; `local` where the disk is a node's own, whose host name a new node lacks.
    Affinity { selector: NodeSelector, local: bool },
    /// The older zone and region labels of a PersistentVolume: key and admitted values.
    Label(String, Vec<String>),
    /// A StorageClass's allowedTopologies.
    Topologies(Vec<TopologySelectorTerm>),
    /// A node for which a volume is being made.
    Node(String),
}

/// A volume of a pod, as attach limits count it.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) struct Attached {
    pub(crate) driver: String,
    pub(crate) volume: String,
}

/// The claims of a pod: `namespace/name`, and the spec where the pod brings it along.
fn claims(pod: &Pod) -> Vec<(String, Option<PersistentVolumeClaimSpec>)> {
    let mut claims: Vec<(String, Option<PersistentVolumeClaimSpec>)> =
        pod.own_claims.iter().map(|(name, spec)| (format!("{}/{name}", pod.namespace), Some(spec.clone()))).collect();
    let short = pod.name.split('/').nth(1).unwrap_or_default();
    for volume in pod.spec.volumes.iter().flatten() {
        if let Some(source) = &volume.persistent_volume_claim {
            claims.push((format!("{}/{}", pod.namespace, source.claim_name), None));
        } else if let Some(template) = volume.ephemeral.as_ref().and_then(|e| e.volume_claim_template.as_ref()) {
            claims.push((format!("{}/{short}-{}", pod.namespace, volume.name), Some(template.spec.clone())));
        }
    }
    claims
}

/// Whether a claim is yet to be created, so that its class may bind it before its pod is placed.
fn is_new(world: &World, name: &str) -> bool {
    world.volume_claims.get(name).is_none_or(|claim| claim.metadata.uid.is_none() && claim.status.is_none())
}

fn spec_of(
    world: &World,
    name: &str,
    brought: Option<PersistentVolumeClaimSpec>,
) -> Result<PersistentVolumeClaimSpec, String> {
    match (world.volume_claims.get(name), brought) {
        (Some(claim), _) => Ok(claim.spec.clone().unwrap_or_default()),
        (None, Some(spec)) => Ok(spec),
        (None, None) => Err(format!("persistentvolumeclaim {name} not found")),
    }
}

fn of_volume(volume: &PersistentVolume) -> Vec<Condition> {
    let mut conditions = Vec::new();
    let spec = volume.spec.as_ref();
    let local = spec.is_some_and(|s| s.local.is_some() || s.host_path.is_some());
    if let Some(selector) = spec.and_then(|s| s.node_affinity.as_ref()).and_then(|a| a.required.clone()) {
        conditions.push(Condition::Affinity { selector, local });
    }
    for key in ["topology.kubernetes.io/zone", "topology.kubernetes.io/region"] {
        if let Some(value) = volume.metadata.labels.as_ref().and_then(|l| l.get(key)) {
            conditions.push(Condition::Label(key.to_owned(), value.split("__").map(str::to_owned).collect()));
        }
    }
    conditions
}

/// What the pod's volumes ask of its node, or why no node will do.
pub(crate) fn conditions(world: &World, pod: &Pod) -> Result<Vec<Condition>, String> {
    let mut all = Vec::new();
    for (name, brought) in claims(pod) {
        let spec = spec_of(world, &name, brought)?;
        if let Some(volume) = spec.volume_name.as_deref().filter(|v| !v.is_empty()) {
            let found = world.volumes.get(volume);
            all.extend(of_volume(found.ok_or_else(|| format!("persistentvolume {volume} not found"))?));
            continue;
        }
        let Some(class) = spec.storage_class_name.as_deref().filter(|c| !c.is_empty()) else {
            continue;
        };
        let class = world.storage_classes.get(class).ok_or_else(|| format!("storageclass {class} not found"))?;
        let makes_volumes = class.provisioner != "kubernetes.io/no-provisioner";
        let is_made_before = makes_volumes && is_new(world, &name);
        if class.volume_binding_mode.as_deref() != Some("WaitForFirstConsumer") && !is_made_before {
            return Err(format!("unbound immediate persistentvolumeclaim {name}"));
        }
        let annotations = world.volume_claims.get(&name).and_then(|claim| claim.metadata.annotations.as_ref());
        let selected = annotations.and_then(|all| all.get("volume.kubernetes.io/selected-node"));
        let waits = class.volume_binding_mode.as_deref() == Some("WaitForFirstConsumer");
        if let Some(node) = selected.filter(|node| waits && world.nodes.contains_key(*node)) {
            all.push(Condition::Node(node.clone()));
        }
        if let Some(terms) = class.allowed_topologies.clone().filter(|t| !t.is_empty()) {
            all.push(Condition::Topologies(terms));
        }
    }
    Ok(all)
}

/// Does the node meet the condition? On a node that is yet to be launched, a local disk's host name is not asked for.
pub(crate) fn holds(condition: &Condition, node: NodeView<'_>, is_new: bool) -> bool {
    match condition {
        Condition::Affinity { selector, local } => selector.node_selector_terms.iter().any(|term| {
            let mut term = term.clone();
            if *local
                && is_new
                && let Some(expressions) = &mut term.match_expressions
            {
                expressions.retain(|e| e.key != crate::catalogue::HOSTNAME);
                if expressions.is_empty() {
                    return true;
                }
            }
            term_holds(&term, node)
        }),
        Condition::Node(name) => !is_new && node.name == name,
        Condition::Label(key, values) => node.label(key).is_some_and(|v| values.iter().any(|x| x == v)),
        Condition::Topologies(terms) => terms.iter().any(|term| {
            term.match_label_expressions
                .iter()
                .flatten()
                .all(|e| node.label(&e.key).is_some_and(|v| e.values.iter().any(|x| x == v)))
        }),
    }
}

/// The volumes of a pod that a CSI driver attaches.
pub(crate) fn attached(world: &World, pod: &Pod) -> Vec<Attached> {
    let mut all = Vec::new();
    for (name, brought) in claims(pod) {
        let Ok(spec) = spec_of(world, &name, brought) else {
            continue;
        };
        let volume = spec.volume_name.as_deref().and_then(|v| world.volumes.get(v));
        let csi = volume.and_then(|v| v.spec.as_ref()).and_then(|s| s.csi.as_ref());
        let class = spec.storage_class_name.as_deref().and_then(|c| world.storage_classes.get(c));
        if let Some(csi) = csi {
            all.push(Attached { driver: csi.driver.clone(), volume: csi.volume_handle.clone() });
        } else if volume.is_none()
            && let Some(class) = class
        {
            all.push(Attached { driver: class.provisioner.clone(), volume: name });
        }
    }
    all
}

/// The claims of a pod that one pod alone may use.
pub(crate) fn exclusive_claims(world: &World, pod: &Pod) -> Vec<String> {
    let is_exclusive = |(name, brought): (String, Option<PersistentVolumeClaimSpec>)| {
        let spec = spec_of(world, &name, brought).ok()?;
        let modes = spec.access_modes.unwrap_or_default();
        modes.iter().any(|m| m == "ReadWriteOncePod").then_some(name)
    };
    claims(pod).into_iter().filter_map(is_exclusive).collect()
}
