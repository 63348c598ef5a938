//! Answers: what a verb gives back, and the HTTP response made of it.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::{BufMut, Bytes, BytesMut};
use futures::Stream;
use http::{Response, StatusCode, header};
use http_body::{Frame, SizeHint};
use serde_json::Value;

use crate::request::Output;
use crate::resource::Resource;
use crate::status::ApiError;
use crate::store::{Object, Page};

/// What a request is answered with.
pub(crate) enum Answer {
    /// One object of a resource, as JSON text.
    Object { code: u16, resource: Arc<Resource>, body: Bytes },
    /// A page of a list.
    List(Box<ListAnswer>),
    /// Anything else that is JSON: a Status, a Scale, a review.
    Value { code: u16, value: Value },
    /// JSON that is ready, with its content type.
    Ready { content_type: &'static str, body: Bytes },
    /// Events, as lines.
    Watch(Pin<Box<dyn Stream<Item = Bytes> + Send>>),
    /// Text.
    Text(&'static str),
    /// Nothing: 204.
    Nothing,
}

/// A page with what its metadata says.
pub(crate) struct ListAnswer {
    pub(crate) resource: Arc<Resource>,
    pub(crate) page: Page,
    pub(crate) continue_token: Option<String>,
    /// Where the selectors do not make the count meaningless.
    pub(crate) remaining: Option<usize>,
}

/// The body of a response: whole, or a stream of events.
pub struct Body(Inner);

enum Inner {
    Whole(Option<Bytes>),
    Stream(Pin<Box<dyn Stream<Item = Bytes> + Send>>),
}

impl std::fmt::Debug for Body {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.0 {
            Inner::Whole(bytes) => write!(f, "Body({} bytes)", bytes.as_ref().map_or(0, Bytes::len)),
            Inner::Stream(_) => f.write_str("Body(stream)"),
        }
    }
}

// === impl Body ===

impl Body {
    pub(crate) fn stream(stream: impl Stream<Item = Bytes> + Send + 'static) -> Self {
        Self(Inner::Stream(Box::pin(stream)))
    }

    /// The bytes, where they are there already.
    pub(crate) fn bytes(&self) -> Option<Bytes> {
        match &self.0 {
            Inner::Whole(bytes) => bytes.clone(),
            Inner::Stream(_) => None,
        }
    }

    pub(crate) fn whole(bytes: impl Into<Bytes>) -> Self {
        Self(Inner::Whole(Some(bytes.into())))
    }
}

impl http_body::Body for Body {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        match &mut self.get_mut().0 {
            Inner::Whole(bytes) => Poll::Ready(bytes.take().map(|bytes| Ok(Frame::data(bytes)))),
            Inner::Stream(stream) => stream.as_mut().poll_next(cx).map(|next| next.map(|bytes| Ok(Frame::data(bytes)))),
        }
    }

    fn is_end_stream(&self) -> bool {
        matches!(&self.0, Inner::Whole(None))
    }

    fn size_hint(&self) -> SizeHint {
        match &self.0 {
            Inner::Whole(bytes) => SizeHint::with_exact(bytes.as_ref().map_or(0, |bytes| bytes.len() as u64)),
            Inner::Stream(_) => SizeHint::default(),
        }
    }
}

/// The response of an answer in the form that the client wants.
pub(crate) fn respond(answer: Answer, output: Output, table: &crate::table::Printer<'_>) -> Response<Body> {
    match answer {
        Answer::Object { code, resource, body } => match output {
            Output::Json => json(code, body),
            Output::Yaml => yaml(code, &serde_json::from_slice(&body).unwrap_or_default()),
            Output::Table => {
                let value: Value = serde_json::from_slice(&body).unwrap_or_default();
                json(code, text(&table.one(&resource, &value)))
            }
            Output::PartialMetadata => json(code, partial_of(&body).into()),
        },
        Answer::List(list) => match output {
            Output::Json => {
                let mut pieces = list.pieces();
                let first = pieces.next().unwrap_or_default();
                if pieces.is_over {
                    json(200, first)
                } else {
                    let pieces = futures::stream::iter(std::iter::once(first).chain(pieces));
                    build(200, "application/json", Body(Inner::Stream(Box::pin(pieces))))
                }
            }
            Output::Yaml => yaml(200, &serde_json::from_slice(&list.to_json()).unwrap_or_default()),
            Output::Table => json(200, text(&table.list(&list))),
            Output::PartialMetadata => json(200, list.to_partial()),
        },
        Answer::Value { code, value } => match output {
            Output::Yaml => yaml(code, &value),
            Output::Table if value.get("kind").is_some_and(|kind| kind == "Scale") => {
                json(code, text(&table.scale(&value)))
            }
            _ => json(code, text(&value)),
        },
        Answer::Ready { content_type, body } => build(200, content_type, Body::whole(body)),
        Answer::Watch(stream) => build(200, "application/json", Body(Inner::Stream(stream))),
        Answer::Nothing => {
            let mut response = Response::new(Body::whole(""));
            *response.status_mut() = StatusCode::NO_CONTENT;
            response
        }
        Answer::Text(text) => build(200, "text/plain; charset=utf-8", Body::whole(text)),
    }
}

/// The response of a refusal.
pub(crate) fn refuse(error: &ApiError) -> Response<Body> {
    if error.is_plain() {
        return build(error.code(), "text/plain; charset=utf-8", Body::whole(error.message().to_owned()));
    }
    let mut response = json(error.code(), text(&error.to_status()));
    if let Some(seconds) = error.retry_after_seconds() {
        response.headers_mut().insert(header::RETRY_AFTER, seconds.into());
    }
    response
}

