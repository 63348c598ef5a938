//! The token by which a cloud tells a repeated launch from a new one.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// The most characters of a token: EC2's limit of a ClientToken.
const MAX_CHARS: usize = 64;

/// Names one attempt of one launch: the batch that decided it and the number of the attempt.
///
/// It is persisted before the call. A retry with the same parameters keeps the token; a retry with other parameters is
/// another attempt. Its text is `batch.attempt`, at most 64 characters, of letters, digits, `-` and `.`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct LaunchToken {
    batch: String,
    attempt: u32,
}

/// A text that is no token.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} is no launch token, expected a batch of letters, digits, '-' and '.', then '.' and a number; 64 characters at most"
)]
pub struct TokenError(String);

// === impl LaunchToken ===

impl LaunchToken {
    /// The token of an attempt of a batch.
    ///
    /// # Errors
    /// A batch that is empty, too long, or has other characters than letters, digits, `-` and `.`.
    pub fn new(batch: impl Into<String>, attempt: u32) -> Result<Self, TokenError> {
        let token = Self { batch: batch.into(), attempt };
        let text = token.to_string();
        let fits = !token.batch.is_empty()
            && text.len() <= MAX_CHARS
            && token.batch.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.'));
        if fits { Ok(token) } else { Err(TokenError(text)) }
    }

    /// What decided the launch: unique for each NodeClaim of each pass of provisioning.
    pub fn batch(&self) -> &str {
        &self.batch
    }

    /// The attempt, from 1.
    pub const fn attempt(&self) -> u32 {
        self.attempt
    }

    /// The token of the next attempt: the same launch with other parameters.
    ///
    /// # Errors
    /// Where the attempt's number no longer fits 64 characters.
    pub fn next_attempt(&self) -> Result<Self, TokenError> {
        let attempt = self.attempt.checked_add(1).ok_or_else(|| TokenError(self.to_string()))?;
        Self::new(self.batch.clone(), attempt)
    }
}

impl fmt::Display for LaunchToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.batch, self.attempt)
    }
}

impl TryFrom<String> for LaunchToken {
    type Error = TokenError;

    fn try_from(text: String) -> Result<Self, TokenError> {
        text.parse()
    }
}

impl From<LaunchToken> for String {
    fn from(token: LaunchToken) -> Self {
        token.to_string()
    }
}

impl FromStr for LaunchToken {
    type Err = TokenError;

    fn from_str(text: &str) -> Result<Self, TokenError> {
        let parsed = text.rsplit_once('.').and_then(|(batch, attempt)| {
            // A sign or leading zeros would make two texts of one token.
            let number = attempt.parse().ok().filter(|number: &u32| number.to_string() == attempt)?;
            Self::new(batch, number).ok()
        });
        parsed.ok_or_else(|| TokenError(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_read_as_it_is_written() {
        let token = LaunchToken::new("default-7f3a.b", 12).unwrap();
        assert_eq!(token.to_string(), "default-7f3a.b.12");
        assert_eq!(token.to_string().parse(), Ok(token.clone()));
        assert_eq!(token.next_attempt().unwrap().to_string(), "default-7f3a.b.13");
    }

    #[test]
    fn what_is_no_token_is_refused() {
        let long = format!("{}.1", "a".repeat(63));
        for text in ["", ".1", "a", "a.", "a.01", "a.+1", "a b.1", "a.4294967296", "ä.1", long.as_str()] {
            assert!(text.parse::<LaunchToken>().is_err(), "{text:?} was read as a token");
        }
        assert!(LaunchToken::new("a", u32::MAX).unwrap().next_attempt().is_err());
    }
}
