//! The server as a `tower::Service`.

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request, Response, header};
use http_body_util::{BodyExt, LengthLimitError, Limited};

use crate::observe::RequestLine;
use crate::reply::{Body, refuse, respond};
use crate::request::{Format, Options, Output, Parsed, output, parse_body};
use crate::resource::Resource;
use crate::server::{ApiServer, User};
use crate::status::{ApiError, Result};
use crate::store::Object;
use crate::table::Printer;

/// A request that was read.
#[derive(Debug)]
pub(crate) struct Call {
    pub(crate) method: Method,
    pub(crate) path: String,
    pub(crate) options: Options,
    pub(crate) output: Option<Output>,
    pub(crate) accept: String,
    pub(crate) content_type: String,
    pub(crate) user_agent: String,
    pub(crate) user: User,
    pub(crate) body: Bytes,
    /// What is in a large body of JSON, read beforehand; whoever asks first gets it.
    pub(crate) ahead: parking_lot::Mutex<Option<Result<Parsed>>>,
    /// The object that such a body replaces, read beforehand.
    pub(crate) stored: parking_lot::Mutex<Option<(Arc<Object>, serde_json::Value)>>,
    /// The verb and the resource, once they are known.
    pub(crate) target: std::sync::OnceLock<(&'static str, Arc<Resource>)>,
    /// Told in headers of the answer.
    pub(crate) warnings: parking_lot::Mutex<Vec<String>>,
}

impl<B> tower_service::Service<Request<B>> for ApiServer
where
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let server = self.clone();
        Box::pin(async move { Ok(server.serve(request).await) })
    }
}

impl ApiServer {
    async fn serve<B>(&self, request: Request<B>) -> Response<Body>
    where
        B: http_body::Body<Data = Bytes> + Send + 'static,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let (parts, body) = request.into_parts();
        let max = self.inner.config.max_body;
        if body.size_hint().lower() > u64::try_from(max).unwrap_or(u64::MAX) {
            // What says that it is too large is not waited for, only that its client comes to read the answer.
            let _ = tokio::time::timeout(DRAINING, drain(body)).await;
            return refuse(&ApiError::too_large(max));
        }
        let read = Limited::new(body, max).collect();
        let Ok(read) = tokio::time::timeout(self.inner.config.body_timeout, read).await else {
            return refuse(&ApiError::timeout());
        };
        let body = match read {
            Ok(collected) => collected.to_bytes(),
            Err(error) if error.is::<LengthLimitError>() => {
                return refuse(&ApiError::too_large(max));
            }
            Err(error) => return refuse(&ApiError::bad_request(format!("unable to read the body: {error}"))),
        };
        let call = match self.read_call(&parts, body) {
            Ok(call) => call,
            Err(error) => return refuse(&error),
        };
        if call.reads_ahead() {
            *call.ahead.lock() = Some(parse_body(&call.body, Format::Json));
            tokio::task::yield_now().await;
            if call.method == Method::PUT {
                *call.stored.lock() = self.replaced(&call);
                tokio::task::yield_now().await;
            }
        }
        self.respond_to(&parts, &call)
    }

    fn respond_to(&self, parts: &http::request::Parts, call: &Call) -> Response<Body> {
        let response = self.answer(call);
        let code = response.status().as_u16();
        let (verb, resource) = match call.target.get() {
            Some((verb, resource)) => (*verb, Some(resource)),
            None => ("GET", None),
        };
        self.inner.metrics.count(verb, code, resource);
        if let Some(log) = &self.inner.config.log {
            log.tell(&RequestLine {
                time: self.now(),
                user: &call.user.name,
                method: call.method.as_str(),
                uri: parts.uri.path_and_query().map_or("", http::uri::PathAndQuery::as_str),
                code,
                user_agent: &call.user_agent,
            });
        }
        response
    }

    fn answer(&self, call: &Call) -> Response<Body> {
        let mut response = match self.dispatch(call) {
            Ok(answer) => {
                let printer = Printer { server: self, include: call.options.include_object };
                respond(answer, call.output.unwrap_or(Output::Json), &printer)
            }
            Err(error) => refuse(&error),
        };
        for warning in call.warnings.lock().iter() {
            let escaped = warning.replace('\\', "\\\\").replace('"', "\\\"");
            if let Ok(value) = header::HeaderValue::from_str(&format!("299 - \"{escaped}\"")) {
                response.headers_mut().append(header::WARNING, value);
            }
        }
        response
    }

    fn read_call(&self, parts: &http::request::Parts, body: Bytes) -> Result<Call> {
        let text = |name: header::HeaderName| {
            parts.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default().to_owned()
        };
        let accept = text(header::ACCEPT);
        let known = parts.extensions.get::<User>().unwrap_or(&self.inner.config.user);
        let user = self.impersonate(known, &parts.headers)?;
        Ok(Call {
            method: parts.method.clone(),
            path: parts.uri.path().to_owned(),
            options: Options::parse(parts.uri.query().unwrap_or_default())?,
            output: output(&accept),
            accept,
            content_type: text(header::CONTENT_TYPE),
            user_agent: text(header::USER_AGENT),
            user,
            body,
            ahead: parking_lot::Mutex::default(),
            stored: parking_lot::Mutex::default(),
            target: std::sync::OnceLock::new(),
            warnings: parking_lot::Mutex::default(),
        })
    }
}

/// So long is read of a body that is too large: clients that still write when the connection closes never see the answer.
const DRAINING: Duration = Duration::from_millis(500);

async fn drain<B: http_body::Body>(body: B) {
    let mut body = std::pin::pin!(body);
    while let Some(Ok(_)) = body.frame().await {}
}

/// A body of so many bytes is read in a step of its own, and so is what it replaces, so that others have their turn before it
/// is dealt with.
const LARGE: usize = 32 * 1024;

impl Call {
    /// Whether the body is one that takes a while to be read, and will be.
    fn reads_ahead(&self) -> bool {
        let is_json = self.content_type.split(';').next().unwrap_or_default().trim() == "application/json";
        self.body.len() >= LARGE && is_json && matches!(self.method, Method::POST | Method::PUT)
    }

    pub(crate) fn warn(&self, text: impl Into<String>) {
        let text = text.into();
        let mut warnings = self.warnings.lock();
        if !warnings.contains(&text) {
            warnings.push(text);
        }
    }

    /// The name under which the fields that this request writes are owned.
    pub(crate) fn manager(&self) -> String {
        if let Some(manager) = &self.options.field_manager {
            return manager.clone();
        }
        let prefix = self.user_agent.split('/').next().unwrap_or_default();
        let name: String = prefix.chars().filter(|c| !c.is_control()).take(128).collect();
        if name.is_empty() { "unknown".to_owned() } else { name }
    }
}

impl Call {
    /// A request of the control plane's own.
    pub(crate) fn internal(manager: &str) -> Self {
        Self {
            method: Method::POST,
            path: String::new(),
            options: Options { field_manager: Some(manager.to_owned()), ..Options::default() },
            output: Some(Output::Json),
            accept: String::new(),
            content_type: String::new(),
            user_agent: String::new(),
            user: User {
                name: format!("system:{manager}"),
                groups: vec!["system:masters".to_owned()],
                ..User::default()
            },
            body: Bytes::new(),
            ahead: parking_lot::Mutex::default(),
            stored: parking_lot::Mutex::default(),
            target: std::sync::OnceLock::new(),
            warnings: parking_lot::Mutex::default(),
        }
    }
}
