//! Impersonation: whom a request asks to be taken for, and whether its user may be that.

use std::collections::BTreeMap;

use http::HeaderMap;

use crate::rbac::Attempt;
use crate::server::{ApiServer, User};
use crate::status::{ApiError, Result};

const USER: &str = "impersonate-user";
const GROUP: &str = "impersonate-group";
const UID: &str = "impersonate-uid";
const EXTRA: &str = "impersonate-extra-";

const ANONYMOUS: &str = "system:anonymous";
const AUTHENTICATED: &str = "system:authenticated";
const UNAUTHENTICATED: &str = "system:unauthenticated";
const SERVICE_ACCOUNT: &str = "system:serviceaccount:";

impl ApiServer {
    /// The user that a request is answered as: the one that its headers name, where `known` may impersonate the name and each
    /// group, uid and extra value. Without such headers it is `known`.
    pub(crate) fn impersonate(&self, known: &User, headers: &HeaderMap) -> Result<User> {
        let Some(user) = impersonated(headers)? else { return Ok(known.clone()) };
        let may = |attempt: &Attempt<'_>| self.authorize(known, &Attempt { verb: "impersonate", ..*attempt });
        match service_account(&user.name) {
            Some((namespace, name)) => {
                may(&Attempt { resource: "serviceaccounts", namespace, name, ..Attempt::default() })?;
            }
            None => may(&Attempt { resource: "users", name: &user.name, ..Attempt::default() })?,
        }
        for group in texts(headers, GROUP) {
            may(&Attempt { resource: "groups", name: &group, ..Attempt::default() })?;
        }
        let of_authentication = Attempt { group: "authentication.k8s.io", ..Attempt::default() };
        if !user.uid.is_empty() {
            may(&Attempt { resource: "uids", name: &user.uid, ..of_authentication })?;
        }
        for (key, values) in &user.extra {
            for value in values {
                may(&Attempt { resource: "userextras", subresource: key, name: value, ..of_authentication })?;
            }
        }
        Ok(user)
    }
}

fn texts(headers: &HeaderMap, name: &str) -> impl Iterator<Item = String> {
    headers.get_all(name).iter().map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned())
}

/// Namespace and name of a user that is a ServiceAccount.
fn service_account(user: &str) -> Option<(&str, &str)> {
    let (namespace, name) = user.strip_prefix(SERVICE_ACCOUNT)?.split_once(':')?;
    (!namespace.is_empty() && !name.is_empty() && !name.contains(':')).then_some((namespace, name))
}

/// Whom a request impersonates, with the groups that such a user is in.
fn impersonated(headers: &HeaderMap) -> Result<Option<User>> {
    let name = texts(headers, USER).next().unwrap_or_default();
    let mut groups: Vec<String> = texts(headers, GROUP).collect();
    let uid = texts(headers, UID).next().unwrap_or_default();
    let mut extra: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for key in headers.keys() {
        let Some(rest) = key.as_str().strip_prefix(EXTRA) else { continue };
        extra.entry(unescaped(rest)).or_default().extend(texts(headers, key.as_str()));
    }
    if name.is_empty() {
        if groups.is_empty() && uid.is_empty() && extra.is_empty() {
            return Ok(None);
        }
        return Err(ApiError::bad_request("requested groups, a uid or extra values without impersonating a user"));
    }
    if let Some((namespace, _)) = service_account(&name).filter(|_| groups.is_empty()) {
        groups.push("system:serviceaccounts".to_owned());
        groups.push(format!("system:serviceaccounts:{namespace}"));
    }
    // Everyone is in one of these, and only one who asks for it is anonymous.
    if !groups.iter().any(|group| [AUTHENTICATED, UNAUTHENTICATED].contains(&group.as_str())) {
        groups.push(if name == ANONYMOUS { UNAUTHENTICATED } else { AUTHENTICATED }.to_owned());
    }
    Ok(Some(User { name, uid, groups, extra }))
}

