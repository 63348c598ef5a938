//! Lists and watches beside servers that answer by a script.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use berth_api::NodeOverlay;
use berth_apiserver::{ApiServer, Config, RequestLog};
use http_body_util::BodyExt;
use k8s_openapi::api::core::v1::Namespace;
use kube::api::PostParams;
use serde_json::json;

use super::*;
use crate::options::Timings;

/// A clock, and how long a watch may say nothing by default.
fn patient(clock: Clock) -> (Clock, Duration) {
    (clock, Timings::default().longest_silence)
}

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
    let watching = watch::<NodeOverlay>(Client::new(server, "default"), Kind::NodeOverlay, patient(clock), sender);
    drop(tokio::time::timeout(Duration::from_secs(599), watching).await);
    assert_eq!(count.load(Ordering::Relaxed), 10);
}

#[tokio::test(start_paused = true)]
async fn a_list_is_told_with_its_version() {
    let server = ApiServer::new(Config::default());
    let client = || Client::new(server.clone(), "default");
    let (sender, mut receiver) = tokio::sync::mpsc::channel(16);
    let clock = Clock::starting_at(Timestamp::UNIX_EPOCH);
    let watching = tokio::spawn(watch::<Namespace>(client(), Kind::Namespace, patient(clock), sender));
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
    let watching = watch::<K>(Client::new(server.clone(), "default"), kind, patient(clock), sender);
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
    let items: Vec<_> = names.iter().map(|name| json!({"metadata": {"name": name, "resourceVersion": "5"}})).collect();
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
    let answer = |query: &str, _| if query.contains("watch=") { events(&[bookmark("4")]) } else { page(&["a"], "") };
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
            refusal.1["details"] =
                json!({"causes": [{"reason": "ResourceVersionTooLarge", "message": "9 is too large"}]});
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
    let watching =
        tokio::spawn(watch::<Namespace>(Client::new(server, "default"), Kind::Namespace, patient(clock), sender));
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

#[tokio::test(start_paused = true)]
async fn a_silent_watch_is_taken_up_again_where_watches_may_break() {
    let day = Duration::from_secs(86_400);
    let mut n_requests = Vec::new();
    for longest_silence in [Timings::default().longest_silence, day * 2] {
        let count = Arc::new(AtomicUsize::new(0));
        let counter = Arc::clone(&count);
        let log = RequestLog::new(move |_| {
            counter.fetch_add(1, Ordering::Relaxed);
        });
        let server = ApiServer::new(Config { log: Some(log), quiet_watches: true, ..Config::default() });
        let (sender, _receiver) = tokio::sync::mpsc::channel(16);
        let clock = (Clock::starting_at(Timestamp::UNIX_EPOCH), longest_silence);
        let watching = watch::<Namespace>(Client::new(server, "default"), Kind::Namespace, clock, sender);
        drop(tokio::time::timeout(day, watching).await);
        n_requests.push(count.load(Ordering::Relaxed));
    }
    // A list and a watch: every five minutes, and once.
    assert_eq!(n_requests, [2 * 293, 2]);
}
