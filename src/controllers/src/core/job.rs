//! What there is to do.

use crate::kind::NamedObject;
use crate::view::PodName;

/// One thing to be done, again whenever something about it changed.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Job {
    /// Read an object of which a write's outcome is not known.
    Reread(NamedObject),
    /// Ask what a node class offers.
    Offers(String),
    /// Offerings that had no instance left may have some again.
    Restock,
    /// Bind a pod.
    Bind(PodName),
    /// See whether a pod has the volumes that it waits for before it is bound.
    PreBind(PodName),
    /// Give a Reservation a node.
    Hold(String),
    /// Say where a pod will be bound once others have gone.
    Nominate(PodName),
    /// Tell a PersistentVolumeClaim the node of its first consumer, or a PersistentVolume its claim.
    Volume(PodName),
    /// Create a NodeClaim.
    Launch(String),
    /// The next step of a Reservation's life.
    Reservation(String),
    /// Say on a pod that is a Reservation who draws from it.
    CurrentOwner(PodName),
    /// Bind what finds a node that is up.
    Schedule,
    /// Plan what does not.
    Provision,
    /// Ask whether a node class can be used.
    ClassStatus(String),
    /// Whether a NodePool can be used, and what it has.
    Pool(String),
    /// Say of a NodeOverlay whether it does what it says.
    Overlay(String),
    /// Bring a static NodePool to the nodes that it is to have.
    Replicas(String),
    /// The next step of a NodeClaim.
    Claim(String),
    /// A node without a NodeClaim.
    Node(String),
    /// Look for nodes that can go.
    Disrupt,
    /// Tell of more nodes why they stay.
    TellKept,
    /// The next step of nodes that make way.
    Command(u64),
    /// Tell a pod to leave its node.
    Evict(PodName),
    /// Say of an object whether its `karpenter.sh/do-not-disrupt` means something.
    DoNotDisrupt(NamedObject),
    /// See who stays on nodes that go, and who may leave now.
    Stays,
    /// Compare the cloud's instances with the NodeClaims.
    Garbage,
    /// Ask which instances the cloud will take back.
    Interrupted,
    /// Give a NodeClaim and its node the labels that its instance has now.
    Relabel(String),
    /// Shut down an instance that no NodeClaim is for.
    Collect(String),
    /// Ask whether the instance of a NodeClaim still exists.
    Check(String),
}

impl Job {
    /// Which controller asks the cloud, as Karpenter calls it.
    pub(crate) const fn controller(&self) -> &'static str {
        match self {
            Self::Claim(_) | Self::Check(_) => "nodeclaim.lifecycle",
            Self::Garbage | Self::Collect(_) => "nodeclaim.garbagecollection",
            Self::Interrupted => "interruption",
            Self::Offers(_) => "instancetype",
            Self::ClassStatus(_) => "nodeclass",
            _ => "berth",
        }
    }
}
