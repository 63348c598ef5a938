//! Workloads as they are read: a template, and how many pods of it are wanted.

use k8s_openapi::api::core::v1::{PersistentVolumeClaim, PodTemplateSpec};
use k8s_openapi::api::{apps, batch, core};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use berth_model::OwnerReference;

use crate::add_pod::add_ask;
use crate::claims::Storage;
use crate::draft::Draft;
use crate::maps::index;
use crate::metadata::{name_of, namespace_of};
use crate::rollout::are_placed_alike;
use crate::workloads::{JobPods, Rollout, Sheds, ToldBy, Workload, WorkloadKind, waits_for_terminating, wanted_by_job};
use crate::{Builder, ConvertError, Problem, pod, terms};

/// Pods that are counted, in all: a class of alike pods counts them in 32 bits.
pub(crate) const MOST_PODS: u64 = u32::MAX as u64;
/// Pods of one workload that are looked at one by one.
const MOST_PER_POD: u32 = 5_000_000;

/// Whether a workload is paused: it gets no pods of another template meanwhile.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Pause {
    No,
    Yes,
    /// Its controller has made nothing yet that makes pods, as far as the object says.
    BeforeAnything,
}

/// What a workload is, beside its template.
struct Given<'a> {
    kind: WorkloadKind,
    metadata: &'a ObjectMeta,
    template: Option<&'a PodTemplateSpec>,
    /// Where the template is in the object.
    path: &'static str,
    claim_templates: &'a [PersistentVolumeClaim],
    first: i32,
    wants: u32,
    /// Whether the object says how many it wants.
    is_counted: bool,
    /// From which ordinal on its controller remakes pods when the template changes; `None` where it does not by itself.
    remakes_from: Option<u32>,
    pause: Pause,
    /// The revision of its template, as its status has it.
    revision: Option<&'a str>,
    /// Where the object says how many it wants.
    count_path: &'static str,
    waits_for_terminating: bool,
}

impl Builder {
    /// A Deployment: pods `name-0 …` for the replicas that have none yet.
    pub fn add_deployment(&mut self, object: &apps::v1::Deployment) -> Result<(), ConvertError> {
        let spec = object.spec.as_ref();
        let is_paused = spec.and_then(|spec| spec.paused) == Some(true);
        self.add_workload(&Given {
            kind: WorkloadKind::Deployment,
            metadata: &object.metadata,
            template: spec.map(|spec| &spec.template),
            path: "spec.template",
            claim_templates: &[],
            first: 0,
            wants: replicas(spec.and_then(|spec| spec.replicas)),
            is_counted: spec.is_some_and(|spec| spec.replicas.is_some()),
            remakes_from: (!is_paused).then_some(0),
            pause: match (is_paused, has_revision(object)) {
                (false, _) => Pause::No,
                (true, true) => Pause::Yes,
                (true, false) => Pause::BeforeAnything,
            },
            revision: None,
            count_path: "spec.replicas",
            waits_for_terminating: false,
        })?;
        self.select_deployment(object);
        Ok(())
    }

    /// A ReplicaSet, as a Deployment; one that a Deployment of the input owns is part of that.
    pub fn add_replica_set(&mut self, object: &apps::v1::ReplicaSet) -> Result<(), ConvertError> {
        let spec = object.spec.as_ref();
        self.add_workload(&Given {
            kind: WorkloadKind::ReplicaSet,
            metadata: &object.metadata,
            template: spec.and_then(|spec| spec.template.as_ref()),
            path: "spec.template",
            claim_templates: &[],
            first: 0,
            wants: replicas(spec.and_then(|spec| spec.replicas)),
            is_counted: spec.is_some_and(|spec| spec.replicas.is_some()),
            remakes_from: None,
            pause: Pause::No,
            revision: None,
            count_path: "spec.replicas",
            waits_for_terminating: false,
        })?;
        self.select_replica_set(object);
        Ok(())
    }

    /// A ReplicationController, as a Deployment.
    pub fn add_replication_controller(&mut self, object: &core::v1::ReplicationController) -> Result<(), ConvertError> {
        let spec = object.spec.as_ref();
        self.add_workload(&Given {
            kind: WorkloadKind::ReplicationController,
            metadata: &object.metadata,
            template: spec.and_then(|spec| spec.template.as_ref()),
            path: "spec.template",
            claim_templates: &[],
            first: 0,
            wants: replicas(spec.and_then(|spec| spec.replicas)),
            is_counted: spec.is_some_and(|spec| spec.replicas.is_some()),
            remakes_from: None,
            pause: Pause::No,
            revision: None,
            count_path: "spec.replicas",
            waits_for_terminating: false,
        })?;
        self.select_replication_controller(object);
        Ok(())
    }

