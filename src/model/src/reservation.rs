//! Reservations, room on a node that is held for pods that come later, and what pods ask of them.

use std::time::Duration;

use crate::{
    AllocatePolicy, Assigned, HostPort, Labels, LabelsId, ResourceId, Resources, Selector, SpecId, Sym, Symbols, Taint,
    Volumes,
};

/// How far a Reservation has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Phase {
    /// No node yet.
    #[default]
    Pending,
    /// Owners may draw from it.
    Available,
    /// It has a node, but its room is not free yet.
    Waiting,
    /// It is spent.
    Succeeded,
    /// It expired, or its node is gone.
    Failed,
}

impl Phase {
    /// Whether the Reservation holds nothing any more and never will.
    pub fn is_terminal(self) -> bool {
        matches!(self, Phase::Succeeded | Phase::Failed)
    }

    /// Whether it holds room on its node.
    pub fn holds_room(self) -> bool {
        matches!(self, Phase::Available | Phase::Waiting)
    }
}

/// A pod that an owner names; what is not set matches any.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct ObjectMatch {
    /// The namespace.
    pub namespace: Option<Sym>,
    /// The name.
    pub name: Option<Box<str>>,
    /// The uid.
    pub uid: Option<Box<str>>,
    /// The API version; that of pods is `v1`.
    pub api_version: Option<Box<str>>,
}

/// A controller of pods that an owner names; what is not set matches any.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct ControllerMatch {
    /// The namespace of the pod.
    pub namespace: Option<Sym>,
    /// The API group and version.
    pub api_version: Option<Sym>,
    /// The kind.
    pub kind: Option<Sym>,
    /// The name.
    pub name: Option<Sym>,
    /// The uid.
    pub uid: Option<Sym>,
    /// Whether it manages the pod.
    pub is_controller: Option<bool>,
}

/// Who may draw from a Reservation: pods that fit every part that is set.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct ReservationOwner {
    /// The pod itself.
    pub object: Option<ObjectMatch>,
    /// One of the pod's owner references.
    pub controller: Option<ControllerMatch>,
    /// The pod's labels.
    pub selector: Option<Selector>,
}

/// An owner reference of a pod.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OwnerReference {
    /// The API group and version.
    pub api_version: Sym,
    /// The kind.
    pub kind: Sym,
    /// The name.
    pub name: Sym,
    /// The uid, where it is known.
    pub uid: Option<Sym>,
    /// Whether it manages the pod.
    pub is_controller: bool,
}

/// Where the candidates for pre-allocation come from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PreAllocationMode {
    /// The pods that the Reservation's owners describe.
    #[default]
    Owners,
    /// The pods that the cluster's label marks.
    Cluster,
}

/// How a Reservation is bound to pods that already run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PreAllocation {
    /// Where the candidates come from.
    pub mode: PreAllocationMode,
    /// Whether the room of several pods may be taken together.
    pub is_multiple: bool,
    /// Whether it must be bound to running pods, and may not take free room alone.
    pub is_required: bool,
}

/// What a scheduler's configuration says of Reservations, as far as it decides where pods and Reservations go
/// (Koordinator's `ReservationArgs`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReservationRules {
    /// `enablePreemption`: whether pending Reservations may evict pods of lower priority.
    pub preempts: bool,
    /// `preAllocationConfig`.
    pub pre_allocation: PreAllocationSettings,
    /// `ignoredResources` and `ignoredResourceGroups`: extended resources that pods that draw are not refused for.
    pub ignored: Vec<ResourceId>,
}

/// What a scheduler's configuration says of pre-allocation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PreAllocationSettings {
    /// Whether mode Cluster may be used.
    pub cluster_mode: bool,
    /// Whether free room comes before running pods where it is enough.
    pub prefers_free_room: bool,
}

/// A Reservation, as far as placement is concerned.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Reservation {
    /// The name.
    pub name: Sym,
    /// The uid, where it has one.
    pub uid: Option<Sym>,
    /// Its labels.
    pub labels: Labels,
    /// How far it has come.
    pub phase: Phase,
    /// The node that it holds room on, or is pinned to while it is pending.
    pub node: Option<Sym>,
    /// Who may draw from it; `None` where that cannot be read, and then nobody may.
    pub owners: Option<Vec<ReservationOwner>>,
    /// Whether only the first owner may draw from it.
    pub allocate_once: bool,
    /// How owners that need more than is reserved are treated.
    pub policy: AllocatePolicy,
    /// Of a Restricted Reservation: the resources that are restricted; of none that it reserves, all of those.
    pub restricted: Vec<ResourceId>,
    /// What it reserves; `pods` only where the template asks for pods as a resource.
    pub allocatable: Resources,
    /// What its template and a resize ask for: it may have been made larger since it has its node.
    pub asked: Resources,
    /// What of it is kept from its owners.
    pub kept: Resources,
    /// The ports that it holds.
    pub host_ports: Vec<HostPort>,
    /// The volumes that it holds.
    pub volumes: Volumes,
    /// Whether new owners are kept out.
    pub is_unschedulable: bool,
    /// Whether it is being deleted.
    pub is_terminating: bool,
    /// Taints that owners must tolerate.
    pub taints: Vec<Taint>,
    /// The order label: the lowest is drawn from first. Never 0.
    pub order: Option<i64>,
    /// When it was created, in seconds of Unix time.
    pub created: Option<i64>,
    /// Its priority among pods; without one of its own nothing is above it.
    pub priority: i32,
    /// Set where it is to be bound to running pods.
    pub pre_allocation: Option<PreAllocation>,
    /// The CPUs and devices that it holds.
    pub assigned: Assigned,
    /// The pod of its template; `None` where nothing but amounts is known of it.
    pub template: Option<Template>,
    /// Of a pod that is a Reservation: its namespace. Its name is the Reservation's.
    pub pod_namespace: Option<Sym>,
}

