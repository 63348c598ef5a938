//! Errors as the API reports them: a `Status` object with reason, details and causes.
//!
//! Messages follow apimachinery's `api/errors`, because clients match on them.

use serde_json::{Map, Value, json};

/// One cause of a refusal: a field and what is wrong with it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cause {
    /// A `CauseType`, such as `FieldValueInvalid`.
    pub reason: &'static str,
    /// What is wrong, without the field.
    pub message: String,
    /// The path of the field; empty where the cause has none.
    pub field: String,
}

impl Cause {
    /// A field that must be there and is not.
    pub fn required(field: impl Into<String>, detail: &str) -> Self {
        let message = if detail.is_empty() { "Required value".to_owned() } else { format!("Required value: {detail}") };
        Self { reason: "FieldValueRequired", message, field: field.into() }
    }

    /// A field whose value cannot be used.
    pub fn invalid(field: impl Into<String>, value: &Value, detail: &str) -> Self {
        let message = format!("Invalid value: {}: {detail}", go_value(value));
        Self { reason: "FieldValueInvalid", message, field: field.into() }
    }

    /// A field whose value is none of those that are possible.
    pub fn not_supported(field: impl Into<String>, value: &Value, supported: &[&str]) -> Self {
        let listed: Vec<String> = supported.iter().map(|s| format!("{s:?}")).collect();
        let message = format!("Unsupported value: {}: supported values: {}", go_value(value), listed.join(", "));
        Self { reason: "FieldValueNotSupported", message, field: field.into() }
    }

    /// A value that occurs twice where it must be unique.
    pub fn duplicate(field: impl Into<String>, value: &Value) -> Self {
        let message = format!("Duplicate value: {}", go_value(value));
        Self { reason: "FieldValueDuplicate", message, field: field.into() }
    }

    /// A field that may not be set, or not be changed.
    pub fn forbidden(field: impl Into<String>, detail: &str) -> Self {
        Self { reason: "FieldValueForbidden", message: format!("Forbidden: {detail}"), field: field.into() }
    }

    /// A value of the wrong type.
    pub fn type_invalid(field: impl Into<String>, value: &Value, detail: &str) -> Self {
        let message = format!("Invalid value: {}: {detail}", go_value(value));
        Self { reason: "FieldValueTypeInvalid", message, field: field.into() }
    }

    /// A list or map that is too long; `unit` is `items` or `characters`, for instance.
    pub fn too_many(field: impl Into<String>, count: usize, max: usize) -> Self {
        let message = format!("Too many: {count}: must have at most {max} items");
        Self { reason: "FieldValueTooMany", message, field: field.into() }
    }

    /// A text that is too long.
    pub fn too_long(field: impl Into<String>, max: usize) -> Self {
        let message = format!("Too long: may not be more than {max} bytes");
        Self { reason: "FieldValueTooLong", message, field: field.into() }
    }

    /// A reference to something that is not there.
    pub fn not_found(field: impl Into<String>, value: &Value) -> Self {
        let message = format!("Not found: {}", go_value(value));
        Self { reason: "FieldValueNotFound", message, field: field.into() }
    }

    fn text(&self) -> String {
        if self.field.is_empty() { self.message.clone() } else { format!("{}: {}", self.field, self.message) }
    }
}

/// A text as Go quotes it.
fn go_quoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        match c {
            '\u{7}' => out.push_str("\\a"),
            '\u{8}' => out.push_str("\\b"),
            '\u{b}' => out.push_str("\\v"),
            '\u{c}' => out.push_str("\\f"),
            '\'' => out.push(c),
            c if c.is_control() && u32::from(c) < 0x80 && !"\n\r\t".contains(c) => {
                let _ = std::fmt::Write::write_fmt(&mut out, format_args!("\\x{:02x}", u32::from(c)));
            }
            c => out.extend(c.escape_debug()),
        }
    }
    out.push('"');
    out
}

