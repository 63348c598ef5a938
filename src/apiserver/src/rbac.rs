//! Who may do what, by Roles and ClusterRoles, where [`Authorization::Rbac`] asks for it.
//!
//! As the RBAC authorizer of the real server. Aggregated ClusterRoles are put together when they are asked, so no controller
//! is needed. That roles may only give what their writer has (escalation) is not checked.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::meta::{self, list_at, text_at};
use crate::selector::LabelSelector;
use crate::server::{ApiServer, Authorization, User};
use crate::status::ApiError;

const CLUSTER_ROLES: &str = "clusterroles.rbac.authorization.k8s.io";
const CLUSTER_BINDINGS: &str = "clusterrolebindings.rbac.authorization.k8s.io";
const ROLES: &str = "roles.rbac.authorization.k8s.io";
const BINDINGS: &str = "rolebindings.rbac.authorization.k8s.io";
/// Who is in this group may do everything.
const MASTERS: &str = "system:masters";

/// What is asked for.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Attempt<'a> {
    pub(crate) verb: &'a str,
    pub(crate) group: &'a str,
    pub(crate) resource: &'a str,
    pub(crate) subresource: &'a str,
    pub(crate) name: &'a str,
    /// Empty for cluster-scoped resources and for all namespaces.
    pub(crate) namespace: &'a str,
    /// A path that is no resource's, in place of all others.
    pub(crate) path: &'a str,
}

/// The roles and bindings of a version of the store.
#[derive(Debug, Default)]
pub(crate) struct Policy {
    version: u64,
    grants: Vec<Grant>,
}

/// What one binding gives.
#[derive(Debug)]
struct Grant {
    /// Everywhere if it is empty.
    namespace: String,
    subjects: Vec<Subject>,
    rules: Arc<Vec<Value>>,
}

#[derive(Debug, PartialEq, Eq)]
enum Subject {
    User(String),
    Group(String),
}

// === impl Policy ===

impl Policy {
    fn read(server: &ApiServer, version: u64) -> Self {
        let cluster_roles = server.values(CLUSTER_ROLES, "");
        let rules_of = |namespace: &str, reference: &Value| -> Arc<Vec<Value>> {
            let name = text_at(reference, &["name"]);
            Arc::new(if text_at(reference, &["kind"]) == "ClusterRole" {
                rules_of_cluster_role(&cluster_roles, name, 0)
            } else {
                let role = server.value(ROLES, &format!("{namespace}/{name}"));
                role.map(|role| list_at(&role, &["rules"]).to_vec()).unwrap_or_default()
            })
        };
        let grant = |binding: &Value| {
            let namespace = meta::namespace(binding);
            let subjects =
                list_at(binding, &["subjects"]).iter().filter_map(|subject| Subject::read(subject, namespace));
            let rules = rules_of(namespace, binding.get("roleRef").unwrap_or(&Value::Null));
            Grant { namespace: namespace.to_owned(), subjects: subjects.collect(), rules }
        };
        let bindings = server.values(CLUSTER_BINDINGS, "").into_iter().chain(server.values(BINDINGS, ""));
        Self { version, grants: bindings.map(|binding| grant(&binding)).collect() }
    }

    fn rules<'p>(&'p self, user: &'p User, namespace: &'p str) -> impl Iterator<Item = &'p Value> {
        let grants = self.grants.iter().filter(move |grant| {
            (grant.namespace.is_empty() || grant.namespace == namespace) && grant.subjects.iter().any(|s| s.is(user))
        });
        grants.flat_map(|grant| grant.rules.iter())
    }
}

/// Roles that aggregate roles that aggregate, and so on, do so this far.
const MAX_AGGREGATION: usize = 8;

