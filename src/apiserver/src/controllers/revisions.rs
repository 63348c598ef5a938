//! ControllerRevisions: the templates that a StatefulSet or a DaemonSet had, which `kubectl rollout undo` goes back to.

use serde_json::{Value, json};

use super::world::{World, controlled_by};
use crate::meta::{self, at, text_at};
use crate::server::ApiServer;

const STORAGE: &str = "controllerrevisions.apps";

/// A template with the name under which it is kept.
#[derive(Debug, Clone)]
pub(super) struct Revision {
    pub(super) name: String,
    /// The value of the label that tells the pods of the revision.
    pub(super) hash: String,
    pub(super) template: Value,
    number: i64,
}

impl Revision {
    fn of(object: &Value, label: &str) -> Self {
        Self {
            name: meta::name(object).to_owned(),
            hash: meta::labels(object).find(|(key, _)| *key == label).map_or("", |(_, hash)| hash).to_owned(),
            template: template_of(object),
            number: object.get("revision").and_then(Value::as_i64).unwrap_or(0),
        }
    }
}

/// The revisions of a workload.
#[derive(Debug)]
pub(super) struct Revisions {
    /// All but that of the present template, oldest first.
    pub(super) old: Vec<Revision>,
    /// That of the present template.
    pub(super) present: Revision,
}

impl ApiServer {
    /// The revisions of a workload: that of its present template is made, or becomes the newest again. `label` tells a
    /// revision's hash and `hash` is that of the present template.
    pub(super) fn revisions(&self, world: &World, owner: &Value, label: &str, hash: &str) -> Revisions {
        let template = at(owner, &["spec", "template"]).cloned().unwrap_or_default();
        let known = world.controlled(STORAGE, meta::text(owner, "uid"));
        let mut all: Vec<Revision> = known.iter().map(|object| Revision::of(object, label)).collect();
        all.sort_by(|a, b| (a.number, &a.name).cmp(&(b.number, &b.name)));
        let newest = all.last().map_or(0, |revision| revision.number);
        if let Some(position) = all.iter().rposition(|revision| revision.template == template) {
            let mut present = all.remove(position);
            if present.number < newest {
                present.number = newest + 1;
                let path = format!("{}/{}", meta::namespace(owner), present.name);
                self.change_object(STORAGE, &path, |object| {
                    if let Some(map) = object.as_object_mut() {
                        map.insert("revision".to_owned(), present.number.into());
                    }
                });
            }
            return Revisions { old: all, present };
        }
        let present = Revision {
            name: format!("{}-{hash}", meta::name(owner)),
            hash: hash.to_owned(),
            template,
            number: newest + 1,
        };
        self.make_revision(owner, &present, label);
        Revisions { old: all, present }
    }

    fn make_revision(&self, owner: &Value, revision: &Revision, label: &str) {
        let mut labels = at(&revision.template, &["metadata", "labels"]).cloned().unwrap_or_else(|| json!({}));
        if let Some(map) = labels.as_object_mut() {
            map.insert(label.to_owned(), revision.hash.as_str().into());
        }
        let mut object = json!({
            "metadata": {"name": revision.name, "labels": labels, "ownerReferences": [controlled_by(owner)]},
            "data": data_of(&revision.template), "revision": revision.number});
        if let Some(annotations) = at(owner, &["metadata", "annotations"]) {
            meta::set(&mut object, "annotations", annotations.clone());
        }
        self.make(STORAGE, meta::namespace(owner), object, "kube-controller-manager");
    }

    /// Old revisions that no pod is of are kept as far as the history goes, the oldest go first.
    pub(super) fn forget_revisions(&self, owner: &Value, old: &[Revision], is_live: impl Fn(&Revision) -> bool) {
        let limit = meta::int_at(owner, &["spec", "revisionHistoryLimit"]).unwrap_or(10);
        let kept = usize::try_from(limit).unwrap_or(0);
        let idle: Vec<&Revision> = old.iter().filter(|revision| !is_live(revision)).collect();
        for revision in idle.iter().take(idle.len().saturating_sub(kept)) {
            self.remove_object(STORAGE, &format!("{}/{}", meta::namespace(owner), revision.name), None);
        }
    }
}

/// What a revision holds: a strategic merge patch that puts the template back.
pub(super) fn data_of(template: &Value) -> Value {
    let mut template = template.clone();
    if let Some(map) = template.as_object_mut() {
        map.insert("$patch".to_owned(), "replace".into());
    }
    json!({"spec": {"template": template}})
}

fn template_of(revision: &Value) -> Value {
    let mut template = at(revision, &["data", "spec", "template"]).cloned().unwrap_or_default();
    if text_at(&template, &["$patch"]) == "replace"
        && let Some(map) = template.as_object_mut()
    {
        map.remove("$patch");
    }
    template
}

/// The hash by which the real StatefulSet controller names a revision: FNV-1 of what it holds and of the number of
/// collisions, in characters without vowels.
pub(super) fn hash_of_data(template: &Value) -> String {
    // Go's encoder escapes these, too.
    let text = data_of(template).to_string();
    let text = text.replace('<', "\\u003c").replace('>', "\\u003e").replace('&', "\\u0026");
    let hash =
        text.bytes().chain(*b"0").fold(0x811c_9dc5_u32, |hash, byte| hash.wrapping_mul(0x0100_0193) ^ u32::from(byte));
    hash.to_string().bytes().map(super::world::safe).collect()
}
