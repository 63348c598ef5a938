//! Watches: the changes of a collection from a version on, read from the history as the client takes them.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::{BufMut, Bytes, BytesMut};
use futures::Stream;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::expiry::EVENTS;
use crate::latest::Follower;
use crate::request::{Options, Output};
use crate::resource::Resource;
use crate::server::ApiServer;
use crate::status::{ApiError, Result};
use crate::store::{Change, ChangeKind, Object, Range};
use crate::table::Printer;

const BOOKMARK_INTERVAL: Duration = Duration::from_secs(60);
/// The last bookmark comes so long before the end, as the real server's: who watches on begins near the present.
const LAST_BOOKMARK: Duration = Duration::from_secs(2);
/// Without a timeout of the client's, a watch ends after this.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(30 * 60);
/// No watch lasts longer, so that its end is an instant that the clock can tell.
const MAX_TIMEOUT: Duration = Duration::from_secs(365 * 24 * 60 * 60);
/// Changes read from the history at once.
const BATCH: usize = 256;
/// Lines that are ready go out together up to this many bytes.
const CHUNK: usize = 64 * 1024;

struct Watcher {
    server: ApiServer,
    resource: Arc<Resource>,
    prefix: String,
    options: Options,
    output: Output,
    /// Changes up to this version were seen.
    cursor: u64,
    pending: VecDeque<Pending>,
    latest: Follower,
    ends: Instant,
    next_bookmark: Option<Instant>,
    /// Goes off at the end or at the next bookmark, whichever is first.
    alarm: Pin<Box<tokio::time::Sleep>>,
    is_first: bool,
    done: bool,
}