/// The rules of a ClusterRole, with those of the roles that it aggregates.
fn rules_of_cluster_role(roles: &[Value], name: &str, depth: usize) -> Vec<Value> {
    let Some(role) = roles.iter().find(|role| meta::name(role) == name) else { return Vec::new() };
    let selectors = list_at(role, &["aggregationRule", "clusterRoleSelectors"]);
    if selectors.is_empty() || depth > MAX_AGGREGATION {
        return list_at(role, &["rules"]).to_vec();
    }
    let selectors: Vec<LabelSelector> = selectors.iter().map(|s| LabelSelector::from_object(Some(s))).collect();
    let is_chosen = |other: &&Value| meta::name(other) != name && selectors.iter().any(|s| s.matches_object(other));
    roles
        .iter()
        .filter(is_chosen)
        .flat_map(|other| rules_of_cluster_role(roles, meta::name(other), depth + 1))
        .collect()
}

// === impl Subject ===

impl Subject {
    fn read(subject: &Value, namespace: &str) -> Option<Self> {
        let name = text_at(subject, &["name"]);
        match text_at(subject, &["kind"]) {
            "User" => Some(Self::User(name.to_owned())),
            "Group" => Some(Self::Group(name.to_owned())),
            "ServiceAccount" => {
                let own = Some(text_at(subject, &["namespace"])).filter(|own| !own.is_empty()).unwrap_or(namespace);
                Some(Self::User(format!("system:serviceaccount:{own}:{name}")))
            }
            _ => None,
        }
    }

    fn is(&self, user: &User) -> bool {
        match self {
            Self::User(name) => *name == user.name,
            Self::Group(name) => user.groups.contains(name),
        }
    }
}

/// Whether a rule allows what is asked for.
fn allows(rule: &Value, attempt: &Attempt<'_>) -> bool {
    let has = |field: &str, wanted: &str| {
        list_at(rule, &[field]).iter().filter_map(Value::as_str).any(|item| item == "*" || item == wanted)
    };
    if !has("verbs", attempt.verb) {
        return false;
    }
    if !attempt.path.is_empty() {
        let paths = list_at(rule, &["nonResourceURLs"]).iter().filter_map(Value::as_str);
        return paths.into_iter().any(|path| match path.strip_suffix('*') {
            Some(prefix) => attempt.path.starts_with(prefix),
            None => attempt.path == path,
        });
    }
    let whole = if attempt.subresource.is_empty() {
        attempt.resource.to_owned()
    } else {
        format!("{}/{}", attempt.resource, attempt.subresource)
    };
    let is_resource = has("resources", &whole)
        || (!attempt.subresource.is_empty() && has("resources", &format!("*/{}", attempt.subresource)));
    let names = list_at(rule, &["resourceNames"]);
    let is_named = names.is_empty() || names.iter().any(|name| name.as_str() == Some(attempt.name));
    has("apiGroups", attempt.group) && is_resource && is_named
}

impl ApiServer {
    fn policy(&self) -> Arc<Policy> {
        let version = self.inner.store.last_change(&[CLUSTER_ROLES, CLUSTER_BINDINGS, ROLES, BINDINGS]);
        let mut known = self.inner.policy.lock();
        if known.version != version {
            *known = Arc::new(Policy::read(self, version));
        }
        known.clone()
    }

    /// Whether a user may do something.
    pub(crate) fn is_allowed(&self, user: &User, attempt: &Attempt<'_>) -> bool {
        if self.inner.config.authorization == Authorization::AlwaysAllow || user.groups.iter().any(|g| g == MASTERS) {
            return true;
        }
        self.policy().rules(user, attempt.namespace).any(|rule| allows(rule, attempt))
    }

