//! What a change of a workload means.

use k8s_openapi::api::apps::v1::{ControllerRevision, DaemonSet, Deployment, ReplicaSet, StatefulSet};
use k8s_openapi::api::batch::v1::{CronJob, Job};
use k8s_openapi::api::core::v1::ReplicationController;
use kube::core::Selector;

use super::set_selector;
use crate::cache::{Caches, Indexes};
use crate::core::Core;
use crate::index::{SelectorIndex, workload_selector};
use crate::key::NamespacedName;
use crate::store::{Delta, Kept};
use crate::work::Work;

/// Notes which pods without a controller a workload selects.
fn select_orphans(core: &mut Core, work: &Work, key: &NamespacedName, selector: Option<Selector>) {
    let Caches { pods, indexes: Indexes { orphans, orphans_in, .. }, .. } = &mut core.caches;
    let free = orphans_in.get(&key.namespace).filter_map(|key| Some((key, pods.get(key)?)));
    let free = free.map(|(key, pod)| (key, &*pod.metadata.labels));
    set_selector(orphans, work, key, selector, free);
}

fn select_revisions(core: &mut Core, work: &Work, key: &NamespacedName, selector: Option<Selector>) {
    let all = core.caches.revisions.namespace(&key.namespace);
    let all = all.map(|(key, revision)| (key, revision.view()));
    let free = all.filter(|(_, view)| view.controller().is_none()).map(|(key, view)| (key, view.labels));
    set_selector(&mut core.caches.indexes.orphan_revisions, work, key, selector, free);
}

pub(crate) fn deployment(core: &mut Core, delta: &Delta<Deployment>) {
    let work = Work::Deployment(delta.key.clone());
    let given = delta.new.as_ref().and_then(|new| workload_selector(Some(&new.spec.as_ref()?.selector)));
    let all = core.caches.replica_sets.namespace(&delta.key.namespace).map(|(key, set)| (key, set.view()));
    let free = all.filter(|(_, view)| view.controller().is_none()).map(|(key, view)| (key, view.labels));
    set_selector(&mut core.caches.indexes.orphan_sets, &work, &delta.key, given, free);
    core.add(work);
    autoscale(core, &("Deployment".into(), delta.key.clone()));
}

/// Whatever scales a workload, by its kind and its name, looks at it.
pub(super) fn autoscale(core: &mut Core, scaled: &(Box<str>, NamespacedName)) {
    let of_this: Vec<NamespacedName> = core.caches.indexes.autoscalers_of.get(scaled).cloned().collect();
    for autoscaler in of_this {
        core.add(Work::Autoscaler(autoscaler));
    }
}

/// What selects an object that has no controller, and did.
fn adopters<T: Kept>(index: &mut SelectorIndex, delta: &Delta<T>) -> Vec<Work> {
    let view = |object: &'_ Option<std::sync::Arc<T>>| object.clone();
    let (old, new) = (view(&delta.old), view(&delta.new));
    let free = |object: Option<&T>| {
        object.map(Kept::view).filter(|view| view.controller().is_none()).map(|view| view.labels.clone())
    };
    let (old, new) = (free(old.as_deref()), free(new.as_deref()));
    index.change(&delta.key, old.as_ref(), new.as_ref()).into_iter().collect()
}

/// The controllers that an object has and had.
fn controllers_of<T: Kept>(delta: &Delta<T>) -> Vec<(bool, String, String, Box<str>)> {
    [(&delta.old, false), (&delta.new, true)]
        .into_iter()
        .filter_map(|(object, is_new)| {
            let owner = object.as_ref()?.view().controller()?;
            Some((is_new, owner.kind.clone(), owner.name.clone(), owner.uid.as_str().into()))
        })
        .collect()
}

