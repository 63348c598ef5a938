//! When something last changed in each namespace of a cluster, as watches tell.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use futures::TryStreamExt;
use kube::core::WatchEvent;
use serde_json::Value;

use crate::definitions;
use crate::seen::KINDS;

/// For so long nothing changes in a namespace that has settled.
const QUIET: Duration = Duration::from_millis(1500);
/// For so long a namespace may take to settle.
const PATIENCE: Duration = Duration::from_secs(60);

/// The last change by namespace.
#[derive(Clone, Default)]
pub(crate) struct Changes(Arc<Mutex<BTreeMap<String, Instant>>>);

impl Changes {
    /// Watches all that histories are about, with the first definitions.
    pub(crate) fn watch(client: &kube::Client, definitions: u64) -> Self {
        let changes = Self::default();
        let root = |api: &str| if api.contains('/') { "apis" } else { "api" };
        let mut paths: Vec<String> =
            KINDS.into_iter().map(|(api, plural)| format!("/{}/{api}/{plural}", root(api))).collect();
        paths.extend((0..definitions).map(|number| definitions::path(number).replace("/namespaces/{ns}", "")));
        for path in paths {
            tokio::spawn(changes.clone().follow(client.clone(), path));
        }
        changes
    }

    async fn follow(self, client: kube::Client, path: String) {
        loop {
            let request = http::Request::get(format!("{path}?watch=1")).body(Vec::new()).unwrap();
            let Ok(events) = client.request_events::<Value>(request).await else {
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            };
            let mut events = Box::pin(events);
            while let Ok(Some(event)) = events.try_next().await {
                let (WatchEvent::Added(object) | WatchEvent::Modified(object) | WatchEvent::Deleted(object)) = event
                else {
                    continue;
                };
                if let Some(namespace) = object["metadata"]["namespace"].as_str() {
                    self.0.lock().unwrap().insert(namespace.to_owned(), Instant::now());
                }
            }
        }
    }

    /// Waits until nothing has changed for a while.
    pub(crate) async fn settle(&self, namespace: &str) {
        let begin = Instant::now();
        loop {
            let last = self.0.lock().unwrap().get(namespace).copied().unwrap_or(begin).max(begin);
            let quiet = last.elapsed();
            if quiet >= QUIET || begin.elapsed() >= PATIENCE {
                return;
            }
            tokio::time::sleep(QUIET.saturating_sub(quiet)).await;
        }
    }
}
