//! Labels that controllers give the pods that they make, beside those of the template. Pods are given those that somebody
//! selects pods by: the others decide nothing, and would only keep pods apart that are alike.

use std::collections::BTreeSet;

use berth_model::{
    Cluster, Labels, LabelsId, PodSpec, PodTerm, Requirements, ReservationOwner, Selector, Sym, Symbols,
};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::draft::Drafts;
use crate::maps::{FxIndexMap, FxIndexSet};
use crate::options::Expansion;
use crate::pod_record::PodRecord;
use crate::reservation::ReservationRecord;
use crate::rollout::are_placed_alike;
use crate::selecting::{Selected, Selecting};
use crate::workloads::{Owner, Workload, WorkloadKind, Workloads};

const TEMPLATE_HASH: &str = "pod-template-hash";
const REVISION_HASH: &str = "controller-revision-hash";
const POD_NAME: &str = "statefulset.kubernetes.io/pod-name";
const POD_INDEX: &str = "apps.kubernetes.io/pod-index";
const JOB_NAMES: [&str; 2] = ["batch.kubernetes.io/job-name", "job-name"];
const JOB_UIDS: [&str; 2] = ["batch.kubernetes.io/controller-uid", "controller-uid"];
const COMPLETION_INDEX: &str = "batch.kubernetes.io/job-completion-index";

/// Stands for the values of a label that nobody names.
const OTHER: &str = "other";
/// Pods of one workload that are looked at one by one.
const MOST_PER_POD: u32 = 5_000_000;

/// By which of these labels somebody selects pods.
#[derive(Default)]
pub(crate) struct ControllerLabels {
    asked: FxHashMap<Sym, Values>,
}

/// The values of a label that selectors name.
#[derive(Default)]
struct Values {
    named: FxHashSet<Sym>,
    /// Whether each pod asks for those that have its own value.
    own: bool,
}

/// Who selects pods, beside pods.
pub(crate) struct Selectors<'a> {
    pub(crate) reservations: &'a FxIndexMap<Sym, ReservationRecord>,
    pub(crate) selecting: &'a Selecting,
}

// === impl ControllerLabels ===

impl ControllerLabels {
    /// Looks at all that selects pods, and gives workloads the labels that all their pods have in common.
    pub(crate) fn of(
        expansion: Expansion,
        selectors: &Selectors<'_>,
        workloads: &mut Workloads,
        given: (&[PodRecord], &FxIndexSet<Owner>, &Drafts),
        cluster: &mut Cluster,
    ) -> Self {
        // Pods that exist have their labels.
        if expansion == Expansion::PodsThatExist {
            return ControllerLabels::default();
        }
        let labels = Self::asked(given.2, selectors, cluster);
        labels.label_templates(workloads, given, cluster);
        labels
    }

    fn asked(drafts: &Drafts, selectors: &Selectors<'_>, cluster: &mut Cluster) -> Self {
        let names = [TEMPLATE_HASH, REVISION_HASH, POD_NAME, POD_INDEX, COMPLETION_INDEX];
        let names = names.into_iter().chain(JOB_NAMES).chain(JOB_UIDS);
        let known: FxHashSet<Sym> = names.filter_map(|name| cluster.symbols.get(name)).collect();
        let mut labels = ControllerLabels::default();
        if known.is_empty() {
            return labels;
        }
        for draft in drafts {
            labels.ask_as_pod(&draft.spec);
        }
        for budget in &cluster.budgets {
            labels.ask(&budget.selector);
        }
        let owners = selectors.reservations.values().flat_map(|record| record.reservation.owners.iter().flatten());
        for ReservationOwner { selector, .. } in owners {
            if let Some(selector) = selector {
                labels.ask(selector);
            }
        }
        let services = selectors.selecting.services.values();
        let controllers = selectors.selecting.controllers.values();
        let controllers = controllers.filter_map(|selected| match selected {
            Selected::Labels(labels) => Some(labels),
            Selected::Requirements(_) => None,
        });
        for (key, value) in services.chain(controllers).flat_map(Labels::iter) {
            labels.asked.entry(key).or_default().named.insert(value);
        }
        labels.asked.retain(|key, _| known.contains(key));
        labels
    }

