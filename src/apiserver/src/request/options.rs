//! Query parameters, with the checks that the server makes of them.

use serde_json::Value;

use super::path::decode_query;
use crate::selector::{FieldSelector, LabelSelector};
use crate::status::{ApiError, Cause, Result};

/// What becomes of unknown and duplicate fields.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum FieldValidation {
    Ignore,
    #[default]
    Warn,
    Strict,
}

const VERSION_MATCH: &str = "resourceVersionMatch";
/// Names the options of an apply, which are `PatchOptions` with other rules.
pub(crate) const APPLY_OPTIONS: &str = "apply";

/// What becomes of the dependents of a deleted object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Propagation {
    Orphan,
    Background,
    Foreground,
}

/// The query of a request, and the options of a deletion's body.
#[derive(Debug, Clone, Default)]
#[allow(clippy::struct_excessive_bools)]
pub(crate) struct Options {
    pub(crate) watch: bool,
    pub(crate) labels: LabelSelector,
    pub(crate) fields: FieldSelector,
    pub(crate) limit: usize,
    pub(crate) continue_token: Option<String>,
    pub(crate) resource_version: Option<String>,
    pub(crate) version_match: Option<String>,
    pub(crate) send_initial_events: Option<bool>,
    pub(crate) bookmarks: bool,
    pub(crate) timeout_seconds: Option<u64>,
    pub(crate) dry_run: bool,
    /// What was given, to be checked by the rules of a verb.
    pub(crate) dry_runs: Vec<String>,
    pub(crate) field_validation_text: String,
    pub(crate) propagation_policy: Option<String>,
    pub(crate) field_validation: FieldValidation,
    pub(crate) field_manager: Option<String>,
    pub(crate) force: Option<bool>,
    pub(crate) propagation: Option<Propagation>,
    /// The deprecated way to say it decides the status code of the answer.
    pub(crate) orphan_dependents: Option<bool>,
    pub(crate) grace_period: Option<i64>,
    pub(crate) uid_precondition: Option<String>,
    pub(crate) version_precondition: Option<String>,
    /// `includeObject` of a table.
    pub(crate) include_object: IncludeObject,
}

/// What the rows of a table hold of their objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum IncludeObject {
    None,
    #[default]
    Metadata,
    Object,
}

// === impl Options ===