    /// The rules that a user has in a namespace, of resources and of paths.
    pub(crate) fn rules_of(&self, user: &User, namespace: &str) -> (Vec<Value>, Vec<Value>) {
        let all = json!({"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]});
        let everywhere = json!({"verbs": ["*"], "nonResourceURLs": ["*"]});
        if self.inner.config.authorization == Authorization::AlwaysAllow || user.groups.iter().any(|g| g == MASTERS) {
            return (vec![all], vec![everywhere]);
        }
        let policy = self.policy();
        let of_paths = |rule: &&Value| rule.get("nonResourceURLs").is_some();
        let (paths, resources): (Vec<_>, Vec<_>) = policy.rules(user, namespace).partition(of_paths);
        (resources.into_iter().cloned().collect(), paths.into_iter().cloned().collect())
    }

    /// Refuses what a user may not do.
    pub(crate) fn authorize(&self, user: &User, attempt: &Attempt<'_>) -> Result<(), ApiError> {
        if self.is_allowed(user, attempt) {
            return Ok(());
        }
        let (name, verb) = (&user.name, attempt.verb);
        if !attempt.path.is_empty() {
            let why = format!("User {name:?} cannot {verb} path {:?}", attempt.path);
            return Err(ApiError::forbidden("", "", "", &why));
        }
        let place = if attempt.namespace.is_empty() {
            "at the cluster scope".to_owned()
        } else {
            format!("in the namespace {:?}", attempt.namespace)
        };
        let slash = if attempt.subresource.is_empty() { "" } else { "/" };
        let resource = format!("{}{slash}{}", attempt.resource, attempt.subresource);
        let why = format!("User {name:?} cannot {verb} resource {resource:?} in API group {:?} {place}", attempt.group);
        Err(ApiError::forbidden(attempt.group, attempt.resource, attempt.name, &why))
    }

    /// The roles that every cluster has, as far as they are of use here.
    pub(crate) fn bootstrap_roles(&self) -> Vec<(&'static str, Value)> {
        let rule = |groups: &[&str], resources: &[&str], verbs: &[&str]| json!({"apiGroups": groups, "resources": resources, "verbs": verbs});
        let read = ["get", "list", "watch"];
        let write = ["create", "delete", "deletecollection", "patch", "update"];
        let (mut view, mut edit) = (Vec::new(), Vec::new());
        for (group, _) in self.registry().groups() {
            let registry = self.registry();
            let of_group = registry.iter().filter(|r| r.group == group && r.custom().is_none() && r.namespaced);
            let known =
                of_group.filter(|r| !group.starts_with("auth") && !group.starts_with("rbac") && r.allows("list"));
            let mut names: Vec<&str> = known.map(|r| r.plural.as_str()).filter(|name| *name != "secrets").collect();
            names.sort_unstable();
            names.dedup();
            let writable: Vec<&str> = names
                .iter()
                .copied()
                .filter(|n| !["limitranges", "resourcequotas", "controllerrevisions"].contains(n))
                .collect();
            if !names.is_empty() {
                view.push(rule(&[&group], &names, &read));
                edit.push(rule(&[&group], &writable, &write));
            }
        }
        view.push(rule(&[""], &["namespaces"], &read));
        edit.push(rule(&[""], &["secrets"], &[read.as_slice(), &write].concat()));
        edit.push(rule(&[""], &["pods/eviction", "pods/exec", "pods/portforward", "pods/attach"], &["create"]));
        edit.push(rule(&[""], &["serviceaccounts"], &["impersonate"]));
        edit.push(rule(&[""], &["serviceaccounts/token"], &["create"]));
        let all = [read.as_slice(), &write].concat();
        let admin = vec![
            rule(&["rbac.authorization.k8s.io"], &["rolebindings", "roles"], &all),
            rule(&["authorization.k8s.io"], &["localsubjectaccessreviews"], &["create"]),
        ];
        let discovery = [
            "/api",
            "/api/*",
            "/apis",
            "/apis/*",
            "/healthz",
            "/livez",
            "/openapi",
            "/openapi/*",
            "/readyz",
            "/version",
            "/version/",
        ];
        let basic = vec![
            rule(&["authorization.k8s.io"], &["selfsubjectaccessreviews", "selfsubjectrulesreviews"], &["create"]),
            rule(&["authentication.k8s.io"], &["selfsubjectreviews"], &["create"]),
        ];
        let everything = vec![rule(&["*"], &["*"], &["*"]), json!({"nonResourceURLs": ["*"], "verbs": ["*"]})];
        let public = vec![
            json!({"nonResourceURLs": ["/healthz", "/livez", "/readyz", "/version", "/version/"], "verbs": ["get"]}),
        ];
        let discovery = vec![json!({"nonResourceURLs": discovery, "verbs": ["get"]})];
        let named = |name: &str, rules: &[Value], labels: Value| {
            let mut labels = labels;
            meta_label(&mut labels);
            let annotations = json!({"rbac.authorization.kubernetes.io/autoupdate": "true"});
            json!({"metadata": {"name": name, "labels": labels, "annotations": annotations}, "rules": rules})
        };
        let mut out = vec![
            ("clusterroles", named("cluster-admin", &everything, json!({}))),
            ("clusterroles", named("system:discovery", &discovery, json!({}))),
            ("clusterroles", named("system:public-info-viewer", &public, json!({}))),
            ("clusterroles", named("system:basic-user", &basic, json!({}))),
        ];
        // Each takes in what the one before it has.
        let mut so_far = Vec::new();
        for (name, rules, into) in [("view", view, "edit"), ("edit", edit, "admin"), ("admin", admin, "")] {
            so_far.extend(rules.iter().cloned());
            let aggregate = |name: &str| format!("rbac.authorization.k8s.io/aggregate-to-{name}");
            out.push((
                "clusterroles",
                named(&format!("system:aggregate-to-{name}"), &rules, json!({aggregate(name): "true"})),
            ));
            let labels = if into.is_empty() { json!({}) } else { json!({aggregate(into): "true"}) };
            let mut whole = named(name, &so_far, labels);
            if let Some(map) = whole.as_object_mut() {
                let selectors = json!([{"matchLabels": {aggregate(name): "true"}}]);
                map.insert("aggregationRule".to_owned(), json!({"clusterRoleSelectors": selectors}));
            }
            out.push(("clusterroles", whole));
        }
        for (name, group) in [
            ("cluster-admin", MASTERS),
            ("system:discovery", "system:authenticated"),
            ("system:public-info-viewer", "system:authenticated"),
            ("system:basic-user", "system:authenticated"),
        ] {
            let mut labels = json!({});
            meta_label(&mut labels);
            out.push((
                "clusterrolebindings",
                json!({"metadata": {"name": name, "labels": labels},
                "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name},
                "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": group}]}),
            ));
        }
        out
    }
}

