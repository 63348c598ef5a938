//! What-ifs over the state: everything that is changed is journalled, and rolled back unless it is committed.

use std::sync::Arc;

use berth_model::Insists;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;

use crate::assume::Progress;
use crate::{
    AssumptionId, Key, Kind, NodeRecord, Object, ObjectRef, Patch, PodRecord, State, StayingPods, Time, Write,
};

/// Why a fork could not do something; it changed nothing then.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ForkError {
    /// There is no such object, or the one of that name has another uid.
    #[error("{0}: expected an object that is there, and of that uid")]
    NoSuchObject(ObjectRef),
    /// There is one of that name already.
    #[error("{0}: expected a name that is not taken")]
    Exists(Key),
    /// A pod that is to be bound or nominated runs on a node.
    #[error("{pod}: expected a pod on no node, found it on {node}")]
    IsBound {
        /// The pod.
        pod: Key,
        /// Its node.
        node: String,
    },
    /// The supply has no instance left, or there is no such supply.
    #[error("capacity reservation {0}: expected a free instance, found none")]
    NoSlot(String),
}

/// A what-if. Dropping it rolls back everything that it did.
#[derive(Debug)]
pub struct Fork<'a> {
    state: &'a mut State,
    /// What was changed, in order.
    journal: Vec<(AssumptionId, ObjectRef, Patch)>,
    /// Supplies of which a slot was taken.
    slots: Vec<String>,
    /// Who stayed on nodes that go away before others were added.
    staying: Option<StayingPods>,
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
        Fork { state, journal: Vec::new(), slots: Vec::new(), staying: None }
    }

    /// The state with what the fork did.
    pub fn state(&mut self) -> &mut State {
        self.state
    }

    /// A node goes away, with its NodeClaim. Its pods are pending as their controllers would remake them, but for those
    /// of DaemonSets and static ones, which go with it, those that have ended, and those that stay. Says which are pending,
    /// by namespace and name.
    pub fn remove_node(&mut self, node: &ObjectRef, at: Time) -> Result<Vec<ObjectRef>, ForkError> {
        let Some(record) = self.state.node(&node.key.name).cloned() else {
            return Err(ForkError::NoSuchObject(node.clone()));
        };
        self.change(node, Patch::Delete { at })?;
        let claim = self.claim_of(&record);
        if let Some(claim) = claim {
            self.change(&claim, Patch::Delete { at })?;
        }
        let pods = self.state.pods_on(&node.key.name).filter(|pod| is_remade(pod) && !self.state.stays(pod));
        Ok(pods.map(|pod| pod.reference()).collect())
    }

    /// These pods stay where they run when their nodes go away, as if nothing let them leave.
    pub fn add_staying<'p>(&mut self, pods: impl IntoIterator<Item = &'p ObjectRef>) {
        let before = self.state.add_staying(pods);
        self.staying = self.staying.take().or(before);
    }

    fn claim_of(&self, node: &NodeRecord) -> Option<ObjectRef> {
        let key = self.state.links.claim_of(node.name(), node.provider_id())?;
        self.state.has(key).then(|| key.clone().with_uid(self.state.uid_of(key).as_deref()))
    }

    /// A node is planned: capacity in flight, to which no scheduler binds yet.
    pub fn add_node_claim(&mut self, claim: berth_api::NodeClaim) -> Result<(), ForkError> {
        let object = Object::from(claim);
        let Some(reference) = object.reference() else {
            let nameless = Key::new(Kind::NodeClaim, "", "").with_uid(None);
            return Err(ForkError::NoSuchObject(nameless));
        };
        self.change(&reference, Patch::Create(object))
    }

    /// A pod is bound to a node, with annotations that say what it draws from.
    pub fn bind(
        &mut self,
        pod: &ObjectRef,
        node: &str,
        annotations: std::collections::BTreeMap<String, String>,
    ) -> Result<(), ForkError> {
        self.expect_unbound(pod)?;
        if self.state.node(node).is_none() {
            return Err(ForkError::NoSuchObject(Key::new(Kind::Node, "", node).with_uid(None)));
        }
        self.change(pod, Patch::Bind { node: node.into(), annotations })
    }

    /// Room is made for a pod on a node, or on none any more.
    pub fn nominate(&mut self, pod: &ObjectRef, node: Option<&str>) -> Result<(), ForkError> {
        self.expect_unbound(pod)?;
        self.change(pod, Patch::Nominate { node: node.map(Into::into) })
    }

    /// A pod asks for these preferences as if they were required while it is on no node.
    pub fn insist(&mut self, pod: &ObjectRef, on: Insists) -> Result<(), ForkError> {
        self.change(pod, Patch::Insist(on))
    }

    /// A pod is off its node, and pending again as its controller would remake it.
    pub fn remake(&mut self, pod: &ObjectRef) -> Result<ObjectRef, ForkError> {
        self.change(pod, Patch::Remake)?;
        Ok(pod.key.clone().with_uid(None))
    }

    /// A pod goes: what it has counts until it is gone.
    pub fn evict(&mut self, pod: &ObjectRef, at: Time) -> Result<(), ForkError> {
        self.change(pod, Patch::Delete { at })
    }

    /// A Reservation holds its room on a node.
    pub fn hold(&mut self, reservation: &ObjectRef, node: &str) -> Result<(), ForkError> {
        let patch = Patch::hold(&*self.reservation(reservation)?, node);
        self.change(reservation, patch)
    }

    /// A Reservation looks for a node as if it had none.
    pub fn unhold(&mut self, reservation: &ObjectRef) -> Result<(), ForkError> {
        let patch = Patch::unhold(&*self.reservation(reservation)?);
        self.change(reservation, patch)
    }

    /// A Reservation holds nothing any more.
    pub fn release(&mut self, reservation: &ObjectRef) -> Result<(), ForkError> {
        let patch = Patch::release(&*self.reservation(reservation)?);
        self.change(reservation, patch)
    }

    /// Takes one instance of a capacity reservation, or of another finite supply.
    pub fn take_slot(&mut self, id: &str, now: Time) -> Result<(), ForkError> {
        if !self.state.take_slot(id, now) {
            return Err(ForkError::NoSlot(id.to_owned()));
        }
        self.slots.push(id.to_owned());
        Ok(())
    }

    /// Makes it so: what was changed is assumed. Says what to write, in order; slots that were taken are held by the
    /// NodeClaims that take them, and are given back here.
    pub fn commit(mut self) -> Vec<Write> {
        let journal = std::mem::take(&mut self.journal);
        self.staying = None;
        let mut writes = Vec::with_capacity(journal.len());
        for (assumption, object, patch) in journal {
            self.state.promote(assumption);
            writes.push(Write { assumption, object, patch });
        }
        writes
    }

    fn reservation(&self, reservation: &ObjectRef) -> Result<Arc<berth_api::Reservation>, ForkError> {
        let known = self.state.get_as::<berth_api::Reservation>("", &reservation.key.name);
        known.cloned().ok_or_else(|| ForkError::NoSuchObject(reservation.clone()))
    }

    fn expect_unbound(&self, pod: &ObjectRef) -> Result<(), ForkError> {
        let known = self.state.pod(&pod.key.namespace, &pod.key.name);
        match known.and_then(|pod| pod.node()) {
            Some(node) => Err(ForkError::IsBound { pod: pod.key.clone(), node: node.to_owned() }),
            None => Ok(()),
        }
    }

    fn change(&mut self, object: &ObjectRef, patch: Patch) -> Result<(), ForkError> {
        let Some(id) = self.state.push(object, patch.clone(), Progress::Tried) else {
            return Err(match patch {
                Patch::Create(_) => ForkError::Exists(object.key.clone()),
                _ => ForkError::NoSuchObject(object.clone()),
            });
        };
        self.journal.push((id, object.clone(), patch));
        Ok(())
    }
}

impl Drop for Fork<'_> {
    fn drop(&mut self) {
        for (id, ..) in self.journal.drain(..).rev() {
            self.state.pop(id);
        }
        for id in self.slots.drain(..) {
            self.state.give_slot_back(&id);
        }
        if let Some(staying) = self.staying.take() {
            self.state.set_staying(staying);
        }
    }
}

/// Whether another pod comes in place of one whose node goes, for any node.
pub fn is_remade(pod: &PodRecord) -> bool {
    let is_of_node =
        |owner: &OwnerReference| owner.controller == Some(true) && matches!(owner.kind.as_str(), "DaemonSet" | "Node");
    !pod.is_mirror() && !pod.has_ended() && pod.deletion().is_none() && !pod.owner_references().iter().any(is_of_node)
}
