//! DaemonSets: a pod on every node that they are for. Each node is looked at by itself, and the status is a sum that is
//! kept as nodes change, so that a heartbeat or a pod costs the same in a cluster of any size.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use k8s_openapi::api::apps::v1::{DaemonSet, DaemonSetSpec, DaemonSetStatus};
use k8s_openapi::api::core::v1::{
    Affinity, Node, NodeAffinity, NodeSelector, NodeSelectorRequirement, NodeSelectorTerm, PodTemplateSpec, Toleration,
};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::core::SelectorExt;
use rustc_hash::FxHashMap;

use super::adoption::{Claimed, Owner};
use super::matching::{fits, has_labels, taints, tolerates};
use super::revisions::{forget, revisions};
use super::template::{hash_of, pod_of, scaled, set_label, size};
use crate::core::{Core, controlled_by};
use crate::events::{Involved, Telling};
use crate::index::workload_selector;
use crate::key::NamespacedName;
use crate::objects::{Pod, View};
use crate::resource::{DAEMON_SETS, PODS};
use crate::work::Work;
use crate::write::{Effect, Write};

const REVISION: &str = "controller-revision-hash";
/// Taints that daemons tolerate, with their effects.
const TOLERATED: [(&str, &str); 6] = [
    ("node.kubernetes.io/not-ready", "NoExecute"),
    ("node.kubernetes.io/unreachable", "NoExecute"),
    ("node.kubernetes.io/disk-pressure", "NoSchedule"),
    ("node.kubernetes.io/memory-pressure", "NoSchedule"),
    ("node.kubernetes.io/pid-pressure", "NoSchedule"),
    ("node.kubernetes.io/unschedulable", "NoSchedule"),
];

/// What is known of all DaemonSets.
#[derive(Debug, Default)]
pub(crate) struct Daemons(FxHashMap<NamespacedName, Daemon>);

impl Daemons {
    pub(crate) fn forget(&mut self, key: &NamespacedName) {
        self.0.remove(key);
    }
}

/// What is known of one DaemonSet.
#[derive(Debug, Default)]
struct Daemon {
    uid: String,
    /// The hash of the present template's revision.
    revision: String,
    /// The template with what daemons tolerate.
    template: PodTemplateSpec,
    nodes: BTreeMap<Arc<str>, State>,
    sum: Sum,
    /// How many live pods are of a revision.
    of_revision: BTreeMap<Box<str>, usize>,
    /// Nodes whose only pod is of an old template, by whether it is available.
    old: [BTreeSet<Arc<str>>; 2],
    /// Nodes where one of the present template comes up beside such a pod.
    surging: BTreeSet<Arc<str>>,
    /// Nodes that may get one.
    may_surge: BTreeSet<Arc<str>>,
}

/// What the status counts of one node.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[allow(clippy::struct_excessive_bools)]
struct State {
    /// Whether the node is there.
    exists: bool,
    wanted: bool,
    ready: bool,
    available: bool,
    /// The revision of the pod that is there; of two, the older one.
    revision: Option<Box<str>>,
    /// Whether one of the present template comes up beside it.
    is_surging: bool,
}

#[derive(Debug, Default, PartialEq, Eq)]
struct Sum {
    desired: i32,
    current: i32,
    /// Nodes with a pod of the present template.
    updated: i32,
    ready: i32,
    available: i32,
    misscheduled: i32,
    /// Those of the above that are available.
    misscheduled_available: i32,
}

impl Daemon {
    /// Sets what is known of a node. Gives whether that is new.
    fn set(&mut self, node: &Arc<str>, state: State) -> bool {
        let was = self.nodes.get(node).cloned().unwrap_or_default();
        if was == state {
            return false;
        }
        self.add(node, &was, -1);
        self.add(node, &state, 1);
        if state == State::default() {
            self.nodes.remove(node);
        } else {
            self.nodes.insert(node.clone(), state);
        }
        true
    }

    fn add(&mut self, node: &Arc<str>, state: &State, by: i32) {
        let has = state.revision.is_some();
        let one = |is: bool| if is { by } else { 0 };
        self.sum.desired += one(state.wanted);
        self.sum.current += one(state.wanted && has);
        self.sum.ready += one(state.wanted && state.ready);
        self.sum.available += one(state.wanted && state.available);
        self.sum.misscheduled += one(state.exists && !state.wanted && has);
        self.sum.misscheduled_available += one(state.exists && !state.wanted && state.available);
        let Some(revision) = &state.revision else { return };
        let is_old = **revision != *self.revision;
        self.sum.updated += one(state.wanted && !is_old);
        let old = self.old_like(state);
        if by > 0 {
            if is_old && state.exists {
                old.insert(node.clone());
            }
            *self.of_revision.entry(revision.clone()).or_insert(0) += 1;
        } else {
            old.remove(node);
            if let Some(count) = self.of_revision.get_mut(revision) {
                *count -= 1;
                if *count == 0 {
                    self.of_revision.remove(revision);
                }
            }
        }
    }

