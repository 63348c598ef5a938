//! GET: one object, a list in pages, a watch.

use serde_json::{Value, json};

use super::{Scope, strategy};
use crate::reply::{Answer, ListAnswer};
use crate::status::{ApiError, Result};
use crate::store::{Compacted, Object, Page, Range};
use crate::{convert, watch};

impl Scope<'_> {
    pub(super) fn get(&self, name: &str) -> Result<Answer> {
        let asked = watch::version(&self.call.options)?;
        if asked > self.server.inner.store.revision() {
            return Err(ApiError::future_version(asked, self.server.inner.store.revision()));
        }
        let found = self.server.inner.store.get(&self.resource.storage, &self.key(name));
        let found = found.ok_or_else(|| self.not_found(name))?;
        let body = convert::to_version(&self.resource, &found);
        Ok(Answer::Object { code: 200, resource: self.resource.clone(), body })
    }

    pub(super) fn list(&self) -> Result<Answer> {
        self.check_fields()?;
        let options = &self.call.options;
        options.check_list()?;
        let prefix = if self.namespace.is_empty() { String::new() } else { format!("{}/", self.namespace) };
        let (at, after) = self.position(&prefix)?;
        let selects = |object: &Object| options.fields.matches_stored(object) && options.labels.matches_stored(object);
        let selects_all = options.labels.is_everything() && options.fields.is_everything();
        let mut page = if selects_all {
            self.page(&Range { prefix: &prefix, after: after.as_deref(), at, limit: options.limit })?
        } else if let (Some(name), true) = (
            options.fields.name(),
            at.is_none() && after.is_none() && (!prefix.is_empty() || !self.resource.namespaced),
        ) {
            // One object is meant.
            let mut page = Page { revision: self.server.inner.store.revision(), ..Page::default() };
            page.items.extend(self.server.inner.store.get(&self.resource.storage, &self.key(name)));
            page
        } else if at.is_none() && after.is_none() {
            self.server.inner.store.select(&self.resource.storage, &prefix, options.limit, selects)
        } else {
            self.page(&Range { prefix: &prefix, after: after.as_deref(), at, limit: 0 })?
        };
        if !selects_all {
            page.items.retain(|object| selects(object));
            if options.limit > 0 && page.items.len() > options.limit {
                let remaining = page.items.len() - options.limit;
                page.items.truncate(options.limit);
                let after = page.items.last().map(|last| last.key.to_string()).unwrap_or_default();
                page.rest = Some(crate::store::Rest { after, remaining });
            }
        }
        let continue_token = page.rest.as_ref().map(|rest| token(page.revision, &rest.after));
        let remaining = page.rest.as_ref().map(|rest| rest.remaining).filter(|_| selects_all);
        Ok(Answer::List(Box::new(ListAnswer { resource: self.resource.clone(), page, continue_token, remaining })))
    }

    fn page(&self, range: &Range<'_>) -> Result<Page> {
        self.server.inner.store.list(&self.resource.storage, range).map_err(|Compacted { .. }| {
            if range.after.is_some() {
                ApiError::expired(
                    "The provided continue parameter is too old to display a consistent list result. You can start a new list without the continue parameter, or use the continue token in this response to retrieve the remainder of the results. Continuing with the provided token results in an inconsistent list - objects that were created, modified, or deleted between the time the first chunk was returned and now may show up in the list.",
                )
            } else {
                ApiError::expired("The resourceVersion for the provided list is too old.")
            }
        })
    }

    /// Which version a list shows, and after which key it goes on.
    fn position(&self, prefix: &str) -> Result<(Option<u64>, Option<String>)> {
        let options = &self.call.options;
        if let Some(text) = &options.continue_token {
            if options.resource_version.as_deref().is_some_and(|version| version != "0") {
                let why = "specifying resource version is not allowed when using continue";
                return Err(ApiError::bad_request(why));
            }
            let (revision, after) = read_token(text)
                .filter(|(_, after)| after.starts_with(prefix))
                .ok_or_else(|| ApiError::bad_request("invalid continue token: continue key is not valid"))?;
            return Ok((Some(revision), Some(after)));
        }
        let asked = watch::version(options).map_err(|why| {
            let text = why.message();
            ApiError::bad_request(format!("invalid resource version: {text}"))
        })?;
        let present = self.server.inner.store.revision();
        if asked > present {
            return Err(ApiError::future_version(asked, present));
        }
        let exact = options.is_exact() || (options.version_match.is_none() && options.limit > 0 && asked > 0);
        Ok((exact.then_some(asked), None))
    }

    fn check_fields(&self) -> Result<()> {
        for field in self.call.options.fields.fields() {
            if !strategy::is_selectable(&self.resource, field) {
                let known = "only \"metadata.name\", \"metadata.namespace\"";
                let own = ["pods", "nodes", "namespaces", "secrets", "services", "events"];
                let why = if self.resource.custom().is_some() || own.contains(&self.resource.storage.as_str()) {
                    format!("field label not supported: {field}")
                } else {
                    format!("{field:?} is not a known field selector: {known}")
                };
                return Err(ApiError::bad_request(why));
            }
        }
        Ok(())
    }

    pub(super) fn watch(&self, name: Option<&str>) -> Result<Answer> {
        self.check_fields()?;
        let mut options = self.call.options.clone();
        if let Some(name) = name {
            options.fields = crate::selector::FieldSelector::parse(&format!("metadata.name={name}"))?;
        }
        let namespace = Some(self.namespace.as_str()).filter(|namespace| !namespace.is_empty());
        watch::open(self.server, &self.resource, namespace, &options, self.output()).map(Answer::Watch)
    }
}

/// A continue token: opaque to clients, a version and a key inside.
fn token(revision: u64, after: &str) -> String {
    let text = json!({"rv": revision, "after": after}).to_string();
    crate::defaults::hex(text.as_bytes())
}

fn read_token(text: &str) -> Option<(u64, String)> {
    if !text.is_ascii() || !text.len().is_multiple_of(2) {
        return None;
    }
    let bytes: Option<Vec<u8>> =
        (0..text.len()).step_by(2).map(|at| u8::from_str_radix(text.get(at..at + 2)?, 16).ok()).collect();
    let value: Value = serde_json::from_slice(&bytes?).ok()?;
    Some((value.get("rv")?.as_u64()?, value.get("after")?.as_str()?.to_owned()))
}
