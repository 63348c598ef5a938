//! What to do now: which pods go to which nodes that exist, which nodes are launched for the rest, who gives way, and why
//! who stays.
//!
//! [`decide`] answers for a live [`State`](berth_state::State), in names and uids; [`solve`] answers for a
//! [`Cluster`](berth_model::Cluster) in classes and counts, and [`Assignment`] says who of a class goes where. The crate decides
//! who draws from which Reservation and in which order nodes that exist, launches and Reservations are asked; fits and
//! packings are decided below it. It writes nothing and knows no clock.
//!
//! ```
//! let mut state = berth_state::State::new(berth_state::Options::default());
//! let now = berth_state::Time::UNIX_EPOCH;
//! let refused = berth_decisions::decide(&mut state, &berth_decisions::Options::default(), now);
//! assert!(refused.is_err(), "nothing was listed yet");
//! ```

mod allocation;
mod answer;
mod assigned;
mod assignment;
mod at_once;
mod awaited;
mod beside;
mod come_first;
mod coming;
mod decide;
mod decider;
mod decision;
mod displaced;
mod elsewhere;
mod existing;
mod expected;
mod held_room;
mod joining;
mod leaving;
mod market;
mod options;
mod outlook;
mod plans;
mod preferring;
mod replicas;
mod rest;
mod scarce_volumes;
mod since;
mod sold_out;
mod stand_ins;
mod terms;
#[cfg(test)]
mod tests;
mod unseen;

pub use allocation::{Allocation, Also, solve};
pub use assigned::annotations;
pub use assignment::{Assignment, MemberName, Share};
pub use at_once::AtOnce;
pub use berth_provisioning::{Effort, MaxShare, Options as SolveOptions, parse_max_share};
pub use decide::decide;
pub use decider::Decider;
pub use decision::{
    Binding, DecideError, Decision, Eviction, Launch, Nomination, OfferingName, Refusal, ReservationDraw,
};
pub use displaced::{Displaced, PodName};
pub use elsewhere::{Problem, Refreshed, Replica, Solved};
pub use existing::Kept;
pub use joining::PlannedNode;
pub use market::Question;
pub use options::{ExpectedDrawers, ExpectedNodes, Options, WaitedFor, Waits};
pub use outlook::{Outlook, Tally};
pub use preferring::Preferring;
pub use replicas::{plan_replicas, pool_of, replicas};
pub use since::{Finished, Since};
pub use stand_ins::give_places;
pub use terms::{Unit, quantities};
