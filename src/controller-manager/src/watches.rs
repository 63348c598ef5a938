//! One list and watch for each resource, which tell the manager everything in order.

use std::collections::BTreeSet;
use std::time::Duration;

use futures::TryStreamExt;
use kube::Client;
use kube::core::WatchEvent;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use tokio::sync::mpsc;

use crate::core::Core;
use crate::key::NamespacedName;
use crate::resource::Resource;
use crate::store::{Kept, number};

/// What a watch task tells.
#[derive(Debug)]
pub(crate) enum Told<T> {
    /// Objects of a list that is under way.
    Page(Vec<T>),
    /// A list has ended: what it named, and its version.
    Listed(BTreeSet<NamespacedName>, u64),
    Changed(T),
    Deleted(T),
    Bookmark(u64),
}

/// Something for the manager to take in.
pub(crate) type Message = Box<dyn FnOnce(&mut Core) + Send>;

/// Objects of a page: few enough that reading one does not hold up the executor.
const PAGE: usize = 250;

#[derive(Deserialize)]
struct Page<T> {
    metadata: PageMeta,
    #[serde(bound(deserialize = "T: DeserializeOwned"))]
    items: Vec<T>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct PageMeta {
    resource_version: String,
    #[serde(rename = "continue", default)]
    next: String,
}

/// Lists and watches a resource until nobody listens any more, and turns what it tells into messages.
pub(crate) struct Watch<F> {
    pub(crate) client: Client,
    pub(crate) resource: Resource,
    /// Whether only metadata is asked for.
    pub(crate) metadata_only: bool,
    pub(crate) seed: u64,
    pub(crate) sender: mpsc::Sender<Message>,
    pub(crate) message: F,
}

/// Why a watch task ends.
struct Closed;

impl<F> Watch<F> {
    pub(crate) async fn run<T>(mut self)
    where
        T: Kept + DeserializeOwned,
        F: Fn(Told<T>) -> Message,
    {
        let mut failures = 0;
        loop {
            let ended = match self.list().await {
                Ok(Ok(version)) => {
                    failures = 0;
                    self.watch(version, &mut failures).await
                }
                Ok(Err(Closed)) => return,
                Err(error) => self.report("list", &error).await,
            };
            if ended.is_err() {
                return;
            }
            self.pause(&mut failures).await;
        }
    }

    async fn tell<T>(&self, told: Told<T>) -> Result<(), Closed>
    where
        F: Fn(Told<T>) -> Message,
    {
        self.sender.send((self.message)(told)).await.map_err(|_| Closed)
    }

    /// Errors are told, and are never read as an absence of objects.
    async fn report(&self, verb: &str, error: &kube::Error) -> Result<(), Closed> {
        let text = format!("{verb} {}: {error}", self.resource.plural);
        self.sender.send(Box::new(move |core: &mut Core| core.failed(&text))).await.map_err(|_| Closed)
    }

    async fn pause(&mut self, failures: &mut u32) {
        let wait = Duration::from_millis(100).saturating_mul(1 << (*failures).min(8));
        *failures += 1;
        let jitter = Duration::from_millis(self.random() % 100);
        tokio::time::sleep(wait + jitter).await;
    }

    fn random(&mut self) -> u64 {
        self.seed = self.seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        self.seed >> 33
    }

    fn request(&self, query: &str) -> kube::Result<http::Request<Vec<u8>>> {
        let accept = match (self.metadata_only, query.contains("watch=")) {
            (false, _) => "application/json",
            (true, false) => "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1",
            (true, true) => "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1",
        };
        let request = http::Request::get(format!("{}?{query}", self.resource.path("")));
        request.header(http::header::ACCEPT, accept).body(Vec::new()).map_err(kube::Error::HttpError)
    }

    /// Tells all objects, page by page.
    async fn list<T>(&self) -> kube::Result<Result<u64, Closed>>
    where
        T: Kept + DeserializeOwned,
        F: Fn(Told<T>) -> Message,
    {
        let mut keys = BTreeSet::new();
        let mut next = String::new();
        loop {
            let page: Page<T> = self.client.request(self.request(&format!("limit={PAGE}{next}"))?).await?;
            keys.extend(page.items.iter().map(|item| item.view().key()));
            if !page.items.is_empty() && self.tell(Told::Page(page.items)).await.is_err() {
                return Ok(Err(Closed));
            }
            if page.metadata.next.is_empty() {
                let version = number(&page.metadata.resource_version);
                return Ok(self.tell(Told::Listed(keys, version)).await.map(|()| version));
            }
            next = format!("&continue={}", escaped(&page.metadata.next));
            tokio::task::yield_now().await;
        }
    }

    /// Tells changes until the version is too old to go on from, which a new list mends.
    async fn watch<T>(&mut self, mut version: u64, failures: &mut u32) -> Result<(), Closed>
    where
        T: Kept + DeserializeOwned,
        F: Fn(Told<T>) -> Message,
    {
        loop {
            // As upstream: not all watches shall start anew at the same time.
            let seconds = 300 + self.random() % 300;
            let query = format!("watch=1&allowWatchBookmarks=true&resourceVersion={version}&timeoutSeconds={seconds}");
            let opened = match self.request(&query) {
                Ok(request) => self.client.request_events::<T>(request).await,
                Err(error) => Err(error),
            };
            let mut stream = match opened {
                Ok(stream) => Box::pin(stream),
                Err(kube::Error::Api(status)) if status.code == 410 => return Ok(()),
                Err(error) => {
                    self.report("watch", &error).await?;
                    self.pause(failures).await;
                    continue;
                }
            };
            loop {
                let told = match stream.try_next().await {
                    Ok(Some(WatchEvent::Added(object) | WatchEvent::Modified(object))) => {
                        version = version.max(number(object.view().version));
                        Told::Changed(object)
                    }
                    Ok(Some(WatchEvent::Deleted(object))) => {
                        version = version.max(number(object.view().version));
                        Told::Deleted(object)
                    }
                    Ok(Some(WatchEvent::Bookmark(bookmark))) => {
                        version = version.max(number(&bookmark.metadata.resource_version));
                        Told::Bookmark(version)
                    }
                    Ok(Some(WatchEvent::Error(status))) => {
                        if status.code == 410 {
                            return Ok(());
                        }
                        self.report("watch", &kube::Error::Api(status)).await?;
                        break;
                    }
                    Ok(None) => break,
                    Err(error) => {
                        self.report("watch", &error).await?;
                        break;
                    }
                };
                *failures = 0;
                self.tell(told).await?;
            }
            self.pause(failures).await;
        }
    }
}

/// A continue token as a value of a query.
fn escaped(token: &str) -> String {
    use std::fmt::Write as _;
    let mut out = String::with_capacity(token.len());
    for byte in token.bytes() {
        if byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte) {
            out.push(char::from(byte));
        } else {
            let _ = write!(out, "%{byte:02X}");
        }
    }
    out
}
