//! Workloads: how many pods each still needs, and which pods are already there for it.

use berth_model::{LabelsId, Sym, Symbols};
use indexmap::IndexMap;
use jiff::Timestamp;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use rustc_hash::{FxBuildHasher, FxHashSet};

use crate::options::Replicas;

/// Kinds whose objects stand for pods.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum WorkloadKind {
    Deployment,
    ReplicaSet,
    ReplicationController,
    StatefulSet,
    DaemonSet,
    Job,
    CronJob,
}

/// What a HorizontalPodAutoscaler keeps.
#[derive(Clone)]
pub(crate) struct Autoscaler {
    /// Kind, namespace and name of the workload.
    pub(crate) target: (WorkloadKind, Sym, Sym),
    pub(crate) replicas: u32,
    /// Its `maxReplicas`.
    pub(crate) most: u32,
    /// Which number of the autoscaler's that is.
    pub(crate) which: Replicas,
}

/// Which pods of a workload a change ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Rollout {
    /// From this ordinal on pods are remade, as the template places them otherwise than before.
    pub(crate) remakes_from: Option<u32>,
    /// What tells which others are remade, or stay though the template is another.
    pub(crate) told_by: Option<ToldBy>,
    /// Whether those go that are more than it wants.
    pub(crate) sheds: Sheds,
}

/// What tells from which template a pod is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ToldBy {
    /// Its ReplicaSet, where that is known.
    Sets,
    /// Its label: it is of another revision than this one if its ordinal is of this range.
    Revision(Sym, (u32, u32)),
    /// What it requests: a DaemonSet that remade no pods, and does now.
    Requests,
}

/// Whether pods go that are more than a workload wants, and may come again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Sheds {
    /// They stay.
    #[default]
    No,
    /// They go.
    Yes,
    /// They go, but an autoscaler may want some again.
    UntilScaled,
}

/// The kind of a controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum OwnerKind {
    Workload(WorkloadKind),
    /// A node: the pod is static.
    Node,
    /// Anything else.
    Other,
}

impl OwnerKind {
    /// Whether the controller makes another pod in place of one that is evicted, for any node.
    pub(crate) fn replaces(self) -> bool {
        !matches!(self, OwnerKind::Node | OwnerKind::Workload(WorkloadKind::DaemonSet))
    }
}

/// The controller of an object, as the object names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Owner {
    pub(crate) kind: OwnerKind,
    namespace: Sym,
    name: Sym,
    uid: Option<Sym>,
    /// The Deployment behind a ReplicaSet, read off the ReplicaSet's name and the pod's template hash: a dump may
    /// have Deployments and pods but not the ReplicaSets between.
    deployment: Option<Sym>,
}

/// An object that stands for pods.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Workload {
    pub(crate) kind: WorkloadKind,
    pub(crate) namespace: Sym,
    pub(crate) name: Sym,
    pub(crate) uid: Option<Sym>,
    pub(crate) owner: Option<Owner>,
    /// Index of the owner references that its pods are taken to have: itself.
    pub(crate) references: u32,
    /// Index of the template's draft.
    pub(crate) draft: u32,
    /// Index of the template's label set.
    pub(crate) labels: LabelsId,
    /// The first ordinal.
    pub(crate) first: u32,
    /// How many pods it wants at the same time; 0 if it wants none any more.
    pub(crate) wants: u32,
    /// Whether it makes no other pod before one that is being deleted is gone.
    pub(crate) waits_for_terminating: bool,
    /// The revision of its template, of a StatefulSet that says so.
    pub(crate) revision: Option<Sym>,
    /// From which ordinal on its controller remakes pods when the template changes; `None` where it does not by itself.
    pub(crate) remakes_from: Option<u32>,
    /// Whether nothing says that its controller has made anything for its pods, and it will not, as it is paused.
    pub(crate) is_unmade: bool,
    /// Which of its pods a change ends.
    pub(crate) rollout: Rollout,
    /// What its pods' labels tell of them, of a Job or CronJob.
    pub(crate) job: JobPods,
    /// The node that its template names: no scheduler looks at its pods.
    pub(crate) node: Option<Sym>,
}

/// What a Job makes its pods known by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct JobPods {
    /// Whether its author chose the selector, so that its pods are not labelled with its name and uid.
    pub(crate) selects_by_hand: bool,
    /// Of an Indexed one: the first index that has not completed, if they complete in order.
    pub(crate) first_index: Option<u32>,
}

/// Workloads by kind, namespace and name, in order of the input until [`Workloads::sort`] is asked.
#[derive(Clone, Default)]
pub(crate) struct Workloads {
    list: IndexMap<(WorkloadKind, Sym, Sym), Workload, FxBuildHasher>,
    n_wanted: u64,
    /// By position, the controller of each in the input, once [`Workloads::settle`] has looked.
    above: Vec<Option<usize>>,
}

