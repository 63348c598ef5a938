//! What a server tells of its requests: a log, and metrics in the text format of Prometheus with the names of the real
//! server.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::Arc;

use jiff::Timestamp;
use parking_lot::Mutex;
use rustc_hash::FxHashMap;

use crate::resource::Resource;
use crate::server::ApiServer;

/// Hears of every request that was answered.
#[derive(Clone)]
pub struct RequestLog(Arc<dyn Fn(&RequestLine<'_>) + Send + Sync>);

/// One request and its answer.
#[derive(Debug, Clone, Copy)]
pub struct RequestLine<'r> {
    /// When it was answered, by the server's clock.
    pub time: Timestamp,
    /// The user that it was made as.
    pub user: &'r str,
    /// The HTTP method.
    pub method: &'r str,
    /// The path with the query.
    pub uri: &'r str,
    /// The status code of the answer.
    pub code: u16,
    /// What the client calls itself.
    pub user_agent: &'r str,
}

/// Requests by what they were.
#[derive(Debug, Default)]
pub(crate) struct Metrics(Mutex<FxHashMap<RequestKind, Count>>);

/// The verb, the code, and which resource: by its place in memory, which its count keeps.
type RequestKind = (&'static str, u16, usize);

#[derive(Debug)]
struct Count {
    requests: u64,
    resource: Option<Arc<Resource>>,
}

// === impl RequestLog ===

impl RequestLog {
    /// A log that calls a function.
    pub fn new(log: impl Fn(&RequestLine<'_>) + Send + Sync + 'static) -> Self {
        Self(Arc::new(log))
    }

    pub(crate) fn tell(&self, line: &RequestLine<'_>) {
        (self.0)(line);
    }
}

impl std::fmt::Debug for RequestLog {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("RequestLog")
    }
}

impl std::fmt::Display for RequestLine<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { time, user, method, uri, code, user_agent } = self;
        write!(f, "{time:.3} {code} {method} {uri} user={user:?} agent={user_agent:?}")
    }
}

// === impl Metrics ===

impl Metrics {
    pub(crate) fn count(&self, verb: &'static str, code: u16, resource: Option<&Arc<Resource>>) {
        let place = resource.map_or(0, |resource| Arc::as_ptr(resource).addr());
        let mut counts = self.0.lock();
        let count = counts.entry((verb, code, place));
        count.or_insert_with(|| Count { requests: 0, resource: resource.cloned() }).requests += 1;
    }
}

impl ApiServer {
    /// The metrics as `/metrics` shows them.
    pub(crate) fn metrics(&self) -> String {
        let mut requests: BTreeMap<String, u64> = BTreeMap::new();
        for ((verb, code, _), count) in &*self.inner.metrics.0.lock() {
            let (group, version, resource) = count.resource.as_ref().map_or(("", "", ""), |resource| {
                (resource.group.as_str(), resource.version.as_str(), resource.plural.as_str())
            });
            let labels = format!(
                "code=\"{code}\",group=\"{group}\",resource=\"{resource}\",verb=\"{verb}\",version=\"{version}\""
            );
            // A definition that is served anew is the same to who reads this.
            *requests.entry(labels).or_default() += count.requests;
        }
        let mut out = String::new();
        let mut family = |name: &str, kind: &str, about: &str, lines: &mut dyn Iterator<Item = (String, u64)>| {
            let _ = writeln!(out, "# HELP {name} {about}\n# TYPE {name} {kind}");
            for (labels, value) in lines {
                let labels = if labels.is_empty() { labels } else { format!("{{{labels}}}") };
                let _ = writeln!(out, "{name}{labels} {value}");
            }
        };
        family("apiserver_request_total", "counter", "Requests that were answered.", &mut requests.into_iter());
        let objects = self.inner.store.counts();
        let mut of_objects = objects.iter().map(|(name, count)| (format!("resource=\"{name}\""), count.objects));
        family("apiserver_resource_objects", "gauge", "Objects that are stored.", &mut of_objects);
        let mut of_history = objects.iter().map(|(name, count)| (format!("resource=\"{name}\""), count.history_bytes));
        family("berth_apiserver_history_bytes", "gauge", "Bytes that the history for watches holds.", &mut of_history);
        let mut watches = objects.iter().map(|(name, count)| (format!("resource=\"{name}\""), count.watches));
        family("apiserver_longrunning_requests", "gauge", "Watches that are open.", &mut watches);
        let revision = std::iter::once((String::new(), self.resource_version()));
        family("berth_apiserver_resource_version", "gauge", "The version of the last write.", &mut { revision });
        out
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::server::Config;
    use crate::testing::send;

    #[tokio::test(start_paused = true)]
    async fn requests_are_logged_and_counted_by_what_they_were() {
        let lines = Arc::new(Mutex::new(Vec::new()));
        let log = {
            let lines = lines.clone();
            RequestLog::new(move |line| lines.lock().push(line.to_string()))
        };
        let server = ApiServer::new(Config { log: Some(log), ..Config::default() });
        let maps = "/api/v1/namespaces/default/configmaps";
        send(&server, "POST", maps, json!({"metadata": {"name": "m"}})).await;
        send(&server, "GET", &format!("{maps}?limit=1"), Value::Null).await;
        send(&server, "GET", &format!("{maps}/none"), Value::Null).await;
        assert_eq!(
            *lines.lock(),
            [
                "1970-01-01T00:00:00.000Z 201 POST /api/v1/namespaces/default/configmaps user=\"kubernetes-admin\" agent=\"\"",
                "1970-01-01T00:00:00.000Z 200 GET /api/v1/namespaces/default/configmaps?limit=1 user=\"kubernetes-admin\" agent=\"\"",
                "1970-01-01T00:00:00.000Z 404 GET /api/v1/namespaces/default/configmaps/none user=\"kubernetes-admin\" agent=\"\"",
            ]
        );
        let text = server.metrics();
        for line in [
            "apiserver_request_total{code=\"201\",group=\"\",resource=\"configmaps\",verb=\"POST\",version=\"v1\"} 1",
            "apiserver_request_total{code=\"200\",group=\"\",resource=\"configmaps\",verb=\"LIST\",version=\"v1\"} 1",
            "apiserver_request_total{code=\"404\",group=\"\",resource=\"configmaps\",verb=\"GET\",version=\"v1\"} 1",
            "apiserver_resource_objects{resource=\"configmaps\"} 1",
        ] {
            assert!(text.lines().any(|found| found == line), "no {line} in\n{text}");
        }
    }
}
