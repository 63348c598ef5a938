//! Asks AWS. The one part of this crate with a network: thin, so that all that an answer means is decided elsewhere.
//!
//! TLS is rustls with ring and the system's certificates. Throttled and broken calls are tried again, a few times.
//! `AWS_ENDPOINT_URL` and its kin are obeyed.

mod answers;
mod calls;
mod error;
mod prices;

use std::time::Duration;

use aws_config::profile::ProfileFileCredentialsProvider;
use aws_config::provider_config::ProviderConfig;
use aws_config::retry::RetryConfig;
use aws_config::timeout::TimeoutConfig;
use aws_config::{BehaviorVersion, Region, SdkConfig};
use aws_credential_types::provider::ProvideCredentials;
use aws_smithy_http_client::tls::{self, rustls_provider::CryptoMode};
use jiff::Timestamp;

pub use error::{AskError, Cause};

use crate::{Account, CapacityReservation};

const ATTEMPTS: u32 = 6;
const FIRST_WAIT: Duration = Duration::from_millis(100);
const CONNECT: Duration = Duration::from_secs(5);
const ATTEMPT: Duration = Duration::from_secs(20);
/// Of one call (a page), all attempts together: an endpoint that takes calls and never answers is told of within a minute.
const CALL: Duration = Duration::from_secs(50);

/// An account in a region, with the credentials to read it.
pub struct Aws {
    runtime: tokio::runtime::Runtime,
    ec2: aws_sdk_ec2::Client,
    pricing: aws_sdk_pricing::Client,
    sts: aws_sdk_sts::Client,
    region: String,
}

/// Where on-demand prices come from.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum PriceSource {
    /// AWS' price list; the bundled table where that cannot be reached.
    #[default]
    PriceList,
    /// The bundled table.
    Bundled,
}

/// Something that is being read, for a progress line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Step {
    /// What, such as "instance types".
    pub what: &'static str,
    /// How many were read.
    pub count: usize,
    /// Whether these are all.
    pub is_done: bool,
}

// === impl Aws ===

impl Aws {
    /// Finds region and credentials as every AWS tool does: flags, environment, profile, and the machine's own role.
    ///
    /// # Errors
    /// No region, one that cannot be one, or no credentials.
    pub fn connect(region: Option<&str>, profile: Option<&str>) -> Result<Self, AskError> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|error| AskError::local("start a runtime", &error.to_string()))?;
        let config = runtime.block_on(configure(region, profile));
        let found = config.region().map(ToString::to_string).ok_or_else(AskError::no_region)?;
        if !is_region(&found) {
            return Err(AskError::bad_region(&found));
        }
        let provider = config.credentials_provider();
        let credentials = runtime.block_on(async {
            match provider {
                Some(provider) => provider.provide_credentials().await.map(|_| ()).map_err(Some),
                None => Err(None),
            }
        });
        credentials.map_err(|error| AskError::no_credentials(profile, error.as_ref()))?;
        let endpoint = prices::price_list_of(&found).map_or("us-east-1", |list| list.endpoint);
        let pricing = aws_sdk_pricing::config::Builder::from(&config).region(Region::new(endpoint)).build();
        Ok(Self {
            ec2: aws_sdk_ec2::Client::new(&config),
            pricing: aws_sdk_pricing::Client::from_conf(pricing),
            sts: aws_sdk_sts::Client::new(&config),
            region: found,
            runtime,
        })
    }

    /// The region.
    pub fn region(&self) -> &str {
        &self.region
    }

    /// Reads everything that a catalogue takes: all calls at once, each page by page.
    ///
    /// # Errors
    /// The first call that failed, in a fixed order; of denied calls, all.
    pub fn account(
        &self,
        os: &str,
        prices: PriceSource,
        now: Timestamp,
        progress: &dyn Fn(Step),
    ) -> Result<Account, AskError> {
        self.runtime.block_on(calls::account(self, os, prices, now, progress))
    }

    /// The capacity reservations alone, and the account's number.
    ///
    /// # Errors
    /// As [`Self::account`].
    pub fn reservations(&self, progress: &dyn Fn(Step)) -> Result<(Vec<CapacityReservation>, String), AskError> {
        self.runtime.block_on(calls::reservations_and_caller(self, progress))
    }
}

async fn configure(region: Option<&str>, profile: Option<&str>) -> SdkConfig {
    let client =
        aws_smithy_http_client::Builder::new().tls_provider(tls::Provider::Rustls(CryptoMode::Ring)).build_https();
    let timeouts = TimeoutConfig::builder()
        .connect_timeout(CONNECT)
        .operation_attempt_timeout(ATTEMPT)
        .operation_timeout(CALL)
        .build();
    let retries = RetryConfig::standard().with_max_attempts(ATTEMPTS).with_initial_backoff(FIRST_WAIT);
    let mut loader = aws_config::defaults(BehaviorVersion::latest())
        .http_client(client.clone())
        .retry_config(retries)
        .timeout_config(timeouts);
    if let Some(region) = region {
        loader = loader.region(Region::new(region.to_owned()));
    }
    if let Some(profile) = profile {
        // A profile that is asked for goes before keys in the environment, as in AWS' own tools.
        let provider = ProviderConfig::without_region()
            .with_http_client(client)
            .with_region(region.map(|region| Region::new(region.to_owned())));
        let credentials = ProfileFileCredentialsProvider::builder().configure(&provider).profile_name(profile).build();
        loader = loader.profile_name(profile).credentials_provider(credentials);
    }
    loader.load().await
}

/// Whether it looks like a region: `us-east-1`, `us-gov-west-1`.
fn is_region(text: &str) -> bool {
    let parts: Vec<&str> = text.split('-').collect();
    let [words @ .., number] = parts.as_slice() else { return false };
    let is_word = |word: &&str| !word.is_empty() && word.bytes().all(|b| b.is_ascii_lowercase());
    words.len() >= 2 && words.iter().all(is_word) && !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::is_region;

    #[test]
    fn regions_are_words_and_a_number() {
        assert!(["us-east-1", "us-gov-west-1", "ap-southeast-2", "eusc-de-east-1"].into_iter().all(is_region));
        assert!(
            ["us-east", "useast1", "us-east-1a", "", "us--1", "-east-1", "us-east-1\n"]
                .into_iter()
                .all(|r| !is_region(r))
        );
    }
}
