//! Tokens of ServiceAccounts, as `kubectl create token` asks for.

use serde_json::{Value, json};

use super::Scope;
use crate::apply::{FieldSet, Writer, track_update};
use crate::meta::{self, text_at};
use crate::reply::Answer;
use crate::request::Parsed;
use crate::schema::builtin;
use crate::schema::decode::{decode, empty};
use crate::status::{ApiError, Cause, Result};
use crate::tokens::{Bound, ISSUER, Period};

const GROUP: &str = "authentication.k8s.io";
const KIND: &str = "TokenRequest";
const SCHEMA: &str = "io.k8s.api.authentication.v1.TokenRequest";
/// How long a token is good that does not say, in seconds.
const HOUR: i64 = 3600;
/// The shortest and the longest time that may be asked for, in seconds.
const SHORTEST: i64 = 600;
const LONGEST: i64 = 1 << 32;

impl Scope<'_> {
    pub(super) fn create_token(&self, name: &str) -> Result<Answer> {
        self.call.options.check_write("CreateOptions")?;
        let mut request = self.token_request()?;
        self.check_namespace(&mut request)?;
        let given = meta::name(&request);
        if !given.is_empty() && given != name {
            let why = "must match the service account name if specified";
            return Err(ApiError::invalid(GROUP, KIND, name, &[Cause::invalid("metadata.name", &given.into(), why)]));
        }
        let account = self.server.value("serviceaccounts", &self.key(name)).ok_or_else(|| self.not_found(name))?;
        meta::set(&mut request, "name", name);
        meta::copy(&mut request, &account, "uid");
        let now = self.server.now();
        meta::set(&mut request, "creationTimestamp", crate::clock::time_text(now));
        let seconds = meta::int_at(&request, &["spec", "expirationSeconds"]).unwrap_or_default();
        let wrong = match seconds {
            ..SHORTEST => Some("may not specify a duration less than 10 minutes"),
            SHORTEST..=LONGEST => None,
            _ => Some("may not specify a duration larger than 2^32 seconds"),
        };
        if let Some(why) = wrong {
            let cause = Cause::invalid("spec.expirationSeconds", &seconds.into(), why);
            return Err(ApiError::invalid(GROUP, KIND, "", &[cause]));
        }
        let mut audiences: Vec<String> = texts(meta::list_at(&request, &["spec", "audiences"]));
        if audiences.is_empty() {
            audiences.push(ISSUER.to_owned());
        }
        let bound = match meta::at(&request, &["spec", "boundObjectRef"]).filter(|reference| reference.is_object()) {
            Some(reference) => self.bound(name, reference)?,
            None => Bound::default(),
        };
        let from = now.as_second();
        let until = from.saturating_add(seconds);
        let token = self.server.issue_token(&account, &audiences, Period { from, until }, &bound);
        let end = jiff::Timestamp::from_second(until).map(crate::clock::time_text);
        let end = end.map_err(|error| ApiError::internal(error.to_string()))?;
        if let Some(spec) = meta::object_mut(&mut request, &["spec"]) {
            spec.insert("audiences".to_owned(), audiences.into());
            spec.entry("boundObjectRef").or_insert(Value::Null);
        }
        if let Some(map) = request.as_object_mut() {
            map.insert("status".to_owned(), json!({"token": token, "expirationTimestamp": end}));
        }
        Ok(Answer::Value { code: 201, value: request })
    }

    /// The request in the body.
    fn token_request(&self) -> Result<Value> {
        let bad =
            |why: &str| ApiError::bad_request(format!("{KIND} in version \"v1\" cannot be handled as a {KIND}: {why}"));
        let Parsed { value: mut request, duplicates } = self.parse()?;
        let Some(typed) = builtin().schemas.named(SCHEMA) else {
            return Err(ApiError::internal("no schema of TokenRequest"));
        };
        let expected = [("apiVersion", format!("{GROUP}/v1")), ("kind", KIND.to_owned())];
        for (field, expected) in &expected {
            let given = text_at(&request, &[field]);
            if !given.is_empty() && given != expected {
                return Err(bad(&format!("expected {field} {expected}, found {given:?}")));
            }
        }
        let problems = decode(&mut request, typed);
        if let Some(error) = problems.error {
            return Err(bad(&error.json));
        }
        if let Some(map) = request.as_object_mut() {
            map.extend(expected.map(|(field, text)| (field.to_owned(), text.into())));
        }
        let unknown = problems.unknown.iter().map(|path| format!("unknown field {path:?}"));
        let twice = duplicates.iter().map(|path| format!("duplicate field {path:?}"));
        self.tell_strictly(unknown.chain(twice).collect(), &bad)?;
        if let Some(spec) = meta::object_mut(&mut request, &["spec"]) {
            meta::fill(spec, "expirationSeconds", HOUR);
        }
        let (manager, now) = (self.call.manager(), self.server.inner.clock.now_text());
        let api_version = format!("{GROUP}/v1");
        let writer = Writer { manager: &manager, api_version: &api_version, subresource: "token", now: &now };
        // What nothing is bound to is null, and there.
        let mut before = empty(typed);
        if let Some(spec) = meta::object_mut(&mut before, &["spec"]) {
            meta::fill(spec, "boundObjectRef", Value::Null);
        }
        track_update(&before, &mut request, typed, &writer, &FieldSet::default());
        Ok(request)
    }

    /// What a token is bound to, which must be there.
    fn bound(&self, account: &str, reference: &Value) -> Result<Bound> {
        let text = |field: &str| text_at(reference, &[field]);
        let (version, kind, name) = (text("apiVersion"), text("kind"), text("name"));
        let (group, version) = crate::resource::split_api_version(version);
        let (plural, as_claim) = match (group, kind) {
            ("", "Pod") => ("pods", "pod"),
            ("", "Secret") => ("secrets", "secret"),
            ("", "Node") => ("nodes", "node"),
            _ => {
                let shown = format!("{group}/{version}, Kind={kind}");
                return Err(ApiError::bad_request(format!("cannot bind token to object of type {shown}")));
            }
        };
        let key = if plural == "nodes" { name.to_owned() } else { format!("{}/{name}", self.namespace) };
        let object = self.server.value(plural, &key).ok_or_else(|| ApiError::not_found("", plural, name))?;
        let uid = meta::text(&object, "uid").to_owned();
        if plural == "pods" && text_at(&object, &["spec", "serviceAccountName"]) != account {
            return Err(ApiError::bad_request(format!(
                "cannot bind token for serviceaccount {account:?} to pod running with different serviceaccount name."
            )));
        }
        if !text("uid").is_empty() && text("uid") != uid {
            let why = format!(
                "the UID in the bound object reference ({}) does not match the UID in record. The object might have been \
                 deleted and then recreated",
                text("uid")
            );
            return Err(ApiError::conflict("", kind, name, &why));
        }
        let mut bound = Bound { to: vec![(as_claim, name.to_owned(), uid)] };
        let node = text_at(&object, &["spec", "nodeName"]);
        if plural == "pods" && !node.is_empty() {
            let uid = self.server.value("nodes", node).map(|node| meta::text(&node, "uid").to_owned());
            bound.to.push(("node", node.to_owned(), uid.unwrap_or_default()));
        }
        Ok(bound)
    }
}

fn texts(list: &[Value]) -> Vec<String> {
    list.iter().filter_map(Value::as_str).map(str::to_owned).collect()
}
