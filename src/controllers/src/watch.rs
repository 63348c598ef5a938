//! One watch for each kind, into one channel. Nothing is kept beside the state.

use std::time::Duration;

use futures::StreamExt;
use jiff::Timestamp;
use kube::runtime::watcher::{self, watcher};
use kube::{Api, Client, Resource as _};
use serde::de::DeserializeOwned;
use tokio::sync::mpsc::Sender;

use crate::clock::Clock;
use crate::guarded::{Guarded, Unreadable};
use crate::kind::Kind;
use crate::observed::{Object, Observed};

/// How long a kind that the server does not know is left alone: somebody may define it.
const UNKNOWN: Duration = Duration::from_secs(60);
/// The first delay after an error of a watch. Delays double and never jitter, so that a simulation is repeatable.
const SHORTEST: Duration = Duration::from_millis(200);
const LONGEST: Duration = Duration::from_secs(30);

/// How long to wait before a watch is taken up again that has failed so many times since it told something.
fn delay(n_failures: u32, is_unknown: bool) -> Duration {
    if is_unknown {
        return UNKNOWN;
    }
    SHORTEST.saturating_mul(2_u32.saturating_pow(n_failures)).min(LONGEST)
}

/// Watches a kind until the receiver is gone. A list is told as one [`Observed::Listed`]; an object that cannot be read
/// is told as such, and all others go on. With each comes when it was told. A kind that the server does not know counts as having no objects.
pub(crate) async fn watch<K>(client: Client, kind: Kind, clock: Clock, to: Sender<(Timestamp, Observed)>)
where
    K: kube::Resource<DynamicType = ()> + Clone + std::fmt::Debug + DeserializeOwned + Send + 'static,
    Object: From<K>,
{
    let api: Api<Guarded<K>> = Api::all(client);
    let stream = watcher(api, watcher::Config::default());
    futures::pin_mut!(stream);
    let mut listing: Option<Vec<Object>> = None;
    let mut is_told = false;
    let mut n_failures = 0;
    while let Some(event) = stream.next().await {
        // That a list begins says nothing: it comes before each one that fails.
        let pause = match &event {
            Ok(watcher::Event::Init) => None,
            Ok(_) => {
                n_failures = 0;
                None
            }
            Err(error) => {
                let delay = delay(n_failures, is_unknown_kind(error));
                n_failures += 1;
                Some(delay)
            }
        };
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
            if to.send((clock.now(), told)).await.is_err() {
                return;
            }
        }
        // The watcher asks again when it is asked for more.
        if let Some(pause) = pause {
            tokio::time::sleep(pause).await;
        }
    }
}

fn unreadable(kind: Kind, invalid: Unreadable) -> Observed {
    Observed::Unreadable { kind, metadata: Box::new(invalid.metadata), error: invalid.error }
}

fn is_unknown_kind(error: &watcher::Error) -> bool {
    matches!(error, watcher::Error::InitialListFailed(kube::Error::Api(status)) if status.code == 404)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use berth_api::NodeOverlay;
    use berth_apiserver::{ApiServer, Config, RequestLog};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn an_unknown_kind_is_asked_for_once_a_minute_although_each_list_begins() {
        let count = Arc::new(AtomicUsize::new(0));
        let counter = Arc::clone(&count);
        let log = RequestLog::new(move |_| {
            counter.fetch_add(1, Ordering::Relaxed);
        });
        let server = ApiServer::new(Config { log: Some(log), ..Config::default() });
        let (sender, _receiver) = tokio::sync::mpsc::channel(16);
        let clock = Clock::starting_at(Timestamp::UNIX_EPOCH);
        let watching = watch::<NodeOverlay>(Client::new(server, "default"), Kind::NodeOverlay, clock, sender);
        drop(tokio::time::timeout(Duration::from_secs(599), watching).await);
        assert_eq!(count.load(Ordering::Relaxed), 10);
    }

    #[test]
    fn delays_double_to_half_a_minute() {
        let delays: Vec<u64> = (0..10).map(|n| u64::try_from(delay(n, false).as_millis()).unwrap()).collect();
        assert_eq!(delays, [200, 400, 800, 1600, 3200, 6400, 12_800, 25_600, 30_000, 30_000]);
        assert_eq!(delay(u32::MAX, false), LONGEST);
    }
}