pub(crate) fn replica_set(core: &mut Core, delta: &Delta<ReplicaSet>) {
    let work = Work::ReplicaSet(delta.key.clone());
    let given = delta.new.as_ref().and_then(|new| workload_selector(Some(&new.spec.as_ref()?.selector)));
    select_orphans(core, &work, &delta.key, given);
    core.add(work);
    autoscale(core, &("ReplicaSet".into(), delta.key.clone()));
    for (is_new, kind, name, uid) in controllers_of(delta) {
        if is_new {
            core.caches.indexes.sets_of.insert(uid, &delta.key);
        } else {
            core.caches.indexes.sets_of.remove(&uid, &delta.key);
        }
        if kind == "Deployment" {
            core.add(Work::Deployment(delta.key.beside(&name)));
        }
    }
    for work in adopters(&mut core.caches.indexes.orphan_sets, delta) {
        core.add(work);
    }
}

pub(crate) fn replication_controller(core: &mut Core, delta: &Delta<ReplicationController>) {
    let work = Work::ReplicationController(delta.key.clone());
    let given = delta.new.as_ref().and_then(|new| new.spec.as_ref()?.selector.clone());
    let given = given.filter(|labels| !labels.is_empty()).map(|labels| labels.into_iter().collect::<Selector>());
    select_orphans(core, &work, &delta.key, given);
    core.add(work);
    autoscale(core, &("ReplicationController".into(), delta.key.clone()));
}

pub(crate) fn stateful_set(core: &mut Core, delta: &Delta<StatefulSet>) {
    let work = Work::StatefulSet(delta.key.clone());
    let given = delta.new.as_ref().and_then(|new| workload_selector(Some(&new.spec.as_ref()?.selector)));
    select_orphans(core, &work, &delta.key, given.clone());
    select_revisions(core, &work, &delta.key, given);
    core.add(work);
    autoscale(core, &("StatefulSet".into(), delta.key.clone()));
}

pub(crate) fn daemon_set(core: &mut Core, delta: &Delta<DaemonSet>) {
    let work = Work::DaemonSet(delta.key.clone());
    let given = delta.new.as_ref().and_then(|new| workload_selector(Some(&new.spec.as_ref()?.selector)));
    select_orphans(core, &work, &delta.key, given.clone());
    select_revisions(core, &work, &delta.key, given);
    if delta.new.is_none() {
        core.daemons.forget(&delta.key);
    }
    core.add(work);
}

pub(crate) fn revision(core: &mut Core, delta: &Delta<ControllerRevision>) {
    for (is_new, kind, name, uid) in controllers_of(delta) {
        if is_new {
            core.caches.indexes.revisions_of.insert(uid, &delta.key);
        } else {
            core.caches.indexes.revisions_of.remove(&uid, &delta.key);
        }
        match kind.as_str() {
            "StatefulSet" => core.add(Work::StatefulSet(delta.key.beside(&name))),
            "DaemonSet" => core.add(Work::DaemonSet(delta.key.beside(&name))),
            _ => {}
        }
    }
    for work in adopters(&mut core.caches.indexes.orphan_revisions, delta) {
        core.add(work);
    }
}

pub(crate) fn job(core: &mut Core, delta: &Delta<Job>) {
    let work = Work::Job(delta.key.clone());
    let given = delta.new.as_ref().and_then(|new| workload_selector(new.spec.as_ref()?.selector.as_ref()));
    select_orphans(core, &work, &delta.key, given);
    core.add(work);
    if let (Some(old), None) = (&delta.old, &delta.new) {
        // Its pods wait to be counted, and nobody will.
        let uid = old.metadata.uid.as_deref().unwrap_or_default();
        let left: Vec<NamespacedName> = core.caches.indexes.pods_of.get(uid).cloned().collect();
        for pod in left {
            core.add(Work::OrphanJobPod(pod));
        }
    }
    for (is_new, kind, name, uid) in controllers_of(delta) {
        if is_new {
            core.caches.indexes.jobs_of.insert(uid, &delta.key);
        } else {
            core.caches.indexes.jobs_of.remove(&uid, &delta.key);
        }
        if kind == "CronJob" {
            core.add(Work::CronJob(delta.key.beside(&name)));
        }
    }
}

pub(crate) fn cron_job(core: &mut Core, delta: &Delta<CronJob>) {
    core.add(Work::CronJob(delta.key.clone()));
}
