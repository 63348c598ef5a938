//! Why AWS did not answer, on one line, with what would help.

use std::error::Error;
use std::fmt;

use aws_credential_types::provider::error::CredentialsError;
use aws_smithy_runtime_api::client::result::SdkError;
use aws_smithy_types::error::metadata::ProvideErrorMetadata;

use crate::statement_for;

/// AWS could not be asked, or did not answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AskError {
    /// What was tried, such as `ec2:DescribeInstanceTypes`; empty where no call was made yet.
    pub action: String,
    /// Why it failed.
    pub cause: Cause,
}

/// Why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Cause {
    /// No region is set.
    NoRegion,
    /// A region that AWS does not take: the region, and what AWS says.
    Region(String, String),
    /// No credentials were found: what was looked at.
    NoCredentials(String),
    /// The credentials are none any more, or never were: what AWS says.
    Credentials(String),
    /// The account's rules deny the calls.
    Denied(Vec<String>),
    /// There was no connection.
    Unreachable(String),
    /// The answer was cut off or no answer.
    Broken(String),
    /// Too many calls, for too long.
    Throttled,
    /// AWS refused, in its own words.
    Refused(String),
    /// Something on this machine.
    Local(String),
}

// === impl AskError ===

impl AskError {
    fn new(action: &str, cause: Cause) -> Self {
        Self { action: action.to_owned(), cause }
    }

    pub(super) fn local(what: &str, message: &str) -> Self {
        Self::new("", Cause::Local(format!("unable to {what}: {}", one_line(message))))
    }

    pub(super) fn no_region() -> Self {
        Self::new("", Cause::NoRegion)
    }

    pub(super) fn bad_region(region: &str) -> Self {
        Self::new("", Cause::Region(region.to_owned(), String::new()))
    }

    pub(super) fn no_credentials(profile: Option<&str>, error: Option<&CredentialsError>) -> Self {
        let why = error.map_or_else(|| "none are configured".to_owned(), |error| innermost(error));
        // What each of the places said that were looked at is a paragraph.
        let why = why.split(". Attempted").next().unwrap_or_default();
        let of = profile.map(|profile| format!("profile {profile:?}: ")).unwrap_or_default();
        Self::new("", Cause::NoCredentials(format!("{of}{why}")))
    }

    /// Of a call of the SDK.
    pub(super) fn of<E, R>(action: &str, region: &str, error: &SdkError<E, R>) -> Self
    where
        E: Error + ProvideErrorMetadata + 'static,
        R: fmt::Debug + 'static,
    {
        let cause = match error {
            SdkError::ServiceError(service) => {
                let metadata = service.err().meta();
                let message = one_line(metadata.message().unwrap_or_default());
                of_code(action, region, metadata.code().unwrap_or_default(), message)
            }
            SdkError::DispatchFailure(_) | SdkError::TimeoutError(_) => Cause::Unreachable(innermost(error)),
            SdkError::ResponseError(_) => Cause::Broken(innermost(error)),
            _ => Cause::Refused(innermost(error)),
        };
        Self::new(action, cause)
    }

    /// Something in an answer that makes no sense.
    pub(super) fn broken(action: &str, message: impl Into<String>) -> Self {
        Self::new(action, Cause::Broken(message.into()))
    }

    /// Several failed calls as one: all denied ones together, else the first.
    pub(super) fn merged(errors: Vec<Self>) -> Option<Self> {
        let denied: Vec<String> = errors
            .iter()
            .filter_map(|error| if let Cause::Denied(actions) = &error.cause { Some(actions.clone()) } else { None })
            .flatten()
            .collect();
        if !denied.is_empty() && errors.iter().all(|error| matches!(error.cause, Cause::Denied(_))) {
            return Some(Self::new("", Cause::Denied(denied)));
        }
        errors.into_iter().next()
    }
}

fn of_code(action: &str, region: &str, code: &str, message: String) -> Cause {
    const DENIED: [&str; 4] =
        ["UnauthorizedOperation", "AccessDenied", "AccessDeniedException", "Client.UnauthorizedOperation"];
    const REGION: [&str; 3] = ["AuthFailure", "OptInRequired", "InvalidClientTokenId"];
    const CREDENTIALS: [&str; 7] = [
        "RequestExpired",
        "ExpiredToken",
        "ExpiredTokenException",
        "UnrecognizedClientException",
        "InvalidSignatureException",
        "SignatureDoesNotMatch",
        "MissingAuthenticationToken",
    ];
    const THROTTLED: [&str; 4] =
        ["RequestLimitExceeded", "Throttling", "ThrottlingException", "TooManyRequestsException"];
    match code {
        code if DENIED.contains(&code) => Cause::Denied(vec![action.to_owned()]),
        code if REGION.contains(&code) => Cause::Region(region.to_owned(), message),
        code if CREDENTIALS.contains(&code) => Cause::Credentials(message),
        code if THROTTLED.contains(&code) => Cause::Throttled,
        "" if message.is_empty() => Cause::Broken("an error without a code".to_owned()),
        code => Cause::Refused(format!("{code}: {message}")),
    }
}

/// The cause of causes: what wraps it says little.
fn innermost(error: &(dyn Error + 'static)) -> String {
    let mut deepest = error;
    while let Some(source) = deepest.source() {
        deepest = source;
    }
    one_line(&deepest.to_string())
}

fn one_line(text: &str) -> String {
    const MOST: usize = 300;
    let line: Vec<&str> = text.split_whitespace().collect();
    line.join(" ").chars().take(MOST).collect()
}

impl fmt::Display for AskError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.action.is_empty() && !matches!(self.cause, Cause::Denied(_)) {
            write!(f, "{}: ", self.action)?;
        }
        match &self.cause {
            Cause::NoRegion => f.write_str("no region: give --region, or set AWS_REGION or the profile's region"),
            Cause::Region(region, said) if said.is_empty() => {
                write!(f, "region {region:?}: expected one such as us-east-1")
            }
            Cause::Region(region, said) => write!(
                f,
                "AWS takes neither region {region} nor these credentials in it: expected a region that the account has \
                 enabled and credentials that are valid there ({said})"
            ),
            Cause::NoCredentials(why) => write!(
                f,
                "no AWS credentials: give --profile, set AWS_PROFILE or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or log in \
                 ({why})"
            ),
            Cause::Credentials(said) => {
                write!(f, "AWS does not take these credentials: renew them or log in again ({said})")
            }
            Cause::Denied(actions) => {
                let statements: Vec<String> = actions.iter().map(|action| statement_for(action)).collect();
                write!(f, "{} denied; this would allow it: {}", actions.join(" and "), statements.join(", "))?;
                f.write_str(" (`berth catalog --print-iam-policy` prints the whole policy)")
            }
            Cause::Unreachable(why) => {
                write!(f, "no connection to AWS: is the region right and the network there? ({why})")
            }
            Cause::Broken(why) => write!(f, "AWS' answer was cut off or is none: try again ({why})"),
            Cause::Throttled => f.write_str("AWS throttles these calls: try again in a minute"),
            Cause::Refused(said) => write!(f, "AWS refused ({said})"),
            Cause::Local(message) => f.write_str(message),
        }
    }
}

impl Error for AskError {}