/// A value as Go's field errors print it.
pub(crate) fn go_value(value: &Value) -> String {
    match value {
        Value::Null => "null".to_owned(),
        Value::String(text) => go_quoted(text),
        other => other.to_string(),
    }
}

/// A value as Go's `%v` prints it.
pub(crate) fn go_text(value: &Value) -> String {
    match value {
        Value::Null => "<nil>".to_owned(),
        Value::String(text) => text.clone(),
        Value::Object(map) => {
            let pairs: Vec<String> = map.iter().map(|(key, value)| format!("{key}:{}", go_text(value))).collect();
            format!("map[{}]", pairs.join(" "))
        }
        Value::Array(items) => format!("[{}]", items.iter().map(go_text).collect::<Vec<_>>().join(" ")),
        other => other.to_string(),
    }
}

/// A refusal. Boxed inside, so that results stay small.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{}", self.0.message)]
pub struct ApiError(Box<Inner>);

#[derive(Debug, Clone)]
struct Inner {
    code: u16,
    reason: &'static str,
    message: String,
    details: Map<String, Value>,
    retry_after: Option<u32>,
    plain: bool,
    /// Details are shown although there are none.
    bare_details: bool,
}

/// The result of everything that serves a request.
pub(crate) type Result<T, E = ApiError> = std::result::Result<T, E>;

impl ApiError {
    /// A refusal with a message and no details.
    pub fn new(code: u16, reason: &'static str, message: impl Into<String>) -> Self {
        let message = message.into();
        Self(Box::new(Inner {
            code,
            reason,
            message,
            details: Map::new(),
            retry_after: None,
            plain: false,
            bare_details: false,
        }))
    }

    fn about(mut self, group: &str, kind: &str, name: &str) -> Self {
        for (key, value) in [("name", name), ("group", group), ("kind", kind)] {
            if !value.is_empty() {
                self.0.details.insert(key.to_owned(), value.into());
            }
        }
        self
    }

    fn caused_by(mut self, causes: &[Cause]) -> Self {
        let causes: Vec<Value> = causes
            .iter()
            .map(|cause| {
                let mut out = Map::new();
                for (key, value) in
                    [("reason", cause.reason), ("message", cause.message.as_str()), ("field", cause.field.as_str())]
                {
                    if !value.is_empty() {
                        out.insert(key.to_owned(), value.into());
                    }
                }
                Value::Object(out)
            })
            .collect();
        if !causes.is_empty() {
            self.0.details.insert("causes".to_owned(), causes.into());
        }
        self
    }

    /// 404: no such object. `resource` is the plural name.
    pub fn not_found(group: &str, resource: &str, name: &str) -> Self {
        let message = format!("{} {name:?} not found", qualified(group, resource));
        Self::new(404, "NotFound", message).about(group, resource, name)
    }

    /// 404: no such resource or path below a group that is served.
    pub fn no_resource() -> Self {
        Self::new(404, "NotFound", "the server could not find the requested resource").with_details()
    }

    /// 404 for a path that is not an API path; plain text, not a `Status`.
    pub fn no_path() -> Self {
        let mut error = Self::new(404, "NotFound", "404 page not found\n");
        error.0.plain = true;
        error
    }

    /// 409: the name is taken.
    pub fn already_exists(group: &str, resource: &str, name: &str) -> Self {
        let message = format!("{} {name:?} already exists", qualified(group, resource));
        Self::new(409, "AlreadyExists", message).about(group, resource, name)
    }

    /// 409: another write came first, or a precondition does not hold.
    pub fn conflict(group: &str, resource: &str, name: &str, why: &str) -> Self {
        let message = format!("Operation cannot be fulfilled on {} {name:?}: {why}", qualified(group, resource));
        Self::new(409, "Conflict", message).about(group, resource, name)
    }

    /// 409: the object was written since it was read.
    pub fn modified(group: &str, resource: &str, name: &str) -> Self {
        let why = "the object has been modified; please apply your changes to the latest version and try again";
        Self::conflict(group, resource, name, why)
    }