enum Pending {
    Event(&'static str, Arc<Object>, u64),
    /// An event with the object as it is stored.
    Plain(&'static str, Arc<Object>),
    /// The end of the initial events, at a version.
    InitialEnd(u64),
}

/// Opens a watch on a collection.
pub(crate) fn open(
    server: &ApiServer,
    resource: &Arc<Resource>,
    namespace: Option<&str>,
    options: &Options,
    output: Output,
) -> Result<Pin<Box<dyn Stream<Item = Bytes> + Send>>> {
    options.check_watch()?;
    let store = &server.inner.store;
    let latest = store.subscribe(&resource.storage);
    let prefix = namespace.map(|namespace| format!("{namespace}/")).unwrap_or_default();
    let asked = version(options)?;
    if asked > store.revision() {
        return Err(ApiError::future_version(asked, store.revision()));
    }
    let starts = Instant::now();
    let is_quiet = server.inner.config.quiet_watches;
    let asked_for = if is_quiet { None } else { options.timeout_seconds.map(Duration::from_secs) };
    let timeout = asked_for.unwrap_or(if is_quiet { MAX_TIMEOUT } else { DEFAULT_TIMEOUT }).min(MAX_TIMEOUT);
    let mut watcher = Watcher {
        server: server.clone(),
        resource: resource.clone(),
        prefix,
        options: options.clone(),
        output,
        cursor: asked,
        pending: VecDeque::new(),
        latest,
        ends: starts + timeout,
        next_bookmark: if options.bookmarks && !is_quiet { next_bookmark(starts, starts + timeout) } else { None },
        alarm: Box::pin(tokio::time::sleep_until(starts + timeout)),
        is_first: true,
        done: false,
    };
    // Without a version, or from any, the present state comes first.
    if options.send_initial_events.unwrap_or(asked == 0) {
        watcher.start_with_state();
    } else if asked == 0 {
        watcher.cursor = store.revision();
    }
    Ok(Box::pin(futures::stream::unfold(watcher, |mut watcher| async move {
        let line = watcher.next().await?;
        Some((line, watcher))
    })))
}

/// When a watch that ends at `ends` sends a bookmark after `now`, if it sends another.
fn next_bookmark(now: Instant, ends: Instant) -> Option<Instant> {
    let last = ends.checked_sub(LAST_BOOKMARK)?;
    Some(last.min(now + BOOKMARK_INTERVAL)).filter(|at| *at > now)
}

/// The version that is asked for; 0 where it is any or none.
pub(crate) fn version(options: &Options) -> Result<u64> {
    let Some(text) = &options.resource_version else { return Ok(0) };
    text.parse().map_err(|_| {
        ApiError::unexpected(format!(
            "resourceVersion: Invalid value: {text:?}: strconv.ParseUint: parsing {text:?}: invalid syntax"
        ))
    })
}

// === impl Watcher ===

impl Watcher {
    fn start_with_state(&mut self) {
        let store = &self.server.inner.store;
        // Where one object is meant, the others need not be looked through.
        let named = self.options.fields.name().filter(|_| !self.prefix.is_empty() || !self.resource.namespaced);
        let prefix = format!("{}{}", self.prefix, named.unwrap_or_default());
        let range = Range { prefix: &prefix, ..Range::default() };
        let page = store.list(&self.resource.storage, &range).unwrap_or_default();
        self.cursor = page.revision;
        let selected = page.items.into_iter().filter(|object| self.selects(object));
        let events: Vec<_> = selected.map(|object| Pending::Event("ADDED", object, 0)).collect();
        self.pending.extend(events);
        if self.options.send_initial_events == Some(true) && self.options.bookmarks {
            self.pending.push_back(Pending::InitialEnd(page.revision));
        }
    }

    fn selects(&self, object: &Object) -> bool {
        object.key.starts_with(&self.prefix)
            && self.options.fields.matches_stored(object)
            && self.options.labels.matches_stored(object)
    }

    /// The next line, or the end.
    async fn next(&mut self) -> Option<Bytes> {
        loop {
            if self.done {
                return None;
            }
            if let Some(pending) = self.pending.pop_front() {
                return Some(self.lines(&pending));
            }
            // What is newer than this cannot be missing from what is read next.
            let present = self.server.inner.store.revision();
            match self.server.inner.store.changes_after(&self.resource.storage, self.cursor, BATCH) {
                Err(_) => {
                    self.done = true;
                    return Some(self.expired());
                }
                Ok(changes) if changes.is_empty() => {
                    self.cursor = self.cursor.max(present);
                    if let Some(line) = self.wait().await {
                        return Some(line);
                    }
                }
                Ok(changes) => {
                    for change in changes {
                        self.cursor = change.object.revision;
                        if let Some(pending) = self.event(&change) {
                            self.pending.push_back(pending);
                        }
                    }
                }
            }
        }
    }

    /// Waits for a change; a bookmark if one is due, and nothing if the watch is over or there is something to read.
    async fn wait(&mut self) -> Option<Bytes> {
        let mut until = self.next_bookmark.map_or(self.ends, |at| self.ends.min(at));
        let expiry = if self.resource.storage == EVENTS { self.server.next_event_expiry() } else { None };
        if let Some(expiry) = expiry {
            until = until.min(expiry);
        }
        if self.alarm.deadline() != until {
            self.alarm.as_mut().reset(until);
        }
        tokio::select! {
            biased;
            () = self.latest.grown() => None,
            () = &mut self.alarm => {
                let now = Instant::now();
                if now >= self.ends {
                    self.done = true;
                    return None;
                }
                if expiry.is_some_and(|expiry| now >= expiry) {
                    self.server.expire_events();
                    return None;
                }
                self.next_bookmark = next_bookmark(now, self.ends);
                Some(self.bookmark(self.cursor, false))
            }
        }
    }

    /// What a change is to this watch: an object that is no longer selected is deleted to it.
    fn event(&self, change: &Change) -> Option<Pending> {
        let now = change.kind != ChangeKind::Deleted && self.selects(&change.object);
        let before = change.previous.as_ref().is_some_and(|previous| self.selects(previous));
        let (kind, object, revision) = match (before, now) {
            (false, false) => return None,
            (false, true) => ("ADDED", &change.object, 0),
            (true, true) => ("MODIFIED", &change.object, 0),
            (true, false) if change.kind == ChangeKind::Deleted => ("DELETED", &change.object, 0),
            (true, false) => ("DELETED", change.previous.as_ref()?, change.object.revision),
        };
        let is_plain = self.output == Output::Json && revision == 0;
        if is_plain && crate::convert::is_stored_form(&self.resource, object) {
            return Some(Pending::Plain(kind, object.clone()));
        }
        Some(Pending::Event(kind, object.clone(), revision))
    }

    /// The line of an event, with those that are ready after it.
    fn lines(&mut self, first: &Pending) -> Bytes {
        let line = self.line(first);
        if self.pending.is_empty() || line.len() >= CHUNK {
            return line;
        }
        let mut chunk = BytesMut::from(&line[..]);
        while chunk.len() < CHUNK
            && let Some(next) = self.pending.pop_front()
        {
            match &next {
                Pending::Plain(kind, object) => put_frame(&mut chunk, kind, &object.body),
                next => chunk.extend_from_slice(&self.line(next)),
            }
        }
        chunk.freeze()
    }

    fn line(&mut self, pending: &Pending) -> Bytes {
        match pending {
            Pending::InitialEnd(revision) => self.bookmark(*revision, true),
            Pending::Plain(kind, object) => frame(kind, &object.body),
            // The metadata is the same in every version.
            Pending::Event(kind, object, 0) if self.output == Output::PartialMetadata => {
                frame(kind, &crate::reply::partial_of(&object.body))
            }
            Pending::Event(kind, object, revision) => {
                let mut body = crate::convert::to_version(&self.resource, object);
                if *revision > 0 {
                    let mut value: Value = serde_json::from_slice(&body).unwrap_or_default();
                    crate::meta::set(&mut value, "resourceVersion", revision.to_string());
                    body = serde_json::to_vec(&value).unwrap_or_default().into();
                }
                if self.output == Output::Json {
                    return frame(kind, &body);
                }
                let value: Value = serde_json::from_slice(&body).unwrap_or_default();
                frame(kind, self.shaped(&value).to_string().as_bytes())
            }
        }
    }

    fn shaped(&mut self, value: &Value) -> Value {
        match self.output {
            Output::Table => {
                let printer = Printer { server: &self.server, include: self.options.include_object };
                let mut table = printer.one(&self.resource, value);
                // The columns are told once.
                if !std::mem::take(&mut self.is_first)
                    && let Some(map) = table.as_object_mut()
                {
                    map.insert("columnDefinitions".to_owned(), Value::Null);
                }
                table
            }
            Output::PartialMetadata => crate::reply::partial(value),
            Output::Json | Output::Yaml => value.clone(),
        }
    }

    fn bookmark(&mut self, revision: u64, is_initial_end: bool) -> Bytes {
        let mut metadata = json!({"resourceVersion": revision.to_string()});
        if is_initial_end && let Some(map) = metadata.as_object_mut() {
            map.insert("annotations".to_owned(), json!({"k8s.io/initial-events-end": "true"}));
        }
        let object =
            json!({"kind": self.resource.kind, "apiVersion": self.resource.api_version(), "metadata": metadata});
        let object = if self.output == Output::Table { self.shaped(&object) } else { object };
        frame("BOOKMARK", object.to_string().as_bytes())
    }

    fn expired(&self) -> Bytes {
        let (cursor, oldest) = (self.cursor, self.server.inner.store.revision());
        let error = ApiError::expired(format!("too old resource version: {cursor} ({oldest})"));
        frame("ERROR", error.to_status().to_string().as_bytes())
    }
}

fn frame(kind: &str, object: &[u8]) -> Bytes {
    let mut out = BytesMut::with_capacity(object.len() + 40);
    put_frame(&mut out, kind, object);
    out.freeze()
}

fn put_frame(out: &mut BytesMut, kind: &str, object: &[u8]) {
    out.put_slice(b"{\"type\":\"");
    out.put_slice(kind.as_bytes());
    out.put_slice(b"\",\"object\":");
    out.put_slice(object);
    out.put_slice(b"}\n");
}
