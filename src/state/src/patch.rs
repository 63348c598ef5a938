//! What a write changes of one object: assumed until its event comes, or tried out in a fork.

use std::collections::BTreeMap;
use std::sync::Arc;

use berth_api::labels::koordinator::{DEVICE_ALLOCATED, RESERVATION_ALLOCATED, RESOURCE_STATUS};
use berth_api::{ReservationPhase, ReservationStatus};
use k8s_openapi::api::core::v1::{Pod, PodStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time as MetaTime;

use crate::{Object, Time};

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
    pub(crate) fn applied_to(&self, object: Option<Object>) -> Option<Object> {
        match self {
            Patch::Create(created) => object.or_else(|| Some(created.clone())),
            Patch::Update(updated) => object.map(|_| updated.clone()),
            Patch::Remove => None,
            Patch::Delete { at } => object.map(|mut object| {
                object.metadata_mut().deletion_timestamp.get_or_insert(MetaTime(*at));
                object
            }),
            Patch::Bind { node, annotations } => on_pod(object, |pod| bind(pod, node, annotations)),
            Patch::Nominate { node } => on_pod(object, |pod| {
                let status = pod.status.get_or_insert_with(PodStatus::default);
                status.nominated_node_name = node.as_deref().map(str::to_owned);
            }),
            Patch::Remake => on_pod(object, remake),
            Patch::Status(status) => match object {
                Some(Object::Reservation(mut reservation)) => {
                    Arc::make_mut(&mut reservation).status = Some((**status).clone());
                    Some(Object::Reservation(reservation))
                }
                other => other,
            },
        }
    }

    /// Whether the object, as it was observed, shows that the write was done.
    pub(crate) fn is_shown_by(&self, observed: Option<&Object>) -> bool {
        match (self, observed) {
            (Patch::Create(created), Some(observed)) => {
                // The like of which another process may have made: then it has another uid than was answered.
                created.uid().is_none_or(|uid| observed.uid() == Some(uid))
            }
            (Patch::Remove | Patch::Delete { .. }, None) => true,
            (Patch::Delete { .. }, Some(observed)) => observed.metadata().deletion_timestamp.is_some(),
            // Bound by whomever: a pod is bound once.
            (Patch::Bind { .. }, Some(Object::Pod(pod))) => node_of(pod).is_some(),
            (Patch::Nominate { node }, Some(Object::Pod(pod))) => {
                let nominated = pod.status.as_ref().and_then(|status| status.nominated_node_name.as_deref());
                nominated.filter(|name| !name.is_empty()) == node.as_deref() || node_of(pod).is_some()
            }
            (Patch::Status(status), Some(Object::Reservation(reservation))) => {
                reservation.status.as_ref() == Some(&**status)
            }
            (Patch::Update(updated), Some(observed)) => {
                let mut updated = updated.clone();
                updated.metadata_mut().resource_version.clone_from(&observed.metadata().resource_version);
                updated == *observed
            }
            _ => false,
        }
    }

    /// Whether it makes an object where there is none.
    pub(crate) fn creates(&self) -> bool {
        matches!(self, Patch::Create(_))
    }
}

/// The node that a pod is bound to.
pub(crate) fn node_of(pod: &Pod) -> Option<&str> {
    pod.spec.as_ref()?.node_name.as_deref().filter(|name| !name.is_empty())
}

fn on_pod(object: Option<Object>, change: impl FnOnce(&mut Pod)) -> Option<Object> {
    match object {
        Some(Object::Pod(mut pod)) => {
            change(Arc::make_mut(&mut pod));
            Some(Object::Pod(pod))
        }
        other => other,
    }
}

fn bind(pod: &mut Pod, node: &str, annotations: &BTreeMap<String, String>) {
    if node_of(pod).is_some() {
        return;
    }
    pod.spec.get_or_insert_default().node_name = Some(node.to_owned());
    if !annotations.is_empty() {
        let own = pod.metadata.annotations.get_or_insert_default();
        own.extend(annotations.iter().map(|(key, value)| (key.clone(), value.clone())));
    }
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
