//! What can go wrong between Berth and a cloud, by what Berth does about it.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::OfferingKey;

/// The answer of a cloud.
pub type Result<T, E = CloudError> = std::result::Result<T, E>;

/// Why a cloud did not do what it was asked. Each variant is one thing that Berth does about it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
pub enum CloudError {
    /// None of these offerings has an instance left. Berth leaves them alone for some minutes and plans anew.
    #[error("insufficient capacity: {}", Listed(offerings))]
    InsufficientCapacity {
        /// Every offering that was tried, in that order; at least one.
        offerings: Vec<OfferingKey>,
    },
    /// The reservation has no free slot, has ended or has not begun. Berth counts it as full until it is observed again.
    #[error("reservation {reservation} has no free slot: {message}")]
    ReservationFull {
        /// The id of the reservation.
        reservation: String,
        /// What the cloud says.
        message: String,
    },
    /// The cloud wants fewer calls. Nothing was done.
    #[error("throttled{}", After(*retry_after))]
    Throttled {
        /// How long to wait before the next call, where the cloud says so.
        retry_after: Option<Duration>,
    },
    /// What was asked for does not exist (any more).
    #[error("{what} not found")]
    NotFound {
        /// Its kind and name, such as `instance fake:///a/i-1`.
        what: String,
    },
    /// The credentials do not allow this call. Nothing was done, and a retry alone will not help.
    #[error("unauthorized: {message}")]
    Unauthorized {
        /// What the cloud says.
        message: String,
    },
    /// The call may or may not have been carried out: the answer was lost. Berth looks for its tags before it tries again.
    #[error("outcome unknown: {message}")]
    OutcomeUnknown {
        /// What happened to the call.
        message: String,
    },
    /// The request itself cannot be carried out, today or later, or its token was used for another request.
    #[error("invalid request: {field}: {message}")]
    InvalidRequest {
        /// The field of the request, such as `target` or `token`.
        field: String,
        /// What is wrong with it, and what was expected.
        message: String,
    },
    /// The cloud could not be asked, or said that it cannot work now. Nothing was done.
    #[error("unavailable: {message}")]
    Unavailable {
        /// What happened.
        message: String,
    },
}

/// The variants of [`CloudError`] without their contents: the label of metrics and the reason of events.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Category {
    /// [`CloudError::InsufficientCapacity`]
    InsufficientCapacity,
    /// [`CloudError::ReservationFull`]
    ReservationFull,
    /// [`CloudError::Throttled`]
    Throttled,
    /// [`CloudError::NotFound`]
    NotFound,
    /// [`CloudError::Unauthorized`]
    Unauthorized,
    /// [`CloudError::OutcomeUnknown`]
    OutcomeUnknown,
    /// [`CloudError::InvalidRequest`]
    InvalidRequest,
    /// [`CloudError::Unavailable`]
    Unavailable,
}

// === impl CloudError ===

impl CloudError {
    /// A request that cannot be carried out, because of `field`.
    pub fn invalid(field: impl Into<String>, message: impl Into<String>) -> Self {
        Self::InvalidRequest { field: field.into(), message: message.into() }
    }

    /// Which of the variants it is.
    pub const fn category(&self) -> Category {
        match self {
            Self::InsufficientCapacity { .. } => Category::InsufficientCapacity,
            Self::ReservationFull { .. } => Category::ReservationFull,
            Self::Throttled { .. } => Category::Throttled,
            Self::NotFound { .. } => Category::NotFound,
            Self::Unauthorized { .. } => Category::Unauthorized,
            Self::OutcomeUnknown { .. } => Category::OutcomeUnknown,
            Self::InvalidRequest { .. } => Category::InvalidRequest,
            Self::Unavailable { .. } => Category::Unavailable,
        }
    }

    /// Whether the very same request may be answered otherwise a little later.
    pub const fn is_retryable(&self) -> bool {
        matches!(self, Self::Throttled { .. } | Self::OutcomeUnknown { .. } | Self::Unavailable { .. })
    }
}

// === impl Category ===

impl Category {
    /// The name, as events and metrics have it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::InsufficientCapacity => "InsufficientCapacity",
            Self::ReservationFull => "ReservationFull",
            Self::Throttled => "Throttled",
            Self::NotFound => "NotFound",
            Self::Unauthorized => "Unauthorized",
            Self::OutcomeUnknown => "OutcomeUnknown",
            Self::InvalidRequest => "InvalidRequest",
            Self::Unavailable => "Unavailable",
        }
    }
}

impl fmt::Display for Category {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// The first three offerings and how many more there are: a launch may list hundreds.
struct Listed<'a>(&'a [OfferingKey]);

impl fmt::Display for Listed<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const MOST: usize = 3;
        for (index, offering) in self.0.iter().take(MOST).enumerate() {
            write!(f, "{}{offering}", if index == 0 { "" } else { ", " })?;
        }
        match self.0.len().saturating_sub(MOST) {
            0 => Ok(()),
            more => write!(f, " and {more} more"),
        }
    }
}

struct After(Option<Duration>);

impl fmt::Display for After {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.map_or(Ok(()), |wait| write!(f, ", retry after {wait:?}"))
    }
}