    /// 409 of server-side apply: fields that other managers own.
    pub fn apply_conflict(message: String, causes: &[Cause]) -> Self {
        Self::new(409, "Conflict", message).caused_by(causes)
    }

    /// 422: the object is not valid. Two causes or more are listed in brackets, duplicates once.
    pub fn invalid(group: &str, kind: &str, name: &str, causes: &[Cause]) -> Self {
        let mut texts: Vec<String> = Vec::new();
        for cause in causes {
            let text = cause.text();
            if !texts.contains(&text) {
                texts.push(text);
            }
        }
        let text = if texts.len() == 1 { texts.concat() } else { format!("[{}]", texts.join(", ")) };
        let message = format!("{} {name:?} is invalid: {text}", qualified(group, kind));
        Self::new(422, "Invalid", message).about(group, kind, name).caused_by(causes)
    }

    /// 422 without an object: a patch that cannot be applied.
    pub fn unprocessable() -> Self {
        Self::new(422, "Invalid", "the server rejected our request due to an error in our request")
    }

    /// 400.
    pub fn bad_request(message: impl Into<String>) -> Self {
        Self::new(400, "BadRequest", message)
    }

    /// 403 by admission.
    pub fn forbidden(group: &str, resource: &str, name: &str, why: &str) -> Self {
        let message = if name.is_empty() {
            format!("{} is forbidden: {why}", qualified(group, resource))
        } else {
            format!("{} {name:?} is forbidden: {why}", qualified(group, resource))
        };
        Self::new(403, "Forbidden", message).about(group, resource, name)
    }

    /// 403: nothing new in a namespace that is being deleted.
    pub fn namespace_terminating(group: &str, resource: &str, name: &str, namespace: &str) -> Self {
        let why = format!("unable to create new content in namespace {namespace} because it is being terminated");
        let message = format!("namespace {namespace} is being terminated");
        let cause = Cause { reason: "NamespaceTerminating", message, field: "metadata.namespace".to_owned() };
        Self::forbidden(group, resource, name, &why).caused_by(&[cause])
    }

    /// 401.
    pub fn unauthorized() -> Self {
        Self::new(401, "Unauthorized", "Unauthorized")
    }

    /// 405.
    pub fn method_not_allowed() -> Self {
        let text = "the server does not allow this method on the requested resource";
        Self::new(405, "MethodNotAllowed", text).with_details()
    }

    /// 410: the version asked for is no longer kept.
    pub fn expired(message: impl Into<String>) -> Self {
        Self::new(410, "Expired", message)
    }

    /// 415.
    pub fn unsupported_media_type(accepted: &[&str]) -> Self {
        let message = format!(
            "the body of the request was in an unknown format - accepted media types include: {}",
            accepted.join(", ")
        );
        Self::new(415, "UnsupportedMediaType", message)
    }

    /// 406.
    pub fn not_acceptable(accepted: &[&str]) -> Self {
        let message = format!("406: Not Acceptable\n\nAvailable representations: {}", accepted.join(", "));
        Self::new(406, "NotAcceptable", message)
    }

    /// Says something before its message.
    #[must_use]
    pub(crate) fn prefixed(mut self, text: &str) -> Self {
        self.0.message.insert_str(0, text);
        self
    }

    /// Shows its details although there are none.
    #[must_use]
    pub(crate) fn with_details(mut self) -> Self {
        self.0.bare_details = true;
        self
    }

    /// 415 of a patch whose content type no route takes.
    pub fn unsupported_patch() -> Self {
        let mut error = Self::new(415, "UnsupportedMediaType", "415: Unsupported Media Type");
        error.0.bare_details = true;
        error
    }

    /// 500 without a reason: what the real server did not expect.
    pub fn unexpected(message: impl Into<String>) -> Self {
        Self::new(500, "", message)
    }

