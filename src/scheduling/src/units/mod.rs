//! Which CPUs and devices of a node a pod gets to itself: of the Reservation that it draws from first, of no other's.

mod lack;
mod numa;
mod seeker;

use berth_model::{ReservationId, Resources, Units, UnitsAsk, UnitsState};

pub use lack::{NumaChoice, UnitsLack};
pub use seeker::Given;
use seeker::Seeker;

/// What a pod gets that draws from a Reservation, or from none. A Restricted Reservation gives of its own alone, of the
/// kinds that it reserves; others give theirs first and the node the rest.
///
/// # Errors
/// What the node, or the Reservation, lacks.
pub fn assign(
    units: &Units,
    state: &UnitsState,
    ask: &UnitsAsk,
    requests: &Resources,
    from: Option<ReservationId>,
) -> Result<Given, UnitsLack> {
    let own = state.held.iter().find(|held| Some(held.reservation) == from);
    let seeker = Seeker { units, state, ask, own };
    match numa::policy(units, ask)? {
        None => seeker.on(None),
        Some(policy) => numa::align(&seeker, requests, policy),
    }
}