impl Options {
    /// Reads a query string.
    pub(crate) fn parse(query: &str) -> Result<Self> {
        let mut out = Self::default();
        let mut dry_run = Vec::new();
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            let (key, value) = (decode_query(key), decode_query(value));
            match key.as_str() {
                "watch" => out.watch = flag(&value),
                "labelSelector" => out.labels = LabelSelector::parse(&value)?,
                "fieldSelector" => out.fields = FieldSelector::parse(&value)?,
                "limit" => {
                    let limit: i64 = integer(&value)?;
                    out.limit = usize::try_from(limit).unwrap_or(0);
                }
                "continue" if !value.is_empty() => out.continue_token = Some(value),
                "resourceVersion" if !value.is_empty() => out.resource_version = Some(value),
                "resourceVersionMatch" => out.version_match = Some(value).filter(|value| !value.is_empty()),
                "sendInitialEvents" => out.send_initial_events = Some(flag(&value)),
                "allowWatchBookmarks" => out.bookmarks = flag(&value),
                "timeoutSeconds" => {
                    out.timeout_seconds = u64::try_from(integer(&value)?).ok().filter(|seconds| *seconds > 0);
                }
                "dryRun" => dry_run.push(value),
                "fieldValidation" => out.field_validation_text = value,
                "fieldManager" if !value.is_empty() => out.field_manager = Some(value),
                "force" => out.force = Some(flag(&value)),
                "propagationPolicy" => out.propagation_policy = Some(value).filter(|value| !value.is_empty()),
                "orphanDependents" => out.orphan_dependents = Some(flag(&value)),
                "gracePeriodSeconds" => out.grace_period = Some(integer(&value)?),
                "includeObject" => {
                    out.include_object = match value.as_str() {
                        "None" => IncludeObject::None,
                        "Object" => IncludeObject::Object,
                        _ => IncludeObject::Metadata,
                    }
                }
                _ => {}
            }
        }
        out.dry_runs = dry_run;
        out.dry_run = !out.dry_runs.is_empty();
        out.field_validation = match out.field_validation_text.as_str() {
            "Ignore" => FieldValidation::Ignore,
            "Strict" => FieldValidation::Strict,
            _ => FieldValidation::Warn,
        };
        Ok(out)
    }

    /// Checks the options of a write; `kind` is that of its options, as `CreateOptions`.
    pub(crate) fn check_write(&self, kind: &str) -> Result<()> {
        let mut causes = Vec::new();
        let is_apply = kind == APPLY_OPTIONS;
        let kind = if is_apply { "PatchOptions" } else { kind };
        if kind == "PatchOptions" {
            if is_apply && self.field_manager.is_none() {
                causes.push(Cause::required("fieldManager", "is required for apply patch"));
            } else if !is_apply && self.force.is_some() {
                causes.push(Cause::forbidden("force", "may not be specified for non-apply patch"));
            }
        }
        if let Some(manager) = &self.field_manager {
            if manager.len() > 128 {
                causes.push(Cause::too_long("fieldManager", 128));
            }
            if let Some(at) = manager.chars().position(|c| c.is_control() || (c.is_whitespace() && c != ' ')) {
                let c = manager.chars().nth(at).unwrap_or_default();
                let why = format!("invalid character U+{:04X} (at position {at})", u32::from(c));
                causes.push(Cause::invalid("fieldManager", &manager.as_str().into(), &why));
            }
        }
        causes.extend(self.dry_run_causes());
        let text = self.field_validation_text.as_str();
        if !["", "Ignore", "Strict", "Warn"].contains(&text) {
            causes.push(Cause::not_supported("fieldValidation", &text.into(), &["", "Ignore", "Strict", "Warn"]));
        }
        if causes.is_empty() { Ok(()) } else { Err(ApiError::invalid("meta.k8s.io", kind, "", &causes)) }
    }

    fn dry_run_causes(&self) -> Option<Cause> {
        if self.dry_runs.iter().all(|value| value == "All") {
            return None;
        }
        let shown = Value::Array(self.dry_runs.iter().map(|value| Value::from(value.as_str())).collect());
        Some(Cause::not_supported("dryRun", &shown, &["All"]))
    }

    /// Checks the options of a list.
    pub(crate) fn check_list(&self) -> Result<()> {
        let mut causes = Vec::new();
        if let Some(text) = &self.version_match {
            let forbidden = |why: &str| Cause::forbidden(VERSION_MATCH, why);
            if self.resource_version.is_none() {
                causes.push(forbidden("resourceVersionMatch is forbidden unless resourceVersion is provided"));
            }
            if self.continue_token.is_some() {
                causes.push(forbidden("resourceVersionMatch is forbidden when continue is provided"));
            }
            if !["Exact", "NotOlderThan"].contains(&text.as_str()) {
                let supported = ["Exact", "NotOlderThan", ""];
                causes.push(Cause::not_supported(VERSION_MATCH, &text.as_str().into(), &supported));
            }
            if text == "Exact" && self.resource_version.as_deref() == Some("0") {
                causes.push(forbidden("resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\""));
            }
        }
        if self.send_initial_events.is_some() {
            causes.push(Cause::forbidden("sendInitialEvents", "sendInitialEvents is forbidden for list"));
        }
        list_causes(&causes)
    }

    /// Checks the options of a watch.
    pub(crate) fn check_watch(&self) -> Result<()> {
        let mut causes = Vec::new();
        let text = self.version_match.as_deref();
        let forbidden = |why: &str| Cause::forbidden(VERSION_MATCH, why);
        if self.send_initial_events.is_some() && text != Some("NotOlderThan") {
            causes.push(forbidden("sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"));
        }
        if let Some(text) = text {
            if self.send_initial_events.is_none() {
                causes.push(forbidden(
                    "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided",
                ));
            }
            if text != "NotOlderThan" {
                causes.push(Cause::not_supported(VERSION_MATCH, &text.into(), &["NotOlderThan"]));
            }
            if self.continue_token.is_some() {
                causes.push(forbidden("resourceVersionMatch is forbidden when continue is provided"));
            }
        }
        list_causes(&causes)
    }

    /// Whether exactly the version that is named is meant.
    pub(crate) fn is_exact(&self) -> bool {
        self.version_match.as_deref() == Some("Exact")
    }

    /// Takes the options of a `DeleteOptions` body, in place of those of the query.
    pub(crate) fn take_delete_options(&mut self, body: &Value) {
        let text = |path: &[&str]| Some(crate::meta::text_at(body, path).to_owned()).filter(|text| !text.is_empty());
        if let Some(policy) = text(&["propagationPolicy"]) {
            self.propagation_policy = Some(policy);
        }
        self.orphan_dependents = body.get("orphanDependents").and_then(Value::as_bool).or(self.orphan_dependents);
        self.grace_period = crate::meta::int_at(body, &["gracePeriodSeconds"]).or(self.grace_period);
        self.uid_precondition = text(&["preconditions", "uid"]);
        self.version_precondition = text(&["preconditions", "resourceVersion"]);
        let dry_run: Vec<String> =
            crate::meta::list_at(body, &["dryRun"]).iter().filter_map(Value::as_str).map(str::to_owned).collect();
        if !dry_run.is_empty() {
            self.dry_run = true;
            self.dry_runs = dry_run;
        }
    }

    /// Checks and reads what only deletions have.
    pub(crate) fn check_delete(&mut self) -> Result<()> {
        let mut causes = Vec::new();
        let policy = self.propagation_policy.as_deref();
        if let (Some(policy), Some(_)) = (policy, self.orphan_dependents) {
            let both = "orphanDependents and deletionPropagation cannot be both set";
            causes.push(Cause::invalid("propagationPolicy", &policy.into(), both));
        }
        self.propagation = match policy {
            None => None,
            Some("Orphan") => Some(Propagation::Orphan),
            Some("Background") => Some(Propagation::Background),
            Some("Foreground") => Some(Propagation::Foreground),
            Some(other) => {
                let supported = ["Foreground", "Background", "Orphan", "nil"];
                causes.push(Cause::not_supported("propagationPolicy", &other.into(), &supported));
                None
            }
        };
        causes.extend(self.dry_run_causes());
        if causes.is_empty() { Ok(()) } else { Err(ApiError::invalid("meta.k8s.io", "DeleteOptions", "", &causes)) }
    }
}

fn list_causes(causes: &[Cause]) -> Result<()> {
    if causes.is_empty() { Ok(()) } else { Err(ApiError::invalid("meta.k8s.io", "ListOptions", "", causes)) }
}

/// An integer of a query; nothing is 0.
fn integer(text: &str) -> Result<i64> {
    if text.is_empty() {
        return Ok(0);
    }
    let why = || ApiError::bad_request(format!("strconv.ParseInt: parsing {text:?}: invalid syntax"));
    text.parse().map_err(|_| why())
}

fn flag(value: &str) -> bool {
    !matches!(value, "false" | "0")
}
