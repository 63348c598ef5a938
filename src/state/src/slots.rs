//! Finite supplies: what the cloud counted, less what was launched since.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use berth_api::labels::reservation_id;
use berth_api::{NodeClaim, NodeClassRef};
use berth_catalogue::Catalogue;
use berth_convert::StayingPods;

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
    /// The pods that nothing lets leave their nodes, which go away.
    pub(crate) staying: Arc<StayingPods>,
    /// Slots that forks took, less those that they freed.
    pub(crate) taken: BTreeMap<String, i64>,
    /// By capacity reservation: the names of the NodeClaims on it.
    claims: BTreeMap<Box<str>, BTreeSet<Box<str>>>,
    /// By name of the NodeClaim: its capacity reservation.
    reservations: BTreeMap<Box<str>, Box<str>>,
}

// === impl Cloud ===

impl Cloud {
    /// What has a slot of a NodeClaim is another one now; whether it is of another reservation.
    pub(crate) fn claim_changed(&mut self, name: &str, claim: Option<&NodeClaim>) -> bool {
        let after = claim.and_then(reservation_of);
        if self.reservations.get(name).map(|id| &**id) == after {
            return false;
        }
        if let Some(before) = self.reservations.remove(name)
            && let Some(names) = self.claims.get_mut(&before)
        {
            names.remove(name);
            if names.is_empty() {
                self.claims.remove(&before);
            }
        }
        if let Some(id) = after {
            self.claims.entry(id.into()).or_default().insert(name.into());
            self.reservations.insert(name.into(), id.into());
        }
        true
    }

    /// What the cloud said, without what is known from elsewhere.
    pub(crate) fn said(&self) -> Self {
        Cloud {
            catalogue: self.catalogue.clone(),
            classes: self.classes.clone(),
            seen: self.seen.clone(),
            counts: self.counts.clone(),
            staying: Arc::clone(&self.staying),
            ..Cloud::default()
        }
    }

    /// The names of the NodeClaims on a capacity reservation.
    pub(crate) fn claims_on(&self, id: &str) -> impl Iterator<Item = &str> {
        self.claims.get(id).into_iter().flatten().map(|name| &**name)
    }

    /// How many instances of a supply may still be launched: of `counted` by the catalogue, with these NodeClaims on it.
    pub(crate) fn free<'a>(&self, id: &str, counted: u32, claims: impl Iterator<Item = &'a NodeClaim>) -> u32 {
        let count = self.counts.get(id);
        let free = count.map_or(counted, |count| count.free);
        let seen = count.map(|count| &count.seen).or(self.seen.as_ref());
        let unseen = seen.map_or(0, |seen| {
            u32::try_from(claims.filter(|claim| is_launched(claim) && !is_among(claim, seen)).count())
                .unwrap_or(u32::MAX)
        });
        let taken = self.taken.get(id).copied().unwrap_or(0);
        let left = i64::from(free.saturating_sub(unseen)).saturating_sub(taken).max(0);
        u32::try_from(left).unwrap_or(u32::MAX)
    }

    /// So many more slots of a supply are taken, or fewer.
    pub(crate) fn take(&mut self, id: &str, more: i64) {
        let taken = self.taken.entry(id.to_owned()).or_default();
        *taken = taken.saturating_add(more);
        if *taken == 0 {
            self.taken.remove(id);
        }
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
    reservation_id(claim.metadata.labels.as_ref()?).map(String::as_str)
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
