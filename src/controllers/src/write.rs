//! What controllers write, and what became of it.

use serde::Deserialize;
use serde_json::Value;

use crate::kind::NamedObject;

/// One request to the API server that changes one object.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Write {
    /// The object.
    pub(crate) key: NamedObject,
    /// The object's uid as it was seen; empty for one that is to be created.
    pub(crate) uid: String,
    /// The change.
    pub(crate) op: Op,
}

/// A change of one object.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Op {
    /// Create it with this content.
    Create(Value),
    /// Merge this into metadata and spec. With `metadata.resourceVersion`, only over that version.
    Merge(Value),
    /// Merge this into the status. With `metadata.resourceVersion`, only over that version.
    MergeStatus(Value),
    /// Merge these conditions into the status by their types, and leave the others: of kinds that are no custom resources.
    MergeConditions(Value),
    /// Delete it, with a grace period in seconds where the object's own is not wanted.
    Delete {
        /// Seconds that a pod has to end.
        grace: Option<i64>,
    },
    /// Ask for the eviction of a pod, against its disruption budgets.
    Evict,
    /// Bind a pod to a node; annotations and labels come to the pod with it.
    Bind(Value),
    /// Read it, as the outcome of a write is not known.
    Read,
}

// === impl Op ===

impl Op {
    /// One word for logs and metrics.
    pub(crate) const fn verb(&self) -> &'static str {
        match self {
            Self::Create(_) => "create",
            Self::Merge(_) => "patch",
            Self::MergeStatus(_) | Self::MergeConditions(_) => "patch status",
            Self::Delete { .. } => "delete",
            Self::Evict => "evict",
            Self::Bind(_) => "bind",
            Self::Read => "get",
        }
    }
}

/// An object as the server sent it: its text, which is read once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Answered(pub(crate) String);

/// Which version of which object it is.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct Version {
    pub(crate) uid: Option<String>,
    pub(crate) resource_version: Option<String>,
}

// === impl Answered ===

impl Answered {
    pub(crate) fn version(&self) -> Version {
        #[derive(Default, Deserialize)]
        #[serde(default)]
        struct Object {
            metadata: Version,
        }
        serde_json::from_str::<Object>(&self.0).unwrap_or_default().metadata
    }

    /// Whether it tells how a request went, and is no object.
    fn is_status(&self) -> bool {
        #[derive(Default, Deserialize)]
        #[serde(default)]
        struct Object {
            kind: String,
        }
        serde_json::from_str::<Object>(&self.0).is_ok_and(|object| object.kind == "Status")
    }
}

/// What became of a [`Write`].
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Outcome {
    /// Done; the object as it is now, where the server sent it.
    Done(Option<Answered>),
    /// There is no such object.
    NotFound,
    /// Another write came first, or the object exists already.
    Conflict(String),
    /// Not now: a disruption budget or a full server. Seconds to wait, where the server says.
    TooMany {
        /// What the server said.
        message: String,
        /// Seconds to wait.
        retry_after: Option<u32>,
    },
    /// The server will never take this.
    Refused(String),
    /// Nobody knows whether it took effect.
    Unknown(String),
    /// It was not sent, since the lease is lost or may be.
    Fenced,
}

// === impl Outcome ===

impl Outcome {
    /// One word for logs and metrics.
    pub(crate) const fn word(&self) -> &'static str {
        match self {
            Self::Done(_) => "done",
            Self::NotFound => "not found",
            Self::Conflict(_) => "conflict",
            Self::TooMany { .. } => "too many requests",
            Self::Refused(_) => "refused",
            Self::Unknown(_) => "unknown",
            Self::Fenced => "fenced",
        }
    }

    /// What the server or the way to it said; empty where there is nothing to tell.
    pub(crate) fn why(&self) -> &str {
        match self {
            Self::Conflict(why) | Self::Refused(why) | Self::Unknown(why) | Self::TooMany { message: why, .. } => why,
            Self::NotFound => "there is no such object or kind",
            Self::Done(_) | Self::Fenced => "",
        }
    }

    /// The outcome that the client's answer tells.
    pub(crate) fn from_answer(answer: Result<String, kube::Error>) -> Self {
        match answer.map(Answered) {
            // Evictions, bindings and deletions may be answered with a Status.
            Ok(answered) if answered.is_status() => Self::Done(None),
            Ok(answered) => Self::Done(Some(answered)),
            Err(kube::Error::Api(status)) => {
                let message = status.message.clone();
                let retry_after = status.details.as_ref().map(|details| details.retry_after_seconds);
                match status.code {
                    404 => Self::NotFound,
                    409 => Self::Conflict(message),
                    429 => Self::TooMany { message, retry_after: retry_after.filter(|&seconds| seconds > 0) },
                    400..=499 if status.code != 408 => Self::Refused(message),
                    // A 5xx may come from a proxy or after the write.
                    _ => Self::Unknown(message),
                }
            }
            Err(kube::Error::BuildRequest(error)) => Self::Refused(error.to_string()),
            Err(error) => Self::Unknown(error.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kube::core::Status;

    fn answer(code: u16) -> Outcome {
        let status = Status { code, message: "no".to_owned(), ..Status::default() };
        Outcome::from_answer(Err(kube::Error::Api(Box::new(status))))
    }

    #[test]
    fn an_answer_of_the_server_itself_is_told_from_one_that_may_follow_the_write() {
        assert_eq!(answer(404), Outcome::NotFound);
        assert_eq!(answer(409), Outcome::Conflict("no".to_owned()));
        assert_eq!(answer(429), Outcome::TooMany { message: "no".to_owned(), retry_after: None });
        assert_eq!(answer(422), Outcome::Refused("no".to_owned()));
        for code in [408, 500, 502, 503, 504] {
            assert_eq!(answer(code), Outcome::Unknown("no".to_owned()), "{code}");
        }
    }

    #[test]
    fn a_status_is_no_object() {
        assert_eq!(Outcome::from_answer(Ok(r#"{"kind": "Status", "metadata": {}}"#.to_owned())), Outcome::Done(None));
        let pod = r#"{"kind": "Pod", "metadata": {"uid": "u", "resourceVersion": "7", "name": "a"}}"#.to_owned();
        let Outcome::Done(Some(answered)) = Outcome::from_answer(Ok(pod.clone())) else { panic!("{pod}") };
        let version = Version { uid: Some("u".to_owned()), resource_version: Some("7".to_owned()) };
        assert_eq!((answered.version(), answered.0), (version, pod));
    }
}
