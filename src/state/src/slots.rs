//! Finite supplies: what the cloud counted, less what was launched since.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use berth_api::labels::RESERVATION_IDS;
use berth_api::{NodeClaim, NodeClassRef};
use berth_catalogue::Catalogue;

use crate::SlotCount;

/// What the cloud said last.
#[derive(Clone, Debug, Default)]
pub(crate) struct Cloud {
    pub(crate) catalogue: Option<Arc<Catalogue>>,
    /// What the catalogue is to NodePools of a node class.
    pub(crate) classes: Vec<(NodeClassRef, Arc<Catalogue>)>,
    /// Instances that the catalogue's counts leave out; `None`: all that were launched.
    pub(crate) seen: Option<BTreeSet<String>>,
    /// Newer counts, by reservation.
    pub(crate) counts: BTreeMap<String, SlotCount>,
    /// Slots that forks took.
    pub(crate) taken: BTreeMap<String, u32>,
}

// === impl Cloud ===

impl Cloud {
    /// How many instances of a supply may still be launched: of `counted` by the catalogue, with these NodeClaims.
    pub(crate) fn free<'a>(&self, id: &str, counted: u32, claims: impl Iterator<Item = &'a NodeClaim>) -> u32 {
        let count = self.counts.get(id);
        let free = count.map_or(counted, |count| count.free);
        let seen = count.map(|count| &count.seen).or(self.seen.as_ref());
        let unseen = seen.map_or(0, |seen| {
            let holders = claims.filter(|claim| reservation_of(claim) == Some(id));
            u32::try_from(holders.filter(|claim| is_launched(claim) && !is_among(claim, seen)).count())
                .unwrap_or(u32::MAX)
        });
        let taken = self.taken.get(id).copied().unwrap_or(0);
        free.saturating_sub(unseen).saturating_sub(taken)
    }

    /// Whether what the cloud counted leaves out the instance of a NodeClaim already, of which nothing else shows yet that
    /// it was launched.
    pub(crate) fn counts_launch(&self, id: &str, claim: &str) -> bool {
        let seen = self.counts.get(id).map(|count| &count.seen).or(self.seen.as_ref());
        seen.is_some_and(|seen| seen.contains(claim))
    }
}

/// The capacity reservation that a launched NodeClaim is on.
pub(crate) fn reservation_of(claim: &NodeClaim) -> Option<&str> {
    let labels = claim.metadata.labels.as_ref()?;
    RESERVATION_IDS.iter().find_map(|key| labels.get(*key)).map(String::as_str)
}

pub(crate) fn is_launched(claim: &NodeClaim) -> bool {
    provider_id(claim).is_some()
}

fn provider_id(claim: &NodeClaim) -> Option<&str> {
    claim.status.as_ref()?.provider_id.as_deref().filter(|id| !id.is_empty())
}

fn is_among(claim: &NodeClaim, seen: &BTreeSet<String>) -> bool {
    provider_id(claim).is_some_and(|id| seen.contains(id))
        || claim.metadata.name.as_deref().is_some_and(|name| seen.contains(name))
}
