//! What a process that starts can know of what an earlier one did: the launches of the last hour, and for whom nodes were
//! launched in vain.

use std::time::Duration;

use berth_api::Reservation;
use jiff::Timestamp;

use super::provision::Planned;
use super::{Core, Launches};
use crate::clock::elapsed;
use crate::view::pool_of;

/// How the message ends that says why no more nodes are launched for a pod or a Reservation.
const IN_VAIN: &str = " nodes were launched for it and it was bound to none: the next is launched after ";
const HOUR: Duration = Duration::from_secs(3600);

impl Core {
    /// Takes up what an earlier process left. A NodeClaim that is gone within the hour does not count any more.
    pub(super) fn recall(&mut self, now: Timestamp) {
        let claims =
            self.view.claims.values().filter(|claim| claim.spec.node_class_ref.is_some() && self.serves(claim));
        let mut launches: Vec<(Timestamp, String)> = claims
            .filter_map(|claim| {
                let created = claim.metadata.creation_timestamp.as_ref()?.0;
                (elapsed(created, now) < HOUR)
                    .then(|| (created, pool_of(&claim.metadata).unwrap_or_default().to_owned()))
            })
            .collect();
        launches.sort();
        self.launches = Launches::from(launches);
        // Both say it in their conditions. When the last launch was nobody knows: they wait their whole time again.
        // What a pod on a node waited for once does not matter any more.
        let pods = self.state.pods().filter_map(|pod| {
            let message = pod.conditions().iter().find_map(|known| in_vain(known.message.as_deref()?));
            Some((pod.uid()?.into_owned(), message?))
        });
        let reservations = self.state.all::<Reservation>().filter_map(|reservation| {
            let conditions = &reservation.status.as_ref()?.conditions;
            let message = conditions.iter().find_map(|known| in_vain(&known.message));
            Some((reservation.metadata.uid.clone()?, message?))
        });
        let in_vain: Vec<(String, u32)> = pods.chain(reservations).collect();
        for (uid, n_launches) in in_vain {
            self.planned.insert(uid, Planned { n_launches, ..Planned::none(now) });
        }
        self.recall_nominations(now);
    }
}

/// Says that nodes were launched for a pod or a Reservation in vain.
pub(super) fn backoff_message(n_launches: u32, delay: Duration) -> String {
    format!("{n_launches}{IN_VAIN}{delay:?}")
}

/// How many nodes were launched in vain, where a message says so.
fn in_vain(message: &str) -> Option<u32> {
    message.split_once(IN_VAIN)?.0.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn launches_in_vain_are_read_from_what_was_said_of_them() {
        assert_eq!(in_vain(&backoff_message(7, Duration::from_secs(60))), Some(7));
        assert_eq!(in_vain("0/3 nodes are available: 3 Insufficient cpu."), None);
        assert_eq!(in_vain(&format!("a{IN_VAIN}b")), None);
    }
}
