//! One pod on a stand-in: what its containers would be doing now. Pure: the present is an argument.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;

use berth_api::labels::koordinator;

use crate::KubeletConfig;
use crate::annotation::{self, Behaviour, Exit};
use crate::clock::later;
use crate::requests::{self, Amounts};

/// As kubelet backs off from restarting: ten seconds, doubled up to five minutes.
const FIRST_BACKOFF: Duration = Duration::from_secs(10);
const LAST_BACKOFF: Duration = Duration::from_secs(300);

/// Why a pod has failed that ran for longer than it may, in kubelet's words.
pub(crate) const DEADLINE_EXCEEDED: (&str, &str) =
    ("DeadlineExceeded", "Pod was active on the node longer than the specified deadline");
/// The exit code of a container that was told to end.
const TERMINATED: i32 = 143;

/// For how long a pod may be active on its node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Deadline {
    /// From its admission.
    after: Duration,
    /// How long its containers then take to stop.
    stop: Duration,
}

/// When a pod's containers are started again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RestartPolicy {
    Always,
    OnFailure,
    Never,
}

/// What a pod is doing.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Stage {
    /// Bound to a node whose kubelet has not admitted it.
    Bound,
    /// Admitted; its containers are being created.
    Starting { since: Timestamp },
    /// Its containers run.
    Running { since: Timestamp, is_ready: bool },
    /// Its containers ended and wait to be started again.
    BackOff { ended: Timestamp, code: i32, until: Timestamp },
    /// It ended, or was rejected.
    Finished { succeeded: bool, reason: Option<String>, message: Option<String> },
}

/// A container as its status names it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ContainerName {
    pub(crate) name: String,
    pub(crate) image: String,
    pub(crate) is_sidecar: bool,
}

/// What the pods of one workload have in common, and share.
#[derive(Debug, PartialEq)]
pub(crate) struct Template {
    pub(crate) requests: Amounts,
    pub(crate) host_ports: BTreeSet<(String, String, i32)>,
    pub(crate) host_network: bool,
    pub(crate) behaviour: Behaviour,
    pub(crate) restart_policy: RestartPolicy,
    pub(crate) containers: Vec<ContainerName>,
    pub(crate) init_containers: Vec<ContainerName>,
}

/// The templates that were met last: pods of one workload mostly come one after another.
#[derive(Debug, Default)]
pub(crate) struct Templates(VecDeque<Arc<Template>>);

/// Templates that are compared with that of a new pod.
const TEMPLATES: usize = 8;

impl Templates {
    /// A template as a pod before had it, or this one.
    pub(crate) fn shared(&mut self, template: Template) -> Arc<Template> {
        if let Some(known) = self.0.iter().find(|known| ***known == template) {
            return known.clone();
        }
        let new = Arc::new(template);
        self.0.push_front(new.clone());
        self.0.truncate(TEMPLATES);
        new
    }
}

/// A pod that is bound to some node.
#[derive(Debug, Clone)]
#[expect(clippy::struct_excessive_bools, reason = "independent facts")]
pub(crate) struct Record {
    pub(crate) namespace: String,
    pub(crate) name: String,
    pub(crate) uid: String,
    pub(crate) node: String,
    /// The order of arrival: that of admission.
    pub(crate) sequence: u64,
    pub(crate) template: Arc<Template>,
    pub(crate) has_finalizers: bool,
    pub(crate) stage: Stage,
    pub(crate) admitted: Option<Timestamp>,
    /// Few pods have one.
    pub(crate) deadline: Option<Box<Deadline>>,
    pub(crate) restarts: i32,
    /// How the containers ended last.
    pub(crate) last_exit: Option<(Timestamp, Timestamp, i32)>,
    pub(crate) ip: Option<u32>,
    /// When the containers of a deleted pod have stopped.
    pub(crate) stops_at: Option<Timestamp>,
    pub(crate) is_stopped: bool,
    /// Its last deletion was sent.
    pub(crate) is_deleted: bool,
    /// The timer that was set last.
    pub(crate) timer: Option<Timestamp>,
    /// The status differs from what was written last.
    pub(crate) is_dirty: bool,
}

// === impl Record ===