    /// Where nodes are with an old pod in this state.
    fn old_like(&mut self, state: &State) -> &mut BTreeSet<Arc<str>> {
        let [waiting, available] = &mut self.old;
        match (state.is_surging, state.available) {
            (true, _) => &mut self.surging,
            (false, true) => available,
            (false, false) => waiting,
        }
    }

    /// Sorts the nodes anew after the revision changed.
    fn sort(&mut self) {
        self.old = [BTreeSet::new(), BTreeSet::new()];
        self.surging.clear();
        self.sum.updated = 0;
        for (node, state) in self.nodes.clone() {
            let Some(revision) = state.revision.as_deref() else { continue };
            if *revision == *self.revision {
                self.sum.updated += i32::from(state.wanted);
            } else if state.exists {
                self.old_like(&state).insert(node);
            }
        }
    }

    /// The nodes that may get a pod of the present template beside one of an old: where that is not available, and as many
    /// others as there is surge left. Those that were chosen before come first: their pod may be on its way.
    fn next_to_surge(&self, most: usize) -> BTreeSet<Arc<str>> {
        let [waiting, available] = &self.old;
        let wanted = |node: &&Arc<str>| self.wants(node);
        let (chosen, others): (Vec<_>, Vec<_>) =
            available.iter().filter(wanted).partition(|node| self.may_surge.contains(*node));
        let left = most.saturating_sub(self.surging.len());
        waiting.iter().filter(wanted).chain(chosen.into_iter().chain(others).take(left)).cloned().collect()
    }

    fn wants(&self, node: &Arc<str>) -> bool {
        self.nodes.get(node).is_some_and(|state| state.wanted)
    }

    /// Nodes that may get no pod beside their old one, as they should have none, and whose old one may go: where it is not
    /// available, and as many others as there are more available pods than nodes that want one.
    fn old_to_leave(&self) -> impl Iterator<Item = &Arc<str>> {
        let [waiting, available] = &self.old;
        let spare = size(self.sum.available + self.sum.misscheduled_available - self.sum.desired);
        let unwanted = |node: &&Arc<str>| !self.wants(node);
        waiting.iter().filter(unwanted).chain(available.iter().filter(unwanted).take(spare))
    }
}

/// The revisions, the rolling update and the status.
pub(crate) fn sync(core: &mut Core, key: &NamespacedName) -> Effect {
    let Some(set) = core.caches.daemon_sets.get(key).cloned() else { return Effect::Done };
    let Some(spec) = set.spec.as_ref().filter(|_| set.metadata.deletion_timestamp.is_none()) else {
        return Effect::Done;
    };
    let work = Work::DaemonSet(key.clone());
    let view = View::of(&set.metadata);
    let owner = Owner { resource: &DAEMON_SETS, view, selector: workload_selector(Some(&spec.selector)) };
    let free = core.caches.indexes.orphans.members(&work).filter_map(|key| core.caches.pods.get(key));
    let free = free.filter(|pod| !pod.is_terminating());
    if let Claimed::First(effect) = owner.claim(core, &PODS, Vec::new(), free) {
        return effect;
    }
    let kept = (set.metadata.annotations.as_ref(), &spec.template);
    let all = match revisions(core, &owner, &work, kept, (REVISION, &hash_of(&spec.template))) {
        Ok(all) => all,
        Err(effect) => return effect,
    };
    let daemon = core.daemons.0.entry(key.clone()).or_default();
    if daemon.uid != view.uid {
        *daemon = Daemon { uid: view.uid.to_owned(), ..Daemon::default() };
    }
    let template = tolerating(&spec.template);
    if daemon.revision != all.present.hash || daemon.template != template {
        daemon.revision.clone_from(&all.present.hash);
        daemon.template = template;
        daemon.sort();
        let mut nodes: BTreeSet<Arc<str>> = daemon.nodes.keys().cloned().collect();
        nodes.extend(core.caches.nodes.iter().map(|(key, _)| key.name.clone()));
        for node in nodes {
            core.add(Work::DaemonNode(key.clone(), node));
        }
    }
    let mut writes = all.writes.clone();
    if surge_of(spec).is_some() {
        surge(core, key, spec);
        writes.extend(leave(core, key, &set));
    } else {
        writes.extend(replace_old(core, key, &set, spec));
    }
    let Some(daemon) = core.daemons.0.get(key) else { return Effect::of(writes) };
    let is_live = |revision: &super::revisions::Revision| daemon.of_revision.contains_key(revision.hash.as_str());
    writes.extend(forget(&key.namespace, spec.revision_history_limit, &all.old, is_live));
    writes.extend(write_status(key, &set, daemon));
    Effect::of(writes)
}

