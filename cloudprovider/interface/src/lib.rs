//! What a cloud is to Berth: the [`CloudProvider`] trait, its typed errors, and a conformance suite.
//!
//! The crate says what Berth asks of a cloud and what the answers mean. It never decides which node to launch, opens no
//! connection and reads no clock. A vendor implements the trait; the controllers know nothing else of a cloud.
//!
//! ```
//! use berth_cloudprovider::{Category, CloudError, LaunchToken};
//!
//! // A token names one attempt of one batch; it is persisted before the call.
//! let token: LaunchToken = "default-7f3a.2".parse().unwrap();
//! assert_eq!((token.batch(), token.attempt()), ("default-7f3a", 2));
//! // Only an unknown outcome may have launched something.
//! let lost = CloudError::OutcomeUnknown { message: "connection reset".to_owned() };
//! assert_eq!(lost.category(), Category::OutcomeUnknown);
//! ```

pub mod conformance;
mod error;
mod instance;
mod launch;
mod node_class;
mod provider;
mod reservation;
mod token;

pub use error::{Category, CloudError, Result};
pub use instance::{Instance, InstanceState, Interruption, InterruptionReason, OfferingKey, ProviderId};
pub use launch::{LaunchRequest, LaunchTarget, Launched, NodeClaimKey, tag};
pub use node_class::{Drift, NodeClassStatus, RepairPolicy};
pub use provider::{CloudProvider, InstanceTypes};
pub use reservation::{
    CapacityReservation, ReservationAdoption, ReservationKind, ReservationMatching, ReservationState,
};
pub use token::{LaunchToken, TokenError};
