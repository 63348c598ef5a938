//! Reservations: room on a node that is held for pods that come later.
//!
//! [`may_draw_from`] says which Reservations are for a pod, [`berth_model::NodeRoom`] who has what on a node, [`fit()`] from which of them
//! the pod can be served there, [`nominate`] from which one it draws. [`bind`] binds a Reservation to running pods,
//! and [`lifecycle`] says how far a Reservation has come. [`bundle()`] puts owners with pending Reservations, before nodes are
//! launched. Everything is a function of its arguments.
//!
//! ```
//! use berth_model::{AllocatePolicy, Cluster, Holding, NodeRoom, Reservation, ReservationId, Resources};
//! use berth_scheduling::reservation::{Claim, Fit, fit};
//!
//! let mut cluster = Cluster::new();
//! let mut room = NodeRoom::new(Resources::from_amounts(&[8000, 32 << 30, 110]));
//! // Six of eight cores are reserved.
//! let mut reservation = Reservation::new(cluster.symbols.intern("r"));
//! reservation.allocatable = Resources::from_amounts(&[6000]);
//! reservation.policy = AllocatePolicy::Aligned;
//! room.hold(Holding::new(ReservationId(0), &reservation));
//! assert_eq!(room.free(), &Resources::from_amounts(&[2000, 32 << 30, 109]));
//!
//! let requests = Resources::from_amounts(&[7000, 1 << 30, 1]);
//! let claim = Claim { requests: &requests, must_draw: false, is_named: false, ignored: &[] };
//! assert_eq!(fit(&room, &[0], &claim), Fit::Draws(vec![0]), "an owner gets six cores of it and one of the node");
//! assert!(matches!(fit(&room, &[], &claim), Fit::Refused(_)), "others do not");
//! ```

mod bundle;
mod choice;
mod draw;
mod fit;
pub mod lifecycle;
mod matching;
mod members;
mod pre_allocation;
pub mod reasons;

pub use berth_model::{PreAllocationSettings as Settings, ReservationRules as Rules};
pub use bundle::{Before, Beyond, How, WithRules, bundle};
pub use choice::{
    NodeOffer, WEIGHT, candidate_score, draws_from, gives_any, nominate, normalized, pre_allocation_score, raw_scores,
    score,
};
pub use draw::is_open;
pub use draw::{Bundled, Draws};
pub use fit::{Amounts, Claim, Fit, Lack, fit, in_words, may_share, may_share_node};
pub(crate) use matching::is_for;
pub use matching::{Diagnosis, Mismatch, Seeker, counts_reservations, may_draw_from};
pub(crate) use members::take;
pub use pre_allocation::{Binding, Candidate, Refusal, bind};