/// A key of extra values, which is escaped as a path is; as it stands where that is wrong.
fn unescaped(key: &str) -> String {
    let mut out = Vec::with_capacity(key.len());
    let mut rest = key.as_bytes();
    while let Some((byte, after)) = rest.split_first() {
        rest = after;
        if *byte != b'%' {
            out.push(*byte);
            continue;
        }
        let digits = after.get(..2).and_then(|digits| std::str::from_utf8(digits).ok());
        let Some(value) = digits.and_then(|digits| u8::from_str_radix(digits, 16).ok()) else { return key.to_owned() };
        out.push(value);
        rest = after.get(2..).unwrap_or_default();
    }
    String::from_utf8(out).unwrap_or_else(|_| key.to_owned())
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use http_body_util::{BodyExt, Full};
    use serde_json::{Value, json};
    use tower_service::Service;

    use super::*;
    use crate::server::{Authorization, Config};

    const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";

    async fn send(server: &ApiServer, headers: &[(&str, &str)], path: &str, body: &Value) -> (u16, Value) {
        let method = if body.is_null() { "GET" } else { "POST" };
        let mut request = http::Request::builder().method(method).uri(path).header("content-type", "application/json");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let body = if body.is_null() { Bytes::new() } else { body.to_string().into() };
        let response = server.clone().call(request.body(Full::new(body)).unwrap()).await.unwrap();
        let code = response.status().as_u16();
        let text = response.into_body().collect().await.unwrap().to_bytes();
        (code, serde_json::from_slice(&text).unwrap_or_default())
    }

    /// A server on which ann may impersonate bob, and whatever else the rules say.
    async fn server(rules: &[Value]) -> ApiServer {
        let user = User { name: "ann".to_owned(), groups: vec![AUTHENTICATED.to_owned()], ..User::default() };
        let root = ApiServer::new(Config { authorization: Authorization::Rbac, ..Config::default() });
        let mut all = vec![
            json!({"apiGroups": [""], "resources": ["users"], "resourceNames": ["bob"], "verbs": ["impersonate"]}),
        ];
        all.extend_from_slice(rules);
        let role = json!({"metadata": {"name": "as"}, "rules": all});
        assert_eq!(send(&root, &[], &format!("{RBAC}/clusterroles"), &role).await.0, 201);
        let binding = json!({"metadata": {"name": "as"}, "roleRef": {"kind": "ClusterRole", "name": "as"},
            "subjects": [{"kind": "User", "name": "ann"}]});
        assert_eq!(send(&root, &[], &format!("{RBAC}/clusterrolebindings"), &binding).await.0, 201);
        let config = Config { authorization: Authorization::Rbac, user, ..Config::default() };
        ApiServer::restore(config, &root.snapshot()).unwrap()
    }

    const WHO: &str = "/apis/authentication.k8s.io/v1/selfsubjectreviews";

    fn who() -> Value {
        json!({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"})
    }

    #[tokio::test]
    async fn who_may_impersonate_a_user_may_not_take_any_group_along() {
        let server = server(&[]).await;
        let bob = ("impersonate-user", "bob");
        assert_eq!(send(&server, &[bob], WHO, &who()).await.0, 201);
        for more in [
            ("impersonate-group", "system:masters"),
            ("impersonate-uid", "1"),
            ("impersonate-extra-scopes", "all"),
            ("impersonate-group", "devs"),
        ] {
            let (code, answer) = send(&server, &[bob, more], WHO, &who()).await;
            assert_eq!(code, 403, "{more:?}: {answer}");
        }
        let account = ("impersonate-user", "system:serviceaccount:default:robot");
        assert_eq!(send(&server, &[account], WHO, &who()).await.0, 403);
        assert_eq!(send(&server, &[("impersonate-group", "devs")], WHO, &who()).await.0, 400);
    }

    #[tokio::test]
    async fn an_impersonated_user_is_what_was_asked_for() {
        let rule = |group: &str, resource: &str| json!({"apiGroups": [group], "resources": [resource], "verbs": ["impersonate"]});
        let rules = [
            rule("", "groups"),
            rule("", "serviceaccounts"),
            rule("", "users"),
            rule("authentication.k8s.io", "userextras/acme.com/scopes"),
        ];
        let server = server(&rules).await;
        let seen = async |headers: &[(&str, &str)]| {
            let (code, answer) = send(&server, headers, WHO, &who()).await;
            assert!(code == 201 || code == 403, "{answer}");
            answer["status"]["userInfo"].clone()
        };
        let bob = ("impersonate-user", "bob");
        let info = seen(&[bob, ("impersonate-group", "devs"), ("impersonate-extra-acme.com%2fscopes", "all")]).await;
        assert_eq!(info["groups"], json!(["devs", AUTHENTICATED]));
        assert_eq!(info["extra"], json!({"acme.com/scopes": ["all"]}));
        let account = ("impersonate-user", "system:serviceaccount:default:robot");
        let groups = ["system:serviceaccounts", "system:serviceaccounts:default", AUTHENTICATED];
        assert_eq!(seen(&[account]).await["groups"], json!(groups));
        // Who names groups gets these alone.
        assert_eq!(seen(&[account, ("impersonate-group", "devs")]).await["groups"], json!(["devs", AUTHENTICATED]));
        // Anonymous users may look at nothing that authenticated ones may.
        let (code, answer) = send(&server, &[("impersonate-user", ANONYMOUS)], WHO, &who()).await;
        assert_eq!(code, 403, "{answer}");
    }

    #[test]
    fn keys_of_extra_values_are_unescaped() {
        assert_eq!(unescaped("acme.com%2fproject"), "acme.com/project");
        assert_eq!((unescaped("50%"), unescaped("a%zz")), ("50%".to_owned(), "a%zz".to_owned()));
    }
}
