//! What a pod asks for, as far as placement is concerned.

use std::sync::Arc;

use crate::{
    Assigned, Insisting, Labels, LabelsId, Requirements, ReservationAsk, ReservationId, Resources, Selector, SpecId,
    Sym, Toleration, UnitsAsk,
};

/// A topology spread constraint.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SpreadConstraint {
    /// The label that makes domains of nodes.
    pub key: Sym,
    /// By how much a domain may exceed the least one.
    pub max_skew: u32,
    /// With fewer domains than this the least count is taken as 0.
    pub min_domains: Option<u32>,
    /// `DoNotSchedule`; else `ScheduleAnyway`, a preference.
    pub is_required: bool,
    /// Which pods count; those of the pod's own namespace.
    pub selector: Selector,
    /// Labels whose values in the pod join the selector.
    pub match_label_keys: Vec<Sym>,
    /// Count only nodes that the pod's node selector and affinity admit (`nodeAffinityPolicy: Honor`).
    pub honors_node_affinity: bool,
    /// Count only nodes whose taints the pod tolerates (`nodeTaintsPolicy: Honor`).
    pub honors_taints: bool,
}

/// How pods are spread that have no spread constraints of their own: kube-scheduler's `PodTopologySpreadArgs`. Whom they are
/// spread from is told by Services and controllers ([`crate::Cluster::spread_from`]).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DefaultSpread {
    /// The constraints.
    pub constraints: Vec<DefaultConstraint>,
    /// Whether nodes without one of the keys are left out, as where pods have constraints of their own. Not with
    /// kube-scheduler's own defaults (`defaultingType: System`).
    pub needs_all_keys: bool,
}

/// A constraint of [`DefaultSpread`]. It honours node affinity, and ignores taints.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DefaultConstraint {
    /// The label that makes domains of nodes.
    pub key: Sym,
    /// By how much a domain may exceed the least one.
    pub max_skew: u32,
    /// With fewer domains than this the least count is taken as 0.
    pub min_domains: Option<u32>,
    /// `DoNotSchedule`; else `ScheduleAnyway`, a preference.
    pub is_required: bool,
}

/// A pod affinity or anti-affinity term.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PodTerm {
    /// The label that makes domains of nodes.
    pub key: Sym,
    /// Which pods are meant.
    pub selector: Selector,
    /// The namespaces meant by name. Without names and selector, the pod's own.
    pub namespaces: Vec<Sym>,
    /// The namespaces meant by their labels, beside the named ones.
    pub namespace_selector: Option<Selector>,
    /// Labels whose values in the pod join the selector as `In`.
    pub match_label_keys: Vec<Sym>,
    /// Labels whose values in the pod join the selector as `NotIn`.
    pub mismatch_label_keys: Vec<Sym>,
}

/// A port of the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HostPort {
    /// The address; `None` is every address (`0.0.0.0`).
    pub ip: Option<Sym>,
    /// TCP, UDP or SCTP.
    pub protocol: Sym,
    /// The port.
    pub port: u16,
}

impl HostPort {
    /// Whether two pods with these ports cannot share a node.
    pub fn conflicts(&self, other: &HostPort) -> bool {
        self.port == other.port
            && self.protocol == other.protocol
            && (self.ip.is_none() || other.ip.is_none() || self.ip == other.ip)
    }
}

/// What a disk is known by that pods mount by themselves, without a claim.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DiskId {
    /// `gcePersistentDisk`, by name.
    GcePersistentDisk(Sym),
    /// `awsElasticBlockStore`, by volume id.
    AwsElasticBlockStore(Sym),
    /// `iscsi`, by qualified name (IQN), whatever the portal and LUN.
    Iscsi(Sym),
    /// `rbd`: one image, if any monitor is the same.
    Rbd {
        /// Ceph monitors, sorted.
        monitors: Vec<Sym>,
        /// The pool.
        pool: Sym,
        /// The image.
        image: Sym,
    },
}

impl DiskId {
    fn is_same(&self, other: &DiskId) -> bool {
        match (self, other) {
            (DiskId::Rbd { monitors, pool, image }, DiskId::Rbd { monitors: theirs, pool: in_pool, image: of }) => {
                pool == in_pool && image == of && monitors.iter().any(|monitor| theirs.binary_search(monitor).is_ok())
            }
            _ => self == other,
        }
    }
}

/// A disk that a pod mounts by itself, as kube-scheduler's VolumeRestrictions knows them.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Disk {
    /// Which disk.
    pub id: DiskId,
    /// Whether it is mounted read-only.
    pub is_read_only: bool,
}

