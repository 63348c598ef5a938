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
/// A watch that ends sooner, and told nothing, counts as failed, as client-go's.
const AT_ONCE: Duration = Duration::from_secs(1);
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
/// does not know counts as having no objects; any other is asked for until the server knows it.
pub(crate) async fn watch<K>(client: Client, kind: Kind, clock: Clock, to: Sender<(Timestamp, Observed)>)
where
    K: kube::Resource<DynamicType = ()> + Clone + std::fmt::Debug + DeserializeOwned + Send + 'static,
    Object: From<K>,
{
    let api: Api<Guarded<K>> = Api::all(client);
    let mut watch =
        Watch { api, kind, clock, to, version: None, newest: 0, is_told: false, n_failures: 0, n_absent: 0 };
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
            Stop::Closed => return,
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

    /// Tells all objects, read page by page.
    async fn list(&mut self) -> Result<(), Stop> {
        let (mut objects, mut unreadable) = (Vec::new(), Vec::new());
        let mut next = None;
        let version = loop {
            let params = ListParams { limit: Some(PAGE), continue_token: next, ..ListParams::default() };
            let page = self.api.list(&params).await?;
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
        // Of a server that was restored from a backup nothing is newer than its list.
        let is_set_back = number.is_some_and(|number| number < self.newest);
        self.newest = number.unwrap_or_default();
        let resource_version = (!is_set_back).then(|| version.clone());
        self.version = Some(version);
        self.tell(Observed::Listed { kind: self.kind, objects, unreadable, resource_version }).await
    }

    /// Tells changes from a version on, until the server ends the watch. A list alone is no success: where no watch lasts,
    /// the next comes later and later.
    async fn follow(&mut self, version: &str) -> Result<(), Stop> {
        let opened = Instant::now();
        let ended = self.tell_changes(version).await;
        let has_lasted = opened.elapsed() >= AT_ONCE;
        if has_lasted {
            self.n_failures = 0;
        }
        match ended {
            Ok(false) if !has_lasted => Err(Stop::AtOnce),
            ended => ended.map(|_| ()),
        }
    }

    /// Tells changes, and in the end whether there were any. A version that is too old is forgotten.
    async fn tell_changes(&mut self, version: &str) -> Result<bool, Stop> {
        let mut has_told = false;
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
            has_told = true;
            self.n_failures = 0;
            if let Some(told) = told {
                self.tell(told).await?;
            }
        }
        Ok(has_told)
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
    }

    impl tower_service::Service<http::Request<kube::client::Body>> for Scripted {
        type Response = http::Response<kube::client::Body>;
        type Error = std::convert::Infallible;
        type Future = std::future::Ready<Result<Self::Response, Self::Error>>;

        fn poll_ready(&mut self, _: &mut std::task::Context<'_>) -> std::task::Poll<Result<(), Self::Error>> {
            std::task::Poll::Ready(Ok(()))
        }

        fn call(&mut self, request: http::Request<kube::client::Body>) -> Self::Future {
            let n = self.n_requests.fetch_add(1, Ordering::Relaxed);
            assert!(n < 1000, "no end of requests");
            let (code, body) = (self.answer)(request.uri().query().unwrap_or_default(), n);
            let body = if body.is_null() { Vec::new() } else { body.to_string().into_bytes() };
            let mut response = http::Response::new(kube::client::Body::from(body));
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
        let server = Scripted { answer: Arc::new(answer), n_requests: Arc::default() };
        let (sender, mut receiver) = tokio::sync::mpsc::channel(1024);
        let clock = Clock::starting_at(Timestamp::UNIX_EPOCH);
        let watching = watch::<K>(Client::new(server.clone(), "default"), kind, clock, sender);
        drop(tokio::time::timeout(Duration::from_secs(seconds), watching).await);
        let mut lists = Vec::new();
        while let Ok((_, told)) = receiver.try_recv() {
            if let Observed::Listed { objects, resource_version, .. } = told {
                lists.push((objects.len(), resource_version));
            }
        }
        (server.n_requests.load(Ordering::Relaxed), lists)
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

    #[tokio::test(start_paused = true)]
    async fn what_a_cluster_must_have_is_not_taken_for_absent() {
        let answer = |query: &str, n| match n {
            0..8 => refusal(404),
            _ if query.contains("watch=") => refusal(500),
            _ => page(&["a", "b"], ""),
        };
        let (_, lists) = watched::<Namespace>(Kind::Namespace, 240, answer).await;
        assert_eq!(lists, [(2, Some("5".to_owned()))]);
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
