//! Claims and volumes: bound to each other, created where a class has a provisioner, let go when nobody uses them.

use std::collections::BTreeMap;
use std::str::FromStr;
use std::sync::Arc;

use berth_quantity::Quantity;
use k8s_openapi::api::core::v1::{
    CSIPersistentVolumeSource, Node, NodeSelector, NodeSelectorRequirement, NodeSelectorTerm, ObjectReference,
    PersistentVolume, PersistentVolumeClaim, PersistentVolumeClaimSpec, PersistentVolumeSpec, VolumeNodeAffinity,
};
use k8s_openapi::api::storage::v1::StorageClass;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity as Text;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::core::SelectorExt;
use serde_json::{Value, json};

use super::matching::fits as node_fits;
use super::template::{annotate, annotation};
use crate::core::Core;
use crate::index::selector;
use crate::key::NamespacedName;
use crate::objects::View;
use crate::resource::{CLAIMS, VOLUMES};
use crate::write::{Effect, Write};

const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";
const ZONE: &str = "topology.kubernetes.io/zone";
const BOUND_BY_CONTROLLER: &str = "pv.kubernetes.io/bound-by-controller";
const PVC_PROTECTION: &str = "kubernetes.io/pvc-protection";
const PV_PROTECTION: &str = "kubernetes.io/pv-protection";

pub(crate) fn sync_claim(core: &mut Core, key: &NamespacedName) -> Effect {
    let Some(claim) = core.caches.claims.get(key).cloned() else { return Effect::Done };
    if claim.metadata.deletion_timestamp.is_some() {
        return release(core, key, &claim);
    }
    let is_bound = claim.status.as_ref().and_then(|status| status.phase.as_deref()) == Some("Bound");
    match claim.spec.as_ref() {
        Some(spec) if !is_bound => find_volume(core, key, &claim, spec),
        Some(spec) => lose(core, key, &claim, spec),
        None => Effect::Done,
    }
}

/// A claim whose volume is gone for good is lost: it is bound to no other.
fn lose(core: &Core, key: &NamespacedName, claim: &PersistentVolumeClaim, spec: &PersistentVolumeClaimSpec) -> Effect {
    let name = spec.volume_name.as_deref().filter(|name| !name.is_empty());
    let is_there = name.is_none_or(|name| core.caches.volumes.get(&NamespacedName::new("", name)).is_some());
    if is_there {
        return Effect::Done;
    }
    let patch = json!({"metadata": {"uid": claim.metadata.uid}, "status": {"phase": "Lost"}});
    Effect::InOrder(vec![Write::patch_status(&CLAIMS, key, &patch)])
}

/// A claim that is being deleted is let go when no pod uses it that is on a node. One that is on none does not start with it: it may be
/// the next of the name, of the pod whose claim it is.
fn release(core: &Core, key: &NamespacedName, claim: &PersistentVolumeClaim) -> Effect {
    let caches = &core.caches;
    let mut pods = caches.indexes.pods_using.get(key).filter_map(|key| caches.pods.get(key));
    let is_used = pods.any(|pod| pod.node().is_some() && !pod.has_ended());
    if is_used { Effect::Done } else { Effect::of(drop_finalizer(&CLAIMS, &claim.metadata, PVC_PROTECTION)) }
}

fn drop_finalizer(resource: &'static crate::resource::Resource, meta: &ObjectMeta, finalizer: &str) -> Vec<Write> {
    let view = View::of(meta);
    if !view.finalizers.iter().any(|own| own == finalizer) {
        return Vec::new();
    }
    let left: Vec<&String> = view.finalizers.iter().filter(|own| *own != finalizer).collect();
    let left = if left.is_empty() { Value::Null } else { json!(left) };
    let patch = json!({"metadata": {"uid": view.uid, "resourceVersion": view.version, "finalizers": left}});
    vec![Write::merge(resource, &view.key(), &patch)]
}

