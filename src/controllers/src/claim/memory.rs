//! What a process remembers of a NodeClaim between two steps. A process that starts remembers nothing.

use std::time::Duration;

use berth_cloudprovider::{CloudError, Drift, Instance, LaunchRequest, Launched, ProviderId};
use jiff::Timestamp;

use super::Question;

/// What is remembered of a NodeClaim.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Memory {
    /// Whether it was counted as one that became no node.
    pub(crate) has_failed: bool,
    /// The token that this process wrote, or tried to write, over a version that had another or none: whoever reads
    /// it in the NodeClaim knows that no launch was asked for with it before.
    pub(crate) own_token: Option<String>,
    pub(crate) launch: Launch,
    pub(crate) end: InstanceEnd,
    /// When the cloud was last asked whether the instance of a node that is not ready still exists.
    pub(crate) asked_at: Option<Timestamp>,
    /// When the cloud was last asked whether the instance is still what its node class asks for, and why it is not:
    /// reason and message.
    pub(crate) drift_asked_at: Option<Timestamp>,
    pub(crate) drift: Option<(String, String)>,
    /// A condition's reason and message, where the cloud could not do what it was asked.
    pub(crate) trouble: Option<(&'static str, String)>,
}

/// How far a launch is.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) enum Launch {
    /// An earlier process, or a call whose answer was lost, may have launched: look for its tags first.
    #[default]
    Unknown,
    /// Nothing with its tags was found at `looked`, first at `since`.
    Absent { since: Timestamp, looked: Timestamp },
    /// A call of this process had no effect, or its effect is not known and nothing with its tags was found: the same
    /// request again, with the same token.
    Again(Box<LaunchRequest>),
    /// The answer of this call was lost: look for its tags, then ask again.
    Lost(Box<LaunchRequest>),
    /// The cloud has it.
    Done(Box<Instance>),
    /// The cloud will not, and nothing was launched.
    Failed(Failure),
}

/// Why a NodeClaim will never be launched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Failure {
    /// None of its offerings has an instance left.
    InsufficientCapacity(String),
    /// Its node class does not exist or cannot be used.
    NodeClassNotReady(String),
}

/// How far the end of an instance is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum InstanceEnd {
    /// Not asked for by this process.
    #[default]
    Unasked,
    /// Asked for at this time.
    Asked(Timestamp),
    /// The cloud did not have it any more at this time.
    Gone(Timestamp),
}

/// What an answer of the cloud means for the job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Go on.
    GoOn,
    /// Ask again, not before that long.
    Later(Duration),
}

// === impl Memory ===

impl Memory {
    /// Takes in which instances carry the NodeClaim's uid.
    pub(crate) fn found(&mut self, answer: Result<Vec<Instance>, CloudError>, now: Timestamp) -> Verdict {
        let instances = match answer {
            Ok(instances) => instances,
            Err(error) => return self.failed(&error),
        };
        self.trouble = None;
        // More than one is a fault of the cloud; the others are collected as garbage.
        if let Some(instance) = instances.into_iter().find(|instance| instance.state.is_alive()) {
            self.launch = Launch::Done(Box::new(instance));
            return Verdict::GoOn;
        }
        self.launch = match std::mem::take(&mut self.launch) {
            Launch::Lost(request) => Launch::Again(request),
            Launch::Absent { since, .. } => Launch::Absent { since, looked: now },
            // Asked for again only where the NodeClaim ends.
            Launch::Unknown | Launch::Again(_) => Launch::Absent { since: now, looked: now },
            other => other,
        };
        Verdict::GoOn
    }

    /// Takes in the answer to a launch.
    pub(crate) fn launched(&mut self, request: LaunchRequest, answer: Result<Launched, CloudError>) -> Verdict {
        let error = match answer {
            Ok(launched) => {
                self.trouble = None;
                self.launch = Launch::Done(Box::new(launched.instance));
                return Verdict::GoOn;
            }
            Err(error) => error,
        };
        let verdict = self.failed(&error);
        self.launch = match &error {
            CloudError::InsufficientCapacity { .. } | CloudError::ReservationFull { .. } => {
                Launch::Failed(Failure::InsufficientCapacity(error.to_string()))
            }
            CloudError::NotFound { .. } => Launch::Failed(Failure::NodeClassNotReady(error.to_string())),
            // The token was used for another request, by a process that nobody remembers.
            CloudError::InvalidRequest { field, .. } if field == "token" => {
                self.own_token = None;
                Launch::Unknown
            }
            CloudError::OutcomeUnknown { .. } => Launch::Lost(Box::new(request)),
            _ => Launch::Again(Box::new(request)),
        };
        match self.launch {
            Launch::Failed(_) => Verdict::GoOn,
            _ => verdict,
        }
    }

    /// Takes in whether an instance is still there.
    pub(crate) fn got(&mut self, answer: Result<Instance, CloudError>, now: Timestamp) -> Verdict {
        self.asked_at = Some(now);
        match answer {
            Err(CloudError::NotFound { .. }) => self.end = InstanceEnd::Gone(now),
            Ok(instance) if instance.state == berth_cloudprovider::InstanceState::Terminated => {
                self.end = InstanceEnd::Gone(now);
            }
            Ok(_) => {}
            Err(error) => return self.failed(&error),
        }
        Verdict::GoOn
    }

    /// Takes in whether the instance is still what its node class asks for.
    pub(crate) fn drifted(&mut self, answer: Result<Option<Drift>, CloudError>, now: Timestamp) -> Verdict {
        match answer {
            Ok(drift) => self.drift = drift.map(|drift| (drift.reason, drift.message)),
            // What is not there does not drift.
            Err(CloudError::NotFound { .. }) => self.drift = None,
            Err(error) => return self.failed(&error),
        }
        self.trouble = None;
        self.drift_asked_at = Some(now);
        Verdict::GoOn
    }

    /// Takes in the answer to a deletion.
    pub(crate) fn deleted(&mut self, _: &ProviderId, answer: Result<(), CloudError>, now: Timestamp) -> Verdict {
        match answer {
            Ok(()) => self.end = InstanceEnd::Asked(now),
            Err(CloudError::NotFound { .. }) => self.end = InstanceEnd::Gone(now),
            Err(error) => return self.failed(&error),
        }
        self.trouble = None;
        Verdict::GoOn
    }

    fn failed(&mut self, error: &CloudError) -> Verdict {
        self.trouble = Some((error.category().as_str(), error.to_string()));
        match error {
            CloudError::Throttled { retry_after } => Verdict::Later(retry_after.unwrap_or(Duration::from_secs(1))),
            _ => Verdict::Later(Duration::ZERO),
        }
    }
}

// === impl Question ===

impl Question {
    /// One word for logs and metrics, as Karpenter's `method`.
    pub(crate) const fn method(&self) -> &'static str {
        match self {
            Self::Find { .. } | Self::All | Self::Interrupted => "List",
            Self::Types(_) => "GetInstanceTypes",
            Self::Status(_) => "GetNodeClassStatus",
            Self::Create(_) => "Create",
            Self::Get(_) => "Get",
            Self::Drift(_) => "IsDrifted",
            Self::Delete(_) => "Delete",
        }
    }

    /// Whether it changes anything in the cloud.
    pub(crate) const fn changes(&self) -> bool {
        matches!(self, Self::Create(_) | Self::Delete(_))
    }
}