/// The pods that a workload has.
#[derive(Clone, Debug, Default)]
pub(crate) struct Children {
    /// How many.
    pub(crate) count: u32,
    /// The ordinals, of a StatefulSet's.
    pub(crate) ordinals: FxHashSet<u32>,
}

impl WorkloadKind {
    /// The kind's name.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            WorkloadKind::Deployment => "Deployment",
            WorkloadKind::ReplicaSet => "ReplicaSet",
            WorkloadKind::ReplicationController => "ReplicationController",
            WorkloadKind::StatefulSet => "StatefulSet",
            WorkloadKind::DaemonSet => "DaemonSet",
            WorkloadKind::Job => "Job",
            WorkloadKind::CronJob => "CronJob",
        }
    }

    /// The API version of the kind.
    pub(crate) const fn api_version(self) -> &'static str {
        match self {
            WorkloadKind::Deployment
            | WorkloadKind::ReplicaSet
            | WorkloadKind::StatefulSet
            | WorkloadKind::DaemonSet => "apps/v1",
            WorkloadKind::Job | WorkloadKind::CronJob => "batch/v1",
            WorkloadKind::ReplicationController => "v1",
        }
    }

    pub(crate) fn from_name(name: &str) -> Option<Self> {
        use WorkloadKind::{CronJob, DaemonSet, Deployment, Job, ReplicaSet, ReplicationController, StatefulSet};
        [Deployment, ReplicaSet, ReplicationController, StatefulSet, DaemonSet, Job, CronJob]
            .into_iter()
            .find(|kind| kind.name() == name)
    }
}

impl Workload {
    fn n_planned(&self) -> u64 {
        if self.kind == WorkloadKind::DaemonSet { 0 } else { u64::from(self.wants) }
    }
}

impl Owner {
    /// The controller's name.
    pub(crate) fn name(&self) -> Sym {
        self.name
    }

    /// The controller of an object in a namespace.
    pub(crate) fn of(metadata: &ObjectMeta, namespace: Sym, symbols: &mut Symbols) -> Option<Self> {
        const HASH: &str = "pod-template-hash";
        let owner = metadata.owner_references.iter().flatten().find(|owner| owner.controller == Some(true))?;
        let kind = match WorkloadKind::from_name(&owner.kind) {
            Some(kind) => OwnerKind::Workload(kind),
            None if owner.kind == "Node" => OwnerKind::Node,
            None => OwnerKind::Other,
        };
        let hash = metadata.labels.as_ref().and_then(|labels| labels.get(HASH));
        let deployment = hash
            .filter(|_| kind == OwnerKind::Workload(WorkloadKind::ReplicaSet))
            .and_then(|hash| owner.name.strip_suffix(hash.as_str())?.strip_suffix('-'));
        Some(Owner {
            kind,
            namespace,
            name: symbols.intern(&owner.name),
            uid: (!owner.uid.is_empty()).then(|| symbols.intern(&owner.uid)),
            deployment: deployment.map(|name| symbols.intern(name)),
        })
    }
}

impl Workloads {
    /// Adds a workload; whether there was none of its kind and name.
    pub(crate) fn add(&mut self, workload: Workload) -> bool {
        let id = (workload.kind, workload.namespace, workload.name);
        self.n_wanted += workload.n_planned();
        let before = self.list.insert(id, workload);
        self.n_wanted -= before.as_ref().map_or(0, Workload::n_planned);
        before.is_none()
    }

    /// Sorts them by namespace, name and kind.
    pub(crate) fn sort(&mut self, symbols: &Symbols) {
        let key = |workload: &Workload| (symbols.text(workload.namespace), symbols.text(workload.name), workload.kind);
        self.list.sort_by(|_, a, _, b| key(a).cmp(&key(b)));
    }

    /// Whether some DaemonSet names a controller of its own.
    pub(crate) fn owns_daemons(&self) -> bool {
        self.iter().any(|workload| workload.kind == WorkloadKind::DaemonSet && workload.owner.is_some())
    }

    /// How many pods all of them want at the same time, DaemonSets aside.
    pub(crate) fn n_wanted(&self) -> u64 {
        self.n_wanted
    }

