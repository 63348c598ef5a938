//! What of a pod the lifecycle of its node needs.

use berth_api::labels::koordinator::{RESERVATION_ALLOCATED, RESERVATION_CURRENT_OWNER, is_operating};
use berth_api::{ReservationReference, labels};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Pod, Taint, Toleration, Volume};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

/// Priority classes of pods that go last.
const CRITICAL: [&str; 2] = ["system-cluster-critical", "system-node-critical"];

/// Which pod.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct PodName {
    pub(crate) namespace: String,
    pub(crate) name: String,
}

impl PodName {
    /// That of a pod with this metadata.
    pub(crate) fn of(metadata: &ObjectMeta) -> Self {
        let text = |text: &Option<String>| text.clone().unwrap_or_default();
        PodName { namespace: text(&metadata.namespace), name: text(&metadata.name) }
    }
}

/// A pod, as far as the lifecycle of its node needs it.
#[derive(Debug, Clone, PartialEq)]
#[allow(clippy::struct_excessive_bools)] // Each is a fact of its own.
pub(crate) struct PodRecord {
    pub(crate) name: PodName,
    pub(crate) uid: String,
    /// The node that it is bound to.
    pub(crate) node: Option<String>,
    pub(crate) scheduler_name: String,
    pub(crate) created: Timestamp,
    /// When it should be gone, if it is being deleted.
    pub(crate) deletion: Option<Timestamp>,
    /// How many seconds it was given when it was deleted.
    pub(crate) deletion_grace: Option<i64>,
    /// Seconds that it has to end.
    pub(crate) grace_seconds: i64,
    /// Whether it has succeeded or failed.
    pub(crate) is_finished: bool,
    pub(crate) is_critical: bool,
    pub(crate) is_of_daemon_set: bool,
    /// Whether the kubelet runs it from a file of its own.
    pub(crate) is_static: bool,
    /// Whether it may stay on a node that is being disrupted.
    pub(crate) tolerates_disruption: bool,
    /// Of a pod of a DaemonSet: which taints it puts up with.
    daemon_tolerations: Vec<Toleration>,
    /// Until when it must not be disrupted voluntarily.
    pub(crate) do_not_disrupt: Option<Protected>,
    /// The names of its PersistentVolumeClaims.
    pub(crate) volume_claims: Vec<String>,
    /// The name and the uid of the Reservation, or of the pod that is one, that it draws from.
    pub(crate) draws_from: Option<Box<ReservationReference>>,
    /// Set where it is a Reservation itself: who draws from it, as its annotation says.
    pub(crate) room: Option<Box<ReservationReference>>,
}

/// For how long a pod must not be disrupted voluntarily.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Protected {
    Always,
    Until(Timestamp),
}

/// The name of a volume's PersistentVolumeClaim; an ephemeral one gets its own, named after the pod.
fn claim_of(volume: &Volume, pod: &str) -> Option<String> {
    let claim = volume.persistent_volume_claim.as_ref().map(|claim| claim.claim_name.clone());
    claim.or_else(|| volume.ephemeral.as_ref().map(|_| format!("{pod}-{}", volume.name)))
}

fn reference_in(metadata: &ObjectMeta, annotation: &str) -> Option<ReservationReference> {
    ReservationReference::parse(metadata.annotations.as_ref()?.get(annotation)?)
}

// === impl PodRecord ===

impl PodRecord {
    /// Whether it would have to go elsewhere if its node went.
    pub(crate) fn has_to_move(&self) -> bool {
        !self.is_of_daemon_set && !self.is_static && !self.is_finished
    }