impl Disk {
    /// Whether two pods with these disks cannot share a node: it is the same, and not read-only for both. An EBS volume
    /// is never shared.
    pub fn conflicts(&self, other: &Disk) -> bool {
        let may_be_shared = !matches!(self.id, DiskId::AwsElasticBlockStore(_));
        self.id.is_same(&other.id) && !(may_be_shared && self.is_read_only && other.is_read_only)
    }
}

/// What a pod's volumes ask of its node.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Volumes {
    /// For each bound volume with a node affinity, the alternatives of which one must hold.
    pub topologies: Vec<Vec<Requirements>>,
    /// For each claim that waits for its consumer, where a volume can be found or made: one must hold.
    pub unbound: Vec<Vec<Requirements>>,
    /// For each bound volume with labels of zone or region, what they ask for; nodes without such labels do not matter.
    pub zones: Vec<Vec<Requirements>>,
    /// Volumes to attach through a CSI driver: (driver, volume handle or claim). Each counts once a node.
    pub attachments: Vec<(Sym, Sym)>,
    /// Of each pool of volumes that are there, how many the pod takes: no more than its node has. Ascending, each pool once.
    pub kept: Vec<(Sym, u32)>,
    /// ReadWriteOncePod claims: one pod in the cluster may use each.
    pub exclusive_claims: Vec<Sym>,
    /// Disks that pods on one node may not share, unless all read only.
    pub disks: Vec<Disk>,
}

impl Volumes {
    /// Where the volumes can be: of each of these, one alternative must hold.
    pub fn places(&self) -> impl Iterator<Item = &Vec<Requirements>> {
        self.topologies.iter().chain(&self.unbound).chain(&self.zones)
    }
}

/// The images that a pod's containers run, as far as some node has them.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Images {
    /// One for each container whose image is on some node; none where no node has any.
    pub names: Vec<Sym>,
    /// All containers, init containers included; 0 where no node has any of the images.
    pub containers: u32,
}

/// Why a pod is never planned, whatever the nodes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Refusal(pub String);

/// What pods of one shape ask for. Interned: equal specs are one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct PodSpec {
    /// Requests as kubelet and scheduler count them, one `pods` included.
    pub requests: Resources,
    /// `nodeSelector`.
    pub node_selector: Requirements,
    /// Required node affinity: one of these terms must hold; none is no constraint. `matchFields` on
    /// `metadata.name` is a requirement on the key of that name.
    pub required_terms: Vec<Requirements>,
    /// Preferred node affinity: weight and term.
    pub preferred_terms: Vec<(i32, Requirements)>,
    /// Tolerations.
    pub tolerations: Vec<Toleration>,
    /// Topology spread constraints.
    pub spread: Vec<SpreadConstraint>,
    /// Required pod affinity.
    pub affinity: Vec<PodTerm>,
    /// Required pod anti-affinity.
    pub anti_affinity: Vec<PodTerm>,
    /// Preferred pod affinity: weight and term.
    pub preferred_affinity: Vec<(i32, PodTerm)>,
    /// Preferred pod anti-affinity: weight and term.
    pub preferred_anti_affinity: Vec<(i32, PodTerm)>,
    /// Host ports.
    pub host_ports: Vec<HostPort>,
    /// Volumes, resolved against claims, volumes and storage classes.
    pub volumes: Volumes,
    /// CPU (milli) and memory (bytes) that scores assume beyond the requests, for containers that state none: 100m
    /// and 200 MiB each, as kube-scheduler's non-zero requests.
    pub assumed: [i64; 2],
    /// Images, for scores.
    pub images: Images,
    /// Priority.
    pub priority: i32,
    /// `preemptionPolicy: Never`.
    pub never_preempts: bool,
    /// `status.nominatedNodeName`: the node on which room was made for the pod, if it stands.
    pub nominated_node: Option<Sym>,
    /// CPUs and devices that it must have to itself.
    pub units: UnitsAsk,
    /// What the pod asks of Reservations.
    pub reservation: ReservationAsk,
    /// Set when the pod cannot be planned at all.
    pub refusal: Option<Refusal>,
    /// Set in what-ifs: the preferences that are asked for as if they were required.
    pub insists: Option<Box<Insisting>>,
}

impl PodSpec {
    /// Whether two such pods cannot share a node: by host ports, or a disk.
    pub fn excludes_its_like(&self) -> bool {
        let disks = &self.volumes.disks;
        !self.host_ports.is_empty() || disks.iter().any(|disk| disks.iter().any(|other| disk.conflicts(other)))
    }
}