impl Record {
    /// A pod as the API server has it, and what is wrong with its annotations. `None` while it is bound to no node.
    pub(crate) fn read(
        pod: &Pod,
        config: &KubeletConfig,
        sequence: u64,
        templates: &mut Templates,
    ) -> Option<(Self, Vec<String>)> {
        let spec = pod.spec.as_ref()?;
        let node = spec.node_name.clone().filter(|node| !node.is_empty())?;
        let (mut behaviour, problems) = annotation::read(pod.metadata.annotations.as_ref());
        let restart_policy = match spec.restart_policy.as_deref() {
            Some("Never") => RestartPolicy::Never,
            Some("OnFailure") => RestartPolicy::OnFailure,
            _ => RestartPolicy::Always,
        };
        let is_of_job = pod.metadata.owner_references.iter().flatten().any(|owner| owner.kind == "Job");
        if is_of_job && behaviour.exit.is_none() {
            behaviour.exit = Some(Exit { after: config.job_duration, code: 0 });
        }
        let name_of = |container: &k8s_openapi::api::core::v1::Container| ContainerName {
            name: container.name.clone(),
            image: container.image.clone().unwrap_or_default(),
            is_sidecar: container.restart_policy.as_deref() == Some("Always"),
        };
        // Such a pod runs nothing, and its owner takes its room.
        let is_room = koordinator::is_operating(&pod.metadata);
        let template = Template {
            requests: if is_room { Amounts::new() } else { requests::of_pod(spec) },
            host_ports: if is_room { BTreeSet::new() } else { requests::host_ports(spec) },
            host_network: spec.host_network == Some(true),
            behaviour,
            restart_policy,
            containers: spec.containers.iter().map(name_of).collect(),
            init_containers: spec.init_containers.iter().flatten().map(name_of).collect(),
        };
        let mut record = Self {
            namespace: pod.metadata.namespace.clone().unwrap_or_default(),
            name: pod.metadata.name.clone()?,
            uid: pod.metadata.uid.clone()?,
            node,
            sequence,
            template: templates.shared(template),
            has_finalizers: false,
            stage: Stage::Bound,
            admitted: None,
            deadline: None,
            restarts: 0,
            last_exit: None,
            ip: None,
            stops_at: None,
            is_stopped: false,
            is_deleted: false,
            timer: None,
            is_dirty: false,
        };
        record.take_up(pod);
        Some((record, problems))
    }

    /// Takes up the work on a pod that a kubelet has admitted before.
    fn take_up(&mut self, pod: &Pod) {
        let Some(status) = &pod.status else { return };
        self.admitted = status.start_time.as_ref().map(|time| time.0);
        let phase = status.phase.as_deref().unwrap_or_default();
        let is_ready = status.conditions.iter().flatten().any(|own| own.type_ == "Ready" && own.status == "True");
        self.restarts = status.container_statuses.iter().flatten().map(|own| own.restart_count).max().unwrap_or(0);
        self.stage = match (phase, self.admitted) {
            ("Succeeded" | "Failed", _) => Stage::Finished {
                succeeded: phase == "Succeeded",
                reason: status.reason.clone(),
                message: status.message.clone(),
            },
            ("Running", Some(since)) => Stage::Running { since, is_ready },
            (_, Some(since)) => Stage::Starting { since },
            (_, None) => Stage::Bound,
        };
    }

    /// Whether it uses its node's resources: deleted pods do until they are gone.
    pub(crate) fn uses_node(&self) -> bool {
        !matches!(self.stage, Stage::Bound | Stage::Finished { .. }) && !self.is_stopped
    }

    /// Takes in for how long the pod may be active, which may change while it runs.
    pub(crate) fn observe_deadline(&mut self, pod: &Pod, config: &KubeletConfig) {
        let seconds = pod.spec.as_ref().and_then(|spec| spec.active_deadline_seconds);
        self.deadline = seconds.map(|seconds| {
            let grace = pod.spec.as_ref().and_then(|spec| spec.termination_grace_period_seconds).unwrap_or(30);
            let duration = |seconds: i64| Duration::from_secs(u64::try_from(seconds).unwrap_or(0));
            Box::new(Deadline { after: duration(seconds), stop: self.stop_time(config, duration(grace)) })
        });
    }

    /// How long the containers take to stop.
    fn stop_time(&self, config: &KubeletConfig, grace: Duration) -> Duration {
        self.template.behaviour.stops_after.unwrap_or(config.stop_delay).min(grace)
    }

    /// Takes in that the pod is being deleted, or that its grace became shorter.
    pub(crate) fn observe_deletion(&mut self, pod: &Pod, config: &KubeletConfig, now: Timestamp) {
        self.has_finalizers = pod.metadata.finalizers.iter().flatten().next().is_some();
        if pod.metadata.deletion_timestamp.is_none() || self.is_stopped {
            return;
        }
        let grace = u64::try_from(pod.metadata.deletion_grace_period_seconds.unwrap_or(0)).unwrap_or(0);
        let stop = self.stop_time(config, Duration::from_secs(grace));
        let runs = matches!(self.stage, Stage::Running { .. } | Stage::BackOff { .. });
        let stops_at = if runs { later(now, stop) } else { now };
        self.stops_at = Some(self.stops_at.map_or(stops_at, |known| known.min(stops_at)));
    }

    /// Admits the pod.
    pub(crate) fn admit(&mut self, now: Timestamp) {
        self.admitted = Some(now);
        self.stage = Stage::Starting { since: now };
        self.is_dirty = true;
    }

