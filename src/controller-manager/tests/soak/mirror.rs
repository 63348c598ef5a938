//! A watcher that starts anew now and then, and says what it knows.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures::TryStreamExt;
use kube::Client;
use kube::core::WatchEvent;
use parking_lot::Mutex;
use serde_json::Value;
use tokio::task::JoinHandle;

use crate::common::send;

#[derive(Debug, Default)]
struct State {
    /// Versions of objects.
    objects: BTreeMap<String, String>,
    /// Up to where it has seen everything.
    version: Option<String>,
    resumed: u64,
    relisted: u64,
}

pub(crate) struct Mirror {
    client: Client,
    path: String,
    state: Arc<Mutex<State>>,
    task: Option<JoinHandle<()>>,
}

pub(crate) fn key(object: &Value) -> String {
    let text = |field: &str| object["metadata"][field].as_str().unwrap_or_default();
    format!("{}/{}", text("namespace"), text("name"))
}

fn version(object: &Value) -> String {
    object["metadata"]["resourceVersion"].as_str().unwrap_or_default().to_owned()
}

// === impl Mirror ===

impl Mirror {
    pub(crate) fn start(client: Client, path: String) -> Self {
        let mut mirror = Self { client, path, state: Arc::default(), task: None };
        mirror.resume();
        mirror
    }

    /// Goes on from where it was, if it does not run.
    pub(crate) fn resume(&mut self) {
        if self.task.is_none() {
            self.task = Some(tokio::spawn(follow(self.client.clone(), self.path.clone(), self.state.clone())));
        }
    }

    /// Stops looking.
    pub(crate) fn pause(&mut self) {
        if let Some(task) = self.task.take() {
            task.abort();
        }
    }

    /// Begins anew: from where it was, or from nothing.
    pub(crate) fn restart(&mut self, is_forgetful: bool) {
        self.pause();
        if is_forgetful {
            self.state.lock().version = None;
        }
        self.resume();
    }

    /// The objects that it knows, with their versions unless they change all the time.
    pub(crate) fn known(&self, is_busy: bool) -> BTreeMap<String, String> {
        let state = self.state.lock();
        let versions = state
            .objects
            .iter()
            .map(|(key, version)| (key.clone(), if is_busy { String::new() } else { format!("{version:?}") }));
        versions.collect()
    }

    /// How often a watch went on at a version.
    pub(crate) fn resumed(&self) -> u64 {
        self.state.lock().resumed
    }

    /// How often it had to list.
    pub(crate) fn relisted(&self) -> u64 {
        self.state.lock().relisted
    }
}

impl Drop for Mirror {
    fn drop(&mut self) {
        self.pause();
    }
}

async fn follow(client: Client, path: String, state: Arc<Mutex<State>>) {
    loop {
        let known = state.lock().version.clone();
        let from = if let Some(version) = known {
            state.lock().resumed += 1;
            version
        } else {
            let list = send(&client, "GET", &path, "application/json", &Value::Null).await.unwrap();
            let mut state = state.lock();
            state.relisted += 1;
            let items = list["items"].as_array().into_iter().flatten();
            state.objects = items.map(|object| (key(object), version(object))).collect();
            state.version = Some(version(&list));
            version(&list)
        };
        let ask = format!("{path}?watch=1&allowWatchBookmarks=true&timeoutSeconds=290&resourceVersion={from}");
        let request = http::Request::get(ask).body(Vec::new()).unwrap();
        let Ok(events) = client.request_events::<Value>(request).await else {
            state.lock().version = None;
            continue;
        };
        let mut events = std::pin::pin!(events);
        while let Ok(Some(event)) = events.try_next().await {
            let mut state = state.lock();
            match event {
                WatchEvent::Added(object) => {
                    let was = state.objects.insert(key(&object), version(&object));
                    assert!(was.is_none(), "{path}: {} was added twice", key(&object));
                    state.version = Some(version(&object));
                }
                WatchEvent::Modified(object) => {
                    let was = state.objects.insert(key(&object), version(&object));
                    assert!(was.is_some(), "{path}: {} changed and was not there", key(&object));
                    state.version = Some(version(&object));
                }
                WatchEvent::Deleted(object) => {
                    let was = state.objects.remove(&key(&object));
                    assert!(was.is_some(), "{path}: {} went and was not there", key(&object));
                    state.version = Some(version(&object));
                }
                WatchEvent::Bookmark(bookmark) => state.version = Some(bookmark.metadata.resource_version),
                // Its version is forgotten.
                WatchEvent::Error(_) => {
                    state.version = None;
                    break;
                }
            }
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
}