    /// A StatefulSet: pods by ordinal, each with the claims of its ordinal.
    pub fn add_stateful_set(&mut self, object: &apps::v1::StatefulSet) -> Result<(), ConvertError> {
        let spec = object.spec.as_ref();
        let templates = spec.and_then(|spec| spec.volume_claim_templates.as_deref());
        let ordinals = spec.and_then(|spec| spec.ordinals.as_ref());
        self.add_workload(&Given {
            kind: WorkloadKind::StatefulSet,
            metadata: &object.metadata,
            template: spec.map(|spec| &spec.template),
            path: "spec.template",
            claim_templates: templates.unwrap_or_default(),
            first: ordinals.and_then(|ordinals| ordinals.start).unwrap_or(0),
            wants: replicas(spec.and_then(|spec| spec.replicas)),
            is_counted: spec.is_some_and(|spec| spec.replicas.is_some()),
            remakes_from: spec.and_then(remakes_from),
            pause: Pause::No,
            revision: object.status.as_ref().and_then(|status| status.update_revision.as_deref()),
            count_path: "spec.replicas",
            waits_for_terminating: true,
        })?;
        self.select_stateful_set(object);
        Ok(())
    }

    /// A DaemonSet: overhead of every node that it matches.
    pub fn add_daemon_set(&mut self, object: &apps::v1::DaemonSet) -> Result<(), ConvertError> {
        let strategy = object.spec.as_ref().and_then(|spec| spec.update_strategy.as_ref()?.type_.as_deref());
        let waits_to_be_deleted = strategy == Some(ON_DELETE);
        self.add_workload(&Given {
            kind: WorkloadKind::DaemonSet,
            metadata: &object.metadata,
            template: object.spec.as_ref().map(|spec| &spec.template),
            path: "spec.template",
            claim_templates: &[],
            first: 0,
            wants: 1,
            is_counted: true,
            remakes_from: (!waits_to_be_deleted).then_some(0),
            pause: Pause::No,
            revision: None,
            count_path: "spec.replicas",
            waits_for_terminating: false,
        })
    }

    /// A Job: as many pods as it may run at the same time, of those that have still to complete.
    pub fn add_job(&mut self, object: &batch::v1::Job) -> Result<(), ConvertError> {
        self.add_workload(&Given {
            kind: WorkloadKind::Job,
            metadata: &object.metadata,
            template: object.spec.as_ref().map(|spec| &spec.template),
            path: "spec.template",
            claim_templates: &[],
            first: 0,
            wants: wanted_by_job(object, self.options.now),
            is_counted: true,
            remakes_from: None,
            pause: Pause::No,
            revision: None,
            waits_for_terminating: waits_for_terminating(object),
            count_path: "spec.parallelism",
        })?;
        self.set_job(WorkloadKind::Job, &object.metadata, JobPods::of(object))
    }

    /// A CronJob: one run of it, unless it has an unfinished Job in the input.
    pub fn add_cron_job(&mut self, object: &batch::v1::CronJob) -> Result<(), ConvertError> {
        let spec = object.spec.as_ref();
        let run =
            batch::v1::Job { spec: spec.and_then(|spec| spec.job_template.spec.clone()), ..batch::v1::Job::default() };
        let is_suspended = spec.and_then(|spec| spec.suspend) == Some(true);
        self.add_workload(&Given {
            kind: WorkloadKind::CronJob,
            metadata: &object.metadata,
            template: run.spec.as_ref().map(|spec| &spec.template),
            path: "spec.jobTemplate.spec.template",
            claim_templates: &[],
            first: 0,
            wants: if is_suspended { 0 } else { wanted_by_job(&run, self.options.now) },
            is_counted: true,
            remakes_from: None,
            pause: Pause::No,
            revision: None,
            waits_for_terminating: false,
            count_path: "spec.jobTemplate.spec.parallelism",
        })?;
        self.set_job(WorkloadKind::CronJob, &object.metadata, JobPods::of(&run))
    }

