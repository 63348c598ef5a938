//! What the recorder has written so far, and so what is new.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash, Hasher};

use berth_api::labels;
use berth_kubelet::annotation::{FAILS_AFTER, RUNS_FOR};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::ResourceExt;
use kube::api::DynamicObject;
use serde_json::{Map, Value};

use super::kinds::Kind;
use super::{changes, redact};

/// On a template of pods: which of those that its workload has had it is.
const ROLLOUT: &str = "berth.sh/recorded-rollout";

/// On a volume that was made for a claim.
const PROVISIONED_BY: &str = "pv.kubernetes.io/provisioned-by";

/// Something to be written.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Noted {
    /// An object was made or changed.
    Applied { object: Value, is_of_the_start: bool },
    /// Nothing but its number of pods was changed.
    Scaled { kind: &'static str, namespace: String, name: String, replicas: i64 },
    /// A kind of pod that comes for the first time.
    Template { name: String, pod: Value },
    /// A pod that no recorded workload makes.
    Created { template: String, name: String, is_of_the_start: bool },
    /// Of a pod that is there, this was changed.
    Patched { kind: Kind, namespace: String, name: String, patch: Value },
    Deleted {
        kind: Kind,
        namespace: String,
        name: String,
        /// Whether what it made stays.
        orphans: bool,
    },
    /// A pod has ended by itself: one of a Job or CronJob, or one that came alone.
    Ran { kind: String, namespace: String, name: String, millis: u64 },
}

/// Namespace and name.
type Name = (String, String);

/// What was written.
#[derive(Debug, Default)]
pub(super) struct Memory {
    known: BTreeMap<(Kind, Name), Known>,
    /// What a list under way has shown, by kind.
    lists: BTreeMap<Kind, BTreeSet<Name>>,
    /// Kinds that were listed once.
    is_listed: BTreeSet<Kind>,
    /// The CronJobs of Jobs, by the Job's uid.
    cron_jobs: BTreeMap<String, Name>,
    /// Pods that have ended, by uid.
    ended: BTreeSet<String>,
    /// By uid, what a recorded workload has made: where it has no owner any more, a replay has it all the same.
    owned: BTreeSet<String>,
    /// Names of templates, by what they are.
    templates: BTreeMap<String, String>,
    /// What the templates of workloads that roll out were, as hashes, in the order of their coming.
    rollouts: BTreeMap<(Kind, Name), Vec<u64>>,
}

#[derive(Debug)]
struct Known {
    /// As it was written; of a pod what may change, and nothing of one that a recorded workload had made.
    object: Value,
    is_going: bool,
}

impl Noted {
    /// Whether it was there when the recording began.
    pub(super) const fn is_of_the_start(&self) -> bool {
        matches!(self, Self::Applied { is_of_the_start: true, .. } | Self::Created { is_of_the_start: true, .. })
    }
}

// === impl Memory ===

impl Memory {
    pub(super) fn list_begins(&mut self, kind: Kind) {
        self.lists.insert(kind, BTreeSet::new());
    }

    pub(super) fn listed(&mut self, kind: Kind, object: &DynamicObject, noted: &mut Vec<Noted>) {
        if let Some(list) = self.lists.get_mut(&kind) {
            list.insert(name_of(object));
        }
        self.applied(kind, object, noted);
    }

    pub(super) fn list_ends(&mut self, kind: Kind, noted: &mut Vec<Noted>) {
        self.is_listed.insert(kind);
        let Some(list) = self.lists.remove(&kind) else { return };
        let of_kind = self.known.iter().filter(|((own, name), _)| *own == kind && !list.contains(name));
        let gone: Vec<Name> = of_kind.map(|((_, name), _)| name.clone()).collect();
        for name in gone {
            self.gone(kind, name, noted);
        }
    }