/// How many nodes may have two pods for a while, where the strategy has any such.
fn surge_of(spec: &DaemonSetSpec) -> Option<&IntOrString> {
    let strategy = spec.update_strategy.as_ref()?;
    let is_rolling = strategy.type_.as_deref().is_none_or(|type_| type_ == "RollingUpdate");
    let most = strategy.rolling_update.as_ref().filter(|_| is_rolling)?.max_surge.as_ref()?;
    (scaled(Some(most), 100, true) > 0).then_some(most)
}

/// Lets nodes have a pod of the present template beside one of an old, as upstream's `rollingUpdate` with a surge. That pod's
/// node deletes the old one.
fn surge(core: &mut Core, key: &NamespacedName, spec: &DaemonSetSpec) {
    let Some(daemon) = core.daemons.0.get_mut(key) else { return };
    let most = size(scaled(surge_of(spec), daemon.sum.desired, true));
    let next = daemon.next_to_surge(most);
    let before = std::mem::replace(&mut daemon.may_surge, next.clone());
    for node in next.difference(&before) {
        core.add(Work::DaemonNode(key.clone(), node.clone()));
    }
}

/// Deletes pods of an old template: those that are not available, and others as far as enough are left.
fn replace_old(core: &Core, key: &NamespacedName, set: &DaemonSet, spec: &DaemonSetSpec) -> Vec<Write> {
    let strategy = spec.update_strategy.as_ref();
    let Some(daemon) = core.daemons.0.get(key) else { return Vec::new() };
    if strategy.and_then(|strategy| strategy.type_.as_deref()).is_some_and(|type_| type_ != "RollingUpdate") {
        return Vec::new();
    }
    let rolling = strategy.and_then(|strategy| strategy.rolling_update.as_ref());
    let given = rolling.and_then(|rolling| rolling.max_unavailable.as_ref());
    let max_unavailable = scaled(given, daemon.sum.desired, true).max(1);
    let spare = size(max_unavailable - (daemon.sum.desired - daemon.sum.available));
    let [waiting, available] = &daemon.old;
    delete_old(core, set, daemon, waiting.iter().chain(available.iter().take(spare)))
}

/// Deletes pods of an old template where none should run, as upstream's `rollingUpdate` with a surge.
fn leave(core: &Core, key: &NamespacedName, set: &DaemonSet) -> Vec<Write> {
    let daemon = core.daemons.0.get(key);
    daemon.map_or_else(Vec::new, |daemon| delete_old(core, set, daemon, daemon.old_to_leave()))
}

/// Deletes the pods of an old template on some nodes.
fn delete_old<'n>(
    core: &Core,
    set: &DaemonSet,
    daemon: &Daemon,
    nodes: impl Iterator<Item = &'n Arc<str>>,
) -> Vec<Write> {
    let indexes = &core.caches.indexes;
    nodes
        .flat_map(|node| indexes.daemons_on.get(&(daemon.uid.as_str().into(), (**node).into())))
        .filter_map(|pod| core.caches.pods.get(pod))
        .filter(|pod| !pod.is_terminating() && pod.revision_label() != Some(&daemon.revision))
        .map(|pod| delete(set, pod))
        .collect()
}

fn write_status(key: &NamespacedName, set: &DaemonSet, daemon: &Daemon) -> Option<Write> {
    let sum = &daemon.sum;
    let some = |n: i32| Some(n).filter(|n| *n > 0);
    let was = set.status.clone().unwrap_or_default();
    let status = DaemonSetStatus {
        desired_number_scheduled: sum.desired,
        current_number_scheduled: sum.current,
        number_misscheduled: sum.misscheduled,
        number_ready: sum.ready,
        number_available: some(sum.available),
        number_unavailable: some(sum.desired - sum.available),
        updated_number_scheduled: some(sum.updated),
        observed_generation: set.metadata.generation,
        collision_count: was.collision_count,
        conditions: was.conditions.clone(),
    };
    (status != was).then(|| {
        let mut object = set.clone();
        object.status = Some(status);
        Write::replace_status(&DAEMON_SETS, key, &object)
    })
}

