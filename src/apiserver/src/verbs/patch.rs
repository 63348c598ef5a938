//! PATCH of every type.

use serde_json::Value;

use super::{Scope, strategy};
use crate::apply::{Writer, apply, apply_last_applied, drop_resets};
use crate::meta;
use crate::patch::Patch;
use crate::reply::Answer;
use crate::request::{Format, Parsed, parse_body};
use crate::status::{ApiError, Result};

const JSON: &str = "application/json-patch+json";
const MERGE: &str = "application/merge-patch+json";
const STRATEGIC: &str = "application/strategic-merge-patch+json";
const APPLY: &str = "application/apply-patch+yaml";

impl Scope<'_> {
    pub(super) fn patch(&self, name: &str) -> Result<Answer> {
        let kind = self.call.content_type.split(';').next().unwrap_or_default().trim();
        if kind == APPLY {
            return self.apply_patch(name);
        }
        if self.call.options.force.is_some() {
            let cause = crate::status::Cause::forbidden("force", "may not be specified for non-apply patch");
            return Err(ApiError::invalid("meta.k8s.io", "PatchOptions", "", &[cause]));
        }
        let patch = self.read_patch(kind)?;
        let changed = self.change(name, false, "", &mut |live, now| {
            let live = live.ok_or_else(|| self.not_found(name))?;
            let mut new = patch.apply(live, self.resource.typed())?;
            self.check_patched(&mut new, live)?;
            self.track(Some(live), &mut new, now);
            Ok(new)
        })?;
        Ok(self.changed_answer(&changed))
    }

    pub(super) fn read_patch(&self, kind: &str) -> Result<Patch> {
        let is_custom = self.resource.custom().is_some();
        let accepted: &[&str] = if is_custom { &[JSON, MERGE, APPLY] } else { &[JSON, MERGE, STRATEGIC, APPLY] };
        if !accepted.contains(&kind) {
            return Err(ApiError::unsupported_media_type(accepted));
        }
        let Parsed { value, .. } = parse_body(&self.call.body, Format::Json)?;
        Ok(match kind {
            JSON => Patch::json(value)?,
            MERGE => Patch::Merge(value),
            _ => Patch::Strategic(value),
        })
    }

    /// A patched object is read like a new one; its kind and version may not change.
    fn check_patched(&self, new: &mut Value, live: &Value) -> Result<()> {
        if !new.is_object() {
            return Err(ApiError::bad_request("the patched object is no object"));
        }
        for field in ["apiVersion", "kind"] {
            if new.get(field) != live.get(field) {
                let (was, is) = (meta::text_at(live, &[field]), meta::text_at(new, &[field]));
                return Err(ApiError::bad_request(format!("{field} of the patched object ({is}) must stay {was}")));
            }
        }
        self.bring_into_form(new, &[])
    }

    fn apply_patch(&self, name: &str) -> Result<Answer> {
        let options = &self.call.options;
        if options.field_manager.is_none() {
            let cause = crate::status::Cause::required("fieldManager", "is required for apply patch");
            return Err(ApiError::invalid("meta.k8s.io", "PatchOptions", "", &[cause]));
        }
        let Parsed { value: mut config, .. } = parse_body(&self.call.body, Format::Yaml)?;
        self.check_config(&mut config, name)?;
        let uid = meta::text(&config, "uid").to_owned();
        let (manager, api_version) = (self.call.manager(), self.resource.api_version());
        let resets = strategy::resets(&self.resource, &self.subresource);
        let may_create = self.subresource.is_empty();
        let changed = self.change(name, may_create, &uid, &mut |live, now| {
            let writer = Writer { manager: &manager, api_version: &api_version, subresource: &self.subresource, now };
            let empty = strategy::empty(&self.resource);
            let typed = self.resource.typed();
            let mut config = drop_resets(&config, typed, &resets);
            if let Some(live) = live {
                apply_last_applied(live, &mut config, &manager);
            }
            let force = options.force.unwrap_or(false);
            let mut new = apply(live.unwrap_or(&empty), &config, typed, &writer, force, &resets)?;
            self.bring_into_form(&mut new, &[])?;
            Ok(new)
        })?;
        Ok(self.changed_answer(&changed))
    }

    fn check_config(&self, config: &mut Value, name: &str) -> Result<()> {
        if !config.is_object() {
            return Err(ApiError::bad_request("error decoding YAML: expected an object"));
        }
        let own = self.resource.api_version();
        let (version, kind) = (meta::text_at(config, &["apiVersion"]), meta::text_at(config, &["kind"]));
        if version.is_empty() || kind.is_empty() {
            return Err(ApiError::bad_request("failed to convert: apiVersion and kind must be set for an apply patch"));
        }
        if version != own || kind != self.resource.kind {
            return Err(ApiError::bad_request(format!(
                "apply patch is of {version}, Kind={kind}, expected {own}, Kind={}",
                self.resource.kind
            )));
        }
        if meta::has(config, "managedFields") {
            return Err(ApiError::bad_request("metadata.managedFields must be nil"));
        }
        if meta::name(config).is_empty() {
            meta::set(config, "name", name);
        }
        Self::check_name(config, name)?;
        self.check_namespace(config)
    }
}
