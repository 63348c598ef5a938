//! From a body to an object of the resource: the right kind, types checked, unknown fields told, defaults filled in.

use serde_json::Value;

use super::Scope;
use crate::request::{FieldValidation, Format, PROTOBUF, Parsed, parse_body, read_protobuf};
use crate::resource::Resource;
use crate::schema::decode::{self, Problems};
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
        parse_body(&self.call.body, format)
    }

    /// The object of a POST or PUT.
    pub(super) fn object_from_body(&self) -> Result<Value> {
        let Parsed { mut value, duplicates } = self.parse()?;
        let resource = &self.resource;
        if !value.is_object() {
            let why = "couldn't get version/kind; json parse error";
            return Err(ApiError::bad_request(format!(
                "the object provided is unrecognized (must be of type {}): {why}",
                resource.kind
            )));
        }
        let own = resource.api_version();
        for (field, default) in [("apiVersion", own.as_str()), ("kind", resource.kind.as_str())] {
            if meta::text_at(&value, &[field]).is_empty() {
                if resource.custom().is_some() {
                    return Err(ApiError::bad_request(format!(
                        "the object provided is unrecognized (must be of type {}): Object '{}' is missing",
                        resource.kind,
                        if field == "kind" { "Kind" } else { "apiVersion" }
                    )));
                }
                if let Some(map) = value.as_object_mut() {
                    map.insert(field.to_owned(), default.into());
                }
            }
        }
        let (version, kind) = (meta::text_at(&value, &["apiVersion"]), meta::text_at(&value, &["kind"]));
        if kind != resource.kind {
            let (_, short) = crate::resource::split_api_version(version);
            let why = format!("no kind {kind:?} is registered for version {version:?} in this request");
            return Err(ApiError::bad_request(format!(
                "{kind} in version {short:?} cannot be handled as a {}: {why}",
                resource.kind
            )));
        }
        if version != own {
            return Err(ApiError::bad_request(format!(
                "the API version in the data ({version}) does not match the expected API version ({own})"
            )));
        }
        self.bring_into_form(&mut value, &duplicates)?;
        Ok(value)
    }

    /// Checks and completes an object; unknown and duplicate fields are refused, told, or passed over.
    pub(super) fn bring_into_form(&self, value: &mut Value, duplicates: &[String]) -> Result<()> {
        let strict = into_form(&self.resource, value).map_err(|error| {
            let (kind, version) = (&self.resource.kind, &self.resource.version);
            ApiError::bad_request(format!("{kind} in version {version:?} cannot be handled as a {kind}: {error}"))
        })?;
        let told = duplicates.iter().map(|path| format!("duplicate field {path:?}"));
        let told: Vec<String> = told.chain(strict.iter().map(|path| format!("unknown field {path:?}"))).collect();
        match self.call.options.field_validation {
            FieldValidation::Ignore => Ok(()),
            _ if told.is_empty() => Ok(()),
            FieldValidation::Warn => {
                for text in told {
                    self.call.warn(text);
                }
                Ok(())
            }
            FieldValidation::Strict => {
                let (kind, version) = (&self.resource.kind, &self.resource.version);
                let why = format!("strict decoding error: {}", told.join(", "));
                Err(ApiError::bad_request(format!(
                    "{kind} in version {version:?} cannot be handled as a {kind}: {why}"
                )))
            }
        }
    }
}

/// The schema of a built-in kind that a body is of: of the resource, or of what is posted to a subresource.
fn schema_of(version: &str, kind: &str) -> Option<Typed<'static>> {
    let (group, version) = crate::resource::split_api_version(version);
    builtin().kind(group, version, kind)
}

/// Brings an object into the form in which it is stored. Gives the unknown fields; an error is one of types.
pub(crate) fn into_form(resource: &Resource, value: &mut Value) -> Result<Vec<String>, String> {
    let unknown = match resource.custom() {
        None => {
            let Problems { unknown, error } = decode::decode(value, resource.typed());
            if let Some(error) = error {
                return Err(error);
            }
            defaults::complete(resource, value);
            unknown
        }
        Some(custom) => {
            let mut unknown = custom.prune(value);
            if let Some(metadata) = value.get_mut("metadata") {
                let problems = decode::decode(metadata, resource.typed().child("metadata"));
                if let Some(error) = problems.error {
                    return Err(error.replace("ObjectMeta.", "ObjectMeta.metadata."));
                }
                unknown.extend(problems.unknown.into_iter().map(|path| format!("metadata.{path}")));
            }
            custom.default(value);
            unknown
        }
    };
    Ok(unknown)
}
