//! The trait.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use berth_api::{NodeClaim, NodeClassRef};
use berth_catalogue::Catalogue;
use futures::future::BoxFuture;

use crate::{
    CapacityReservation, Drift, Instance, LaunchRequest, Launched, NodeClassStatus, ProviderId, RepairPolicy,
    ReservationAdoption, Result,
};

/// What a node class offers, seen at one moment.
#[derive(Debug, Clone, PartialEq)]
pub struct InstanceTypes {
    /// The types with their offerings and prices. The counts of reserved offerings are those of `reservations`.
    pub catalogue: Arc<Catalogue>,
    /// The reservations that the node class may use, by id in order.
    pub reservations: Vec<CapacityReservation>,
}

/// A cloud.
///
/// Every call may be repeated, by another process too: nothing of a call is remembered but in the cloud itself. Calls are
/// bounded in time by the provider, which answers [`OutcomeUnknown`](crate::CloudError::OutcomeUnknown) where a launch or
/// a deletion ran out of it. Calls may run side by side.
pub trait CloudProvider: Send + Sync + 'static {
    /// The provider's short name, such as `fake`: the label of metrics.
    fn name(&self) -> &str;

    /// Whether node classes of this group and kind are this provider's.
    fn serves(&self, node_class: &NodeClassRef) -> bool;

    /// Launches one instance, or finds the one that this token has launched already.
    ///
    /// The same token with the same request answers with the same instance, in whatever state it is now, for an hour at
    /// least; with another request it is [`InvalidRequest`](crate::CloudError::InvalidRequest) of the field `token`.
    /// Offerings are tried in the order of the request. The instance carries
    /// [`LaunchRequest::all_tags`] from its first moment.
    ///
    /// # Errors
    /// All of [`CloudError`](crate::CloudError); `NotFound` only for the node class.
    fn create<'a>(&'a self, request: &'a LaunchRequest) -> BoxFuture<'a, Result<Launched>>;

    /// Shuts an instance down. Done when this, or [`get`](Self::get), answers `NotFound`: until then it is called again.
    ///
    /// # Errors
    /// [`NotFound`](crate::CloudError::NotFound) once the instance is gone.
    fn delete<'a>(&'a self, id: &'a ProviderId) -> BoxFuture<'a, Result<()>>;

    /// One instance.
    ///
    /// # Errors
    /// [`NotFound`](crate::CloudError::NotFound) for one that never was, is terminated, or was launched less than
    /// [`consistency_lag`](Self::consistency_lag) ago and does not show yet.
    fn get<'a>(&'a self, id: &'a ProviderId) -> BoxFuture<'a, Result<Instance>>;

    /// The instances that have all of these tags, in order of provider id. Terminated ones may be among them.
    fn list<'a>(&'a self, tags: &'a BTreeMap<String, String>) -> BoxFuture<'a, Result<Vec<Instance>>>;

    /// All of them, as [`list`](Self::list) without tags has them: asked every minute, so who keeps them need not copy them. One
    /// that is the same as before may be shared with what was answered then.
    fn list_all(&self) -> BoxFuture<'_, Result<Vec<Arc<Instance>>>> {
        Box::pin(async move { Ok(self.list(&BTreeMap::new()).await?.into_iter().map(Arc::new).collect()) })
    }

    /// Of these instances those that the cloud has said it will take back, by provider id. Asked every few seconds while spot
    /// instances are there: a provider that is told of interruptions answers from what it was told. By default all are listed.
    fn interrupted(&self) -> BoxFuture<'_, Result<Vec<Instance>>> {
        Box::pin(async move {
            let mut instances = self.list(&BTreeMap::new()).await?;
            instances.retain(|instance| instance.interruption.is_some());
            Ok(instances)
        })
    }

    /// What a node class offers now.
    ///
    /// # Errors
    /// [`NotFound`](crate::CloudError::NotFound) where the node class does not exist.
    fn instance_types<'a>(&'a self, node_class: &'a NodeClassRef) -> BoxFuture<'a, Result<InstanceTypes>>;

    /// The reservations that a node class may use, by id in order: the part of
    /// [`instance_types`](Self::instance_types) that changes often.
    fn reservations<'a>(&'a self, node_class: &'a NodeClassRef) -> BoxFuture<'a, Result<Vec<CapacityReservation>>>;

    /// Whether a node class can be used.
    ///
    /// # Errors
    /// [`NotFound`](crate::CloudError::NotFound) where it does not exist.
    fn node_class_status<'a>(&'a self, node_class: &'a NodeClassRef) -> BoxFuture<'a, Result<NodeClassStatus>>;

    /// Whether the instance of a launched NodeClaim is still what its node class asks for; `None` if it is.
    fn drift<'a>(&'a self, node_claim: &'a NodeClaim) -> BoxFuture<'a, Result<Option<Drift>>>;

    /// The node conditions that mean a broken machine.
    fn repair_policies(&self) -> Vec<RepairPolicy> {
        Vec::new()
    }

    /// How a running instance can come under a reservation later.
    fn reservation_adoption(&self) -> ReservationAdoption {
        ReservationAdoption::Never
    }

    /// How long a launch or a deletion may take to show in `get` and `list`, launches of unknown outcome included: an
    /// instance that has not shown by then does not exist.
    fn consistency_lag(&self) -> Duration;
}