fn text(value: &Value) -> Bytes {
    serde_json::to_vec(value).unwrap_or_default().into()
}

fn json(code: u16, body: Bytes) -> Response<Body> {
    build(code, "application/json", Body::whole(body))
}

fn yaml(code: u16, value: &Value) -> Response<Body> {
    build(code, "application/yaml", Body::whole(serde_saphyr::to_string(value).unwrap_or_default()))
}

fn build(code: u16, content_type: &'static str, body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    *response.status_mut() = StatusCode::from_u16(code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    response.headers_mut().insert(header::CONTENT_TYPE, header::HeaderValue::from_static(content_type));
    response
}

/// The metadata of an object alone.
pub(crate) fn partial(value: &Value) -> Value {
    only(value.get("metadata").cloned().unwrap_or_default())
}

/// The same of the text of a stored object, as a text. Nothing is read, but for where the metadata is.
pub(crate) fn partial_of(body: &[u8]) -> Vec<u8> {
    let metadata = crate::store::member(body, "metadata").unwrap_or(b"{}");
    let head = br#"{"apiVersion":"meta.k8s.io/v1","kind":"PartialObjectMetadata","metadata":"#;
    [head.as_slice(), metadata, b"}"].concat()
}

fn only(metadata: Value) -> Value {
    let mut out = serde_json::Map::new();
    out.insert("apiVersion".to_owned(), "meta.k8s.io/v1".into());
    out.insert("kind".to_owned(), "PartialObjectMetadata".into());
    out.insert("metadata".to_owned(), metadata);
    Value::Object(out)
}

// === impl ListAnswer ===

impl ListAnswer {
    pub(crate) fn metadata(&self) -> Value {
        let mut metadata = serde_json::Map::new();
        if let Some(token) = &self.continue_token {
            metadata.insert("continue".to_owned(), token.as_str().into());
            if let Some(remaining) = self.remaining {
                metadata.insert("remainingItemCount".to_owned(), remaining.into());
            }
        }
        metadata.insert("resourceVersion".to_owned(), self.page.revision.to_string().into());
        Value::Object(metadata)
    }

    fn to_partial(&self) -> Bytes {
        let mut out = BytesMut::from(br#"{"apiVersion":"meta.k8s.io/v1","items":["#.as_slice());
        for (n, object) in self.page.items.iter().enumerate() {
            if n > 0 {
                out.put_u8(b',');
            }
            out.put_slice(&partial_of(&object.body));
        }
        out.put_slice(br#"],"kind":"PartialObjectMetadataList","metadata":"#);
        out.put_slice(self.metadata().to_string().as_bytes());
        out.put_u8(b'}');
        out.freeze()
    }

    /// What a list's text begins with.
    fn head(&self) -> String {
        let mut metadata = self.metadata();
        // Lists of custom resources say so, too, when nothing follows.
        if let Some(map) = metadata.as_object_mut().filter(|_| self.resource.custom().is_some()) {
            map.entry("continue").or_insert_with(|| "".into());
        }
        format!(
            "{{\"kind\":{:?},\"apiVersion\":{:?},\"metadata\":{metadata},\"items\":[",
            self.resource.list_kind(),
            self.resource.api_version(),
        )
    }

    /// The list's text in pieces, joined from that of its items.
    fn pieces(self) -> Pieces {
        let is_custom = self.resource.custom().is_some();
        let head_of_item =
            format!("{{\"apiVersion\":{:?},\"kind\":{:?},", self.resource.api_version(), self.resource.kind);
        Pieces {
            text: BytesMut::from(self.head().as_bytes()),
            items: self.page.items.into_iter(),
            resource: self.resource,
            head_of_item: (!is_custom).then(|| head_of_item.into_bytes()),
            is_first: true,
            is_over: false,
        }
    }

    fn to_json(&self) -> Bytes {
        let page = Page { revision: self.page.revision, items: self.page.items.clone(), rest: None };
        let (resource, continue_token) = (self.resource.clone(), self.continue_token.clone());
        let mut out = BytesMut::new();
        for piece in (Self { resource, page, continue_token, remaining: self.remaining }).pieces() {
            out.put_slice(&piece);
        }
        out.freeze()
    }
}

/// The text of a list, made as it is sent: a long one is never in memory as a whole.
struct Pieces {
    text: BytesMut,
    items: std::vec::IntoIter<Arc<Object>>,
    resource: Arc<Resource>,
    /// What items leave out; those of custom resources say what they are.
    head_of_item: Option<Vec<u8>>,
    is_first: bool,
    is_over: bool,
}

/// A piece is sent when it is so long.
const PIECE: usize = 128 * 1024;

impl Iterator for Pieces {
    type Item = Bytes;

    fn next(&mut self) -> Option<Bytes> {
        if self.is_over {
            return None;
        }
        while self.text.len() < PIECE {
            let Some(object) = self.items.next() else {
                self.is_over = true;
                self.text.put_slice(b"]}");
                break;
            };
            if !std::mem::take(&mut self.is_first) {
                self.text.put_u8(b',');
            }
            let body = crate::convert::to_version(&self.resource, &object);
            match &self.head_of_item {
                Some(head) => {
                    self.text.put_u8(b'{');
                    self.text.put_slice(crate::store::without_type(&body, head));
                }
                None => self.text.put_slice(&body),
            }
        }
        let rest = if self.is_over { BytesMut::new() } else { BytesMut::with_capacity(PIECE + PIECE / 8) };
        Some(std::mem::replace(&mut self.text, rest).freeze())
    }
}
