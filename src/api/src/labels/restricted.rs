//! Which labels the autoscaler knows by itself and which a NodePool must leave alone.

use super::{
    ARCH, CAPACITY_TYPE, HOSTNAME, INSTANCE_TYPE, NODEPOOL, ON_DEMAND, OS, REGION, RESERVATION_IDS, RESERVED, SPOT,
    WINDOWS_BUILD, ZONE,
};

/// The domain whose labels only the autoscaler sets, as Karpenter's `RestrictedLabelDomains` since v1.
const RESTRICTED_DOMAIN: &str = "karpenter.sh";

/// Why a label may not be required or set by a NodePool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Restriction {
    /// The label's domain belongs to the autoscaler.
    #[error("label domain \"karpenter.sh\" is restricted")]
    Domain,
    /// The label is the NodePool's own name.
    #[error("label \"karpenter.sh/nodepool\" is restricted")]
    NodePool,
    /// The label is set by the kubelet.
    #[error("label \"kubernetes.io/hostname\" is restricted")]
    Hostname,
}

/// Whether NodePools, pods and instance types narrow each other by this label without anyone defining it: a pod may
/// ask for any value of it, as Karpenter's `WellKnownLabels`; a capacity reservation's id is one of them.
pub fn is_well_known(key: &str) -> bool {
    [NODEPOOL, ZONE, REGION, INSTANCE_TYPE, ARCH, OS, CAPACITY_TYPE, WINDOWS_BUILD].contains(&key)
        || RESERVATION_IDS.contains(&key)
}

/// The values that a well-known label can take, where they are a fixed set.
pub fn well_known_values(key: &str) -> Option<&'static [&'static str]> {
    (key == CAPACITY_TYPE).then_some(&[ON_DEMAND, RESERVED, SPOT])
}

/// Why a NodePool may neither set this label in its template nor require it; `None` if it may.
///
/// Same rules, in the same words, as the CEL rules of Karpenter's NodePool. A NodeOverlay may select
/// [`NODEPOOL`] all the same.
pub fn restriction(key: &str) -> Option<Restriction> {
    match key {
        NODEPOOL => Some(Restriction::NodePool),
        HOSTNAME => Some(Restriction::Hostname),
        CAPACITY_TYPE => None,
        _ => key.split('/').next()?.ends_with(RESTRICTED_DOMAIN).then_some(Restriction::Domain),
    }
}

/// The part of a label's key before the slash; empty where there is none.
pub fn domain(key: &str) -> &str {
    key.split_once('/').map_or("", |(domain, _)| domain)
}
