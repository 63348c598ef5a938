//! One watch for each kind, into one channel. Nothing is kept beside the state.

use std::time::Duration;

use futures::StreamExt;
use kube::core::DeserializeGuard;
use kube::runtime::watcher::{self, watcher};
use kube::runtime::{WatchStreamExt, utils::Backoff};
use kube::{Api, Client, Resource as _};
use serde::de::DeserializeOwned;
use tokio::sync::mpsc::Sender;

use crate::kind::Kind;
use crate::observed::{Object, Observed};

/// Delays after errors of a watch: they double and never jitter, so that a simulation is repeatable.
#[derive(Debug, Default)]
struct Delays {
    n_failures: u32,
}

impl Iterator for Delays {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        let delay = Duration::from_millis(200).saturating_mul(2_u32.saturating_pow(self.n_failures));
        self.n_failures = self.n_failures.saturating_add(1);
        Some(delay.min(Duration::from_secs(30)))
    }
}

impl Backoff for Delays {
    fn reset(&mut self) {
        self.n_failures = 0;
    }
}

/// Watches a kind until the receiver is gone. A list is told as one [`Observed::Listed`]; an object that cannot be read
/// is told as such, and all others go on. A kind that the server does not know counts as having no objects.
pub(crate) async fn watch<K>(client: Client, kind: Kind, to: Sender<Observed>)
where
    K: kube::Resource<DynamicType = ()> + Clone + std::fmt::Debug + DeserializeOwned + Send + 'static,
    Object: From<K>,
{
    let api: Api<DeserializeGuard<K>> = Api::all(client);
    let stream = watcher(api, watcher::Config::default()).backoff(Delays::default());
    futures::pin_mut!(stream);
    let mut listing: Option<Vec<Object>> = None;
    let mut is_told = false;
    while let Some(event) = stream.next().await {
        let told = match event {
            Ok(watcher::Event::Init) => {
                listing = Some(Vec::new());
                None
            }
            Ok(watcher::Event::InitApply(guard)) => match guard.0 {
                Ok(object) => {
                    listing.get_or_insert_default().push(Object::from(object));
                    None
                }
                Err(invalid) => Some(unreadable(kind, invalid)),
            },
            Ok(watcher::Event::InitDone) => Some(Observed::Listed(kind, listing.take().unwrap_or_default())),
            Ok(watcher::Event::Apply(guard)) => Some(match guard.0 {
                Ok(object) => Observed::Applied(Object::from(object)),
                Err(invalid) => unreadable(kind, invalid),
            }),
            Ok(watcher::Event::Delete(guard)) => Some(Observed::Deleted(kind, Box::new(guard.meta().clone()))),
            Err(error) if !is_told && is_unknown_kind(&error) => {
                tracing::info!(kind = kind.as_str(), "the server does not know this kind");
                Some(Observed::Listed(kind, Vec::new()))
            }
            Err(error) => {
                tracing::debug!(kind = kind.as_str(), %error, "watch failed");
                None
            }
        };
        if let Some(told) = told {
            is_told |= matches!(told, Observed::Listed(..));
            if to.send(told).await.is_err() {
                return;
            }
        }
    }
}

fn unreadable(kind: Kind, invalid: kube::core::error_boundary::InvalidObject) -> Observed {
    Observed::Unreadable { kind, metadata: Box::new(invalid.metadata), error: invalid.error }
}

fn is_unknown_kind(error: &watcher::Error) -> bool {
    matches!(error, watcher::Error::InitialListFailed(kube::Error::Api(status)) if status.code == 404)
}
