//! One watch for each kind, into one channel. Nothing is kept beside the state.

use std::time::Duration;

use futures::StreamExt;
use jiff::Timestamp;
use kube::api::{ListParams, WatchEvent, WatchParams};
use kube::{Api, Client, Resource as _};
use serde::de::DeserializeOwned;
use tokio::sync::mpsc::Sender;
use tokio::time::Instant;

use crate::clock::{Clock, back_off};
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
/// Where the server sends bookmarks it sends one a minute: a connection on which two are missing is lost, though nobody has
/// closed it.
const LONGEST_WITHOUT_BOOKMARK: Duration = Duration::from_secs(150);
/// How long a page of a list may take.
const LONGEST_LIST: Duration = Duration::from_secs(60);
/// The refusal in a row after which a version is given up, whatever it says: a list may get past what a watch does not.
const LISTED_AFTER: u32 = 3;
/// A watch that ends sooner, and told nothing, counts as failed, as client-go's.
const AT_ONCE: Duration = Duration::from_secs(1);
/// A watch that ends sooner, and needs a new list, counts as failed, whatever it told: lists of a large cluster are dear.
const STEADY: Duration = Duration::from_secs(60);
/// The failure in a row that is warned about.
const WARNED_AT: u32 = 2;
/// What API servers give as the cause where they do not have a version yet.
const FUTURE_VERSION: &str = "ResourceVersionTooLarge";

/// How long to wait before a watch is taken up again that has failed so many times since it told something.
fn delay(n_failures: u32, is_unknown: bool) -> Duration {
    if is_unknown {
        return UNKNOWN;
    }
    back_off((SHORTEST, LONGEST), n_failures)
}

