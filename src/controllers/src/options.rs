//! What controllers are started with.

use std::time::Duration;

use crate::lease::LeaseOptions;

/// How the controllers act.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// How long things may take.
    pub timings: Timings,
    /// How the lead is found; `None` where there is no other process.
    pub lease: Option<LeaseOptions>,
}

/// How long things may take.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Timings {
    /// How old a NodeClaim may be without having been launched.
    pub launch_timeout: Duration,
    /// How old a NodeClaim may be without its node having registered.
    pub registration_timeout: Duration,
    /// How often the cloud's instances are compared with the NodeClaims.
    pub garbage_period: Duration,
    /// How young an instance without a NodeClaim may be and is not yet garbage.
    pub garbage_age: Duration,
}

impl Default for Timings {
    /// Karpenter's.
    fn default() -> Self {
        Self {
            launch_timeout: Duration::from_secs(5 * 60),
            registration_timeout: Duration::from_secs(15 * 60),
            garbage_period: Duration::from_secs(2 * 60),
            garbage_age: Duration::from_secs(30),
        }
    }
}