    pub(super) fn applied(&mut self, kind: Kind, object: &DynamicObject, noted: &mut Vec<Noted>) {
        let (namespace, name) = name_of(object);
        let owner = controller(object).filter(|owner| Kind::makes_pods(&owner.api_version, &owner.kind));
        if kind.kind == "Job"
            && let Some(owner) = owner.filter(|owner| owner.kind == "CronJob")
            && let Some(uid) = object.uid()
        {
            self.cron_jobs.insert(uid, (namespace.clone(), owner.name.clone()));
        }
        if kind.kind == "Pod" {
            self.ran(object, owner, noted);
        }
        if owner.is_some() {
            self.owned.extend(object.uid());
            // An orphan that has an owner again goes with that one.
            self.known.remove(&(kind, (namespace, name)));
            return;
        }
        if is_of_the_system(kind, object) || !self.is_wanted(kind, object) {
            return;
        }
        if object.metadata.deletion_timestamp.is_some() {
            let orphans = object.finalizers().iter().any(|finalizer| finalizer == "orphan");
            self.going(kind, (namespace, name), orphans, noted);
            return;
        }
        let is_of_the_start = !self.is_listed.contains(&kind);
        let value = serde_json::to_value(object).unwrap_or_default();
        let mut new = redact::object(kind.api_version, kind.kind, &value);
        if kind.rolls_out() {
            self.number_rollout((kind, (namespace.clone(), name.clone())), &value, &mut new);
        }
        let key = (kind, (namespace.clone(), name.clone()));
        if object.metadata.uid.as_ref().is_some_and(|uid| self.owned.contains(uid)) && !self.known.contains_key(&key) {
            let object = if kind.kind == "Pod" { Value::Null } else { new };
            self.known.insert(key, Known { object, is_going: false });
            return;
        }
        if kind.kind == "Pod" {
            let changeable = changes::changeable(&new);
            let Some(known) = self.known.get_mut(&key).filter(|known| !known.is_going) else {
                self.known.insert(key, Known { object: changeable, is_going: false });
                let template = self.template(new, noted);
                noted.push(Noted::Created { template, name, is_of_the_start });
                return;
            };
            let change = changes::patch(&known.object, &changeable).filter(|_| !known.object.is_null());
            noted.extend(change.map(|patch| {
                known.object = changeable;
                Noted::Patched { kind, namespace, name, patch }
            }));
            return;
        }
        let known = self.known.get(&key).filter(|known| !known.is_going);
        if known.is_some_and(|known| known.object == new) {
            return;
        }
        let replicas = known.and_then(|known| scaled(kind, &known.object, &new));
        noted.push(match (kind.scaled_by(), replicas) {
            (Some(_), Some(replicas)) => Noted::Scaled { kind: kind.kind, namespace, name, replicas },
            _ => Noted::Applied { object: new.clone(), is_of_the_start },
        });
        self.known.insert(key, Known { object: new, is_going: false });
    }

    /// A template that differs only in what is left out is a rollout, too: a number in its annotations says which of the
    /// templates that its workload has had it is, so that going back to one is going back in a replay.
    fn number_rollout(&mut self, key: (Kind, Name), object: &Value, recorded: &mut Value) {
        let Some(template) = object.pointer("/spec/template") else { return };
        let mut hasher = DefaultHasher::new();
        template.to_string().hash(&mut hasher);
        let (hash, known) = (hasher.finish(), self.rollouts.entry(key).or_default());
        let number = known.iter().position(|own| *own == hash).unwrap_or_else(|| {
            known.push(hash);
            known.len() - 1
        });
        // The first stays as it is.
        if number > 0
            && let Some(metadata) = recorded.pointer_mut("/spec/template/metadata").and_then(Value::as_object_mut)
            && let Some(annotations) =
                metadata.entry("annotations").or_insert_with(|| Value::Object(Map::new())).as_object_mut()
        {
            annotations.insert(ROLLOUT.to_owned(), number.to_string().into());
        }
    }

    pub(super) fn deleted(&mut self, kind: Kind, object: &DynamicObject, noted: &mut Vec<Noted>) {
        if let Some(uid) = object.uid() {
            self.cron_jobs.remove(&uid);
            self.owned.remove(&uid);
            if kind.kind == "Pod" {
                // Its last state may be the first that tells of its end.
                let owner = controller(object).filter(|owner| Kind::makes_pods(&owner.api_version, &owner.kind));
                self.ran(object, owner, noted);
                if self.ended.remove(&uid) {
                    // It had ended: whoever made it cleans up, as a replay does.
                    self.known.remove(&(kind, name_of(object)));
                    return;
                }
            }
        }
        self.gone(kind, name_of(object), noted);
    }

    fn gone(&mut self, kind: Kind, name: Name, noted: &mut Vec<Noted>) {
        self.going(kind, name.clone(), false, noted);
        let key = (kind, name);
        self.known.remove(&key);
        self.rollouts.remove(&key);
    }

