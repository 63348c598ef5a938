//! What a write changes of one object: assumed until its event comes, or tried out in a fork.

use std::collections::BTreeMap;
use std::sync::Arc;

use berth_api::labels::koordinator::{DEVICE_ALLOCATED, RESERVATION_ALLOCATED, RESOURCE_STATUS};
use berth_api::{ReservationPhase, ReservationStatus};
use berth_model::Insists;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time as MetaTime;

use crate::kept::Kept;
use crate::shapes::Shapes;
use crate::{Object, PodRecord, Time};

/// A change of one object.
#[derive(Clone, Debug, PartialEq)]
pub enum Patch {
    /// The object is created as this.
    Create(Object),
    /// The object is changed into this, status included.
    Update(Object),
    /// A pod is bound to a node, with annotations that say what it draws from and what it has of CPUs and devices.
    Bind {
        /// The node's name.
        node: Arc<str>,
        /// Annotations that the binding adds.
        annotations: BTreeMap<String, String>,
    },
    /// A pod is nominated to a node, or to none any more (`status.nominatedNodeName`).
    Nominate {
        /// The node's name.
        node: Option<Arc<str>>,
    },
    /// The object is being deleted: of a pod, what it had counts until it is gone.
    Delete {
        /// When.
        at: Time,
    },
    /// A Reservation's status.
    Status(Box<ReservationStatus>),
    /// The object is gone at once.
    Remove,
    /// A pod is off its node, and pending again as its controller would remake it.
    Remake,
    /// A pod asks for these preferences as if they were required while it is on no node.
    Insist(Insists),
}

// === impl Patch ===

impl Patch {
    /// A Reservation that has a node and whose owners may draw from it.
    pub fn hold(reservation: &berth_api::Reservation, node: &str) -> Self {
        let mut status = reservation.status.clone().unwrap_or_default();
        status.phase = ReservationPhase::Available;
        status.node_name = Some(node.to_owned());
        Patch::Status(Box::new(status))
    }

    /// A Reservation that holds nothing any more.
    pub fn release(reservation: &berth_api::Reservation) -> Self {
        let mut status = reservation.status.clone().unwrap_or_default();
        status.phase = ReservationPhase::Succeeded;
        Patch::Status(Box::new(status))
    }

    /// A Reservation that looks for a node as if it had none.
    pub fn unhold(reservation: &berth_api::Reservation) -> Self {
        let mut status = reservation.status.clone().unwrap_or_default();
        status.phase = ReservationPhase::Pending;
        status.node_name = None;
        Patch::Status(Box::new(status))
    }

    /// The object as it is with this change; `None` where it is gone.
    pub(crate) fn applied_to(&self, object: Option<Kept>, shapes: &mut Shapes) -> Option<Kept> {
        match self {
            Patch::Create(created) => object.or_else(|| Some(Kept::new(created.clone(), None, None, shapes))),
            Patch::Update(updated) => object.map(|known| Kept::new(updated.clone(), Some(&known), None, shapes)),
            Patch::Remove => None,
            Patch::Delete { at } => object.map(|mut object| {
                match &mut object {
                    Kept::Pod(pod) => {
                        let more = Arc::make_mut(pod).more.get_or_insert_default();
                        more.deletion.get_or_insert(MetaTime(*at));
                    }
                    Kept::Node(node) => {
                        let more = Arc::make_mut(node).more.get_or_insert_default();
                        more.deletion.get_or_insert(MetaTime(*at));
                    }
                    Kept::Whole(object) => {
                        object.metadata_mut().deletion_timestamp.get_or_insert(MetaTime(*at));
                    }
                }
                object
            }),
            Patch::Bind { node, annotations } => on_pod(object, |pod| bind(pod, node, annotations, shapes)),
            Patch::Nominate { node } => on_pod(object, |pod| {
                let node = node.as_deref().map(str::to_owned);
                if pod.nominated_node() == node.as_deref() && pod.status.is_some() {
                    return pod.clone();
                }
                let mut changed = pod.to_pod();
                changed.status.get_or_insert_default().nominated_node_name = node;
                shapes.pod_like(changed, Some(pod), None)
            }),
            Patch::Remake => on_pod(object, |pod| {
                let mut changed = pod.to_pod();
                remake(&mut changed);
                shapes.pod_like(changed, Some(pod), None)
            }),
            Patch::Insist(on) => on_pod(object, |pod| {
                let mut changed = pod.clone();
                changed.more.get_or_insert_default().insists = *on;
                changed
            }),
            Patch::Status(status) => match object {
                Some(Kept::Whole(Object::Reservation(mut reservation))) => {
                    Arc::make_mut(&mut reservation).status = Some((**status).clone());
                    Some(Kept::Whole(Object::Reservation(reservation)))
                }
                other => other,
            },
        }
    }

    /// Whether the object, as it was observed, shows that the write was done.
    pub(crate) fn is_shown_by(&self, observed: Option<&Kept>) -> bool {
        match (self, observed) {
            (Patch::Create(created), Some(observed)) => {
                // The like of which another process may have made: then it has another uid than was answered.
                created.uid().is_none_or(|uid| observed.uid().as_deref() == Some(uid))
            }
            (Patch::Remove | Patch::Delete { .. }, None) => true,
            (Patch::Delete { .. }, Some(observed)) => observed.is_being_deleted(),
            // Bound by whomever: a pod is bound once.
            (Patch::Bind { .. }, Some(Kept::Pod(pod))) => pod.node().is_some(),
            (Patch::Nominate { node }, Some(Kept::Pod(pod))) => {
                let nominated = pod.nominated_node();
                nominated.filter(|name| !name.is_empty()) == node.as_deref() || pod.node().is_some()
            }
            (Patch::Status(status), Some(Kept::Whole(Object::Reservation(reservation)))) => {
                reservation.status.as_ref() == Some(&**status)
            }
            (Patch::Update(updated), Some(observed)) => {
                let updated = Kept::new(updated.clone(), None, None, &mut Shapes::default());
                updated.is_same_but_for_version(observed)
            }
            _ => false,
        }
    }

    /// Whether it makes an object where there is none.
    pub(crate) fn creates(&self) -> bool {
        matches!(self, Patch::Create(_))
    }
}

fn on_pod(object: Option<Kept>, change: impl FnOnce(&PodRecord) -> PodRecord) -> Option<Kept> {
    match object {
        Some(Kept::Pod(pod)) => Some(Kept::Pod(Arc::new(change(&pod)))),
        other => other,
    }
}

fn bind(pod: &PodRecord, node: &str, annotations: &BTreeMap<String, String>, shapes: &mut Shapes) -> PodRecord {
    if pod.node().is_some() {
        return pod.clone();
    }
    let mut changed = pod.to_pod();
    changed.spec.get_or_insert_default().node_name = Some(node.to_owned());
    if !annotations.is_empty() {
        let own = changed.metadata.annotations.get_or_insert_default();
        own.extend(annotations.iter().map(|(key, value)| (key.clone(), value.clone())));
    }
    shapes.pod_like(changed, Some(pod), None)
}

/// A controller makes a pod of the same template: on no node, with nothing allocated, and not being deleted.
fn remake(pod: &mut Pod) {
    if let Some(spec) = &mut pod.spec {
        spec.node_name = None;
    }
    pod.status = None;
    pod.metadata.deletion_timestamp = None;
    pod.metadata.uid = None;
    if let Some(annotations) = &mut pod.metadata.annotations {
        for key in [RESERVATION_ALLOCATED, DEVICE_ALLOCATED, RESOURCE_STATUS] {
            annotations.remove(key);
        }
    }
}