    /// 405 of a watch.
    pub fn no_watch(plural: &str) -> Self {
        let text = format!("watch is not supported on resources of kind {plural:?}");
        Self::new(405, "MethodNotAllowed", text).about("", plural, "")
    }

    /// 504 of a request that is not there whole in time.
    pub fn timeout() -> Self {
        let text = "Timeout: request did not complete within the allotted timeout";
        Self::new(504, "Timeout", text)
    }

    /// 413.
    pub fn too_large(limit: usize) -> Self {
        Self::new(413, "RequestEntityTooLarge", "Request entity too large: limit is ".to_owned() + &limit.to_string())
    }

    /// 429 of an eviction that a PodDisruptionBudget does not allow now.
    pub fn disruption_budget(message: String, retry_after: u32) -> Self {
        let cause = Cause { reason: "DisruptionBudget", message, field: String::new() };
        let text = "Cannot evict pod as it would violate the pod's disruption budget.";
        let mut error = Self::new(429, "TooManyRequests", text).caused_by(&[cause]);
        if retry_after > 0 {
            error = error.retry_after(retry_after);
        }
        error
    }

    /// 429 in general.
    pub fn too_many_requests(message: impl Into<String>, retry_after: u32) -> Self {
        Self::new(429, "TooManyRequests", message).retry_after(retry_after)
    }

    /// 500.
    pub fn internal(message: impl AsRef<str>) -> Self {
        let text = message.as_ref();
        let cause = Cause { reason: "", message: text.to_owned(), field: String::new() };
        Self::new(500, "InternalError", format!("Internal error occurred: {text}")).caused_by(&[cause])
    }

    /// 504 for a version that lies in the future.
    pub fn future_version(asked: u64, current: u64) -> Self {
        let text = format!("Too large resource version: {asked}, current: {current}");
        let cause = Cause {
            reason: "ResourceVersionTooLarge",
            message: "Too large resource version".into(),
            field: String::new(),
        };
        Self::new(504, "Timeout", format!("Timeout: {text}")).caused_by(&[cause]).retry_after(1)
    }

    /// Asks the client to come again after so many seconds.
    #[must_use]
    pub fn retry_after(mut self, seconds: u32) -> Self {
        self.0.retry_after = Some(seconds);
        self.0.details.insert("retryAfterSeconds".to_owned(), seconds.into());
        self
    }

    /// The HTTP status code.
    pub fn code(&self) -> u16 {
        self.0.code
    }

    /// The machine-readable reason.
    pub fn reason(&self) -> &'static str {
        self.0.reason
    }

    /// The text for people.
    pub fn message(&self) -> &str {
        &self.0.message
    }

    pub(crate) fn retry_after_seconds(&self) -> Option<u32> {
        self.0.retry_after
    }

    pub(crate) fn is_plain(&self) -> bool {
        self.0.plain
    }

    /// Whether the object was not found.
    pub(crate) fn is_not_found(&self) -> bool {
        self.0.reason == "NotFound"
    }

    /// The `Status` object.
    pub fn to_status(&self) -> Value {
        let mut status = json!({
            "apiVersion": "v1", "kind": "Status", "metadata": {}, "status": "Failure",
            "message": self.0.message, "reason": self.0.reason, "code": self.0.code,
        });
        if let Some(map) = status.as_object_mut() {
            if self.0.reason.is_empty() {
                map.remove("reason");
            }
            if !self.0.details.is_empty() || self.0.code == 422 || self.0.bare_details {
                map.insert("details".to_owned(), Value::Object(self.0.details.clone()));
            }
        }
        status
    }
}

/// `pods` or `deployments.apps`.
pub(crate) fn qualified(group: &str, resource: &str) -> String {
    if group.is_empty() { resource.to_owned() } else { format!("{resource}.{group}") }
}

/// The `Status` of a deletion that is done.
pub(crate) fn success(details: &Value) -> Value {
    json!({"apiVersion": "v1", "kind": "Status", "metadata": {}, "status": "Success", "details": details})
}
