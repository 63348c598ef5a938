//! From a body to an object of the resource: the right kind, types checked, unknown fields told, defaults filled in.

use serde_json::Value;

use super::Scope;
use crate::request::{FieldValidation, Format, PROTOBUF, Parsed, parse_body, read_protobuf};
use crate::resource::Resource;
use crate::schema::decode::{self, Problems, WrongType};
use crate::schema::{Typed, builtin};
use crate::status::{ApiError, Result};
use crate::{defaults, meta};

impl Scope<'_> {
    /// Reads a body in the format of its content type.
    pub(super) fn parse(&self) -> Result<Parsed> {
        let kind = self.call.content_type.split(';').next().unwrap_or_default().trim();
        let format = match kind {
            "" | "application/json" => Format::Json,
            "application/yaml" | "application/x-yaml" => Format::Yaml,
            PROTOBUF => {
                let value = read_protobuf(&self.call.body, &schema_of)?;
                return Ok(Parsed { value, duplicates: Vec::new() });
            }
            _ => {
                let accepted = ["application/json", "application/yaml", PROTOBUF];
                return Err(ApiError::unsupported_media_type(&accepted));
            }
        };
        if format == Format::Json
            && let Some(parsed) = self.call.ahead.lock().take()
        {
            return parsed;
        }
        parse_body(&self.call.body, format)
    }

    /// A body of a built-in kind other than the resource's own, as what is posted to a subresource. It may leave out what it is,
    /// and not be something else.
    pub(super) fn body_of(&self, schema: &str, api_version: &str, kind: &str) -> Result<Value> {
        let mut value = self.parse()?.value;
        // As old clients still send it.
        if meta::text_at(&value, &["apiVersion"]) == "policy/v1beta1"
            && kind == "Eviction"
            && let Some(map) = value.as_object_mut()
        {
            map.insert("apiVersion".to_owned(), api_version.into());
        }
        let given = |field: &str| meta::text_at(&value, &[field]);
        let (version, own) = (given("apiVersion"), given("kind"));
        let (group, short) = crate::resource::split_api_version(if version.is_empty() { api_version } else { version });
        let refuse = |kind: &str, why: &str, short: &str, own: &str| {
            ApiError::bad_request(format!("{own} in version {short:?} cannot be handled as a {kind}: {why}"))
        };
        if !own.is_empty() && own != kind {
            let why = if builtin().kind(group, short, own).is_some() {
                let package = crate::resource::package_of(crate::resource::split_api_version(api_version).0);
                format!("converting ({short}.{own}) to ({package}.{kind}): unknown conversion")
            } else {
                unregistered(own, version)
            };
            return Err(refuse(kind, &why, short, own));
        }
        if !version.is_empty() && version != api_version {
            return Err(if builtin().kind(group, short, kind).is_none() {
                refuse(kind, &unregistered(kind, version), short, kind)
            } else {
                ApiError::bad_request(format!(
                    "the API version in the data ({version}) does not match the expected API version ({api_version})"
                ))
            });
        }
        let Some(typed) = builtin().schemas.named(schema) else {
            return Err(ApiError::internal(format!("no schema of {kind}")));
        };
        match decode::decode(&mut value, typed).error {
            Some(error) => {
                let short = crate::resource::split_api_version(api_version).1;
                Err(refuse(kind, &error.json, short, kind))
            }
            None => Ok(value),
        }
    }

    /// The object of a POST or PUT.
    pub(super) fn object_from_body(&self) -> Result<Value> {
        let resource = &self.resource;
        let unrecognized = |why: &str| {
            let shown = String::from_utf8_lossy(self.call.body.get(..30.min(self.call.body.len())).unwrap_or_default());
            let dots = if self.call.body.len() > 30 { " ..." } else { "" };
            let shown = if shown.is_empty() { "<empty>".to_owned() } else { format!("{shown}{dots}") };
            ApiError::bad_request(format!(
                "the object provided is unrecognized (must be of type {}): {why} ({shown})",
                resource.kind
            ))
        };
        if self.call.body.is_empty() {
            return Err(unrecognized("couldn't get version/kind; json parse error: unexpected end of JSON input"));
        }
        let Parsed { mut value, duplicates } = self.parse()?;
        if !value.is_object() {
            let why = format!(
                "couldn't get version/kind; json parse error: json: cannot unmarshal {} into Go value of type struct {{ APIVersion string \"json:\\\"apiVersion,omitempty\\\"\"; Kind string \"json:\\\"kind,omitempty\\\"\" }}",
                crate::patch::go_kind(&value)
            );
            let shown = crate::defaults::hex(&self.call.body);
            return Err(ApiError::bad_request(format!(
                "the object provided is unrecognized (must be of type {}): {why} ({shown})",
                resource.kind
            )));
        }
        let own = resource.api_version();
        for (field, default) in [("kind", resource.kind.as_str()), ("apiVersion", own.as_str())] {
            if meta::text_at(&value, &[field]).is_empty() {
                if resource.custom().is_some() {
                    let body = String::from_utf8_lossy(&self.call.body);
                    let field = if field == "kind" { "Kind" } else { "apiVersion" };
                    return Err(unrecognized(&format!("Object '{field}' is missing in '{body}'")));
                }
                if let Some(map) = value.as_object_mut() {
                    map.insert(field.to_owned(), default.into());
                }
            }
        }
        let (version, kind) = (meta::text_at(&value, &["apiVersion"]), meta::text_at(&value, &["kind"]));
        if kind != resource.kind && resource.custom().is_none() {
            let (group, short) = crate::resource::split_api_version(version);
            let why = if resource.custom().is_none() && builtin().kind(group, short, kind).is_some() {
                format!("converting ({short}.{kind}) to ({}): unknown conversion", resource.internal_kind())
            } else {
                unregistered(kind, version)
            };
            return Err(ApiError::bad_request(format!(
                "{kind} in version {short:?} cannot be handled as a {}: {why}",
                resource.kind
            )));
        }
        if version != own {
            let (group, short) = crate::resource::split_api_version(version);
            if resource.custom().is_none() && builtin().kind(group, short, kind).is_none() {
                return Err(ApiError::bad_request(format!(
                    "{kind} in version {short:?} cannot be handled as a {}: {}",
                    resource.kind,
                    unregistered(kind, version)
                )));
            }
            return Err(ApiError::bad_request(format!(
                "the API version in the data ({version}) does not match the expected API version ({own})"
            )));
        }
        self.bring_into_form(&mut value, &duplicates)?;
        Ok(value)
    }

    /// Checks and completes an object; unknown and duplicate fields are refused, told, or passed over.
    fn bring_into_form(&self, value: &mut Value, duplicates: &[String]) -> Result<()> {
        let strict = self.form(value).map_err(|problem| self.cannot_handle(&problem.json))?;
        let told = duplicates.iter().map(|path| format!("duplicate field {path:?}"));
        self.tell_strictly(strict.into_iter().chain(told).collect(), &|why| self.cannot_handle(why))
    }

    /// That an object of the resource cannot be read.
    pub(super) fn cannot_handle(&self, why: &str) -> ApiError {
        let (kind, version) = (&self.resource.kind, &self.resource.version);
        ApiError::bad_request(format!("{kind} in version {version:?} cannot be handled as a {kind}: {why}"))
    }

    /// Checks and completes an object; what is told strictly comes back.
    pub(super) fn form(&self, value: &mut Value) -> Result<Vec<String>, WrongType> {
        self.form_of(value, None)
    }

    /// The same of an object of which all fields but these are as they are stored; `None`: any may be another.
    pub(super) fn form_of(&self, value: &mut Value, changed: Option<&[&str]>) -> Result<Vec<String>, WrongType> {
        let unknown = fields_into_form(&self.resource, value, changed, Nulls::Go)?;
        Ok(unknown.iter().map(|path| format!("unknown field {path:?}")).collect())
    }

    /// Refuses, tells or passes over what only strict readers mind.
    pub(super) fn tell_strictly(&self, told: Vec<String>, refuse: &dyn Fn(&str) -> ApiError) -> Result<()> {
        match self.call.options.field_validation {
            FieldValidation::Ignore => Ok(()),
            _ if told.is_empty() => Ok(()),
            FieldValidation::Warn => {
                for text in told {
                    self.call.warn(text);
                }
                Ok(())
            }
            FieldValidation::Strict => Err(refuse(&format!("strict decoding error: {}", told.join(", ")))),
        }
    }
}