fn meta_label(labels: &mut Value) {
    if let Some(map) = labels.as_object_mut() {
        map.insert("kubernetes.io/bootstrapping".to_owned(), "rbac-defaults".into());
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use http_body_util::{BodyExt, Full};
    use tower_service::Service;

    use super::*;
    use crate::server::Config;

    /// A request as a user; its code and answer.
    async fn send_as(server: &ApiServer, user: &str, method: &str, path: &str, body: Value) -> (u16, Value) {
        let mut request = http::Request::builder().method(method).uri(path).header("content-type", "application/json");
        if !user.is_empty() {
            request = request.header("impersonate-user", user);
        }
        let body = if body.is_null() { Bytes::new() } else { body.to_string().into() };
        let response = server.clone().call(request.body(Full::new(body)).unwrap()).await.unwrap();
        let code = response.status().as_u16();
        let text = response.into_body().collect().await.unwrap().to_bytes();
        (code, serde_json::from_slice(&text).unwrap_or_default())
    }

    const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";
    const ROBOT: &str = "system:serviceaccount:default:robot";

    fn binding(kind: &str, role: &str) -> Value {
        json!({"metadata": {"name": role}, "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": role},
            "subjects": [{"kind": "ServiceAccount", "name": "robot", "namespace": "default"}]})
    }

    #[tokio::test]
    async fn a_service_account_may_do_what_its_roles_say_and_no_more() {
        let server = ApiServer::new(Config { authorization: Authorization::Rbac, ..Config::default() });
        let pods = "/api/v1/namespaces/default/pods";
        let (code, refused) = send_as(&server, ROBOT, "GET", pods, Value::Null).await;
        assert_eq!(code, 403);
        assert_eq!(
            refused["message"],
            "pods is forbidden: User \"system:serviceaccount:default:robot\" cannot list resource \"pods\" in API group \"\" in the namespace \"default\""
        );
        let role = json!({"metadata": {"name": "reader"}, "rules": [
            {"apiGroups": [""], "resources": ["pods", "pods/status"], "verbs": ["get", "list"]},
            {"apiGroups": [""], "resources": ["configmaps"], "resourceNames": ["mine"], "verbs": ["get"]}]});
        let roles = format!("{RBAC}/namespaces/default/roles");
        assert_eq!(send_as(&server, "", "POST", &roles, role).await.0, 201);
        let bindings = format!("{RBAC}/namespaces/default/rolebindings");
        assert_eq!(send_as(&server, "", "POST", &bindings, binding("Role", "reader")).await.0, 201);
        for (method, path, code) in [
            ("GET", pods, 200),
            ("GET", "/api/v1/namespaces/default/pods/none/status", 404),
            ("GET", "/api/v1/namespaces/kube-system/pods", 403),
            ("GET", "/api/v1/pods", 403),
            ("GET", "/api/v1/namespaces/default/configmaps/mine", 404),
            ("GET", "/api/v1/namespaces/default/configmaps/other", 403),
            ("DELETE", pods, 403),
            ("GET", "/version", 200),
            ("GET", "/metrics", 403),
        ] {
            assert_eq!(send_as(&server, ROBOT, method, path, Value::Null).await.0, code, "{method} {path}");
        }
        assert_eq!(send_as(&server, "", "DELETE", &format!("{bindings}/reader"), Value::Null).await.0, 200);
        assert_eq!(send_as(&server, ROBOT, "GET", pods, Value::Null).await.0, 403, "the binding is gone");
    }

    #[tokio::test]
    async fn roles_of_charts_are_aggregated_into_those_of_users() {
        let server = ApiServer::new(Config { authorization: Authorization::Rbac, ..Config::default() });
        let review = |resource: &str, group: &str, verb: &str| {
            json!({"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview",
            "spec": {"user": ROBOT, "resourceAttributes": {"namespace": "default", "resource": resource, "group": group, "verb": verb}}})
        };
        let ask = async |resource: &str, group: &str, verb: &str| {
            let path = "/apis/authorization.k8s.io/v1/subjectaccessreviews";
            send_as(&server, "", "POST", path, review(resource, group, verb)).await.1["status"]["allowed"] == true
        };
        assert!(!ask("deployments", "apps", "get").await);
        let bindings = format!("{RBAC}/namespaces/default/rolebindings");
        send_as(&server, "", "POST", &bindings, binding("ClusterRole", "edit")).await;
        assert!(ask("deployments", "apps", "update").await);
        assert!(ask("secrets", "", "get").await);
        assert!(!ask("rolebindings", "rbac.authorization.k8s.io", "create").await);
        assert!(!ask("things", "example.com", "get").await);
        let labels = json!({"rbac.authorization.k8s.io/aggregate-to-view": "true"});
        let role = json!({"metadata": {"name": "things-view", "labels": labels},
            "rules": [{"apiGroups": ["example.com"], "resources": ["things"], "verbs": ["get"]}]});
        assert_eq!(send_as(&server, "", "POST", &format!("{RBAC}/clusterroles"), role).await.0, 201);
        assert!(ask("things", "example.com", "get").await, "edit takes in view, which takes in the chart's role");
        // Two that take in each other end.
        for (name, other) in [("a", "b"), ("b", "a")] {
            let role = json!({"metadata": {"name": name, "labels": {"into": other}}, "rules": [],
                "aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {"into": name}}]}});
            send_as(&server, "", "POST", &format!("{RBAC}/clusterroles"), role).await;
        }
        send_as(&server, "", "POST", &bindings, binding("ClusterRole", "a")).await;
        assert!(!ask("nodes", "", "get").await);
    }
}