    fn ask_as_pod(&mut self, spec: &PodSpec) {
        let preferred = spec.preferred_affinity.iter().chain(&spec.preferred_anti_affinity).map(|(_, term)| term);
        for term in spec.affinity.iter().chain(&spec.anti_affinity).chain(preferred) {
            let PodTerm { selector, match_label_keys, mismatch_label_keys, .. } = term;
            self.ask(selector);
            for key in match_label_keys.iter().chain(mismatch_label_keys) {
                self.ask_own(*key);
            }
        }
        for constraint in &spec.spread {
            self.ask(&constraint.selector);
            for key in &constraint.match_label_keys {
                self.ask_own(*key);
            }
        }
    }

    fn ask(&mut self, selector: &Selector) {
        for (key, requirement) in selector.requirements.iter().flat_map(Requirements::iter) {
            let values = self.asked.entry(key).or_default();
            values.named.extend(requirement.to_operators().into_iter().flat_map(|(_, _, values)| values));
        }
    }

    fn ask_own(&mut self, key: Sym) {
        self.asked.entry(key).or_default().own = true;
    }

    fn is_asked(&self, key: &str, symbols: &Symbols) -> bool {
        symbols.get(key).is_some_and(|key| self.asked.contains_key(&key))
    }

    /// New pods of a Deployment or StatefulSet have the hash of those that run of the same template, where there are some.
    fn label_templates(
        &self,
        workloads: &mut Workloads,
        (pods, owners, drafts): (&[PodRecord], &FxIndexSet<Owner>, &Drafts),
        cluster: &mut Cluster,
    ) {
        if self.asked.is_empty() {
            return;
        }
        let hashes = if self.is_asked(TEMPLATE_HASH, &cluster.symbols) {
            hashes(workloads, (pods, owners, drafts), cluster)
        } else {
            FxHashMap::default()
        };
        for at in 0..workloads.len() {
            let Some(workload) = workloads.get(at) else { continue };
            let own = |sym: Sym| cluster.symbols.text(sym).to_owned();
            // No two objects of one kind share it.
            let made_up = format!("{}/{}", own(workload.namespace), own(workload.name));
            let pairs: Vec<(&str, String)> = match workload.kind {
                WorkloadKind::Deployment => {
                    vec![(TEMPLATE_HASH, hashes.get(&at).map_or(made_up, |hash| own(*hash)))]
                }
                WorkloadKind::StatefulSet => {
                    let is_remade = workload.rollout.remakes_from.is_some();
                    vec![(REVISION_HASH, workload.revision.filter(|_| !is_remade).map_or(made_up, own))]
                }
                WorkloadKind::Job | WorkloadKind::CronJob if workload.job.selects_by_hand => Vec::new(),
                WorkloadKind::Job => {
                    let uid = workload.uid.map_or(made_up, own);
                    let name = own(workload.name);
                    let names = JOB_NAMES.into_iter().map(|key| (key, name.clone()));
                    names.chain(JOB_UIDS.into_iter().map(|key| (key, uid.clone()))).collect()
                }
                WorkloadKind::CronJob => {
                    let name = format!("{}-0", own(workload.name));
                    let names = JOB_NAMES.into_iter().map(|key| (key, name.clone()));
                    names.chain(JOB_UIDS.into_iter().map(|key| (key, made_up.clone()))).collect()
                }
                WorkloadKind::ReplicaSet | WorkloadKind::ReplicationController | WorkloadKind::DaemonSet => Vec::new(),
            };
            let labels = self.with(workload.labels, &pairs, cluster);
            workloads.set_labels(at, labels);
        }
    }

    /// Whether each pod of a workload has labels of its own that are asked for.
    pub(crate) fn is_per_pod(&self, workload: &Workload, cluster: &Cluster) -> bool {
        let is_own = |key: &&str| {
            let key = cluster.symbols.get(key);
            key.and_then(|key| self.asked.get(&key)).is_some_and(|values| values.own)
        };
        workload.wants <= MOST_PER_POD && keys_by_number(workload).iter().any(is_own)
    }

