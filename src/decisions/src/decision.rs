//! A decision, in names and uids.

use std::collections::BTreeMap;
use std::sync::Arc;

use berth_api::{Requirement, ResourceList};
use berth_model::Money;
use berth_state::{Kind, ObjectRef};
use k8s_openapi::api::core::v1::Taint;

/// What to do now. Every list is in a fixed order: the same objects give the same bytes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Decision {
    /// Pods and Reservations that go to a node that is up, to be written now. Reservations come first.
    pub bindings: Vec<Binding>,
    /// Pods and Reservations that wait for a node: one that comes up, one on which others give way first, or one that
    /// another scheduler is expected to choose.
    pub nominations: Vec<Nomination>,
    /// Pods that run yet, on nodes that go away, and where they would come next: nodes that are up or come up. Nothing is to be
    /// written for them. Those for whom a node is launched are with that.
    pub moves: Vec<Nomination>,
    /// Pods that give way to others of higher priority, by node.
    pub evictions: Vec<Eviction>,
    /// Nodes to launch.
    pub launches: Vec<Launch>,
    /// Who stays, by class.
    pub refusals: Vec<Refusal>,
    /// Whether owners were left out until it is known where their Reservations come: it is to be decided about them soon.
    pub holds_back: bool,
}

/// A pod or a Reservation that goes to a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Binding {
    /// The pod or the Reservation.
    pub object: ObjectRef,
    /// The node.
    pub node: ObjectRef,
    /// The Reservation that a pod draws from.
    pub draws_from: Option<ObjectRef>,
    /// Annotations to write with it: what it draws from, and which CPUs and devices it has to itself.
    pub annotations: BTreeMap<String, String>,
    /// Of a Reservation: whether it waits there for pods to go, before owners may draw from it.
    pub waits: bool,
}

/// A pod or a Reservation that waits for a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Nomination {
    /// The pod or the Reservation.
    pub object: ObjectRef,
    /// The node; for a NodeClaim in flight that has no node yet, the NodeClaim.
    pub node: ObjectRef,
    /// The Reservation that a pod draws from there, which waits for that node itself.
    pub draws_from: Option<ObjectRef>,
    /// Whether pods on the node give way first, or are being deleted and have to be gone. Then the nomination is to be written.
    pub after_evictions: bool,
    /// What the pod waits for, where a rule about other pods keeps it waiting: those who have yet to leave or to come.
    pub waits_for: Option<Box<str>>,
    /// Whether room is kept for it there as it is expected, though the node is not up yet or does not let it in now.
    pub is_kept_out: bool,
}

/// A pod that gives way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Eviction {
    /// The pod.
    pub pod: ObjectRef,
    /// The node that it is on.
    pub node: ObjectRef,
}

/// An offering, as the catalogue calls it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OfferingName {
    /// The instance type.
    pub instance_type: String,
    /// The zone, if the catalogue names one.
    pub zone: Option<String>,
    /// `reserved`, `spot` or `on-demand`.
    pub capacity_type: String,
    /// The capacity reservation that the launch draws from.
    pub reservation_id: Option<String>,
    /// What it costs an hour; zero for reserved.
    pub price: Money,
}

/// A node to launch.
#[derive(Clone, Debug, PartialEq)]
pub struct Launch {
    /// The NodePool.
    pub node_pool: ObjectRef,
    /// The offering that is planned.
    pub offering: OfferingName,
    /// Types that may be launched, cheapest first. On a slot: those to fall back to, on paid capacity.
    pub instance_types: Vec<String>,
    /// Requirements of the NodeClaim: the NodePool's, narrowed by pods and domains; of the instance type, and on a slot of
    /// the capacity reservation, too.
    pub requirements: Vec<Requirement>,
    /// Taints of the NodeClaim; startup taints are in the NodePool.
    pub taints: Vec<Taint>,
    /// What the pods, the Reservations and the DaemonSets of the planned type request.
    pub requests: ResourceList,
    /// The pods that are planned on it.
    pub pods: Vec<ObjectRef>,
    /// The Reservations that are planned on it.
    pub reservations: Vec<ObjectRef>,
    /// Which of the pods draw from which Reservation.
    pub draws: Vec<ReservationDraw>,
}

/// A pod that draws from a Reservation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReservationDraw {
    /// The pod.
    pub pod: ObjectRef,
    /// The Reservation.
    pub reservation: ObjectRef,
}

/// Pods or Reservations of a class that have no place, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// Who.
    pub objects: Vec<ObjectRef>,
    /// Reasons, in the field's words, with how many nodes or instance types each holds for (0: about neither).
    pub reasons: Vec<(String, u32)>,
}

/// Why nothing can be decided.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecideError {
    /// Not everything was listed once: what is not known yet would count as not there.
    #[error("not listed yet: {}", waits_for(.kinds, *.cloud))]
    NotSynced {
        /// Kinds that were not listed.
        kinds: Vec<Kind>,
        /// Whether the cloud's offerings are missing.
        cloud: bool,
    },
    /// An annotation could not be written; none that is known.
    #[error("writing the annotations of {object}: {message}")]
    Annotations {
        /// Of which object.
        object: ObjectRef,
        /// What the serializer said.
        message: Arc<str>,
    },
}

fn waits_for(kinds: &[Kind], cloud: bool) -> String {
    let kinds = kinds.iter().map(|kind| kind.name());
    kinds.chain(cloud.then_some("the cloud's offerings")).collect::<Vec<_>>().join(", ")
}