    fn going(&mut self, kind: Kind, name: Name, orphans: bool, noted: &mut Vec<Noted>) {
        let Some(known) = self.known.get_mut(&(kind, name.clone())) else { return };
        if !std::mem::replace(&mut known.is_going, true) && kind.kind != "Node" {
            let (namespace, name) = name;
            noted.push(Noted::Deleted { kind, namespace, name, orphans });
        }
    }

    /// Whether an object is of those that are recorded of its kind.
    fn is_wanted(&self, kind: Kind, object: &DynamicObject) -> bool {
        match kind.kind {
            // Nodes of NodePools come by themselves, and others that come later are of another autoscaler.
            "Node" => !self.is_listed.contains(&kind) && !object.labels().contains_key(labels::NODEPOOL),
            "Pod" => !object.annotations().contains_key("kubernetes.io/config.mirror"),
            // Volumes of a StorageClass come by themselves; those that are there already are where they are.
            "PersistentVolume" => !self.is_listed.contains(&kind) || !object.annotations().contains_key(PROVISIONED_BY),
            _ => true,
        }
    }

    /// How long a pod ran that has just ended by itself.
    fn ran(&mut self, pod: &DynamicObject, owner: Option<&OwnerReference>, noted: &mut Vec<Noted>) {
        let is_told = |annotation| pod.annotations().contains_key(annotation);
        let Some(uid) = pod.uid() else { return };
        let phase = pod.data.pointer("/status/phase").and_then(Value::as_str);
        if phase != Some("Succeeded") || !self.ended.insert(uid) || is_told(RUNS_FOR) || is_told(FAILS_AFTER) {
            return;
        }
        let Some(millis) = length(&pod.data) else { return };
        let (own_namespace, own_name) = name_of(pod);
        let (kind, (namespace, name)) = match owner {
            None => ("Pod", (own_namespace, own_name)),
            Some(owner) if owner.kind == "Job" => match self.cron_jobs.get(&owner.uid) {
                Some(cron_job) => ("CronJob", cron_job.clone()),
                None => ("Job", (own_namespace, owner.name.clone())),
            },
            Some(_) => return,
        };
        noted.push(Noted::Ran { kind: kind.to_owned(), namespace, name, millis });
    }

    /// The name of a pod's template, which is noted where it is new.
    fn template(&mut self, mut pod: Value, noted: &mut Vec<Noted>) -> String {
        if let Some(metadata) = pod.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.remove("name");
        }
        let text = pod.to_string();
        if let Some(name) = self.templates.get(&text) {
            return name.clone();
        }
        let name = format!("t{}", self.templates.len() + 1);
        self.templates.insert(text, name.clone());
        noted.push(Noted::Template { name: name.clone(), pod });
        name
    }
}

fn name_of(object: &DynamicObject) -> Name {
    (object.namespace().unwrap_or_default(), object.name_any())
}

fn controller(object: &DynamicObject) -> Option<&OwnerReference> {
    object.owner_references().iter().find(|owner| owner.controller == Some(true))
}

/// What every cluster has by itself.
fn is_of_the_system(kind: Kind, object: &DynamicObject) -> bool {
    let name = object.name_any();
    match kind.kind {
        "Namespace" => name == "default" || name.starts_with("kube-"),
        "PriorityClass" => name.starts_with("system-"),
        "Service" => name == "kubernetes" && object.namespace().as_deref() == Some("default"),
        _ => false,
    }
}

/// The new number of pods, where nothing else has changed.
fn scaled(kind: Kind, old: &Value, new: &Value) -> Option<i64> {
    let path = format!("/spec/{}", kind.scaled_by()?);
    let replicas = new.pointer(&path)?.as_i64()?;
    let mut as_new = old.clone();
    *as_new.pointer_mut(&path)? = replicas.into();
    (as_new == *new).then_some(replicas)
}

