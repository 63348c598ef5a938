//! What the API server lets in: RuntimeClasses add, LimitRanges set defaults and bounds, ResourceQuotas count.
//!
//! They are about pods that are to be created: those that workloads still want, and Pods of files without a uid. What
//! would not be created is told and not planned. Pods that exist have been let in.

pub(crate) mod limit_range;
mod quota;
mod runtime_class;
mod shape;

use berth_model::{Cluster, Refusal, Sym};
use k8s_openapi::api::core::v1::LimitRangeItem;
use rustc_hash::{FxHashMap, FxHashSet};

use crate::draft::Drafts;
use crate::fate::Fate;
use crate::maps::{FxIndexMap, Texts, index};
use crate::options::Expansion;
use crate::pod_record::{Deletion, PodRecord};
use crate::quantities::beyond_limit;
use crate::workloads::{Children, Workload, WorkloadKind, Workloads};

pub(crate) use quota::Quota;
use quota::Usage;
pub(crate) use runtime_class::Class;
pub(crate) use shape::AdmissionSpec;

/// LimitRanges and ResourceQuotas by namespace and name, and the shapes of pods that they may be about.
#[derive(Clone, Default)]
pub(crate) struct Admission {
    pub(crate) limit_ranges: FxIndexMap<(Sym, Sym), Vec<LimitRangeItem>>,
    pub(crate) quotas: FxIndexMap<(Sym, Sym), Quota>,
    pub(crate) runtime_classes: FxHashMap<Sym, Class>,
    /// The shapes that name a RuntimeClass.
    pub(crate) of_runtime_classes: FxHashSet<u32>,
    /// As text. A draft of 0 has none, one of n the shape at n - 1.
    pub(crate) shapes: Texts,
}

/// Whom the API server lets in.
#[derive(Default)]
pub(crate) struct Admitted {
    /// By workload, how many pods it may create at most; the others as many as they want.
    most: FxHashMap<usize, u32>,
}

impl Admitted {
    /// Of `wanted` pods of a workload, those that are created.
    pub(crate) fn of(&self, workload: usize, wanted: u32) -> u32 {
        self.most.get(&workload).map_or(wanted, |most| wanted.min(*most))
    }
}

/// Pods with what becomes of them, workloads, and the drafts of both.
type Asking<'a> = (&'a mut [PodRecord], &'a mut [Fate], &'a mut Workloads, &'a mut Drafts);

/// What is looked at and changed.
pub(crate) struct Admitting<'a> {
    pods: &'a mut [PodRecord],
    fates: &'a mut [Fate],
    workloads: &'a mut Workloads,
    drafts: &'a mut Drafts,
    cluster: &'a mut Cluster,
    warnings: &'a mut Texts,
}

impl<'a> Admitting<'a> {
    pub(crate) fn new(
        (pods, fates, workloads, drafts): Asking<'a>,
        cluster: &'a mut Cluster,
        warnings: &'a mut Texts,
    ) -> Self {
        Admitting { pods, fates, workloads, drafts, cluster, warnings }
    }
}

impl Admission {
    /// Sets what LimitRanges default to in pods that are to be created, and takes away those that nothing lets in;
    /// `children` counts the pods that workloads have. Pods of the input come first, then workloads, as they were given.
    pub(crate) fn admit(&mut self, expansion: Expansion, to: &mut Admitting<'_>, children: &[Children]) -> Admitted {
        let mut admitted = Admitted::default();
        let is_empty = self.limit_ranges.is_empty() && self.quotas.is_empty() && self.of_runtime_classes.is_empty();
        if is_empty || expansion == Expansion::PodsThatExist {
            return admitted;
        }
        self.limit_ranges.sort_by(|a, _, b, _| names(to.cluster, *a).cmp(&names(to.cluster, *b)));
        self.quotas.sort_by(|a, _, b, _| names(to.cluster, *a).cmp(&names(to.cluster, *b)));
        self.count_existing(to);
        let mut ranged = FxHashMap::default();
        for at in 0..to.pods.len() {
            let Some(pod) = to.pods.get(at).filter(|pod| pod.is_new()) else { continue };
            let (namespace, draft) = (pod.namespace, pod.draft);
            if to.fates.get(at) != Some(&Fate::Pending) || !self.is_about(namespace, draft, to.drafts) {
                continue;
            }
            let who = format!("Pod {}/{}", to.cluster.symbols.text(namespace), pod.name);
            let (draft, refusal) = self.ranged(&mut ranged, namespace, draft, to);
            if let Some(pod) = to.pods.get_mut(at) {
                pod.draft = draft;
            }
            let refusal = refusal.or_else(|| self.take(namespace, draft, 1, to).1);
            if let Some(reason) = refusal {
                to.warnings.insert(format!("{who}: would not be created: {reason}"));
                if let Some(fate) = to.fates.get_mut(at) {
                    *fate = Fate::Gone;
                }
            }
        }
        let are_expanded = to.workloads.are_expanded();
        for at in 0..to.workloads.len() {
            let Some(workload) = to.workloads.get(at) else { continue };
            if !self.is_about(workload.namespace, workload.draft, to.drafts) {
                continue;
            }
            let (namespace, draft, kind) = (workload.namespace, workload.draft, workload.kind);
            let who = in_words(workload, to.cluster);
            let (draft, refusal) = self.ranged(&mut ranged, namespace, draft, to);
            let count = children.get(at).map_or(0, |children| children.count);
            let wanted = to.workloads.get(at).map_or(0, |workload| workload.wants.saturating_sub(count));
            to.workloads.set_draft(at, draft);
            let is_daemon = kind == WorkloadKind::DaemonSet;
            if !are_expanded.get(at).is_some_and(|is_expanded| *is_expanded) && !is_daemon || wanted == 0 {
                continue;
            }
            let (most, reason) = match refusal {
                Some(reason) => (0, Some(reason)),
                // How many nodes there will be is not known yet.
                None if is_daemon => continue,
                None => self.take(namespace, draft, wanted, to),
            };
            let Some(reason) = reason else { continue };
            admitted.most.insert(at, most);
            let left = wanted - most;
            to.warnings.insert(if is_daemon {
                to.workloads.want_none(at);
                format!("{who}: its pods would not be created: {reason}")
            } else {
                format!("{who}: {left} of {wanted} pods would not be created: {reason}")
            });
        }
        admitted
    }

