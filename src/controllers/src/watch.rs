//! One watch for each kind, into one channel. Nothing is kept beside the state.

use std::time::Duration;

use futures::StreamExt;
use jiff::Timestamp;
use kube::api::{ListParams, WatchEvent, WatchParams};
use kube::{Api, Client, Resource as _};
use serde::de::DeserializeOwned;
use tokio::sync::mpsc::Sender;
use tokio::time::Instant;

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

/// How long to wait before a watch is taken up again that has failed so many times since it told something.
fn delay(n_failures: u32, is_unknown: bool) -> Duration {
    if is_unknown {
        return UNKNOWN;
    }
    SHORTEST.saturating_mul(2_u32.saturating_pow(n_failures)).min(LONGEST)
}

/// Watches a kind until the receiver is gone. A list is told as one [`Observed::Listed`], with its version; an object that
/// cannot be read is told as such, too, and all others go on. With each comes when it was told. An optional kind that the server
/// does not know counts as having no objects; any other is asked for until the server knows it. A server whose list is older
/// than what it has told before was restored from a backup: that is told as [`Observed::SetBack`], and is the end.
pub(crate) async fn watch<K>(client: Client, kind: Kind, clock: Clock, to: Sender<(Timestamp, Observed)>)
where
    K: kube::Resource<DynamicType = ()> + Clone + std::fmt::Debug + DeserializeOwned + Send + 'static,
    Object: From<K>,
{
    let api: Api<Guarded<K>> = Api::all(client);
    let mut watch = Watch {
        api,
        kind,
        clock,
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
            if status.code == 504 && status.message.contains("Too large resource version"));
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
        if self.has_bookmarks { LONGEST_WITHOUT_BOOKMARK } else { LONGEST_SILENCE }
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
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use berth_api::NodeOverlay;
    use berth_apiserver::{ApiServer, Config, RequestLog};
    use http_body_util::BodyExt;
    use k8s_openapi::api::core::v1::Namespace;
    use kube::api::PostParams;
    use serde_json::json;

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

    type Answer = dyn Fn(&str, usize) -> (u16, serde_json::Value) + Send + Sync;

    /// Answers each request as a test says, by its query and how many came before.
    #[derive(Clone)]
    struct Scripted {
        answer: Arc<Answer>,
        n_requests: Arc<AtomicUsize>,
        /// Whether watches are left open, and say nothing more.
        stalls: bool,
    }

    type Body = http_body_util::combinators::UnsyncBoxBody<bytes::Bytes, std::convert::Infallible>;

    /// A body that never ends.
    fn stalled(text: Vec<u8>) -> Body {
        let frame = Ok(http_body::Frame::data(bytes::Bytes::from(text)));
        let frames = futures::stream::iter([frame]).chain(futures::stream::pending());
        http_body_util::StreamBody::new(frames).boxed_unsync()
    }

    /// An event of a watch: its type and its object.
    type WatchedEvent = (&'static str, serde_json::Value);

    /// Events of a watch, a line each. A server tells the type first.
    fn events(events: &[WatchedEvent]) -> (u16, serde_json::Value) {
        let line = |(type_, object): &WatchedEvent| format!(r#"{{"type":"{type_}","object":{object}}}"#);
        (200, json!(events.iter().map(line).collect::<Vec<_>>().join("\n")))
    }

    fn added(version: &str) -> WatchedEvent {
        let metadata = json!({"name": "b", "resourceVersion": version});
        ("ADDED", json!({"kind": "Namespace", "apiVersion": "v1", "metadata": metadata}))
    }

    fn bookmark(version: &str) -> WatchedEvent {
        let metadata = json!({"resourceVersion": version, "creationTimestamp": null});
        ("BOOKMARK", json!({"kind": "Namespace", "apiVersion": "v1", "metadata": metadata}))
    }

    impl tower_service::Service<http::Request<kube::client::Body>> for Scripted {
        type Response = http::Response<Body>;
        type Error = std::convert::Infallible;
        type Future = std::future::Ready<Result<Self::Response, Self::Error>>;

        fn poll_ready(&mut self, _: &mut std::task::Context<'_>) -> std::task::Poll<Result<(), Self::Error>> {
            std::task::Poll::Ready(Ok(()))
        }

        fn call(&mut self, request: http::Request<kube::client::Body>) -> Self::Future {
            let n = self.n_requests.fetch_add(1, Ordering::Relaxed);
            assert!(n < 1000, "no end of requests");
            let query = request.uri().query().unwrap_or_default();
            let (code, body) = (self.answer)(query, n);
            let body = match body {
                serde_json::Value::Null => Vec::new(),
                serde_json::Value::String(lines) => format!("{lines}\n").into_bytes(),
                body => body.to_string().into_bytes(),
            };
            let body = if self.stalls && query.contains("watch=") && code == 200 {
                stalled(body)
            } else {
                http_body_util::Full::from(body).boxed_unsync()
            };
            let mut response = http::Response::new(body);
            *response.status_mut() = http::StatusCode::from_u16(code).unwrap();
            std::future::ready(Ok(response))
        }
    }

    /// How many requests there are in so many seconds, and what is told: the number of objects of each list.
    async fn watched<K>(
        kind: Kind,
        seconds: u64,
        answer: impl Fn(&str, usize) -> (u16, serde_json::Value) + Send + Sync + 'static,
    ) -> (usize, Vec<(usize, Option<String>)>)
    where
        K: kube::Resource<DynamicType = ()> + Clone + std::fmt::Debug + DeserializeOwned + Send + 'static,
        Object: From<K>,
    {
        let server = Scripted { answer: Arc::new(answer), n_requests: Arc::default(), stalls: false };
        let (n_requests, lists, _) = watched_at::<K>(server, kind, seconds).await;
        (n_requests, lists)
    }

    /// The same, of a server as it is, and whether it was said to be set back.
    async fn watched_at<K>(server: Scripted, kind: Kind, seconds: u64) -> (usize, Vec<(usize, Option<String>)>, bool)
    where
        K: kube::Resource<DynamicType = ()> + Clone + std::fmt::Debug + DeserializeOwned + Send + 'static,
        Object: From<K>,
    {
        let (sender, mut receiver) = tokio::sync::mpsc::channel(1024);
        let clock = Clock::starting_at(Timestamp::UNIX_EPOCH);
        let watching = watch::<K>(Client::new(server.clone(), "default"), kind, clock, sender);
        drop(tokio::time::timeout(Duration::from_secs(seconds), watching).await);
        let (mut lists, mut is_set_back) = (Vec::new(), false);
        while let Ok((_, told)) = receiver.try_recv() {
            is_set_back |= matches!(told, Observed::SetBack);
            if let Observed::Listed { objects, resource_version, .. } = told {
                lists.push((objects.len(), resource_version));
            }
        }
        (server.n_requests.load(Ordering::Relaxed), lists, is_set_back)
    }

    fn page(names: &[&str], next: &str) -> (u16, serde_json::Value) {
        let items: Vec<_> =
            names.iter().map(|name| json!({"metadata": {"name": name, "resourceVersion": "5"}})).collect();
        (200, json!({"metadata": {"resourceVersion": "5", "continue": next}, "items": items}))
    }

    fn refusal(code: u16) -> (u16, serde_json::Value) {
        (
            code,
            json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "", "message": "", "code": code}),
        )
    }

    #[tokio::test(start_paused = true)]
    async fn what_fails_again_and_again_is_asked_for_later_and_later() {
        fn is_watch(query: &str) -> bool {
            query.contains("watch=")
        }
        // A watch that the server ends at once, and one whose version is always too old: each list begins well.
        let ended = |query: &str, _| if is_watch(query) { (200, serde_json::Value::Null) } else { page(&["a"], "") };
        let too_old = |query: &str, _| if is_watch(query) { refusal(410) } else { page(&["a"], "") };
        let cut = |query: &str, _| if query.contains("continue=") { refusal(500) } else { page(&["a"], "next") };
        // 0.2, 0.4, … 12.8 and 25.6 s, then 30 s: a dozen rounds in five minutes.
        let n_requests = [
            watched::<Namespace>(Kind::Namespace, 240, ended).await.0,
            watched::<Namespace>(Kind::Namespace, 240, too_old).await.0,
            watched::<Namespace>(Kind::Namespace, 240, cut).await.0,
        ];
        assert!(n_requests.iter().all(|n| (10..40).contains(n)), "{n_requests:?}");
    }

    async fn stalling(
        seconds: u64,
        answer: impl Fn(&str, usize) -> (u16, serde_json::Value) + Send + Sync + 'static,
    ) -> (usize, Vec<(usize, Option<String>)>, bool) {
        let server = Scripted { answer: Arc::new(answer), n_requests: Arc::default(), stalls: true };
        watched_at::<Namespace>(server, Kind::Namespace, seconds).await
    }

    #[tokio::test(start_paused = true)]
    async fn a_watch_that_stalls_is_given_up_sooner_where_bookmarks_are_missing() {
        let n_watches = Arc::new(AtomicUsize::new(0));
        let count = |n: &Arc<AtomicUsize>, first: WatchedEvent| {
            let n = Arc::clone(n);
            move |query: &str, _: usize| {
                if !query.contains("watch=") {
                    return page(&["a"], "");
                }
                n.fetch_add(1, Ordering::Relaxed);
                events(std::slice::from_ref(&first))
            }
        };
        stalling(1000, count(&n_watches, bookmark("7"))).await;
        assert_eq!(n_watches.swap(0, Ordering::Relaxed), 7, "one each 150 s");
        // A server that sends none may be silent for as long as it was asked to.
        stalling(1000, count(&n_watches, added("7"))).await;
        assert_eq!(n_watches.load(Ordering::Relaxed), 4, "one each 295 s");
    }

    #[tokio::test(start_paused = true)]
    async fn a_version_that_goes_backwards_brings_a_new_list_and_ever_later_ones() {
        // The list is of version 5.
        let answer =
            |query: &str, _| if query.contains("watch=") { events(&[bookmark("4")]) } else { page(&["a"], "") };
        let (n_requests, lists, is_set_back) = stalling(240, answer).await;
        assert!((8..=16).contains(&lists.len()), "{} lists", lists.len());
        assert_eq!((n_requests, is_set_back), (2 * lists.len(), false));
    }

    #[tokio::test(start_paused = true)]
    async fn a_watch_that_is_too_old_again_and_again_is_listed_later_and_later_though_it_tells_much() {
        let answer = |query: &str, n: usize| {
            // Each list, and each change, is newer than all before.
            let version = (7 + n).to_string();
            if !query.contains("watch=") {
                let (code, mut body) = page(&["a", "b"], "");
                body["metadata"]["resourceVersion"] = json!(version);
                return (code, body);
            }
            events(&[added(&version), ("ERROR", refusal(410).1)])
        };
        let n = watched::<Namespace>(Kind::Namespace, 240, answer).await.1.len();
        assert!((8..=16).contains(&n), "{n} lists");
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_that_is_set_back_is_noticed_though_its_watch_only_stalls() {
        let answer = |query: &str, n| match n {
            0 => (200, json!({"metadata": {"resourceVersion": "9"}, "items": []})),
            // Restored from a backup: the watch waits for versions that are yet to come.
            _ if query.contains("watch=") => (200, serde_json::Value::Null),
            _ => page(&["a"], ""),
        };
        let (n_requests, lists, is_set_back) = stalling(1000, answer).await;
        assert_eq!((n_requests, lists, is_set_back), (3, vec![(0, Some("9".to_owned()))], true));
        // And where its watch is refused, by the list that follows.
        let answer = |query: &str, n| match n {
            0 => (200, json!({"metadata": {"resourceVersion": "9"}, "items": []})),
            _ if query.contains("watch=") => refusal(410),
            _ => page(&["a"], ""),
        };
        assert!(stalling(1000, answer).await.2);
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_that_is_set_back_is_noticed_where_its_watch_is_refused_as_of_the_future() {
        let answer = |query: &str, n| match n {
            0 => (200, json!({"metadata": {"resourceVersion": "9"}, "items": []})),
            _ if query.contains("watch=") => {
                let mut refusal = refusal(504);
                refusal.1["message"] = json!("Timeout: Too large resource version: 9, current: 5");
                refusal
            }
            _ => page(&["a"], ""),
        };
        assert!(stalling(60, answer).await.2);
    }

    #[tokio::test(start_paused = true)]
    async fn what_a_watch_cannot_get_past_is_read_by_a_list() {
        let refused =
            |code| move |query: &str, _: usize| if query.contains("watch=") { refusal(code) } else { page(&["a"], "") };
        let lists = watched::<Namespace>(Kind::Namespace, 60, refused(500)).await.1;
        assert!(lists.len() > 1, "{lists:?}");
        // A server that has no time is not asked for more.
        assert_eq!(watched::<Namespace>(Kind::Namespace, 60, refused(429)).await.1.len(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn a_list_that_is_not_answered_is_asked_for_again() {
        #[derive(Clone)]
        struct SilentAtFirst(ApiServer, Arc<AtomicUsize>);

        impl tower_service::Service<http::Request<kube::client::Body>> for SilentAtFirst {
            type Response = http::Response<berth_apiserver::Body>;
            type Error = std::convert::Infallible;
            type Future = futures::future::BoxFuture<'static, Result<Self::Response, Self::Error>>;

            fn poll_ready(&mut self, _: &mut std::task::Context<'_>) -> std::task::Poll<Result<(), Self::Error>> {
                std::task::Poll::Ready(Ok(()))
            }

            fn call(&mut self, request: http::Request<kube::client::Body>) -> Self::Future {
                if self.1.fetch_add(1, Ordering::Relaxed) == 0 {
                    return Box::pin(std::future::pending());
                }
                Box::pin(self.0.call(request))
            }
        }

        let server = SilentAtFirst(ApiServer::new(Config::default()), Arc::default());
        let (sender, mut receiver) = tokio::sync::mpsc::channel(16);
        let clock = Clock::starting_at(Timestamp::UNIX_EPOCH);
        let watching = tokio::spawn(watch::<Namespace>(Client::new(server, "default"), Kind::Namespace, clock, sender));
        let told = tokio::time::timeout(Duration::from_secs(120), receiver.recv()).await;
        assert!(matches!(told, Ok(Some((_, Observed::Listed { .. })))), "{told:?}");
        watching.abort();
    }

    #[tokio::test(start_paused = true)]
    async fn what_a_cluster_must_have_is_not_taken_for_absent() {
        let answer = |query: &str, n| match n {
            0..8 => refusal(404),
            _ if query.contains("watch=") => refusal(500),
            _ => page(&["a", "b"], ""),
        };
        let (_, lists) = watched::<Namespace>(Kind::Namespace, 240, answer).await;
        assert!(!lists.is_empty() && lists.iter().all(|list| *list == (2, Some("5".to_owned()))), "{lists:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn an_optional_kind_that_is_not_served_any_more_has_no_objects() {
        let answer = |query: &str, n| match n {
            0 => (
                200,
                json!({"metadata": {"resourceVersion": "5"}, "items": [
                {"metadata": {"name": "a", "resourceVersion": "5"}, "spec": {"requirements": []}}]}),
            ),
            _ if query.contains("watch=") || n < 5 => refusal(404),
            _ => page(&[], ""),
        };
        let (_, lists) = watched::<NodeOverlay>(Kind::NodeOverlay, 600, answer).await;
        // Absent for a moment is not absent; a minute later it is, and then it comes again.
        assert_eq!(
            lists.iter().take(3).cloned().collect::<Vec<_>>(),
            [(1, Some("5".to_owned())), (0, None), (0, Some("5".to_owned()))]
        );
    }

    #[test]
    fn delays_double_to_half_a_minute() {
        let delays: Vec<u64> = (0..10).map(|n| u64::try_from(delay(n, false).as_millis()).unwrap()).collect();
        assert_eq!(delays, [200, 400, 800, 1600, 3200, 6400, 12_800, 25_600, 30_000, 30_000]);
        assert_eq!(delay(u32::MAX, false), LONGEST);
    }
}
