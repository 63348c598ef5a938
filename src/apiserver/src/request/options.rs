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

/// How a resourceVersion is meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MatchVersion {
    Exact,
    NotOlderThan,
}

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
    pub(crate) version_match: Option<MatchVersion>,
    pub(crate) send_initial_events: Option<bool>,
    pub(crate) bookmarks: bool,
    pub(crate) timeout_seconds: Option<u64>,
    pub(crate) dry_run: bool,
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
                "limit" => out.limit = value.parse().unwrap_or(0),
                "continue" if !value.is_empty() => out.continue_token = Some(value),
                "resourceVersion" if !value.is_empty() => out.resource_version = Some(value),
                "resourceVersionMatch" => out.version_match = version_match(&value)?,
                "sendInitialEvents" => out.send_initial_events = Some(flag(&value)),
                "allowWatchBookmarks" => out.bookmarks = flag(&value),
                "timeoutSeconds" => out.timeout_seconds = value.parse().ok().filter(|seconds| *seconds > 0),
                "dryRun" => dry_run.push(value),
                "fieldValidation" => out.field_validation = field_validation(&value)?,
                "fieldManager" if !value.is_empty() => out.field_manager = Some(value),
                "force" => out.force = Some(flag(&value)),
                "propagationPolicy" => out.propagation = propagation(&value)?,
                "orphanDependents" => out.orphan_dependents = Some(flag(&value)),
                "gracePeriodSeconds" => out.grace_period = value.parse().ok(),
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
        out.set_dry_run(&dry_run)?;
        out.check_manager()?;
        Ok(out)
    }

    fn set_dry_run(&mut self, values: &[String]) -> Result<()> {
        let bad: Vec<&String> = values.iter().filter(|value| *value != "All").collect();
        if !bad.is_empty() {
            let shown = Value::Array(bad.iter().map(|value| Value::from(value.as_str())).collect());
            let cause = Cause::not_supported("dryRun", &shown, &["All"]);
            return Err(ApiError::invalid("meta.k8s.io", "CreateOptions", "", &[cause]));
        }
        self.dry_run = !values.is_empty();
        Ok(())
    }

    fn check_manager(&self) -> Result<()> {
        let Some(manager) = &self.field_manager else { return Ok(()) };
        let cause = if manager.len() > 128 {
            Cause::too_long("fieldManager", 128)
        } else if manager.chars().any(char::is_control) {
            Cause::invalid("fieldManager", &manager.as_str().into(), "should only contain printable characters")
        } else {
            return Ok(());
        };
        Err(ApiError::invalid("meta.k8s.io", "CreateOptions", "", &[cause]))
    }

    /// Takes the options of a `DeleteOptions` body, in place of those of the query.
    pub(crate) fn take_delete_options(&mut self, body: &Value) -> Result<()> {
        let text = |path: &[&str]| Some(crate::meta::text_at(body, path).to_owned()).filter(|text| !text.is_empty());
        if let Some(policy) = text(&["propagationPolicy"]) {
            self.propagation = propagation(&policy)?;
        }
        self.orphan_dependents = body.get("orphanDependents").and_then(Value::as_bool).or(self.orphan_dependents);
        self.grace_period = crate::meta::int_at(body, &["gracePeriodSeconds"]).or(self.grace_period);
        self.uid_precondition = text(&["preconditions", "uid"]);
        self.version_precondition = text(&["preconditions", "resourceVersion"]);
        let dry_run: Vec<String> =
            crate::meta::list_at(body, &["dryRun"]).iter().filter_map(Value::as_str).map(str::to_owned).collect();
        if !dry_run.is_empty() {
            self.set_dry_run(&dry_run)?;
        }
        Ok(())
    }

    /// Checks what only deletions must keep to.
    pub(crate) fn check_delete(&self) -> Result<()> {
        if self.propagation.is_some() && self.orphan_dependents.is_some() {
            let both = "orphanDependents and deletionPropagation cannot be both set";
            let cause = Cause::invalid("propagationPolicy", &"".into(), both);
            return Err(ApiError::invalid("meta.k8s.io", "DeleteOptions", "", &[cause]));
        }
        Ok(())
    }
}

fn flag(value: &str) -> bool {
    !matches!(value, "false" | "0")
}

fn version_match(value: &str) -> Result<Option<MatchVersion>> {
    match value {
        "" => Ok(None),
        "Exact" => Ok(Some(MatchVersion::Exact)),
        "NotOlderThan" => Ok(Some(MatchVersion::NotOlderThan)),
        other => {
            let supported = ["Exact", "NotOlderThan", ""];
            let cause = Cause::not_supported("resourceVersionMatch", &other.into(), &supported);
            Err(ApiError::invalid("meta.k8s.io", "ListOptions", "", &[cause]))
        }
    }
}

fn field_validation(value: &str) -> Result<FieldValidation> {
    match value {
        "" | "Warn" => Ok(FieldValidation::Warn),
        "Ignore" => Ok(FieldValidation::Ignore),
        "Strict" => Ok(FieldValidation::Strict),
        other => {
            let cause = Cause::not_supported("fieldValidation", &other.into(), &["", "Ignore", "Strict", "Warn"]);
            Err(ApiError::invalid("meta.k8s.io", "CreateOptions", "", &[cause]))
        }
    }
}

fn propagation(value: &str) -> Result<Option<Propagation>> {
    match value {
        "" => Ok(None),
        "Orphan" => Ok(Some(Propagation::Orphan)),
        "Background" => Ok(Some(Propagation::Background)),
        "Foreground" => Ok(Some(Propagation::Foreground)),
        other => {
            let supported = ["Foreground", "Background", "Orphan", "nil"];
            let cause = Cause::not_supported("propagationPolicy", &other.into(), &supported);
            Err(ApiError::invalid("meta.k8s.io", "DeleteOptions", "", &[cause]))
        }
    }
}