/// The pods of one node.
pub(crate) fn sync_node(core: &mut Core, key: &NamespacedName, name: &Arc<str>) -> Effect {
    let Some(set) = core.caches.daemon_sets.get(key).cloned() else { return Effect::Done };
    let Some(spec) = set.spec.as_ref().filter(|_| set.metadata.deletion_timestamp.is_none()) else {
        return Effect::Done;
    };
    let view = View::of(&set.metadata);
    let Some(daemon) = core.daemons.0.get(key).filter(|daemon| daemon.uid == view.uid) else {
        core.add(Work::DaemonSet(key.clone()));
        return Effect::Done;
    };
    let caches = &core.caches;
    let here = caches.indexes.daemons_on.get(&(view.uid.into(), (**name).into()));
    let mut here: Vec<Arc<Pod>> = here.filter_map(|key| caches.pods.get(key)).cloned().collect();
    let mut writes = Vec::new();
    if let Some(selector) = workload_selector(Some(&spec.selector)) {
        here.retain(|pod| {
            let is_ours = selector.matches(&pod.metadata.labels) || pod.is_terminating();
            if !is_ours {
                let left: Vec<_> = pod.view().owners.iter().filter(|one| one.uid != view.uid).cloned().collect();
                writes.push(Write::set_owners(&PODS, pod.view(), &left));
            }
            is_ours
        });
    }
    let node =
        caches.nodes.get(&NamespacedName::new("", name)).filter(|node| node.metadata.deletion_timestamp.is_none());
    let (should_run, should_continue) = node.map_or((false, false), |node| placement(&daemon.template, node));
    let mut live: Vec<&Arc<Pod>> = here.iter().filter(|pod| pod.is_active()).collect();
    // Of several the oldest stays, one on its node before one that waits for it.
    let created = |pod: &Pod| pod.metadata.creation_timestamp.as_ref().map(|time| time.0);
    live.sort_by_cached_key(|pod| (pod.node().is_none(), created(pod), pod.metadata.name.clone()));
    let (min_ready, now) = (spec.min_ready_seconds.unwrap_or(0), core.now());
    let is_available = |pod: &Pod| pod.available_at(min_ready).is_some_and(|at| at <= now);
    if node.is_some() {
        let ended = here.iter().filter(|pod| pod.has_ended() && !pod.is_terminating());
        writes.extend(ended.map(|pod| delete(&set, pod)));
        let kept: Vec<&Arc<Pod>> = match (should_continue, surge_of(spec)) {
            (false, _) => Vec::new(),
            (true, None) => live.iter().take(1).copied().collect(),
            (true, Some(_)) => kept_beside(&live, &daemon.revision, is_available),
        };
        let is_kept = |pod: &Pod| kept.iter().any(|known| known.metadata.uid == pod.metadata.uid);
        writes.extend(live.iter().filter(|pod| !is_kept(pod)).map(|pod| delete(&set, pod)));
        let is_old_alone = kept.len() == 1 && kept.iter().all(|pod| pod.revision_label() != Some(&daemon.revision));
        let may_surge = is_old_alone && surge_of(spec).is_some() && daemon.may_surge.contains(name);
        if should_run && (here.is_empty() || may_surge) {
            writes.push(create(&set, daemon, name));
        }
        live = kept;
    } else if caches.nodes.get(&NamespacedName::new("", name)).is_none() {
        // Nobody can bind a pod that waits for a node which is gone. Those that were bound are left to the collector of pods.
        writes.extend(live.iter().filter(|pod| pod.node().is_none()).map(|pod| delete(&set, pod)));
    }
    let pod = live.first();
    let state = State {
        exists: node.is_some(),
        wanted: should_run,
        ready: pod.is_some_and(|pod| pod.is_ready()),
        available: pod.is_some_and(|pod| is_available(pod)),
        revision: pod.map(|pod| pod.revision_label().unwrap_or_default().into()),
        is_surging: live.len() > 1,
    };
    let times = live.iter().filter_map(|pod| pod.available_at(min_ready)).filter(|at| *at > now);
    if let Some(at) = times.min() {
        core.add_when(Work::DaemonNode(key.clone(), name.clone()), at);
    }
    if core.daemons.0.get_mut(key).is_some_and(|daemon| daemon.set(name, state)) {
        core.add(Work::DaemonSet(key.clone()));
    }
    Effect::of(writes)
}