    fn set_job(&mut self, kind: WorkloadKind, metadata: &ObjectMeta, job: JobPods) -> Result<(), ConvertError> {
        let symbols = &mut self.cluster.symbols;
        let name = symbols.intern(name_of(kind.name(), metadata)?);
        self.workloads.set_job((kind, symbols.intern(namespace_of(metadata)), name), job);
        Ok(())
    }

    fn add_workload(&mut self, given: &Given<'_>) -> Result<(), ConvertError> {
        let kind = given.kind.name();
        let (metadata, name) = (given.metadata, name_of(kind, given.metadata)?);
        let full_name = format!("{}/{name}", namespace_of(metadata));
        let spec = given.template.and_then(|template| template.spec.as_ref());
        let Some(spec) = spec else {
            let problem = Problem::new(format!("{}.spec", given.path), "expected a pod spec");
            return Err(ConvertError::new(kind, full_name, vec![problem]));
        };
        let template = given.template.and_then(|template| template.metadata.as_ref());
        let path = format!("{}.spec", given.path);
        let draft = pod::with_claim_templates(spec, given.claim_templates, &mut self.cluster);
        let mut draft =
            draft.map_err(|problem| ConvertError::new(kind, full_name.as_str(), vec![problem.under(path)]))?;
        if let Some(template) = template {
            add_ask(template, &mut draft, &mut self.cluster)
                .map_err(|problem| ConvertError::new(kind, full_name.as_str(), vec![problem.under(given.path)]))?;
        }
        draft.shape = self.shape_of(spec);
        if given.kind == WorkloadKind::DaemonSet {
            pod::tolerate_as_daemon(spec, &mut draft, &mut self.cluster);
        }
        let node = pod::pin(spec, &mut draft, &mut self.cluster);
        self.check_count(given, &draft)
            .map_err(|problem| ConvertError::new(kind, full_name.as_str(), vec![problem.under(given.count_path)]))?;
        let labels = template.and_then(|template| template.labels.as_ref());
        let labels = terms::labels_of(labels, &mut self.cluster.symbols);
        self.warn_of_length(given.kind, name, &full_name);
        let namespace = self.cluster.symbols.intern(namespace_of(metadata));
        let is_deleting = metadata.deletion_timestamp.is_some();
        let uid = metadata.uid.as_deref().filter(|uid| !uid.is_empty());
        let uid = uid.map(|uid| self.cluster.symbols.intern(uid));
        let name = self.cluster.symbols.intern(name);
        let reference = OwnerReference {
            api_version: self.cluster.symbols.intern(given.kind.api_version()),
            kind: self.cluster.symbols.intern(kind),
            name,
            uid,
            is_controller: true,
        };
        let mut workload = Workload {
            kind: given.kind,
            namespace,
            name,
            uid,
            references: index(self.references.insert_full(vec![reference]).0),
            owner: self.owner_of(metadata, namespace),
            draft: self.intern_draft(draft),
            labels: self.cluster.intern_labels(labels),
            first: u32::try_from(given.first).unwrap_or(0),
            wants: if is_deleting { 0 } else { given.wants },
            waits_for_terminating: given.waits_for_terminating,
            revision: given.revision.filter(|name| !name.is_empty()).map(|name| self.cluster.symbols.intern(name)),
            remakes_from: given.remakes_from,
            is_unmade: given.pause == Pause::BeforeAnything,
            rollout: Rollout::default(),
            job: JobPods::default(),
            node,
        };
        if self.is_change {
            self.roll_out(given, &mut workload);
        }
        if !self.workloads.add(workload) {
            self.warn_of_repeat(kind, &full_name);
        }
        Ok(())
    }