    /// The workload that was added last, taken out again.
    pub(crate) fn pop(&mut self) -> Option<Workload> {
        let (_, workload) = self.list.pop()?;
        self.n_wanted -= workload.n_planned();
        Some(workload)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Workload> {
        self.list.values()
    }

    pub(crate) fn len(&self) -> usize {
        self.list.len()
    }

    /// Whether a workload makes no other pod before one that is being deleted is gone.
    pub(crate) fn waits_for_terminating(&self, index: usize) -> bool {
        self.list.get_index(index).is_some_and(|(_, workload)| workload.waits_for_terminating)
    }

    pub(crate) fn kind(&self, index: usize) -> Option<WorkloadKind> {
        self.list.get_index(index).map(|(_, workload)| workload.kind)
    }

    /// The workload that an owner reference means.
    pub(crate) fn find(&self, owner: &Owner) -> Option<usize> {
        let OwnerKind::Workload(kind) = owner.kind else {
            return None;
        };
        let exact = self.list.get_full(&(kind, owner.namespace, owner.name));
        let exact = exact.filter(|(_, _, found)| {
            // A manifest has no uid; then kind and name decide.
            found.uid.zip(owner.uid).is_none_or(|(found, named)| found == named)
        });
        exact.map(|(index, ..)| index).or_else(|| {
            let id = (WorkloadKind::Deployment, owner.namespace, owner.deployment?);
            self.list.get_index_of(&id)
        })
    }

    /// Finds the controllers in the input, once all are read. No object of a cluster owns itself, by whatever ways; where
    /// objects of a file do, each counts as if nobody owned it. Returns these, in order of the input.
    pub(crate) fn settle(&mut self) -> Vec<usize> {
        let owner = |workload: &Workload| workload.owner.as_ref().and_then(|owner| self.find(owner));
        let mut above: Vec<Option<usize>> = self.list.values().map(owner).collect();
        let mut in_circles = Vec::new();
        // The last walk that came by, so that each is walked over once.
        let mut walked = vec![usize::MAX; above.len()];
        for start in 0..above.len() {
            let mut at = start;
            while walked.get(at) == Some(&usize::MAX) {
                if let Some(walked) = walked.get_mut(at) {
                    *walked = start;
                }
                match above.get(at).copied().flatten() {
                    Some(next) => at = next,
                    None => break,
                }
            }
            // Back at one that this walk came by: a circle.
            if walked.get(at) == Some(&start) {
                let mut member = at;
                while let Some(next) = above.get_mut(member).and_then(Option::take) {
                    in_circles.push(member);
                    member = next;
                }
            }
        }
        in_circles.sort_unstable();
        self.above = above;
        in_circles
    }

    /// Raises what a workload wants, if it wants fewer but not none; says how many it wanted.
    pub(crate) fn raise(&mut self, id: (WorkloadKind, Sym, Sym), least: u32) -> Option<u32> {
        let workload = self.list.get_mut(&id).filter(|workload| workload.wants > 0 && workload.wants < least)?;
        Some(std::mem::replace(&mut workload.wants, least))
    }

    /// Lowers what a workload wants, if it wants more; says how many it wanted.
    pub(crate) fn lower(&mut self, id: (WorkloadKind, Sym, Sym), most: u32) -> Option<u32> {
        let workload = self.list.get_mut(&id).filter(|workload| workload.wants > most)?;
        Some(std::mem::replace(&mut workload.wants, most))
    }

    /// An autoscaler says how many pods a workload has, beside a change of it: they go until it is asked, or stay where it
    /// is not. One that wants none is not scaled.
    pub(crate) fn leave_count(&mut self, id: (WorkloadKind, Sym, Sym), is_asked: bool) {
        let workload = self.list.get_mut(&id);
        if let Some(workload) = workload.filter(|known| known.wants > 0 && known.rollout.sheds == Sheds::Yes) {
            workload.rollout.sheds = if is_asked { Sheds::UntilScaled } else { Sheds::No };
        }
    }

    /// Sets what a workload wants, unless it wants none; says how many it wanted, if that was another number.
    pub(crate) fn scale(&mut self, id: (WorkloadKind, Sym, Sym), replicas: u32) -> Option<u32> {
        let workload = self.list.get_mut(&id).filter(|workload| workload.wants > 0 && workload.wants != replicas)?;
        Some(std::mem::replace(&mut workload.wants, replicas))
    }

    /// The workload of a kind, namespace and name.
    pub(crate) fn named(&self, id: (WorkloadKind, Sym, Sym)) -> Option<&Workload> {
        self.list.get(&id)
    }

    /// The workload of a position.
    pub(crate) fn get(&self, index: usize) -> Option<&Workload> {
        self.list.get_index(index).map(|(_, workload)| workload)
    }

    /// Gives a workload another template.
    pub(crate) fn set_draft(&mut self, index: usize, draft: u32) {
        if let Some((_, workload)) = self.list.get_index_mut(index) {
            workload.draft = draft;
        }
    }

    /// Gives a workload's pods another label set.
    pub(crate) fn set_labels(&mut self, index: usize, labels: LabelsId) {
        if let Some((_, workload)) = self.list.get_index_mut(index) {
            workload.labels = labels;
        }
    }

    /// Says what a Job or CronJob makes its pods known by.
    pub(crate) fn set_job(&mut self, id: (WorkloadKind, Sym, Sym), job: JobPods) {
        if let Some(workload) = self.list.get_mut(&id) {
            workload.job = job;
        }
    }

    /// Makes a workload want no pods.
    pub(crate) fn want_none(&mut self, index: usize) {
        if let Some((_, workload)) = self.list.get_index_mut(index) {
            workload.wants = 0;
        }
    }

    /// The same by kind, namespace and name.
    pub(crate) fn want_none_of(&mut self, id: (WorkloadKind, Sym, Sym)) {
        if let Some(index) = self.list.get_index_of(&id) {
            self.want_none(index);
        }
    }

    /// Those of which nothing says that anything has been made, and that own nothing of the input.
    pub(crate) fn unmade(&self) -> Vec<usize> {
        let is_unmade = |(index, workload): (usize, &Workload)| {
            let is_unmade = workload.is_unmade && workload.wants > 0 && !self.above.contains(&Some(index));
            is_unmade.then_some(index)
        };
        self.list.values().enumerate().filter_map(is_unmade).collect()
    }

    fn above(&self, index: usize) -> Option<usize> {
        self.above.get(index).copied().flatten()
    }

    /// The workload that a pod's owner is expanded as: the topmost that is in the input, but a Job stands for itself
    /// and not for its CronJob.
    pub(crate) fn root(&self, owner: &Owner) -> Option<usize> {
        let mut root = self.find(owner)?;
        while let Some(above) = self.above(root).filter(|_| self.kind(root) != Some(WorkloadKind::Job)) {
            root = above;
        }
        Some(root)
    }

    /// Which workloads are expanded: not those whose controller is, nor a CronJob that has an unfinished Job.
    pub(crate) fn are_expanded(&self) -> Vec<bool> {
        let is_expanded = |(index, workload): (usize, &Workload)| match workload.kind {
            WorkloadKind::DaemonSet => false,
            WorkloadKind::Job => true,
            _ => self.above(index).is_none(),
        };
        let mut expanded: Vec<bool> = self.list.values().enumerate().map(is_expanded).collect();
        for (index, job) in self.list.values().enumerate() {
            if job.kind == WorkloadKind::Job && job.wants > 0 {
                let above = self.above(index);
                if let Some(above) = above.and_then(|above| expanded.get_mut(above)) {
                    *above = false;
                }
            }
        }
        expanded
    }
}

// === impl JobPods ===

impl JobPods {
    pub(crate) fn of(job: &Job) -> Self {
        let Some(spec) = &job.spec else { return JobPods::default() };
        let succeeded = job.status.as_ref().and_then(|status| status.succeeded).unwrap_or(0);
        let is_indexed = spec.completion_mode.as_deref() == Some("Indexed");
        JobPods {
            selects_by_hand: spec.manual_selector == Some(true),
            first_index: is_indexed.then(|| u32::try_from(succeeded).unwrap_or(0)),
        }
    }
}

/// Whether a Job replaces pods only once they have failed: it says so, or has a policy for failed pods.
pub(crate) fn waits_for_terminating(job: &Job) -> bool {
    let spec = job.spec.as_ref();
    let policy = spec.and_then(|spec| spec.pod_replacement_policy.as_deref());
    let has_failure_policy = spec.is_some_and(|spec| spec.pod_failure_policy.is_some());
    policy.map_or(has_failure_policy, |policy| policy == "Failed")
}

/// How many pods a Job wants at the same time: the smaller of its parallelism and of what it still has to complete.
pub(crate) fn wanted_by_job(job: &Job, now: Option<Timestamp>) -> u32 {
    let Some(spec) = &job.spec else { return 0 };
    let status = job.status.as_ref();
    let is_finished = status.is_some_and(|status| {
        status.completion_time.is_some()
            || status.conditions.iter().flatten().any(|condition| {
                condition.status == "True" && matches!(condition.type_.as_str(), "Complete" | "Failed")
            })
    });
    // Its pods are deleted then, and no more are made.
    let is_too_old = || {
        let start = status?.start_time.as_ref()?.0.as_second();
        Some(now?.as_second() >= start.saturating_add(spec.active_deadline_seconds?))
    };
    if is_finished || spec.suspend == Some(true) || is_too_old() == Some(true) {
        return 0;
    }
    let count = |n: Option<i32>| n.map(|n| u32::try_from(n).unwrap_or(0));
    let succeeded = status.and_then(|status| count(status.succeeded)).unwrap_or(0);
    let parallelism = count(spec.parallelism).unwrap_or(1);
    match count(spec.completions) {
        Some(completions) => parallelism.min(completions.saturating_sub(succeeded)),
        // A work queue: done as soon as one pod succeeds. Without parallelism it is one pod.
        None if succeeded > 0 => 0,
        None => parallelism,
    }
}
