//! ControllerRevisions: the templates that a StatefulSet or a DaemonSet had, which `kubectl rollout undo` goes back to.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::apps::v1::ControllerRevision;
use k8s_openapi::api::core::v1::PodTemplateSpec;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use k8s_openapi::apimachinery::pkg::runtime::RawExtension;
use serde_json::{Value, json};

use super::adoption::{Claimed, Owner};
use super::template::{safe, set_label, size};
use crate::core::{Core, controlled_by};
use crate::key::NamespacedName;
use crate::resource::REVISIONS;
use crate::store::Kept;
use crate::work::Work;
use crate::write::{Effect, Write};

/// A template with the name under which it is kept.
#[derive(Debug, Clone)]
pub(crate) struct Revision {
    pub(crate) name: String,
    /// The value of the label that tells the pods of the revision.
    pub(crate) hash: String,
    pub(crate) template: PodTemplateSpec,
    number: i64,
    uid: String,
}

/// The revisions of a workload.
#[derive(Debug)]
pub(crate) struct Revisions {
    /// All but that of the present template, oldest first.
    pub(crate) old: Vec<Revision>,
    /// That of the present template.
    pub(crate) present: Revision,
    /// What makes them so.
    pub(crate) writes: Vec<Write>,
}

impl Revision {
    fn of(object: &ControllerRevision, label: &str) -> Self {
        let view = object.view();
        let template = object.data.as_ref().and_then(|data| {
            let mut template = data.0.get("spec")?.get("template")?.clone();
            template.as_object_mut()?.remove("$patch");
            serde_json::from_value(template).ok()
        });
        Self {
            name: view.name.to_owned(),
            hash: view.labels.get(label).cloned().unwrap_or_default(),
            template: template.unwrap_or_default(),
            number: object.revision,
            uid: view.uid.to_owned(),
        }
    }
}

/// The revisions of a workload: that of its present template is created, or becomes the newest again. `label` tells a
/// revision's hash, `hash` is that of the present template, and `annotations` are the workload's own.
pub(crate) fn revisions(
    core: &Core,
    owner: &Owner<'_>,
    work: &Work,
    (annotations, template): (Option<&BTreeMap<String, String>>, &PodTemplateSpec),
    (label, hash): (&str, &str),
) -> Result<Revisions, Effect> {
    let caches = &core.caches;
    let own = caches.indexes.revisions_of.get(owner.view.uid).filter_map(|key| caches.revisions.get(key)).cloned();
    let free = caches.indexes.orphan_revisions.members(work).filter_map(|key| caches.revisions.get(key));
    let free = free.filter(|revision| revision.metadata.deletion_timestamp.is_none());
    // What a revision selects follows its template's labels, so none is released.
    let own: Vec<Arc<ControllerRevision>> = own.collect();
    let adopter = Owner { resource: owner.resource, view: owner.view, selector: None };
    let known = match adopter.claim(core, &REVISIONS, own, free) {
        Claimed::Owned(known) => known,
        Claimed::First(effect) => return Err(effect),
    };
    let mut all: Vec<Revision> = known.iter().map(|object| Revision::of(object, label)).collect();
    all.sort_by(|a, b| (a.number, &a.name).cmp(&(b.number, &b.name)));
    let newest = all.last().map_or(0, |revision| revision.number);
    let mut writes = Vec::new();
    if let Some(position) = all.iter().rposition(|revision| revision.template == *template) {
        let mut present = all.remove(position);
        if present.number < newest {
            present.number = newest + 1;
            let key = NamespacedName::new(owner.view.namespace, &present.name);
            writes.push(Write::merge(&REVISIONS, &key, &json!({"revision": present.number})));
        }
        return Ok(Revisions { old: all, present, writes });
    }
    let present = Revision {
        name: format!("{}-{hash}", owner.view.name),
        hash: hash.to_owned(),
        template: template.clone(),
        number: newest + 1,
        uid: String::new(),
    };
    writes.push(create(owner, annotations, &present, label));
    Ok(Revisions { old: all, present, writes })
}

/// A revision carries the workload's annotations, so that the history tells why it was changed.
fn create(
    owner: &Owner<'_>,
    annotations: Option<&BTreeMap<String, String>>,
    revision: &Revision,
    label: &str,
) -> Write {
    let given = revision.template.metadata.clone().unwrap_or_default();
    let mut metadata = ObjectMeta {
        name: Some(revision.name.clone()),
        labels: given.labels,
        annotations: annotations.cloned(),
        owner_references: Some(vec![controlled_by(owner.resource, owner.view)]),
        ..ObjectMeta::default()
    };
    set_label(&mut metadata, label, &revision.hash);
    let data = Some(RawExtension(data_of(&revision.template)));
    let object = ControllerRevision { metadata, data, revision: revision.number };
    Write::ensure(&REVISIONS, &NamespacedName::new(owner.view.namespace, &revision.name), &object)
}

/// Old revisions that no pod is of are kept as far as the history goes; the oldest go first.
pub(crate) fn forget(
    namespace: &str,
    limit: Option<i32>,
    old: &[Revision],
    is_live: impl Fn(&Revision) -> bool,
) -> Vec<Write> {
    let kept = size(limit.unwrap_or(10));
    let idle: Vec<&Revision> = old.iter().filter(|revision| !is_live(revision)).collect();
    let surplus = idle.iter().take(idle.len().saturating_sub(kept));
    surplus
        .map(|revision| Write::delete(&REVISIONS, &NamespacedName::new(namespace, &revision.name), &revision.uid))
        .collect()
}

/// What a revision holds: a strategic merge patch that puts the template back.
fn data_of(template: &PodTemplateSpec) -> Value {
    let mut template = json!(template);
    if let Some(map) = template.as_object_mut() {
        map.insert("$patch".to_owned(), "replace".into());
    }
    json!({"spec": {"template": template}})
}

/// The hash by which the real StatefulSet controller names a revision: FNV-1 of what it holds and of the number of
/// collisions, in characters without vowels.
pub(crate) fn hash_of_data(template: &PodTemplateSpec) -> String {
    // Go's encoder escapes these, too.
    let text = data_of(template).to_string();
    let text = text.replace('<', "\\u003c").replace('>', "\\u003e").replace('&', "\\u0026");
    let hash =
        text.bytes().chain(*b"0").fold(0x811c_9dc5_u32, |hash, byte| hash.wrapping_mul(0x0100_0193) ^ u32::from(byte));
    hash.to_string().bytes().map(safe).collect()
}
