//! PATCH of every type.

use serde_json::Value;

use super::decode::{Nulls, into_form};
use super::{Scope, strategy};
use crate::apply::{Writer, apply, drop_resets};
use crate::meta;
use crate::patch::Patch;
use crate::reply::Answer;
use crate::request::{APPLY_OPTIONS, Format, Parsed, parse_body};
use crate::status::{ApiError, Cause, Result, go_text};

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
        let patch = self.read_patch(kind)?;
        self.call.options.check_write("PatchOptions")?;
        let changed = self.change(name, false, "", &mut |live, now| {
            let live = live.ok_or_else(|| self.not_found(name))?;
            let mut new = patch.apply(live, self.resource.typed())?;
            self.check_patched(&mut new, (live, &patch), name)?;
            self.track(Some(live), &mut new, now);
            Ok(new)
        })?;
        Ok(self.changed_answer(&changed))
    }

    pub(super) fn read_patch(&self, kind: &str) -> Result<Patch> {
        let is_custom = self.resource.custom().is_some();
        let accepted: &[&str] = if is_custom { &[JSON, MERGE, APPLY] } else { &[JSON, MERGE, STRATEGIC, APPLY] };
        if !accepted.contains(&kind) {
            return Err(if is_custom && kind == STRATEGIC {
                ApiError::unsupported_media_type(accepted)
            } else {
                ApiError::unsupported_patch()
            });
        }
        let parsed = parse_body(&self.call.body, Format::Json);
        let Parsed { value, .. } =
            parsed.map_err(|error| ApiError::bad_request(format!("error decoding patch: {}", error.message())))?;
        match kind {
            JSON => Patch::json(value),
            other => Patch::map(value, other == STRATEGIC),
        }
    }

    /// A patched object is read like a new one; its kind and version may not change.
    fn check_patched(&self, new: &mut Value, (live, patch): (&Value, &Patch), name: &str) -> Result<()> {
        // As it was before it was read, in words that only a refusal needs.
        let shown = || match patch {
            Patch::Strategic(patch) => go_text(patch),
            _ => patch.apply(live, self.resource.typed()).map_or_else(|_| String::new(), |new| new.to_string()),
        };
        let invalid = |why: &str| {
            let cause = Cause::invalid("patch", &shown().as_str().into(), why);
            ApiError::invalid("", "", "", &[cause])
        };
        if !new.is_object() {
            return Err(invalid("json: cannot unmarshal a value that is no object"));
        }
        let (version, kind) = (meta::text_at(new, &["apiVersion"]), meta::text_at(new, &["kind"]));
        let own = self.resource.api_version();
        if kind != self.resource.kind || version != own {
            let (group, short) = crate::resource::split_api_version(version);
            let is_known =
                self.resource.custom().is_none() && crate::schema::builtin().kind(group, short, kind).is_some();
            return Err(invalid(&if is_known {
                format!("converting ({short}.{kind}) to ({}): unknown conversion", self.resource.internal_kind())
            } else {
                super::decode::unregistered(kind, version)
            }));
        }
        let told = self.form_of(new, patch.fields().as_deref()).map_err(|problem| {
            let strategic = matches!(patch, Patch::Strategic(_));
            invalid(if strategic { &problem.converter } else { &problem.json })
        })?;
        self.tell_strictly(told, &|why| invalid(why))?;
        Self::check_name(new, name)
    }

    fn apply_patch(&self, name: &str) -> Result<Answer> {
        let options = &self.call.options;
        options.check_write(APPLY_OPTIONS)?;
        let Parsed { value: mut config, .. } = parse_body(&self.call.body, Format::Yaml)?;
        self.check_config(&mut config, name)?;
        let (manager, api_version) = (self.call.manager(), self.resource.api_version());
        let resets = strategy::resets(&self.resource, &self.subresource);
        let may_create = self.subresource.is_empty();
        let changed = self.change(name, may_create, "", &mut |live, now| {
            if live.is_none() && meta::has(&config, "uid") {
                let uid = meta::text(&config, "uid");
                let why =
                    format!("uid mismatch: the provided object specified uid {uid}, and no existing object was found");
                return Err(ApiError::conflict(&self.resource.group, &self.resource.plural, name, &why));
            }
            let writer = Writer { manager: &manager, api_version: &api_version, subresource: &self.subresource, now };
            let typed = self.resource.typed();
            let config = drop_resets(&config, typed, resets);
            let force = options.force.unwrap_or(false);
            let mut new = apply(live.unwrap_or_else(|| self.resource.empty()), &config, typed, &writer, force, resets)?;
            // What an applier says of unknown fields was told before; those that it may write below free ones go unsaid.
            into_form(&self.resource, &mut new, Nulls::Stay).map_err(|problem| self.cannot_handle(&problem.json))?;
            self.check_namespace(&mut new)?;
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
        if version != own || kind != self.resource.kind {
            return Err(ApiError::bad_request(format!("invalid object type: {version}, Kind={kind}")));
        }
        if meta::has(config, "managedFields") {
            return Err(ApiError::bad_request("metadata.managedFields must be nil"));
        }
        if meta::name(config).is_empty() {
            meta::set(config, "name", name);
        }
        Self::check_name(config, name)?;
        let mut scratch = config.clone();
        self.check_namespace(&mut scratch)
    }
}