/// What the real server says of a kind that it does not have.
pub(super) fn unregistered(kind: &str, version: &str) -> String {
    format!("no kind {kind:?} is registered for version {version:?} in scheme \"pkg/runtime/scheme.go:111\"")
}

/// The schema of a built-in kind that a body is of: of the resource, or of what is posted to a subresource.
fn schema_of(version: &str, kind: &str) -> Option<Typed<'static>> {
    let (group, version) = crate::resource::split_api_version(version);
    builtin().kind(group, version, kind)
}

/// What becomes of nulls of a custom resource's fields that may be none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Nulls {
    /// They count as absent.
    Go,
    /// They stay, as appliers' do, and are refused.
    Stay,
}

/// Brings an object into the form in which it is stored. Gives the unknown fields; an error is one of types.
pub(crate) fn into_form(resource: &Resource, value: &mut Value, nulls: Nulls) -> Result<Vec<String>, WrongType> {
    fields_into_form(resource, value, None, nulls)
}

/// Whether reading an object leaves it as it is.
fn is_in_form(resource: &Resource, value: &Value) -> bool {
    let mut read = value.clone();
    let Problems { unknown, error } = decode::decode(&mut read, resource.typed());
    unknown.is_empty() && error.is_none() && read == *value
}

fn fields_into_form(
    resource: &Resource,
    value: &mut Value,
    changed: Option<&[&str]>,
    nulls: Nulls,
) -> Result<Vec<String>, WrongType> {
    let unknown = match resource.custom() {
        None => {
            let Problems { unknown, error } = decode::decode_fields(value, resource.typed(), changed);
            if let Some(error) = error {
                return Err(error);
            }
            debug_assert!(changed.is_none() || is_in_form(resource, value), "what is stored is in its form");
            defaults::complete(resource, value);
            unknown
        }
        Some(custom) => {
            let mut unknown = custom.prune(value);
            if let Some(metadata) = value.get_mut("metadata") {
                let problems = decode::decode(metadata, resource.typed().child("metadata"));
                if let Some(error) = problems.error {
                    return Err(error);
                }
                unknown.extend(problems.unknown.into_iter().map(|path| format!("metadata.{path}")));
            }
            match nulls {
                Nulls::Go => custom.default(value),
                Nulls::Stay => custom.default_beside_nulls(value),
            }
            unknown
        }
    };
    Ok(unknown)
}
