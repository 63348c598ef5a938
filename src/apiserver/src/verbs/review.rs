//! Reviews: questions that are posted and answered, and stored nowhere.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::Scope;
use crate::meta;
use crate::rbac::Attempt;
use crate::reply::Answer;
use crate::server::User;
use crate::status::{ApiError, Cause, Result};
use crate::tokens::ISSUER;

impl Scope<'_> {
    pub(super) fn is_review(&self) -> bool {
        ["authentication.k8s.io", "authorization.k8s.io"].contains(&self.resource.group.as_str())
    }

    pub(super) fn review(&self) -> Result<Answer> {
        let mut object = self.object_from_body()?;
        if self.resource.plural.ends_with("accessreviews") {
            let has = |field: &str| meta::at(&object, &["spec", field]).is_some();
            if has("resourceAttributes") == has("nonResourceAttributes") {
                let why = "exactly one of nonResourceAttributes or resourceAttributes must be specified";
                let cause = Cause::invalid("spec.resourceAttributes", &Value::Null, why);
                return Err(ApiError::invalid(&self.resource.group, "", "", &[cause]));
            }
        }
        if !self.resource.is("selfsubjectreviews.authentication.k8s.io") {
            let now = self.server.inner.clock.now_text();
            super::create::track_create(&self.resource, &mut object, &self.call.manager(), &now);
        }
        let user = user_info(&self.call.user);
        let allowed = json!({"allowed": self.is_allowed_by(&object)});
        let status = match self.resource.plural.as_str() {
            "selfsubjectreviews" => json!({"userInfo": user}),
            "tokenreviews" => self.token_review(&object),
            "selfsubjectrulesreviews" => {
                let namespace = meta::text_at(&object, &["spec", "namespace"]);
                let (resources, paths) = self.server.rules_of(&self.call.user, namespace);
                json!({"resourceRules": resources, "nonResourceRules": paths, "incomplete": false})
            }
            _ => allowed,
        };
        if let Some(map) = object.as_object_mut() {
            map.insert("status".to_owned(), status);
        }
        if self.resource.plural == "selfsubjectreviews" {
            meta::set(&mut object, "creationTimestamp", self.server.inner.clock.now_text());
        }
        Ok(Answer::Value { code: 201, value: without_nulls(object) })
    }
}

impl Scope<'_> {
    /// Whose token it is, if it is for one of the audiences that are asked about: without any, for this server.
    fn token_review(&self, review: &Value) -> Value {
        let asked = meta::list_at(review, &["spec", "audiences"]);
        let asked: Vec<&str> =
            if asked.is_empty() { vec![ISSUER] } else { asked.iter().filter_map(Value::as_str).collect() };
        let refused = |why: &str| json!({"user": {}, "error": why});
        let Some(bearer) = self.server.bearer(meta::text_at(review, &["spec", "token"])) else {
            return refused("invalid bearer token");
        };
        let audiences: Vec<&String> = bearer.audiences.iter().filter(|of| asked.contains(&of.as_str())).collect();
        if audiences.is_empty() {
            let shown = |list: Vec<String>| format!("[{}]", list.join(" "));
            let own = shown(bearer.audiences.iter().map(|audience| format!("{audience:?}")).collect());
            let asked = shown(asked.iter().map(|audience| format!("{audience:?}")).collect());
            let why = format!("token audiences {own} is invalid for the target audiences {asked}");
            return refused(&format!("[invalid bearer token, {why}]"));
        }
        json!({"authenticated": true, "user": user_info(&bearer.user), "audiences": audiences})
    }

    /// What an access review asks: of a user that it names, or of who posts it.
    fn is_allowed_by(&self, review: &Value) -> bool {
        let text = |path: &[&str]| meta::text_at(review, path);
        let user = if self.resource.plural.starts_with("self") {
            self.call.user.clone()
        } else {
            let groups = meta::list_at(review, &["spec", "groups"]).iter().filter_map(Value::as_str);
            User {
                name: text(&["spec", "user"]).to_owned(),
                uid: text(&["spec", "uid"]).to_owned(),
                groups: groups.map(str::to_owned).collect(),
                extra: BTreeMap::new(),
            }
        };
        let of = |field: &str| meta::text_at(review, &["spec", "resourceAttributes", field]);
        let of_path = |field: &str| meta::text_at(review, &["spec", "nonResourceAttributes", field]);
        let path = of_path("path");
        let attempt = Attempt {
            verb: if path.is_empty() { of("verb") } else { of_path("verb") },
            group: of("group"),
            resource: of("resource"),
            subresource: of("subresource"),
            name: of("name"),
            namespace: of("namespace"),
            path,
        };
        self.server.is_allowed(&user, &attempt)
    }
}

/// A user as reviews describe it.
fn user_info(user: &User) -> Value {
    let mut info = json!({"username": user.name, "groups": user.groups});
    if let Some(map) = info.as_object_mut() {
        if !user.uid.is_empty() {
            map.insert("uid".to_owned(), user.uid.as_str().into());
        }
        if !user.extra.is_empty() {
            map.insert("extra".to_owned(), json!(user.extra));
        }
    }
    info
}

fn without_nulls(mut object: Value) -> Value {
    if let Some(map) = object.as_object_mut() {
        map.retain(|_, value| !value.is_null());
    }
    object
}
