//! Ports, volumes and topology counts that a Reservation holds: as if its pod ran already, but not against its owners.

use berth_model::{HostPort, Reservation, Sym, Volumes};

/// A Reservation in the eyes of one pod.
#[derive(Clone, Copy, Debug)]
pub struct Held<'a> {
    /// The Reservation.
    pub reservation: &'a Reservation,
    /// How many pods draw from it.
    pub owners: u32,
    /// Whether the pod that is asked for may draw from it.
    pub is_matched: bool,
}

impl Held<'_> {
    // Whether what it holds stands in the pod's way.
    fn keeps_out(&self) -> bool {
        self.reservation.phase.holds_room() && !self.is_matched
    }

    /// Whether the Reservation counts as a pod of its template in the pod's affinity, anti-affinity and spread, in both
    /// directions: until its first owner has come, who counts himself then, and never against those it is held for. What the
    /// template keeps away stays away as long as there is room for more owners: see [`berth_model::StandIn`].
    pub fn stands_in(&self) -> bool {
        self.keeps_out() && self.owners == 0
    }
}

/// Whether ports that a pod asks for are taken: by a pod, or held by a Reservation that it does not match. Of those
/// that it matches it may have any port that none of their owners uses, of several Reservations at once.
pub fn ports_conflict<'a>(
    asked: &[HostPort],
    of_pods: impl IntoIterator<Item = &'a HostPort>,
    held: &[Held<'a>],
) -> bool {
    let kept = held.iter().filter(|held| held.keeps_out()).flat_map(|held| &held.reservation.host_ports);
    let mut taken = of_pods.into_iter().chain(kept);
    taken.any(|taken| asked.iter().any(|asked| asked.conflicts(taken)))
}

/// Whether a ReadWriteOncePod claim that a pod asks for is in use: by a pod anywhere, or held by a Reservation anywhere
/// that the pod does not match on the node that is asked about.
pub fn exclusive_claim_conflict<'a>(
    asked: &Volumes,
    of_pods: impl IntoIterator<Item = &'a Sym>,
    held: &[Held<'a>],
) -> bool {
    let kept = held.iter().filter(|held| held.keeps_out()).flat_map(|held| &held.reservation.volumes.exclusive_claims);
    let mut taken = of_pods.into_iter().chain(kept);
    taken.any(|taken| asked.exclusive_claims.contains(taken))
}

/// Whether a node's attach limits hold a pod's volumes beside those of its pods and those that Reservations hold for
/// others. A volume counts once; a driver that is not listed has no limit.
pub fn attachments_fit<'a>(
    asked: &Volumes,
    of_pods: impl IntoIterator<Item = &'a (Sym, Sym)>,
    held: &[Held<'a>],
    limits: &[(Sym, u32)],
) -> bool {
    let kept = held.iter().filter(|held| held.keeps_out()).flat_map(|held| &held.reservation.volumes.attachments);
    let mut attached: Vec<(Sym, Sym)> = of_pods.into_iter().chain(kept).copied().collect();
    attached.sort_unstable();
    attached.dedup();
    let mut added: Vec<(Sym, Sym)> = asked.attachments.clone();
    added.sort_unstable();
    added.dedup();
    added.retain(|volume| attached.binary_search(volume).is_err());
    limits.iter().all(|&(driver, limit)| {
        let count = |volumes: &[(Sym, Sym)]| volumes.iter().filter(|(known, _)| *known == driver).count() as u64;
        // A node beyond its limit still takes pods that add nothing.
        count(&added) == 0 || count(&added) + count(&attached) <= u64::from(limit)
    })
}