/// Watches a kind until the receiver is gone. A list is told as one [`Observed::Listed`], with its version; an object that
/// cannot be read is told as such, too, and all others go on. With each comes when it was told. An optional kind that the server
/// does not know counts as having no objects; any other is asked for until the server knows it. A server whose list is older
/// than what it has told before was restored from a backup: that is told as [`Observed::SetBack`], and is the end.
pub(crate) async fn watch<K>(
    client: Client,
    kind: Kind,
    (clock, longest_silence): (Clock, Duration),
    to: Sender<(Timestamp, Observed)>,
) where
    K: kube::Resource<DynamicType = ()> + Clone + std::fmt::Debug + DeserializeOwned + Send + 'static,
    Object: From<K>,
{
    let api: Api<Guarded<K>> = Api::all(client);
    let mut watch = Watch {
        api,
        kind,
        clock,
        longest_silence,
        to,
        version: None,
        newest: 0,
        is_told: false,
        has_bookmarks: false,
        n_failures: 0,
        n_absent: 0,
    };
    loop {
        let done = match watch.version.clone() {
            None => watch.list().await,
            Some(version) => watch.follow(&version).await,
        };
        let Err(stop) = done else { continue };
        let is_absent = kind.is_optional() && stop.is_unknown_kind();
        let is_left_out = stop.may_be_left_out(kind);
        let pause = delay(watch.n_failures, is_absent || is_left_out);
        watch.n_failures = watch.n_failures.saturating_add(1);
        let told = match stop {
            Stop::Closed | Stop::SetBack => return,
            _ if is_absent => watch.miss().await,
            stop if is_left_out && !watch.is_told => {
                tracing::warn!(
                    kind = kind.as_str(),
                    %stop,
                    "may not be listed: pods without spread constraints are spread as their controllers alone say"
                );
                watch.tell(Observed::nothing_of(kind)).await
            }
            stop => {
                watch.n_absent = 0;
                if watch.n_failures == WARNED_AT {
                    tracing::warn!(kind = kind.as_str(), %stop, "unable to watch; what is known of this kind may be old");
                } else {
                    tracing::debug!(kind = kind.as_str(), %stop, "watch failed");
                }
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
    #[error("the server ended the watch at once")]
    AtOnce,
    #[error("the server did not answer")]
    NoAnswer,
    #[error("the server told version {0} after a later one")]
    Backwards(String),
    #[error("the server was set back to an earlier state")]
    SetBack,
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

    /// Whether a version cannot be gone on from: it is too old, or the server was restored from a backup and has not come to
    /// it yet.
    fn is_about_version(&self) -> bool {
        let is_future = matches!(self, Stop::Failed(kube::Error::Api(status))
            if status.details.iter().flat_map(|details| &details.causes).any(|cause| cause.reason == FUTURE_VERSION));
        self.has_code(410) || is_future
    }

    /// Whether the server answered, and will most likely answer alike again.
    fn is_refusal(&self) -> bool {
        match self {
            Stop::Failed(kube::Error::Api(status)) => !matches!(status.code, 429 | 503 | 504),
            Stop::Failed(kube::Error::SerdeError(_)) => true,
            _ => false,
        }
    }
}

/// A watch of one kind. kube's own watcher does the same, and does not tell which version a list is of.
struct Watch<K> {
    api: Api<Guarded<K>>,
    kind: Kind,
    clock: Clock,
    /// A watch that the server does not end by then has lost its connection: it is asked to last 290 s.
    longest_silence: Duration,
    to: Sender<(Timestamp, Observed)>,
    /// Where to go on; a list comes first.
    version: Option<String>,
    /// The newest version that was told.
    newest: u64,
    /// Whether a list was told.
    is_told: bool,
    /// Whether the server sends bookmarks.
    has_bookmarks: bool,
    /// How often it failed since a change was told, or a watch lasted.
    n_failures: u32,
    /// How often in a row the server did not know the kind.
    n_absent: u32,
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

    /// The server does not know the kind. Once it was known, that may be so for a moment: it is asked a second time.
    async fn miss(&mut self) -> Result<(), Stop> {
        self.version = None;
        self.n_absent = self.n_absent.saturating_add(1);
        let is_news = if self.is_told { self.n_absent == 2 } else { self.n_absent == 1 };
        if !is_news {
            return Ok(());
        }
        tracing::info!(kind = self.kind.as_str(), "the server does not know this kind");
        self.newest = 0;
        self.tell(Observed::nothing_of(self.kind)).await
    }

    /// A page of a list. A connection that was lost without a word answers nothing.
    async fn list_page(&mut self, params: &ListParams) -> Result<kube::api::ObjectList<Guarded<K>>, Stop> {
        let answer = tokio::time::timeout(LONGEST_LIST, self.api.list(params)).await;
        Ok(answer.map_err(|_| Stop::NoAnswer)??)
    }

    /// Tells all objects, read page by page.
    async fn list(&mut self) -> Result<(), Stop> {
        let (mut objects, mut unreadable) = (Vec::new(), Vec::new());
        let mut next = None;
        let version = loop {
            let params = ListParams { limit: Some(PAGE), continue_token: next, ..ListParams::default() };
            let page = self.list_page(&params).await?;
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
        self.n_absent = 0;
        let number = version.parse::<u64>().ok();
        if number.is_some_and(|number| number < self.newest) {
            return Err(self.set_back(&version).await);
        }
        self.newest = number.unwrap_or_default();
        let resource_version = Some(version.clone());
        self.version = Some(version);
        self.tell(Observed::Listed { kind: self.kind, objects, unreadable, resource_version }).await
    }

    /// The server has forgotten what it told. Lists are answered from what is agreed upon, so it was restored from a backup:
    /// then objects have older versions than those that are known, and whoever compares them would never believe it.
    async fn set_back(&mut self, version: &str) -> Stop {
        let (kind, newest) = (self.kind.as_str(), self.newest);
        tracing::warn!(kind, version, newest, "the server is older than what it has told: all is read anew");
        match self.tell(Observed::SetBack).await {
            Ok(()) => Stop::SetBack,
            Err(stop) => stop,
        }
    }

    /// A watch that told nothing, not even a bookmark, may be of a version that the server does not have any more: such a
    /// watch is silent until the server has come so far again.
    async fn look_whether_set_back(&mut self) -> Result<(), Stop> {
        let one = self.list_page(&ListParams { limit: Some(1), ..ListParams::default() }).await?;
        let version = one.metadata.resource_version.unwrap_or_default();
        if version.parse::<u64>().is_ok_and(|number| number < self.newest) {
            return Err(self.set_back(&version).await);
        }
        Ok(())
    }

    /// Tells changes from a version on, until the server ends the watch. A list alone is no success: where no watch lasts,
    /// the next comes later and later.
    async fn follow(&mut self, version: &str) -> Result<(), Stop> {
        let opened = Instant::now();
        let ended = self.tell_changes(version).await;
        let has_lasted = opened.elapsed() >= AT_ONCE;
        let must_list = self.version.is_none();
        if opened.elapsed() >= STEADY || (!must_list && (has_lasted || matches!(ended, Ok(true)))) {
            self.n_failures = 0;
        }
        match ended {
            Ok(false) if !has_lasted => Err(Stop::AtOnce),
            Ok(false) => self.look_whether_set_back().await,
            ended => ended.map(|_| ()),
        }
    }

    /// How long a watch may say nothing.
    fn patience(&self) -> Duration {
        if self.has_bookmarks { LONGEST_WITHOUT_BOOKMARK } else { self.longest_silence }
    }

    /// Tells changes, and in the end whether there were any. A version that is too old is forgotten.
    async fn tell_changes(&mut self, version: &str) -> Result<bool, Stop> {
        let mut has_told = false;
        let params = WatchParams::default();
        let opened = tokio::time::timeout(self.patience(), self.api.watch(&params, version)).await;
        let mut stream = match opened {
            Ok(Ok(stream)) => Box::pin(stream),
            Ok(Err(error)) => return Err(self.forget_version_after(Stop::Failed(error))),
            Err(_) => return Err(Stop::NoAnswer),
        };
        while let Ok(Some(event)) = tokio::time::timeout(self.patience(), stream.next()).await {
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
                Ok(WatchEvent::Bookmark(bookmark)) => {
                    self.has_bookmarks = true;
                    (Some(bookmark.metadata.resource_version), None)
                }
                Ok(WatchEvent::Error(status)) => {
                    return Err(self.forget_version_after(Stop::Failed(kube::Error::Api(status))));
                }
                Err(error) => return Err(self.forget_version_after(Stop::Failed(error))),
            };
            self.version = metadata.filter(|version| !version.is_empty());
            let Some(version) = &self.version else { return Err(Stop::NoVersion) };
            // Of one kind they come in order: a list says what there is.
            if version.parse::<u64>().is_ok_and(|number| number < self.newest) {
                let version = self.version.take().unwrap_or_default();
                return Err(Stop::Backwards(version));
            }
            self.newest = version.parse().unwrap_or(self.newest);
            has_told = true;
            if let Some(told) = told {
                self.tell(told).await?;
            }
        }
        Ok(has_told)
    }

    /// A list comes next where the version is what failed, or where the same was refused again and again.
    fn forget_version_after(&mut self, stop: Stop) -> Stop {
        if stop.is_about_version() || (stop.is_refusal() && self.n_failures.saturating_add(1) >= LISTED_AFTER) {
            self.version = None;
        }
        stop
    }
}

#[cfg(test)]
mod tests;
