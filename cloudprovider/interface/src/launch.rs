//! What Berth asks of a cloud when it wants a node, and what it gets.

use std::collections::BTreeMap;

use berth_api::{NodeClassRef, labels};
use berth_catalogue::CapacityType;
use k8s_openapi::api::core::v1::Taint;
use serde::{Deserialize, Serialize};

use crate::{CloudError, Instance, LaunchToken, OfferingKey, Result};

/// The tags that every instance of Berth carries, by which it is found again.
pub mod tag {
    /// The name of the NodeClaim.
    pub const NODE_CLAIM: &str = "karpenter.sh/nodeclaim";
    /// The UID of the NodeClaim: a name may be used twice.
    pub const NODE_CLAIM_UID: &str = "berth.sh/nodeclaim-uid";
    /// The name of the NodePool.
    pub const NODE_POOL: &str = "karpenter.sh/nodepool";
    /// The text of the launch's token.
    pub const LAUNCH_TOKEN: &str = "berth.sh/launch-token";
    /// Which cluster the instance belongs to; one account may serve several.
    pub const CLUSTER: &str = "berth.sh/cluster";
}

/// One node that is wanted.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LaunchRequest {
    /// Names this attempt: the same token with the same request is the same launch.
    pub token: LaunchToken,
    /// Whose node it will be.
    pub node_claim: NodeClaimKey,
    /// The NodePool of the NodeClaim.
    pub node_pool: String,
    /// How the cloud is to make nodes.
    pub node_class: NodeClassRef,
    /// What may be launched.
    pub target: LaunchTarget,
    /// Labels that the node registers with, besides those of its instance.
    pub labels: BTreeMap<String, String>,
    /// Taints that the node registers with; see [`LaunchRequest::all_taints`].
    pub taints: Vec<Taint>,
    /// Taints that the node registers with and that something in the cluster removes.
    pub startup_taints: Vec<Taint>,
    /// Tags beside those of [`LaunchRequest::all_tags`]; the latter win.
    pub tags: BTreeMap<String, String>,
    /// What the machine gets at its first boot, in the form that the provider's node class asks for.
    pub user_data: Option<String>,
    /// Whether the instance belongs to the group of reservations that the node class may use: bought on demand, it takes
    /// whichever slot is free of theirs, now or later. Set by callers of a provider of [`ReservationAdoption::Group`] alone.
    ///
    /// [`ReservationAdoption::Group`]: crate::ReservationAdoption::Group
    #[serde(default)]
    pub joins_group: bool,
    /// Whether the instance, bought on demand, uses no slot, now or later: not even of a reservation that is
    /// [open](crate::ReservationMatching::Open) to it. Its node may not be on reserved capacity.
    #[serde(default)]
    pub avoids_reservations: bool,
}

/// Which NodeClaim.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct NodeClaimKey {
    /// Its name.
    pub name: String,
    /// Its UID.
    pub uid: String,
}

/// What may be launched: one slot of one reservation, or whatever of the paid offerings is to be had.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum LaunchTarget {
    /// The first of these that the cloud has: the planned one, then the cheapest; on-demand and spot only, at least one.
    Paid(Vec<OfferingKey>),
    /// A slot of this reservation and nothing else, even where the type is to be had on demand.
    Reserved {
        /// The reservation's id.
        reservation: String,
        /// The instance type: one of the reservation's.
        instance_type: String,
        /// The zone: one of the reservation's.
        zone: Option<String>,
    },
}

/// What a launch came to.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Launched {
    /// The instance.
    pub instance: Instance,
    /// Offerings earlier in the list that had no instance left; Berth leaves them alone for some minutes.
    pub exhausted: Vec<OfferingKey>,
}

// === impl LaunchRequest ===

impl LaunchRequest {
    /// The tags that the instance must carry.
    pub fn all_tags(&self, cluster: &str) -> BTreeMap<String, String> {
        let mut tags = self.tags.clone();
        for (key, value) in [
            (tag::NODE_CLAIM, self.node_claim.name.clone()),
            (tag::NODE_CLAIM_UID, self.node_claim.uid.clone()),
            (tag::NODE_POOL, self.node_pool.clone()),
            (tag::LAUNCH_TOKEN, self.token.to_string()),
            (tag::CLUSTER, cluster.to_owned()),
        ] {
            tags.insert(key.to_owned(), value);
        }
        tags
    }

    /// The taints that the node must register with: its own, its startup taints, and `karpenter.sh/unregistered:NoExecute`,
    /// which keeps pods away until Berth has matched the node with its NodeClaim.
    pub fn all_taints(&self) -> Vec<Taint> {
        let unregistered =
            Taint { key: labels::UNREGISTERED_TAINT.to_owned(), effect: "NoExecute".to_owned(), ..Taint::default() };
        self.taints.iter().chain(&self.startup_taints).cloned().chain([unregistered]).collect()
    }

    /// Checks what no provider can carry out.
    ///
    /// # Errors
    /// [`CloudError::InvalidRequest`] for a NodeClaim without a name or UID, an empty list of offerings, and a reserved
    /// offering in the list of paid ones.
    pub fn check(&self) -> Result<()> {
        if self.node_claim.name.is_empty() || self.node_claim.uid.is_empty() {
            return Err(CloudError::invalid("node_claim", "has no name or no UID, expected both"));
        }
        match &self.target {
            LaunchTarget::Paid(offerings) if offerings.is_empty() => {
                Err(CloudError::invalid("target", "lists no offering, expected one at least"))
            }
            LaunchTarget::Paid(offerings) => {
                match offerings.iter().find(|offering| offering.capacity_type == CapacityType::Reserved) {
                    Some(offering) => Err(CloudError::invalid(
                        "target",
                        format!("lists {offering}, expected on-demand or spot, or one pinned reservation"),
                    )),
                    None => Ok(()),
                }
            }
            LaunchTarget::Reserved { reservation, .. } if reservation.is_empty() => {
                Err(CloudError::invalid("target", "names no reservation, expected its id"))
            }
            LaunchTarget::Reserved { .. } => Ok(()),
        }
    }
}