/// The pod that stands in for a Reservation: it has the template's constraints, and counts in those of others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Template {
    /// The namespace.
    pub namespace: Sym,
    /// Index into [`crate::Cluster::specs`].
    pub spec: SpecId,
    /// Index into [`crate::Cluster::label_sets`].
    pub labels: LabelsId,
}

impl Reservation {
    /// A pending Reservation of nothing and for nobody, with the API's defaults.
    pub fn new(name: Sym) -> Self {
        Reservation {
            name,
            uid: None,
            labels: Labels::default(),
            phase: Phase::Pending,
            node: None,
            owners: Some(Vec::new()),
            allocate_once: true,
            policy: AllocatePolicy::Unset,
            restricted: Vec::new(),
            allocatable: Resources::new(),
            asked: Resources::new(),
            kept: Resources::new(),
            host_ports: Vec::new(),
            volumes: Volumes::default(),
            is_unschedulable: false,
            is_terminating: false,
            taints: Vec::new(),
            order: None,
            created: None,
            priority: i32::MAX,
            pre_allocation: None,
            assigned: Assigned::default(),
            template: None,
            pod_namespace: None,
        }
    }
}

/// What owners look at in a pod.
#[derive(Clone, Copy, Debug)]
pub struct Identity<'a> {
    /// The namespace.
    pub namespace: Sym,
    /// The name, where it is known before the pod is there.
    pub name: Option<&'a str>,
    /// The uid, where the pod has one.
    pub uid: Option<&'a str>,
    /// The labels.
    pub labels: &'a Labels,
    /// The owner references.
    pub references: &'a [OwnerReference],
}

impl Reservation {
    /// Whether one of its owners describes the pod. Entries are alternatives, the parts of an entry must all hold.
    /// Owners that cannot be read describe nobody; an entry without any part describes everybody.
    pub fn owns(&self, pod: &Identity<'_>, symbols: &Symbols) -> bool {
        self.owners.iter().flatten().any(|owner| describes(owner, pod, symbols))
    }

    /// Whether its owners can tell two pods apart that differ in name or uid alone: else a class of alike pods is
    /// matched once.
    pub fn names_pods(&self) -> bool {
        let names = |owner: &ReservationOwner| {
            owner.object.as_ref().is_some_and(|object| object.name.is_some() || object.uid.is_some())
        };
        self.owners.iter().flatten().any(names)
    }
}

fn describes(owner: &ReservationOwner, pod: &Identity<'_>, symbols: &Symbols) -> bool {
    owner.object.as_ref().is_none_or(|object| is_object(object, pod))
        && owner.controller.as_ref().is_none_or(|controller| has_controller(controller, pod))
        && owner.selector.as_ref().is_none_or(|selector| selector.matches(pod.labels, symbols))
}

// Kind is not looked at: only pods are compared.
fn is_object(object: &ObjectMatch, pod: &Identity<'_>) -> bool {
    object.namespace.is_none_or(|namespace| namespace == pod.namespace)
        && object.name.as_deref().is_none_or(|name| pod.name == Some(name))
        && object.uid.as_deref().is_none_or(|uid| pod.uid == Some(uid))
        && object.api_version.as_deref().is_none_or(|version| version == "v1")
}

fn has_controller(controller: &ControllerMatch, pod: &Identity<'_>) -> bool {
    let is_same = |mine: Option<Sym>, theirs: Sym| mine.is_none_or(|mine| mine == theirs);
    controller.namespace.is_none_or(|namespace| namespace == pod.namespace)
        && pod.references.iter().any(|reference| {
            controller.is_controller.is_none_or(|is_controller| is_controller == reference.is_controller)
                && is_same(controller.api_version, reference.api_version)
                && is_same(controller.kind, reference.kind)
                && is_same(controller.name, reference.name)
                // A controller that is yet to be created has no uid; kind and name decide.
                && controller.uid.is_none_or(|uid| reference.uid.is_none_or(|known| known == uid))
        })
}

/// How long a Reservation lives. Times are seconds of Unix time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lifetime {
    /// When it was created, if it was.
    pub created: Option<i64>,
    /// When it expires, whatever the ttl says.
    pub expires: Option<i64>,
    /// How long it lives from its creation; zero is for ever.
    pub ttl: Duration,
}

impl Lifetime {
    /// When its time is over: after `expires` where that is set, else after the ttl, of which zero never ends. One that was
    /// not created yet is taken to be made `now`.
    pub fn ends(&self, now: i64) -> Option<i64> {
        let by_ttl = || {
            let seconds = i64::try_from(self.ttl.as_secs()).unwrap_or(i64::MAX);
            // The clock counts whole seconds.
            let seconds = seconds.saturating_add(i64::from(self.ttl.subsec_nanos() > 0));
            (!self.ttl.is_zero()).then(|| self.created.unwrap_or(now).saturating_add(seconds))
        };
        self.expires.or_else(by_ttl)
    }
}