/// Milliseconds from the start of the first container to the end of the last one.
fn length(pod: &Value) -> Option<u64> {
    let statuses = pod.pointer("/status/containerStatuses")?.as_array()?;
    let time = |status: &Value, field: &str| {
        status.pointer(&format!("/state/terminated/{field}"))?.as_str()?.parse::<Timestamp>().ok()
    };
    let start = statuses.iter().filter_map(|status| time(status, "startedAt")).min()?;
    let end = statuses.iter().filter_map(|status| time(status, "finishedAt")).max()?;
    u64::try_from(end.duration_since(start).as_millis()).ok()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::kinds::KINDS;
    use super::*;

    fn kind(name: &str) -> Kind {
        KINDS.into_iter().find(|kind| kind.kind == name).unwrap()
    }

    fn object(value: Value) -> DynamicObject {
        serde_json::from_value(value).unwrap()
    }

    fn deployment(replicas: u32, image: &str) -> DynamicObject {
        object(json!({"apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {"name": "web", "namespace": "default", "uid": "d", "resourceVersion": image.len().to_string()},
            "spec": {"replicas": replicas, "template": {"spec": {"containers": [{"name": "c", "image": image}]}}},
            "status": {"replicas": replicas}}))
    }

    fn pod(name: &str, owner: Option<(&str, &str)>, phase: &str) -> DynamicObject {
        let owners: Vec<Value> = owner
            .map(|(api_version, kind)| json!({"apiVersion": api_version, "kind": kind, "name": "o", "uid": "o", "controller": true}))
            .into_iter()
            .collect();
        let terminated = json!({"startedAt": "2026-01-01T00:00:00Z", "finishedAt": "2026-01-01T00:01:00Z"});
        object(json!({"apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": name, "namespace": "default", "uid": name, "ownerReferences": owners},
            "spec": {"containers": [{"name": "c", "image": "i"}]},
            "status": {"phase": phase, "containerStatuses": [{"state": {"terminated": terminated}}]}}))
    }

    #[test]
    fn only_what_is_asked_for_anew_is_noted() {
        let (mut memory, of, mut noted) = (Memory::default(), kind("Deployment"), Vec::new());
        memory.list_begins(of);
        memory.listed(of, &deployment(1, "a"), &mut noted);
        memory.list_ends(of, &mut noted);
        assert!(noted[0].is_of_the_start(), "{noted:?}");
        noted.clear();
        memory.applied(of, &deployment(1, "a"), &mut noted);
        assert_eq!(noted, []);
        memory.applied(of, &deployment(3, "a"), &mut noted);
        let (namespace, name) = ("default".to_owned(), "web".to_owned());
        assert_eq!(noted, [Noted::Scaled { kind: "Deployment", namespace, name, replicas: 3 }]);
        noted.clear();
        memory.applied(of, &deployment(3, "bb"), &mut noted);
        assert!(matches!(noted[..], [Noted::Applied { is_of_the_start: false, .. }]), "{noted:?}");
        noted.clear();
        // A list that does not show it any more is its end, told once.
        memory.list_begins(of);
        memory.list_ends(of, &mut noted);
        memory.deleted(of, &deployment(3, "bb"), &mut noted);
        assert!(matches!(noted[..], [Noted::Deleted { .. }]), "{noted:?}");
    }

    #[test]
    fn volumes_are_recorded_unless_a_storage_class_makes_them_anew() {
        let volume = |name: &str, is_made: bool| {
            let annotations = if is_made { json!({PROVISIONED_BY: "sandbox"}) } else { json!({}) };
            object(json!({"apiVersion": "v1", "kind": "PersistentVolume",
                "metadata": {"name": name, "uid": name, "annotations": annotations}, "spec": {}}))
        };
        let (mut memory, of, mut noted) = (Memory::default(), kind("PersistentVolume"), Vec::new());
        memory.list_begins(of);
        memory.listed(of, &volume("at-first", true), &mut noted);
        memory.list_ends(of, &mut noted);
        memory.applied(of, &volume("made", true), &mut noted);
        memory.applied(of, &volume("by-hand", false), &mut noted);
        memory.deleted(of, &volume("made", true), &mut noted);
        let name = |noted: &Noted| match noted {
            Noted::Applied { object, .. } => object.pointer("/metadata/name").cloned(),
            _ => None,
        };
        let names: Vec<_> = noted.iter().map(name).collect();
        assert_eq!(names, [Some(json!("at-first")), Some(json!("by-hand"))]);
    }

    #[test]
    fn a_rollout_of_what_is_left_out_is_noted_without_it() {
        let of = kind("Deployment");
        let with = |token: &str| {
            let mut deployment = deployment(1, "a");
            deployment.data["spec"]["template"]["metadata"] = json!({"annotations": {"restarted": token}});
            deployment
        };
        let (mut memory, mut noted) = (Memory::default(), Vec::new());
        for token in ["first", "second", "second", "first"] {
            memory.applied(of, &with(token), &mut noted);
        }
        let applied = |noted: &Noted| match noted {
            Noted::Applied { object, .. } => object.clone(),
            other => panic!("{other:?}"),
        };
        let all: Vec<Value> = noted.iter().map(applied).collect();
        assert_eq!(all.len(), 3, "{all:?}");
        assert_eq!(all[0], all[2], "who goes back has the template of before");
        assert_eq!(all[1].pointer("/spec/template/metadata/annotations"), Some(&json!({ROLLOUT: "1"})));
        assert!(!format!("{all:?}").contains("second"), "{all:?}");
    }

    /// The regression: a replay deleted the pods of a workload that left them behind, and made them once more beside its own.
    #[test]
    fn what_a_workload_leaves_behind_is_not_recorded_as_new() {
        let (sets, pods, mut memory, mut noted) = (kind("Deployment"), kind("Pod"), Memory::default(), Vec::new());
        memory.applied(sets, &deployment(1, "a"), &mut noted);
        let owned = pod("a", Some(("apps/v1", "ReplicaSet")), "Running");
        memory.applied(pods, &owned, &mut noted);
        noted.clear();
        let mut going = deployment(1, "a");
        going.metadata.deletion_timestamp = serde_json::from_value(json!("2026-01-01T00:00:00Z")).unwrap();
        going.metadata.finalizers = Some(vec!["orphan".to_owned()]);
        memory.applied(sets, &going, &mut noted);
        memory.applied(pods, &pod("a", None, "Running"), &mut noted);
        memory.deleted(sets, &deployment(1, "a"), &mut noted);
        assert!(matches!(&noted[..], [Noted::Deleted { orphans: true, .. }]), "{noted:?}");
        noted.clear();
        // It may go by itself, or with its next owner.
        memory.applied(pods, &owned, &mut noted);
        memory.applied(pods, &pod("a", None, "Running"), &mut noted);
        assert_eq!(noted, []);
        memory.deleted(pods, &pod("a", None, "Running"), &mut noted);
        assert!(matches!(&noted[..], [Noted::Deleted { orphans: false, name, .. }] if name == "a"), "{noted:?}");
    }

    #[test]
    fn pods_of_recorded_workloads_come_by_themselves_and_others_share_templates() {
        let (mut memory, of, mut noted) = (Memory::default(), kind("Pod"), Vec::new());
        memory.applied(of, &pod("a", Some(("apps/v1", "ReplicaSet")), "Running"), &mut noted);
        assert_eq!(noted, []);
        memory.applied(of, &pod("b", None, "Pending"), &mut noted);
        memory.applied(of, &pod("c", Some(("spark.example/v1", "Application")), "Pending"), &mut noted);
        let of_kind = |wanted: fn(&Noted) -> bool| noted.iter().filter(|own| wanted(own)).count();
        assert_eq!(of_kind(|own| matches!(own, Noted::Created { .. })), 2);
        assert_eq!(of_kind(|own| matches!(own, Noted::Template { .. })), 1);
        noted.clear();
        memory.applied(of, &pod("b", None, "Succeeded"), &mut noted);
        memory.deleted(of, &pod("b", None, "Succeeded"), &mut noted);
        let (namespace, name) = ("default".to_owned(), "b".to_owned());
        assert_eq!(noted, [Noted::Ran { kind: "Pod".to_owned(), namespace, name, millis: 60_000 }]);
    }

    #[test]
    fn pods_of_a_cron_job_tell_how_long_its_pods_run() {
        let (mut memory, mut noted) = (Memory::default(), Vec::new());
        let owner =
            json!({"apiVersion": "batch/v1", "kind": "CronJob", "name": "nightly", "uid": "n", "controller": true});
        let job = object(json!({"apiVersion": "batch/v1", "kind": "Job",
            "metadata": {"name": "o", "namespace": "default", "uid": "o", "ownerReferences": [owner]}, "spec": {}}));
        memory.applied(kind("Job"), &job, &mut noted);
        memory.applied(kind("Pod"), &pod("p", Some(("batch/v1", "Job")), "Succeeded"), &mut noted);
        let (namespace, name) = ("default".to_owned(), "nightly".to_owned());
        assert_eq!(noted, [Noted::Ran { kind: "CronJob".to_owned(), namespace, name, millis: 60_000 }]);
    }
}
