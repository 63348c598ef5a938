//! One watch for each kind, into one channel. Nothing is kept beside the state.

use std::time::Duration;

use futures::StreamExt;
use jiff::Timestamp;
use kube::api::{ListParams, WatchEvent, WatchParams};
use kube::{Api, Client, Resource as _};
use serde::de::DeserializeOwned;
use tokio::sync::mpsc::Sender;

use crate::clock::Clock;
use crate::guarded::Guarded;
use crate::kind::Kind;
use crate::observed::{Object, Observed};

/// How long a kind that the server does not know is left alone: somebody may define it.
const UNKNOWN: Duration = Duration::from_secs(60);
/// The first delay after an error of a watch. Delays double and never jitter, so that a simulation is repeatable.
const SHORTEST: Duration = Duration::from_millis(200);
const LONGEST: Duration = Duration::from_secs(30);
/// Objects of a page of a list, as client-go asks for.
const PAGE: u32 = 500;
/// A watch that the server does not end by then has lost its connection: it is asked to last 290 s.
const LONGEST_SILENCE: Duration = Duration::from_secs(295);

/// How long to wait before a watch is taken up again that has failed so many times since it told something.
fn delay(n_failures: u32, is_unknown: bool) -> Duration {
    if is_unknown {
        return UNKNOWN;
    }
    SHORTEST.saturating_mul(2_u32.saturating_pow(n_failures)).min(LONGEST)
}

/// Watches a kind until the receiver is gone. A list is told as one [`Observed::Listed`], with its version; an object that
/// cannot be read is told as such, too, and all others go on. With each comes when it was told. A kind that the server does not know
/// counts as having no objects.
pub(crate) async fn watch<K>(client: Client, kind: Kind, clock: Clock, to: Sender<(Timestamp, Observed)>)
where
    K: kube::Resource<DynamicType = ()> + Clone + std::fmt::Debug + DeserializeOwned + Send + 'static,
    Object: From<K>,
{
    let api: Api<Guarded<K>> = Api::all(client);
    let mut watch = Watch { api, kind, clock, to, version: None, newest: 0, is_told: false, n_failures: 0 };
    loop {
        let done = match watch.version.clone() {
            None => watch.list().await,
            Some(version) => watch.follow(&version).await,
        };
        let Err(stop) = done else { continue };
        let is_unknown = stop.is_unknown_kind() || stop.may_be_left_out(kind);
        let pause = delay(watch.n_failures, is_unknown);
        watch.n_failures += 1;
        let told = match stop {
            Stop::Closed => return,
            stop if !watch.is_told && stop.is_unknown_kind() => {
                tracing::info!(kind = kind.as_str(), "the server does not know this kind");
                watch.tell(Observed::nothing_of(kind)).await
            }
            stop if !watch.is_told && stop.may_be_left_out(kind) => {
                tracing::warn!(
                    kind = kind.as_str(),
                    %stop,
                    "may not be listed: pods without spread constraints are spread as their controllers alone say"
                );
                watch.tell(Observed::nothing_of(kind)).await
            }
            stop => {
                tracing::debug!(kind = kind.as_str(), %stop, "watch failed");
                Ok(())
            }
        };
        if told.is_err() {
            return;
        }
        tokio::time::sleep(pause).await;
    }
}

/// Why a list or a watch ended.
#[derive(Debug, thiserror::Error)]
enum Stop {
    #[error("the receiver is gone")]
    Closed,
    #[error("the server told no resourceVersion")]
    NoVersion,
    #[error(transparent)]
    Failed(#[from] kube::Error),
}

impl Stop {
    fn has_code(&self, code: u16) -> bool {
        matches!(self, Stop::Failed(kube::Error::Api(status)) if status.code == code)
    }

    /// Whether it is about a kind that decisions can do without, and that may not be read: roles of earlier versions do not
    /// name it.
    fn may_be_left_out(&self, kind: Kind) -> bool {
        kind == Kind::Service && self.has_code(403)
    }