    /// Rejects the pod: it has failed, and its controller makes another.
    pub(crate) fn reject(&mut self, reason: String, message: String, now: Timestamp) {
        self.admitted = Some(now);
        self.stage = Stage::Finished { succeeded: false, reason: Some(reason), message: Some(message) };
        self.is_dirty = true;
    }

    /// Does what is due by `now`.
    pub(crate) fn advance(&mut self, config: &KubeletConfig, now: Timestamp) {
        while let Some(due) = self.due(config).filter(|&due| due <= now) {
            if self.stops_at.is_some_and(|stop| stop <= due) {
                self.stop(now);
                return;
            }
            self.is_dirty = true;
            if self.deadline_due().is_some_and(|over| over <= due) {
                self.exceed_deadline(due);
                return;
            }
            self.stage = match self.stage {
                Stage::Starting { .. } => {
                    Stage::Running { since: due, is_ready: self.template.behaviour.ready_after.is_zero() }
                }
                Stage::Running { since, is_ready: false }
                    if due == later(since, self.template.behaviour.ready_after) =>
                {
                    Stage::Running { since, is_ready: true }
                }
                Stage::Running { since, .. } => self.ended(since, due),
                Stage::BackOff { .. } => {
                    self.restarts = self.restarts.saturating_add(1);
                    Stage::Running { since: due, is_ready: self.template.behaviour.ready_after.is_zero() }
                }
                Stage::Bound | Stage::Finished { .. } => return,
            };
        }
    }

    /// When something happens next.
    pub(crate) fn due(&self, config: &KubeletConfig) -> Option<Timestamp> {
        if self.is_stopped {
            return None;
        }
        let own = match &self.stage {
            Stage::Bound | Stage::Finished { .. } => None,
            Stage::Starting { since } => Some(later(*since, config.start_delay)),
            Stage::Running { since, is_ready } => {
                let ready = (!is_ready).then(|| later(*since, self.template.behaviour.ready_after));
                let exit = self.template.behaviour.exit.map(|exit| later(*since, exit.after));
                ready.into_iter().chain(exit).min()
            }
            Stage::BackOff { until, .. } => Some(*until),
        };
        own.into_iter().chain(self.stops_at).chain(self.deadline_due()).min()
    }

    /// When it has ended because of its deadline.
    fn deadline_due(&self) -> Option<Timestamp> {
        let deadline = self.deadline.as_ref()?;
        let over = later(self.admitted?, deadline.after);
        match self.stage {
            Stage::Bound | Stage::Finished { .. } => None,
            Stage::Running { .. } => Some(later(over, deadline.stop)),
            Stage::Starting { .. } | Stage::BackOff { .. } => Some(over),
        }
    }

    fn exceed_deadline(&mut self, now: Timestamp) {
        if let Stage::Running { since, .. } = self.stage {
            self.last_exit = Some((since, now, TERMINATED));
        }
        let (reason, message) = DEADLINE_EXCEEDED;
        self.stage =
            Stage::Finished { succeeded: false, reason: Some(reason.to_owned()), message: Some(message.to_owned()) };
    }

    /// Whether it has failed because of its deadline.
    pub(crate) fn has_exceeded_deadline(&self) -> bool {
        matches!(&self.stage, Stage::Finished { reason: Some(reason), .. } if reason == DEADLINE_EXCEEDED.0)
    }

    fn ended(&mut self, since: Timestamp, now: Timestamp) -> Stage {
        let code = self.template.behaviour.exit.map_or(0, |exit| exit.code);
        self.last_exit = Some((since, now, code));
        let restarts = match self.template.restart_policy {
            RestartPolicy::Always => true,
            RestartPolicy::OnFailure => code != 0,
            RestartPolicy::Never => false,
        };
        if restarts {
            let doublings = u32::try_from(self.restarts).unwrap_or(0).min(5);
            let wait = (FIRST_BACKOFF * 2_u32.pow(doublings)).min(LAST_BACKOFF);
            Stage::BackOff { ended: now, code, until: later(now, wait) }
        } else {
            Stage::Finished { succeeded: code == 0, reason: None, message: None }
        }
    }

    /// The containers of a deleted pod have stopped: as kubelet does, it ends in a phase that is final.
    fn stop(&mut self, now: Timestamp) {
        if let Stage::Running { since, .. } = self.stage {
            self.last_exit = Some((since, now, 0));
        }
        if !matches!(self.stage, Stage::Finished { .. }) {
            // A pod of a Job that was deleted before its end has failed.
            let succeeded = self.template.restart_policy == RestartPolicy::Always;
            self.stage = Stage::Finished { succeeded, reason: None, message: None };
            // Nobody but those who hold a finalizer sees the last status.
            self.is_dirty = self.has_finalizers;
        }
        self.is_stopped = true;
        self.stops_at = None;
    }
}