fn find_volume(
    core: &Core,
    key: &NamespacedName,
    claim: &PersistentVolumeClaim,
    spec: &PersistentVolumeClaimSpec,
) -> Effect {
    let caches = &core.caches;
    let class_name = spec.storage_class_name.as_deref().unwrap_or_default();
    let class = caches.classes.get(&NamespacedName::new("", class_name)).cloned();
    let mode = class.as_ref().and_then(|class| class.volume_binding_mode.as_deref());
    let node = annotation(&claim.metadata, SELECTED_NODE);
    let named = spec.volume_name.as_deref().filter(|name| !name.is_empty());
    let is_kept = |volume: &PersistentVolume| is_reserved(volume, claim);
    // Whoever schedules chooses among the volumes that there are, and keeps one for the claim.
    let is_late = mode == Some("WaitForFirstConsumer") && named.is_none();
    if is_late && node.is_none() && !caches.volumes.iter().any(|(_, volume)| is_kept(volume)) {
        return Effect::Done;
    }
    let node: Option<Arc<Node>> = node.and_then(|name| caches.nodes.get(&NamespacedName::new("", name))).cloned();
    let mut fitting: Vec<&Arc<PersistentVolume>> = if let Some(name) = named {
        caches.volumes.get(&NamespacedName::new("", name)).into_iter().filter(|volume| is_free(volume, claim)).collect()
    } else {
        let all = caches.volumes.iter().map(|(_, volume)| volume);
        // One that was made for the claim stays its own, whatever node is chosen since.
        let node_of = |volume: &PersistentVolume| node.as_deref().filter(|_| !is_kept(volume));
        let may_be = |volume: &PersistentVolume| !is_late || is_kept(volume);
        all.filter(|volume| may_be(volume) && fits(volume, claim, spec, node_of(volume))).collect()
    };
    // One that was kept for the claim; else of those with the fewest modes the smallest that is large enough.
    let modes =
        |volume: &PersistentVolume| volume_spec(volume).and_then(|spec| spec.access_modes.as_ref()).map_or(0, Vec::len);
    fitting.sort_by_key(|volume| (!is_kept(volume), modes(volume), capacity(volume), volume.metadata.name.clone()));
    if let Some(volume) = fitting.first() {
        return Effect::of(bind(key, claim, volume));
    }
    let Some(class) = class.filter(|_| named.is_none()) else { return Effect::Done };
    if matches!(class.provisioner.as_str(), "" | "kubernetes.io/no-provisioner") {
        return Effect::Done;
    }
    if node.is_none() && annotation(&claim.metadata, SELECTED_NODE).is_some() {
        // As provisioners do: whoever schedules is to choose another node.
        let patch = json!({"metadata": {"uid": claim.metadata.uid, "resourceVersion": claim.metadata.resource_version,
            "annotations": {SELECTED_NODE: null}}});
        return Effect::InOrder(vec![Write::merge(&CLAIMS, key, &patch)]);
    }
    provision(core, key, claim, spec, &class, node.as_deref())
}

/// Creates a volume that is kept for a claim; its watch brings the claim here again.
fn provision(
    core: &Core,
    key: &NamespacedName,
    claim: &PersistentVolumeClaim,
    spec: &PersistentVolumeClaimSpec,
    class: &StorageClass,
    node: Option<&Node>,
) -> Effect {
    let name = format!("pvc-{}", claim.metadata.uid.as_deref().unwrap_or_default());
    let volume_key = NamespacedName::new("", &name);
    if core.caches.volumes.get(&volume_key).is_some() {
        return Effect::Done;
    }
    let storage = requested(spec).cloned().unwrap_or_default();
    let zone = node.and_then(|node| node.metadata.labels.as_ref()?.get(ZONE).cloned());
    let one_of = |key: &str, values: Vec<String>| NodeSelectorRequirement {
        key: key.to_owned(),
        operator: "In".to_owned(),
        values: Some(values),
    };
    let term = |all| NodeSelectorTerm { match_expressions: Some(all), ..NodeSelectorTerm::default() };
    // Without a node it can be used wherever its class may make volumes.
    let allowed = class.allowed_topologies.iter().flatten().filter(|_| node.is_none()).map(|topology| {
        let labels = topology.match_label_expressions.iter().flatten();
        term(labels.map(|label| one_of(&label.key, label.values.clone())).collect())
    });
    let terms: Vec<_> = zone.map(|zone| term(vec![one_of(ZONE, vec![zone])])).into_iter().chain(allowed).collect();
    let required = Some(NodeSelector { node_selector_terms: terms }).filter(|one| !one.node_selector_terms.is_empty());
    let node_affinity = required.map(|required| VolumeNodeAffinity { required: Some(required) });
    let mut metadata = ObjectMeta { name: Some(name.clone()), ..ObjectMeta::default() };
    annotate(&mut metadata, "pv.kubernetes.io/provisioned-by", &class.provisioner);
    let spec = PersistentVolumeSpec {
        capacity: Some(BTreeMap::from([("storage".to_owned(), storage)])),
        access_modes: spec.access_modes.clone(),
        storage_class_name: class.metadata.name.clone(),
        persistent_volume_reclaim_policy: class.reclaim_policy.clone(),
        volume_mode: spec.volume_mode.clone(),
        claim_ref: Some(reference(key, claim)),
        csi: Some(CSIPersistentVolumeSource {
            driver: class.provisioner.clone(),
            volume_handle: name,
            ..CSIPersistentVolumeSource::default()
        }),
        node_affinity,
        ..PersistentVolumeSpec::default()
    };
    let volume = PersistentVolume { metadata, spec: Some(spec), status: None };
    Effect::InOrder(vec![Write::ensure(&VOLUMES, &volume_key, &volume)])
}