    /// The numbers of the pods of a workload that somebody selects by their own labels; the first pod of a Job to come has
    /// this index.
    pub(crate) fn numbers(&self, workload: &Workload, name: &str, first: u32, cluster: &Cluster) -> BTreeSet<u32> {
        let mut numbers = BTreeSet::new();
        for key in keys_by_number(workload) {
            let values = cluster.symbols.get(key).and_then(|key| self.asked.get(&key));
            let named = values.into_iter().flat_map(|values| &values.named).map(|value| cluster.symbols.text(*value));
            numbers.extend(named.filter_map(|value| {
                let value = match *key {
                    POD_NAME => value.strip_prefix(name)?.strip_prefix('-')?,
                    _ => value,
                };
                value.parse::<u32>().ok()?.checked_sub(first)
            }));
        }
        numbers
    }

    /// The label set of a pod of a workload by its number; `None` is all whom nobody selects by it.
    pub(crate) fn of_number(
        &self,
        workload: &Workload,
        (name, number): (&str, Option<u32>),
        cluster: &mut Cluster,
    ) -> LabelsId {
        if self.asked.is_empty() {
            return workload.labels;
        }
        let pairs = keys_by_number(workload).iter().map(|key| {
            let value = match (number, *key) {
                (None, _) => OTHER.to_owned(),
                (Some(number), POD_NAME) => format!("{name}-{number}"),
                (Some(number), _) => number.to_string(),
            };
            (*key, value)
        });
        let pairs: Vec<(&str, String)> = pairs.collect();
        self.with(workload.labels, &pairs, cluster)
    }

    /// A label set with those of the pairs that are asked for; what it has already stays.
    fn with(&self, id: LabelsId, pairs: &[(&str, String)], cluster: &mut Cluster) -> LabelsId {
        let mut added: Vec<(Sym, Sym)> = Vec::new();
        for (key, value) in pairs {
            let Some(key) = cluster.symbols.get(key).filter(|key| self.asked.contains_key(key)) else { continue };
            if cluster.labels(id).is_some_and(|labels| labels.get(key).is_none()) {
                added.push((key, cluster.symbols.intern(value)));
            }
        }
        let Some(labels) = cluster.labels(id).filter(|_| !added.is_empty()) else { return id };
        let labels = Labels::new(labels.iter().chain(added));
        cluster.intern_labels(labels)
    }
}

/// The labels that tell apart the pods of one workload.
fn keys_by_number(workload: &Workload) -> &'static [&'static str] {
    match workload.kind {
        WorkloadKind::StatefulSet => &[POD_NAME, POD_INDEX],
        WorkloadKind::Job | WorkloadKind::CronJob if workload.job.first_index.is_some() => &[COMPLETION_INDEX],
        _ => &[],
    }
}

/// By Deployment: the template hash of its newest pod that is of its template, as far as the input tells.
fn hashes(
    workloads: &Workloads,
    (pods, owners, drafts): (&[PodRecord], &FxIndexSet<Owner>, &Drafts),
    cluster: &Cluster,
) -> FxHashMap<usize, Sym> {
    let mut hashes = FxHashMap::default();
    let Some(key) = cluster.symbols.get(TEMPLATE_HASH) else { return hashes };
    // By owner: the Deployment, and whether its pods have another template than the Deployment has now.
    let deployment = |owner: &Owner| {
        let root = workloads.root(owner)?;
        let workload = workloads.get(root).filter(|workload| workload.kind == WorkloadKind::Deployment)?;
        let set = workloads.find(owner).filter(|set| *set != root).and_then(|set| workloads.get(set));
        let is_current = match set {
            Some(set) => are_placed_alike(drafts, set.draft, workload.draft),
            None => workload.rollout.remakes_from.is_none(),
        };
        is_current.then_some((root, workload.labels))
    };
    let deployments: Vec<Option<(usize, LabelsId)>> = owners.iter().map(deployment).collect();
    for pod in pods {
        let owner = pod.owner.and_then(|owner| deployments.get(owner as usize).copied().flatten());
        let (Some((root, template)), Some(labels)) = (owner, cluster.labels(pod.labels)) else { continue };
        let is_of = |template: &Labels| template.iter().eq(labels.iter().filter(|(own, _)| *own != key));
        if let Some(hash) = labels.get(key).filter(|_| cluster.labels(template).is_some_and(is_of)) {
            hashes.insert(root, hash);
        }
    }
    hashes
}
