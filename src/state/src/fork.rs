//! What-ifs over the state: everything that is changed is journalled, and rolled back.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;

use crate::assume::Progress;
use crate::{AssumptionId, NodeRecord, ObjectRef, Patch, PodRecord, State, Time};

/// Why a fork could not do something; it changed nothing then.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ForkError {
    /// There is no such object, or the one of that name has another uid.
    #[error("{0}: expected an object that is there, and of that uid")]
    NoSuchObject(ObjectRef),
}

/// A what-if. Dropping it rolls back everything that it did.
#[derive(Debug)]
pub struct Fork<'a> {
    state: &'a mut State,
    /// What was changed, in order.
    journal: Vec<AssumptionId>,
}

impl State {
    /// A what-if: rolled back when dropped.
    pub fn fork(&mut self) -> Fork<'_> {
        Fork::new(self)
    }
}

// === impl Fork ===

impl<'a> Fork<'a> {
    pub(crate) fn new(state: &'a mut State) -> Self {
        Fork { state, journal: Vec::new() }
    }

    /// The state with what the fork did.
    pub fn state(&mut self) -> &mut State {
        self.state
    }

    /// A node goes away, with its NodeClaim. Its pods are pending as their controllers would remake them, but for those
    /// of DaemonSets and static ones, which go with it, and those that have ended. Says which are pending, by namespace
    /// and name.
    pub fn remove_node(&mut self, node: &ObjectRef, at: Time) -> Result<Vec<ObjectRef>, ForkError> {
        let Some(record) = self.state.node(&node.key.name).cloned() else {
            return Err(ForkError::NoSuchObject(node.clone()));
        };
        self.change(node, Patch::Delete { at })?;
        let claim = self.claim_of(&record);
        if let Some(claim) = claim {
            self.change(&claim, Patch::Delete { at })?;
        }
        let pods = self.state.pods_on(&node.key.name).filter(|pod| is_remade(pod));
        Ok(pods.map(|pod| pod.reference()).collect())
    }

    fn claim_of(&self, node: &NodeRecord) -> Option<ObjectRef> {
        let key = self.state.links.claim_of(node.name(), node.provider_id())?;
        self.state.has(key).then(|| key.clone().with_uid(self.state.uid_of(key).as_deref()))
    }

    /// A Reservation looks for a node as if it had none.
    pub fn unhold(&mut self, reservation: &ObjectRef) -> Result<(), ForkError> {
        let known = self.state.get_as::<berth_api::Reservation>("", &reservation.key.name);
        let patch = known.map(|known| Patch::unhold(known));
        self.change(reservation, patch.ok_or_else(|| ForkError::NoSuchObject(reservation.clone()))?)
    }

    fn change(&mut self, object: &ObjectRef, patch: Patch) -> Result<(), ForkError> {
        let tried = self.state.push(object, patch, Progress::Tried);
        self.journal.push(tried.ok_or_else(|| ForkError::NoSuchObject(object.clone()))?);
        Ok(())
    }
}

impl Drop for Fork<'_> {
    fn drop(&mut self) {
        for id in self.journal.drain(..).rev() {
            self.state.pop(id);
        }
    }
}

/// Whether another pod comes in place of one whose node goes, for any node.
pub fn is_remade(pod: &PodRecord) -> bool {
    let is_of_node =
        |owner: &OwnerReference| owner.controller == Some(true) && matches!(owner.kind.as_str(), "DaemonSet" | "Node");
    !pod.is_mirror() && !pod.has_ended() && pod.deletion().is_none() && !pod.owner_references().iter().any(is_of_node)
}