/// Binds a claim and a volume to each other: the volume first, so that no other claim takes it.
fn bind(key: &NamespacedName, claim: &PersistentVolumeClaim, volume: &PersistentVolume) -> Vec<Write> {
    let name = volume.metadata.name.clone().unwrap_or_default();
    let volume_key = NamespacedName::new("", &name);
    let view = View::of(&volume.metadata);
    let mut writes = Vec::new();
    let known = volume_spec(volume).and_then(|spec| spec.claim_ref.as_ref());
    if known.and_then(|known| known.uid.as_deref()) != claim.metadata.uid.as_deref() {
        let mut patch = json!({"metadata": {"uid": view.uid, "resourceVersion": view.version},
                               "spec": {"claimRef": reference(key, claim)}});
        if let (None, Some(metadata)) = (known, patch.get_mut("metadata").and_then(Value::as_object_mut)) {
            // Which of the two chose the other is remembered on both.
            metadata.insert("annotations".to_owned(), json!({BOUND_BY_CONTROLLER: "yes"}));
        }
        writes.push(Write::merge(&VOLUMES, &volume_key, &patch));
    }
    writes.push(Write::patch_status(&VOLUMES, &volume_key, &json!({"status": {"phase": "Bound"}})));
    let has_volume =
        claim.spec.as_ref().and_then(|spec| spec.volume_name.as_deref()).is_some_and(|name| !name.is_empty());
    let mut annotations = json!({"pv.kubernetes.io/bind-completed": "yes"});
    if let (false, Some(map)) = (has_volume, annotations.as_object_mut()) {
        map.insert(BOUND_BY_CONTROLLER.to_owned(), "yes".into());
    }
    let patch =
        json!({"metadata": {"uid": claim.metadata.uid, "annotations": annotations}, "spec": {"volumeName": name}});
    writes.push(Write::merge(&CLAIMS, key, &patch));
    let spec = volume_spec(volume);
    let status = json!({"phase": "Bound", "accessModes": spec.and_then(|spec| spec.access_modes.clone()),
                        "capacity": spec.and_then(|spec| spec.capacity.clone())});
    writes.push(Write::patch_status(&CLAIMS, key, &json!({"status": status})));
    writes
}

/// The phase of a volume, and its end where its claim is gone.
pub(crate) fn sync_volume(core: &mut Core, name: &Arc<str>) -> Effect {
    let key = NamespacedName::new("", name);
    let Some(volume) = core.caches.volumes.get(&key).cloned() else { return Effect::Done };
    let reference = volume_spec(&volume).and_then(|spec| spec.claim_ref.clone());
    let uid = reference.as_ref().and_then(|reference| reference.uid.clone()).unwrap_or_default();
    let claim = reference.as_ref().and_then(|reference| {
        let (namespace, name) = (reference.namespace.as_deref()?, reference.name.as_deref()?);
        let claim = core.caches.claims.get(&NamespacedName::new(namespace, name))?;
        (claim.metadata.uid.as_deref() == Some(&uid)).then_some(claim)
    });
    if volume.metadata.deletion_timestamp.is_some() {
        let is_used = claim.is_some();
        return if is_used {
            Effect::Done
        } else {
            Effect::of(drop_finalizer(&VOLUMES, &volume.metadata, PV_PROTECTION))
        };
    }
    let names_us =
        |claim: &PersistentVolumeClaim| claim.spec.as_ref().and_then(|spec| spec.volume_name.as_deref()) == Some(name);
    let phase = match (&reference, claim) {
        (None, _) => "Available",
        // Kept for a claim that is not there yet.
        (Some(_), _) if uid.is_empty() => "Available",
        (Some(_), Some(claim)) if names_us(claim) => "Bound",
        // Its claim is being bound.
        (Some(_), Some(_)) => return Effect::Done,
        (Some(_), None) => "Released",
    };
    let policy = volume_spec(&volume).and_then(|spec| spec.persistent_volume_reclaim_policy.as_deref());
    if phase == "Released" && policy == Some("Delete") {
        return released(core, &key, &volume, &uid);
    }
    if volume.status.as_ref().and_then(|status| status.phase.as_deref()) == Some(phase) {
        return Effect::Done;
    }
    let status = json!({"phase": phase, "lastPhaseTransitionTime": core.now_time()});
    Effect::InOrder(vec![Write::patch_status(&VOLUMES, &key, &json!({"status": status}))])
}