    fn is_unknown_kind(&self) -> bool {
        self.has_code(404)
    }
}

/// A watch of one kind. kube's own watcher does the same, and does not tell which version a list is of.
struct Watch<K> {
    api: Api<Guarded<K>>,
    kind: Kind,
    clock: Clock,
    to: Sender<(Timestamp, Observed)>,
    /// Where to go on; a list comes first.
    version: Option<String>,
    /// The newest version that was told.
    newest: u64,
    /// Whether a list was told.
    is_told: bool,
    /// How often it failed since it told something.
    n_failures: u32,
}

impl<K> Watch<K>
where
    K: kube::Resource<DynamicType = ()> + Clone + std::fmt::Debug + DeserializeOwned + Send + 'static,
    Object: From<K>,
{
    async fn tell(&mut self, observed: Observed) -> Result<(), Stop> {
        self.is_told |= matches!(observed, Observed::Listed { .. });
        self.to.send((self.clock.now(), observed)).await.map_err(|_| Stop::Closed)
    }

    /// Tells all objects, read page by page.
    async fn list(&mut self) -> Result<(), Stop> {
        let (mut objects, mut unreadable) = (Vec::new(), Vec::new());
        let mut next = None;
        let version = loop {
            let params = ListParams { limit: Some(PAGE), continue_token: next, ..ListParams::default() };
            let page = self.api.list(&params).await?;
            self.n_failures = 0;
            for Guarded(item) in page.items {
                match item {
                    Ok(object) => objects.push(Object::from(object)),
                    Err(invalid) => unreadable.push(invalid),
                }
            }
            next = page.metadata.continue_.filter(|token| !token.is_empty());
            if next.is_none() {
                break page.metadata.resource_version;
            }
        };
        let version = version.filter(|version| !version.is_empty()).ok_or(Stop::NoVersion)?;
        let number = version.parse::<u64>().ok();
        // Of a server that was restored from a backup nothing is newer than its list.
        let is_set_back = number.is_some_and(|number| number < self.newest);
        self.newest = number.unwrap_or_default();
        let resource_version = (!is_set_back).then(|| version.clone());
        self.version = Some(version);
        self.tell(Observed::Listed { kind: self.kind, objects, unreadable, resource_version }).await
    }

    /// Tells changes from a version on, until the server ends the watch. A version that is too old is forgotten.
    async fn follow(&mut self, version: &str) -> Result<(), Stop> {
        let opened = self.api.watch(&WatchParams::default(), version).await.map_err(Stop::from);
        let mut stream = match opened {
            Ok(stream) => Box::pin(stream),
            Err(stop) => return Err(self.forget_if_too_old(stop)),
        };
        while let Ok(Some(event)) = tokio::time::timeout(LONGEST_SILENCE, stream.next()).await {
            let (metadata, told) = match event {
                Ok(WatchEvent::Added(guard) | WatchEvent::Modified(guard)) => {
                    let version = guard.meta().resource_version.clone();
                    (
                        version,
                        Some(match guard.0 {
                            Ok(object) => Observed::Applied(Object::from(object)),
                            Err(invalid) => Observed::Unreadable(self.kind, invalid),
                        }),
                    )
                }
                Ok(WatchEvent::Deleted(guard)) => {
                    let metadata = guard.meta().clone();
                    (metadata.resource_version.clone(), Some(Observed::Deleted(self.kind, Box::new(metadata))))
                }
                Ok(WatchEvent::Bookmark(bookmark)) => (Some(bookmark.metadata.resource_version), None),
                Ok(WatchEvent::Error(status)) => {
                    return Err(self.forget_if_too_old(Stop::Failed(kube::Error::Api(status))));
                }
                Err(error) => return Err(Stop::Failed(error)),
            };
            self.version = metadata.filter(|version| !version.is_empty());
            let Some(version) = &self.version else { return Err(Stop::NoVersion) };
            self.newest = version.parse().map_or(self.newest, |version| self.newest.max(version));
            self.n_failures = 0;
            if let Some(told) = told {
                self.tell(told).await?;
            }
        }
        Ok(())
    }

    fn forget_if_too_old(&mut self, stop: Stop) -> Stop {
        if stop.has_code(410) {
            self.version = None;
        }
        stop
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use berth_api::NodeOverlay;
    use berth_apiserver::{ApiServer, Config, RequestLog};
    use k8s_openapi::api::core::v1::Namespace;
    use kube::api::PostParams;

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

    #[tokio::test(start_paused = true)]
    async fn a_list_is_told_with_its_version() {
        let server = ApiServer::new(Config::default());
        let client = || Client::new(server.clone(), "default");
        let (sender, mut receiver) = tokio::sync::mpsc::channel(16);
        let clock = Clock::starting_at(Timestamp::UNIX_EPOCH);
        let watching = tokio::spawn(watch::<Namespace>(client(), Kind::Namespace, clock, sender));
        let Some((_, Observed::Listed { resource_version: Some(listed), .. })) = receiver.recv().await else {
            panic!("no list of a version")
        };
        let mut namespace = Namespace::default();
        namespace.metadata.name = Some("new".to_owned());
        Api::all(client()).create(&PostParams::default(), &namespace).await.unwrap();
        let Some((_, Observed::Applied(told))) = receiver.recv().await else { panic!("no namespace") };
        let newer = told.metadata().resource_version.as_ref().unwrap();
        assert!(newer.parse::<u64>().unwrap() > listed.parse().unwrap(), "{newer} after {listed}");
        watching.abort();
    }

    #[test]
    fn delays_double_to_half_a_minute() {
        let delays: Vec<u64> = (0..10).map(|n| u64::try_from(delay(n, false).as_millis()).unwrap()).collect();
        assert_eq!(delays, [200, 400, 800, 1600, 3200, 6400, 12_800, 25_600, 30_000, 30_000]);
        assert_eq!(delay(u32::MAX, false), LONGEST);
    }
}
