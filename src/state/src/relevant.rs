//! Which changes of an object decisions depend on. Most events change a time of a heartbeat, a condition or an address.

use std::sync::Arc;

use berth_api::NodeClaim;
use berth_api::labels::koordinator::OPERATING_MODE;
use k8s_openapi::api::core::v1::{ContainerStatus, PodStatus, ServiceSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};

use crate::kept::Kept;
use crate::pod::same as one;
use crate::{Object, PodRecord};

/// Whether two versions of an object count for the same in every decision.
pub(crate) fn counts_alike(a: &Kept, b: &Kept) -> bool {
    match (a, b) {
        (Kept::Pod(a), Kept::Pod(b)) => Arc::ptr_eq(a, b) || pods(a, b),
        (Kept::Node(a), Kept::Node(b)) => Arc::ptr_eq(a, b) || a.counts_as(b),
        (Kept::Whole(a), Kept::Whole(b)) => objects(a, b),
        _ => false,
    }
}

fn objects(a: &Object, b: &Object) -> bool {
    match (a, b) {
        (Object::NodeClaim(a), Object::NodeClaim(b)) => Arc::ptr_eq(a, b) || node_claims(a, b),
        _ => a == b || (a.kind() == b.kind() && bare(a) == bare(b)),
    }
}

fn pods(a: &PodRecord, b: &PodRecord) -> bool {
    let statuses_alike = || {
        let (mine, theirs) = (a.status(), b.status());
        let statuses = |status: Option<&PodStatus>| {
            let containers = status.and_then(|status| status.container_statuses.as_ref()).into_iter().flatten();
            let init = status.and_then(|status| status.init_container_statuses.as_ref()).into_iter().flatten();
            containers.chain(init).map(rooms).collect::<Vec<_>>()
        };
        same(mine, theirs, |status| status.phase.as_ref())
            && same(mine, theirs, |status| status.nominated_node_name.as_ref())
            && same(mine, theirs, |status| status.resize.as_ref())
            && statuses(mine) == statuses(theirs)
            && conditions(a) == conditions(b)
    };
    a.name() == b.name()
        && (Arc::ptr_eq(&a.metadata, &b.metadata) || shared_metadata(&a.metadata, &b.metadata))
        && a.uid == b.uid
        && a.created() == b.created()
        && a.deletion() == b.deletion()
        && one(a.spec.as_ref(), b.spec.as_ref())
        && a.node == b.node
        && a.started() == b.started()
        && a.insists() == b.insists()
        && (a.status.is_some() == b.status.is_some() && one(a.status.as_ref(), b.status.as_ref()) || statuses_alike())
}

/// Whether the kubelet can resize the pod, and whether one that is a Reservation is ready to be drawn from.
fn conditions(pod: &PodRecord) -> Vec<(&str, &str, Option<&str>)> {
    let is_reservation = pod.labels().is_some_and(|all| all.contains_key(OPERATING_MODE));
    let all = pod.conditions().iter();
    let counting = all.filter(|of| of.type_ == "PodResizePending" || (is_reservation && of.type_ == "Ready"));
    counting.map(|of| (of.type_.as_str(), of.status.as_str(), of.reason.as_deref())).collect()
}

/// What a container has been given, as it is resized in place.
fn rooms(status: &ContainerStatus) -> ContainerStatus {
    ContainerStatus {
        name: status.name.clone(),
        allocated_resources: status.allocated_resources.clone(),
        resources: status.resources.clone(),
        ..ContainerStatus::default()
    }
}

/// Its conditions tell how far it is and whether it may go: who disrupts nodes reads these as they were observed.
fn node_claims(a: &NodeClaim, b: &NodeClaim) -> bool {
    let (mine, theirs) = (a.status.as_ref(), b.status.as_ref());
    metadata(&a.metadata, &b.metadata)
        && a.spec == b.spec
        && same(mine, theirs, |status| status.provider_id.as_ref())
        && same(mine, theirs, |status| status.node_name.as_ref())
        && same(mine, theirs, |status| Some(&status.allocatable).filter(|all| !all.is_empty()))
        && same(mine, theirs, |status| Some(&status.capacity).filter(|all| !all.is_empty()))
}

fn same<'a, T, F: PartialEq>(a: Option<&'a T>, b: Option<&'a T>, field: impl Fn(&'a T) -> Option<F>) -> bool {
    a.and_then(&field) == b.and_then(&field)
}

fn metadata(a: &ObjectMeta, b: &ObjectMeta) -> bool {
    a.name == b.name
        && a.uid == b.uid
        && a.creation_timestamp == b.creation_timestamp
        && a.deletion_timestamp == b.deletion_timestamp
        && shared_metadata(a, b)
}

/// What several objects may have the same.
fn shared_metadata(a: &ObjectMeta, b: &ObjectMeta) -> bool {
    fn owners(of: &ObjectMeta) -> &[OwnerReference] {
        of.owner_references.as_deref().unwrap_or_default()
    }
    a.namespace == b.namespace && a.labels == b.labels && a.annotations == b.annotations && owners(a) == owners(b)
}

/// Without what every write changes, and the status of controllers: their pods count one by one.
fn bare(object: &Object) -> Object {
    let mut object = object.clone();
    let metadata = object.metadata_mut();
    metadata.resource_version = None;
    metadata.generation = None;
    metadata.managed_fields = None;
    match &mut object {
        Object::Deployment(object) => Arc::make_mut(object).status = None,
        Object::ReplicaSet(object) => Arc::make_mut(object).status = None,
        Object::ReplicationController(object) => Arc::make_mut(object).status = None,
        Object::StatefulSet(object) => Arc::make_mut(object).status = None,
        Object::Service(object) => {
            let selector = object.spec.as_ref().and_then(|spec| spec.selector.clone());
            let object = Arc::make_mut(object);
            object.status = None;
            object.spec = Some(ServiceSpec { selector, ..ServiceSpec::default() });
        }
        Object::DaemonSet(object) => Arc::make_mut(object).status = None,
        Object::CronJob(object) => Arc::make_mut(object).status = None,
        _ => {}
    }
    object
}