    fn is_about(&self, namespace: Sym, draft: u32, drafts: &Drafts) -> bool {
        let shape = drafts.get_index(draft as usize).map(|draft| draft.shape);
        shape.is_some_and(|shape| self.of_runtime_classes.contains(&shape))
            || self.limit_ranges.keys().chain(self.quotas.keys()).any(|(of, _)| *of == namespace)
    }

    fn shape(&self, draft: u32, drafts: &Drafts) -> Option<AdmissionSpec> {
        let shape = drafts.get_index(draft as usize)?.shape.checked_sub(1)?;
        AdmissionSpec::read(self.shapes.get_index(shape as usize)?)
    }

    /// Gives back to quotas what these pods used: they are over, and the quotas' status still counts them.
    pub(crate) fn give_back<'p>(
        &mut self,
        pods: impl Iterator<Item = &'p PodRecord>,
        drafts: &Drafts,
        cluster: &mut Cluster,
    ) {
        if !self.quotas.values().any(Quota::tells_some) {
            return;
        }
        let mut counts: FxIndexMap<(Sym, u32), u32> = FxIndexMap::default();
        for pod in pods {
            *counts.entry((pod.namespace, pod.draft)).or_default() += 1;
        }
        for ((namespace, draft), count) in counts {
            let Some(shape) = self.shape(draft, drafts) else { continue };
            let Ok(usage) = Usage::of(&shape, cluster) else { continue };
            let quotas = self.quotas.iter_mut().filter(|((of, _), quota)| *of == namespace && quota.tells_some());
            for (_, quota) in quotas.filter(|(_, quota)| quota.is_about(&shape)) {
                quota.give_back(&usage, count, cluster);
            }
        }
    }

    // What quotas have of pods that exist, as far as their status does not say.
    fn count_existing(&mut self, to: &mut Admitting<'_>) {
        if self.quotas.values().all(Quota::tells_all) {
            return;
        }
        let mut counts: FxIndexMap<(Sym, u32), u32> = FxIndexMap::default();
        let mut objects: FxIndexMap<Sym, u32> = FxIndexMap::default();
        for (pod, fate) in to.pods.iter().zip(&*to.fates) {
            if pod.is_gone || pod.deletion == Some(Deletion::Overdue) {
                *objects.entry(pod.namespace).or_default() += 1;
            } else if *fate != Fate::Gone && !(pod.is_new() && *fate == Fate::Pending) {
                *counts.entry((pod.namespace, pod.draft)).or_default() += 1;
            }
        }
        for ((namespace, _), quota) in &mut self.quotas {
            quota.take_objects(objects.get(namespace).copied().unwrap_or(0));
        }
        for ((namespace, draft), count) in counts {
            let Some(shape) = self.shape(draft, to.drafts) else { continue };
            let Ok(usage) = Usage::of(&shape, to.cluster) else { continue };
            let quotas = self.quotas.iter_mut().filter(|((of, _), quota)| *of == namespace && !quota.tells_all());
            for (_, quota) in quotas.filter(|(_, quota)| quota.is_about(&shape)) {
                quota.count_existing(&usage, count, to.cluster);
            }
        }
    }

    // The draft with what its RuntimeClass adds and the defaults of the namespace's LimitRanges, and why these let no such
    // pod in, if so.
    fn ranged(
        &mut self,
        known: &mut FxHashMap<(Sym, u32), (u32, Option<String>)>,
        namespace: Sym,
        draft: u32,
        to: &mut Admitting<'_>,
    ) -> (u32, Option<String>) {
        if let Some(known) = known.get(&(namespace, draft)) {
            return known.clone();
        }
        let Some(mut shape) = self.shape(draft, to.drafts) else { return (draft, None) };
        let mut refusal = None;
        let class = self.class_of(&shape, to);
        if let Some((name, class)) = &class {
            refusal = class.apply(&mut shape).err().map(|says| format!("RuntimeClass {name}: {says}"));
        }
        let of_namespace = || self.limit_ranges.iter().filter(|((of, _), _)| *of == namespace);
        let mut n_changed = 0;
        for ((_, name), items) in of_namespace() {
            let n_set = items.iter().filter(|item| limit_range::apply_defaults(item, &mut shape)).count();
            n_changed += n_set;
            let contradicts = if n_set > 0 { limit_range::contradiction(&shape) } else { None };
            let name = || to.cluster.symbols.text(*name);
            refusal = refusal.or_else(|| contradicts.map(|says| format!("LimitRange {}: {says}", name())));
        }
        for ((_, name), items) in of_namespace() {
            let name = to.cluster.symbols.text(*name).to_owned();
            let violated =
                items.iter().find_map(|item| limit_range::violation(item, &shape, to.cluster).ok().flatten());
            refusal = refusal.or_else(|| violated.map(|says| format!("LimitRange {name}: {says}")));
        }
        let changed = to.drafts.get_index(draft as usize).filter(|_| n_changed > 0 || class.is_some()).cloned();
        let mut answer = (draft, refusal);
        if let (Some(mut changed), Ok((requests, assumed, is_beyond))) = (changed, shape.scheduled(to.cluster)) {
            (changed.spec.requests, changed.spec.assumed) = (requests, assumed);
            if let Some((_, class)) = &class {
                class.constrain(&mut changed.spec, to.cluster);
            }
            if is_beyond {
                changed.spec.refusal.get_or_insert_with(|| Refusal(beyond_limit(to.cluster)));
            }
            changed.shape = index(self.shapes.insert_full(shape.text()).0).saturating_add(1);
            answer.0 = index(to.drafts.insert_full(changed).0);
        }
        known.insert((namespace, draft), answer.clone());
        answer
    }

    // The RuntimeClass of a pod, with its name.
    fn class_of(&self, shape: &AdmissionSpec, to: &mut Admitting<'_>) -> Option<(String, Class)> {
        let name = shape.spec.runtime_class_name.as_ref().filter(|name| !name.is_empty())?;
        let class = to.cluster.symbols.get(name).and_then(|id| self.runtime_classes.get(&id)).cloned();
        if class.is_none() {
            to.warnings.insert(format!(
                "no RuntimeClass with name {name} was found; its pods are planned without what it adds"
            ));
        }
        Some((name.clone(), class?))
    }

    // How many of so many pods the quotas of a namespace let in, which they count from now on; with why no more.
    fn take(&mut self, namespace: Sym, draft: u32, wanted: u32, to: &mut Admitting<'_>) -> (u32, Option<String>) {
        let Some(shape) = self.shape(draft, to.drafts) else { return (wanted, None) };
        let Ok(usage) = Usage::of(&shape, to.cluster) else { return (wanted, None) };
        let (mut most, mut reason) = (wanted, None);
        let is_about = |of: Sym, quota: &Quota| of == namespace && quota.is_about(&shape);
        for ((_, name), quota) in self.quotas.iter().filter(|((of, _), quota)| is_about(*of, quota)) {
            let name = to.cluster.symbols.text(*name);
            if let Some(unstated) = quota.unstated(&shape) {
                return (0, Some(format!("ResourceQuota {name}: {unstated}")));
            }
            let (allows, scarce) = quota.allows(&usage, to.cluster);
            if let Some(scarce) = scarce.filter(|_| allows < most) {
                (most, reason) = (allows, Some(format!("ResourceQuota {name}: {}", quota.in_words(&scarce))));
            }
        }
        for (_, quota) in self.quotas.iter_mut().filter(|((of, _), quota)| is_about(*of, quota)) {
            quota.take(&usage, most, to.cluster);
        }
        (most, reason)
    }
}

fn names(cluster: &Cluster, (namespace, name): (Sym, Sym)) -> (&str, &str) {
    (cluster.symbols.text(namespace), cluster.symbols.text(name))
}

fn in_words(workload: &Workload, cluster: &Cluster) -> String {
    let text = |sym| cluster.symbols.text(sym);
    format!("{} {}/{}", workload.kind.name(), text(workload.namespace), text(workload.name))
}