/// Of the live pods of a node those that stay where pods may surge, the older one first. The present template's pod comes up
/// beside one of an old template while that is ready; of the same template the oldest stays.
fn kept_beside<'p>(live: &[&'p Arc<Pod>], revision: &str, is_available: impl Fn(&Pod) -> bool) -> Vec<&'p Arc<Pod>> {
    let is_new = |pod: &&&Arc<Pod>| pod.revision_label() == Some(revision);
    let (new, old) = (live.iter().find(is_new).copied(), live.iter().find(|pod| !is_new(pod)).copied());
    match (old, new) {
        (Some(old), Some(new)) if !old.is_ready() || is_available(new) => vec![new],
        (old, new) => old.into_iter().chain(new).collect(),
    }
}

fn delete(set: &DaemonSet, pod: &Pod) -> Write {
    let about = Involved::new(&DAEMON_SETS, View::of(&set.metadata));
    Write::delete(&PODS, &pod.view().key(), &pod.metadata.uid).telling(Telling::deleted_pod(about))
}

fn create(set: &DaemonSet, daemon: &Daemon, node: &str) -> Write {
    let view = View::of(&set.metadata);
    let mut pod = pod_of(&daemon.template, controlled_by(&DAEMON_SETS, view));
    let prefix = format!("{}-", view.name);
    set_label(&mut pod.metadata, REVISION, &daemon.revision);
    let term = NodeSelectorTerm {
        match_fields: Some(vec![NodeSelectorRequirement {
            key: "metadata.name".to_owned(),
            operator: "In".to_owned(),
            values: Some(vec![node.to_owned()]),
        }]),
        ..NodeSelectorTerm::default()
    };
    let affinity: &mut Affinity = pod.spec.get_or_insert_default().affinity.get_or_insert_default();
    let nodes: &mut NodeAffinity = affinity.node_affinity.get_or_insert_default();
    nodes.required_during_scheduling_ignored_during_execution = Some(NodeSelector { node_selector_terms: vec![term] });
    let write_key = NamespacedName::new(view.namespace, &prefix);
    pod.metadata.generate_name = Some(prefix);
    Write::create(&PODS, &write_key, &pod).telling(Telling::created_pod(Involved::new(&DAEMON_SETS, view)))
}

/// A template with the tolerations that daemons get.
fn tolerating(template: &PodTemplateSpec) -> PodTemplateSpec {
    let mut template = template.clone();
    let spec = template.spec.get_or_insert_default();
    let is_host = spec.host_network == Some(true);
    let list = spec.tolerations.get_or_insert_default();
    let network = is_host.then_some(("node.kubernetes.io/network-unavailable", "NoSchedule"));
    for (key, effect) in TOLERATED.into_iter().chain(network) {
        let own = Toleration {
            key: Some(key.to_owned()),
            operator: Some("Exists".to_owned()),
            effect: Some(effect.to_owned()),
            ..Toleration::default()
        };
        if !list.contains(&own) {
            list.push(own);
        }
    }
    template
}

/// Whether a daemon shall run on a node, and whether one that does shall go on, as upstream's `NodeShouldRunDaemonPod`.
fn placement(template: &PodTemplateSpec, node: &Node) -> (bool, bool) {
    let Some(spec) = &template.spec else { return (false, false) };
    let name = node.metadata.name.as_deref().unwrap_or_default();
    if spec.node_name.as_deref().is_some_and(|named| !named.is_empty() && named != name) {
        return (false, false);
    }
    let affinity = spec.affinity.as_ref().and_then(|affinity| affinity.node_affinity.as_ref());
    let required = affinity.and_then(|nodes| nodes.required_during_scheduling_ignored_during_execution.as_ref());
    if !has_labels(node, spec.node_selector.iter().flatten()) || !required.is_none_or(|required| fits(required, node)) {
        return (false, false);
    }
    let tolerations = spec.tolerations.as_deref().unwrap_or_default();
    let is_tolerated = |effects: &[&str]| {
        let mut taints = taints(node).iter().filter(|taint| effects.contains(&taint.effect.as_str()));
        taints.all(|taint| tolerations.iter().any(|toleration| tolerates(toleration, taint)))
    };
    (is_tolerated(&["NoSchedule", "NoExecute"]), is_tolerated(&["NoExecute"]))
}