/// Whether members of a row are pods or pending Reservations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum MemberKind {
    /// A pending Reservation; placed before pods of equal priority.
    Reservation,
    /// A pod.
    Pod,
}

/// A run of members of a row: one object by its name, or `name-0 …` for those of a controller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberRun {
    /// The name, or the part before `-0`.
    pub name: Arc<str>,
    /// `None`: one object of exactly that name. `Some((first, count))`: `name-first … name-(first+count-1)`.
    pub numbers: Option<(u32, u32)>,
}

impl MemberRun {
    /// How many members the run has.
    pub fn len(&self) -> u32 {
        self.numbers.map_or(1, |(_, count)| count)
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Pending pods (or Reservations) that are alike in namespace, spec and labels.
#[derive(Clone, Debug)]
pub struct PendingRow {
    /// Pods or Reservations.
    pub kind: MemberKind,
    /// The namespace.
    pub namespace: Sym,
    /// Index into [`crate::Cluster::specs`].
    pub spec: SpecId,
    /// Index into [`crate::Cluster::label_sets`].
    pub labels: LabelsId,
    /// Who is in it, in input order.
    pub members: Vec<MemberRun>,
}

/// How far a pod on a node has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PodStage {
    /// A decision has put it there: it is not bound yet.
    Planned,
    /// It is bound to the node.
    #[default]
    Bound,
    /// It is being deleted. All that it has is its own until it is gone; only a pod that is nominated to the node may
    /// count on it. It does not count in topology spread, as kube-scheduler has it, and its controller has made another.
    Terminating,
}

/// A pod on a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BoundPod {
    /// The namespace.
    pub namespace: Sym,
    /// The name.
    pub name: Arc<str>,
    /// Index into [`crate::Cluster::specs`].
    pub spec: SpecId,
    /// Index into [`crate::Cluster::label_sets`].
    pub labels: LabelsId,
    /// How far it has come.
    pub stage: PodStage,
    /// When it started, in nanoseconds since 1970; `i64::MAX` if it has not, or does not say.
    pub started: i64,
    /// The Reservation that it draws from, by index into [`crate::Cluster::reservations`].
    pub draws_from: Option<ReservationId>,
    /// Set where pre-allocating Reservations may be bound to it.
    pub candidate: Option<Box<PreAllocatable>>,
    /// The CPUs and devices that it has to itself.
    pub assigned: Option<Box<Assigned>>,
    /// What the pod asks for that its controller makes in its place should it go, by index into
    /// [`crate::Cluster::specs`]; `None` where none does, or where it would be tied to this node.
    pub replaced_by: Option<SpecId>,
    /// Whether it has the room of a pod that is a Reservation: nobody makes it give way, as that pod would hold the room again.
    pub has_held_room: bool,
}

impl BoundPod {
    /// One that is to come to a node.
    pub fn planned(
        namespace: Sym,
        name: Arc<str>,
        (spec, labels): (SpecId, LabelsId),
        draws_from: Option<ReservationId>,
    ) -> Self {
        BoundPod {
            namespace,
            name,
            spec,
            labels,
            stage: PodStage::Planned,
            started: i64::MAX,
            draws_from,
            candidate: None,
            assigned: None,
            replaced_by: None,
            has_held_room: false,
        }
    }

    /// Whether it is being deleted.
    pub fn is_terminating(&self) -> bool {
        self.stage == PodStage::Terminating
    }
}

/// A running pod as pre-allocating Reservations see it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PreAllocatable {
    /// The pending and waiting Reservations in mode Default whose owners describe it.
    pub owned_by: Vec<ReservationId>,
    /// Set where those in mode Cluster may be bound to it: its priority among such pods, the highest first.
    pub priority: Option<i64>,
}

/// A PodDisruptionBudget, as far as preemption looks at it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DisruptionBudget {
    /// The name.
    pub name: Sym,
    /// The namespace.
    pub namespace: Sym,
    /// Which pods it protects; one that selects all or none protects none, as kube-scheduler reads it.
    pub selector: Selector,
    /// `status.disruptionsAllowed`.
    pub allowed: i32,
    /// `status.disruptedPods`: pods whose eviction is counted already, sorted.
    pub disrupted: Vec<Box<str>>,
}

/// A namespace and its labels.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Namespace {
    /// The name.
    pub name: Sym,
    /// Its labels, `kubernetes.io/metadata.name` included.
    pub labels: Labels,
}