    /// A change of a workload that is there ends those of its pods that differ from its template now, and those that are too
    /// many. What its controller has begun already is no part of the change.
    fn roll_out(&self, given: &Given<'_>, workload: &mut Workload) {
        let Some(before) = self.workloads.named((workload.kind, workload.namespace, workload.name)) else { return };
        let are_alike =
            before.labels == workload.labels && are_placed_alike(&self.drafts, before.draft, workload.draft);
        // From which ordinal on it goes on now, and from which on it did before.
        let held_until = before.remakes_from.unwrap_or(u32::MAX);
        let goes_on = given.remakes_from.filter(|from| *from < held_until);
        let told_by = match workload.kind {
            WorkloadKind::Deployment => {
                let has_own_sets = given.pause == Pause::No && before.labels == workload.labels;
                (has_own_sets && (!are_alike || goes_on.is_some())).then_some(ToldBy::Sets)
            }
            WorkloadKind::DaemonSet => goes_on.filter(|_| are_alike).map(|_| ToldBy::Requests),
            _ => {
                let revision = before.revision.filter(|_| are_alike);
                revision.zip(goes_on).map(|(revision, from)| ToldBy::Revision(revision, (from, held_until)))
            }
        };
        workload.rollout = Rollout {
            remakes_from: given.remakes_from.filter(|_| !are_alike).or(before.rollout.remakes_from),
            told_by: told_by.or(before.rollout.told_by),
            sheds: Sheds::Yes,
        };
        workload.revision = before.revision;
        workload.is_unmade &= before.is_unmade;
        if given.pause != Pause::No {
            (workload.draft, workload.labels) = (before.draft, before.labels);
        }
        // What is applied without a count leaves it as it was.
        if !given.is_counted {
            workload.wants = before.wants;
        }
    }

    // Names that an API server takes, or that no check here refuses, though none of their pods would run: names of what the
    // controller makes are longer, by a hyphen and a hash of up to ten characters. Pods' own names are cut.
    fn warn_of_length(&mut self, kind: WorkloadKind, name: &str, full_name: &str) {
        let (most, why) = match kind {
            WorkloadKind::Deployment => (242, "names of its ReplicaSets would have more than 253"),
            WorkloadKind::StatefulSet => (52, "the label controller-revision-hash of its pods would have more than 63"),
            WorkloadKind::Job => (63, "the label job-name of its pods would have more than 63"),
            WorkloadKind::CronJob => (52, "names of its Jobs would have more than 63"),
            WorkloadKind::DaemonSet | WorkloadKind::ReplicaSet | WorkloadKind::ReplicationController => return,
        };
        if name.len() > most {
            let kind = kind.name();
            self.warnings.insert(format!(
                "{kind} {full_name}: a cluster would run none of its pods: the name has {} characters, and {why}; \
                 {most} at most will do",
                name.len()
            ));
        }
    }

    /// Whether so many pods more can be counted exactly, and be looked at one by one where each has claims of its own.
    fn check_count(&self, given: &Given<'_>, draft: &Draft) -> Result<(), Problem> {
        if given.kind == WorkloadKind::DaemonSet {
            return Ok(());
        }
        if Storage::is_per_pod(&draft.claims) && given.wants > MOST_PER_POD {
            let message = "where each pod has claims of its own";
            return Err(Problem::new("", format!("found {}, expected at most {MOST_PER_POD} {message}", given.wants)));
        }
        let others = self.n_pods();
        if others + u64::from(given.wants) <= MOST_PODS {
            return Ok(());
        }
        let message = format!(
            "found {}, expected at most {} beside {others} pods of other objects: {MOST_PODS} in all",
            given.wants,
            MOST_PODS.saturating_sub(others)
        );
        Err(Problem::new("", message))
    }
}

/// Whether a Deployment says that it has had a ReplicaSet.
fn has_revision(object: &apps::v1::Deployment) -> bool {
    const REVISION: &str = "deployment.kubernetes.io/revision";
    object.metadata.annotations.as_ref().is_some_and(|all| all.contains_key(REVISION))
        || object.status.as_ref().is_some_and(|status| status.replicas.is_some_and(|n| n > 0))
}

/// An update strategy: pods are remade once they are deleted.
const ON_DELETE: &str = "OnDelete";

/// From which ordinal on a StatefulSet remakes its pods when its template changes.
fn remakes_from(spec: &apps::v1::StatefulSetSpec) -> Option<u32> {
    let strategy = spec.update_strategy.as_ref();
    let partition = strategy.and_then(|strategy| strategy.rolling_update.as_ref()?.partition).unwrap_or(0);
    let waits = strategy.and_then(|strategy| strategy.type_.as_deref()) == Some(ON_DELETE);
    let first = spec.ordinals.as_ref().and_then(|ordinals| ordinals.start).unwrap_or(0);
    (!waits).then(|| u32::try_from(first.saturating_add(partition)).unwrap_or(0))
}

/// Replicas; one where the object does not say.
fn replicas(replicas: Option<i32>) -> u32 {
    u32::try_from(replicas.unwrap_or(1)).unwrap_or(0)
}