/// Deletes a volume whose claim is gone, if a live read says so, too: volumes and claims are watched apart.
fn released(core: &Core, key: &NamespacedName, volume: &PersistentVolume, claim_uid: &str) -> Effect {
    #[derive(serde::Deserialize)]
    struct Live {
        metadata: crate::objects::Meta,
    }
    let Some(reference) = volume_spec(volume).and_then(|spec| spec.claim_ref.clone()) else { return Effect::Done };
    let claim = NamespacedName::new(&reference.namespace.unwrap_or_default(), &reference.name.unwrap_or_default());
    let delete = Write::delete(&VOLUMES, key, volume.metadata.uid.as_deref().unwrap_or_default());
    let (client, claim_uid) = (core.client.clone(), claim_uid.to_owned());
    Effect::Task(Box::pin(async move {
        let failure = |source: kube::Error| crate::write::Failure::Request {
            verb: http::Method::GET,
            resource: CLAIMS.plural.to_string(),
            key: claim.clone(),
            source: Box::new(source),
            tells: None,
        };
        let request = http::Request::get(format!("{}/{}", CLAIMS.path(&claim.namespace), claim.name)).body(Vec::new());
        let request = request.map_err(|error| failure(kube::Error::HttpError(error)))?;
        match client.request::<Live>(request).await {
            Ok(live) if *live.metadata.uid == *claim_uid => Ok(Vec::new()),
            Err(kube::Error::Api(status)) if status.code != 404 => Err(failure(kube::Error::Api(status))),
            Ok(_) | Err(kube::Error::Api(_)) => Ok(vec![delete.send(&client).await?]),
            Err(error) => Err(failure(error)),
        }
    }))
}

fn reference(key: &NamespacedName, claim: &PersistentVolumeClaim) -> ObjectReference {
    ObjectReference {
        api_version: Some("v1".to_owned()),
        kind: Some("PersistentVolumeClaim".to_owned()),
        namespace: Some(key.namespace.to_string()),
        name: Some(key.name.to_string()),
        uid: claim.metadata.uid.clone(),
        resource_version: claim.metadata.resource_version.clone(),
        ..ObjectReference::default()
    }
}

fn volume_spec(volume: &PersistentVolume) -> Option<&PersistentVolumeSpec> {
    volume.spec.as_ref()
}

fn quantity(text: &Text) -> Option<Quantity> {
    Quantity::from_str(&text.0).ok()
}

fn capacity(volume: &PersistentVolume) -> Option<Quantity> {
    volume_spec(volume)?.capacity.as_ref()?.get("storage").and_then(quantity)
}

fn requested(spec: &PersistentVolumeClaimSpec) -> Option<&Text> {
    spec.resources.as_ref()?.requests.as_ref()?.get("storage")
}

/// Whether a volume is kept for a claim.
fn is_reserved(volume: &PersistentVolume, claim: &PersistentVolumeClaim) -> bool {
    volume_spec(volume).and_then(|spec| spec.claim_ref.as_ref()).is_some_and(|reference| {
        reference.name == claim.metadata.name
            && reference.namespace == claim.metadata.namespace
            && reference.uid.as_ref().is_none_or(|uid| uid.is_empty() || Some(uid) == claim.metadata.uid.as_ref())
    })
}

fn is_free(volume: &PersistentVolume, claim: &PersistentVolumeClaim) -> bool {
    volume_spec(volume).is_some_and(|spec| spec.claim_ref.is_none()) || is_reserved(volume, claim)
}

/// Whether a free volume serves a claim on a node.
fn fits(
    volume: &PersistentVolume,
    claim: &PersistentVolumeClaim,
    spec: &PersistentVolumeClaimSpec,
    node: Option<&Node>,
) -> bool {
    let Some(own) = volume_spec(volume) else { return false };
    let class = |name: &Option<String>| name.clone().unwrap_or_default();
    let mode = |mode: &Option<String>| mode.clone().unwrap_or_else(|| "Filesystem".to_owned());
    let modes = own.access_modes.as_deref().unwrap_or_default();
    let has_modes = spec.access_modes.iter().flatten().all(|mode| modes.contains(mode));
    let wanted = requested(spec).and_then(quantity).unwrap_or_default();
    let labels = View::of(&volume.metadata).labels;
    let is_selected = match &spec.selector {
        None => true,
        given => selector(given.as_ref()).is_some_and(|selector| selector.matches(labels)),
    };
    let required = own.node_affinity.as_ref().and_then(|affinity| affinity.required.as_ref());
    volume.metadata.deletion_timestamp.is_none()
        && is_free(volume, claim)
        && class(&own.storage_class_name) == class(&spec.storage_class_name)
        && mode(&own.volume_mode) == mode(&spec.volume_mode)
        && has_modes
        && capacity(volume).is_some_and(|size| size >= wanted)
        && is_selected
        && node.zip(required).is_none_or(|(node, required)| node_fits(required, node))
}
