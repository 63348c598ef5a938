//! Pods as they are read.

use std::borrow::Cow;
use std::sync::Arc;

use berth_model::{Assigned, Insists, LabelsId, Sym};
use berth_surplus::{DELETION_COST, Phase, Standing, deletion_cost};
use jiff::Timestamp;
use k8s_openapi::api::core;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};

use crate::operating::Operating;

/// A pod that runs or is to run.
#[derive(Clone, Debug)]
pub(crate) struct PodRecord {
    pub(crate) namespace: Sym,
    pub(crate) name: Arc<str>,
    pub(crate) draft: u32,
    pub(crate) labels: LabelsId,
    /// The node that it is bound to.
    pub(crate) node: Option<Sym>,
    /// The node on which room was made for it.
    pub(crate) nominated_node: Option<Sym>,
    /// The preferences that it asks for as if they were required.
    pub(crate) insists: Insists,
    /// Index into the owners.
    pub(crate) owner: Option<u32>,
    /// Whether it has ended.
    pub(crate) is_gone: bool,
    /// Whether it is being deleted.
    pub(crate) deletion: Option<Deletion>,
    /// Whether it is a static pod's mirror, which no other node takes.
    pub(crate) is_static: bool,
    /// When it started, in nanoseconds since 1970; `i64::MAX` if it has not.
    pub(crate) started: i64,
    /// When it was created, in nanoseconds since 1970; `i64::MAX` if that is not said.
    pub(crate) created: i64,
    /// What decides when a change lets it go, where a change is expected.
    pub(crate) standing: Option<Box<Standing>>,
    /// The name of the Reservation that it draws from, and its uid.
    pub(crate) draws_from: Option<(Sym, Option<Sym>)>,
    /// Index of its owner references.
    pub(crate) references: u32,
    /// Its uid.
    pub(crate) uid: Option<Box<str>>,
    /// Set where the cluster's label says that Reservations may be bound to it: its priority among such pods.
    pub(crate) pre_allocatable: Option<i64>,
    /// The CPUs and devices that it has to itself.
    pub(crate) assigned: Option<Box<Assigned>>,
    /// The Reservation that it is, but for what it reserves.
    pub(crate) operating: Option<Box<Operating>>,
    /// Whether it has the room of a pod that is one.
    pub(crate) has_held_room: bool,
}

/// How far the deletion of a pod has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Deletion {
    Begun,
    /// Its grace period is over, and it is still there: its node may be lost.
    Overdue,
}

impl PodRecord {
    pub(crate) fn is_terminating(&self) -> bool {
        self.deletion.is_some()
    }

    /// Whether no API server knows it yet.
    pub(crate) fn is_new(&self) -> bool {
        self.uid.is_none() && self.node.is_none() && self.created == i64::MAX
    }
}

/// A pod to be read: what is its own beside what it may have in common with others. The parts that many pods share need not
/// be copied for each.
#[derive(Clone, Debug)]
pub struct PodParts<'p> {
    /// Namespace, generateName, labels, annotations and owner references. Nothing else of it is read.
    pub metadata: &'p ObjectMeta,
    /// The name, which whoever converts it shares.
    pub name: Option<Arc<str>>,
    /// The uid.
    pub uid: Option<Cow<'p, str>>,
    /// When it was created.
    pub created: Option<Timestamp>,
    /// Whether it is being deleted.
    pub is_terminating: bool,
    /// The spec; which node it names is not read from it.
    pub spec: Option<&'p core::v1::PodSpec>,
    /// The node that it names.
    pub node: Option<&'p str>,
    /// The status; when it started is not read from it.
    pub status: Option<&'p core::v1::PodStatus>,
    /// When it started.
    pub started: Option<Timestamp>,
    /// The preferences that it asks for as if they were required while it is on no node.
    pub insists: Insists,
    /// The metadata and the spec once more, where other pods may have the very same: they are read once for all of these.
    pub shared: Option<(&'p Arc<ObjectMeta>, &'p Arc<core::v1::PodSpec>)>,
}

impl<'p> PodParts<'p> {
    /// Those of an object.
    pub fn of(pod: &'p core::v1::Pod) -> Self {
        let core::v1::Pod { metadata, spec, status } = pod;
        PodParts {
            metadata,
            name: metadata.name.as_deref().map(Arc::from),
            uid: metadata.uid.as_deref().map(Cow::Borrowed),
            created: metadata.creation_timestamp.as_ref().map(|time| time.0),
            is_terminating: metadata.deletion_timestamp.is_some(),
            spec: spec.as_ref(),
            node: spec.as_ref().and_then(|spec| spec.node_name.as_deref()),
            status: status.as_ref(),
            started: status.as_ref().and_then(|status| status.start_time.as_ref()).map(|time| time.0),
            insists: Insists::default(),
            shared: None,
        }
    }

    /// What decides when its workload gives it up.
    pub(crate) fn standing(&self) -> Standing {
        let conditions = self.status.and_then(|status| status.conditions.as_ref()).into_iter().flatten();
        let mut ready = conditions.filter(|condition| condition.type_ == "Ready" && condition.status == "True");
        let ready = ready.next();
        let containers = self.status.and_then(|status| status.container_statuses.as_ref()).into_iter().flatten();
        let restarts = containers.map(|container| u32::try_from(container.restart_count).unwrap_or(0)).max();
        let cost = self.metadata.annotations.as_ref().and_then(|all| all.get(DELETION_COST));
        let since = ready.and_then(|ready| ready.last_transition_time.as_ref()).map(|time| time.0);
        Standing {
            is_bound: self.node.is_some_and(|name| !name.is_empty()),
            phase: Phase::of(self.status.and_then(|status| status.phase.as_deref())),
            is_ready: ready.is_some(),
            cost: deletion_cost(cost.map(String::as_str)),
            restarts: restarts.unwrap_or(0),
            since: since.or(self.created),
        }
    }

    /// The metadata that makes it a Reservation, where it is one.
    pub(crate) fn identity(&self) -> ObjectMeta {
        ObjectMeta {
            uid: self.uid.as_deref().map(str::to_owned),
            creation_timestamp: self.created.map(Time),
            ..self.metadata.clone()
        }
    }
}