    /// The record of a pod; `None` for one that has no name.
    pub(crate) fn new(pod: &Pod) -> Option<Self> {
        let metadata = &pod.metadata;
        let spec = pod.spec.as_ref();
        let name = PodName { namespace: metadata.namespace.clone().unwrap_or_default(), name: metadata.name.clone()? };
        let owner = metadata.owner_references.iter().flatten().find(|owner| owner.controller == Some(true));
        let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
        let created = metadata.creation_timestamp.as_ref().map_or(Timestamp::UNIX_EPOCH, |time| time.0);
        let tolerations = spec.and_then(|spec| spec.tolerations.as_deref()).unwrap_or_default();
        let class = spec.and_then(|spec| spec.priority_class_name.as_deref()).unwrap_or_default();
        let protected = metadata.annotations.as_ref().and_then(|all| all.get(labels::DO_NOT_DISRUPT));
        let start = pod.status.as_ref().and_then(|status| status.start_time.as_ref()).map_or(created, |time| time.0);
        let volumes = spec.and_then(|spec| spec.volumes.as_deref()).unwrap_or_default();
        Some(Self {
            uid: metadata.uid.clone().unwrap_or_default(),
            node: spec.and_then(|spec| spec.node_name.clone()).filter(|node| !node.is_empty()),
            scheduler_name: spec.and_then(|spec| spec.scheduler_name.clone()).unwrap_or_default(),
            created,
            deletion: metadata.deletion_timestamp.as_ref().map(|time| time.0),
            deletion_grace: metadata.deletion_grace_period_seconds,
            grace_seconds: spec.and_then(|spec| spec.termination_grace_period_seconds).unwrap_or(30),
            is_finished: matches!(phase, Some("Succeeded" | "Failed")),
            is_critical: CRITICAL.contains(&class),
            is_of_daemon_set: owner.is_some_and(|owner| owner.kind == "DaemonSet"),
            is_static: owner.is_some_and(|owner| owner.kind == "Node"),
            tolerates_disruption: tolerations.iter().any(tolerates_disruption),
            daemon_tolerations: owner
                .filter(|owner| owner.kind == "DaemonSet")
                .map_or_else(Vec::new, |_| tolerations.to_vec()),
            do_not_disrupt: protected.and_then(|text| protection(text, start)),
            draws_from: reference_in(metadata, RESERVATION_ALLOCATED).map(Box::new),
            room: is_operating(metadata)
                .then(|| Box::new(reference_in(metadata, RESERVATION_CURRENT_OWNER).unwrap_or_default())),
            volume_claims: volumes.iter().filter_map(|volume| claim_of(volume, &name.name)).collect(),
            name,
        })
    }

    /// Whether it is going and was given so many seconds at most. The API server made that of its own clock: who compares
    /// times goes by another.
    pub(crate) fn was_given(&self, seconds: i64) -> bool {
        self.deletion.is_some() && self.deletion_grace.is_some_and(|given| given <= seconds)
    }

    /// Whether it counts for its node at all: it has not ended.
    pub(crate) const fn is_active(&self) -> bool {
        !self.is_finished
    }

    /// Whether it is a daemon that puts up with these taints, as far as they keep pods away.
    pub(crate) fn is_daemon_that_tolerates(&self, taints: &[Taint]) -> bool {
        let mut hard = taints.iter().filter(|taint| taint.effect != "PreferNoSchedule");
        self.is_of_daemon_set && hard.all(|taint| self.daemon_tolerations.iter().any(|own| tolerates(own, taint)))
    }

    /// Whether a voluntary disruption must leave it alone.
    pub(crate) fn is_protected(&self, now: Timestamp) -> bool {
        match self.do_not_disrupt {
            None => false,
            Some(Protected::Always) => true,
            Some(Protected::Until(until)) => now < until,
        }
    }
}

/// `true`, or a Go duration from the start of the pod; `false` protects nothing, and what means nothing until it is mended.
fn protection(text: &str, start: Timestamp) -> Option<Protected> {
    if text == "true" {
        return Some(Protected::Always);
    }
    if text == "false" {
        return None;
    }
    let duration = text.parse::<berth_api::GoDuration>().ok().and_then(|duration| duration.to_std());
    let duration = duration.filter(|duration| !duration.is_zero());
    Some(duration.map_or(Protected::Always, |duration| Protected::Until(crate::clock::after(start, duration))))
}

/// Whether it tolerates `karpenter.sh/disrupted:NoSchedule`.
fn tolerates_disruption(toleration: &Toleration) -> bool {
    let (key, effect) = (labels::DISRUPTED_TAINT.to_owned(), "NoSchedule".to_owned());
    tolerates(toleration, &Taint { key, effect, ..Taint::default() })
}

fn tolerates(toleration: &Toleration, taint: &Taint) -> bool {
    let effect = toleration.effect.as_deref().unwrap_or_default();
    let key = toleration.key.as_deref().unwrap_or_default();
    let is_of_value = match toleration.operator.as_deref() {
        Some("Exists") => key.is_empty() || key == taint.key,
        _ => {
            key == taint.key
                && toleration.value.as_deref().unwrap_or_default() == taint.value.as_deref().unwrap_or_default()
        }
    };
    is_of_value && (effect.is_empty() || effect == taint.effect)
}
